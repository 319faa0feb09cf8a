// Means from exact sums, fast: quotients of integers of up to 105 bits by a weight of up to 50,
// correctly rounded, with residuals. Built once per vector unit. Specification:
// mean_and_residual in exact/sums.py; exact_ratio.hpp does the same without limits.
#pragma once

#include <stdint.h>

#include "kernels/by_real.hpp"

namespace wolfmeans {

inline constexpr int most_quotient_limbs = 3;
inline constexpr int most_weight_bits = 50;

// Divide the sums of one cluster by its weight.
//
//   limbs      IN   (n_limbs, d): the integer T_j is the sum over l of limbs[l][j] * 2^(l * bits),
//                   limbs less than 2^62 in size; n_limbs is part of the function's name
//   bits       IN   8..48
//   weight     IN   an integer W, 1 <= W < 2^50
//   scale      IN   a power of two between 2^-700 and 2^700
//   means      OUT  (d,) T_j / W * scale, rounded to float64, then to Real
//   residuals  OUT  (d,) what these roundings dropped: the float64 mean less the mean, plus the
//   exact
//                   quotient less the float64 mean, rounded
//   undecided   OUT  (d,) not 0 where the result is uncertain and must be computed otherwise
//
// Returns whether any is undecided.
//
// Why it is exact. For |T| < 2^105 there are float64 hi + lo = T with lo at most half a unit of hi.
// m = fl(q + fl((hi - q W + lo) / W)), q = fl(hi / W) or near it, is the rounded quotient or beside
// it. The remainder T - m W is computed exactly: m W as product and error (Dekker); hi - m W is a
// multiple of the unit of m, at most 2.5 W times it, so float64 holds it, W being less than 2^50;
// and if m is the rounded quotient, T - m W is at most half a unit of m times W, a multiple of that
// unit or of 1, whichever is less, and below 2^53 times it, so float64 holds that too. If the
// remainder is 0, or less than W times half the distance from m to the next smaller number, then m
// is the rounded quotient; if it is not (a tie or a wrong guess), this shows, rounding being
// monotonic, and the column is undecided. The residual is remainder / W, one division, rounded
// once.
template <class Real>
using DivideSums = bool(const int64_t* limbs, int64_t d, int bits, double weight, double scale,
                        Real* means, double* residuals, int64_t* undecided);

template <class Real>
struct QuotientFunctions {
    DivideSums<Real>* by_two_limbs;
    DivideSums<Real>* by_three_limbs;
};

struct QuotientVersion : ByReal<QuotientFunctions> {};

} // namespace wolfmeans
