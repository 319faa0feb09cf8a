#include "tree/boxes.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

#include "assignment/assign.hpp"
#include "assignment/packed_centers.hpp"
#include "exact/exact_sum.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

constexpr double farthest_center = 0x1p40;  // scaled: squares beyond could overflow float32
constexpr double overhead_per_point = 10.0; // in coordinate operations
constexpr double distances_per_point = 4.0; // in the first assignment
// Candidates that a node could drop are kept if they exceed the limit by less than this share of
// its diameter: the leaves below then have larger margins.
constexpr float extra_share = 0.05f;

// A list of centers and the memory that it lives in.
struct CandidateList : Candidates {
    CandidateList(std::size_t d, std::size_t K)
        : floats_((d + 1) * (K + most_narrow_lanes)), integers_(K + most_narrow_lanes) {
        stride = static_cast<long long>(K + most_narrow_lanes);
        coordinates = floats_.data();
        drifts = floats_.data() + d * (K + most_narrow_lanes);
        indices = integers_.data();
        count = 0;
    }
    CandidateList(CandidateList&&) = default;

private:
    std::vector<float> floats_;
    std::vector<int> integers_;
};

template <class Point>
bool before_place(const Point& point, std::uint32_t place) {
    return point.place < place;
}

template <class Point>
bool is_special(const std::vector<Point>& points, std::uint32_t place) {
    const auto at = std::lower_bound(points.begin(), points.end(), place, before_place<Point>);
    return at != points.end() && at->place == place;
}

} // namespace

// The centers of one assignment.
template <class Real>
struct Boxes<Real>::Centers {
    // previous IN (K, d) or empty: no drifts.
    Centers(const Real* centers, std::size_t K, const BoxTree<Real>& tree,
            const std::vector<Real>& previous)
        : rows(centers), K(K), d(tree.d), doubles(centers, centers + K * tree.d), list(tree.d, K),
          screenable(tree.usable) {
        list.count = static_cast<int>(K);
        for (std::size_t k = 0; k < K; ++k) {
            list.indices[k] = static_cast<int>(k);
            double drift = 0.0;
            for (std::size_t j = 0; j < d; ++j) {
                const double shifted = (doubles[k * d + j] - tree.origin[j]) * tree.factor;
                screenable = screenable && std::abs(shifted) < farthest_center;
                if (!screenable) return;
                list.coordinates[j * static_cast<std::size_t>(list.stride) + k] =
                    static_cast<float>(shifted);
                if (previous.empty()) continue;
                const double moved =
                    (doubles[k * d + j] - static_cast<double>(previous[k * d + j])) * tree.factor;
                drift += moved * moved;
            }
            list.drifts[k] = drift == 0.0 ? 0.0f : root_up(drift);
        }
    }

    const Real* rows; // (K, d) as given
    std::size_t K, d;
    std::vector<double> doubles; // (K, d) for canonical distances
    CandidateList list;          // all of them
    bool screenable;
};

template <class Real>
Boxes<Real>::Boxes(const Real* X, std::size_t n, std::size_t d, const double* weights,
                   int n_threads)
    : X_(X), n_(n), weights_(weights), n_threads_(n_threads), version_(*best_kernels().narrow),
      tree_(X, n, d, n_threads) {}

// One thread's share of an assignment: nodes of the top level, with scratch lists.
template <class Real>
class Boxes<Real>::Worker {
public:
    Worker(Boxes& boxes, const Centers& centers, const std::vector<Special>& specials, bool first)
        : boxes_(boxes), tree_(boxes.tree_), centers_(centers), specials_(specials), first_(first),
          narrow_(boxes.version_.narrow[tree_.d <= 4 ? tree_.d : 0]),
          label_leaf_(boxes.version_.label_leaf[tree_.d <= 4 ? tree_.d : 0]),
          squares_(centers.K + most_narrow_lanes), kept_(centers.K + most_narrow_lanes),
          scratch_{squares_.data(), kept_.data()} {
        for (std::size_t level = 0; level < tree_.levels.size(); ++level)
            lists_.emplace_back(tree_.d, level == 0 ? 0 : centers.K);
    }

