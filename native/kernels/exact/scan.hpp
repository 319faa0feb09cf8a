// The scan: one group of points against one block of centers, keeping the nearest and the second
// nearest. This is the innermost loop of the engine. Built once per vector unit, by the rules of
// kernels/lanes.hpp.
#pragma once

#include "kernels/by_real.hpp"

namespace wolfmeans {

// Points scanned together: one AVX-512 register of doubles, two of AVX2, four of SSE2 and NEON.
inline constexpr int group_size = 8;

// The state of a group after some of the centers, smallest index first.
//
// Invariant, for each lane p, over the centers scanned so far: nearest[p] is the smallest canonical
// distance, label[p] the lowest index that attains it, second[p] the smallest canonical distance
// over all indices other than label[p].
struct alignas(64) GroupState {
    double nearest[group_size];
    double second[group_size];
    long long label[group_size];
};

// Scan one group against the centers first..last-1 and update its state.
//
//   points   IN   (d, group_size) float64, 64-byte aligned: the group transposed
//   centers  IN   (K, d) float64, row-major
//   d        IN   number of coordinates, >= 0
//   first, last   IN   the centers to scan, 0 <= first <= last <= K
//   state    IN/OUT   satisfies its invariant for the centers 0..first-1, afterwards for 0..last-1
//
// Rounding: the canonical distance itself, not an approximation of it. In each lane
// acc <- acc + (x_j - c_j) * (x_j - c_j) for j = 0..d-1 in this order; subtraction, product and sum
// are each rounded once to float64 (round to nearest even), so all versions give the same bits.
// Inputs are finite; a distance that overflows is +inf and compares as such.
using Scan = void(const double* points, const double* centers, long long d, long long first,
                  long long last, GroupState& state);

// The canonical distances of pairs of a row and a center, rounded as above.
//
//   rows     IN   (count,) pointers to rows of d coordinates, float32 or float64
//   centers  IN   (count,) pointers to centers of d coordinates, float64
//   count    IN   1..group_size
//   out      OUT  (count,)
template <class Real>
using PairDistances = void(const Real* const* rows, const double* const* centers, long long d,
                           int count, double* out);

// The same for two centers of each row.
template <class Real>
using TwoPairDistances = void(const Real* const* rows, const double* const* first,
                              const double* const* second, long long d, int count,
                              double* out_first, double* out_second);

// The canonical distance of each of n consecutive rows to the center of its label.
//
//   X        IN   (n, d) row-major
//   centers  IN   (K, d) float64, row-major
//   labels   IN   (n,) each in 0..K-1
//   out      OUT  (n,)
template <class Real>
using OwnDistances = void(const Real* X, long long n, long long d, const double* centers,
                          const int* labels, double* out);

// The square roots of the canonical distances of a group to the centers first..last-1, in float64,
// then rounded to Real.
//
//   points, centers, d, first, last   IN   as for Scan
//   stride IN   from one row of out to the next
//   count  IN   1..group_size: how many points of the group are real
//   out    OUT  (count, stride): the root for point p and center k at [p * stride + k]
template <class Real>
using Roots = void(const double* points, const double* centers, long long d, long long first,
                   long long last, long long stride, int count, Real* out);

// The canonical distances of a group to the centers first..last-1.
//
//   points, centers, d, first, last   IN   as for Scan
//   out    OUT  (K, group_size): the distance of point p to center k at [k * group_size + p]
using AllDistances = void(const double* points, const double* centers, long long d, long long first,
                          long long last, double* out);

// Of a group: where distance + price is smallest, the lowest index of equal ones.
struct alignas(64) PricedState {
    double least[group_size];  // fl(distance + price)
    double second[group_size]; // the smallest one over all other centers, +inf without any
    double own[group_size];    // the distance without the price
    long long label[group_size];
};

//   distances  IN   (K, group_size), 64-byte aligned, see AllDistances
//   prices     IN   (K,)
//   state      OUT
using PricedNearest = void(const double* distances, const double* prices, long long K,
                           PricedState& state);

// Which points of a group have distance - own <= limits[label, k], the difference rounded once.
//
//   distances  IN   as for PricedNearest
//   state      IN   labels and own distances
//   limits     IN   (K, K)
//   within     OUT  (K, group_size): nonzero where they have
using WithinLimits = void(const double* distances, const PricedState& state, const double* limits,
                          long long K, signed char* within);

template <class Real>
struct PairFunctions {
    PairDistances<Real>* one;
    TwoPairDistances<Real>* two;
    OwnDistances<Real>* own;
    Roots<Real>* roots;
};

// `nearest` leaves state.second alone; `two_nearest` maintains it.
struct ScanVersion : ByReal<PairFunctions> {
    Scan* nearest;
    Scan* two_nearest;
    AllDistances* all;
    PricedNearest* priced;
    WithinLimits* within;
};

} // namespace wolfmeans
