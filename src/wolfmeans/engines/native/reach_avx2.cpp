// The reach for AVX2: registers of 4 doubles.
#include "reach_kernel.hpp"

namespace wolfmeans {

extern constinit const ReachVersion reach_avx2{reach_functions<4, 4, float>,
                                               reach_functions<4, 4, double>};

} // namespace wolfmeans
