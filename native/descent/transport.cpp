#include "descent/transport.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "assignment/group.hpp"
#include "kernels/exact/scan.hpp"
#include "runtime/aligned.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

constexpr double unreachable = std::numeric_limits<double>::infinity();
// As in core/transport.py.
constexpr int far_off = 16;
constexpr std::size_t points_for_cluster = 16, coarser = 4;
constexpr Mass most_to_sample = Mass{1} << 31;
// Distances that are only compared are rounded upwards by this factor.
constexpr double upwards = 1.0 + 1e-9;
constexpr std::int64_t no_row = -1, unknown = -2;
// How many of the cheapest points of an arc are kept at first.
constexpr std::size_t fewest_candidates = 8, most_candidates = 64;

struct Candidate {
    double key; // D_ib - D_ia
    std::int64_t row;
    bool operator<(const Candidate& other) const {
        return key < other.key || (key == other.key && row < other.row);
    }
};

// The points of a cluster that are cheapest to move to another one.
//
// Invariant: all points of the cluster that are not above `limit` are among the candidates, which
// are a heap with the least on top; others that have left the cluster may be among them.
struct Arc {
    std::vector<Candidate> candidates;
    Candidate limit{unreachable, std::numeric_limits<std::int64_t>::max()};

    bool complete() const { return limit.key == unreachable; }
    static bool above(const Candidate& a, const Candidate& b) { return b < a; }
    void push(const Candidate& one) {
        candidates.push_back(one);
        std::push_heap(candidates.begin(), candidates.end(), above);
    }
    void pop() {
        std::pop_heap(candidates.begin(), candidates.end(), above);
        candidates.pop_back();
    }
    // Keep the `count` least if there are more than that.
    void shrink(std::size_t count) {
        if (candidates.size() <= count) return;
        const auto last = candidates.begin() + static_cast<std::ptrdiff_t>(count - 1);
        std::nth_element(candidates.begin(), last, candidates.end());
        limit = *last;
        candidates.resize(count);
    }
    void order() { std::make_heap(candidates.begin(), candidates.end(), above); }
};

// What a thread finds in its rows.
struct FoundInRows {
    std::vector<Arc> arcs;           // (K, K)
    std::vector<double> limits;      // (K, K) larger keys are of no candidates
    std::vector<double> reach;       // (K,) nor are points whose margin is certainly larger
    std::vector<Mass> sizes;         // (K,)
    std::vector<signed char> within; // (K, group_size) scratch
};

template <class Real>
class Chains {
public:
    // The rows are 0, stride, 2 stride, ... of X; masses are of these rows.
    Chains(const Real* X, std::size_t n, std::size_t stride, std::size_t d, const Mass* masses,
           const std::vector<double>& centers, const SizeLimits& limits, int n_threads)
        : X_(X), n_(n), stride_(stride), d_(d), K_(limits.lower.size()), masses_(masses),
          centers_(centers), limits_(limits), scan_(*best_kernels().scan), n_threads_(n_threads),
          capacity_(std::clamp(4 * n / (K_ * K_), fewest_candidates, most_candidates)),
          arcs_(K_ * K_), keys_(K_ * (K_ + 1), unreachable), rows_(K_ * K_, -1),
          transposed_(K_ * d), row_distances_(K_),
          unsure_((static_cast<double>(d) + 1024.0) * 0x1p-50) {
        for (std::size_t k = 0; k < K_; ++k)
            for (std::size_t j = 0; j < d; ++j)
                transposed_[j * K_ + k] = centers[k * d + j];
    }

    Chains& begin(const std::vector<double>& prices, TransportMemory& memory) {
        start(prices, memory);
        binding_ = std::any_of(prices.begin(), prices.end(), [](double p) { return p != 0; });
        for (const Mass excess : excess_)
            binding_ |= excess != 0;
        return *this;
    }

