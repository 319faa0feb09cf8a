// The maximum of F, by branch and bound.
#include "lower_bounds/prices.hpp"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "exact/unit_roundoff.hpp"
#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

// Boxes at this depth become tasks of the threads.
constexpr std::size_t task_depth = 10;
// No box is halved more often; reached only where F is steep on the scale of rounding.
constexpr std::size_t most_depth = 400;
// Threads report their work in units of this size.
constexpr double reported_at = 1e5;

// A box of centers: its corners, and the points that are priced above the distance to every
// center in it, as one concave quadratic about the box's middle m,
//     q(m + y) = constant + sum_j slope_j y_j - mass ||y||^2 ,
// and those that are not certain to be so or not, by index. `scale` bounds what the parts of q and
// of everything else below can amount to, for the sake of rounding.
struct Box {
    std::vector<double> low, high, middle, slope, tilt;
    double constant = 0, mass = 0, scale = 0;
    std::vector<std::uint32_t> open;

    explicit Box(std::size_t d = 0) : low(d), high(d), middle(d), slope(d), tilt(d) {}
};

struct Verdict {
    double upper, reached;
};

// The result of one part of the search.
struct Found {
    double upper = 0, reached = 0;
    std::vector<double> peak; // of the center worth most, if it is worth enough
    double best = 0;          // its worth
    double work = 0;          // since it was last reported

    void take(const Verdict& verdict, double wanted, const std::vector<double>& middle) {
        upper = std::max(upper, verdict.upper);
        reached = std::max(reached, verdict.reached);
        if (verdict.reached > std::max(best, wanted)) {
            best = verdict.reached;
            peak = middle;
        }
    }
};

// Features is the number of columns if known at compile time, else 0.
template <std::size_t Features>
class Search {
public:
    Search(const Priced& priced, double enough, double tolerance, double budget)
        : priced_(priced), enough_(enough), tolerance_(tolerance), budget_(budget) {}

    Ceiling run(int n_threads) {
        if (priced_.n == 0) return {0, 0, 0, false, {}};
        std::vector<Box> boxes(task_depth + 1, Box(d())), tasks;
        enclose(boxes[0]);
        Found top;
        descend(boxes, 0, 0, top, &tasks);
        std::vector<Found> found(tasks.size());
        const std::size_t workers =
            std::clamp<std::size_t>(tasks.size(), 1, std::size_t(std::max(n_threads, 1)));
        std::vector<std::vector<Box>> scratch(workers,
                                              std::vector<Box>(most_depth - task_depth + 1));
        over_blocks(tasks.size(), workers, 1,
                    [&](std::size_t thread, std::size_t task, std::size_t) {
                        std::vector<Box>& own = scratch[thread];
                        own[0] = std::move(tasks[task]);
                        descend(own, 0, task_depth, found[task], nullptr);
                    });
        found.push_back(std::move(top));
        return summary(found);
    }

private:
    std::size_t d() const { return Features ? Features : priced_.d; }

    // The bounding box of the points holds a maximizer: F is a maximum over subsets of points of
    // concave quadratics, each with its peak at the subset's mean.
    void enclose(Box& box) const {
        for (std::size_t j = 0; j < d(); ++j) {
            box.low[j] = box.high[j] = priced_.X[j];
            for (std::size_t i = 1; i < priced_.n; ++i) {
                box.low[j] = std::min(box.low[j], priced_.X[i * d() + j]);
                box.high[j] = std::max(box.high[j], priced_.X[i * d() + j]);
            }
            box.middle[j] = box.low[j] + (box.high[j] - box.low[j]) / 2;
        }
        box.open.resize(priced_.n);
        std::iota(box.open.begin(), box.open.end(), 0u);
    }

    Ceiling summary(const std::vector<Found>& found) const {
        Ceiling result{0, 0, work_, false, {}};
        for (const Found& part : found) {
            result.upper = std::max(result.upper, part.upper);
            result.reached = std::max(result.reached, part.reached);
            result.work += part.work;
            result.peaks.insert(result.peaks.end(), part.peak.begin(), part.peak.end());
        }
        result.abandoned = result.work > budget_;
        return result;
    }

    // Process boxes[at], of depth at + base, and its halves while it is not settled; the boxes
    // after it are scratch memory. Boxes of depth task_depth go to `tasks` if that is given.
    void descend(std::vector<Box>& boxes, std::size_t at, std::size_t base, Found& found,
                 std::vector<Box>* tasks) {
        Box& box = boxes[at];
        found.work += double((box.open.size() + 1) * d());
        const Verdict verdict = bound(box, at + base);
        if (found.work > reported_at) {
            check_interrupt();
            work_ += found.work;
            found.work = 0;
        }
        if (work_ > budget_) return;
        const bool settled = verdict.upper <= enough_ || box.open.empty() ||
                             verdict.upper <= (1 + tolerance_) * verdict.reached;
        std::size_t longest = 0;
        for (std::size_t j = 1; j < d(); ++j)
            if (box.high[j] - box.low[j] > box.high[longest] - box.low[longest]) longest = j;
        const double cut = box.middle[longest];
        const bool divisible = box.low[longest] < cut && cut < box.high[longest];
        if (settled || !divisible || at + base == most_depth)
            return found.take(verdict, enough_ / (1 + tolerance_), box.middle);
        if (tasks && at == task_depth) return tasks->push_back(box);
        for (const bool upper_half : {false, true}) {
            Box& half = boxes[at + 1];
            half = box;
            (upper_half ? half.low : half.high)[longest] = cut;
            recenter(half, longest);
            descend(boxes, at + 1, base, found, tasks);
        }
    }

