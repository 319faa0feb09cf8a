// The lexicographic order of dense rows: draws run along it, so that they depend on the values of
// the points and not on their row numbers. Specification: lexicographic_order in ordering.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wolfmeans {

// The rows of X in lexicographic order of their entries; equal rows keep theirs, -0.0 equals 0.0.
//
//   X      IN   (n, d) row-major, finite, n < 2^32
//   order  OUT  (n,) row numbers
template <class Real>
void lexicographic_order(const Real* X, std::size_t n, std::size_t d, int n_threads,
                         std::int64_t* order);

} // namespace wolfmeans
