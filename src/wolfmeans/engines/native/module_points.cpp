// Bindings of the labelled points: wolfmeans.engines._native.PointsF32 and PointsF64.
#include <optional>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>

#include "binding.hpp"
#include "moments.hpp"
#include "points.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

// A new NumPy array that owns its memory.
template <class Element>
struct Owned {
    explicit Owned(std::initializer_list<std::size_t> shape) : shape(shape) {
        std::size_t size = 1;
        for (const std::size_t extent : shape)
            size *= extent;
        data = new Element[size];
    }
    nb::object release() {
        nb::capsule owner(data,
                          [](void* memory) noexcept { delete[] static_cast<Element*>(memory); });
        return nb::cast(nb::ndarray<nb::numpy, Element>(data, shape.size(), shape.data(), owner));
    }
    std::vector<std::size_t> shape;
    Element* data;
};

// Points and their exact moments; the arrays they look at are kept alive.
template <class Real>
class LabelledPoints {
public:
    LabelledPoints(Array<const Real> X, std::optional<Array<const double>> weights, int n_threads)
        : X_(X), weights_(weights), n_threads_(n_threads),
          points_(checked(X), X.shape(0), X.shape(1), weight_data(), n_threads) {
        check_threads(n_threads);
    }

    nb::tuple assign(Array<const Real> centers, bool bounded,
                     std::optional<Array<const std::int64_t>> forced_rows,
                     std::optional<Array<const std::int32_t>> forced_labels) {
        require(centers.ndim() == 2 && centers.shape(1) == X_.shape(1) && centers.shape(0) >= 1,
                "centers must have at least one row and as many columns as X");
        const std::size_t K = centers.shape(0), d = centers.shape(1);
        const wolfmeans::Forced forced = checked_forced(forced_rows, forced_labels, K);
        require(!moments_ || K == K_, "the number of centers must stay the same");
        Owned<double> weights({K}), residuals({K, d});
        Owned<Real> means({K, d});
        wolfmeans::Change change;
        {
            nb::gil_scoped_release release;
            const bool first = !points_.has_labels();
            change = points_.assign(centers.data(), K, bounded, forced);
            const auto& labels = points_.labels();
            if (first) {
                moments_.emplace(X_.data(), X_.shape(0), d, weight_data(), K, n_threads_);
                K_ = K;
                moments_->add_all(labels.data());
            } else {
                moments_->move(change.rows.data(), change.old.data(), change.now.data(),
                               change.rows.size());
            }
            moments_->means(centers.data(), weights.data, means.data, residuals.data);
            if (first) change.rows.resize(X_.shape(0));
        }
        return nb::make_tuple(change.rows.size(), change.gap, weights.release(), means.release(),
                              residuals.release(), change.screened, change.rechecked);
    }

    nb::object labels() const {
        const auto& labels = points_.labels();
        Owned<std::int32_t> copy({X_.shape(0)});
        std::copy_n(labels.begin(), X_.shape(0), copy.data);
        return copy.release();
    }

private:
    static const Real* checked(const Array<const Real>& X) {
        require(X.ndim() == 2, "X must have two dimensions");
        return X.data();
    }

    const double* weight_data() const {
        if (!weights_) return nullptr;
        check_vector(*weights_, "weights", X_.shape(0));
        return weights_->data();
    }

    wolfmeans::Forced checked_forced(const std::optional<Array<const std::int64_t>>& rows,
                                     const std::optional<Array<const std::int32_t>>& labels,
                                     std::size_t K) const {
        if (!rows && !labels) return {};
        require(rows && labels && rows->ndim() == 1 && labels->ndim() == 1 &&
                    rows->shape(0) == labels->shape(0),
                "forced rows and labels must be lists of the same length");
        check_range(*rows, "forced rows", X_.shape(0));
        check_range(*labels, "forced labels", K);
        return {rows->data(), labels->data(), rows->shape(0)};
    }

    Array<const Real> X_;
    std::optional<Array<const double>> weights_;
    int n_threads_;
    std::size_t K_ = 0;
    wolfmeans::Points<Real> points_;
    std::optional<wolfmeans::Moments<Real>> moments_;
};

template <class Real>
void define(nb::module_& m, const char* name) {
    using Class = LabelledPoints<Real>;
    nb::class_<Class>(m, name, "Points with labels, bounds and exact moments.")
        .def(nb::init<Array<const Real>, std::optional<Array<const double>>, int>(),
             "X"_a.noconvert(), "weights"_a.none(), "n_threads"_a)
        .def("assign", &Class::assign, "centers"_a.noconvert(), "bounded"_a,
             "forced_rows"_a.none() = nb::none(), "forced_labels"_a.none() = nb::none(),
             "Label each row with the lowest index of a nearest center.\n\n"
             "Returns (moved, gap, weights (K,), means (K, d), residuals (K, d), screened, "
             "rechecked).")
        .def("labels", &Class::labels, "The current labels, a copy.");
}

} // namespace

void define_points(nb::module_& m) {
    define<float>(m, "PointsF32");
    define<double>(m, "PointsF64");
}
