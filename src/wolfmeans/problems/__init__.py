"""Concave problems for the one loop."""
