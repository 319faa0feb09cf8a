#include "assignment/center_groups.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "assignment/bounds.hpp"
#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

// Split order[begin, end) into groups of group_width: along the line through two centers that lie
// far apart, at a multiple of the width near the middle, and so on.
template <class Square>
void halve(const Square& square, std::vector<std::size_t>& order, std::size_t begin,
           std::size_t end) {
    const std::size_t count = end - begin;
    if (count <= group_width) return;
    const auto farthest_from = [&](std::size_t a) {
        std::size_t farthest = a;
        float most = -1.0f;
        for (std::size_t i = begin; i < end; ++i) {
            const float far = square(a, order[i]);
            if (far > most) {
                most = far;
                farthest = order[i];
            }
        }
        return farthest;
    };
    const std::size_t one = farthest_from(order[begin]);
    const std::size_t other = farthest_from(one);
    std::vector<std::pair<float, std::size_t>> along;
    for (std::size_t i = begin; i < end; ++i)
        along.emplace_back(square(order[i], one) - square(order[i], other), order[i]);
    std::sort(along.begin(), along.end());
    for (std::size_t i = 0; i < count; ++i)
        order[begin + i] = along[i].second;
    const std::size_t groups = (count + group_width - 1) / group_width;
    const std::size_t middle = begin + groups / 2 * group_width;
    halve(square, order, begin, middle);
    halve(square, order, middle, end);
}

} // namespace

template <class Real>
CenterGroups::CenterGroups(const Real* centers, std::size_t K, std::size_t d, std::size_t together,
                           Real factor, const ScreenVersion& version)
    : d_(d), n_groups_((K + group_width - 1) / group_width), together_(together), place_(K),
      member_(n_groups_ * group_width, -1), packed_(n_groups_ * group_width * d),
      half_norms_(n_groups_ * group_width, screen_huge), path_(n_bounds(), 0.0),
      path_up_(n_bounds(), 0.0f), separation_(K * n_bounds(), 0.0f) {
    std::vector<std::size_t> order(K);
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Neighbours need not be exact: any grouping is right, a better one only prunes more.
    const auto square = [&](std::size_t a, std::size_t b) {
        return version.of<Real>().distance(centers + a * d, centers + b * d, factor,
                                           static_cast<long long>(d));
    };
    halve(square, order, 0, K);
    for (std::size_t place = 0; place < K; ++place) {
        place_[order[place]] = place;
        member_[place] = static_cast<std::int32_t>(order[place]);
    }
}

template <class Real>
void CenterGroups::pack(const Real* centers, const Frame<Real>& frame,
                        const PackedCenters<Real>& norms) {
    for (std::size_t k = 0; k < place_.size(); ++k) {
        const std::size_t lane = place_[k] % group_width;
        float* const group = packed_.data() + (place_[k] - lane) * d_ + lane;
        for (std::size_t j = 0; j < d_; ++j)
            group[j * group_width] =
                static_cast<float>((centers[k * d_ + j] - frame.origin[j]) * frame.factor);
        half_norms_[place_[k]] = norms.half_norms[k];
    }
}

template <class Real>
void CenterGroups::separate(const Frame<Real>& frame, const PackedCenters<Real>& centers,
                            const ScreenVersion& version, int n_threads) {
    constexpr std::size_t at_once = 48;
    const std::size_t K = place_.size();
    const double operations = static_cast<double>(K) * static_cast<double>(K * d_);
    over_rows(
        K, worthwhile_threads(K, operations, n_threads), at_once,
        [&](std::size_t, std::size_t first, std::size_t last) {
            Aligned<float> shifted(at_once * d_);
            const float* rows[at_once];
            float squares[at_once], best[at_once], second[at_once];
            int lane[at_once];
            for (std::size_t begin = first; begin < last; begin += at_once) {
                check_interrupt();
                const std::size_t count = std::min(at_once, last - begin);
                for (std::size_t r = 0; r < count; ++r) {
                    float* const to = shifted.data() + r * d_;
                    squares[r] = version.of<Real>().shift(centers.rows + (begin + r) * d_,
                                                          frame.origin.data(), frame.factor,
                                                          static_cast<long long>(d_), to);
                    rows[r] = to;
                }
                std::fill_n(separation_.data() + begin * n_bounds(), count * n_bounds(), 0x1p100f);
                for (std::size_t g = 0; g < n_groups_; ++g) {
                    std::fill_n(best, count, 2 * screen_huge);
                    std::fill_n(second, count, 2 * screen_huge);
                    version.group(rows, static_cast<long long>(count), packed(g), half_norms(g),
                                  static_cast<long long>(d_), 0, {best, second, lane});
                    for (std::size_t r = 0; r < count; ++r) {
                        // In its own group the best is the center itself, or its double.
                        const float score = group_of(begin + r) == g ? second[r] : best[r];
                        const double square = static_cast<double>(squares[r]);
                        const double off =
                            2.0 * centers.error(std::sqrt(square) * (1.0 + 0x1p-10)) +
                            square * screen_unit * static_cast<double>(d_ + 4);
                        float& least = separation_[(begin + r) * n_bounds() + g / together_];
                        least = std::min(
                            least, root_down(square + 2.0 * static_cast<double>(score) - off));
                    }
                }
            }
        });
}

void CenterGroups::add_drifts(const std::vector<float>& drift) {
    std::vector<float> largest(path_.size(), 0.0f);
    for (std::size_t k = 0; k < drift.size(); ++k)
        largest[bound_of(k)] = std::max(largest[bound_of(k)], drift[k]);
    for (std::size_t b = 0; b < path_.size(); ++b) {
        path_[b] += static_cast<double>(largest[b]);
        path_up_[b] = float_up(path_[b]);
    }
}

template CenterGroups::CenterGroups(const float*, std::size_t, std::size_t, std::size_t, float,
                                    const ScreenVersion&);
template CenterGroups::CenterGroups(const double*, std::size_t, std::size_t, std::size_t, double,
                                    const ScreenVersion&);
template void CenterGroups::separate(const Frame<float>&, const PackedCenters<float>&,
                                     const ScreenVersion&, int);
template void CenterGroups::separate(const Frame<double>&, const PackedCenters<double>&,
                                     const ScreenVersion&, int);
template void CenterGroups::pack(const float*, const Frame<float>&, const PackedCenters<float>&);
template void CenterGroups::pack(const double*, const Frame<double>&, const PackedCenters<double>&);

} // namespace wolfmeans
