// The vicinity: the smallest distance of each point of a group to some centers, each center's
// distance times a factor of its own. Built once per vector unit.
#pragma once

#include "kernels/exact/scan.hpp"

namespace wolfmeans {

//   points   IN   (d, group_size) float64, 64-byte aligned: the group transposed
//   centers  IN   (K, d) float64, row-major
//   d        IN   number of coordinates
//   list     IN   (count,) indices of the centers
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
