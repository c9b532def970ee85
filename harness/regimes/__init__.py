"""Regimes: named situations that a case can be in, counted to show what a run really tested (regime.py).

One file for each subject, with its regimes; the registry has them all.
"""

from harness.regimes.regime import Regime
from harness.regimes.registry import REGIMES, regimes_of

__all__ = ["REGIMES", "Regime", "regimes_of"]
