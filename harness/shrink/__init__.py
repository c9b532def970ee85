"""Shrinking finds a smaller case with the same signature."""
