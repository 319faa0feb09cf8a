// Bindings of the labelled points: wolfmeans.exact._native.PointsF32 and PointsF64.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/stl/string.h>

#include "bindings/binding.hpp"
#include "descent/descent.hpp"
#include "runtime/threads.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

// Dense points with labels; keeps the arrays alive that they refer to.
template <class Real>
class DescendingPoints {
public:
    using Partition = wolfmeans::Partition<Real>;

    DescendingPoints(Array<const Real> X, Weights weights, int n_threads,
                     const std::string& algorithm, const Ranges& ranges)
        : X_(X), weights_(weights), n_(rows_of(X)), d_(X.shape(1)), weighted_(weights.has_value()),
          descent_(X.data(), n_, d_, check_weights(weights_, n_), n_threads,
                   wolfmeans::method_named(algorithm), sum_ranges(ranges)) {
        check_threads(n_threads);
    }

    nb::tuple assign(Array<const Real> centers, ForcedRows rows, ForcedLabels labels) {
        set_clusters(centers);
        const wolfmeans::Forced forced = check_forced(rows, labels, n_, K_);
        {
            const Released release;
            descent_.step(centers.data(), K_, forced, false, vertex_);
        }
        return nb::make_tuple(vertex_.moved, vertex_.gap, copied(vertex_.weights.data(), {K_}),
                              copied(vertex_.centers.data(), {K_, d_}),
                              copied(vertex_.residuals.data(), {K_, d_}), descent_.screened(),
                              descent_.rechecked());
    }

    nb::tuple assign_exactly(Array<const Real> centers, ForcedRows rows, ForcedLabels labels) {
        set_clusters(centers);
        const wolfmeans::Forced forced = check_forced(rows, labels, n_, K_);
        std::size_t moved = 0;
        wolfmeans::ExactSum gap;
        std::optional<wolfmeans::MomentLimbs> limbs;
        {
            const Released release;
            gap = descent_.relabel(centers.data(), K_, forced, moved).gap;
            limbs = descent_.limbs();
        }
        return partial_step(moved, gap, *limbs, K_);
    }

    // Set the point that advance() starts from; its residuals are not needed.
    void set_point(const Array<const Real>& centers, const Array<const double>& weights,
                   double shift) {
        set_clusters(centers);
        check_vector(weights, "weights", K_);
        point_.centers.assign(centers.data(), centers.data() + centers.size());
        point_.weights.assign(weights.data(), weights.data() + K_);
        point_.residuals.resize(centers.size());
        point_.shift = shift;
    }

    void advance(const wolfmeans::Limits& limits) {
        evaluated_ = descent_.advance(point_, vertex_, limits);
    }

    // (evaluations (m, 6), last point, vertex); the last point is None when it is the given one.
    nb::tuple result() const {
        Owned<double> table({evaluated_.size(), 6});
        double* entry = table.data;
        for (const wolfmeans::Evaluation& e : evaluated_)
            for (const double value :
                 {double(e.moved), double(e.empty), e.gap, e.movement, e.shift, e.seconds})
                *entry++ = value;
        return nb::make_tuple(table.release(),
                              evaluated_.size() == 1 ? nb::none() : described(point_),
                              described(vertex_));
    }

    nb::object near_ties(Array<const Real> centers, double slack) {
        set_clusters(centers);
        std::vector<std::int64_t> rows;
        {
            const Released release;
            rows = descent_.near_ties(centers.data(), K_, slack);
        }
        return copied(rows.data(), {rows.size()});
    }

    // Release the arrays; labels, bounds and moments stay.
    void detach_rows() {
        X_ = {};
        weights_.reset();
        descent_.rebind(nullptr, nullptr);
        descent_.release_scratch();
    }

    // Adopt labels that were found for these rows and centers before.
    void adopt(Array<const std::int32_t> labels, Array<const Real> centers) {
        set_clusters(centers);
        check_vector(labels, "labels", n_);
        check_range(labels, "labels", K_);
        nb::gil_scoped_release release;
        descent_.adopt(labels.data(), centers.data(), K_);
    }

    // Refer to the same rows at another address.
    void attach_rows(Array<const Real> X, Weights weights) {
        check_shape(X, "X", {n_, d_});
        require(weights.has_value() == weighted_, "weights must be given if they were before");
        descent_.rebind(X.data(), check_weights(weights, n_));
        X_ = X;
        weights_ = weights;
    }

    nb::object labels() const {
        require(descent_.has_labels(), "there are no labels before the first assignment");
        Owned<std::int32_t> copy({n_});
        descent_.copy_labels(copy.data);
        return copy.release();
    }

private:
    static std::size_t rows_of(const Array<const Real>& X) {
        check_matrix(X, "X");
        return X.shape(0);
    }

    nb::object described(const Partition& partition) const {
        return nb::make_tuple(copied(partition.centers.data(), {K_, d_}),
                              copied(partition.residuals.data(), {K_, d_}),
                              copied(partition.weights.data(), {K_}), partition.shift,
                              partition.movement, partition.gap, partition.moved);
    }

