"""Every variant of the fused kernels compiles for a GPU, mutated ones too, and requires nothing that the GPU cannot
do.

No GPU is needed for it. Triton compiles in a child process, which runs this file as a script, because a test process
may have imported it for the interpreter.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.kernels.executors.base import Arena, Executor
from harness.kernels.fused.context import DECIDED, LANES, MANY_TIMES, PROGRAMS_EACH, WARPS
from harness.kernels.fused.context import REGISTERS as MOST_REGISTERS
from harness.kernels.mutations.registry import mutation, mutation_names

ROOT = Path(__file__).parents[3]
PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
COUNTS = "*i32"
VARIANTS: dict[str, tuple[str, dict[str, str], dict[str, object]]] = {
    "postprocess V1": (
        "postprocess_kernel",
        {},
        {"mapping": None, "IN_PLACE": False},
    ),
    **{
        f"postprocess V2 {mapping}": (
            "postprocess_kernel",
            {"mapping": mapping},
            {"result": None, "scheduled": None, "draft": None, "IN_PLACE": True},
        )
        for mapping in ("*i32", "*i64")
    },
    "precopy V1": ("precopy_kernel", {}, {"mapping": None, "HAS_MAPPING": False}),
    **{
        f"precopy V2 {mapping}": ("precopy_kernel", {"mapping": mapping}, {"HAS_MAPPING": True})
        for mapping in ("*i32", "*i64")
    },
}
TYPES = {
    **dict.fromkeys(("records", "tiles"), "*i64"),
    "table_stride": "i64",
    **dict.fromkeys(("num_requests", "block_size", "tiles_each"), "i32"),
}
REGISTERS, THREADS = 1 << 16, 32
"""Registers of a multiprocessor, and threads of a warp."""
SPILLED_BYTES = 64
"""Bytes of a thread's registers that may have no room: so few are those of tiles that are hardly ever copied."""
MUTATED = [f"postprocess V1 of {name}" for name in mutation_names()]


pytestmark = pytest.mark.long

Assembly = dict[str, dict[str, str]]
"""By variant: its assembly, the representation before that, and the registers and stack of a thread."""


def compile_all(variants: list[str], cache: Path) -> Assembly:
    environment = os.environ | {"PYTHONPATH": PATH, "TRITON_CACHE_DIR": str(cache)}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, __file__, *variants]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: Assembly = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return compile_all(list(VARIANTS), tmp_path_factory.mktemp("triton"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_compiles_for_hopper(assembly: Assembly, variant: str) -> None:
    assert re.search(r"\.target sm_90a?\b", assembly[variant]["ptx"])


@pytest.mark.slow
@pytest.mark.parametrize("variant", MUTATED)
def test_compiles_for_hopper_with_a_fault(tmp_path: Path, variant: str) -> None:
    assert re.search(r"\.target sm_90a?\b", compile_all([variant], tmp_path)[variant]["ptx"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_plain_tiles_are_copied_sixteen_bytes_at_a_time(assembly: Assembly, variant: str) -> None:
    """A wide access elsewhere would be misaligned for some tensor. Sixteen of them move a tile of 2048 lanes."""
    accesses = re.findall(r"\b(ld|st)\.global(\S*)", assembly[variant]["ptx"])
    wide = [access for access in accesses if ".v2" in access[1] or ".v4" in access[1] or "b128" in access[1]]
    assert sorted(kind for kind, _ in wide) == ["ld"] * 8 + ["st"] * 8
    assert all(how.endswith("v2.b64") for _, how in wide)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_lane_stays_with_its_thread(assembly: Assembly, variant: str) -> None:
    """A same-block shift is safe because one thread owns each column from load to store. Its tensors have 256 lanes."""
    ttgir = assembly[variant]["ttgir"]
    assert re.search(r"tt\.store .*tensor<256x!tt\.ptr<i16>", ttgir)
    assert not re.search(r"ttg\.convert_layout .*tensor<256x", ttgir)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_multiprocessor_holds_all_its_programs(assembly: Assembly, variant: str) -> None:
    each = int(assembly[variant]["registers"]) * THREADS * WARPS
    assert REGISTERS // each >= PROGRAMS_EACH
    assert int(assembly[variant]["stack"]) <= SPILLED_BYTES


class CompilingExecutor(Executor):
    """Makes kernels that can be compiled, and never launches one."""

    name = "compiling"

    @classmethod
    def unavailable(cls) -> str | None:
        return None

    def allocate(self, size: int) -> Arena:
        raise NotImplementedError

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        from triton.runtime.jit import JITFunction

        return JITFunction(function, **options)


def compiled(kernel: Any, types: dict[str, str], constants: dict[str, object]) -> dict[str, str]:
    from triton import compile as compile_kernel
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    constants = {**constants, "ROWS": DECIDED, "MANY_ROWS": MANY_TIMES * DECIDED, "LANES": LANES}
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    types = {
        name: "constexpr" if name in constants else types.get(name, TYPES.get(name, COUNTS))
        for name in kernel.arg_names
    }
    options = {"num_warps": WARPS, "maxnreg": MOST_REGISTERS}
    result = compile_kernel(ASTSource(kernel, types, constants), target=GPUTarget("cuda", 90, 32), options=options)
    return {"ptx": result.asm["ptx"], "ttgir": result.asm["ttgir"], **_resources(result.asm["cubin"])}


def _resources(cubin: bytes) -> dict[str, str]:
    """The registers that the assembler gave each thread, and the bytes of its stack, where it spills others."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        dumped = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True)
    (used,) = re.findall(r"REG:(\d+) STACK:(\d+)", dumped.stdout)
    return dict(zip(("registers", "stack"), used, strict=True))


def main(variants: list[str]) -> None:
    """Compile the variants of these names, and print their assembly as JSON."""
    from harness.kernels.targets.builtin import load_kernels

    found = {}
    for variant in variants:
        plain, _, fault = variant.partition(" of ")
        modules = load_kernels(CompilingExecutor(), [mutation(fault)] if fault else ())
        kernel, types, constants = VARIANTS[plain]
        found[variant] = compiled(getattr(modules, kernel), types, constants)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