    // How much mass is in the wrong cluster.
    Mass misplaced() const {
        Mass all = 0;
        for (const Mass excess : excess_)
            all += std::max(excess, Mass{0});
        return all;
    }

    TransportPlan plan(TransportMemory& memory) {
        TransportPlan found;
        found.binding = binding_;
        if (found.binding) {
            for (std::size_t a = 0; a < K_; ++a)
                for (std::size_t b = 0; b < K_; ++b)
                    if (a != b) arcs_[a * K_ + b].order(), refresh(a, b);
            WorkCounter counter;
            while (std::any_of(excess_.begin(), excess_.end(), [](Mass e) { return e > 0; })) {
                augment();
                counter.add(static_cast<double>(K_ * K_));
            }
        }
        double fall = 0.0, rise = 0.0;
        found.prices.resize(K_);
        for (std::size_t k = 0; k < K_; ++k) {
            found.prices[k] = potentials_[k] - potentials_[K_];
            fall = std::min(fall, found.prices[k] - memory.prices[k]);
            rise = std::max(rise, found.prices[k] - memory.prices[k]);
        }
        window_ = 1.5 * (rise - fall);
        memory.window =
            memory.window == unreachable ? window_ : std::max(window_, 0.5 * memory.window);
        if (masses_ != nullptr) label_weightless();
        found.labels = std::move(home_);
        found.splits = std::move(splits_);
        return found;
    }

    // By how much prices changed, and some more.
    double price_window() const { return window_; }

private:
    const Real* row(std::size_t i) const { return X_ + i * stride_ * d_; }
    Mass mass(std::size_t i) const { return masses_ == nullptr ? 1 : masses_[i]; }

    void start(const std::vector<double>& prices, TransportMemory& memory) {
        potentials_ = prices;
        potentials_.push_back(0.0);
        home_.resize(n_);
        const Drift drift = drift_from(memory);
        std::vector<double> limits(K_ * K_);
        for (std::size_t a = 0; a < K_; ++a)
            for (std::size_t b = 0; b < K_; ++b)
                limits[a * K_ + b] =
                    a == b ? -unreachable : potentials_[a] - potentials_[b] + memory.window;
        if (memory.window < unreachable) capacity_ *= 2;
        memory.labels.resize(n_);
        memory.margins.resize(n_);
        memory.radii.resize(n_);
        const double operations = static_cast<double>(n_) * static_cast<double>(K_ * (d_ + 4));
        const std::size_t chunks = worthwhile_threads(n_, operations, n_threads_);
        std::vector<FoundInRows> found(chunks);
        over_rows(n_, chunks, group_size,
                  [&](std::size_t chunk, std::size_t first, std::size_t last) {
                      found[chunk].limits = limits;
                      look_at(first, last, drift, memory, found[chunk]);
                  });
        memory.centers = centers_;
        memory.prices = prices;
        std::vector<Mass> sizes(K_);
        for (FoundInRows& part : found)
            for (std::size_t k = 0; k < K_; ++k)
                sizes[k] += part.sizes.empty() ? Mass{0} : part.sizes[k];
        for (std::size_t ab = 0; ab < K_ * K_; ++ab)
            merge(found, limits[ab], ab);
        hold(sizes);
    }

    // How centers and prices have changed since the labels in memory were found.
    struct Drift {
        bool known = false;
        std::vector<double> moved, paid; // (K,) moves of centers, rises of prices
        double farthest = 0, diameter = 0, largest_price = 0;
        std::vector<double> slope,
            fixed; // (K,) a margin falls by slope times the radius, and fixed
    };

