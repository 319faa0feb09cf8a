// The sketch for AVX-512 with VNNI, which multiplies and adds four bytes at once.
#include "sketch_kernel.hpp"

namespace wolfmeans {

extern constinit const SketchVersion sketch_avx512 = sketch_version<16>();

} // namespace wolfmeans
