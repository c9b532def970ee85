"""Sweeps: repro files are judged on many targets, to find the range of targets that a finding affects."""
