// What goes into an assignment besides centers, and what comes out: the words that all ways of
// finding nearest centers share (points.hpp and its siblings).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact/exact_sum.hpp"

namespace wolfmeans {

// Rows that must take a given label, whatever their nearest center.
struct Forced {
    const std::int64_t* rows = nullptr;
    const std::int32_t* labels = nullptr;
    std::size_t count = 0;
};

// What an assignment did. The lists are empty for first labels, which change every row.
struct Change {
    std::vector<std::int64_t> rows; // the points whose label changed, in no order
    std::vector<std::int32_t> old;  // their labels before
    std::vector<std::int32_t> now;  // their labels since
    ExactSum gap;                   // sum of w (D_old - D_new) over them
    std::size_t opened = 0;         // points the bounds left open at first sight
    std::size_t screened = 0;       // points they left open once tightened
    std::size_t rechecked = 0;      // points the screen did not decide

    double rounded_gap() const { return rows.empty() ? 0.0 : gap.rounded(); }
};

} // namespace wolfmeans