    void top_node(std::size_t node) {
        visit(tree_.levels.size() - 1, node, centers_.list, 0x1p60f);
    }

    // Holds places in the order instead of rows until close() looks up all rows at once.
    Change change;
    double n_distances = 0.0;

private:
    // Assign the points of a node. `margin`: centers not in the list are farther from each of them
    // than their nearest center, by at least so much.
    void visit(std::size_t level, std::size_t node, const Candidates& from, float margin) {
        const float* box = tree_.box(level, node);
        CandidateList& list = lists_[level];
        const float extra = extra_share * box[2 * tree_.d];
        margin = std::min(
            margin, narrow_(from, box, static_cast<long long>(tree_.d), extra, scratch_, list));
        n_distances += from.count;
        counter_.add(static_cast<double>(from.count));
        const std::size_t begin = tree_.levels[level].starts[node];
        const std::size_t end = tree_.levels[level].starts[node + 1];
        if (list.count == 1) {
            only(level, node, list.indices[0], margin);
        } else if (level > 1) {
            for (std::size_t child = begin; child < end; ++child)
                visit(level - 1, child, list, margin);
        } else {
            visit_leaves(begin, end, list, margin);
        }
    }

    // A node all of whose points are nearest to one center; unless it is the first assignment
    // they were so before (see Narrow).
    void only(std::size_t level, std::size_t node, int label, float margin) {
        const std::size_t begin = tree_.first_leaf(level, node);
        const std::size_t end = tree_.first_leaf(level, node + 1);
        std::fill(boxes_.slack_.data() + begin, boxes_.slack_.data() + end, margin);
        if (!first_) return;
        const auto& starts = tree_.levels[0].starts;
        std::fill(boxes_.labels_.data() + starts[begin], boxes_.labels_.data() + starts[end],
                  label);
    }

    // Leaves whose slack outlasts the drifts are skipped. What can change there is a label in the
    // list to another one in the list: what is not in it was not nearest before it drifted, nor is
    // it now. No two of them come closer than by the two largest drifts together.
    void visit_leaves(std::size_t begin, std::size_t end, const Candidates& list, float margin) {
        float largest = 0.0f, second = 0.0f;
        for (int i = 0; i < list.count; ++i) {
            const float drift = list.drifts[i];
            second = std::max(second, std::min(drift, largest));
            largest = std::max(largest, drift);
        }
        // Each operation rounds by 2^-24 at most; the factors more than make up for it.
        const float drifts = (largest + second) * (1.0f + 0x1p-22f);
        for (std::size_t leaf = begin; leaf < end; ++leaf) {
            float& slack = boxes_.slack_[leaf];
            slack = std::min((slack - drifts) * (1.0f - 0x1p-22f), margin);
            if (!(slack > 0.0f)) visit_leaf(leaf, list, margin);
        }
    }

    void visit_leaf(std::size_t leaf, const Candidates& list, float margin) {
        const std::size_t begin = tree_.levels[0].starts[leaf];
        const auto count = static_cast<int>(tree_.levels[0].starts[leaf + 1] - begin);
        std::int32_t* labels = boxes_.labels_.data() + begin;
        std::copy_n(labels, count, old_);
        label_leaf_(list, tree_.box(0, leaf), static_cast<long long>(tree_.d),
                    tree_.points.get() + begin * tree_.d, count, old_, scratch_, verdict_);
        boxes_.slack_[leaf] = std::min(verdict_.slack, margin);
        n_distances += list.count;
        counter_.add(static_cast<double>(list.count * (1 + count)));
        if (verdict_.n_kept > 1) n_distances += static_cast<double>(verdict_.n_kept) * count;
        change.screened += static_cast<std::size_t>(count);
        if (verdict_.any_undecided) decide_undecided(begin, count, list);
        if (first_)
            std::copy_n(verdict_.labels, count, labels);
        else if (verdict_.moved || verdict_.any_undecided)
            move(begin, count);
    }

