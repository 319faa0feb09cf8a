#include "points.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>

#include "assign.hpp"
#include "exact_sum.hpp"
#include "packed_centers.hpp"
#include "scan.hpp"
#include "threads.hpp"
#include "vector_unit.hpp"

namespace wolfmeans {
namespace {

// A strict comparison of bounds must hold for canonical distances too, whose relative rounding,
// (d + 3) 2^-53, is far below this for every d that fits into memory.
constexpr float strictly = 1.0f + 0x1p-20f;
constexpr std::size_t packed_bytes = std::size_t{1} << 18;
constexpr std::size_t rows_per_block = 2048;
constexpr std::size_t sampled_rows = 512;
constexpr double worth_pruning = 0.7;
constexpr double overhead_per_point = 100.0; // in coordinate operations: bounds, packing, verdict

template <class Real>
Distance<Real>* distance_of(const ScreenVersion& version) {
    if constexpr (std::is_same_v<Real, float>)
        return version.distance_float;
    else
        return version.distance_double;
}

} // namespace

template <class Real>
Points<Real>::Points(const Real* X, std::size_t n, std::size_t d, const double* weights,
                     int n_threads)
    : X_(X), n_(n), d_(d), weights_(weights), n_threads_(n_threads), version_(best_screen()),
      frame_{std::vector<Real>(d), 1} {
    const std::size_t step = std::max<std::size_t>(1, n / 1024);
    std::vector<double> sum(d, 0.0);
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += step, ++count)
        for (std::size_t j = 0; j < d; ++j)
            sum[j] += static_cast<double>(X[i * d + j]);
    for (std::size_t j = 0; j < d; ++j)
        frame_.origin[j] =
            static_cast<Real>(sum[j] / static_cast<double>(std::max<std::size_t>(1, count)));
    // A sample is enough for the factor: should a point outside it be so far out that its scores
    // overflow, they decide nothing and the point is rechecked canonically.
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
}

// Look at a few points: bounds pay when they skip a good part of them.
template <class Real>
bool Points<Real>::worth_bounding(const PackedCenters<Real>& centers) const {
    const std::size_t step = std::max<std::size_t>(1, n_ / sampled_rows);
    std::size_t looked = 0, survived = 0;
    for (std::size_t i = 0; i < n_; i += step, ++looked) {
        const auto own = static_cast<std::size_t>(labels_[i]);
        const float bound =
            std::max(lower_[i] - centers.drift_of_others(own), centers.half_separation[own]);
        survived += !((upper_[i] + centers.drift[own]) * strictly < bound);
    }
    return static_cast<double>(survived) < worth_pruning * static_cast<double>(looked);
}

// One thread's share of an assignment: blocks of rows as they come, and scratch for them.
template <class Real>
class Points<Real>::Worker {
public:
    Worker(Points& points, const PackedCenters<Real>& centers, bool first, bool bounded,
           const Forced& forced)
        : points_(points), centers_(centers), first_(first), bounded_(bounded), forced_(forced),
          tile_(static_cast<std::size_t>(points.version_.tile_points)),
          capacity_(std::clamp(packed_bytes / (sizeof(float) * std::max<std::size_t>(1, points.d_)),
                               tile_, rows_per_block) /
                    tile_ * tile_),
          packed_(capacity_ * points.d_), norms_(capacity_), best_(capacity_), second_(capacity_),
          label_(capacity_), transposed_(points.d_ * group_size + 8) {
        pending_.reserve(capacity_);
    }

    void block(std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            if (bounded_ && skipped(i)) continue;
            pending_.push_back(i);
            if (pending_.size() == capacity_) screen_pending();
        }
    }

    void finish() {
        screen_pending();
        recheck_doubtful();
        sum_gap();
    }

    Change change;
    ExactSum gap;

