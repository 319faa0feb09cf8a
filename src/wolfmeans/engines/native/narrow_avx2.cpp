// Boxes against centers for AVX2 with FMA: registers of 8 floats.
#include "narrow_kernel.hpp"

namespace wolfmeans {

extern constinit const NarrowVersion narrow_avx2 = narrow_version<8, 2>();

} // namespace wolfmeans
