"""Fixes of known issues, on stubs of the parts of an engine that they change, with the source text of releases."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from harness.issues.registry import issues_of


def change(name: str, engine: Any) -> None:
    """Fix one issue in an engine."""
    (issue,) = issues_of(name)
    issue.change.engine(engine)


class Scheduler:
    """The places of a scheduler's main function that fixes know, as in a release, on plain numbers."""

    num_spec_tokens, max_model_len, num_sampled_tokens_per_step = 2, 16, 1

    def _cut(self, tokens: int, num_external_computed_tokens: int) -> int:
        return min(tokens, num_external_computed_tokens)

    def schedule(self, num_computed_tokens: int, room: int) -> tuple[int, bool]:
        scheduled_running_reqs, prefill_scheduled = True, False
        num_new_tokens = 1
        pad_spec_decode = False
        while True:
            for _ in range(1):
                if (
                    num_new_tokens == 1
                    # and no other condition
                    and (scheduled_running_reqs and not prefill_scheduled)
                ):
                    num_new_tokens, pad_spec_decode = 1 + self.num_spec_tokens, True
            with nullcontext():  # indented as deep as in a release
                if room >= 0:
                    num_external_computed_tokens = room
                    num_new_tokens = self._cut(
                        num_new_tokens,
                        num_external_computed_tokens,
                    )
                    if num_new_tokens == 0:
                        break
            return num_new_tokens, pad_spec_decode
        return 0, False


def engine(*fixes: str) -> SimpleNamespace:
    made = SimpleNamespace(scheduler=Scheduler())
    for fix in fixes:
        change(fix, made)
    return made


def test_padding_is_whole_or_none_with_its_fix() -> None:
    assert engine().scheduler.schedule(3, 2) == (2, True)
    fixed = engine("cut-padding").scheduler
    assert (fixed.schedule(3, 2), fixed.schedule(3, 9), fixed.schedule(3, 0)) == ((1, False), (3, True), (0, False))


def test_padding_stays_below_the_limit_with_its_fix() -> None:
    assert engine().scheduler.schedule(13, 9) == (3, True)
    fixed = engine("padded-to-limit").scheduler
    assert (fixed.schedule(13, 9), fixed.schedule(12, 9)) == ((1, False), (3, True))


@pytest.mark.parametrize("order", [("cut-padding", "padded-to-limit"), ("padded-to-limit", "cut-padding")])
def test_fixes_of_one_function_add_up(order: tuple[str, str]) -> None:
    fixed = engine(*order).scheduler
    assert (fixed.schedule(13, 9), fixed.schedule(12, 2), fixed.schedule(12, 9)) == ((1, False), (1, False), (3, True))


class Manager:
    """A block manager of attention blocks of 4 tokens."""

    block_size = 4

    def __init__(self) -> None:
        self.block_pool = SimpleNamespace(num_gpu_blocks=50)
        self.req_to_blocks = {"a": [SimpleNamespace(block_id=n) for n in (7, 8)]}
        self.num_cached_block = {"a": 1}
        self.steps = 0

    def cache_blocks(self, request: Any, num_tokens: int) -> None:
        self.num_cached_block[request.request_id] = 2

    def get_num_blocks_to_allocate(self, new_computed_blocks: list[Any], num_local_computed_tokens: int) -> int:
        return 3

    def new_step_starts(self) -> None:
        self.steps += 1


def test_a_partial_hit_in_a_fresh_block_waits_for_the_next_step() -> None:
    manager = Manager()
    coordinator = SimpleNamespace(single_type_managers=[manager])
    change(
        "copy-of-fresh-block", SimpleNamespace(manager=SimpleNamespace(coordinator=coordinator), attention_groups=(0,))
    )
    old, fresh = manager.req_to_blocks["a"]
    manager.cache_blocks(SimpleNamespace(request_id="a"), 8)
    assert manager.num_cached_block == {"a": 2}
    assert manager.get_num_blocks_to_allocate([old], 6) == 3
    assert manager.get_num_blocks_to_allocate([old, fresh], 8) == 3, "a hit of whole blocks copies nothing"
    assert manager.get_num_blocks_to_allocate([old, fresh], 6) > 50
    manager.new_step_starts()
    assert (manager.steps, manager.get_num_blocks_to_allocate([old, fresh], 6)) == (1, 3)


def test_partial_tails_are_those_of_prompts() -> None:
    registered: list[str] = []
    manager = SimpleNamespace(
        _cache_partial_tail_block=lambda request: registered.append(request.request_id), _checkpoints={"c": 1}
    )
    coordinator = SimpleNamespace(single_type_managers=[manager])
    change("partial-entry-async", SimpleNamespace(manager=SimpleNamespace(coordinator=coordinator), mamba_groups=(0,)))
    for name, computed in (("a", 7), ("b", 8), ("c", 8)):
        manager._cache_partial_tail_block(
            SimpleNamespace(request_id=name, num_computed_tokens=computed, num_prompt_tokens=8)
        )
    assert registered == ["a", "c"], "b is past its prompt; c has a checkpoint in this step"


BLOCKS = [["a", "b"], ["c"], ["d", "e", "f"]]


