// Rows are sorted column by column. In a range of rows that are still tied, the entries of the next
// column become integers in the same order; the upper 32 bits of what tells them apart are sorted
// by radix, and each group that is then still tied is a smaller range: with the lower bits of the
// same column to look at, or with the next column. With several threads, the rows first go to
// buckets by the highest bits of the first column, and threads take buckets.
#include "seeding/ordering.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/interrupts.hpp"
#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

using Row = std::uint32_t;

struct Entry {
    std::uint32_t key;
    Row row;
};

constexpr int digit_bits = 11;
constexpr std::size_t n_buckets = std::size_t{1} << digit_bits;
constexpr std::uint32_t digit_mask = n_buckets - 1;
// Below these sizes comparing is quicker than counting digits, and than making keys.
constexpr std::size_t few_keys = 256;
constexpr std::size_t few_rows = 12;

// Integers in the order of the numbers; both zeros give the same.
template <class Real>
auto ordered_bits(Real value) {
    using Bits = std::conditional_t<std::is_same_v<Real, float>, std::uint32_t, std::uint64_t>;
    constexpr Bits sign = Bits{1} << (std::numeric_limits<Bits>::digits - 1);
    const Bits bits = std::bit_cast<Bits>(value + Real{0}); // -0.0 + 0.0 is 0.0
    return bits & sign ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | sign);
}

template <class Real>
class LexicographicSort {
public:
    LexicographicSort(const Real* X, std::size_t d) : X_(X), d_(d) {}

    void sort(Row* rows, std::size_t n) {
        pending_.push_back({rows, n, 0});
        WorkCounter counter;
        while (!pending_.empty()) {
            const Range range = pending_.back();
            counter.add(static_cast<double>(range.n));
            pending_.pop_back();
            sort_tied(range.rows, range.n, range.column);
        }
    }

private:
    // Rows in ascending order of their numbers, tied in all columns before `column`.
    struct Range {
        Row* rows;
        std::size_t n;
        std::size_t column;
    };

    void sort_tied(Row* rows, std::size_t n, std::size_t column) {
        while (n > 1 && column < d_) {
            if (n <= few_rows) return sort_few(rows, n, column);
            auto smallest = bits(rows[0], column), largest = smallest;
            for (std::size_t i = 1; i < n; ++i) {
                const auto value = bits(rows[i], column);
                smallest = std::min(smallest, value);
                largest = std::max(largest, value);
            }
            if (smallest != largest) {
                const int width = static_cast<int>(std::bit_width(largest - smallest));
                const int shift = std::max(0, width - 32);
                return split(rows, n, column, smallest, shift, width - shift);
            }
            ++column;
        }
    }

    auto bits(Row row, std::size_t column) const {
        return ordered_bits(X_[static_cast<std::size_t>(row) * d_ + column]);
    }

    template <class Bits>
    void split(Row* rows, std::size_t n, std::size_t column, Bits smallest, int shift,
               int key_bits) {
        std::vector<Entry> entries(n);
        for (std::size_t i = 0; i < n; ++i)
            entries[i] = {static_cast<std::uint32_t>((bits(rows[i], column) - smallest) >> shift),
                          rows[i]};
        if (n <= few_keys)
            std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
                return a.key != b.key ? a.key < b.key : a.row < b.row;
            });
        else
            sort_by_digits(entries, key_bits);
        for (std::size_t i = 0; i < n; ++i)
            rows[i] = entries[i].row;
        for (std::size_t begin = 0, end; begin < n; begin = end) {
            for (end = begin + 1; end < n && entries[end].key == entries[begin].key;)
                ++end;
            if (end - begin > 1)
                pending_.push_back({rows + begin, end - begin, shift == 0 ? column + 1 : column});
        }
    }

    static void sort_by_digits(std::vector<Entry>& entries, int key_bits) {
        std::vector<Entry> other(entries.size());
        for (int place = 0; place < key_bits; place += digit_bits) {
            std::array<std::size_t, n_buckets> starts{};
            for (const Entry& entry : entries)
                ++starts[(entry.key >> place) & digit_mask];
            std::size_t sum = 0;
            for (std::size_t& start : starts)
                sum += std::exchange(start, sum);
            for (const Entry& entry : entries)
                other[starts[(entry.key >> place) & digit_mask]++] = entry;
            entries.swap(other);
        }
    }

    // Insertion, with whole rows compared: equal rows stay as they are.
    void sort_few(Row* rows, std::size_t n, std::size_t column) const {
        for (std::size_t i = 1; i < n; ++i) {
            const Row row = rows[i];
            std::size_t place = i;
            for (; place > 0 && before(row, rows[place - 1], column); --place)
                rows[place] = rows[place - 1];
            rows[place] = row;
        }
    }

    bool before(Row a, Row b, std::size_t column) const {
        const Real* const x = X_ + static_cast<std::size_t>(a) * d_;
        const Real* const y = X_ + static_cast<std::size_t>(b) * d_;
        for (std::size_t j = column; j < d_; ++j)
            if (x[j] != y[j]) return x[j] < y[j];
        return false;
    }

    const Real* X_;
    std::size_t d_;
    // Instead of recursion, which one-hot rows would take as deep as there are columns.
    std::vector<Range> pending_;
};

