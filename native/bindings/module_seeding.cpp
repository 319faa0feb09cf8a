// Bindings of the seeding: the order of the points' values, k-means++ along it, and hashes of the
// values. Shapes and ranges are checked here, once.
#include <cstdint>
#include <limits>

#include "bindings/binding.hpp"
#include "seeding/ordering.hpp"
#include "seeding/row_hashes.hpp"
#include "seeding/seeding.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

template <class Real>
void lexicographic_order(Array<const Real> X, Array<std::int64_t> order, int n_threads) {
    check_short(X);
    check_vector(order, "order", X.shape(0));
    check_threads(n_threads);
    const Released release;
    wolfmeans::lexicographic_order(X.data(), X.shape(0), X.shape(1), n_threads, order.data());
}

template <class Real>
std::int64_t kmeans_plus_plus(Array<const Real> X, Weights weights, Array<const std::int64_t> order,
                              Array<const std::int64_t> draws, std::size_t n_trials,
                              Array<std::int64_t> rows, int n_threads) {
    check_short(X);
    const std::size_t n = X.shape(0);
    require(n >= 1, "X must have at least one row");
    const double* const given = check_weights(weights, n);
    bool fit = true, any = given == nullptr;
    for (std::size_t i = 0; given && i < n; ++i) {
        fit &= given[i] >= 0.0 && given[i] <= std::numeric_limits<double>::max();
        any |= given[i] > 0.0;
    }
    require(fit, "weights must be finite and not negative");
    require(any, "weights must not all be 0");
    check_vector(order, "order", n);
    check_range(order, "order", n);
    require(rows.ndim() == 1 && rows.shape(0) >= 1, "rows must have at least one place");
    require(n_trials >= 1, "n_trials must be at least 1");
    // The product could leave the range of its type otherwise.
    require(rows.shape(0) == 1 || n_trials <= draws.size(), "draws has fewer entries than trials");
    check_vector(draws, "draws", 1 + (rows.shape(0) - 1) * n_trials);
    check_range(draws, "draws", (std::size_t{1} << 63) - 1);
    check_threads(n_threads);
    const Released release;
    return wolfmeans::kmeans_plus_plus(X.data(), n, X.shape(1), given, order.data(), draws.data(),
                                       rows.shape(0), n_trials, n_threads, rows.data());
}

template <class Real>
void row_hashes(Array<const Real> X, Array<std::uint64_t> hashes, int n_threads) {
    check_matrix(X, "X");
    check_vector(hashes, "hashes", X.shape(0));
    check_threads(n_threads);
    const Released release;
    if (X.shape(0) == 0) return;
    wolfmeans::row_hashes(X.data(), X.shape(0), X.shape(1), n_threads, hashes.data());
}

// The highest bits of hashes that tell 2^bits buckets apart.
int bits_of(std::size_t buckets) {
    const bool power = buckets > 0 && (buckets & (buckets - 1)) == 0;
    require(power && buckets <= std::size_t{1} << 24, "buckets must be a power of two up to 2^24");
    int bits = 0;
    while (std::size_t{1} << bits < buckets)
        ++bits;
    return bits;
}

std::size_t rows_below(Array<const std::uint64_t> hashes, std::uint64_t key,
                       Array<const double> limits, Array<std::int64_t> rows, int n_threads) {
    check_vector(hashes, "hashes", hashes.size());
    check_vector(limits, "limits", limits.size());
    check_vector(rows, "rows", hashes.size());
    check_threads(n_threads);
    const int bits = bits_of(limits.size());
    const Released release;
    if (hashes.size() == 0) return 0;
    return wolfmeans::rows_below(hashes.data(), hashes.size(), key, limits.data(), bits, n_threads,
                                 rows.data());
}

void bucket_masses(Array<const std::uint64_t> hashes, Array<const double> masses, Weights weights,
                   int shift, Array<std::int64_t> sums, int n_threads) {
    const std::size_t n = hashes.size();
    check_vector(hashes, "hashes", n);
    check_vector(masses, "masses", n);
    const double* const given = check_weights(weights, n);
    check_vector(sums, "sums", sums.size());
    require(shift >= -2000 && shift <= 2000, "shift must be in -2000..2000");
    check_threads(n_threads);
    const int bits = bits_of(sums.size());
    bool fits = true;
    {
        const Released release;
        fits = wolfmeans::bucket_masses(hashes.data(), n, masses.data(), given, shift, bits,
                                        n_threads, sums.data());
    }
    require(fits, "masses must not be negative, and fit their sums");
}

template <class Real>
void define_seeding_of(nb::module_& m) {
    m.def("lexicographic_order", &lexicographic_order<Real>, "X"_a, "order"_a, "n_threads"_a = 1,
          "The rows of X in lexicographic order; equal rows keep theirs.\n\n"
          "IN: X (n, d). OUT: order (n,) int64.");
    m.def("kmeans_plus_plus", &kmeans_plus_plus<Real>, "X"_a, "weights"_a.none(), "order"_a,
          "draws"_a, "n_trials"_a, "rows"_a, "n_threads"_a,
          "Choose seeds by (greedy) k-means++.\n\n"
          "IN: X (n, d); weights (n,) or None; order (n,) int64, the rows in the order of their\n"
          "values; draws (1 + (K - 1) * n_trials,) int64 of 0..2**63 - 2. OUT: rows (K,) int64.\n"
          "Returns how many were found before all masses were 0; -1 when masses overflow.");
    m.def("row_hashes", &row_hashes<Real>, "X"_a, "hashes"_a, "n_threads"_a,
          "A hash of each row, equal for equal values.\n\n"
          "IN: X (n, d). OUT: hashes (n,) uint64.");
}

} // namespace

void define_seeding(nb::module_& m) {
    m.def("rows_below", &rows_below, "hashes"_a, "key"_a, "limits"_a, "rows"_a, "n_threads"_a,
          "The rows whose uniforms, by the key, are below the limits of their buckets.\n\n"
          "IN: hashes (n,) uint64; limits (2**bits,), one for each value of the highest bits.\n"
          "OUT: rows (n,) int64, the first ones in ascending order. Returns how many.");
    m.def("bucket_masses", &bucket_masses, "hashes"_a, "masses"_a, "weights"_a.none(), "shift"_a,
          "sums"_a, "n_threads"_a,
          "The sums of masses times 2**shift, rounded down, by the highest bits of the hash.\n\n"
          "IN: hashes (n,) uint64; masses (n,); weights (n,), factors of the masses, or None.\n"
          "OUT: sums (2**bits,) int64.");
    define_seeding_of<float>(m);
    define_seeding_of<double>(m);
}
