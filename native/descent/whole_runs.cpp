#include "descent/whole_runs.hpp"

#include <algorithm>
#include <limits>

#include "assignment/assign.hpp"
#include "exact/moments.hpp"

namespace wolfmeans {

WholeRun run_to_rest(const double* X, std::size_t n, std::size_t d, const std::int64_t* seeds,
                     std::size_t K, std::size_t at_most, Method method) {
    std::vector<double> centers(K * d);
    for (std::size_t k = 0; k < K; ++k)
        std::copy_n(X + static_cast<std::size_t>(seeds[k]) * d, d,
                    centers.begin() + static_cast<std::ptrdiff_t>(k * d));
    Descent<double> descent(X, n, d, nullptr, 1, method);
    Partition<double> point, vertex;
    descent.step(centers.data(), K, {}, false, point);

    WholeRun run;
    run.first_movement = point.movement;
    std::vector<std::int32_t> labels(n);
    descent.copy_labels(labels.data());
    run.initial_sse = cost(X, n, d, nullptr, point.centers.data(), K, labels.data(), 1);
    Limits limits;
    limits.at_most = at_most;
    limits.seconds = std::numeric_limits<double>::infinity();
    limits.keep_empty = true;
    run.evaluated = descent.advance(point, vertex, limits);
    return run;
}

double scatter(const double* X, std::size_t n, std::size_t d) {
    const std::vector<std::int32_t> labels(n, 0);
    const std::vector<double> zero(d, 0.0);
    std::vector<double> mean(d);
    std::vector<double> residuals(d);
    double weight = 0.0;
    Moments<double> moments(X, n, d, nullptr, 1, 1);
    moments.add_all(labels.data());
    moments.means(zero.data(), &weight, mean.data(), residuals.data());
    return cost(X, n, d, nullptr, mean.data(), 1, labels.data(), 1);
}

} // namespace wolfmeans
