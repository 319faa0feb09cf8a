// What the bindings share: the kind of array they take, and how they refuse a wrong one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "exact/cluster_sums.hpp"
#include "exact/exact_sum.hpp"
#include "runtime/interrupts.hpp"

namespace wolfmeans::binding {

namespace nb = nanobind;

// Taken as it is: C-contiguous, on the CPU, aligned, never converted or copied.
template <class Element>
class Array : public nb::ndarray<Element, nb::c_contig, nb::device::cpu> {
public:
    using Base = nb::ndarray<Element, nb::c_contig, nb::device::cpu>;
    using Base::Base;
    Array() = default;
    explicit Array(Base base) : Base(std::move(base)) {}
};

// Memory that becomes an array of NumPy's, shaped and owned by it.
template <class Element>
struct NewArray {
    explicit NewArray(std::size_t size) : data(new Element[size]) {}

    nb::ndarray<nb::numpy, Element> release(std::initializer_list<std::size_t> shape) {
        Element* const memory = data.release();
        nb::capsule owner(memory, [](void* p) noexcept { delete[] static_cast<Element*>(p); });
        return nb::ndarray<nb::numpy, Element>(memory, shape, owner);
    }

    std::unique_ptr<Element[]> data;
};

// Native work: other Python threads run meanwhile, and Ctrl-C is heard (interrupts.hpp).
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
void check_vector(const Array<Element>& array, const char* name, std::size_t n) {
    require(array.ndim() == 1 && array.shape(0) == n, std::string(name) + " must have shape (" +
                                                          std::to_string(n) + ",), got " +
                                                          shape_of(array));
}

inline void check_threads(int n_threads) {
    require(n_threads >= 1, "n_threads must be at least 1, got " + std::to_string(n_threads));
}

// Arrays of several dimensions are numbered through.
template <class Integer>
void check_range(const Array<const Integer>& array, const char* name, std::size_t limit) {
    const Integer* const values = array.data();
    const auto outside = [limit](Integer value) {
        return static_cast<std::make_unsigned_t<Integer>>(value) >= limit;
    };
    // Without a way out of the loop, which would keep it from running in vectors.
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

// A new NumPy array that owns its memory.
template <class Element>
struct Owned {
    explicit Owned(std::initializer_list<std::size_t> shape) : shape(shape) {
        std::size_t size = 1;
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
    Element* data;
};

// An exact sum as carried limbs (1, n_digits, 1): equal sums are equal arrays.
inline nb::object limbs_of(const ExactSum& sum) {
    const Grid grid{-1074, ExactSum::digit_bits, static_cast<int>(ExactSum::n_digits) - 1, 0};
    Owned<std::int64_t> limbs({1, ExactSum::n_digits, 1});
    std::copy_n(sum.digits(), ExactSum::n_digits, limbs.data);
    carry(grid, 1, 1, limbs.data);
    return limbs.release();
}

} // namespace wolfmeans::binding

// NumPy has contiguous arrays whose entries lie between the addresses that a load may have.
template <class Element>
struct nanobind::detail::type_caster<wolfmeans::binding::Array<Element>> {
    using Array = wolfmeans::binding::Array<Element>;
    using Base = make_caster<typename Array::Base>;
    NB_TYPE_CASTER(Array, Base::Name)

    bool from_python(handle given, std::uint8_t flags, cleanup_list* cleanup) noexcept {
        Base base;
        if (!base.from_python(given, flags, cleanup)) return false;
        value = Array(base.operator cast_t<typename Array::Base>());
        const auto address = reinterpret_cast<std::uintptr_t>(value.data());
        return value.size() == 0 || address % alignof(Element) == 0;
    }
};
