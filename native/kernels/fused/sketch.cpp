// The sketch. Arguments and rounding: see sketch.hpp.
//
// A lane is a point: four of its bytes are one int32, so that a register holds a quad of columns
// of as many points as it has lanes, and no sum ever goes across lanes.
#if defined(__AVX2__)
#    include <immintrin.h>
#elif defined(__SSE2__)
#    include <emmintrin.h> // a small part of immintrin.h
#endif

#include "kernels/fused/rows.hpp"
#include "kernels/fused/sketch.hpp"

namespace wolfmeans {
namespace {

#if defined(__AVX512VNNI__)
constexpr int sketch_words = 1;
#elif defined(__SSE2__)
constexpr int sketch_words = 2;
#else
constexpr int sketch_words = 4;
#endif

// Four bytes of each of some points, and single bytes.
template <int Lanes>
using Quads = typename Register<unsigned, Lanes>::Type;
template <int Lanes>
using Bytes = typename Register<unsigned char, Lanes>::Type;

// Four bytes of each point, ready to be multiplied by those of candidates.
template <int Lanes>
struct Quad {
#if defined(__AVX512VNNI__)
    WOLFMEANS_INLINE explicit Quad(Quads<Lanes> x) : bytes(x) {}
    WOLFMEANS_INLINE Ints<Lanes> add_products(Ints<Lanes> sum, const int* candidate) const {
        return (Ints<Lanes>)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)bytes,
                                                _mm512_set1_epi32(*candidate));
    }
    Quads<Lanes> bytes;
#elif defined(__SSE2__)
    WOLFMEANS_INLINE explicit Quad(Quads<Lanes> x)
        : even(x & 0x00ff00ff), odd((x >> 8) & 0x00ff00ff) {}
    WOLFMEANS_INLINE Ints<Lanes> add_products(Ints<Lanes> sum, const int* candidate) const {
#    if defined(__AVX2__)
        const __m256i first = _mm256_madd_epi16((__m256i)even, _mm256_set1_epi32(candidate[0]));
        const __m256i second = _mm256_madd_epi16((__m256i)odd, _mm256_set1_epi32(candidate[1]));
#    else
        const __m128i first = _mm_madd_epi16((__m128i)even, _mm_set1_epi32(candidate[0]));
        const __m128i second = _mm_madd_epi16((__m128i)odd, _mm_set1_epi32(candidate[1]));
#    endif
        return sum + ((Ints<Lanes>)first + (Ints<Lanes>)second);
    }
    Quads<Lanes> even, odd;
#else
    WOLFMEANS_INLINE explicit Quad(Quads<Lanes> x) {
        for (int b = 0; b < 4; ++b)
            byte[b] = (Ints<Lanes>)((x >> (8 * b)) & 0xff);
    }
    WOLFMEANS_INLINE Ints<Lanes> add_products(Ints<Lanes> sum, const int* candidate) const {
        for (int b = 0; b < 4; ++b)
            sum += byte[b] * candidate[b];
        return sum;
    }
    Ints<Lanes> byte[4];
#endif
};

template <int Lanes>
WOLFMEANS_INLINE Ints<Lanes> survives(const Floats<Lanes>& square, const Floats<Lanes>& reach,
                                      float error, int t) {
    const Floats<Lanes> most = reach + error;
    // Not "square < most * most": where a float overflowed, neither may hold.
    const Ints<Lanes> rejected = square >= most * most;
    return ~rejected & (Ints<Lanes>{} + (1 << t));
}

template <int Lanes, int Count>
void screen_bytes(const void* points, const int* squares, const float* reach, long long blocks,
                  long long quads, const SketchCandidates& candidates, unsigned char* survivors) {
    const unsigned char* bytes = static_cast<const unsigned char*>(points);
    for (long long b = 0; b < blocks; ++b, bytes += quads * sketch_block * 4) {
        for (int p = 0; p < sketch_block; p += Lanes) {
            Ints<Lanes> product[Count] = {};
            const int* candidate = static_cast<const int*>(candidates.values);
            for (long long q = 0; q < quads; ++q) {
                const Quad<Lanes> x(load<Quads<Lanes>>(bytes + (q * sketch_block + p) * 4));
                for (int t = 0; t < Count; ++t, candidate += sketch_words)
                    product[t] = x.add_products(product[t], candidate);
            }
            const Ints<Lanes> square = load<Ints<Lanes>>(squares + b * sketch_block + p);
            const auto most = load<Floats<Lanes>>(reach + b * sketch_block + p);
            Ints<Lanes> bits{};
            for (int t = 0; t < Count; ++t) {
                const Ints<Lanes> distance =
                    square + candidates.constant[t] - (product[t] + product[t]);
                bits |= survives<Lanes>(__builtin_convertvector(distance, Floats<Lanes>), most,
                                        candidates.error[t], t);
            }
            store(survivors + b * sketch_block + p, __builtin_convertvector(bits, Bytes<Lanes>));
        }
    }
}

