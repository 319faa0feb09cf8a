#include "assignment/packed_centers.hpp"

namespace wolfmeans {
namespace {

std::size_t round_up(std::size_t value, std::size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

} // namespace

template <class Real>
PackedCenters<Real>::PackedCenters(const Real* centers, std::size_t K, std::size_t d,
                                   const Frame<Real>& frame, const ScreenVersion& version,
                                   bool tiled)
    : rows(centers), K(K), d(d), doubles(centers, centers + K * d),
      packed(tiled ? round_up(K, static_cast<std::size_t>(version.tile_centers)) * d : 0),
      half_norms(round_up(K, static_cast<std::size_t>(version.tile_centers)), screen_huge),
      frame_(frame), version_(version),
      terms_(tiled ? static_cast<double>(d + 4) : group_terms(static_cast<long long>(d))),
      norm_terms_(tiled ? static_cast<double>(d + 4)
                        : 2.0 * distance_terms(version, static_cast<long long>(d))) {
    const auto width = static_cast<std::size_t>(version.tile_centers);
    for (std::size_t k = 0; k < K; ++k) {
        float* tile = tiled ? packed.data() + k / width * width * d + k % width : nullptr;
        double norm = 0.0;
        for (std::size_t j = 0; j < d; ++j) {
            const Real shifted = (centers[k * d + j] - frame.origin[j]) * frame.factor;
            if (tiled) tile[j * width] = static_cast<float>(shifted);
            norm += static_cast<double>(shifted) * static_cast<double>(shifted);
        }
        half_norms[k] = static_cast<float>(0.5 * norm);
        largest_norm_ = std::max(largest_norm_, std::sqrt(norm) * (1.0 + 0x1p-20));
    }
    // Beyond this a product of scores could overflow, or beat the padding of the last tile.
    screenable = largest_norm_ < 0x1p40 && screen_unit * static_cast<double>(d + 4) < 0.25;
}

template <class Real>
double PackedCenters<Real>::error(double norm) const {
    const double terms = screen_unit * terms_;
    const double reach = norm + largest_norm_;
    return terms / (1.0 - terms) * largest_norm_ * (0.5 * largest_norm_ + norm) +
           static_cast<double>(d + 4) * (0x1p-52 * reach * reach + 0x1p-120 * (1.0 + reach));
}

// The polynomial of error(), with room for the rounding of its coefficients and of its evaluation.
template <class Real>
ErrorTerms PackedCenters<Real>::error_terms() const {
    const double terms = screen_unit * terms_;
    const double own = terms / (1.0 - terms) * largest_norm_;
    const double count = static_cast<double>(d + 4);
    const double room = 1.0 + 0x1p-10;
    const double tiny = 0x1p-120 * (1.0 + largest_norm_);
    return {static_cast<float>(room * (0.5 * own * largest_norm_ +
                                       count * (0x1p-52 * largest_norm_ * largest_norm_ + tiny))),
            static_cast<float>(room * (own + count * (0x1p-51 * largest_norm_ + 0x1p-120))),
            static_cast<float>(room * count * 0x1p-52),
            static_cast<float>(room * screen_unit * norm_terms_)};
}

template <class Real>
void PackedCenters<Real>::move_from(const Real* previous, bool separate) {
    drift.resize(K);
    for (std::size_t k = 0; k < K; ++k) {
        double sum = 0.0;
        for (std::size_t j = 0; j < d; ++j) {
            const double difference =
                (doubles[k * d + j] - static_cast<double>(previous[k * d + j])) *
                static_cast<double>(frame_.factor);
            sum += difference * difference;
        }
        drift[k] = sum == 0.0 ? 0.0f : root_up(sum);
        largest_drifts_.add(k, drift[k]);
    }
    half_separation.assign(K, 0.0f);
    if (separate && K > 1) separate_centers();
}

template <class Real>
void PackedCenters<Real>::separate_centers() {
    const auto tile = static_cast<std::size_t>(version_.tile_points);
    Aligned<float> points(tile * d);
    const Real* tile_rows[most_tile_points];
    float norms[most_tile_points], best[most_tile_points], second[most_tile_points];
    int label[most_tile_points];
    for (std::size_t k = 0; k < K; k += tile) {
        for (std::size_t p = 0; p < tile; ++p)
            tile_rows[p] = rows + std::min(k + p, K - 1) * d;
        version_.of<Real>().pack(tile_rows, frame_.origin.data(), frame_.factor,
                                 static_cast<long long>(d), points.data(), norms);
        std::fill_n(best, tile, 2 * screen_huge);
        std::fill_n(second, tile, 2 * screen_huge);
        version_.screen(points.data(), 1, packed.data(), half_norms.data(),
                        static_cast<long long>(d), static_cast<long long>(half_norms.size()),
                        {best, second, label});
        for (std::size_t p = 0; p < tile && k + p < K; ++p) {
            // The best score is the center itself (or its double); the second the nearest other.
            const double norm = static_cast<double>(norms[p]);
            const double slack = error(std::sqrt(norm) * (1.0 + 0x1p-10)) +
                                 screen_unit * static_cast<double>(d + 4) * norm;
            const double squared = norm + 2.0 * (static_cast<double>(second[p]) - slack);
            half_separation[k + p] = 0.5f * root_down(squared);
        }
    }
}

template struct PackedCenters<float>;
template struct PackedCenters<double>;

} // namespace wolfmeans
