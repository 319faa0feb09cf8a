// Labelled points with bounds: the exact nearest-center assignment, fast.
// Two filters come before the canonical distance. Both are strict, so neither can hide a tie:
// bounds on distances carried from step to step (Hamerly 2010) skip a point whose label cannot
// change; the float32 screen (screen.hpp) decides a label when the best score wins by more than
// twice its rounding bound. Undecided points are decided by canonical distances to all centers, so
// the labels are always those of the canonical distances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "assignment/bounds.hpp"
#include "assignment/center_groups.hpp"
#include "assignment/change.hpp"
#include "assignment/packed_centers.hpp"
#include "assignment/worker.hpp"
#include "kernels/fused/screen.hpp"

namespace wolfmeans {

// Whether rows of many columns have bounds for groups of centers: from the first step on, or while
// they save time. The labels do not depend on it.
enum class Grouping { always, timed };

template <class Real>
class Points {
public:
    // X IN (n, d) row-major and weights IN (n,) or null, both finite; neither is copied, and both
    // must outlive the points.
    Points(const Real* X, std::size_t n, std::size_t d, const double* weights, int n_threads,
           Grouping grouping = Grouping::timed);
    Points(const Points&) = delete;
    Points& operator=(const Points&) = delete;
    ~Points();

    // Give every point the label of its nearest center, ties to the lowest index.
    //
    //   centers  IN   (K, d) row-major
    //   bounded  IN   whether bounds may skip points
    //
    // The first assignment, and one with another K, changes every label and has no gap.
    Change assign(const Real* centers, std::size_t K, bool bounded, const Forced& forced);

    // Adopt labels that were found elsewhere for K centers; no distances are known.
    void adopt(const std::int32_t* labels, const Real* centers, std::size_t K, bool bounded);

    // The rows whose bounds do not exclude that the distances to their own and to the nearest other
    // center differ by at most 2 slack (1 + slack / the larger one) plus the rounding of canonical
    // distances. All rows if the bounds refer to other centers.
    //
    //   centers  IN   (K, d)
    //   slack    IN   >= 0, not scaled
    std::vector<std::int64_t> near_ties(const Real* centers, std::size_t K, double slack) const;

    // Refer to the same numbers at another address.
    void rebind(const Real* X, const double* weights) {
        X_ = X;
        weights_ = weights;
    }

    // Free what only a step needs; the next step allocates it again.
    void release_scratch() { workers_.clear(); }

    bool has_labels() const { return !labels_.empty(); }
    // The first n entries are the labels; the rest pads a block of bounds.
    const std::vector<std::int32_t>& labels() const { return labels_; }

private:
    void begin(const Real* centers, std::size_t K, bool bounded);
    void group(const Real* centers, std::size_t K);
    void ungroup();
    void choose_grouping(const Real* centers, std::size_t K);
    void send_scout(const Real* centers, std::size_t K);
    bool add_drifts(PackedCenters<Real>& centers, bool bounded);
    void note_time(double seconds, bool bounded, double share);
    double open_share() const;
    bool worth_bounding(double share) const;
    double ungrouped_seconds(double share) const;

    const Real* X_;
    std::size_t n_, d_;
    const double* weights_;
    int n_threads_;
    Grouping grouping_;
    const ScreenVersion& version_;
    Frame<Real> frame_;
    double largest_norm_ = 0.0; // of x' in a sample
    std::vector<std::int32_t> labels_;
    std::vector<Real> previous_; // (K, d) the centers of the last step
    Bounds bounds_;
    std::optional<CenterGroups> groups_; // for many columns: bounds by group
    CodedBounds coded_;
    // A few of the rows, which always have bounds by group: what these would save.
    struct Scout;
    std::unique_ptr<Scout> scout_;
    std::size_t screened_ = 0; // in the last step
    // Times of the last steps without and with bounds; the share of points undecided in the latter.
    double seconds_dense_ = 0.0, seconds_bounded_ = -1.0, share_bounded_ = 0.0;
    double seconds_grouped_ = -1.0; // of the last step with bounds by group; -1 before the second
    std::size_t patience_ = 1, waited_ = 0; // steps without groups: to wait for, and so far
    std::vector<std::unique_ptr<Worker<Real>>> workers_;
};

} // namespace wolfmeans
