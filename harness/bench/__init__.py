"""Benchmarks: two things measured side by side in one run, medians after warming up. Nothing here is asserted in tests."""
