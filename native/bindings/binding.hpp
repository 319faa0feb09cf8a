// What the bindings share: the arrays they take and return, and the checks of arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>

#include "assignment/change.hpp"
#include "exact/exact_sum.hpp"
#include "exact/moments.hpp"
#include "runtime/interrupts.hpp"

namespace wolfmeans::binding {

namespace nb = nanobind;

// An array of Python's: C-contiguous, on the CPU, aligned, never converted or copied.
template <class Element>
class Array : public nb::ndarray<Element, nb::c_contig, nb::device::cpu> {
public:
    using Base = nb::ndarray<Element, nb::c_contig, nb::device::cpu>;
    using Base::Base;
    Array() = default;
    explicit Array(Base base) : Base(std::move(base)) {}
};

// The scope of native work: other Python threads run meanwhile, and Ctrl-C ends it
// (interrupts.hpp).
class Released {
    nb::gil_scoped_release release_;
    Interrupts interrupts_{[] {
        const nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }};
};

inline void require(bool condition, const std::string& message) {
    if (!condition) throw nb::value_error(message.c_str());
}

template <class Element>
std::string shape_of(const Array<Element>& array) {
    std::string text = "(";
    for (std::size_t axis = 0; axis < array.ndim(); ++axis)
        text += (axis ? ", " : "") + std::to_string(array.shape(axis));
    return text + (array.ndim() == 1 ? ",)" : ")");
}

template <class Element>
void check_shape(const Array<Element>& array, const char* name,
                 std::initializer_list<std::size_t> shape) {
    bool fits = array.ndim() == shape.size();
    std::string wanted;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        fits = fits && array.shape(axis) == shape.begin()[axis];
        wanted += (axis ? ", " : "") + std::to_string(shape.begin()[axis]);
    }
    require(fits, std::string(name) + " must have shape (" + wanted +
                      (shape.size() == 1 ? ",)" : ")") + ", got " + shape_of(array));
}

template <class Element>
void check_vector(const Array<Element>& array, const char* name, std::size_t n) {
    check_shape(array, name, {n});
}

template <class Element>
void check_list(const Array<Element>& array, const char* name) {
    require(array.ndim() == 1,
            std::string(name) + " must have one dimension, got shape " + shape_of(array));
}

template <class Element>
void check_matrix(const Array<Element>& array, const char* name) {
    require(array.ndim() == 2,
            std::string(name) + " must have two dimensions, got shape " + shape_of(array));
}

// X for kernels that store row numbers in 32 bits.
template <class Real>
void check_short(const Array<const Real>& X) {
    check_matrix(X, "X");
    require(X.shape(0) <= std::numeric_limits<std::uint32_t>::max(), "X has too many rows");
}

// Returns K, the number of centers.
template <class Real>
std::size_t check_centers(const Array<const Real>& centers, std::size_t d) {
    require(centers.ndim() == 2 && centers.shape(1) == d && centers.shape(0) >= 1,
            "centers must have at least one row and as many columns as X, got shape " +
                shape_of(centers));
    require(centers.shape(0) < std::size_t(std::numeric_limits<std::int32_t>::max()),
            "centers has more rows than an int32 label can name");
    return centers.shape(0);
}

inline void check_threads(int n_threads) {
    require(n_threads >= 1, "n_threads must be at least 1, got " + std::to_string(n_threads));
}

// Whether all entries are in 0..limit-1; the message counts entries in memory order.
template <class Integer>
void check_range(const Array<const Integer>& array, const char* name, std::size_t limit) {
    const Integer* const values = array.data();
    const auto outside = [limit](Integer value) {
        return static_cast<std::make_unsigned_t<Integer>>(value) >= limit;
    };
    // No early exit: it would keep the loop from being vectorized.
    bool any = false;
    for (std::size_t i = 0; i < array.size(); ++i)
        any |= outside(values[i]);
    if (!any) return;
    std::size_t i = 0;
    while (!outside(values[i]))
        ++i;
    require(false, std::string(name) + "[" + std::to_string(i) + "] is " +
                       std::to_string(values[i]) + ", outside 0.." +
                       std::to_string(static_cast<long long>(limit) - 1));
}

// Weights (n,), or None: all 1.
using Weights = std::optional<Array<const double>>;

