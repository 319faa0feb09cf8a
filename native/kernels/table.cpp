// The table of the vector unit that this is compiled for; see table.hpp and lanes.hpp.
#include "kernels/table.hpp"

#define WOLFMEANS_TEXT_OF(name) #name
#define WOLFMEANS_TEXT(name) WOLFMEANS_TEXT_OF(name)

namespace wolfmeans::WOLFMEANS_UNIT {

extern const DepositVersion deposit_kernels;
extern const NarrowVersion narrow_kernels;
extern const NeighboursVersion neighbours_kernels;
extern const QuotientVersion quotient_kernels;
extern const ReachVersion reach_kernels;
extern const ScanVersion scan_kernels;
extern const ScreenVersion screen_kernels;
extern const SketchVersion sketch_kernels;
extern const SparseExactVersion sparse_exact_kernels;
extern const SparseScreenVersion sparse_screen_kernels;
extern const VicinityVersion vicinity_kernels;

constinit const KernelTable kernels{
#if defined(__aarch64__)
    .vector_unit = "neon",
#else
    .vector_unit = WOLFMEANS_TEXT(WOLFMEANS_UNIT),
#endif
    .deposit = &deposit_kernels,
    .quotient = &quotient_kernels,
    .reach = &reach_kernels,
    .scan = &scan_kernels,
    .sparse_exact = &sparse_exact_kernels,
    .vicinity = &vicinity_kernels,
    .narrow = &narrow_kernels,
    .neighbours = &neighbours_kernels,
    .screen = &screen_kernels,
    .sketch = &sketch_kernels,
    .sparse_screen = &sparse_screen_kernels,
};

} // namespace wolfmeans::WOLFMEANS_UNIT
