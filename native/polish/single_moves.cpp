#include "polish/single_moves.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "assignment/group.hpp"
#include "exact/unit_roundoff.hpp"
#include "kernels/exact/scan.hpp"
#include "kernels/exact/vicinity.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// Rows gathered by cluster before their groups are looked at.
constexpr std::size_t tile_rows = 8192;
constexpr std::size_t rows_between_clocks = 16;
// Distances between centers are kept up to so many, 64 megabytes.
constexpr std::size_t most_separations = std::size_t{1} << 22;
// What the vicinity lets pass beyond need; see SingleMoves::check_rows.
constexpr double to_spare = 0x1p-19;
constexpr std::size_t most_screened_columns = std::size_t{1} << 20;

// The canonical distance (scan.hpp) of a row to `Centers` consecutive centers.
template <int Centers, class Real>
void row_distances(const Real* row, const double* centers, std::size_t d, double* out) {
    double sum[Centers] = {};
    for (std::size_t j = 0; j < d; ++j) {
        const double x = static_cast<double>(row[j]);
        for (int k = 0; k < Centers; ++k) {
            const double difference = x - centers[static_cast<std::size_t>(k) * d + j];
            sum[k] = sum[k] + difference * difference;
        }
    }
    std::copy_n(sum, Centers, out);
}

double joining_factor(double weight, double w) {
    return weight / (weight + w);
}

// Less than what joining a cluster costs a unit of weight at a unit of distance; 0 for clusters so
// light that rounding could matter.
double least_factor(double weight, double w) {
    const double factor = joining_factor(weight, w);
    return factor < 0x1p-8 ? 0.0 : factor * (1.0 - to_spare);
}

} // namespace

// The scratch memory of one thread that finds candidates.
template <class Real>
struct SingleMoves<Real>::Worker {
    struct Row {
        std::uint32_t row;
        std::int32_t label;
        double root; // of the distance to the own center
        double reach, radius;
    };
    std::vector<Row> open, sorted;
    std::vector<std::size_t> ends;
    std::vector<std::int32_t> list;
    std::vector<double> factors, distances;
    Aligned<double> group;
    std::vector<std::int64_t> found;
};

template <class Real>
SingleMoves<Real>::SingleMoves(const Real* X, std::size_t n, std::size_t d, const double* weights,
                               const std::int32_t* labels, const Real* centers, std::size_t K,
                               int n_threads)
    : X_(X), n_(n), d_(d), K_(K), weights_(weights), n_threads_(n_threads),
      moments_(X, n, d, weights, K, n_threads), labels_(labels, labels + n), centers_(K * d),
      wide_centers_(K * d), cluster_weights_(K), off_(K), slack_(K), members_(K), up_(n),
      low_(n, -infinity), changed_(K, 1), then_centers_(K * d), then_weights_(K), drifts_(K),
      steepness_(K), offset_(K), new_weights_(K), new_residuals_(K * d), new_centers_(K * d),
      distances_(K), scores_(K), gains_(2 * d), sizes_(2 * d) {
    moments_.add_all(labels);
    moments_.means(centers, new_weights_.data(), new_centers_.data(), new_residuals_.data());
    for (std::size_t k = 0; k < K; ++k)
        set_cluster(k);
    for (std::size_t i = 0; i < n; ++i)
        members_[static_cast<std::size_t>(labels[i])] += weight(i) > 0.0;
}

// Update a cluster from the last call of moments_.means.
template <class Real>
void SingleMoves<Real>::set_cluster(std::size_t k) {
    cluster_weights_[k] = new_weights_[k];
    double largest = 0.0;
    for (std::size_t j = k * d_; j < (k + 1) * d_; ++j) {
        centers_[j] = new_centers_[j];
        wide_centers_[j] = static_cast<double>(new_centers_[j]);
        largest = std::max(largest, std::abs(new_residuals_[j]));
    }
    off_[k] = largest * std::sqrt(static_cast<double>(d_));
    slack_[k] = cluster_weights_[k] * (off_[k] * off_[k]);
    changed_[k] = 1;
}

