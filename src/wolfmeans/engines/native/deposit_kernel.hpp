// The body of the deposits, written once; each deposit_<unit>.cpp instantiates it with the lanes of
// its registers. Arguments, invariant and exactness: see deposit.hpp.
//
// A lane is a column. What is left of a row after whole registers goes through registers of half
// the width, down to single numbers; compilers without vector extensions use those alone.
#pragma once

#include "deposit.hpp"
#include "lanes.hpp"

#if defined(__FAST_MATH__) || defined(_M_FP_FAST)
#    error "deposits are exact only where every operation rounds by itself: build without fast math"
#endif
#if defined(_MSC_VER) && !defined(__clang__)
#    pragma fp_contract(off)
#endif

namespace wolfmeans {
// Internal linkage on purpose: each translation unit keeps the code made for its own instructions.
namespace {

#if defined(__GNUC__) || defined(__clang__)

template <class Element, int Lanes>
struct Register {
    typedef Element Type __attribute__((vector_size(Lanes * sizeof(Element))));
};

template <class To, class From>
WOLFMEANS_INLINE To converted(const From& v) {
    return __builtin_convertvector(v, To);
}

template <int Lanes>
inline constexpr int usable_lanes = Lanes;

#else

template <class Element, int Lanes>
struct Register;

template <int Lanes>
inline constexpr int usable_lanes = 1;

#endif

template <class Element>
struct Register<Element, 1> {
    using Type = Element;
};

template <int Lanes>
using Doubles = typename Register<double, Lanes>::Type;
template <int Lanes>
using Integers = typename Register<int64_t, Lanes>::Type;

template <class To, class From>
WOLFMEANS_INLINE To bits_as(const From& from) {
    return __builtin_bit_cast(To, from);
}

#if defined(_MSC_VER) && !defined(__clang__)
template <class V, class Element>
WOLFMEANS_INLINE V load(const Element* from) {
    return *from;
}
template <class V, class Element>
WOLFMEANS_INLINE void store(Element* to, const V& v) {
    *to = v;
}
#endif

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

// A row's weight, scaled, with its halves.
struct Factor {
    double whole, high, low;
};

template <bool Weighted, class Real>
WOLFMEANS_INLINE Factor factor_of(const Rows<Real>& rows, int64_t i) {
    if constexpr (!Weighted) return {1.0, 1.0, 0.0};
    const double whole = rows.weights[i] * rows.weight_scale;
    const double high = upper_half(whole);
    return {whole, high, whole - high};
}

// The integers of a term from limb First on, added to `parts` (top limb first).
template <int First, int Lanes, int Limbs>
WOLFMEANS_INLINE void extract(Doubles<Lanes> term, const double* magic,
                              Integers<Lanes> (&parts)[Limbs]) {
    for (int l = First; l < Limbs; ++l) {
        const Doubles<Lanes> shifted = term + magic[l];
        parts[l] = parts[l] + (bits_as<Integers<Lanes>>(shifted) - bits_as<int64_t>(magic[l]));
        term = term - (shifted - magic[l]);
    }
}

// The integers of Lanes terms: x, or the exact product of weight and x.
template <int Lanes, int Limbs, bool Weighted, class Real>
WOLFMEANS_INLINE void split(const Real* x, const Factor& weight, const double* magic,
                            Integers<Lanes> (&parts)[Limbs]) {
    for (int l = 0; l < Limbs; ++l)
        parts[l] = Integers<Lanes>{};
    const Doubles<Lanes> value = load_doubles<Lanes>(x);
    if constexpr (!Weighted) {
        extract<0, Lanes, Limbs>(value, magic, parts);
    } else {
        const Doubles<Lanes> product = value * weight.whole;
        extract<0, Lanes, Limbs>(product, magic, parts);
        // The remainder is 2^-53 of a product at most: no matter for the top limb, and with a
        // single limb the product is exact.
        if constexpr (Limbs > 1) {
            Doubles<Lanes> remainder;
            if constexpr (sizeof(Real) == sizeof(float)) {
                // 24 bits need no halves.
                remainder = (value * weight.high - product) + value * weight.low;
            } else {
                const Doubles<Lanes> high = upper_half(value);
                const Doubles<Lanes> low = value - high;
                remainder =
                    ((high * weight.high - product) + high * weight.low + low * weight.high) +
                    low * weight.low;
            }
            extract<1, Lanes, Limbs>(remainder, magic, parts);
        }
    }
}

template <int Lanes, int Limbs, bool Weighted, class Real>
WOLFMEANS_INLINE void add_columns(const Rows<Real>& rows, const Real* x, const Factor& weight,
                                  int64_t j, int64_t* to) {
    for (; j + Lanes <= rows.d; j += Lanes) {
        Integers<Lanes> parts[Limbs];
        split<Lanes, Limbs, Weighted>(x + j, weight, rows.magic, parts);
        for (int l = 0; l < Limbs; ++l) {
            int64_t* const place = to + (Limbs - 1 - l) * rows.d + j;
            store(place, load<Integers<Lanes>>(place) + parts[l]);
        }
    }
    if constexpr (Lanes > 1) add_columns<Lanes / 2, Limbs, Weighted>(rows, x, weight, j, to);
}

template <int Lanes, int Limbs, bool Weighted, class Real>
WOLFMEANS_INLINE void move_columns(const Rows<Real>& rows, const Real* x, const Factor& weight,
                                   int64_t j, int64_t* from, int64_t* to) {
    for (; j + Lanes <= rows.d; j += Lanes) {
        Integers<Lanes> parts[Limbs];
        split<Lanes, Limbs, Weighted>(x + j, weight, rows.magic, parts);
        for (int l = 0; l < Limbs; ++l) {
            const int64_t place = (Limbs - 1 - l) * rows.d + j;
            store(from + place, load<Integers<Lanes>>(from + place) - parts[l]);
            store(to + place, load<Integers<Lanes>>(to + place) + parts[l]);
        }
    }
    if constexpr (Lanes > 1) move_columns<Lanes / 2, Limbs, Weighted>(rows, x, weight, j, from, to);
}

template <int Lanes, int Limbs, bool Weighted, class Real>
void add_rows(const Rows<Real>& given, const int32_t* labels, int64_t first, int64_t last,
              int64_t* sums) {
    const Rows<Real> rows = given; // a copy that no store can change
    for (int64_t i = first; i < last; ++i)
        add_columns<usable_lanes<Lanes>, Limbs, Weighted>(rows, rows.X + i * rows.d,
                                                          factor_of<Weighted>(rows, i), 0,
                                                          sums + labels[i] * rows.stride);
}

// Moved rows lie anywhere. Ask for the first lines of a row some rows ahead; further ones follow
// by themselves, since they are read in order.
inline constexpr int64_t rows_ahead = 8;

template <class Real>
WOLFMEANS_INLINE void prefetch([[maybe_unused]] const Real* row, [[maybe_unused]] int64_t d) {
#if defined(__GNUC__) || defined(__clang__)
    constexpr int64_t line = 64 / sizeof(Real);
    for (int64_t j = 0; j < d && j < 8 * line; j += line)
        __builtin_prefetch(row + j);
#endif
}

template <int Lanes, int Limbs, bool Weighted, class Real>
void move_rows(const Rows<Real>& given, const int64_t* indices, const int32_t* from,
               const int32_t* to, int64_t first, int64_t last, int64_t* sums) {
    const Rows<Real> rows = given;
    for (int64_t i = first; i < last; ++i) {
        if (i + rows_ahead < last) prefetch(rows.X + indices[i + rows_ahead] * rows.d, rows.d);
        move_columns<usable_lanes<Lanes>, Limbs, Weighted>(
            rows, rows.X + indices[i] * rows.d, factor_of<Weighted>(rows, indices[i]), 0,
            sums + from[i] * rows.stride, sums + to[i] * rows.stride);
    }
}

// What has been seen so far, lane by lane.
template <int Lanes>
struct Seen {
    Doubles<Lanes> largest = Doubles<Lanes>{};
    Doubles<Lanes> lowest_bit = Doubles<Lanes>{} + __builtin_huge_val();
    Doubles<Lanes> strange = Doubles<Lanes>{}; // 0, or NaN once an x was not finite

