// The linear minimization oracle: each point to its nearest center (docs/design.md: labels, the
// exactness contract), and the canonical distance of each point to the center of its label.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exact/exact_sum.hpp"

namespace wolfmeans {

// Label each point with the lowest k that minimizes the canonical distance.
//
//   X        IN   (n, d) float32 or float64, row-major, finite
//   centers  IN   (K, d) same dtype, row-major, finite, K >= 1
//   labels   OUT  (n,) int32
//   nearest  OUT  (n,) float64: canonical distance to centers[labels[i]]
//   second   OUT  (n,) float64 or null: smallest canonical distance to any other center, +inf when
//                 K == 1
//   n_threads  IN  at most so many threads, >= 1; fewer when the work is small
//
// Invariant: what is written for row i depends on row i and the centers alone, so neither the
// threads nor the blocks below can change a bit.
// Rounding: coordinates are converted to float64 (exactly); distances are canonical, see scan.hpp.
template <class Real>
void assign(const Real* X, std::size_t n, std::size_t d, const Real* centers, std::size_t K,
            std::int32_t* labels, double* nearest, double* second, int n_threads);

// The canonical distance of each point to the center of its label.
//
//   X        IN   (n, d) float32 or float64, row-major, finite
//   centers  IN   (K, d) same dtype, row-major, finite
//   labels   IN   (n,) int32, each in 0..K-1 (checked by the caller)
//   out      OUT  (n,) float64
//   n_threads  IN  at most so many threads, >= 1; fewer when the work is small
//
// Invariant and rounding as above: out == nearest when labels are those of `assign`.
template <class Real>
void distances(const Real* X, std::size_t n, std::size_t d, const Real* centers, std::size_t K,
               const std::int32_t* labels, double* out, int n_threads);

// The exact sum of the float64 terms fl(w_i D_i) over the distances D_i to the centers of the
// labels, rounded once; arguments as above, weights (n,) float64 or null: all 1. Throws as TermSum.
template <class Real>
double cost(const Real* X, std::size_t n, std::size_t d, const double* weights, const Real* centers,
            std::size_t K, const std::int32_t* labels, int n_threads);

// The same, not rounded; throws std::overflow_error when a term is not finite.
template <class Real>
ExactSum exact_cost(const Real* X, std::size_t n, std::size_t d, const double* weights,
                    const Real* centers, std::size_t K, const std::int32_t* labels, int n_threads);

// The Euclidean distances of all points to all centers.
//
//   X, n, d, centers, K, n_threads  IN  as above
//   out  OUT  (n, K): float64 square roots of canonical distances, rounded to Real
template <class Real>
void roots(const Real* X, std::size_t n, std::size_t d, const Real* centers, std::size_t K,
           Real* out, int n_threads);

} // namespace wolfmeans
