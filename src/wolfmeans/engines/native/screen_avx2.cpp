// The screen for AVX2 with FMA: 16 registers of 8 floats, of which the tile's scores take 12.
#include "screen_kernel.hpp"

namespace wolfmeans {

extern constinit const ScreenVersion screen_avx2 = screen_version<8, 2, 6, 4>();

} // namespace wolfmeans
