// Bounds on distances that stay valid while the centers move (Hamerly 2010). Points whose bounds
// decide their label are not written to.
//
// For a point with label a, let u be at least its distance to center a and l at most that to any
// other center, when it was last checked. Since then u may have grown by the path of center a and
// l may have shrunk by the path of the fastest other center. Both paths are sums over steps that
// depend on a alone, so they are kept per center, counted from the first step on; a point stores
// its bounds less the paths at the time, and a comparison with the tables of now brings them up to
// date. Distances are scaled as in screen.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "assignment/packed_centers.hpp"

namespace wolfmeans {

// A double as a float that is not below it, or not above it.
inline float float_up(double v) {
    return static_cast<float>(v + std::abs(v) * 0x1p-23 + 0x1p-120);
}
inline float float_down(double v) {
    return static_cast<float>(v - std::abs(v) * 0x1p-23 - 0x1p-120);
}

class Bounds {
public:
    void resize(std::size_t n, std::size_t K) {
        const std::size_t blocks = (n + bounds_block - 1) / bounds_block;
        // Whole blocks, so that kernels need no remainder; the padding is always decided.
        upper_.assign(blocks * bounds_block, 0.0f);
        slack_.assign(blocks * bounds_block, std::numeric_limits<float>::infinity());
        check_at_.assign(blocks, -1.0f);
        path_.assign(K, 0.0);
        spent_.assign(K, 0.0);
        path_up_.assign(K, 0.0f);
        spent_up_.assign(K, 0.0f);
        near_.assign(K, -1.0f);
        total_drift_ = 0.0;
    }

    // The centers have moved: add their drifts to the paths.
    template <class Real>
    void add_drifts(const PackedCenters<Real>& centers) {
        float largest = 0.0f, second = 0.0f;
        for (std::size_t k = 0; k < path_.size(); ++k) {
            const float others = centers.drift_of_others(k);
            path_[k] += static_cast<double>(centers.drift[k]);
            spent_[k] += static_cast<double>(centers.drift[k]) + static_cast<double>(others);
            path_up_[k] = float_up(path_[k]);
            spent_up_[k] = float_up(spent_[k]);
            near_[k] = float_down(
                static_cast<double>(centers.half_separation[k]) * (1.0 - 0x1p-19) - path_[k]);
            second = std::max(second, std::min(largest, centers.drift[k]));
            largest = std::max(largest, centers.drift[k]);
        }
        // No point's slack shrinks by more in a step than the two fastest centers move.
        total_drift_ += static_cast<double>(largest) + static_cast<double>(second);
    }

    // A block whose check_at exceeds the total drift cannot have changed any label.
    float total_drift() const { return float_up(total_drift_); }
    const float* check_at() const { return check_at_.data(); }

    // Skip a block with this smallest spare (see Spare) while the centers move less.
    void skip_block(std::size_t block, float least_spare) {
        check_at_[block] =
            least_spare > 0.0f
                ? float_down(total_drift_ + static_cast<double>(least_spare) * (1.0 - 0x1p-22))
                : -1.0f;
    }
    void check_again(std::size_t row) { check_at_[row / bounds_block] = -1.0f; }
    void check_all() { std::fill(check_at_.begin(), check_at_.end(), -1.0f); }

    // Set the bounds of a point: u at least its distance to its center, l at most that to others.
    // The factor makes a strict comparison of bounds hold for canonical distances too, whose
    // relative rounding, (d + 3) 2^-53, is far below it for every d that fits into memory.
    void set(std::size_t i, std::size_t label, float u, float l) {
        const double up = static_cast<double>(u);
        upper_[i] = float_up(up - path_[label]);
        slack_[i] = float_down(static_cast<double>(l) * (1.0 - 0x1p-19) - up + spent_[label]);
    }

    // Trivial bounds: the next step checks this point again.
    void forget(std::size_t i) {
        upper_[i] = std::numeric_limits<float>::infinity();
        slack_[i] = -std::numeric_limits<float>::infinity();
        check_again(i);
    }

    // The current bounds.

    float upper(std::size_t i, std::size_t label) const {
        return float_up(static_cast<double>(upper_[i]) + path_[label]);
    }
    float lower(std::size_t i, std::size_t label) const {
        return std::max(0.0f, float_down(static_cast<double>(slack_[i]) - spent_[label] +
                                         static_cast<double>(upper_[i]) + path_[label]));
    }
    // Whether the point is nearer to its center than half the way to the next center.
    bool nearby(std::size_t i, std::size_t label) const { return upper_[i] < near_[label]; }

    // The bounds of the rows from `first` on as a kernel sees them.
    template <class Real>
    BoundsView<Real> view(const Real* X, const PackedCenters<Real>& centers, Real factor,
                          const std::int32_t* labels, std::size_t first) {
        return {X,
                centers.rows,
                static_cast<long long>(centers.d),
                factor,
                static_cast<float>(1.0 + centers.distance_rounding() + 0x1p-22),
                labels,
                upper_.data() + first,
                slack_.data() + first,
                path_up_.data(),
                spent_up_.data(),
                near_.data()};
    }

    const float* slack(std::size_t i) const { return slack_.data() + i; }
    const float* spent() const { return spent_up_.data(); }

private:
    std::vector<float> upper_;    // (n,) u less the path of the own center
    std::vector<float> slack_;    // (n,) l - u and what both paths had spent
    std::vector<float> check_at_; // (n / bounds_block,) total drift at which to check again
    std::vector<double> path_;    // (K,) total distance that each center has moved
    std::vector<double> spent_;   // (K,) its path and that of the fastest other center, together
    std::vector<float> path_up_, spent_up_; // (K,) the same, rounded up
    std::vector<float> near_;               // (K,) half the separation less the path
    double total_drift_ = 0.0;              // upper limit on what any slack has lost
};

} // namespace wolfmeans
