#include "seeding/seeding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "exact/exact_sum.hpp"
#include "exact/unit_roundoff.hpp"
#include "kernels/exact/reach.hpp"
#include "runtime/threads.hpp"
#include "runtime/vector_unit.hpp"
#include "seeding/point_sketch.hpp"
#include "seeding/value_masses.hpp"

namespace wolfmeans {
namespace {

// Rows screened, compacted and evaluated together; their states stay in the first-level cache.
constexpr std::size_t tile_rows = 1024;
// From some_columns on, logging one distance for each row is faster than computing it again; from
// many_columns on, the log has room for all of them.
constexpr std::size_t some_columns = 16, many_columns = 64;

// Scattered rows are prefetched this many rows ahead.
constexpr std::size_t rows_ahead = 12;

// Canonical distances of some rows to one point; several at once, because the additions of one
// distance depend on each other.
template <class Real>
class DistancesTo {
public:
    DistancesTo(const Real* X, std::size_t d, const Real* point) : X_(X), d_(d), point_(point) {}

    template <class RowOf>
    void operator()(std::size_t count, const RowOf& row_of, double* out) const {
        constexpr std::size_t together = 4;
        std::size_t i = 0;
        for (; i + together <= count; i += together) {
            for (std::size_t k = i + rows_ahead; k < std::min(count, i + rows_ahead + together);
                 ++k)
                __builtin_prefetch(X_ + static_cast<std::size_t>(row_of(k)) * d_);
            some<together>(i, row_of, out);
        }
        for (; i < count; ++i)
            some<1>(i, row_of, out);
    }

private:
    template <std::size_t Rows, class RowOf>
    void some(std::size_t first, const RowOf& row_of, double* out) const {
        const Real* x[Rows];
        double sum[Rows] = {};
        for (std::size_t i = 0; i < Rows; ++i)
            x[i] = X_ + static_cast<std::size_t>(row_of(first + i)) * d_;
        for (std::size_t j = 0; j < d_; ++j) {
            const double c = static_cast<double>(point_[j]);
            for (std::size_t i = 0; i < Rows; ++i) {
                const double difference = static_cast<double>(x[i][j]) - c;
                sum[i] = sum[i] + difference * difference;
            }
        }
        std::copy_n(sum, Rows, out + first);
    }

    const Real* X_;
    std::size_t d_;
    const Real* point_;
};

// The rows begin..end-1 whose byte bytes[row] has a bit of the mask go to `rows`, at most tile_rows
// of them; returns how many. No branch on a single byte, which would be mispredicted.
std::size_t marked_rows(const unsigned char* bytes, std::size_t begin, std::size_t end,
                        unsigned char mask, std::uint32_t* rows) {
    std::uint64_t pattern;
    std::memset(&pattern, mask, sizeof(pattern));
    std::size_t count = 0, row = begin;
    for (; row + 8 <= end; row += 8) {
        std::uint64_t eight;
        std::memcpy(&eight, bytes + row, sizeof(eight));
        if ((eight & pattern) == 0) continue;
        for (std::size_t i = row; i < row + 8; ++i) {
            rows[count] = static_cast<std::uint32_t>(i);
            count += (bytes[i] & mask) != 0;
        }
    }
    for (; row < end; ++row) {
        rows[count] = static_cast<std::uint32_t>(row);
        count += (bytes[row] & mask) != 0;
    }
    return count;
}

// A table, because the baseline has no instruction that counts bits.
constexpr auto bits_in = [] {
    std::array<unsigned char, 256> counts{};
    for (unsigned bits = 0; bits < 256; ++bits)
        counts[bits] = static_cast<unsigned char>(std::popcount(bits));
    return counts;
}();

// The same, with the logged distances of the one bit in the mask. `log` points to the distances of
// row `begin`, on return to those of row `end`.
std::size_t logged_rows(const unsigned char* bytes, std::size_t begin, std::size_t end,
                        unsigned char mask, std::uint32_t* rows, double* distances,
                        const double*& log) {
    std::size_t count = 0, row = begin;
    const auto look = [&] {
        const unsigned marks = bytes[row];
        rows[count] = static_cast<std::uint32_t>(row);
        distances[count] = log[bits_in[marks & (mask - 1u)]];
        count += (marks & mask) != 0;
        log += bits_in[marks];
    };
    for (; row + 8 <= end; row += 8) {
        std::uint64_t eight;
        std::memcpy(&eight, bytes + row, sizeof(eight));
        if (eight == 0) continue;
        for (const std::size_t stop = row + 8; row < stop; ++row)
            look();
        row -= 8;
    }
    for (; row < end; ++row)
        look();
    return count;
}

template <class Real>
class PlusPlus {
public:
    PlusPlus(const Real* X, std::size_t n, std::size_t d, const double* weights,
             const std::int64_t* order, std::size_t n_trials, int n_threads)
        : X_(X), n_(n), d_(d), weights_(weights), order_(order), n_threads_(n_threads),
          groups_((n_trials + most_candidates - 1) / most_candidates), sketch_(X, n, d),
          closest_(n), improved_(groups_ * n),
          log_width_(d < some_columns   ? 0
                     : d < many_columns ? 1
                                        : std::min<std::size_t>(n_trials, most_candidates)),
          log_(n * log_width_ + most_candidates) {}

