"""Data of a file stays data, whatever it holds."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.export.literals import LONGEST_TEXT, comment, in_markdown, literal, plain, words

HOSTILE = (
    'x"""\nimport os\nos.abort()\n"""',
    "end\\",
    "\\N{LATIN SMALL LETTER A}\r\nprint(1)",
    "a\u2028print(1)\u2029\x0bprint(1)\x0c\x1cprint(1)\x85",
    "`` ` ]( javascript:x ) <script>| --> *bold*",
    "'''+__import__('os')+'''",
    "{0.__class__}%s%n$(id)",
    "\ud800 lone, and \x00 null",
)

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
)


@given(VALUES)
def test_a_literal_is_the_value_that_it_was_made_of(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_long_values_are_broken_into_lines() -> None:
    value = {"numbers": list(range(1000)), "rows": ({"slot": 1, "text": "x" * 50},) * 5}
    text = literal(value)
    assert ast.literal_eval(text) == value
    assert max(map(len, text.splitlines())) <= 120


def test_what_has_no_literal_is_refused() -> None:
    with pytest.raises(TypeError, match="no literal for a object"):
        literal([object()])


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_comment_is_nothing_but_a_comment(text: str) -> None:
    module = ast.parse(comment("first", plain(text)) + "x = 1\n")
    assert [ast.unparse(node) for node in module.body] == ["x = 1"]


@given(st.text())
def test_plain_text_is_one_line_without_escapes(text: str) -> None:
    line = plain(text)
    assert line.isascii()
    assert line.isprintable()
    assert not set(line) & set("\\`\n\r")
    assert len(line) <= LONGEST_TEXT + 4


@given(st.text())
def test_code_in_markdown_cannot_end_early(text: str) -> None:
    code = in_markdown(text)
    assert code == "" or (code[0] == code[-1] == "`" and "`" not in code[1:-1] and "|" not in code)


@pytest.mark.parametrize("text", ["https://example.org/x", "see www.example.org", "a https://www.example.org/?q=1 b"])
def test_words_hold_no_address_that_a_page_makes_a_link_of(text: str) -> None:
    assert "://" not in words(text)
    assert "www." not in words(text)
