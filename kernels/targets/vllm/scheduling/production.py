"""Production's defaults of the loaded release, as its own code decides them.

Nothing is written by hand here: fields have the defaults of the release's classes; the default runner, asynchronous
scheduling and prefix caching are decided by its own functions, which run on configurations of a hybrid model on a GPU.
Checkpoints are what layers say of themselves where the release makes their specification: that is read from its sources
where such a class cannot be imported without a GPU's packages.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

from harness.case.operations import Runner
from harness.case.production_defaults import GRID, Alignment, DeclaredLayers, ProductionDefaults
from harness.case.sequence import Layers, SpecMethod
from harness.kernels.targets.vllm.bare import bare, source_of
from harness.kernels.targets.vllm.python_text import NotPythonText, python_text
from harness.kernels.targets.vllm.scheduling.engine import V2_VARIABLE, hybrid_model, speculative_of
from harness.kernels.targets.vllm.scheduling.loading import base_source, module, own_source
from harness.kernels.targets.vllm.scheduling.recognised import Place
from harness.refusal import UnknownTarget
from harness.text import one_line

METHODS: tuple[SpecMethod, ...] = get_args(SpecMethod)
RUNNERS: tuple[Runner, ...] = ("V1", "V2")

_LAYERS: dict[str, Layers] = {"mamba_mixer2": "mamba2", "kda": "kda", "gdn": "gated-delta-net"}
"""Kinds of layers, by a part of the path of the file that defines them."""


class DefaultsUnknown(Exception):
    """The release, or a checkout, decides about its defaults in a place that is not known here; the message says
    where it was looked for."""


@functools.cache
def production_defaults() -> ProductionDefaults:
    """The defaults of what is loaded. Raises DefaultsUnknown."""
    try:
        return _defaults()
    except (
        AttributeError,
        NameError,
        TypeError,
        AssertionError,
        SyntaxError,
        NotPythonText,
        UnknownTarget,
    ) as error:
        raise DefaultsUnknown(one_line(error)) from error


def _defaults() -> ProductionDefaults:
    configs = module("vllm.config")
    cache, scheduling = bare(configs.CacheConfig), bare(configs.SchedulerConfig)
    return ProductionDefaults(
        retention=getattr(cache, "prefix_cache_retention_interval", None),
        match_unit=getattr(cache, "prefix_match_unit", None),
        shared_prefix_checkpoint=bool(getattr(cache, "enable_mamba_shared_prefix_checkpoint", False)),
        policy=scheduling.policy,
        prefill_threshold=int(scheduling.long_prefill_token_threshold),
        runners={method: _default_runner(method) for method in METHODS},
        methods={runner: [method for method in METHODS if _takes(runner, method)] for runner in RUNNERS},
        asynchronous={runner: [method for method in METHODS if _is_asynchronous(runner, method)] for runner in RUNNERS},
        layers=tuple(
            DeclaredLayers(layers, alignment, _caches_by_default(layers)) for layers, alignment in _declared()
        ),
        streams=_keeps_streamed_tokens(),
    )


def _keeps_streamed_tokens() -> bool:
    """Whether a session drops its last token alone where a turn stops (0.33): its tokens are counted, not those that
    are computed, which before that included tokens trimmed at the stop."""
    place = Place("vllm.v1.core.sched.scheduler", "Scheduler._update_request_as_session")
    return "session.num_tokens - 1" in place.text(base_source())


# Runner and scheduling.


@contextlib.contextmanager
def _on_a_gpu(runner: Runner | None) -> Iterator[None]:
    """As on a machine that has Triton; `runner` is asked for, None: nothing is."""
    config = module("vllm.config.vllm")
    before, triton = os.environ.get(V2_VARIABLE), config.HAS_TRITON
    config.HAS_TRITON = True
    os.environ.pop(V2_VARIABLE, None)
    if runner is not None:
        os.environ[V2_VARIABLE] = "1" if runner == "V2" else "0"
    try:
        yield
    finally:
        config.HAS_TRITON = triton
        os.environ.pop(V2_VARIABLE, None)
        if before is not None:
            os.environ[V2_VARIABLE] = before


def _vllm_config(method: SpecMethod) -> Any:
    """The configuration of a hybrid model, with drafts by a method, in which everything else has its default."""
    configs = module("vllm.config")
    attention = getattr(configs, "AttentionConfig", None)
    return bare(
        configs.VllmConfig,
        model_config=hybrid_model(4096),
        cache_config=bare(configs.CacheConfig),
        scheduler_config=bare(configs.SchedulerConfig, async_scheduling=None, is_encoder_decoder=False),
        parallel_config=bare(configs.ParallelConfig),
        attention_config=SimpleNamespace(hisparse_config=None) if attention is None else bare(attention),
        speculative_config=None if method == "none" else speculative_of(method, 2, 4096),
        lora_config=None,
        kv_transfer_config=None,
        ec_transfer_config=None,
        compilation_config=bare(configs.CompilationConfig),
    )


def _default_runner(method: SpecMethod) -> Runner:
    with _on_a_gpu(None):
        return "V2" if _vllm_config(method).use_v2_model_runner else "V1"


def _takes(runner: Runner, method: SpecMethod) -> bool:
    """Whether the release starts with this runner and this drafting method."""
    config = _vllm_config(method)
    features = getattr(config, f"_get_{runner.lower()}_model_runner_unsupported_features", None)
    with _on_a_gpu(runner):
        return features is None or not features()


def _is_asynchronous(runner: Runner, method: SpecMethod) -> bool:
    """What the release's own statements make of a setting that the user leaves out."""
    config = _vllm_config(method)
    with _on_a_gpu(runner):
        _async_rule()(config)
    return bool(config.scheduler_config.async_scheduling)


