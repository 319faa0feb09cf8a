// The sketch for AVX2: registers of 8 int32, products of int16 pairs.
#include "sketch_kernel.hpp"

namespace wolfmeans {

extern constinit const SketchVersion sketch_avx2 = sketch_version<8>();

} // namespace wolfmeans
