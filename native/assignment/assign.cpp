#include "assignment/assign.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "assignment/group.hpp"
#include "assignment/points.hpp"
#include "kernels/exact/scan.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

// A block of points (transposed groups) and a block of centers each take at most about this much,
// so that both stay in a core's second-level cache while every pair of them is scanned.
constexpr std::size_t block_bytes = std::size_t{1} << 17;
constexpr std::size_t most_groups = 64;
// The screen pays for itself from so many centers, and coordinates of centers, on.
constexpr std::size_t least_screened = 12;
constexpr std::size_t least_screened_coordinates = 64;

std::size_t ceil_div(std::size_t a, std::size_t b) {
    return (a + b - 1) / b;
}

// The centers as float64: themselves, or converted once into `storage`.
template <class Real>
const double* as_doubles(const Real* centers, std::size_t size, std::vector<double>& storage) {
    if constexpr (std::is_same_v<Real, double>) {
        return centers;
    } else {
        storage.assign(centers, centers + size);
        return storage.data();
    }
}

// points (d, group_size) OUT: rows first..first+count-1 of X transposed, the last one repeated to
// fill the group.
template <class Real>
void transpose_rows(const Real* X, std::size_t d, std::size_t first, std::size_t count,
                    double* points) {
    transpose_group(
        d, [=](std::size_t p) { return X + (first + std::min(p, count - 1)) * d; }, points);
}

// The groups of one chunk of rows, block by block; the arguments of `assign` plus scratch.
template <class Real>
class AssignRows {
public:
    AssignRows(const Real* X, std::size_t n, std::size_t d, const double* centers, std::size_t K,
               std::int32_t* labels, double* nearest, double* second, std::size_t chunks)
        : X_(X), d_(d), centers_(centers), K_(K), labels_(labels), nearest_(nearest),
          second_(second),
          scan_(second ? best_kernels().scan->two_nearest : best_kernels().scan->nearest),
          groups_(std::clamp(block_bytes / (row_bytes() * group_size), std::size_t{1},
                             std::min(most_groups, ceil_div(n, group_size)))),
          centers_per_block_(std::max<std::size_t>(8, block_bytes / row_bytes() / 8 * 8)),
          points_(chunks * groups_ * group_doubles()), states_(chunks * groups_) {}

    void operator()(std::size_t chunk, std::size_t begin, std::size_t end) {
        double* points = points_.data() + chunk * groups_ * group_doubles();
        GroupState* states = states_.data() + chunk * groups_;
        const std::size_t step = groups_ * group_size;
        for (std::size_t i = begin; i < end; i += step)
            assign_block(i, std::min(end, i + step), points, states);
    }

private:
    std::size_t row_bytes() const { return std::max<std::size_t>(1, d_) * sizeof(double); }
    std::size_t group_doubles() const { return d_ * group_size; }

    void assign_block(std::size_t begin, std::size_t end, double* points, GroupState* states) {
        const std::size_t groups = ceil_div(end - begin, group_size);
        for (std::size_t g = 0; g < groups; ++g) {
            const std::size_t first = begin + g * group_size;
            transpose_rows(X_, d_, first, std::min<std::size_t>(group_size, end - first),
                           points + g * group_doubles());
            states[g] = unscanned();
        }
        for (std::size_t k = 0; k < K_; k += centers_per_block_) {
            check_interrupt();
            const std::size_t last = std::min(K_, k + centers_per_block_);
            for (std::size_t g = 0; g < groups; ++g)
                scan_(points + g * group_doubles(), centers_, static_cast<long long>(d_),
                      static_cast<long long>(k), static_cast<long long>(last), states[g]);
        }
        for (std::size_t i = begin; i < end; ++i) {
            const GroupState& state = states[(i - begin) / group_size];
            const std::size_t p = (i - begin) % group_size;
            labels_[i] = static_cast<std::int32_t>(state.label[p]);
            nearest_[i] = state.nearest[p];
            if (second_) second_[i] = state.second[p];
        }
    }

    const Real* X_;
    std::size_t d_;
    const double* centers_;
    std::size_t K_;
    std::int32_t* labels_;
    double* nearest_;
    double* second_;
    Scan* scan_;
    std::size_t groups_;
    std::size_t centers_per_block_;
    Aligned<double> points_;
    std::vector<GroupState> states_;
};

template <class Real>
TermSum summed_cost(const Real* X, std::size_t n, std::size_t d, const double* weights,
                    const Real* centers, std::size_t K, const std::int32_t* labels, int n_threads) {
    constexpr std::size_t block = 512;
    const double operations = static_cast<double>(n) * static_cast<double>(d + 2);
    const std::size_t chunks = worthwhile_threads(n, operations, n_threads);
    std::vector<double> converted;
    const double* const centers_double = as_doubles(centers, K * d, converted);
    OwnDistances<Real>* const own = best_kernels().scan->of<Real>().own;
    std::vector<TermSum> sums(chunks);
    over_rows(n, chunks, block, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        double distances[block];
        for (std::size_t i = begin; i < end; i += block) {
            const std::size_t count = std::min(block, end - i);
            own(X + i * d, static_cast<long long>(count), static_cast<long long>(d), centers_double,
                labels + i, distances);
            sums[chunk].add_products(weights == nullptr ? nullptr : weights + i, distances, count);
        }
    });
    for (std::size_t chunk = 1; chunk < chunks; ++chunk)
        sums[0].merge(sums[chunk]);
    return sums[0];
}

} // namespace

