#include "lower_bounds/neighbours.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "exact/unit_roundoff.hpp"
#include "kernels/fused/neighbours_rows.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

// Tiles whose distances to a group of rows stay in the second cache.
constexpr std::size_t tiles_at_once = 64;

// The points near one row, found block by block, and the roots from them.
class NearPoints {
public:
    NearPoints(std::size_t n, bool weighted, const Prices& prices)
        : prices_(prices), eta_((2.0 * double(n) + 16.0) * unit_roundoff), weighted_(weighted) {}

    void begin(double limit) {
        limit_ = limit;
        count_ = 0;
    }

    void add(const double* distances, const double* weights, std::size_t count) {
        if (distances_.size() < count_ + count + neighbours_room) {
            distances_.resize(2 * count_ + count + neighbours_room);
            if (weighted_) weights_.resize(distances_.size());
        }
        count_ += static_cast<std::size_t>(kernels_.gather(
            distances, weights, static_cast<long long>(count), limit_, distances_.data() + count_,
            weighted_ ? weights_.data() + count_ : nullptr));
    }

    // The ratio of what was found, which is never below the largest lambda's root (rounding aside).
    // If it is within the limit, no point that matters was left out; else it is the next limit.
    double above() const { return ratio(sums(limit_), prices_.lambdas[prices_.n_lambdas - 1]); }
    bool complete() const { return 2.0 * above() <= limit_; }

    void solve(double* roots) {
        double r = above();
        ordered_ = false;
        for (std::size_t g = prices_.n_lambdas; g-- > 0;) {
            const double lambda = prices_.lambdas[g];
            for (;;) {
                const double rho = r * (1.0 - 4.0 * eta_);
                const NearSums near = sums(2.0 * rho);
                const double q = ratio(near, lambda);
                if (q >= rho * (1.0 + 2.0 * eta_)) {
                    roots[g] = near.weight > prices_.heaviest ? at_heaviest(lambda) : rho;
                    // The same points at the next lambda: a ratio, so above its root.
                    if (g > 0) r = std::min(r, ratio(near, prices_.lambdas[g - 1]));
                    break;
                }
                r = q;
            }
        }
    }

private:
    NearSums sums(double limit) const {
        return kernels_.sums(distances_.data(), weighted_ ? weights_.data() : nullptr,
                             static_cast<long long>(count_), limit);
    }

    static double ratio(const NearSums& near, double lambda) {
        return (0.5 * near.distance + lambda) / near.weight;
    }

    // The ratio at W = heaviest, the last point in part. All points up to there have d2 / 2 below
    // the root without that limit, hence below this ratio, so that no shorter list has a smaller
    // one. An error of n u heaviest in the last part costs n u d2 / 2 <= n u times the ratio.
    double at_heaviest(double lambda) {
        if (!ordered_) order();
        double distance = 0.0, weight = 0.0;
        for (const std::uint32_t i : order_) {
            const double left = prices_.heaviest - weight;
            const double w = weighted_ ? weights_[i] : 1.0;
            distance += std::min(w, left) * distances_[i];
            weight += w;
            if (w >= left) break;
        }
        return (0.5 * distance + lambda) / prices_.heaviest * (1.0 - 2.0 * eta_);
    }

    void order() {
        order_.resize(count_);
        std::iota(order_.begin(), order_.end(), std::uint32_t{0});
        std::sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
            return distances_[a] < distances_[b] || (distances_[a] == distances_[b] && a < b);
        });
        ordered_ = true;
    }

    const Prices& prices_;
    const NeighboursVersion& kernels_ = *best_kernels().neighbours;
    double eta_;
    bool weighted_;
    double limit_ = 0.0;
    std::size_t count_ = 0;
    std::vector<double> distances_, weights_;
    std::vector<std::uint32_t> order_;
    bool ordered_ = false;
};

} // namespace

template <class Real>
Neighbours::Neighbours(const Real* X, std::size_t n, std::size_t d, const double* weights)
    : n_(n), d_(d), weights_(weights),
      tiles_((n + neighbours_tile - 1) / neighbours_tile * neighbours_tile * d) {
    for (std::size_t i = 0; i < n; ++i) {
        double* const place =
            tiles_.data() + i / neighbours_tile * neighbours_tile * d + i % neighbours_tile;
        for (std::size_t j = 0; j < d; ++j)
            place[j * neighbours_tile] = static_cast<double>(X[i * d + j]);
    }
}

