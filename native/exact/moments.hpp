// Exact cluster weights W_k and sums S_kj = sum of w_i x_ij, kept up to date by moves, and the
// means made of them (docs/design.md: sums, the exactness contract). Specification: class Moments
// in engines/moments.py, to the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact/cluster_sums.hpp"
#include "exact/exact_ratio.hpp"

namespace wolfmeans {

// Sums and weights of K clusters as integers; refers to the memory of another object.
struct MomentLimbs {
    Grid sums_grid, totals_grid;
    std::size_t d;
    const std::int64_t* sums;   // (K, sums_grid.all_limbs(), d), each less than 2^62 in size
    const std::int64_t* totals; // (K, totals_grid.all_limbs()), likewise
};

// Round the weights, the means and the residuals of some clusters; others are left as they are.
//
//   clusters   IN   which
//   weights    OUT  (K,) float64: W_k, rounded once
//   means      OUT  (K, d): S_kj / W_k, rounded to float64, then to Real; untouched without weight
//   residuals  OUT  (K, d) float64: what these roundings dropped; untouched without weight
template <class Real>
void round_moments(const MomentLimbs& limbs, const std::vector<std::size_t>& clusters,
                   int n_threads, double* weights, Real* means, double* residuals);

template <class Real>
class Moments {
public:
    //   X          IN  (n, d) row-major, finite; kept
    //   weights    IN  (n,) float64 or null: all 1; kept
    //   K          IN  number of clusters, >= 1, all of them empty at first
    //   n_threads  IN  at most so many threads, >= 1; fewer when the work is small
    //   given      IN  ranges that contain the numbers; null: their own
    //
    // Reads X and weights once; throws std::invalid_argument if a number is not finite or not
    // within the given ranges. Memory: (limbs + 1) * K * d integers; in deposits as many again for
    // each further thread, but no more than a fourth of the rows' number of coordinates.
    Moments(const Real* X, std::size_t n, std::size_t d, const double* weights, std::size_t K,
            int n_threads, const SumRanges* given = nullptr);

    // Add row i to cluster labels[i], for all rows. Labels are in 0..K-1 (checked by the caller).
    void add_all(const std::int32_t* labels);

    // Take row rows[i] out of cluster from[i] and add it to cluster to[i], for i = 0..count-1.
    void move(const std::int64_t* rows, const std::int32_t* from, const std::int32_t* to,
              std::size_t count);

    // The current clusters. Those without changes since the last call are not computed again.
    //
    //   fallback   IN   (K, d): the mean of a cluster of no weight, its residual is 0
    //   weights    OUT  (K,) float64: W_k, rounded once
    //   means      OUT  (K, d): S_kj / W_k, rounded to float64, then to Real
    //   residuals  OUT  (K, d) float64: what these roundings dropped
    void means(const Real* fallback, double* weights, Real* means, double* residuals);

    // The sums and weights themselves, carried: equal sums are equal integers. Valid until the
    // next deposit.
    MomentLimbs limbs();

    // Refer to the same numbers at another address.
    void rebind(const Real* X, const double* weights) {
        sums_.rebind(X, weights);
        if (weighted_) weight_sums_.rebind(weights, nullptr);
    }

    std::size_t n_points() const { return n_; }
    std::size_t n_features() const { return d_; }
    std::size_t n_clusters() const { return K_; }

private:
    template <class Deposit>
    void spread(std::size_t count, const Deposit& deposit);
    void carry_account(std::int64_t* account) const;
    void count_rows(const std::vector<std::int64_t>& gained, std::int64_t* account) const;
    MomentLimbs account_limbs() const;

    std::size_t n_, d_, K_;
    int n_threads_;
    bool weighted_;
    ClusterSums<Real> sums_;
    ClusterSums<double> weight_sums_;
    Grid totals_grid_;
    std::size_t n_sums_;
    // First the sums (K, limbs + 1, d), n_sums_ integers; then the totals (K, limbs + 1).
    std::vector<std::int64_t> account_;
    std::size_t deposits_ = 0; // rows since the last carry
    std::vector<unsigned char> stale_;
    std::vector<double> rounded_weights_;
    std::vector<Real> rounded_means_;
    std::vector<double> residuals_;
};

} // namespace wolfmeans
