// Exact work on the centers of sparse data for AVX2: registers of 4 doubles.
#include "sparse_exact_kernel.hpp"

namespace wolfmeans {

extern constinit const SparseExactVersion sparse_exact_avx2 = sparse_exact_version<4>();

} // namespace wolfmeans
