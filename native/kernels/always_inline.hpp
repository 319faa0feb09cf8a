// Functions that must disappear into their callers.
#pragma once

#define WOLFMEANS_INLINE inline __attribute__((always_inline))
