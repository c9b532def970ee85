"""Passes that make kernel cases smaller."""
