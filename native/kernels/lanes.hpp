// What all kernels share: the vector unit that a source is compiled for, vector registers, loads
// and stores.
//
// Every source in kernels/exact and kernels/fused is compiled once for each vector unit, for
// instructions that the machine may not have. WOLFMEANS_UNIT names the unit: baseline, avx2 or
// avx512. Two rules keep what was compiled for one unit away from the others:
//
// - All code is in unnamed namespaces; what the unit's table (table.hpp) points to is in a
// namespace
//   of the unit's name.
// - Nothing of the standard library is included but names of integers (stdint.h) and the compiler's
//   intrinsics. An inline function of a standard header, compiled here and kept by the linker,
//   would run (and crash) on machines without the instructions. Inline functions of the headers
//   that other code includes as well are WOLFMEANS_INLINE.
#pragma once

#include <stdint.h>

#include "kernels/always_inline.hpp"

#if !defined(WOLFMEANS_UNIT)
#    error "WOLFMEANS_UNIT names the vector unit of a kernel: baseline, avx2 or avx512"
#endif

namespace wolfmeans {
namespace {

namespace bytes_of_register {
constexpr int baseline = 16, avx2 = 32, avx512 = 64;
} // namespace bytes_of_register

constexpr int bytes_at_once = bytes_of_register::WOLFMEANS_UNIT;
constexpr int floats_at_once = bytes_at_once / static_cast<int>(sizeof(float));
constexpr int doubles_at_once = bytes_at_once / static_cast<int>(sizeof(double));

// One of three numbers, that of the vector unit.
constexpr int by_unit(int baseline, int avx2, int avx512) {
    return bytes_at_once == bytes_of_register::avx512 ? avx512
           : bytes_at_once == bytes_of_register::avx2 ? avx2
                                                      : baseline;
}

// A vector register of some lanes; of one lane, the number itself.
template <class Element, int Lanes>
struct Register {
    typedef Element Type __attribute__((vector_size(Lanes * sizeof(Element))));
};

template <class Element>
struct Register<Element, 1> {
    using Type = Element;
};

template <int Lanes>
using Floats = typename Register<float, Lanes>::Type;
template <int Lanes>
using Doubles = typename Register<double, Lanes>::Type;
template <int Lanes>
using Ints = typename Register<int32_t, Lanes>::Type;
template <int Lanes>
using Longs = typename Register<int64_t, Lanes>::Type;
// For integers that may leave their range and come back: these wrap around.
template <int Lanes>
using Words = typename Register<uint64_t, Lanes>::Type;

template <class V, class Element>
WOLFMEANS_INLINE V load(const Element* from) {
    V v;
    __builtin_memcpy(&v, from, sizeof(V));
    return v;
}

template <class V, class Element>
WOLFMEANS_INLINE void store(Element* to, const V& v) {
    __builtin_memcpy(to, &v, sizeof(V));
}

} // namespace
} // namespace wolfmeans
