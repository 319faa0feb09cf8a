// Bindings of the lower bounds: the roots of the neighbours bound, the optimum on a line, and the
// search for cuts of the semidefinite bound.
// Shapes and ranges are checked here, once.
#include <cstdint>
#include <limits>
#include <string>

#include "bindings/binding.hpp"
#include "lower_bounds/neighbours.hpp"
#include "lower_bounds/one_dimensional.hpp"
#include "lower_bounds/violated_cuts.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

const double* check_positive(const Weights& weights, std::size_t n) {
    const double* const given = check_weights(weights, n);
    for (std::size_t i = 0; given && i < n; ++i)
        require(given[i] > 0 && given[i] < infinity, "weights must be positive and finite");
    return given;
}

wolfmeans::Prices check_prices(const Array<const double>& lambdas, double heaviest, double guess,
                               const Array<double>& roots, std::size_t m) {
    require(lambdas.ndim() == 1 && lambdas.shape(0) >= 1, "lambdas must not be empty");
    const std::size_t count = lambdas.shape(0);
    for (std::size_t g = 0; g < count; ++g)
        require(lambdas.data()[g] > (g ? lambdas.data()[g - 1] : 0.0) &&
                    lambdas.data()[g] < infinity,
                "lambdas must be positive, finite and ascending");
    require(heaviest > 0 && guess > 0, "heaviest and guess must be positive");
    check_shape(roots, "roots", {m, count});
    return {lambdas.data(), count, heaviest, guess};
}

// Points with the weights they refer to.
class BoundNeighbours {
public:
    template <class Real>
    static BoundNeighbours* open(Array<const Real> X, Weights weights) {
        check_short(X);
        require(X.shape(0) >= 1, "X must have at least one row");
        const double* const given = check_positive(weights, X.shape(0));
        return new BoundNeighbours{weights, {X.data(), X.shape(0), X.shape(1), given}};
    }

    void roots(Array<const std::int64_t> rows, Array<const double> lambdas, double heaviest,
               double guess, Array<double> out, int n_threads) const {
        check_list(rows, "rows");
        check_range(rows, "rows", points.n_points());
        check_threads(n_threads);
        const wolfmeans::Prices prices = check_prices(lambdas, heaviest, guess, out, rows.shape(0));
        if (rows.shape(0) == 0) return;
        const Released release;
        points.roots(rows.data(), rows.shape(0), prices, out.data(), n_threads);
    }

    Weights weights;
    wolfmeans::Neighbours points;
};

void roots_of_distances(Array<const double> distances, Weights weights, Array<const double> lambdas,
                        double heaviest, double guess, Array<double> out, int n_threads) {
    require(distances.ndim() == 2 && distances.shape(1) >= 1,
            "distances must have two dimensions, got shape " + shape_of(distances));
    check_threads(n_threads);
    const double* const given = check_positive(weights, distances.shape(1));
    const wolfmeans::Prices prices =
        check_prices(lambdas, heaviest, guess, out, distances.shape(0));
    if (distances.shape(0) == 0) return;
    const Released release;
    wolfmeans::roots_of_distances(distances.data(), distances.shape(0), distances.shape(1), given,
                                  prices, out.data(), n_threads);
}

nb::tuple one_dimensional(Array<const double> x, Weights weights, std::size_t n_clusters,
                          std::optional<Array<std::int64_t>> firsts) {
    require(x.ndim() == 1 && x.shape(0) >= 1, "x must have one dimension and at least one entry");
    const std::size_t n = x.shape(0);
    require(n < std::numeric_limits<std::uint32_t>::max(), "x has too many entries");
    for (std::size_t i = 1; i < n; ++i)
        require(x.data()[i - 1] <= x.data()[i], "x must be ascending");
    require(n_clusters >= 1, "n_clusters must be at least 1");
    const double* const given = check_positive(weights, n);
    require(!firsts || (firsts->ndim() == 1 && firsts->shape(0) == n_clusters),
            "firsts must have one entry for each cluster");
    std::int64_t* const out = firsts ? firsts->data() : nullptr;
    wolfmeans::Optimum optimum;
    {
        const Released release;
        optimum = wolfmeans::one_dimensional(x.data(), given, n, n_clusters, out);
    }
    return nb::make_tuple(optimum.value, optimum.error);
}

