#include "sparse/sparse_moments.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

constexpr int most_short_bits = 100; // of a sum, see sparse_exact.hpp
constexpr Word most_short_divisor = 1 << 24;
constexpr int most_short_exponent = 900;
constexpr double operations_per_deposit = 4.0;

// value == (-1)^negative * mantissa * 2^exponent.
struct Parts {
    Word mantissa;
    int exponent;
    bool negative;
};

Parts parts_of(double value) {
    const Word bits = std::bit_cast<Word>(value);
    const int field = static_cast<int>((bits >> 52) & 0x7ff);
    return {(bits & 0x000fffffffffffff) | (Word{field != 0} << 52), std::max(field, 1) - 1075,
            (bits >> 63) != 0};
}

// The bits of a sum of so many terms, including its sign.
int bits_of_sum(int low, int high, std::size_t terms) {
    return high - low + static_cast<int>(std::bit_width(terms)) + 1;
}

std::size_t words_for_bits(int bits) {
    return static_cast<std::size_t>((bits + word_bits - 1) / word_bits);
}

// The words of number * 2^place from word place / 64 on; what a negative place shifts out is 0.
struct Shifted {
    std::size_t first;
    Word words[3];
};

Shifted shifted(TwoWords number, int place) {
    if (place < 0) {
        const int back = -place;
        if (back >= word_bits) return {0, {number.high >> (back - word_bits), 0, 0}};
        return {0,
                {(number.low >> back) | ((number.high << 1) << (word_bits - 1 - back)),
                 number.high >> back, 0}};
    }
    const int up = place % word_bits, down = word_bits - 1 - up;
    return {static_cast<std::size_t>(place / word_bits),
            {number.low << up, (number.high << up) | ((number.low >> 1) >> down),
             (number.high >> 1) >> down}};
}

// Add (-1)^negative * number * 2^place to a sum of n_words words that stand stride apart.
void deposit_number(TwoWords number, int place, bool negative, Word* sum, std::size_t n_words,
                    std::size_t stride) {
    if (number.low == 0 && number.high == 0) return;
    const Shifted term = shifted(number, place);
    Word carry = negative ? 1 : 0;
    for (std::size_t w = term.first; w < n_words; ++w) {
        const Word size = w < term.first + 3 ? term.words[w - term.first] : 0;
        const Word added = negative ? ~size : size;
        const Word before = sum[w * stride];
        const Word once = before + added;
        const Word twice = once + carry;
        carry = (once < before ? 1 : 0) | (twice < once ? 1 : 0);
        sum[w * stride] = twice;
    }
}

// Add the entries of a row to the sums (n_words, d), or take them away. Words: n_words where it is
// 1 or 2, else 0.
template <int Words, class Real>
void deposit_row(const SparseRow<Real>& row, int low, bool leaves, Word* sums, std::size_t n_words,
                 std::size_t d) {
    for (std::size_t e = 0; e < row.count; ++e) {
        const Parts x = parts_of(static_cast<double>(row.values[e]));
        Word* const sum = sums + row.columns[e];
        const int place = x.exponent - low;
        const bool negative = leaves != x.negative;
        if constexpr (Words == 0) {
            deposit_number({0, x.mantissa}, place, negative, sum, n_words, d);
            continue;
        }
        // What lies below place 0 is 0, see shifted().
        const Word mantissa = place < 0 ? x.mantissa >> std::min(-place, 63) : x.mantissa;
        const int up = std::max(place, 0);
        const Word lower = mantissa << (up % word_bits);
        // With a sign of all ones this adds the complement and 1: it takes away.
        const Word sign = negative ? ~Word{0} : 0;
        if constexpr (Words == 1) {
            *sum += (lower ^ sign) + (sign & 1);
        } else {
            const Word upper = (mantissa >> 1) >> (word_bits - 1 - up % word_bits);
            const Word first = up < word_bits ? lower : 0, next = up < word_bits ? upper : lower;
            const Word before = sum[0], once = before + (first ^ sign), twice = once + (sign & 1);
            sum[0] = twice;
            sum[d] += (next ^ sign) + (once < before ? 1 : 0) + (twice < once ? 1 : 0);
        }
    }
}

// The rows of a cluster are scattered. Prefetch the first lines some rows ahead; the hardware
// prefetches further ones, which are read in order.
constexpr std::size_t rows_ahead = 4;

template <class Real>
void prefetch([[maybe_unused]] const SparseRow<Real>& row) {
    constexpr std::size_t line = 64, most_lines = 8;
    for (std::size_t l = 0; l < most_lines; ++l) {
        if (l * line < row.count * sizeof(Real))
            __builtin_prefetch(row.values + l * line / sizeof(Real));
        if (l * line < row.count * sizeof(std::int32_t))
            __builtin_prefetch(row.columns + l * line / sizeof(std::int32_t));
    }
}

