"""A known release is one with fused kernels that the harness was tested with. Others are tried on request."""

from __future__ import annotations

RELEASES = (
    "0.22.0",
    "0.22.1",
    "0.23.0",
    "0.24.0",
    "0.25.0",
    "0.25.1",
    "0.26.0",
    "0.27.0",
    "0.27.1",
    "0.28.0",
    "0.29.0",
    "0.30.0",
    "0.31.0",
    "0.32.0",
    "0.33.0",
)
"""From the oldest to the newest."""
