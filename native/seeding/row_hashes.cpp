#include "seeding/row_hashes.hpp"

#include <bit>
#include <vector>

#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

// The last step of SplitMix64.
std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

std::uint64_t column_key(std::size_t column) {
    return mix((std::uint64_t{column} + 1) * 0x9E3779B97F4A7C15);
}

template <class Real>
std::uint64_t mixed(Real value, std::uint64_t key) {
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(static_cast<double>(value));
    return value == Real{0} ? 0 : mix(bits ^ key);
}

} // namespace

template <class Real>
void row_hashes(const Real* X, std::size_t n, std::size_t d, int n_threads, std::uint64_t* hashes) {
    std::vector<std::uint64_t> keys(d);
    for (std::size_t j = 0; j < d; ++j)
        keys[j] = column_key(j);
    const std::size_t chunks =
        worthwhile_threads(n, static_cast<double>(n) * (static_cast<double>(d) + 1.0), n_threads);
    over_rows(n, chunks, 1, [&](std::size_t, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            std::uint64_t sum = 0;
            for (std::size_t j = 0; j < d; ++j)
                sum += mixed(X[i * d + j], keys[j]);
            hashes[i] = mix(sum);
        }
    });
}

template <class Real>
void row_hashes(const SparseRows<Real>& rows, int n_threads, std::uint64_t* hashes) {
    const std::size_t chunks = worthwhile_threads(rows.n(), rows.operations(1.0), n_threads);
    over_rows(rows.n(), chunks, 1, [&](std::size_t, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            const SparseRow<Real> row = rows.row(i);
            std::uint64_t sum = 0;
            for (std::size_t k = 0; k < row.count; ++k)
                sum += mixed(row.values[k], column_key(static_cast<std::size_t>(row.columns[k])));
            hashes[i] = mix(sum);
        }
    });
}

template void row_hashes(const float*, std::size_t, std::size_t, int, std::uint64_t*);
template void row_hashes(const double*, std::size_t, std::size_t, int, std::uint64_t*);
template void row_hashes(const SparseRows<float>&, int, std::uint64_t*);
template void row_hashes(const SparseRows<double>&, int, std::uint64_t*);

} // namespace wolfmeans