@functools.cache
def _async_rule() -> Any:
    """The part of the release's `VllmConfig.__post_init__` that decides about asynchronous scheduling, as a function:
    from where the executor is asked to the end of that decision. The executor is that of one process, which can."""
    config = module("vllm.config.vllm")
    function = ast.parse(textwrap.dedent(source_of(config.VllmConfig.__post_init__))).body[0]
    assert isinstance(function, ast.FunctionDef)
    start = end = 0
    for i, statement in enumerate(function.body):
        text = ast.unparse(statement)
        if text.startswith("executor_supports_async_sched ="):
            start = i + 1
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "self.scheduler_config.async_scheduling":
            end = end or i + 1
    assert 0 < start < end, "the release decides about asynchronous scheduling elsewhere"
    supported = ast.parse("executor_supports_async_sched = True\nexecutor_backend = 'uni'").body
    imports = [
        one for one in function.body[:start] if isinstance(one, ast.ImportFrom) and "platform" in str(one.module)
    ]
    function.body = [*imports, *supported, *function.body[start:end]]
    function.name, function.decorator_list = "decide", []
    local: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(ast.Module([function], [])), "<VllmConfig>", "exec"), vars(config), local)
    return local["decide"]


# Layers.


def _caches_by_default(layers: Layers) -> bool:
    """Whether states of such layers are cached at block boundaries if nothing is set: prefix caching is on by default,
    and its mode is `align`."""
    config = _vllm_config("none")
    model = config.model_config
    kind = type(model)
    model = bare(
        type("Hybrid", (kind,), {"attn_type": "hybrid", "supports_mamba_prefix_caching": layers == "mamba2"}),
        **{**vars(model), "pooler_config": None},
    )
    if not model.is_prefix_caching_supported:
        return False
    cache = bare(type(config.cache_config), enable_prefix_caching=True, mamba_cache_mode="none", block_size=16)
    scheduling = SimpleNamespace(enable_chunked_prefill=True)
    rule = module("vllm.model_executor.models.config").MambaModelConfig.verify_and_update_config
    rule(SimpleNamespace(model_config=model, cache_config=cache, scheduler_config=scheduling))
    return bool(cache.mamba_cache_mode == "align")


def _declared() -> list[tuple[Layers, Alignment]]:
    """Kinds of layers with the checkpoints that they declare, those without first. Layers of gated delta nets and of
    KDA have back ends that export none; those of Mamba2 declare the same whatever runs them."""
    tree = own_source().directory / "vllm"
    found: dict[Layers, set[Alignment]] = {"mamba2": set(), "gated-delta-net": {None}, "kda": {None}}
    for path in _files_of_layers(tree):
        layers = _layers_of(path.relative_to(tree))
        if layers is not None:
            found[layers] |= set(_alignments(path))
    found["mamba2"] = found["mamba2"] or {None}
    return [(layers, one) for layers, some in found.items() for one in sorted(some, key=_order)]


def _order(alignment: Alignment) -> tuple[bool, str]:
    return alignment is not None, str(alignment)


def _files_of_layers(tree: Path) -> Iterator[Path]:
    for folder in (tree / "model_executor" / "layers" / "mamba", tree / "models"):
        yield from sorted(folder.rglob("*.py"))


def _layers_of(path: Path) -> Layers | None:
    names = {*path.parent.parts, path.stem}
    return next((layers for part, layers in _LAYERS.items() if part in names), None)


def _alignments(path: Path) -> Iterator[Alignment]:
    """What the file's `get_kv_cache_spec` gives for `prefill_checkpoint_alignment`, where it gives something."""
    text = python_text(path)
    if "prefill_checkpoint_alignment=" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == "get_kv_cache_spec":
            for call in ast.walk(node):
                for keyword in call.keywords if isinstance(call, ast.Call) else ():
                    if keyword.arg == "prefill_checkpoint_alignment":
                        yield from _values(keyword.value, node)


def _values(value: ast.expr, function: ast.FunctionDef) -> Iterator[Alignment]:
    """The numbers that an expression can be: a constant, a choice, a name that was assigned, a function of the release
    that knows a number for a back end, or the grid of cached prefixes."""
    if isinstance(value, ast.Constant) and isinstance(value.value, int | None):
        yield cast(Alignment, value.value)
    elif isinstance(value, ast.IfExp):
        yield from _values(value.body, function)
        yield from _values(value.orelse, function)
    elif isinstance(value, ast.Name):
        yield from _assigned(value.id, function)
    elif isinstance(value, ast.Call):
        name = ast.unparse(value.func)
        if name.endswith("checkpoint_grid"):
            yield GRID
        else:
            yield from _numbers_in(name)


def _assigned(name: str, function: ast.FunctionDef) -> Iterator[Alignment]:
    """What a name is: a variable of the function, or a constant of a file of layers."""
    places: list[ast.AST] = [function]
    if name.isupper():
        files = (python_text(path) for path in _files_of_layers(own_source().directory / "vllm"))
        places = [ast.parse(text) for text in files if f"{name} = " in text]
    for place in places:
        for node in ast.walk(place):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                yield from _values(node.value, function)


def _numbers_in(function: str) -> Iterator[Alignment]:
    """The numbers that a function of the release's layers returns, by its source."""
    for path in _files_of_layers(own_source().directory / "vllm"):
        text = python_text(path)
        if f"def {function}(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name == function:
                for returned in ast.walk(node):
                    if isinstance(returned, ast.Return) and returned.value is not None:
                        yield from _values(returned.value, node)
