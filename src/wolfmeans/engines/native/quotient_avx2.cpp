// The quotients for AVX2: registers of 4 doubles.
#include "quotient_kernel.hpp"

namespace wolfmeans {

extern constinit const QuotientVersion quotient_avx2{quotients<4, float>, quotients<4, double>};

} // namespace wolfmeans
