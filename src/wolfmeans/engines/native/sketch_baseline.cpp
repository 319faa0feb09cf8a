// The sketch for every processor of the architecture: registers of 4 int32 (SSE2, NEON).
#include "sketch_kernel.hpp"

namespace wolfmeans {

extern constinit const SketchVersion sketch_baseline = sketch_version<4>();

} // namespace wolfmeans
