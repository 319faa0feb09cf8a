#include "polish/swaps.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "assignment/assign.hpp"
#include "exact/unit_roundoff.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

// Rows screened and evaluated together.
constexpr std::size_t swap_tile = 1024;

} // namespace

template <class Real>
Swaps<Real>::Swaps(const Real* X, std::size_t n, std::size_t d, const double* weights,
                   int n_threads)
    : X_(X), n_(n), d_(d), weights_(weights), n_threads_(n_threads), sketch_(X, n, d), labels_(n),
      nearest_(n), second_(n), improved_(n) {
    const std::size_t chunks = worthwhile_threads(n, 2.0 * static_cast<double>(n * d), n_threads);
    over_rows(n, chunks, swap_tile,
              [&](std::size_t, std::size_t begin, std::size_t end) { sketch_.draw(begin, end); });
}

template <class Real>
void Swaps<Real>::set_centers(const Real* centers, std::size_t K) {
    K_ = K;
    assign(X_, n_, d_, centers, K, labels_.data(), nearest_.data(), second_.data(), n_threads_);
    losses_.assign(K, ExactSum());
    ExactSum cost;
    for (std::size_t i = 0; i < n_; ++i) {
        sketch_.set_closest(i, second_[i]);
        const double before = mass(i, nearest_[i]);
        cost.add(before);
        if (K == 1) continue; // without a second center exact_change uses all rows
        ExactSum& loss = losses_[static_cast<std::size_t>(labels_[i])];
        loss.add(mass(i, second_[i]));
        loss.subtract(before);
    }
    cost_ = cost.rounded();
    rounded_losses_.resize(K);
    for (std::size_t k = 0; k < K; ++k)
        rounded_losses_[k] = losses_[k].rounded();
}

template <class Real>
void Swaps<Real>::changes(const std::int64_t* rows, std::size_t count, std::int32_t* removals,
                          double* changes) {
    std::size_t group[most_candidates];
    for (std::size_t first = 0; first < count; first += most_candidates) {
        const std::size_t size = std::min<std::size_t>(most_candidates, count - first);
        for (std::size_t t = 0; t < size; ++t)
            group[t] = static_cast<std::size_t>(rows[first + t]);
        evaluate_group(group, size, removals + first, changes + first);
    }
}

template <class Real>
void Swaps<Real>::evaluate_group(const std::size_t* rows, std::size_t count, std::int32_t* removals,
                                 double* changes) {
    const std::size_t width = count <= 4 ? 4 : 8;
    std::vector<double> packed(d_ * width, std::numeric_limits<double>::infinity());
    for (std::size_t t = 0; t < count; ++t)
        for (std::size_t j = 0; j < d_; ++j)
            packed[j * width + t] = static_cast<double>(X_[rows[t] * d_ + j]);
    sketch_.choose(rows, count, sketched_);
    // Counted in coordinate operations: an eighth of one for each column and candidate.
    const double operations = static_cast<double>(n_ * count * (d_ + 32)) / 8.0;
    const std::size_t chunks = worthwhile_threads(n_, operations, n_threads_);
    found_.resize(chunks);
    over_rows(n_, chunks, swap_tile, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        Found& found = found_[chunk];
        for (std::size_t t = 0; t < most_candidates; ++t) {
            found.rows[t].clear();
            found.distances[t].clear();
        }
        std::fill_n(found.gains, std::size_t{most_candidates}, 0.0);
        found.savings.assign(K_ * most_candidates, 0.0);
        for (std::size_t i = begin; i < end; i += swap_tile) {
            check_interrupt();
            evaluate_tile(i, std::min(end, i + swap_tile), packed.data(), width, found);
        }
    });
    std::size_t pairs = 0;
    for (const Found& found : found_)
        for (const std::vector<std::uint32_t>& close : found.rows)
            pairs += close.size();
    const double choosing = static_cast<double>(8 * pairs + 2 * count * K_);
    over_rows(count, worthwhile_threads(count, choosing, n_threads_), 1,
              [&](std::size_t, std::size_t first, std::size_t last) {
                  for (std::size_t t = first; t < last; ++t)
                      choose_removal(t, removals[t], changes[t]);
              });
}

