// The reach for every processor of the architecture: registers of 2 doubles (SSE2, NEON).
#include "reach_kernel.hpp"

namespace wolfmeans {

extern constinit const ReachVersion reach_baseline{reach_functions<2, 2, float>,
                                                   reach_functions<2, 2, double>};

} // namespace wolfmeans
