// The search for cuts of the semidefinite bound that a matrix violates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wolfmeans {

struct CutSearch {
    double near;            // j and k come from the entries z_ij > near * z_ii of row i,
    std::size_t candidates; // evenly spaced ones if they are more than this
    std::size_t per_row;    // the most violated cuts that are returned for each i
    double least;           // the least violation that counts
};

// Pairs z_ij - z_ii > least and triangles z_ij + z_ik - z_ii - z_jk > least, the most violated first.
//
//   z       IN   (n, n) symmetric
//   pairs   OUT  (n, per_row, 2) j and k, which is -1 for pairs
//   sizes   OUT  (n, per_row) by how much
//   counts  OUT  (n,) how many of a row are used
template <class Real>
void violated_cuts(const Real* z, std::size_t n, const CutSearch& search, std::int32_t* pairs,
                        float* sizes, std::int32_t* counts, int n_threads);

} // namespace wolfmeans
