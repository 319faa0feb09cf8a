// k-means++ and greedy k-means++ in one call. Specification: seeding/methods.py, with which the chosen rows
// agree whatever the vector unit and the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wolfmeans {

// Choose seeds among the rows: the first by weight, each further one the best of some trials that
// are drawn by squared distance.
//
//   X          IN   (n, d) row-major, finite, 1 <= n < 2^32
//   weights    IN   (n,) finite, not negative, not all 0; or null: all 1
//   order      IN   (n,) the rows in the order of their values (ordering.hpp)
//   draws      IN   (1 + (K - 1) * n_trials,) integers of 0..2^63-2
//   K          IN   how many seeds, >= 1
//   n_trials   IN   candidates for each seed but the first, >= 1
//   n_threads  IN   at most so many threads, >= 1
//   chosen     OUT  (K,) rows
//
// Returns how many seeds were found before all masses were 0; -1, with nothing chosen, when the
// masses are too large to be summed.
template <class Real>
std::int64_t kmeans_plus_plus(const Real* X, std::size_t n, std::size_t d, const double* weights,
                              const std::int64_t* order, const std::int64_t* draws, std::size_t K,
                              std::size_t n_trials, int n_threads, std::int64_t* chosen);

} // namespace wolfmeans
