#include "assignment/points.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>

#include "assignment/group_worker.hpp"
#include "assignment/packed_centers.hpp"
#include "assignment/tile_worker.hpp"
#include "exact/exact_sum.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

constexpr std::size_t sampled_rows = 256;
constexpr double first_try = 0.6; // share of undecided points below which bounds are tried first
constexpr double overhead_per_point = 100.0; // in coordinate operations: bounds, packing, decision
constexpr std::size_t least_grouped_features = 24;
constexpr std::size_t bytes_per_point = 32; // or a quarter of a row, if that is more
// With fewer rows or centers it is not worth looking for the faster kind of bounds.
constexpr std::size_t least_scouted_rows = 2048, least_scouted_centers = 32;
constexpr std::size_t rows_per_scouted = 64, most_scouted = 256;

// The time to compare a row with all groups of centers over that in a tile of rows. Measured: the
// wider the tile, the faster are the products, and the rest weighs more.
double grouped_cost(const ScreenVersion& version, std::size_t d) {
    return 1.1 + 1.6 * static_cast<double>(version.tile_points) / static_cast<double>(d);
}

} // namespace

template <class Real>
struct Points<Real>::Scout {
    Scout(const Points& of, std::size_t count)
        : rows(sample(of, count)), points(rows.data(), count, of.d_, nullptr, 1, Grouping::always) {
    }

    static std::vector<Real> sample(const Points& of, std::size_t count) {
        std::vector<Real> chosen(count * of.d_);
        for (std::size_t r = 0; r < count; ++r)
            std::copy_n(of.X_ + r * (of.n_ / count) * of.d_, of.d_, chosen.data() + r * of.d_);
        return chosen;
    }

    std::vector<Real> rows;
    Points points;
    double share = 1.0; // of pairs of a row and a group that bounds did not exclude, last step
};

template <class Real>
Points<Real>::~Points() = default;

template <class Real>
Points<Real>::Points(const Real* X, std::size_t n, std::size_t d, const double* weights,
                     int n_threads, Grouping grouping)
    : X_(X), n_(n), d_(d), weights_(weights), n_threads_(n_threads), grouping_(grouping),
      version_(*best_kernels().screen), frame_{std::vector<Real>(d), 1} {
    const std::size_t step = std::max<std::size_t>(1, n / 256);
    std::vector<double> sum(d, 0.0);
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += step, ++count)
        for (std::size_t j = 0; j < d; ++j)
            sum[j] += static_cast<double>(X[i * d + j]);
    for (std::size_t j = 0; j < d; ++j)
        frame_.origin[j] =
            static_cast<Real>(sum[j] / static_cast<double>(std::max<std::size_t>(1, count)));
    // A sample is enough for the factor: if the scores of a point outside it overflow, they decide
    // nothing and the point is rechecked canonically.
    double largest = 0.0;
    for (std::size_t i = 0; i < n; i += step)
        for (std::size_t j = 0; j < d; ++j)
            largest = std::max(largest, std::abs(static_cast<double>(X[i * d + j]) -
                                                 static_cast<double>(frame_.origin[j])));
    if (largest > 0.0) {
        const int exponent = std::clamp(10 - std::ilogb(largest), -1000, 1000);
        frame_.factor = static_cast<Real>(std::ldexp(
            1.0, std::is_same_v<Real, float> ? std::clamp(exponent, -120, 120) : exponent));
    }
    const double factor = static_cast<double>(frame_.factor);
    for (std::size_t i = 0; i < n; i += step) {
        double square = 0.0;
        for (std::size_t j = 0; j < d; ++j) {
            const double shifted =
                (static_cast<double>(X[i * d + j]) - static_cast<double>(frame_.origin[j])) *
                factor;
            square += shifted * shifted;
        }
        largest_norm_ = std::max(largest_norm_, std::sqrt(square));
    }
}

// The first step decides which bounds are kept at first.
template <class Real>
void Points<Real>::begin(const Real* centers, std::size_t K, bool bounded) {
    labels_.assign((n_ + bounds_block - 1) / bounds_block * bounds_block, 0);
    bounds_.resize(n_, K);
    ungroup();
    scout_.reset();
    if (!bounded || d_ < least_grouped_features || K < 2) return;
    if (grouping_ == Grouping::always || n_ < least_scouted_rows)
        group(centers, K);
    else if (K >= least_scouted_centers)
        scout_ = std::make_unique<Scout>(*this, std::min(most_scouted, n_ / rows_per_scouted));
}

