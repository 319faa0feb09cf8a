// For kernels that are exact only if every operation rounds separately.
#pragma once

#if defined(__FAST_MATH__) || defined(_M_FP_FAST)
#    error "exact kernels need that every operation rounds by itself: build without fast math"
#endif
