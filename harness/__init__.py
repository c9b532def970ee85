"""Differential fuzzing of the fused Triton kernels that move Mamba state between cache blocks."""

__version__ = "0.1.0"
