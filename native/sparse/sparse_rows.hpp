// The rows of a CSR matrix, and their canonical distances to dense centers (specification:
// SparseKernels in engines/reference.py, to the last bit): acc <- acc + (x_j - c_j)(x_j - c_j) over
// the stored entries in their order, plus the part of |c|^2 that no stored entry covers; that part
// is a difference of sums, which are therefore kept in double length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/exact/sparse_exact.hpp"

namespace wolfmeans {

template <class Real>
struct SparseRow {
    const Real* values;
    const std::int32_t* columns;
    std::size_t count;
};

// |c|^2 as high + low.
struct SquareNorm {
    double high = 0.0;
    double low = 0.0;
};

// c_j^2 taken into a double-length sum, in the order of operations of the specification.
inline void cover(double c, double& high, double& low) {
    const double square = c * c;
    const double shifted = c * 134217729.0;
    const double upper = shifted - (shifted - c);
    const double lower = c - upper;
    const double remainder = ((upper * upper - square) + 2.0 * upper * lower) + lower * lower;
    const double sum = high + square;
    const double came = sum - high;
    low = low + ((high - (sum - came)) + (square - came));
    low = low + remainder;
    high = sum;
}

inline double with_uncovered(double covered_distance, const SquareNorm& norm, double high,
                             double low) {
    const double uncovered = (norm.high - high) + (norm.low - low);
    return covered_distance + (uncovered > 0.0 ? uncovered : 0.0);
}

template <class Real>
struct SparsePair {
    SparseRow<Real> row;
    const Real* center;     // (d,)
    const SquareNorm* norm; // of the center
};

// The canonical distances of pairs, several at once.
//
//   pairs  IN   (count,)
//   out    OUT  (count,)
template <class Real>
void canonical_distances(const SparsePair<Real>* pairs, std::size_t count, double* out,
                         const SparseExactVersion& version);

// The matrix, with norms for the screen of its rows (see sparse_screen.hpp).
template <class Real>
class SparseRows {
public:
    // values IN (starts[n],), columns IN alike, each column at most once in a row and within
    // 0..d-1, starts IN (n + 1,) ascending from 0; none is copied, and all must outlive the rows.
    SparseRows(const Real* values, const std::int32_t* columns, const std::int64_t* starts,
               std::size_t n, std::size_t d, int n_threads);

    SparseRow<Real> row(std::size_t i) const {
        return {values_ + starts_[i], columns_ + starts_[i],
                static_cast<std::size_t>(starts_[i + 1] - starts_[i])};
    }

    // The canonical distance of each row to the center of its label.
    //
    //   centers    IN   (K, d) row-major
    //   labels     IN   (n,) within 0..K-1
    //   out        OUT  (n,)
    void distances(const Real* centers, std::size_t K, const std::int32_t* labels, double* out,
                   int n_threads) const;

    // The lowest nearest center of each row and its canonical distance.
    //
    //   labels     OUT  (n,)
    //   nearest    OUT  (n,)
    //   second     OUT  (n,) or null: the smallest canonical distance to another index, inf if none
    void nearest(const Real* centers, std::size_t K, std::int32_t* labels, double* nearest,
                 double* second, int n_threads) const;

    // The coordinate operations of `pairs` distances for each row.
    double operations(double pairs) const {
        return pairs * (static_cast<double>(size_) + 8.0 * static_cast<double>(n_));
    }

    std::size_t n() const { return n_; }
    std::size_t d() const { return d_; }
    std::size_t size() const { return size_; }
    std::size_t longest() const { return longest_; }
    const Real* values() const { return values_; }
    double factor() const { return factor_; }
    const std::vector<double>& origin() const { return origin_; }
    double origin_square() const { return origin_square_; }
    double square(std::size_t i) const { return squares_[i]; }
    double around(std::size_t i) const { return around_[i]; }

private:
    void choose_frame(int n_threads);
    void distances_to_sparse(const Real* center, const SquareNorm& norm, double* out,
                             int n_threads) const;

    const Real* values_;
    const std::int32_t* columns_;
    const std::int64_t* starts_;
    std::size_t n_, d_, size_, longest_ = 0;
    double factor_ = 1.0;         // f, a power of two
    std::vector<double> origin_;  // (d,) o f
    double origin_square_ = 0.0;  // |o|^2 f^2
    std::vector<double> squares_; // (n,) |x|^2 f^2
    std::vector<double> around_;  // (n,) |x - o|^2 f^2
};

} // namespace wolfmeans