template <int Lanes, int Count>
void screen_floats(const void* points, const int*, const float* reach, long long blocks,
                   long long d, const SketchCandidates& candidates, unsigned char* survivors) {
    const float* values = static_cast<const float*>(points);
    for (long long b = 0; b < blocks; ++b, values += d * sketch_block) {
        for (int p = 0; p < sketch_block; p += Lanes) {
            Floats<Lanes> square[Count] = {};
            const float* candidate = static_cast<const float*>(candidates.values);
            for (long long j = 0; j < d; ++j) {
                const Floats<Lanes> x = load<Floats<Lanes>>(values + j * sketch_block + p);
                for (int t = 0; t < Count; ++t, ++candidate) {
                    const Floats<Lanes> difference = x - *candidate;
                    square[t] += difference * difference;
                }
            }
            const Floats<Lanes> most = load<Floats<Lanes>>(reach + b * sketch_block + p);
            Ints<Lanes> bits{};
            for (int t = 0; t < Count; ++t)
                bits |= survives<Lanes>(square[t], most, candidates.error[t], t);
            store(survivors + b * sketch_block + p, __builtin_convertvector(bits, Bytes<Lanes>));
        }
    }
}

// A block at a time: the rows are made to bytes each for itself, then interleaved by quads.
template <int Lanes, class Real>
void pack_bytes(const Real* const* rows, const Real* origin, Real factor, long long d,
                unsigned char* scratch, unsigned char* bytes, int* squares, float* lost) {
    const float rounding = 12582912.0f; // 1.5 * 2^23: what is added to it keeps no fraction
    const long long quads = (d + 3) / 4;
    for (int p = 0; p < sketch_block; ++p) {
        unsigned char* const out = scratch + p * 4 * quads;
        Floats<Lanes> sum{};
        Ints<Lanes> square{};
        long long j = 0;
        for (; j + Lanes <= d; j += Lanes) {
            const Floats<Lanes> y = shifted<Lanes>(rows[p] + j, origin + j, factor);
            // In this order NaN, which validation refuses, is clipped as well.
            Floats<Lanes> clipped = y > -128.0f ? y : Floats<Lanes>{} - 128.0f;
            clipped = clipped > 127.0f ? Floats<Lanes>{} + 127.0f : clipped;
            const Floats<Lanes> rounded = (clipped + rounding) - rounding;
            sum += (y - rounded) * (y - rounded);
            const Ints<Lanes> q = __builtin_convertvector(rounded, Ints<Lanes>);
            square += q * q;
            store(out + j, __builtin_convertvector(q + 128, Bytes<Lanes>));
        }
        float total = 0.0f;
        int total_square = 0;
        for (int l = 0; l < Lanes; ++l) {
            total += sum[l];
            total_square += square[l];
        }
        for (; j < d; ++j) {
            const float y = static_cast<float>((rows[p][j] - origin[j]) * factor);
            const float clipped = y > 127.0f ? 127.0f : y > -128.0f ? y : -128.0f;
            const float rounded = (clipped + rounding) - rounding;
            total += (y - rounded) * (y - rounded);
            const int q = static_cast<int>(rounded);
            total_square += q * q;
            out[j] = static_cast<unsigned char>(q + 128);
        }
        for (; j < 4 * quads; ++j)
            out[j] = 0;
        squares[p] = total_square;
        lost[p] = total;
    }
    for (long long q = 0; q < quads; ++q)
        for (int p = 0; p < sketch_block; ++p)
            __builtin_memcpy(bytes + (q * sketch_block + p) * 4, scratch + (p * quads + q) * 4, 4);
}

template <int Lanes>
constexpr SketchVersion sketch_version() {
    return {{{pack_bytes<Lanes, float>}, {pack_bytes<Lanes, double>}},
            {nullptr, screen_bytes<Lanes, 1>, screen_bytes<Lanes, 2>, screen_bytes<Lanes, 3>,
             screen_bytes<Lanes, 4>, screen_bytes<Lanes, 5>, screen_bytes<Lanes, 6>,
             screen_bytes<Lanes, 7>, screen_bytes<Lanes, 8>},
            {nullptr, screen_floats<Lanes, 1>, screen_floats<Lanes, 2>, screen_floats<Lanes, 3>,
             screen_floats<Lanes, 4>, screen_floats<Lanes, 5>, screen_floats<Lanes, 6>,
             screen_floats<Lanes, 7>, screen_floats<Lanes, 8>},
            sketch_words};
}

} // namespace

namespace WOLFMEANS_UNIT {

extern constinit const SketchVersion sketch_kernels = sketch_version<floats_at_once>();

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
