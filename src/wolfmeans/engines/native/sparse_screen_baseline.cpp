// The sparse screen for every processor of the architecture: registers of 4 floats (SSE2, NEON).
#include "sparse_screen_kernel.hpp"

namespace wolfmeans {

extern constinit const SparseScreenVersion sparse_screen_baseline{screen_row<4>, 4};

} // namespace wolfmeans
