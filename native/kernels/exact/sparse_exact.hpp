// Kernels over the coordinates of all centers of a sparse assignment, built once per vector unit:
// |c|^2 in double length, the packing for the screen, and exact means. Nothing here may be fused.
#pragma once

#include <stdint.h>

#include "kernels/by_real.hpp"

namespace wolfmeans {

// Centers worked on together, one per lane.
inline constexpr int center_group = 8;

// A sum over stored entries for each of center_group pairs of a row and a center.
struct CoveredSums {
    double distance[center_group]; // (x_j - c_j)^2
    double high[center_group];     // c_j^2 as high + low
    double low[center_group];
};

// Continue the sums over `count` entries, in the order of operations of the specification
// (SparseKernels in engines/reference.py, to the last bit). Entries of x = c = 0 change nothing.
//
//   x, c  IN  (count, center_group) float64
using CoverEntries = void(const double* x, const double* c, int64_t count, CoveredSums& sums);

// |c|^2 as high + low, continued over `count` columns: low collects what rounding took from high,
// then the remainder of the square (SquaredCenters in engines/reference.py, to the last bit).
//
//   columns    IN      (count, center_group) float64: the centers transposed
//   high, low  IN/OUT  (center_group,)
using SquareNorms = void(const double* columns, int64_t count, double* high, double* low);

// Sums over columns of a group of centers, all scaled by f (see sparse_screen.hpp), in plain
// float64: each is off by at most (d + 4) 2^-53 of the sum of the sizes of its terms.
struct GroupSums {
    double offset[center_group]; // (c - o)(c + o) f^2
    double around[center_group]; // |c - o|^2 f^2
    double square[center_group]; // |c|^2 f^2
};

// Pack `count` columns of a group for the screen and continue its sums.
//
//   columns  IN   (count, center_group) float64
//   origin   IN   (count,) float64: o f
//   factor   IN   f
//   packed   OUT  center_group numbers float32 for each column, `stride` apart
using PackCenters = void(const double* columns, const double* origin, double factor, int64_t count,
                         float* packed, int64_t stride, GroupSums& sums);

// |(now - before) f|^2 over d coordinates, off by at most (d + 4) 2^-53 of itself; then before
// becomes now.
template <class Real>
using StepSquared = double(const Real* now, Real* before, double factor, int64_t d);

// sum / divisor, rounded once, and the residual, for d sums of at most 2^100 in size.
//
//   words      IN   two's complement, n_words = 1 or 2 of 64 bits, lowest first, `stride` apart
//   divisor    IN   an integer, 1 <= divisor < 2^24
//   scale      IN   2^e by which means and residuals are multiplied, |e| <= 900
//   means      OUT  (d,) the quotients rounded to float64, then to Real
//   residuals  OUT  (d,) float64: exact quotient less the means
//   undecided   OUT  columns whose quotient is too near the middle of two numbers; they must be
//   computed otherwise. Room for d.
//
// Returns how many are undecided. Why the others are right: with a sum S = h + l (h the sum
// rounded, l exact) and any q within a few units of S / N, h - q N is exact when computed by halves
// of q, and so is r = (h - q N) + l; r / N is then one rounding away from S / N - q. If adding a
// little more than r / N to q gives q again, q is the number nearest to S / N.
template <class Real>
using DivideWords = int64_t(const uint64_t* words, int n_words, int64_t stride, int64_t d,
                            double divisor, double scale, Real* means, double* residuals,
                            int32_t* undecided);

template <class Real>
struct SparseFunctions {
    StepSquared<Real>* step;
    DivideWords<Real>* divide;
};

struct SparseExactVersion : ByReal<SparseFunctions> {
    CoverEntries* cover;
    SquareNorms* square_norms;
    PackCenters* pack;
};

} // namespace wolfmeans
