"""Features say how one version of vLLM differs from the others, where the harness has to know it.

They are read from the syntax trees of the version's own sources, not looked up by version: so an edited checkout
and a future release work as well, or are refused with the name of what changed. Only what the
callers of the kernels see is examined, never how a kernel does its work: a fault in there must not be mistaken for
a feature.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.kernels.targets.vllm.moved import moved_to, with_moved
from harness.kernels.targets.vllm.sources import CACHE_OPTIONS, HYBRID, INPUT_BATCH, OPTIONS, WORKER, SourceTree
from harness.kernels.targets.vllm.syntax import parsed
from harness.refusal import UnknownTarget

CONTEXT = "MambaSpecDecodeGPUContext"
BUFFERS = "MambaBuffers"
HYBRID_STATE = "MambaHybridModelState"
FILL_KERNEL = "_fill_num_accepted_kernel"

RowsBy = Literal["slot", "batch"]
Uncopied = Literal["never", "without drafts", "always"]


@dataclass(frozen=True)
class Features:
    """One field per change that the adapter follows; its comment names the release that introduced it."""

    v1_postprocess: bool
    """`run_fused_postprocess`, in all known releases; an edit may have lost it."""
    v2: bool
    """0.25.0: calls with an index mapping, of one of the following two."""
    v2_postprocess: bool
    """0.25.0: `run_fused_postprocess_align`."""
    v2_precopy: bool
    """0.25.0: `run_fused_precopy`."""
    v1_precopy: bool
    """0.27.0: `run_fused_precopy` without a mapping."""
    states_per_layer: bool
    """0.29.0: each layer has its own list of states, and copy functions are given by the layer's type. Before,
    one tuple of copy functions is used for every layer, and all Mamba groups must have the same spec."""
    rows_by: RowsBy
    """0.32.0: table rows are request slots. Before, they are batch rows, gathered by the runner each step."""
    mapping_bits: Literal[32, 64]
    """Bits of an index mapping's entries; they changed back and forth (0.28.0, 0.31.0, 0.32.0)."""
    advance: bool
    """0.25.0: the V2 runner's model state prepares a step on the device."""
    scatter: bool
    """0.23.0: accepted counts are set by a kernel, through an index mapping."""
    fill: bool
    """0.28.0: also to one number for all; before, rows could not be skipped in that case."""
    aligned_indices: bool
    """0.29.0: `compute_aligned_state_indices`."""
    host_path: bool
    """The buffers of the V1 runner's host code, created as in all known releases."""
    host_functions: frozenset[str]
    """The functions of that host code (staging, entry points, copy lists) that are called as in all known releases."""
    lists_after_step: bool
    """Until 0.21: the scalar path moves states after a step, too; sister projects do it still."""
    validates_functions: bool
    """0.29.0: `validate_mamba_state_copy_funcs`, which runners call before they use copy functions."""
    uncopied: Uncopied
    """Whether a layer can have cache tensors that are not copied (those of ReplaySSM): from 0.27.0 on where there are
    no drafts, from 0.29.0 on anywhere."""
    all_mode: bool
    """Until 0.31: the host's bookkeeping for states kept in every block."""


class NoContext(UnknownTarget):
    """A target without the context of the fused kernels, or with one that the harness cannot create. `name` is what was
    looked for in WORKER, `found` says what is there."""

    def __init__(self, message: str, name: str, found: str = "it is not there") -> None:
        super().__init__(message)
        self.name, self.found = name, found


def features(tree: SourceTree) -> Features:
    """Inspect `tree`. Raises NoContext, or UnknownTarget if a file cannot be examined. Calls in an unknown form count
    as absent: the target lacks the operations that need them."""
    module = definitions(tree, WORKER)
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    context = next((n for n in module.body if isinstance(n, ast.ClassDef) and n.name == CONTEXT), None)
    if context is None:
        message = f"{tree.origin} has no {CONTEXT} in {WORKER} (it came with the fused kernels of vllm 0.22.0)"
        raise NoContext(message, CONTEXT)
    methods = dict(methods_of(module, context))
    for name, forms in CONTEXT_FORMS.items():
        if name in _REQUIRED:
            if name not in methods:
                raise NoContext(f"{tree.origin} has no {CONTEXT}.{name} in {WORKER}", f"{CONTEXT}.{name}")
            _check_form(tree, name, parameters_of(methods[name]), forms)
        elif name in methods and parameters_of(methods[name]) not in forms:
            del methods[name]
    v2_postprocess = "run_fused_postprocess_align" in methods
    v2_precopy = "run_fused_precopy" in methods
    v2 = v2_postprocess or v2_precopy
    return Features(
        v1_postprocess="run_fused_postprocess" in methods,
        v2=v2,
        v2_postprocess=v2_postprocess,
        v2_precopy=v2_precopy,
        v1_precopy=v2_precopy and _may_be_none(methods["run_fused_precopy"], "idx_mapping"),
        states_per_layer="copy_funcs" in parameters_of(methods["create"]),
        rows_by=(
            "slot"
            if "aligned_index_block_tables" in parameters_of(methods["initialize_from_forward_context"])
            else "batch"
        ),
        mapping_bits=_mapping_bits(tree) if v2 else 32,
        advance=v2 and _model_state_methods(tree).get("preprocess_state") == ADVANCE_FORM,
        scatter=list(_model_state_methods(tree).get("postprocess_state", ()))[:2] == SCATTER_FORM,
        fill=any(
            isinstance(node, ast.FunctionDef) and node.name == FILL_KERNEL for node in definitions(tree, HYBRID).body
        ),
        aligned_indices="compute_aligned_state_indices" in methods
        and parameters_of(methods["compute_aligned_state_indices"]) == INDICES_FORM,
        host_path=_buffers_form(module) == BUFFERS_FORM,
        host_functions=frozenset(name for name, form in HOST_FORMS.items() if _has_forms(functions, {name: form})),
        lists_after_step=any(
            _calls(function, "collect_mamba_copy_meta") and name != "preprocess_mamba"
            for name, function in functions.items()
        ),
        validates_functions=_has_forms(functions, _VALIDATION_FORMS),
        all_mode=_has_forms(functions, ALL_MODE_FORMS),
        uncopied=_uncopied(tree),
    )