    // Decide undecided labels by the canonical distances to all centers that can be nearest.
    void decide_undecided(std::size_t begin, int count, const Candidates& list) {
        const std::size_t d = tree_.d;
        for (int p = 0; p < count; ++p) {
            if (!verdict_.undecided[p]) continue;
            ++change.rechecked;
            const Real* x = boxes_.X_ + tree_.rows[begin + static_cast<std::size_t>(p)] * d;
            double nearest = 0.0;
            int label = -1;
            for (int i = 0; i < verdict_.n_kept; ++i) { // in increasing order of indices
                const int k = list.indices[kept_[static_cast<std::size_t>(i)]];
                const double* center = centers_.doubles.data() + static_cast<std::size_t>(k) * d;
                double distance = 0.0;
                for (std::size_t j = 0; j < d; ++j) {
                    const double difference = static_cast<double>(x[j]) - center[j];
                    distance = distance + difference * difference;
                }
                if (label < 0 || distance < nearest) {
                    nearest = distance;
                    label = k;
                }
            }
            verdict_.labels[p] = label;
        }
    }

    void move(std::size_t begin, int count) {
        for (int p = 0; p < count; ++p) {
            const auto place = static_cast<std::uint32_t>(begin + static_cast<std::size_t>(p));
            const std::int32_t old = boxes_.labels_[place], now = verdict_.labels[p];
            if (old == now) continue;
            boxes_.labels_[place] = now;
            if (!is_special(specials_, place)) change.record(place, old, now);
        }
    }

    Boxes& boxes_;
    const BoxTree<Real>& tree_;
    const Centers& centers_;
    const std::vector<Special>& specials_;
    bool first_;
    Narrow* narrow_;
    LabelLeaf* label_leaf_;
    std::vector<float> squares_;
    std::vector<int> kept_;
    NarrowScratch scratch_;
    std::vector<CandidateList> lists_; // by level
    // A copy of a leaf's labels for kernels that load whole vectors: in labels_ the next leaf
    // follows, which another thread may be writing.
    std::int32_t old_[leaf_capacity + most_narrow_lanes] = {};
    LeafVerdict verdict_;
    WorkCounter counter_;
};

template <class Real>
Change Boxes<Real>::assign(const Real* rows, std::size_t K, const Forced& forced) {
    const bool first = !has_labels_ || previous_.size() != K * tree_.d;
    if (first) {
        labels_.assign(n_ + most_narrow_lanes * most_vectors, -1);
        slack_.assign(tree_.usable ? tree_.levels[0].size() : 0, -1.0f);
        previous_.clear();
    }
    const Centers centers(rows, K, tree_, previous_);
    std::vector<Special> special = specials(forced);
    Change total =
        centers.screenable ? walk(centers, special, first) : scan_all(centers, special, first);

    Change shown;
    forced_.clear();
    for (const Special& point : special) {
        const std::int32_t now = point.forced >= 0 ? point.forced : labels_[point.place];
        if (!first && now != point.before) shown.record(point.place, point.before, now);
        if (point.forced >= 0) forced_.push_back(point);
    }
    close(centers, shown);
    total.append(shown);
    previous_.assign(rows, rows + K * tree_.d);
    has_labels_ = true;
    return total;
}

template <class Real>
Change Boxes<Real>::walk(const Centers& centers, const std::vector<Special>& specials, bool first) {
    const double looks = first ? distances_per_point * static_cast<double>(n_) : n_distances_;
    const double operations =
        static_cast<double>(n_) * overhead_per_point + looks * static_cast<double>(tree_.d);
    const std::size_t nodes = tree_.levels.back().size();
    const std::size_t threads = worthwhile_threads(nodes, operations, n_threads_);
    std::vector<std::unique_ptr<Worker>> workers(threads);
    std::atomic<std::size_t> next{0};
    over_rows(threads, threads, 1, [&](std::size_t thread, std::size_t, std::size_t) {
        workers[thread] = std::make_unique<Worker>(*this, centers, specials, first);
        for (std::size_t node; (node = next.fetch_add(1)) < nodes;)
            workers[thread]->top_node(node);
        close(centers, workers[thread]->change);
    });
    n_distances_ = workers[0]->n_distances;
    Change total = std::move(workers[0]->change);
    for (std::size_t thread = 1; thread < threads; ++thread) {
        total.append(workers[thread]->change);
        n_distances_ += workers[thread]->n_distances;
    }
    return total;
}