    void set_clusters(const Array<const Real>& centers) {
        require(X_.is_valid(), "the rows are detached");
        const std::size_t K = check_centers(centers, d_);
        require(!descent_.has_labels() || K == K_, "the number of centers must stay the same");
        K_ = K;
    }

    Array<const Real> X_;
    Weights weights_;
    std::size_t n_, d_;
    bool weighted_;
    std::size_t K_ = 0;
    wolfmeans::Descent<Real> descent_;
    Partition point_, vertex_;
    std::vector<wolfmeans::Evaluation> evaluated_;
};

// Several points from several starts, one thread each: (centers, weights, shift) of every start.
template <class Real>
nb::list advance(nb::list points, nb::list starts, nb::list tolerances, std::size_t at_most,
                 double seconds, bool keep_empty, bool directions, int n_threads) {
    using Class = DescendingPoints<Real>;
    check_threads(n_threads);
    require(nb::len(points) == nb::len(starts) && nb::len(points) == nb::len(tolerances),
            "points, starts and tolerances must have the same length");
    std::vector<Class*> all;
    std::vector<wolfmeans::Limits> limits;
    for (std::size_t s = 0; s < nb::len(points); ++s) {
        all.push_back(nb::cast<Class*>(points[s]));
        const auto start = nb::cast<nb::tuple>(starts[s]);
        const auto within = nb::cast<nb::tuple>(tolerances[s]);
        require(nb::len(start) == 3, "a start must be (centers, weights, shift)");
        require(nb::len(within) == 3, "tolerances must be (gap, decrease, shift)");
        all.back()->set_point(nb::cast<Array<const Real>>(start[0]),
                              nb::cast<Array<const double>>(start[1]), nb::cast<double>(start[2]));
        limits.push_back({at_most, nb::cast<double>(within[0]), nb::cast<double>(within[1]),
                          nb::cast<double>(within[2]), seconds, keep_empty, directions});
    }
    {
        const Released release;
        const std::size_t threads =
            std::clamp<std::size_t>(all.size(), 1, static_cast<std::size_t>(n_threads));
        wolfmeans::over_blocks(
            all.size(), threads, 1,
            [&](std::size_t, std::size_t s, std::size_t) { all[s]->advance(limits[s]); });
    }
    nb::list results;
    for (const Class* one : all)
        results.append(one->result());
    return results;
}

template <class Real>
void define_points_of(nb::module_& m, const char* name, const char* advance_name) {
    using Class = DescendingPoints<Real>;
    nb::class_<Class>(m, name, "Points with labels, bounds and exact moments.")
        .def(nb::init<Array<const Real>, Weights, int, const std::string&, const Ranges&>(), "X"_a,
             "weights"_a.none(), "n_threads"_a, "algorithm"_a = "auto",
             "ranges"_a.none() = nb::none())
        .def("assign", &Class::assign, "centers"_a, "forced_rows"_a.none() = nb::none(),
             "forced_labels"_a.none() = nb::none(),
             "Label each row with the lowest index of a nearest center.\n\n"
             "Returns (moved, gap, weights (K,), means (K, d), residuals (K, d), screened, "
             "rechecked).")
        .def("assign_exactly", &Class::assign_exactly, "centers"_a,
             "forced_rows"_a.none() = nb::none(), "forced_labels"_a.none() = nb::none(),
             "The same, with sums as carried limbs (see exact/limbs.py).\n\n"
             "Returns (moved, gap (1, 68, 1), grid of the totals, totals (K, limbs, 1), grid of "
             "the sums, sums (K, limbs, d)); a grid is (low, bits, limbs that terms reach).")
        .def("near_ties", &Class::near_ties, "centers"_a, "slack"_a,
             "Rows that may be ties within a slack (see points.hpp).")
        .def("detach_rows", &Class::detach_rows,
             "Release X and weights; labels, bounds and moments stay.")
        .def("attach_rows", &Class::attach_rows, "X"_a, "weights"_a.none(),
             "Refer to the same X and weights at another address. Their values are not checked.")
        .def("adopt", &Class::adopt, "labels"_a, "centers"_a,
             "Adopt labels that were found for these rows and centers before.")
        .def("labels", &Class::labels, "The current labels, a copy.");
    m.def(
        advance_name, &advance<Real>, "points"_a, "starts"_a, "tolerances"_a, "at_most"_a,
        "seconds"_a, "keep_empty"_a, "directions"_a, "n_threads"_a,
        "Evaluate points and take the steps between them, for one or several starts at once.\n\n"
        "directions: whether centers go to the directions of the means instead of the means.\n"
        "starts: (centers, weights, shift) for each; tolerances: (gap, decrease, shift), -1 for "
        "none.\nReturns for each (evaluations (m, 6): moved, empty, gap, movement, shift, seconds; "
        "the last point or None; the step from there).");
}

} // namespace

void define_points(nb::module_& m) {
    define_points_of<float>(m, "PointsF32", "advance_f32");
    define_points_of<double>(m, "PointsF64", "advance_f64");
}
