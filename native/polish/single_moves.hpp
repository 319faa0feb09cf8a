// Hartigan's method: move single points between clusters until no move has a gain. Specification:
// engines/single_moves.py, with which every move agrees whatever the vector unit and the threads.
// A sweep's candidates are defined by canonical distances. Finding them is most of the work. Each
// row keeps bounds on its distance to its own center and on the weighted distance to the nearest
// other one; they are loosened by the moves of the centers from sweep to sweep (like Hamerly's
// bounds in Lloyd's steps) and mostly prove that the row is no candidate. For the other rows,
// clusters too far from the row's own are excluded by the triangle inequality, the vicinity kernel
// filters the remaining ones, and rows that pass are tested by the definition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact/exact_sum.hpp"
#include "exact/moments.hpp"

namespace wolfmeans {

template <class Real>
class SingleMoves {
public:
    //   X          IN  (n, d) row-major, finite, n < 2^32; kept
    //   weights    IN  (n,) not negative, or null: all 1; kept
    //   labels     IN  (n,) each in 0..K-1 (checked by the caller)
    //   centers    IN  (K, d) the centers of clusters without weight
    //   n_threads  IN  at most so many threads, >= 1; fewer when the work is small
    SingleMoves(const Real* X, std::size_t n, std::size_t d, const double* weights,
                const std::int32_t* labels, const Real* centers, std::size_t K, int n_threads);
    SingleMoves(const SingleMoves&) = delete;
    SingleMoves& operator=(const SingleMoves&) = delete;

    // Continue until no move has a gain, then return true; return false after so many seconds or so
    // many more sweeps.
    bool run(double seconds, std::int64_t sweeps);

    std::size_t n_points() const { return n_; }
    std::size_t n_features() const { return d_; }
    std::size_t n_clusters() const { return K_; }
    const std::vector<std::int32_t>& labels() const { return labels_; }
    const std::vector<Real>& centers() const { return centers_; }
    std::int64_t moves() const { return moves_; }
    std::int64_t sweeps() const { return sweeps_; }
    double decrease() const { return decrease_.rounded(); }
    bool tied() const { return tied_; }

private:
    struct Worker;
    // The clusters that points of one cluster have to be compared with.
    struct Others {
        std::vector<std::int32_t> list;
        std::vector<double> apart; // at most the distance of the centers, ascending; or all 0
    };

    double weight(std::size_t row) const { return weights_ ? weights_[row] : 1.0; }
    double slope_of_leaving(double w, std::size_t A) const;
    double value_of_leaving(double root, double w, std::size_t A) const;
    double reach_of(double value, double w) const;
    bool may_gain(double value, double distance, double w, std::size_t B) const;
    void set_cluster(std::size_t k);

    void find_candidates();
    void update_bounds();
    void find_others();
    void check_rows(std::size_t begin, std::size_t end, Worker& worker);
    void check_row(std::size_t row, double root, Worker& worker);
    void check_open_rows(Worker& worker);
    void check_group(std::size_t first, std::size_t count, const Others& others, Worker& worker);
    bool is_candidate(std::size_t row, std::vector<double>& distances) const;

    void distances_to_all(std::size_t row, double* distances) const;
    void try_row(std::size_t row);
    bool try_move(std::size_t row, std::size_t A, std::size_t B, double d_A, double d_B);

    const Real* X_;
    std::size_t n_, d_, K_;
    const double* weights_;
    int n_threads_;
    Moments<Real> moments_;
    std::vector<std::int32_t> labels_;

    // The clusters: centers, the same as float64, weights, how far a mean may be off its center,
    // what the centers' rounding adds to f, and how many points of positive weight there are.
    std::vector<Real> centers_;
    std::vector<double> wide_centers_;
    std::vector<double> cluster_weights_;
    std::vector<double> off_, slack_;
    std::vector<std::int64_t> members_;

    // Bounds of rows and state of clusters as of the last sweep.
    std::vector<double> up_, low_;       // (n,) see update_bounds
    std::vector<unsigned char> changed_; // (K,) whether the cluster has changed since
    std::vector<double> then_centers_;   // (K, d)
    std::vector<double> then_weights_;   // (K,)
    std::vector<Others> others_;         // by cluster, or a single list for all
    double others_drift_ = 0.0;          // by how much others_ may be nearer since then
    // For this sweep: low_ times `shrink_` less `max_drift_` holds now, and up_ plus drifts_ of the
    // cluster; without weights no row with low_ > up_ * steepness_ + offset_ is a candidate.
    double shrink_ = 1.0, max_drift_ = 0.0;
    std::vector<double> drifts_, steepness_, offset_; // (K,)
    double shrunk_ = 1.0; // product of all shrink_ since low_ was computed
    double most_off_ = 0.0, most_slack_ = 0.0, lightest_ = 0.0;
    bool any_empty_ = false;

    std::vector<std::int64_t> candidates_; // rows, ascending
    std::size_t place_ = 0;                // how many of them were tried
    std::int64_t accepted_ = -1;           // in this sweep; -1 before the first
    std::int64_t moves_ = 0, sweeps_ = 0;
    ExactSum decrease_;
    bool tied_ = false;

    // Scratch memory of a move that is tried.
    std::vector<double> new_weights_, new_residuals_;
    std::vector<Real> new_centers_;
    std::vector<double> distances_, scores_;
    std::vector<double> gains_, sizes_;
};

} // namespace wolfmeans
