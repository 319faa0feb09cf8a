// Steps of the centers to means or to the directions of means, with their shift and movement, in
// one pass over the centers; and a digest of the centers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace wolfmeans {

struct CenterStep {
    double shift;    // sum of squared shifts (c' - c)^2
    double movement; // sum of W_k max((c' - c)((c' - c) + 2 r), 0), r the residual
};

// The step from centers c to means c', clusters of no weight left out. Every term is rounded to
// float64 operation by operation, sums are exact and rounded once (specification:
// specified_step in engines/arithmetic.py).
//
//   means, centers  IN  (K, d)
//   residuals       IN  (K, d) float64
//   weights         IN  (K,) float64
//   n_threads       IN  at most so many threads, >= 1; fewer when the work is small
//
// Throws std::overflow_error when a sum is not finite.
template <class Real>
CenterStep center_step(const Real* means, const Real* centers, const double* residuals,
                       const double* weights, std::size_t K, std::size_t d, int n_threads);

// The step from unit centers to the directions of the means: spherical K-means. A center stays
// where its direction gains nothing, or where its mean is 0. Movement is in squared distances;
// every operation is rounded to float64 by itself, sums are exact and rounded once (specification:
// turn in core/spherical.py and unit_rows in exact/directions.py).
//
//   centers    IN      (K, d) of norm 1
//   weights    IN      (K,) float64
//   found      IN/OUT  (K, d) the means; then the new centers
//   residuals  IN/OUT  (K, d) float64: exact mean minus `found`; then direction minus new center,
//                      infinite where a mean is 0, and 0 where there is no weight
//   n_threads  IN      at most so many threads, >= 1; fewer when the work is small
template <class Real>
CenterStep turn(const Real* centers, const double* weights, Real* found, double* residuals,
                std::size_t K, std::size_t d, int n_threads);

// A 128-bit hash: different bytes give different values except with a chance of about 2^-100. Not
// cryptographic.
std::array<std::uint64_t, 2> digest(const void* bytes, std::size_t size);

} // namespace wolfmeans
