// Algorithm 1 on K-means and spherical K-means, several steps in one go: what core/kmeans.py and
// core/spherical.py do step by step, with the same bits. It returns where Python needs the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assignment/change.hpp"
#include "assignment/points.hpp"
#include "exact/moments.hpp"
#include "tree/boxes.hpp"

namespace wolfmeans {

// A vertex of the polytope; see class Partition in core/kmeans.py.
template <class Real>
struct Partition {
    std::vector<Real> centers;     // (K, d)
    std::vector<double> residuals; // (K, d)
    std::vector<double> weights;   // (K,)
    double shift = 0.0;            // sum of squared shifts of the non-empty clusters' centers
    double movement = 0.0;         // what moving the centers gained
    double gap = 0.0;              // of the partition before
    std::size_t moved = 0;         // points whose label changed on arrival

    std::size_t n_empty() const;
};

// One evaluated point; see class Record in solution.py.
struct Evaluation {
    std::size_t moved, empty;
    double gap, movement, shift, seconds;
};

// When to stop: after so many points, at the first one within a tolerance (each is -1 where the
// rule does not look at it) or stationary, or at the first one later than `seconds`.
struct Limits {
    std::size_t at_most = 1;
    double gap = -1.0, decrease = -1.0, shift = -1.0;
    double seconds = 0.0;
    bool keep_empty = false; // whether the center of an empty cluster stays where it is
    bool directions = false; // whether centers are directions of means (spherical K-means)
};

// How nearest centers are found. The result does not depend on it.
enum class Method { automatic, dense, bounds, tree };

// The method that Python calls auto, dense, bounds or tree; throws std::invalid_argument.
Method method_named(const std::string& name);

template <class Real>
class Descent {
public:
    // X IN (n, d) row-major and weights IN (n,) or null, both finite; neither is copied, and both
    // must outlive the descent. `given` are the ranges of moments.hpp.
    Descent(const Real* X, std::size_t n, std::size_t d, const double* weights, int n_threads,
            Method method, std::optional<SumRanges> given = {});

    // Label every point with its nearest center and bring the moments up to date.
    //
    //   centers  IN   (K, d), the same K every time
    //   moved    OUT  how many points changed their label; all of them at first
    Change relabel(const Real* centers, std::size_t K, const Forced& forced, std::size_t& moved);

    // Adopt labels that were found for K centers before; no distances are known.
    void adopt(const std::int32_t* labels, const Real* centers, std::size_t K);

    // See Moments::limbs; there are labels.
    MomentLimbs limbs() { return moments_->limbs(); }

    // Label every point with its nearest center and find the next centers: the means of the
    // clusters, or their directions.
    //
    //   centers  IN   (K, d), the same K every time
    void step(const Real* centers, std::size_t K, const Forced& forced, bool directions,
              Partition<Real>& found);

    // Evaluate points from the given one on, taking the steps between them.
    //
    //   point    IN/OUT  the first point; on return the last that was evaluated
    //   vertex   OUT     the step from there, which is not taken
    //
    // Ends by the limits, or before a step to a partition with an empty cluster unless those keep
    // their centers.
    std::vector<Evaluation> advance(Partition<Real>& point, Partition<Real>& vertex,
                                    const Limits& limits);

    // See Points::near_ties. Rows that the bounds do not decide are screened again.
    std::vector<std::int64_t> near_ties(const Real* centers, std::size_t K, double slack) const;

    // Refer to the same numbers at another address; labels, bounds and moments stay.
    void rebind(const Real* X, const double* weights);
    // Free what only a step needs.
    void release_scratch();

    bool has_labels() const { return moments_.has_value(); }
    void copy_labels(std::int32_t* out) const;
    std::size_t screened() const { return screened_; }
    std::size_t rechecked() const { return rechecked_; }

private:
    bool worth_a_tree(std::size_t K) const;
    Change assign(const Real* centers, std::size_t K, const Forced& forced);

    const Real* X_;
    std::size_t n_, d_;
    const double* weights_;
    int n_threads_;
    Method method_;
    std::optional<SumRanges> given_;
    std::optional<Points<Real>> points_; // one of the two, from the first step on
    std::optional<Boxes<Real>> boxes_;
    std::optional<Moments<Real>> moments_;
    std::size_t screened_ = 0, rechecked_ = 0;
};

} // namespace wolfmeans
