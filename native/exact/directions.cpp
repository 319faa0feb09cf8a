#include "exact/directions.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

constexpr int far_exponent = 300;
constexpr double tiny = 0x1p-200;
constexpr double operations_per_quotient = 8.0;

// Four maxima side by side: none waits for the one before.
double largest_entry(const double* row, std::size_t d) {
    double largest[4] = {};
    std::size_t j = 0;
    for (; j + 4 <= d; j += 4)
        for (std::size_t l = 0; l < 4; ++l)
            largest[l] = std::max(largest[l], std::abs(row[j + l]));
    for (; j < d; ++j)
        largest[0] = std::max(largest[0], std::abs(row[j]));
    return std::max(std::max(largest[0], largest[1]), std::max(largest[2], largest[3]));
}

void bring_near_one(double* row, std::size_t d) {
    int exponent = 0;
    std::frexp(largest_entry(row, d), &exponent);
    if (std::abs(exponent) <= far_exponent) return;
    for (std::size_t j = 0; j < d; ++j)
        row[j] = std::ldexp(row[j], -exponent);
}

template <class Real>
double plus_square(double sum, Real entry) {
    return sum + static_cast<double>(entry) * static_cast<double>(entry);
}

template <class Real>
void sums_of_squares(const Real* rows, std::size_t count, std::size_t d, double* sums) {
    if (count == rows_at_once) {
        double a = 0.0, b = 0.0, c = 0.0, e = 0.0;
        for (std::size_t j = 0; j < d; ++j) {
            a = plus_square(a, rows[j]);
            b = plus_square(b, rows[d + j]);
            c = plus_square(c, rows[2 * d + j]);
            e = plus_square(e, rows[3 * d + j]);
        }
        sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = e;
        return;
    }
    for (std::size_t r = 0; r < count; ++r) {
        double sum = 0.0;
        for (std::size_t j = 0; j < d; ++j)
            sum = plus_square(sum, rows[r * d + j]);
        sums[r] = sum;
    }
}

} // namespace

template <class Real>
void to_directions(Real* rows, std::size_t count, std::size_t d, bool* has_direction) {
    constexpr bool wide = std::is_same_v<Real, double>;
    if constexpr (wide)
        for (std::size_t r = 0; r < count; ++r)
            bring_near_one(rows + r * d, d);
    double sums[rows_at_once] = {};
    sums_of_squares(rows, count, d, sums);
    for (std::size_t r = 0; r < count; ++r) {
        has_direction[r] = sums[r] != 0.0;
        const double norm = has_direction[r] ? std::sqrt(sums[r]) : 1.0;
        Real* const row = rows + r * d;
        for (std::size_t j = 0; j < d; ++j) {
            const double entry = static_cast<double>(row[j]) / norm;
            if constexpr (wide)
                row[j] = std::abs(entry) < tiny ? 0.0 : entry;
            else
                row[j] = static_cast<Real>(entry);
        }
    }
}

template <class Real>
void unit_rows(const Real* values, const std::int64_t* starts, std::size_t n, std::size_t d,
               Real* out, int n_threads) {
    const auto place = [&](std::size_t i) {
        return starts == nullptr ? i * d : static_cast<std::size_t>(starts[i]);
    };
    const double operations = operations_per_quotient * static_cast<double>(place(n));
    const std::size_t threads = worthwhile_threads(n, operations, n_threads);
    over_rows(n, threads, rows_at_once, [&](std::size_t, std::size_t begin, std::size_t end) {
        WorkCounter work;
        bool has_direction[rows_at_once];
        const std::size_t together = starts == nullptr ? rows_at_once : 1;
        for (std::size_t i = begin; i < end; i += together) {
            const std::size_t count = std::min(together, end - i);
            const std::size_t first = place(i), size = place(i + count) - first;
            std::copy_n(values + first, size, out + first);
            to_directions(out + first, count, size / count, has_direction);
            work.add(static_cast<double>(size));
        }
    });
}

template void to_directions(float*, std::size_t, std::size_t, bool*);
template void to_directions(double*, std::size_t, std::size_t, bool*);
template void unit_rows(const float*, const std::int64_t*, std::size_t, std::size_t, float*, int);
template void unit_rows(const double*, const std::int64_t*, std::size_t, std::size_t, double*, int);

} // namespace wolfmeans