// W_A / (W_A - w), rounded up; infinite if the rest of the cluster is 0 up to rounding.
template <class Real>
double SingleMoves<Real>::slope_of_leaving(double w, std::size_t A) const {
    const double weight = cluster_weights_[A];
    const double rest = (weight - w) - (4.0 * unit_roundoff) * weight;
    return rest > 0.0 ? weight / rest : infinity;
}

template <class Real>
double SingleMoves<Real>::value_of_leaving(double root, double w, std::size_t A) const {
    const double slope = slope_of_leaving(w, A);
    const double apart = root + off_[A];
    return slope < infinity ? slope * (apart * apart) + slack_[A] / w : infinity;
}

template <class Real>
bool SingleMoves<Real>::may_gain(double value, double distance, double w, std::size_t B) const {
    const double weight = cluster_weights_[B];
    if (weight == 0.0) return value > 0.0;
    const double root = std::max(std::sqrt(distance) - off_[B], 0.0);
    const double price = joining_factor(weight, w) * (root * root) - slack_[B] / w;
    const double rounding = (4.0 * (static_cast<double>(d_) + 16.0)) * unit_roundoff;
    return price <= value + rounding * (value + distance);
}

template <class Real>
bool SingleMoves<Real>::run(double seconds, std::int64_t sweeps) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const auto over = [&] {
        return std::chrono::duration<double>(Clock::now() - start).count() > seconds;
    };
    const std::int64_t last = sweeps_ + sweeps;
    while (true) {
        if (place_ == candidates_.size()) {
            if (accepted_ == 0) return true;
            if (sweeps_ == last || over()) return false;
            find_candidates();
            place_ = 0;
            accepted_ = 0;
            tied_ = false;
            ++sweeps_;
        }
        while (place_ < candidates_.size()) {
            if (place_ % rows_between_clocks == 0 && over()) return false;
            try_row(static_cast<std::size_t>(candidates_[place_++]));
        }
    }
}

// -- candidates

template <class Real>
void SingleMoves<Real>::find_candidates() {
    update_bounds();
    const double operations =
        static_cast<double>(n_) *
        (sweeps_ == 0 ? static_cast<double>(d_ * K_) / 4.0 : 8.0 + static_cast<double>(d_));
    const std::size_t chunks = worthwhile_threads(n_, operations, n_threads_);
    std::vector<Worker> workers(chunks);
    over_rows(n_, chunks, group_size, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        workers[chunk].distances.resize(K_);
        for (std::size_t i = begin; i < end; i += tile_rows) {
            check_interrupt();
            check_rows(i, std::min(end, i + tile_rows), workers[chunk]);
        }
    });
    candidates_.clear();
    for (const Worker& worker : workers)
        candidates_.insert(candidates_.end(), worker.found.begin(), worker.found.end());
    std::sort(candidates_.begin(), candidates_.end());
    std::fill(changed_.begin(), changed_.end(), static_cast<unsigned char>(0));
}

