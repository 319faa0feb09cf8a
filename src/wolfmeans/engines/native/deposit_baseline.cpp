// The deposits for baseline, in registers of 2 doubles.
#include "deposit_kernel.hpp"

namespace wolfmeans {

extern constinit const DepositVersion deposit_baseline{functions<2, float>, functions<2, double>};

} // namespace wolfmeans
