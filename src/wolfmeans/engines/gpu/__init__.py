"""The engine on an NVIDIA GPU, with PyTorch and Triton."""
