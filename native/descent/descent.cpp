#include "descent/descent.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "descent/center_step.hpp"
#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

constexpr std::size_t rows_screened_again = std::size_t{1} << 14;

} // namespace

Method method_named(const std::string& name) {
    if (name == "dense") return Method::dense;
    if (name == "bounds") return Method::bounds;
    if (name == "tree") return Method::tree;
    if (name == "auto") return Method::automatic;
    throw std::invalid_argument("algorithm must be auto, dense, bounds or tree, got " + name);
}

template <class Real>
std::size_t Partition<Real>::n_empty() const {
    return static_cast<std::size_t>(std::count(weights.begin(), weights.end(), 0.0));
}

template <class Real>
Descent<Real>::Descent(const Real* X, std::size_t n, std::size_t d, const double* weights,
                       int n_threads, Method method, std::optional<SumRanges> given)
    : X_(X), n_(n), d_(d), weights_(weights), n_threads_(n_threads), method_(method),
      given_(given) {}

// A tree costs about as much as a few screens of all points against a few centers, and boxes
// exclude more centers in fewer dimensions.
template <class Real>
bool Descent<Real>::worth_a_tree(std::size_t K) const {
    if (method_ != Method::automatic) return method_ == Method::tree;
    return n_ >= 512 && K >= 8 && (d_ <= 4 || (d_ <= 6 && K >= 32));
}

template <class Real>
Change Descent<Real>::assign(const Real* centers, std::size_t K, const Forced& forced) {
    const bool bounded = method_ != Method::dense;
    if (!points_ && !boxes_) {
        // Places in a tree are numbers of 32 bits.
        if (worth_a_tree(K) && n_ < (std::size_t{1} << 32))
            boxes_.emplace(X_, n_, d_, weights_, n_threads_);
        else
            points_.emplace(X_, n_, d_, weights_, n_threads_,
                            method_ == Method::bounds ? Grouping::always : Grouping::timed);
    }
    if (points_) return points_->assign(centers, K, bounded, forced);
    Change change = boxes_->assign(centers, K, forced);
    // Boxes that exclude too few centers are replaced by points with bounds.
    const double all = static_cast<double>(n_) * static_cast<double>(K);
    if (method_ == Method::automatic && forced.count == 0 && boxes_->n_distances() > 0.4 * all) {
        std::vector<std::int32_t> labels(n_);
        boxes_->copy_labels(labels.data());
        points_.emplace(X_, n_, d_, weights_, n_threads_);
        points_->adopt(labels.data(), centers, K, bounded);
        boxes_.reset();
    }
    return change;
}

template <class Real>
void Descent<Real>::rebind(const Real* X, const double* weights) {
    X_ = X;
    weights_ = weights;
    if (points_) points_->rebind(X, weights);
    if (boxes_) boxes_->rebind(X, weights);
    if (moments_) moments_->rebind(X, weights);
}

template <class Real>
void Descent<Real>::release_scratch() {
    if (points_) points_->release_scratch();
}

template <class Real>
void Descent<Real>::adopt(const std::int32_t* labels, const Real* centers, std::size_t K) {
    boxes_.reset();
    points_.emplace(X_, n_, d_, weights_, n_threads_);
    points_->adopt(labels, centers, K, method_ != Method::dense);
    moments_.emplace(X_, n_, d_, weights_, K, n_threads_, given_ ? &*given_ : nullptr);
    moments_->add_all(labels);
}

template <class Real>
void Descent<Real>::copy_labels(std::int32_t* out) const {
    if (boxes_)
        boxes_->copy_labels(out);
    else if (points_)
        std::copy_n(points_->labels().begin(), n_, out);
}

