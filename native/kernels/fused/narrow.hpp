// Boxes of points against lists of centers, built once per vector unit: which centers can be
// nearest to a point of a box, and, for the few that are left, which is nearest to each point.
//
// Coordinates are scaled, x' = (x - o) f and c' = (c - o) f as in screen.hpp, each rounded once to
// float32; distances in this header are scaled as well. What is decided here is decided for the
// canonical distances too: every bound below has their rounding taken off. u = 2^-24.
//
// Rounding. Let R be the largest |x'| of the box. A distance of rounded coordinates differs from
// that of the true ones by at most 1.01 u (|x'| + |c'|), and |c'| <= |x'| + |x' - c'|. So for two
// centers at (computed or bounded) distances a and b the difference b - a is off by at most
// 4.04 u R + 1.01 u (a + b) on this account. Squared distances from d differences in float32 are
// off by (d + 3) u of themselves, roots by half of that and u, the final operations by a few u of
// a + b, canonical distances by (d + 3) 2^-53 of themselves. Together this is below
//     error + slope (a + b),   error = 4.1 u R + 2^-56,   slope = (2 d + 24) u;
// the constant outweighs all squares that vanish in float32.
#pragma once

#include "kernels/always_inline.hpp"

namespace wolfmeans {

inline constexpr int leaf_capacity = 64; // points of a leaf at most
inline constexpr int most_narrow_lanes = 16;
inline constexpr int most_vectors = 2; // arrays may be read this many registers beyond their end

WOLFMEANS_INLINE constexpr float narrow_slope(long long d) {
    return static_cast<float>(2 * d + 24) * 0x1p-24f;
}

// Some of the centers, in increasing order of their indices.
struct Candidates {
    float* coordinates; // (d, stride) c'
    float* drifts;      // (stride,) how far each has moved since the labels were given, at least
    int* indices;       // (stride,)
    long long stride;   // at least count + most_narrow_lanes
    int count;
};

// A box: middle (d,), widths (d,), diameter, error. |x'_j - middle_j| <= widths_j / 2 for all its
// points, diameter >= |widths|, error as above.
WOLFMEANS_INLINE constexpr long long box_floats(long long d) {
    return 2 * d + 2;
}

struct NarrowScratch {
    float* squares; // (K + most_narrow_lanes,)
    int* kept;      // (K + most_narrow_lanes,)
};

// Keep the candidates that matter to a box; `out` is filled. With q the candidate nearest to the
// middle, m, and D squared distances, every point x' of the box has
//     D_k(x') - D_q(x') >= D_k(m) - D_q(m) - sum_j widths_j |c'_kj - c'_qj|
// (the left side is linear in x'), and a difference of distances is one of squares divided by the
// sum of the distances, which is at most sqrt(D_k(m)) + sqrt(D_q(m)) + diameter. Candidate k is
// dropped when the difference of distances it follows exceeds drift_k + drift_q + extra strictly:
// then it is not nearest to any point of the box, and was not before it drifted.
//
// Returns the smallest difference of a dropped candidate, 2^60 when none was dropped.
using Narrow = float(const Candidates& in, const float* box, long long d, float extra,
                     const NarrowScratch& scratch, Candidates& out);

struct LeafVerdict {
    float slack; // every other center is farther than a point's nearest by at least this much,
                 // for the candidates alone
    int n_kept;  // candidates that can be nearest, listed in scratch.kept as places in the list
    bool any_undecided; // whether some label is undecided
    bool moved;         // whether some label differs from the old one
    int labels[leaf_capacity + most_narrow_lanes];
    int undecided[leaf_capacity + most_narrow_lanes]; // nonzero where undecided, if any is
};

// Label the points of a leaf.
//
//   points  IN   (d, count) float32: x'
//   count   IN   number of points, 1..leaf_capacity
//   old     IN   (count,) labels so far; whole vectors are loaded, up to most_narrow_lanes - 1 more
//
// A label is decided when its distance is the smallest by more than the rounding bound.
using LabelLeaf = void(const Candidates& in, const float* box, long long d, const float* points,
                       int count, const int* old, const NarrowScratch& scratch,
                       LeafVerdict& verdict);

struct NarrowVersion {
    Narrow* narrow[5]; // by d; the first for every other d
    LabelLeaf* label_leaf[5];
};

} // namespace wolfmeans
