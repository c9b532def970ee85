"""Sweeps: repro files judged on many targets, and the range of those that a finding affects."""
