#include "sparse/sparse_centers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

constexpr std::size_t columns_at_once = 128;
constexpr double operations_per_coordinate = 8.0;

std::size_t round_up(std::size_t value, std::size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// Columns begin..end-1 of the centers of a group, transposed to float64. The last center is
// repeated as filling.
template <class Real>
void transpose(const Real* centers, std::size_t K, std::size_t d, std::size_t group,
               std::size_t begin, std::size_t end, double* columns) {
    const Real* rows[center_group];
    for (std::size_t p = 0; p < center_group; ++p)
        rows[p] = centers + std::min(group * center_group + p, K - 1) * d;
    for (std::size_t j = begin; j < end; ++j)
        for (std::size_t p = 0; p < center_group; ++p)
            columns[(j - begin) * center_group + p] = static_cast<double>(rows[p][j]);
}

std::size_t threads_for(std::size_t K, std::size_t d, std::size_t groups, int n_threads) {
    return worthwhile_threads(
        groups, operations_per_coordinate * static_cast<double>(K) * static_cast<double>(d),
        n_threads);
}

} // namespace

template <class Real>
std::vector<SquareNorm> square_norms(const Real* centers, std::size_t K, std::size_t d,
                                     int n_threads) {
    std::vector<SquareNorm> norms(K);
    const SparseExactVersion& exact = *best_kernels().sparse_exact;
    const std::size_t groups = round_up(K, center_group) / center_group;
    over_rows(groups, threads_for(K, d, groups, n_threads), 1,
              [&](std::size_t, std::size_t first, std::size_t last) {
                  double columns[columns_at_once * center_group];
                  for (std::size_t g = first; g < last; ++g) {
                      double high[center_group] = {}, low[center_group] = {};
                      for (std::size_t j = 0; j < d; j += columns_at_once) {
                          const std::size_t end = std::min(d, j + columns_at_once);
                          transpose(centers, K, d, g, j, end, columns);
                          exact.square_norms(columns, static_cast<std::int64_t>(end - j), high,
                                             low);
                      }
                      for (std::size_t p = 0; p < center_group && g * center_group + p < K; ++p)
                          norms[g * center_group + p] = {high[p], low[p]};
                  }
              });
    return norms;
}

template <class Real>
SparseCenters<Real>::SparseCenters(const SparseRows<Real>& rows, std::size_t K)
    : rows_(rows), version_(*best_kernels().sparse_screen), exact_(*best_kernels().sparse_exact),
      K_(K), centers_(K * rows.d()), norms_(K),
      packed_(round_up(K, std::max(version_.lanes, center_group)) * rows.d()),
      offsets_(round_up(K, std::max(version_.lanes, center_group)), screen_huge), arounds_(K),
      squares_(K), drifts_(K) {}

template <class Real>
void SparseCenters<Real>::move_to(const Real* centers, int n_threads) {
    const std::size_t groups = round_up(K_, center_group) / center_group;
    over_rows(groups, threads_for(K_, rows_.d(), groups, n_threads), 1,
              [&](std::size_t, std::size_t first, std::size_t last) {
                  for (std::size_t g = first; g < last; ++g)
                      pack_group(g, centers);
              });
    first_ = false;
    summarize();
}

