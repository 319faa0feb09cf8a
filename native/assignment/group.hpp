// A group of points (scan.hpp), brought into the layout of the scan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/exact/scan.hpp"
#include "runtime/aligned.hpp"

namespace wolfmeans {

// points (d, group_size) OUT: the rows row_of(0..group_size-1), transposed, as float64.
template <class RowOf>
void transpose_group(std::size_t d, const RowOf& row_of, double* points) {
    decltype(row_of(0)) rows[group_size];
    for (std::size_t p = 0; p < group_size; ++p)
        rows[p] = row_of(p);
    for (std::size_t j = 0; j < d; ++j)
        for (std::size_t p = 0; p < group_size; ++p)
            points[j * group_size + p] = static_cast<double>(rows[p][j]);
}

// The state of a group before any center is scanned. If every distance overflows to +inf, label 0
// remains: the lowest index of that tie.
inline GroupState unscanned() {
    GroupState state;
    std::fill_n(state.nearest, group_size, std::numeric_limits<double>::infinity());
    std::fill_n(state.second, group_size, std::numeric_limits<double>::infinity());
    std::fill_n(state.label, group_size, 0);
    return state;
}

} // namespace wolfmeans
