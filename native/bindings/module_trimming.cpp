// Bindings of the trimmed points: wolfmeans.exact._native.TrimmedPointsF32 and F64, and
// find_threshold. Arrays are never converted; weights are copied, X is not. The GIL is released.
#include <memory>
#include <optional>
#include <string>

#include "bindings/binding.hpp"
#include "descent/trimming.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

nb::tuple described(const wolfmeans::Threshold& threshold) {
    return nb::make_tuple(threshold.distance, threshold.row, threshold.mass);
}

void check_mass(double mass, bool weighted) {
    require(mass > 0.0, "mass must be positive, got " + std::to_string(mass));
    require(weighted || mass >= 1.0, "mass must be at least one point");
}

nb::tuple find_threshold(Array<const double> distances, Weights weights, double mass) {
    check_list(distances, "distances");
    const double* const given = check_weights(weights, distances.shape(0));
    check_mass(mass, given != nullptr);
    wolfmeans::Threshold threshold;
    {
        const Released release;
        threshold = wolfmeans::find_threshold(distances.data(), given, distances.shape(0), mass);
    }
    return described(threshold);
}

template <class Real>
class BoundTrimmedPoints {
public:
    BoundTrimmedPoints(Array<const Real> X, Weights weights, double mass, int n_threads,
                       const Ranges& ranges)
        : X_(X) {
        check_matrix(X, "X");
        n_ = X.shape(0);
        d_ = X.shape(1);
        const double* const given = check_weights(weights, n_);
        check_mass(mass, given != nullptr);
        check_threads(n_threads);
        points_ = std::make_unique<wolfmeans::TrimmedPoints<Real>>(X.data(), n_, d_, given, mass,
                                                                   n_threads, sum_ranges(ranges));
    }

    nb::tuple assign(Array<const Real> centers, Array<double> weights, Array<Real> means,
                     Array<double> residuals) {
        const std::size_t K = checked(centers);
        check_vector(weights, "weights", K);
        require(means.size() == centers.size() && residuals.size() == centers.size(),
                "means and residuals must have the shape of centers");
        nearest_to_ = 0;
        typename wolfmeans::TrimmedPoints<Real>::Step step;
        {
            const Released release;
            step =
                points_->assign(centers.data(), K, weights.data(), means.data(), residuals.data());
        }
        return nb::make_tuple(step.moved, step.gap);
    }

    void find_nearest(Array<const Real> centers) {
        const std::size_t K = checked(centers);
        {
            const nb::gil_scoped_release release;
            points_->find_nearest(centers.data(), K);
        }
        nearest_to_ = K;
    }

    void nearest(Array<double> out) const {
        check_vector(out, "out", n_);
        require(nearest_to_ > 0, "the nearest centers have not been found");
        std::copy_n(points_->nearest().begin(), n_, out.data());
    }

    nb::tuple keep(Array<const Real> centers, double distance, std::int64_t row, double mass) {
        const std::size_t K = checked(centers);
        require(nearest_to_ == K, "the nearest centers have not been found for these centers");
        wolfmeans::TermSum gap;
        std::size_t moved = 0;
        std::optional<wolfmeans::MomentLimbs> limbs;
        {
            const nb::gil_scoped_release release;
            moved = points_->keep({distance, row, mass}, centers.data(), gap);
            limbs = points_->limbs();
        }
        return partial_step(moved, gap.exact(), *limbs, K);
    }

    // Release the rows; labels, bounds, weights and moments stay.
    void detach_rows() {
        X_ = {};
        points_->rebind(nullptr);
    }

    // Refer to the same rows at another address.
    void attach_rows(Array<const Real> X) {
        check_shape(X, "X", {n_, d_});
        X_ = X;
        points_->rebind(X.data());
    }

    void labels(Array<std::int32_t> out) const {
        check_vector(out, "out", n_);
        points_->copy_labels(out.data());
    }

    void nearest_labels(Array<std::int32_t> out) const {
        check_vector(out, "out", n_);
        std::copy_n(points_->nearest_labels().begin(), n_, out.data());
    }

    void kept(Array<double> out) const {
        check_vector(out, "out", n_);
        points_->copy_kept(out.data());
    }

    nb::tuple threshold() const { return described(points_->threshold()); }

private:
    std::size_t checked(const Array<const Real>& centers) {
        require(X_.is_valid(), "the rows are detached");
        const std::size_t K = check_centers(centers, d_);
        require(!points_->has_labels() || K == K_, "the number of centers must stay the same");
        K_ = K;
        return K;
    }

    Array<const Real> X_;
    std::size_t n_ = 0, d_ = 0, K_ = 0;
    std::size_t nearest_to_ = 0; // number of centers of find_nearest; 0 after assign
    std::unique_ptr<wolfmeans::TrimmedPoints<Real>> points_;
};

template <class Real>
void define_trimming_of(nb::module_& m, const char* name) {
    using Bound = BoundTrimmedPoints<Real>;
    nb::class_<Bound>(m, name, "Points of which the nearest up to a mass are kept.")
        .def(nb::init<Array<const Real>, Weights, double, int, const Ranges&>(), "X"_a,
             "weights"_a.none(), "mass"_a, "n_threads"_a, "ranges"_a.none() = nb::none())
        .def("assign", &Bound::assign, "centers"_a, "weights"_a, "means"_a, "residuals"_a,
             "Keep the nearest points, each with the lowest index of a nearest center.\n\n"
             "IN: centers (K, d). OUT: weights (K,), means (K, d), residuals (K, d).\n"
             "Returns (moved, gap).")
        .def("find_nearest", &Bound::find_nearest, "centers"_a,
             "Find the nearest centers and the distances to them; labels stay what they are.")
        .def("nearest", &Bound::nearest, "out"_a,
             "OUT: (n,) float64, the distances that approach found.")
        .def("keep", &Bound::keep, "centers"_a, "distance"_a, "row"_a, "mass"_a,
             "Keep what is up to a threshold, at the centers of approach, with sums as carried\n"
             "limbs (see exact/limbs.py).\n\n"
             "Returns (moved, gap (1, 68, 1), grid of the totals, totals (K, limbs, 1), grid of "
             "the sums, sums (K, limbs, d)); a grid is (low, bits, limbs that terms reach).")
        .def("detach_rows", &Bound::detach_rows,
             "Release X; labels, bounds, weights and moments stay.")
        .def("attach_rows", &Bound::attach_rows, "X"_a,
             "Refer to the same X at another address. Its values are not checked.")
        .def("labels", &Bound::labels, "out"_a,
             "OUT: (n,) int32, -1 for points of which nothing is kept.")
        .def("nearest_labels", &Bound::nearest_labels, "out"_a,
             "OUT: (n,) int32, the nearest center of every point.")
        .def("kept", &Bound::kept, "out"_a,
             "OUT: (n,) float64, what is kept of each point's weight.")
        .def("threshold", &Bound::threshold, "(distance, row, mass) of the last kept point.");
}

} // namespace

void define_trimming(nb::module_& m) {
    m.def("find_threshold", &find_threshold, "distances"_a, "weights"_a.none(), "mass"_a,
          "(distance, row, mass) of the last point that a mass keeps, by (distance, row).\n\n"
          "IN: distances (n,) float64; weights (n,) float64, or None for ones.");
    define_trimming_of<float>(m, "TrimmedPointsF32");
    define_trimming_of<double>(m, "TrimmedPointsF64");
}
