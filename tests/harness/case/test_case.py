"""The language: cases survive the way to JSON and back, and contradictions and values out of bounds are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.case import Case, InvalidCase, Postprocess, PostprocessRow, Precopy, PrecopyRow, decode_case, encode_case
from harness.engines.random import Recipe, case_at

Document = dict[str, Any]
DELETE = "delete"

recipes = st.builds(
    Recipe,
    seed=st.integers(0, 2**63 - 1),
    domains=st.sampled_from((("reachable",), ("total",), ("reachable", "total"))),
    operations=st.sampled_from((("postprocess",), ("precopy",), ("postprocess", "precopy"))),
    scale=st.just("small"),
)


@given(recipes, st.integers(0, 10**6))
def test_json_round_trip(recipe: Recipe, index: int) -> None:
    case = case_at(recipe, index)
    text = encode_case(case)
    again = decode_case(text)
    assert again == case
    assert encode_case(again) == text


@given(recipes, st.integers(0, 1000))
def test_spaces_and_the_order_of_fields_do_not_matter(recipe: Recipe, index: int) -> None:
    case = case_at(recipe, index)

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: turned(value[name]) for name in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    text = json.dumps(turned(json.loads(encode_case(case))), indent=3).encode()
    assert encode_case(decode_case(text)) == encode_case(case)


@pytest.fixture
def document(make_case: Callable[..., Case]) -> Document:
    """A valid case of two operations as a JSON document."""
    post = Postprocess(
        runner="V2",
        rows=(
            PostprocessRow(slot=2, scheduled=3, computed=6, draft=2, accepted=2, state_column=1),
            PostprocessRow(slot=-1, scheduled=0, computed=0, draft=5, accepted=0, state_column=0),
        ),
    )
    pre = Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),))
    case = make_case(post, pre, conv_layout="DS", tables=(((1, 2), (), (2, 1)), ((3, 4), (), (4, 3))))
    built = json.loads(encode_case(case))
    assert isinstance(built, dict)
    assert decode_case(json.dumps(built).encode()) == case
    return built


def edited(document: Document, path: tuple[str | int, ...], value: Any) -> bytes:
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    if value is DELETE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(document).encode()


def refusal(text: bytes) -> str:
    """The one line with which a text is refused."""
    with pytest.raises(InvalidCase) as caught:
        decode_case(text)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


CONV = ("layout", "groups", 0, "layers", 0, "states", 0)
TEMPORAL = ("layout", "groups", 0, "layers", 0, "states", 1)
POST = ("program", 0, "rows", 0)
PRE = ("program", 1, "rows", 0)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("domain",), "everything"),
        (("program",), []),
        (("program",), [{"type": "precopy", "runner": "V1", "rows": []}] * 65),
        (("layout", "conv_layout"), "DSD"),
        (("layout", "block_size"), 0),
        (("layout", "block_size"), 2**24 + 1),
        (("layout", "num_spec"), -1),
        (("layout", "num_spec"), 1025),
        (("layout", "num_blocks"), 1),
        (("layout", "num_blocks"), 2**24 + 1),
        (("layout", "buffers"), []),
        (("layout", "buffers"), [{"size": 320}] * 257),
        (("layout", "buffers", 0, "size"), 0),
        (("layout", "buffers", 0, "size"), 2**40 + 1),
        (("layout", "buffers", 0, "misalignment"), -1),
        (("layout", "buffers", 0, "misalignment"), 256),
        (("layout", "groups"), []),
        (("layout", "groups", 0, "layers"), []),
        (("layout", "groups", 0, "layers", 0, "states"), []),
        (("layout", "table_rows"), 0),
        (("layout", "table_rows"), 2**20 + 1),
        (("layout", "table_columns"), 0),
        (("layout", "table_columns"), 2**20 + 1),
        ((*CONV, "item_size"), 3),
        ((*CONV, "item_size"), 16),
        ((*CONV, "window"), 0),
        ((*CONV, "window"), 4097),
        ((*CONV, "dim"), 0),
        ((*CONV, "dim"), 2**20 + 1),
        ((*CONV, "buffer"), -1),
        ((*CONV, "buffer"), 256),
        ((*CONV, "offset"), -2),
        ((*CONV, "offset"), 2**40 + 2),
        ((*CONV, "block_stride"), 0),
        ((*CONV, "block_stride"), 2**38 + 2),
        ((*CONV, "row_stride"), 0),
        ((*TEMPORAL, "shape"), []),
        ((*TEMPORAL, "shape"), [1] * 5),
        ((*TEMPORAL, "shape"), [0]),
        ((*TEMPORAL, "shape"), [2**24 + 1]),
        (("contents", "payload_seed"), -1),
        (("contents", "payload_seed"), 2**32),
        (("contents", "poison"), "C"),
        (("contents", "tables", 0, 0, 0), -1),
        (("contents", "tables", 0, 0, 0), 2**24 + 1),
        (("contents", "owners", 0), -2),
        (("contents", "owners", 0), 64),
        (("program", 0, "runner"), "V3"),
        (("program", 0, "type"), "nonsense"),
        ((*POST, "slot"), -2),
        ((*POST, "slot"), 2**20 + 1),
        *(((*POST, name), -1) for name in ("scheduled", "computed", "draft", "accepted", "state_column")),
        *(((*POST, name), 2**30 + 1) for name in ("scheduled", "computed", "draft", "accepted")),
        ((*POST, "state_column"), 2**20 + 1),
        ((*PRE, "source_column"), -2),
        ((*PRE, "source_column"), 2**20 + 1),
        ((*PRE, "destination_column"), -1),
        ((*PRE, "destination_column"), 2**20 + 1),
        ((*PRE, "bias"), -1),
        ((*PRE, "bias"), 2**30 + 1),
        # A number that is not a machine integer is refused like any other.
        (("layout", "num_blocks"), 10**400),
        (("contents", "payload_seed"), -(10**400)),
        (("layout", "block_size"), 4.5),
        (("layout", "block_size"), "4"),
        (("layout", "block_size"), True),
        (("layout", "block_size"), None),
        (("layout", "block_size"), [[]]),
        (("layout",), DELETE),
        (("contents", "owners"), DELETE),
        ((*POST, "accepted"), DELETE),
        (("surprise",), 1),
        (("layout", "surprise"), 1),
        ((*CONV, "surprise"), 1),
        ((*TEMPORAL, "row_stride"), 8),
        (("contents", "surprise"), 1),
        ((*POST, "surprise"), 1),
        ((*PRE, "surprise"), 1),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else str(value)[:24],
)
def test_a_bound_is_kept_and_the_message_names_the_place(
    document: Document, path: tuple[str | int, ...], value: Any
) -> None:
    message = refusal(edited(document, path, value))
    place = list(path)
    if path[-1] in ("surprise", "row_stride") or value is DELETE:
        assert str(path[-1]) in message
    if path[-1] == "surprise" or path == (*TEMPORAL, "row_stride") or value is DELETE:
        place.pop()  # for an extra or missing field the message names the field, and the place is its parent
    assert "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place) in message + "$"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("contents", "tables"), [[[1, 2]]], "2 groups but 1 block tables"),
        (("contents", "tables", 1), [[]] * 4, "table of group 1 has 4 rows, more than 3"),
        (("contents", "tables", 1, 0), [1] * 5, "table of group 1, row 0 is longer than 4"),
        (("contents", "tables", 1, 0, 1), 5, "table of group 1, row 0 names a block past 4"),
        (("contents", "owners"), [-1, 0, 0, 1], "5 blocks but 4 owners"),
        (("contents", "owners", 4), 2, "owned by a group that does not exist"),
        (("program", 0, "rows", 0, "slot"), 3, "operation 0 uses more than the 3 request slots"),
        ((*PRE, "slot"), 1, "a V1 operation has no mapping"),
        ((*PRE, "slot"), -1, "a V1 operation has no mapping"),
        (("program", 0, "rows", 1, "slot"), 2, "the same slot"),
        ((*POST, "draft"), 9, "postprocess row 0: computed + scheduled - draft must be at least 1"),
        ((*CONV, "buffer"), 1, "group 0 layer 0 state 0: buffer 1 does not exist"),
        ((*CONV, "offset"), 1, "group 0 layer 0 state 0: offset or block stride is not a multiple"),
        ((*TEMPORAL, "block_stride"), 62, "group 0 layer 0 state 1: offset or block stride is not a multiple"),
        (("layout", "buffers", 0, "misalignment"), 4, "group 1 layer 0 state 0: offset or block stride"),
        ((*CONV, "row_stride"), None, "row_stride is for DS conv states"),
        (("layout", "conv_layout"), "SD", "row_stride is for DS conv states"),
        ((*CONV, "row_stride"), 7, "row stride 7 is unaligned or shorter than a row"),
        ((*CONV, "row_stride"), 4, "row stride 4 is unaligned or shorter than a row"),
        ((*CONV, "dim"), 9, "a block of 70 bytes does not fit its stride 64"),
        ((*TEMPORAL, "shape"), [17], "a block of 68 bytes does not fit its stride 64"),
        (("layout", "buffers", 0, "size"), 311, "group 0 layer 0 state 1: its last block ends at byte 312 of a buffer"),
        (("layout", "num_blocks"), 6, "its last block ends at byte 350 of a buffer of 320 bytes"),
    ],
    ids=str,
)
def test_a_contradiction_is_refused_and_named(
    document: Document, path: tuple[str | int, ...], value: Any, message: str
) -> None:
    assert message in refusal(edited(document, path, value))


def test_the_same_contradictions_are_refused_where_cases_are_built(make_layout: Callable[..., Any]) -> None:
    with pytest.raises(InvalidCase, match="ends at byte 344"):
        make_layout(num_blocks=6)
    with pytest.raises(InvalidCase, match="same slot"):
        Precopy(runner="V2", rows=(PrecopyRow(slot=1, source_column=0, destination_column=1, bias=0),) * 2)


@pytest.mark.parametrize(("path", "value"), [(("layout", "buffers", 0, "size"), 312), ((*CONV, "dim"), 8)], ids=str)
def test_the_last_value_that_fits_is_accepted(document: Document, path: tuple[str | int, ...], value: int) -> None:
    decode_case(edited(document, path, value))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"{}",
        b"\x00\xff\xfe",
        b'"case"',
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"layout":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"version":NaN}',
        b'{"version":1e999}',
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_text_that_is_not_a_case_is_refused(text: bytes) -> None:
    refusal(text)


@pytest.mark.parametrize("cut", [1, 40, 400, -1])
def test_a_truncated_text_is_refused(document: Document, cut: int) -> None:
    refusal(json.dumps(document).encode()[:cut])


def test_defaults_need_not_be_written(document: Document) -> None:
    whole = decode_case(json.dumps(document).encode())
    assert decode_case(edited(document, ("version",), DELETE)) == whole


def test_cases_are_values(make_case: Callable[..., Case]) -> None:
    case = make_case()
    assert case == make_case()
    assert case != make_case(payload_seed=8)
    with pytest.raises(AttributeError):
        case.domain = "reachable"  # type: ignore[misc]
    assert msgspec.structs.replace(case) == case
