#include "sparse/sparse_points.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <unordered_map>

#include "exact/exact_sum.hpp"
#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

// A strict comparison of bounds must hold for canonical distances too, whose relative rounding,
// (d + 5) 2^-53, is far below this for every d that fits into memory.
constexpr float strictly = 1.0f + 0x1p-20f;
constexpr std::size_t rows_per_block = 512;
constexpr std::size_t sampled_rows = 512;
constexpr double worth_pruning = 0.8;
constexpr double worth_of_bounds =
    0.3; // of the cost of all rows: the rows that bounds do not decide

using ForcedLabels = std::unordered_map<std::int64_t, std::int32_t>;

} // namespace

template <class Real>
SparsePoints<Real>::SparsePoints(const SparseRows<Real>& rows, const double* weights, int n_threads)
    : rows_(rows), weights_(weights), n_threads_(n_threads) {}

// Whether a row with these bounds keeps its label. With l > u (1 + 2^-20) + a there is more than
// 2^-20 l^2 + a^2 between the squares, and a^2 is more than twice what two canonical distances can
// be off by beyond the relative part.
template <class Real>
bool SparsePoints<Real>::cannot_change(float upper, float lower) const {
    return upper * strictly + apart_ < lower;
}

// Bounds pay if they skip a good part of a sample of rows.
template <class Real>
bool SparsePoints<Real>::worth_bounding() const {
    const std::size_t step = std::max<std::size_t>(1, rows_.n() / sampled_rows);
    std::size_t looked = 0, survived = 0;
    for (std::size_t i = 0; i < rows_.n(); i += step, ++looked) {
        const auto own = static_cast<std::size_t>(labels_[i]);
        survived += !cannot_change(upper_[i] + centers_->drift(own),
                                   lower_[i] - centers_->drift_of_others(own));
    }
    return static_cast<double>(survived) < worth_pruning * static_cast<double>(looked);
}

// One thread's share of an assignment, with its scratch memory.
template <class Real>
class SparsePoints<Real>::Worker {
public:
    Worker(SparsePoints& points, bool first, bool bounded, const ForcedLabels& forced)
        : points_(points), rows_(points.rows_), centers_(*points.centers_), first_(first),
          bounded_(bounded), forced_(forced), screen_(rows_, centers_) {}

    void block(std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            if (bounded_ && skipped(i)) continue;
            counter_.add(static_cast<double>((rows_.row(i).count + 1) * centers_.K()));
            const auto verdict = screen_.nearest(i);
            ++change.screened;
            change.rechecked += !verdict.decided;
            settle(i, verdict.label, root_up(verdict.upper), root_down(verdict.lower));
        }
    }

    // The gap's terms w (D_old - D_new), from canonical distances, each rounded as specified.
    void sum_gap() {
        constexpr std::size_t moves_at_once = 64;
        SparsePair<Real> pairs[2 * moves_at_once];
        double distance[2 * moves_at_once];
        for (std::size_t m = 0; m < change.rows.size(); m += moves_at_once) {
            const std::size_t count = std::min(moves_at_once, change.rows.size() - m);
            for (std::size_t q = 0; q < count; ++q) {
                const auto i = static_cast<std::size_t>(change.rows[m + q]);
                pairs[2 * q] = centers_.pair(i, static_cast<std::size_t>(change.old[m + q]));
                pairs[2 * q + 1] = centers_.pair(i, static_cast<std::size_t>(change.now[m + q]));
            }
            canonical_distances(pairs, 2 * count, distance, centers_.exact());
            for (std::size_t q = 0; q < count; ++q) {
                const auto i = static_cast<std::size_t>(change.rows[m + q]);
                const double term = distance[2 * q] - distance[2 * q + 1];
                change.gap.add(points_.weights_ ? points_.weights_[i] * term : term);
            }
        }
    }

    Change change;

