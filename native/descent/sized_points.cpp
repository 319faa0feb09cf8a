#include "descent/sized_points.hpp"

#include <algorithm>
#include <utility>

#include "kernels/exact/scan.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {

template <class Real>
SizedPoints<Real>::SizedPoints(const Real* X, std::size_t n, std::size_t d, const double* weights,
                               int unit, const std::vector<double>& lower,
                               const std::vector<double>& upper, int n_threads,
                               std::optional<SumRanges> given)
    : X_(X), n_(n), d_(d), K_(lower.size()), unit_(unit), n_threads_(n_threads), given_(given) {
    limits_.total = static_cast<Mass>(n);
    if (weights != nullptr) {
        weights_.assign(weights, weights + n);
        masses_.reserve(n);
        limits_.total = 0;
        for (const double one : weights_) {
            masses_.push_back(whole_mass(one, unit));
            limits_.total += masses_.back();
        }
    }
    for (const double limit : lower)
        limits_.lower.push_back(whole_mass(limit, unit));
    for (const double limit : upper)
        limits_.upper.push_back(std::min(whole_mass(limit, unit), limits_.total));
}

// The changes that one thread finds.
template <class Real>
struct SizedPoints<Real>::Changes {
    std::vector<std::int64_t> rows;
    std::vector<std::int32_t> from, to;
    std::vector<double> terms;
    std::size_t moved = 0;
    TermSum gap;
};

template <class Real>
typename SizedPoints<Real>::Step SizedPoints<Real>::assign(const Real* centers, double* weights,
                                                           Real* means, double* residuals) {
    TransportPlan plan = cheapest(X_, n_, d_, masses_.empty() ? nullptr : masses_.data(), centers,
                                  limits_, prices_, memory_, n_threads_);
    prices_ = plan.prices;
    Step step{n_, 0.0};
    if (!moments_) {
        std::vector<std::int32_t> clusters(plan.labels);
        std::replace(clusters.begin(), clusters.end(), -1, static_cast<std::int32_t>(K_));
        moments_.emplace(X_, n_, d_, weights_.empty() ? nullptr : weights_.data(), K_ + 1,
                         n_threads_, given_ ? &*given_ : nullptr);
        moments_->add_all(clusters.data());
        labels_ = std::move(plan.labels);
        splits_ = std::move(plan.splits);
        move_parts(splits_, false);
    } else {
        const double operations = 8.0 * static_cast<double>(n_);
        const std::size_t chunks = worthwhile_threads(n_, operations, n_threads_);
        std::vector<Changes> found(chunks);
        over_rows(n_, chunks, 64, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
            compare_rows(plan, centers, begin, end, found[chunk]);
        });
        TermSum gap;
        step.moved = 0;
        for (const Changes& part : found) {
            step.moved += part.moved;
            gap.merge(part.gap);
        }
        step.gap = gap.result();
        if (plan.binding && !(step.gap > 0.0)) {
            step = {0, 0.0};
        } else {
            move_parts(splits_, true);
            for (const Changes& part : found)
                moments_->move(part.rows.data(), part.from.data(), part.to.data(),
                               part.rows.size());
            labels_ = std::move(plan.labels);
            splits_ = std::move(plan.splits);
            move_parts(splits_, false);
        }
    }
    std::vector<Real> fallback(centers, centers + K_ * d_), all_means((K_ + 1) * d_);
    fallback.resize((K_ + 1) * d_);
    std::vector<double> all_weights(K_ + 1), all_residuals((K_ + 1) * d_);
    moments_->means(fallback.data(), all_weights.data(), all_means.data(), all_residuals.data());
    std::copy_n(all_weights.begin(), K_, weights);
    std::copy_n(all_means.begin(), K_ * d_, means);
    std::copy_n(all_residuals.begin(), K_ * d_, residuals);
    return step;
}