    // A pattern of bits less its lowest one is, unless x is a power of two, x less its lowest bit.
    // A power of two loses a bit of its exponent: the difference is at least a half of it.
    WOLFMEANS_INLINE void look(const Doubles<Lanes>& x) {
        const Integers<Lanes> bits = bits_as<Integers<Lanes>>(x) & INT64_MAX;
        const Doubles<Lanes> size = bits_as<Doubles<Lanes>>(bits);
        const Doubles<Lanes> low = size - bits_as<Doubles<Lanes>>(bits & (bits - 1));
        const Doubles<Lanes> candidate = low > 0.0 ? low : lowest_bit;
        largest = size > largest ? size : largest;
        lowest_bit = candidate < lowest_bit ? candidate : lowest_bit;
        strange = strange + (x - x);
    }

    WOLFMEANS_INLINE void merge_into(Extent& all) const {
        for (int p = 0; p < Lanes; ++p) {
            const double large = lane(largest, p), low = lane(lowest_bit, p);
            all.largest = large > all.largest ? large : all.largest;
            all.lowest_bit = low < all.lowest_bit ? low : all.lowest_bit;
            all.finite = all.finite && lane(strange, p) == 0.0;
        }
    }

    static WOLFMEANS_INLINE double lane(const Doubles<Lanes>& v, int p) {
        if constexpr (Lanes == 1)
            return v;
        else
            return v[p];
    }
};

template <int Lanes, class Real>
Extent extent(const Real* values, int64_t n) {
    constexpr int width = usable_lanes<Lanes>;
    Seen<width> even, odd; // two, so that neither waits for the other
    Seen<1> rest;
    int64_t i = 0;
    for (; i + 2 * width <= n; i += 2 * width) {
        even.look(load_doubles<width>(values + i));
        odd.look(load_doubles<width>(values + i + width));
    }
    for (; i < n; ++i)
        rest.look(load_doubles<1>(values + i));
    Extent all{0.0, __builtin_huge_val(), true};
    even.merge_into(all);
    odd.merge_into(all);
    rest.merge_into(all);
    return all;
}

template <int Lanes, class Real>
inline constexpr DepositFunctions<Real> functions{
    extent<Lanes, Real>,
    {{add_rows<Lanes, 1, false>, add_rows<Lanes, 2, false>, add_rows<Lanes, 3, false>,
      add_rows<Lanes, 4, false>, add_rows<Lanes, 5, false>, add_rows<Lanes, 6, false>},
     {add_rows<Lanes, 1, true>, add_rows<Lanes, 2, true>, add_rows<Lanes, 3, true>,
      add_rows<Lanes, 4, true>, add_rows<Lanes, 5, true>, add_rows<Lanes, 6, true>}},
    {{move_rows<Lanes, 1, false>, move_rows<Lanes, 2, false>, move_rows<Lanes, 3, false>,
      move_rows<Lanes, 4, false>, move_rows<Lanes, 5, false>, move_rows<Lanes, 6, false>},
     {move_rows<Lanes, 1, true>, move_rows<Lanes, 2, true>, move_rows<Lanes, 3, true>,
      move_rows<Lanes, 4, true>, move_rows<Lanes, 5, true>, move_rows<Lanes, 6, true>}}};

} // namespace
} // namespace wolfmeans
