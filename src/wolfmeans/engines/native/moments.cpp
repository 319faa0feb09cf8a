#include "moments.hpp"

#include <algorithm>
#include <memory>

#include "threads.hpp"

namespace wolfmeans {

template <class Real>
Moments<Real>::Moments(const Real* X, std::size_t n, std::size_t d, const double* weights,
                       std::size_t K, int n_threads)
    : n_(n), d_(d), K_(K), n_threads_(n_threads), weighted_(weights != nullptr),
      sums_(X, n, d, weights, n_threads),
      weight_sums_(weighted_ ? ClusterSums<double>(weights, n, 1, nullptr, n_threads)
                             : ClusterSums<double>()),
      totals_grid_(weighted_ ? weight_sums_.grid() : counting_grid()),
      n_sums_(K * sums_.grid().all_limbs() * d), account_(n_sums_ + K * totals_grid_.all_limbs()),
      stale_(K, 1), rounded_weights_(K), rounded_means_(K * d), residuals_(K * d) {}

template <class Real>
void Moments<Real>::add_all(const std::int32_t* labels) {
    for (std::size_t i = 0; i < n_; ++i)
        stale_[static_cast<std::size_t>(labels[i])] = 1;
    in_rounds(n_, [&](std::size_t begin, std::size_t end, std::int64_t* account) {
        std::int64_t* const totals = account + n_sums_;
        sums_.add(labels, begin, end, account);
        if (weighted_) return weight_sums_.add(labels, begin, end, totals);
        for (std::size_t i = begin; i < end; ++i)
            ++totals[static_cast<std::size_t>(labels[i]) * totals_grid_.all_limbs()];
    });
}

template <class Real>
void Moments<Real>::move(const std::int64_t* rows, const std::int32_t* from, const std::int32_t* to,
                         std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        stale_[static_cast<std::size_t>(from[i])] = stale_[static_cast<std::size_t>(to[i])] = 1;
    in_rounds(count, [&](std::size_t begin, std::size_t end, std::int64_t* account) {
        std::int64_t* const totals = account + n_sums_;
        sums_.move(rows, from, to, begin, end, account);
        if (weighted_) return weight_sums_.move(rows, from, to, begin, end, totals);
        for (std::size_t i = begin; i < end; ++i) {
            --totals[static_cast<std::size_t>(from[i]) * totals_grid_.all_limbs()];
            ++totals[static_cast<std::size_t>(to[i]) * totals_grid_.all_limbs()];
        }
    });
}

// Run deposit(begin, end, account) over all of 0..count-1, with a carry before any limb could
// overflow.
template <class Real>
template <class Deposit>
void Moments<Real>::in_rounds(std::size_t count, const Deposit& deposit) {
    // A move within one cluster adds two terms.
    const std::size_t most =
        std::min(sums_.grid().terms_before_carry, totals_grid_.terms_before_carry) / 2;
    for (std::size_t begin = 0; begin < count;) {
        if (deposits_ == most) {
            carry(sums_.grid(), K_, d_, account_.data());
            carry(totals_grid_, K_, 1, account_.data() + n_sums_);
            deposits_ = 0;
        }
        const std::size_t rows = std::min(count - begin, most - deposits_);
        // A thread's own sums must be cleared and added up: that is K rows' worth of work.
        const std::size_t affordable = std::max<std::size_t>(1, rows / (4 * K_));
        const double operations = 4.0 * static_cast<double>(rows) * static_cast<double>(d_ + 1);
        const std::size_t chunks =
            std::min(affordable, worthwhile_threads(rows, operations, n_threads_));
        with_copies(begin, begin + rows, chunks, deposit);
        deposits_ += rows;
        begin += rows;
    }
}

// The first chunk deposits into the account, each other one into a copy, added up at the end.
template <class Real>
template <class Deposit>
void Moments<Real>::with_copies(std::size_t begin, std::size_t end, std::size_t chunks,
                                const Deposit& deposit) {
    const std::size_t size = account_.size();
    std::vector<std::unique_ptr<std::int64_t[]>> copies(chunks);
    for (std::size_t chunk = 1; chunk < chunks; ++chunk)
        copies[chunk].reset(new std::int64_t[size]);
    over_rows(end - begin, chunks, 1, [&](std::size_t chunk, std::size_t first, std::size_t last) {
        std::int64_t* const copy = copies[chunk].get();
        if (copy != nullptr) std::fill(copy, copy + size, 0);
        deposit(begin + first, begin + last, copy == nullptr ? account_.data() : copy);
    });
    if (chunks == 1) return;
    over_rows(size, chunks, 1, [&](std::size_t, std::size_t first, std::size_t last) {
        for (std::size_t chunk = 1; chunk < chunks; ++chunk)
            for (std::size_t i = first; i < last; ++i)
                account_[i] += copies[chunk][i];
    });
}

template <class Real>
void Moments<Real>::means(const Real* fallback, double* weights, Real* means, double* residuals) {
    std::vector<std::size_t> stale;
    for (std::size_t k = 0; k < K_; ++k)
        if (stale_[k]) stale.push_back(k);
    const double operations = 64.0 * static_cast<double>(stale.size()) * static_cast<double>(d_);
    const std::size_t chunks = worthwhile_threads(stale.size(), operations, n_threads_);
    const std::size_t total_words = totals_grid_.words(), sum_words = sums_.grid().words();
    std::vector<std::vector<Word>> words(chunks,
                                         std::vector<Word>(std::max(total_words, sum_words)));
    std::vector<Divisor> divisors;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
        divisors.emplace_back(total_words, sum_words);
    over_rows(stale.size(), chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        for (std::size_t s = begin; s < end; ++s)
            refresh(stale[s], words[chunk].data(), divisors[chunk]);
    });
    std::fill(stale_.begin(), stale_.end(), static_cast<unsigned char>(0));

