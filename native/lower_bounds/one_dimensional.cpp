// D_k(i), the best SSE of the first i points in k clusters, is min over j of D_{k-1}(j) plus the
// SSE of the points j..i-1, a matrix in (i, j) whose row minima move to the right (it is Monge), so
// that SMAWK finds all of them with O(n) looks. The SSE of a segment is Q - S^2 / W from prefix
// sums of w, w y and w y^2 about a data value s, y = x - s, in pairs of doubles: then the digits
// that cancel between segments far from s are still there.
//
// Rounding. Let u = 2^-53, V the total weight, A = sum w |y|, Q = sum w y^2, R = max |y|. y is
// exact as a pair, operations on pairs are accurate to 15 u^2 or better. A prefix sum in blocks of
// b takes at most b + n / b additions, so that with e = 3 (b + n / b) + 16 the prefixes of w, w y,
// w y^2 are off by at most e u^2 times V, A, Q (without weights V is exact). The SSE of a segment
// has mean |S / W| <= R, and its own 40 u^2 Q; so it is off by at most E = (10 e + 100) u^2 (Q + R
// A + R^2 V), the last term with weights only, if e u^2 V / min w is small (checked: the weight of
// a segment must itself be known). SMAWK compares computed numbers: a column is given up for
// another one that is worse by at most 2 E in the rows at stake; along a chain of columns given up,
// over all levels, that is at most 2 E times 2 n columns and 2 E for each of 64 levels. A layer
// adds (4 n + 200) E.
#include "lower_bounds/one_dimensional.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "exact/unit_roundoff.hpp"
#include "kernels/exact/separate_rounding.hpp"
#include "runtime/interrupts.hpp"

