// Exact sums of float64 terms, rounded once (DESIGN: sums, the exactness contract). Specification:
// math.fsum. The sum is one long integer, a multiple of the smallest denormal, so order and threads
// cannot matter and taking a term away leaves no trace of it.
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
    // The same for at most 256 terms, of which `largest` is the largest size.
    void add_block(const double* terms, std::size_t n, double largest);
    void merge(const ExactSum& other);
    void clear() { *this = ExactSum(); }

    // The sum, rounded to nearest even, denormals included; infinite when float64 cannot hold it.
    double rounded() const;

private:
    // Digits of 32 bits in int64, the lowest bit of the lowest is 2^-1074: 2098 bits of a float64
    // and 78 of carries from all the terms there can be.
    static constexpr int digit_bits = 32;
    static constexpr std::size_t n_digits = 68;
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

// The exact sum of the float64 terms fl(weights[i] * values[i]), rounded once.
//
//   weights    IN  (n,) float64 or null: all 1
//   values     IN  (n,) float64
//   n_threads  IN  at most so many threads, >= 1; fewer when the work is small
//
// Terms that are not finite are treated as math.fsum does: NaN or infinity come through, infinities
// of both signs throw std::domain_error, a sum of finite terms beyond float64 std::overflow_error.
double weighted_sum(const double* weights, const double* values, std::size_t n, int n_threads);

} // namespace wolfmeans
