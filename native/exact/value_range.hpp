// The smallest and largest magnitudes in an array, in one pass and without temporaries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/exact/deposit.hpp"
#include "runtime/threads.hpp"

namespace wolfmeans {

// The extent of an array by a kernel, in chunks over threads.
template <class Real>
Extent extent_of(const Real* values, std::size_t size, int n_threads,
                 Extent (*kernel)(const Real*, std::int64_t)) {
    const std::size_t chunks = worthwhile_threads(size, static_cast<double>(size), n_threads);
    std::vector<Extent> extents(chunks);
    over_rows(size, chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        extents[chunk] = kernel(values + begin, static_cast<std::int64_t>(end - begin));
    });
    Extent all = extents.front();
    for (const Extent& extent : extents) {
        all.largest = std::max(all.largest, extent.largest);
        all.smallest = std::min(all.smallest, extent.smallest);
        all.lowest_bit = std::min(all.lowest_bit, extent.lowest_bit);
        all.finite = all.finite && extent.finite;
    }
    return all;
}

struct ValueRange {
    bool finite;     // whether no value is NaN or infinite
    double smallest; // the smallest nonzero magnitude, 0 when there is none
    double largest;  // the largest magnitude; means nothing unless finite
};

// values IN (size,). The result does not depend on n_threads.
template <class Real>
ValueRange value_range(const Real* values, std::size_t size, int n_threads);

} // namespace wolfmeans
