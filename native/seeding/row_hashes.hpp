// Hashes of rows by their values, and the samples that they decide: those of k-means|| and of the
// multilevel start. Specification: hashing.py, and `below` and `sums_in_buckets` in sampling.py.
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

// The rows whose uniforms, by the key, are below the limits of their buckets; a bucket is the
// `bits` highest bits of the hash.
//
//   hashes  IN   (n,)
//   limits  IN   (2^bits,), 0 <= bits < 64
//   rows    OUT  (n,) of which the first ones, in ascending order
// Returns how many there are.
std::size_t rows_below(const std::uint64_t* hashes, std::size_t n, std::uint64_t key,
                       const double* limits, int bits, int n_threads, std::int64_t* rows);

// The sums, by bucket, of masses times 2^shift, each rounded down. Returns false if one of them is
// negative or above 2^62 / (n + 1), so that the sums could have no room.
//
//   hashes   IN   (n,)
//   masses   IN   (n,)
//   weights  IN   (n,) factors of the masses, or null
//   shift    IN   of -2000..2000
//   sums     OUT  (2^bits,)
bool bucket_masses(const std::uint64_t* hashes, std::size_t n, const double* masses,
                   const double* weights, int shift, int bits, int n_threads, std::int64_t* sums);

} // namespace wolfmeans
