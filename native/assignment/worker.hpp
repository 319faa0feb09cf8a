// One thread's share of an assignment (points.hpp): the part that both kinds of screening share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "assignment/bounds.hpp"
#include "assignment/change.hpp"
#include "assignment/group.hpp"
#include "assignment/packed_centers.hpp"
#include "exact/exact_sum.hpp"
#include "kernels/exact/scan.hpp"
#include "kernels/fused/screen.hpp"
#include "runtime/interrupts.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {

// Rows handed out at once; a multiple of bounds_block.
inline constexpr std::size_t least_rows_per_block = 256, most_rows_per_block = 2048;

// The points that workers share, and one step of them.
template <class Real>
struct Step {
    const Real* X;
    std::size_t n, d;
    const double* weights;
    const ScreenVersion& version;
    const Frame<Real>& frame;
    std::int32_t* labels;
    Bounds& bounds;
    const PackedCenters<Real>& centers;
    const Forced& forced;
    bool first;   // whether these are the first labels
    bool bounded; // whether bounds may skip points

    const Real* row(std::size_t i) const { return X + i * d; }
    std::size_t label(std::size_t i) const { return static_cast<std::size_t>(labels[i]); }

    // Bounds of the distance of point i to its own center, squared and scaled.
    double own_square(std::size_t i) const {
        const Real* center = centers.rows + label(i) * d;
        return static_cast<double>(
            version.of<Real>().distance(row(i), center, frame.factor, static_cast<long long>(d)));
    }
    double own_rounding() const { return centers.distance_rounding(); }
};

template <class Real>
class Worker {
public:
    virtual ~Worker() = default;

    // Take the rows begin..end-1; begin is a multiple of bounds_block.
    virtual void block(const Step<Real>& step, std::size_t begin, std::size_t end) = 0;

    void finish(const Step<Real>& step) {
        flush(step);
        recheck_undecided(step);
        sum_gap(step);
    }

    // Append the result to a total and start anew.
    void merge_into(Change& total) {
        total.append(change_);
        change_.clear();
    }

protected:
    // Screen the pending rows.

    virtual void flush(const Step<Real>& step) = 0;

    // Call visit(i) for the rows of a block that the bounds do not decide.
    template <class Visit>
    void over_open_rows(const Step<Real>& step, std::size_t begin, std::size_t end,
                        const Visit& visit) {
        Bounds& bounds = step.bounds;
        const float total_drift = bounds.total_drift();
        for (std::size_t i = begin; i < end; i += bounds_block) {
            const std::size_t block = i / bounds_block;
            if (total_drift < bounds.check_at()[block]) continue;
            float spare[bounds_block];
            const float least =
                step.version.spare(step.labels + i, bounds.slack(i), bounds.spent(), spare);
            bounds.skip_block(block, least);
            if (least > 0.0f) continue;
            for (std::size_t p = 0; p < bounds_block && i + p < end; ++p)
                if (!(spare[p] > 0.0f)) visit(i + p);
        }
    }

    void recheck_later(const Step<Real>& step, std::size_t i) {
        undecided_.push_back(i);
        if (undecided_.size() == group_size) recheck_undecided(step);
    }

    void set_label(const Step<Real>& step, std::size_t i, std::int32_t label, float upper,
                   float lower) {
        const std::int32_t old = step.labels[i];
        step.bounds.set(i, static_cast<std::size_t>(label), upper, lower);
        if (step.forced.count > 0) label = forced_label(step, i, label);
        step.labels[i] = label;
        if (step.first || old == label) return;
        change_.record(i, old, label);
    }

    Change change_;

private:
    static std::int32_t forced_label(const Step<Real>& step, std::size_t i, std::int32_t label) {
        for (std::size_t f = 0; f < step.forced.count; ++f) {
            if (step.forced.rows[f] != static_cast<std::int64_t>(i)) continue;
            step.bounds.forget(i);
            label = step.forced.labels[f];
        }
        return label;
    }

    // Decide up to group_size points by their canonical distances to all centers.
    void recheck_undecided(const Step<Real>& step) {
        const std::size_t count = undecided_.size();
        if (count == 0) return;
        change_.rechecked += count;
        const std::size_t d = step.d;
        counter_.add(static_cast<double>(group_size * step.centers.K * d));
        transposed_.resize(d * group_size);
        transpose_group(
            d, [&](std::size_t p) { return step.row(undecided_[std::min(p, count - 1)]); },
            transposed_.data());
        GroupState state = unscanned();
        best_kernels().scan->two_nearest(transposed_.data(), step.centers.doubles.data(),
                                         static_cast<long long>(d), 0,
                                         static_cast<long long>(step.centers.K), state);
        const double factor = static_cast<double>(step.frame.factor);
        const double relative = 0x1p-52 * static_cast<double>(d + 4);
        for (std::size_t p = 0; p < count; ++p)
            set_label(step, undecided_[p], static_cast<std::int32_t>(state.label[p]),
                      root_up(state.nearest[p] * (1.0 + relative) * factor * factor),
                      root_down(std::min(state.second[p], 0x1p1000) * (1.0 - relative) * factor *
                                factor));
        undecided_.clear();
    }

    // The gap's terms w (D_old - D_new), from canonical distances, each rounded as specified.
    void sum_gap(const Step<Real>& step) {
        const auto& pairs = best_kernels().scan->of<Real>();
        const double* const centers = step.centers.doubles.data();
        const Real* rows[group_size];
        const double *before[group_size], *after[group_size];
        double old[group_size], now[group_size];
        for (std::size_t m = 0; m < change_.rows.size(); m += group_size) {
            const std::size_t count = std::min<std::size_t>(group_size, change_.rows.size() - m);
            for (std::size_t q = 0; q < count; ++q) {
                rows[q] = step.row(static_cast<std::size_t>(change_.rows[m + q]));
                before[q] = centers + static_cast<std::size_t>(change_.old[m + q]) * step.d;
                after[q] = centers + static_cast<std::size_t>(change_.now[m + q]) * step.d;
            }
            pairs.two(rows, before, after, static_cast<long long>(step.d), static_cast<int>(count),
                      old, now);
            for (std::size_t q = 0; q < count; ++q) {
                const auto i = static_cast<std::size_t>(change_.rows[m + q]);
                const double term = old[q] - now[q];
                change_.gap.add(step.weights ? step.weights[i] * term : term);
            }
        }
    }

    WorkCounter counter_;
    Aligned<double> transposed_;
    std::vector<std::size_t> undecided_;
};

} // namespace wolfmeans
