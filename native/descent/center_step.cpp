#include "descent/center_step.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "exact/exact_sum.hpp"
#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

constexpr std::size_t terms_at_once = 256;
constexpr double operations_per_coordinate = 16.0;

struct StepSums {
    TermSum shift, movement;
    bool finite = true;
};

template <class Real>
void add_cluster(const Real* means, const Real* centers, const double* residuals, double weight,
                 std::size_t d, StepSums& sums) {
    double squares[terms_at_once], gains[terms_at_once];
    for (std::size_t begin = 0; begin < d; begin += terms_at_once) {
        const std::size_t count = std::min(terms_at_once, d - begin);
        double unfit = 0.0;
        for (std::size_t j = 0; j < count; ++j) {
            const double move =
                static_cast<double>(means[begin + j]) - static_cast<double>(centers[begin + j]);
            const double gain = move * (move + 2.0 * residuals[begin + j]);
            squares[j] = move * move;
            gains[j] = weight * (gain > 0.0 ? gain : 0.0);
            unfit += (squares[j] - squares[j]) + (gains[j] - gains[j]);
        }
        if (unfit != 0.0) {
            sums.finite = false;
            return;
        }
        sums.shift.add(squares, count);
        sums.movement.add(gains, count);
    }
}

constexpr std::uint64_t odd[4] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb,
                                  0xd6e8feb86659fd93};

std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * odd[1];
    z = (z ^ (z >> 27)) * odd[2];
    return z ^ (z >> 31);
}

} // namespace

template <class Real>
CenterStep center_step(const Real* means, const Real* centers, const double* residuals,
                       const double* weights, std::size_t K, std::size_t d, int n_threads) {
    const double operations =
        operations_per_coordinate * static_cast<double>(K) * static_cast<double>(d);
    const std::size_t threads = worthwhile_threads(K, operations, n_threads);
    std::vector<StepSums> sums(threads);
    over_rows(K, threads, 1, [&](std::size_t thread, std::size_t begin, std::size_t end) {
        for (std::size_t k = begin; k < end; ++k) {
            const std::size_t place = k * d;
            // A center that stays where it is has terms of 0 only; without columns there is none.
            if (weights[k] == 0.0 || d == 0 ||
                std::memcmp(means + place, centers + place, d * sizeof(Real)) == 0)
                continue;
            add_cluster(means + place, centers + place, residuals + place, weights[k], d,
                        sums[thread]);
        }
    });
    bool finite = true;
    for (std::size_t thread = 0; thread < threads; ++thread) {
        finite = finite && sums[thread].finite;
        if (thread == 0) continue;
        sums[0].shift.merge(sums[thread].shift);
        sums[0].movement.merge(sums[thread].movement);
    }
    if (!finite) throw std::overflow_error("a step of the centers is too large for float64");
    return {sums[0].shift.result(), sums[0].movement.result()};
}

// Four lanes, so that no multiplication waits for the one before; each takes every fourth word.
// Within a lane the map from state and word to state is one to one in either.
std::array<std::uint64_t, 2> digest(const void* bytes, std::size_t size) {
    const auto* const from = static_cast<const unsigned char*>(bytes);
    std::uint64_t lane[4] = {odd[0], odd[1], odd[2], odd[3]};
    const auto take = [&](std::uint64_t word, std::size_t l) {
        lane[l] = std::rotl(lane[l] ^ (word * odd[l]), 29) * odd[(l + 1) % 4];
    };
    std::size_t i = 0;
    for (; i + 32 <= size; i += 32) {
        std::uint64_t words[4];
        std::memcpy(words, from + i, 32);
        for (std::size_t l = 0; l < 4; ++l)
            take(words[l], l);
    }
    unsigned char rest[32] = {};
    if (size > i) std::memcpy(rest, from + i, size - i);
    for (std::size_t l = 0; l < 4; ++l) {
        std::uint64_t word;
        std::memcpy(&word, rest + 8 * l, 8);
        take(word ^ size, l);
    }
    return {mixed(mixed(mixed(mixed(lane[0]) + lane[1]) + lane[2]) + lane[3]),
            mixed(mixed(mixed(mixed(lane[3]) ^ lane[1]) ^ lane[0]) ^ lane[2])};
}

template CenterStep center_step(const float*, const float*, const double*, const double*,
                                std::size_t, std::size_t, int);
template CenterStep center_step(const double*, const double*, const double*, const double*,
                                std::size_t, std::size_t, int);

} // namespace wolfmeans