template <class Real>
void SizedPoints<Real>::compare_rows(const TransportPlan& plan, const Real* centers,
                                     std::size_t begin, std::size_t end, Changes& changes) const {
    const auto one = best_kernels().scan->of<Real>().two;
    std::vector<double> before(d_), after(d_);
    const auto held = static_cast<std::int32_t>(K_);
    for (std::size_t i = begin; i < end; ++i) {
        const std::int32_t old = labels_[i], now = plan.labels[i];
        if (old == now && old >= 0) continue;
        const auto row = static_cast<std::int64_t>(i);
        if (old < 0 && now < 0 && splits_.at(row) == plan.splits.at(row)) continue;
        ++changes.moved;
        if (old != now) {
            changes.rows.push_back(row);
            changes.from.push_back(old < 0 ? held : old);
            changes.to.push_back(now < 0 ? held : now);
        }
        if (old < 0 || now < 0) {
            add_terms(row, old, splits_, 1.0, centers, changes.terms);
            add_terms(row, now, plan.splits, -1.0, centers, changes.terms);
            continue;
        }
        const Real* const of_old = centers + static_cast<std::size_t>(old) * d_;
        const Real* const of_now = centers + static_cast<std::size_t>(now) * d_;
        std::copy(of_old, of_old + d_, before.begin());
        std::copy(of_now, of_now + d_, after.begin());
        const Real* const x = X_ + i * d_;
        const double *first = before.data(), *second = after.data();
        double to_old = 0.0, to_now = 0.0;
        one(&x, &first, &second, static_cast<long long>(d_), 1, &to_old, &to_now);
        changes.terms.push_back(weight(i) * (to_old - to_now));
    }
    changes.gap.add(changes.terms.data(), changes.terms.size());
}

// The terms of a point that is split before or after a step: of each part by itself.
template <class Real>
void SizedPoints<Real>::add_terms(std::int64_t row, std::int32_t label, const Splits& splits,
                                  double sign, const Real* centers,
                                  std::vector<double>& terms) const {
    const auto i = static_cast<std::size_t>(row);
    const Real* const x = X_ + i * d_;
    const auto distance_to = [&](std::int32_t k) {
        double sum = 0.0;
        for (std::size_t j = 0; j < d_; ++j) {
            const double difference =
                static_cast<double>(x[j]) -
                static_cast<double>(centers[static_cast<std::size_t>(k) * d_ + j]);
            sum = sum + difference * difference;
        }
        return sum;
    };
    if (label >= 0) {
        terms.push_back(sign * (weight(i) * distance_to(label)));
        return;
    }
    for (const SplitPart& part : splits.at(row)) {
        const TwoParts mass = two_parts(part.mass, unit_);
        const double distance = distance_to(part.cluster);
        terms.push_back(sign * (mass.high * distance));
        terms.push_back(sign * (mass.low * distance));
    }
}

// Move the parts of split points out of their clusters into cluster K, or back.
template <class Real>
void SizedPoints<Real>::move_parts(const Splits& splits, bool out) {
    const auto held = static_cast<std::int32_t>(K_);
    for (const auto& [row, parts] : splits) {
        double& weight = weights_[static_cast<std::size_t>(row)];
        const double whole = weight;
        for (const SplitPart& part : parts) {
            const TwoParts mass = two_parts(part.mass, unit_);
            for (const double some : {mass.high, mass.low}) {
                if (some == 0.0) continue;
                weight = some;
                moments_->move(&row, out ? &part.cluster : &held, out ? &held : &part.cluster, 1);
            }
        }
        weight = whole;
    }
}

template <class Real>
void SizedPoints<Real>::copy_labels(std::int32_t* labels) const {
    std::copy(labels_.begin(), labels_.end(), labels);
    for (const auto& [row, parts] : splits_)
        labels[row] = std::max_element(parts.begin(), parts.end(),
                                       [](const SplitPart& a, const SplitPart& b) {
                                           return a.mass < b.mass;
                                       })
                          ->cluster;
}

template class SizedPoints<float>;
template class SizedPoints<double>;

} // namespace wolfmeans
