#include "exact/moments.hpp"

#include <algorithm>
#include <memory>
#include <mutex>

#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

ClusterSums<double> sums_of_weights(const double* weights, std::size_t n, int n_threads,
                                    const SumRanges* given) {
    if (given == nullptr) return {weights, n, 1, nullptr, n_threads};
    const SumRanges as_rows{given->weights, {}};
    return {weights, n, 1, nullptr, n_threads, &as_rows};
}

} // namespace

template <class Real>
Moments<Real>::Moments(const Real* X, std::size_t n, std::size_t d, const double* weights,
                       std::size_t K, int n_threads, const SumRanges* given)
    : n_(n), d_(d), K_(K), n_threads_(n_threads), weighted_(weights != nullptr),
      sums_(X, n, d, weights, n_threads, given),
      weight_sums_(weighted_ ? sums_of_weights(weights, n, n_threads, given)
                             : ClusterSums<double>()),
      totals_grid_(weighted_ ? weight_sums_.grid() : counting_grid()),
      n_sums_(K * sums_.grid().all_limbs() * d), account_(n_sums_ + K * totals_grid_.all_limbs()),
      stale_(K, 1), rounded_weights_(K), rounded_means_(K * d), residuals_(K * d) {}

template <class Real>
void Moments<Real>::add_all(const std::int32_t* labels) {
    std::mutex marking;
    spread(n_, [&](std::size_t begin, std::size_t end, std::int64_t* account) {
        std::vector<std::int64_t> gained(K_);
        for (std::size_t i = begin; i < end; ++i)
            ++gained[static_cast<std::size_t>(labels[i])];
        sums_.add(labels, begin, end, gained, account);
        if (weighted_)
            weight_sums_.add(labels, begin, end, gained, account + n_sums_);
        else
            count_rows(gained, account);
        const std::lock_guard lock(marking);
        for (std::size_t k = 0; k < K_; ++k)
            stale_[k] = stale_[k] || gained[k] != 0;
    });
}

template <class Real>
void Moments<Real>::move(const std::int64_t* rows, const std::int32_t* from, const std::int32_t* to,
                         std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        stale_[static_cast<std::size_t>(from[i])] = stale_[static_cast<std::size_t>(to[i])] = 1;
    spread(count, [&](std::size_t begin, std::size_t end, std::int64_t* account) {
        std::vector<std::int64_t> gained(K_);
        for (std::size_t i = begin; i < end; ++i) {
            --gained[static_cast<std::size_t>(from[i])];
            ++gained[static_cast<std::size_t>(to[i])];
        }
        sums_.move(rows, from, to, begin, end, gained, account);
        if (weighted_)
            weight_sums_.move(rows, from, to, begin, end, gained, account + n_sums_);
        else
            count_rows(gained, account);
    });
}

template <class Real>
void Moments<Real>::count_rows(const std::vector<std::int64_t>& gained,
                               std::int64_t* account) const {
    for (std::size_t k = 0; k < K_; ++k)
        account[n_sums_ + k * totals_grid_.all_limbs()] += gained[k];
}

template <class Real>
void Moments<Real>::carry_account(std::int64_t* account) const {
    carry(sums_.grid(), K_, d_, account);
    carry(totals_grid_, K_, 1, account + n_sums_);
}

// Run deposit(begin, end, account) over all of 0..count-1, in chunks over threads. The first chunk
// deposits into the account, each other one into a copy, added up at the end; carries come before
// any limb could overflow.
template <class Real>
template <class Deposit>
void Moments<Real>::spread(std::size_t count, const Deposit& deposit) {
    if (count == 0) return;
    // A move within one cluster adds two terms.
    const std::size_t most =
        std::min(sums_.grid().terms_before_carry, totals_grid_.terms_before_carry) / 2;
    const bool carrying = count > most - deposits_;
    if (carrying) carry_account(account_.data());
    // A thread's own sums must be cleared and added up, which costs as much as K rows.
    const std::size_t affordable = std::max<std::size_t>(1, count / (4 * K_));
    const double operations = 4.0 * static_cast<double>(count) * static_cast<double>(d_ + 1);
    const std::size_t chunks =
        std::min(affordable, worthwhile_threads(count, operations, n_threads_));
    const std::size_t size = account_.size();
    std::vector<std::unique_ptr<std::int64_t[]>> copies(chunks);
    for (std::size_t chunk = 1; chunk < chunks; ++chunk)
        copies[chunk].reset(new std::int64_t[size]);
    over_rows(count, chunks, 1, [&](std::size_t chunk, std::size_t first, std::size_t last) {
        std::int64_t* const own = chunk == 0 ? account_.data() : copies[chunk].get();
        if (chunk > 0) std::fill(own, own + size, 0);
        for (std::size_t begin = first; begin < last; begin += most) {
            deposit(begin, std::min(last, begin + most), own);
            if (carrying) carry_account(own);
        }
    });
    deposits_ += count;
    if (chunks > 1) {
        over_rows(size, chunks, 1, [&](std::size_t, std::size_t first, std::size_t last) {
            for (std::size_t chunk = 1; chunk < chunks; ++chunk)
                for (std::size_t i = first; i < last; ++i)
                    account_[i] += copies[chunk][i];
        });
    }
    if (carrying) {
        // The copies were carried, so their sum counts as a deposit of one row from each.
        carry_account(account_.data());
        deposits_ = 0;
    }
}

template <class Real>
void Moments<Real>::means(const Real* fallback, double* weights, Real* means, double* residuals) {
    std::vector<std::size_t> stale;
    for (std::size_t k = 0; k < K_; ++k)
        if (stale_[k]) stale.push_back(k);
    round_moments(account_limbs(), stale, n_threads_, rounded_weights_.data(),
                  rounded_means_.data(), residuals_.data());
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

template <class Real>
MomentLimbs Moments<Real>::account_limbs() const {
    return {sums_.grid(), totals_grid_, d_, account_.data(), account_.data() + n_sums_};
}

template <class Real>
MomentLimbs Moments<Real>::limbs() {
    carry_account(account_.data());
    deposits_ = 0;
    return account_limbs();
}

template class Moments<float>;
template class Moments<double>;

} // namespace wolfmeans
