// The scan for the instructions every machine of the architecture has: SSE2 on x86-64, NEON on
// ARM64. SSE2 has 16 registers, so its tile is half a group; NEON has 32.
#include "scan_kernel.hpp"

namespace wolfmeans {

#if defined(__aarch64__) || defined(_M_ARM64)
extern constinit const ScanVersion scan_baseline = scan_version<2, 4, 4>("neon");
#else
extern constinit const ScanVersion scan_baseline = scan_version<2, 2, 4>("baseline");
#endif

} // namespace wolfmeans