template <class Real>
void violated_cuts(Array<const Real> z, double near, std::size_t candidates, double least,
                        Array<std::int32_t> pairs, Array<float> sizes, Array<std::int32_t> counts,
                        int n_threads) {
    check_short(z);
    const std::size_t n = z.shape(0);
    check_shape(z, "z", {n, n});
    require(pairs.ndim() == 3, "pairs must have three dimensions, got shape " + shape_of(pairs));
    const std::size_t per_row = pairs.shape(1);
    require(candidates >= 1 && per_row >= 1, "candidates and per_row must be at least 1");
    check_shape(pairs, "pairs", {n, per_row, 2});
    check_shape(sizes, "sizes", {n, per_row});
    check_vector(counts, "counts", n);
    check_threads(n_threads);
    if (n == 0) return;
    const Released release;
    wolfmeans::violated_cuts(z.data(), n, {near, candidates, per_row, least}, pairs.data(),
                                  sizes.data(), counts.data(), n_threads);
}

} // namespace

void define_bounds(nb::module_& m) {
    nb::class_<BoundNeighbours>(m, "Neighbours",
                                "Points laid out for the roots of the neighbours bound.")
        .def_static("open", &BoundNeighbours::open<float>, "X"_a, "weights"_a.none(),
                    nb::rv_policy::take_ownership,
                    "IN: X (n, d) float32 or float64; weights (n,) float64, positive, or None.")
        .def_static("open", &BoundNeighbours::open<double>, "X"_a, "weights"_a.none(),
                    nb::rv_policy::take_ownership)
        .def("roots", &BoundNeighbours::roots, "rows"_a, "lambdas"_a, "heaviest"_a, "guess"_a,
             "roots"_a, "n_threads"_a,
             "Lower bounds on the roots r_i(lambda).\n\n"
             "IN: rows (m,) int64; lambdas (g,) float64, ascending; heaviest, the largest W; "
             "guess,\n"
             "about as large as the roots. OUT: roots (m, g) float64.");
    m.def("roots_of_distances", &roots_of_distances, "distances"_a, "weights"_a.none(), "lambdas"_a,
          "heaviest"_a, "guess"_a, "roots"_a, "n_threads"_a,
          "The same from squared distances (m, n), each row with a 0 for the point itself.");
    m.def("one_dimensional", &one_dimensional, "x"_a, "weights"_a.none(), "n_clusters"_a,
          "firsts"_a.none() = nb::none(),
          "(the smallest SSE of n_clusters clusters on a line, a bound on its error).\n\n"
          "IN: x (n,) float64, ascending; weights (n,) float64, positive, or None. OUT: firsts\n"
          "(n_clusters,) int64, the first point of each cluster, or None.");
    m.def("violated_cuts", &violated_cuts<float>, "z"_a, "near"_a, "candidates"_a,
          "least"_a, "pairs"_a, "sizes"_a, "counts"_a, "n_threads"_a,
          "Pair cuts z_ii - z_ij >= 0 and triangle cuts z_ii + z_jk - z_ij - z_ik >= 0 that are\n"
          "violated by more than `least`.\n\n"
          "IN: z (n, n) float32 or float64, symmetric; j and k are from entries z_ij > near z_ii,\n"
          "`candidates` of them at most. OUT: pairs (n, c, 2) int32, j and k (-1: a pair) for\n"
          "each i, the most violated first; sizes (n, c) float32; counts (n,) int32, how many are used.");
    m.def("violated_cuts", &violated_cuts<double>, "z"_a, "near"_a, "candidates"_a,
          "least"_a, "pairs"_a, "sizes"_a, "counts"_a, "n_threads"_a);
}