    Drift drift_from(const TransportMemory& memory) const {
        Drift drift;
        drift.known = memory.labels.size() == n_ && memory.centers.size() == K_ * d_;
        if (!drift.known) return drift;
        const auto apart = [&](const double* x, const double* y) {
            double sum = 0.0;
            for (std::size_t j = 0; j < d_; ++j)
                sum += (x[j] - y[j]) * (x[j] - y[j]);
            return std::sqrt(sum) * upwards;
        };
        double fall = 0.0;
        for (std::size_t k = 0; k < K_; ++k) {
            const double* const old = memory.centers.data() + k * d_;
            drift.moved.push_back(apart(old, centers_.data() + k * d_));
            drift.paid.push_back(potentials_[k] - memory.prices[k]);
            fall = k == 0 ? drift.paid[0] : std::min(fall, drift.paid[k]);
            drift.farthest = std::max(drift.farthest, drift.moved[k]);
            drift.diameter = std::max(drift.diameter, 2.0 * apart(old, memory.centers.data()));
            drift.largest_price = std::max(drift.largest_price, std::abs(potentials_[k]));
        }
        const double far = drift.farthest;
        for (std::size_t k = 0; k < K_; ++k) {
            const double moved = drift.moved[k], paid = drift.paid[k] - fall;
            drift.slope.push_back(2.0 * (far + moved));
            drift.fixed.push_back(far * (2.0 * drift.diameter + far) + moved * moved + paid);
        }
        return drift;
    }

    // Whether the point is certainly cheapest where it was, and no candidate. A center at distance
    // r that moves by m changes its squared distance by at most m (2 r + m); other centers are at
    // most the diameter farther away than the own one.
    bool rests(std::size_t i, const Drift& drift, TransportMemory& memory) const {
        const auto a = static_cast<std::size_t>(memory.labels[i]);
        const double radius = memory.radii[i];
        const double margin = memory.margins[i] - (drift.slope[a] * radius + drift.fixed[a]);
        const double size = radius + drift.diameter + drift.farthest;
        const double rounding = unsure_ * (size * size + drift.largest_price + memory.window);
        if (!(margin > memory.window + rounding)) return false;
        memory.margins[i] = margin;
        memory.radii[i] = radius + drift.moved[a];
        return true;
    }

    void merge(std::vector<FoundInRows>& found, double hint, std::size_t ab) {
        Arc& arc = arcs_[ab];
        arc.limit.key = hint;
        for (FoundInRows& part : found) {
            if (part.arcs.empty()) continue;
            const Arc& other = part.arcs[ab];
            arc.candidates.insert(arc.candidates.end(), other.candidates.begin(),
                                  other.candidates.end());
            if (other.limit < arc.limit) arc.limit = other.limit;
        }
        // What is above the lowest limit may be incomplete.
        if (!arc.complete())
            std::erase_if(arc.candidates, [&](const Candidate& c) { return arc.limit < c; });
        arc.shrink(capacity_);
    }

    // Put the rows first..last-1 where they are cheapest, and collect candidates.
    void look_at(std::size_t first, std::size_t last, const Drift& drift, TransportMemory& memory,
                 FoundInRows& found) {
        found.arcs.resize(K_ * K_);
        found.sizes.assign(K_, 0);
        found.reach.resize(K_);
        for (std::size_t a = 0; a < K_; ++a)
            found.reach[a] = reach(a, found.limits);
        Aligned<double> points(d_ * group_size);
        Aligned<double> distances(group_size * K_);
        found.within.resize(group_size * K_);
        WorkCounter counter;
        std::size_t some[group_size], count = 0;
        for (std::size_t i = first; i < last; ++i) {
            if (drift.known && rests(i, drift, memory)) {
                home_[i] = memory.labels[i];
                found.sizes[static_cast<std::size_t>(home_[i])] += mass(i);
            } else {
                some[count++] = i;
            }
            if (count == 0 || (count < group_size && i + 1 < last)) continue;
            look_at_group(some, count, points.data(), distances.data(), memory, found);
            count = 0;
            counter.add(static_cast<double>(group_size * K_ * (d_ + 4)));
        }
    }

