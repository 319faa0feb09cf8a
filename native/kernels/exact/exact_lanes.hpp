// Conversions of registers for the exact kernels, of any width down to single numbers.
#pragma once

#include "kernels/exact/separate_rounding.hpp"
#include "kernels/lanes.hpp"

namespace wolfmeans {
namespace {

template <class To, class From>
WOLFMEANS_INLINE To converted(const From& v) {
    return __builtin_convertvector(v, To);
}

template <class To, class From>
WOLFMEANS_INLINE To bits_as(const From& from) {
    return __builtin_bit_cast(To, from);
}

template <int Lanes, class Real>
WOLFMEANS_INLINE Doubles<Lanes> load_doubles(const Real* from) {
    const auto v = load<typename Register<Real, Lanes>::Type>(from);
    if constexpr (sizeof(Real) == sizeof(double))
        return v;
    else if constexpr (Lanes == 1)
        return static_cast<double>(v);
    else
        return converted<Doubles<Lanes>>(v);
}

// The upper 26 bits of a number (Veltkamp): products of such halves are exact.
template <class V>
WOLFMEANS_INLINE V upper_half(const V& v) {
    const V shifted = v * 134217729.0;
    return shifted - (shifted - v);
}

} // namespace
} // namespace wolfmeans
