"""Benchmarks: things measured side by side in one run, medians after warming up. No test asserts a figure of theirs."""
