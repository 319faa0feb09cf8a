// The vicinity: which points of a group have one of some centers near enough, each center's
// distance taken times a factor of its own. Built once per vector unit.
//
// Like scan.hpp, the translation units of this header include nothing from the standard library.
#pragma once

#include "scan.hpp"

namespace wolfmeans {

//   points   IN   (d, group_size) float64, 64-byte aligned: the group transposed
//   centers  IN   (K, d) float64, row-major
//   d        IN   number of coordinates
//   list     IN   (count,) the centers to look at
//   factors  IN   (count,)
//   reach    IN   (group_size,)
//
// Returns bit p for each point with D_k * factor_k <= reach[p] for some k of the list; D is the
// canonical distance (scan.hpp), the product is rounded once.
using Vicinity = unsigned(const double* points, const double* centers, long long d,
                          const int* list, const double* factors, long long count,
                          const double* reach);

extern Vicinity* const vicinity_baseline;
extern Vicinity* const vicinity_avx2;
extern Vicinity* const vicinity_avx512;

} // namespace wolfmeans
