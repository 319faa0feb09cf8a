// The scan for AVX2: 16 registers of 4 doubles, of which the tile's distances take 8.
#include "scan_kernel.hpp"

namespace wolfmeans {

extern constinit const ScanVersion scan_avx2 = scan_version<4, 2, 4>("avx2");

} // namespace wolfmeans
