#include "seeding/row_hashes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
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

// A shift by 64 bits would be undefined.
std::size_t bucket_of(std::uint64_t hash, int bits) {
    return bits == 0 ? 0 : static_cast<std::size_t>(hash >> (64 - bits));
}

// Coordinate operations that a look at one hash counts for.
constexpr double operations_per_hash = 4.0;

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

std::size_t rows_below(const std::uint64_t* hashes, std::size_t n, std::uint64_t key,
                       const double* limits, int bits, int n_threads, std::int64_t* rows) {
    const std::size_t chunks =
        worthwhile_threads(n, operations_per_hash * static_cast<double>(n), n_threads);
    std::vector<std::size_t> begins(chunks), counts(chunks);
    over_rows(n, chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        std::size_t count = 0;
        for (std::size_t i = begin; i < end; ++i) {
            const double uniform = static_cast<double>(mix(hashes[i] ^ key) >> 11) * 0x1p-53;
            // Written in any case: a branch would be mispredicted.
            rows[begin + count] = static_cast<std::int64_t>(i);
            count += uniform < limits[bucket_of(hashes[i], bits)];
        }
        begins[chunk] = begin;
        counts[chunk] = count;
    });
    std::size_t found = 0;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        std::copy_n(rows + begins[chunk], counts[chunk], rows + found);
        found += counts[chunk];
    }
    return found;
}

bool bucket_masses(const std::uint64_t* hashes, std::size_t n, const double* masses,
                   const double* weights, int shift, int bits, int n_threads, std::int64_t* sums) {
    const std::size_t buckets = std::size_t{1} << bits;
    const std::size_t chunks =
        worthwhile_threads(n, operations_per_hash * static_cast<double>(n), n_threads);
    std::vector<std::int64_t> others((chunks - 1) * buckets);
    std::vector<unsigned char> fits(chunks, 1);
    const double most = 0x1p62 / (static_cast<double>(n) + 1.0);
    std::fill_n(sums, buckets, 0);
    // A product with a power of two is exact, or so small that it is rounded down to 0. The shift
    // may be too large for one factor.
    const int half = shift / 2;
    const double first = std::ldexp(1.0, half), second = std::ldexp(1.0, shift - half);
    over_rows(n, chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
        std::int64_t* const own = chunk == 0 ? sums : others.data() + (chunk - 1) * buckets;
        bool fit = true;
        for (std::size_t i = begin; i < end; ++i) {
            const double mass = weights ? weights[i] * masses[i] : masses[i];
            const double scaled = mass * first * second;
            const bool counts = scaled >= 0.0 && scaled <= most;
            fit &= counts;
            own[bucket_of(hashes[i], bits)] += static_cast<std::int64_t>(counts ? scaled : 0.0);
        }
        fits[chunk] = fit;
    });
    for (std::size_t chunk = 1; chunk < chunks; ++chunk)
        for (std::size_t bucket = 0; bucket < buckets; ++bucket)
            sums[bucket] += others[(chunk - 1) * buckets + bucket];
    return std::all_of(fits.begin(), fits.end(), [](unsigned char fit) { return fit != 0; });
}

template void row_hashes(const float*, std::size_t, std::size_t, int, std::uint64_t*);
template void row_hashes(const double*, std::size_t, std::size_t, int, std::uint64_t*);
template void row_hashes(const SparseRows<float>&, int, std::uint64_t*);
template void row_hashes(const SparseRows<double>&, int, std::uint64_t*);

} // namespace wolfmeans
