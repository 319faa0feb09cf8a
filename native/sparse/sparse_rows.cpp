#include "sparse/sparse_rows.hpp"

#include <algorithm>
#include <cmath>

#include "exact/cluster_sums.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"
#include "sparse/sparse_centers.hpp"

namespace wolfmeans {
namespace {

constexpr std::size_t framing_rows = 4096;
constexpr std::size_t entries_at_once = 64;
constexpr std::size_t pairs_at_once = 128;
// A center with fewer than one nonzero coordinate in so many is taken for sparse.
constexpr std::size_t columns_per_nonzero = 8;

// A center with few nonzero coordinates. Where c_j is 0 an entry covers nothing; the other
// coordinates have short numbers, so that the table of all columns stays in the first-level cache.
// Several rows are summed side by side, because the additions of one sum depend on each other;
// entries that cover something are listed and added afterwards.
template <class Real>
class SparseCenter {
public:
    static constexpr std::size_t rows_together = 4;
    static constexpr std::size_t most_nonzeros = 0xffff;

    SparseCenter(const Real* center, std::size_t d, const SquareNorm& norm)
        : norm_(norm), number_(d), coordinates_(1, 0.0) {
        for (std::size_t j = 0; j < d; ++j) {
            if (center[j] == 0) continue;
            number_[j] = static_cast<std::uint16_t>(coordinates_.size());
            coordinates_.push_back(static_cast<double>(center[j]));
        }
    }

    // covering  scratch for Rows times the longest row
    template <std::size_t Rows>
    void distances(const SparseRow<Real> (&rows)[Rows], std::uint16_t* const (&covering)[Rows],
                   double* out) const {
        double acc[Rows] = {};
        std::uint16_t* end[Rows];
        std::size_t together = rows[0].count;
        for (std::size_t r = 0; r < Rows; ++r) {
            end[r] = covering[r];
            together = std::min(together, rows[r].count);
        }
        for (std::size_t e = 0; e < together; ++e)
            for (std::size_t r = 0; r < Rows; ++r)
                add_entry(rows[r], e, acc[r], end[r]);
        for (std::size_t r = 0; r < Rows; ++r) {
            for (std::size_t e = together; e < rows[r].count; ++e)
                add_entry(rows[r], e, acc[r], end[r]);
            double high = 0.0, low = 0.0;
            for (const std::uint16_t* number = covering[r]; number != end[r]; ++number)
                cover(coordinates_[*number], high, low);
            out[r] = with_uncovered(acc[r], norm_, high, low);
        }
    }

private:
    void add_entry(const SparseRow<Real>& row, std::size_t e, double& acc,
                   std::uint16_t*& end) const {
        const std::uint16_t number = number_[static_cast<std::size_t>(row.columns[e])];
        const double difference = static_cast<double>(row.values[e]) - coordinates_[number];
        acc = acc + difference * difference;
        *end = number;
        end += number != 0;
    }

