// Boxes against centers. Arguments and rounding: see narrow.hpp. Candidates are the lanes of a box
// test, points those of a leaf.
#include "kernels/fused/narrow.hpp"
#include "kernels/lanes.hpp"

namespace wolfmeans {
namespace {

constexpr float farther = 0x1p60f; // than every difference of distances
constexpr int few_candidates = 4;  // comparing them point by point costs less than a box test

template <int Lanes>
WOLFMEANS_INLINE Floats<Lanes> roots(const Floats<Lanes>& squares) {
    float lanes[Lanes];
    store(lanes, squares);
    for (int p = 0; p < Lanes; ++p)
        lanes[p] = __builtin_sqrtf(lanes[p]);
    return load<Floats<Lanes>>(lanes);
}

template <int Lanes>
WOLFMEANS_INLINE Ints<Lanes> counting() {
    int lanes[Lanes];
    for (int p = 0; p < Lanes; ++p)
        lanes[p] = p;
    return load<Ints<Lanes>>(lanes);
}

// Lanes p and p ^ width change places.
template <int Lanes, class V>
WOLFMEANS_INLINE V swapped(const V& v, int width) {
#if defined(__clang__)
    V other;
    for (int p = 0; p < Lanes; ++p)
        other[p] = v[p ^ width];
    return other;
#else
    return __builtin_shuffle(v, counting<Lanes>() ^ width);
#endif
}

// Lanes that compare as those of v do, to within 2^-19 of each, with the lane's number inside;
// none is negative.
template <int Lanes>
WOLFMEANS_INLINE Ints<Lanes> numbered(const Floats<Lanes>& v) {
    return (load<Ints<Lanes>>(&v) & -Lanes) | counting<Lanes>();
}

// The smallest lane, by halving.
template <int Lanes, class V>
WOLFMEANS_INLINE auto smallest(V v) {
    for (int width = Lanes / 2; width > 0; width /= 2) {
        const auto other = swapped<Lanes>(v, width);
        v = other < v ? other : v;
    }
    return v[0];
}

template <int Lanes>
WOLFMEANS_INLINE int all_bits(Ints<Lanes> v) {
    for (int width = Lanes / 2; width > 0; width /= 2)
        v |= swapped<Lanes>(v, width);
    return v[0];
}

// The place of the candidate (almost) nearest to the middle of the box; scratch.squares is filled.
template <int Lanes, int D>
WOLFMEANS_INLINE int nearest_to_middle(const Candidates& in, const float* box, long long any_d,
                                       const NarrowScratch& scratch) {
    const long long d = D ? D : any_d;
    Floats<Lanes> least = Floats<Lanes>{} + farther * farther;
    Ints<Lanes> where{};
    const Ints<Lanes> lane = counting<Lanes>();
    for (int q = 0; q < in.count; q += Lanes) {
        Floats<Lanes> square{};
        for (long long j = 0; j < d; ++j) {
            const Floats<Lanes> from =
                load<Floats<Lanes>>(in.coordinates + j * in.stride + q) - box[j];
            square += from * from;
        }
        store(scratch.squares + q, square);
        const Ints<Lanes> place = lane + q;
        const Floats<Lanes> counted =
            place < in.count ? square : Floats<Lanes>{} + farther * farther;
        where = counted < least ? place : where;
        least = counted < least ? counted : least;
    }
    // Among the lanes' bests nearly the best will do: the choice is free.
    int places[Lanes];
    store(places, where);
    return places[smallest<Lanes>(numbered<Lanes>(least)) & (Lanes - 1)];
}

// List in scratch.kept the candidates that may matter; returns their number. `slack` OUT, the
// smallest lane is what Narrow returns.
template <int Lanes, int D, bool Drifting>
WOLFMEANS_INLINE int test_box(const Candidates& in, const float* box, long long any_d, float extra,
                              const NarrowScratch& scratch, Floats<Lanes>& slack) {
    const long long d = D ? D : any_d;
    const float* widths = box + d;
    const int near = nearest_to_middle<Lanes, D>(in, box, d, scratch);
    const float near_square = scratch.squares[near];
    const float near_sum = __builtin_sqrtf(near_square) + box[2 * d];
    const float error = box[2 * d + 1], slope = narrow_slope(d);
    const float allowed = Drifting ? in.drifts[near] + extra : 0.0f;
    const Ints<Lanes> lane = counting<Lanes>();
    slack = Floats<Lanes>{} + farther;
    int n_kept = 0;
    for (int q = 0; q < in.count; q += Lanes) {
        Floats<Lanes> across{};
        for (long long j = 0; j < d; ++j) {
            const float* coordinates = in.coordinates + j * in.stride;
            const Floats<Lanes> between = load<Floats<Lanes>>(coordinates + q) - coordinates[near];
            const Floats<Lanes> away = between > -between ? between : -between;
            across += away * widths[j];
        }
        const Floats<Lanes> square = load<Floats<Lanes>>(scratch.squares + q);
        const Floats<Lanes> sum = roots<Lanes>(square) + near_sum;
        const Floats<Lanes> ahead = (square - near_square - across) / sum - sum * slope - error;
        Floats<Lanes> bound = Floats<Lanes>{} + allowed;
        if (Drifting) bound = load<Floats<Lanes>>(in.drifts + q) + bound;
        const Ints<Lanes> dropped = ahead > bound;
        const Ints<Lanes> counted = lane + q < in.count;
        const Floats<Lanes> lost = (dropped & counted) ? ahead : Floats<Lanes>{} + farther;
        slack = lost < slack ? lost : slack;
        int flags[Lanes];
        store(flags, dropped);
        const int lanes = in.count - q < Lanes ? in.count - q : Lanes;
        for (int p = 0; p < lanes; ++p) {
            scratch.kept[n_kept] = q + p;
            n_kept += !flags[p];
        }
    }
    return n_kept;
}

template <int Lanes, int D>
float narrow(const Candidates& in, const float* box, long long any_d, float extra,
             const NarrowScratch& scratch, Candidates& out) {
    const long long d = D ? D : any_d;
    Floats<Lanes> slack;
    out.count = test_box<Lanes, D, true>(in, box, d, extra, scratch, slack);
    for (int i = 0; i < out.count; ++i) {
        const int q = scratch.kept[i];
        for (long long j = 0; j < d; ++j)
            out.coordinates[j * out.stride + i] = in.coordinates[j * in.stride + q];
        out.drifts[i] = in.drifts[q];
        out.indices[i] = in.indices[q];
    }
    return smallest<Lanes>(slack);
}

// Label `Vectors` registers of points, `valid` of which count; see LabelLeaf.
template <int Lanes, int Vectors, int D>
WOLFMEANS_INLINE void label_points(const Candidates& in, const NarrowScratch& scratch, int n_kept,
                                   float error, long long any_d, const float* points,
                                   long long stride, const int* old, int valid, int* labels,
                                   int* undecided, Floats<Lanes>& slack, Ints<Lanes>& any_undecided,
                                   Ints<Lanes>& moved) {
    const long long d = D ? D : any_d;
    Floats<Lanes> best[Vectors], second[Vectors];
    Ints<Lanes> label[Vectors];
    for (int v = 0; v < Vectors; ++v) {
        best[v] = second[v] = Floats<Lanes>{} + farther * farther;
        label[v] = Ints<Lanes>{};
    }
    for (int i = 0; i < n_kept; ++i) {
        const int q = scratch.kept[i];
        const Ints<Lanes> index = Ints<Lanes>{} + in.indices[q];
        Floats<Lanes> square[Vectors] = {};
        for (long long j = 0; j < d; ++j) {
            const Floats<Lanes> c = Floats<Lanes>{} + in.coordinates[j * in.stride + q];
            for (int v = 0; v < Vectors; ++v) {
                const Floats<Lanes> from = load<Floats<Lanes>>(points + j * stride + v * Lanes) - c;
                square[v] += from * from;
            }
        }
        for (int v = 0; v < Vectors; ++v) {
            const Floats<Lanes> loser = best[v] > square[v] ? best[v] : square[v];
            second[v] = second[v] < loser ? second[v] : loser;
            label[v] = square[v] < best[v] ? index : label[v];
            best[v] = square[v] < best[v] ? square[v] : best[v];
        }
    }
    const float slope = narrow_slope(d);
    for (int v = 0; v < Vectors; ++v) {
        const Floats<Lanes> near = roots<Lanes>(best[v]), next = roots<Lanes>(second[v]);
        const Floats<Lanes> ahead = next - near - (next + near) * slope - error;
        const Ints<Lanes> counted = counting<Lanes>() + v * Lanes < valid;
        const Ints<Lanes> decided = ahead > 0.0f;
        const Ints<Lanes> open = counted & (decided == 0);
        const Floats<Lanes> lead = counted ? ahead : Floats<Lanes>{} + farther;
        slack = lead < slack ? lead : slack;
        any_undecided |= open;
        moved |= counted & (load<Ints<Lanes>>(old + v * Lanes) != label[v]);
        store(labels + v * Lanes, label[v]);
        store(undecided + v * Lanes, open);
    }
}

template <int Lanes, int Vectors, int D>
void label_leaf(const Candidates& in, const float* box, long long any_d, const float* points,
                int count, const int* old, const NarrowScratch& scratch, LeafVerdict& verdict) {
    const long long d = D ? D : any_d;
    Floats<Lanes> slack = Floats<Lanes>{} + farther;
    int n_kept = in.count;
    if (in.count > few_candidates)
        n_kept = test_box<Lanes, D, false>(in, box, d, 0.0f, scratch, slack);
    else
        for (int q = 0; q < in.count; ++q)
            scratch.kept[q] = q;
    verdict.n_kept = n_kept;
    Ints<Lanes> any_undecided{}, moved{};
    if (n_kept == 1) {
        const Ints<Lanes> label = Ints<Lanes>{} + in.indices[scratch.kept[0]];
        for (int p = 0; p < count; p += Lanes) {
            const Ints<Lanes> counted = counting<Lanes>() + p < count;
            moved |= counted & (load<Ints<Lanes>>(old + p) != label);
            store(verdict.labels + p, label);
        }
    } else {
        const float error = box[2 * d + 1];
        int p = 0;
        for (; count - p > Lanes * (Vectors - 1); p += Lanes * Vectors)
            label_points<Lanes, Vectors, D>(in, scratch, n_kept, error, d, points + p, count,
                                            old + p, count - p, verdict.labels + p,
                                            verdict.undecided + p, slack, any_undecided, moved);
        for (; p < count; p += Lanes)
            label_points<Lanes, 1, D>(in, scratch, n_kept, error, d, points + p, count, old + p,
                                      count - p, verdict.labels + p, verdict.undecided + p, slack,
                                      any_undecided, moved);
    }
    verdict.slack = smallest<Lanes>(slack);
    const int flags = all_bits<Lanes>((any_undecided & 1) | (moved & 1) * 2);
    verdict.any_undecided = flags & 1;
    verdict.moved = flags & 2;
}

template <int Lanes, int Vectors>
constexpr NarrowVersion narrow_version() {
    static_assert(Lanes <= most_narrow_lanes && Vectors <= most_vectors);
    return {
        {narrow<Lanes, 0>, narrow<Lanes, 1>, narrow<Lanes, 2>, narrow<Lanes, 3>, narrow<Lanes, 4>},
        {label_leaf<Lanes, Vectors, 0>, label_leaf<Lanes, Vectors, 1>,
         label_leaf<Lanes, Vectors, 2>, label_leaf<Lanes, Vectors, 3>,
         label_leaf<Lanes, Vectors, 4>}};
}

} // namespace

namespace WOLFMEANS_UNIT {

extern constinit const NarrowVersion narrow_kernels = narrow_version<floats_at_once, 2>();

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
