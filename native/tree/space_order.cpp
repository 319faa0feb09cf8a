#include "tree/space_order.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <utility>

namespace wolfmeans {
namespace {

constexpr int digit_bits = 11; // of the radix sort
constexpr int most_axis_bits = 16;
constexpr std::size_t few = 1024; // below this a comparison sort is faster

// The key in the upper, the row in the lower half.
using Entry = std::uint64_t;

std::uint32_t row_of(Entry entry) {
    return static_cast<std::uint32_t>(entry);
}

// From coordinates to keys: which cell of each axis, and where its bits go.
class Quantiser {
public:
    // low, extent IN (d,): the box of the points.
    Quantiser(const std::vector<double>& low, std::vector<double> extent, int bits)
        : low_(low), scale_(extent.size(), 0.0), tables_(extent.size()) {
        std::vector<std::vector<int>> places(extent.size());
        const std::vector<double> whole = extent;
        for (key_bits = 0; key_bits < bits; ++key_bits) {
            std::size_t widest = extent.size();
            for (std::size_t j = 0; j < extent.size(); ++j)
                if (extent[j] > 0x1p-900 && places[j].size() < most_axis_bits &&
                    (widest == extent.size() || extent[j] > extent[widest]))
                    widest = j;
            if (widest == extent.size()) break;
            extent[widest] *= 0.5;
            places[widest].push_back(key_bits);
        }
        for (std::size_t j = 0; j < places.size(); ++j) {
            const auto count = static_cast<int>(places[j].size());
            if (count == 0) continue;
            // A little less than all cells, so that the largest coordinate stays in the last.
            scale_[j] = static_cast<double>((1 << count) - 1e-3) / whole[j];
            for (int bit = 0; bit < count; ++bit) {
                // The first place is that of the axis' and the key's highest bit.
                const int from = count - 1 - bit, to = key_bits - 1 - places[j][bit];
                auto& table = tables_[j][static_cast<std::size_t>(from / 8)];
                for (std::uint32_t q = 0; q < 256; ++q)
                    table[q] |= (q >> (from % 8) & 1u) << to;
            }
        }
    }

    template <class Real>
    Entry key(const Real* x) const {
        std::uint32_t key = 0;
        for (std::size_t j = 0; j < low_.size(); ++j) {
            const auto q = static_cast<std::uint32_t>(
                static_cast<std::int32_t>((static_cast<double>(x[j]) - low_[j]) * scale_[j]));
            key |= tables_[j][0][q & 255] | tables_[j][1][q >> 8 & 255];
        }
        return Entry{key} << 32;
    }

    int key_bits = 0;

private:
    std::vector<double> low_, scale_;
    std::vector<std::array<std::array<std::uint32_t, 256>, 2>> tables_;
};

// Sort entries by the lowest `bits` bits of their keys.
void radix_sort(Entry* entries, Entry* spare, std::size_t n, int bits) {
    constexpr std::size_t buckets = std::size_t{1} << digit_bits;
    const int passes = (bits + digit_bits - 1) / digit_bits;
    std::vector<std::array<std::uint32_t, buckets>> counts(static_cast<std::size_t>(passes));
    for (std::size_t i = 0; i < n; ++i)
        for (int pass = 0; pass < passes; ++pass)
            ++counts[pass][entries[i] >> (32 + pass * digit_bits) & (buckets - 1)];
    Entry *from = entries, *to = spare;
    for (int pass = 0; pass < passes; ++pass) {
        std::uint32_t place = 0;
        for (std::uint32_t& count : counts[pass])
            place += std::exchange(count, place);
        for (std::size_t i = 0; i < n; ++i)
            to[counts[pass][from[i] >> (32 + pass * digit_bits) & (buckets - 1)]++] = from[i];
        std::swap(from, to);
    }
    if (from != entries) std::copy_n(from, n, entries);
}

template <class Real>
class Builder {
public:
    Builder(const Real* X, std::size_t n, std::size_t d, const std::vector<std::size_t>& capacities)
        : X_(X), d_(d), capacities_(capacities),
          entries_(std::make_unique_for_overwrite<Entry[]>(n)),
          spare_(std::make_unique_for_overwrite<Entry[]>(n)) {
        order.starts.resize(capacities.size());
        for (std::size_t i = 0; i < n; ++i)
            entries_[i] = i;
        cut(0, n, 0, capacities.size());
        for (std::size_t level = capacities.size(); level-- > 1;)
            order.starts[level].push_back(
                static_cast<std::uint32_t>(order.starts[level - 1].size()));
        order.starts[0].push_back(static_cast<std::uint32_t>(n));
        spare_.reset();
        order.rows.resize(n);
        for (std::size_t i = 0; i < n; ++i)
            order.rows[i] = row_of(entries_[i]);
    }

