// Boxes against centers for AVX-512: registers of 16 floats.
#include "narrow_kernel.hpp"

namespace wolfmeans {

extern constinit const NarrowVersion narrow_avx512 = narrow_version<16, 2>();

} // namespace wolfmeans
