#include "exact/cluster_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "runtime/aligned.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

// Limbs stay below 2^62: carried ones are at most 2^(bits - 1), and a term adds at most 2^bits.
constexpr int limb_room = 61;
constexpr int most_fast_bits = 46;
constexpr int plain_bits = 32;
// Beyond these exponents a magic constant or a scaled weight might leave float64.
constexpr int most_fast_exponent = 700;

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

template <class Real>
ExponentRange checked_range(const Real* values, std::size_t n, int n_threads,
                            const ExponentRange* given) {
    const ExponentRange own = exponent_range(values, n, n_threads);
    if (given == nullptr) return own;
    if (!given->covers(own)) throw std::invalid_argument("numbers outside of the given range");
    return *given;
}

// Rows of up to so many columns are added in their order; longer ones are first sorted by label.
constexpr std::size_t narrow_columns = 24;
static_assert(narrow_columns <= most_narrow);
// Rows sorted by label at a time. Moved rows are read twice, once for each cluster: first from
// memory, then from a cache.
constexpr std::size_t block_bytes = std::size_t{1} << 21;

// For the vector kernels (see deposit.hpp): as few limbs as 46 bits allow, then as few bits as
// these limbs allow. The sign takes one bit.
Grid fast_grid(ExponentRange range) {
    const int span = range.high - range.low + 1;
    const int limbs = (span + most_fast_bits - 1) / most_fast_bits;
    const int bits = std::max(8, (span + limbs - 1) / limbs);
    return {range.low, bits, limbs, std::size_t{1} << (limb_room - bits)};
}

// For terms taken apart digit by digit, two of which may meet in a limb.
Grid plain_grid(ExponentRange range) {
    return {range.low, plain_bits, (range.high - range.low) / plain_bits + 1,
            std::size_t{1} << (limb_room - plain_bits - 1)};
}

// value == (-1)^negative * mantissa * 2^exponent, the mantissa odd, or 0.
struct Decomposed {
    Word mantissa;
    int exponent;
    bool negative;
};

Decomposed decompose(double value) {
    const Word bits = std::bit_cast<Word>(value);
    const int field = static_cast<int>((bits >> 52) & 0x7ff);
    const Word mantissa = (bits & 0x000fffffffffffff) | (Word{field != 0} << 52);
    const int zeros = mantissa == 0 ? 0 : std::countr_zero(mantissa);
    return {mantissa >> zeros, std::max(field, 1) - 1075 + zeros, (bits >> 63) != 0};
}

// Add (-1)^negative * number * 2^place to limbs of 32 bits that stand stride apart.
void deposit_digits(TwoWords number, int place, bool negative, std::int64_t* limbs,
                    std::size_t stride) {
    constexpr Word mask = 0xffffffff;
    const int offset = place % plain_bits;
    std::int64_t* limb = limbs + static_cast<std::size_t>(place / plain_bits) * stride;
    const auto put = [&](std::int64_t* to, Word digit) {
        const auto size = static_cast<std::int64_t>(digit);
        if (digit != 0) *to += negative ? -size : size;
    };
    for (; number.low != 0 || number.high != 0; limb += stride) {
        const Word shifted = (number.low & mask) << offset;
        put(limb, shifted & mask);
        put(limb + stride, shifted >> plain_bits);
        number.low = (number.low >> plain_bits) | (number.high << plain_bits);
        number.high >>= plain_bits;
    }
}

} // namespace

template <class Real>
ValueRange value_range(const Real* values, std::size_t size, int n_threads) {
    Extent extent;
    if constexpr (sizeof(Real) == sizeof(float))
        extent = extent_of(values, size, n_threads, best_kernels().deposit->sizes);
    else
        extent = extent_of(values, size, n_threads, best_kernels().deposit->of<Real>().extent);
    return {extent.finite, extent.largest == 0.0 ? 0.0 : extent.smallest, extent.largest};
}

template <class Real>
ExponentRange exponent_range(const Real* values, std::size_t n, int n_threads) {
    const Extent all = extent_of(values, n, n_threads, best_kernels().deposit->of<Real>().extent);
    if (!all.finite) throw std::invalid_argument("exact sums need finite numbers");
    if (all.largest == 0.0) return {};
    return {std::ilogb(all.lowest_bit), std::ilogb(all.largest) + 1};
}

