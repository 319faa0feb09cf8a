// The scan. Arguments, invariant and rounding: see scan.hpp.
//
// A tile is `Vectors` registers of `Lanes` points times `Centers` centers. A lane is a point and
// never mixes with another, so the order of operations within a distance does not depend on the
// width of the register. Center coordinates are broadcast: no padding of K, and because the
// centers come in ascending order a strict comparison keeps the lowest index of a tie.
#include "kernels/exact/scan.hpp"
#include "kernels/exact/exact_lanes.hpp"

namespace wolfmeans {
namespace {

// distance[v][k]: the canonical distances of the tile's points to `Centers` consecutive centers.
template <int Lanes, int Vectors, int Centers>
WOLFMEANS_INLINE void tile_distances(const double* points, const double* centers, long long d,
                                     Doubles<Lanes> (&distance)[Vectors][Centers]) {
    for (int v = 0; v < Vectors; ++v)
        for (int k = 0; k < Centers; ++k)
            distance[v][k] = Doubles<Lanes>{};
    for (long long j = 0; j < d; ++j) {
        for (int v = 0; v < Vectors; ++v) {
            const Doubles<Lanes> x = load<Doubles<Lanes>>(points + j * group_size + v * Lanes);
            for (int k = 0; k < Centers; ++k) {
                const Doubles<Lanes> difference = x - centers[k * d + j];
                distance[v][k] = distance[v][k] + difference * difference;
            }
        }
    }
}

// One more center, number k, for the lanes of one register.
template <int Lanes, bool WithSecond>
WOLFMEANS_INLINE void update(const Doubles<Lanes>& distance, long long k, Doubles<Lanes>& nearest,
                             Doubles<Lanes>& second, Longs<Lanes>& label) {
    const Longs<Lanes> closer = distance < nearest;
    if constexpr (WithSecond) {
        // A tie is not closer: its distance becomes the second, equal to the nearest.
        const Doubles<Lanes> loser = closer ? nearest : distance;
        second = loser < second ? loser : second;
    }
    nearest = closer ? distance : nearest;
    label = closer ? (Longs<Lanes>{} + k) : label;
}

template <int Lanes, int Vectors, int Centers, bool WithSecond>
WOLFMEANS_INLINE void scan_tile(const double* points, const double* centers, long long d,
                                long long k, GroupState& state, int p) {
    Doubles<Lanes> distance[Vectors][Centers];
    tile_distances<Lanes, Vectors, Centers>(points + p, centers + k * d, d, distance);
    for (int v = 0; v < Vectors; ++v) {
        const int lane = p + v * Lanes;
        Doubles<Lanes> nearest = load<Doubles<Lanes>>(state.nearest + lane);
        Doubles<Lanes> second = load<Doubles<Lanes>>(state.second + lane);
        Longs<Lanes> label = load<Longs<Lanes>>(state.label + lane);
        for (int i = 0; i < Centers; ++i)
            update<Lanes, WithSecond>(distance[v][i], k + i, nearest, second, label);
        store(state.nearest + lane, nearest);
        if constexpr (WithSecond) store(state.second + lane, second);
        store(state.label + lane, label);
    }
}

// The centers from k on: whole tiles, then the rest by tiles of half the width.
template <int Lanes, int Vectors, int Centers, bool WithSecond>
WOLFMEANS_INLINE void scan_from(const double* points, const double* centers, long long d,
                                long long k, long long last, GroupState& state) {
    for (; k + Centers <= last; k += Centers)
        for (int p = 0; p < group_size; p += Lanes * Vectors)
            scan_tile<Lanes, Vectors, Centers, WithSecond>(points, centers, d, k, state, p);
    if constexpr (Centers > 1)
        scan_from<Lanes, Vectors, Centers / 2, WithSecond>(points, centers, d, k, last, state);
}

template <int Lanes, int Vectors, int Centers, bool WithSecond>
void scan(const double* points, const double* centers, long long d, long long first, long long last,
          GroupState& state) {
    static_assert(group_size % (Lanes * Vectors) == 0);
    scan_from<Lanes, Vectors, Centers, WithSecond>(points, centers, d, first, last, state);
}

// --- Pairs ------------------------------------------------------------------------------------

// A square of Lanes x Lanes numbers transposed: blocks of 1, 2, 4, ... numbers change places across
// the diagonal. Unrolled, so that the square stays in registers.
template <int Lanes, int Block = 1>
WOLFMEANS_INLINE void transpose(Doubles<Lanes> (&rows)[Lanes]) {
    Longs<Lanes> low{}, high{};
#pragma GCC unroll 8
    for (int p = 0; p < Lanes; ++p) {
        low[p] = p & Block ? Lanes + p - Block : p;
        high[p] = p & Block ? Lanes + p : p + Block;
    }
#pragma GCC unroll 8
    for (int i = 0; i < Lanes; ++i) {
        if (i & Block) continue;
        const Doubles<Lanes> a = rows[i], b = rows[i + Block];
#if defined(__clang__)
        for (int p = 0; p < Lanes; ++p) {
            rows[i][p] = p & Block ? b[p - Block] : a[p];
            rows[i + Block][p] = p & Block ? b[p] : a[p + Block];
        }
#else
        rows[i] = __builtin_shuffle(a, b, low);
        rows[i + Block] = __builtin_shuffle(a, b, high);
#endif
    }
    if constexpr (2 * Block < Lanes) transpose<Lanes, 2 * Block>(rows);
}

// The distances of Lanes pairs. Differences and squares are taken along the rows; what is
// transposed are the squares, so that each lane adds its own in order.
template <int Lanes, int Centers, class Real>
WOLFMEANS_INLINE void pair_register(const Real* const* rows,
                                    const double* const* (&centers)[Centers], long long d,
                                    double* const (&out)[Centers]) {
    Doubles<Lanes> sum[Centers];
    for (int c = 0; c < Centers; ++c)
        sum[c] = Doubles<Lanes>{};
    long long j = 0;
    for (; j + Lanes <= d; j += Lanes) {
        Doubles<Lanes> x[Lanes];
#pragma GCC unroll 8
        for (int p = 0; p < Lanes; ++p)
            x[p] = load_doubles<Lanes>(rows[p] + j);
#pragma GCC unroll 8
        for (int c = 0; c < Centers; ++c) {
            Doubles<Lanes> square[Lanes];
#pragma GCC unroll 8
            for (int p = 0; p < Lanes; ++p) {
                const Doubles<Lanes> difference = x[p] - load_doubles<Lanes>(centers[c][p] + j);
                square[p] = difference * difference;
            }
            transpose<Lanes>(square);
#pragma GCC unroll 8
            for (int i = 0; i < Lanes; ++i)
                sum[c] = sum[c] + square[i];
        }
    }
    for (; j < d; ++j) {
        for (int c = 0; c < Centers; ++c) {
            double square[Lanes];
            for (int p = 0; p < Lanes; ++p) {
                const double difference = static_cast<double>(rows[p][j]) - centers[c][p][j];
                square[p] = difference * difference;
            }
            sum[c] = sum[c] + load<Doubles<Lanes>>(square);
        }
    }
    for (int c = 0; c < Centers; ++c)
        store(out[c], sum[c]);
}

// A row of D coordinates, D known to the compiler.
template <int D, class Real>
WOLFMEANS_INLINE double short_distance(const Real* x, const double* c) {
    double sum = 0.0;
    for (int j = 0; j < D; ++j) {
        const double difference = static_cast<double>(x[j]) - c[j];
        sum = sum + difference * difference;
    }
    return sum;
}

template <int D, int Centers, class Real>
WOLFMEANS_INLINE bool short_pairs(const Real* const* rows, const double* const* (&centers)[Centers],
                                  long long d, int count, double* const (&out)[Centers]) {
    if (d == D) {
        for (int p = 0; p < count; ++p)
            for (int c = 0; c < Centers; ++c)
                out[c][p] = short_distance<D>(rows[p], centers[c][p]);
        return true;
    }
    if constexpr (D > 1)
        return short_pairs<D - 1>(rows, centers, d, count, out);
    else
        return false;
}

inline constexpr int most_short = 4;

template <int Lanes, int Centers, class Real>
WOLFMEANS_INLINE void pairs(const Real* const* rows, const double* const* (&centers)[Centers],
                            long long d, int count, double* const (&out)[Centers]) {
    if (short_pairs<most_short>(rows, centers, d, count, out)) return;
    for (int first = 0; first < count; first += Lanes) {
        const int some = count - first < Lanes ? count - first : Lanes;
        // The last pair fills the rest of a register.
        const Real* x[Lanes];
        const double* c[Centers][Lanes];
        const double* const* of[Centers];
        double found[Centers][Lanes];
        double* to[Centers];
        for (int p = 0; p < Lanes; ++p) {
            const int pair = first + (p < some ? p : some - 1);
            x[p] = rows[pair];
            for (int i = 0; i < Centers; ++i)
                c[i][p] = centers[i][pair];
        }
        for (int i = 0; i < Centers; ++i) {
            of[i] = c[i];
            to[i] = found[i];
        }
        pair_register<Lanes, Centers>(x, of, d, to);
        for (int i = 0; i < Centers; ++i)
            for (int p = 0; p < some; ++p)
                out[i][first + p] = found[i][p];
    }
}

template <int Lanes, class Real>
void pair_distances(const Real* const* rows, const double* const* centers, long long d, int count,
                    double* out) {
    const double* const* of[1] = {centers};
    double* const to[1] = {out};
    pairs<Lanes, 1>(rows, of, d, count, to);
}

template <int Lanes, class Real>
void two_pair_distances(const Real* const* rows, const double* const* first,
                        const double* const* second, long long d, int count, double* out_first,
                        double* out_second) {
    const double* const* of[2] = {first, second};
    double* const to[2] = {out_first, out_second};
    pairs<Lanes, 2>(rows, of, d, count, to);
}

template <int D, class Real>
WOLFMEANS_INLINE bool short_own(const Real* X, long long n, long long d, const double* centers,
                                const int* labels, double* out) {
    if (d == D) {
        for (long long i = 0; i < n; ++i)
            out[i] = short_distance<D>(X + i * D, centers + static_cast<long long>(labels[i]) * D);
        return true;
    }
    if constexpr (D > 1)
        return short_own<D - 1>(X, n, d, centers, labels, out);
    else
        return false;
}

template <int Lanes, class Real>
void own_distances(const Real* X, long long n, long long d, const double* centers,
                   const int* labels, double* out) {
    if (short_own<most_short>(X, n, d, centers, labels, out)) return;
    for (long long i = 0; i < n; i += group_size) {
        const int count = n - i < group_size ? static_cast<int>(n - i) : group_size;
        const Real* rows[group_size];
        const double* own[group_size];
        for (int p = 0; p < count; ++p) {
            rows[p] = X + (i + p) * d;
            own[p] = centers + static_cast<long long>(labels[i + p]) * d;
        }
        const double* const* of[1] = {own};
        double* const to[1] = {out + i};
        pairs<Lanes, 1>(rows, of, d, count, to);
    }
}

// --- Roots ------------------------------------------------------------------------------------

template <int Lanes, int Vectors, int Centers, class Real>
WOLFMEANS_INLINE void roots_from(const double* points, const double* centers, long long d,
                                 long long k, long long last, long long stride, int count,
                                 Real* out) {
    constexpr int tile = Lanes * Vectors;
    for (; k + Centers <= last; k += Centers) {
        for (int first = 0; first < count; first += tile) {
            Doubles<Lanes> distance[Vectors][Centers];
            tile_distances<Lanes, Vectors, Centers>(points + first, centers + k * d, d, distance);
            double squares[Centers * tile];
            for (int i = 0; i < Centers; ++i)
                for (int v = 0; v < Vectors; ++v)
                    store(squares + i * tile + v * Lanes, distance[v][i]);
            Real root[Centers * tile];
            for (int i = 0; i < Centers * tile; ++i)
                root[i] = static_cast<Real>(__builtin_sqrt(squares[i]));
            for (int p = 0; p < tile && first + p < count; ++p)
                for (int i = 0; i < Centers; ++i)
                    out[(first + p) * stride + k + i] = root[i * tile + p];
        }
    }
    if constexpr (Centers > 1)
        roots_from<Lanes, Vectors, Centers / 2>(points, centers, d, k, last, stride, count, out);
}

template <int Lanes, int Vectors, int Centers, class Real>
void roots(const double* points, const double* centers, long long d, long long first,
           long long last, long long stride, int count, Real* out) {
    roots_from<Lanes, Vectors, Centers>(points, centers, d, first, last, stride, count, out);
}

// --- All distances ----------------------------------------------------------------------------

template <int Lanes, int Vectors, int Centers>
WOLFMEANS_INLINE void distances_from(const double* points, const double* centers, long long d,
                                     long long k, long long last, double* out) {
    for (; k + Centers <= last; k += Centers)
        for (int p = 0; p < group_size; p += Lanes * Vectors) {
            Doubles<Lanes> distance[Vectors][Centers];
            tile_distances<Lanes, Vectors, Centers>(points + p, centers + k * d, d, distance);
            for (int i = 0; i < Centers; ++i)
                for (int v = 0; v < Vectors; ++v)
                    store(out + (k + i) * group_size + p + v * Lanes, distance[v][i]);
        }
    if constexpr (Centers > 1)
        distances_from<Lanes, Vectors, Centers / 2>(points, centers, d, k, last, out);
}

template <int Lanes, int Vectors, int Centers>
void all_distances(const double* points, const double* centers, long long d, long long first,
                   long long last, double* out) {
    distances_from<Lanes, Vectors, Centers>(points, centers, d, first, last, out);
}

template <int Lanes>
void priced(const double* distances, const double* prices, long long K, PricedState& state) {
    for (int p = 0; p < group_size; p += Lanes) {
        Doubles<Lanes> own = load<Doubles<Lanes>>(distances + p);
        Doubles<Lanes> least = own + prices[0];
        Doubles<Lanes> second = Doubles<Lanes>{} + __builtin_inf();
        Longs<Lanes> label{};
        for (long long k = 1; k < K; ++k) {
            const Doubles<Lanes> distance = load<Doubles<Lanes>>(distances + k * group_size + p);
            const Doubles<Lanes> cost = distance + prices[k];
            const Longs<Lanes> less = cost < least;
            const Doubles<Lanes> more = less ? least : cost;
            second = more < second ? more : second;
            least = less ? cost : least;
            own = less ? distance : own;
            label = less ? (Longs<Lanes>{} + k) : label;
        }
        store(state.least + p, least);
        store(state.second + p, second);
        store(state.own + p, own);
        store(state.label + p, label);
    }
}

template <int Lanes>
void within_limits(const double* distances, const PricedState& state, const double* limits,
                   long long K, signed char* within) {
    typedef signed char Flags __attribute__((vector_size(Lanes)));
    for (int p = 0; p < group_size; p += Lanes) {
        const Doubles<Lanes> own = load<Doubles<Lanes>>(state.own + p);
        const double* of[Lanes];
        for (int lane = 0; lane < Lanes; ++lane)
            of[lane] = limits + state.label[p + lane] * K;
        for (long long k = 0; k < K; ++k) {
            Doubles<Lanes> limit{};
            for (int lane = 0; lane < Lanes; ++lane)
                limit[lane] = of[lane][k];
            const Doubles<Lanes> distance = load<Doubles<Lanes>>(distances + k * group_size + p);
            const Longs<Lanes> less = distance - own <= limit;
            store(within + k * group_size + p, converted<Flags>(less));
        }
    }
}

template <int Lanes, int Vectors, int Centers>
constexpr ScanVersion scan_version() {
    return {{{pair_distances<Lanes, float>, two_pair_distances<Lanes, float>,
              own_distances<Lanes, float>, roots<Lanes, Vectors, Centers, float>},
             {pair_distances<Lanes, double>, two_pair_distances<Lanes, double>,
              own_distances<Lanes, double>, roots<Lanes, Vectors, Centers, double>}},
            scan<Lanes, Vectors, Centers, false>,
            scan<Lanes, Vectors, Centers, true>,
            all_distances<Lanes, Vectors, Centers>,
            priced<Lanes>,
            within_limits<Lanes>};
}

} // namespace

namespace WOLFMEANS_UNIT {

// AVX-512 has 32 registers of 8 doubles, of which the tile's distances take 8. Of the baselines
// NEON has 32 registers, SSE2 16: its tile is half a group.
#if defined(__aarch64__)
constexpr int baseline_vectors = 4;
#else
constexpr int baseline_vectors = 2;
#endif
constexpr int tile_vectors = by_unit(baseline_vectors, 2, 1);
constexpr int tile_centers = by_unit(4, 4, 8);
extern constinit const ScanVersion scan_kernels =
    scan_version<doubles_at_once, tile_vectors, tile_centers>();

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
