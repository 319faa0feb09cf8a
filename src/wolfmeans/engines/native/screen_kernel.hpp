// The body of the screen, written once; each screen_<unit>.cpp instantiates it with its own tile.
// Arguments, invariant and rounding: see screen.hpp.
//
// A tile is `Vectors` registers of `Lanes` points times `Centers` centers. The lanes are points, so
// that best, second and label are kept without ever looking across lanes; center coordinates are
// broadcast. The sums of a tile stay in registers over all d coordinates.
#pragma once

#include "lanes.hpp"
#include "screen.hpp"

namespace wolfmeans {
// Internal linkage on purpose: each translation unit keeps the code made for its own instructions.
namespace {

#if defined(__GNUC__) || defined(__clang__)

template <int Lanes>
struct FloatVector {
    typedef float Floats __attribute__((vector_size(Lanes * sizeof(float))));
    typedef int Integers __attribute__((vector_size(Lanes * sizeof(int))));
    typedef double Doubles __attribute__((vector_size(Lanes * sizeof(double))));
};

// One more score, that of center k, for the lanes of one register.
template <int Lanes>
WOLFMEANS_INLINE void update(const typename FloatVector<Lanes>::Floats& score, int k,
                             typename FloatVector<Lanes>::Floats& best,
                             typename FloatVector<Lanes>::Floats& second,
                             typename FloatVector<Lanes>::Integers& label) {
    using Floats = typename FloatVector<Lanes>::Floats;
    using Integers = typename FloatVector<Lanes>::Integers;
    const Integers better = score < best;
    const Floats loser = best > score ? best : score;
    second = second < loser ? second : loser;
    best = score < best ? score : best;
    label = better ? (Integers{} + k) : label;
}

template <int Lanes, int Vectors, int Centers>
WOLFMEANS_INLINE void screen_tile(const float* points, const float* centers,
                                  const float* half_norms, long long d, int k, float* best,
                                  float* second, int* label) {
    using Floats = typename FloatVector<Lanes>::Floats;
    using Integers = typename FloatVector<Lanes>::Integers;
    Floats score[Vectors][Centers];
    for (int v = 0; v < Vectors; ++v)
        for (int i = 0; i < Centers; ++i)
            score[v][i] = Floats{} + half_norms[i];
    for (long long j = 0; j < d; ++j) {
        Floats x[Vectors];
        for (int v = 0; v < Vectors; ++v)
            x[v] = load<Floats>(points + j * (Lanes * Vectors) + v * Lanes);
        for (int i = 0; i < Centers; ++i) {
            const Floats c = Floats{} + centers[j * Centers + i];
            for (int v = 0; v < Vectors; ++v)
                score[v][i] -= x[v] * c;
        }
    }
    for (int v = 0; v < Vectors; ++v) {
        Floats b = load<Floats>(best + v * Lanes);
        Floats s = load<Floats>(second + v * Lanes);
        Integers l = load<Integers>(label + v * Lanes);
        for (int i = 0; i < Centers; ++i)
            update<Lanes>(score[v][i], k + i, b, s, l);
        store(best + v * Lanes, b);
        store(second + v * Lanes, s);
        store(label + v * Lanes, l);
    }
}

// A square of Lanes x Lanes floats transposed by log2(Lanes) rounds of zipping rows i and
// i + Lanes / 2.
template <int Lanes>
WOLFMEANS_INLINE void transpose(typename FloatVector<Lanes>::Floats (&rows)[Lanes]) {
    using Floats = typename FloatVector<Lanes>::Floats;
    using Integers = typename FloatVector<Lanes>::Integers;
    Integers low{}, high{};
    for (int p = 0; p < Lanes; ++p) {
        low[p] = p / 2 + (p % 2) * Lanes;
        high[p] = low[p] + Lanes / 2;
    }
    for (int round = 1; round < Lanes; round *= 2) {
        Floats zipped[Lanes];
        for (int i = 0; i < Lanes / 2; ++i) {
#    if defined(__clang__)
            for (int p = 0; p < Lanes; ++p) {
                zipped[2 * i][p] = (p % 2 ? rows[i + Lanes / 2] : rows[i])[p / 2];
                zipped[2 * i + 1][p] = (p % 2 ? rows[i + Lanes / 2] : rows[i])[Lanes / 2 + p / 2];
            }
#    else
            zipped[2 * i] = __builtin_shuffle(rows[i], rows[i + Lanes / 2], low);
            zipped[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + Lanes / 2], high);
#    endif
        }
        for (int i = 0; i < Lanes; ++i)
            rows[i] = zipped[i];
    }
}

// Lanes coordinates of one row, less those of the origin, scaled and rounded to float32.
template <int Lanes>
WOLFMEANS_INLINE typename FloatVector<Lanes>::Floats shifted(const float* row, const float* origin,
                                                             float factor) {
    using Floats = typename FloatVector<Lanes>::Floats;
    return (load<Floats>(row) - load<Floats>(origin)) * factor;
}

template <int Lanes>
WOLFMEANS_INLINE typename FloatVector<Lanes>::Floats shifted(const double* row,
                                                             const double* origin, double factor) {
    using Doubles = typename FloatVector<Lanes>::Doubles;
    const Doubles difference = (load<Doubles>(row) - load<Doubles>(origin)) * factor;
    return __builtin_convertvector(difference, typename FloatVector<Lanes>::Floats);
}

template <int Lanes, class Real>
float distance(const Real* x, const Real* c, Real factor, long long d) {
    using Floats = typename FloatVector<Lanes>::Floats;
    Floats sum{};
    long long j = 0;
    for (; j + Lanes <= d; j += Lanes) {
        const Floats difference = shifted<Lanes>(x + j, c + j, factor);
        sum += difference * difference;
    }
    float total = 0.0f;
    if (j > 0)
        for (int p = 0; p < Lanes; ++p)
            total += sum[p];
    for (; j < d; ++j) {
        const float difference = static_cast<float>((x[j] - c[j]) * factor);
        total += difference * difference;
    }
    return total;
}

template <int Lanes, int Vectors, class Real>
void pack(const Real* const* rows, const Real* origin, Real factor, long long d, float* points,
          float* norms) {
    using Floats = typename FloatVector<Lanes>::Floats;
    constexpr int tile = Lanes * Vectors;
    for (int v = 0; v < Vectors; ++v) {
        Floats norm{};
        long long j = 0;
        for (; j + Lanes <= d; j += Lanes) {
            Floats square[Lanes];
            for (int p = 0; p < Lanes; ++p)
                square[p] = shifted<Lanes>(rows[v * Lanes + p] + j, origin + j, factor);
            transpose<Lanes>(square);
            for (int i = 0; i < Lanes; ++i) {
                store(points + (j + i) * tile + v * Lanes, square[i]);
                norm += square[i] * square[i];
            }
        }
        for (; j < d; ++j) {
            float column[Lanes];
            for (int p = 0; p < Lanes; ++p)
                column[p] = static_cast<float>((rows[v * Lanes + p][j] - origin[j]) * factor);
            const Floats x = load<Floats>(column);
            store(points + j * tile + v * Lanes, x);
            norm += x * x;
        }
        store(norms + v * Lanes, norm);
    }
}

#else // plain loops for compilers without vector extensions

template <int Lanes, int Vectors, int Centers>
WOLFMEANS_INLINE void screen_tile(const float* points, const float* centers,
                                  const float* half_norms, long long d, int k, float* best,
                                  float* second, int* label) {
    constexpr int tile = Lanes * Vectors;
    for (int i = 0; i < Centers; ++i) {
        float score[tile];
        for (int p = 0; p < tile; ++p)
            score[p] = half_norms[i];
        for (long long j = 0; j < d; ++j)
            for (int p = 0; p < tile; ++p)
                score[p] -= points[j * tile + p] * centers[j * Centers + i];
        for (int p = 0; p < tile; ++p) {
            const bool better = score[p] < best[p];
            const float loser = better ? best[p] : score[p];
            second[p] = second[p] < loser ? second[p] : loser;
            best[p] = better ? score[p] : best[p];
            label[p] = better ? k + i : label[p];
        }
    }
}

template <int Lanes, class Real>
float distance(const Real* x, const Real* c, Real factor, long long d) {
    float total = 0.0f;
    for (long long j = 0; j < d; ++j) {
        const float difference = static_cast<float>((x[j] - c[j]) * factor);
        total += difference * difference;
    }
    return total;
}

template <int Lanes, int Vectors, class Real>
void pack(const Real* const* rows, const Real* origin, Real factor, long long d, float* points,
          float* norms) {
    constexpr int tile = Lanes * Vectors;
    for (int p = 0; p < tile; ++p) {
        norms[p] = 0.0f;
        for (long long j = 0; j < d; ++j) {
            const float x = static_cast<float>((rows[p][j] - origin[j]) * factor);
            points[j * tile + p] = x;
            norms[p] += x * x;
        }
    }
}

#endif

template <int Lanes, int Vectors, int Centers>
void screen(const float* points, long long tiles, const float* centers, const float* half_norms,
            long long d, long long K, ScreenState state) {
    constexpr int tile = Lanes * Vectors;
    static_assert(tile <= most_tile_points);
    // Centers outside: a tile of them stays in the first-level cache while all points pass by.
    for (long long k = 0; k < K; k += Centers)
        for (long long t = 0; t < tiles; ++t)
            screen_tile<Lanes, Vectors, Centers>(
                points + t * tile * d, centers + k * d, half_norms + k, d, static_cast<int>(k),
                state.best + t * tile, state.second + t * tile, state.label + t * tile);
}

template <int Lanes, int Vectors, int Centers>
constexpr ScreenVersion screen_version() {
    return {screen<Lanes, Vectors, Centers>,
            pack<Lanes, Vectors, float>,
            pack<Lanes, Vectors, double>,
            distance<Lanes, float>,
            distance<Lanes, double>,
            Lanes * Vectors,
            Centers};
}

} // namespace
} // namespace wolfmeans
