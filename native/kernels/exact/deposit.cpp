// The deposits. Arguments, invariant and exactness: see deposit.hpp.
// A lane is a column. The rest of a row after whole registers goes through registers of half the
// width, down to single numbers.
#include "kernels/exact/deposit.hpp"
#include "kernels/exact/exact_lanes.hpp"

namespace wolfmeans {
namespace {

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

// `Limbs` is the number of limbs, or 0 for all numbers from most_apart + 1 on, which share their
// code: rows.limbs, or `limbs`, says how many there are. Separate versions took long to compile.
inline constexpr int most_apart = 3;

template <int Limbs>
inline constexpr int most_limbs = Limbs ? Limbs : most_fast_limbs;

template <int Limbs>
WOLFMEANS_INLINE bool is_last(int l, int limbs) {
    return Limbs ? l + 1 == Limbs : l + 1 > most_apart && l + 1 == limbs;
}

// A term from limb First on: rounded to a multiple of the limb's unit by what it is added to, which
// stays in the binade of magic[l]; what rounding left goes on to the next limb. `sums` start as
// magic (top limb first); their bits less those of magic are the integers that were added.
template <int First, int Lanes, int Limbs>
WOLFMEANS_INLINE void accumulate_from(Doubles<Lanes> term, int limbs,
                                      Doubles<Lanes> (&sums)[most_limbs<Limbs>]) {
#pragma GCC unroll 8
    for (int l = First; l < most_limbs<Limbs>; ++l) {
        const Doubles<Lanes> next = sums[l] + term;
        const Doubles<Lanes> before = sums[l];
        sums[l] = next;
        if (is_last<Limbs>(l, limbs)) break;
        term = term - (next - before);
    }
}

// Lanes terms, x or the exact product of weight and x. A product is two numbers: the rounded one,
// and a remainder of at most 2^-53 of it, which the top limb does not need.
template <int Limbs, bool Weighted>
inline constexpr bool has_remainder = Weighted && Limbs != 1;

template <int Lanes, int Limbs, bool Weighted>
struct Terms {
    Doubles<Lanes> leading;
    Doubles<Lanes> remainder;
};

template <int Lanes, int Limbs, bool Weighted, class Real>
WOLFMEANS_INLINE Terms<Lanes, Limbs, Weighted> terms_of(const Real* x, const Factor& weight) {
    const Doubles<Lanes> value = load_doubles<Lanes>(x);
    if constexpr (!Weighted) return {value, value};
    const Doubles<Lanes> product = value * weight.whole;
    if constexpr (!has_remainder<Limbs, Weighted>) {
        return {product, product};
    } else if constexpr (sizeof(Real) == sizeof(float)) {
        // 24 bits need no halves.
        return {product, (value * weight.high - product) + value * weight.low};
    } else {
        const Doubles<Lanes> high = upper_half(value);
        const Doubles<Lanes> low = value - high;
        return {product, ((high * weight.high - product) + high * weight.low + low * weight.high) +
                             low * weight.low};
    }
}

template <int Lanes, int Limbs, bool Weighted>
WOLFMEANS_INLINE void accumulate(const Terms<Lanes, Limbs, Weighted>& terms, int limbs,
                                 Doubles<Lanes> (&sums)[most_limbs<Limbs>]) {
    accumulate_from<0, Lanes, Limbs>(terms.leading, limbs, sums);
    if constexpr (has_remainder<Limbs, Weighted>)
        accumulate_from<1, Lanes, Limbs>(terms.remainder, limbs, sums);
}

template <int Lanes, int Limbs>
WOLFMEANS_INLINE void start(const double* magic, int limbs,
                            Doubles<Lanes> (&sums)[most_limbs<Limbs>]) {
#pragma GCC unroll 8
    for (int l = 0; l < most_limbs<Limbs>; ++l) {
        sums[l] = Doubles<Lanes>{} + magic[l];
        if (is_last<Limbs>(l, limbs)) break;
    }
}

// --- Rows of one cluster, several at a time ---------------------------------------------------

// A group of rows from column j on. `Group` is the number of rows, 0 where only `count` says it.
template <int Lanes, int Limbs, bool Weighted, int Group, class Real>
WOLFMEANS_INLINE void add_group(const Rows<Real>& rows, const Real* const* x,
                                const Real* const* later, const Factor* weights, int count,
                                int64_t j, int64_t sign, int64_t* to);

// The last rows, fewer than a group: their last columns or, with many limbs, all columns. One
// version for all numbers of rows: separate ones took long to compile.
template <int Lanes, int Limbs, bool Weighted, class Real>
__attribute__((noinline)) void add_corner(const Rows<Real>& rows, const Real* const* x,
                                          const Real* const* later, const Factor* weights,
                                          int count, int64_t j, int64_t sign, int64_t* to) {
    add_group<Lanes, Limbs, Weighted, 0>(rows, x, later, weights, count, j, sign, to);
}

template <int Lanes, int Limbs, bool Weighted, int Group, class Real>
WOLFMEANS_INLINE void add_group(const Rows<Real>& rows, const Real* const* x,
                                const Real* const* later, const Factor* weights, int count,
                                int64_t j, int64_t sign, int64_t* to) {
    constexpr int64_t line = 64 / sizeof(Real);
    const int limbs = Limbs ? Limbs : rows.limbs, group = Group ? Group : count;
    for (; j + Lanes <= rows.d; j += Lanes) {
        if (Lanes >= line || j % line == 0)
            for (int g = 0; g < group; ++g)
                __builtin_prefetch(later[g] + j);
        Doubles<Lanes> sums[most_limbs<Limbs>];
        start<Lanes, Limbs>(rows.magic, limbs, sums);
        for (int g = 0; g < group; ++g)
            accumulate<Lanes, Limbs>(terms_of<Lanes, Limbs, Weighted>(x[g] + j, weights[g]), limbs,
                                     sums);
#pragma GCC unroll 8
        for (int l = 0; l < most_limbs<Limbs>; ++l) {
            int64_t* const place = to + (limbs - 1 - l) * rows.d + j;
            const Longs<Lanes> added =
                bits_as<Longs<Lanes>>(sums[l]) - bits_as<int64_t>(rows.magic[l]);
            store(place, load<Longs<Lanes>>(place) + ((added ^ sign) - sign));
            if (is_last<Limbs>(l, limbs)) break;
        }
    }
    if constexpr (Lanes > 1) {
        if constexpr (Group == run_group || Group == 0)
            add_group<Lanes / 2, Limbs, Weighted, Group>(rows, x, later, weights, count, j, sign,
                                                         to);
        else if (j < rows.d)
            add_corner<Lanes / 2, Limbs, Weighted>(rows, x, later, weights, Group, j, sign, to);
    }
}

// The rows from position i on: whole groups, then the rest by groups of half the size.
template <int Lanes, int Limbs, bool Weighted, int Group, class Real>
WOLFMEANS_INLINE void add_groups(const Rows<Real>& rows, const int64_t* indices,
                                 const int64_t* later, int64_t i, int64_t count, int64_t sign,
                                 int64_t* to) {
    for (; i + Group <= count; i += Group) {
        const Real *x[Group], *next[Group];
        Factor weights[Group];
        for (int g = 0; g < Group; ++g) {
            x[g] = rows.X + indices[i + g] * rows.d;
            next[g] = rows.X + later[i + g] * rows.d;
            weights[g] = factor_of<Weighted>(rows, indices[i + g]);
        }
        if constexpr (Limbs == 0 && Group < run_group)
            add_corner<Lanes, Limbs, Weighted>(rows, x, next, weights, Group, 0, sign, to);
        else
            add_group<Lanes, Limbs, Weighted, Group>(rows, x, next, weights, Group, 0, sign, to);
    }
    if constexpr (Group > 1)
        add_groups<Lanes, Limbs, Weighted, Group / 2>(rows, indices, later, i, count, sign, to);
}

template <int Lanes, int Limbs, bool Weighted, class Real>
void add_run(const Rows<Real>& given, const int64_t* indices, const int64_t* later, int64_t count,
             bool negative, int64_t* to) {
    const Rows<Real> rows = given; // a copy that no store can change
    add_groups<Lanes, Limbs, Weighted, run_group>(rows, indices, later, 0, count, negative ? -1 : 0,
                                                  to);
}

// --- Narrow rows, in the order they come ------------------------------------------------------

// Registers no wider than what holds the d columns of a row.
template <int Lanes>
int64_t padded(int64_t d) {
    int64_t lanes = Lanes;
    while (lanes / 2 >= d && lanes > 1)
        lanes /= 2;
    return (d + lanes - 1) / lanes * lanes;
}

// The bits of `term + magic` are added as they are, magic included.
template <int First, int Lanes, int Limbs, bool Move>
WOLFMEANS_INLINE void add_raw(Doubles<Lanes> term, const double* magic, int limbs, int64_t width,
                              int64_t* from, int64_t* to) {
#pragma GCC unroll 8
    for (int l = First; l < most_limbs<Limbs>; ++l) {
        const Doubles<Lanes> shifted = term + magic[l];
        const auto bits = bits_as<Words<Lanes>>(shifted);
        const int64_t place = l * width;
        if constexpr (Move) store(from + place, load<Words<Lanes>>(from + place) - bits);
        store(to + place, load<Words<Lanes>>(to + place) + bits);
        if (is_last<Limbs>(l, limbs)) break;
        term = term - (shifted - magic[l]);
    }
}

// One row, whose memory can be read up to the padded width.
template <int Lanes, int Limbs, bool Weighted, bool Move, class Real>
WOLFMEANS_INLINE void add_narrow_row(const Rows<Real>& rows, const Real* x, const Factor& weight,
                                     int64_t width, int64_t* from, int64_t* to) {
    for (int64_t j = 0; j < width; j += Lanes) {
        const auto terms = terms_of<Lanes, Limbs, Weighted>(x + j, weight);
        add_raw<0, Lanes, Limbs, Move>(terms.leading, rows.magic, rows.limbs, width, from + j,
                                       to + j);
        if constexpr (has_remainder<Limbs, Weighted>)
            add_raw<1, Lanes, Limbs, Move>(terms.remainder, rows.magic, rows.limbs, width, from + j,
                                           to + j);
    }
}

// Moved rows are scattered: prefetch some rows ahead.
inline constexpr int64_t rows_ahead = 16;

template <int Lanes, int Limbs, bool Weighted, bool Move, class Real>
WOLFMEANS_INLINE void add_narrow(const Rows<Real>& given, const int64_t* indices,
                                 const int32_t* from, const int32_t* to, int64_t first,
                                 int64_t last, int64_t width, int64_t* sums) {
    if constexpr (Lanes > 1) {
        if (width < Lanes)
            return add_narrow<Lanes / 2, Limbs, Weighted, Move>(given, indices, from, to, first,
                                                                last, width, sums);
    }
    const Rows<Real> rows = given;
    const int64_t slot = (Limbs ? Limbs : rows.limbs) * width;
    // Rows of which so much can be read that no read leaves X.
    const int64_t whole = rows.n * rows.d - width;
    for (int64_t i = first; i < last; ++i) {
        const int64_t row = Move ? indices[i] : i;
        if constexpr (Move)
            if (i + rows_ahead < last)
                __builtin_prefetch(rows.X + indices[i + rows_ahead] * rows.d);
        const Real* x = rows.X + row * rows.d;
        Real copy[most_narrow];
        if (row * rows.d > whole) {
            for (int64_t j = 0; j < width; ++j)
                copy[j] = j < rows.d ? x[j] : Real{0};
            x = copy;
        }
        add_narrow_row<Lanes, Limbs, Weighted, Move>(rows, x, factor_of<Weighted>(rows, row), width,
                                                     Move ? sums + from[i] * slot : sums,
                                                     sums + to[i] * slot);
    }
}

template <int Lanes, int Limbs, bool Weighted, class Real>
void add_narrow_rows(const Rows<Real>& rows, const int32_t* labels, int64_t first, int64_t last,
                     int64_t* sums) {
    add_narrow<Lanes, Limbs, Weighted, false>(rows, nullptr, nullptr, labels, first, last,
                                              padded<Lanes>(rows.d), sums);
}

template <int Lanes, int Limbs, bool Weighted, class Real>
void move_narrow_rows(const Rows<Real>& rows, const int64_t* indices, const int32_t* from,
                      const int32_t* to, int64_t first, int64_t last, int64_t* sums) {
    add_narrow<Lanes, Limbs, Weighted, true>(rows, indices, from, to, first, last,
                                             padded<Lanes>(rows.d), sums);
}

// --- A few rows -------------------------------------------------------------------------------

template <int Lanes, int Limbs, bool Weighted, class Real>
WOLFMEANS_INLINE void move_columns(const Rows<Real>& rows, const Real* x, const Factor& weight,
                                   int64_t j, int64_t* from, int64_t* to) {
    const int limbs = Limbs ? Limbs : rows.limbs;
    for (; j + Lanes <= rows.d; j += Lanes) {
        Doubles<Lanes> sums[most_limbs<Limbs>];
        start<Lanes, Limbs>(rows.magic, limbs, sums);
        accumulate<Lanes, Limbs>(terms_of<Lanes, Limbs, Weighted>(x + j, weight), limbs, sums);
#pragma GCC unroll 8
        for (int l = 0; l < most_limbs<Limbs>; ++l) {
            const int64_t place = (limbs - 1 - l) * rows.d + j;
            const Longs<Lanes> added =
                bits_as<Longs<Lanes>>(sums[l]) - bits_as<int64_t>(rows.magic[l]);
            store(from + place, load<Longs<Lanes>>(from + place) - added);
            store(to + place, load<Longs<Lanes>>(to + place) + added);
            if (is_last<Limbs>(l, limbs)) break;
        }
    }
    if constexpr (Lanes > 1) move_columns<Lanes / 2, Limbs, Weighted>(rows, x, weight, j, from, to);
}

template <int Lanes, int Limbs, bool Weighted, class Real>
void move_rows(const Rows<Real>& given, const int64_t* indices, const int32_t* from,
               const int32_t* to, int64_t first, int64_t last, int64_t* sums) {
    constexpr int64_t line = 64 / sizeof(Real);
    const Rows<Real> rows = given;
    for (int64_t i = first; i < last; ++i) {
        // The first lines of a later row; the hardware prefetches further ones, which are read in
        // order.
        if (i + rows_ahead < last)
            for (int64_t j = 0; j < rows.d && j < 8 * line; j += line)
                __builtin_prefetch(rows.X + indices[i + rows_ahead] * rows.d + j);
        move_columns<Lanes, Limbs, Weighted>(
            rows, rows.X + indices[i] * rows.d, factor_of<Weighted>(rows, indices[i]), 0,
            sums + from[i] * rows.stride, sums + to[i] * rows.stride);
    }
}

// The extent so far, lane by lane.
template <int Lanes>
struct Seen {
    Doubles<Lanes> largest = Doubles<Lanes>{};
    Doubles<Lanes> smallest = Doubles<Lanes>{} + __builtin_huge_val();
    Doubles<Lanes> lowest_bit = smallest;
    Doubles<Lanes> strange = Doubles<Lanes>{}; // 0, or NaN once an x was not finite

