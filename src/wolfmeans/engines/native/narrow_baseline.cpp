// Boxes against centers for every processor of the architecture: registers of 4 floats (SSE2,
// NEON).
#include "narrow_kernel.hpp"

namespace wolfmeans {

extern constinit const NarrowVersion narrow_baseline = narrow_version<4, 2>();

} // namespace wolfmeans
