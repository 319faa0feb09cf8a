// The kernels of one vector unit. Each unit compiles all of them and exports one table; which table
// runs is chosen in runtime/vector_unit.cpp.
//
// The types are only named here, so that a change of one kernel's header compiles anew what uses
// that kernel and nothing else.
#pragma once

namespace wolfmeans {

struct DepositVersion;
struct NarrowVersion;
struct NeighboursVersion;
struct QuotientVersion;
struct ReachVersion;
struct ScanVersion;
struct ScreenVersion;
struct SketchVersion;
struct SparseExactVersion;
struct SparseScreenVersion;
struct VicinityVersion;

struct KernelTable {
    const char* vector_unit;
    // kernels/exact
    const DepositVersion* deposit;
    const QuotientVersion* quotient;
    const ReachVersion* reach;
    const ScanVersion* scan;
    const SparseExactVersion* sparse_exact;
    const VicinityVersion* vicinity;
    // kernels/fused
    const NarrowVersion* narrow;
    const NeighboursVersion* neighbours;
    const ScreenVersion* screen;
    const SketchVersion* sketch;
    const SparseScreenVersion* sparse_screen;
};

// The last two on x86-64 only.
namespace baseline {
extern const KernelTable kernels;
}
namespace avx2 {
extern const KernelTable kernels;
}
namespace avx512 {
extern const KernelTable kernels;
}

} // namespace wolfmeans