    // A pattern of bits less its lowest one is, unless x is a power of two, x less its lowest bit.
    // A power of two loses a bit of its exponent: the difference is at least a half of it.
    WOLFMEANS_INLINE void add(const Doubles<Lanes>& x) {
        const Longs<Lanes> bits = bits_as<Longs<Lanes>>(x) & INT64_MAX;
        const Doubles<Lanes> size = bits_as<Doubles<Lanes>>(bits);
        const Doubles<Lanes> low = size - bits_as<Doubles<Lanes>>(bits & (bits - 1));
        const Doubles<Lanes> infinite = Doubles<Lanes>{} + __builtin_huge_val();
        const Doubles<Lanes> nonzero = size > 0.0 ? size : infinite;
        const Doubles<Lanes> candidate = size > 0.0 ? low : infinite;
        largest = size > largest ? size : largest;
        smallest = nonzero < smallest ? nonzero : smallest;
        lowest_bit = candidate < lowest_bit ? candidate : lowest_bit;
        strange = strange + (x - x);
    }

    WOLFMEANS_INLINE void merge_into(Extent& all) const {
        for (int p = 0; p < Lanes; ++p) {
            const double large = lane(largest, p), low = lane(lowest_bit, p);
            const double small = lane(smallest, p);
            all.smallest = small < all.smallest ? small : all.smallest;
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
    Seen<Lanes> even, odd; // two independent chains
    Seen<1> rest;
    int64_t i = 0;
    for (; i + 2 * Lanes <= n; i += 2 * Lanes) {
        even.add(load_doubles<Lanes>(values + i));
        odd.add(load_doubles<Lanes>(values + i + Lanes));
    }
    for (; i < n; ++i)
        rest.add(load_doubles<1>(values + i));
    Extent all{0.0, __builtin_huge_val(), __builtin_huge_val(), true};
    even.merge_into(all);
    odd.merge_into(all);
    rest.merge_into(all);
    return all;
}

// Magnitudes by their bits, which order like them.
template <int Lanes>
Extent sizes(const float* values, int64_t n) {
    constexpr int width = 2 * Lanes;
    constexpr int32_t most = INT32_MAX, infinite = 0x7f800000;
    using Bits = typename Register<int32_t, width>::Type;
    using Floats = typename Register<float, width>::Type;
    // Of every size also the number before it, which for 0 is the largest of all.
    Bits largest[2] = {}, before[2] = {Bits{} + most, Bits{} + most};
    int64_t i = 0;
    for (; i + 2 * width <= n; i += 2 * width)
        for (int h = 0; h < 2; ++h) { // two independent chains
            const Bits size = bits_as<Bits>(load<Floats>(values + i + h * width)) & most;
            const Bits less = (size - 1) & most;
            largest[h] = size > largest[h] ? size : largest[h];
            before[h] = less < before[h] ? less : before[h];
        }
    int32_t large = 0, small = most;
    const auto see = [&](int32_t size, int32_t less) {
        large = size > large ? size : large;
        small = less < small ? less : small;
    };
    for (int h = 0; h < 2; ++h)
        for (int p = 0; p < width; ++p)
            if constexpr (width == 1)
                see(largest[h], before[h]);
            else
                see(largest[h][p], before[h][p]);
    for (; i < n; ++i) {
        const int32_t size = bits_as<int32_t>(values[i]) & most;
        see(size, (size - 1) & most);
    }
    const double least = small == most ? __builtin_huge_val() : bits_as<float>(small + 1);
    return {bits_as<float>(large), least, 0.0, large < infinite};
}

// --- Sums of terms ----------------------------------------------------------------------------

template <int Lanes>
WOLFMEANS_INLINE int64_t over_lanes(const Longs<Lanes>& v) {
    if constexpr (Lanes == 1) {
        return v;
    } else {
        int64_t sum = 0;
        for (int p = 0; p < Lanes; ++p)
            sum += v[p];
        return sum;
    }
}

// Add a term; not 0 where something of it is left below the last limb.
template <int Lanes>
WOLFMEANS_INLINE Longs<Lanes> below_limbs(Doubles<Lanes> term,
                                          Doubles<Lanes> (&sums)[block_limbs]) {
    for (int l = 0; l < block_limbs; ++l) {
        const Doubles<Lanes> next = sums[l] + term;
        term = term - (next - sums[l]);
        sums[l] = next;
    }
    if constexpr (Lanes == 1)
        return term != 0.0 ? 1 : 0;
    else
        return term != 0.0;
}

template <int Lanes>
double largest_term(const double* terms, int64_t n) {
    constexpr int64_t infinite = 0x7ff0000000000000;
    Longs<Lanes> most{};
    int64_t i = 0, all = 0;
    const auto size = [](const auto& v) {
        return bits_as<Longs<sizeof(v) / sizeof(double)>>(v) & INT64_MAX;
    };
    // The bits of sizes are in the order of the sizes, infinity and NaN above.
    for (; i + Lanes <= n; i += Lanes) {
        const Longs<Lanes> bits = size(load<Doubles<Lanes>>(terms + i));
        most = bits > most ? bits : most;
    }
    for (; i < n; ++i) {
        const int64_t bits = size(terms[i]);
        all = bits > all ? bits : all;
    }
    for (int p = 0; p < Lanes; ++p) {
        int64_t lane;
        if constexpr (Lanes == 1)
            lane = most;
        else
            lane = most[p];
        all = lane > all ? lane : all;
    }
    return bits_as<double>(all > infinite ? infinite : all);
}

// Two independent accumulators.
template <int Lanes>
bool sum_terms(const double* terms, int64_t n, const double* given, int64_t* limbs) {
    double magic[block_limbs];
    for (int l = 0; l < block_limbs; ++l) {
        magic[l] = given[l];
        limbs[l] = 0;
    }
    Doubles<Lanes> even[block_limbs], odd[block_limbs];
    double rest[block_limbs];
    start<Lanes, block_limbs>(magic, block_limbs, even);
    start<Lanes, block_limbs>(magic, block_limbs, odd);
    start<1, block_limbs>(magic, block_limbs, rest);
    Longs<Lanes> left{};
    int64_t left_alone = 0, i = 0;
    for (; i + 2 * Lanes <= n; i += 2 * Lanes) {
        left = left | below_limbs<Lanes>(load<Doubles<Lanes>>(terms + i), even);
        left = left | below_limbs<Lanes>(load<Doubles<Lanes>>(terms + i + Lanes), odd);
    }
    for (; i < n; ++i)
        left_alone = left_alone | below_limbs<1>(terms[i], rest);
    for (int l = 0; l < block_limbs; ++l) {
        const auto bits = bits_as<int64_t>(magic[l]);
        const Longs<Lanes> both =
            (bits_as<Longs<Lanes>>(even[l]) - bits) + (bits_as<Longs<Lanes>>(odd[l]) - bits);
        limbs[l] = bits_as<int64_t>(rest[l]) - bits + over_lanes<Lanes>(both);
    }
    return (left_alone | over_lanes<Lanes>(left & 1)) == 0;
}

template <int Lanes, bool Weighted, class Real>
inline constexpr DepositsByLimbs<Real> by_limbs{
    {add_run<Lanes, 1, Weighted>, add_run<Lanes, 2, Weighted>, add_run<Lanes, 3, Weighted>,
     add_run<Lanes, 0, Weighted>, add_run<Lanes, 0, Weighted>, add_run<Lanes, 0, Weighted>},
    {move_rows<Lanes, 1, Weighted>, move_rows<Lanes, 2, Weighted>, move_rows<Lanes, 3, Weighted>,
     move_rows<Lanes, 0, Weighted>, move_rows<Lanes, 0, Weighted>, move_rows<Lanes, 0, Weighted>},
    {add_narrow_rows<Lanes, 1, Weighted>, add_narrow_rows<Lanes, 2, Weighted>,
     add_narrow_rows<Lanes, 3, Weighted>, add_narrow_rows<Lanes, 0, Weighted>,
     add_narrow_rows<Lanes, 0, Weighted>, add_narrow_rows<Lanes, 0, Weighted>},
    {move_narrow_rows<Lanes, 1, Weighted>, move_narrow_rows<Lanes, 2, Weighted>,
     move_narrow_rows<Lanes, 3, Weighted>, move_narrow_rows<Lanes, 0, Weighted>,
     move_narrow_rows<Lanes, 0, Weighted>, move_narrow_rows<Lanes, 0, Weighted>}};

template <int Lanes, class Real>
inline constexpr DepositFunctions<Real> functions{
    extent<Lanes, Real>,
    padded<Lanes>,
    {by_limbs<Lanes, false, Real>, by_limbs<Lanes, true, Real>}};

template <int Lanes>
inline constexpr DepositVersion deposits{{functions<Lanes, float>, functions<Lanes, double>},
                                         sizes<Lanes>,
                                         largest_term<Lanes>,
                                         sum_terms<Lanes>};

} // namespace

namespace WOLFMEANS_UNIT {

extern constinit const DepositVersion deposit_kernels = deposits<doubles_at_once>;

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
