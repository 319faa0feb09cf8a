// The cost of exchanging one center for a data point (Lattanzi & Sohler 2019), for many points and
// all centers at once. Specification: engines/swaps.py, to the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact/exact_sum.hpp"
#include "kernels/exact/reach.hpp"
#include "seeding/point_sketch.hpp"

namespace wolfmeans {

template <class Real>
class Swaps {
public:
    // X IN (n, d) row-major and weights IN (n,) or null, both finite, 1 <= n < 2^32; neither is
    // copied, and both must outlive this.
    Swaps(const Real* X, std::size_t n, std::size_t d, const double* weights, int n_threads);
    Swaps(const Swaps&) = delete;
    Swaps& operator=(const Swaps&) = delete;

    // Set the centers to exchange: centers IN (K, d), K >= 1.
    void set_centers(const Real* centers, std::size_t K);

    // For each data point, find the best center to replace by it.
    //
    //   rows      IN   (count,) the data points
    //   removals  OUT  (count,) the center of the smallest change, the lowest index of several
    //   changes   OUT  (count,) the exact sum of all terms fl(w D) at the nearest center after the
    //                  exchange less those before it, rounded once
    void changes(const std::int64_t* rows, std::size_t count, std::int32_t* removals,
                 double* changes);

    std::size_t n_points() const { return n_; }
    std::size_t n_clusters() const { return K_; }
    // The nearest center of each point, the distance to it, and that to the second nearest.
    const std::vector<std::int32_t>& labels() const { return labels_; }
    const std::vector<double>& nearest() const { return nearest_; }
    const std::vector<double>& second() const { return second_; }
    // The exact sum of fl(w D) at the nearest centers, rounded once.
    double cost() const { return cost_; }

private:
    // The pairs of a point and a candidate that is closer than the point's second nearest center,
    // found by one thread, and approximate sums over them.
    struct Found {
        std::vector<std::uint32_t> rows[most_candidates];
        std::vector<double> distances[most_candidates];
        double gains[most_candidates];
        std::vector<double> savings; // (K, most_candidates)
    };

    double mass(std::size_t row, double distance) const {
        return weights_ ? weights_[row] * distance : distance;
    }
    void evaluate_group(const std::size_t* rows, std::size_t count, std::int32_t* removals,
                        double* changes);
    void evaluate_tile(std::size_t begin, std::size_t end, const double* packed, std::size_t width,
                       Found& found);
    void choose_removal(std::size_t t, std::int32_t& removal, double& change) const;
    double exact_change(std::size_t t, std::int32_t k) const;

    const Real* X_;
    std::size_t n_, d_;
    const double* weights_;
    int n_threads_;
    PointSketch<Real> sketch_;
    SketchedCandidates sketched_;
    std::size_t K_ = 0;
    std::vector<std::int32_t> labels_;
    std::vector<double> nearest_, second_;
    double cost_ = 0.0;
    std::vector<ExactSum> losses_;        // (K,) of taking a center away
    std::vector<double> rounded_losses_;  // the same
    std::vector<unsigned char> improved_; // (n,) scratch of the reach kernel
    std::vector<Found> found_;            // by thread
};

} // namespace wolfmeans
