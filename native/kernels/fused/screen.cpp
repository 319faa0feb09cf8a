// The screen. Arguments, invariant and rounding: see screen.hpp.
//
// A tile is `Vectors` registers of `Lanes` points times `Centers` centers. The lanes are points, so
// that best, second and label are kept without ever looking across lanes; center coordinates are
// broadcast. The sums of a tile stay in registers over all d coordinates.
#include "kernels/fused/screen.hpp"
#include "kernels/fused/bound_rows.hpp"
#include "kernels/fused/rows.hpp"
#include "kernels/lanes.hpp"

namespace wolfmeans {
namespace {

// One more score, that of center k, for the lanes of one register.
template <int Lanes>
WOLFMEANS_INLINE void update(const Floats<Lanes>& score, int k, Floats<Lanes>& best,
                             Floats<Lanes>& second, Ints<Lanes>& label) {
    const Ints<Lanes> better = score < best;
    const Floats<Lanes> loser = best > score ? best : score;
    second = second < loser ? second : loser;
    best = score < best ? score : best;
    label = better ? (Ints<Lanes>{} + k) : label;
}

template <int Lanes, int Vectors, int Centers>
WOLFMEANS_INLINE void screen_tile(const float* points, const float* centers,
                                  const float* half_norms, long long d, int k, float* best,
                                  float* second, int* label) {
    Floats<Lanes> score[Vectors][Centers];
    for (int v = 0; v < Vectors; ++v)
        for (int i = 0; i < Centers; ++i)
            score[v][i] = Floats<Lanes>{} + half_norms[i];
    for (long long j = 0; j < d; ++j) {
        Floats<Lanes> x[Vectors];
        for (int v = 0; v < Vectors; ++v)
            x[v] = load<Floats<Lanes>>(points + j * (Lanes * Vectors) + v * Lanes);
        for (int i = 0; i < Centers; ++i) {
            const Floats<Lanes> c = Floats<Lanes>{} + centers[j * Centers + i];
            for (int v = 0; v < Vectors; ++v)
                score[v][i] -= x[v] * c;
        }
    }
    for (int v = 0; v < Vectors; ++v) {
        Floats<Lanes> b = load<Floats<Lanes>>(best + v * Lanes);
        Floats<Lanes> s = load<Floats<Lanes>>(second + v * Lanes);
        Ints<Lanes> l = load<Ints<Lanes>>(label + v * Lanes);
        for (int i = 0; i < Centers; ++i)
            update<Lanes>(score[v][i], k + i, b, s, l);
        store(best + v * Lanes, b);
        store(second + v * Lanes, s);
        store(label + v * Lanes, l);
    }
}

// Bring the states of Lanes rows up to date with their scores in a group: the scores are
// transposed, so that lanes are rows.
template <int Lanes>
WOLFMEANS_INLINE void best_two(const float* scores, int first_lane, float* best, float* second,
                               int* lane) {
    Floats<Lanes> least = load<Floats<Lanes>>(best), next = load<Floats<Lanes>>(second);
    Ints<Lanes> place = load<Ints<Lanes>>(lane);
    for (int v = 0; v < group_width; v += Lanes) {
        Floats<Lanes> square[Lanes];
        for (int p = 0; p < Lanes; ++p)
            square[p] = load<Floats<Lanes>>(scores + p * group_width + v);
        transpose<Lanes>(square);
        for (int p = 0; p < Lanes; ++p)
            update<Lanes>(square[p], first_lane + v + p, least, next, place);
    }
    store(best, least);
    store(second, next);
    store(lane, place);
}

// Bring the scores of `Rows` rows from coordinate `begin` to `end`; `Chains` sums for each, taken
// in turn, so that few rows do not wait for the latency of their additions.
template <int Lanes, int Rows, int Chains>
WOLFMEANS_INLINE void group_rows(const float* const* rows, const float* centers, long long begin,
                                 long long end, float* scores) {
    constexpr int vectors = group_width / Lanes;
    Floats<Lanes> score[Rows][Chains][vectors];
    const float* x[Rows];
    for (int r = 0; r < Rows; ++r) {
        x[r] = rows[r];
        for (int v = 0; v < vectors; ++v) {
            for (int c = 0; c < Chains; ++c)
                score[r][c][v] = Floats<Lanes>{};
        }
    }
    long long j = begin;
    for (; j + Chains <= end; j += Chains) {
        for (int c = 0; c < Chains; ++c) {
            Floats<Lanes> center[vectors];
            for (int v = 0; v < vectors; ++v)
                center[v] = load<Floats<Lanes>>(centers + (j + c) * group_width + v * Lanes);
            for (int r = 0; r < Rows; ++r)
                for (int v = 0; v < vectors; ++v)
                    score[r][c][v] -= center[v] * x[r][j + c];
        }
    }
    for (; j < end; ++j)
        for (int r = 0; r < Rows; ++r)
            for (int v = 0; v < vectors; ++v)
                score[r][0][v] -=
                    load<Floats<Lanes>>(centers + j * group_width + v * Lanes) * x[r][j];
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < vectors; ++v) {
            for (int c = 1; c < Chains; ++c)
                score[r][0][v] += score[r][c][v];
            float* const to = scores + r * group_width + v * Lanes;
            store(to, load<Floats<Lanes>>(to) + score[r][0][v]);
        }
    }
}

