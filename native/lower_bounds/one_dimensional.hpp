// The best K-means clustering of points on a line, by dynamic programming: its value alone.
#pragma once

#include <cstddef>

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
// O(K n) time, O(n) memory.
Optimum one_dimensional(const double* x, const double* weights, std::size_t n, std::size_t K);

} // namespace wolfmeans
