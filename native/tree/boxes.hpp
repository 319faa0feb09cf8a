// Points in boxes: the exact nearest-center assignment for few dimensions.
//
// Points are put in spatial order once and cut into leaves with boxes, leaves into wider nodes
// (box_tree.hpp). An assignment descends with a list of centers that shrinks from node to node
// (Kanungo et al. 2002): a center is dropped if another one is nearer to every point of the box. A
// node with one center left is done; a leaf with several compares them point by point (narrow.hpp).
// Each leaf stores the margin of its labels and is skipped until the centers near it have moved
// that far. Every skip is strict, and canonical distances decide what float32 cannot, so the labels
// are always those of the canonical distances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "assignment/change.hpp"
#include "kernels/fused/narrow.hpp"
#include "tree/box_tree.hpp"

namespace wolfmeans {

template <class Real>
class Boxes {
public:
    // X IN (n, d) row-major, n < 2^32, and weights IN (n,) or null, both finite; neither is copied,
    // and both must outlive the boxes.
    Boxes(const Real* X, std::size_t n, std::size_t d, const double* weights, int n_threads);

    // Give every point the label of its nearest center, ties to the lowest index.
    //
    //   centers  IN   (K, d) row-major
    //
    // The first assignment, and one with another K, changes every label and has no gap.
    Change assign(const Real* centers, std::size_t K, const Forced& forced);

    // Refer to the same numbers at another address.
    void rebind(const Real* X, const double* weights) {
        X_ = X;
        weights_ = weights;
    }

    bool has_labels() const { return has_labels_; }
    // out OUT (n,): the labels by row.
    void copy_labels(std::int32_t* out) const;
    // How many distances from points and boxes to centers the last assignment computed.
    double n_distances() const { return n_distances_; }

private:
    class Worker;
    struct Centers;

    // A point whose label is, or was, forced. labels_ holds its nearest center nevertheless, so
    // that the descent need not treat it specially.
    struct Special {
        std::uint32_t place; // in order
        std::int32_t before; // its label before this assignment
        std::int32_t forced; // its label now, or -1: that of its nearest center
    };

    std::vector<Special> specials(const Forced& forced) const;
    Change walk(const Centers& centers, const std::vector<Special>& specials, bool first);
    Change scan_all(const Centers& centers, const std::vector<Special>& specials, bool first);
    void close(const Centers& centers, Change& change) const;

    const Real* X_;
    std::size_t n_;
    const double* weights_;
    int n_threads_;
    const NarrowVersion& version_;
    BoxTree<Real> tree_;

    bool has_labels_ = false;
    std::vector<std::int32_t> labels_; // (n + filling,) nearest centers of the points in order
    std::vector<Special> forced_;      // by place
    std::vector<Real> previous_;       // (K, d) the centers that labels_ and slack_ refer to
    // (leaves,) Every center but the nearest is farther than it from every point of the leaf, by
    // this difference of scaled distances at least; no bound where it is not positive.
    std::vector<float> slack_;
    double n_distances_ = 0.0;
};

} // namespace wolfmeans
