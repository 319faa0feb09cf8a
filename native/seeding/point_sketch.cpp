#include "seeding/point_sketch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

// Up to so many columns are stored as float32: bytes, in quads of four, would save no memory.
constexpr std::size_t most_float_columns = 4;
constexpr std::size_t most_sampled = 1024;
// Bytes span so many standard deviations on either side; values beyond are clipped.
constexpr double clipped_deviations = 4.0;

// Four bytes of a point, of which the first `columns` are any of its columns, as the signed factors
// that the kernels multiply by, in the given number of words. Returns their sum.
std::int32_t pack_quad(const unsigned char* bytes, std::size_t columns, std::size_t words,
                       std::int32_t* out) {
    const std::size_t parts = 4 / words, bits = 32 / parts;
    const std::uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
    std::int32_t sum = 0;
    std::fill_n(out, words, 0);
    for (std::size_t b = 0; b < std::min<std::size_t>(4, columns); ++b) {
        const std::int32_t value = bytes[b] - 128;
        sum += value;
        // Byte b is part b / words of word b % words.
        const std::uint32_t part = static_cast<std::uint32_t>(value) & mask;
        const std::uint32_t shifted = part << (b / words * bits);
        out[b % words] =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(out[b % words]) | shifted);
    }
    return sum;
}

} // namespace

template <class Real>
PointSketch<Real>::PointSketch(const Real* X, std::size_t n, std::size_t d)
    : X_(X), n_(n), d_(d), columns_(std::min(d, static_cast<std::size_t>(most_sketch_columns))),
      as_floats_(d <= most_float_columns), width_(as_floats_ ? columns_ : (columns_ + 3) / 4),
      version_(best_kernels().sketch), origin_(columns_) {
    const std::size_t padded = (n + sketch_block - 1) / sketch_block * sketch_block;
    if (as_floats_) {
        floats_.resize(padded * width_);
    } else {
        bytes_.resize(padded * width_ * 4);
        squares_.resize(padded);
    }
    error_.resize(padded);
    reach_.resize(padded, std::numeric_limits<float>::infinity());
    find_scale();
}

// The origin is the sample's mean, the scale that of the column with the largest spread.
template <class Real>
void PointSketch<Real>::find_scale() {
    const std::size_t step = std::max<std::size_t>(1, n_ / most_sampled);
    const double count = static_cast<double>((n_ + step - 1) / step);
    std::vector<double> sum(columns_), square(columns_);
    for (std::size_t i = 0; i < n_; i += step)
        for (std::size_t j = 0; j < columns_; ++j)
            sum[j] += static_cast<double>(X_[i * d_ + j]) / count;
    double farthest = 0.0;
    for (std::size_t i = 0; i < n_; i += step) {
        for (std::size_t j = 0; j < columns_; ++j) {
            const double difference = static_cast<double>(X_[i * d_ + j]) - sum[j];
            square[j] += difference * difference / count;
            farthest = std::max(farthest, std::abs(difference));
        }
    }
    double variance = 0.0;
    for (std::size_t j = 0; j < columns_; ++j) {
        origin_[j] = static_cast<Real>(sum[j]);
        variance = std::max(variance, square[j]);
    }
    const double span = std::min(farthest, clipped_deviations * std::sqrt(variance));
    // Not a power of two: bytes gain from the whole range.
    const double factor = 127.0 / span;
    if (span > 0.0 && factor < std::numeric_limits<Real>::max() &&
        factor > std::numeric_limits<Real>::min())
        factor_ = static_cast<Real>(factor);
}

template <class Real>
void PointSketch<Real>::draw(std::size_t begin, std::size_t end) {
    std::vector<unsigned char> scratch(as_floats_ ? 0 : sketch_block * width_ * 4);
    for (std::size_t first = begin; first < end; first += sketch_block)
        as_floats_ ? draw_floats(first) : draw_bytes(first, scratch.data());
}

