"""Benchmarks compare several things in one run, with medians after a warm-up. No test asserts their figures."""
