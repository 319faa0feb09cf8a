// The inner loops of the neighbours bound: distances of some rows to many points, and sums over the
// near ones. Built once per vector unit.
//
// Multiplications and additions may be fused: the error bounds of neighbours.hpp hold either way.
#pragma once

namespace wolfmeans {

// Points that lie side by side in memory, coordinate by coordinate.
inline constexpr int neighbours_tile = 16;
// Rows whose distances are computed together: the more, the fewer times all tiles come from memory.
inline constexpr int neighbours_group = 16;

// Places that `gather` may write to beyond what it finds.
inline constexpr int neighbours_room = 8;

struct NearSums {
    double distance; // sum of w D over the points with D < limit
    double weight;   // sum of w over them
};

struct NeighboursVersion {
    // Squared distances of a group of rows to tiles of points.
    //
    //   tiles  IN   (n_tiles, d, neighbours_tile)
    //   x      IN   (neighbours_group, d)
    //   out    OUT  (neighbours_group, n_tiles * neighbours_tile), each with a relative error of at
    //               most (d + 3) u
    void (*distances)(const double* tiles, long long n_tiles, long long d, const double* x,
                      double* out);

    // Sums over the points with D < limit; weights (count,) or null: all 1. Terms are positive, so
    // the relative error is at most (count + 2) u.
    NearSums (*sums)(const double* distances, const double* weights, long long count, double limit);

    // Copy the distances below the limit, and their weights, in order; returns how many. Up to
    // neighbours_room more places are written to.
    long long (*gather)(const double* distances, const double* weights, long long count,
                        double limit, double* near, double* near_weights);
};

} // namespace wolfmeans
