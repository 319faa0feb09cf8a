#include "descent/trimming.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "assignment/assign.hpp"
#include "kernels/exact/scan.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Threshold nowhere{infinity, -1, 0.0};
constexpr std::size_t tied_at_once = 256;

// An exact comparison of the weights of some points with the mass.
class Filling {
public:
    explicit Filling(double mass) { missing_.add(mass); }
    void add(double weight) { missing_.subtract(weight); }
    // The mass less all weights, rounded once: its sign is that of the exact difference.
    double missing() const { return missing_.rounded(); }

private:
    ExactSum missing_;
};

// The smallest distance at which a whole number of points is reached.
double distance_of_rank(const double* distances, std::size_t n, std::size_t count) {
    std::vector<double> copy(distances, distances + n);
    const auto at = copy.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(copy.begin(), at, copy.end());
    return *at;
}

// The smallest distance at which the weights reach the mass; the total does. Each round halves the
// remaining points.
double distance_of_mass(const double* distances, const double* weights, std::size_t n,
                        double mass) {
    std::vector<std::pair<double, double>> open;
    open.reserve(n);
    for (std::size_t i = 0; i < n; ++i)
        open.emplace_back(distances[i], weights[i]);
    Filling below(mass);
    auto first = open.begin(), last = open.end();
    while (last - first > 1) {
        const auto middle = first + (last - first) / 2;
        std::nth_element(first, middle, last,
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        Filling with_left = below;
        for (auto point = first; point != middle; ++point)
            with_left.add(point->second);
        if (with_left.missing() <= 0.0) {
            last = middle;
        } else {
            first = middle;
            below = with_left;
        }
    }
    return first->first;
}

// The row that reaches the mass, among those at this distance in ascending order.
Threshold threshold_at(double distance, const double* distances, const double* weights,
                       std::size_t n, double mass) {
    Filling filling(mass);
    std::vector<std::size_t> tied;
    for (std::size_t i = 0; i < n; ++i) {
        if (distances[i] < distance)
            filling.add(weights[i]);
        else if (distances[i] == distance)
            tied.push_back(i);
    }
    for (std::size_t begin = 0; begin < tied.size(); begin += tied_at_once) {
        const std::size_t end = std::min(tied.size(), begin + tied_at_once);
        Filling with_block = filling;
        for (std::size_t t = begin; t < end; ++t)
            with_block.add(weights[tied[t]]);
        if (with_block.missing() > 0.0) {
            filling = with_block;
            continue;
        }
        for (std::size_t t = begin; t < end; ++t) {
            const double rest = filling.missing();
            filling.add(weights[tied[t]]);
            if (filling.missing() <= 0.0)
                return {distance, static_cast<std::int64_t>(tied[t]), rest};
        }
    }
    return nowhere;
}

Threshold threshold_at_count(double distance, const double* distances, std::size_t n,
                             std::size_t count) {
    const auto nearer = static_cast<std::size_t>(
        std::count_if(distances, distances + n, [=](double other) { return other < distance; }));
    std::size_t missing = count - nearer;
    for (std::size_t i = 0; i < n; ++i)
        if (distances[i] == distance && --missing == 0)
            return {distance, static_cast<std::int64_t>(i), 1.0};
    return nowhere;
}

} // namespace

Threshold find_threshold(const double* distances, const double* weights, std::size_t n,
                         double mass) {
    if (weights == nullptr) {
        if (!(mass < static_cast<double>(n))) return nowhere;
        const auto count = static_cast<std::size_t>(mass);
        return threshold_at_count(distance_of_rank(distances, n, count), distances, n, count);
    }
    if (mass == infinity) return nowhere;
    Filling all(mass);
    for (std::size_t i = 0; i < n; ++i)
        all.add(weights[i]);
    if (all.missing() >= 0.0) return nowhere;
    return threshold_at(distance_of_mass(distances, weights, n, mass), distances, weights, n, mass);
}

