// The sparse screen. Arguments, invariant and rounding: see sparse_screen.hpp.
//
// A lane is a center: a stored entry (j, v) adds v times row j of the packed centers to the scores
// of a block, which stay in registers over all entries.
#include "kernels/fused/sparse_screen.hpp"
#include "kernels/lanes.hpp"

namespace wolfmeans {
namespace {

inline constexpr float more_than_any_score = 0x1p126f;

template <int Lanes, int Registers>
WOLFMEANS_INLINE void add_entry(float value, const float* centers, long long column,
                                Floats<Lanes> (&sum)[Registers]) {
    const float* const c = centers + column * (Registers * Lanes);
    const Floats<Lanes> x = Floats<Lanes>{} + value;
    for (int r = 0; r < Registers; ++r)
        sum[r] -= x * load<Floats<Lanes>>(c + r * Lanes);
}

// The scores of one block of Registers * Lanes centers. Few registers are summed in several turns,
// independent chains.
template <int Lanes, int Registers>
WOLFMEANS_INLINE void score_block(const float* values, const int* columns, long long count,
                                  const float* centers, const float* offsets, float* scores) {
    constexpr int turns = Registers >= 3 ? 1 : 4 / Registers;
    Floats<Lanes> sum[turns][Registers];
    for (int r = 0; r < Registers; ++r) {
        sum[0][r] = load<Floats<Lanes>>(offsets + r * Lanes);
        for (int t = 1; t < turns; ++t)
            sum[t][r] = Floats<Lanes>{};
    }
    long long e = 0;
    for (; e + turns <= count; e += turns)
        for (int t = 0; t < turns; ++t)
            add_entry<Lanes, Registers>(values[e + t], centers, columns[e + t], sum[t]);
    for (; e < count; ++e)
        add_entry<Lanes, Registers>(values[e], centers, columns[e], sum[0]);
    for (int r = 0; r < Registers; ++r) {
        for (int t = 1; t < turns; ++t)
            sum[0][r] += sum[t][r];
        store(scores + r * Lanes, sum[0][r]);
    }
}

// Lane p of the result is lane p + Distance of v.
template <int Lanes, int Distance, class V>
WOLFMEANS_INLINE V rotated(const V& v) {
#if defined(__clang__)
    V result;
    for (int p = 0; p < Lanes; ++p)
        result[p] = v[(p + Distance) % Lanes];
    return result;
#else
    Ints<Lanes> from;
    for (int p = 0; p < Lanes; ++p)
        from[p] = (p + Distance) % Lanes;
    return __builtin_shuffle(v, from);
#endif
}

// Combine each lane with the one Distance further, then half as far, until all are combined.
template <int Lanes, int Distance>
WOLFMEANS_INLINE void across_lanes(Floats<Lanes>& best, Floats<Lanes>& second, Ints<Lanes>& label) {
    if constexpr (Distance > 0) {
        const Floats<Lanes> other = rotated<Lanes, Distance>(best);
        const Floats<Lanes> other_second = rotated<Lanes, Distance>(second);
        const Ints<Lanes> other_label = rotated<Lanes, Distance>(label);
        const Ints<Lanes> wins = (other < best) | ((other == best) & (other_label < label));
        const Floats<Lanes> loser = wins ? best : other;
        second = other_second < second ? other_second : second;
        second = loser < second ? loser : second;
        best = wins ? other : best;
        label = wins ? other_label : label;
        across_lanes<Lanes, Distance / 2>(best, second, label);
    }
}

template <int Lanes>
WOLFMEANS_INLINE ScreenedRow two_smallest(const float* scores, long long K) {
    Floats<Lanes> best = Floats<Lanes>{} + more_than_any_score, second = best;
    Ints<Lanes> label{}, index{};
    for (int p = 0; p < Lanes; ++p)
        index[p] = p;
    for (long long k = 0; k < K; k += Lanes) {
        const Floats<Lanes> score = load<Floats<Lanes>>(scores + k);
        const Ints<Lanes> better = score < best;
        const Floats<Lanes> loser = better ? best : score;
        second = loser < second ? loser : second;
        best = better ? score : best;
        label = better ? index : label;
        index += Lanes;
    }
    across_lanes<Lanes, Lanes / 2>(best, second, label);
    return {best[0], second[0], label[0]};
}

// The last block: as many registers as are left.
template <int Lanes, int Registers>
WOLFMEANS_INLINE void score_rest(long long registers, const float* values, const int* columns,
                                 long long count, const float* centers, const float* offsets,
                                 float* scores) {
    if constexpr (Registers > 0) {
        if (registers == Registers)
            score_block<Lanes, Registers>(values, columns, count, centers, offsets, scores);
        else
            score_rest<Lanes, Registers - 1>(registers, values, columns, count, centers, offsets,
                                             scores);
    }
}

template <int Lanes>
ScreenedRow screen_row(const float* values, const int* columns, long long count,
                       const float* centers, const float* offsets, long long d, long long K,
                       float* scores) {
    constexpr int width = block_registers * Lanes;
    long long k = 0;
    for (; k + width <= K; k += width)
        score_block<Lanes, block_registers>(values, columns, count, centers + k * d, offsets + k,
                                            scores + k);
    score_rest<Lanes, block_registers - 1>((K - k) / Lanes, values, columns, count, centers + k * d,
                                           offsets + k, scores + k);
    return two_smallest<Lanes>(scores, K);
}

} // namespace

namespace WOLFMEANS_UNIT {

extern constinit const SparseScreenVersion sparse_screen_kernels{screen_row<floats_at_once>,
                                                                 floats_at_once};

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
