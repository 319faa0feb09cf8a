// Bindings of the price bound: wolfmeans.exact._native.ceiling, settle and climb.
#include "bindings/binding.hpp"
#include "lower_bounds/prices.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

wolfmeans::Priced check_priced(const Array<const double>& X, const Array<const double>& weights,
                               const Array<const double>& prices, int n_threads) {
    check_short(X);
    require(X.shape(1) >= 1, "X must have at least one column");
    check_vector(weights, "weights", X.shape(0));
    check_vector(prices, "prices", X.shape(0));
    check_threads(n_threads);
    return {X.data(), weights.data(), prices.data(), X.shape(0), X.shape(1)};
}

nb::tuple ceiling(Array<const double> X, Array<const double> weights, Array<const double> prices,
                  double enough, double tolerance, double budget, int n_threads) {
    const wolfmeans::Priced priced = check_priced(X, weights, prices, n_threads);
    wolfmeans::Ceiling result;
    {
        const Released release;
        result = wolfmeans::ceiling(priced, enough, tolerance, budget, n_threads);
    }
    return nb::make_tuple(result.upper, result.reached, result.work, result.abandoned,
                          copied(result.peaks.data(), {result.peaks.size() / priced.d, priced.d}));
}

double settle(Array<const double> X, Array<const double> weights, Array<const double> steps,
              Array<const double> places, double n_clusters, double spare, double cap,
              Array<double> prices, Array<double> masses, Array<double> average,
              Array<double> worth, std::size_t iterations, double rate, int n_threads) {
    check_matrix(X, "X");
    require(X.shape(1) >= 1, "X must have at least one column");
    const std::size_t n = X.shape(0), d = X.shape(1);
    check_vector(weights, "weights", n);
    check_vector(steps, "steps", n);
    check_matrix(places, "places");
    const std::size_t G = places.shape(0);
    check_shape(places, "places", {G, d});
    check_vector(prices, "prices", n);
    check_vector(masses, "masses", G);
    check_vector(average, "average", n);
    check_vector(worth, "worth", G);
    require(iterations >= 1, "iterations must be at least 1");
    check_threads(n_threads);
    const Released release;
    wolfmeans::settle({X.data(), weights.data(), steps.data(), n, d, places.data(), G, n_clusters,
                       spare, cap, prices.data(), masses.data(), average.data(), worth.data()},
                      iterations, rate, n_threads);
    return cap;
}

void climb(Array<const double> X, Array<const double> weights, Array<const double> prices,
           Array<double> places, std::size_t moves, Array<double> worth, int n_threads) {
    const wolfmeans::Priced priced = check_priced(X, weights, prices, n_threads);
    require(priced.n >= 1, "X must have at least one row");
    check_matrix(places, "places");
    check_shape(places, "places", {places.shape(0), priced.d});
    check_vector(worth, "worth", places.shape(0));
    const Released release;
    wolfmeans::climb(priced, places.data(), places.shape(0), moves, worth.data(), n_threads);
}

} // namespace

void define_prices(nb::module_& m) {
    m.def("ceiling", &ceiling, "X"_a, "weights"_a, "prices"_a, "enough"_a, "tolerance"_a,
          "budget"_a, "n_threads"_a,
          "Bound max over c of F(c) = sum_i w_i (a_i - ||x_i - c||^2)_+ from above.\n\n"
          "IN: X (n, d), weights (n,) positive, prices (n,), all float64, C-contiguous, finite.\n"
          "Returns (upper, reached, work, abandoned, peaks), see prices.hpp.");
    m.def("settle", &settle, "X"_a, "weights"_a, "steps"_a, "places"_a, "n_clusters"_a, "spare"_a,
          "cap"_a, "prices"_a, "masses"_a, "average"_a, "worth"_a, "iterations"_a, "rate"_a,
          "n_threads"_a,
          "Steps towards good prices for centers at given places, see prices.hpp.\n\n"
          "IN: X (n, d), weights, steps (n,), places (G, d); rows of X and places ascend in their\n"
          "first column. IN/OUT: prices (n,), masses (G,). OUT: average (n,), worth (G,).\n"
          "Returns the cap.");
    m.def("climb", &climb, "X"_a, "weights"_a, "prices"_a, "places"_a, "moves"_a, "worth"_a,
          "n_threads"_a,
          "Move places uphill on F.\n\n"
          "IN: X (n, d), rows ascending in the first column; weights, prices (n,).\n"
          "IN/OUT: places (G, d). OUT: worth (G,).");
}