// Where the buckets of the first column begin in `rows`, which become the rows by bucket, in
// ascending order in each; no buckets if the column is constant.
template <class Real>
std::vector<std::size_t> rows_by_bucket(const Real* X, std::size_t n, std::size_t d,
                                        std::size_t chunks, std::vector<Row>& rows) {
    using Bits = decltype(ordered_bits(Real{}));
    const auto bits = [=](std::size_t row) { return ordered_bits(X[row * d]); };
    std::vector<Bits> least(chunks, std::numeric_limits<Bits>::max()), most(chunks, 0);
    over_rows(n, chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        Bits low = least[chunk], high = 0;
        for (std::size_t i = begin; i < end; ++i) {
            low = std::min(low, bits(i));
            high = std::max(high, bits(i));
        }
        least[chunk] = low;
        most[chunk] = high;
    });
    const Bits low = *std::min_element(least.begin(), least.end());
    const Bits high = *std::max_element(most.begin(), most.end());
    if (low == high) return {};
    const int shift = std::max(0, static_cast<int>(std::bit_width(high - low)) - digit_bits);
    const auto bucket_of = [&](std::size_t row) {
        return static_cast<std::size_t>((bits(row) - low) >> shift);
    };
    std::vector<std::size_t> places(chunks * n_buckets);
    over_rows(n, chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        std::size_t* const counts = places.data() + chunk * n_buckets;
        for (std::size_t i = begin; i < end; ++i)
            ++counts[bucket_of(i)];
    });
    std::vector<std::size_t> starts;
    std::size_t sum = 0;
    for (std::size_t bucket = 0; bucket < n_buckets; ++bucket) {
        starts.push_back(sum);
        for (std::size_t chunk = 0; chunk < chunks; ++chunk)
            sum += std::exchange(places[chunk * n_buckets + bucket], sum);
    }
    starts.push_back(n);
    over_rows(n, chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        std::size_t* const place = places.data() + chunk * n_buckets;
        for (std::size_t i = begin; i < end; ++i)
            rows[place[bucket_of(i)]++] = static_cast<Row>(i);
    });
    return starts;
}

} // namespace

template <class Real>
void lexicographic_order(const Real* X, std::size_t n, std::size_t d, int n_threads,
                         std::int64_t* order) {
    std::vector<Row> rows(n);
    // Counted in coordinate operations: a row is looked at some times, at scattered places.
    const std::size_t chunks = worthwhile_threads(n, 32.0 * static_cast<double>(n), n_threads);
    std::vector<std::size_t> starts;
    if (chunks > 1 && d > 0) starts = rows_by_bucket(X, n, d, chunks, rows);
    if (starts.empty()) {
        for (std::size_t i = 0; i < n; ++i)
            rows[i] = static_cast<Row>(i);
        LexicographicSort<Real>(X, d).sort(rows.data(), n);
    } else {
        over_blocks(n_buckets, chunks, 16, [&](std::size_t, std::size_t begin, std::size_t end) {
            LexicographicSort<Real> sort(X, d);
            for (std::size_t bucket = begin; bucket < end; ++bucket)
                sort.sort(rows.data() + starts[bucket], starts[bucket + 1] - starts[bucket]);
        });
    }
    std::copy(rows.begin(), rows.end(), order);
}

template void lexicographic_order(const float*, std::size_t, std::size_t, int, std::int64_t*);
template void lexicographic_order(const double*, std::size_t, std::size_t, int, std::int64_t*);

} // namespace wolfmeans
