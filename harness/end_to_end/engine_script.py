"""An engine script is one Python file that shows a confirmed finding with vLLM alone: it needs nothing of the harness.

It makes the tiny model, runs it plainly, drives an engine with the sequence's events, prints both lists of tokens, and
fails if they differ. Where there is no GPU it brings what the CPU lacks: the layers' arithmetic as the harness has it,
and what the fused kernels do.
"""

from __future__ import annotations

import ast
import pprint
from importlib import resources
from typing import Any

from harness.case.sequence import CONTINUATION, Abort, Add, Finish, Pause, Reset, Resume, SequenceCase, Step
from harness.end_to_end.kinds import KINDS
from harness.end_to_end.messages import model_of
from harness.end_to_end.spelling import spelled
from harness.oracles.states.texts import token_of_family

SCRIPTING = (
    "replacing",
    "layers_on_cpu",
    "no_streams",
    "chosen_stop",
    "device_tokens",
    "late_counts",
    "scripted_drafter",
    "scripted_model_drafter",
    "scripting",
    "overruling",
    "scripted_core",
)
"""Modules that say what is replaced. They need nothing but torch, vLLM and each other."""


def engine_script(case: SequenceCase, title: str) -> str:
    """The text of the script for a sequence that was carried over to an engine. `title` says in a line what it
    shows."""
    kind = KINDS[model_of(case.config).layers]
    text = (resources.files(__package__) / "engine_script_template.txt").read_text(encoding="utf-8")
    parts = {
        "TITLE": title,
        "OPTIONS": pprint.pformat(_options(case), width=110, sort_dicts=False),
        "EVENTS": pprint.pformat([_event(event, case) for event in case.events], width=110, compact=True),
        "WRITE": kind.write,
        "RELEASE": repr(kind.release),
        "FUNCTIONS": f"{{{', '.join(f'{name!r}: {ours}' for name, ours in kind.functions.items())}}}",
        "MODEL": _bodies("spelling", "inside/tiny_model", f"inside/{kind.model}"),
        "LAYERS": _bodies(*(f"inside/{module}" for module in kind.arithmetic)),
        "KERNELS": _bodies("inside/plain_kernels"),
        "SCRIPTING": _bodies(*(f"inside/{module}" for module in SCRIPTING)),
    }
    for name, part in parts.items():
        text = text.replace(f"#:{name}:#", part)
    return text


def _options(case: SequenceCase) -> dict[str, Any]:
    config = case.config
    return {
        "mamba_layers": config.mamba_groups,
        "block_size": config.block_size,
        "num_blocks": config.num_blocks,
        "length_limit": config.length_limit,
        "budget": config.budget,
        "requests": config.requests,
        "num_spec": config.num_spec,
        "spec_method": config.spec_method,
        "asynchronous": config.asynchronous,
        "scripted_counts": config.spec_method == "ngram",
        "prefill_threshold": config.prefill_threshold,
        "policy": config.policy,
        "retention": config.retention,
        "match_unit": config.match_unit,
        "shared_prefix_checkpoint": config.shared_prefix_checkpoint,
    }


def _event(event: Any, case: SequenceCase) -> tuple[Any, ...]:
    match event:
        case Add():
            return ("add", event.request, _prompt(event, case.config.vocabulary), event.outputs, event.priority)
        case Abort():
            return ("abort", event.request)
        case Finish():
            return ("finish", event.request)
        case Reset():
            return ("reset", event.running)
        case Pause():
            return ("pause", event.mode, event.clear_cache)
        case Resume():
            return ("resume",)
        case Step():
            return ("step", event.drafts, event.right, event.early, event.repeat)
        case _:
            raise TypeError(f"no script has {event!r}")


def _prompt(add: Add, vocabulary: int) -> list[list[int] | int]:
    """Tokens, and how many follow as the model itself would continue."""
    parts: list[list[int] | int] = []
    start = 0
    for segment in add.prompt:
        end = start + segment.length
        if segment.family == CONTINUATION:
            parts.append(segment.length)
        else:
            places = range(start, end)
            parts.append([spelled(token_of_family(segment.family, place, vocabulary)) for place in places])
        start = end
    return parts


def _bodies(*modules: str) -> str:
    """Modules that become part of the script: they need nothing but torch, and each other."""
    return "\n\n\n".join(map(_body, modules))


def _body(module: str) -> str:
    """The text of a module without its docstring and its imports from the top of the file."""
    text = (resources.files(__package__) / f"{module}.py").read_text(encoding="utf-8")
    nodes = ast.parse(text).body
    first = next(
        node
        for number, node in enumerate(nodes)
        if not isinstance(node, ast.Import | ast.ImportFrom) and not (number == 0 and isinstance(node, ast.Expr))
    )
    return "\n".join(text.splitlines()[first.lineno - 1 :]).rstrip()
