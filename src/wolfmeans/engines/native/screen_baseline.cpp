// The screen for every processor of the architecture: registers of 4 floats (SSE2, NEON), of which
// the tile's scores take 8.
#include "screen_kernel.hpp"

namespace wolfmeans {

extern constinit const ScreenVersion screen_baseline = screen_version<4, 2, 4, 2>();

} // namespace wolfmeans