    // Express the quadratic about the middle of a box that was cut across one axis.
    static void recenter(Box& box, std::size_t axis) {
        const double middle = box.low[axis] + (box.high[axis] - box.low[axis]) / 2;
        const double shift = middle - box.middle[axis];
        box.middle[axis] = middle;
        box.constant += shift * (box.slope[axis] - box.mass * shift);
        box.slope[axis] -= 2 * box.mass * shift;
    }

    // Bound F over the box from above. Points that no center of the box reaches are dropped, those
    // that all reach join the quadratic. The others' gain g(c) = a - ||x - c||^2 lies in
    // [least, most] with least < 0 < most, and there
    //     max(g, 0) <= t g + s   for any t in [0, 1] with s = max(-t least, (1 - t) most),
    // with t = most / (most - least) the chord. So they too become concave quadratics, and the
    // maximum of the sum over the box is known in closed form, coordinate by coordinate.
    //
    // Rounding. Let P = scale = sum of w max(a, far^2), far the greatest distance of x to the box.
    // Each |x - m|, |y| <= far where it occurs (far^2 <= a for points in the quadratic), hence
    // |constant| <= P, |slope . y| <= 2P, mass ||y||^2 <= P at any time, and a term's own
    // operations, at most d + 8, are each off by at most u times 4 w max(a, far^2). Adding the
    // count terms is off by count u 4P, recentring `depth` times and the closed form, which count
    // d + 4 operations at most each, by (depth + 2)(d + 4) u 4P. All this, taken twice, is added.
    // Whether a point is dropped or joins is decided conservatively, with the error of a squared
    // distance, at most (d + 3) u relative. Without that each point could change the bound by (d +
    // 4) u w a; as the maximum of F is at least w a, 8 u w a for each point is added anyway, so
    // that in up to 4 columns no data can show it.
    Verdict bound(Box& box, std::size_t depth) {
        const double error = (double(d()) + 4) * unit_roundoff;
        double constant = 0, mass = 0, scale = 0, at_middle = 0;
        double* const tilt = box.tilt.data();
        std::fill_n(tilt, d(), 0.0);
        std::size_t kept = 0;
        for (const std::uint32_t i : box.open) {
            const double* const x = priced_.X + i * d();
            double near = 0, far = 0, middle = 0;
            for (std::size_t j = 0; j < d(); ++j) {
                const double below = box.low[j] - x[j], above = x[j] - box.high[j];
                const double gap = std::max(std::max(below, above), 0.0);
                const double reach = std::max(-below, -above);
                const double offset = x[j] - box.middle[j];
                near += gap * gap;
                far += reach * reach;
                middle += offset * offset;
            }
            const double price = priced_.prices[i], weight = priced_.weights[i];
            if (near * (1 - error) >= price) continue;
            if (far * (1 + error) <= price) {
                box.constant += weight * (price - middle);
                box.mass += weight;
                box.scale += weight * price;
                for (std::size_t j = 0; j < d(); ++j)
                    box.slope[j] += 2 * weight * (x[j] - box.middle[j]);
                continue;
            }
            box.open[kept++] = i;
            const double most = std::max(price - near, 0.0), least = std::min(price - far, 0.0);
            const double t = most > 0 ? most / (most - least) : 0;
            const double s = std::max(-t * least, (1 - t) * most);
            constant += weight * (t * (price - middle) + s);
            mass += weight * t;
            scale += weight * std::max(price, far);
            for (std::size_t j = 0; j < d(); ++j)
                tilt[j] += 2 * weight * t * (x[j] - box.middle[j]);
            at_middle += weight * std::max(price - middle, 0.0);
        }
        box.open.resize(kept);
        constant += box.constant;
        mass += box.mass;
        scale += box.scale;
        double upper = constant;
        for (std::size_t j = 0; j < d(); ++j) {
            const double half = std::max(box.high[j] - box.middle[j], box.middle[j] - box.low[j]);
            const double steep = std::abs(tilt[j] + box.slope[j]);
            upper +=
                steep >= 2 * mass * half ? half * (steep - mass * half) : steep / mass * steep / 4;
        }
        const auto count = double(priced_.n);
        const double rounding =
            8 * unit_roundoff * (count + (double(depth) + 3) * (double(d()) + 8));
        upper += rounding * scale + count * DBL_MIN;
        const double reached = kept ? box.constant + at_middle : upper - 2 * rounding * scale;
        return {upper, reached};
    }

    const Priced& priced_;
    const double enough_, tolerance_, budget_;
    std::atomic<double> work_{0};
};

template <std::size_t Features>
Ceiling search(const Priced& priced, double enough, double tolerance, double budget,
               int n_threads) {
    return Search<Features>(priced, enough, tolerance, budget).run(n_threads);
}

} // namespace

Ceiling ceiling(const Priced& priced, double enough, double tolerance, double budget,
                int n_threads) {
    switch (priced.d) {
    case 1:
        return search<1>(priced, enough, tolerance, budget, n_threads);
    case 2:
        return search<2>(priced, enough, tolerance, budget, n_threads);
    case 3:
        return search<3>(priced, enough, tolerance, budget, n_threads);
    case 4:
        return search<4>(priced, enough, tolerance, budget, n_threads);
    default:
        return search<0>(priced, enough, tolerance, budget, n_threads);
    }
}

} // namespace wolfmeans
