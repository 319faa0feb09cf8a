// The vicinity for AVX2: registers of 4 doubles.
#include "vicinity_kernel.hpp"

namespace wolfmeans {

extern constinit Vicinity* const vicinity_avx2 = vicinity<4, 4>;

} // namespace wolfmeans