// Bounds by group that exclude nothing yet.
template <class Real>
void Points<Real>::group(const Real* centers, std::size_t K) {
    workers_.clear();
    // Label, upper, slack and the block's share of check_at take 13 bytes.
    const std::size_t other_bytes = 13;
    const std::size_t bytes =
        std::max<std::size_t>(bytes_per_point, sizeof(Real) * d_ / 4) - other_bytes;
    const std::size_t n_groups = (K + group_width - 1) / group_width;
    const std::size_t most = bytes / sizeof(std::uint16_t);
    groups_.emplace(centers, K, d_, (n_groups + most - 1) / most, frame_.factor, version_);
    coded_.values.assign(n_ * groups_->n_bounds(), 0);
    coded_.unit = 0.0f;
    seconds_grouped_ = -1.0;
    waited_ = 0;
}

template <class Real>
void Points<Real>::ungroup() {
    workers_.clear();
    groups_.reset();
    coded_ = {};
}

// Groups save comparisons with centers, and each comparison takes longer than in a tile. Some rows
// that have them from the start tell how many would be left.
template <class Real>
void Points<Real>::choose_grouping(const Real* centers, std::size_t K) {
    if (!scout_) return;
    const double ungrouped = ungrouped_seconds(open_share());
    if (!groups_) {
        if (++waited_ > patience_ &&
            seconds_dense_ * grouped_cost(version_, d_) * scout_->share < 0.8 * ungrouped)
            group(centers, K);
    } else if (seconds_grouped_ > ungrouped) {
        ungroup();
        patience_ *= 2;
        waited_ = 0;
    }
}

template <class Real>
void Points<Real>::send_scout(const Real* centers, std::size_t K) {
    if (!scout_ || groups_) return;
    const Change change = scout_->points.assign(centers, K, true, {});
    const auto pairs = static_cast<double>(scout_->points.n_ * scout_->points.groups_->n_bounds());
    scout_->share = static_cast<double>(change.compared) / pairs;
}

template <class Real>
void Points<Real>::adopt(const std::int32_t* labels, const Real* centers, std::size_t K,
                         bool bounded) {
    begin(centers, K, bounded);
    std::copy_n(labels, n_, labels_.begin());
    for (std::size_t i = 0; i < n_; ++i)
        bounds_.forget(i);
    previous_.assign(centers, centers + K * d_);
}

// The share of a sample of points that the bounds do not decide before they are tightened.
template <class Real>
double Points<Real>::open_share() const {
    const std::size_t step = std::max<std::size_t>(1, n_ / std::min(sampled_rows, n_ / 32 + 1));
    std::size_t looked = 0, open = 0;
    for (std::size_t i = 0; i < n_; i += step, ++looked) {
        const auto own = static_cast<std::size_t>(labels_[i]);
        open += !(bounds_.upper(i, own) < bounds_.lower(i, own)) && !bounds_.nearby(i, own);
    }
    return static_cast<double>(open) / static_cast<double>(looked);
}

// Bounds pay if tightening the undecided points and screening those still undecided takes less time
// than screening all. Both times are measured during the run; the time of a step with bounds is
// taken to be proportional to the share of undecided points.
template <class Real>
bool Points<Real>::worth_bounding(double share) const {
    if (seconds_bounded_ < 0.0) return share < first_try;
    return seconds_bounded_ * (share + 0.1) < seconds_dense_ * (share_bounded_ + 0.1);
}

// What a step would take without groups.
template <class Real>
double Points<Real>::ungrouped_seconds(double share) const {
    if (seconds_bounded_ < 0.0) return seconds_dense_;
    return std::min(seconds_dense_, seconds_bounded_ * (share + 0.1) / (share_bounded_ + 0.1));
}

// Bounds are updated even if this step does not use them. Returns whether it may.
template <class Real>
bool Points<Real>::add_drifts(PackedCenters<Real>& centers, bool bounded) {
    centers.move_from(previous_.data(), bounded && !groups_ && 4 * centers.K <= n_);
    bounds_.add_drifts(centers);
    if (!groups_) return bounded;
    groups_->add_drifts(centers.drift);
    // Codes have no room for a bound that is added to a long path.
    const double room =
        65535.0 * static_cast<double>(coded_.unit) - largest_norm_ - centers.largest_norm();
    if (groups_->longest_path() <= room) return bounded;
    groups_->restart_paths();
    std::fill(coded_.values.begin(), coded_.values.end(), std::uint16_t{0});
    return false;
}

