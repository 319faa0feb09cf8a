// The kernels of the price bound (bounds/prices.py). Points x_i with weights w_i > 0 and
// prices a_i; a center at c is worth
//     F(c) = sum_i w_i (a_i - ||x_i - c||^2)_+ .
// ceiling() bounds its maximum over all c rigorously. settle() and climb() search for good prices;
// the bound does not rely on them.
#pragma once

#include <cstddef>
#include <vector>

namespace wolfmeans {

struct Priced {
    const double* X;       // (n, d)
    const double* weights; // (n,), positive
    const double* prices;  // (n,), not negative
    std::size_t n, d;
};

struct Ceiling {
    double upper;              // no center is worth more; says nothing when abandoned
    double reached;            // about what the best center looked at is worth
    double work;               // how many coordinates of points were looked at
    bool abandoned;            // the work passed the budget
    std::vector<double> peaks; // centers worth more than enough / (1 + tolerance), d numbers each
};

// Bound the maximum of F by branch and bound over boxes of centers. A box is not divided if its
// upper bound is at most `enough`, or at most (1 + tolerance) times what its middle is worth. No
// box depends on results of others, so the result does not depend on the number of threads.
Ceiling ceiling(const Priced& priced, double enough, double tolerance, double budget,
                int n_threads);

// What settle() works on. Rows of X ascend in their first column, and so do those of places.
struct Market {
    const double* X;       // IN (n, d)
    const double* weights; // IN (n,), positive
    const double* steps;   // IN (n,), how far a price moves for a whole center too few or too many
    std::size_t n, d;
    const double* places; // IN (G, d), where centers may stand
    std::size_t G;
    double n_clusters;
    double spare;    // mass that may be left out, 0 for none
    double& cap;     // IN/OUT, no price is above it; moves only where spare > 0
    double* prices;  // IN/OUT (n,)
    double* masses;  // IN/OUT (G,), how much of a center stands where; sum n_clusters
    double* average; // OUT (n,), the prices averaged over the second half of the iterations
    double* worth;   // OUT (G,), F at the places, at the average prices
};

// Take `iterations` steps towards the saddle point of
//     sum_i w_i a_i - sum_c mass_c sum_i w_i (a_i - ||x_i - c||^2)_+ - cap spare ,
// the largest in a (and cap) of the smallest in mass: optimistic gradient steps for prices,
// optimistic multiplicative ones with factor `rate` for masses. Sums are taken in a fixed order, so
// that the number of threads does not matter.
void settle(const Market& market, std::size_t iterations, double rate, int n_threads);

// Move each place uphill on F, at most `moves` times to the mean of the points it reaches, and say
// what it is worth then. Rows of X ascend in their first column.
// IN: priced. IN/OUT: places (G, d). OUT: worth (G,).
void climb(const Priced& priced, double* places, std::size_t G, std::size_t moves, double* worth,
           int n_threads);

} // namespace wolfmeans
