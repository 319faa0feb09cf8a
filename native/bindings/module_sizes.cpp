// Bindings of the oracle under size limits: wolfmeans.exact._native.SizedPointsF32 and F64. Arrays
// are never converted; weights are copied, X is not. The GIL is released.
#include <algorithm>
#include <memory>
#include <vector>

#include "bindings/binding.hpp"
#include "descent/sized_points.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

template <class Real>
class BoundSizedPoints {
public:
    BoundSizedPoints(Array<const Real> X, Weights weights, int unit, Array<const double> lower,
                     Array<const double> upper, int n_threads, const Ranges& ranges)
        : X_(X) {
        check_matrix(X, "X");
        check_list(lower, "lower");
        check_vector(upper, "upper", lower.shape(0));
        require(lower.shape(0) >= 1, "there must be at least one cluster");
        check_threads(n_threads);
        const double* const given = check_weights(weights, X.shape(0));
        const auto list = [](const Array<const double>& array) {
            return std::vector<double>(array.data(), array.data() + array.size());
        };
        points_ = std::make_unique<wolfmeans::SizedPoints<Real>>(
            X.data(), X.shape(0), X.shape(1), given, unit, list(lower), list(upper), n_threads,
            sum_ranges(ranges));
    }

    nb::tuple assign(Array<const Real> centers, Array<double> weights, Array<Real> means,
                     Array<double> residuals) {
        const std::size_t K = points_->n_clusters();
        check_shape(centers, "centers", {K, X_.shape(1)});
        check_vector(weights, "weights", K);
        check_shape(means, "means", {K, X_.shape(1)});
        check_shape(residuals, "residuals", {K, X_.shape(1)});
        typename wolfmeans::SizedPoints<Real>::Step step;
        {
            const Released release;
            step = points_->assign(centers.data(), weights.data(), means.data(), residuals.data());
        }
        return nb::make_tuple(step.moved, step.gap);
    }

    void labels(Array<std::int32_t> out) const {
        check_vector(out, "out", X_.shape(0));
        require(points_->has_labels(), "points have no labels before the first assignment");
        points_->copy_labels(out.data());
    }

    nb::object prices() const {
        return copied(points_->prices().data(), {points_->prices().size()});
    }

    // (row, cluster, high, low) of each part of each split point.
    nb::list splits() const {
        nb::list parts;
        for (const auto& [row, of_row] : points_->splits())
            for (const wolfmeans::SplitPart& part : of_row) {
                const auto mass = wolfmeans::two_parts(part.mass, points_->unit());
                parts.append(nb::make_tuple(row, part.cluster, mass.high, mass.low));
            }
        return parts;
    }

private:
    Array<const Real> X_;
    std::unique_ptr<wolfmeans::SizedPoints<Real>> points_;
};

template <class Real>
void define_sizes_of(nb::module_& m, const char* name) {
    using Bound = BoundSizedPoints<Real>;
    nb::class_<Bound>(m, name, "Points that are assigned within limits on the sizes of clusters.")
        .def(nb::init<Array<const Real>, Weights, int, Array<const double>, Array<const double>,
                      int, const Ranges&>(),
             "X"_a, "weights"_a.none(), "unit"_a, "lower"_a, "upper"_a, "n_threads"_a,
             "ranges"_a.none() = nb::none())
        .def("assign", &Bound::assign, "centers"_a, "weights"_a, "means"_a, "residuals"_a,
             "Assign the points at the least cost within the limits.\n\n"
             "IN: centers (K, d). OUT: weights (K,), means (K, d), residuals (K, d).\n"
             "Returns (moved, gap).")
        .def("labels", &Bound::labels, "out"_a,
             "OUT: (n,) int32, the cluster with the largest share of each point.")
        .def("prices", &Bound::prices, "(K,) float64, of the last assignment.")
        .def("splits", &Bound::splits,
             "[(row, cluster, high, low)]: the parts of split points, with mass high + low.");
}

} // namespace

void define_sizes(nb::module_& m) {
    define_sizes_of<float>(m, "SizedPointsF32");
    define_sizes_of<double>(m, "SizedPointsF64");
}