template <class Real>
TrimmedPoints<Real>::TrimmedPoints(const Real* X, std::size_t n, std::size_t d,
                                   const double* weights, double mass, int n_threads,
                                   std::optional<SumRanges> given)
    : X_(X), n_(n), d_(d), mass_(mass), n_threads_(n_threads), given_(given),
      weights_(weights == nullptr ? std::vector<double>()
                                  : std::vector<double>(weights, weights + n)),
      masses_(weights_), points_(X, n, d, nullptr, n_threads), labels_(n), inside_(n), nearest_(n) {
}

template <class Real>
double TrimmedPoints<Real>::kept_of(std::size_t i, bool inside, const Threshold& threshold) const {
    if (!inside) return 0.0;
    if (static_cast<std::int64_t>(i) == threshold.row) return threshold.mass;
    return weights_.empty() ? 1.0 : weights_[i];
}

// The changes that one thread finds. `from` and `to` are clusters; K is the trimmed part.
template <class Real>
struct TrimmedPoints<Real>::Found {
    std::vector<std::int64_t> rows;
    std::vector<std::int32_t> from, to;
    std::vector<double> terms;
    std::size_t moved = 0;
    TermSum gap;
};

template <class Real>
typename TrimmedPoints<Real>::Step TrimmedPoints<Real>::assign(const Real* centers, std::size_t K,
                                                               double* weights, Real* means,
                                                               double* residuals) {
    find_nearest(centers, K);
    const Threshold now =
        find_threshold(nearest_.data(), weights_.empty() ? nullptr : weights_.data(), n_, mass_);
    TermSum gap;
    const std::size_t moved = keep(now, centers, gap);

    std::vector<Real> fallback(centers, centers + K * d_), all_means((K + 1) * d_);
    fallback.resize((K + 1) * d_);
    std::vector<double> all_weights(K + 1), all_residuals((K + 1) * d_);
    moments_->means(fallback.data(), all_weights.data(), all_means.data(), all_residuals.data());
    std::copy_n(all_weights.begin(), K, weights);
    std::copy_n(all_means.begin(), K * d_, means);
    std::copy_n(all_residuals.begin(), K * d_, residuals);
    return {moved, gap.result()};
}

template <class Real>
void TrimmedPoints<Real>::find_nearest(const Real* centers, std::size_t K) {
    points_.assign(centers, K, true, {});
    distances(X_, n_, d_, centers, K, points_.labels().data(), nearest_.data(), n_threads_);
    K_ = K;
}

template <class Real>
std::size_t TrimmedPoints<Real>::keep(const Threshold& now, const Real* centers, TermSum& gap) {
    std::size_t moved = n_;
    if (moments_) {
        move_threshold_point(true);
        moved = move(now, centers, gap);
        threshold_ = now;
    } else {
        threshold_ = now;
        begin();
    }
    move_threshold_point(false);
    return moved;
}

// The first labels. The point at the threshold counts as trimmed until its part is taken.
template <class Real>
void TrimmedPoints<Real>::begin() {
    std::copy_n(points_.labels().begin(), n_, labels_.begin());
    std::vector<std::int32_t> clusters(labels_);
    for (std::size_t i = 0; i < n_; ++i) {
        const auto row = static_cast<std::int64_t>(i);
        inside_[i] = threshold_.keeps(nearest_[i], row);
        if (!inside_[i] || row == threshold_.row) clusters[i] = static_cast<std::int32_t>(K_);
    }
    moments_.emplace(X_, n_, d_, masses_.empty() ? nullptr : masses_.data(), K_ + 1, n_threads_,
                     given_ ? &*given_ : nullptr);
    moments_->add_all(clusters.data());
}

