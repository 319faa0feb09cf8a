// Hashes of rows by their values, which decide the draws of k-means||. Specification:
// hashing.py.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sparse/sparse_rows.hpp"

namespace wolfmeans {

// Rows of equal values have equal hashes: dense or sparse, float or double, with zeros of either
// sign, stored or not.
//
//   X       IN   (n, d) row-major, finite
//   hashes  OUT  (n,)
template <class Real>
void row_hashes(const Real* X, std::size_t n, std::size_t d, int n_threads, std::uint64_t* hashes);

template <class Real>
void row_hashes(const SparseRows<Real>& rows, int n_threads, std::uint64_t* hashes);

} // namespace wolfmeans
