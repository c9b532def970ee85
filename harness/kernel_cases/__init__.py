"""The subject of kernel cases: launches of fused kernels on memory that is known byte by byte."""
