#include "assign.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "scan.hpp"
#include "threads.hpp"
#include "vector_unit.hpp"

namespace wolfmeans {
namespace {

// A block of points (transposed groups) and a block of centers each take at most about this much,
// so that both stay in a core's second-level cache while every pair of them is scanned.
constexpr std::size_t block_bytes = std::size_t{1} << 17;
constexpr std::size_t most_groups = 64;

std::size_t ceil_div(std::size_t a, std::size_t b) {
    return (a + b - 1) / b;
}

// Doubles at a 64-byte boundary: a register's worth of lanes never straddles two cache lines.
class AlignedDoubles {
public:
    explicit AlignedDoubles(std::size_t size) : storage_(size + 8) {
        void* start = storage_.data();
        std::size_t space = storage_.size() * sizeof(double);
        data_ = static_cast<double*>(std::align(64, size * sizeof(double), start, space));
    }
    double* data() { return data_; }

private:
    std::vector<double> storage_;
    double* data_;
};

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

// points (d, group_size) OUT: rows first..first+count-1 of X transposed, the last repeated as
// filling when fewer than group_size.
template <class Real>
void transpose_group(const Real* X, std::size_t d, std::size_t first, std::size_t count,
                     double* points) {
    const Real* row[group_size];
    for (std::size_t p = 0; p < group_size; ++p)
        row[p] = X + (first + std::min(p, count - 1)) * d;
    for (std::size_t j = 0; j < d; ++j)
        for (std::size_t p = 0; p < group_size; ++p)
            points[j * group_size + p] = row[p][j];
}

// The groups of one chunk of rows, block by block; the arguments of `assign` plus scratch.
template <class Real>
class AssignRows {
public:
    AssignRows(const Real* X, std::size_t n, std::size_t d, const double* centers, std::size_t K,
               std::int32_t* labels, double* nearest, double* second, std::size_t chunks)
        : X_(X), d_(d), centers_(centers), K_(K), labels_(labels), nearest_(nearest),
          second_(second), scan_(second ? best_scan().two_nearest : best_scan().nearest),
          groups_(std::clamp(block_bytes / (row_bytes() * group_size), std::size_t{1},
                             std::min(most_groups, ceil_div(n, group_size)))),
          centers_per_block_(std::max<std::size_t>(8, block_bytes / row_bytes() / 8 * 8)),
          points_(chunks * groups_ * group_doubles()), states_(chunks * groups_) {}

    void operator()(std::size_t chunk, std::size_t begin, std::size_t end) noexcept {
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
        constexpr double infinity = std::numeric_limits<double>::infinity();
        const std::size_t groups = ceil_div(end - begin, group_size);
        for (std::size_t g = 0; g < groups; ++g) {
            const std::size_t first = begin + g * group_size;
            transpose_group(X_, d_, first, std::min<std::size_t>(group_size, end - first),
                            points + g * group_doubles());
            // Label 0 stands when every distance overflows to +inf: the lowest index of that tie.
            std::fill_n(states[g].nearest, group_size, infinity);
            std::fill_n(states[g].second, group_size, infinity);
            std::fill_n(states[g].label, group_size, 0);
        }
        for (std::size_t k = 0; k < K_; k += centers_per_block_) {
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
    AlignedDoubles points_;
    std::vector<GroupState> states_;
};

// The canonical distances of `Rows` consecutive points; several at once because one alone would
// wait for each addition before it can start the next.
template <std::size_t Rows, class Real>
void labelled_distances(const Real* X, std::size_t d, const Real* centers,
                        const std::int32_t* labels, double* out) {
    const Real* c[Rows];
    double sum[Rows] = {};
    for (std::size_t i = 0; i < Rows; ++i)
        c[i] = centers + static_cast<std::size_t>(labels[i]) * d;
    for (std::size_t j = 0; j < d; ++j) {
        for (std::size_t i = 0; i < Rows; ++i) {
            const double difference =
                static_cast<double>(X[i * d + j]) - static_cast<double>(c[i][j]);
            sum[i] = sum[i] + difference * difference;
        }
    }
    std::copy_n(sum, Rows, out);
}

} // namespace

template <class Real>
void assign(const Real* X, std::size_t n, std::size_t d, const Real* centers, std::size_t K,
            std::int32_t* labels, double* nearest, double* second, int n_threads) {
    if (n == 0) return;
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
void distances(const Real* X, std::size_t n, std::size_t d, const Real* centers,
               const std::int32_t* labels, double* out, int n_threads) {
    constexpr std::size_t together = 4;
    const double operations = static_cast<double>(n) * static_cast<double>(d);
    const std::size_t chunks = worthwhile_threads(n, operations, n_threads);
    over_rows(n, chunks, together, [=](std::size_t, std::size_t begin, std::size_t end) {
        std::size_t i = begin;
        for (; i + together <= end; i += together)
            labelled_distances<together>(X + i * d, d, centers, labels + i, out + i);
        for (; i < end; ++i)
            labelled_distances<1>(X + i * d, d, centers, labels + i, out + i);
    });
}

template void assign(const float*, std::size_t, std::size_t, const float*, std::size_t,
                     std::int32_t*, double*, double*, int);
template void assign(const double*, std::size_t, std::size_t, const double*, std::size_t,
                     std::int32_t*, double*, double*, int);
template void distances(const float*, std::size_t, std::size_t, const float*, const std::int32_t*,
                        double*, int);
template void distances(const double*, std::size_t, std::size_t, const double*, const std::int32_t*,
                        double*, int);

} // namespace wolfmeans
