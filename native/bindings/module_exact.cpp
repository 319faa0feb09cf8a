// Exact sums and moments for the Python module wolfmeans.exact._native. Shapes, labels and rows
// are checked here, once; the kernels behind it trust them. Input is never converted or copied, the
// GIL is released.
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "bindings/binding.hpp"
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

} // namespace

void define_exact(nb::module_& m) {
    m.def("weighted_sum", &weighted_sum, "weights"_a.none(), "values"_a, "n_threads"_a,
          nb::call_guard<Released>(),
          "The exact sum of the float64 terms w_i * v_i, rounded once.\n\n"
          "IN: weights (n,) float64, or None for ones; values (n,) float64.");
    define_moments<float>(m, "MomentsF32");
    define_moments<double>(m, "MomentsF64");
}
