// The sketch of a set of points (sketch.hpp) and the reach of each point's nearest seed in it. Many
// columns are stored as bytes, few as float32, for which bytes would be too coarse.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/fused/sketch.hpp"

namespace wolfmeans {

// Covers the float32 roundings listed in sketch.hpp and those made here, at most 8 u each way,
// and the canonical distance's own, (d + 2) 2^-53.
inline constexpr float sketch_margin = 1.0f + 0x1p-19f;

// To float32, infinite when too large.
inline float rounded_float(double value) {
    return value < std::numeric_limits<float>::max() ? static_cast<float>(value)
                                                     : std::numeric_limits<float>::infinity();
}

// Some of the points as candidates, in the layout of the kernels.
class SketchedCandidates {
    template <class Real>
    friend class PointSketch;
    std::size_t count_ = 0;
    std::vector<std::int32_t> words_;
    std::vector<float> floats_;
    SketchCandidates packed_{};
};

template <class Real>
class PointSketch {
public:
    // X (n, d) row-major belongs to the caller. The sketch's origin and scale come from a sample:
    // they affect how much is rejected, not whether a rejection is right.
    PointSketch(const Real* X, std::size_t n, std::size_t d);

    // Draw the rows begin..end-1; begin is a multiple of sketch_block.
    void draw(std::size_t begin, std::size_t end);

    // Row's nearest seed is at the canonical squared distance `closest`.
    void set_closest(std::size_t row, double closest) {
        // Squares of smaller numbers underflow in float32.
        constexpr float least_reach = 1e-15f;
        const float distance = rounded_float(std::sqrt(closest) * static_cast<double>(factor_));
        reach_[row] = (distance + error_[row]) * sketch_margin + least_reach;
    }

    // Make candidates of rows that are drawn, at most most_candidates of them.
    void choose(const std::size_t* rows, std::size_t count, SketchedCandidates& candidates) const;

    // survivors (end - begin, rounded up to blocks) OUT: bit t is set unless candidate t is
    // certainly no closer to the row than its nearest seed.
    void screen(std::size_t begin, std::size_t end, const SketchedCandidates& candidates,
                unsigned char* survivors) const;

private:
    void find_scale();
    void draw_bytes(std::size_t first, unsigned char* scratch);
    void draw_floats(std::size_t first);

    const Real* X_;
    std::size_t n_, d_;
    std::size_t columns_; // in the sketch
    bool as_floats_;
    std::size_t width_; // floats of a point, or quads of bytes
    const SketchVersion* version_;
    std::vector<Real> origin_;
    Real factor_ = 1;
    std::vector<float> floats_;
    std::vector<unsigned char> bytes_;
    std::vector<std::int32_t> squares_;
    std::vector<float> error_;
    std::vector<float> reach_;
};

} // namespace wolfmeans