// For data outside the range of float32: canonical distances of all points to all centers.
template <class Real>
Change Boxes<Real>::scan_all(const Centers& centers, const std::vector<Special>& specials,
                             bool first) {
    Change total;
    std::vector<std::int32_t> nearest(n_);
    std::vector<double> distances(n_);
    wolfmeans::assign(X_, n_, tree_.d, centers.rows, centers.K, nearest.data(), distances.data(),
                      static_cast<double*>(nullptr), n_threads_);
    for (std::size_t i = 0; i < n_; ++i) {
        const std::int32_t old = labels_[i], now = nearest[tree_.rows[i]];
        labels_[i] = now;
        if (!first && old != now && !is_special(specials, static_cast<std::uint32_t>(i)))
            total.record(i, old, now);
    }
    std::fill(slack_.begin(), slack_.end(), -1.0f);
    total.screened = total.rechecked = n_;
    n_distances_ = static_cast<double>(n_) * static_cast<double>(centers.K);
    close(centers, total);
    return total;
}

// Turn places into rows and add the gap's terms w (D_old - D_new), from canonical distances, each
// rounded as specified.
template <class Real>
void Boxes<Real>::close(const Centers& centers, Change& change) const {
    constexpr std::size_t ahead = 16;
    const std::size_t d = tree_.d, moves = change.rows.size();
    for (std::int64_t& row : change.rows)
        row = static_cast<std::int64_t>(tree_.rows[static_cast<std::size_t>(row)]);
    for (std::size_t m = 0; m < moves; ++m) {
        // The rows are scattered in memory.
        __builtin_prefetch(
            X_ + static_cast<std::size_t>(change.rows[std::min(m + ahead, moves - 1)]) * d);
        const auto i = static_cast<std::size_t>(change.rows[m]);
        const double* before = centers.doubles.data() + static_cast<std::size_t>(change.old[m]) * d;
        const double* after = centers.doubles.data() + static_cast<std::size_t>(change.now[m]) * d;
        double old = 0.0, now = 0.0;
        for (std::size_t j = 0; j < d; ++j) {
            const auto coordinate = static_cast<double>(X_[i * d + j]);
            const double from = coordinate - before[j], to = coordinate - after[j];
            old = old + from * from;
            now = now + to * to;
        }
        const double term = old - now;
        change.gap.add(weights_ ? weights_[i] * term : term);
    }
}

// The points that are or were forced, by place.
template <class Real>
std::vector<typename Boxes<Real>::Special> Boxes<Real>::specials(const Forced& forced) const {
    std::vector<Special> all = forced_;
    for (Special& point : all) {
        point.before = point.forced;
        point.forced = -1;
    }
    if (forced.count == 0) return all;
    std::vector<bool> wanted(n_, false);
    for (std::size_t f = 0; f < forced.count; ++f)
        wanted[static_cast<std::size_t>(forced.rows[f])] = true;
    for (std::size_t i = 0; i < n_; ++i) {
        if (!wanted[tree_.rows[i]]) continue;
        const auto place = static_cast<std::uint32_t>(i);
        auto at = std::lower_bound(all.begin(), all.end(), place, before_place<Special>);
        if (at == all.end() || at->place != place) at = all.insert(at, {place, labels_[place], -1});
        for (std::size_t f = 0; f < forced.count; ++f)
            if (forced.rows[f] == static_cast<std::int64_t>(tree_.rows[i]))
                at->forced = forced.labels[f];
    }
    return all;
}

template <class Real>
void Boxes<Real>::copy_labels(std::int32_t* out) const {
    for (std::size_t i = 0; i < n_; ++i)
        out[tree_.rows[i]] = labels_[i];
    for (const Special& point : forced_)
        out[tree_.rows[point.place]] = point.forced;
}

template class Boxes<float>;
template class Boxes<double>;

} // namespace wolfmeans