    SpaceOrder order;

private:
    // Cut a cell, whose keys agree in all but the lowest `bits` bits, until it fits a leaf;
    // `levels` many are still too small for it.
    void cut(std::size_t begin, std::size_t end, int bits, std::size_t levels) {
        for (; levels > 0 && end - begin <= capacities_[levels - 1]; --levels)
            order.starts[levels - 1].push_back(
                static_cast<std::uint32_t>(levels == 1 ? begin : order.starts[levels - 2].size()));
        if (levels == 0) return;
        std::size_t middle = begin;
        while (middle == begin || middle == end) {
            if (bits == 0) bits = sort(begin, end);
            if (bits == 0) { // copies of one point
                middle = begin + (end - begin) / 2;
                break;
            }
            --bits;
            const Entry bit = Entry{1} << (32 + bits);
            middle = static_cast<std::size_t>(
                std::partition_point(entries_.get() + begin, entries_.get() + end,
                                     [bit](Entry entry) { return !(entry & bit); }) -
                entries_.get());
        }
        cut(begin, middle, bits, levels);
        cut(middle, end, bits, levels);
    }

    // Give the cell keys from its own box and sort it by them; returns their number of bits.
    int sort(std::size_t begin, std::size_t end) {
        std::vector<double> low(d_), extent(d_);
        std::vector<Real> least(d_), most(d_);
        const Real* first = X_ + row_of(entries_[begin]) * d_;
        least.assign(first, first + d_);
        most = least;
        for (std::size_t i = begin; i < end; ++i) {
            const Real* x = X_ + row_of(entries_[i]) * d_;
            for (std::size_t j = 0; j < d_; ++j) {
                least[j] = std::min(least[j], x[j]);
                most[j] = std::max(most[j], x[j]);
            }
        }
        for (std::size_t j = 0; j < d_; ++j) {
            low[j] = static_cast<double>(least[j]);
            extent[j] = static_cast<double>(most[j]) - low[j];
        }
        // Enough cells that a leaf spans many, in whole digits.
        const int wanted = std::bit_width(end - begin) + 5;
        const int bits = std::min(32, (wanted + digit_bits - 1) / digit_bits * digit_bits);
        const Quantiser quantiser(low, extent, bits);
        for (std::size_t i = begin; i < end; ++i) {
            const std::uint32_t row = row_of(entries_[i]);
            entries_[i] = quantiser.key(X_ + row * d_) | row;
        }
        if (end - begin < few)
            std::sort(entries_.get() + begin, entries_.get() + end);
        else
            radix_sort(entries_.get() + begin, spare_.get() + begin, end - begin,
                       quantiser.key_bits);
        return quantiser.key_bits;
    }

    const Real* X_;
    std::size_t d_;
    const std::vector<std::size_t>& capacities_;
    std::unique_ptr<Entry[]> entries_, spare_;
};

} // namespace

template <class Real>
SpaceOrder order_in_space(const Real* X, std::size_t n, std::size_t d,
                          const std::vector<std::size_t>& capacities) {
    return std::move(Builder<Real>(X, n, d, capacities).order);
}

template SpaceOrder order_in_space(const float*, std::size_t, std::size_t,
                                   const std::vector<std::size_t>&);
template SpaceOrder order_in_space(const double*, std::size_t, std::size_t,
                                   const std::vector<std::size_t>&);

} // namespace wolfmeans
