// Lower bounds in 16 bits, several for a point.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

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

} // namespace wolfmeans
