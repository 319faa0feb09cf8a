#include "vector_unit.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#if defined(WOLFMEANS_X86) && defined(_MSC_VER)
#    include <immintrin.h>
#    include <intrin.h>
#endif

namespace wolfmeans {

#if defined(WOLFMEANS_X86)
namespace {

struct Supported {
    bool avx2 = false;
    bool avx512 = false;
    bool vnni = false; // AVX-512 with products of bytes
};

#    if defined(_MSC_VER)

Supported supported() noexcept {
    int leaf[4];
    __cpuid(leaf, 0);
    const int highest_leaf = leaf[0];
    __cpuid(leaf, 1);
    const bool osxsave = leaf[2] & (1 << 27);
    const bool fma = leaf[2] & (1 << 12);
    if (!osxsave || highest_leaf < 7) return {};
    // The operating system must save the wide registers, else using them corrupts other programs.
    const auto saved = _xgetbv(0);
    const bool saves_ymm = (saved & 0x06) == 0x06;
    const bool saves_zmm = (saved & 0xe6) == 0xe6;
    __cpuidex(leaf, 7, 0);
    return {.avx2 = saves_ymm && fma && (leaf[1] & (1 << 5)),
            .avx512 = saves_zmm && (leaf[1] & (1 << 16)),
            .vnni = saves_zmm && (leaf[1] & (1 << 16)) && (leaf[2] & (1 << 11))};
}

#    else

Supported supported() noexcept {
    __builtin_cpu_init();
    return {.avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0,
            .avx512 = __builtin_cpu_supports("avx512f") != 0,
            .vnni = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni")};
}

#    endif

// The widest unit that the processor has and that the environment does not rule out: 0, 1 or 2.
int widest_unit() noexcept {
    const Supported has = supported();
    const char* asked = std::getenv("WOLFMEANS_VECTOR_UNIT");
    const int most = !asked                            ? 2
                     : !std::strcmp(asked, "baseline") ? 0
                     : !std::strcmp(asked, "avx2")     ? 1
                                                       : 2;
    if (has.avx512 && most >= 2) return 2;
    return has.avx2 && most >= 1 ? 1 : 0;
}

} // namespace

const ScanVersion& best_scan() noexcept {
    const ScanVersion* versions[] = {&scan_baseline, &scan_avx2, &scan_avx512};
    return *versions[widest_unit()];
}

const ScreenVersion& best_screen() noexcept {
    const ScreenVersion* versions[] = {&screen_baseline, &screen_avx2, &screen_avx512};
    return *versions[widest_unit()];
}

const NarrowVersion& best_narrow() noexcept {
    const NarrowVersion* versions[] = {&narrow_baseline, &narrow_avx2, &narrow_avx512};
    return *versions[widest_unit()];
}

const NeighboursVersion& best_neighbours() noexcept {
    const NeighboursVersion* versions[] = {&neighbours_baseline, &neighbours_avx2,
                                           &neighbours_avx512};
    return *versions[widest_unit()];
}

const ReachVersion& best_reach() noexcept {
    const ReachVersion* versions[] = {&reach_baseline, &reach_avx2, &reach_avx512};
    return *versions[widest_unit()];
}

const SketchVersion& best_sketch() noexcept {
    const SketchVersion* versions[] = {&sketch_baseline, &sketch_avx2, &sketch_avx512};
    return *versions[supported().vnni ? widest_unit() : std::min(widest_unit(), 1)];
}

const SparseScreenVersion& best_sparse_screen() noexcept {
    const SparseScreenVersion* versions[] = {&sparse_screen_baseline, &sparse_screen_avx2,
                                             &sparse_screen_avx512};
    return *versions[widest_unit()];
}

const SparseExactVersion& best_sparse_exact() noexcept {
    const SparseExactVersion* versions[] = {&sparse_exact_baseline, &sparse_exact_avx2,
                                            &sparse_exact_avx512};
    return *versions[widest_unit()];
}

#else

const ScanVersion& best_scan() noexcept {
    return scan_baseline;
}

const ScreenVersion& best_screen() noexcept {
    return screen_baseline;
}

const NarrowVersion& best_narrow() noexcept {
    return narrow_baseline;
}

const NeighboursVersion& best_neighbours() noexcept {
    return neighbours_baseline;
}

const ReachVersion& best_reach() noexcept {
    return reach_baseline;
}

const SketchVersion& best_sketch() noexcept {
    return sketch_baseline;
}

const SparseScreenVersion& best_sparse_screen() noexcept {
    return sparse_screen_baseline;
}

const SparseExactVersion& best_sparse_exact() noexcept {
    return sparse_exact_baseline;
}

#endif

} // namespace wolfmeans
