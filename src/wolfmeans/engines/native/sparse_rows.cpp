#include "sparse_rows.hpp"

#include <algorithm>
#include <cmath>

#include "sparse_centers.hpp"
#include "threads.hpp"
#include "value_range.hpp"

namespace wolfmeans {
namespace {

constexpr std::size_t sampled_rows = 4096;
// A center with fewer than one nonzero coordinate in so many is taken for sparse.
constexpr std::size_t columns_per_nonzero = 8;

} // namespace

template <class Real>
SparseRows<Real>::SparseRows(const Real* values, const std::int32_t* columns,
                             const std::int64_t* starts, std::size_t n, std::size_t d,
                             int n_threads)
    : values_(values), columns_(columns), starts_(starts), n_(n), d_(d),
      size_(static_cast<std::size_t>(starts[n])), origin_(d), squares_(n), scaled_squares_(n),
      around_(n) {
    for (std::size_t i = 0; i < n; ++i)
        longest_ = std::max(longest_, row(i).count);
    choose_frame(n_threads);
    over_rows(n, worthwhile_threads(n, operations(4.0), n_threads), 1,
              [&](std::size_t, std::size_t begin, std::size_t end) {
                  for (std::size_t i = begin; i < end; ++i) {
                      const SparseRow<Real> x = row(i);
                      double square = 0.0, scaled = 0.0, product = 0.0;
                      for (std::size_t e = 0; e < x.count; ++e) {
                          const auto value = static_cast<double>(x.values[e]);
                          const double small = value * factor_;
                          square = square + value * value;
                          scaled += small * small;
                          product += small * origin_[static_cast<std::size_t>(x.columns[e])];
                      }
                      squares_[i] = square;
                      scaled_squares_[i] = scaled;
                      around_[i] = (scaled - 2.0 * product) + origin_square_;
                  }
              });
}

// The origin may be anywhere; amid the data it makes scores most exact. A sample is enough for it.
template <class Real>
void SparseRows<Real>::choose_frame(int n_threads) {
    const double largest = value_range(values_, size_, n_threads).largest;
    if (largest > 0.0) factor_ = std::ldexp(1.0, std::clamp(10 - std::ilogb(largest), -1000, 1000));
    const std::size_t step = std::max<std::size_t>(1, n_ / sampled_rows);
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
        if (nonzeros * columns_per_nonzero < d_)
            return distances_to_sparse(centers, norms[0], out, n_threads);
    }
    over_rows(n_, worthwhile_threads(n_, operations(8.0), n_threads), 1,
              [&](std::size_t, std::size_t begin, std::size_t end) {
                  for (std::size_t i = begin; i < end; ++i) {
                      const auto k = labels == nullptr ? 0 : static_cast<std::size_t>(labels[i]);
                      out[i] = canonical_distance(row(i), centers + k * d_, norms[k]);
                  }
              });
}

// A row that stores nothing where the center has anything has its distance from zero and all of
// |c|^2. Where c_j is 0 the entry covers nothing, so the others need not ask either.
template <class Real>
void SparseRows<Real>::distances_to_sparse(const Real* center, const SquareNorm& norm, double* out,
                                           int n_threads) const {
    std::vector<unsigned char> support(d_);
    for (std::size_t j = 0; j < d_; ++j)
        support[j] = center[j] != 0;
    over_rows(n_, worthwhile_threads(n_, operations(1.0), n_threads), 1,
              [&](std::size_t, std::size_t begin, std::size_t end) {
                  for (std::size_t i = begin; i < end; ++i) {
                      const SparseRow<Real> x = row(i);
                      unsigned met = 0;
                      for (std::size_t e = 0; e < x.count; ++e)
                          met |= support[static_cast<std::size_t>(x.columns[e])];
                      if (met == 0) {
                          out[i] = with_uncovered(squares_[i], norm, 0.0, 0.0);
                          continue;
                      }
                      double acc = 0.0, high = 0.0, low = 0.0;
                      for (std::size_t e = 0; e < x.count; ++e) {
                          const auto c = static_cast<double>(center[x.columns[e]]);
                          const double difference = static_cast<double>(x.values[e]) - c;
                          acc = acc + difference * difference;
                          if (c != 0.0) cover(c, high, low);
                      }
                      out[i] = with_uncovered(acc, norm, high, low);
                  }
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
        for (std::size_t i = begin; i < end; ++i) {
            if (second != nullptr) {
                const auto two = screen.two_nearest(i);
                labels[i] = two.label;
                nearest[i] = two.nearest;
                second[i] = two.second;
                continue;
            }
            const auto verdict = screen.nearest(i);
            const auto k = static_cast<std::size_t>(verdict.label);
            labels[i] = verdict.label;
            nearest[i] = verdict.decided
                             ? canonical_distance(row(i), centers.center(k), centers.norm(k))
                             : verdict.nearest;
        }
    });
}

template class SparseRows<float>;
template class SparseRows<double>;

} // namespace wolfmeans
