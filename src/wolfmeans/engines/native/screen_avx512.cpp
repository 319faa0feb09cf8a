// The screen for AVX-512: 32 registers of 16 floats, of which the tile's scores take 24.
#include "screen_kernel.hpp"

namespace wolfmeans {

extern constinit const ScreenVersion screen_avx512 = screen_version<16, 2, 12, 12>();

} // namespace wolfmeans
