// The inner loops of the neighbours bound for AVX2: registers of 4 doubles.
#include "neighbours_kernel.hpp"

namespace wolfmeans {

extern constinit const NeighboursVersion neighbours_avx2 = neighbours_functions<4, 2>;

} // namespace wolfmeans
