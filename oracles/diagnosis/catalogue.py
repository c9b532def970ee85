"""The catalogue of deviations: one list of all that a finding is compared with.

To add one, write a Deviation in the file of what it is about, or a new file, and list it here.
"""

from __future__ import annotations

from harness.oracles.diagnosis.deviation import Deviation
from harness.oracles.diagnosis.host import HOST_SIDE
from harness.oracles.diagnosis.requests import REQUESTS
from harness.oracles.diagnosis.sizes import SIZES
from harness.oracles.diagnosis.tables import TABLES

CATALOGUE: tuple[Deviation, ...] = (*TABLES, *SIZES, *REQUESTS, *HOST_SIDE)

BY_NAME = {deviation.name: deviation for deviation in CATALOGUE}
