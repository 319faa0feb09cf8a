// Rows divided by their norms (specification: exact/directions.py, to the last bit).
#pragma once

#include <cstddef>
#include <cstdint>

namespace wolfmeans {

// The canonical sums of squares of that many rows are computed at once.
inline constexpr std::size_t rows_at_once = 4;

// Divide rows by their norms.
//
//   rows           IN/OUT  (count, d) row-major, finite; a row of norm 0 stays as it is
//   has_direction  OUT     (count,) whether the norm is positive
//   count          IN      at most rows_at_once
//
// The sum of squares is accumulated in float64 in the order of the columns; root and quotients are
// float64, then rounded to Real. A float64 row whose largest entry is beyond 2^±300 is multiplied
// by a power of two before, and entries below 2^-200 become 0 after.
template <class Real>
void to_directions(Real* rows, std::size_t count, std::size_t d, bool* has_direction);

// Divide all rows by their norms.
//
//   values     IN   (n, d), or those of CSR rows
//   starts     IN   (n + 1,) where each CSR row begins, or null for dense rows
//   out        OUT  like values
//   n_threads  IN   at most so many threads, >= 1; fewer when the work is small
template <class Real>
void unit_rows(const Real* values, const std::int64_t* starts, std::size_t n, std::size_t d,
               Real* out, int n_threads);

} // namespace wolfmeans
