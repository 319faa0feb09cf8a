// The inner loops of the neighbours bound for the baseline: registers of 2 doubles (SSE2, NEON).
#include "neighbours_kernel.hpp"

namespace wolfmeans {

extern constinit const NeighboursVersion neighbours_baseline = neighbours_functions<2, 1>;

} // namespace wolfmeans
