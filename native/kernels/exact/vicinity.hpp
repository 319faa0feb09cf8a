// The vicinity: how near the nearest of some centers is to the points of a group, each center's
// distance taken times a factor of its own. Built once per vector unit.
#pragma once

#include "kernels/exact/scan.hpp"

namespace wolfmeans {

//   points   IN   (d, group_size) float64, 64-byte aligned: the group transposed
//   centers  IN   (K, d) float64, row-major
//   d        IN   number of coordinates
//   list     IN   (count,) the centers to look at
//   factors  IN   (count,)
//   least    OUT  (group_size,) for each point the smallest D_k * factor_k over the list, infinite
//                 when that is empty
//
// D is the canonical distance (scan.hpp), the product is rounded once.
using Vicinity = void(const double* points, const double* centers, long long d, const int* list,
                      const double* factors, long long count, double* least);

struct VicinityVersion {
    Vicinity* least;
};

} // namespace wolfmeans
