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

template <int Lanes>
WOLFMEANS_INLINE typename FloatVector<Lanes / 2>::Floats
folded(const typename FloatVector<Lanes>::Floats& v) {
    using Half = typename FloatVector<Lanes / 2>::Floats;
    Half low, high;
    __builtin_memcpy(&low, &v, sizeof(Half));
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof(Half), sizeof(Half));
    return low + high;
}

template <int Lanes>
WOLFMEANS_INLINE float sum_of_lanes(const typename FloatVector<Lanes>::Floats& v) {
    if constexpr (Lanes == 4)
        return (v[0] + v[1]) + (v[2] + v[3]);
    else
        return sum_of_lanes<Lanes / 2>(folded<Lanes>(v));
}

// The squared differences from coordinate j on, added to `sum`. What is left after whole registers
// goes through registers of half the width, down to four lanes and then single numbers.
template <int Lanes, class Real>
WOLFMEANS_INLINE float sum_of_squares(typename FloatVector<Lanes>::Floats sum, const Real* x,
                                      const Real* c, Real factor, long long d, long long j) {
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
    using Floats = typename FloatVector<Lanes>::Floats;
    Floats sum[4]{}; // so that an addition need not wait for the one before
    long long j = 0;
    for (; j + 4 * Lanes <= d; j += 4 * Lanes) {
        for (int chain = 0; chain < 4; ++chain) {
            const long long at = j + chain * Lanes;
            const Floats difference = shifted<Lanes>(x + at, c + at, factor);
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
    using Floats = typename FloatVector<Width>::Floats;
    if (j + Width <= d) {
        for (int first = 0; first < Lanes; first += Width) {
            Floats norm = load<Floats>(norms + first);
            for (long long column = j; column + Width <= d; column += Width) {
                Floats square[Width];
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
    using Floats = typename FloatVector<Lanes>::Floats;
    Floats sum{}, other{};
    long long j = 0;
    for (; j + 2 * Lanes <= d; j += 2 * Lanes) {
        const Floats x = shifted<Lanes>(row + j, origin + j, factor);
        const Floats y = shifted<Lanes>(row + j + Lanes, origin + j + Lanes, factor);
        store(points + j, x);
        store(points + j + Lanes, y);
        sum += x * x;
        other += y * y;
    }
    for (; j + Lanes <= d; j += Lanes) {
        const Floats x = shifted<Lanes>(row + j, origin + j, factor);
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

// Bring the states of Lanes rows up to date with their scores in a group: the scores are
// transposed, so that lanes are rows.
template <int Lanes>
WOLFMEANS_INLINE void best_two(const float* scores, int first_lane, float* best, float* second,
                               int* lane) {
    using Floats = typename FloatVector<Lanes>::Floats;
    using Integers = typename FloatVector<Lanes>::Integers;
    Floats least = load<Floats>(best), next = load<Floats>(second);
    Integers place = load<Integers>(lane);
    for (int v = 0; v < group_width; v += Lanes) {
        Floats square[Lanes];
        for (int p = 0; p < Lanes; ++p)
            square[p] = load<Floats>(scores + p * group_width + v);
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
    using Floats = typename FloatVector<Lanes>::Floats;
    constexpr int vectors = group_width / Lanes;
    Floats score[Rows][Chains][vectors];
    const float* x[Rows];
    for (int r = 0; r < Rows; ++r) {
        x[r] = rows[r];
        for (int v = 0; v < vectors; ++v) {
            for (int c = 0; c < Chains; ++c)
                score[r][c][v] = Floats{};
        }
    }
    long long j = begin;
    for (; j + Chains <= end; j += Chains) {
        for (int c = 0; c < Chains; ++c) {
            Floats center[vectors];
            for (int v = 0; v < vectors; ++v)
                center[v] = load<Floats>(centers + (j + c) * group_width + v * Lanes);
            for (int r = 0; r < Rows; ++r)
                for (int v = 0; v < vectors; ++v)
                    score[r][c][v] -= center[v] * x[r][j + c];
        }
    }
    for (; j < end; ++j)
        for (int r = 0; r < Rows; ++r)
            for (int v = 0; v < vectors; ++v)
                score[r][0][v] -= load<Floats>(centers + j * group_width + v * Lanes) * x[r][j];
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < vectors; ++v) {
            for (int c = 1; c < Chains; ++c)
                score[r][0][v] += score[r][c][v];
            float* const to = scores + r * group_width + v * Lanes;
            store(to, load<Floats>(to) + score[r][0][v]);
        }
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

template <int Lanes>
inline constexpr int partial_sums = 1;

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

template <int Lanes, class Real>
float shift(const Real* row, const Real* origin, Real factor, long long d, float* points) {
    float total = 0.0f;
    for (long long j = 0; j < d; ++j) {
        points[j] = static_cast<float>((row[j] - origin[j]) * factor);
        total += points[j] * points[j];
    }
    return total;
}

template <int Lanes>
WOLFMEANS_INLINE void best_two(const float* scores, int first_lane, float* best, float* second,
                               int* lane) {
    for (int r = 0; r < Lanes; ++r) {
        for (int p = 0; p < group_width; ++p) {
            const float score = scores[r * group_width + p];
            if (score < best[r]) {
                second[r] = best[r];
                best[r] = score;
                lane[r] = first_lane + p;
            } else if (score < second[r]) {
                second[r] = score;
            }
        }
    }
}

template <int Lanes, int Rows, int Chains>
WOLFMEANS_INLINE void group_rows(const float* const* rows, const float* centers, long long begin,
                                 long long end, float* scores) {
    for (int r = 0; r < Rows; ++r) {
        for (int p = 0; p < group_width; ++p) {
            float sum = 0.0f;
            for (long long j = begin; j < end; ++j)
                sum -= centers[j * group_width + p] * rows[r][j];
            scores[r * group_width + p] += sum;
        }
    }
}

#endif

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

// All in float32. The factors outweigh the rounding of the few operations around them, and the
// rounding of |x'|^2 + 2 s, whose terms may cancel, is added to what the score is off by.
inline void verdict(const float* squares, const float* best, const float* second, long long n,
                    const ErrorTerms& given, float* upper, float* lower) {
    const ErrorTerms error = given; // a copy that no store can change
    for (long long i = 0; i < n; ++i) {
        const float square = squares[i];
        const float norm = __builtin_sqrtf(square * (1.0f + error.norm)) * (1.0f + 0x1p-20f);
        const float off = error.constant + norm * (error.linear + norm * error.square);
        const float slack = 2.0f * off + square * error.norm;
        const float near = square + 2.0f * best[i], far = square + 2.0f * second[i];
        const float near_off = slack + 0x1p-22f * (square + 2.0f * __builtin_fabsf(best[i]));
        const float far_off = slack + 0x1p-22f * (square + 2.0f * __builtin_fabsf(second[i]));
        const float most = near + near_off, least = far - far_off;
        const bool decided = (second[i] - best[i]) * (1.0f - 0x1p-20f) > 2.0f * off;
        const float root = __builtin_sqrtf(most > 0.0f ? most : 0.0f);
        const float other = __builtin_sqrtf(least > 0.0f ? least : 0.0f);
        const float bound = other * (1.0f - 0x1p-21f) - 0x1p-60f;
        upper[i] = root * (1.0f + 0x1p-21f) + 0x1p-60f;
        lower[i] = decided ? (bound > 0.0f ? bound : 0.0f) : -1.0f;
    }
}

inline float spare(const int* labels, const float* slack, const float* spent, float* spare) {
    float least = 0x1p127f;
    for (int p = 0; p < bounds_block; ++p)
        spare[p] = slack[p] - spent[labels[p]];
    for (int p = 0; p < bounds_block; ++p)
        least = spare[p] < least ? spare[p] : least;
    return least;
}

// Distances first, then bounds for all rows at once, so that the compiler can use the lanes. The
// added terms outweigh the rounding of the sums before them.
template <int Lanes, class Real>
long long tighten(const BoundsView<Real>& given, unsigned* rows, long long count) {
    constexpr int at_once = 64;
    const BoundsView<Real> b = given; // a copy that no store can change
    float square[at_once], old_upper[at_once], old_slack[at_once];
    float new_upper[at_once], new_slack[at_once];
    float path[at_once], spent[at_once], near[at_once];
    int open[at_once];
    long long kept = 0;
    for (long long begin = 0; begin < count; begin += at_once) {
        const int size = static_cast<int>(count - begin < at_once ? count - begin : at_once);
        for (int p = 0; p < size; ++p) {
            const long long i = rows[begin + p];
            const long long a = b.labels[i];
            square[p] = distance<Lanes>(b.X + i * b.d, b.centers + a * b.d, b.factor, b.d);
            old_upper[p] = b.upper[i];
            old_slack[p] = b.slack[i];
            path[p] = b.path[a];
            spent[p] = b.spent[a];
            near[p] = b.near[a];
        }
        for (int p = 0; p < size; ++p) {
            const float u = __builtin_sqrtf(square[p] * b.rounding) * (1.0f + 0x1p-21f) + 0x1p-60f;
            const float sizes =
                __builtin_fabsf(old_slack[p]) + __builtin_fabsf(old_upper[p]) + spent[p] + path[p];
            const float l = (old_slack[p] - spent[p]) + (old_upper[p] + path[p]) - 0x1p-20f * sizes;
            new_upper[p] = (u - path[p]) + 0x1p-20f * (u + path[p]);
            new_slack[p] = (l - u) + spent[p] - 0x1p-20f * (sizes + u);
            open[p] = !(u < l) && !(new_upper[p] < near[p]);
        }
        for (int p = 0; p < size; ++p) {
            const unsigned i = rows[begin + p];
            b.upper[i] = new_upper[p];
            b.slack[i] = new_slack[p];
            rows[kept] = i;
            kept += open[p];
        }
    }
    return kept;
}

inline void encode(const float* squares, const float* off, const float* scores, long long n,
                   float path, float per_unit, unsigned short* bounds) {
    for (long long i = 0; i < n; ++i) {
        const float rounding = 0x1p-22f * (squares[i] + 2.0f * __builtin_fabsf(scores[i]));
        const float least = squares[i] + 2.0f * scores[i] - (off[i] + rounding);
        const float root = __builtin_sqrtf(least > 0.0f ? least : 0.0f) * (1.0f - 0x1p-18f);
        const float units = (root + path) * (1.0f - 0x1p-22f) * per_unit;
        bounds[i] = static_cast<unsigned short>(
            static_cast<int>(units < 65535.0f ? (units > 0.0f ? units : 0.0f) : 65535.0f));
    }
}

inline float needs(const unsigned short* bounds, const float* paths, const float* separation,
                   long long n_groups, float unit, float upper, unsigned char* needed) {
    float least = 0x1p127f;
    for (long long g = 0; g < n_groups; ++g) {
        const float carried = static_cast<float>(static_cast<int>(bounds[g])) * unit - paths[g];
        const float across = (separation[g] - upper) * (1.0f - 0x1p-18f);
        const float bound = carried > across ? carried : across;
        needed[g] = !(bound > upper);
        least = bound < least ? bound : least;
    }
    return least;
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
    return {screen<Lanes, Vectors, Centers>,
            {pack<Lanes, Vectors, float>, distance<Lanes, float>, shift<Lanes, float>,
             tighten<Lanes, float>},
            {pack<Lanes, Vectors, double>, distance<Lanes, double>, shift<Lanes, double>,
             tighten<Lanes, double>},
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
} // namespace wolfmeans
