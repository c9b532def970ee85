"""The subject "kernel cases": launches of fused kernels on memory that is known byte by byte."""
