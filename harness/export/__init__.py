"""Exported findings: files that show one to somebody who does not have the harness."""
