// The trimmed oracle: nearest centers for all points, and of the points the nearest up to a mass.
// Specification: engines/trimming.py, to the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "assignment/points.hpp"
#include "exact/exact_sum.hpp"
#include "exact/moments.hpp"

namespace wolfmeans {

// The last point that a mass keeps, points taken by (distance, row). Without one, all are kept.
// In a part of the data the point may be in an earlier part (row -1) or a later one (row >= n).
struct Threshold {
    double distance;  // +inf when all points are kept
    std::int64_t row; // -1 when all points are kept
    double mass;      // what is kept of its weight

    // Whether the point is kept, wholly or in part.
    bool keeps(double of_point, std::int64_t point) const {
        return of_point < distance || (of_point == distance && point <= row);
    }
};

// Find the point that reaches the mass.
//
//   distances  IN  (n,) >= 0
//   weights    IN  (n,) >= 0 or null: all 1
//   mass       IN  > 0, a whole number without weights
//
// Exact: sums of weights are compared as they are; what is kept of the last point is the exact
// rest, rounded once. O(n) comparisons.
Threshold find_threshold(const double* distances, const double* weights, std::size_t n,
                         double mass);

template <class Real>
class TrimmedPoints {
public:
    // X IN (n, d) row-major and weights IN (n,) or null, both finite; X is not copied and must
    // outlive the points. The mass is a whole multiple of the largest power of two that all
    // weights are multiples of, so that the grid of the weights' sums also holds a part of one.
    // `given` are ranges that contain those of rows and weights; none: their own.
    TrimmedPoints(const Real* X, std::size_t n, std::size_t d, const double* weights, double mass,
                  int n_threads, std::optional<SumRanges> given = {});
    TrimmedPoints(const TrimmedPoints&) = delete;
    TrimmedPoints& operator=(const TrimmedPoints&) = delete;

    struct Step {
        std::size_t moved; // points whose label or kept mass changed
        double gap;        // exact sum of the terms of engines/trimming.py, rounded once
    };

    // Keep the nearest points, each with the label of its nearest center.
    //
    //   centers    IN   (K, d), the same K every time
    //   weights    OUT  (K,), means OUT (K, d), residuals OUT (K, d): see Moments::means
    Step assign(const Real* centers, std::size_t K, double* weights, Real* means,
                double* residuals);

    // The same in two steps, for a part of the data: the caller finds the threshold of all parts in
    // between. This finds the nearest centers; labels and sums do not change.
    //
    //   centers  IN  (K, d), the same K every time
    void find_nearest(const Real* centers, std::size_t K);
    // The distances to them, (n,).
    const std::vector<double>& nearest() const { return nearest_; }
    // Keep the points up to the threshold, at the centers of find_nearest. Returns how many moved.
    //
    //   gap  OUT  the terms of the gap are added to it
    std::size_t keep(const Threshold& now, const Real* centers, TermSum& gap);
    // Sums and weights of the K clusters; valid until the next step.
    MomentLimbs limbs() { return moments_->limbs(); }

    // Refer to the same numbers at another address.
    void rebind(const Real* X) {
        X_ = X;
        points_.rebind(X, nullptr);
        if (moments_) moments_->rebind(X, masses_.empty() ? nullptr : masses_.data());
    }

    bool has_labels() const { return moments_.has_value(); }
    const Threshold& threshold() const { return threshold_; }
    const std::vector<std::int32_t>& nearest_labels() const { return labels_; }

    // labels OUT (n,) int32: -1 for points of which nothing is kept.
    void copy_labels(std::int32_t* labels) const;
    // kept OUT (n,) float64: what is kept of each point's weight.
    void copy_kept(double* kept) const;

private:
    struct Found;
    double kept_of(std::size_t i, bool inside, const Threshold& threshold) const;
    void compare_rows(std::size_t begin, std::size_t end, const Threshold& now, const Real* centers,
                      Found& found);
    void move_threshold_point(bool out);
    void begin();
    std::size_t move(const Threshold& now, const Real* centers, TermSum& gap);

    const Real* X_;
    std::size_t n_, d_, K_ = 0;
    double mass_;
    int n_threads_;
    std::optional<SumRanges> given_;
    std::vector<double> weights_; // (n,) empty: all 1
    // (n,) like weights_, but for the last kept point: what is kept of it. The moments read this.
    std::vector<double> masses_;
    Points<Real> points_;
    std::optional<Moments<Real>> moments_; // cluster K is the trimmed part
    std::vector<std::int32_t> labels_;     // (n,) of the nearest center
    std::vector<unsigned char> inside_;    // (n,) whether anything is kept
    std::vector<double> nearest_;          // (n,) distances of find_nearest
    Threshold threshold_{};
};

} // namespace wolfmeans
