// Many coordinates: a bound for each group of neighbouring centers. An undecided row is screened
// only against the groups that may hold its nearest center. Lanes are centers (GroupScreen in
// screen.hpp), so each row has its own set of groups.
#pragma once

#include "assignment/center_groups.hpp"
#include "assignment/worker.hpp"

namespace wolfmeans {

template <class Real>
class GroupWorker final : public Worker<Real> {
public:
    GroupWorker(std::size_t d, const CenterGroups& groups, CodedBounds& bounds)
        : groups_(groups), bounds_(bounds), stride_((d + 15) / 16 * 16),
          capacity_(std::clamp(batch_bytes / (sizeof(float) * stride_), std::size_t{16},
                               std::size_t{256})),
          rows_(capacity_ * stride_), needed_((capacity_ + 1) * groups.n_bounds()),
          points_(capacity_), best_(capacity_), second_(capacity_), lane_(capacity_),
          member_rows_(capacity_), members_(capacity_), squares_(capacity_), off_(capacity_),
          rivals_(capacity_), codes_(capacity_) {}

    void block(const Step<Real>& step, std::size_t begin, std::size_t end) override {
        if (step.first || !step.bounded) {
            for (std::size_t i = begin; i < end; ++i) {
                std::fill_n(next_needed(), groups_.n_bounds(), 1);
                push(step, {i, 0.0, false});
            }
        } else {
            this->over_open_rows(step, begin, end, [&](std::size_t i) { check_row(step, i); });
        }
    }

private:
    static constexpr std::size_t batch_bytes = std::size_t{1} << 18;
    static constexpr float nothing = 0x1p126f;

    // A row in the batch and what its screening has found so far.
    struct Pending {
        std::size_t i;
        double own; // squared scaled distance to its own center, unless these are first labels
        bool has_own;
        float best = nothing;   // the best score, that of center `label`
        float second = nothing; // the best of all other scores
        float beside = nothing; // the best of the others that share a bound with the best
        std::int32_t label = -1;
    };

    unsigned char* next_needed() { return needed_.data() + count_ * groups_.n_bounds(); }
    std::uint16_t* bounds_of(std::size_t i) {
        return bounds_.values.data() + i * groups_.n_bounds();
    }

    float compare(const Step<Real>& step, std::size_t i, std::size_t label, float upper,
                  unsigned char* needed) {
        return step.version.needs(bounds_of(i), groups_.paths(), groups_.separation(label),
                                  static_cast<long long>(groups_.n_bounds()), bounds_.unit, upper,
                                  needed);
    }

    // Try the bounds of the groups first as they are, then with the distance to the own center.
    void check_row(const Step<Real>& step, std::size_t i) {
        const std::size_t label = step.label(i);
        float upper = step.bounds.upper(i, label);
        float lower = compare(step, i, label, upper, next_needed());
        if (!(lower > upper)) {
            const double own = step.own_square(i);
            upper = root_up(own * (1.0 + step.own_rounding()));
            lower = compare(step, i, label, upper, next_needed());
            if (!(lower > upper)) {
                push(step, {i, own, true});
                return;
            }
        }
        step.bounds.set(i, label, upper, std::max(lower, 0.0f));
    }

    void push(const Step<Real>& step, const Pending& row) {
        points_[count_] = row;
        if (++count_ == capacity_) flush(step);
    }

    void flush(const Step<Real>& step) override {
        if (count_ == 0) return;
        this->change_.screened += count_;
        shift_rows(step);
        for (std::size_t b = 0; b < groups_.n_bounds(); ++b) {
            check_interrupt();
            screen_bound(step, b);
        }
        for (std::size_t q = 0; q < count_; ++q)
            decide(step, q);
        count_ = 0;
    }

    void shift_rows(const Step<Real>& step) {
        const auto d = static_cast<long long>(step.d);
        const ErrorTerms error = step.centers.error_terms();
        for (std::size_t q = 0; q < count_; ++q) {
            float* const to = rows_.data() + q * stride_;
            const Real* const row = step.row(points_[q].i);
            const Real* const origin = step.frame.origin.data();
            const float square =
                step.version.template of<Real>().shift(row, origin, step.frame.factor, d, to);
            const float norm = std::sqrt(square * (1.0f + error.norm)) * (1.0f + 0x1p-20f);
            squares_[q] = square;
            rivals_[q] = 2.0f * (error.constant + norm * (error.linear + norm * error.square));
            off_[q] = (rivals_[q] + square * error.norm) * (1.0f + 0x1p-20f);
            // Rows so far out that scores could overflow are rechecked canonically.
            if (!(square < screen_huge) || !step.centers.screenable)
                std::fill_n(needed_.data() + q * groups_.n_bounds(), groups_.n_bounds(), 0);
        }
    }

