// Functions that must disappear into their callers, in code built once per vector unit.
#pragma once

#if defined(_MSC_VER) && !defined(__clang__)
#    define WOLFMEANS_INLINE __forceinline
#else
#    define WOLFMEANS_INLINE inline __attribute__((always_inline))
#endif
