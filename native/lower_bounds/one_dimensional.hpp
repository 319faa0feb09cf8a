// The best K-means clustering of points on a line, by dynamic programming.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wolfmeans {

// A value, and a bound on its error.
struct Optimum {
    double value;
    double error;
};

// The smallest weighted SSE of K clusters.
//
//   x        IN  (n,) finite, ascending
//   weights  IN  (n,) positive; or null: all 1
//   K        IN  >= 1
//
//   firsts   OUT (K,) the first point of each cluster of a best clustering, ascending; or null: only
//            the value. All 0 where the value is not known, or K is at least the number of distinct
//            points.
//
// O(K n) time, O(n) memory; 4 K n bytes more for the clusters.
Optimum one_dimensional(const double* x, const double* weights, std::size_t n, std::size_t K,
                        std::int64_t* firsts = nullptr);

} // namespace wolfmeans
