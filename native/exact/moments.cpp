#include "exact/moments.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "kernels/exact/quotient.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

ClusterSums<double> sums_of_weights(const double* weights, std::size_t n, int n_threads,
                                    const SumRanges* given) {
    if (given == nullptr) return {weights, n, 1, nullptr, n_threads};
    const SumRanges as_rows{given->weights, {}};
    return {weights, n, 1, nullptr, n_threads, &as_rows};
}

// --- From integers to means ---------------------------------------------------------------------

// The limits of the vector kernels of quotient.hpp.
constexpr int most_quotient_bits = 48;
constexpr int most_scale = 700;

// Rounds integers to means, one object for each thread.
template <class Real>
class Rounding {
public:
    Rounding(const MomentLimbs& limbs, double* weights, Real* means, double* residuals)
        : sums_(limbs.sums_grid), totals_(limbs.totals_grid), d_(limbs.d), limbs_(limbs),
          weights_(weights), means_(means), residuals_(residuals),
          words_(std::max(totals_.words(), sums_.words())),
          divisor_(totals_.words(), sums_.words()), undecided_(d_) {}

    // Round the weight, the means and the residuals of one cluster.
    void cluster(std::size_t k) {
        const std::int64_t* const total = limbs_.totals + k * totals_.all_limbs();
        const bool negative_weight =
            sign_and_magnitude(total, 1, totals_.all_limbs(), totals_.bits, words_.data());
        const double weight = rounded(words_.data(), totals_.words(), totals_.low);
        weights_[k] = negative_weight ? -weight : weight;
        if (weight == 0.0) return;
        std::fill(undecided_.begin(), undecided_.end(), std::int64_t{1});
        if (!negative_weight && divide_fast(k)) return;
        divisor_.set(words_.data(), totals_.words());

        const std::int64_t* const sums = limbs_.sums + k * sums_.all_limbs() * d_;
        for (std::size_t j = 0; j < d_; ++j) {
            if (undecided_[j] == 0) continue;
            const bool negative =
                sign_and_magnitude(sums + j, d_, sums_.all_limbs(), sums_.bits, words_.data());
            const MeanAndResidual exact = divisor_.divide(
                words_.data(), sums_.words(), negative != negative_weight, sums_.low - totals_.low);
            const Real mean = static_cast<Real>(exact.mean);
            means_[k * d_ + j] = mean;
            // The difference of the float64 and the float32 mean is exact in float64.
            residuals_[k * d_ + j] = (exact.mean - static_cast<double>(mean)) + exact.residual;
        }
    }

private:
    // Compute the means of one cluster by the vector kernels; its weight is in words_. Returns
    // whether all are done; if not, undecided_ tells which columns are left.
    bool divide_fast(std::size_t k) {
        const int exponent = sums_.low - totals_.low;
        const bool short_weight =
            words_[0] >> most_weight_bits == 0 &&
            std::all_of(words_.begin() + 1,
                        words_.begin() + static_cast<std::ptrdiff_t>(totals_.words()),
                        [](Word word) { return word == 0; });
        if (!short_weight || sums_.all_limbs() > most_quotient_limbs ||
            sums_.bits > most_quotient_bits || std::abs(exponent) > most_scale)
            return false;
        const QuotientFunctions<Real>& functions = best_kernels().quotient->of<Real>();
        const auto divide =
            sums_.all_limbs() == 2 ? functions.by_two_limbs : functions.by_three_limbs;
        return !divide(limbs_.sums + k * sums_.all_limbs() * d_, static_cast<std::int64_t>(d_),
                       sums_.bits, static_cast<double>(words_[0]), std::ldexp(1.0, exponent),
                       means_ + k * d_, residuals_ + k * d_, undecided_.data());
    }

    const Grid sums_, totals_;
    const std::size_t d_;
    const MomentLimbs& limbs_;
    double* weights_;
    Real* means_;
    double* residuals_;
    std::vector<Word> words_; // room for any sum
    Divisor divisor_;
    std::vector<std::int64_t> undecided_; // (d,)
};

} // namespace

template <class Real>
void round_moments(const MomentLimbs& limbs, const std::vector<std::size_t>& clusters,
                   int n_threads, double* weights, Real* means, double* residuals) {
    const double operations =
        64.0 * static_cast<double>(clusters.size()) * static_cast<double>(limbs.d);
    const std::size_t chunks = worthwhile_threads(clusters.size(), operations, n_threads);
    std::vector<Rounding<Real>> rounding;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
        rounding.emplace_back(limbs, weights, means, residuals);
    over_rows(clusters.size(), chunks, 1,
              [&](std::size_t chunk, std::size_t begin, std::size_t end) {
                  for (std::size_t c = begin; c < end; ++c)
                      rounding[chunk].cluster(clusters[c]);
              });
}

// --- Moments ------------------------------------------------------------------------------------

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

template void round_moments(const MomentLimbs&, const std::vector<std::size_t>&, int, double*,
                            float*, double*);
template void round_moments(const MomentLimbs&, const std::vector<std::size_t>&, int, double*,
                            double*, double*);
template class Moments<float>;
template class Moments<double>;

} // namespace wolfmeans
