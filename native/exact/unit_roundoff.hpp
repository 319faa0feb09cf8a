// The largest relative error of rounding to nearest in float64.
#pragma once

namespace wolfmeans {

inline constexpr double unit_roundoff = 0x1p-53;

} // namespace wolfmeans