template <class Real>
ClusterSums<Real>::ClusterSums(const Real* X, std::size_t n, std::size_t d, const double* weights,
                               int n_threads, const SumRanges* given) {
    const ExponentRange x = checked_range(X, n * d, n_threads, given ? &given->rows : nullptr);
    ExponentRange terms = x;
    if (weights != nullptr) {
        const ExponentRange w =
            checked_range(weights, n, n_threads, given ? &given->weights : nullptr);
        terms = {x.low + w.low, x.high + w.high};
    }
    grid_ = fast_grid(terms);
    const bool fast = grid_.limbs <= most_fast_limbs && std::abs(x.high) <= most_fast_exponent &&
                      std::abs(terms.high) <= most_fast_exponent;
    if (!fast) grid_ = plain_grid(terms);
    rows_.X = X;
    rows_.n = static_cast<std::int64_t>(n);
    rows_.d = static_cast<std::int64_t>(d);
    rows_.weights = weights;
    rows_.stride = static_cast<std::int64_t>(grid_.all_limbs() * d);
    if (fast) use_fast_kernels(terms.high);
}

// Terms are less than 2^top; with weights they are scaled to be less than 1.
template <class Real>
void ClusterSums<Real>::use_fast_kernels(int top) {
    const bool weighted = rows_.weights != nullptr;
    const int scale = weighted ? -top : 0;
    rows_.weight_scale = std::ldexp(1.0, scale);
    rows_.limbs = grid_.limbs;
    for (int l = 0; l < grid_.limbs; ++l)
        rows_.magic[l] =
            std::ldexp(1.5, 52 + scale + grid_.low + (grid_.limbs - 1 - l) * grid_.bits);
    fast_ = &best_kernels().deposit->of<Real>();
}

template <class Real>
bool ClusterSums<Real>::narrow() const {
    return rows_.d > 0 && static_cast<std::size_t>(rows_.d) <= narrow_columns;
}

template <class Real>
void ClusterSums<Real>::add(const std::int32_t* labels, std::size_t begin, std::size_t end,
                            const std::vector<std::int64_t>& gained, std::int64_t* sums) const {
    if (fast_ == nullptr) {
        for (std::size_t i = begin; i < end; ++i)
            deposit(i, labels[i], false, sums);
        return;
    }
    const std::size_t K = gained.size();
    if (narrow() && end - begin >= K) {
        with_raw_sums(gained, sums, [&](const DepositsByLimbs<Real>& functions, std::int64_t* raw) {
            functions.add_narrow[grid_.limbs - 1](rows_, labels, static_cast<std::int64_t>(begin),
                                                  static_cast<std::int64_t>(end), raw);
        });
        return;
    }
    std::vector<std::int64_t> rows;
    for (; begin < end; begin += rows.size()) {
        rows.resize(std::min(end - begin, rows_per_block(K)));
        std::iota(rows.begin(), rows.end(), static_cast<std::int64_t>(begin));
        add_runs(rows.data(), labels + begin, rows.size(), K, false, sums);
    }
}

// As many as fit a cache, but at least some for each cluster.
template <class Real>
std::size_t ClusterSums<Real>::rows_per_block(std::size_t K) const {
    const std::size_t row_bytes = std::max<std::size_t>(1, rows_.d) * sizeof(Real);
    return std::max(block_bytes / row_bytes, 2 * run_group * K);
}

template <class Real>
void ClusterSums<Real>::move(const std::int64_t* rows, const std::int32_t* from,
                             const std::int32_t* to, std::size_t begin, std::size_t end,
                             const std::vector<std::int64_t>& gained, std::int64_t* sums) const {
    if (fast_ == nullptr) {
        for (std::size_t i = begin; i < end; ++i) {
            deposit(static_cast<std::size_t>(rows[i]), from[i], true, sums);
            deposit(static_cast<std::size_t>(rows[i]), to[i], false, sums);
        }
        return;
    }
    const std::size_t K = gained.size(), count = end - begin;
    const auto move_by = [&](MoveRows<Real>* function, std::int64_t* place) {
        function(rows_, rows, from, to, static_cast<std::int64_t>(begin),
                 static_cast<std::int64_t>(end), place);
    };
    if (narrow() && count >= K) {
        with_raw_sums(gained, sums, [&](const DepositsByLimbs<Real>& functions, std::int64_t* raw) {
            move_by(functions.move_narrow[grid_.limbs - 1], raw);
        });
    } else if (narrow() || count < 4 * K) {
        move_by(fast_->by_limbs[rows_.weights != nullptr].move[grid_.limbs - 1], sums);
    } else {
        const std::size_t block = rows_per_block(K);
        for (std::size_t part; begin < end; begin += part) {
            part = std::min(end - begin, block);
            add_runs(rows + begin, from + begin, part, K, true, sums);
            add_runs(rows + begin, to + begin, part, K, false, sums);
        }
    }
}

