// The body of the scan, written once; each scan_<unit>.cpp instantiates it with its own tile.
// Arguments, invariant and rounding: see scan.hpp.
//
// A tile is `Vectors` registers of `Lanes` points times `Centers` centers. A lane is a point and
// never mixes with another, so the order of operations within a distance does not depend on the
// width of the register. Center coordinates are broadcast: no padding of K, and because the
// centers come in ascending order a strict comparison keeps the lowest index of a tie.
#pragma once

#include "lanes.hpp"
#include "scan.hpp"

#if defined(__FAST_MATH__) || defined(_M_FP_FAST)
#    error "the scan must round every operation by itself: build without fast math"
#endif
#if defined(_MSC_VER) && !defined(__clang__)
#    pragma fp_contract(off)
#endif

namespace wolfmeans {
// Internal linkage on purpose: each translation unit keeps the code made for its own instructions.
namespace {

#if defined(__GNUC__) || defined(__clang__)

template <int Lanes>
struct Vector {
    typedef double Doubles __attribute__((vector_size(Lanes * sizeof(double))));
    typedef long long Integers __attribute__((vector_size(Lanes * sizeof(long long))));
};

#else // the same operations as loops over the lanes, for compilers without vector extensions

template <class Element, int Lanes>
struct Array {
    Element lane[Lanes];
    Element& operator[](int p) { return lane[p]; }
    Element operator[](int p) const { return lane[p]; }
};

template <int Lanes>
struct Vector {
    using Doubles = Array<double, Lanes>;
    using Integers = Array<long long, Lanes>;
};

template <class V, class Element>
WOLFMEANS_INLINE V load(const Element* from) {
    V v;
    for (int p = 0; p < int(sizeof(V) / sizeof(Element)); ++p)
        v[p] = from[p];
    return v;
}

template <class V, class Element>
WOLFMEANS_INLINE void store(Element* to, const V& v) {
    for (int p = 0; p < int(sizeof(V) / sizeof(Element)); ++p)
        to[p] = v[p];
}

template <int Lanes>
WOLFMEANS_INLINE Array<double, Lanes> operator-(Array<double, Lanes> a, double b) {
    for (int p = 0; p < Lanes; ++p)
        a[p] -= b;
    return a;
}

template <int Lanes>
WOLFMEANS_INLINE Array<double, Lanes> operator*(Array<double, Lanes> a,
                                                const Array<double, Lanes>& b) {
    for (int p = 0; p < Lanes; ++p)
        a[p] *= b[p];
    return a;
}

template <int Lanes>
WOLFMEANS_INLINE Array<double, Lanes> operator+(Array<double, Lanes> a,
                                                const Array<double, Lanes>& b) {
    for (int p = 0; p < Lanes; ++p)
        a[p] += b[p];
    return a;
}

#endif

// distance[v][k]: the canonical distances of the tile's points to `Centers` consecutive centers.
template <int Lanes, int Vectors, int Centers>
WOLFMEANS_INLINE void
tile_distances(const double* points, const double* centers, long long d,
               typename Vector<Lanes>::Doubles (&distance)[Vectors][Centers]) {
    using Doubles = typename Vector<Lanes>::Doubles;
    for (int v = 0; v < Vectors; ++v)
        for (int k = 0; k < Centers; ++k)
            distance[v][k] = Doubles{};
    for (long long j = 0; j < d; ++j) {
        for (int v = 0; v < Vectors; ++v) {
            const Doubles x = load<Doubles>(points + j * group_size + v * Lanes);
            for (int k = 0; k < Centers; ++k) {
                const Doubles difference = x - centers[k * d + j];
                distance[v][k] = distance[v][k] + difference * difference;
            }
        }
    }
}

// One more center, number k, for the lanes of one register.
template <int Lanes, bool WithSecond>
WOLFMEANS_INLINE void update(const typename Vector<Lanes>::Doubles& distance, long long k,
                             typename Vector<Lanes>::Doubles& nearest,
                             typename Vector<Lanes>::Doubles& second,
                             typename Vector<Lanes>::Integers& label) {
#if defined(__GNUC__) || defined(__clang__)
    const typename Vector<Lanes>::Integers closer = distance < nearest;
    if constexpr (WithSecond) {
        // A tie is not closer: its distance becomes the second, equal to the nearest.
        const typename Vector<Lanes>::Doubles loser = closer ? nearest : distance;
        second = loser < second ? loser : second;
    }
    nearest = closer ? distance : nearest;
    label = closer ? (typename Vector<Lanes>::Integers{} + k) : label;
#else
    for (int p = 0; p < Lanes; ++p) {
        const bool closer = distance[p] < nearest[p];
        if constexpr (WithSecond) {
            const double loser = closer ? nearest[p] : distance[p];
            second[p] = loser < second[p] ? loser : second[p];
        }
        nearest[p] = closer ? distance[p] : nearest[p];
        label[p] = closer ? k : label[p];
    }
#endif
}

template <int Lanes, int Vectors, int Centers, bool WithSecond>
WOLFMEANS_INLINE void scan_tile(const double* points, const double* centers, long long d,
                                long long k, GroupState& state, int p) {
    using Doubles = typename Vector<Lanes>::Doubles;
    using Integers = typename Vector<Lanes>::Integers;
    Doubles distance[Vectors][Centers];
    tile_distances<Lanes, Vectors, Centers>(points + p, centers + k * d, d, distance);
    for (int v = 0; v < Vectors; ++v) {
        const int lane = p + v * Lanes;
        Doubles nearest = load<Doubles>(state.nearest + lane);
        Doubles second = load<Doubles>(state.second + lane);
        Integers label = load<Integers>(state.label + lane);
        for (int i = 0; i < Centers; ++i)
            update<Lanes, WithSecond>(distance[v][i], k + i, nearest, second, label);
        store(state.nearest + lane, nearest);
        if constexpr (WithSecond) store(state.second + lane, second);
        store(state.label + lane, label);
    }
}

// The centers from k on: whole tiles, then what is left by tiles of half the width.
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

} // namespace
} // namespace wolfmeans