template <class Real>
void SparseCenters<Real>::pack_group(std::size_t group, const Real* centers) {
    const std::size_t d = rows_.d(), k = group * center_group;
    const std::size_t count = std::min<std::size_t>(center_group, K_ - k);
    const Real* const given = centers + k * d;
    const bool same =
        d == 0 || std::memcmp(given, centers_.data() + k * d, count * d * sizeof(Real)) == 0;
    if (!first_ && same) {
        std::fill_n(drifts_.data() + k, count, 0.0f);
        return;
    }
    const std::size_t width = static_cast<std::size_t>(version_.lanes) * block_registers;
    const std::size_t block = k / width * width;
    const std::size_t stride = std::min(width, offsets_.size() - block);
    double columns[columns_at_once * center_group];
    double high[center_group] = {}, low[center_group] = {};
    GroupSums sums{};
    for (std::size_t j = 0; j < d; j += columns_at_once) {
        const std::size_t end = std::min(d, j + columns_at_once);
        const auto some = static_cast<std::int64_t>(end - j);
        transpose(centers, K_, d, group, j, end, columns);
        exact_.square_norms(columns, some, high, low);
        exact_.pack(columns, rows_.origin().data() + j, rows_.factor(), some,
                    packed_.data() + block * d + j * stride + (k - block),
                    static_cast<std::int64_t>(stride), sums);
    }
    for (std::size_t p = 0; p < count; ++p) {
        norms_[k + p] = {high[p], low[p]};
        offsets_[k + p] = static_cast<float>(0.5 * sums.offset[p]);
        arounds_[k + p] = sums.around[p];
        squares_[k + p] = sums.square[p];
        const double step = exact_.of<Real>().step(given + p * d, centers_.data() + (k + p) * d,
                                                   rows_.factor(), static_cast<std::int64_t>(d));
        drifts_[k + p] = step == 0.0 ? 0.0f : root_up(step);
    }
}

template <class Real>
void SparseCenters<Real>::summarize() {
    const double d = static_cast<double>(rows_.d());
    const double spare = 1.0 + 0x1p-20; // exceeds the rounding of any of these sums
    double around = 0.0, square = 0.0;
    largest_offset_ = 0.0;
    largest_drifts_ = {};
    for (std::size_t k = 0; k < K_; ++k) {
        around = std::max(around, arounds_[k]);
        square = std::max(square, squares_[k]);
        largest_offset_ = std::max(largest_offset_, std::abs(static_cast<double>(offsets_[k])));
        largest_drifts_.add(k, drifts_[k]);
    }
    largest_norm_ = std::sqrt(around) * spare;
    reach_ = largest_norm_ + 2.0 * std::sqrt(rows_.origin_square());
    // Sums of 2 d and of 2 m terms in double length (see sparse_distance_error in exact/distances.py),
    // and what squares may lose at the lower end of float64, where no factor helps them.
    const double smallest = 0x1p-536 * rows_.factor();
    absolute_error_ =
        square * spare * (d + 3.0) * (d + 3.0) * 0x1p-98 + 16.0 * (d + 8.0) * smallest * smallest;
    // Beyond this a score, or a canonical distance, could overflow; the filling of the last block
    // must lose too.
    screenable_ = largest_norm_ < 0x1p40 && square < 0x1p80 && rows_.factor() > 0x1p-400 &&
                  screen_unit * static_cast<double>(rows_.longest() + 6) < 0.25;
}

template <class Real>
double SparseCenters<Real>::error(std::size_t entries, double norm) const {
    const double terms = screen_unit * static_cast<double>(entries + 6);
    return terms / (1.0 - terms) * (largest_offset_ + norm * largest_norm_) + cancellation(norm) +
           absolute_error_ +
           static_cast<double>(entries + 6) * 0x1p-120 * (1.0 + norm + largest_norm_);
}

// Sums of at most 2 d + m terms of float64, each at most reach^2 together; that covers the relative
// part of the canonical distance's own rounding, (m + 5) 2^-53 of it, as well.
template <class Real>
double SparseCenters<Real>::cancellation(double norm) const {
    const double reach = norm + reach_;
    return static_cast<double>(rows_.d() + 8) * 0x1p-50 * reach * reach;
}

template <class Real>
RowScreen<Real>::RowScreen(const SparseRows<Real>& rows, const SparseCenters<Real>& centers)
    : rows_(rows), centers_(centers), values_(rows.longest()), scores_(centers.padded()) {}