template <class Real>
void assign(const Real* X, std::size_t n, std::size_t d, const Real* centers, std::size_t K,
            std::int32_t* labels, double* nearest, double* second, int n_threads) {
    if (n == 0) return;
    if (second == nullptr && K >= least_screened && K * d >= least_screened_coordinates) {
        Points<Real> points(X, n, d, nullptr, n_threads);
        points.assign(centers, K, false, {});
        std::copy_n(points.labels().begin(), n, labels);
        distances(X, n, d, centers, K, labels, nearest, n_threads);
        return;
    }
    const double operations =
        static_cast<double>(n) * static_cast<double>(K) * static_cast<double>(d);
    const std::size_t chunks = worthwhile_threads(n, operations, n_threads);
    std::vector<double> converted;
    const double* centers_double = as_doubles(centers, K * d, converted);
    AssignRows<Real> rows(X, n, d, centers_double, K, labels, nearest, second, chunks);
    over_rows(n, chunks, group_size, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        rows(chunk, begin, end);
    });
}

template <class Real>
void distances(const Real* X, std::size_t n, std::size_t d, const Real* centers, std::size_t K,
               const std::int32_t* labels, double* out, int n_threads) {
    const double operations = static_cast<double>(n) * static_cast<double>(d);
    const std::size_t chunks = worthwhile_threads(n, operations, n_threads);
    std::vector<double> converted;
    const double* const centers_double = as_doubles(centers, K * d, converted);
    OwnDistances<Real>* const own = best_kernels().scan->of<Real>().own;
    over_rows(n, chunks, group_size, [=](std::size_t, std::size_t begin, std::size_t end) {
        own(X + begin * d, static_cast<long long>(end - begin), static_cast<long long>(d),
            centers_double, labels + begin, out + begin);
    });
}

template <class Real>
double cost(const Real* X, std::size_t n, std::size_t d, const double* weights, const Real* centers,
            std::size_t K, const std::int32_t* labels, int n_threads) {
    return summed_cost(X, n, d, weights, centers, K, labels, n_threads).result();
}

template <class Real>
ExactSum exact_cost(const Real* X, std::size_t n, std::size_t d, const double* weights,
                    const Real* centers, std::size_t K, const std::int32_t* labels, int n_threads) {
    return summed_cost(X, n, d, weights, centers, K, labels, n_threads).exact();
}

template <class Real>
void roots(const Real* X, std::size_t n, std::size_t d, const Real* centers, std::size_t K,
           Real* out, int n_threads) {
    const double operations =
        static_cast<double>(n) * static_cast<double>(K) * static_cast<double>(d + 8);
    const std::size_t chunks = worthwhile_threads(n, operations, n_threads);
    std::vector<double> converted;
    const double* const centers_double = as_doubles(centers, K * d, converted);
    Roots<Real>* const group_roots = best_kernels().scan->of<Real>().roots;
    over_rows(n, chunks, group_size, [&](std::size_t, std::size_t begin, std::size_t end) {
        Aligned<double> points(d * group_size);
        WorkCounter counter;
        for (std::size_t i = begin; i < end; i += group_size) {
            const std::size_t count = std::min<std::size_t>(group_size, end - i);
            transpose_rows(X, d, i, count, points.data());
            group_roots(points.data(), centers_double, static_cast<long long>(d), 0,
                        static_cast<long long>(K), static_cast<long long>(K),
                        static_cast<int>(count), out + i * K);
            counter.add(static_cast<double>(group_size * K * (d + 8)));
        }
    });
}

template void assign(const float*, std::size_t, std::size_t, const float*, std::size_t,
                     std::int32_t*, double*, double*, int);
template void assign(const double*, std::size_t, std::size_t, const double*, std::size_t,
                     std::int32_t*, double*, double*, int);
template void distances(const float*, std::size_t, std::size_t, const float*, std::size_t,
                        const std::int32_t*, double*, int);
template void distances(const double*, std::size_t, std::size_t, const double*, std::size_t,
                        const std::int32_t*, double*, int);

template double cost(const float*, std::size_t, std::size_t, const double*, const float*,
                     std::size_t, const std::int32_t*, int);
template double cost(const double*, std::size_t, std::size_t, const double*, const double*,
                     std::size_t, const std::int32_t*, int);
template ExactSum exact_cost(const float*, std::size_t, std::size_t, const double*, const float*,
                             std::size_t, const std::int32_t*, int);
template ExactSum exact_cost(const double*, std::size_t, std::size_t, const double*, const double*,
                             std::size_t, const std::int32_t*, int);
template void roots(const float*, std::size_t, std::size_t, const float*, std::size_t, float*, int);
template void roots(const double*, std::size_t, std::size_t, const double*, std::size_t, double*,
                    int);

} // namespace wolfmeans
