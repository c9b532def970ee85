"""Smallest case with the same signature."""
