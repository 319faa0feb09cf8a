// The search for good prices: a saddle point method and a hill climb.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lower_bounds/prices.hpp"
#include "runtime/threads.hpp"

namespace wolfmeans {
namespace {

// Sums are taken by this many chunks of rows, whatever the number of threads.
constexpr std::size_t most_chunks = 16;
constexpr std::size_t rows_per_chunk = 128;
// Distances are listed up to this multiple of a point's price.
constexpr double reach = 1.6;
// No mass grows or shrinks by more than exp(2) at once, nor below this part of a center.
constexpr double most_change = 2.0;
constexpr double least_mass = 1e-9;

double squared_distance(const double* x, const double* y, std::size_t d) {
    double sum = 0;
    for (std::size_t j = 0; j < d; ++j)
        sum += (x[j] - y[j]) * (x[j] - y[j]);
    return sum;
}

// The rows whose first column lies within `radius` of `middle`; they ascend in it.
std::pair<std::size_t, std::size_t> slab(const double* rows, std::size_t n, std::size_t d,
                                         double middle, double radius) {
    const auto first_with = [&](auto&& condition) {
        std::size_t low = 0, high = n;
        while (low < high) {
            const std::size_t half = low + (high - low) / 2;
            if (condition(rows[half * d]))
                high = half;
            else
                low = half + 1;
        }
        return low;
    };
    return {first_with([&](double value) { return value >= middle - radius; }),
            first_with([&](double value) { return value > middle + radius; })};
}

struct Neighbour {
    float distance;
    std::uint32_t place;
};

// One chunk of points with the places in their reach, nearest first.
struct Chunk {
    std::size_t begin = 0, end = 0;
    std::vector<Neighbour> neighbours;
    std::vector<std::size_t> ends;
    std::vector<double> worth;
    double value = 0, uncovered = 0;
};

class Settlement {
public:
    Settlement(const Market& market, std::size_t iterations, double rate, int n_threads)
        : m_(market), iterations_(iterations), rate_(rate), limit_(market.n), lack_(market.n),
          excess_(market.G), team_(n_threads) {
        const std::size_t chunks = std::clamp<std::size_t>(m_.n / rows_per_chunk, 1, most_chunks);
        chunks_.resize(chunks);
        over_rows(m_.n, chunks, 1, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
            list_neighbours(chunks_[chunk], begin, end);
        });
    }

    void run() {
        std::fill_n(m_.average, m_.n, 0.0);
        const std::size_t first_averaged = iterations_ / 2;
        for (std::size_t t = 0; t < iterations_; ++t) {
            each([&](Chunk& chunk) { move_prices(chunk, t, t >= first_averaged); });
            move_masses(t);
            if (m_.spare > 0) move_cap(t);
        }
        const double averaged = double(iterations_ - first_averaged);
        each([&](Chunk& chunk) { value_average(chunk, averaged); });
        gather();
    }

private:
    template <class Work>
    void each(const Work& work) {
        over_rows(chunks_.size(), chunks_.size(), 1,
                  [&](std::size_t chunk, std::size_t, std::size_t) { work(chunks_[chunk]); });
    }

    void list_neighbours(Chunk& chunk, std::size_t begin, std::size_t end) {
        chunk.begin = begin;
        chunk.end = end;
        chunk.worth.resize(m_.G);
        for (std::size_t i = begin; i < end; ++i) {
            const double* const x = m_.X + i * m_.d;
            limit_[i] = reach * m_.prices[i] + 8 * m_.steps[i];
            const auto [first, last] = slab(m_.places, m_.G, m_.d, x[0], std::sqrt(limit_[i]));
            const std::size_t start = chunk.neighbours.size();
            for (std::size_t place = first; place < last; ++place) {
                const double distance = squared_distance(x, m_.places + place * m_.d, m_.d);
                if (distance <= limit_[i])
                    chunk.neighbours.push_back({float(distance), std::uint32_t(place)});
            }
            std::sort(chunk.neighbours.begin() + std::ptrdiff_t(start), chunk.neighbours.end(),
                      [](const Neighbour& a, const Neighbour& b) {
                          return a.distance < b.distance ||
                                 (a.distance == b.distance && a.place < b.place);
                      });
            chunk.ends.push_back(chunk.neighbours.size());
        }
    }

    // The worth of the places at the present prices, and the prices after the step.
    void move_prices(Chunk& chunk, std::size_t t, bool averaged) {
        std::fill(chunk.worth.begin(), chunk.worth.end(), 0.0);
        chunk.uncovered = 0;
        const Neighbour* next = chunk.neighbours.data();
        for (std::size_t i = chunk.begin; i < chunk.end; ++i) {
            const Neighbour* const end = chunk.neighbours.data() + chunk.ends[i - chunk.begin];
            const double price = m_.prices[i], weight = m_.weights[i];
            double covered = 0;
            for (; next != end && next->distance < price; ++next) {
                covered += m_.masses[next->place];
                chunk.worth[next->place] += weight * (price - next->distance);
            }
            next = end;
            const double lack = 1 - covered;
            if (price >= m_.cap) chunk.uncovered += weight * lack;
            const double step = m_.steps[i] * (t ? 2 * lack - lack_[i] : lack);
            lack_[i] = lack;
            if (averaged) m_.average[i] += price;
            m_.prices[i] = std::clamp(price + step, 0.0, std::min(limit_[i], m_.cap));
        }
    }

