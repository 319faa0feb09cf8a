#include "exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "exact_ratio.hpp"
#include "threads.hpp"

namespace wolfmeans {
namespace {

constexpr int lowest_exponent = -1074;
constexpr std::size_t block_size = 256;

// Where the vector sums of a block can start: far from both ends of float64.
constexpr int most_block_exponent = 900;
constexpr int limb_bits = 42;

// The largest size of any term; infinity or NaN when there is one. The bits of positive numbers
// are in the order of the numbers, infinity and NaN above.
double largest_size(const double* terms, std::size_t n) {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < n; ++i)
        most = std::max(most, std::bit_cast<std::int64_t>(std::abs(terms[i])));
    return std::bit_cast<double>(most);
}

// Add a block of terms by way of three integers, as long as 126 bits hold them all; return whether
// they did. The same steps as in deposit.hpp: the sum of a limb is at most 256 * 2^41, which a
// float64 holds, so three terms stand for 256.
bool add_by_limbs(const double* terms, std::size_t n, double largest, ExactSum& sum) {
    const int top = std::ilogb(largest) + 2;
    if (largest == 0.0) return true;
    if (std::abs(top) > most_block_exponent) return false;
    double magic[3];
    std::int64_t bits[3], limbs[3] = {};
    for (int l = 0; l < 3; ++l) {
        magic[l] = std::ldexp(1.5, 52 + top - (l + 1) * limb_bits);
        bits[l] = std::bit_cast<std::int64_t>(magic[l]);
    }
    std::int64_t rest = 0;
    for (std::size_t i = 0; i < n; ++i) {
        double term = terms[i];
        for (int l = 0; l < 3; ++l) {
            const double shifted = term + magic[l];
            limbs[l] += std::bit_cast<std::int64_t>(shifted) - bits[l];
            term -= shifted - magic[l];
        }
        rest |= std::bit_cast<std::int64_t>(term);
    }
    if (rest != 0) return false;
    for (int l = 0; l < 3; ++l)
        sum.add(std::ldexp(static_cast<double>(limbs[l]), top - (l + 1) * limb_bits));
    return true;
}

// What a thread has of a sum. Terms that are not finite have no place in an integer.
struct PartialSum {
    ExactSum finite;
    double special = 0.0;    // the terms that are not finite, added up
    double infinities = 0.0; // the infinite ones alone

    void add(const double* terms, std::size_t n) {
        const double largest = largest_size(terms, n);
        if (std::isfinite(largest)) return finite.add_block(terms, n, largest);
        for (std::size_t i = 0; i < n; ++i) {
            if (std::isfinite(terms[i])) {
                finite.add(terms[i]);
            } else {
                special += terms[i];
                if (std::isinf(terms[i])) infinities += terms[i];
            }
        }
    }
};

void add_products(const double* weights, const double* values, std::size_t n, PartialSum& sum) {
    double terms[block_size];
    for (std::size_t begin = 0; begin < n; begin += block_size) {
        const std::size_t count = std::min(block_size, n - begin);
        for (std::size_t i = 0; i < count; ++i)
            terms[i] =
                weights == nullptr ? values[begin + i] : weights[begin + i] * values[begin + i];
        sum.add(terms, count);
    }
}

} // namespace

void ExactSum::add(const double* terms, std::size_t n) {
    for (std::size_t begin = 0; begin < n; begin += block_size) {
        const std::size_t count = std::min(block_size, n - begin);
        add_block(terms + begin, count, largest_size(terms + begin, count));
    }
}

void ExactSum::add_block(const double* terms, std::size_t n, double largest) {
    if (add_by_limbs(terms, n, largest, *this)) return;
    for (std::size_t i = 0; i < n; ++i)
        add(terms[i]);
}

void ExactSum::merge(const ExactSum& other) {
    ExactSum carried = other;
    carried.carry();
    carry();
    for (std::size_t i = 0; i < n_digits; ++i)
        digits_[i] += carried.digits_[i];
    deposits_ = 1;
}

// Leave digits of 0..2^32-1, except the highest, which has the sign.
void ExactSum::carry() {
    for (std::size_t i = 0; i + 1 < n_digits; ++i) {
        digits_[i + 1] += digits_[i] >> digit_bits;
        digits_[i] &= 0xffffffff;
    }
    deposits_ = 0;
}

double ExactSum::rounded() const {
    std::array<Word, n_digits * digit_bits / word_bits + 2> words;
    const bool negative = sign_and_magnitude(digits_.data(), 1, n_digits, digit_bits, words.data());
    const double size = wolfmeans::rounded(words.data(), words.size(), lowest_exponent);
    return negative ? -size : size;
}

double weighted_sum(const double* weights, const double* values, std::size_t n, int n_threads) {
    const double operations_per_term = 8.0;
    const std::size_t chunks =
        worthwhile_threads(n, operations_per_term * static_cast<double>(n), n_threads);
    std::vector<PartialSum> parts(chunks);
    over_rows(n, chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        add_products(weights == nullptr ? nullptr : weights + begin, values + begin, end - begin,
                     parts[chunk]);
    });
    PartialSum& sum = parts.front();
    for (std::size_t chunk = 1; chunk < chunks; ++chunk) {
        sum.finite.merge(parts[chunk].finite);
        sum.special += parts[chunk].special;
        sum.infinities += parts[chunk].infinities;
    }
    if (sum.special != 0.0) {
        if (std::isnan(sum.infinities)) throw std::domain_error("-inf + inf in an exact sum");
        return sum.special;
    }
    const double result = sum.finite.rounded();
    if (std::isinf(result)) throw std::overflow_error("an exact sum is too large for float64");
    return result;
}

} // namespace wolfmeans
