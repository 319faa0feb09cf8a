// The scan for AVX-512: 32 registers of 8 doubles, of which the tile's distances take 8.
#include "scan_kernel.hpp"

namespace wolfmeans {

extern constinit const ScanVersion scan_avx512 = scan_version<8, 1, 8>("avx512");

} // namespace wolfmeans