// Update the bounds after the clusters have changed.
//
// For row i of cluster A, up_[i] is at least sqrt(D_A), but for some u, and low_[i]^2 at most
// W_B / (W_B + w) (1 - 2^-19) D_B for all other B with weight. When centers move by `max_drift` at
// most and weights become `shrink` of what they were at least, sqrt(D_B) goes down by at most the
// one and the factor to at least the other times itself, hence low_[i] to low_[i] * shrink -
// max_drift; and up_[i] goes up by what c_A moves. The distance between two centers goes down by
// twice max_drift at most. A cluster that was empty before is in none of the bounds: all of them
// are discarded.
template <class Real>
void SingleMoves<Real>::update_bounds() {
    shrink_ = 1.0;
    max_drift_ = 0.0;
    bool anew = sweeps_ == 0;
    most_off_ = most_slack_ = 0.0;
    lightest_ = infinity;
    any_empty_ = false;
    for (std::size_t k = 0; k < K_; ++k) {
        const double weight = cluster_weights_[k];
        any_empty_ = any_empty_ || weight == 0.0;
        most_off_ = std::max(most_off_, off_[k]);
        most_slack_ = std::max(most_slack_, slack_[k]);
        if (weight > 0.0) lightest_ = std::min(lightest_, weight);
        drifts_[k] = 0.0;
        if (!changed_[k]) continue;
        if (sweeps_ > 0) {
            double square;
            row_distances<1>(wide_centers_.data() + k * d_, then_centers_.data() + k * d_, d_,
                             &square);
            drifts_[k] = std::sqrt(square) * (1.0 + to_spare);
            max_drift_ = std::max(max_drift_, drifts_[k]);
            if (then_weights_[k] == 0.0)
                anew = true;
            else
                shrink_ = std::min(shrink_, weight / then_weights_[k]);
        }
        std::copy_n(wide_centers_.data() + k * d_, d_, then_centers_.data() + k * d_);
        then_weights_[k] = weight;
    }
    shrink_ *= 1.0 - 0x1p-50;
    shrunk_ *= shrink_;
    others_drift_ += 2.0 * max_drift_;
    // least_factor requires that factors have not become much smaller.
    if (anew || shrunk_ < 0.5) {
        std::fill(low_.begin(), low_.end(), -infinity);
        shrink_ = shrunk_ = 1.0;
        max_drift_ = 0.0;
    }
    double nearest = 0.0;
    for (const Others& of : others_)
        nearest += of.apart.empty() ? 0.0 : of.apart.front();
    if (anew || 16.0 * static_cast<double>(others_.size()) * others_drift_ > nearest) {
        find_others();
        others_drift_ = 0.0;
    }
    // sqrt(reach) of a point at sqrt(D_A) <= up is at most up * steepness + offset.
    for (std::size_t k = 0; weights_ == nullptr && k < K_; ++k) {
        steepness_[k] = std::sqrt(slope_of_leaving(1.0, k)) * (1.0 + to_spare);
        offset_[k] =
            std::sqrt(reach_of(slack_[k], 1.0)) * (1.0 + to_spare) + steepness_[k] * off_[k];
    }
}

// For each cluster the others, from near to far; a single list without distances where there are
// too many of them.
template <class Real>
void SingleMoves<Real>::find_others() {
    std::vector<std::int32_t> all;
    for (std::size_t k = 0; k < K_; ++k)
        if (cluster_weights_[k] > 0.0) all.push_back(static_cast<std::int32_t>(k));
    if (all.size() * K_ > most_separations) {
        others_.assign(1, {all, std::vector<double>(all.size())});
        return;
    }
    others_.resize(K_);
    const double operations =
        static_cast<double>(K_ * all.size()) * (static_cast<double>(d_) + 8.0);
    over_rows(K_, worthwhile_threads(K_, operations, n_threads_), 1,
              [&](std::size_t, std::size_t begin, std::size_t end) {
                  std::vector<std::pair<double, std::int32_t>> sorted;
                  for (std::size_t A = begin; A < end; ++A) {
                      sorted.clear();
                      for (const std::int32_t B : all) {
                          if (static_cast<std::size_t>(B) == A) continue;
                          double square;
                          row_distances<1>(wide_centers_.data() + A * d_,
                                           wide_centers_.data() + static_cast<std::size_t>(B) * d_,
                                           d_, &square);
                          sorted.emplace_back(std::sqrt(square) * (1.0 - to_spare), B);
                      }
                      std::sort(sorted.begin(), sorted.end());
                      Others& of = others_[A];
                      of.list.clear();
                      of.apart.clear();
                      for (const auto& [apart, B] : sorted) {
                          of.list.push_back(B);
                          of.apart.push_back(apart);
                      }
                  }
              });
}

