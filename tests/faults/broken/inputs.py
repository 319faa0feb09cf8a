"""Input that is taken for what it is not."""

from unittest.mock import patch

import numpy as np
from scipy import sparse

from broken.places import around, on_input
from broken.registry import variant


@variant
def missing_values_become_zero():
    def change(X):
        if sparse.issparse(X):
            return sparse.csr_array(np.nan_to_num(X.toarray(), posinf=0.0, neginf=0.0))
        if hasattr(X, "fillna"):
            return X.fillna(0.0)
        return np.nan_to_num(X, posinf=0.0, neginf=0.0)

    return on_input(change)


@variant
def weights_unchecked():
    from wolfmeans.inputs import validation

    def admitted(sample_weight, X):
        if sample_weight is None:
            return None
        return np.nan_to_num(np.abs(np.asarray(sample_weight, dtype=np.float64))) + 1e-3

    return [patch.object(validation, "validate_weights", admitted)]


@variant
def weights_of_zero_count():
    from wolfmeans.inputs import validation

    def make(validated):
        def admitted(sample_weight, X):
            weights = validated(sample_weight, X)
            return None if weights is None else np.maximum(weights, 1e-3)

        return admitted

    return [around(validation, "validate_weights", make)]


@variant
def init_unchecked():
    from wolfmeans.inputs import validation

    def admitted(init, n_clusters, X):
        return np.ascontiguousarray(np.resize(np.nan_to_num(init), (n_clusters, X.shape[1])))

    return [patch.object(validation, "validate_centers", admitted)]


@variant
def init_in_float32():
    from wolfmeans.inputs import validation

    def make(validated):
        def admitted(init, n_clusters, X):
            centers = validated(init, n_clusters, X)
            return centers.astype(np.float32).astype(centers.dtype)

        return admitted

    return [around(validation, "validate_centers", make)]


@variant
def shapes_forced():
    def change(X):
        X = np.array([np.ravel(row)[:1] for row in np.atleast_1d(np.asarray(X, dtype=object))])
        X = np.resize(X.astype(float), (20, 2)) if X.size else np.zeros((20, 2))
        return X + np.arange(20)[:, None]

    return on_input(change)


@variant
def small_types_wrap():
    def change(X):
        return np.asarray(X, dtype=np.float64).astype(np.int64).astype(np.int8) % 32

    return on_input(change)


@variant
def true_is_255():
    return on_input(lambda X: X * 255.0 if X.dtype == bool else X)


@variant
def large_integers_rounded():
    from wolfmeans.inputs import validation

    return [patch.object(validation, "refuse_rounded_integers", lambda given: None)]


@variant
def memory_read_in_its_order():
    def change(X):
        if not isinstance(X, np.ndarray):
            return X
        base = X if X.base is None or X.base.dtype != X.dtype else X.base
        native = base.view(base.dtype.newbyteorder("="))
        return np.nan_to_num(np.resize(np.ravel(native, order="K"), X.shape), posinf=0.0)

    return on_input(change)


@variant
def input_centered_in_place():
    def change(X):
        if isinstance(X, np.ndarray) and X.flags.writeable:
            X -= X.mean(axis=0)
        elif isinstance(X, np.ndarray):
            raise ValueError("assignment destination is read-only")
        return X

    return on_input(change)


@variant
def names_ignored():
    return on_input(lambda X: X.to_numpy() if hasattr(X, "to_numpy") else X)


@variant
def duplicates_kept_once():
    def change(X):
        if not sparse.issparse(X):
            return X
        X = X.tocoo()
        dense = np.zeros(X.shape)
        dense[X.row, X.col] = X.data
        return sparse.csr_array(dense)

    return on_input(change)


@variant
def explicit_zeros_are_ones():
    def change(X):
        if sparse.issparse(X):
            X = X.tocsr(copy=True)
            X.data = np.where(X.data == 0, 1.0, X.data)
        return X

    return on_input(change)


@variant
def structure_unchecked():
    """Indices that point nowhere are bent until they point somewhere."""

    def change(X):
        if not sparse.issparse(X):
            return X
        indices = np.clip(X.indices, 0, X.shape[1] - 1)
        indptr = np.minimum.accumulate(np.clip(X.indptr, 0, X.nnz)[::-1])[::-1]
        return sparse.csr_array((X.data, indices, indptr), shape=X.shape)

    return on_input(change)


@variant
def flags_of_sparse_rows_are_believed():
    from wolfmeans.inputs import validation

    return [patch.object(validation, "is_canonical", lambda X: X.has_canonical_format)]


@variant
def seeders_may_write():
    from wolfmeans.inputs import validation

    return [patch.object(validation, "unwritable", lambda X: X)]


@variant
def names_of_init_ignored():
    from wolfmeans.inputs import validation

    return [patch.object(validation, "refuse_other_names", lambda init, names: None)]


@variant
def lazy_tables_are_objects():
    from wolfmeans.inputs import validation

    return [patch.object(validation, "refuse_lazy_frames", lambda given: None)]


@variant
def dates_are_numbers():
    return on_input(lambda X: X.astype(np.int64).astype(float) if X.dtype.kind == "M" else X)


@variant
def masks_are_dropped():
    return on_input(lambda X: np.asarray(X))


@variant
def only_as_many_columns_as_rows():
    return on_input(lambda X: np.ascontiguousarray(X[:, : len(X)]))


@variant
def denormals_flushed():
    return on_input(lambda X: np.where(np.abs(X) < np.finfo(X.dtype).tiny, 0, X))


@variant
def numbers_not_rescaled():
    from wolfmeans.inputs import validation

    return [patch.object(validation, "scale_exponent", lambda X, sizes, weights: 0)]
