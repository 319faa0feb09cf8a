// The oracle under size limits: cheapest assignments from step to step, with exact sums.
// Specification: engines/sized.py, to the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "descent/transport.hpp"
#include "exact/exact_sum.hpp"
#include "exact/moments.hpp"

namespace wolfmeans {

template <class Real>
class SizedPoints {
public:
    // X IN (n, d) row-major and weights IN (n,) or null, both finite; X is not copied and must
    // outlive the points. Weights and limits are multiples of 2^unit, the limits at most the total
    // weight. `given` are ranges that contain those of rows and weights, and 2^unit.
    SizedPoints(const Real* X, std::size_t n, std::size_t d, const double* weights, int unit,
                const std::vector<double>& lower, const std::vector<double>& upper, int n_threads,
                std::optional<SumRanges> given);
    SizedPoints(const SizedPoints&) = delete;
    SizedPoints& operator=(const SizedPoints&) = delete;

    struct Step {
        std::size_t moved; // points whose label or split changed
        double gap;        // exact sum of the terms, rounded once
    };

    // Assign the points at the least cost; the present assignment stays unless that costs less.
    //
    //   centers    IN   (K, d)
    //   weights    OUT  (K,), means OUT (K, d), residuals OUT (K, d): see Moments::means
    Step assign(const Real* centers, double* weights, Real* means, double* residuals);

    std::size_t n_clusters() const { return K_; }
    bool has_labels() const { return moments_.has_value(); }
    // labels OUT (n,): of a split point the cluster with the largest share, the lowest of equals
    void copy_labels(std::int32_t* labels) const;
    const std::vector<double>& prices() const { return prices_; }
    const Splits& splits() const { return splits_; }
    int unit() const { return unit_; }

private:
    struct Changes;
    void compare_rows(const TransportPlan& plan, const Real* centers, std::size_t begin,
                      std::size_t end, Changes& changes) const;
    void add_terms(std::int64_t row, std::int32_t label, const Splits& splits, double sign,
                   const Real* centers, std::vector<double>& terms) const;
    void move_parts(const Splits& splits, bool out);
    double weight(std::size_t i) const { return weights_.empty() ? 1.0 : weights_[i]; }

    const Real* X_;
    std::size_t n_, d_, K_;
    int unit_, n_threads_;
    std::optional<SumRanges> given_;
    std::vector<double> weights_; // (n,) empty: all 1; a moved part is here for a moment
    std::vector<Mass> masses_;    // (n,) empty: all 1
    SizeLimits limits_;
    std::optional<Moments<Real>> moments_; // cluster K holds split points for a moment
    std::vector<std::int32_t> labels_;     // (n,); -1 for split points
    Splits splits_;
    std::vector<double> prices_; // (K,) of the last step
    TransportMemory memory_;
};

} // namespace wolfmeans
