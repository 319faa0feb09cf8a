// The vicinity. Arguments and rounding: see vicinity.hpp. A lane is a point and never mixes with
// another.
#include "kernels/exact/vicinity.hpp"
#include "kernels/exact/exact_lanes.hpp"

namespace wolfmeans {
namespace {

// `Centers` of them at once, so that sums are independent.
template <int Lanes, int Centers>
WOLFMEANS_INLINE void add_centers(const double* points, const double* const* center,
                                  const double* factors, long long d, double* least) {
    constexpr int vectors = group_size / Lanes;
    Doubles<Lanes> distance[Centers][vectors];
    for (int k = 0; k < Centers; ++k)
        for (int v = 0; v < vectors; ++v)
            distance[k][v] = Doubles<Lanes>{};
    for (long long j = 0; j < d; ++j) {
        for (int v = 0; v < vectors; ++v) {
            const Doubles<Lanes> x = load<Doubles<Lanes>>(points + j * group_size + v * Lanes);
            for (int k = 0; k < Centers; ++k) {
                const Doubles<Lanes> difference = x - center[k][j];
                distance[k][v] = distance[k][v] + difference * difference;
            }
        }
    }
    for (int v = 0; v < vectors; ++v) {
        Doubles<Lanes> smallest = load<Doubles<Lanes>>(least + v * Lanes);
        for (int k = 0; k < Centers; ++k) {
            const Doubles<Lanes> product = distance[k][v] * factors[k];
            smallest = product < smallest ? product : smallest;
        }
        store(least + v * Lanes, smallest);
    }
}

template <int Lanes, int Centers>
void vicinity(const double* points, const double* centers, long long d, const int* list,
              const double* factors, long long count, double* least) {
    for (int p = 0; p < group_size; ++p)
        least[p] = __builtin_huge_val();
    const double* center[Centers];
    long long i = 0;
    for (; i + Centers <= count; i += Centers) {
        for (int k = 0; k < Centers; ++k)
            center[k] = centers + list[i + k] * d;
        add_centers<Lanes, Centers>(points, center, factors + i, d, least);
    }
    for (; i < count; ++i) {
        center[0] = centers + list[i] * d;
        add_centers<Lanes, 1>(points, center, factors + i, d, least);
    }
}

} // namespace

namespace WOLFMEANS_UNIT {

extern constinit const VicinityVersion vicinity_kernels{vicinity<doubles_at_once, doubles_at_once>};

} // namespace WOLFMEANS_UNIT
} // namespace wolfmeans
