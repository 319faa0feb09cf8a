// Registers of float64 and int64 for the exact kernels (deposit.cpp, quotient.cpp), of any
// width down to single numbers.
#pragma once

#include <stdint.h>

#include "kernels/exact/separate_rounding.hpp"
#include "kernels/lanes.hpp"

namespace wolfmeans {
namespace {

template <class Element, int Lanes>
struct Register {
    typedef Element Type __attribute__((vector_size(Lanes * sizeof(Element))));
};

template <class To, class From>
WOLFMEANS_INLINE To converted(const From& v) {
    return __builtin_convertvector(v, To);
}

template <class Element>
struct Register<Element, 1> {
    using Type = Element;
};

template <int Lanes>
using Doubles = typename Register<double, Lanes>::Type;
template <int Lanes>
using Integers = typename Register<int64_t, Lanes>::Type;
// For integers that may leave their range and come back: these wrap around.
template <int Lanes>
using Words = typename Register<uint64_t, Lanes>::Type;

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