    // Screen the rows that need it against the groups that share bound b.
    void screen_bound(const Step<Real>& step, std::size_t b) {
        std::size_t count = 0;
        for (std::size_t q = 0; q < count_; ++q) {
            members_[count] = q;
            member_rows_[count] = rows_.data() + q * stride_;
            count += needed_[q * groups_.n_bounds() + b];
        }
        if (count == 0) return;
        this->change_.compared += count;
        std::fill_n(best_.data(), count, nothing);
        std::fill_n(second_.data(), count, nothing);
        const std::size_t begin = b * groups_.together();
        const std::size_t end = std::min(groups_.n_groups(), begin + groups_.together());
        for (std::size_t g = begin; g < end; ++g)
            step.version.group(member_rows_.data(), static_cast<long long>(count),
                               groups_.packed(g), groups_.half_norms(g),
                               static_cast<long long>(step.d),
                               static_cast<int>((g - begin) * group_width),
                               {best_.data(), second_.data(), lane_.data()});
        for (std::size_t m = 0; m < count; ++m) {
            Pending& row = points_[members_[m]];
            if (best_[m] < row.best) {
                row.second = std::min({row.second, row.best, second_[m]});
                row.best = best_[m];
                row.beside = second_[m];
                row.label = groups_.center(begin, lane_[m]);
            } else {
                row.second = std::min(row.second, best_[m]);
            }
        }
        encode(step, b, count);
    }

    // Write bound b of the members from their best scores in it.
    void encode(const Step<Real>& step, std::size_t b, std::size_t count) {
        for (std::size_t begin = 0; begin < count; begin += chunk) {
            const std::size_t size = std::min(chunk, count - begin);
            for (std::size_t m = 0; m < size; ++m) {
                packed_squares_[m] = squares_[members_[begin + m]];
                packed_off_[m] = off_[members_[begin + m]];
            }
            step.version.encode(packed_squares_, packed_off_, best_.data() + begin,
                                static_cast<long long>(size), float_down(groups_.path(b)),
                                1.0f / bounds_.unit, codes_.data());
            for (std::size_t m = 0; m < size; ++m)
                bounds_of(points_[members_[begin + m]].i)[b] = codes_[m];
        }
    }

    std::uint16_t code(double distance, std::size_t b) const {
        return bounds_.code(distance, groups_.path(b));
    }

    // Decide one row from its own center and the screened ones.
    void decide(const Step<Real>& step, std::size_t q) {
        const Pending& row = points_[q];
        const std::size_t i = row.i;
        const double square = static_cast<double>(squares_[q]), off = static_cast<double>(off_[q]);
        const double near = square + 2.0 * static_cast<double>(row.best);
        const double far = square + 2.0 * static_cast<double>(row.second) - off;
        if (row.has_own) {
            const std::size_t own = step.label(i);
            const std::size_t b = groups_.bound_of(own);
            const double most = row.own * (1.0 + step.own_rounding());
            const double least = row.own * (1.0 - step.own_rounding());
            if (!needed_[q * groups_.n_bounds() + b]) {
                if (most < near - off) {
                    keep(step, i, static_cast<std::int32_t>(own), root_up(most));
                    return;
                }
                // Whether or not the label changes, the old center counts among the others from now
                // on.
                std::uint16_t& bound = bounds_of(i)[b];
                bound = std::min(bound, code(static_cast<double>(root_down(least)), b));
                if (near + off < std::min(least, far)) {
                    move(step, row, root_up(near + off));
                    return;
                }
                this->recheck_later(step, i);
                return;
            }
        }
        const double rivals = static_cast<double>(rivals_[q]);
        if (row.label >= 0 &&
            2.0 * (static_cast<double>(row.second) - static_cast<double>(row.best)) > 2.0 * rivals)
            move(step, row, root_up(near + off));
        else
            this->recheck_later(step, i);
    }

    // The best center that was screened wins.
    void move(const Step<Real>& step, const Pending& row, float upper) {
        const std::size_t b = groups_.bound_of(static_cast<std::size_t>(row.label));
        const std::size_t q = static_cast<std::size_t>(&row - points_.data());
        const double beside = static_cast<double>(squares_[q]) +
                              2.0 * static_cast<double>(row.beside) - static_cast<double>(off_[q]);
        // With a forced label the best center is still one of the others.
        if (step.forced.count == 0)
            bounds_of(row.i)[b] =
                code(static_cast<double>(root_down(std::min(beside, 0x1p100))), b);
        keep(step, row.i, row.label, upper);
    }

    void keep(const Step<Real>& step, std::size_t i, std::int32_t label, float upper) {
        unsigned char* const ignored = needed_.data() + needed_.size() - groups_.n_bounds();
        const float lower = compare(step, i, static_cast<std::size_t>(label), upper, ignored);
        this->set_label(step, i, label, upper, std::max(0.0f, lower));
    }

    static constexpr std::size_t chunk = 64;

    const CenterGroups& groups_;
    CodedBounds& bounds_;
    std::size_t stride_, capacity_, count_ = 0;
    Aligned<float> rows_;
    std::vector<unsigned char> needed_;
    std::vector<Pending> points_;
    std::vector<float> best_, second_;
    std::vector<int> lane_;
    std::vector<const float*> member_rows_;
    std::vector<std::size_t> members_;
    std::vector<float> squares_, off_, rivals_; // |x'|^2; errors of |x'|^2 + 2 s and of 2 s
    std::vector<std::uint16_t> codes_;
    float packed_squares_[chunk], packed_off_[chunk];
};

} // namespace wolfmeans
