// Points in spatial order, scaled to float32, under a shallow tree of boxes: what boxes.hpp walks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace wolfmeans {

template <class Real>
struct BoxTree {
    // The nodes of one level.
    struct Level {
        std::vector<std::uint32_t> starts; // (nodes + 1,) see SpaceOrder
        std::vector<float> boxes;          // (nodes, box_floats(d)) see narrow.hpp
        std::size_t size() const { return starts.size() - 1; }
    };

    // X IN (n, d) row-major, finite, n < 2^32; not kept.
    BoxTree(const Real* X, std::size_t n, std::size_t d, int n_threads);

    // x' of one coordinate, off by at most 1.01 u of itself (and 2^-149).
    float scaled(Real x, std::size_t j) const {
        return static_cast<float>((static_cast<double>(x) - origin[j]) * factor);
    }

    const float* box(std::size_t level, std::size_t node) const;
    // The first leaf of a node; that of the node behind the last one is the number of leaves.
    std::size_t first_leaf(std::size_t level, std::size_t node) const;

    std::size_t d;
    std::vector<double> origin; // (d,) within the data
    double factor = 1.0;        // a power of two that brings the data to about 2^10
    // Whether distances in float32 and in float64 neither overflow nor vanish; else there is no
    // order and there are no boxes.
    bool usable;

    std::vector<std::uint32_t> rows; // (n,) of the points in order
    std::unique_ptr<float[]> points; // x' in order, each leaf (d, its points)
    std::vector<Level> levels;       // leaves first; at least two

private:
    void choose_frame(const Real* X, std::size_t n);
    void pack_leaf(const Real* X, std::size_t leaf);
    void box_leaf(std::size_t leaf, float* sides);
    void box_nodes(std::size_t level, const std::vector<float>& below, std::vector<float>& sides);
    void put_box(const float* sides, float* box) const;
};

} // namespace wolfmeans
