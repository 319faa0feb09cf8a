// Deposits: rows of data, times their weights, into exact sums kept as integers in limbs. The inner
// loop of the moments, built once per vector unit.
//
// The translation units that define these functions are compiled for instructions the machine may
// not have. As with the scan they include nothing of the standard library but names of integers.
#pragma once

#include <stdint.h>

namespace wolfmeans {

inline constexpr int most_fast_limbs = 6;

// How a term t becomes integers: t is the sum over l of q_l * 2^e_l, with |q_l| <= 2^(bits - 1),
// where e_0 is the top limb's exponent and e_l = e_(l-1) - bits.
//
// magic[l] = 1.5 * 2^(52 + e_l). Adding it rounds to a multiple of 2^e_l, and the result's bits
// less those of magic[l] are that multiple: q_l. Its difference from the term is exact and goes on
// to the next limb. The grid is such that nothing is left after the last: every term is a multiple
// of 2^e_(limbs-1) and at most 2^(e_0 + bits - 1) in size, bits <= 42.
//
// With weights, the term is (weights[i] * weight_scale) * x. The scale is a power of two that
// brings all products below 1; it cannot lose a bit, nor can the product's remainder vanish.
template <class Real>
struct Rows {
    const Real* X;         // (n, d) row-major
    int64_t d;             // columns
    const double* weights; // (n,) or null
    double weight_scale;
    double magic[most_fast_limbs];
    int64_t stride; // from one cluster's sums to the next: at least limbs * d
};

// Add the rows first..last-1 to the sums of their labels.
//
//   labels  IN      label of row i at [i]
//   sums    IN/OUT  limb l (0 is the lowest here) of column j of cluster k at
//                   [k * stride + l * d + j]
//
// Exact: every term enters as integers. The caller keeps count of the deposits, so that no limb
// overflows: a row adds at most 2^bits to a limb.
template <class Real>
using AddRows = void(const Rows<Real>&, const int32_t* labels, int64_t first, int64_t last,
                     int64_t* sums);

// Take row rows[i] out of cluster from[i] and add it to cluster to[i], for i = first..last-1.
template <class Real>
using MoveRows = void(const Rows<Real>&, const int64_t* rows, const int32_t* from,
                      const int32_t* to, int64_t first, int64_t last, int64_t* sums);

// The largest |x| and a lower bound, at most one bit too low, of the lowest bit set in any x
// (infinity when all are 0). `finite` is false when an x is not.
struct Extent {
    double largest;
    double lowest_bit;
    bool finite;
};

template <class Real>
struct DepositFunctions {
    Extent (*extent)(const Real* values, int64_t n);
    AddRows<Real>* add[2][most_fast_limbs]; // [weighted][limbs - 1]
    MoveRows<Real>* move[2][most_fast_limbs];
};

struct DepositVersion {
    DepositFunctions<float> single_precision;
    DepositFunctions<double> double_precision;
};

extern const DepositVersion deposit_baseline;
extern const DepositVersion deposit_avx2;
extern const DepositVersion deposit_avx512;

} // namespace wolfmeans