template <class Real>
std::vector<std::int64_t> Descent<Real>::near_ties(const Real* centers, std::size_t K,
                                                   double slack) const {
    std::vector<std::int64_t> open(n_);
    if (points_)
        open = points_->near_ties(centers, K, slack);
    else
        std::iota(open.begin(), open.end(), std::int64_t{0});
    std::vector<std::int64_t> rows;
    std::vector<Real> chunk;
    for (std::size_t begin = 0; begin < open.size(); begin += rows_screened_again) {
        const std::size_t count = std::min(rows_screened_again, open.size() - begin);
        chunk.resize(count * d_);
        for (std::size_t r = 0; r < count; ++r)
            std::copy_n(X_ + static_cast<std::size_t>(open[begin + r]) * d_, d_,
                        chunk.begin() + static_cast<std::ptrdiff_t>(r * d_));
        Points<Real> points(chunk.data(), count, d_, nullptr, n_threads_);
        points.assign(centers, K, false, {});
        for (const std::int64_t r : points.near_ties(centers, K, slack))
            rows.push_back(open[begin + static_cast<std::size_t>(r)]);
    }
    return rows;
}

template <class Real>
Change Descent<Real>::relabel(const Real* centers, std::size_t K, const Forced& forced,
                              std::size_t& moved) {
    const bool first = !moments_;
    Change change = assign(centers, K, forced);
    if (first) {
        std::vector<std::int32_t> labels(n_);
        copy_labels(labels.data());
        moments_.emplace(X_, n_, d_, weights_, K, n_threads_, given_ ? &*given_ : nullptr);
        moments_->add_all(labels.data());
    } else {
        moments_->move(change.rows.data(), change.old.data(), change.now.data(),
                       change.rows.size());
    }
    moved = first ? n_ : change.rows.size();
    screened_ = change.screened;
    rechecked_ = change.rechecked;
    return change;
}

template <class Real>
void Descent<Real>::step(const Real* centers, std::size_t K, const Forced& forced, bool directions,
                         Partition<Real>& found) {
    found.gap = relabel(centers, K, forced, found.moved).rounded_gap();
    found.centers.resize(K * d_);
    found.residuals.resize(K * d_);
    found.weights.resize(K);
    moments_->means(centers, found.weights.data(), found.centers.data(), found.residuals.data());
    const CenterStep step = directions
                                ? turn(centers, found.weights.data(), found.centers.data(),
                                       found.residuals.data(), K, d_, n_threads_)
                                : center_step(found.centers.data(), centers, found.residuals.data(),
                                              found.weights.data(), K, d_, n_threads_);
    found.shift = step.shift;
    found.movement = step.movement;
}

template <class Real>
std::vector<Evaluation> Descent<Real>::advance(Partition<Real>& point, Partition<Real>& vertex,
                                               const Limits& limits) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point started = Clock::now();
    const std::size_t K = point.weights.size();
    // The threads stay from one step to the next.
    std::optional<Team> team;
    std::vector<Evaluation> evaluated;
    for (;;) {
        step(point.centers.data(), K, {}, limits.directions, vertex);
        const std::chrono::duration<double> elapsed = Clock::now() - started;
        evaluated.push_back({vertex.moved, point.n_empty(), vertex.gap, vertex.movement,
                             point.shift, elapsed.count()});
        const bool met = vertex.moved == 0 || vertex.gap <= limits.gap ||
                         vertex.gap + vertex.movement <= limits.decrease ||
                         point.shift <= limits.shift;
        if (met || evaluated.size() == limits.at_most || elapsed.count() >= limits.seconds) break;
        if (!limits.keep_empty && vertex.n_empty() > 0) break;
        std::swap(point, vertex);
        // Starting threads takes about as long as a few steps of a small problem.
        const double each = elapsed.count() / static_cast<double>(evaluated.size());
        if (!team && n_threads_ > 1 && each > (evaluated.size() < 16 ? 6e-5 : 2e-5))
            team.emplace(n_threads_);
    }
    return evaluated;
}

template struct Partition<float>;
template struct Partition<double>;
template class Descent<float>;
template class Descent<double>;

} // namespace wolfmeans