// Find and store the pairs of a tile, and sum approximately for each candidate z
//   gains    fl(w D_1) - fl(w D_z) over the points that come closer,
//   savings  by cluster, what z takes off the loss fl(w D_2) - fl(w D_1) of its center:
//            fl(w D_2) - max(fl(w D_1), fl(w D_z)).
template <class Real>
void Swaps<Real>::evaluate_tile(std::size_t begin, std::size_t end, const double* packed,
                                std::size_t width, Found& found) {
    unsigned char survivors[swap_tile];
    std::uint32_t rows[swap_tile];
    double log[(swap_tile + 1) * most_candidates];
    sketch_.screen(begin, end, sketched_, survivors);
    std::size_t count = 0;
    for (std::size_t i = begin; i < end; ++i) {
        rows[count] = static_cast<std::uint32_t>(i);
        count += survivors[i - begin] != 0;
    }
    if (count == 0) return;
    double unused[most_candidates] = {};
    const ReachFunctions<Real>& functions = best_kernels().reach->of<Real>();
    (width == 4 ? functions.four : functions.eight)(
        X_, static_cast<long long>(d_), rows, static_cast<long long>(count), packed, second_.data(),
        weights_, unused, improved_.data(), log);
    const double* distance = log;
    for (std::size_t r = 0; r < count; ++r) {
        const std::uint32_t row = rows[r];
        const unsigned char bits = improved_[row];
        if (bits == 0) continue;
        const double first = mass(row, nearest_[row]), second = mass(row, second_[row]);
        double* const savings =
            found.savings.data() + static_cast<std::size_t>(labels_[row]) * most_candidates;
        for (std::size_t t = 0; t < width; ++t) {
            if (!(bits >> t & 1)) continue;
            const double to_candidate = mass(row, *distance);
            found.rows[t].push_back(row);
            found.distances[t].push_back(*distance++);
            if (to_candidate < first) found.gains[t] += first - to_candidate;
            savings[t] += second - std::max(first, to_candidate);
        }
    }
}

// The change for removal k is loss_k - gain - saving_k. Each is a sum of at most n rounded
// differences, none negative, off by at most (n + 1) u / (1 - n u) of itself, and the two
// subtractions round once more. Candidates within this error are summed exactly.
template <class Real>
void Swaps<Real>::choose_removal(std::size_t t, std::int32_t& removal, double& change) const {
    if (K_ == 1) {
        removal = 0;
        change = exact_change(t, 0);
        return;
    }
    double gain = 0.0;
    for (const Found& found : found_)
        gain += found.gains[t];
    std::vector<double> value(K_), error(K_);
    const double relative = 2.0 * (static_cast<double>(n_) + 16.0) * unit_roundoff;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < K_; ++k) {
        double saving = 0.0;
        for (const Found& found : found_)
            saving += found.savings[k * most_candidates + t];
        value[k] = (rounded_losses_[k] - saving) - gain;
        error[k] = relative * ((rounded_losses_[k] + saving) + gain);
        least = std::min(least, value[k] + error[k]);
    }
    change = std::numeric_limits<double>::infinity();
    removal = 0;
    for (std::size_t k = 0; k < K_; ++k) {
        if (value[k] - error[k] > least) continue;
        const double exact = exact_change(t, static_cast<std::int32_t>(k));
        if (exact < change) {
            change = exact;
            removal = static_cast<std::int32_t>(k);
        }
    }
}

template <class Real>
double Swaps<Real>::exact_change(std::size_t t, std::int32_t k) const {
    ExactSum sum = losses_[static_cast<std::size_t>(k)];
    for (const Found& found : found_) {
        for (std::size_t r = 0; r < found.rows[t].size(); ++r) {
            const std::size_t row = found.rows[t][r];
            const double after = mass(row, found.distances[t][r]);
            const double before = mass(row, nearest_[row]);
            if (labels_[row] == k) {
                sum.add(after);
                sum.subtract(K_ == 1 ? before : mass(row, second_[row]));
            } else if (after < before) {
                sum.add(after);
                sum.subtract(before);
            }
        }
    }
    return sum.rounded();
}

template class Swaps<float>;
template class Swaps<double>;

} // namespace wolfmeans
