// What rounding to nearest in float64 changes a number by, at most, relative to it.
#pragma once

namespace wolfmeans {

inline constexpr double unit_roundoff = 0x1p-53;

} // namespace wolfmeans
