"""Replacements take the place of the parts of vLLM that the code under test imports and really uses.

One table: module, name, replacement. Any other import is a placeholder (placeholders.py), which raises as soon as it
is used.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import triton
import triton.language

from harness.kernels.host_buffer import HostBuffer
from harness.kernels.targets.vllm import specs
from harness.kernels.targets.vllm.model_state import DefaultModelState, ModelSpecificAttnMetadata

ENVS = "vllm.envs"
CONV_LAYOUT_VARIABLE = "VLLM_SSM_CONV_STATE_LAYOUT"


class _Logger(logging.LoggerAdapter[logging.Logger]):
    """A logger with vLLM's `..._once` methods. Silent unless the user configures logging."""

    debug_once = logging.LoggerAdapter.debug
    info_once = logging.LoggerAdapter.info
    warning_once = logging.LoggerAdapter.warning


def _init_logger(name: str) -> _Logger:
    logger = logging.getLogger(f"harness.targets.{name}")
    logger.addHandler(logging.NullHandler())
    return _Logger(logger)


def replacements() -> Mapping[str, Mapping[str, Any]]:
    """The table: `replacements()[module][name]`. New dictionaries each time."""
    return {
        ENVS: {CONV_LAYOUT_VARIABLE: None},
        "vllm.logger": {"init_logger": _init_logger},
        "vllm.triton_utils": {"triton": triton, "tl": triton.language, "HAS_TRITON": True},
        # A debugging aid of 0.28 and later: it marks places that may wait for the device.
        "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": contextlib.nullcontext},
        "vllm.v1.kv_cache_interface": {
            name: getattr(specs, name)
            for name in (
                "KVCacheConfig",
                "KVCacheGroupSpec",
                "KVCacheSpec",
                "AttentionSpec",
                "MambaSpec",
                "UniformTypeKVCacheSpecs",
            )
        },
        "vllm.v1.utils": {"CpuGpuBuffer": HostBuffer},
        "vllm.v1.worker.gpu.model_states.default": {"DefaultModelState": DefaultModelState},
        "vllm.v1.worker.gpu.model_states.interface": {"ModelSpecificAttnMetadata": ModelSpecificAttnMetadata},
    }
