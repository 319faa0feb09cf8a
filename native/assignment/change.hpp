// Input of an assignment besides the centers, and its result: shared by all classes that find
// nearest centers (points.hpp, boxes.hpp, sparse_points.hpp).
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
    std::size_t screened = 0;       // points that the bounds did not decide
    std::size_t compared = 0;       // pairs of such a point and a bound's groups of centers
    std::size_t rechecked = 0;      // points that the screen did not decide

    void record(std::size_t row, std::int32_t before, std::int32_t after) {
        rows.push_back(static_cast<std::int64_t>(row));
        old.push_back(before);
        now.push_back(after);
    }

    void append(const Change& part) {
        rows.insert(rows.end(), part.rows.begin(), part.rows.end());
        old.insert(old.end(), part.old.begin(), part.old.end());
        now.insert(now.end(), part.now.begin(), part.now.end());
        if (!part.rows.empty()) gap.merge(part.gap);
        screened += part.screened;
        compared += part.compared;
        rechecked += part.rechecked;
    }

    // Empty again; the lists keep their memory.
    void clear() {
        if (!rows.empty()) gap.clear();
        rows.clear();
        old.clear();
        now.clear();
        screened = compared = rechecked = 0;
    }

    double rounded_gap() const { return rows.empty() ? 0.0 : gap.rounded(); }
};

} // namespace wolfmeans
