// The reach. Arguments and rounding: see reach.hpp.
//
// The lanes are candidates, and several points go side by side, so that sums are independent. A
// lane never mixes with another: all widths give the same distances.
#if defined(__AVX2__)
#    include <immintrin.h>
#elif defined(__SSE2__)
#    include <emmintrin.h> // a small part of immintrin.h
#endif

#include "kernels/exact/exact_lanes.hpp"
#include "kernels/exact/reach.hpp"

namespace wolfmeans {
namespace {

// One bit for each lane in which a < b.
template <int Lanes>
WOLFMEANS_INLINE unsigned lanes_below(Doubles<Lanes> a, Doubles<Lanes> b) {
#if defined(__AVX512F__)
    if constexpr (Lanes == 8) return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ);
#endif
#if defined(__AVX2__)
    if constexpr (Lanes == 4)
        return static_cast<unsigned>(
            _mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_LT_OQ)));
#elif defined(__SSE2__)
    if constexpr (Lanes == 2)
        return static_cast<unsigned>(_mm_movemask_pd(_mm_cmplt_pd((__m128d)a, (__m128d)b)));
#endif
    unsigned bits = 0;
    for (int l = 0; l < Lanes; ++l)
        bits |= static_cast<unsigned>(a[l] < b[l]) << l;
    return bits;
}

constexpr long long reach_columns = 64;

// The rows are scattered: prefetch each in time. The hardware prefetches the rest of a long row.
constexpr long long rows_ahead = 8;

template <class Real>
WOLFMEANS_INLINE void fetch_row(const Real* X, long long d, unsigned row, const double* closest) {
    const char* const begin = reinterpret_cast<const char*>(
        X + static_cast<unsigned long long>(row) * static_cast<unsigned long long>(d));
    const long long bytes = d * static_cast<long long>(sizeof(Real));
    const long long most = bytes < 512 ? bytes : 512;
    for (long long b = 0; b < most; b += 64)
        __builtin_prefetch(begin + b);
    __builtin_prefetch(begin + most - 1);
    __builtin_prefetch(closest + row);
}

WOLFMEANS_INLINE const double* as_doubles(const double* row, long long, double*) {
    return row;
}

WOLFMEANS_INLINE const double* as_doubles(const float* row, long long count, double* converted) {
    for (long long j = 0; j < count; ++j)
        converted[j] = static_cast<double>(row[j]);
    return converted;
}

// Write the distances whose bit is set; up to as many more as there are lanes are overwritten.
template <int Lanes, int Vectors>
WOLFMEANS_INLINE double* add_to_log(const Doubles<Lanes> (&distance)[Vectors], unsigned bits,
                                    double* log) {
#if defined(__AVX512F__)
    if constexpr (Lanes == 8) {
        const __m512d chosen =
            _mm512_maskz_compress_pd(static_cast<__mmask8>(bits), (__m512d)distance[0]);
        _mm512_storeu_pd(log, chosen);
        return log + __builtin_popcount(bits);
    }
#endif
    for (int t = 0; t < Lanes * Vectors; ++t) {
        *log = distance[t / Lanes][t % Lanes];
        log += (bits >> t) & 1;
    }
    return log;
}

template <int Lanes, int Width, int Points, class Real>
WOLFMEANS_INLINE void reach_points(const Real* X, long long d, const unsigned* rows,
                                   const double* candidates, const double* closest,
                                   const double* weights, Doubles<Lanes> (&gain)[Width / Lanes],
                                   unsigned char* improved, double*& log) {
    constexpr int vectors = Width / Lanes;
    Doubles<Lanes> distance[Points][vectors];
    for (int p = 0; p < Points; ++p)
        for (int v = 0; v < vectors; ++v)
            distance[p][v] = Doubles<Lanes>{};
    // Float32 coordinates are made float64 some at a time, so that the loop below finds all of them
    // in memory, from where they are broadcast without a cost of their own.
    double converted[Points][reach_columns];
    for (long long first = 0; first < d; first += reach_columns) {
        const long long count = d - first < reach_columns ? d - first : reach_columns;
        const double* x[Points];
        for (int p = 0; p < Points; ++p) {
            const Real* const row =
                X + static_cast<unsigned long long>(rows[p]) * static_cast<unsigned long long>(d) +
                first;
            x[p] = as_doubles(row, count, converted[p]);
        }
        const double* candidate = candidates + first * Width;
        for (long long j = 0; j < count; ++j, candidate += Width) {
            for (int v = 0; v < vectors; ++v) {
                const Doubles<Lanes> c = load<Doubles<Lanes>>(candidate + v * Lanes);
                for (int p = 0; p < Points; ++p) {
                    // The square is that of x - c to the bit.
                    const Doubles<Lanes> difference = c - x[p][j];
                    distance[p][v] = distance[p][v] + difference * difference;
                }
            }
        }
    }
    for (int p = 0; p < Points; ++p) {
        const double old = closest[rows[p]];
        const double weight = weights ? weights[rows[p]] : 1.0;
        const double mass = weight * old;
        unsigned bits = 0;
        for (int v = 0; v < vectors; ++v) {
            const Doubles<Lanes> bound = Doubles<Lanes>{} + old;
            bits |= lanes_below<Lanes>(distance[p][v], bound) << (v * Lanes);
            const Doubles<Lanes> least = distance[p][v] < bound ? distance[p][v] : bound;
            gain[v] = gain[v] + (mass - weight * least);
        }
        improved[rows[p]] = static_cast<unsigned char>(bits);
        if (log) log = add_to_log<Lanes, vectors>(distance[p], bits, log);
    }
}

template <int Lanes, int Width, class Real>
double* reach(const Real* X, long long d, const unsigned* rows, long long count,
              const double* candidates, const double* closest, const double* weights, double* gains,
              unsigned char* improved, double* log) {
    constexpr int vectors = Width / Lanes;
    constexpr int together = vectors > 2 ? 2 : 4;
    Doubles<Lanes> gain[vectors];
    for (int v = 0; v < vectors; ++v)
        gain[v] = load<Doubles<Lanes>>(gains + v * Lanes);
    long long i = 0;
    for (; i + together <= count; i += together) {
        for (int p = 0; p < together; ++p)
            if (i + rows_ahead + p < count) fetch_row(X, d, rows[i + rows_ahead + p], closest);
        reach_points<Lanes, Width, together>(X, d, rows + i, candidates, closest, weights, gain,
                                             improved, log);
    }
    for (; i < count; ++i)
        reach_points<Lanes, Width, 1>(X, d, rows + i, candidates, closest, weights, gain, improved,
                                      log);
    for (int v = 0; v < vectors; ++v)
        store(gains + v * Lanes, gain[v]);
    return log;
}

template <int Four, int Eight, class Real>
inline constexpr ReachFunctions<Real> reach_functions{reach<Four, 4, Real>, reach<Eight, 8, Real>};

} // namespace

namespace WOLFMEANS_UNIT {

// Four candidates fill a register of four doubles at most.
constexpr int four = doubles_at_once < 4 ? doubles_at_once : 4;
extern constinit const ReachVersion reach_kernels{{reach_functions<four, doubles_at_once, float>,
                                                   reach_functions<four, doubles_at_once, double>}};

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