    // A candidate for the arc to b costs at most the limit of that arc more than here, so the
    // margin of a candidate is at most the largest of these limits at the prices. The last terms
    // cover the rounding of margins, keys and limits, with those of the caller for the distances.
    double reach(std::size_t a, const std::vector<double>& limits) const {
        double most = -unreachable, largest_price = 0.0;
        for (std::size_t b = 0; b < K_; ++b) {
            largest_price = std::max(largest_price, std::abs(potentials_[b]));
            if (b == a) continue;
            most = std::max(most, limits[a * K_ + b] - (potentials_[a] - potentials_[b]));
        }
        return most + 0x1p-46 * (std::abs(most) + largest_price);
    }

    // points (d, group_size) and distances (K, group_size) are scratch
    void look_at_group(const std::size_t* some, std::size_t count, double* points,
                       double* distances, TransportMemory& memory, FoundInRows& found) {
        transpose_group(
            d_, [&](std::size_t p) { return row(some[std::min(p, count - 1)]); }, points);
        scan_.all(points, centers_.data(), static_cast<long long>(d_), 0,
                  static_cast<long long>(K_), distances);
        PricedState cheapest;
        scan_.priced(distances, potentials_.data(), static_cast<long long>(K_), cheapest);
        bool near = false;
        for (std::size_t p = 0; p < count; ++p) {
            const std::size_t i = some[p];
            const auto a = static_cast<std::size_t>(cheapest.label[p]);
            const double margin = cheapest.second[p] - cheapest.least[p];
            memory.labels[i] = static_cast<std::int32_t>(a);
            memory.margins[i] = margin;
            memory.radii[i] = std::sqrt(cheapest.own[p]) * upwards;
            home_[i] = static_cast<std::int32_t>(a);
            found.sizes[a] += mass(i);
            near |= !(margin > found.reach[a] + 0x1p-46 * cheapest.own[p]);
        }
        if (near) collect(some, count, cheapest, distances, found);
    }

    // Make points candidates of the arcs whose limits they are within.
    //   distances IN (K, group_size)
    void collect(const std::size_t* some, std::size_t count, const PricedState& cheapest,
                 const double* distances, FoundInRows& found) const {
        scan_.within(distances, cheapest, found.limits.data(), static_cast<long long>(K_),
                     found.within.data());
        for (std::size_t b = 0; b < K_; ++b) {
            const signed char* const within = found.within.data() + b * group_size;
            std::uint64_t any;
            static_assert(sizeof(any) == group_size);
            std::memcpy(&any, within, sizeof(any));
            if (any == 0) continue;
            for (std::size_t p = 0; p < count; ++p) {
                if (!within[p] || mass(some[p]) == 0) continue;
                const auto a = static_cast<std::size_t>(cheapest.label[p]);
                const double key = distances[b * group_size + p] - cheapest.own[p];
                Arc& arc = found.arcs[a * K_ + b];
                arc.candidates.push_back({key, static_cast<std::int64_t>(some[p])});
                if (arc.candidates.size() < 2 * capacity_) continue;
                arc.shrink(capacity_);
                found.limits[a * K_ + b] = arc.limit.key;
                found.reach[a] = reach(a, found.limits);
            }
        }
    }

    // What each cluster is held to have, and what it has too much.
    void hold(const std::vector<Mass>& sizes) {
        held_.resize(K_);
        excess_.resize(K_ + 1);
        Mass all = 0;
        for (std::size_t k = 0; k < K_; ++k) {
            const Mass low = limits_.lower[k], high = limits_.upper[k];
            held_[k] = potentials_[k] > 0   ? high
                       : potentials_[k] < 0 ? low
                                            : std::min(std::max(sizes[k], low), high);
            excess_[k] = sizes[k] - held_[k];
            all += held_[k];
        }
        excess_[K_] = all - limits_.total;
    }

    bool belongs(std::int64_t i, std::size_t a) const {
        const std::int32_t label = home_[static_cast<std::size_t>(i)];
        return label >= 0 ? label == static_cast<std::int32_t>(a) : part_of(i, a) > 0;
    }

