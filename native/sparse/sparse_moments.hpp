// Exact cluster weights W_k and sums S_kj = sum of w_i x_ij of sparse rows, kept up to date by
// moves, and the means made of them (specification: class Moments in engines/moments.py, to the
// last bit). Only stored entries are added.
//
// A sum is one integer in two's complement, in as many words of 64 bits as the exponents of the
// data and the number of entries need: usually one or two. Clusters are dealt out to threads, each
// with all of its moves, so no sum is ever shared or copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact/cluster_sums.hpp"
#include "exact/exact_ratio.hpp"
#include "kernels/exact/sparse_exact.hpp"
#include "sparse/sparse_rows.hpp"

namespace wolfmeans {

template <class Real>
class SparseMoments {
public:
    //   rows       IN  kept
    //   weights    IN  (n,) float64, none negative, or null: all 1; kept
    //   K          IN  number of clusters, >= 1, all of them empty at first
    // Reads the data once; throws std::invalid_argument if a number is not finite.
    // Memory: words * K * d words and K * d means and residuals.
    SparseMoments(const SparseRows<Real>& rows, const double* weights, std::size_t K,
                  int n_threads);

    // Add row i to cluster labels[i], for all rows. Labels are in 0..K-1.
    void add_all(const std::int32_t* labels);

    // Take row rows[i] out of cluster from[i] and add it to cluster to[i], for i = 0..count-1.
    void move(const std::int64_t* rows, const std::int32_t* from, const std::int32_t* to,
              std::size_t count);

    // The current clusters.

    //
    //   fallback   IN   (K, d): the mean of a cluster of no weight, its residual is 0
    //   weights    OUT  (K,) float64: W_k, rounded once
    //   means      OUT  (K, d): S_kj / W_k, rounded to float64, then to Real
    //   residuals  OUT  (K, d) float64: what these roundings dropped
    void means(const Real* fallback, double* weights, Real* means, double* residuals) const;

private:
    // Terms are multiples of 2^low and less than 2^high; sums of them fit into so many words.
    struct Range {
        int low = 0;
        int high = 1;
        std::size_t words = 1;
    };
    struct Move {
        std::int64_t row;
        bool leaves;
    };

    static Range range_of(const ExponentRange& numbers) {
        if (numbers.low == numbers.high) return {};
        return {numbers.low, numbers.high, 1};
    }
    void update(const std::vector<std::size_t>& starts, const std::vector<Move>& moves);
    void deposit(std::size_t k, const Move& move);
    void refresh(std::size_t k);
    std::size_t divide_short(std::size_t k, const Word* weight, std::int32_t* columns);
    void divide(std::size_t k, std::size_t j, Divisor& divisor, Word* words);

    const SparseRows<Real>& rows_;
    const double* weights_;
    std::size_t K_, d_;
    int n_threads_;
    const SparseExactVersion& exact_;
    Range range_, weight_range_;
    bool short_sums_ = false;  // whether the vector kernel's conditions on sums are met
    std::vector<Word> sums_;   // (K, words, d)
    std::vector<Word> totals_; // (K, words)
    std::vector<double> rounded_weights_;
    std::vector<Real> means_;
    std::vector<double> residuals_;
};

} // namespace wolfmeans
