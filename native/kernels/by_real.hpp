// Kernels for both precisions of the data.
#pragma once

#include "kernels/always_inline.hpp"

namespace wolfmeans {

template <template <class> class Functions>
struct ByReal {
    Functions<float> of_float;
    Functions<double> of_double;

    template <class Real>
    WOLFMEANS_INLINE constexpr const Functions<Real>& of() const {
        if constexpr (sizeof(Real) == sizeof(float))
            return of_float;
        else
            return of_double;
    }
};

} // namespace wolfmeans
