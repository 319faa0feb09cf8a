#include "exact/exact_ratio.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace wolfmeans {
namespace {

constexpr int mantissa_bits = 53;
constexpr int highest_exponent = 971; // of the lowest bit of the largest float64
constexpr int window_bits = mantissa_bits + 2;

// The upper word of (high, low) << shift, for a shift of 0..63.
Word upper_word(Word high, Word low, int shift) {
    return shift == 0 ? high : (high << shift) | (low >> (word_bits - shift));
}

// floor((2^128 - 1) / d) - 2^64 for d with its top bit set. Bit by bit, since it is needed once
// per cluster.
Word reciprocal(Word d) {
    Word remainder = ~d, quotient = 0;
    for (int bit = 0; bit < word_bits; ++bit) {
        const bool carry = remainder >> (word_bits - 1);
        remainder = (remainder << 1) | 1;
        quotient <<= 1;
        if (carry || remainder >= d) {
            remainder -= d;
            quotient |= 1;
        }
    }
    return quotient;
}

struct Division {
    Word quotient, remainder;
};

// (high * 2^64 + low) / d for high < d, d with its top bit set and its reciprocal: Möller and
// Granlund, "Improved division by invariant integers", algorithm 4.
Division divide_two_words(Word high, Word low, Word d, Word reciprocal) {
    auto [q, fraction] = product(reciprocal, high);
    fraction += low;
    q += high + (fraction < low ? 1 : 0) + 1;
    Word remainder = low - q * d;
    if (remainder > fraction) {
        --q;
        remainder += d;
    }
    if (remainder >= d) {
        ++q;
        remainder -= d;
    }
    return {q, remainder};
}

struct RoundedWindow {
    double value;
    int dropped; // bits of the window below the unit of the value; more than 64 for 0
    bool up;
};

// window * 2^exponent, rounded to nearest even. The top bit of the window is set; `rest` says that
// something smaller than its lowest bit follows.
RoundedWindow round_window(Word window, int exponent, bool rest) {
    const int dropped = std::max(word_bits - mantissa_bits, lowest_exponent - exponent);
    if (dropped > word_bits) return {0.0, dropped, false};
    const Word half = Word{1} << (dropped - 1);
    const Word below = window & (half | (half - 1));
    const Word kept = (window >> (dropped - 1)) >> 1;
    const bool up = below > half || (below == half && (rest || (kept & 1)));
    const int unit = exponent + dropped;
    if (unit > highest_exponent) return {std::numeric_limits<double>::infinity(), dropped, up};
    // The exponent's field is added, not joined: the leading bit of a normal number and the carry
    // of rounding up increment it.
    const Word field = static_cast<Word>(unit - lowest_exponent) << (mantissa_bits - 1);
    return {std::bit_cast<double>(field + kept + (up ? 1 : 0)), dropped, up};
}

} // namespace

bool sign_and_magnitude(const std::int64_t* limbs, std::size_t stride, std::size_t n_limbs,
                        int bits, Word* words) {
    const Word mask = (Word{1} << bits) - 1;
    std::int64_t carry = 0;
    Word pending = 0; // the lower bits of the next word, `filled` of them
    int filled = 0;
    Word* out = words;
    for (std::size_t l = 0; l < n_limbs; ++l) {
        const std::int64_t limb = limbs[l * stride] + carry;
        const Word digit = static_cast<Word>(limb) & mask;
        carry = limb >> bits;
        pending |= digit << filled;
        filled += bits;
        if (filled >= word_bits) {
            *out++ = pending;
            filled -= word_bits;
            pending = filled == 0 ? 0 : digit >> (bits - filled);
        }
    }
    // The last carry is sign-extended above.
    *out++ = pending | (static_cast<Word>(carry) << filled);
    *out++ = static_cast<Word>((carry >> (word_bits - 1 - filled)) >> 1);
    const bool negative = carry < 0;
    if (negative) {
        Word one = 1;
        for (Word* word = words; word != out; ++word) {
            *word = ~*word + one;
            one &= *word == 0 ? 1 : 0;
        }
    }
    return negative;
}

double rounded(const Word* words, std::size_t n_words, int exponent) {
    while (n_words > 0 && words[n_words - 1] == 0)
        --n_words;
    if (n_words == 0) return 0.0;
    const Word top = words[n_words - 1];
    const Word next = n_words > 1 ? words[n_words - 2] : 0;
    const int zeros = std::countl_zero(top);
    const bool rest =
        (next << zeros) != 0 || std::any_of(words, words + n_words - 1 - (n_words > 1),
                                            [](Word word) { return word != 0; });
    const int place = static_cast<int>(n_words - 1) * word_bits - zeros;
    return round_window(upper_word(top, next, zeros), exponent + place, rest).value;
}

