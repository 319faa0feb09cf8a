// The scan for AVX-512: 32 registers of 8 doubles, of which the tile's distances take 8.
#include "scan_kernel.hpp"

namespace wolfmeans {

extern constinit const ScanVersion scan_avx512{scan<8, 1, 8, false>, scan<8, 1, 8, true>, "avx512"};

} // namespace wolfmeans