    // Compute the distances to the first seed; return false if the masses are too large to be
    // summed.
    bool start(std::size_t first) {
        const DistancesTo<Real> distances(X_, d_, X_ + first * d_);
        const std::size_t chunks = chunks_for(static_cast<double>(d_) + 8.0);
        over_rows(n_, chunks, tile_rows, [&](std::size_t, std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; i += tile_rows) {
                const std::size_t stop = std::min(end, i + tile_rows);
                distances(stop - i, [=](std::size_t k) { return i + k; }, closest_.data() + i);
                sketch_.draw(i, stop);
                for (std::size_t row = i; row < stop; ++row)
                    sketch_.set_closest(row, closest_[row]);
            }
        });
        constexpr double infinity = std::numeric_limits<double>::infinity();
        std::vector<double> largest(chunks);
        over_rows(
            n_, chunks, tile_rows, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
                double own = 0.0;
                for (std::size_t i = begin; i < end; ++i) {
                    const double mass = weights_ ? weights_[i] * closest_[i] : closest_[i];
                    own = mass <= own ? own : mass < infinity ? mass : infinity; // also for a NaN
                }
                largest[chunk] = own;
            });
        return *std::max_element(largest.begin(), largest.end()) <
               std::numeric_limits<double>::max() / (4.0 * static_cast<double>(n_));
    }

    // Choose the other seeds; return how many there are in all.
    std::size_t choose(const std::int64_t* draws, std::size_t K, std::size_t n_trials,
                       std::int64_t* chosen) {
        ValueMasses masses(closest_.data(), weights_, order_, n_);
        std::vector<ValueMasses::Changes> changes;
        std::size_t found = 1;
        for (; found < K && !masses.none(); ++found, draws += n_trials) {
            candidates_.clear();
            for (std::size_t t = 0; t < n_trials; ++t) {
                const std::size_t row = masses.draw(draws[t]);
                // The same row again cannot be better than itself.
                if (std::find(candidates_.begin(), candidates_.end(), row) == candidates_.end())
                    candidates_.push_back(row);
            }
            evaluate_candidates();
            const std::size_t best = best_candidate(masses.total());
            chosen[found] = static_cast<std::int64_t>(candidates_[best]);
            take(best, masses, changes);
        }
        return found;
    }

private:
    std::size_t chunks_for(double operations_per_row) const {
        return worthwhile_threads(n_, operations_per_row * static_cast<double>(n_), n_threads_);
    }

    unsigned char* improved(std::size_t t) { return improved_.data() + t / most_candidates * n_; }
    static unsigned char bit(std::size_t t) {
        return static_cast<unsigned char>(1u << (t % most_candidates));
    }

    // Fill `improved_` and `gains_` for the candidates of this round.
    void evaluate_candidates() {
        gains_.assign(groups_ * most_candidates, 0.0);
        for (std::size_t t = 0; t < candidates_.size(); t += most_candidates)
            evaluate_group(t, std::min(candidates_.size() - t, std::size_t{most_candidates}));
    }

