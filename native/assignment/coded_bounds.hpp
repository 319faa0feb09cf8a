// Lower bounds in 16 bits, several for a point.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace wolfmeans {

// Bounds as 16-bit multiples of a unit: what they promise, and the path of the center by then.
struct CodedBounds {
    std::vector<std::uint16_t> values; // (n, bounds of a point)
    float unit = 1.0f;

    // The largest code that promises no more than this distance, after that path.
    std::uint16_t code(double distance, double path) const {
        const double units = (std::max(0.0, distance) * (1.0 - 0x1p-18) + path) * (1.0 - 0x1p-22) /
                             static_cast<double>(unit);
        return static_cast<std::uint16_t>(std::clamp(units, 0.0, 65535.0));
    }
};

} // namespace wolfmeans
