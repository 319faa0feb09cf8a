// Exact sums and moments for the Python module wolfmeans.exact._native. Shapes, labels and rows are
// checked here, once; the kernels rely on it. Input is never converted or copied, the GIL is
// released.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "assignment/assign.hpp"
#include "bindings/binding.hpp"
#include "descent/center_step.hpp"
#include "exact/directions.hpp"
#include "exact/exact_sum.hpp"
#include "exact/moments.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

double weighted_sum(Weights weights, Array<const double> values, int n_threads) {
    check_list(values, "values");
    check_threads(n_threads);
    return wolfmeans::weighted_sum(check_weights(weights, values.shape(0)), values.data(),
                                   values.shape(0), n_threads);
}

// Moments with the arrays they read. Without the GIL nothing else keeps two threads apart.
template <class Real>
class BoundMoments {
public:
    BoundMoments(Array<const Real> X, Weights weights, std::size_t n_clusters, int n_threads)
        : X_(X), weights_(weights), moments_(open(X, weights, n_clusters, n_threads)) {}

    void add_all(Array<const std::int32_t> labels) {
        check_vector(labels, "labels", moments_->n_points());
        check_range(labels, "labels", moments_->n_clusters());
        const std::lock_guard lock(mutex_);
        moments_->add_all(labels.data());
    }

    void move(Array<const std::int64_t> rows, Array<const std::int32_t> old,
              Array<const std::int32_t> fresh) {
        check_list(rows, "rows");
        check_vector(old, "old", rows.shape(0));
        check_vector(fresh, "new", rows.shape(0));
        check_range(rows, "rows", moments_->n_points());
        check_range(old, "old", moments_->n_clusters());
        check_range(fresh, "new", moments_->n_clusters());
        const std::lock_guard lock(mutex_);
        moments_->move(rows.data(), old.data(), fresh.data(), rows.shape(0));
    }

    nb::tuple means(Array<const Real> fallback) {
        const std::size_t K = moments_->n_clusters(), d = moments_->n_features();
        check_shape(fallback, "fallback", {K, d});
        Owned<double> weights({K}), residuals({K, d});
        Owned<Real> means({K, d});
        {
            const Released release;
            const std::lock_guard lock(mutex_);
            moments_->means(fallback.data(), weights.data, means.data, residuals.data);
        }
        return nb::make_tuple(weights.release(), means.release(), residuals.release());
    }

private:
    static std::unique_ptr<wolfmeans::Moments<Real>> open(const Array<const Real>& X,
                                                          const Weights& weights,
                                                          std::size_t n_clusters, int n_threads) {
        check_matrix(X, "X");
        const double* const given = check_weights(weights, X.shape(0));
        require(n_clusters >= 1, "n_clusters must be at least 1");
        require(n_clusters <= std::size_t(std::numeric_limits<std::int32_t>::max()),
                "n_clusters is more than an int32 label can name");
        check_threads(n_threads);
        const Released release;
        return std::make_unique<wolfmeans::Moments<Real>>(X.data(), X.shape(0), X.shape(1), given,
                                                          n_clusters, n_threads);
    }

    Array<const Real> X_;
    Weights weights_;
    std::unique_ptr<wolfmeans::Moments<Real>> moments_;
    std::mutex mutex_;
};

template <class Real>
void define_moments(nb::module_& m, const char* name) {
    using Bound = BoundMoments<Real>;
    using Release = nb::call_guard<Released>;
    nb::class_<Bound>(m, name,
                      "Exact cluster weights and sums of X (n, d), kept up to date by moves.\n\n"
                      "X and weights are kept, not copied; they must not change.")
        .def(nb::init<Array<const Real>, Weights, std::size_t, int>(), "X"_a, "weights"_a.none(),
             "n_clusters"_a, "n_threads"_a)
        .def("add_all", &Bound::add_all, "labels"_a, Release(),
             "Add every row to the cluster of its label: labels (n,) int32.")
        .def("move", &Bound::move, "rows"_a, "old"_a, "new"_a, Release(),
             "Take rows (m,) int64 out of clusters old and add them to new, both (m,) int32.")
        .def("means", &Bound::means, "fallback"_a,
             "Return weights (K,), means (K, d) and residuals (K, d).\n\n"
             "The mean of a cluster of no weight is the fallback's row, its residual 0.");
}

// --- Sums of parts of the data, as integers in limbs (specification: exact/limbs.py) ------------

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

// --- Steps of the centers -----------------------------------------------------------------------

