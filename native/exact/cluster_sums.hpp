// Sums over the rows of each cluster, exactly: how the numbers of X (times weights) become integers
// in limbs, and how the limbs are added, carried and read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact/exact_ratio.hpp"
#include "kernels/exact/deposit.hpp"

namespace wolfmeans {

struct ValueRange {
    bool finite;     // whether no value is NaN or infinite
    double smallest; // the smallest nonzero magnitude, 0 when there is none
    double largest;  // the largest magnitude; means nothing unless finite
};

// values IN (size,). The result does not depend on n_threads.
template <class Real>
ValueRange value_range(const Real* values, std::size_t size, int n_threads);

// Every number is a multiple of 2^low and less than 2^high in size; low == high when all are 0.
struct ExponentRange {
    int low = 0;
    int high = 0;

    bool covers(const ExponentRange& other) const {
        return other.low == other.high || (low <= other.low && other.high <= high);
    }
};

// The range of an array; throws std::invalid_argument when a number is not finite.
template <class Real>
ExponentRange exponent_range(const Real* values, std::size_t n, int n_threads);

// The ranges of rows and of weights. Sums over several arrays have the same grid, and can be
// added, when they are all made with the ranges of all of them together.
struct SumRanges {
    ExponentRange rows;
    ExponentRange weights;
};

// Where the integers of a sum stand: limb l (0 the lowest) counts 2^(low + l * bits). Above the
// limbs that terms reach there is one more, for carries alone.
struct Grid {
    int low;
    int bits;
    int limbs;
    // So many terms may be added to a sum before its limbs must be carried.
    std::size_t terms_before_carry;

    std::size_t all_limbs() const { return static_cast<std::size_t>(limbs) + 1; }
    std::size_t words() const { return words_for(all_limbs(), bits); }
};

// Adds rows to sums. The sums are int64 arrays of shape (K, grid().all_limbs(), d) that the caller
// keeps, one in all or one for each thread. Integers are added, so the order does not matter.
template <class Real>
class ClusterSums {
public:
    ClusterSums() = default;

    //   X          IN  (n, d) row-major, finite; kept
    //   weights    IN  (n,) float64 or null: all 1; kept
    //   given      IN  ranges that contain the numbers; null: their own
    // Reads X once to find the range of exponents, and takes as many limbs as that needs: up to six
    // are summed by vector kernels, more by a plain loop. Throws std::invalid_argument if a number
    // is not finite or not within the given range.
    ClusterSums(const Real* X, std::size_t n, std::size_t d, const double* weights, int n_threads,
                const SumRanges* given = nullptr);

    // Add the rows begin..end-1 to the clusters labels[begin..end-1].
    //
    //   gained  IN      (K,) how many rows each cluster gains
    //   sums    IN/OUT  (K, grid().all_limbs(), d)
    void add(const std::int32_t* labels, std::size_t begin, std::size_t end,
             const std::vector<std::int64_t>& gained, std::int64_t* sums) const;

    // Take row rows[i] out of cluster from[i] and add it to cluster to[i], for i = begin..end-1;
    // gained and sums as above, a loss counts as less than 0.
    void move(const std::int64_t* rows, const std::int32_t* from, const std::int32_t* to,
              std::size_t begin, std::size_t end, const std::vector<std::int64_t>& gained,
              std::int64_t* sums) const;

    const Grid& grid() const { return grid_; }

    // Refer to the same numbers at another address.
    void rebind(const Real* X, const double* weights) {
        rows_.X = X;
        rows_.weights = weights;
    }

private:
    void use_fast_kernels(int top);
    bool narrow() const;
    template <class Deposit>
    void with_raw_sums(const std::vector<std::int64_t>& gained, std::int64_t* sums,
                       const Deposit& deposit) const;
    void add_runs(const std::int64_t* rows, const std::int32_t* labels, std::size_t count,
                  std::size_t K, bool negative, std::int64_t* sums) const;
    std::size_t rows_per_block(std::size_t K) const;
    void deposit(std::size_t row, std::int32_t k, bool negative, std::int64_t* sums) const;

    Rows<Real> rows_{};
    Grid grid_{};
    const DepositFunctions<Real>* fast_ =
        nullptr; // null if there are too many limbs for the vector kernels
};

// The grid of sums of ones: a counter.
Grid counting_grid();

// Bring every limb but the highest of sums (K, grid.all_limbs(), d) to at most 2^(bits - 1) in
// size. The sums stay what they are.
void carry(const Grid& grid, std::size_t K, std::size_t d, std::int64_t* sums);

} // namespace wolfmeans
