"""Known issues of kernels: what a finding of each looks like."""