    void evaluate_group(std::size_t first, std::size_t count) {
        const std::size_t width = count <= 4 ? 4 : 8;
        pack_candidates(first, count, width);
        const ReachFunctions<Real>& functions = best_kernels().reach->of<Real>();
        const auto reach = width == 4 ? functions.four : functions.eight;
        sketch_.choose(candidates_.data() + first, count, sketched_);
        unsigned char* const marks = improved(first);
        const auto mask = static_cast<unsigned char>((1u << count) - 1);
        // Counted in coordinate operations: an eighth of one for each column and candidate.
        chunks_ = chunks_for(static_cast<double>(count * (d_ + 32)) / 8.0);
        std::vector<double> gains(chunks_ * most_candidates);
        const auto look = [&](std::size_t chunk, std::size_t begin, std::size_t end) {
            std::uint32_t rows[tile_rows + 1];
            unsigned char survivors[tile_rows];
            double* log = log_width_ == 0 ? nullptr : log_.data() + begin * log_width_;
            const double* const log_end = log_.data() + end * log_width_;
            for (std::size_t i = begin; i < end; i += tile_rows) {
                check_interrupt();
                const std::size_t size = std::min(tile_rows, end - i);
                sketch_.screen(i, i + size, sketched_, survivors);
                std::memset(marks + i, 0, size);
                const std::size_t n_rows = marked_rows(survivors, 0, size, mask, rows);
                for (std::size_t k = 0; k < n_rows; ++k)
                    rows[k] += static_cast<std::uint32_t>(i);
                if (log && log_end - log < static_cast<std::ptrdiff_t>((n_rows + 1) * width))
                    log = nullptr;
                log = reach(X_, static_cast<long long>(d_), rows, static_cast<long long>(n_rows),
                            packed_.data(), closest_.data(), weights_,
                            gains.data() + chunk * most_candidates, marks, log);
            }
            logged_[chunk] = log != nullptr;
        };
        logged_.assign(chunks_, 0);
        over_rows(n_, chunks_, tile_rows, look);
        for (std::size_t chunk = 0; chunk < chunks_; ++chunk)
            for (std::size_t t = 0; t < count; ++t)
                gains_[first + t] += gains[chunk * most_candidates + t];
    }

    // packed_ (d, width) OUT: candidates first..first+count-1, and infinity, which no point is
    // close to, in the lanes without one.
    void pack_candidates(std::size_t first, std::size_t count, std::size_t width) {
        packed_.assign(d_ * width, std::numeric_limits<double>::infinity());
        for (std::size_t t = 0; t < count; ++t) {
            const Real* const row = X_ + candidates_[first + t] * d_;
            for (std::size_t j = 0; j < d_; ++j)
                packed_[j * width + t] = static_cast<double>(row[j]);
        }
    }

    // The first candidate of the smallest potential. The potential, the exact sum of all masses
    // with the candidate rounded once, is the sum without it less the gain. A gain is a sum of at
    // most n rounded differences, none negative, so it is off by at most (n + 1) u / (1 - n u) of
    // itself; rounding moves a potential by at most u of the total. Candidates within this error
    // are summed exactly.
    std::size_t best_candidate(double total) {
        const std::size_t most = static_cast<std::size_t>(
            std::max_element(gains_.begin(), gains_.begin() + candidates_.size()) - gains_.begin());
        const double error = 2.0 * (static_cast<double>(n_) + 4.0) * unit_roundoff;
        const double least = gains_[most] * (1.0 - error) - 4.0 * unit_roundoff * total;
        std::vector<std::size_t> open;
        for (std::size_t t = 0; t < candidates_.size(); ++t)
            if (gains_[t] * (1.0 + error) >= least && !equals_one_of(open, t)) open.push_back(t);
        if (open.size() == 1) return open.front();
        std::size_t best = open.front();
        double smallest = std::numeric_limits<double>::infinity();
        for (const std::size_t t : open) {
            const double potential = exact_potential(t);
            if (potential < smallest) {
                smallest = potential;
                best = t;
            }
        }
        return best;
    }

    // Whether a candidate is a copy of an earlier one, and therefore no better.
    bool equals_one_of(const std::vector<std::size_t>& others, std::size_t t) const {
        const Real* const row = X_ + candidates_[t] * d_;
        return std::any_of(others.begin(), others.end(), [&](std::size_t other) {
            return std::equal(row, row + d_, X_ + candidates_[other] * d_);
        });
    }

