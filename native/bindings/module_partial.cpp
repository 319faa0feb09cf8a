// Partial results for the Python module wolfmeans.exact._native: what parts of the data answer
// with, as integers in limbs, and what is made of their sums. Specification: exact/limbs.py.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "assignment/assign.hpp"
#include "bindings/binding.hpp"
#include "exact/moments.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

template <class Real>
nb::tuple exponent_range(Array<const Real> values, int n_threads) {
    check_threads(n_threads);
    wolfmeans::ExponentRange range;
    {
        const Released release;
        range = wolfmeans::exponent_range(values.data(), values.size(), n_threads);
    }
    return nb::make_tuple(range.low, range.high);
}

// No terms are added on this grid, so its last field is 0.
wolfmeans::Grid grid_of(int low, int bits, std::size_t all_limbs) {
    require(bits >= 8 && bits <= 48, "bits must be in 8..48, got " + std::to_string(bits));
    require(all_limbs >= 2, "there must be at least two limbs");
    return {low, bits, static_cast<int>(all_limbs) - 1, 0};
}

void check_limbs(const Array<const std::int64_t>& limbs, const char* name) {
    constexpr std::int64_t limit = std::int64_t{1} << 62;
    bool fit = true;
    for (std::size_t i = 0; i < limbs.size(); ++i)
        fit &= -limit < limbs.data()[i] && limbs.data()[i] < limit;
    require(fit, std::string(name) + " must have limbs below 2**62");
}

template <class Real>
void round_moments(Array<const std::int64_t> sums, int sums_low, int sums_bits,
                   Array<const std::int64_t> totals, int totals_low, int totals_bits,
                   Array<const std::int64_t> clusters, Array<double> weights, Array<Real> means,
                   Array<double> residuals, int n_threads) {
    check_threads(n_threads);
    check_matrix(means, "means");
    const std::size_t K = means.shape(0), d = means.shape(1);
    require(sums.ndim() == 3 && sums.shape(0) == K && sums.shape(2) == d,
            "sums must be limbs for each mean, got shape " + shape_of(sums));
    require(totals.ndim() == 3 && totals.shape(0) == K && totals.shape(2) == 1,
            "totals must be limbs for each cluster, got shape " + shape_of(totals));
    check_shape(residuals, "residuals", {K, d});
    check_vector(weights, "weights", K);
    check_limbs(sums, "sums");
    check_limbs(totals, "totals");
    check_range(clusters, "clusters", K);
    const wolfmeans::MomentLimbs limbs{grid_of(sums_low, sums_bits, sums.shape(1)),
                                       grid_of(totals_low, totals_bits, totals.shape(1)), d,
                                       sums.data(), totals.data()};
    wolfmeans::round_moments(
        limbs, std::vector<std::size_t>(clusters.data(), clusters.data() + clusters.size()),
        n_threads, weights.data(), means.data(), residuals.data());
}

template <class Real>
nb::object exact_cost(Array<const Real> X, Weights weights, Array<const Real> centers,
                      Array<const std::int32_t> labels, int n_threads) {
    require(X.ndim() == 2 && centers.ndim() == 2 && X.shape(1) == centers.shape(1),
            "X and centers must have the same number of columns");
    check_threads(n_threads);
    const double* const given = check_weights(weights, X.shape(0));
    check_vector(labels, "labels", X.shape(0));
    check_range(labels, "labels", centers.shape(0));
    wolfmeans::ExactSum sum;
    {
        const Released release;
        sum = wolfmeans::exact_cost(X.data(), X.shape(0), X.shape(1), given, centers.data(),
                                    centers.shape(0), labels.data(), n_threads);
    }
    return limbs_of(sum);
}

nb::object exact_terms(Array<const double> terms) {
    wolfmeans::TermSum sum;
    {
        const Released release;
        sum.add(terms.data(), terms.size());
    }
    return limbs_of(sum.exact());
}

template <class Real>
void define_partial_of(nb::module_& m) {
    m.def("exponent_range", &exponent_range<Real>, "values"_a, "n_threads"_a,
          "(low, high): all values are multiples of 2**low and less than 2**high in size.\n\n"
          "Equal when all are 0. ValueError when one is not finite.");
    m.def("round_moments", &round_moments<Real>, "sums"_a, "sums_low"_a, "sums_bits"_a, "totals"_a,
          "totals_low"_a, "totals_bits"_a, "clusters"_a, "weights"_a, "means"_a, "residuals"_a,
          "n_threads"_a, nb::call_guard<Released>(),
          "Round the sums and weights of some clusters.\n\n"
          "IN: sums (K, limbs, d), totals (K, limbs, 1), int64, each less than 2**62 in size; "
          "clusters, int64.\n"
          "OUT: weights (K,), means (K, d) and residuals (K, d); the last two are left as they are "
          "where there is no weight.");
    m.def("exact_cost", &exact_cost<Real>, "X"_a, "weights"_a.none(), "centers"_a, "labels"_a,
          "n_threads"_a,
          "The exact sum of w_i times the distance of row i to centers[labels[i]], as limbs\n"
          "(1, 68, 1) of 32 bits, the lowest counting 2**-1074.");
}

} // namespace

void define_partial(nb::module_& m) {
    define_partial_of<float>(m);
    define_partial_of<double>(m);
    m.def("exact_terms", &exact_terms, "terms"_a,
          "The exact sum of float64 terms, as limbs like those of exact_cost.");
}