    Mass part_of(std::int64_t i, std::size_t a) const {
        const auto split = splits_.find(i);
        if (split == splits_.end()) return mass(static_cast<std::size_t>(i));
        for (const SplitPart& part : split->second)
            if (part.cluster == static_cast<std::int32_t>(a)) return part.mass;
        return 0;
    }

    // The least candidate that still belongs to the cluster. Where none is left but there are
    // points above the limit, the key is that limit until the arc is needed.
    void refresh(std::size_t a, std::size_t b) {
        Arc& arc = arcs_[a * K_ + b];
        while (!arc.candidates.empty() && !belongs(arc.candidates.front().row, a))
            arc.pop();
        const bool none = arc.candidates.empty();
        keys_[a * (K_ + 1) + b] = none ? arc.limit.key : arc.candidates.front().key;
        rows_[a * K_ + b] = !none ? arc.candidates.front().row : arc.complete() ? no_row : unknown;
    }

    void collect_again(std::size_t a, std::size_t b) {
        Arc& arc = arcs_[a * K_ + b];
        arc = {};
        const double* const of_a = centers_.data() + a * d_;
        const double* const of_b = centers_.data() + b * d_;
        const auto two = scan_.template of<Real>().two;
        const auto add = [&](const std::int64_t* some, int count) {
            const Real* x[group_size];
            const double *first[group_size], *second[group_size];
            double to_a[group_size], to_b[group_size];
            for (int p = 0; p < count; ++p) {
                x[p] = row(static_cast<std::size_t>(some[p]));
                first[p] = of_a;
                second[p] = of_b;
            }
            two(x, first, second, static_cast<long long>(d_), count, to_a, to_b);
            for (int p = 0; p < count; ++p)
                arc.candidates.push_back({to_b[p] - to_a[p], some[p]});
        };
        std::int64_t some[group_size];
        int count = 0;
        const auto label = static_cast<std::int32_t>(a);
        for (std::size_t i = 0; i < n_; ++i) {
            if (home_[i] != label && (home_[i] >= 0 || !belongs(static_cast<std::int64_t>(i), a)))
                continue;
            if (mass(i) == 0) continue;
            some[count++] = static_cast<std::int64_t>(i);
            if (count == group_size) add(some, std::exchange(count, 0));
        }
        if (count > 0) add(some, count);
        arc.shrink(std::max(4 * fewest_candidates, capacity_));
        arc.order();
        refresh(a, b);
    }

    // The length of the arc to every node, rounded as specified.
    void lengths_from(std::size_t a, double* lengths) const {
        const double own = potentials_[a];
        if (a < K_) {
            const double* const keys = keys_.data() + a * (K_ + 1);
            for (std::size_t b = 0; b < K_; ++b)
                lengths[b] = keys[b] + (potentials_[b] - own);
            lengths[K_] = held_[a] < limits_.upper[a] ? 0.0 + (potentials_[K_] - own) : unreachable;
        } else {
            for (std::size_t b = 0; b < K_; ++b)
                lengths[b] =
                    held_[b] > limits_.lower[b] ? 0.0 + (potentials_[b] - own) : unreachable;
            lengths[K_] = unreachable;
        }
        for (std::size_t b = 0; b <= K_; ++b)
            lengths[b] = lengths[b] > 0.0 ? lengths[b] : 0.0;
    }

