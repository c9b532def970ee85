"""Write the TTIR texts that the parser's tests read, with the installed Triton.

Run from the root of the repository, once with each Triton version of the texts:

    python tests/kernels/executors/native/write_ttir.py
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import triton

from harness.kernels.executors.base import dispatching
from harness.kernels.executors.native.executor import NativeExecutor
from harness.kernels.executors.native.frontend import translate

HERE = Path(__file__).parent
FOLDER = HERE / "ttir"
ROOT = HERE.parents[3]

POSTPROCESS = {
    **dict.fromkeys(("accepted", "state_column", "computed", "mapping", "arrivals"), "*i32"),
    **dict.fromkeys(("records", "tiles"), "*i64"),
    "table_stride": "i64",
    **dict.fromkeys(("num_requests", "block_size", "tiles_each"), "i32"),
}
POSTPROCESS_CONSTANTS = {
    **dict.fromkeys(("result", "scheduled", "draft")),
    "IN_PLACE": True,
    "ROWS": 16,
    "MANY_ROWS": 64,
    "LANES": 1024,
}


def signature(kernel: Any, types: dict[str, str]) -> dict[str, str]:
    """Types of all parameters: those not in `types` are constants."""
    return {parameter.name: types.get(parameter.name, "constexpr") for parameter in kernel.params}


def main() -> None:
    """Write one text for each kernel."""
    spec = importlib.util.spec_from_file_location("sample_kernels", HERE / "sample_kernels.py")
    assert spec is not None
    assert spec.loader is not None
    samples = importlib.util.module_from_spec(spec)
    with dispatching(NativeExecutor(cache=None)):
        spec.loader.exec_module(samples)
        postprocess = importlib.import_module("harness.kernels.fused.postprocess")
    pointers = {"x": "*i32", "y": "*i32", "table": "*i32", "rows": "*i32", "out": "*i32"}
    texts = {
        "postprocess": (postprocess.postprocess_kernel, POSTPROCESS, POSTPROCESS_CONSTANTS),
        "copy_bytes": (samples.copy_bytes, {"addresses": "*i64", "size": "i32"}, {"BLOCK": 64}),
        "swap_tensors": (samples.swap_tensors, {**pointers, "times": "i32"}, {"BLOCK": 16}),
        "while_tensor": (samples.while_tensor, {**pointers, "limit": "i32"}, {"BLOCK": 16}),
        "choose": (samples.choose, {**pointers, "flag": "i32"}, {"BLOCK": 16}),
        "gather": (
            samples.gather,
            {**pointers, "row_stride": "i64", "n": "i32"},
            {"BLOCK_R": 4, "BLOCK_C": 8},
        ),
        "cached_store": (samples.cached_store, pointers, {"BLOCK": 16}),
        "fold": (samples.fold, {"x": "*i32", "out": "*i32", "n": "i32"}, {"BLOCK": 16}),
        "claim": (samples.claim, {"counter": "*i32", "out": "*i32"}, {}),
    }
    FOLDER.mkdir(exist_ok=True)
    version = ".".join(triton.__version__.split(".")[:2])
    for name, (kernel, types, constants) in texts.items():
        text = translate(kernel, signature(kernel, types), constants).ttir
        for folder in (ROOT, Path(triton.__file__).parent.parent):  # files do not depend on the machine that wrote them
            text = text.replace(f"{folder}/", "")
        (FOLDER / f"{name}.triton-{version}.ttir").write_text(text)


if __name__ == "__main__":
    main()
