#include "exact/exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "exact/exact_ratio.hpp"
#include "kernels/exact/deposit.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

constexpr auto block_size = static_cast<std::size_t>(most_block_terms);

// Where the vector sums of a block can start: far from both ends of float64.
constexpr int most_block_exponent = 900;

// Add a block of terms as three integers if 126 bits hold them all; return whether they do. An
// integer is at most 2^10 * 2^41, which a float64 holds, so three terms stand for all.
bool add_by_limbs(const double* terms, std::size_t n, double largest, ExactSum& sum) {
    if (largest == 0.0) return true;
    const int top = std::ilogb(largest) + 2;
    if (std::abs(top) > most_block_exponent) return false;
    double magic[block_limbs];
    std::int64_t limbs[block_limbs];
    for (int l = 0; l < block_limbs; ++l)
        magic[l] = std::ldexp(1.5, 52 + top - (l + 1) * block_bits);
    if (!best_kernels().deposit->sum_terms(terms, static_cast<std::int64_t>(n), magic, limbs))
        return false;
    for (int l = 0; l < block_limbs; ++l)
        sum.add(std::ldexp(static_cast<double>(limbs[l]), top - (l + 1) * block_bits));
    return true;
}

} // namespace

void TermSum::add(const double* terms, std::size_t n) {
    for (; n > block_size; terms += block_size, n -= block_size)
        add_block(terms, block_size);
    add_block(terms, n);
}

void TermSum::add_products(const double* weights, const double* values, std::size_t n) {
    if (weights == nullptr) return add(values, n);
    double terms[block_size];
    for (std::size_t begin = 0; begin < n; begin += block_size) {
        const std::size_t count = std::min(block_size, n - begin);
        for (std::size_t i = 0; i < count; ++i)
            terms[i] = weights[begin + i] * values[begin + i];
        add_block(terms, count);
    }
}

void TermSum::add_block(const double* terms, std::size_t n) {
    const double largest =
        best_kernels().deposit->largest_term(terms, static_cast<std::int64_t>(n));
    if (std::isfinite(largest)) {
        if (!add_by_limbs(terms, n, largest, finite_)) finite_.add(terms, n);
        return;
    }
    for (std::size_t i = 0; i < n; ++i) {
        if (std::isfinite(terms[i])) {
            finite_.add(terms[i]);
        } else {
            special_ += terms[i];
            if (std::isinf(terms[i])) infinities_ += terms[i];
        }
    }
}

void TermSum::merge(const TermSum& other) {
    finite_.merge(other.finite_);
    special_ += other.special_;
    infinities_ += other.infinities_;
}

double TermSum::result() const {
    if (special_ != 0.0) {
        if (std::isnan(infinities_)) throw std::domain_error("-inf + inf in an exact sum");
        return special_;
    }
    const double sum = finite_.rounded();
    if (std::isinf(sum)) throw std::overflow_error("an exact sum is too large for float64");
    return sum;
}

const ExactSum& TermSum::exact() const {
    if (special_ != 0.0) throw std::overflow_error("a term of an exact sum is not finite");
    return finite_;
}

void ExactSum::add(const double* terms, std::size_t n) {
    while (n > 0) {
        const auto room = static_cast<std::size_t>(deposits_before_carry - deposits_);
        const std::size_t count = std::min(n, room);
        for (std::size_t i = 0; i < count; ++i)
            deposit(terms[i]);
        terms += count;
        n -= count;
        deposits_ += static_cast<int>(count);
        if (deposits_ == deposits_before_carry) carry();
    }
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
    const double operations_per_term = 2.0;
    const std::size_t chunks =
        worthwhile_threads(n, operations_per_term * static_cast<double>(n), n_threads);
    std::vector<TermSum> parts(chunks);
    over_rows(n, chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        parts[chunk].add_products(weights == nullptr ? nullptr : weights + begin, values + begin,
                                  end - begin);
    });
    for (std::size_t chunk = 1; chunk < chunks; ++chunk)
        parts[0].merge(parts[chunk]);
    return parts[0].result();
}

} // namespace wolfmeans
