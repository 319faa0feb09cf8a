// The sketch: a small, coarse copy of the points that proves, for most pairs of a point and a
// candidate seed, that the candidate is no closer than the seeds. Built once per vector unit. It
// rejects only what is certain; the rest is evaluated canonically (reach.hpp). Points are stored as
// y = (x - o) f, with an origin o within the data and a factor f, either as float32 or as bytes q =
// y rounded and clipped to -128..127. The error, at most e_x in the Euclidean norm, is stored with
// each point, so that by the triangle inequality f |x - c| >= |q_x - q_c| - e_x - e_c. A point
// whose nearest seed is at distance r is unaffected if |q_x - q_c| >= f r + e_x + e_c.
#pragma once

#include "kernels/by_real.hpp"

namespace wolfmeans {

// Points in a block, the unit of layout.
inline constexpr int sketch_block = 16;
// Candidates screened together, at most.
inline constexpr int most_candidates = 8;
// Further columns are left out of the bytes (a distance over some columns is a lower bound
// as well), so that no sum of products reaches 2^31.
inline constexpr long long most_sketch_columns = 16384;

// The candidates of a screen.
//
//   values    bytes: (quads, count, words) int32, four signed bytes of a candidate in a form that
//             depends on the vector unit; floats: (d, count) float32
//   constant  bytes: |q_c|^2 + 256 * sum of q_c
//   error     e_c, rounded up
struct SketchCandidates {
    const void* values;
    int constant[most_candidates];
    float error[most_candidates];
};

// Screen whole blocks of points against `count` candidates.
//
//   points     IN   bytes: (blocks, quads, sketch_block, 4) uint8, q + 128, 0 where there is no
//                   column; floats: (blocks, d, sketch_block) float32
//   squares    IN   (blocks * sketch_block,) int32: |q_x|^2; unused with floats
//   reach      IN   (blocks * sketch_block,) float32: f r + e_x, rounded up with a margin
//   width      IN   quads or d
//   survivors  OUT  (blocks * sketch_block,): bit t is set unless candidate t is rejected
//
// Rounding: a candidate is rejected when S >= b * b, S = |q_x - q_c|^2 and b = reach + error in
// float32. With bytes S is an exact integer, rounded once to float32. With floats it is off by at
// most (d + 4) u of itself, u = 2^-24, fused or not. b * b is off by 3 u. A reach with a margin of
// 2^-19 covers both for d <= 4.
using SketchScreen = void(const void* points, const int* squares, const float* reach,
                          long long blocks, long long width, const SketchCandidates& candidates,
                          unsigned char* survivors);

// Make the bytes of one block.
//
//   rows     IN   sketch_block pointers to rows of d coordinates
//   scratch  OUT  (sketch_block, 4 * quads) bytes of working space
//   bytes    OUT  (quads, sketch_block, 4) uint8
//   squares  OUT  (sketch_block,) |q|^2
//   lost     OUT  (sketch_block,) |y - q|^2 in float32 over the d columns, off by at most (d + 4) u
//                 of itself, for a y that is off by at most 3 u of itself
template <class Real>
using SketchPack = void(const Real* const* rows, const Real* origin, Real factor, long long d,
                        unsigned char* scratch, unsigned char* bytes, int* squares, float* lost);

template <class Real>
struct SketchFunctions {
    SketchPack<Real>* pack;
};

struct SketchVersion : ByReal<SketchFunctions> {
    // Indexed by the number of candidates.
    SketchScreen* bytes[most_candidates + 1];
    SketchScreen* floats[most_candidates + 1];
    // How many int32 a candidate's four bytes take: 1 as they are, 2 as two pairs of int16 (bytes
    // 0 and 2, bytes 1 and 3), 4 as an int32 each.
    int words;
};

} // namespace wolfmeans
