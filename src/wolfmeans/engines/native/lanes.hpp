// What the code built once per vector unit shares: functions that must disappear into their
// callers, and registers filled from memory and emptied into it.
#pragma once

#if defined(_MSC_VER) && !defined(__clang__)
#    define WOLFMEANS_INLINE __forceinline
#else
#    define WOLFMEANS_INLINE inline __attribute__((always_inline))
#endif

#if defined(__GNUC__) || defined(__clang__)

namespace wolfmeans {
// Internal linkage on purpose: each translation unit keeps the code made for its own instructions.
namespace {

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

#endif
