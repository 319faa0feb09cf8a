// Integers of many words, rounded once: from exact sums to float64 numbers. Specification:
// rounded_ratio and mean_and_residual in exact/sums.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace wolfmeans {

inline constexpr int lowest_exponent = -1074; // of the lowest bit of any float64

using Word = std::uint64_t;
inline constexpr int word_bits = 64;

struct TwoWords {
    Word high, low;
};

// a * b, all of it.
inline TwoWords product(Word a, Word b) {
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 DoubleWord;
    const DoubleWord p = static_cast<DoubleWord>(a) * b;
    return {static_cast<Word>(p >> word_bits), static_cast<Word>(p)};
#else
    constexpr Word mask = 0xffffffff;
    const Word low = (a & mask) * (b & mask);
    const Word cross = (a >> 32) * (b & mask) + (low >> 32);
    const Word other = (a & mask) * (b >> 32) + (cross & mask);
    return {(a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32), (other << 32) | (low & mask)};
#endif
}

// How many words sign_and_magnitude writes.
inline std::size_t words_for(std::size_t n_limbs, int bits) {
    return (n_limbs * static_cast<std::size_t>(bits)) / word_bits + 2;
}

// The integer sum of limbs[l * stride] * 2^(l * bits) over l, as sign and magnitude.
//
//   limbs   IN   n_limbs of them, stride apart, each at most 2^62 in size
//   bits    IN   1..63
//   words   OUT  words_for(n_limbs, bits) words, lowest first: the magnitude
//
// Returns whether the integer is negative.
bool sign_and_magnitude(const std::int64_t* limbs, std::size_t stride, std::size_t n_limbs,
                        int bits, Word* words);

// The magnitude times 2^exponent, rounded to nearest even; infinite when too large.
//
//   words      IN  n_words of them, lowest first
//   exponent   IN  of the lowest bit
double rounded(const Word* words, std::size_t n_words, int exponent);

struct MeanAndResidual {
    double mean;
    double residual; // (exact mean - mean), itself rounded
};

// A divisor prepared for many dividends: all coordinates of a cluster share its weight. Long
// division in words of 64 bits, with a reciprocal of the top word instead of machine divisions.
class Divisor {
public:
    // Room for divisors and dividends of at most so many words; later calls allocate nothing.
    Divisor(std::size_t divisor_words, std::size_t dividend_words);

    // Divide by this from now on: a magnitude, lowest word first, not zero.
    void set(const Word* words, std::size_t n_words);

    // (-1)^negative * words / divisor * 2^exponent and its residual. The words of the
    // dividend come lowest first; the exponents of a quotient that fits into float64 fit into int.
    MeanAndResidual divide(const Word* words, std::size_t n_words, bool negative, int exponent);

private:
    // A number rounded, and where: tail_bits of the quotient stand below the unit of the value.
    struct Rounded {
        double value;
        int tail_bits;
        bool up;
    };

    bool divide_short(const Word* words, std::size_t n_words, bool negative, int exponent,
                      MeanAndResidual& result) const;
    void divide_integers(const Word* words, std::size_t n_words);
    Word next_word(Word incoming);
    void append(Word word);
    void fill_window();
    Rounded round_quotient() const;
    void keep_tail(const Rounded& leading);
    bool has_remainder() const;
    int quotient_bits() const;

    std::vector<Word> divisor_;   // lowest first, shifted so that the top bit of the last is set
    std::vector<Word> remainder_; // lowest first, less than the divisor, and one word above it
    std::vector<Word> quotient_;  // highest first, from first_ to last_, the first not zero
    std::size_t first_ = 0;
    std::size_t last_ = 0;
    Word reciprocal_ = 0;
    int shift_ = 0;
    int exponent_ = 0; // of the quotient's lowest bit
};

} // namespace wolfmeans
