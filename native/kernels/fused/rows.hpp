// Rows of data prepared for the screen: transposing, shifting, distances. Arguments and rounding:
// see screen.hpp.
#pragma once

#include "kernels/fused/screen.hpp"
#include "kernels/lanes.hpp"

namespace wolfmeans {
namespace {

// A square of Lanes x Lanes floats transposed by log2(Lanes) rounds of zipping rows i and
// i + Lanes / 2.
template <int Lanes>
WOLFMEANS_INLINE void transpose(Floats<Lanes> (&rows)[Lanes]) {
    Ints<Lanes> low{}, high{};
    for (int p = 0; p < Lanes; ++p) {
        low[p] = p / 2 + (p % 2) * Lanes;
        high[p] = low[p] + Lanes / 2;
    }
    for (int round = 1; round < Lanes; round *= 2) {
        Floats<Lanes> zipped[Lanes];
        for (int i = 0; i < Lanes / 2; ++i) {
#if defined(__clang__)
            for (int p = 0; p < Lanes; ++p) {
                zipped[2 * i][p] = (p % 2 ? rows[i + Lanes / 2] : rows[i])[p / 2];
                zipped[2 * i + 1][p] = (p % 2 ? rows[i + Lanes / 2] : rows[i])[Lanes / 2 + p / 2];
            }
#else
            zipped[2 * i] = __builtin_shuffle(rows[i], rows[i + Lanes / 2], low);
            zipped[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + Lanes / 2], high);
#endif
        }
        for (int i = 0; i < Lanes; ++i)
            rows[i] = zipped[i];
    }
}

// Lanes coordinates of one row, less those of the origin, scaled and rounded to float32.
template <int Lanes>
WOLFMEANS_INLINE Floats<Lanes> shifted(const float* row, const float* origin, float factor) {
    return (load<Floats<Lanes>>(row) - load<Floats<Lanes>>(origin)) * factor;
}

template <int Lanes>
WOLFMEANS_INLINE Floats<Lanes> shifted(const double* row, const double* origin, double factor) {
    const Doubles<Lanes> difference =
        (load<Doubles<Lanes>>(row) - load<Doubles<Lanes>>(origin)) * factor;
    return __builtin_convertvector(difference, Floats<Lanes>);
}

template <int Lanes>
WOLFMEANS_INLINE Floats<Lanes / 2> folded(const Floats<Lanes>& v) {
    using Half = Floats<Lanes / 2>;
    Half low, high;
    __builtin_memcpy(&low, &v, sizeof(Half));
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof(Half), sizeof(Half));
    return low + high;
}

template <int Lanes>
WOLFMEANS_INLINE float sum_of_lanes(const Floats<Lanes>& v) {
    if constexpr (Lanes == 4)
        return (v[0] + v[1]) + (v[2] + v[3]);
    else
        return sum_of_lanes<Lanes / 2>(folded<Lanes>(v));
}

// The squared differences from coordinate j on, added to `sum`. What is left after whole registers
// goes through registers of half the width, down to four lanes and then single numbers.
template <int Lanes, class Real>
WOLFMEANS_INLINE float sum_of_squares(Floats<Lanes> sum, const Real* x, const Real* c, Real factor,
                                      long long d, long long j) {
    for (; j + Lanes <= d; j += Lanes) {
        const auto difference = shifted<Lanes>(x + j, c + j, factor);
        sum += difference * difference;
    }
    if constexpr (Lanes > 4) {
        return sum_of_squares<Lanes / 2>(folded<Lanes>(sum), x, c, factor, d, j);
    } else {
        float total = sum_of_lanes<Lanes>(sum);
        for (; j < d; ++j) {
            const float difference = static_cast<float>((x[j] - c[j]) * factor);
            total += difference * difference;
        }
        return total;
    }
}

template <int Lanes>
inline constexpr int partial_sums = 4 * Lanes;

template <int Lanes, class Real>
float distance(const Real* x, const Real* c, Real factor, long long d) {
    Floats<Lanes> sum[4]{}; // independent chains
    long long j = 0;
    for (; j + 4 * Lanes <= d; j += 4 * Lanes) {
        for (int chain = 0; chain < 4; ++chain) {
            const long long at = j + chain * Lanes;
            const Floats<Lanes> difference = shifted<Lanes>(x + at, c + at, factor);
            sum[chain] += difference * difference;
        }
    }
    return sum_of_squares<Lanes>((sum[0] + sum[1]) + (sum[2] + sum[3]), x, c, factor, d, j);
}

// Width columns of Lanes rows from column j on, in squares of Width x Width; then narrower ones.
template <int Lanes, int Width, class Real>
WOLFMEANS_INLINE void pack_columns(const Real* const* rows, const Real* origin, Real factor,
                                   long long d, long long j, int tile, float* points,
                                   float* norms) {
    if (j + Width <= d) {
        for (int first = 0; first < Lanes; first += Width) {
            Floats<Width> norm = load<Floats<Width>>(norms + first);
            for (long long column = j; column + Width <= d; column += Width) {
                Floats<Width> square[Width];
                for (int p = 0; p < Width; ++p)
                    square[p] = shifted<Width>(rows[first + p] + column, origin + column, factor);
                transpose<Width>(square);
                for (int i = 0; i < Width; ++i) {
                    store(points + (column + i) * tile + first, square[i]);
                    norm += square[i] * square[i];
                }
            }
            store(norms + first, norm);
        }
        j += (d - j) / Width * Width;
    }
    if constexpr (Width > 4) {
        pack_columns<Lanes, Width / 2>(rows, origin, factor, d, j, tile, points, norms);
    } else {
        for (; j < d; ++j) {
            for (int p = 0; p < Lanes; ++p) {
                const float x = static_cast<float>((rows[p][j] - origin[j]) * factor);
                points[j * tile + p] = x;
                norms[p] += x * x;
            }
        }
    }
}

template <int Lanes, int Vectors, class Real>
void pack(const Real* const* rows, const Real* origin, Real factor, long long d, float* points,
          float* norms) {
    constexpr int tile = Lanes * Vectors;
    for (int p = 0; p < tile; ++p)
        norms[p] = 0.0f;
    for (int v = 0; v < Vectors; ++v)
        pack_columns<Lanes, Lanes>(rows + v * Lanes, origin, factor, d, 0, tile, points + v * Lanes,
                                   norms + v * Lanes);
}

template <int Lanes, class Real>
float shift(const Real* row, const Real* origin, Real factor, long long d, float* points) {
    Floats<Lanes> sum{}, other{};
    long long j = 0;
    for (; j + 2 * Lanes <= d; j += 2 * Lanes) {
        const Floats<Lanes> x = shifted<Lanes>(row + j, origin + j, factor);
        const Floats<Lanes> y = shifted<Lanes>(row + j + Lanes, origin + j + Lanes, factor);
        store(points + j, x);
        store(points + j + Lanes, y);
        sum += x * x;
        other += y * y;
    }
    for (; j + Lanes <= d; j += Lanes) {
        const Floats<Lanes> x = shifted<Lanes>(row + j, origin + j, factor);
        store(points + j, x);
        sum += x * x;
    }
    sum += other;
    float total = sum_of_lanes<Lanes>(sum);
    for (; j < d; ++j) {
        points[j] = static_cast<float>((row[j] - origin[j]) * factor);
        total += points[j] * points[j];
    }
    return total;
}

} // namespace
} // namespace wolfmeans
