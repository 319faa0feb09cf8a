// The choice of vector unit at run time. The environment variable WOLFMEANS_VECTOR_UNIT (baseline,
// avx2 or avx512) selects a narrower one, so that tests can compare them all.
#pragma once

#include "kernels/table.hpp"

namespace wolfmeans {

// The kernels for the widest vector unit that the processor has and the environment allows. The
// processor is queried once, the environment at every call.
const KernelTable& best_kernels() noexcept;

} // namespace wolfmeans
