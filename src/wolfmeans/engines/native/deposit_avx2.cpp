// The deposits for AVX2: registers of 4 doubles.
#include "deposit_kernel.hpp"

namespace wolfmeans {

extern constinit const DepositVersion deposit_avx2 = deposits<4>;

} // namespace wolfmeans
