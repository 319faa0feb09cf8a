// The choice of vector unit, made at run time. The environment variable WOLFMEANS_VECTOR_UNIT
// (baseline, avx2 or avx512) asks for a narrower one, so that tests can compare them all.
#pragma once

#include "narrow.hpp"
#include "neighbours_rows.hpp"
#include "reach.hpp"
#include "scan.hpp"
#include "screen.hpp"
#include "sketch.hpp"
#include "sparse_exact.hpp"
#include "sparse_screen.hpp"

namespace wolfmeans {

const ScanVersion& best_scan() noexcept;
const ScreenVersion& best_screen() noexcept;
const NarrowVersion& best_narrow() noexcept;
const NeighboursVersion& best_neighbours() noexcept;
const ReachVersion& best_reach() noexcept;
const SketchVersion& best_sketch() noexcept;

template <class Real>
const ReachFunctions<Real>& reach_of() noexcept;
template <>
inline const ReachFunctions<float>& reach_of<float>() noexcept {
    return best_reach().of_float;
}
template <>
inline const ReachFunctions<double>& reach_of<double>() noexcept {
    return best_reach().of_double;
}
const SparseScreenVersion& best_sparse_screen() noexcept;
const SparseExactVersion& best_sparse_exact() noexcept;

} // namespace wolfmeans
