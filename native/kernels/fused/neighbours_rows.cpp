// The inner loops of the neighbours bound. Arguments and rounding: see neighbours_rows.hpp.
#if defined(__AVX512F__)
#    include <immintrin.h>
#endif

#include "kernels/fused/neighbours_rows.hpp"
#include "kernels/lanes.hpp"

namespace wolfmeans {
namespace {

template <int Lanes, int Rows>
void distances_of_rows(const double* tiles, long long n_tiles, long long d, const double* x,
                       double* out) {
    constexpr int vectors = neighbours_tile / Lanes;
    const long long stride = n_tiles * neighbours_tile;
    for (long long first = 0; first < neighbours_group; first += Rows) {
        const double* tile = tiles;
        for (long long t = 0; t < n_tiles; ++t) {
            Doubles<Lanes> sum[Rows][vectors];
            for (int r = 0; r < Rows; ++r)
                for (int v = 0; v < vectors; ++v)
                    sum[r][v] = Doubles<Lanes>{};
            for (long long j = 0; j < d; ++j, tile += neighbours_tile) {
                for (int v = 0; v < vectors; ++v) {
                    const Doubles<Lanes> y = load<Doubles<Lanes>>(tile + v * Lanes);
                    for (int r = 0; r < Rows; ++r) {
                        const Doubles<Lanes> difference = y - x[(first + r) * d + j];
                        sum[r][v] = sum[r][v] + difference * difference;
                    }
                }
            }
            for (int r = 0; r < Rows; ++r)
                for (int v = 0; v < vectors; ++v)
                    store(out + (first + r) * stride + t * neighbours_tile + v * Lanes, sum[r][v]);
        }
    }
}

// Several independent sums.
template <int Lanes>
NearSums sums_below(const double* distances, const double* weights, long long count, double limit) {
    constexpr int side_by_side = 4;
    Doubles<Lanes> distance[side_by_side] = {}, weight[side_by_side] = {};
    long long i = 0;
    for (; i + side_by_side * Lanes <= count; i += side_by_side * Lanes) {
        for (int v = 0; v < side_by_side; ++v) {
            const Doubles<Lanes> D = load<Doubles<Lanes>>(distances + i + v * Lanes);
            const Doubles<Lanes> w =
                weights ? load<Doubles<Lanes>>(weights + i + v * Lanes) : Doubles<Lanes>{} + 1.0;
            const auto near = D < Doubles<Lanes>{} + limit;
            distance[v] = distance[v] + (near ? w * D : Doubles<Lanes>{});
            weight[v] = weight[v] + (near ? w : Doubles<Lanes>{});
        }
    }
    NearSums sums{0.0, 0.0};
    for (int v = 0; v < side_by_side; ++v) {
        for (int l = 0; l < Lanes; ++l) {
            sums.distance += distance[v][l];
            sums.weight += weight[v][l];
        }
    }
    for (; i < count; ++i) {
        if (distances[i] < limit) {
            const double w = weights ? weights[i] : 1.0;
            sums.distance += w * distances[i];
            sums.weight += w;
        }
    }
    return sums;
}

template <int Lanes>
long long gather_below(const double* distances, const double* weights, long long count,
                       double limit, double* near, double* near_weights) {
    long long found = 0, i = 0;
#if defined(__AVX512F__)
    if constexpr (Lanes == 8) {
        const __m512d bound = _mm512_set1_pd(limit);
        for (; i + 8 <= count; i += 8) {
            const __m512d D = _mm512_loadu_pd(distances + i);
            const __mmask8 below = _mm512_cmp_pd_mask(D, bound, _CMP_LT_OQ);
            // Compressing in the register is much faster than compressing to memory.
            _mm512_storeu_pd(near + found, _mm512_maskz_compress_pd(below, D));
            if (weights)
                _mm512_storeu_pd(near_weights + found,
                                 _mm512_maskz_compress_pd(below, _mm512_loadu_pd(weights + i)));
            found += __builtin_popcount(below);
        }
    }
#endif
    // Always written, kept only if near: no branch to mispredict.
    for (; i < count; ++i) {
        near[found] = distances[i];
        if (weights) near_weights[found] = weights[i];
        found += distances[i] < limit;
    }
    return found;
}

template <int Lanes, int Rows>
constexpr NeighboursVersion neighbours_functions{distances_of_rows<Lanes, Rows>, sums_below<Lanes>,
                                                 gather_below<Lanes>};

} // namespace

namespace WOLFMEANS_UNIT {

extern constinit const NeighboursVersion neighbours_kernels =
    neighbours_functions<doubles_at_once, by_unit(1, 2, 4)>;

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
