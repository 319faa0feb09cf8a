// Bindings of the trimmed points: wolfmeans.exact._native.TrimmedPointsF32 and F64, and
// find_threshold. Arrays are never converted; weights are copied, X is not. The GIL is released.
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>

#include "bindings/binding.hpp"
#include "descent/trimming.hpp"

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
                       int n_threads, const std::optional<std::array<int, 4>>& ranges)
        : X_(X) {
        require(X.ndim() == 2, "X must have two dimensions, got shape " + shape_of(X));
        if (weights) check_vector(*weights, "weights", X.shape(0));
        require(mass > 0.0, "mass must be positive, got " + std::to_string(mass));
        require(weights || mass >= 1.0, "mass must be at least one point");
        check_threads(n_threads);
        n_ = X.shape(0);
        d_ = X.shape(1);
        std::optional<wolfmeans::SumRanges> given;
        if (ranges) {
            const auto [low, high, weights_low, weights_high] = *ranges;
            given = wolfmeans::SumRanges{{low, high}, {weights_low, weights_high}};
        }
        points_ = std::make_unique<wolfmeans::TrimmedPoints<Real>>(
            X.data(), n_, d_, weights ? weights->data() : nullptr, mass, n_threads,
            given ? &*given : nullptr);
    }

    nb::tuple assign(Array<const Real> centers, Array<double> weights, Array<Real> means,
                     Array<double> residuals) {
        const std::size_t K = checked(centers);
        check_vector(weights, "weights", K);
        require(means.size() == centers.size() && residuals.size() == centers.size(),
                "means and residuals must have the shape of centers");
        approached_ = 0;
        typename wolfmeans::TrimmedPoints<Real>::Step step;
        {
            const Released release;
            step =
                points_->assign(centers.data(), K, weights.data(), means.data(), residuals.data());
        }
        return nb::make_tuple(step.moved, step.gap);
    }

    void approach(Array<const Real> centers) {
        const std::size_t K = checked(centers);
        {
            const nb::gil_scoped_release release;
            points_->approach(centers.data(), K);
        }
        approached_ = K;
    }

    void nearest(Array<double> out) const {
        check_vector(out, "out", n_);
        require(approached_ > 0, "no centers were approached");
        std::copy_n(points_->nearest().begin(), n_, out.data());
    }

    nb::tuple keep(Array<const Real> centers, double distance, std::int64_t row, double mass) {
        const std::size_t K = checked(centers), d = d_;
        require(approached_ == K, "the centers must be those that were approached");
        wolfmeans::TermSum gap;
        std::size_t moved = 0;
        std::optional<wolfmeans::MomentLimbs> limbs;
        {
            const nb::gil_scoped_release release;
            moved = points_->keep({distance, row, mass}, centers.data(), gap);
            limbs = points_->limbs();
        }
        Owned<std::int64_t> totals({K, limbs->totals_grid.all_limbs(), 1});
        std::copy_n(limbs->totals, K * limbs->totals_grid.all_limbs(), totals.data);
        Owned<std::int64_t> sums({K, limbs->sums_grid.all_limbs(), d});
        std::copy_n(limbs->sums, K * limbs->sums_grid.all_limbs() * d, sums.data);
        return nb::make_tuple(moved, limbs_of(gap.exact()), grid_of(limbs->totals_grid),
                              totals.release(), grid_of(limbs->sums_grid), sums.release());
    }

    // Let go of the rows; labels, bounds, weights and moments stay.
    void put_away() {
        X_ = {};
        points_->rebind(nullptr);
    }

    // Take the same rows again, wherever they are now.
    void bring(Array<const Real> X) {
        require(X.ndim() == 2 && X.shape(0) == n_ && X.shape(1) == d_,
                "X must have the shape it had, got " + shape_of(X));
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
        require(X_.is_valid(), "the rows have been put away");
        require(centers.ndim() == 2 && centers.shape(1) == d_ && centers.shape(0) >= 1,
                "centers must have at least one row and as many columns as X");
        const std::size_t K = centers.shape(0);
        require(K < std::size_t(std::numeric_limits<std::int32_t>::max()),
                "centers has more rows than an int32 label can name");
        require(!points_->has_labels() || K == K_, "the number of centers must stay the same");
        K_ = K;
        return K;
    }

    static nb::tuple grid_of(const wolfmeans::Grid& grid) {
        return nb::make_tuple(grid.low, grid.bits, grid.limbs);
    }

    Array<const Real> X_;
    std::size_t n_ = 0, d_ = 0, K_ = 0;
    std::size_t approached_ = 0; // how many centers; 0 for none since the last step in one
    std::unique_ptr<wolfmeans::TrimmedPoints<Real>> points_;
};

template <class Real>
void define_trimming_of(nb::module_& m, const char* name) {
    using Bound = BoundTrimmedPoints<Real>;
    nb::class_<Bound>(m, name, "Points of which the nearest up to a mass are kept.")
        .def(nb::init<Array<const Real>, std::optional<Array<const double>>, double, int,
                      const std::optional<std::array<int, 4>>&>(),
             "X"_a.noconvert(), "weights"_a.noconvert().none(), "mass"_a, "n_threads"_a,
             "ranges"_a.none() = nb::none())
        .def("assign", &Bound::assign, "centers"_a.noconvert(), "weights"_a.noconvert(),
             "means"_a.noconvert(), "residuals"_a.noconvert(),
             "Keep the nearest points, each with the lowest index of a nearest center.\n\n"
             "IN: centers (K, d). OUT: weights (K,), means (K, d), residuals (K, d).\n"
             "Returns (moved, gap).")
        .def("approach", &Bound::approach, "centers"_a.noconvert(),
             "Find the nearest centers and the distances to them; labels stay what they are.")
        .def("nearest", &Bound::nearest, "out"_a.noconvert(),
             "OUT: (n,) float64, the distances to the centers that were approached.")
        .def("keep", &Bound::keep, "centers"_a.noconvert(), "distance"_a, "row"_a, "mass"_a,
             "Keep what is up to a threshold, at the centers approached, with sums as carried\n"
             "limbs (see exact/limbs.py).\n\n"
             "Returns (moved, gap (1, 68, 1), grid of the totals, totals (K, limbs, 1), grid of "
             "the sums, sums (K, limbs, d)); a grid is (low, bits, limbs that terms reach).")
        .def("put_away", &Bound::put_away, "Let go of X; labels, bounds, weights and moments stay.")
        .def("bring", &Bound::bring, "X"_a.noconvert(),
             "Take the same X again, wherever it is now; nobody looks whether it is the same.")
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
    define_trimming_of<float>(m, "TrimmedPointsF32");
    define_trimming_of<double>(m, "TrimmedPointsF64");
}