// A row i of cluster A, at distance D_A, is no candidate when for all others B
//     p_B (sqrt(D_B) - r_B)^2 - s_B / w > v + e (v + D_B),
// p_B = W_B / (W_B + w), v the value of leaving A, r and s the off_ and slack_ of B, e < 2^-30 the
// rounding in may_gain. With (sqrt(D) - r)^2 >= (1 - 2^-20) D - 2^20 r^2 this follows, for
// p_B > 2^-10, from
//     p_B (1 - 2^-19) D_B > reach,   reach = (1 + 2^-19) v + 2^21 max r^2 + 2 max s / w,
// with far more to spare than the roundings on the way. And because sqrt(D_B), but for rounding, is
// at least |c_A - c_B| - sqrt(D_A), it holds for all B with
//     |c_A - c_B| > sqrt(D_A) + sqrt(reach / (1 - 2^-19) / min p_B).
template <class Real>
double SingleMoves<Real>::reach_of(double value, double w) const {
    return value * (1.0 + to_spare) + 0x1p21 * (most_off_ * most_off_) + 2.0 * most_slack_ / w;
}

template <class Real>
void SingleMoves<Real>::check_rows(std::size_t begin, std::size_t end, Worker& worker) {
    const bool screened = !any_empty_ && d_ <= most_screened_columns;
    if (sweeps_ == 0) {
        best_kernels().scan->of<Real>().own(X_ + begin * d_, static_cast<long long>(end - begin),
                                            static_cast<long long>(d_), wide_centers_.data(),
                                            labels_.data() + begin, up_.data() + begin);
        for (std::size_t i = begin; i < end; ++i)
            up_[i] = std::sqrt(up_[i]);
    }
    worker.open.clear();
    worker.ends.assign(K_ + 1, 0);
    for (std::size_t i = begin; i < end; ++i) {
        const std::size_t A = static_cast<std::size_t>(labels_[i]);
        low_[i] = low_[i] * shrink_ - max_drift_;
        up_[i] += drifts_[A];
        if (weights_ == nullptr && screened && low_[i] > up_[i] * steepness_[A] + offset_[A])
            continue;
        const double w = weight(i);
        if (!(w > 0.0) || members_[A] <= 1) continue;
        if (weights_ != nullptr && screened && low_[i] > 0.0 &&
            low_[i] * low_[i] > reach_of(value_of_leaving(up_[i], w, A), w) * (1.0 + to_spare))
            continue;
        if (sweeps_ > 0) {
            double square;
            row_distances<1>(X_ + i * d_, wide_centers_.data() + A * d_, d_, &square);
            up_[i] = std::sqrt(square);
        }
        check_row(i, up_[i], worker);
    }
    check_open_rows(worker);
}

// A row that the bounds do not decide, at sqrt(D_A) = root.
template <class Real>
void SingleMoves<Real>::check_row(std::size_t row, double root, Worker& worker) {
    const std::size_t A = static_cast<std::size_t>(labels_[row]);
    const double w = weight(row), value = value_of_leaving(root, w, A);
    if (!(value < infinity) || (any_empty_ && value > 0.0) || d_ > most_screened_columns) {
        if (is_candidate(row, worker.distances))
            worker.found.push_back(static_cast<std::int64_t>(row));
        return;
    }
    const double reach = reach_of(value, w);
    if (low_[row] > 0.0 && low_[row] * low_[row] > reach) return;
    const Others& of = others_[others_.size() == 1 ? 0 : A];
    if (of.list.empty()) return;
    const double least = least_factor(lightest_, w);
    const double radius =
        least > 0.0 ? (root + std::sqrt(reach / least)) * (1.0 + to_spare) : infinity;
    if (of.apart.front() - others_drift_ > radius) {
        low_[row] = (of.apart.front() - others_drift_ - root) * std::sqrt(least) * (1.0 - 0x1p-40);
        return;
    }
    worker.open.push_back({static_cast<std::uint32_t>(row), labels_[row], root, reach, radius});
    ++worker.ends[A + 1];
}

