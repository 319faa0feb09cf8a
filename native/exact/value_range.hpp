// The smallest and largest magnitudes in an array, in one pass and without temporaries.
#pragma once

#include <cstddef>

namespace wolfmeans {

struct ValueRange {
    bool finite;     // whether no value is NaN or infinite
    double smallest; // the smallest nonzero magnitude, 0 when there is none
    double largest;  // the largest magnitude; means nothing unless finite
};

// values IN (size,). The result does not depend on n_threads.
template <class Real>
ValueRange value_range(const Real* values, std::size_t size, int n_threads);

} // namespace wolfmeans
