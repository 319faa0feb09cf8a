// The centers of one assignment, packed for the screen, with what the bounds need: how far each has
// moved, and how far it is from the others.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/fused/screen.hpp"
#include "runtime/aligned.hpp"

namespace wolfmeans {

// How points and centers are brought to the screen: x' = (x - origin) factor, see screen.hpp.
template <class Real>
struct Frame {
    std::vector<Real> origin; // (d,) within the data
    Real factor = 1;          // a power of two that brings the data to about 2^10
};

inline constexpr double screen_unit = 0x1p-24; // of float32
inline constexpr float screen_huge = 0x1p120f; // beyond every score

// The square root of a scaled squared distance, rounded up or down: the factors outweigh the
// rounding of square root and conversion, the last terms that of the smallest floats.
inline float root_up(double squared) {
    return std::sqrt(static_cast<float>(std::max(0.0, squared))) * (1.0f + 0x1p-21f) + 0x1p-60f;
}

inline float root_down(double squared) {
    const float root = std::sqrt(static_cast<float>(std::max(0.0, squared)));
    return std::max(0.0f, root * (1.0f - 0x1p-21f) - 0x1p-60f);
}

// The two largest drifts of the centers.
struct LargestDrifts {
    float largest = 0.0f, second = 0.0f;
    std::size_t center = 0; // with the largest

    void add(std::size_t k, float drift) {
        if (drift > largest) {
            second = largest;
            largest = drift;
            center = k;
        } else {
            second = std::max(second, drift);
        }
    }
    float without(std::size_t k) const { return k == center ? second : largest; }
};

template <class Real>
struct PackedCenters {
    // centers IN (K, d) row-major; kept. `tiled` centers are packed for Screen.
    PackedCenters(const Real* centers, std::size_t K, std::size_t d, const Frame<Real>& frame,
                  const ScreenVersion& version, bool tiled);

    // Fill drift and half_separation; previous IN (K, d) are the centers that the bounds refer to.
    // The separation needs a pass over pairs of centers; it is 0 unless `separate`.
    void move_from(const Real* previous, bool separate);

    // Error bound of a score for a point of norm |x'|, including the rounding of the canonical
    // distances that it stands for.
    ErrorTerms error_terms() const;
    double error(double norm) const;

    // Twice the relative error bound of a squared distance of the screen.
    double distance_rounding() const {
        return 2.0 * screen_unit * distance_terms(version_, static_cast<long long>(d));
    }

    double largest_norm() const { return largest_norm_; }

    // The largest drift of any center but this one.
    float drift_of_others(std::size_t own) const { return largest_drifts_.without(own); }

    const Real* rows; // (K, d) as given
    std::size_t K, d;
    std::vector<double> doubles; // (K, d) float64, for canonical distances
    Aligned<float> packed;       // see screen.hpp; empty unless tiled
    std::vector<float> half_norms;
    bool screenable = true;             // whether the scores of these centers fit into float32
    std::vector<float> drift;           // (K,) scaled distance each center has moved, rounded up
    std::vector<float> half_separation; // (K,) half the scaled distance to the nearest other center

private:
    void separate_centers();

    const Frame<Real>& frame_;
    const ScreenVersion& version_;
    double terms_, norm_terms_; // roundings of a score and of |x'|^2, see screen.hpp
    double largest_norm_ = 0.0; // of c', rounded up
    LargestDrifts largest_drifts_;
};

} // namespace wolfmeans
