"""Lines of code are named as the code under test has them, wherever its files lie."""

from __future__ import annotations

import pytest

from harness.code_lines import CodeLine, chain_in_words, name_source, source_name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/somewhere/releases/vllm-0.33.0/vllm/v1/worker/mamba_utils.py", "vllm/v1/worker/mamba_utils.py"),
        ("/home/me/vllm/vllm/v1/core/sched/scheduler.py", "vllm/v1/core/sched/scheduler.py"),
        ("vllm/v1/worker/mamba_utils.py", "vllm/v1/worker/mamba_utils.py"),
        ("/src/copy.py", "copy.py"),
        ("", ""),
    ],
)
def test_the_name_of_a_file(file: str, name: str) -> None:
    assert source_name(file) == name


def test_a_file_that_holds_a_module_is_named_after_it() -> None:
    name_source("/cache/sources/0123/mamba_utils.py", "vllm.v1.worker.mamba_utils")
    assert source_name("/cache/sources/0123/mamba_utils.py") == "vllm/v1/worker/mamba_utils.py"


def test_a_chain_names_a_file_once() -> None:
    lines = [CodeLine("/a/vllm/b.py", "inner", 1), CodeLine("/a/vllm/b.py", "middle", 2), CodeLine("/c.py", "outer", 3)]
    assert chain_in_words(lines) == "vllm/b.py:1 (inner), called from :2 (middle), called from c.py:3 (outer)"
    assert chain_in_words([]) == ""
