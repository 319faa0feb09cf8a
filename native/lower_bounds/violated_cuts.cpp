#include "lower_bounds/violated_cuts.hpp"

#include <algorithm>
#include <vector>

#include "runtime/interrupts.hpp"
#include "runtime/threads.hpp"

namespace wolfmeans {

namespace {

struct ViolatedCut {
    float size;
    std::int32_t j, k;
};

// Larger first; equal ones in the order of their rows.
bool more_violated(const ViolatedCut& a, const ViolatedCut& b) {
    if (a.size != b.size) return a.size > b.size;
    return a.j != b.j ? a.j < b.j : a.k < b.k;
}

template <class Real>
class RowSearch {
public:
    RowSearch(const Real* z, std::size_t n, const CutSearch& search)
        : z_(z), n_(n), search_(search) {}

    // The most violated cuts of row i, sorted.
    const std::vector<ViolatedCut>& of_row(std::size_t i) {
        found_.clear();
        const Real own = z_[i * n_ + i];
        float least = gather(i, float(search_.least));
        for (std::size_t a = 0; a < near_.size(); ++a) {
            const Real* const row = z_ + std::size_t(near_[a]) * n_;
            const float rest = float(values_[a] - own);
            for (std::size_t b = a + 1; b < near_.size(); ++b)
                over_[b] = rest + values_[b] - float(row[near_[b]]);
            for (std::size_t b = a + 1; b < near_.size(); ++b)
                if (over_[b] > least) least = add({over_[b], near_[a], near_[b]}, least);
        }
        std::sort(found_.begin(), found_.end(), more_violated);
        return found_;
    }

private:
    // Finds the corners of triangles, and pairs on the way; returns what the next cut must exceed.
    float gather(std::size_t i, float least) {
        const Real* const row = z_ + i * n_;
        const Real near = Real(search_.near) * row[i];
        near_.clear();
        for (std::size_t j = 0; j < n_; ++j)
            if (row[j] > near && j != i) near_.push_back(std::int32_t(j));
        for (const std::int32_t j : near_) {
            const float over = float(row[j] - row[i]);
            if (over > least) least = add({over, j, -1}, least);
        }
        if (near_.size() > search_.candidates) {
            const std::size_t step = (near_.size() + search_.candidates - 1) / search_.candidates;
            std::size_t kept = 0;
            for (std::size_t j = 0; j < near_.size(); j += step)
                near_[kept++] = near_[j];
            near_.resize(kept);
        }
        values_.resize(near_.size());
        over_.resize(near_.size());
        for (std::size_t j = 0; j < near_.size(); ++j)
            values_[j] = float(row[near_[j]]);
        return least;
    }

    // Keeps a heap with the least violated cut on top; returns what the next one must exceed.
    float add(const ViolatedCut& cut, float least) {
        found_.push_back(cut);
        std::push_heap(found_.begin(), found_.end(), more_violated);
        if (found_.size() > search_.per_row) {
            std::pop_heap(found_.begin(), found_.end(), more_violated);
            found_.pop_back();
        }
        return found_.size() < search_.per_row ? least : std::max(least, found_.front().size);
    }

    const Real* z_;
    std::size_t n_;
    CutSearch search_;
    std::vector<std::int32_t> near_;
    std::vector<float> values_, over_;
    std::vector<ViolatedCut> found_;
};

} // namespace

template <class Real>
void violated_cuts(const Real* z, std::size_t n, const CutSearch& search, std::int32_t* pairs,
                        float* sizes, std::int32_t* counts, int n_threads) {
    const double each = double(search.candidates) * double(search.candidates);
    const std::size_t threads = worthwhile_threads(n, double(n) * each, n_threads);
    constexpr std::size_t block = 16;
    over_blocks(n, threads, block, [&](std::size_t, std::size_t begin, std::size_t end) {
        check_interrupt();
        RowSearch<Real> rows(z, n, search);
        for (std::size_t i = begin; i < end; ++i) {
            const std::vector<ViolatedCut>& found = rows.of_row(i);
            counts[i] = std::int32_t(found.size());
            for (std::size_t c = 0; c < found.size(); ++c) {
                pairs[2 * (i * search.per_row + c)] = found[c].j;
                pairs[2 * (i * search.per_row + c) + 1] = found[c].k;
                sizes[i * search.per_row + c] = found[c].size;
            }
        }
    });
}

template void violated_cuts(const float*, std::size_t, const CutSearch&, std::int32_t*, float*,
                                 std::int32_t*, int);
template void violated_cuts(const double*, std::size_t, const CutSearch&, std::int32_t*,
                                 float*, std::int32_t*, int);

} // namespace wolfmeans
