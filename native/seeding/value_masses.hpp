// Masses of points along the order of their values, for draws: integers whose sum fits int64, with
// sums of blocks that are updated as masses shrink. Specification: integer_masses and draw_rows in
// core/draws.py.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace wolfmeans {

// The row that the draw `share` of 0..2^63-2 picks when the masses are the weights.
//
//   weights  IN  (n,) finite, not negative, not all 0; or null: all 1
//   order    IN  (n,) the rows in the order of their values; each in 0..n-1. If it is no
//                permutation, some row is picked.
std::size_t draw_by_weight(const double* weights, const std::int64_t* order, std::size_t n,
                           std::int64_t share);

// The mass of row i is fl(weights[i] * closest[i]), or closest[i] without weights.
class ValueMasses {
public:
    // closest (n,), order and weights are kept by reference.
    ValueMasses(const double* closest, const double* weights, const std::int64_t* order,
                std::size_t n);

    // Adding 0.0 turns -0.0, the mass at a weight of -0.0, into 0.0: the functions below read the
    // bits of a mass and expect no sign.
    double mass(std::size_t row, double closest) const {
        return weights_ ? weights_[row] * closest + 0.0 : closest;
    }

    // The changes when the closest distances of some rows shrink; one object for each thread.
    class Changes {
    public:
        explicit Changes(const ValueMasses& masses)
            : masses_(&masses), sums_(masses.sums_.size()) {}

        void shrink(std::size_t row, double old_closest, double new_closest) {
            const double old = masses_->mass(row, old_closest);
            const double now = masses_->mass(row, new_closest);
            sums_[masses_->block_of(row)] += masses_->integer(now) - masses_->integer(old);
            left_ += (exponent_place(old) == masses_->largest_) -
                     (exponent_place(now) == masses_->largest_);
        }

    private:
        friend class ValueMasses;
        const ValueMasses* masses_;
        std::vector<std::int64_t> sums_;
        std::int64_t left_ = 0; // how many masses no longer have the largest exponent
    };

    // Apply the changes of all threads and clear them. `closest` must have the new values already.
    void apply(std::vector<Changes>& changes);

    // Whether all masses are 0.
    bool none() const { return largest_ == 0; }

    // The row that a draw of 0..2^63-2 picks; not all masses are 0.
    std::size_t draw(std::int64_t share) const;

    // At least the sum of all masses, and not much more.
    double total() const;

private:
    // 0 for no mass, else frexp's exponent counted from that of the smallest denormal as 1.
    static std::size_t exponent_place(double mass) {
        const auto bits = std::bit_cast<std::uint64_t>(mass);
        const auto exponent = static_cast<std::size_t>(bits >> 52);
        return exponent == 0 ? static_cast<std::size_t>(std::bit_width(bits)) : exponent + 52;
    }

    // floor(mass * 2^shift), by integers: no product that could round or leave the range.
    std::int64_t integer(double mass) const {
        const auto bits = std::bit_cast<std::uint64_t>(mass);
        const auto exponent = static_cast<int>(bits >> 52);
        const std::uint64_t mantissa =
            (bits & 0x000fffffffffffff) | (std::uint64_t{exponent != 0} << 52);
        // mass = mantissa * 2^(place - 1075), place = max(exponent, 1).
        const int left = (exponent == 0 ? 1 : exponent) - 1075 + shift_;
        if (left >= 0) return static_cast<std::int64_t>(mantissa << left);
        return left <= -64 ? 0 : static_cast<std::int64_t>(mantissa >> -left);
    }

    std::size_t block_of(std::size_t row) const { return place_[row] >> block_bits_; }
    void rescale();

    const double* closest_;
    const double* weights_;
    const std::int64_t* order_;
    std::size_t n_;
    int block_bits_;
    int shift_ = 0;
    std::size_t largest_ = 0;       // exponent place of the largest mass
    std::int64_t with_largest_ = 0; // how many masses have it
    std::int64_t sum_ = 0;
    std::vector<std::uint32_t> place_; // of a row in the order
    std::vector<std::int64_t> sums_;   // of blocks of the order
};

} // namespace wolfmeans
