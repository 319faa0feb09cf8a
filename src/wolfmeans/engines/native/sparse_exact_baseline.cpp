// Exact work on the centers of sparse data for every processor of the architecture: registers of 2
// doubles (SSE2, NEON).
#include "sparse_exact_kernel.hpp"

namespace wolfmeans {

extern constinit const SparseExactVersion sparse_exact_baseline = sparse_exact_version<2>();

} // namespace wolfmeans
