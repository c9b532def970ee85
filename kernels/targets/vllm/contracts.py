"""Contracts: inputs that a version of vLLM documents as unsupported. Such a case is skipped, never judged.

Every contract is based on an assertion, a raised error or a docstring of that version, which its message names. A bug
of a version is not a contract. There are two sorts: features that are newer than the version (TargetLacks: models with
such states could not be served at all, reachable or not), and bounds on addresses that its own allocator always
observes (OutsideContract: never a reachable case).
"""

from __future__ import annotations

from collections.abc import Callable

from harness.case import ConvState, Layout
from harness.kernels.targets.base import LayoutTensors, OutsideContract, TargetLacks
from harness.kernels.targets.vllm.features import Features
from harness.kernels.targets.vllm.runner import Runner


def check_layout(features: Features, refuses_dim_first: str | None, layout: Layout, tensors: LayoutTensors) -> None:
    """Raise TargetLacks or OutsideContract if this version does not support such memory.

    `refuses_dim_first` is the message with which its own copy function refuses DS states, if it does.
    """
    has_conv = any(isinstance(state, ConvState) for _, state in layout.states())
    if layout.conv_layout == "DS" and has_conv and not features.dim_first:
        why = f"get_conv_copy_spec says: {refuses_dim_first}" if refuses_dim_first else "its kernels have no such case"
        raise TargetLacks(f"conv states in DS layout came with vllm 0.24.0; {why}")
    required = features.temporal_alignment
    if required == 1:
        return
    for (g, l, s), state in layout.states():  # noqa: E741 - l is the layer throughout
        if isinstance(state, ConvState):
            continue
        tensor = tensors.states[g][l][s]
        if tensor.data_ptr() % required or state.block_stride % required:
            raise OutsideContract(
                f"initialize_from_forward_context asserts that addresses and block strides of temporal states are "
                f"multiples of {required}: group {g} layer {l} state {s}"
            )


def check_groups(features: Features, runner: Runner, validate: Callable[[], object]) -> None:
    """Raise TargetLacks if this version needs all Mamba groups equal and they are not, or copies every cache tensor.

    `validate` asks the version itself whether it accepts copy functions for only some of a layer's tensors.
    """
    if features.states_per_layer:
        if any(len(spec.shapes) > len(kinds) for spec, kinds in zip(runner.specs, runner.layer_kinds, strict=True)):
            try:
                validate()
            except AssertionError as error:
                raise TargetLacks(
                    "cache tensors that are not copied came with vllm 0.30.0; "
                    f"validate_mamba_state_copy_funcs says: {error}"
                ) from error
        return
    specs = runner.specs
    if any(spec != specs[0] for spec in specs):
        raise TargetLacks(
            "Mamba layers that differ came with vllm 0.29.0; get_mamba_groups asserts that all groups have one spec"
        )
    kinds = runner.layer_kinds[0]
    if any(len(spec.shapes) > len(kinds) for spec in specs):
        raise TargetLacks("cache tensors that are not copied came with vllm 0.30.0")
