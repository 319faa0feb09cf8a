// Exact work on the centers of sparse data. Arguments and rounding: see sparse_exact.hpp.
#include "kernels/exact/sparse_exact.hpp"
#include "kernels/exact/exact_lanes.hpp"

namespace wolfmeans {
namespace {

template <int Lanes>
WOLFMEANS_INLINE void store_floats(float* to, const Doubles<Lanes>& v) {
    store(to, __builtin_convertvector(v, Floats<Lanes>));
}

// a + b - sum, exactly (Knuth), in the order of operations of lost_in_sum in reference.py.
template <class V>
WOLFMEANS_INLINE V lost_in_sum(const V& a, const V& b, const V& sum) {
    const V came = sum - a;
    return (a - (sum - came)) + (b - came);
}

// c^2 taken into a double-length sum.
template <class V>
WOLFMEANS_INLINE void add_square(const V& c, V& high, V& low) {
    const V square = c * c;
    const V upper = upper_half(c);
    const V lower = c - upper;
    const V remainder = ((upper * upper - square) + 2.0 * upper * lower) + lower * lower;
    const V next = high + square;
    low = low + lost_in_sum(high, square, next);
    low = low + remainder;
    high = next;
}

template <int Lanes>
void cover_entries(const double* x, const double* c, int64_t count, CoveredSums& sums) {
    constexpr int registers = center_group / Lanes;
    Doubles<Lanes> distance[registers], high[registers], low[registers];
    for (int r = 0; r < registers; ++r) {
        distance[r] = load<Doubles<Lanes>>(sums.distance + r * Lanes);
        high[r] = load<Doubles<Lanes>>(sums.high + r * Lanes);
        low[r] = load<Doubles<Lanes>>(sums.low + r * Lanes);
    }
    for (int64_t e = 0; e < count; ++e) {
        for (int r = 0; r < registers; ++r) {
            const Doubles<Lanes> coordinate =
                load<Doubles<Lanes>>(c + e * center_group + r * Lanes);
            const Doubles<Lanes> difference =
                load<Doubles<Lanes>>(x + e * center_group + r * Lanes) - coordinate;
            distance[r] = distance[r] + difference * difference;
            add_square(coordinate, high[r], low[r]);
        }
    }
    for (int r = 0; r < registers; ++r) {
        store(sums.distance + r * Lanes, distance[r]);
        store(sums.high + r * Lanes, high[r]);
        store(sums.low + r * Lanes, low[r]);
    }
}

template <int Lanes>
void square_norms(const double* columns, int64_t count, double* high, double* low) {
    constexpr int registers = center_group / Lanes;
    Doubles<Lanes> sum[registers], rest[registers];
    for (int r = 0; r < registers; ++r) {
        sum[r] = load<Doubles<Lanes>>(high + r * Lanes);
        rest[r] = load<Doubles<Lanes>>(low + r * Lanes);
    }
    for (int64_t j = 0; j < count; ++j)
        for (int r = 0; r < registers; ++r)
            add_square(load<Doubles<Lanes>>(columns + j * center_group + r * Lanes), sum[r],
                       rest[r]);
    for (int r = 0; r < registers; ++r) {
        store(high + r * Lanes, sum[r]);
        store(low + r * Lanes, rest[r]);
    }
}

template <int Lanes>
void pack_centers(const double* columns, const double* origin, double factor, int64_t count,
                  float* packed, int64_t stride, GroupSums& sums) {
    for (int p = 0; p < center_group; p += Lanes) {
        Doubles<Lanes> offset = load<Doubles<Lanes>>(sums.offset + p),
                       around = load<Doubles<Lanes>>(sums.around + p);
        Doubles<Lanes> square = load<Doubles<Lanes>>(sums.square + p);
        for (int64_t j = 0; j < count; ++j) {
            const Doubles<Lanes> c = load<Doubles<Lanes>>(columns + j * center_group + p) * factor;
            const Doubles<Lanes> shifted = c - origin[j];
            store_floats<Lanes>(packed + j * stride + p, shifted);
            offset = offset + shifted * (c + origin[j]);
            around = around + shifted * shifted;
            square = square + c * c;
        }
        store(sums.offset + p, offset);
        store(sums.around + p, around);
        store(sums.square + p, square);
    }
}

template <class Real>
double step_squared(const Real* now, Real* before, double factor, int64_t d) {
    constexpr int width = 16; // sums side by side, in as many registers as that takes
    double sum[width] = {};
    int64_t j = 0;
    for (; j + width <= d; j += width)
        for (int p = 0; p < width; ++p) {
            const double step =
                (static_cast<double>(now[j + p]) - static_cast<double>(before[j + p])) * factor;
            sum[p] += step * step;
            before[j + p] = now[j + p];
        }
    for (; j < d; ++j) {
        const double step = (static_cast<double>(now[j]) - static_cast<double>(before[j])) * factor;
        sum[0] += step * step;
        before[j] = now[j];
    }
    double total = 0.0;
    for (int p = 0; p < width; ++p)
        total += sum[p];
    return total;
}

// An integer below 2^32 as a double: its bits become the lower ones of 2^52.
template <int Lanes>
WOLFMEANS_INLINE Doubles<Lanes> half_word(const Words<Lanes>& w) {
    return __builtin_bit_cast(Doubles<Lanes>, w | uint64_t{0x4330000000000000}) - 0x1p52;
}

// A word of two's complement in halves: the sign is taken out of the upper one by adding 2^63.
template <int Lanes>
WOLFMEANS_INLINE Doubles<Lanes> signed_upper_half(const Words<Lanes>& w) {
    return half_word<Lanes>((w ^ (uint64_t{1} << 63)) >> 32) - 0x1p31;
}

// N q taken away from h, exactly: both halves of q have so few bits that their products with N, and
// the differences, fit.
template <class V>
WOLFMEANS_INLINE V less_product(const V& h, const V& q, double divisor) {
    const V upper = upper_half(q);
    const V lower = q - upper;
    return (h - upper * divisor) - lower * divisor;
}

template <int Lanes, class Real>
WOLFMEANS_INLINE bool divide_lanes(const uint64_t* words, int n_words, int64_t stride,
                                   double divisor, double reciprocal, double scale, Real* means,
                                   double* residuals) {
    const Words<Lanes> lowest = load<Words<Lanes>>(words);
    const Doubles<Lanes> last = half_word<Lanes>(lowest & uint64_t{0xffffffff});
    Doubles<Lanes> sum, rest;
    if (n_words == 1) {
        sum = signed_upper_half<Lanes>(lowest) * 0x1p32;
        rest = last;
    } else {
        const Words<Lanes> upper = load<Words<Lanes>>(words + stride);
        const Doubles<Lanes> first = (signed_upper_half<Lanes>(upper) * 0x1p32 +
                                      half_word<Lanes>(upper & uint64_t{0xffffffff})) *
                                     0x1p64;
        const Doubles<Lanes> middle = half_word<Lanes>(lowest >> 32) * 0x1p32;
        sum = first + middle;
        rest = lost_in_sum(first, middle, sum) + last;
    }
    const Doubles<Lanes> h = sum + rest;
    const Doubles<Lanes> l = lost_in_sum(sum, rest, h);
    const Doubles<Lanes> guess = h * reciprocal;
    const Doubles<Lanes> q = guess + (less_product(h, guess, divisor) + l) * reciprocal;
    const Doubles<Lanes> residual = (less_product(h, q, divisor) + l) / divisor;
    const Doubles<Lanes> beyond = q + residual * (1.0 + 0x1p-40);
    const Doubles<Lanes> mean = q * scale, left = residual * scale;
    bool certain = true;
    for (int p = 0; p < Lanes; ++p)
        certain = certain & (beyond[p] == q[p]);
    if constexpr (sizeof(Real) == sizeof(double)) {
        store(means, mean);
        store(residuals, left);
    } else {
        // The difference of the float64 and the float32 mean is exact in float64.
        store_floats<Lanes>(means, mean);
        for (int p = 0; p < Lanes; ++p)
            residuals[p] = (mean[p] - static_cast<double>(means[p])) + left[p];
    }
    return certain;
}

template <int Lanes, class Real>
int64_t divide_sums(const uint64_t* words, int n_words, int64_t stride, int64_t d, double divisor,
                    double scale, Real* means, double* residuals, int32_t* undecided) {
    const double reciprocal = 1.0 / divisor;
    int64_t count = 0, j = 0;
    for (; j + Lanes <= d; j += Lanes) {
        if (divide_lanes<Lanes>(words + j, n_words, stride, divisor, reciprocal, scale, means + j,
                                residuals + j))
            continue;
        for (int p = 0; p < Lanes; ++p)
            undecided[count++] = static_cast<int32_t>(j + p);
    }
    if (j == d) return count;
    // What is left goes through a register filled with zeros.
    uint64_t rest[2 * Lanes] = {};
    Real some_means[Lanes];
    double some_residuals[Lanes];
    for (int64_t p = 0; j + p < d; ++p)
        for (int w = 0; w < n_words; ++w)
            rest[w * Lanes + p] = words[w * stride + j + p];
    const bool certain = divide_lanes<Lanes>(rest, n_words, Lanes, divisor, reciprocal, scale,
                                             some_means, some_residuals);
    for (int64_t p = 0; j + p < d; ++p) {
        means[j + p] = some_means[p];
        residuals[j + p] = some_residuals[p];
        if (!certain) undecided[count++] = static_cast<int32_t>(j + p);
    }
    return count;
}

template <int Lanes>
constexpr SparseExactVersion sparse_exact_version() {
    return {{{step_squared<float>, divide_sums<Lanes, float>},
             {step_squared<double>, divide_sums<Lanes, double>}},
            cover_entries<Lanes>,
            square_norms<Lanes>,
            pack_centers<Lanes>};
}

} // namespace

namespace WOLFMEANS_UNIT {

extern constinit const SparseExactVersion sparse_exact_kernels =
    sparse_exact_version<doubles_at_once>();

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