    void augment() {
        const std::size_t nodes = K_ + 1;
        distance_.assign(nodes, unreachable);
        before_.assign(nodes, -1);
        done_.assign(nodes, 0);
        guessed_.assign(nodes, 0);
        visited_.clear();
        lengths_.resize(nodes);
        for (std::size_t k = 0; k < nodes; ++k)
            if (excess_[k] > 0) distance_[k] = 0.0;
        std::size_t end = 0;
        for (;;) {
            std::size_t a = nodes;
            for (std::size_t k = 0; k < nodes; ++k)
                if (!done_[k] && (a == nodes || distance_[k] < distance_[a])) a = k;
            end = a;
            if (guessed_[a]) {
                settle(a);
                continue;
            }
            if (excess_[a] < 0) break;
            done_[a] = 1;
            visited_.push_back(a);
            lengths_from(a, lengths_.data());
            for (std::size_t b = 0; b < nodes; ++b) {
                const double through = distance_[a] + lengths_[b];
                if (done_[b] || !(through < distance_[b])) continue;
                distance_[b] = through;
                before_[b] = static_cast<int>(a);
                guessed_[b] = is_unknown(a, b);
            }
        }
        for (std::size_t k = 0; k < nodes; ++k)
            if (done_[k]) potentials_[k] += distance_[end] - distance_[k];
        chain_.assign(1, end);
        while (before_[chain_.back()] >= 0)
            chain_.push_back(static_cast<std::size_t>(before_[chain_.back()]));
        std::reverse(chain_.begin(), chain_.end());
        move_along();
    }

    bool is_unknown(std::size_t a, std::size_t b) const {
        return a < K_ && b < K_ && rows_[a * K_ + b] == unknown;
    }

    // A node whose distance is a lower bound: find the arc that it is from, and the distance anew.
    void settle(std::size_t b) {
        collect_again(static_cast<std::size_t>(before_[b]), b);
        distance_[b] = unreachable;
        guessed_[b] = 0;
        for (const std::size_t a : visited_) {
            const double through = distance_[a] + length(a, b);
            if (!(through < distance_[b])) continue;
            distance_[b] = through;
            before_[b] = static_cast<int>(a);
            guessed_[b] = is_unknown(a, b);
        }
    }

    // As lengths_from, of one arc to a cluster.
    double length(std::size_t a, std::size_t b) const {
        double key = a < K_ ? keys_[a * (K_ + 1) + b] : 0.0;
        if (a == K_ && !(held_[b] > limits_.lower[b])) key = unreachable;
        const double rounded = key + (potentials_[b] - potentials_[a]);
        return rounded > 0.0 ? rounded : 0.0;
    }

    Mass room(std::size_t a, std::size_t b) const {
        if (b == K_) return limits_.upper[a] - held_[a];
        if (a == K_) return held_[b] - limits_.lower[b];
        return part_of(rows_[a * K_ + b], a);
    }

    void move_along() {
        Mass amount = std::min(excess_[chain_.front()], -excess_[chain_.back()]);
        for (std::size_t s = 0; s + 1 < chain_.size(); ++s)
            amount = std::min(amount, room(chain_[s], chain_[s + 1]));
        moved_.clear();
        for (std::size_t s = 0; s + 1 < chain_.size(); ++s) {
            const std::size_t a = chain_[s], b = chain_[s + 1];
            if (b == K_)
                held_[a] += amount;
            else if (a == K_)
                held_[b] -= amount;
            else
                moved_.push_back({rows_[a * K_ + b], a, b});
        }
        excess_[chain_.front()] -= amount;
        excess_[chain_.back()] += amount;
        for (const Moved& one : moved_)
            shift(one.row, one.from, one.to, amount);
        for (const Moved& one : moved_) {
            if (belongs(one.row, one.to)) enter(one.row, one.to);
            if (belongs(one.row, one.from)) continue;
            for (std::size_t b = 0; b < K_; ++b)
                if (rows_[one.from * K_ + b] == one.row && b != one.from) refresh(one.from, b);
        }
    }

