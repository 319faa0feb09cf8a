// Algorithm 1 on K-means from seeds to the fixed point, for studies of very many small runs: only
// the records that a study uses are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "descent/descent.hpp"

namespace wolfmeans {

struct WholeRun {
    double first_movement = 0.0; // what moving from the seeds to the first means gained
    double initial_sse = 0.0;    // f of the first partition
    std::vector<Evaluation> evaluated;
};

// Run until no label changes; an empty cluster keeps its center.
//
//   X         IN  (n, d) row-major, finite
//   seeds     IN  (K,) rows of X, the first centers (checked by the caller)
//   at_most   IN  so many points are evaluated at most
//
// The records are those of core/kmeans.py with empty="keep" and stop="stationary", bit for bit.
WholeRun run_to_rest(const double* X, std::size_t n, std::size_t d, const std::int64_t* seeds,
                     std::size_t K, std::size_t at_most, Method method);

// The sum of squares about the mean, (n - 1) tr S_n: the exact sum of the canonical distances to
// the rounded mean, rounded once.
double scatter(const double* X, std::size_t n, std::size_t d);

} // namespace wolfmeans
