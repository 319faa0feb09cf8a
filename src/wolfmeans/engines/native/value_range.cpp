#include "value_range.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "threads.hpp"

namespace wolfmeans {
namespace {

constexpr std::size_t lanes = 16;

// Magnitudes are compared as integers: without the sign bit floats are ordered like their bits.
// Subtracting 1 sends zero to the far end, so that the smallest of the rest is the smallest
// nonzero.
template <class Bits>
struct Extremes {
    Bits smallest_less_one = std::numeric_limits<Bits>::max();
    Bits largest = 0;

    void merge(const Extremes& other) {
        smallest_less_one = std::min(smallest_less_one, other.smallest_less_one);
        largest = std::max(largest, other.largest);
    }
};

template <class Bits, class Real>
Extremes<Bits> extremes_of(const Real* values, std::size_t size) {
    constexpr Bits magnitude = std::numeric_limits<Bits>::max() >> 1;
    Bits low[lanes], high[lanes], bits[lanes];
    std::fill_n(low, lanes, std::numeric_limits<Bits>::max());
    std::fill_n(high, lanes, Bits{0});
    std::size_t i = 0;
    for (; i + lanes <= size; i += lanes) {
        std::memcpy(bits, values + i, sizeof(bits));
        for (std::size_t l = 0; l < lanes; ++l) {
            const Bits value = bits[l] & magnitude;
            const Bits less_one = value - 1;
            low[l] = less_one < low[l] ? less_one : low[l];
            high[l] = value > high[l] ? value : high[l];
        }
    }
    Extremes<Bits> result;
    for (std::size_t l = 0; l < lanes; ++l)
        result.merge({low[l], high[l]});
    for (; i < size; ++i) {
        const Bits value = std::bit_cast<Bits>(values[i]) & magnitude;
        result.merge({value - 1, value});
    }
    return result;
}

} // namespace

template <class Real>
ValueRange value_range(const Real* values, std::size_t size, int n_threads) {
    using Bits = std::conditional_t<std::is_same_v<Real, float>, std::uint32_t, std::uint64_t>;
    const std::size_t chunks = worthwhile_threads(size, static_cast<double>(size), n_threads);
    std::vector<Extremes<Bits>> parts(chunks);
    over_rows(size, chunks, lanes, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        parts[chunk] = extremes_of<Bits>(values + begin, end - begin);
    });
    Extremes<Bits> all;
    for (const auto& part : parts)
        all.merge(part);
    const Bits smallest = all.smallest_less_one == std::numeric_limits<Bits>::max()
                              ? Bits{0}
                              : static_cast<Bits>(all.smallest_less_one + 1);
    return {all.largest < std::bit_cast<Bits>(std::numeric_limits<Real>::infinity()),
            static_cast<double>(std::bit_cast<Real>(smallest)),
            static_cast<double>(std::bit_cast<Real>(all.largest))};
}

template ValueRange value_range(const float*, std::size_t, int);
template ValueRange value_range(const double*, std::size_t, int);

} // namespace wolfmeans
