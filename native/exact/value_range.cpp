#include "exact/value_range.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/exact/deposit.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {

template <class Real>
ValueRange value_range(const Real* values, std::size_t size, int n_threads) {
    const std::size_t chunks = worthwhile_threads(size, static_cast<double>(size), n_threads);
    std::vector<Extent> extents(chunks);
    over_rows(size, chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        const auto many = static_cast<std::int64_t>(end - begin);
        if constexpr (sizeof(Real) == sizeof(float))
            extents[chunk] = best_kernels().deposit->sizes(values + begin, many);
        else
            extents[chunk] = best_kernels().deposit->of<Real>().extent(values + begin, many);
    });
    ValueRange range{true, std::numeric_limits<double>::infinity(), 0.0};
    for (const Extent& extent : extents) {
        range.finite = range.finite && extent.finite;
        range.smallest = std::min(range.smallest, extent.smallest);
        range.largest = std::max(range.largest, extent.largest);
    }
    if (range.largest == 0.0) range.smallest = 0.0;
    return range;
}

template ValueRange value_range(const float*, std::size_t, int);
template ValueRange value_range(const double*, std::size_t, int);

} // namespace wolfmeans
