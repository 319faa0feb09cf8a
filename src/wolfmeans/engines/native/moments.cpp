#include "moments.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <type_traits>

#include "quotient.hpp"
#include "threads.hpp"
#include "vector_unit.hpp"

namespace wolfmeans {
namespace {

// What the vector kernels of quotient.hpp take.
constexpr int most_fast_bits = 48;
constexpr int most_scale = 700;

const QuotientVersion& best_quotient() {
#if defined(WOLFMEANS_X86)
    const ScanVersion* const scan = &best_scan();
    if (scan == &scan_avx512) return quotient_avx512;
    if (scan == &scan_avx2) return quotient_avx2;
#endif
    return quotient_baseline;
}

template <class Real>
const QuotientFunctions<Real>& best_quotients() {
    if constexpr (std::is_same_v<Real, float>)
        return best_quotient().single_precision;
    else
        return best_quotient().double_precision;
}

} // namespace

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
    // A thread's own sums must be cleared and added up: that is K rows' worth of work.
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
        // Copies that were carried: their sum is as good as a deposit of one row from each.
        carry_account(account_.data());
        deposits_ = 0;
    }
}

template <class Real>
void Moments<Real>::means(const Real* fallback, double* weights, Real* means, double* residuals) {
    std::vector<std::size_t> stale;
    for (std::size_t k = 0; k < K_; ++k)
        if (stale_[k]) stale.push_back(k);
    const double operations = 64.0 * static_cast<double>(stale.size()) * static_cast<double>(d_);
    const std::size_t chunks = worthwhile_threads(stale.size(), operations, n_threads_);
    const std::size_t total_words = totals_grid_.words(), sum_words = sums_.grid().words();
    std::vector<Scratch> scratch;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
        scratch.push_back({std::vector<Word>(std::max(total_words, sum_words)),
                           Divisor(total_words, sum_words), std::vector<std::int64_t>(d_)});
    over_rows(stale.size(), chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        for (std::size_t s = begin; s < end; ++s)
            refresh(stale[s], scratch[chunk]);
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

// Round the weight, the means and the residuals of one cluster.
template <class Real>
void Moments<Real>::refresh(std::size_t k, Scratch& scratch) {
    auto& [words, divisor, doubtful] = scratch;
    const std::int64_t* const total = account_.data() + n_sums_ + k * totals_grid_.all_limbs();
    const bool negative_weight =
        sign_and_magnitude(total, 1, totals_grid_.all_limbs(), totals_grid_.bits, words.data());
    const double weight = rounded(words.data(), totals_grid_.words(), totals_grid_.low);
    rounded_weights_[k] = negative_weight ? -weight : weight;
    if (weight == 0.0) return;
    std::fill(doubtful.begin(), doubtful.end(), std::int64_t{1});
    if (!negative_weight && divide_fast(k, words, doubtful)) return;
    divisor.set(words.data(), totals_grid_.words());

    const Grid& grid = sums_.grid();
    const std::int64_t* const sums = account_.data() + k * grid.all_limbs() * d_;
    for (std::size_t j = 0; j < d_; ++j) {
        if (doubtful[j] == 0) continue;
        const bool negative =
            sign_and_magnitude(sums + j, d_, grid.all_limbs(), grid.bits, words.data());
        const MeanAndResidual exact = divisor.divide(
            words.data(), grid.words(), negative != negative_weight, grid.low - totals_grid_.low);
        const Real mean = static_cast<Real>(exact.mean);
        rounded_means_[k * d_ + j] = mean;
        // Squeezing the float64 mean into float32 leaves a difference that float64 holds exactly.
        residuals_[k * d_ + j] = (exact.mean - static_cast<double>(mean)) + exact.residual;
    }
}

// The means of one cluster by the vector kernels, as far as they can. Returns whether none is left
// to do; `doubtful` then means nothing, else it says which columns are.
template <class Real>
bool Moments<Real>::divide_fast(std::size_t k, const std::vector<Word>& weight,
                                std::vector<std::int64_t>& doubtful) {
    const Grid& grid = sums_.grid();
    const int exponent = grid.low - totals_grid_.low;
    const bool short_weight =
        weight[0] >> most_weight_bits == 0 &&
        std::all_of(weight.begin() + 1,
                    weight.begin() + static_cast<std::ptrdiff_t>(totals_grid_.words()),
                    [](Word word) { return word == 0; });
    if (!short_weight || grid.all_limbs() > most_quotient_limbs || grid.bits > most_fast_bits ||
        std::abs(exponent) > most_scale)
        return false;
    const QuotientFunctions<Real>& functions = best_quotients<Real>();
    const auto divide = grid.all_limbs() == 2 ? functions.by_two_limbs : functions.by_three_limbs;
    return !divide(account_.data() + k * grid.all_limbs() * d_, static_cast<std::int64_t>(d_),
                   grid.bits, static_cast<double>(weight[0]), std::ldexp(1.0, exponent),
                   rounded_means_.data() + k * d_, residuals_.data() + k * d_, doubtful.data());
}

template class Moments<float>;
template class Moments<double>;

} // namespace wolfmeans
