#include "tree/box_tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/fused/narrow.hpp"
#include "runtime/threads.hpp"
#include "tree/space_order.hpp"

namespace wolfmeans {
namespace {

constexpr std::size_t leaves_per_node = 6;
constexpr std::size_t children_per_node = 16;
constexpr std::size_t top_nodes = 32; // at least about so many nodes on the top level, if possible
constexpr std::size_t sampled_rows = 1024;
constexpr std::size_t ahead = 32;               // rows to prefetch ahead
constexpr double packing_per_coordinate = 10.0; // in coordinate operations

std::vector<std::size_t> capacities(std::size_t n) {
    std::vector<std::size_t> points = {leaf_capacity, leaf_capacity * leaves_per_node};
    while (n / (points.back() * children_per_node) >= top_nodes)
        points.push_back(points.back() * children_per_node);
    return points;
}

} // namespace

template <class Real>
BoxTree<Real>::BoxTree(const Real* X, std::size_t n, std::size_t d, int n_threads)
    : d(d), origin(d, 0.0), usable(n > 0 && d > 0) {
    if (usable) choose_frame(X, n);
    if (!usable) {
        rows.resize(n);
        for (std::size_t i = 0; i < n; ++i)
            rows[i] = static_cast<std::uint32_t>(i);
        return;
    }
    SpaceOrder order = order_in_space(X, n, d, capacities(n));
    rows = std::move(order.rows);
    points = std::make_unique_for_overwrite<float[]>(n * d + most_narrow_lanes * most_vectors);
    std::fill_n(points.get() + n * d, most_narrow_lanes * most_vectors, 0.0f);
    levels.resize(order.starts.size());
    for (std::size_t level = 0; level < levels.size(); ++level) {
        levels[level].starts = std::move(order.starts[level]);
        levels[level].boxes.resize(levels[level].size() *
                                   static_cast<std::size_t>(box_floats(static_cast<long long>(d))));
    }

    const std::size_t leaves = levels[0].size();
    std::vector<float> sides(leaves * 2 * d), wider;
    const double operations = packing_per_coordinate * static_cast<double>(n * d);
    over_rows(leaves, worthwhile_threads(leaves, operations, n_threads), 1,
              [&](std::size_t, std::size_t begin, std::size_t end) {
                  for (std::size_t leaf = begin; leaf < end; ++leaf) {
                      pack_leaf(X, leaf);
                      box_leaf(leaf, sides.data() + leaf * 2 * d);
                  }
              });
    for (std::size_t level = 1; level < levels.size(); ++level) {
        box_nodes(level, sides, wider);
        sides.swap(wider);
    }
}

template <class Real>
const float* BoxTree<Real>::box(std::size_t level, std::size_t node) const {
    return levels[level].boxes.data() +
           node * static_cast<std::size_t>(box_floats(static_cast<long long>(d)));
}

template <class Real>
std::size_t BoxTree<Real>::first_leaf(std::size_t level, std::size_t node) const {
    for (; level > 0; --level)
        node = levels[level].starts[node];
    return node;
}

// The origin is a median of a sample: central and robust to outliers. The factor depends on every
// point.
template <class Real>
void BoxTree<Real>::choose_frame(const Real* X, std::size_t n) {
    const std::size_t step = std::max<std::size_t>(1, n / sampled_rows);
    std::vector<Real> sample, least(X, X + d), most(X, X + d);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < d; ++j) {
            least[j] = std::min(least[j], X[i * d + j]);
            most[j] = std::max(most[j], X[i * d + j]);
        }
    }
    double largest = 0.0;
    for (std::size_t j = 0; j < d; ++j) {
        sample.clear();
        for (std::size_t i = 0; i < n; i += step)
            sample.push_back(X[i * d + j]);
        const auto middle = sample.begin() + static_cast<std::ptrdiff_t>(sample.size() / 2);
        std::nth_element(sample.begin(), middle, sample.end());
        origin[j] = static_cast<double>(*middle);
        largest = std::max({largest, static_cast<double>(most[j]) - origin[j],
                            origin[j] - static_cast<double>(least[j])});
    }
    if (!(largest > 0.0)) return;
    const int exponent = 10 - std::ilogb(largest);
    // Scaled distances of 2^-56, the least that the bounds tell apart, have squares that float64
    // holds; so have those to centers at 2^40, the farthest that are screened.
    usable = -440 <= exponent && exponent <= 440;
    factor = std::ldexp(1.0, std::clamp(exponent, -440, 440));
}

