// The deposits for AVX-512: registers of 8 doubles.
#include "deposit_kernel.hpp"

namespace wolfmeans {

extern constinit const DepositVersion deposit_avx512{functions<8, float>, functions<8, double>};

} // namespace wolfmeans