// The quotient has an integer part, then fractions: a nonzero remainder over the divisor shows
// itself within as many words as the divisor has, and one more fills the window. That happens
// twice, for the mean and for the residual.
Divisor::Divisor(std::size_t divisor_words, std::size_t dividend_words)
    : quotient_(dividend_words + 1 + 2 * (divisor_words + 2)) {
    divisor_.reserve(divisor_words);
    remainder_.reserve(divisor_words + 1);
}

void Divisor::set(const Word* words, std::size_t n_words) {
    while (words[n_words - 1] == 0)
        --n_words;
    shift_ = std::countl_zero(words[n_words - 1]);
    divisor_.resize(n_words);
    remainder_.resize(n_words + 1);
    for (std::size_t w = 0; w < n_words; ++w)
        divisor_[w] = upper_word(words[w], w > 0 ? words[w - 1] : 0, shift_);
    reciprocal_ = reciprocal(divisor_.back());
}

MeanAndResidual Divisor::divide(const Word* words, std::size_t n_words, bool negative,
                                int exponent) {
    while (n_words > 0 && words[n_words - 1] == 0)
        --n_words;
    MeanAndResidual result;
    if (divide_short(words, n_words, negative, exponent, result)) return result;
    exponent_ = exponent;
    divide_integers(words, n_words);
    fill_window();
    const Rounded mean = round_quotient();
    keep_tail(mean);
    const bool exact = first_ == last_ && !has_remainder();
    fill_window();
    const double residual = round_quotient().value;
    const bool residual_is_negative = !exact && negative != mean.up;
    return {negative ? -mean.value : mean.value, residual_is_negative ? -residual : residual};
}

// The common case, in registers: a dividend of less than 128 bits, a divisor of one word. Returns
// whether it was one. The dividend is shifted so that its leading bit is the second of 128; then
// one division makes 63 or 64 bits of the quotient, a second one the bits of the residual.
bool Divisor::divide_short(const Word* words, std::size_t n_words, bool negative, int exponent,
                           MeanAndResidual& result) const {
    if (divisor_.size() != 1 || n_words == 0 || n_words > 2) return false;
    const Word d = divisor_[0];
    Word high = words[n_words - 1], low = n_words == 2 ? words[0] : 0;
    const int zeros = std::countl_zero(high);
    if (zeros == 0) return false;
    high = upper_word(high, low, zeros - 1);
    low <<= zeros - 1;
    const int unit = exponent + shift_ - (zeros - 1) - (n_words == 1 ? word_bits : 0);

    auto [q, remainder] = divide_two_words(high, low, d, reciprocal_);
    const int spare = std::countl_zero(q);
    const RoundedWindow mean = round_window(q << spare, unit - spare, remainder != 0);
    if (mean.dropped != word_bits - mantissa_bits) return false;
    // The bits of the quotient below the mean's, or what they lack to the next one.
    const Word mask = (Word{1} << (mean.dropped - spare)) - 1;
    Word tail = q & mask;
    if (mean.up) {
        tail = (mask - tail) + (remainder == 0 ? 1 : 0);
        remainder = remainder == 0 ? 0 : d - remainder;
    }
    const Division fraction = divide_two_words(remainder, 0, d, reciprocal_);
    const Word next = fraction.quotient;
    const bool rest = fraction.remainder != 0;
    double residual = 0.0;
    if (tail != 0) {
        const int gap = std::countl_zero(tail);
        residual =
            round_window(upper_word(tail, next, gap), unit - gap, rest || (next << gap) != 0).value;
    } else if (next >> (window_bits - 1) != 0 || (next != 0 && !rest)) {
        const int gap = std::countl_zero(next);
        residual = round_window(next << gap, unit - word_bits - gap, rest).value;
    } else if (rest) {
        return false;
    }
    result.mean = negative ? -mean.value : mean.value;
    result.residual = residual != 0.0 && negative != mean.up ? -residual : residual;
    return true;
}

// The integer part of the quotient; the remainder is left over.
void Divisor::divide_integers(const Word* words, std::size_t n_words) {
    const std::size_t n = divisor_.size();
    first_ = last_ = 0;
    // The dividend, shifted like the divisor, has one word more. Its upper n words are less than
    // the divisor, because the first of them is less than 2^63: they are a remainder already.
    const auto shifted = [&](std::size_t w) {
        return upper_word(w < n_words ? words[w] : 0, w > 0 && w <= n_words ? words[w - 1] : 0,
                          shift_);
    };
    const std::size_t rest = n_words + 1 > n ? n_words + 1 - n : 0;
    for (std::size_t w = 0; w < n; ++w)
        remainder_[w] = shifted(rest + w);
    remainder_[n] = 0;
    for (std::size_t w = rest; w-- > 0;)
        append(next_word(shifted(w)));
}

