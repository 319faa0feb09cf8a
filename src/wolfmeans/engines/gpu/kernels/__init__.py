"""Kernels in Triton's language: they run on the device, or on the CPU in Triton's interpreter."""
