// The inner loops of the neighbours bound for AVX-512: registers of 8 doubles.
#include "neighbours_kernel.hpp"

namespace wolfmeans {

extern constinit const NeighboursVersion neighbours_avx512 = neighbours_functions<8, 4>;

} // namespace wolfmeans
