// Bindings of sparse data: wolfmeans.exact._native.SparseRowsF32/F64, a CSR matrix with its
// canonical distances, and SparsePointsF32/F64, labels and exact moments over one. Shapes, columns
// and labels are checked here, once. Arrays are never converted or copied, the GIL is released.
#include <cstdint>
#include <memory>
#include <optional>

#include "bindings/binding.hpp"
#include "seeding/row_hashes.hpp"
#include "sparse/sparse_moments.hpp"
#include "sparse/sparse_points.hpp"
#include "sparse/sparse_rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace wolfmeans::binding;

namespace {

// A matrix with the arrays it reads.
template <class Real>
class BoundRows {
public:
    BoundRows(Array<const Real> values, Array<const std::int32_t> columns,
              Array<const std::int64_t> starts, std::size_t n_columns, int n_threads)
        : values_(values), columns_(columns), starts_(starts) {
        require(values.ndim() == 1 && starts.ndim() == 1 && starts.shape(0) >= 1,
                "values and starts must have one dimension, and starts at least one entry");
        check_vector(columns, "columns", values.shape(0));
        check_range(columns, "columns", n_columns);
        check_threads(n_threads);
        const std::size_t n = starts.shape(0) - 1;
        const std::int64_t* const start = starts.data();
        require(start[0] == 0 && start[n] == static_cast<std::int64_t>(values.shape(0)),
                "starts must begin with 0 and end with the number of values");
        for (std::size_t i = 0; i < n; ++i)
            require(start[i] <= start[i + 1], "starts must ascend");
        const Released release;
        rows_ = std::make_unique<wolfmeans::SparseRows<Real>>(values.data(), columns.data(), start,
                                                              n, n_columns, n_threads);
    }

    void nearest(Array<const Real> centers, Array<std::int32_t> labels, Array<double> nearest,
                 std::optional<Array<double>> second, int n_threads) const {
        const std::size_t K = check_centers(centers, rows_->d());
        check_vector(labels, "labels", rows_->n());
        check_vector(nearest, "nearest", rows_->n());
        if (second) check_vector(*second, "second", rows_->n());
        check_threads(n_threads);
        const Released release;
        if (rows_->n() == 0) return;
        rows_->nearest(centers.data(), K, labels.data(), nearest.data(),
                       second ? second->data() : nullptr, n_threads);
    }

    void distances(Array<const Real> centers, Array<const std::int32_t> labels, Array<double> out,
                   int n_threads) const {
        const std::size_t K = check_centers(centers, rows_->d());
        check_vector(labels, "labels", rows_->n());
        check_range(labels, "labels", K);
        check_vector(out, "out", rows_->n());
        check_threads(n_threads);
        const Released release;
        if (rows_->n() == 0) return;
        rows_->distances(centers.data(), K, labels.data(), out.data(), n_threads);
    }

    void hashes(Array<std::uint64_t> hashes, int n_threads) const {
        check_vector(hashes, "hashes", rows_->n());
        check_threads(n_threads);
        const Released release;
        if (rows_->n() == 0) return;
        wolfmeans::row_hashes(*rows_, n_threads, hashes.data());
    }

    const wolfmeans::SparseRows<Real>& rows() const { return *rows_; }

private:
    Array<const Real> values_;
    Array<const std::int32_t> columns_;
    Array<const std::int64_t> starts_;
    std::unique_ptr<wolfmeans::SparseRows<Real>> rows_;
};

// Labels and moments over a matrix, which Python keeps alive.
template <class Real>
class BoundPoints {
public:
    BoundPoints(const BoundRows<Real>& rows, Weights weights, int n_threads)
        : rows_(rows.rows()), weights_(weights), n_threads_(n_threads),
          points_(rows_, check_weights(weights_, rows_.n()), n_threads) {
        check_threads(n_threads);
    }

