"""Rules are those parts of a runner's behaviour that other releases, known issues or planted faults change.

They are one frozen record, made from the loaded release (`rules_v1`, `rules_v2`) and passed to a model of the runner.
Callers that want another behaviour pass other rules; a model does not know why they differ.
"""

from __future__ import annotations

import dataclasses
import enum


class ColumnUnit(enum.Enum):
    """The unit of the state column of a request with computed tokens, when the request is added."""

    MAMBA = "Mamba blocks"
    SMALLEST = "the smallest blocks of all groups"
    HALF = "half a Mamba block"

    def column(self, computed: int, mamba: int, smallest: int) -> int:
        """The column of the state after `computed` tokens, with Mamba and smallest blocks of this many tokens."""
        sizes = {ColumnUnit.MAMBA: mamba, ColumnUnit.SMALLEST: smallest, ColumnUnit.HALF: max(mamba // 2, 1)}
        return (computed - 1) // sizes[self]


class MarkedRows(enum.Enum):
    """The rows that the V2 host code marks as speculative for gated delta nets, with their number of drafts."""

    ONE_TOKEN = "drafts after one token"
    PAST_PREFILL = "drafts, past the prefill"
    SHORT = "past the prefill, no longer than a decode"

    def marks(self, scheduled: int, drafts: int, prefilling: bool, longest: int) -> bool:
        """Whether a row is marked; `prefilling` is what layers of Mamba2 read, a decode has at most `longest`
        tokens."""
        if self is MarkedRows.ONE_TOKEN:
            return drafts > 0 and scheduled == drafts + 1
        if self is MarkedRows.PAST_PREFILL:
            return drafts > 0 and not prefilling and scheduled > 0
        return not prefilling and 0 < scheduled <= longest


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerRules:
    """Rules for one runner only are marked as such; the other runner does not read them."""

    zero_drafts: bool
    """A decode without drafts runs as a speculative row with none (0.32), from the column that such rows use."""

    padded_tails: bool
    """The last token of a prompt, padded with drafts, runs as a decode (0.30)."""

    column_unit: ColumnUnit = ColumnUnit.MAMBA
    """V1: the release's own function counts in Mamba blocks."""

    forgets_columns: bool = True
    """The state column of a preempted request is dropped."""

    resets_accepted: bool = True
    """The runner keeps the accepted counts that postprocess leaves, not those of the sampler."""

    fresh_rows_start_empty: bool = False
    """A row of placeholder drafts of a request of which nothing is computed runs as a decode, from an empty state."""

    checkpoints_need_blocks: bool = False
    """Layers export a checkpoint only where the block manager keeps a block for it."""

    removes_in_order: bool = True
    """V2: requests leave in the order of their names, not in that of a set (0.29)."""

    flags_tails: bool = False
    """V2: the host code itself takes a prompt's last token, padded or not, out of the rows that prefill (0.31)."""

    marked_rows: MarkedRows = MarkedRows.SHORT
    """V2: the rows that gated delta nets run as speculative (0.31, 0.32)."""

    cuts_off_tails: bool = True
    """V1: a padded last token of a prompt runs as a prefill behind the first prefill of a batch."""

    recomputed_as_decodes: bool = False
    """V1: a few outputs that are computed again run as a decode: a prefill ends at the prompt's end. Else it ends
    at the scheduler's `prefill_end`, the greater of the prompt and all known tokens but the last."""

    counts_by_previous_row: bool = False
    """V1, asynchronous: accepted counts are looked up by the rows of the previous step (0.27)."""

    counts_by_request: bool = False
    """V1, asynchronous: accepted counts are looked up by request."""

    keeps_accepted: bool = False
    """V1: a row that was left out of a step gets its accepted count back."""

    trusts_delivered_counts: bool = False
    """V1: once all outputs are delivered, the scheduler's counts are used unchanged."""
