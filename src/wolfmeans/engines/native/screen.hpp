// The screen: fast approximate scores in float32 that decide most labels, built once per vector
// unit. What it cannot decide is rechecked canonically (points.cpp), so it may round as it likes
// within the bound stated below.
//
// The score of point x and center c is s = |c'|^2 / 2 - x'.c', with x' = (x - o) f and
// c' = (c - o) f for a fixed origin o amid the data and a power of two f that brings the data to a
// size whose squares float32 can hold: half the squared distance, less |x'|^2 / 2, which is the
// same for all centers.
//
// Like scan.hpp, the translation units of this header include nothing from the standard library.
#pragma once

namespace wolfmeans {

// Where the screen of one point stands.
//
// Invariant over the centers screened so far: best is the smallest score, label its index (the
// lowest among equals), second the smallest score over all other indices.
struct ScreenState {
    float* best;
    float* second;
    int* label;
};

// Screen `tiles` tiles of points against all packed centers and bring their states up to date.
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

// The squared distance of two rows times factor^2, off by at most (d + 4) u of itself.
template <class Real>
using Distance = float(const Real* x, const Real* c, Real factor, long long d);

struct ScreenVersion {
    Screen* screen;
    Pack<float>* pack_float;
    Pack<double>* pack_double;
    Distance<float>* distance_float;
    Distance<double>* distance_double;
    int tile_points;
    int tile_centers;
};

inline constexpr int most_tile_points = 64;

extern const ScreenVersion screen_baseline;
extern const ScreenVersion screen_avx2;
extern const ScreenVersion screen_avx512;

} // namespace wolfmeans