// Score row i against all centers; return the error bound of a score.
template <class Real>
double RowScreen<Real>::screen(std::size_t i) {
    const SparseRow<Real> row = rows_.row(i);
    const double factor = rows_.factor();
    for (std::size_t e = 0; e < row.count; ++e)
        values_[e] = static_cast<float>(static_cast<double>(row.values[e]) * factor);
    found_ = centers_.version().screen(values_.data(), row.columns,
                                       static_cast<long long>(row.count), centers_.packed(),
                                       centers_.offsets(), static_cast<long long>(rows_.d()),
                                       static_cast<long long>(centers_.padded()), scores_.data());
    return centers_.error(row.count, std::sqrt(rows_.square(i)) * (1.0 + 0x1p-20));
}

// List the centers of row i whose scores do not rule them out; without scores, all centers.
template <class Real>
void RowScreen<Real>::consider(std::size_t i, double most) {
    for (std::size_t k = 0; k < centers_.K(); ++k) {
        if (centers_.screenable() && static_cast<double>(scores_[k]) > most) continue;
        pairs_.push_back(centers_.pair(i, k));
        candidates_.push_back(static_cast<std::int32_t>(k));
    }
}

template <class Real>
const double* RowScreen<Real>::distances() {
    distances_.resize(pairs_.size());
    canonical_distances(pairs_.data(), pairs_.size(), distances_.data(), centers_.exact());
    return distances_.data();
}

// A center whose score exceeds the best by more than both may be off is farther, canonically, than
// the one of the best score. The others are evaluated; ties go to the lowest index.
template <class Real>
auto RowScreen<Real>::nearest(std::size_t i) -> Verdict {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double most = infinity;
    Verdict verdict{0, false, infinity, 0.0};
    if (centers_.screenable()) {
        const double slack = 2.0 * screen(i);
        const double best = static_cast<double>(found_.best);
        const double second = static_cast<double>(found_.second);
        verdict.decided = second - best > slack;
        verdict.upper = rows_.around(i) + 2.0 * best + slack;
        verdict.lower = rows_.around(i) + 2.0 * (verdict.decided ? second : best) - slack;
        if (verdict.decided) {
            verdict.label = found_.label;
            return verdict;
        }
        verdict.upper += 2.0 * slack; // the chosen center's score may exceed the best by so much
        most = best + slack;
    }
    pairs_.clear();
    candidates_.clear();
    consider(i, most);
    const double* const distance = distances();
    double nearest = infinity;
    for (std::size_t c = 0; c < candidates_.size(); ++c) {
        if (!(distance[c] < nearest)) continue;
        nearest = distance[c];
        verdict.label = candidates_[c];
    }
    return verdict;
}

// The smallest score, or the second smallest, bounds the wanted distances; all centers that may be
// below that bound are evaluated.
template <class Real>
void RowScreen<Real>::two_nearest(std::size_t first, std::size_t count, std::int32_t* labels,
                                  double* nearest, double* second) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    pairs_.clear();
    candidates_.clear();
    std::vector<std::size_t> ends(count);
    for (std::size_t p = 0; p < count; ++p) {
        double most = infinity;
        if (centers_.screenable()) {
            const double slack = 2.0 * screen(first + p);
            most = static_cast<double>(second == nullptr ? found_.best : found_.second) + slack;
        }
        consider(first + p, most);
        ends[p] = pairs_.size();
    }
    const double* const distance = distances();
    std::size_t c = 0;
    for (std::size_t p = 0; p < count; ++p) {
        double smallest = infinity, next = infinity;
        std::int32_t label = 0;
        for (; c < ends[p]; ++c) {
            if (distance[c] < smallest) {
                next = smallest;
                smallest = distance[c];
                label = candidates_[c];
            } else {
                next = std::min(next, distance[c]);
            }
        }
        labels[p] = label;
        nearest[p] = smallest;
        if (second != nullptr) second[p] = next;
    }
}

template std::vector<SquareNorm> square_norms(const float*, std::size_t, std::size_t, int);
template std::vector<SquareNorm> square_norms(const double*, std::size_t, std::size_t, int);
template class SparseCenters<float>;
template class SparseCenters<double>;
template class RowScreen<float>;
template class RowScreen<double>;

} // namespace wolfmeans
