// The centers of an assignment of sparse rows: packed for the screen, with |c|^2 for canonical
// distances and what the bounds need. Kept from step to step, so that only centers that have moved
// are packed again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "assignment/packed_centers.hpp"
#include "kernels/exact/sparse_exact.hpp"
#include "kernels/fused/sparse_screen.hpp"
#include "sparse/sparse_rows.hpp"

namespace wolfmeans {

// |c|^2 of each of the centers (K, d), in double length.
template <class Real>
std::vector<SquareNorm> square_norms(const Real* centers, std::size_t K, std::size_t d,
                                     int n_threads);

template <class Real>
class SparseCenters {
public:
    SparseCenters(const SparseRows<Real>& rows, std::size_t K);

    // Take centers IN (K, d); they are copied.
    void move_to(const Real* centers, int n_threads);

    // Error bound of a score for a row of `entries` stored entries, including the rounding of the
    // canonical distances that it stands for.
    double error(std::size_t entries, double norm) const;

    // Error bound of a canonical distance times f^2, beyond 2^-20 of itself.
    double absolute_error() const { return absolute_error_; }

    // Error bound of a squared distance computed from |x|^2, x.c and |c|^2, or from |x - o|^2 and a
    // score.
    double cancellation(double norm) const;

    // The largest drift of any center but this one.
    float drift_of_others(std::size_t own) const { return largest_drifts_.without(own); }

    const SparseScreenVersion& version() const { return version_; }
    const SparseExactVersion& exact() const { return exact_; }
    SparsePair<Real> pair(std::size_t i, std::size_t k) const {
        return {rows_.row(i), center(k), &norms_[k]};
    }
    std::size_t K() const { return K_; }
    std::size_t padded() const { return offsets_.size(); }
    const Real* center(std::size_t k) const { return centers_.data() + k * rows_.d(); }
    double square(std::size_t k) const { return squares_[k]; }
    float drift(std::size_t k) const { return drifts_[k]; }
    bool screenable() const { return screenable_; }
    const float* packed() const { return packed_.data(); }
    const float* offsets() const { return offsets_.data(); }

private:
    void pack_group(std::size_t group, const Real* centers);
    void summarize();

    const SparseRows<Real>& rows_;
    const SparseScreenVersion& version_;
    const SparseExactVersion& exact_;
    std::size_t K_;
    bool first_ = true;
    std::vector<Real> centers_;     // (K, d) as given
    std::vector<SquareNorm> norms_; // (K,) canonical
    Aligned<float> packed_;
    std::vector<float> offsets_;  // (padded,)
    std::vector<double> arounds_; // (K,) |c - o|^2 f^2
    std::vector<double> squares_; // (K,) |c|^2 f^2
    std::vector<float> drifts_;   // (K,) scaled distance each center has moved, rounded up
    bool screenable_ = true;
    double largest_norm_ = 0.0, largest_offset_ = 0.0, absolute_error_ = 0.0; // rounded up
    double reach_ = 0.0; // a center's norm plus twice the origin's
    LargestDrifts largest_drifts_;
};

// Screens rows one after another, with scratch of its own: one for each thread.
template <class Real>
class RowScreen {
public:
    RowScreen(const SparseRows<Real>& rows, const SparseCenters<Real>& centers);

    struct Verdict {
        std::int32_t label;
        bool decided;        // whether the screen was enough
        double upper, lower; // bounds on the squared scaled distances: own, and any other's
    };

    // The lowest nearest center of row i.
    Verdict nearest(std::size_t i);

    // The lowest nearest centers of the rows first..first+count-1 and the canonical distances to
    // them and, unless null, to the nearest other.
    void two_nearest(std::size_t first, std::size_t count, std::int32_t* labels, double* nearest,
                     double* second);

private:
    double screen(std::size_t i);
    void consider(std::size_t i, double most);
    const double* distances();

    const SparseRows<Real>& rows_;
    const SparseCenters<Real>& centers_;
    std::vector<float> values_; // the row, scaled
    std::vector<float> scores_;
    ScreenedRow found_{};
    std::vector<SparsePair<Real>> pairs_;  // to be evaluated canonically
    std::vector<std::int32_t> candidates_; // the centers of these pairs
    std::vector<double> distances_;
};

} // namespace wolfmeans
