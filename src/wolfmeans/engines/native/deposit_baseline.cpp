// The deposits for the instructions every machine of the architecture has: SSE2 on x86-64, NEON on
// ARM64, both with registers of 2 doubles.
#include "deposit_kernel.hpp"

namespace wolfmeans {

extern constinit const DepositVersion deposit_baseline = deposits<2>;

} // namespace wolfmeans