private:
    // Whether the bounds prove that the label of point i cannot change.
    bool skipped(std::size_t i) {
        const auto own = static_cast<std::size_t>(points_.labels_[i]);
        float& upper = points_.upper_[i];
        float& lower = points_.lower_[i];
        // Each operation rounds by 2^-24 at most; the factors more than make up for it.
        upper = (upper + centers_.drift[own]) * (1.0f + 0x1p-22f);
        lower = (lower - centers_.drift_of_others(own)) * (1.0f - 0x1p-22f);
        if (lower < 0.0f) lower = 0.0f;
        const float bound = std::max(lower, centers_.half_separation[own]);
        if (upper * strictly < bound) return true;
        const double d = static_cast<double>(points_.d_);
        const double squared = distance_of<Real>(points_.version_)(
            points_.X_ + i * points_.d_, centers_.rows + own * points_.d_, points_.frame_.factor,
            static_cast<long long>(points_.d_));
        upper = root_up(squared * (1.0 + 2.0 * screen_unit * (d + 4)));
        return upper * strictly < bound;
    }

    void screen_pending() {
        if (pending_.empty()) return;
        const std::size_t count = pending_.size();
        const std::size_t tiles = (count + tile_ - 1) / tile_;
        const auto d = static_cast<long long>(points_.d_);
        change.screened += count;
        if (!centers_.screenable) {
            for (std::size_t q = 0; q < count; ++q)
                doubt(pending_[q]);
            pending_.clear();
            return;
        }
        const Real* rows[most_tile_points];
        for (std::size_t t = 0; t < tiles; ++t) {
            for (std::size_t p = 0; p < tile_; ++p)
                rows[p] = points_.X_ + pending_[std::min(t * tile_ + p, count - 1)] * points_.d_;
            pack_of<Real>(points_.version_)(
                rows, points_.frame_.origin.data(), points_.frame_.factor, d,
                packed_.data() + t * tile_ * points_.d_, norms_.data() + t * tile_);
        }
        std::fill_n(best_.data(), tiles * tile_, 2 * screen_huge);
        std::fill_n(second_.data(), tiles * tile_, 2 * screen_huge);
        points_.version_.screen(packed_.data(), static_cast<long long>(tiles),
                                centers_.packed.data(), centers_.half_norms.data(), d,
                                static_cast<long long>(centers_.half_norms.size()),
                                {best_.data(), second_.data(), label_.data()});
        for (std::size_t q = 0; q < count; ++q)
            judge(pending_[q], q);
        pending_.clear();
    }

    // Take the screen's label when its score wins by more than both may be off.
    void judge(std::size_t i, std::size_t q) {
        const double square = static_cast<double>(norms_[q]);
        const double norm_error = screen_unit * static_cast<double>(points_.d_ + 4) * square;
        const double norm = std::sqrt(square + norm_error);
        const double error = centers_.error(norm);
        const double best = static_cast<double>(best_[q]);
        const double second = static_cast<double>(second_[q]);
        if (!(second - best > 2.0 * error)) {
            doubt(i);
            return;
        }
        const double slack = 2.0 * error + norm_error;
        settle(i, label_[q], root_up(square + 2.0 * best + slack),
               root_down(square + 2.0 * second - slack));
    }

    void doubt(std::size_t i) {
        doubtful_.push_back(i);
        if (doubtful_.size() == group_size) recheck_doubtful();
    }

    // Decide up to group_size points by their canonical distances to all centers.
    void recheck_doubtful() {
        const std::size_t count = doubtful_.size();
        if (count == 0) return;
        change.rechecked += count;
        const std::size_t d = points_.d_;
        void* start = transposed_.data();
        std::size_t space = transposed_.size() * sizeof(double);
        auto* points =
            static_cast<double*>(std::align(64, d * group_size * sizeof(double), start, space));
        for (std::size_t p = 0; p < group_size; ++p) {
            const Real* row = points_.X_ + doubtful_[std::min(p, count - 1)] * d;
            for (std::size_t j = 0; j < d; ++j)
                points[j * group_size + p] = static_cast<double>(row[j]);
        }
        GroupState state;
        std::fill_n(state.nearest, group_size, std::numeric_limits<double>::infinity());
        std::fill_n(state.second, group_size, std::numeric_limits<double>::infinity());
        std::fill_n(state.label, group_size, 0);
        best_scan().two_nearest(points, centers_.doubles.data(), static_cast<long long>(d), 0,
                                static_cast<long long>(centers_.K), state);
        const double factor = static_cast<double>(points_.frame_.factor);
        const double relative = 0x1p-52 * static_cast<double>(d + 4);
        for (std::size_t p = 0; p < count; ++p)
            settle(doubtful_[p], static_cast<int>(state.label[p]),
                   root_up(state.nearest[p] * (1.0 + relative) * factor * factor),
                   root_down(std::min(state.second[p], 0x1p1000) * (1.0 - relative) * factor *
                             factor));
        doubtful_.clear();
    }

    void settle(std::size_t i, int nearest, float upper, float lower) {
        std::int32_t label = nearest;
        for (std::size_t f = 0; f < forced_.count; ++f) {
            if (forced_.rows[f] != static_cast<std::int64_t>(i)) continue;
            label = forced_.labels[f];
            // Bounds that promise nothing: the next assignment looks at this point again.
            upper = std::numeric_limits<float>::infinity();
            lower = 0.0f;
        }
        points_.upper_[i] = upper;
        points_.lower_[i] = lower;
        const std::int32_t old = points_.labels_[i];
        points_.labels_[i] = label;
        if (first_ || old == label) return;
        change.rows.push_back(static_cast<std::int64_t>(i));
        change.old.push_back(old);
        change.now.push_back(label);
    }

    // The gap's terms w (D_old - D_new), from canonical distances, each rounded as specified.
    void sum_gap() {
        constexpr std::size_t together = 4;
        std::size_t m = 0;
        for (; m + together <= change.rows.size(); m += together)
            gap_terms<together>(m);
        for (; m < change.rows.size(); ++m)
            gap_terms<1>(m);
    }

    // The terms of `Moves` moves from the m-th on; several at once, because the sum of one alone
    // would wait for each addition before it can start the next.
    template <std::size_t Moves>
    void gap_terms(std::size_t m) {
        const std::size_t d = points_.d_;
        const Real* x[Moves];
        const double *before[Moves], *after[Moves];
        double old[Moves] = {}, now[Moves] = {};
        for (std::size_t q = 0; q < Moves; ++q) {
            const auto i = static_cast<std::size_t>(change.rows[m + q]);
            const double* centers = centers_.doubles.data();
            x[q] = points_.X_ + i * d;
            before[q] = centers + static_cast<std::size_t>(change.old[m + q]) * d;
            after[q] = centers + static_cast<std::size_t>(points_.labels_[i]) * d;
        }
        for (std::size_t j = 0; j < d; ++j) {
            for (std::size_t q = 0; q < Moves; ++q) {
                const auto coordinate = static_cast<double>(x[q][j]);
                const double from = coordinate - before[q][j], to = coordinate - after[q][j];
                old[q] = old[q] + from * from;
                now[q] = now[q] + to * to;
            }
        }
        for (std::size_t q = 0; q < Moves; ++q) {
            const auto i = static_cast<std::size_t>(change.rows[m + q]);
            const double term = old[q] - now[q];
            gap.add(points_.weights_ ? points_.weights_[i] * term : term);
        }
    }

    Points& points_;
    const PackedCenters<Real>& centers_;
    bool first_, bounded_;
    const Forced& forced_;
    std::size_t tile_, capacity_;
    AlignedFloats packed_;
    std::vector<float> norms_, best_, second_;
    std::vector<int> label_;
    std::vector<double> transposed_;
    std::vector<std::size_t> pending_, doubtful_;
};