# The parameters of the V1 runner's host code, by position.
HOST_FORMS: Mapping[str, list[str]] = {
    "stage_postprocess_inputs_to_gpu": [
        "ctx",
        "scheduler_output",
        "req_ids",
        "num_reqs",
        "requests",
        "mamba_state_idx",
    ],
    "postprocess_mamba_align_gpu": [
        "bufs",
        "num_reqs",
        "num_accepted_tokens_gpu",
        "num_accepted_tokens_cpu_tensor",
        "input_batch",
        "kv_cache_config",
        "forward_context",
        "mamba_state_copy_funcs",
    ],
    "collect_mamba_copy_meta": [
        "copy_bufs",
        "kv_cache_config",
        "mamba_state_copy_funcs",
        "mamba_group_ids",
        "src_block_idx",
        "dest_block_idx",
        "accept_token_bias",
        "req_state",
        "forward_context",
    ],
    "do_mamba_copy_block": ["copy_bufs"],
    "preprocess_mamba": [
        "scheduler_output",
        "kv_cache_config",
        "cache_config",
        "mamba_state_idx",
        "input_batch",
        "requests",
        "forward_context",
        "mamba_state_copy_funcs",
        "copy_bufs",
    ],
}
BUFFERS_FORM = ["max_num_reqs", "kv_cache_config", "copy_funcs", "make_buffer", "device", "with_postprocess_align"]
_VALIDATION_FORMS: Mapping[str, list[str]] = {
    "validate_mamba_state_copy_funcs": ["mamba_groups", "copy_funcs"],
    "get_mamba_groups": ["kv_cache_config"],
}
ALL_MODE_FORMS: Mapping[str, list[str]] = {
    "preprocess_mamba_all_specdec": [
        "scheduler_output",
        "input_batch",
        "mamba_state_idx",
        "num_reqs",
        "prev_last_scheduled_idx_buf",
    ],
    "postprocess_mamba_all": [
        "scheduler_output",
        "kv_cache_config",
        "input_batch",
        "requests",
        "mamba_state_idx",
        "num_spec_tokens",
        "num_reqs",
    ],
}
INDICES_FORM = ["seq_lens", "num_reqs"]
SCATTER_FORM = ["idx_mapping", "num_sampled"]
ADVANCE_FORM = ["input_batch", "block_tables", "kv_cache_config", "num_computed_tokens"]


_LOOKED_FOR: Mapping[str, frozenset[str]] = {
    WORKER: frozenset({CONTEXT, BUFFERS, *HOST_FORMS, *ALL_MODE_FORMS, *_VALIDATION_FORMS}),
    HYBRID: frozenset({HYBRID_STATE, FILL_KERNEL}),
}
"""What is looked for in a file: it may import it from where it has moved to."""


def moved_files(tree: SourceTree, file: str) -> tuple[str, ...]:
    """The files that code of `file` has moved to, later ones import from earlier ones; none for known releases. Raises
    UnknownTarget."""
    return moved_to(tree, file, _LOOKED_FOR[file]) if tree.has(file) else ()


def definitions(tree: SourceTree, file: str) -> ast.Module:
    """The syntax tree of a file, with what has moved to other files; an empty one if there is no such file. Raises
    UnknownTarget."""
    return with_moved(tree, file, _LOOKED_FOR[file]) if tree.has(file) else ast.Module([], [])


def _has_forms(functions: Mapping[str, ast.FunctionDef], forms: Mapping[str, list[str]]) -> bool:
    """Whether these functions exist and their parameters begin like this."""
    return all(
        name in functions and parameters_of(functions[name])[: len(form)] == form for name, form in forms.items()
    )


