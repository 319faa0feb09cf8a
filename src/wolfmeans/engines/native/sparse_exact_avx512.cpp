// Exact work on the centers of sparse data for AVX-512: registers of 8 doubles.
#include "sparse_exact_kernel.hpp"

namespace wolfmeans {

extern constinit const SparseExactVersion sparse_exact_avx512 = sparse_exact_version<8>();

} // namespace wolfmeans
