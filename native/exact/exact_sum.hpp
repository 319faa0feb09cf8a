// Exact sums of float64 terms, rounded once (docs/design.md: sums, the exactness contract).
// Specification: math.fsum. The sum is one long integer, a multiple of the smallest denormal, so
// order and threads cannot matter and taking a term away leaves no trace of it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace wolfmeans {

class ExactSum {
public:
    // Terms are finite.
    void add(double term) {
        deposit(term);
        if (++deposits_ == deposits_before_carry) carry();
    }
    void subtract(double term) { add(-term); }
    void add(const double* terms, std::size_t n);
    void merge(const ExactSum& other);
    void clear() { *this = ExactSum(); }

    // The sum, rounded to nearest even, denormals included; infinite when float64 cannot hold it.
    double rounded() const;

    // Digits of 32 bits in int64, the lowest bit of the lowest is 2^-1074: 2098 bits of a float64
    // and 78 of carries from all the terms there can be.
    static constexpr int digit_bits = 32;
    static constexpr std::size_t n_digits = 68;

    // (n_digits,) the lowest first; each may be of either sign, less than 2^62 in size.
    const std::int64_t* digits() const { return digits_.data(); }

private:
    // A deposit is less than 2^54 in any digit, a digit after a carry less than 2^33.
    static constexpr int deposits_before_carry = 500;

    void deposit(double term) {
        const std::uint64_t bits = std::bit_cast<std::uint64_t>(term);
        const std::int64_t sign = static_cast<std::int64_t>(bits) >> 63;
        const unsigned exponent = (bits >> 52) & 0x7ff;
        const unsigned place = exponent == 0 ? 0 : exponent - 1;
        const std::uint64_t mantissa =
            (bits & 0x000fffffffffffff) | (std::uint64_t{exponent != 0} << 52);
        const unsigned digit = place / digit_bits, offset = place % digit_bits;
        const auto low = static_cast<std::int64_t>((mantissa << offset) & 0xffffffff);
        const auto high = static_cast<std::int64_t>(mantissa >> (digit_bits - offset));
        digits_[digit] += (low ^ sign) - sign;
        digits_[digit + 1] += (high ^ sign) - sign;
    }
    void carry();

    std::array<std::int64_t, n_digits> digits_{};
    int deposits_ = 0;
};

// A sum of terms that come in blocks and need not be finite; those that are not are treated as
// math.fsum does.
class TermSum {
public:
    void add(const double* terms, std::size_t n);

    // Add the terms fl(weights[i] * values[i]); weights may be null: all 1.
    void add_products(const double* weights, const double* values, std::size_t n);

    void merge(const TermSum& other);

    // The sum, rounded once. NaN or infinity come through; throws std::domain_error for infinities
    // of both signs, std::overflow_error for a sum of finite terms beyond float64.
    double result() const;

    // The sum of the finite terms; throws std::overflow_error when a term was not.
    const ExactSum& exact() const;

private:
    void add_block(const double* terms, std::size_t n);

    ExactSum finite_;
    double special_ = 0.0;    // the terms that are not finite, added up
    double infinities_ = 0.0; // the infinite ones alone
};

// The exact sum of the float64 terms fl(weights[i] * values[i]), rounded once, see TermSum.
//
//   weights    IN  (n,) float64 or null: all 1
//   values     IN  (n,) float64
//   n_threads  IN  at most so many threads, >= 1; fewer when the work is small
double weighted_sum(const double* weights, const double* values, std::size_t n, int n_threads);

} // namespace wolfmeans
