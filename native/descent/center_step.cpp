#include "descent/center_step.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "exact/directions.hpp"
#include "exact/exact_sum.hpp"
#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

constexpr std::size_t terms_at_once = 256;
constexpr double operations_per_coordinate = 16.0;
constexpr double operations_per_turned_coordinate = 32.0;

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

// Turns some clusters; see turn().
template <class Real>
class Turning {
public:
    Turning(const Real* centers, const double* weights, Real* found, double* residuals,
            std::size_t d)
        : centers_(centers), weights_(weights), found_(found), residuals_(residuals), d_(d),
          directions_(rows_at_once * d), gains_(d), squares_(d) {}

    // The clusters first, first + 1, ..., at most rows_at_once of them.
    void turn(std::size_t first, std::size_t count) {
        for (std::size_t i = 0, place = first * d_; i < count * d_; ++i, ++place)
            directions_[i] = static_cast<double>(found_[place]) + residuals_[place];
        bool has_direction[rows_at_once];
        to_directions(directions_.data(), count, d_, has_direction);
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t k = first + i;
            if (weights_[k] > 0.0 && has_direction[i])
                turn_to(directions_.data() + i * d_, k);
            else
                stay(k, weights_[k] > 0.0 ? std::numeric_limits<double>::infinity() : 0.0);
        }
    }

    TermSum shift, movement;

private:
    void stay(std::size_t k, double residual) {
        std::copy_n(centers_ + k * d_, d_, found_ + k * d_);
        std::fill_n(residuals_ + k * d_, d_, residual);
    }

    void turn_to(const double* direction, std::size_t k) {
        const Real* const center = centers_ + k * d_;
        Real* const found = found_ + k * d_;
        double* const residuals = residuals_ + k * d_;
        std::uint64_t moved = 0;
        for (std::size_t j = 0; j < d_; ++j) {
            const auto aim = static_cast<double>(static_cast<Real>(direction[j]));
            const double move = aim - static_cast<double>(center[j]);
            const double ahead = (static_cast<double>(found[j]) - aim) + residuals[j];
            gains_[j] = move * (move + 2.0 * ahead);
            squares_[j] = move * move;
            moved |= std::bit_cast<std::uint64_t>(move) << 1; // without the sign
        }
        double gain = 0.0;
        if (moved != 0) {
            TermSum total;
            total.add(gains_.data(), d_);
            gain = weights_[k] * total.result();
        }
        if (gain > 0.0) {
            movement.add(&gain, 1);
            shift.add(squares_.data(), d_);
            for (std::size_t j = 0; j < d_; ++j)
                found[j] = static_cast<Real>(direction[j]);
        } else {
            std::copy_n(center, d_, found);
        }
        for (std::size_t j = 0; j < d_; ++j)
            residuals[j] = direction[j] - static_cast<double>(found[j]);
    }

    const Real* centers_;
    const double* weights_;
    Real* found_;
    double* residuals_;
    std::size_t d_;
    std::vector<double> directions_, gains_, squares_;
};

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

template <class Real>
CenterStep turn(const Real* centers, const double* weights, Real* found, double* residuals,
                std::size_t K, std::size_t d, int n_threads) {
    const double operations =
        operations_per_turned_coordinate * static_cast<double>(K) * static_cast<double>(d);
    const std::size_t threads = worthwhile_threads(K, operations, n_threads);
    std::vector<TermSum> shifts(threads), movements(threads);
    over_rows(K, threads, 1, [&](std::size_t thread, std::size_t begin, std::size_t end) {
        Turning<Real> turning(centers, weights, found, residuals, d);
        for (std::size_t k = begin; k < end; k += rows_at_once)
            turning.turn(k, std::min(rows_at_once, end - k));
        shifts[thread] = turning.shift;
        movements[thread] = turning.movement;
    });
    for (std::size_t thread = 1; thread < threads; ++thread) {
        shifts[0].merge(shifts[thread]);
        movements[0].merge(movements[thread]);
    }
    return {shifts[0].result(), movements[0].result()};
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
template CenterStep turn(const float*, const double*, float*, double*, std::size_t, std::size_t,
                         int);
template CenterStep turn(const double*, const double*, double*, double*, std::size_t, std::size_t,
                         int);

} // namespace wolfmeans