    void gather() {
        std::fill_n(m_.worth, m_.G, 0.0);
        for (const Chunk& chunk : chunks_)
            for (std::size_t place = 0; place < m_.G; ++place)
                m_.worth[place] += chunk.worth[place];
    }

    void move_masses(std::size_t t) {
        gather();
        double mean = 0;
        for (std::size_t place = 0; place < m_.G; ++place)
            mean += m_.masses[place] * m_.worth[place];
        mean /= m_.n_clusters;
        // While all places are worth 0, prices rise.
        if (!(mean > 0)) return;
        double sum = 0;
        for (std::size_t place = 0; place < m_.G; ++place) {
            const double excess = m_.worth[place] / mean - 1;
            const double change = rate_ * (t ? 2 * excess - excess_[place] : excess);
            excess_[place] = excess;
            m_.masses[place] *= std::exp(std::clamp(change, -most_change, most_change));
            m_.masses[place] = std::max(m_.masses[place], least_mass);
            sum += m_.masses[place];
        }
        for (std::size_t place = 0; place < m_.G; ++place)
            m_.masses[place] *= m_.n_clusters / sum;
    }

    // A higher cap pays as long as the points at it are short of more mass than may be left out.
    void move_cap(std::size_t t) {
        double uncovered = 0;
        for (const Chunk& chunk : chunks_)
            uncovered += chunk.uncovered;
        const double lack = uncovered / m_.spare - 1;
        const double change = cap_rate * (t ? 2 * lack - cap_lack_ : lack);
        cap_lack_ = lack;
        m_.cap *= std::exp(std::clamp(change, -0.1, 0.1));
    }

    void value_average(Chunk& chunk, double averaged) {
        std::fill(chunk.worth.begin(), chunk.worth.end(), 0.0);
        const Neighbour* next = chunk.neighbours.data();
        for (std::size_t i = chunk.begin; i < chunk.end; ++i) {
            const Neighbour* const end = chunk.neighbours.data() + chunk.ends[i - chunk.begin];
            m_.average[i] /= averaged;
            for (; next != end && next->distance < m_.average[i]; ++next)
                chunk.worth[next->place] += m_.weights[i] * (m_.average[i] - next->distance);
            next = end;
        }
    }

    static constexpr double cap_rate = 0.02;

    const Market& m_;
    const std::size_t iterations_;
    const double rate_;
    std::vector<double> limit_, lack_, excess_;
    double cap_lack_ = 0;
    std::vector<Chunk> chunks_;
    Team team_;
};

} // namespace

void settle(const Market& market, std::size_t iterations, double rate, int n_threads) {
    Settlement(market, iterations, rate, n_threads).run();
}

void climb(const Priced& priced, double* places, std::size_t G, std::size_t moves, double* worth,
           int n_threads) {
    const std::size_t n = priced.n, d = priced.d;
    const double highest = *std::max_element(priced.prices, priced.prices + n);
    const auto threads = worthwhile_threads(G, double(G) * double(n) * double(d), n_threads);
    over_rows(G, threads, 1, [&](std::size_t, std::size_t begin, std::size_t end) {
        std::vector<double> sum(d);
        for (std::size_t place = begin; place < end; ++place) {
            check_interrupt();
            double* const c = places + place * d;
            for (std::size_t move = 0;; ++move) {
                double mass = 0, value = 0;
                std::fill(sum.begin(), sum.end(), 0.0);
                const auto [first, last] = slab(priced.X, n, d, c[0], std::sqrt(highest));
                for (std::size_t i = first; i < last; ++i) {
                    const double* const x = priced.X + i * d;
                    const double gain = priced.prices[i] - squared_distance(x, c, d);
                    if (!(gain > 0)) continue;
                    value += priced.weights[i] * gain;
                    mass += priced.weights[i];
                    for (std::size_t j = 0; j < d; ++j)
                        sum[j] += priced.weights[i] * (x[j] - c[j]);
                }
                worth[place] = value;
                if (move == moves || !(mass > 0)) break;
                bool moved = false;
                for (std::size_t j = 0; j < d; ++j) {
                    const double target = c[j] + sum[j] / mass;
                    moved |= target != c[j];
                    c[j] = target;
                }
                if (!moved) break;
            }
        }
    });
}

} // namespace wolfmeans
