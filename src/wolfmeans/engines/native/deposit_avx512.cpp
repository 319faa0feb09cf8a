// The deposits for AVX-512: registers of 8 doubles.
#include "deposit_kernel.hpp"

namespace wolfmeans {

extern constinit const DepositVersion deposit_avx512 = deposits<8>;

} // namespace wolfmeans