    void shift(std::int64_t i, std::size_t a, std::size_t b, Mass amount) {
        const auto to = static_cast<std::int32_t>(b), from = static_cast<std::int32_t>(a);
        std::int32_t& label = home_[static_cast<std::size_t>(i)];
        if (label >= 0 && amount == mass(static_cast<std::size_t>(i))) {
            label = to;
            return;
        }
        std::vector<SplitPart>& parts = splits_[i];
        if (label >= 0) parts = {{label, mass(static_cast<std::size_t>(i))}};
        bool known = false;
        for (SplitPart& part : parts) {
            if (part.cluster == from) part.mass -= amount;
            if (part.cluster == to) part.mass += amount, known = true;
        }
        if (!known) parts.push_back({to, amount});
        std::erase_if(parts, [](const SplitPart& part) { return part.mass == 0; });
        std::sort(parts.begin(), parts.end(),
                  [](const SplitPart& x, const SplitPart& y) { return x.cluster < y.cluster; });
        label = parts.size() == 1 ? parts.front().cluster : -1;
        if (parts.size() == 1) splits_.erase(i);
    }

    // A point that is now in the cluster may be the cheapest to move on.
    void enter(std::int64_t i, std::size_t a) {
        const Real* const x = row(static_cast<std::size_t>(i));
        double* const distances = row_distances_.data();
        std::fill_n(distances, K_, 0.0);
        for (std::size_t j = 0; j < d_; ++j) {
            const auto coordinate = static_cast<double>(x[j]);
            const double* const of = transposed_.data() + j * K_;
            for (std::size_t k = 0; k < K_; ++k) {
                const double difference = coordinate - of[k];
                distances[k] = distances[k] + difference * difference;
            }
        }
        for (std::size_t b = 0; b < K_; ++b) {
            if (b == a) continue;
            Arc& arc = arcs_[a * K_ + b];
            const Candidate one{distances[b] - distances[a], i};
            if (arc.limit < one) continue;
            arc.push(one);
            double& key = keys_[a * (K_ + 1) + b];
            std::int64_t& least = rows_[a * K_ + b];
            if (least < 0 || one < Candidate{key, least}) key = one.key, least = i;
        }
    }

    // Points of no mass are at their nearest center.
    void label_weightless() {
        const auto one = scan_.template of<Real>().one;
        for (std::size_t i = 0; i < n_; ++i) {
            if (masses_[i] != 0) continue;
            double least = unreachable;
            for (std::size_t k = 0; k < K_; ++k) {
                const Real* const x = row(i);
                const double* const center = centers_.data() + k * d_;
                double distance = 0.0;
                one(&x, &center, static_cast<long long>(d_), 1, &distance);
                if (k == 0 || distance < least) {
                    least = distance;
                    home_[i] = static_cast<std::int32_t>(k);
                }
            }
        }
    }

    struct Moved {
        std::int64_t row;
        std::size_t from, to;
    };

    const Real* X_;
    std::size_t n_, stride_, d_, K_;
    const Mass* masses_;
    const std::vector<double>& centers_; // (K, d)
    const SizeLimits& limits_;
    const ScanVersion& scan_;
    int n_threads_;
    std::size_t capacity_;
    std::vector<Arc> arcs_;          // (K, K)
    std::vector<double> keys_;       // (K, K + 1) of the least candidates
    std::vector<std::int64_t> rows_; // (K, K) likewise; -1 for none
    std::vector<double> transposed_, row_distances_;
    double unsure_; // the rounding of a margin, relative to the squares that it is made of
    std::vector<std::int32_t> home_;
    Splits splits_;
    std::vector<double> potentials_;  // (K + 1,) the last one of the limits
    std::vector<Mass> held_, excess_; // (K,), (K + 1,)
    std::vector<double> distance_, lengths_;
    std::vector<int> before_;
    std::vector<unsigned char> done_, guessed_;
    std::vector<std::size_t> chain_, visited_;
    std::vector<Moved> moved_;
    bool binding_ = false;
    double window_ = 0.0;
};

