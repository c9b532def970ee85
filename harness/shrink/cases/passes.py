"""The passes, in the order in which the shrinker runs them. It keeps the first proposal that still fails with the same
signature.

Structure comes before numbers, numbers before layout, contents last: a case with one request and one state makes every
later proposal cheaper.
"""

from __future__ import annotations

from harness.case import Case
from harness.shrink.cases.plain import plain_requests
from harness.shrink.cases.requests import smaller_block_size, smaller_numbers
from harness.shrink.cases.settings import canonical_contents, simpler_settings
from harness.shrink.cases.states import smaller_pages, smaller_states, tight_layout
from harness.shrink.cases.structure import (
    fewer_groups,
    fewer_operations,
    fewer_requests,
    fewer_states,
    simpler_operations,
    simpler_runner,
)
from harness.shrink.cases.tables import fewer_blocks, fewer_columns, lower_columns, smaller_tables
from harness.shrink.proposals import Pass

PASSES: tuple[Pass[Case], ...] = (
    fewer_operations,
    simpler_operations,
    fewer_requests,
    fewer_groups,
    fewer_states,
    simpler_runner,
    smaller_tables,
    lower_columns,
    fewer_columns,
    plain_requests,
    smaller_block_size,
    smaller_numbers,
    simpler_settings,
    tight_layout,
    smaller_pages,
    smaller_states,
    fewer_blocks,
    canonical_contents,
)
