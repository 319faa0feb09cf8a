// The quotients. Arguments and exactness: see quotient.hpp.
// A lane is a column. The rest of a row after whole registers goes through registers of half the
// width, down to single numbers.
#include "kernels/exact/quotient.hpp"
#include "kernels/exact/exact_lanes.hpp"

namespace wolfmeans {
namespace {

// All bits set where the condition holds.
template <int Lanes, class Condition>
WOLFMEANS_INLINE Longs<Lanes> mask_of(const Condition& condition) {
    if constexpr (Lanes == 1)
        return condition ? -1 : 0;
    else
        return condition;
}

template <int Lanes, class Real>
WOLFMEANS_INLINE typename Register<Real, Lanes>::Type rounded_to(const Doubles<Lanes>& v) {
    if constexpr (sizeof(Real) == sizeof(double))
        return v;
    else if constexpr (Lanes == 1)
        return static_cast<Real>(v);
    else
        return converted<typename Register<Real, Lanes>::Type>(v);
}

template <int Lanes>
WOLFMEANS_INLINE Doubles<Lanes> size_of(const Doubles<Lanes>& v) {
    return bits_as<Doubles<Lanes>>(bits_as<Longs<Lanes>>(v) & INT64_MAX);
}

// An integer of less than 2^51 in size as float64; a larger one becomes anything.
template <int Lanes>
WOLFMEANS_INLINE Doubles<Lanes> as_doubles(const Longs<Lanes>& v) {
    constexpr double magic = 0x1.8p52;
    return bits_as<Doubles<Lanes>>(bits_as<Words<Lanes>>(v) + bits_as<uint64_t>(magic)) - magic;
}

// The weight, its halves (products of halves are exact) and its reciprocal.
struct Weight {
    double whole, high, low, reciprocal;
};

// hi - m * weight, for m within a few units of the quotient: the subtraction of the rounded product
// is exact, being one of neighbours, and so is that of its error, the result having few bits.
template <int Lanes>
WOLFMEANS_INLINE Doubles<Lanes> remainder_of(const Doubles<Lanes>& hi, const Doubles<Lanes>& m,
                                             const Weight& weight) {
    const Doubles<Lanes> product = m * weight.whole;
    const Doubles<Lanes> high = upper_half(m);
    const Doubles<Lanes> low = m - high;
    const Doubles<Lanes> error =
        ((high * weight.high - product) + high * weight.low + low * weight.high) + low * weight.low;
    return (hi - product) - error;
}

// A sum T = hi + lo of Lanes columns, and where it is beyond what float64 can hold that way.
template <int Lanes>
struct Total {
    Doubles<Lanes> hi, lo;
    Longs<Lanes> too_large;
};

// Add a smaller number, each partial sum being 0 or at least as large as it: the error is exact.
template <int Lanes>
WOLFMEANS_INLINE void add_smaller(Doubles<Lanes>& sum, Doubles<Lanes>& error,
                                  const Doubles<Lanes>& smaller) {
    const Doubles<Lanes> next = sum + smaller;
    error = error + (smaller - (next - sum));
    sum = next;
}

template <int Lanes, int Limbs>
WOLFMEANS_INLINE Total<Lanes> total_of(const int64_t* limbs, int64_t d, int bits) {
    const int64_t mask = (int64_t{1} << bits) - 1;
    constexpr int64_t limit = int64_t{1} << 50;
    Longs<Lanes> digits[Limbs], carry{};
    for (int l = 0; l < Limbs; ++l) {
        const Longs<Lanes> limb = load<Longs<Lanes>>(limbs + l * d) + carry;
        digits[l] = l + 1 < Limbs ? limb & mask : limb;
        carry = limb >> bits;
    }
    const Longs<Lanes> top = digits[Limbs - 1];
    double unit = 1.0;
    for (int l = 0; l + 1 < Limbs; ++l)
        unit = unit * static_cast<double>(mask + 1);
    Doubles<Lanes> sum = as_doubles<Lanes>(top) * unit, error{};
    for (int l = Limbs - 2; l >= 0; --l) {
        unit = unit / static_cast<double>(mask + 1);
        add_smaller<Lanes>(sum, error, as_doubles<Lanes>(digits[l]) * unit);
    }
    const Doubles<Lanes> hi = sum + error;
    const Longs<Lanes> outside = mask_of<Lanes>(((top + limit) & ~(2 * limit - 1)) != 0);
    return {hi, error - (hi - sum), outside | ~mask_of<Lanes>(size_of<Lanes>(hi) < 0x1p105)};
}

template <int Lanes, int Limbs, class Real>
WOLFMEANS_INLINE Longs<Lanes> divide_columns(const int64_t* limbs, int64_t d, int bits,
                                             const Weight& weight, double scale, Real* mean,
                                             double* residual) {
    const Total<Lanes> total = total_of<Lanes, Limbs>(limbs, d, bits);
    const Doubles<Lanes> guess = total.hi * weight.reciprocal;
    const Doubles<Lanes> m =
        guess + (remainder_of<Lanes>(total.hi, guess, weight) + total.lo) * weight.reciprocal;
    const Doubles<Lanes> remainder = remainder_of<Lanes>(total.hi, m, weight) + total.lo;

    const Doubles<Lanes> size = size_of<Lanes>(m);
    const Doubles<Lanes> below = bits_as<Doubles<Lanes>>(bits_as<Longs<Lanes>>(size) - 1);
    const Doubles<Lanes> limit = (size - below) * (0.5 * weight.whole);
    const Longs<Lanes> certain =
        mask_of<Lanes>(remainder == 0.0) | mask_of<Lanes>(size_of<Lanes>(remainder) < limit);

    const Doubles<Lanes> exact = m * scale;
    const auto rounded = rounded_to<Lanes, Real>(exact);
    store(mean, rounded);
    Doubles<Lanes> squeezed;
    if constexpr (sizeof(Real) == sizeof(double) || Lanes == 1)
        squeezed = exact - rounded;
    else
        squeezed = exact - converted<Doubles<Lanes>>(rounded);
    store(residual, squeezed + (remainder / weight.whole) * scale);
    return ~certain | total.too_large;
}

template <int Lanes, int Limbs, class Real>
WOLFMEANS_INLINE bool divide_from(const int64_t* limbs, int64_t d, int bits, const Weight& weight,
                                  double scale, Real* means, double* residuals, int64_t* undecided,
                                  int64_t j) {
    Longs<Lanes> any{};
    for (; j + Lanes <= d; j += Lanes) {
        const Longs<Lanes> open = divide_columns<Lanes, Limbs>(limbs + j, d, bits, weight, scale,
                                                               means + j, residuals + j);
        store(undecided + j, open);
        any = any | open;
    }
    bool found = false;
    if constexpr (Lanes == 1) {
        found = any != 0;
    } else {
        for (int p = 0; p < Lanes; ++p)
            found = found || any[p] != 0;
        const bool later = divide_from<Lanes / 2, Limbs>(limbs, d, bits, weight, scale, means,
                                                         residuals, undecided, j);
        found = found || later;
    }
    return found;
}

template <int Lanes, int Limbs, class Real>
bool divide(const int64_t* limbs, int64_t d, int bits, double weight, double scale, Real* means,
            double* residuals, int64_t* undecided) {
    const double high = upper_half(weight);
    return divide_from<Lanes, Limbs>(limbs, d, bits,
                                     Weight{weight, high, weight - high, 1.0 / weight}, scale,
                                     means, residuals, undecided, 0);
}

template <int Lanes, class Real>
inline constexpr QuotientFunctions<Real> quotients{divide<Lanes, 2, Real>, divide<Lanes, 3, Real>};

} // namespace

namespace WOLFMEANS_UNIT {

extern constinit const QuotientVersion quotient_kernels{
    {quotients<doubles_at_once, float>, quotients<doubles_at_once, double>}};

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