    SquareNorm norm_;
    std::vector<std::uint16_t> number_; // (d,) 0 for a coordinate of 0
    std::vector<double> coordinates_;   // the first is 0
};

} // namespace

// Entries are laid out side by side, one pair to a lane; shorter rows are filled up with zeros,
// which change no sum.
template <class Real>
void canonical_distances(const SparsePair<Real>* pairs, std::size_t count, double* out,
                         const SparseExactVersion& version) {
    double x[entries_at_once * center_group] = {}, c[entries_at_once * center_group] = {};
    for (std::size_t first = 0; first < count; first += center_group) {
        const std::size_t some = std::min<std::size_t>(center_group, count - first);
        std::size_t longest = 0;
        for (std::size_t p = 0; p < some; ++p)
            longest = std::max(longest, pairs[first + p].row.count);
        CoveredSums sums{};
        for (std::size_t begin = 0; begin < longest; begin += entries_at_once) {
            const std::size_t end = std::min(longest, begin + entries_at_once);
            for (std::size_t p = 0; p < some; ++p) {
                const SparseRow<Real>& row = pairs[first + p].row;
                const Real* const center = pairs[first + p].center;
                std::size_t e = begin, place = p;
                for (; e < std::min(end, row.count); ++e, place += center_group) {
                    x[place] = static_cast<double>(row.values[e]);
                    c[place] = static_cast<double>(center[row.columns[e]]);
                }
                for (; e < end; ++e, place += center_group)
                    x[place] = c[place] = 0.0;
            }
            version.cover(x, c, static_cast<std::int64_t>(end - begin), sums);
        }
        for (std::size_t p = 0; p < some; ++p)
            out[first + p] =
                with_uncovered(sums.distance[p], *pairs[first + p].norm, sums.high[p], sums.low[p]);
    }
}

template <class Real>
SparseRows<Real>::SparseRows(const Real* values, const std::int32_t* columns,
                             const std::int64_t* starts, std::size_t n, std::size_t d,
                             int n_threads)
    : values_(values), columns_(columns), starts_(starts), n_(n), d_(d),
      size_(static_cast<std::size_t>(starts[n])), origin_(d), squares_(n), around_(n) {
    for (std::size_t i = 0; i < n; ++i)
        longest_ = std::max(longest_, row(i).count);
    choose_frame(n_threads);
    over_rows(n, worthwhile_threads(n, operations(4.0), n_threads), 1,
              [&](std::size_t, std::size_t begin, std::size_t end) {
                  for (std::size_t i = begin; i < end; ++i) {
                      const SparseRow<Real> x = row(i);
                      double scaled = 0.0, product = 0.0;
                      for (std::size_t e = 0; e < x.count; ++e) {
                          const double small = static_cast<double>(x.values[e]) * factor_;
                          scaled += small * small;
                          product += small * origin_[static_cast<std::size_t>(x.columns[e])];
                      }
                      squares_[i] = scaled;
                      around_[i] = (scaled - 2.0 * product) + origin_square_;
                  }
              });
}

// The origin may be anywhere; within the data it makes scores most exact. A sample is enough for
// it.
template <class Real>
void SparseRows<Real>::choose_frame(int n_threads) {
    const double largest = value_range(values_, size_, n_threads).largest;
    if (largest > 0.0) factor_ = std::ldexp(1.0, std::clamp(10 - std::ilogb(largest), -1000, 1000));
    const std::size_t step = std::max<std::size_t>(1, n_ / framing_rows);
    std::size_t rows = 0;
    for (std::size_t i = 0; i < n_; i += step, ++rows) {
        const SparseRow<Real> x = row(i);
        for (std::size_t e = 0; e < x.count; ++e)
            origin_[static_cast<std::size_t>(x.columns[e])] +=
                static_cast<double>(x.values[e]) * factor_;
    }
    for (double& coordinate : origin_) {
        coordinate /= static_cast<double>(std::max<std::size_t>(1, rows));
        origin_square_ += coordinate * coordinate;
    }
}

template <class Real>
void SparseRows<Real>::distances(const Real* centers, std::size_t K, const std::int32_t* labels,
                                 double* out, int n_threads) const {
    const std::vector<SquareNorm> norms = square_norms(centers, K, d_, n_threads);
    if (K == 1) {
        const auto nonzeros = d_ - static_cast<std::size_t>(std::count(centers, centers + d_, 0));
        if (nonzeros * columns_per_nonzero < d_ && nonzeros < SparseCenter<Real>::most_nonzeros)
            return distances_to_sparse(centers, norms[0], out, n_threads);
    }
    const SparseExactVersion& version = *best_kernels().sparse_exact;
    over_rows(n_, worthwhile_threads(n_, operations(4.0), n_threads), 1,
              [&](std::size_t, std::size_t begin, std::size_t end) {
                  SparsePair<Real> pairs[pairs_at_once];
                  for (std::size_t i = begin; i < end; i += pairs_at_once) {
                      const std::size_t count = std::min(pairs_at_once, end - i);
                      for (std::size_t p = 0; p < count; ++p) {
                          const auto k = static_cast<std::size_t>(labels[i + p]);
                          pairs[p] = {row(i + p), centers + k * d_, &norms[k]};
                      }
                      canonical_distances(pairs, count, out + i, version);
                  }
              });
}

template <class Real>
void SparseRows<Real>::distances_to_sparse(const Real* center, const SquareNorm& norm, double* out,
                                           int n_threads) const {
    const SparseCenter<Real> one(center, d_, norm);
    constexpr std::size_t together = SparseCenter<Real>::rows_together;
    over_rows(n_, worthwhile_threads(n_, operations(2.0), n_threads), together,
              [&](std::size_t, std::size_t begin, std::size_t end) {
                  const std::size_t room = longest_ + 1;
                  std::vector<std::uint16_t> scratch(together * room);
                  std::uint16_t* const at = scratch.data();
                  std::size_t i = begin;
                  for (; i + together <= end; i += together)
                      one.template distances<together>(
                          {row(i), row(i + 1), row(i + 2), row(i + 3)},
                          {at, at + room, at + 2 * room, at + 3 * room}, out + i);
                  for (; i < end; ++i)
                      one.template distances<1>({row(i)}, {at}, out + i);
              });
}

template <class Real>
void SparseRows<Real>::nearest(const Real* given, std::size_t K, std::int32_t* labels,
                               double* nearest, double* second, int n_threads) const {
    SparseCenters<Real> centers(*this, K);
    centers.move_to(given, n_threads);
    const std::size_t threads =
        worthwhile_threads(n_, operations(static_cast<double>(K)), n_threads);
    over_rows(n_, threads, 1, [&](std::size_t, std::size_t begin, std::size_t end) {
        RowScreen<Real> screen(*this, centers);
        WorkCounter counter;
        for (std::size_t i = begin; i < end; i += pairs_at_once) {
            counter.add(static_cast<double>(pairs_at_once * K));
            const std::size_t count = std::min(pairs_at_once, end - i);
            screen.two_nearest(i, count, labels + i, nearest + i,
                               second == nullptr ? nullptr : second + i);
        }
    });
}

template void canonical_distances(const SparsePair<float>*, std::size_t, double*,
                                  const SparseExactVersion&);
template void canonical_distances(const SparsePair<double>*, std::size_t, double*,
                                  const SparseExactVersion&);
template class SparseRows<float>;
template class SparseRows<double>;

} // namespace wolfmeans
