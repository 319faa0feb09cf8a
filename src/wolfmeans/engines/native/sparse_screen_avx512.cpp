// The sparse screen for AVX-512: registers of 16 floats, a cache line each.
#include "sparse_screen_kernel.hpp"

namespace wolfmeans {

extern constinit const SparseScreenVersion sparse_screen_avx512{screen_row<16>, 16};

} // namespace wolfmeans
