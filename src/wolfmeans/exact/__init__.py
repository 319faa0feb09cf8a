"""Exact arithmetic: sums in integer limbs, correctly rounded means, hashes and orders of values."""