    nb::tuple assign(Array<const Real> centers, bool bounded, ForcedRows rows,
                     ForcedLabels labels) {
        const std::size_t d = rows_.d(), K = check_centers(centers, d);
        require(!moments_ || K == K_, "the number of centers must stay the same");
        const wolfmeans::Forced forced = check_forced(rows, labels, rows_.n(), K);
        Owned<double> weights({K}), residuals({K, d});
        Owned<Real> means({K, d});
        wolfmeans::Change change;
        std::size_t moved;
        {
            const Released release;
            const bool first = !points_.has_labels();
            if (first) {
                moments_.emplace(rows_, weights_ ? weights_->data() : nullptr, K, n_threads_);
                K_ = K;
            }
            change = points_.assign(centers.data(), K, bounded, forced);
            moved = first ? points_.labels().size() : change.rows.size();
            if (first)
                moments_->add_all(points_.labels().data());
            else
                moments_->move(change.rows.data(), change.old.data(), change.now.data(), moved);
            moments_->means(centers.data(), weights.data, means.data, residuals.data);
        }
        return nb::make_tuple(moved, change.rounded_gap(), weights.release(), means.release(),
                              residuals.release(), change.screened, change.rechecked);
    }

    nb::object labels() const { return copied(points_.labels().data(), {points_.labels().size()}); }

private:
    const wolfmeans::SparseRows<Real>& rows_;
    Weights weights_;
    int n_threads_;
    std::size_t K_ = 0;
    wolfmeans::SparsePoints<Real> points_;
    std::optional<wolfmeans::SparseMoments<Real>> moments_;
};

template <class Real>
void define_sparse_of(nb::module_& m, const char* rows_name, const char* points_name) {
    using Rows = BoundRows<Real>;
    using Points = BoundPoints<Real>;
    nb::class_<Rows>(m, rows_name, "A CSR matrix without duplicates and its canonical distances.")
        .def(nb::init<Array<const Real>, Array<const std::int32_t>, Array<const std::int64_t>,
                      std::size_t, int>(),
             "values"_a, "columns"_a, "starts"_a, "n_columns"_a, "n_threads"_a)
        .def("nearest", &Rows::nearest, "centers"_a, "labels"_a, "nearest"_a, "second"_a.none(),
             "n_threads"_a,
             "Label each row with the lowest index of a nearest center.\n\n"
             "IN: centers (K, d). OUT: labels (n,) int32; nearest (n,) float64 and, unless None,\n"
             "second (n,) float64, the canonical distances to the nearest and the next center.")
        .def("distances", &Rows::distances, "centers"_a, "labels"_a, "out"_a, "n_threads"_a,
             "The canonical distance of each row to centers[labels[i]].\n\n"
             "IN: centers (K, d), labels (n,) int32. OUT: out (n,) float64.")
        .def("hashes", &Rows::hashes, "hashes"_a, "n_threads"_a,
             "A hash of each row, equal for equal values.\n\nOUT: hashes (n,) uint64.");
    nb::class_<Points>(m, points_name, "Sparse rows with labels, bounds and exact moments.")
        .def(nb::init<const Rows&, Weights, int>(), nb::keep_alive<1, 2>(), "rows"_a,
             "weights"_a.none(), "n_threads"_a)
        .def("assign", &Points::assign, "centers"_a, "bounded"_a,
             "forced_rows"_a.none() = nb::none(), "forced_labels"_a.none() = nb::none(),
             "Label each row with the lowest index of a nearest center.\n\n"
             "Returns (moved, gap, weights (K,), means (K, d), residuals (K, d), screened, "
             "rechecked).")
        .def("labels", &Points::labels, "The current labels, a copy.");
}

} // namespace

void define_sparse(nb::module_& m) {
    define_sparse_of<float>(m, "SparseRowsF32", "SparsePointsF32");
    define_sparse_of<double>(m, "SparseRowsF64", "SparsePointsF64");
}