// Move the kept part of the point at the threshold between its cluster and the trimmed part, which
// holds the rest of it: trimmed sums stay exact, too.
template <class Real>
void TrimmedPoints<Real>::move_threshold_point(bool out) {
    if (threshold_.row < 0 || threshold_.row >= static_cast<std::int64_t>(n_)) return;
    const auto i = static_cast<std::size_t>(threshold_.row);
    const std::int32_t label = labels_[i], trimmed = static_cast<std::int32_t>(K_);
    if (!weights_.empty()) masses_[i] = threshold_.mass;
    if (out)
        moments_->move(&threshold_.row, &label, &trimmed, 1);
    else
        moments_->move(&threshold_.row, &trimmed, &label, 1);
    if (!weights_.empty()) masses_[i] = weights_[i];
}

template <class Real>
std::size_t TrimmedPoints<Real>::move(const Threshold& now, const Real* centers, TermSum& gap) {
    const double operations = 8.0 * static_cast<double>(n_);
    const std::size_t chunks = worthwhile_threads(n_, operations, n_threads_);
    std::vector<Found> found(chunks);
    over_rows(n_, chunks, 64, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        compare_rows(begin, end, now, centers, found[chunk]);
    });
    std::size_t moved = 0;
    for (Found& part : found) {
        moved += part.moved;
        gap.merge(part.gap);
        moments_->move(part.rows.data(), part.from.data(), part.to.data(), part.rows.size());
    }
    return moved;
}

// Find the changes of rows begin..end-1 and update them.
template <class Real>
void TrimmedPoints<Real>::compare_rows(std::size_t begin, std::size_t end, const Threshold& now,
                                       const Real* centers, Found& found) {
    const std::int32_t* const labels = points_.labels().data();
    OwnDistances<Real>* const own = best_kernels().scan->of<Real>().own;
    const auto trimmed = static_cast<std::int32_t>(K_);
    std::vector<double> center(d_);
    for (std::size_t i = begin; i < end; ++i) {
        const auto row = static_cast<std::int64_t>(i);
        const std::int32_t old_label = std::exchange(labels_[i], labels[i]);
        const bool was_inside = inside_[i], is_inside = now.keeps(nearest_[i], row);
        inside_[i] = is_inside;
        if (!was_inside && !is_inside) continue;
        const bool relabelled = old_label != labels[i];
        const double old = kept_of(i, was_inside, threshold_), kept = kept_of(i, is_inside, now);
        if (was_inside == is_inside && !relabelled && old == kept && row != threshold_.row &&
            row != now.row)
            continue;
        // In the sums, the points at the old and the new threshold count as trimmed at this moment.
        const std::int32_t from = was_inside && row != threshold_.row ? old_label : trimmed;
        const std::int32_t to = is_inside && row != now.row ? labels[i] : trimmed;
        if (from != to) {
            found.rows.push_back(row);
            found.from.push_back(from);
            found.to.push_back(to);
        }
        if (was_inside == is_inside && !relabelled && old == kept) continue;
        ++found.moved;
        double before = nearest_[i];
        if (relabelled && was_inside) {
            const Real* const c = centers + static_cast<std::size_t>(old_label) * d_;
            std::copy(c, c + d_, center.begin());
            const std::int32_t only = 0;
            own(X_ + i * d_, 1, static_cast<long long>(d_), center.data(), &only, &before);
        }
        const double stays = std::min(old, kept);
        if (stays > 0.0) found.terms.push_back(stays * (before - nearest_[i]));
        if (old > kept) found.terms.push_back((old - kept) * (before - now.distance));
        if (kept > old) found.terms.push_back((kept - old) * (now.distance - nearest_[i]));
    }
    found.gap.add(found.terms.data(), found.terms.size());
}

template <class Real>
void TrimmedPoints<Real>::copy_labels(std::int32_t* labels) const {
    for (std::size_t i = 0; i < n_; ++i)
        labels[i] = inside_[i] ? labels_[i] : -1;
}

template <class Real>
void TrimmedPoints<Real>::copy_kept(double* kept) const {
    for (std::size_t i = 0; i < n_; ++i)
        kept[i] = kept_of(i, inside_[i], threshold_);
}

template class TrimmedPoints<float>;
template class TrimmedPoints<double>;

} // namespace wolfmeans