def _buffers_form(module: ast.Module) -> Sequence[str]:
    """The parameters with which the V1 runner creates all its buffers; empty if there is no such class."""
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name == BUFFERS:
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "create":
                    return parameters_of(method)
    return ()


def _model_state_methods(tree: SourceTree) -> Mapping[str, Sequence[str]]:
    """Parameters of the methods of the V2 runner's model state; empty if there is no such class."""
    module = definitions(tree, HYBRID)
    return {
        name: parameters_of(method)
        for node in module.body
        if isinstance(node, ast.ClassDef) and node.name == HYBRID_STATE
        for name, method in methods_of(module, node).items()
    }


def methods_of(module: ast.Module, kind: ast.ClassDef) -> Mapping[str, ast.FunctionDef]:
    """Methods of a class by name, those of its base classes in the same file included."""
    found: dict[str, ast.FunctionDef] = {}
    bases = {base.id for base in kind.bases if isinstance(base, ast.Name)} - {kind.name}
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name in bases:
            found.update(methods_of(module, node))
    found.update({method.name: method for method in kind.body if isinstance(method, ast.FunctionDef)})
    return found


def _may_be_none(function: ast.FunctionDef, parameter: str) -> bool:
    """Whether the annotation of a parameter allows None."""
    return any(
        argument.arg == parameter and argument.annotation is not None and "None" in ast.unparse(argument.annotation)
        for argument in (*function.args.args, *function.args.kwonlyargs)
    )


def _calls(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function calls another one by its name."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        for node in ast.walk(function)
    )


def _uncopied(tree: SourceTree) -> Uncopied:
    """From the configuration: whether there is the option, and whether it excludes drafts."""
    if not tree.has(CACHE_OPTIONS) or _REPLAY not in tree.text(CACHE_OPTIONS):
        return "never"
    refused = any(
        isinstance(node, ast.Raise) and _REFUSES_DRAFTS in ast.unparse(node) for node in ast.walk(parsed(tree, OPTIONS))
    )
    return "without drafts" if refused else "always"


_REPLAY = "use_replayssm"
_REFUSES_DRAFTS = "--use-replayssm does not support speculative decoding"


# The parameters of each method in all known forms, without `self` and `cls`. The fields of Features decide what the
# adapter passes. A form that is not listed is not called, so that nothing is guessed.
CONTEXT_FORMS: Mapping[str, Sequence[list[str]]] = {
    "create": [
        ["max_num_reqs", "kv_cache_config", "num_state_types", "device", "make_buffer"],
        ["max_num_reqs", "kv_cache_config", "copy_funcs", "device", "make_buffer"],
    ],
    "initialize_from_forward_context": [
        ["kv_cache_config", "forward_context", "mamba_state_copy_funcs", "block_tables"],
        [
            "kv_cache_config",
            "forward_context",
            "mamba_state_copy_funcs",
            "block_tables",
            "aligned_index_block_tables",
        ],
    ],
    "run_fused_postprocess": [
        [
            "num_reqs",
            "num_accepted_tokens_gpu",
            "mamba_state_idx_gpu",
            "num_scheduled_tokens_gpu",
            "num_computed_tokens_gpu",
            "num_draft_tokens_gpu",
        ]
    ],
    "run_fused_postprocess_align": [
        ["num_reqs", "num_accepted_tokens_gpu", "state_idx_gpu", "new_num_computed_tokens_gpu", "idx_mapping"]
    ],
    "run_fused_precopy": [["num_reqs", "state_idx_gpu", "src_col_gpu", "token_bias_gpu", "idx_mapping"]],
}
_REQUIRED = ("create", "initialize_from_forward_context")


def _check_form(tree: SourceTree, name: str, parameters: list[str], forms: Sequence[list[str]]) -> None:
    if parameters not in forms:
        got = ", ".join(parameters)
        unknown = f"has parameters unknown to the harness: {got}"
        raise NoContext(f"{tree.origin}: {CONTEXT}.{name} {unknown}", f"{CONTEXT}.{name}", f"it {unknown}")


def parameters_of(function: ast.FunctionDef) -> list[str]:
    """Names of the parameters of a function, without `self` and `cls`."""
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def _mapping_bits(tree: SourceTree) -> Literal[32, 64]:
    """The integer type of the mapping in the V2 runner's dummy batch, which is the same in real ones."""
    types = set(_mapping_types(parsed(tree, INPUT_BATCH)))
    if types == {"int32"}:
        return 32
    if types == {"int64"}:
        return 64
    found = ", ".join(sorted(types)) or "none"
    raise UnknownTarget(f"{tree.origin}: cannot find the type of idx_mapping in {INPUT_BATCH} (found: {found})")


def _mapping_types(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if (
            isinstance(node, ast.Assign)
            and [ast.unparse(target) for target in node.targets] == ["idx_mapping"]
            and isinstance(node.value, ast.Call)
        ):
            for keyword in node.value.keywords:
                if keyword.arg == "dtype":
                    yield ast.unparse(keyword.value).removeprefix("torch.")
