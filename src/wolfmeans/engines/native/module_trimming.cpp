// Bindings of the trimmed points: wolfmeans.engines._native.TrimmedPointsF32 and F64, and
// find_threshold. Arrays are never converted; weights are copied, X is not. The GIL is released.
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include <nanobind/stl/optional.h>

#include "binding.hpp"
#include "trimming.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

nb::tuple described(const wolfmeans::Threshold& threshold) {
    return nb::make_tuple(threshold.distance, threshold.row, threshold.mass);
}

nb::tuple find_threshold(Array<const double> distances, std::optional<Array<const double>> weights,
                         double mass) {
    require(distances.ndim() == 1, "distances must have one dimension");
    if (weights) check_vector(*weights, "weights", distances.shape(0));
    require(mass > 0.0, "mass must be positive, got " + std::to_string(mass));
    require(weights || mass >= 1.0, "mass must be at least one point");
    wolfmeans::Threshold threshold;
    {
        const Released release;
        threshold = wolfmeans::find_threshold(distances.data(), weights ? weights->data() : nullptr,
                                              distances.shape(0), mass);
    }
    return described(threshold);
}

template <class Real>
class BoundTrimmedPoints {
public:
    BoundTrimmedPoints(Array<const Real> X, std::optional<Array<const double>> weights, double mass,
                       int n_threads)
        : X_(X) {
        require(X.ndim() == 2, "X must have two dimensions, got shape " + shape_of(X));
        if (weights) check_vector(*weights, "weights", X.shape(0));
        require(mass > 0.0, "mass must be positive, got " + std::to_string(mass));
        require(weights || mass >= 1.0, "mass must be at least one point");
        check_threads(n_threads);
        points_ = std::make_unique<wolfmeans::TrimmedPoints<Real>>(
            X.data(), X.shape(0), X.shape(1), weights ? weights->data() : nullptr, mass, n_threads);
    }

    nb::tuple assign(Array<const Real> centers, Array<double> weights, Array<Real> means,
                     Array<double> residuals) {
        require(centers.ndim() == 2 && centers.shape(1) == X_.shape(1) && centers.shape(0) >= 1,
                "centers must have at least one row and as many columns as X");
        const std::size_t K = centers.shape(0);
        require(K < std::size_t(std::numeric_limits<std::int32_t>::max()),
                "centers has more rows than an int32 label can name");
        require(!points_->has_labels() || K == K_, "the number of centers must stay the same");
        check_vector(weights, "weights", K);
        require(means.size() == centers.size() && residuals.size() == centers.size(),
                "means and residuals must have the shape of centers");
        K_ = K;
        typename wolfmeans::TrimmedPoints<Real>::Step step;
        {
            const Released release;
            step =
                points_->assign(centers.data(), K, weights.data(), means.data(), residuals.data());
        }
        return nb::make_tuple(step.moved, step.gap);
    }

    void labels(Array<std::int32_t> out) const {
        check_vector(out, "out", X_.shape(0));
        points_->copy_labels(out.data());
    }

    void nearest_labels(Array<std::int32_t> out) const {
        check_vector(out, "out", X_.shape(0));
        std::copy_n(points_->nearest_labels().begin(), X_.shape(0), out.data());
    }

    void kept(Array<double> out) const {
        check_vector(out, "out", X_.shape(0));
        points_->copy_kept(out.data());
    }

    nb::tuple threshold() const { return described(points_->threshold()); }

private:
    Array<const Real> X_;
    std::size_t K_ = 0;
    std::unique_ptr<wolfmeans::TrimmedPoints<Real>> points_;
};

template <class Real>
void define(nb::module_& m, const char* name) {
    using Bound = BoundTrimmedPoints<Real>;
    nb::class_<Bound>(m, name, "Points of which the nearest up to a mass are kept.")
        .def(nb::init<Array<const Real>, std::optional<Array<const double>>, double, int>(),
             "X"_a.noconvert(), "weights"_a.noconvert().none(), "mass"_a, "n_threads"_a)
        .def("assign", &Bound::assign, "centers"_a.noconvert(), "weights"_a.noconvert(),
             "means"_a.noconvert(), "residuals"_a.noconvert(),
             "Keep the nearest points, each with the lowest index of a nearest center.\n\n"
             "IN: centers (K, d). OUT: weights (K,), means (K, d), residuals (K, d).\n"
             "Returns (moved, gap).")
        .def("labels", &Bound::labels, "out"_a.noconvert(),
             "OUT: (n,) int32, -1 for points of which nothing is kept.")
        .def("nearest_labels", &Bound::nearest_labels, "out"_a.noconvert(),
             "OUT: (n,) int32, the nearest center of every point.")
        .def("kept", &Bound::kept, "out"_a.noconvert(),
             "OUT: (n,) float64, what is kept of each point's weight.")
        .def("threshold", &Bound::threshold, "(distance, row, mass) of the last kept point.");
}

} // namespace

void define_trimming(nb::module_& m) {
    m.def("find_threshold", &find_threshold, "distances"_a.noconvert(),
          "weights"_a.noconvert().none(), "mass"_a,
          "(distance, row, mass) of the last point that a mass keeps, by (distance, row).\n\n"
          "IN: distances (n,) float64; weights (n,) float64, or None for ones.");
    define<float>(m, "TrimmedPointsF32");
    define<double>(m, "TrimmedPointsF64");
}
