// Exact sums and weights of clusters rounded to means (see moments.hpp).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "exact/moments.hpp"
#include "kernels/exact/quotient.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"

namespace wolfmeans {
namespace {

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

template void round_moments(const MomentLimbs&, const std::vector<std::size_t>&, int, double*,
                            float*, double*);
template void round_moments(const MomentLimbs&, const std::vector<std::size_t>&, int, double*,
                            double*, double*);

} // namespace wolfmeans
