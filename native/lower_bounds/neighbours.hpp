// The rows of the neighbours bound. For a point i and prices lambda of a cluster, the root
//
//   r_i(lambda) = min over W of [1/2 sum of w_j d2_ij over the nearest j, up to weight W, + lambda]
//                 / W
//
// is the least that one unit of weight at i pays (bounds/neighbours.py has the theorem). It is
// also the root r of sum_j w_j (r - d2_ij / 2)_+ = lambda, so that no order of the points is
// needed: the ratio [1/2 S + lambda] / W of the points with d2 < 2r, taken as the next r, falls to
// the root in a few steps from anywhere above it (Dinkelbach), and the ratio of the points below
// *any* r is above the root.
//
// Rounding. Every sum has positive terms, so a computed ratio q has a relative error of at most
// eta = (2n + 16) u. Some rho is returned only if the computed ratio of the points with d2 < 2 rho
// is at least rho (1 + 2 eta): then the exact ratio is at least rho, which says
// sum_j w_j (rho - d2_ij / 2)_+ <= lambda, and so rho <= r_i(lambda) for the distances as computed.
// For the exact distances divide by 1 + (d + 3) u (the ratio is linear in them and lambda >= 0).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace wolfmeans {

// What to solve for.
//
//   lambdas     (n_lambdas,) positive, ascending
//   heaviest    W may not exceed it; infinity for no limit
//   guess       about as large as the roots, positive; affects time only
struct Prices {
    const double* lambdas;
    std::size_t n_lambdas;
    double heaviest;
    double guess;
};

// Points laid out for distances from some of them to all.
class Neighbours {
public:
    //   X        IN  (n, d) row-major, finite
    //   weights  IN  (n,) positive, kept by reference; or null: all 1
    template <class Real>
    Neighbours(const Real* X, std::size_t n, std::size_t d, const double* weights);

    //   rows   IN   (m,) of 0..n-1
    //   roots  OUT  (m, n_lambdas) lower bounds on r_i(lambda), tight to rounding
    //
    // The same bits for any number of threads.
    void roots(const std::int64_t* rows, std::size_t m, const Prices& prices, double* roots,
               int n_threads) const;

    std::size_t n_points() const { return n_; }

private:
    void copy_row(std::size_t row, double* x) const;

    std::size_t n_, d_;
    const double* weights_;
    std::vector<double> tiles_;
};

// The same from given distances.
//
//   distances  IN   (m, n) squared distances, each row with a 0 for the point itself
//   weights    IN   (n,) positive; or null: all 1
//   roots      OUT  (m, n_lambdas)
void roots_of_distances(const double* distances, std::size_t m, std::size_t n,
                        const double* weights, const Prices& prices, double* roots, int n_threads);

} // namespace wolfmeans
