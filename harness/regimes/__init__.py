"""Regimes: named situations that a case can be in, counted to show what a run really tested (registry.py).

One file for each subject; importing it registers its regimes, in the order in which people read them.
"""

from harness.regimes import batches, decisions, blocks, memory, around  # noqa: F401, I001 - in this order
from harness.regimes.registry import REGIMES, Regime, regimes_of

__all__ = ["REGIMES", "Regime", "regimes_of"]