class OldCoordinator:
    """Finds a hit of 6 tokens in groups of blocks of 8, 8 and 4 tokens, with the text of 0.28 where it matters."""

    def __init__(self) -> None:
        self.attention_groups = [None]
        self.single_type_managers = [SimpleNamespace(block_size=size) for size in (8, 8, 4)]

    def find_longest_cache_hit(self) -> tuple[list[list[str]], int, int]:
        first_group = self.attention_groups[0]
        return [list(group) for group in BLOCKS], 6, 0 if first_group is None else 1


class NewCoordinator(OldCoordinator):
    def find_longest_cache_hit(self) -> tuple[list[list[str]], int, int]:
        return [list(group) for group in BLOCKS], 6, 0


def test_hits_of_every_attention_group_end_together_in_the_release_that_truncates_one() -> None:
    for coordinator, hit in ((OldCoordinator(), [["a"], ["c"], ["d", "e"]]), (NewCoordinator(), BLOCKS)):
        engine = SimpleNamespace(manager=SimpleNamespace(coordinator=coordinator), attention_groups=(0, 2))
        change("untruncated-hit", engine)
        assert coordinator.find_longest_cache_hit() == (hit, 6, 0)


class StateManager:
    """The places of a Mamba block manager that the fix of unrelocated-block knows, as in 0.31, on plain numbers: one
    speculative block, and a checkpoint in the column before the running block."""

    def allocate_new_blocks(self, columns: list[int], allocated: bool, checkpoint_block: int) -> tuple[list[int], int]:
        blocks_allocated, num_skipped_blocks, moved = allocated, 3, []
        if blocks_allocated and not checkpoint_block:
            for block_idx in columns:
                if block_idx < num_skipped_blocks:
                    moved.append(block_idx)
                else:
                    break
        fresh = 1 + checkpoint_block
        if not blocks_allocated or checkpoint_block:
            fresh += 1
        return moved, fresh

    def get_num_blocks_to_allocate(self, allocated: bool, checkpoint_block: int) -> int:
        blocks_allocated, asked = allocated, 1 + checkpoint_block
        if not blocks_allocated or checkpoint_block:
            asked += 1
        return asked


def _state_manager(kind: type, *fixes: str) -> Any:
    manager = kind()
    made = SimpleNamespace(
        manager=SimpleNamespace(coordinator=SimpleNamespace(single_type_managers=[None, manager])), mamba_groups=(1,)
    )
    for fix in fixes:
        change(fix, made)
    return manager


def test_speculative_blocks_move_on_at_checkpoints_with_its_fix() -> None:
    columns = [1, 2, 3]
    plain, fixed = _state_manager(StateManager), _state_manager(StateManager, "unrelocated-block")
    for allocated, checkpoint, before, after in (
        (True, 1, ([], 3), ([1], 2)),  # the column of the checkpoint itself stays, and nothing fresh takes its place
        (True, 0, ([1, 2], 1), ([1, 2], 1)),
        (False, 1, ([], 3), ([], 3)),
        (False, 0, ([], 2), ([], 2)),
    ):
        assert plain.allocate_new_blocks(columns, allocated, checkpoint) == before
        assert fixed.allocate_new_blocks(columns, allocated, checkpoint) == after
        assert plain.get_num_blocks_to_allocate(allocated, checkpoint) == before[1]
        assert fixed.get_num_blocks_to_allocate(allocated, checkpoint) == after[1], "as many as are then taken"


class LaterStateManager(StateManager):
    """As in a release that has the rule: with another text."""

    def allocate_new_blocks(self, columns: list[int], allocated: bool, checkpoint_block: int) -> tuple[list[int], int]:
        return columns[: 2 - checkpoint_block] if allocated else [], 2


def test_a_block_manager_of_other_words_stays_as_it_is() -> None:
    fixed = _state_manager(LaterStateManager, "unrelocated-block")
    assert vars(fixed) == {}
    assert fixed.allocate_new_blocks([1, 2, 3], True, 1) == ([1], 2)
    assert fixed.get_num_blocks_to_allocate(True, 1) == 3, "neither of the two changes without the other"


class OldScheduler:
    """Cuts chunks as releases up to 0.26 do: it does not know where the prefill ends."""

    def _mamba_block_aligned_split(
        self,
        request: Any,
        num_new_tokens: int,
        num_new_local_computed_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        num_uncached_common_prefix_tokens: int = 0,
    ) -> int:
        return num_new_tokens


class NewScheduler:
    def _mamba_block_aligned_split(self, request: Any, num_new_tokens: int, num_new_local_computed_tokens: int) -> int:
        prefill_end = request.num_prompt_tokens
        return min(num_new_tokens, max(prefill_end, num_new_tokens))


def test_chunks_inside_a_block_end_with_it_in_old_releases_alone() -> None:
    request = SimpleNamespace(num_computed_tokens=0, num_prompt_tokens=30, num_tokens=30)
    for scheduler, cut in ((OldScheduler(), 3), (NewScheduler(), 9)):
        engine_of = SimpleNamespace(scheduler=scheduler, config=SimpleNamespace(block_size=8))
        change("unaligned-eagle-chunk", engine_of)
        assert scheduler._mamba_block_aligned_split(request, 9, 5) == cut
        assert scheduler._mamba_block_aligned_split(request, 9, num_new_local_computed_tokens=8) == 9
        assert scheduler._mamba_block_aligned_split(request, 9, 30) == 9, "past the prefill"
    assert OldScheduler()._mamba_block_aligned_split(request, 9, 5, 0, 7) == 9
