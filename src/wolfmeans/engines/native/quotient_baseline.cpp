// The quotients for the instructions every machine of the architecture has: registers of 2 doubles.
#include "quotient_kernel.hpp"

namespace wolfmeans {

extern constinit const QuotientVersion quotient_baseline{quotients<2, float>, quotients<2, double>};

} // namespace wolfmeans