inline const double* check_weights(const Weights& weights, std::size_t n) {
    if (!weights) return nullptr;
    check_vector(*weights, "weights", n);
    return weights->data();
}

using ForcedRows = std::optional<Array<const std::int64_t>>;
using ForcedLabels = std::optional<Array<const std::int32_t>>;

inline Forced check_forced(const ForcedRows& rows, const ForcedLabels& labels, std::size_t n,
                           std::size_t K) {
    if (!rows && !labels) return {};
    require(rows && labels && rows->ndim() == 1 && labels->ndim() == 1 &&
                rows->shape(0) == labels->shape(0),
            "forced rows and labels must be lists of the same length");
    check_range(*rows, "forced rows", n);
    check_range(*labels, "forced labels", K);
    return {rows->data(), labels->data(), rows->shape(0)};
}

// The exponents of rows and of weights as Python passes them: low, high, low, high.
using Ranges = std::optional<std::array<int, 4>>;

inline std::optional<SumRanges> sum_ranges(const Ranges& given) {
    if (!given) return {};
    const auto [low, high, weights_low, weights_high] = *given;
    return SumRanges{{low, high}, {weights_low, weights_high}};
}

// A new NumPy array that owns its memory.
template <class Element>
struct Owned {
    explicit Owned(std::initializer_list<std::size_t> shape) : shape(shape) {
        for (const std::size_t extent : shape)
            size *= extent;
        data = new Element[size];
    }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() { delete[] data; }
    nb::object release() {
        Element* const given = std::exchange(data, nullptr);
        nb::capsule owner(given,
                          [](void* memory) noexcept { delete[] static_cast<Element*>(memory); });
        return nb::cast(nb::ndarray<nb::numpy, Element>(given, shape.size(), shape.data(), owner));
    }
    std::vector<std::size_t> shape;
    std::size_t size = 1;
    Element* data;
};

template <class Element>
nb::object copied(const Element* values, std::initializer_list<std::size_t> shape) {
    Owned<Element> copy(shape);
    std::copy_n(values, copy.size, copy.data);
    return copy.release();
}

// An exact sum as carried limbs (1, n_digits, 1): equal sums are equal arrays.
inline nb::object limbs_of(const ExactSum& sum) {
    const Grid grid{-1074, ExactSum::digit_bits, static_cast<int>(ExactSum::n_digits) - 1, 0};
    Owned<std::int64_t> limbs({1, ExactSum::n_digits, 1});
    std::copy_n(sum.digits(), ExactSum::n_digits, limbs.data);
    carry(grid, 1, 1, limbs.data);
    return limbs.release();
}

// What a step on a part of the data returns: (moved, gap (1, n_digits, 1), grid of the totals,
// totals (K, limbs, 1), grid of the sums, sums (K, limbs, d)), sums as carried limbs.
inline nb::tuple partial_step(std::size_t moved, const ExactSum& gap, const MomentLimbs& limbs,
                              std::size_t K) {
    const auto grid_of = [](const Grid& grid) {
        return nb::make_tuple(grid.low, grid.bits, grid.limbs);
    };
    const Grid &totals = limbs.totals_grid, &sums = limbs.sums_grid;
    return nb::make_tuple(moved, limbs_of(gap), grid_of(totals),
                          copied(limbs.totals, {K, totals.all_limbs(), 1}), grid_of(sums),
                          copied(limbs.sums, {K, sums.all_limbs(), limbs.d}));
}

} // namespace wolfmeans::binding

// Never converts an array, whatever the flags say, and refuses misaligned ones.
template <class Element>
struct nanobind::detail::type_caster<wolfmeans::binding::Array<Element>> {
    using Array = wolfmeans::binding::Array<Element>;
    using Base = make_caster<typename Array::Base>;
    NB_TYPE_CASTER(Array, Base::Name)

    bool from_python(handle given, std::uint8_t flags, cleanup_list* cleanup) noexcept {
        Base base;
        const auto as_it_is = flags & ~static_cast<std::uint8_t>(cast_flags::convert);
        if (!base.from_python(given, static_cast<std::uint8_t>(as_it_is), cleanup)) return false;
        value = Array(base.operator cast_t<typename Array::Base>());
        const auto address = reinterpret_cast<std::uintptr_t>(value.data());
        return value.size() == 0 || address % alignof(Element) == 0;
    }
};