template <class Real>
void BoxTree<Real>::pack_leaf(const Real* X, std::size_t leaf) {
    const std::size_t begin = levels[0].starts[leaf], end = levels[0].starts[leaf + 1];
    float* x = points.get() + begin * d;
    for (std::size_t i = begin; i < end; ++i) {
        __builtin_prefetch(X + rows[std::min(i + ahead, rows.size() - 1)] * d);
        for (std::size_t j = 0; j < d; ++j)
            x[j * (end - begin) + i - begin] = scaled(X[rows[i] * d + j], j);
    }
}

// sides OUT (2, d): the least and the largest coordinates of the leaf.
template <class Real>
void BoxTree<Real>::box_leaf(std::size_t leaf, float* sides) {
    const std::size_t begin = levels[0].starts[leaf], end = levels[0].starts[leaf + 1];
    for (std::size_t j = 0; j < d; ++j) {
        const float* x = points.get() + begin * d + j * (end - begin);
        sides[j] = sides[d + j] = x[0];
        for (std::size_t p = 1; p < end - begin; ++p) {
            sides[j] = std::min(sides[j], x[p]);
            sides[d + j] = std::max(sides[d + j], x[p]);
        }
    }
    put_box(sides, levels[0].boxes.data() +
                       leaf * static_cast<std::size_t>(box_floats(static_cast<long long>(d))));
}

template <class Real>
void BoxTree<Real>::box_nodes(std::size_t level, const std::vector<float>& below,
                              std::vector<float>& sides) {
    Level& nodes = levels[level];
    sides.resize(nodes.size() * 2 * d);
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        float* least = sides.data() + node * 2 * d;
        std::copy_n(below.data() + nodes.starts[node] * 2 * d, 2 * d, least);
        for (std::size_t child = nodes.starts[node]; child < nodes.starts[node + 1]; ++child) {
            const float* inner = below.data() + child * 2 * d;
            for (std::size_t j = 0; j < d; ++j) {
                least[j] = std::min(least[j], inner[j]);
                least[d + j] = std::max(least[d + j], inner[d + j]);
            }
        }
        put_box(least, nodes.boxes.data() +
                           node * static_cast<std::size_t>(box_floats(static_cast<long long>(d))));
    }
}

// A box from its sides. The middle is rounded; widths are then taken from it and rounded up: the
// factor outweighs two roundings of float64 and one of float32, the last term underflow.
template <class Real>
void BoxTree<Real>::put_box(const float* sides, float* box) const {
    double diagonal = 0.0, reach = 0.0;
    for (std::size_t j = 0; j < d; ++j) {
        const auto low = static_cast<double>(sides[j]), high = static_cast<double>(sides[d + j]);
        box[j] = static_cast<float>(0.5 * (low + high));
        const auto middle = static_cast<double>(box[j]);
        box[d + j] =
            static_cast<float>(2.0 * std::max(high - middle, middle - low) * (1.0 + 0x1p-22)) +
            0x1p-100f;
        const auto width = static_cast<double>(box[d + j]);
        diagonal += width * width;
        const double corner = std::abs(middle) + 0.5 * width;
        reach += corner * corner;
    }
    box[2 * d] = static_cast<float>(std::sqrt(diagonal) * (1.0 + 0x1p-22));
    box[2 * d + 1] = static_cast<float>(4.1 * 0x1p-24 * std::sqrt(reach)) + 0x1p-56f;
}

template struct BoxTree<float>;
template struct BoxTree<double>;

} // namespace wolfmeans
