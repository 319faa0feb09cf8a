// Points in the order of a space-filling curve, cut into cells: the leaves of a tree and the wider
// nodes above them. Nothing here decides a label, so nothing here has to be exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace wolfmeans {

// A tree over points in order. Level 0 are the leaves; the nodes of each level above hold
// consecutive nodes of the level below.
struct SpaceOrder {
    std::vector<std::uint32_t> rows; // (n,) the points' rows, in order
    // starts[0][l] is the first point of leaf l, starts[v][m] the first child of node m of level v;
    // one more entry at the end of each says where the last one ends.
    std::vector<std::vector<std::uint32_t>> starts;
};

// Order the rows of X and cut them into cells of at most capacities[v] points at level v.
//
//   X           IN  (n, d) row-major, finite, magnitudes and their differences below 2^500; n <
//   2^32 capacities  IN  increasing, the first >= 1
//
// Cells are halves of halves of the points' box, always across the widest side (a Morton order
// whose axes take turns by width). A cell whose keys are all the same and that is still too large
// gets a box and keys of its own, so that outliers and nested clusters do not spoil the order;
// copies of one point are cut anywhere.
template <class Real>
SpaceOrder order_in_space(const Real* X, std::size_t n, std::size_t d,
                          const std::vector<std::size_t>& capacities);

} // namespace wolfmeans
