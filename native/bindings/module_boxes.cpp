// Bindings of the points in boxes: wolfmeans.exact._native.BoxesF32 and BoxesF64.
#include <optional>

#include <nanobind/stl/optional.h>

#include "bindings/binding.hpp"
#include "tree/boxes.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

// Points in boxes; the arrays they look at are kept alive.
template <class Real>
class BoxedPoints {
public:
    BoxedPoints(Array<const Real> X, std::optional<Array<const double>> weights, int n_threads)
        : X_(X), weights_(weights), n_(rows_of(X, n_threads)),
          boxes_(X.data(), n_, X.shape(1), weight_data(), n_threads) {}

    nb::tuple assign(Array<const Real> centers,
                     std::optional<Array<const std::int64_t>> forced_rows,
                     std::optional<Array<const std::int32_t>> forced_labels) {
        require(centers.ndim() == 2 && centers.shape(1) == X_.shape(1) && centers.shape(0) >= 1,
                "centers must have at least one row and as many columns as X");
        const std::size_t K = centers.shape(0);
        wolfmeans::Forced forced;
        if (forced_rows || forced_labels) {
            require(forced_rows && forced_labels && forced_rows->ndim() == 1 &&
                        forced_labels->ndim() == 1 &&
                        forced_rows->shape(0) == forced_labels->shape(0),
                    "forced rows and labels must be lists of the same length");
            check_range(*forced_rows, "forced rows", X_.shape(0));
            check_range(*forced_labels, "forced labels", K);
            forced = {forced_rows->data(), forced_labels->data(), forced_rows->shape(0)};
        }
        wolfmeans::Change change;
        {
            const Released release;
            change = boxes_.assign(centers.data(), K, forced);
        }
        return nb::make_tuple(owned(std::move(change.rows)), owned(std::move(change.old)),
                              owned(std::move(change.now)), change.rounded_gap(), change.screened,
                              change.rechecked);
    }

    nb::object labels() const {
        std::vector<std::int32_t> copy(X_.shape(0));
        require(boxes_.has_labels(), "there are no labels before the first assignment");
        boxes_.copy_labels(copy.data());
        return owned(std::move(copy));
    }

    double looked_at() const { return boxes_.looked_at(); }

private:
    static std::size_t rows_of(const Array<const Real>& X, int n_threads) {
        require(X.ndim() == 2, "X must have two dimensions");
        require(X.shape(0) < (std::size_t{1} << 32), "X has more rows than boxes can hold");
        check_threads(n_threads);
        return X.shape(0);
    }

    const double* weight_data() const {
        if (!weights_) return nullptr;
        check_vector(*weights_, "weights", X_.shape(0));
        return weights_->data();
    }

    // A NumPy array that owns the vector.
    template <class Element>
    static nb::object owned(std::vector<Element> values) {
        auto* kept = new std::vector<Element>(std::move(values));
        nb::capsule owner(
            kept, [](void* memory) noexcept { delete static_cast<std::vector<Element>*>(memory); });
        return nb::cast(nb::ndarray<nb::numpy, Element>(kept->data(), {kept->size()}, owner));
    }

    Array<const Real> X_;
    std::optional<Array<const double>> weights_;
    std::size_t n_;
    wolfmeans::Boxes<Real> boxes_;
};

template <class Real>
void define_boxes_of(nb::module_& m, const char* name) {
    using Class = BoxedPoints<Real>;
    nb::class_<Class>(m, name, "Points with labels, in a tree of boxes.")
        .def(nb::init<Array<const Real>, std::optional<Array<const double>>, int>(),
             "X"_a.noconvert(), "weights"_a.none(), "n_threads"_a)
        .def("assign", &Class::assign, "centers"_a.noconvert(), "forced_rows"_a.none() = nb::none(),
             "forced_labels"_a.none() = nb::none(),
             "Label each row with the lowest index of a nearest center.\n\n"
             "Returns (rows, old, now, gap, screened, rechecked): the rows whose label changed, in "
             "no order, and their labels; the lists are empty for first labels.")
        .def("labels", &Class::labels, "The current labels, a copy.")
        .def("looked_at", &Class::looked_at,
             "How many distances to a center, of points and boxes, the last assignment took.");
}

} // namespace

void define_boxes(nb::module_& m) {
    define_boxes_of<float>(m, "BoxesF32");
    define_boxes_of<double>(m, "BoxesF64");
}
