#include "seeding/value_masses.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exact/exact_ratio.hpp"

namespace wolfmeans {
namespace {

constexpr int integer_bits = 62;

// share * total / (2^63 - 1), rounded down, for 0 <= share < 2^63 - 1 and 0 <= total < 2^62.
std::int64_t part_of(std::int64_t share, std::int64_t total) {
    const TwoWords p = product(static_cast<Word>(share), static_cast<Word>(total));
    // p = a 2^63 + b = a (2^63 - 1) + (a + b).
    const Word a = (p.high << 1) | (p.low >> 63);
    const Word b = p.low & ~(Word{1} << 63);
    return static_cast<std::int64_t>(a + (a + b) / ((Word{1} << 63) - 1));
}

int bit_length(std::size_t n) {
    return static_cast<int>(std::bit_width(n));
}

// Blocks of about sqrt(n) / 2: a draw scans the sums of the blocks, then the rows of one.
int block_bits_for(std::size_t n) {
    return std::max(4, (bit_length(n) - 1) / 2);
}

} // namespace

std::size_t draw_by_weight(const double* weights, const std::int64_t* order, std::size_t n,
                           std::int64_t share) {
    const double largest = weights ? *std::max_element(weights, weights + n) : 1.0;
    int exponent;
    std::frexp(largest, &exponent);
    const int shift = integer_bits - bit_length(n) - exponent;
    const auto integer = [&](std::size_t row) {
        return static_cast<std::int64_t>(std::ldexp(weights[row], shift));
    };
    if (!weights) {
        const std::int64_t each = std::int64_t{1} << shift;
        const std::int64_t pick = part_of(share, each * static_cast<std::int64_t>(n));
        return static_cast<std::size_t>(order[pick / each]);
    }
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < n; ++i)
        sum += integer(i);
    std::int64_t left = part_of(share, sum);
    std::size_t i = 0;
    for (; i + 1 < n; ++i) {
        const std::int64_t own = integer(static_cast<std::size_t>(order[i]));
        if (left < own) break;
        left -= own;
    }
    return static_cast<std::size_t>(order[i]);
}

ValueMasses::ValueMasses(const double* closest, const double* weights, const std::int64_t* order,
                         std::size_t n)
    : closest_(closest), weights_(weights), order_(order), n_(n), block_bits_(block_bits_for(n)),
      place_(n), sums_((n >> block_bits_) + 1) {
    for (std::size_t i = 0; i < n; ++i)
        place_[static_cast<std::size_t>(order[i])] = static_cast<std::uint32_t>(i);
    rescale();
}

void ValueMasses::apply(std::vector<Changes>& changes) {
    // Before the scale changes: the changes are counted in the old one.
    for (Changes& part : changes) {
        for (std::size_t i = 0; i < sums_.size(); ++i)
            sums_[i] += std::exchange(part.sums_[i], 0);
        with_largest_ -= std::exchange(part.left_, 0);
    }
    sum_ = 0;
    for (const std::int64_t sum : sums_)
        sum_ += sum;
    if (with_largest_ == 0) rescale();
}

// The scale follows the largest mass. It changes rarely: the largest mass halves in between.
void ValueMasses::rescale() {
    double most = 0.0;
    for (std::size_t i = 0; i < n_; ++i)
        most = std::max(most, mass(i, closest_[i]));
    largest_ = exponent_place(most);
    if (largest_ == 0) return;
    const int exponent = static_cast<int>(largest_) - 1074; // as frexp has it
    shift_ = integer_bits - bit_length(n_) - exponent;
    std::fill(sums_.begin(), sums_.end(), 0);
    with_largest_ = 0;
    for (std::size_t i = 0; i < n_; ++i) {
        const double own = mass(i, closest_[i]);
        sums_[block_of(i)] += integer(own);
        with_largest_ += exponent_place(own) == largest_;
    }
    sum_ = 0;
    for (const std::int64_t sum : sums_)
        sum_ += sum;
}

std::size_t ValueMasses::draw(std::int64_t share) const {
    std::int64_t left = part_of(share, sum_);
    std::size_t block = 0;
    for (; left >= sums_[block]; ++block)
        left -= sums_[block];
    for (std::size_t i = block << block_bits_;; ++i) {
        const auto row = static_cast<std::size_t>(order_[i]);
        const std::int64_t integer_mass = integer(mass(row, closest_[row]));
        // The second test holds only if the order is no permutation.
        if (left < integer_mass || i + 1 == n_) return row;
        left -= integer_mass;
    }
}

double ValueMasses::total() const {
    // Rounding down took less than 1 from each, rounding here less than 2^-50 of the sum.
    const double integers = static_cast<double>(sum_) + static_cast<double>(n_);
    return std::ldexp(integers * (1.0 + 0x1p-50), -shift_);
}

} // namespace wolfmeans
