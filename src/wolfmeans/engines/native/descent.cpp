#include "descent.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "exact_sum.hpp"
#include "threads.hpp"

namespace wolfmeans {

template <class Real>
std::size_t Partition<Real>::n_empty() const {
    return static_cast<std::size_t>(std::count(weights.begin(), weights.end(), 0.0));
}

template <class Real>
Descent<Real>::Descent(const Real* X, std::size_t n, std::size_t d, const double* weights,
                       int n_threads)
    : X_(X), n_(n), d_(d), weights_(weights), n_threads_(n_threads),
      points_(X, n, d, weights, n_threads) {}

template <class Real>
void Descent<Real>::step(const Real* centers, std::size_t K, bool bounded, const Forced& forced,
                         Partition<Real>& found) {
    const bool first = !points_.has_labels();
    const Change change = points_.assign(centers, K, bounded, forced);
    if (first) {
        moments_.emplace(X_, n_, d_, weights_, K, n_threads_);
        moments_->add_all(labels());
    } else {
        moments_->move(change.rows.data(), change.old.data(), change.now.data(),
                       change.rows.size());
    }
    found.centers.resize(K * d_);
    found.residuals.resize(K * d_);
    found.weights.resize(K);
    moments_->means(centers, found.weights.data(), found.centers.data(), found.residuals.data());
    found.gap = change.gap;
    found.moved = first ? n_ : change.rows.size();
    screened_ = change.screened;
    rechecked_ = change.rechecked;
    measure(centers, found);
}

// Shift and movement from the given centers to the means, as KMeansProblem.minimize_linear has
// them: every term rounded as there, the sums exact and rounded once.
template <class Real>
void Descent<Real>::measure(const Real* centers, Partition<Real>& found) const {
    ExactSum shift, movement;
    for (std::size_t k = 0; k < found.weights.size(); ++k) {
        const double weight = found.weights[k];
        if (weight == 0.0) continue;
        for (std::size_t q = k * d_; q < (k + 1) * d_; ++q) {
            const double move =
                static_cast<double>(found.centers[q]) - static_cast<double>(centers[q]);
            if (move == 0.0) continue;
            shift.add(move * move);
            const double gain = move * (move + 2.0 * found.residuals[q]);
            if (gain > 0.0) movement.add(weight * gain);
        }
    }
    found.shift = shift.rounded();
    found.movement = movement.rounded();
}

template <class Real>
bool Descent<Real>::worth_a_team(std::size_t K) const {
    return n_threads_ > 1 &&
           static_cast<double>(n_) * static_cast<double>(K * d_) > 4.0 * operations_per_member;
}

template <class Real>
std::vector<Evaluation> Descent<Real>::advance(Partition<Real>& point, Partition<Real>& vertex,
                                               bool bounded, const Limits& limits) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point started = Clock::now();
    const std::size_t K = point.weights.size();
    // The threads stay from one step to the next. Where a step is too small for a second one, none
    // is started.
    std::optional<Team> team;
    std::vector<Evaluation> evaluated;
    for (;;) {
        step(point.centers.data(), K, bounded, {}, vertex);
        const std::chrono::duration<double> elapsed = Clock::now() - started;
        evaluated.push_back({vertex.moved, point.n_empty(), vertex.gap, vertex.movement,
                             point.shift, elapsed.count()});
        const bool met = vertex.moved == 0 || vertex.gap <= limits.gap ||
                         vertex.gap + vertex.movement <= limits.decrease ||
                         point.shift <= limits.shift;
        if (met || evaluated.size() == limits.at_most || elapsed.count() >= limits.seconds) break;
        if (!limits.keep_empty && vertex.n_empty() > 0) break;
        std::swap(point, vertex);
        if (!team && worth_a_team(K)) team.emplace(n_threads_);
    }
    return evaluated;
}

template struct Partition<float>;
template struct Partition<double>;
template class Descent<float>;
template class Descent<double>;

} // namespace wolfmeans
