// The screen of sparse rows: fast approximate scores in float32 that decide most labels, built once
// per vector unit. Undecided rows are rechecked canonically (sparse/sparse_points.cpp), so any
// rounding within the bound stated below is allowed.
//
// The score of row x and center c is s = b - x'.c', with x' = x f, c' = (c - o) f and
// b = (|c|^2 - |o|^2) f^2 / 2, for a fixed origin o within the data and a power of two f that
// brings the data to a size whose squares float32 can hold: half the squared distance less |x -
// o|^2 f^2 / 2, which is the same for all centers. Only stored entries of x take part; the origin
// makes c' small where all centers agree.
#pragma once

namespace wolfmeans {

// Registers of scores that are summed at once: centers are packed by so many.
inline constexpr int block_registers = 8;

struct ScreenedRow {
    float best;   // the smallest score
    float second; // the smallest score over all indices other than label
    int label;    // the lowest index of the smallest score
};

// Score one row against all packed centers.
//
//   values     IN   (count,) float32: x', stored entries only
//   columns    IN   (count,) where they stand
//   centers    IN   float32, 64-byte aligned: c' in blocks of block_registers * lanes centers (the
//                   last one of what is left), each block (d, its centers) row-major
//   offsets    IN   (K,) float32: b; a huge value for the filling of the last block
//   d          IN   number of columns
//   K          IN   number of packed centers, a multiple of lanes
//   scores     OUT  (K,) float32
//
// Rounding: products and sums are float32, fused or not, in any order. With u = 2^-24 and m stored
// entries a score is off by at most (m + 6) u (|b| + |x'| |c'|) (1 + (m + 6) u), the rounding of
// x', c' and b included: a sum of m + 1 terms, m; an unfused product, 1; x', c' and b rounded once
// to float32, 3, of which c' was once rounded to float64 before; two to spare.
using SparseScreen = ScreenedRow(const float* values, const int* columns, long long count,
                                 const float* centers, const float* offsets, long long d,
                                 long long K, float* scores);

struct SparseScreenVersion {
    SparseScreen* screen;
    int lanes;
};

} // namespace wolfmeans