// Rows in steps that fill the registers, and what is left in smaller ones.
template <int Lanes, int Rows>
void group_screen(const float* const* rows, long long count, const float* centers,
                  const float* half_norms, long long d, int first_lane, ScreenState state) {
    constexpr int at_once = Lanes * Rows; // a multiple of both
    alignas(64) float scores[at_once * group_width];
    float best[at_once], second[at_once];
    int lane[at_once];
    for (long long begin = 0; begin < count; begin += at_once) {
        const int size = static_cast<int>(count - begin < at_once ? count - begin : at_once);
        const float* const* const x = rows + begin;
        int r = 0;
        for (r = 0; r < size; ++r)
            for (int p = 0; p < group_width; ++p)
                scores[r * group_width + p] = half_norms[p];
        // Some coordinates at a time: those of the group stay in the first-level cache.
        for (long long j = 0; j < d; j += coordinates_at_once) {
            const long long end = j + coordinates_at_once < d ? j + coordinates_at_once : d;
            r = 0;
            for (; r + Rows <= size; r += Rows)
                group_rows<Lanes, Rows, 1>(x + r, centers, j, end, scores + r * group_width);
            for (; r + Rows / 2 <= size; r += Rows / 2)
                group_rows<Lanes, Rows / 2, 2>(x + r, centers, j, end, scores + r * group_width);
            for (; r < size; ++r)
                group_rows<Lanes, 1, Rows / 2>(x + r, centers, j, end, scores + r * group_width);
        }
        // The last registers of best_two want whole rows; what they say of these is not used.
        for (r = 0; r < size; ++r) {
            best[r] = state.best[begin + r];
            second[r] = state.second[begin + r];
            lane[r] = state.label[begin + r];
        }
        for (; r % Lanes != 0; ++r) {
            best[r] = second[r] = 0.0f;
            lane[r] = 0;
            for (int p = 0; p < group_width; ++p)
                scores[r * group_width + p] = 0.0f;
        }
        for (r = 0; r < size; r += Lanes)
            best_two<Lanes>(scores + r * group_width, first_lane, best + r, second + r, lane + r);
        for (r = 0; r < size; ++r) {
            state.best[begin + r] = best[r];
            state.second[begin + r] = second[r];
            state.label[begin + r] = lane[r];
        }
    }
}

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

template <int Lanes, int Vectors, int Centers, int Rows>
constexpr ScreenVersion screen_version() {
    return {{{pack<Lanes, Vectors, float>, distance<Lanes, float>, shift<Lanes, float>,
              tighten<Lanes, float>},
             {pack<Lanes, Vectors, double>, distance<Lanes, double>, shift<Lanes, double>,
              tighten<Lanes, double>}},
            screen<Lanes, Vectors, Centers>,
            group_screen<Lanes, Rows>,
            verdict,
            spare,
            encode,
            needs,
            Lanes * Vectors,
            Centers,
            partial_sums<Lanes>};
}

} // namespace

namespace WOLFMEANS_UNIT {

// Of the baseline's 16 registers of 4 floats the tile's scores take 8, of AVX2's 16 registers of 8
// floats 12, of the 32 registers of 16 floats of AVX-512 24.
extern constinit const ScreenVersion screen_kernels =
    screen_version<floats_at_once, 2, by_unit(4, 6, 12), by_unit(2, 4, 12)>();

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