template <class Real>
void PointSketch<Real>::draw_bytes(std::size_t first, unsigned char* scratch) {
    const Real* rows[sketch_block];
    float lost[sketch_block];
    for (std::size_t p = 0; p < sketch_block; ++p)
        rows[p] = X_ + std::min(first + p, n_ - 1) * d_;
    version_->template of<Real>().pack(
        rows, origin_.data(), factor_, static_cast<long long>(columns_), scratch,
        bytes_.data() + first * width_ * 4, squares_.data() + first, lost);
    // |y - q| as computed is off by (d + 4) u of itself at most; y by 3 u of |y| <= |y - q| + |q|.
    const double d = static_cast<double>(columns_);
    for (std::size_t p = 0; p < sketch_block; ++p) {
        const double apart = std::sqrt(static_cast<double>(lost[p])) * (1.0 + (d + 16) * 0x1p-24);
        const double size = std::sqrt(static_cast<double>(squares_[first + p]));
        error_[first + p] = rounded_float((apart + (apart + size) * 0x1p-22) * (1.0 + 0x1p-22));
    }
}

template <class Real>
void PointSketch<Real>::draw_floats(std::size_t first) {
    for (std::size_t p = 0; p < sketch_block; ++p) {
        const Real* const row = X_ + std::min(first + p, n_ - 1) * d_;
        double norm = 0.0;
        for (std::size_t j = 0; j < width_; ++j) {
            const double y = (static_cast<double>(row[j]) - static_cast<double>(origin_[j])) *
                             static_cast<double>(factor_);
            const float kept = std::abs(y) < std::numeric_limits<float>::max()
                                   ? static_cast<float>(y)
                                   : std::numeric_limits<float>::infinity();
            floats_[first * width_ + j * sketch_block + p] = kept;
            norm += static_cast<double>(kept) * static_cast<double>(kept);
        }
        // Each coordinate is off by less than 2^-23 of itself, or by what float32 cannot hold.
        error_[first + p] = rounded_float(std::sqrt(norm) * 0x1p-22 + 1e-30);
    }
}

template <class Real>
void PointSketch<Real>::choose(const std::size_t* rows, std::size_t count,
                               SketchedCandidates& candidates) const {
    const auto words = static_cast<std::size_t>(version_->words);
    SketchCandidates& packed = candidates.packed_;
    candidates.count_ = count;
    candidates.floats_.resize(as_floats_ ? width_ * count : 0);
    candidates.words_.resize(as_floats_ ? 0 : width_ * count * words);
    packed.values = as_floats_ ? static_cast<const void*>(candidates.floats_.data())
                               : static_cast<const void*>(candidates.words_.data());
    for (std::size_t t = 0; t < count; ++t) {
        const std::size_t block = rows[t] / sketch_block, p = rows[t] % sketch_block;
        packed.error[t] = error_[rows[t]] * sketch_margin;
        std::int32_t sum = 0;
        for (std::size_t q = 0; q < width_; ++q) {
            const std::size_t place = (block * width_ + q) * sketch_block + p;
            if (as_floats_)
                candidates.floats_[q * count + t] = floats_[place];
            else
                sum += pack_quad(bytes_.data() + place * 4, columns_ - 4 * q, words,
                                 candidates.words_.data() + (q * count + t) * words);
        }
        if (!as_floats_) packed.constant[t] = squares_[rows[t]] + 256 * sum;
    }
}

template <class Real>
void PointSketch<Real>::screen(std::size_t begin, std::size_t end,
                               const SketchedCandidates& candidates,
                               unsigned char* survivors) const {
    const auto blocks = static_cast<long long>((end - begin + sketch_block - 1) / sketch_block);
    const auto width = static_cast<long long>(width_);
    if (as_floats_)
        version_->floats[candidates.count_](floats_.data() + begin * width_, nullptr,
                                            reach_.data() + begin, blocks, width,
                                            candidates.packed_, survivors);
    else
        version_->bytes[candidates.count_](bytes_.data() + begin * width_ * 4,
                                           squares_.data() + begin, reach_.data() + begin, blocks,
                                           width, candidates.packed_, survivors);
}

template class PointSketch<float>;
template class PointSketch<double>;

} // namespace wolfmeans