private:
    // Whether the bounds prove that the label of row i cannot change.
    bool skipped(std::size_t i) {
        const auto own = static_cast<std::size_t>(points_.labels_[i]);
        float& upper = points_.upper_[i];
        float& lower = points_.lower_[i];
        // Each operation rounds by 2^-24 at most; the factors more than make up for it.
        upper = (upper + centers_.drift(own)) * (1.0f + 0x1p-22f);
        lower = (lower - centers_.drift_of_others(own)) * (1.0f - 0x1p-22f);
        if (lower < 0.0f) lower = 0.0f;
        if (points_.cannot_change(upper, lower)) return true;
        if (!std::isfinite(upper)) return false;
        // |x - c|^2 = |x|^2 + |c|^2 - 2 x.c, in float64.
        const SparseRow<Real> row = rows_.row(i);
        const Real* const center = centers_.center(own);
        const double square = rows_.square(i), factor = rows_.factor();
        const double norm = std::sqrt(square) * (1.0 + 0x1p-20);
        double product = 0.0;
        for (std::size_t e = 0; e < row.count; ++e)
            product += (static_cast<double>(row.values[e]) * factor) *
                       (static_cast<double>(center[row.columns[e]]) * factor);
        const double squared = (square + centers_.square(own)) - 2.0 * product;
        upper = std::min(upper, root_up(squared + centers_.cancellation(norm)));
        return points_.cannot_change(upper, lower);
    }

    void settle(std::size_t i, std::int32_t label, float upper, float lower) {
        if (!forced_.empty()) {
            const auto forced = forced_.find(static_cast<std::int64_t>(i));
            if (forced != forced_.end()) {
                label = forced->second;
                // Trivial bounds: the next assignment checks this row again.
                upper = std::numeric_limits<float>::infinity();
                lower = 0.0f;
            }
        }
        points_.upper_[i] = upper;
        points_.lower_[i] = lower;
        const std::int32_t old = points_.labels_[i];
        points_.labels_[i] = label;
        if (first_ || old == label) return;
        change.record(i, old, label);
    }

    SparsePoints& points_;
    const SparseRows<Real>& rows_;
    const SparseCenters<Real>& centers_;
    bool first_, bounded_;
    const ForcedLabels& forced_;
    RowScreen<Real> screen_;
    WorkCounter counter_;
};

template <class Real>
Change SparsePoints<Real>::assign(const Real* centers, std::size_t K, bool bounded,
                                  const Forced& forced) {
    const std::size_t n = rows_.n();
    const bool first = labels_.empty();
    if (first) {
        centers_.emplace(rows_, K);
        labels_.assign(n, -1);
        upper_.resize(n);
        lower_.resize(n);
    }
    centers_->move_to(centers, n_threads_);
    apart_ = root_up(4.0 * centers_->absolute_error());
    bounded = bounded && !first && centers_->screenable() && worth_bounding();
    ForcedLabels forced_labels;
    for (std::size_t f = 0; f < forced.count; ++f) {
        forced_labels[forced.rows[f]] = forced.labels[f];
        upper_[static_cast<std::size_t>(forced.rows[f])] = std::numeric_limits<float>::infinity();
    }

    const double operations =
        rows_.operations((bounded ? worth_of_bounds : 1.0) * static_cast<double>(K));
    const std::size_t threads = worthwhile_threads(n, operations, n_threads_);
    std::vector<std::unique_ptr<Worker>> workers(threads);
    std::atomic<std::size_t> next{0};
    over_rows(threads, threads, 1, [&](std::size_t thread, std::size_t, std::size_t) {
        workers[thread] = std::make_unique<Worker>(*this, first, bounded, forced_labels);
        // Threads take blocks as they become free, because bounds skip some blocks faster.
        for (;;) {
            const std::size_t begin = next.fetch_add(rows_per_block);
            if (begin >= n) break;
            workers[thread]->block(begin, std::min(n, begin + rows_per_block));
        }
        workers[thread]->sum_gap();
    });

    Change total = std::move(workers[0]->change);
    for (std::size_t thread = 1; thread < threads; ++thread)
        total.append(workers[thread]->change);
    return total;
}

template class SparsePoints<float>;
template class SparsePoints<double>;

} // namespace wolfmeans
