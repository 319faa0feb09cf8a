// The quotients for AVX-512: registers of 8 doubles.
#include "quotient_kernel.hpp"

namespace wolfmeans {

extern constinit const QuotientVersion quotient_avx512{quotients<8, float>, quotients<8, double>};

} // namespace wolfmeans