template <class Real>
Change Points<Real>::assign(const Real* rows, std::size_t K, bool bounded, const Forced& forced) {
    const bool first = labels_.empty();
    PackedCenters<Real> centers(rows, K, d_, frame_, version_);
    if (first) {
        labels_.assign(n_, -1);
        upper_.resize(n_);
        lower_.resize(n_);
    }
    bounded = bounded && !first && previous_.size() == K * d_ && centers.screenable;
    if (bounded) {
        centers.move_from(previous_.data(), 4 * K <= n_);
        bounded = worth_bounding(centers);
    }
    for (std::size_t f = 0; f < forced.count; ++f)
        upper_[static_cast<std::size_t>(forced.rows[f])] = std::numeric_limits<float>::infinity();

    const double looked_at = bounded ? 0.2 * static_cast<double>(K) : static_cast<double>(K);
    const double operations =
        static_cast<double>(n_) * (overhead_per_point + looked_at * static_cast<double>(d_));
    const std::size_t threads = worthwhile_threads(n_, operations, n_threads_);
    std::vector<std::unique_ptr<Worker>> workers(threads);
    std::atomic<std::size_t> next{0};
    over_rows(threads, threads, 1, [&](std::size_t thread, std::size_t, std::size_t) {
        workers[thread] = std::make_unique<Worker>(*this, centers, first, bounded, forced);
        // Blocks are handed out as threads come for them, because bounds skip some faster.
        for (;;) {
            const std::size_t begin = next.fetch_add(rows_per_block);
            if (begin >= n_) break;
            workers[thread]->block(begin, std::min(n_, begin + rows_per_block));
        }
        workers[thread]->finish();
    });
    previous_.assign(rows, rows + K * d_);

    Change total = std::move(workers[0]->change);
    for (std::size_t thread = 1; thread < threads; ++thread) {
        const Change& part = workers[thread]->change;
        total.rows.insert(total.rows.end(), part.rows.begin(), part.rows.end());
        total.old.insert(total.old.end(), part.old.begin(), part.old.end());
        total.now.insert(total.now.end(), part.now.begin(), part.now.end());
        total.screened += part.screened;
        total.rechecked += part.rechecked;
        workers[0]->gap.merge(workers[thread]->gap);
    }
    total.gap = workers[0]->gap.rounded();
    return total;
}

template class Points<float>;
template class Points<double>;

} // namespace wolfmeans
