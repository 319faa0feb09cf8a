// Functions that must be inlined.
#pragma once

#define WOLFMEANS_INLINE inline __attribute__((always_inline))
