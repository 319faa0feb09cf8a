// The screen: fast approximate scores in float32 that decide most labels, built once per vector
// unit. Undecided points are rechecked canonically (assignment/worker.hpp), so any rounding within
// the bound stated below is allowed.
//
// The score of point x and center c is s = |c'|^2 / 2 - x'.c', with x' = (x - o) f and
// c' = (c - o) f for a fixed origin o within the data and a power of two f that brings the data to
// a size whose squares float32 can hold: half the squared distance, less |x'|^2 / 2, which is the
// same for all centers.
#pragma once

#include "kernels/by_real.hpp"

namespace wolfmeans {

// The state of the screen of one point.
//
// Invariant over the centers screened so far: best is the smallest score, label its index (the
// lowest among equals), second the smallest score over all other indices.
struct ScreenState {
    float* best;
    float* second;
    int* label;
};

// Screen `tiles` tiles of points against all packed centers and update their states.
//
//   points   IN   (tiles, d, tile_points) float32, 64-byte aligned: x' by tile, transposed
//   centers  IN   (K / tile_centers, d, tile_centers) float32: c' by tile, transposed
//   half_norms IN (K,) float32: |c'|^2 / 2; a huge value for the filling of the last tile
//   K        IN   number of packed centers, a multiple of tile_centers
//   state    IN/OUT  one entry a point
//
// Rounding: products and sums are float32, fused or not, in any order. With u = 2^-24 a score is
// off by at most (d + 4) u (|c'|^2 / 2 + |x'| |c'|), the rounding of x', c' and half_norms included
// (dot product of d terms and one start value: d + 1; each factor rounded once: 2; one to spare).
using Screen = void(const float* points, long long tiles, const float* centers,
                    const float* half_norms, long long d, long long K, ScreenState state);

// Pack one tile of points.
//
//   rows     IN   tile_points pointers to rows of d coordinates
//   origin   IN   (d,) in the precision of the rows
//   factor   IN   a power of two
//   points   OUT  (d, tile_points) float32: x', off by at most u of itself
//   norms    OUT  (tile_points,) float32: |x'|^2, off by at most (d + 2) u of itself
template <class Real>
using Pack = void(const Real* const* rows, const Real* origin, Real factor, long long d,
                  float* points, float* norms);

// The squared distance of two rows times factor^2, off by at most distance_terms u of itself.
template <class Real>
using Distance = float(const Real* x, const Real* c, Real factor, long long d);

// Bring rows to the screen without transposing them.
//
//   row      IN   d coordinates
//   points   OUT  (d,) float32: x', off by at most u of itself
//
// Returns |x'|^2, off by at most 2 distance_terms u of itself.
template <class Real>
using Shift = float(const Real* row, const Real* origin, Real factor, long long d, float* points);

// Centers screened together in a group: the lanes of the kernel below.
inline constexpr int group_width = 16;

// Screen `count` rows against one group of centers.
//
//   rows     IN   count pointers to x' of d coordinates each
//   centers  IN   (d, group_width) float32: c' of the group, transposed
//   half_norms IN (group_width,) float32: |c'|^2 / 2; a huge value for lanes without a center
//   first_lane IN number of lane 0 of the group
//   state    IN/OUT  one entry a row, labels being lanes
//
// Rounding: as for Screen, with group_terms in place of d + 4, because the coordinates are summed
// in blocks.
using GroupScreen = void(const float* const* rows, long long count, const float* centers,
                         const float* half_norms, long long d, int first_lane, ScreenState state);

// Error bound of a score for a point of norm r: constant + linear r + square r^2, rounded up.
struct ErrorTerms {
    float constant, linear, square;
    float norm; // of a squared norm, relative
};

// Decide points by their scores.
//
//   squares  IN   (n,) |x'|^2 as packed
//   best, second  IN  (n,) scores
//   upper    OUT  (n,) at least the scaled distance to the best center
//   lower    OUT  (n,) at most the scaled distance to any other; -1 where the best score does not
//                 win by more than both scores may be off
using Verdict = void(const float* squares, const float* best, const float* second, long long n,
                     const ErrorTerms& error, float* upper, float* lower);

// spare[i] = slack[i] - spent[labels[i]], rounded once, for one block of bounds (bounds.hpp);
// returns the smallest.
inline constexpr int bounds_block = 16;
using Spare = float(const int* labels, const float* slack, const float* spent, float* spare);

// Lower bounds of distances as 16-bit multiples of a unit, for groups of centers.
//
//   squares  IN   (n,) |x'|^2
//   off      IN   (n,) error bound of |x'|^2 + 2 s, rounded up
//   scores   IN   (n,) the smallest score of the group
//   path     IN   added to the bound (bounds.hpp), rounded down
//   per_unit IN   one over the unit
//   bounds   OUT  (n,) at most (the distance to any center of the group (1 - 2^-19) + path)
//   per_unit
using Encode = void(const float* squares, const float* off, const float* scores, long long n,
                    float path, float per_unit, unsigned short* bounds);

// Compare the bounds of one point, less the paths since, with its distance to its own center.
//
//   bounds   IN   (G,) as encoded
//   paths    IN   (G,) paths of the centers of each group, rounded up
//   separation IN (G,) at most the distance of the own center to any other center of the group
//   needed   OUT  (G,) whether the group may hold a center at a distance of at most upper
// Returns the smallest current bound; a bound exceeds upper by more than their rounding where the
// group is not needed.
using Needs = float(const unsigned short* bounds, const float* paths, const float* separation,
                    long long n_groups, float unit, float upper, unsigned char* needed);

// The bounds of points (bounds.hpp) and the tables that update them, for Tighten.
template <class Real>
struct BoundsView {
    const Real* X;       // (n, d)
    const Real* centers; // (K, d)
    long long d;
    Real factor;
    float rounding;                   // of a squared distance, relative, upwards
    const int* labels;                // (n,)
    float *upper, *slack;             // (n,) IN/OUT
    const float *path, *spent, *near; // (K,) rounded up, up and down by 2^-22 at most
};

// Compute the distance of rows to their own centers, tighten their bounds with it, and keep the
// rows that are still undecided.
//
//   rows     IN/OUT  `count` row numbers; on return the undecided ones come first // Returns how
//   many are undecided.
template <class Real>
using Tighten = long long(const BoundsView<Real>& bounds, unsigned* rows, long long count);

// Functions of rows, for either precision.
template <class Real>
struct RowFunctions {
    Pack<Real>* pack;
    Distance<Real>* distance;
    Shift<Real>* shift;
    Tighten<Real>* tighten;
};

struct ScreenVersion : ByReal<RowFunctions> {
    Screen* screen;
    GroupScreen* group;
    Verdict* verdict;
    Spare* spare;
    Encode* encode;
    Needs* needs;
    int tile_points;
    int tile_centers;
    int sums; // partial sums of a distance, side by side
};

// Coordinates that GroupScreen sums at once; those of a group stay in the first-level cache.
inline constexpr long long coordinates_at_once = 256;

// The roundings on the way of one coordinate into a squared distance: 4 for the difference, its
// conversion and its square, the rest for sums: of its own partial sum, of what is left over after
// whole registers (each halving one fold and one term, 3 numbers at the end), and of the partial
// sums. Likewise into a score of GroupScreen: its block, the blocks, the chains of a block.
inline double distance_terms(const ScreenVersion& version, long long d) {
    return static_cast<double>(d / version.sums) + 24.0;
}
inline double group_terms(long long d) {
    const long long block = d < coordinates_at_once ? d : coordinates_at_once;
    return static_cast<double>(block + d / coordinates_at_once) + 16.0;
}

inline constexpr int most_tile_points = 64;

} // namespace wolfmeans
