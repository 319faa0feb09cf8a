// Bindings of whole runs: wolfmeans.exact._native.run_to_rest and scatter.
#include <cstdint>
#include <string>
#include <vector>

#include <nanobind/stl/string.h>

#include "bindings/binding.hpp"
#include "descent/whole_runs.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

nb::tuple run_to_rest(Array<const double> X, Array<const std::int64_t> seeds, std::size_t at_most,
                      const std::string& algorithm) {
    require(X.ndim() == 3 && seeds.ndim() == 2 && seeds.shape(1) >= 1,
            "X must have three dimensions and seeds two, got shapes " + shape_of(X) + " and " +
                shape_of(seeds));
    const std::size_t n_runs = seeds.shape(0), K = seeds.shape(1);
    const std::size_t n = X.shape(1), d = X.shape(2);
    require(X.shape(0) == n_runs || X.shape(0) == 1,
            "X must hold one data set, or one for each row of seeds");
    require(at_most >= 1, "at_most must be at least 1");
    check_range(seeds, "seeds", n);
    const wolfmeans::Method method = wolfmeans::method_named(algorithm);
    const std::size_t stride = X.shape(0) == 1 ? 0 : n * d;

    std::vector<wolfmeans::WholeRun> runs(n_runs);
    std::size_t total = 0;
    {
        const Released release;
        for (std::size_t r = 0; r < n_runs; ++r) {
            runs[r] = wolfmeans::run_to_rest(X.data() + r * stride, n, d, seeds.data() + r * K, K,
                                             at_most, method);
            total += runs[r].evaluated.size();
        }
    }
    Owned<double> starts({n_runs, 2}), table({total, 4});
    Owned<std::int64_t> lengths({n_runs});
    double* entry = table.data;
    for (std::size_t r = 0; r < n_runs; ++r) {
        starts.data[2 * r] = runs[r].first_movement;
        starts.data[2 * r + 1] = runs[r].initial_sse;
        lengths.data[r] = static_cast<std::int64_t>(runs[r].evaluated.size());
        for (const wolfmeans::Evaluation& e : runs[r].evaluated)
            for (const double value : {double(e.moved), double(e.empty), e.gap, e.movement})
                *entry++ = value;
    }
    return nb::make_tuple(starts.release(), lengths.release(), table.release());
}

double scatter(Array<const double> X) {
    require(X.ndim() == 2 && X.shape(0) >= 1, "X must have two dimensions and at least one row");
    return wolfmeans::scatter(X.data(), X.shape(0), X.shape(1));
}

} // namespace

void define_runs(nb::module_& m) {
    m.def("run_to_rest", &run_to_rest, "X"_a, "seeds"_a, "at_most"_a, "algorithm"_a,
          "Run K-means from seeds until no label changes, or at_most points are evaluated, many "
          "times.\n\n"
          "IN: X (runs, n, d) or (1, n, d) for all runs, finite; seeds (runs, K) int64 rows of X.\n"
          "Returns (starts (runs, 2): movement from the seeds, SSE of the first partition; lengths "
          "(runs,); evaluations (sum of lengths, 4): moved, empty, gap, movement).");
    m.def("scatter", &scatter, "X"_a, nb::call_guard<Released>(),
          "The exact sum of squared distances of the rows to their mean, rounded once.");
}