template <class Real>
void SingleMoves<Real>::check_open_rows(Worker& worker) {
    // Sorted by cluster, then by radius: the radius of a group is that of its farthest point.
    std::partial_sum(worker.ends.begin(), worker.ends.end(), worker.ends.begin());
    worker.sorted.resize(worker.open.size());
    for (const auto& row : worker.open)
        worker.sorted[worker.ends[static_cast<std::size_t>(row.label)]++] = row;
    std::size_t first = 0;
    for (std::size_t A = 0; A < K_; ++A) {
        const std::size_t last = worker.ends[A];
        if (last == first) continue;
        std::sort(worker.sorted.begin() + static_cast<std::ptrdiff_t>(first),
                  worker.sorted.begin() + static_cast<std::ptrdiff_t>(last),
                  [](const auto& a, const auto& b) { return a.radius < b.radius; });
        for (; first < last; first += group_size)
            check_group(first, std::min<std::size_t>(group_size, last - first),
                        others_[others_.size() == 1 ? 0 : A], worker);
        first = last;
    }
}

// Check rows of one cluster, sorted[first..first+count-1].
template <class Real>
void SingleMoves<Real>::check_group(std::size_t first, std::size_t count, const Others& others,
                                    Worker& worker) {
    worker.group.resize(d_ * group_size);
    double* const points = worker.group.data();
    double heaviest = 0.0;
    const auto row_of = [&](std::size_t p) {
        const auto& at = worker.sorted[first + std::min(p, count - 1)];
        heaviest = std::max(heaviest, weight(at.row));
        return X_ + at.row * d_;
    };
    transpose_group(d_, row_of, points);

    // A little more than the radius, so that the bounds last longer than one sweep.
    const double radius = worker.sorted[first + count - 1].radius * 1.125 + others_drift_;
    const std::int32_t A = worker.sorted[first].label;
    worker.list.clear();
    worker.factors.clear();
    std::size_t b = 0;
    for (; b < others.list.size() && !(others.apart[b] > radius); ++b) {
        const std::int32_t B = others.list[b];
        if (B == A) continue;
        worker.list.push_back(B);
        worker.factors.push_back(
            least_factor(cluster_weights_[static_cast<std::size_t>(B)], heaviest));
    }
    alignas(64) double least[group_size];
    best_kernels().vicinity->least(points, wide_centers_.data(), static_cast<long long>(d_),
                                   worker.list.data(), worker.factors.data(),
                                   static_cast<long long>(worker.list.size()), least);
    const double beyond = b < others.list.size() ? others.apart[b] - others_drift_ : infinity;
    const double factor = std::sqrt(least_factor(lightest_, heaviest));
    for (std::size_t p = 0; p < count; ++p) {
        const auto& at = worker.sorted[first + p];
        const double far = beyond < infinity ? (beyond - at.root) * factor : infinity;
        low_[at.row] = std::min(std::sqrt(least[p]), far) * (1.0 - 0x1p-40);
        if (least[p] <= at.reach && is_candidate(at.row, worker.distances))
            worker.found.push_back(static_cast<std::int64_t>(at.row));
    }
}

template <class Real>
bool SingleMoves<Real>::is_candidate(std::size_t row, std::vector<double>& distances) const {
    const std::size_t A = static_cast<std::size_t>(labels_[row]);
    const double w = weight(row);
    if (!(w > 0.0) || members_[A] <= 1) return false;
    distances_to_all(row, distances.data());
    const double value = value_of_leaving(std::sqrt(distances[A]), w, A);
    for (std::size_t B = 0; B < K_; ++B)
        if (B != A && may_gain(value, distances[B], w, B)) return true;
    return false;
}

// -- moves

