"""The language: layouts, operations and cases as plain typed data, validated on the way in.

All other rooms build on this one: it imports nothing from them, and neither torch nor triton.
"""

from harness.case.case import CASE_VERSION, Case, Contents, Domain, decode_case, encode_case
from harness.case.execution import CHECKS, DEFAULT_CHECKS, Check, Execution, ProgramOrder, Warps
from harness.case.landing import Landing, landing
from harness.case.layout import (
    Buffer,
    ConvLayout,
    ConvState,
    Group,
    Layer,
    Layout,
    State,
    TemporalState,
    state_extent,
)
from harness.case.operations import *
from harness.case.problem import InvalidCase
