// Labelled points with bounds: the exact nearest-center assignment, fast.
//
// Three filters stand before the canonical distance, each strict, so that none can hide a tie:
// bounds on distances carried from step to step (Hamerly 2010) skip a point whose label cannot
// change; the float32 screen (screen.hpp) decides a label when the best score wins by more than
// twice its rounding bound; whatever is left is decided by canonical distances to all centers.
// The labels are therefore those of the canonical distances, whatever the filters let through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "change.hpp"
#include "packed_centers.hpp"
#include "screen.hpp"

namespace wolfmeans {

template <class Real>
class Points {
public:
    // X IN (n, d) row-major and weights IN (n,) or null, both finite; neither is copied, and both
    // must outlive the points.
    Points(const Real* X, std::size_t n, std::size_t d, const double* weights, int n_threads);

    // Give every point the label of its nearest center, ties to the lowest index.
    //
    //   centers  IN   (K, d) row-major
    //   bounded  IN   whether bounds may skip points
    //
    // The first assignment, and one with another K, changes every label and has no gap.
    Change assign(const Real* centers, std::size_t K, bool bounded, const Forced& forced);

    bool has_labels() const { return !labels_.empty(); }
    const std::vector<std::int32_t>& labels() const { return labels_; }

private:
    class Worker;

    bool worth_bounding(const PackedCenters<Real>& centers) const;

    const Real* X_;
    std::size_t n_, d_;
    const double* weights_;
    int n_threads_;
    const ScreenVersion& version_;
    Frame<Real> frame_;
    std::vector<std::int32_t> labels_;
    std::vector<float> upper_;   // (n,) at least the scaled distance to the own center
    std::vector<float> lower_;   // (n,) at most the scaled distance to any other center
    std::vector<Real> previous_; // (K, d) the centers that upper_ and lower_ speak of
};

} // namespace wolfmeans
