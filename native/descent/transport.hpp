// The cheapest assignment under size limits: shortest chains in a graph of clusters.
// Specification: core/transport.py, to the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace wolfmeans {

// A mass in units of a power of two.
#if defined(__SIZEOF_INT128__)
__extension__ typedef __int128 Mass;
#else
typedef std::int64_t Mass;
#endif

// value / 2^unit, a whole number of at most 106 bits.
Mass whole_mass(double value, int unit);

// The mass as high + low with 53 bits each, the high one truncated.
struct TwoParts {
    double high, low;
};
TwoParts two_parts(Mass mass, int unit);

struct SizeLimits {
    std::vector<Mass> lower, upper; // (K,)
    Mass total;                     // of all points
};

// The clusters of a split point, in ascending order, each with a positive mass.
struct SplitPart {
    std::int32_t cluster;
    Mass mass;
    bool operator==(const SplitPart&) const = default;
};
using Splits = std::map<std::int64_t, std::vector<SplitPart>>;

struct TransportPlan {
    std::vector<std::int32_t> labels; // (n,); -1 for split points
    Splits splits;
    std::vector<double> prices; // (K,)
    bool binding = false;
};

// What one call leaves for the next on the same rows. It affects the speed only.
struct TransportMemory {
    double window = std::numeric_limits<double>::infinity(); // by how much prices may change
    std::vector<std::int32_t> labels;      // (n,) where each point was cheapest at first
    std::vector<double> margins, radii;    // (n,) lower bounds on what other clusters cost more,
                                           // upper bounds on distances from the own center
    std::vector<double> centers, prices;   // of these labels
};

// Find a cheapest assignment within the limits, which some assignment meets.
//
//   X         IN  (n, d) row-major
//   masses    IN  (n,) or null: all 1
//   centers   IN  (K, d); costs are canonical distances
//   prices    IN  (K,) to begin with; empty: those of samples of the rows
//   memory    IN/OUT  what the last call left, or nothing
//
// Costs and prices are float64; every operation is rounded by itself, in the order of the
// specification. Masses are exact. O(n K d), and for each chain O(K^2 + K d).
template <class Real>
TransportPlan cheapest(const Real* X, std::size_t n, std::size_t d, const Mass* masses,
                       const Real* centers, const SizeLimits& limits, std::vector<double> prices,
                       TransportMemory& memory, int n_threads);

} // namespace wolfmeans