// One more word of the quotient, (remainder * 2^64 + incoming) / divisor. Knuth, algorithm D: what
// the top words let us expect is at most two too large.
Word Divisor::next_word(Word incoming) {
    const std::size_t n = divisor_.size();
    if (n == 1) {
        const Division part = divide_two_words(remainder_[0], incoming, divisor_[0], reciprocal_);
        remainder_[0] = part.remainder;
        return part.quotient;
    }
    for (std::size_t w = n; w > 0; --w)
        remainder_[w] = remainder_[w - 1];
    remainder_[0] = incoming;
    const Word top = divisor_[n - 1];
    Word q = remainder_[n] >= top
                 ? ~Word{0}
                 : divide_two_words(remainder_[n], remainder_[n - 1], top, reciprocal_).quotient;
    Word carry = 0;
    for (std::size_t w = 0; w < n; ++w) {
        const auto [high, low] = product(q, divisor_[w]);
        const Word part = low + carry;
        carry = high + (part < low ? 1 : 0) + (remainder_[w] < part ? 1 : 0);
        remainder_[w] -= part;
    }
    const bool too_large = remainder_[n] < carry;
    remainder_[n] -= carry;
    if (too_large) {
        do {
            --q;
            carry = 0;
            for (std::size_t w = 0; w < n; ++w) {
                const Word part = divisor_[w] + carry;
                remainder_[w] += part;
                carry = (part < carry ? 1 : 0) + (remainder_[w] < part ? 1 : 0);
            }
            remainder_[n] += carry;
        } while (remainder_[n] != 0);
    }
    return q;
}

void Divisor::append(Word word) {
    if (first_ != last_ || word != 0) quotient_[last_++] = word;
}

int Divisor::quotient_bits() const {
    if (first_ == last_) return 0;
    return static_cast<int>(last_ - first_) * word_bits - std::countl_zero(quotient_[first_]);
}

bool Divisor::has_remainder() const {
    return std::any_of(remainder_.begin(), remainder_.end(), [](Word w) { return w != 0; });
}

// Append fractions until the quotient either is exact or reaches two bits beyond a mantissa, so
// that its rounding is certain, half-way cases included.
void Divisor::fill_window() {
    while (quotient_bits() < window_bits && has_remainder()) {
        append(next_word(0));
        exponent_ -= word_bits;
    }
}

Divisor::Rounded Divisor::round_quotient() const {
    if (first_ == last_) return {0.0, 0, false};
    const Word top = quotient_[first_];
    const Word next = first_ + 1 < last_ ? quotient_[first_ + 1] : 0;
    const int zeros = std::countl_zero(top);
    bool rest = (next << zeros) != 0 || has_remainder();
    for (std::size_t w = first_ + 2; w < last_; ++w)
        rest = rest || quotient_[w] != 0;
    const int below = static_cast<int>(last_ - first_ - 1) * word_bits - zeros;
    const RoundedWindow leading =
        round_window(upper_word(top, next, zeros), exponent_ + below, rest);
    return {leading.value, below + leading.dropped, leading.up};
}

// Replace the quotient by its distance from its own rounding.
void Divisor::keep_tail(const Rounded& leading) {
    const std::size_t bits = static_cast<std::size_t>(std::max(leading.tail_bits, 0));
    const std::size_t n_words = (bits + word_bits - 1) / word_bits;
    if (n_words <= last_ - first_) {
        first_ = last_ - n_words;
        const std::size_t part = bits % word_bits;
        const Word mask = part == 0 ? ~Word{0} : (Word{1} << part) - 1;
        if (n_words > 0) quotient_[first_] &= mask;
        if (leading.up) {
            // 2^bits - (tail + remainder / divisor): complement both; a remainder of 0 lends 1.
            Word one = has_remainder() ? 0 : 1;
            for (std::size_t w = last_; w-- > first_;) {
                quotient_[w] = ~quotient_[w] + one;
                one &= quotient_[w] == 0 ? 1 : 0;
            }
            quotient_[first_] &= mask;
        }
    }
    if (leading.up && has_remainder()) {
        Word borrow = 0;
        for (std::size_t w = 0; w < divisor_.size(); ++w) {
            const Word part = remainder_[w] + borrow;
            borrow = (part < borrow ? 1 : 0) + (divisor_[w] < part ? 1 : 0);
            remainder_[w] = divisor_[w] - part;
        }
    }
    while (first_ != last_ && quotient_[first_] == 0)
        ++first_;
}

} // namespace wolfmeans
