// Bindings of center_step and digest.
#include "bindings/binding.hpp"
#include "descent/center_step.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

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
    m.def("digest", &digest<Real>, "values"_a, "A hash of 16 bytes.");
}

} // namespace

void define_step(nb::module_& m) {
    define_step_of<float>(m);
    define_step_of<double>(m);
}
