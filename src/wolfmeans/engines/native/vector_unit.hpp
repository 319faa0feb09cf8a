// The choice of vector unit, made at run time. The environment variable WOLFMEANS_VECTOR_UNIT
// (baseline, avx2 or avx512) asks for a narrower one, so that tests can compare them all.
#pragma once

#include "scan.hpp"
#include "screen.hpp"
#include "sparse_exact.hpp"
#include "sparse_screen.hpp"

namespace wolfmeans {

const ScanVersion& best_scan() noexcept;
const ScreenVersion& best_screen() noexcept;
const SparseScreenVersion& best_sparse_screen() noexcept;
const SparseExactVersion& best_sparse_exact() noexcept;

} // namespace wolfmeans