template <class Real>
void Points<Real>::note_time(double seconds, bool bounded, double share) {
    if (groups_) {
        // The first step with groups fills their bounds.
        seconds_grouped_ = waited_++ == 0 ? -1.0 : seconds;
    } else if (!bounded) {
        seconds_dense_ = seconds;
    } else {
        seconds_bounded_ = seconds;
        share_bounded_ = share;
    }
}

template <class Real>
Change Points<Real>::assign(const Real* rows, std::size_t K, bool bounded, const Forced& forced) {
    const bool first = labels_.empty() || previous_.size() != K * d_;
    double share = 1.0;
    if (first)
        begin(rows, K, bounded);
    else if (bounded)
        choose_grouping(rows, K);
    if (bounded) send_scout(rows, K);
    PackedCenters<Real> centers(rows, K, d_, frame_, version_, !groups_);
    if (groups_ && coded_.unit == 0.0f) {
        // Half as much again for the paths; larger bounds are clipped, which keeps them valid.
        const double range = 1.5 * (largest_norm_ + centers.largest_norm());
        coded_.unit = static_cast<float>(std::clamp(range / 65535.0, 0x1p-90, 0x1p90));
    }
    bounded = bounded && !first && centers.screenable;
    if (!first) {
        bounded = add_drifts(centers, bounded) && forced.count == 0;
        if (bounded && !groups_) {
            share = open_share();
            bounded = worth_bounding(share);
        }
    }
    if (groups_) {
        groups_->pack(rows, frame_, centers);
        // Costs as many screens as there are centers and may save more screens of points.
        if (bounded && 32 * K <= screened_)
            groups_->separate(frame_, centers, version_, n_threads_);
        else
            groups_->forget_separation();
    }
    if (!bounded) bounds_.check_all();

    const double looked_at = bounded ? 0.2 * static_cast<double>(K) : static_cast<double>(K);
    const double operations =
        static_cast<double>(n_) * (overhead_per_point + looked_at * static_cast<double>(d_));
    const std::size_t threads = worthwhile_threads(n_, operations, n_threads_);
    while (workers_.size() < threads) {
        if (groups_)
            workers_.push_back(std::make_unique<GroupWorker<Real>>(d_, *groups_, coded_));
        else
            workers_.push_back(std::make_unique<TileWorker<Real>>(version_, d_));
    }
    const Step<Real> step{X_,      n_,      d_,     weights_, version_, frame_, labels_.data(),
                          bounds_, centers, forced, first,    bounded};
    // Small enough that all threads end at about the same time, large enough to fill tiles.
    const std::size_t block = std::clamp(n_ / (4 * threads) / bounds_block * bounds_block,
                                         least_rows_per_block, most_rows_per_block);
    const auto started = std::chrono::steady_clock::now();
    std::atomic<std::size_t> next{0};
    over_rows(threads, threads, 1, [&](std::size_t thread, std::size_t, std::size_t) {
        // Threads take blocks as they become free, because bounds skip some blocks faster.
        for (;;) {
            const std::size_t begin = next.fetch_add(block);
            if (begin >= n_) break;
            workers_[thread]->block(step, begin, std::min(n_, begin + block));
        }
        workers_[thread]->finish(step);
    });
    previous_.assign(rows, rows + K * d_);

    Change total;
    for (std::size_t thread = 0; thread < threads; ++thread)
        workers_[thread]->merge_into(total);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
    note_time(elapsed.count(), bounded, share);
    screened_ = total.screened;
    return total;
}

template <class Real>
std::vector<std::int64_t> Points<Real>::near_ties(const Real* centers, std::size_t K,
                                                  double slack) const {
    const bool same =
        previous_.size() == K * d_ && std::equal(previous_.begin(), previous_.end(), centers);
    const double scaled = slack * static_cast<double>(frame_.factor);
    const double rounding = 0x1p-50 * static_cast<double>(d_ + 4);
    std::vector<std::int64_t> rows;
    for (std::size_t i = 0; i < n_; ++i) {
        if (same) {
            const auto own = static_cast<std::size_t>(labels_[i]);
            const auto u = static_cast<double>(bounds_.upper(i, own));
            const auto l = static_cast<double>(bounds_.lower(i, own));
            const double margin = rounding * (l + u) + 2.0 * scaled * (1.0 + scaled / l);
            if (l - u > margin) continue;
        }
        rows.push_back(static_cast<std::int64_t>(i));
    }
    return rows;
}

template class Points<float>;
template class Points<double>;

} // namespace wolfmeans
