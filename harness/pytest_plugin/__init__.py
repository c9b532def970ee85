"""Campaigns as items of another project's suite of tests."""
