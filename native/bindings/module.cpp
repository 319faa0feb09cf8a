// The Python module wolfmeans.exact._native: shapes and labels are checked here, once; the
// kernels behind it trust them. Arrays are never converted or copied, the GIL is released.
#include <cstdint>
#include <string>
#include <thread>

#include "assignment/assign.hpp"
#include "bindings/binding.hpp"
#include "exact/cluster_sums.hpp"
#include "runtime/vector_unit.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

void define_bounds(nb::module_& m);   // module_bounds.cpp
void define_exact(nb::module_& m);    // module_exact.cpp
void define_points(nb::module_& m);   // module_points.cpp
void define_polish(nb::module_& m);   // module_polish.cpp
void define_prices(nb::module_& m);   // module_prices.cpp
void define_runs(nb::module_& m);     // module_runs.cpp
void define_seeding(nb::module_& m);  // module_seeding.cpp
void define_sizes(nb::module_& m);    // module_sizes.cpp
void define_sparse(nb::module_& m);   // module_sparse.cpp
void define_trimming(nb::module_& m); // module_trimming.cpp

namespace {

struct Sizes {
    std::size_t n, d, K;
};

template <class Real>
Sizes check_data(const Array<const Real>& X, const Array<const Real>& centers, int n_threads) {
    check_matrix(X, "X");
    check_threads(n_threads);
    return {X.shape(0), X.shape(1), check_centers(centers, X.shape(1))};
}

template <class Real>
void assign(Array<const Real> X, Array<const Real> centers, Array<std::int32_t> labels,
            Array<double> nearest, int n_threads) {
    const auto [n, d, K] = check_data(X, centers, n_threads);
    check_vector(labels, "labels", n);
    check_vector(nearest, "nearest", n);
    wolfmeans::assign(X.data(), n, d, centers.data(), K, labels.data(), nearest.data(),
                      static_cast<double*>(nullptr), n_threads);
}

template <class Real>
void second_nearest(Array<const Real> X, Array<const Real> centers, Array<std::int32_t> labels,
                    Array<double> nearest, Array<double> second, int n_threads) {
    const auto [n, d, K] = check_data(X, centers, n_threads);
    check_vector(labels, "labels", n);
    check_vector(nearest, "nearest", n);
    check_vector(second, "second", n);
    // An array of no points may have no memory either, and null would mean "no second".
    if (n == 0) return;
    wolfmeans::assign(X.data(), n, d, centers.data(), K, labels.data(), nearest.data(),
                      second.data(), n_threads);
}

template <class Real>
void distances(Array<const Real> X, Array<const Real> centers, Array<const std::int32_t> labels,
               Array<double> out, int n_threads) {
    const Sizes sizes = check_data(X, centers, n_threads);
    check_vector(labels, "labels", sizes.n);
    check_vector(out, "out", sizes.n);
    check_range(labels, "labels", sizes.K);
    wolfmeans::distances(X.data(), sizes.n, sizes.d, centers.data(), sizes.K, labels.data(),
                         out.data(), n_threads);
}

template <class Real>
double cost(Array<const Real> X, Weights weights, Array<const Real> centers,
            Array<const std::int32_t> labels, int n_threads) {
    const Sizes sizes = check_data(X, centers, n_threads);
    check_vector(labels, "labels", sizes.n);
    check_range(labels, "labels", sizes.K);
    return wolfmeans::cost(X.data(), sizes.n, sizes.d, check_weights(weights, sizes.n),
                           centers.data(), sizes.K, labels.data(), n_threads);
}

template <class Real>
void roots(Array<const Real> X, Array<const Real> centers, Array<Real> out, int n_threads) {
    const Sizes sizes = check_data(X, centers, n_threads);
    check_shape(out, "out", {sizes.n, sizes.K});
    wolfmeans::roots(X.data(), sizes.n, sizes.d, centers.data(), sizes.K, out.data(), n_threads);
}

template <class Real>
nb::tuple value_range(Array<const Real> values, int n_threads) {
    check_threads(n_threads);
    wolfmeans::ValueRange range;
    {
        const Released release;
        range = wolfmeans::value_range(values.data(), values.size(), n_threads);
    }
    return nb::make_tuple(range.finite, range.smallest, range.largest);
}

nb::dict hardware() {
    nb::dict description;
    description["threads"] = std::thread::hardware_concurrency();
    description["vector_unit"] = wolfmeans::best_kernels().vector_unit;
    return description;
}

template <class Real>
void define_kernels(nb::module_& m) {
    using Release = nb::call_guard<Released>;
    m.def("assign", &assign<Real>, "X"_a, "centers"_a, "labels"_a, "nearest"_a, "n_threads"_a,
          Release(),
          "Label each row of X with the lowest index of a nearest center.\n\n"
          "IN: X (n, d), centers (K, d), both float32 or both float64, C-contiguous, finite.\n"
          "OUT: labels (n,) int32; nearest (n,) float64, the canonical squared distances.");
    m.def("second_nearest", &second_nearest<Real>, "X"_a, "centers"_a, "labels"_a, "nearest"_a,
          "second"_a, "n_threads"_a, Release(),
          "Like assign, with the distance to the nearest of the other centers.\n\n"
          "OUT as well: second (n,) float64, inf when there is one center only.");
    m.def("distances", &distances<Real>, "X"_a, "centers"_a, "labels"_a, "out"_a, "n_threads"_a,
          Release(),
          "The canonical squared distance of each row of X to centers[labels[i]].\n\n"
          "IN: X, centers as for assign; labels (n,) int32. OUT: out (n,) float64.");
    m.def(
        "cost", &cost<Real>, "X"_a, "weights"_a.none(), "centers"_a, "labels"_a, "n_threads"_a,
        Release(),
        "The exact sum of w_i times the distance of row i to centers[labels[i]], rounded once.\n\n"
        "IN: X, centers, labels as for distances; weights (n,) float64, or None for ones.");
    m.def("roots", &roots<Real>, "X"_a, "centers"_a, "out"_a, "n_threads"_a, Release(),
          "The Euclidean distances of all rows of X to all centers.\n\n"
          "IN: X, centers as for assign. OUT: out (n, K) in their dtype, rounded from float64.");
    m.def("value_range", &value_range<Real>, "values"_a, "n_threads"_a,
          "(whether all values are finite, the smallest nonzero magnitude, the largest).");
}

} // namespace

NB_MODULE(_native, m) {
    m.doc() = "Native kernels of the CPU engine; all follow the exactness contract bit for bit.";
    define_kernels<float>(m);
    define_kernels<double>(m);
    define_bounds(m);
    define_exact(m);
    define_points(m);
    define_polish(m);
    define_prices(m);
    define_runs(m);
    define_seeding(m);
    define_sizes(m);
    define_sparse(m);
    define_trimming(m);
    m.def("hardware", &hardware, "The number of hardware threads and the vector unit.");
}