    std::copy(rounded_weights_.begin(), rounded_weights_.end(), weights);
    std::copy(rounded_means_.begin(), rounded_means_.end(), means);
    std::copy(residuals_.begin(), residuals_.end(), residuals);
    for (std::size_t k = 0; k < K_; ++k) {
        if (weights[k] != 0.0) continue;
        std::copy(fallback + k * d_, fallback + (k + 1) * d_, means + k * d_);
        std::fill(residuals + k * d_, residuals + (k + 1) * d_, 0.0);
    }
}

// Round the weight, the means and the residuals of one cluster. words: room for any sum.
template <class Real>
void Moments<Real>::refresh(std::size_t k, Word* words, Divisor& divisor) {
    const std::int64_t* const total = account_.data() + n_sums_ + k * totals_grid_.all_limbs();
    const bool negative_weight =
        sign_and_magnitude(total, 1, totals_grid_.all_limbs(), totals_grid_.bits, words);
    const double weight = rounded(words, totals_grid_.words(), totals_grid_.low);
    rounded_weights_[k] = negative_weight ? -weight : weight;
    if (weight == 0.0) return;
    divisor.set(words, totals_grid_.words());

    const Grid& grid = sums_.grid();
    const std::int64_t* const sums = account_.data() + k * grid.all_limbs() * d_;
    for (std::size_t j = 0; j < d_; ++j) {
        const bool negative = sign_and_magnitude(sums + j, d_, grid.all_limbs(), grid.bits, words);
        const MeanAndResidual exact = divisor.divide(
            words, grid.words(), negative != negative_weight, grid.low - totals_grid_.low);
        const Real mean = static_cast<Real>(exact.mean);
        rounded_means_[k * d_ + j] = mean;
        // Squeezing the float64 mean into float32 leaves a difference that float64 holds exactly.
        residuals_[k * d_ + j] = (exact.mean - static_cast<double>(mean)) + exact.residual;
    }
}

template class Moments<float>;
template class Moments<double>;

} // namespace wolfmeans
