// The sparse screen for AVX2 with FMA: registers of 8 floats.
#include "sparse_screen_kernel.hpp"

namespace wolfmeans {

extern constinit const SparseScreenVersion sparse_screen_avx2{screen_row<8>, 8};

} // namespace wolfmeans
