// The vicinity for every processor of the architecture: registers of 2 doubles (SSE2, NEON).
#include "vicinity_kernel.hpp"

namespace wolfmeans {

extern constinit Vicinity* const vicinity_baseline = vicinity<2, 2>;

} // namespace wolfmeans
