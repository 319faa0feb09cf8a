#include "exact/value_range.hpp"

#include "runtime/vector_unit.hpp"

namespace wolfmeans {

template <class Real>
ValueRange value_range(const Real* values, std::size_t size, int n_threads) {
    Extent extent;
    if constexpr (sizeof(Real) == sizeof(float))
        extent = extent_of(values, size, n_threads, best_kernels().deposit->sizes);
    else
        extent = extent_of(values, size, n_threads, best_kernels().deposit->of<Real>().extent);
    return {extent.finite, extent.largest == 0.0 ? 0.0 : extent.smallest, extent.largest};
}

template ValueRange value_range(const float*, std::size_t, int);
template ValueRange value_range(const double*, std::size_t, int);

} // namespace wolfmeans
