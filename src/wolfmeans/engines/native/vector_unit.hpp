// Which version of the scan this machine runs.
#pragma once

#include "scan.hpp"

namespace wolfmeans {

// The widest version that was built and that processor and operating system both support. Reads
// the processor's own description on each call and keeps nothing, so a fork changes nothing.
const ScanVersion& best_scan() noexcept;

} // namespace wolfmeans
