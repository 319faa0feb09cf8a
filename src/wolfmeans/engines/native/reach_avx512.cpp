// The reach for AVX-512: registers of 8 doubles, half of one for four candidates.
#include "reach_kernel.hpp"

namespace wolfmeans {

extern constinit const ReachVersion reach_avx512{reach_functions<4, 8, float>,
                                                 reach_functions<4, 8, double>};

} // namespace wolfmeans