SizeLimits limits_of_sample(const SizeLimits& limits, Mass total) {
    SizeLimits scaled{limits.lower, limits.upper, total};
    const auto whole = static_cast<std::uint64_t>(limits.total);
    const auto some = static_cast<std::uint64_t>(total);
    for (Mass& low : scaled.lower)
        low = static_cast<Mass>(static_cast<std::uint64_t>(low) * some / whole);
    for (Mass& high : scaled.upper)
        high = static_cast<Mass>((static_cast<std::uint64_t>(high) * some + whole - 1) / whole);
    return scaled;
}

// The prices of samples of every 4^j-th point, the smallest one first. `window` OUT: by how much
// those of all points may differ from them, judging by the last sample.
template <class Real>
std::vector<double> sampled_prices(const Real* X, std::size_t n, std::size_t d, const Mass* masses,
                                   const std::vector<double>& centers, const SizeLimits& limits,
                                   std::vector<double> prices, double& window, int n_threads) {
    const std::size_t K = limits.lower.size();
    std::size_t stride = 1;
    if (limits.total < most_to_sample)
        while (n / (coarser * stride) >= points_for_cluster * K)
            stride *= coarser;
    for (; stride > 1; stride /= coarser) {
        const std::size_t some = (n + stride - 1) / stride;
        std::vector<Mass> of_sample;
        Mass total = static_cast<Mass>(some);
        if (masses != nullptr) {
            total = 0;
            for (std::size_t i = 0; i < n; i += stride) {
                of_sample.push_back(masses[i]);
                total += masses[i];
            }
        }
        if (total == 0) continue;
        const SizeLimits scaled = limits_of_sample(limits, total);
        TransportMemory memory;
        memory.window = window;
        Chains<Real> sample(X, some, stride, d, masses == nullptr ? nullptr : of_sample.data(),
                            centers, scaled, n_threads);
        prices = sample.begin(prices, memory).plan(memory).prices;
        window = sample.price_window();
    }
    return prices;
}

} // namespace

Mass whole_mass(double value, int unit) {
    int exponent = 0;
    const auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
    const int shift = exponent - 53 - unit;
    return shift >= 0 ? static_cast<Mass>(mantissa) << shift
                      : static_cast<Mass>(mantissa >> std::min(-shift, 63));
}

TwoParts two_parts(Mass mass, int unit) {
    int shift = 0;
    while ((mass >> shift) >= (Mass{1} << 53))
        ++shift;
    const auto high = static_cast<std::int64_t>(mass >> shift);
    const auto low = static_cast<std::int64_t>(mass - (static_cast<Mass>(high) << shift));
    return {std::ldexp(static_cast<double>(high), shift + unit),
            std::ldexp(static_cast<double>(low), unit)};
}

template <class Real>
TransportPlan cheapest(const Real* X, std::size_t n, std::size_t d, const Mass* masses,
                       const Real* centers, const SizeLimits& limits, std::vector<double> prices,
                       TransportMemory& memory, int n_threads) {
    const std::size_t K = limits.lower.size();
    const std::vector<double> as_doubles(centers, centers + K * d);
    Chains<Real> chains(X, n, 1, d, masses, as_doubles, limits, n_threads);
    if (prices.empty()) {
        prices.assign(K, 0.0);
    } else {
        chains.begin(prices, memory);
        if (far_off * chains.misplaced() <= limits.total) return chains.plan(memory);
        memory.window = unreachable;
    }
    prices = sampled_prices(X, n, d, masses, as_doubles, limits, std::move(prices), memory.window,
                            n_threads);
    return Chains<Real>(X, n, 1, d, masses, as_doubles, limits, n_threads)
        .begin(prices, memory)
        .plan(memory);
}

template TransportPlan cheapest(const float*, std::size_t, std::size_t, const Mass*, const float*,
                                const SizeLimits&, std::vector<double>, TransportMemory&, int);
template TransportPlan cheapest(const double*, std::size_t, std::size_t, const Mass*, const double*,
                                const SizeLimits&, std::vector<double>, TransportMemory&, int);

} // namespace wolfmeans