// Sign and magnitude of a sum in two's complement; returns whether it is negative.
bool magnitude(const Word* sum, std::size_t n_words, std::size_t stride, Word* words) {
    const bool negative = (sum[(n_words - 1) * stride] >> (word_bits - 1)) != 0;
    Word one = negative ? 1 : 0;
    for (std::size_t w = 0; w < n_words; ++w) {
        words[w] = (negative ? ~sum[w * stride] : sum[w * stride]) + one;
        one &= words[w] == 0 ? 1 : 0;
    }
    return negative;
}

} // namespace

template <class Real>
SparseMoments<Real>::SparseMoments(const SparseRows<Real>& rows, const double* weights,
                                   std::size_t K, int n_threads)
    : rows_(rows), weights_(weights), K_(K), d_(rows.d()), n_threads_(n_threads),
      exact_(*best_kernels().sparse_exact), rounded_weights_(K), means_(K * d_),
      residuals_(K * d_) {
    range_ = range_of(exponent_range(rows.values(), rows.size(), n_threads));
    if (weights != nullptr) {
        weight_range_ = range_of(exponent_range(weights, rows.n(), n_threads));
        range_.low += weight_range_.low;
        range_.high += weight_range_.high;
    }
    const int weight_bits = bits_of_sum(weight_range_.low, weight_range_.high, rows.n());
    const int bits = bits_of_sum(range_.low, range_.high, rows.size());
    weight_range_.words = words_for_bits(weight_bits);
    range_.words = words_for_bits(bits);
    short_sums_ = bits <= most_short_bits;
    sums_.resize(K * range_.words * d_);
    totals_.resize(K * weight_range_.words);
}

template <class Real>
void SparseMoments<Real>::add_all(const std::int32_t* labels) {
    std::vector<std::size_t> starts(K_ + 1);
    for (std::size_t i = 0; i < rows_.n(); ++i)
        ++starts[static_cast<std::size_t>(labels[i]) + 1];
    for (std::size_t k = 0; k < K_; ++k)
        starts[k + 1] += starts[k];
    std::vector<Move> moves(rows_.n());
    std::vector<std::size_t> next(starts.begin(), starts.end() - 1);
    for (std::size_t i = 0; i < rows_.n(); ++i)
        moves[next[static_cast<std::size_t>(labels[i])]++] = {static_cast<std::int64_t>(i), false};
    update(starts, moves);
}

template <class Real>
void SparseMoments<Real>::move(const std::int64_t* rows, const std::int32_t* from,
                               const std::int32_t* to, std::size_t count) {
    std::vector<std::size_t> starts(K_ + 1);
    for (std::size_t i = 0; i < count; ++i) {
        ++starts[static_cast<std::size_t>(from[i]) + 1];
        ++starts[static_cast<std::size_t>(to[i]) + 1];
    }
    for (std::size_t k = 0; k < K_; ++k)
        starts[k + 1] += starts[k];
    std::vector<Move> moves(2 * count);
    std::vector<std::size_t> next(starts.begin(), starts.end() - 1);
    for (std::size_t i = 0; i < count; ++i) {
        moves[next[static_cast<std::size_t>(from[i])]++] = {rows[i], true};
        moves[next[static_cast<std::size_t>(to[i])]++] = {rows[i], false};
    }
    update(starts, moves);
}

// Moves starts[k]..starts[k + 1]-1 are those of cluster k.
template <class Real>
void SparseMoments<Real>::update(const std::vector<std::size_t>& starts,
                                 const std::vector<Move>& moves) {
    std::vector<std::size_t> touched;
    for (std::size_t k = 0; k < K_; ++k)
        if (starts[k] != starts[k + 1]) touched.push_back(k);
    const double entries = static_cast<double>(rows_.size()) / static_cast<double>(rows_.n());
    const double operations =
        operations_per_deposit * (static_cast<double>(moves.size()) * (entries + 1.0) +
                                  static_cast<double>(touched.size()) * static_cast<double>(d_));
    const std::size_t threads = worthwhile_threads(touched.size(), operations, n_threads_);
    over_blocks(touched.size(), threads, 1, [&](std::size_t, std::size_t t, std::size_t) {
        const std::size_t k = touched[t];
        for (std::size_t m = starts[k]; m < starts[k + 1]; ++m) {
            if (m + rows_ahead < starts[k + 1])
                prefetch(rows_.row(static_cast<std::size_t>(moves[m + rows_ahead].row)));
            deposit(k, moves[m]);
        }
        refresh(k);
    });
}

