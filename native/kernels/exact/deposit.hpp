// Deposits: rows of data, times their weights, into exact sums kept as integers in limbs. The inner
// loop of the moments, built once per vector unit, by the rules of kernels/lanes.hpp.
#pragma once

#include <stdint.h>

#include "kernels/by_real.hpp"

namespace wolfmeans {

inline constexpr int most_fast_limbs = 6;
// Rows of one cluster that are added up before they go to memory.
inline constexpr int run_group = 8;
// Rows of at most so many columns may be added as narrow ones.
inline constexpr int most_narrow = 64;

// How a term t becomes integers: t is the sum over l of q_l * 2^e_l, with |q_l| <= 2^(bits - 1),
// where e_0 is the top limb's exponent and e_l = e_(l-1) - bits.
//
// magic[l] = 1.5 * 2^(52 + e_l). Adding it rounds to a multiple of 2^e_l, and the result's bits
// less those of magic[l] are that multiple: q_l. Its difference from the term is exact and goes on
// to the next limb. The grid is such that nothing is left after the last: every term is a multiple
// of 2^e_(limbs-1) and at most 2^(e_0 + bits - 1) in size.
//
// Instead of magic[l] itself anything may be added to that is magic[l] plus a multiple of 2^e_l of
// less than 2^51 times its size: it rounds at the same place. So sums of a few terms can grow on
// top of magic[l]. With bits <= 46, run_group rows, two terms a row, stay within 2^49.
//
// With weights, the term is (weights[i] * weight_scale) * x. The scale is a power of two that
// brings all products below 1; it cannot lose a bit, nor can the product's remainder vanish.
template <class Real>
struct Rows {
    const Real* X;         // (n, d) row-major
    int64_t n, d;          // rows, columns
    const double* weights; // (n,) or null
    double weight_scale;
    double magic[most_fast_limbs];
    int64_t stride; // from one cluster's sums to the next: at least limbs * d
    int limbs;      // 1..most_fast_limbs
};

// Add rows to the sums of one cluster, or take them away.
//
//   indices   IN      (count,) which rows
//   later     IN      (count,) rows to be fetched into the cache meanwhile, for later calls
//   negative  IN      whether they are taken away
//   to        IN/OUT  limb l (0 is the lowest here) of column j at [l * d + j]
//
// Exact: every term enters as integers. The caller keeps count of the deposits, so that no limb
// overflows: a row adds at most 2^bits to a limb.
template <class Real>
using AddRun = void(const Rows<Real>&, const int64_t* indices, const int64_t* later, int64_t count,
                    bool negative, int64_t* to);

// Take row indices[i] out of cluster from[i] and add it to cluster to[i], for i = first..last-1.
//
//   sums    IN/OUT  limb l (0 is the lowest here) of column j of cluster k at
//                   [k * stride + l * d + j]
template <class Real>
using MoveRows = void(const Rows<Real>&, const int64_t* indices, const int32_t* from,
                      const int32_t* to, int64_t first, int64_t last, int64_t* sums);

// The same for narrow rows, in another layout: registers are not cut at the end of a row, and
// magic is left in. `width` is what narrow_width(d) says, d <= most_narrow.
//
//   labels  IN      label of row i at [i]
//   sums    IN/OUT  limb l (0 is the highest here) of column j of cluster k at
//                   [(k * limbs + l) * width + j], modulo 2^64, plus the bits of magic[l] once for
//                   every row added and less them for every row taken away; twice for l > 0 with
//                   weights. Columns from d on mean nothing.
template <class Real>
using AddNarrowRows = void(const Rows<Real>&, const int32_t* labels, int64_t first, int64_t last,
                           int64_t* sums);

// The largest |x|, the smallest that is not 0, and a lower bound, at most one bit too low, of the
// lowest bit set in any x (the last two are infinite when all are 0). `finite` is false when an x
// is not; the rest then means nothing.
struct Extent {
    double largest;
    double smallest;
    double lowest_bit;
    bool finite;
};

// Of float32 numbers the same without the lowest bit, in half the time or less: it is 0 here.
using SizesOf = Extent(const float* values, int64_t n);

// The sum of float64 terms by way of block_limbs integers.
//
//   terms   IN   (n,) at most 2^(e_0 + bits - 1) in size, n <= most_block_terms
//   magic   IN   (block_limbs,) as above, bits = block_bits
//   limbs   OUT  (block_limbs,) the integers, the highest first
//
// Returns whether the integers are all of the sum: nothing of a term was left below the last.
inline constexpr int block_limbs = 3;
inline constexpr int block_bits = 42;
inline constexpr int64_t most_block_terms = 1024; // 2^10 * 2^41 in one lane is 2^51
using SumTerms = bool(const double* terms, int64_t n, const double* magic, int64_t* limbs);

// The largest |term|; NaN or infinite when a term is (which of them is not said).
using LargestTerm = double(const double* terms, int64_t n);

// One for each number of limbs, at [limbs - 1].
template <class Real>
struct DepositsByLimbs {
    AddRun<Real>* add_run[most_fast_limbs];
    MoveRows<Real>* move[most_fast_limbs];
    AddNarrowRows<Real>* add_narrow[most_fast_limbs];
    MoveRows<Real>* move_narrow[most_fast_limbs];
};

template <class Real>
struct DepositFunctions {
    Extent (*extent)(const Real* values, int64_t n);
    int64_t (*narrow_width)(int64_t d);
    DepositsByLimbs<Real> by_limbs[2]; // [weighted]
};

struct DepositVersion : ByReal<DepositFunctions> {
    SizesOf* sizes;
    LargestTerm* largest_term;
    SumTerms* sum_terms;
};

} // namespace wolfmeans
