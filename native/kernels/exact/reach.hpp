// The reach of candidate seeds: canonical distances of chosen points to up to eight candidates at
// once, and by how much each candidate lowers the potential. Built once per vector unit.
#pragma once

#include "kernels/by_real.hpp"

namespace wolfmeans {

// Evaluate candidates at some points. //   X           IN   (n, d) row-major rows        IN
// (count,) the points, ascending
//   candidates  IN   (d, width) float64, width 4 or 8 (see ReachFunctions)
//   closest     IN   (n,) canonical distance to the nearest seed
//   weights     IN   (n,) or null: all 1
//   gains       IN/OUT  (width,): for each candidate t the sum over points with D_t < closest of
//                    fl(w closest) - fl(w D_t), each difference and each sum rounded
//   improved    OUT  (n,): improved[row] gets bit t when D_t < closest[row]
//   log         OUT  null, or room for (count + 1) * width float64: the D_t of the bits set, row by
//                    row and in the order of t
//
// Returns where the log ends, null without one. D_t is the canonical distance (scan.hpp); every
// operation is rounded by itself.
template <class Real>
using Reach = double*(const Real* X, long long d, const unsigned* rows, long long count,
                      const double* candidates, const double* closest, const double* weights,
                      double* gains, unsigned char* improved, double* log);

template <class Real>
struct ReachFunctions {
    Reach<Real>* four;  // candidates of width 4
    Reach<Real>* eight; // candidates of width 8
};

struct ReachVersion : ByReal<ReachFunctions> {};

} // namespace wolfmeans
