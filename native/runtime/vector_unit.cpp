#include "runtime/vector_unit.hpp"

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

#    if defined(_MSC_VER) // clang-cl, which comes without what __builtin_cpu_supports calls

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

// The kernels for AVX-512. The sketch multiplies bytes, which needs more than the first of AVX-512;
// processors without take that of AVX2.
KernelTable avx512_kernels(const Supported& has) noexcept {
    KernelTable table = avx512::kernels;
    if (!has.vnni) table.sketch = has.avx2 ? avx2::kernels.sketch : baseline::kernels.sketch;
    return table;
}

} // namespace

const KernelTable& best_kernels() noexcept {
    static const Supported has = supported();
    static const KernelTable widest = avx512_kernels(has);
    const char* const asked = std::getenv("WOLFMEANS_VECTOR_UNIT");
    const int most = !asked                            ? 2
                     : !std::strcmp(asked, "baseline") ? 0
                     : !std::strcmp(asked, "avx2")     ? 1
                                                       : 2;
    if (has.avx512 && most >= 2) return widest;
    return has.avx2 && most >= 1 ? avx2::kernels : baseline::kernels;
}

#else

const KernelTable& best_kernels() noexcept {
    return baseline::kernels;
}

#endif

} // namespace wolfmeans
