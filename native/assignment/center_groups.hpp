// Centers in groups of neighbours, for bounds per group (Ding et al. 2015, "Yinyang"): packed group
// by group for GroupScreen, with the path of the fastest center of each group.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "assignment/packed_centers.hpp"
#include "kernels/fused/screen.hpp"

namespace wolfmeans {

// Bounds as 16-bit multiples of a unit: a lower limit plus the path of the center at that time.
struct CodedBounds {
    std::vector<std::uint16_t> values; // (n, bounds of a point)
    float unit = 1.0f;

    // The largest code whose bound is at most this distance, at that path.
    std::uint16_t code(double distance, double path) const {
        const double units = (std::max(0.0, distance) * (1.0 - 0x1p-18) + path) * (1.0 - 0x1p-22) /
                             static_cast<double>(unit);
        return static_cast<std::uint16_t>(std::clamp(units, 0.0, 65535.0));
    }
};

class CenterGroups {
public:
    // Groups of at most group_width centers that are near each other, found by halving; `together`
    // of them share a bound.
    template <class Real>
    CenterGroups(const Real* centers, std::size_t K, std::size_t d, std::size_t together,
                 Real factor, const ScreenVersion& version);

    // Pack the centers of a step.
    template <class Real>
    void pack(const Real* centers, const Frame<Real>& frame, const PackedCenters<Real>& norms);

    // The centers have moved: add the largest drift of each group to its path.
    void add_drifts(const std::vector<float>& drift);

    // The longest path, and paths that begin anew: then no bound of before holds.
    double longest_path() const { return *std::max_element(path_.begin(), path_.end()); }
    void restart_paths() {
        std::fill(path_.begin(), path_.end(), 0.0);
        std::fill(path_up_.begin(), path_up_.end(), 0.0f);
    }

    // Find the distance of each center to the groups: a point near its center needs no group that
    // is more than twice as far away (Elkan 2003).
    template <class Real>
    void separate(const Frame<Real>& frame, const PackedCenters<Real>& centers,
                  const ScreenVersion& version, int n_threads);
    void forget_separation() { std::fill(separation_.begin(), separation_.end(), 0.0f); }
    // (n_bounds,) at most the scaled distance of center k to any other center of each bound.
    const float* separation(std::size_t k) const { return separation_.data() + k * n_bounds(); }

    std::size_t n_groups() const { return n_groups_; }
    std::size_t n_bounds() const { return (n_groups_ + together_ - 1) / together_; }
    std::size_t together() const { return together_; }
    // The group of a center.
    std::size_t group_of(std::size_t k) const { return place_[k] / group_width; }
    std::size_t bound_of(std::size_t k) const { return group_of(k) / together_; }
    // The center in a lane of a group.
    std::int32_t center(std::size_t group, int lane) const {
        return member_[group * group_width + static_cast<std::size_t>(lane)];
    }
    const float* packed(std::size_t group) const {
        return packed_.data() + group * group_width * d_;
    }
    const float* half_norms(std::size_t group) const {
        return half_norms_.data() + group * group_width;
    }
    // The path of the fastest center among the groups that share bound b, rounded up.
    const float* paths() const { return path_up_.data(); }
    double path(std::size_t b) const { return path_[b]; }

private:
    std::size_t d_, n_groups_, together_;
    std::vector<std::size_t> place_;   // (K,) group * group_width + lane of each center
    std::vector<std::int32_t> member_; // (n_groups * group_width,) its inverse, -1 for no center
    Aligned<float> packed_;
    std::vector<float> half_norms_;
    std::vector<double> path_;
    std::vector<float> path_up_;
    std::vector<float> separation_; // (K, n_bounds)
};

} // namespace wolfmeans
