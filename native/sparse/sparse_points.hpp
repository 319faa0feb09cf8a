// Labelled sparse rows with bounds: the exact nearest-center assignment of points.hpp for CSR data,
// never made dense.
//
// The same strict filters come before the canonical distance: bounds carried from step to step
// (Hamerly 2010), then the screen (sparse_screen.hpp). Undecided rows are decided by canonical
// distances to the centers that the screen could not rule out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "assignment/change.hpp"
#include "sparse/sparse_centers.hpp"
#include "sparse/sparse_rows.hpp"

namespace wolfmeans {

template <class Real>
class SparsePoints {
public:
    // weights IN (n,) or null, finite; neither they nor the rows are copied.
    SparsePoints(const SparseRows<Real>& rows, const double* weights, int n_threads);

    // Give every row the label of its nearest center, ties to the lowest index.
    //
    //   centers  IN   (K, d) row-major
    //   bounded  IN   whether bounds may skip rows
    //
    // The first assignment changes every label and has no gap. K stays the same.
    Change assign(const Real* centers, std::size_t K, bool bounded, const Forced& forced);

    bool has_labels() const { return !labels_.empty(); }
    const std::vector<std::int32_t>& labels() const { return labels_; }

private:
    class Worker;

    bool cannot_change(float upper, float lower) const;
    bool worth_bounding() const;

    const SparseRows<Real>& rows_;
    const double* weights_;
    int n_threads_;
    std::optional<SparseCenters<Real>> centers_;
    float apart_ = 0.0f; // allowance for canonical rounding, see cannot_change
    std::vector<std::int32_t> labels_;
    std::vector<float> upper_; // (n,) at least the scaled distance to the own center
    std::vector<float> lower_; // (n,) at most the scaled distance to any other center
};

} // namespace wolfmeans