template <class Real>
void SingleMoves<Real>::distances_to_all(std::size_t row, double* distances) const {
    constexpr std::size_t together = 8;
    const Real* const x = X_ + row * d_;
    std::size_t k = 0;
    for (; k + together <= K_; k += together)
        row_distances<together>(x, wide_centers_.data() + k * d_, d_, distances + k);
    for (; k < K_; ++k)
        row_distances<1>(x, wide_centers_.data() + k * d_, d_, distances + k);
}

// Take the first move of the row that gains, if there is one.
template <class Real>
void SingleMoves<Real>::try_row(std::size_t row) {
    const std::size_t A = static_cast<std::size_t>(labels_[row]);
    if (members_[A] <= 1) return;
    const double w = weight(row);
    distances_to_all(row, distances_.data());
    const double d_A = distances_[A], value = value_of_leaving(std::sqrt(d_A), w, A);
    // NaN marks a cluster that is not to be tried.
    constexpr double never = std::numeric_limits<double>::quiet_NaN();
    for (std::size_t B = 0; B < K_; ++B) {
        const double weight_B = cluster_weights_[B];
        scores_[B] = B == A || !may_gain(value, distances_[B], w, B) ? never
                     : weight_B == 0.0                               ? 0.0
                                       : joining_factor(weight_B, w) * distances_[B];
    }
    while (true) {
        std::size_t best = K_;
        for (std::size_t B = 0; B < K_; ++B)
            if (scores_[B] == scores_[B] && (best == K_ || scores_[B] < scores_[best])) best = B;
        if (best == K_ || try_move(row, A, best, d_A, distances_[best])) return;
        scores_[best] = never;
    }
}

// Take a move if its gain exceeds its rounding error; return whether it was taken.
//
// Rounding: distances are off by (d + 2) u of themselves; a term W (c' - c)((c' - c) + 2 r), r the
// residual, by 8 u of W |c' - c| (|c' - c| + 2 |r|) at most; sums are exact and rounded once.
template <class Real>
bool SingleMoves<Real>::try_move(std::size_t row, std::size_t A, std::size_t B, double d_A,
                                 double d_B) {
    const auto i = static_cast<std::int64_t>(row);
    const auto a = static_cast<std::int32_t>(A), b = static_cast<std::int32_t>(B);
    moments_.move(&i, &a, &b, 1);
    moments_.means(centers_.data(), new_weights_.data(), new_centers_.data(),
                   new_residuals_.data());
    // An empty cluster's center may be any point, so it is this one and does not move.
    const bool into_empty = cluster_weights_[B] == 0.0;
    if (into_empty) d_B = 0.0;
    std::size_t terms = 0;
    for (const std::size_t k : {A, B}) {
        if (k == B && into_empty) continue;
        for (std::size_t j = k * d_; j < (k + 1) * d_; ++j, ++terms) {
            const double shift = static_cast<double>(new_centers_[j]) - wide_centers_[j];
            const double rest = new_residuals_[j];
            gains_[terms] = new_weights_[k] * (shift * (shift + 2.0 * rest));
            sizes_[terms] =
                new_weights_[k] * (std::abs(shift) * (std::abs(shift) + 2.0 * std::abs(rest)));
        }
    }
    const double w = weight(row);
    ExactSum gain, size;
    gain.add(w * d_A);
    gain.subtract(w * d_B);
    gain.add(gains_.data(), terms);
    size.add(w * d_A);
    size.add(w * d_B);
    size.add(sizes_.data(), terms);
    const double decrease = gain.rounded();
    const double bound = (unit_roundoff * (static_cast<double>(d_) + 8.0)) * size.rounded();
    if (!(decrease > bound)) {
        tied_ = tied_ || decrease >= -bound;
        moments_.move(&i, &b, &a, 1);
        return false;
    }
    set_cluster(A);
    set_cluster(B);
    labels_[row] = b;
    low_[row] = -infinity; // the bound excluded another cluster
    --members_[A];
    ++members_[B];
    decrease_.add(decrease);
    ++moves_;
    ++accepted_;
    return true;
}

template class SingleMoves<float>;
template class SingleMoves<double>;

} // namespace wolfmeans