template <class Real>
nb::tuple center_step(Array<const Real> means, Array<const Real> centers,
                      Array<const double> residuals, Array<const double> weights, int n_threads) {
    check_matrix(means, "means");
    const std::size_t K = means.shape(0), d = means.shape(1);
    check_shape(centers, "centers", {K, d});
    check_shape(residuals, "residuals", {K, d});
    check_vector(weights, "weights", K);
    check_threads(n_threads);
    wolfmeans::CenterStep step;
    {
        const Released release;
        step = wolfmeans::center_step(means.data(), centers.data(), residuals.data(),
                                      weights.data(), K, d, n_threads);
    }
    return nb::make_tuple(step.shift, step.movement);
}

template <class Real>
nb::tuple turn(Array<const Real> centers, Array<const double> weights, Array<Real> found,
               Array<double> residuals, int n_threads) {
    check_matrix(centers, "centers");
    const std::size_t K = centers.shape(0), d = centers.shape(1);
    check_vector(weights, "weights", K);
    check_shape(found, "found", {K, d});
    check_shape(residuals, "residuals", {K, d});
    check_threads(n_threads);
    wolfmeans::CenterStep step;
    {
        const Released release;
        step = wolfmeans::turn(centers.data(), weights.data(), found.data(), residuals.data(), K, d,
                               n_threads);
    }
    return nb::make_tuple(step.shift, step.movement);
}

template <class Real>
void unit_rows(Array<const Real> values, std::optional<Array<const std::int64_t>> starts,
               Array<Real> out, int n_threads) {
    std::size_t n = 0, d = 0;
    check_threads(n_threads);
    if (starts) {
        require(values.ndim() == 1 && out.ndim() == 1 && starts->ndim() == 1 &&
                    starts->shape(0) >= 1,
                "values, out and starts must have one dimension, and starts at least one entry");
        n = starts->shape(0) - 1;
        check_vector(out, "out", values.shape(0));
        const std::int64_t* const start = starts->data();
        require(start[0] == 0 && start[n] == static_cast<std::int64_t>(values.shape(0)),
                "starts must begin with 0 and end with the number of values");
        require(std::is_sorted(start, start + n + 1), "starts must ascend");
    } else {
        check_matrix(values, "values");
        n = values.shape(0), d = values.shape(1);
        check_shape(out, "out", {n, d});
    }
    const Released release;
    wolfmeans::unit_rows(values.data(), starts ? starts->data() : nullptr, n, d, out.data(),
                         n_threads);
}

template <class Real>
nb::bytes digest(Array<const Real> values) {
    const auto name = wolfmeans::digest(values.data(), values.size() * sizeof(Real));
    return nb::bytes(reinterpret_cast<const char*>(name.data()), sizeof(name));
}

template <class Real>
void define_step_of(nb::module_& m) {
    m.def("center_step", &center_step<Real>, "means"_a, "centers"_a, "residuals"_a, "weights"_a,
          "n_threads"_a,
          "(shift, movement): the exact sums of (c' - c)^2 and of the gains of moving.\n\n"
          "IN: means c' and centers c (K, d), residuals (K, d) and weights (K,) float64.");
    m.def(
        "turn", &turn<Real>, "centers"_a, "weights"_a, "found"_a, "residuals"_a, "n_threads"_a,
        "(shift, movement) of the step of unit centers to the directions of the means.\n\n"
        "IN: centers (K, d), weights (K,) float64. IN/OUT: found (K, d), the means, then the new\n"
        "centers; residuals (K, d) float64, of the means, then of the directions.");
    m.def("unit_rows", &unit_rows<Real>, "values"_a, "starts"_a.none(), "out"_a, "n_threads"_a,
          "Divide rows by their norms.\n\n"
          "IN: values (n, d), or (entries,) of CSR rows that begin at starts (n + 1,) int64.\n"
          "OUT: out, like values.");
    m.def("digest", &digest<Real>, "values"_a, "A hash of 16 bytes.");
}

} // namespace

void define_exact(nb::module_& m) {
    m.def("weighted_sum", &weighted_sum, "weights"_a.none(), "values"_a, "n_threads"_a,
          nb::call_guard<Released>(),
          "The exact sum of the float64 terms w_i * v_i, rounded once.\n\n"
          "IN: weights (n,) float64, or None for ones; values (n,) float64.");
    define_moments<float>(m, "MomentsF32");
    define_moments<double>(m, "MomentsF64");
    define_partial_of<float>(m);
    define_partial_of<double>(m);
    m.def("exact_terms", &exact_terms, "terms"_a,
          "The exact sum of float64 terms, as limbs like those of exact_cost.");
    define_step_of<float>(m);
    define_step_of<double>(m);
}