template <class Real>
void SparseMoments<Real>::deposit(std::size_t k, const Move& move) {
    const auto i = static_cast<std::size_t>(move.row);
    const Parts weight = parts_of(weights_ == nullptr ? 1.0 : weights_[i]);
    deposit_number({0, weight.mantissa}, weight.exponent - weight_range_.low, move.leaves,
                   totals_.data() + k * weight_range_.words, weight_range_.words, 1);
    const SparseRow<Real> row = rows_.row(i);
    Word* const sums = sums_.data() + k * range_.words * d_;
    if (weights_ != nullptr) {
        for (std::size_t e = 0; e < row.count; ++e) {
            const Parts x = parts_of(static_cast<double>(row.values[e]));
            deposit_number(product(weight.mantissa, x.mantissa),
                           weight.exponent + x.exponent - range_.low, move.leaves != x.negative,
                           sums + row.columns[e], range_.words, d_);
        }
        return;
    }
    if (range_.words == 1)
        deposit_row<1>(row, range_.low, move.leaves, sums, 1, d_);
    else if (range_.words == 2)
        deposit_row<2>(row, range_.low, move.leaves, sums, 2, d_);
    else
        deposit_row<0>(row, range_.low, move.leaves, sums, range_.words, d_);
}

// Round the weight, the means and the residuals of one cluster.
template <class Real>
void SparseMoments<Real>::refresh(std::size_t k) {
    std::vector<Word> words(std::max(weight_range_.words, range_.words));
    magnitude(totals_.data() + k * weight_range_.words, weight_range_.words, 1, words.data());
    rounded_weights_[k] = rounded(words.data(), weight_range_.words, weight_range_.low);
    if (rounded_weights_[k] == 0.0) return;

    Divisor divisor(weight_range_.words, range_.words);
    divisor.set(words.data(), weight_range_.words);
    std::vector<std::int32_t> columns(d_);
    const auto left = divide_short(k, words.data(), columns.data());
    for (std::size_t c = 0; c < left; ++c)
        divide(k, static_cast<std::size_t>(columns[c]), divisor, words.data());
}

// Divide by the vector kernel where its conditions are met: the weight must be a small integer
// times a power of two. Writes the columns that are left to do, and returns how many.
template <class Real>
std::size_t SparseMoments<Real>::divide_short(std::size_t k, const Word* weight,
                                              std::int32_t* columns) {
    const int zeros = std::countr_zero(weight[0]);
    const bool one_word =
        std::all_of(weight + 1, weight + weight_range_.words, [](Word word) { return word == 0; });
    const int exponent = range_.low - weight_range_.low - zeros;
    if (!short_sums_ || !one_word || weight[0] >> zeros >= most_short_divisor ||
        std::abs(exponent) > most_short_exponent) {
        std::iota(columns, columns + d_, 0);
        return d_;
    }
    const auto d = static_cast<std::int64_t>(d_);
    return static_cast<std::size_t>(exact_.of<Real>().divide(
        sums_.data() + k * range_.words * d_, static_cast<int>(range_.words), d, d,
        static_cast<double>(weight[0] >> zeros), std::ldexp(1.0, exponent), means_.data() + k * d_,
        residuals_.data() + k * d_, columns));
}

template <class Real>
void SparseMoments<Real>::divide(std::size_t k, std::size_t j, Divisor& divisor, Word* words) {
    const Word* const sum = sums_.data() + k * range_.words * d_ + j;
    Real& mean = means_[k * d_ + j];
    double& residual = residuals_[k * d_ + j];
    bool zero = true;
    for (std::size_t w = 0; w < range_.words; ++w)
        zero = zero && sum[w * d_] == 0;
    if (zero) {
        mean = 0;
        residual = 0.0;
        return;
    }
    const bool negative = magnitude(sum, range_.words, d_, words);
    const MeanAndResidual exact =
        divisor.divide(words, range_.words, negative, range_.low - weight_range_.low);
    mean = static_cast<Real>(exact.mean);
    // The difference of the float64 and the float32 mean is exact in float64.
    residual = (exact.mean - static_cast<double>(mean)) + exact.residual;
}

template <class Real>
void SparseMoments<Real>::means(const Real* fallback, double* weights, Real* means,
                                double* residuals) const {
    std::copy(rounded_weights_.begin(), rounded_weights_.end(), weights);
    const double operations = static_cast<double>(K_) * static_cast<double>(d_);
    over_rows(K_, worthwhile_threads(K_, operations, n_threads_), 1,
              [&](std::size_t, std::size_t begin, std::size_t end) {
                  for (std::size_t k = begin; k < end; ++k) {
                      const bool empty = rounded_weights_[k] == 0.0;
                      const Real* const from = empty ? fallback : means_.data();
                      std::copy_n(from + k * d_, d_, means + k * d_);
                      if (empty)
                          std::fill_n(residuals + k * d_, d_, 0.0);
                      else
                          std::copy_n(residuals_.data() + k * d_, d_, residuals + k * d_);
                  }
              });
}

template class SparseMoments<float>;
template class SparseMoments<double>;

} // namespace wolfmeans