// Let deposit(functions, raw) add to raw sums in the layout of narrow rows (deposit.hpp), and add
// these to sums. Magic is subtracted as often as it was added, modulo 2^64.
template <class Real>
template <class Deposit>
void ClusterSums<Real>::with_raw_sums(const std::vector<std::int64_t>& gained, std::int64_t* sums,
                                      const Deposit& deposit) const {
    const bool weighted = rows_.weights != nullptr;
    const auto d = static_cast<std::size_t>(rows_.d);
    const auto limbs = static_cast<std::size_t>(grid_.limbs);
    const auto width = static_cast<std::size_t>(fast_->narrow_width(rows_.d));
    Aligned<std::int64_t> raw(gained.size() * limbs * width);
    deposit(fast_->by_limbs[weighted], raw.data());
    for (std::size_t k = 0; k < gained.size(); ++k) {
        for (std::size_t l = 0; l < limbs; ++l) {
            const auto times = static_cast<Word>(gained[k]) * (weighted && l > 0 ? 2 : 1);
            const Word magic = times * std::bit_cast<Word>(rows_.magic[l]);
            const std::int64_t* const from = raw.data() + (k * limbs + l) * width;
            std::int64_t* const to =
                sums + k * static_cast<std::size_t>(rows_.stride) + (limbs - 1 - l) * d;
            for (std::size_t j = 0; j < d; ++j)
                to[j] += static_cast<std::int64_t>(static_cast<Word>(from[j]) - magic);
        }
    }
}

// Add `count` rows to the clusters of their labels, or take them away: one cluster after the other.
template <class Real>
void ClusterSums<Real>::add_runs(const std::int64_t* rows, const std::int32_t* labels,
                                 std::size_t count, std::size_t K, bool negative,
                                 std::int64_t* sums) const {
    AddRun<Real>* const add_run =
        fast_->by_limbs[rows_.weights != nullptr].add_run[grid_.limbs - 1];
    std::vector<std::size_t> ends(K + 1);
    for (std::size_t i = 0; i < count; ++i)
        ++ends[static_cast<std::size_t>(labels[i]) + 1];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    std::vector<std::int64_t> sorted(count + run_group, rows[0]);
    for (std::size_t i = 0; i < count; ++i)
        sorted[ends[static_cast<std::size_t>(labels[i])]++] = rows[i];
    std::size_t begin = 0;
    for (std::size_t k = 0; k < K; ++k) {
        if (ends[k] > begin)
            add_run(rows_, sorted.data() + begin, sorted.data() + begin + run_group,
                    static_cast<std::int64_t>(ends[k] - begin), negative,
                    sums + k * static_cast<std::size_t>(rows_.stride));
        begin = ends[k];
    }
}

// The general path: integers throughout.
template <class Real>
void ClusterSums<Real>::deposit(std::size_t row, std::int32_t k, bool negative,
                                std::int64_t* sums) const {
    const Decomposed weight = decompose(rows_.weights == nullptr ? 1.0 : rows_.weights[row]);
    const auto d = static_cast<std::size_t>(rows_.d);
    std::int64_t* const cluster = sums + k * rows_.stride;
    for (std::size_t j = 0; j < d; ++j) {
        const Decomposed x = decompose(static_cast<double>(rows_.X[row * d + j]));
        if (x.mantissa == 0 || weight.mantissa == 0) continue;
        deposit_digits(product(weight.mantissa, x.mantissa),
                       weight.exponent + x.exponent - grid_.low,
                       (negative != weight.negative) != x.negative, cluster + j, d);
    }
}

Grid counting_grid() {
    return plain_grid({0, 1});
}

void carry(const Grid& grid, std::size_t K, std::size_t d, std::int64_t* sums) {
    const std::int64_t half = std::int64_t{1} << (grid.bits - 1);
    for (std::size_t k = 0; k < K; ++k) {
        for (std::size_t l = 0; l + 1 < grid.all_limbs(); ++l) {
            std::int64_t* const limb = sums + (k * grid.all_limbs() + l) * d;
            for (std::size_t j = 0; j < d; ++j) {
                const std::int64_t over = (limb[j] + half) >> grid.bits;
                limb[j] -= over << grid.bits;
                limb[d + j] += over;
            }
        }
    }
}

template ValueRange value_range(const float*, std::size_t, int);
template ValueRange value_range(const double*, std::size_t, int);
template ExponentRange exponent_range(const float*, std::size_t, int);
template ExponentRange exponent_range(const double*, std::size_t, int);
template class ClusterSums<float>;
template class ClusterSums<double>;

} // namespace wolfmeans
