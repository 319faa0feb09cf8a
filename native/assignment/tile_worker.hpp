// Few coordinates: one bound for all other centers. Undecided rows are packed into tiles and
// screened against all centers; lanes are points (screen.hpp).
#pragma once

#include "assignment/worker.hpp"

namespace wolfmeans {

template <class Real>
class TileWorker final : public Worker<Real> {
public:
    TileWorker(const ScreenVersion& version, std::size_t d)
        : tile_(static_cast<std::size_t>(version.tile_points)),
          capacity_(std::clamp(packed_bytes / (sizeof(float) * std::max<std::size_t>(1, d)), tile_,
                               most_rows_per_block) /
                    tile_ * tile_),
          packed_(capacity_ * d), squares_(capacity_), best_(capacity_), second_(capacity_),
          upper_(capacity_), lower_(capacity_), label_(capacity_) {
        pending_.reserve(capacity_);
    }

    void block(const Step<Real>& step, std::size_t begin, std::size_t end) override {
        if (!step.bounded) {
            for (std::size_t i = begin; i < end; ++i)
                push(step, i);
            return;
        }
        // Row numbers within the block's points, which may lie beyond 2^32.
        const Real* const X = step.row(begin);
        open_.clear();
        this->over_open_rows(step, begin, end, [&](std::size_t i) {
            open_.push_back(static_cast<unsigned>(i - begin));
        });
        const auto view =
            step.bounds.view(X, step.centers, step.frame.factor, step.labels + begin, begin);
        const long long count = step.version.template of<Real>().tighten(
            view, open_.data(), static_cast<long long>(open_.size()));
        for (long long q = 0; q < count; ++q)
            push(step, begin + open_[static_cast<std::size_t>(q)]);
    }

private:
    static constexpr std::size_t packed_bytes = std::size_t{1} << 18;

    void push(const Step<Real>& step, std::size_t i) {
        pending_.push_back(i);
        if (pending_.size() == capacity_) flush(step);
    }

    void flush(const Step<Real>& step) override {
        if (pending_.empty()) return;
        check_interrupt();
        const std::size_t count = pending_.size();
        const std::size_t tiles = (count + tile_ - 1) / tile_;
        const auto d = static_cast<long long>(step.d);
        this->change_.screened += count;
        if (!step.centers.screenable) {
            for (const std::size_t i : pending_)
                this->recheck_later(step, i);
            pending_.clear();
            return;
        }
        const Real* rows[most_tile_points];
        for (std::size_t t = 0; t < tiles; ++t) {
            for (std::size_t p = 0; p < tile_; ++p)
                rows[p] = step.row(pending_[std::min(t * tile_ + p, count - 1)]);
            step.version.template of<Real>().pack(rows, step.frame.origin.data(), step.frame.factor,
                                                  d, packed_.data() + t * tile_ * step.d,
                                                  squares_.data() + t * tile_);
        }
        std::fill_n(best_.data(), tiles * tile_, 2 * screen_huge);
        std::fill_n(second_.data(), tiles * tile_, 2 * screen_huge);
        step.version.screen(packed_.data(), static_cast<long long>(tiles),
                            step.centers.packed.data(), step.centers.half_norms.data(), d,
                            static_cast<long long>(step.centers.half_norms.size()),
                            {best_.data(), second_.data(), label_.data()});
        step.version.verdict(squares_.data(), best_.data(), second_.data(),
                             static_cast<long long>(count), step.centers.error_terms(),
                             upper_.data(), lower_.data());
        for (std::size_t q = 0; q < count; ++q) {
            if (lower_[q] >= 0.0f)
                this->set_label(step, pending_[q], label_[q], upper_[q], lower_[q]);
            else
                this->recheck_later(step, pending_[q]);
        }
        pending_.clear();
    }

    std::size_t tile_, capacity_;
    Aligned<float> packed_;
    std::vector<float> squares_, best_, second_, upper_, lower_;
    std::vector<int> label_;
    std::vector<std::size_t> pending_;
    std::vector<unsigned> open_;
};

} // namespace wolfmeans
