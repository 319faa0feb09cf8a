// The vicinity for AVX-512: registers of 8 doubles.
#include "vicinity_kernel.hpp"

namespace wolfmeans {

extern constinit Vicinity* const vicinity_avx512 = vicinity<8, 8>;

} // namespace wolfmeans
