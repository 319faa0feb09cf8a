#include "center_groups.hpp"

#include <algorithm>
#include <numeric>

#include "bounds.hpp"

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
      path_up_(n_bounds(), 0.0f) {
    std::vector<std::size_t> order(K);
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Neighbours need not be exact: any grouping is right, a better one only prunes more.
    const auto square = [&](std::size_t a, std::size_t b) {
        return distance_of<Real>(version)(centers + a * d, centers + b * d, factor,
                                          static_cast<long long>(d));
    };
    halve(square, order, 0, K);
    for (std::size_t place = 0; place < K; ++place) {
        place_[order[place]] = place;
        member_[place] = static_cast<std::int32_t>(order[place]);
    }
    std::fill_n(packed_.data(), n_groups_ * group_width * d, 0.0f);
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

void CenterGroups::follow(const std::vector<float>& drift) {
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
template void CenterGroups::pack(const float*, const Frame<float>&, const PackedCenters<float>&);
template void CenterGroups::pack(const double*, const Frame<double>&, const PackedCenters<double>&);

} // namespace wolfmeans