namespace wolfmeans {
namespace {

// The unevaluated sum of two doubles, |low| at most half a unit in the last place of high.
struct Pair {
    double high = 0.0, low = 0.0;
};

inline Pair quick_sum(double a, double b) {
    const double sum = a + b;
    return {sum, b - (sum - a)};
}

inline Pair exact_sum(double a, double b) {
    const double sum = a + b, part = sum - a;
    return {sum, (a - (sum - part)) + (b - part)};
}

inline Pair exact_product(double a, double b) {
    constexpr double splitter = 134217729.0; // 2^27 + 1
    const double product = a * b;
    const double a_shifted = splitter * a, b_shifted = splitter * b;
    const double a_high = a_shifted - (a_shifted - a), a_low = a - a_high;
    const double b_high = b_shifted - (b_shifted - b), b_low = b - b_high;
    return {product,
            ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

inline Pair operator+(Pair a, Pair b) {
    const Pair high = exact_sum(a.high, b.high), low = exact_sum(a.low, b.low);
    const Pair sum = quick_sum(high.high, high.low + low.high);
    return quick_sum(sum.high, low.low + sum.low);
}

inline Pair operator-(Pair a) {
    return {-a.high, -a.low};
}

inline Pair operator-(Pair a, Pair b) {
    return a + -b;
}

inline Pair operator*(Pair a, Pair b) {
    const Pair product = exact_product(a.high, b.high);
    return quick_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

inline Pair operator*(Pair a, double b) {
    const Pair product = exact_product(a.high, b);
    return quick_sum(product.high, product.low + a.low * b);
}

inline Pair operator/(Pair a, Pair b) {
    const double quotient = a.high / b.high;
    const Pair rest = b * quotient;
    return quick_sum(quotient, ((a.high - rest.high) + (a.low - rest.low)) / b.high);
}

inline bool operator<(Pair a, Pair b) {
    return a.high < b.high || (a.high == b.high && a.low < b.low);
}

// Sums over the first points: weight, first and second moment about the shift.
struct Moments {
    Pair weight, first, second;
};

inline Moments operator+(const Moments& a, const Moments& b) {
    return {a.weight + b.weight, a.first + b.first, a.second + b.second};
}

class Line {
public:
    Line(const double* x, const double* weights, std::size_t n) {
        const double shift = x[n / 2];
        const auto block = static_cast<std::size_t>(std::ceil(std::sqrt(double(n))));
        prefix_.reserve(n + 1);
        prefix_.push_back({});
        Moments before, here;
        double lightest = std::numeric_limits<double>::infinity(), absolute = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            if (i % block == 0) {
                before = before + here;
                here = {};
            }
            const double w = weights ? weights[i] : 1.0;
            const Pair y = exact_sum(x[i], -shift);
            const Pair first = y * w;
            here = here + Moments{{w, 0.0}, first, first * y};
            lightest = std::min(lightest, w);
            absolute += std::abs(first.high);
            // Equal points are one.
            if (i > 0 && x[i] == x[i - 1]) prefix_.pop_back();
            prefix_.push_back(before + here);
        }
        const double reach = std::max(x[n - 1] - shift, shift - x[0]);
        const double e = 3.0 * double(block + n / block + 2) + 16.0;
        const Moments& all = prefix_.back();
        known_ = e * unit_roundoff * unit_roundoff * (all.weight.high / lightest) < 1e-3;
        error_ = all.second.high + reach * absolute;
        if (weights) error_ += reach * reach * all.weight.high;
        error_ *= (10.0 * e + 100.0) * unit_roundoff * unit_roundoff;
    }

    std::size_t size() const { return prefix_.size() - 1; } // distinct points
    bool known() const { return known_; }
    double error() const { return error_; } // E above

    // The SSE of the distinct points j..i-1.
    Pair sse(std::size_t j, std::size_t i) const {
        const Moments &a = prefix_[j], &b = prefix_[i];
        const Pair first = b.first - a.first;
        return (b.second - a.second) - first * (first / (b.weight - a.weight));
    }

private:
    std::vector<Moments> prefix_;
    bool known_;
    double error_;
};

// All row minima of D(j) + sse(j, i) over j < i by SMAWK (Aggarwal, Klawe, Moran, Shor, Wilber
// 1987).
class Layer {
public:
    Layer(const Line& line, const std::vector<Pair>& before, std::vector<Pair>& after)
        : line_(line), before_(before), after_(after), best_(line.size() + 1) {}

    // For i = first..size of the line; j from first - 1.
    void minimize(std::size_t first) {
        std::vector<std::uint32_t> columns(line_.size() - first + 1);
        for (std::size_t c = 0; c < columns.size(); ++c)
            columns[c] = static_cast<std::uint32_t>(first - 1 + c);
        rows(first, 1, columns.size(), columns);
    }

    // The best j of each row i.
    std::vector<std::uint32_t>& best() { return best_; }

private:
    Pair at(std::size_t i, std::size_t j) const {
        if (j >= i) return {std::numeric_limits<double>::infinity(), 0.0};
        return before_[j] + line_.sse(j, i);
    }

    // The rows first, first + stride, ..., `count` of them.
    void rows(std::size_t first, std::size_t stride, std::size_t count,
              const std::vector<std::uint32_t>& columns) {
        std::vector<std::uint32_t> kept;
        kept.reserve(std::min(count, columns.size()));
        for (const std::uint32_t column : columns) {
            while (!kept.empty()) {
                const std::size_t row = first + stride * (kept.size() - 1);
                if (column >= row || !(at(row, column) < at(row, kept.back()))) break;
                kept.pop_back();
            }
            if (kept.size() < count) kept.push_back(column);
        }
        if (count > 1) rows(first + stride, 2 * stride, count / 2, kept);
        std::size_t c = 0;
        for (std::size_t t = 0; t < count; t += 2) {
            const std::size_t i = first + stride * t;
            const std::size_t last = t + 1 < count ? best_[i + stride] : kept.back();
            Pair least = at(i, kept[c]);
            best_[i] = kept[c];
            while (kept[c] < last) {
                const Pair value = at(i, kept[++c]);
                if (value < least) {
                    least = value;
                    best_[i] = kept[c];
                }
            }
            after_[i] = least;
        }
    }

    const Line& line_;
    const std::vector<Pair>& before_;
    std::vector<Pair>& after_;
    std::vector<std::uint32_t> best_;
};

// Turn ascending numbers of distinct points into numbers of points, in place.
void to_points(const double* x, std::size_t n, std::int64_t* firsts, std::size_t K) {
    std::size_t k = 0;
    std::int64_t distinct = -1;
    for (std::size_t i = 0; i < n && k < K; ++i) {
        if (i == 0 || x[i] != x[i - 1]) ++distinct;
        if (distinct == firsts[k]) firsts[k++] = static_cast<std::int64_t>(i);
    }
}

} // namespace

Optimum one_dimensional(const double* x, const double* weights, std::size_t n, std::size_t K,
                        std::int64_t* firsts) {
    if (firsts) std::fill_n(firsts, K, 0);
    const Line line(x, weights, n);
    const std::size_t m = line.size();
    if (K >= m) return {0.0, 0.0};
    if (!line.known()) return {0.0, std::numeric_limits<double>::infinity()};
    std::vector<Pair> before(m + 1), after(m + 1);
    for (std::size_t i = 1; i <= m; ++i)
        before[i] = line.sse(0, i);
    std::vector<std::vector<std::uint32_t>> begins; // of the last cluster, by layer and end
    for (std::size_t k = 2; k < K; ++k) {
        Layer layer(line, before, after);
        layer.minimize(k);
        if (firsts) begins.push_back(std::move(layer.best()));
        before.swap(after);
        check_interrupt();
    }
    Pair best = before[m];
    std::size_t begin = 0;
    if (K > 1) {
        // Only the last entry of the last layer is needed.
        best = {std::numeric_limits<double>::infinity(), 0.0};
        for (std::size_t j = K - 1; j < m; ++j) {
            const Pair value = before[j] + line.sse(j, m);
            if (value < best) {
                best = value;
                begin = j;
            }
        }
    }
    if (firsts) {
        // From the last cluster to the second, as numbers of distinct points; the first begins at 0.
        for (std::size_t k = K; k > 1; --k) {
            firsts[k - 1] = static_cast<std::int64_t>(begin);
            if (k > 2) begin = begins[k - 3][begin];
        }
        to_points(x, n, firsts, K);
    }
    const double layers = double(K) * (4.0 * double(n) + 200.0);
    // The low part is at most half a unit in the last place of the value, which callers round down
    // by a whole one: no data can show it there.
    return {best.high, layers * line.error() + std::abs(best.low)};
}

} // namespace wolfmeans