    double exact_potential(std::size_t t) {
        const DistancesTo<Real> distances(X_, d_, X_ + candidates_[t] * d_);
        const unsigned char* const marks = improved(t);
        ExactSum sum;
        for (std::size_t i = 0; i < n_; ++i) {
            double distance = closest_[i];
            if (marks[i] & bit(t)) distances(1, [=](std::size_t) { return i; }, &distance);
            sum.add(weights_ ? weights_[i] * distance : distance);
        }
        return sum.rounded();
    }

    // Make a candidate a seed.
    void take(std::size_t t, ValueMasses& masses, std::vector<ValueMasses::Changes>& changes) {
        const DistancesTo<Real> distances(X_, d_, X_ + candidates_[t] * d_);
        const unsigned char* const marks = improved(t);
        while (changes.size() < chunks_)
            changes.emplace_back(masses);
        const auto update = [&](std::size_t chunk, std::size_t begin, std::size_t end) {
            std::uint32_t rows[tile_rows + 1];
            double distance[tile_rows + 1];
            // With several groups the log holds those of the last one only.
            const bool logged = groups_ == 1 && logged_[chunk];
            const double* log = log_.data() + begin * log_width_;
            for (std::size_t i = begin; i < end; i += tile_rows) {
                const std::size_t stop = std::min(end, i + tile_rows);
                std::size_t n_rows;
                if (logged) {
                    n_rows = logged_rows(marks, i, stop, bit(t), rows, distance, log);
                } else {
                    n_rows = marked_rows(marks, i, stop, bit(t), rows);
                    distances(n_rows, [&](std::size_t k) { return rows[k]; }, distance);
                }
                for (std::size_t k = 0; k < n_rows; ++k) {
                    if (k + rows_ahead < n_rows)
                        __builtin_prefetch(closest_.data() + rows[k + rows_ahead]);
                    changes[chunk].shrink(rows[k], closest_[rows[k]], distance[k]);
                    closest_[rows[k]] = distance[k];
                    sketch_.set_closest(rows[k], distance[k]);
                }
            }
        };
        over_rows(n_, chunks_, tile_rows, update);
        masses.apply(changes);
    }

    const Real* X_;
    std::size_t n_, d_;
    const double* weights_;
    const std::int64_t* order_;
    int n_threads_;
    std::size_t groups_; // of candidates that are evaluated together
    PointSketch<Real> sketch_;
    std::vector<double> closest_;
    std::vector<unsigned char> improved_; // (groups, n), a bit for each candidate of the group
    std::size_t log_width_;
    std::vector<double> log_;           // distances of the improved pairs, if there is room
    std::vector<unsigned char> logged_; // whether there was room, for each chunk of rows
    std::size_t chunks_ = 1;
    std::vector<double> gains_; // (groups, most_candidates)
    std::vector<std::size_t> candidates_;
    SketchedCandidates sketched_;
    std::vector<double> packed_;
};

} // namespace

template <class Real>
std::int64_t kmeans_plus_plus(const Real* X, std::size_t n, std::size_t d, const double* weights,
                              const std::int64_t* order, const std::int64_t* draws, std::size_t K,
                              std::size_t n_trials, int n_threads, std::int64_t* chosen) {
    const std::size_t first = draw_by_weight(weights, order, n, draws[0]);
    chosen[0] = static_cast<std::int64_t>(first);
    if (K == 1) return 1;
    PlusPlus<Real> seeding(X, n, d, weights, order, n_trials, n_threads);
    if (!seeding.start(first)) return -1;
    return static_cast<std::int64_t>(seeding.choose(draws + 1, K, n_trials, chosen));
}

template std::int64_t kmeans_plus_plus(const float*, std::size_t, std::size_t, const double*,
                                       const std::int64_t*, const std::int64_t*, std::size_t,
                                       std::size_t, int, std::int64_t*);
template std::int64_t kmeans_plus_plus(const double*, std::size_t, std::size_t, const double*,
                                       const std::int64_t*, const std::int64_t*, std::size_t,
                                       std::size_t, int, std::int64_t*);

} // namespace wolfmeans
