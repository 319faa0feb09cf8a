// Bindings of the searches for better local optima: SingleMovesF32, SwapsF32 and the same for
// float64.
#include <vector>

#include "bindings/binding.hpp"
#include "polish/single_moves.hpp"
#include "polish/swaps.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

// Arrays that a native object refers to; kept alive with it.
template <class Real>
struct Data {
    Data(Array<const Real> X, Weights weights, int n_threads) : X(X), weights(weights) {
        check_short(X);
        require(X.shape(0) >= 1, "X must have at least one row");
        check_weights(weights, X.shape(0));
        check_threads(n_threads);
    }
    const double* weight_data() const { return weights ? weights->data() : nullptr; }

    Array<const Real> X;
    Weights weights;
};

template <class Real>
class SwapsOf {
public:
    SwapsOf(Array<const Real> X, Weights weights, int n_threads)
        : data_(X, weights, n_threads),
          swaps_(X.data(), X.shape(0), X.shape(1), data_.weight_data(), n_threads) {}

    void look(Array<const Real> centers) {
        check_centers(centers, data_.X.shape(1));
        const Released release;
        swaps_.set_centers(centers.data(), centers.shape(0));
    }

    nb::tuple changes(Array<const std::int64_t> rows) {
        require(swaps_.n_clusters() > 0, "there are no centers to exchange yet");
        check_list(rows, "rows");
        check_range(rows, "rows", swaps_.n_points());
        const std::size_t count = rows.shape(0);
        Owned<std::int32_t> removals({count});
        Owned<double> changes({count});
        {
            const Released release;
            swaps_.changes(rows.data(), count, removals.data, changes.data);
        }
        return nb::make_tuple(removals.release(), changes.release());
    }

    nb::object labels() const { return of_points(swaps_.labels()); }
    nb::object nearest() const { return of_points(swaps_.nearest()); }
    nb::object second() const { return of_points(swaps_.second()); }
    double cost() const { return swaps_.cost(); }

private:
    template <class Element>
    nb::object of_points(const std::vector<Element>& values) const {
        return copied(values.data(), {swaps_.n_points()});
    }

    Data<Real> data_;
    wolfmeans::Swaps<Real> swaps_;
};

template <class Real>
class SingleMovesOf {
public:
    SingleMovesOf(Array<const Real> X, Weights weights, Array<const std::int32_t> labels,
                  Array<const Real> centers, int n_threads)
        : data_(X, weights, n_threads), K_(clusters_of(labels, centers)),
          moves_(X.data(), X.shape(0), X.shape(1), data_.weight_data(), labels.data(),
                 centers.data(), K_, n_threads) {}

    bool run(double seconds, std::int64_t sweeps) {
        const Released release;
        return moves_.run(seconds, sweeps);
    }

    nb::object labels() const { return copied(moves_.labels().data(), {moves_.n_points()}); }
    nb::object centers() const {
        return copied(moves_.centers().data(), {moves_.n_clusters(), moves_.n_features()});
    }
    std::int64_t moves() const { return moves_.moves(); }
    std::int64_t sweeps() const { return moves_.sweeps(); }
    double decrease() const { return moves_.decrease(); }
    bool tied() const { return moves_.tied(); }

private:
    std::size_t clusters_of(const Array<const std::int32_t>& labels,
                            const Array<const Real>& centers) const {
        const std::size_t K = check_centers(centers, data_.X.shape(1));
        check_vector(labels, "labels", data_.X.shape(0));
        check_range(labels, "labels", K);
        return K;
    }

    Data<Real> data_;
    std::size_t K_;
    wolfmeans::SingleMoves<Real> moves_;
};

template <class Real>
void define_single_moves(nb::module_& m, const char* name) {
    using M = SingleMovesOf<Real>;
    nb::class_<M>(m, name, "A search by single moves (engines/single_moves.py).")
        .def(nb::init<Array<const Real>, Weights, Array<const std::int32_t>, Array<const Real>,
                      int>(),
             "X"_a, "weights"_a.none(), "labels"_a, "centers"_a, "n_threads"_a)
        .def("run", &M::run, "seconds"_a, "sweeps"_a, "Whether no move has a gain any more.")
        .def_prop_ro("labels", &M::labels, "(n,) int32: a copy.")
        .def_prop_ro("centers", &M::centers, "(K, d): a copy.")
        .def_prop_ro("moves", &M::moves)
        .def_prop_ro("sweeps", &M::sweeps)
        .def_prop_ro("decrease", &M::decrease)
        .def_prop_ro("tied", &M::tied);
}

template <class Real>
void define_swaps(nb::module_& m, const char* name) {
    using S = SwapsOf<Real>;
    nb::class_<S>(m, name, "Exchanges of one center for a data point (engines/swaps.py).")
        .def(nb::init<Array<const Real>, Weights, int>(), "X"_a, "weights"_a.none(), "n_threads"_a)
        .def("look", &S::look, "centers"_a, "Set the (K, d) centers to exchange.")
        .def("changes", &S::changes, "rows"_a,
             "(removals (m,) int32, changes (m,) float64) for the data points rows (m,) int64.")
        .def_prop_ro("labels", &S::labels, "(n,) int32: a copy.")
        .def_prop_ro("nearest", &S::nearest, "(n,) float64: a copy.")
        .def_prop_ro("second", &S::second, "(n,) float64: a copy.")
        .def_prop_ro("cost", &S::cost);
}

} // namespace

void define_polish(nb::module_& m) {
    define_single_moves<float>(m, "SingleMovesF32");
    define_single_moves<double>(m, "SingleMovesF64");
    define_swaps<float>(m, "SwapsF32");
    define_swaps<double>(m, "SwapsF64");
}
