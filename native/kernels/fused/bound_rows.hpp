// Kernels of the bounds: decisions by scores, bounds of points against the paths of centers.
// Arguments and rounding: see screen.hpp and bounds.hpp.
#pragma once

#include "kernels/fused/rows.hpp"

namespace wolfmeans {
namespace {

// All in float32. The factors outweigh the rounding of the few operations around them, and the
// rounding of |x'|^2 + 2 s, whose terms may cancel, is added to what the score is off by.
inline void verdict(const float* squares, const float* best, const float* second, long long n,
                    const ErrorTerms& given, float* upper, float* lower) {
    const ErrorTerms error = given; // a copy that no store can change
    for (long long i = 0; i < n; ++i) {
        const float square = squares[i];
        const float norm = __builtin_sqrtf(square * (1.0f + error.norm)) * (1.0f + 0x1p-20f);
        const float off = error.constant + norm * (error.linear + norm * error.square);
        const float slack = 2.0f * off + square * error.norm;
        const float near = square + 2.0f * best[i], far = square + 2.0f * second[i];
        const float near_off = slack + 0x1p-22f * (square + 2.0f * __builtin_fabsf(best[i]));
        const float far_off = slack + 0x1p-22f * (square + 2.0f * __builtin_fabsf(second[i]));
        const float most = near + near_off, least = far - far_off;
        const bool decided = (second[i] - best[i]) * (1.0f - 0x1p-20f) > 2.0f * off;
        const float root = __builtin_sqrtf(most > 0.0f ? most : 0.0f);
        const float other = __builtin_sqrtf(least > 0.0f ? least : 0.0f);
        const float bound = other * (1.0f - 0x1p-21f) - 0x1p-60f;
        upper[i] = root * (1.0f + 0x1p-21f) + 0x1p-60f;
        lower[i] = decided ? (bound > 0.0f ? bound : 0.0f) : -1.0f;
    }
}

inline float spare(const int* labels, const float* slack, const float* spent, float* spare) {
    float least = 0x1p127f;
    for (int p = 0; p < bounds_block; ++p)
        spare[p] = slack[p] - spent[labels[p]];
    for (int p = 0; p < bounds_block; ++p)
        least = spare[p] < least ? spare[p] : least;
    return least;
}

// Distances first, then bounds for all rows at once, so that the compiler can use the lanes. The
// added terms outweigh the rounding of the sums before them.
template <int Lanes, class Real>
long long tighten(const BoundsView<Real>& given, unsigned* rows, long long count) {
    constexpr int at_once = 64;
    const BoundsView<Real> b = given; // a copy that no store can change
    float square[at_once], old_upper[at_once], old_slack[at_once];
    float new_upper[at_once], new_slack[at_once];
    float path[at_once], spent[at_once], near[at_once];
    int open[at_once];
    long long kept = 0;
    for (long long begin = 0; begin < count; begin += at_once) {
        const int size = static_cast<int>(count - begin < at_once ? count - begin : at_once);
        for (int p = 0; p < size; ++p) {
            const long long i = rows[begin + p];
            const long long a = b.labels[i];
            square[p] = distance<Lanes>(b.X + i * b.d, b.centers + a * b.d, b.factor, b.d);
            old_upper[p] = b.upper[i];
            old_slack[p] = b.slack[i];
            path[p] = b.path[a];
            spent[p] = b.spent[a];
            near[p] = b.near[a];
        }
        for (int p = 0; p < size; ++p) {
            const float u = __builtin_sqrtf(square[p] * b.rounding) * (1.0f + 0x1p-21f) + 0x1p-60f;
            const float sizes =
                __builtin_fabsf(old_slack[p]) + __builtin_fabsf(old_upper[p]) + spent[p] + path[p];
            const float l = (old_slack[p] - spent[p]) + (old_upper[p] + path[p]) - 0x1p-20f * sizes;
            new_upper[p] = (u - path[p]) + 0x1p-20f * (u + path[p]);
            new_slack[p] = (l - u) + spent[p] - 0x1p-20f * (sizes + u);
            open[p] = !(u < l) && !(new_upper[p] < near[p]);
        }
        for (int p = 0; p < size; ++p) {
            const unsigned i = rows[begin + p];
            b.upper[i] = new_upper[p];
            b.slack[i] = new_slack[p];
            rows[kept] = i;
            kept += open[p];
        }
    }
    return kept;
}

inline void encode(const float* squares, const float* off, const float* scores, long long n,
                   float path, float per_unit, unsigned short* bounds) {
    for (long long i = 0; i < n; ++i) {
        const float rounding = 0x1p-22f * (squares[i] + 2.0f * __builtin_fabsf(scores[i]));
        const float least = squares[i] + 2.0f * scores[i] - (off[i] + rounding);
        const float root = __builtin_sqrtf(least > 0.0f ? least : 0.0f) * (1.0f - 0x1p-18f);
        const float units = (root + path) * (1.0f - 0x1p-22f) * per_unit;
        bounds[i] = static_cast<unsigned short>(
            static_cast<int>(units < 65535.0f ? (units > 0.0f ? units : 0.0f) : 65535.0f));
    }
}

inline float needs(const unsigned short* bounds, const float* paths, const float* separation,
                   long long n_groups, float unit, float upper, unsigned char* needed) {
    float least = 0x1p127f;
    for (long long g = 0; g < n_groups; ++g) {
        const float carried = static_cast<float>(static_cast<int>(bounds[g])) * unit - paths[g];
        const float across = (separation[g] - upper) * (1.0f - 0x1p-18f);
        const float bound = carried > across ? carried : across;
        needed[g] = !(bound > upper);
        least = bound < least ? bound : least;
    }
    return least;
}

} // namespace
} // namespace wolfmeans