template Neighbours::Neighbours(const float*, std::size_t, std::size_t, const double*);
template Neighbours::Neighbours(const double*, std::size_t, std::size_t, const double*);

void Neighbours::copy_row(std::size_t row, double* x) const {
    const double* const place =
        tiles_.data() + row / neighbours_tile * neighbours_tile * d_ + row % neighbours_tile;
    for (std::size_t j = 0; j < d_; ++j)
        x[j] = place[j * neighbours_tile];
}

void Neighbours::roots(const std::int64_t* rows, std::size_t m, const Prices& prices, double* roots,
                       int n_threads) const {
    constexpr std::size_t group = neighbours_group;
    const NeighboursVersion& kernels = *best_kernels().neighbours;
    const std::size_t n_tiles = (n_ + neighbours_tile - 1) / neighbours_tile;
    const double operations = double(m) * double(n_) * (double(d_) + 4.0);
    const auto work = [&](std::size_t, std::size_t begin, std::size_t end) {
        std::vector<double> x(group * d_), block(group * tiles_at_once * neighbours_tile);
        std::vector<NearPoints> near(group, NearPoints(n_, weights_ != nullptr, prices));
        WorkCounter counter;
        for (std::size_t first = begin; first < end; first += group) {
            const std::size_t used = std::min(group, end - first);
            for (std::size_t r = 0; r < group; ++r)
                copy_row(static_cast<std::size_t>(rows[first + std::min(r, used - 1)]),
                         x.data() + r * d_);
            std::array<double, group> limit;
            limit.fill(2.0 * prices.guess);
            std::array<bool, group> open{};
            std::fill_n(open.begin(), used, true);
            while (std::find(open.begin(), open.end(), true) != open.end()) {
                for (std::size_t r = 0; r < used; ++r)
                    if (open[r]) near[r].begin(limit[r]);
                for (std::size_t t = 0; t < n_tiles; t += tiles_at_once) {
                    const std::size_t tiles = std::min(tiles_at_once, n_tiles - t);
                    const std::size_t from = t * neighbours_tile;
                    counter.add(static_cast<double>(group * tiles * neighbours_tile * d_));
                    const std::size_t count = std::min(tiles * neighbours_tile, n_ - from);
                    kernels.distances(tiles_.data() + from * d_, static_cast<long long>(tiles),
                                      static_cast<long long>(d_), x.data(), block.data());
                    for (std::size_t r = 0; r < used; ++r)
                        if (open[r])
                            near[r].add(block.data() + r * tiles * neighbours_tile,
                                        weights_ ? weights_ + from : nullptr, count);
                }
                for (std::size_t r = 0; r < used; ++r) {
                    if (!open[r]) continue;
                    if (near[r].complete()) {
                        near[r].solve(roots + (first + r) * prices.n_lambdas);
                        open[r] = false;
                    } else {
                        // A little more, so that rounding cannot give the same limit again.
                        limit[r] = 2.000001 * near[r].above();
                    }
                }
            }
        }
    };
    over_rows(m, worthwhile_threads(m, operations, n_threads), group, work);
}

void roots_of_distances(const double* distances, std::size_t m, std::size_t n,
                        const double* weights, const Prices& prices, double* roots, int n_threads) {
    const auto work = [&](std::size_t, std::size_t begin, std::size_t end) {
        NearPoints near(n, weights != nullptr, prices);
        WorkCounter counter;
        for (std::size_t i = begin; i < end; ++i) {
            double limit = 2.0 * prices.guess;
            for (;;) {
                counter.add(static_cast<double>(n));
                near.begin(limit);
                near.add(distances + i * n, weights, n);
                if (near.complete()) break;
                limit = 2.000001 * near.above();
            }
            near.solve(roots + i * prices.n_lambdas);
        }
    };
    over_rows(m, worthwhile_threads(m, double(m) * double(n), n_threads), 1, work);
}

} // namespace wolfmeans
