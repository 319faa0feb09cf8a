#include "vector_unit.hpp"

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
};

#    if defined(_MSC_VER)

Supported supported() noexcept {
    int leaf[4];
    __cpuid(leaf, 0);
    const int highest_leaf = leaf[0];
    __cpuid(leaf, 1);
    const bool osxsave = leaf[2] & (1 << 27);
    if (!osxsave || highest_leaf < 7) return {};
    // The operating system must save the wide registers, else using them corrupts other programs.
    const auto saved = _xgetbv(0);
    const bool saves_ymm = (saved & 0x06) == 0x06;
    const bool saves_zmm = (saved & 0xe6) == 0xe6;
    __cpuidex(leaf, 7, 0);
    return {.avx2 = saves_ymm && (leaf[1] & (1 << 5)),
            .avx512 = saves_zmm && (leaf[1] & (1 << 16))};
}

#    else

Supported supported() noexcept {
    __builtin_cpu_init();
    return {.avx2 = __builtin_cpu_supports("avx2") != 0,
            .avx512 = __builtin_cpu_supports("avx512f") != 0};
}

#    endif

} // namespace

const ScanVersion& best_scan() noexcept {
    const Supported has = supported();
    if (has.avx512) return scan_avx512;
    if (has.avx2) return scan_avx2;
    return scan_baseline;
}

#else

const ScanVersion& best_scan() noexcept {
    return scan_baseline;
}

#endif

} // namespace wolfmeans
