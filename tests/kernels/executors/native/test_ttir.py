"""The parser: texts of two Triton versions, and the refusal of anything unknown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.kernels.executors.base import AccessSpan, ExecutorCannot
from harness.kernels.executors.native import jit
from harness.kernels.executors.native.cache import CompiledVariant
from harness.kernels.executors.native.emit import EmitOptions, emit
from harness.kernels.executors.native.ir import Operation, Region
from harness.kernels.executors.native.runtime import Watch
from harness.kernels.executors.native.source_lines import LocationTable, SourceLine, function_at
from harness.kernels.executors.native.ttir import parse
from harness.kernels.executors.native.types import Float, Integer, Pointer, Tensor, parse_type
from harness.kernels.executors.native.variant import KernelVariant

TEXTS = Path(__file__).with_name("ttir")
OPTIONS = EmitOptions(checks=True, lines=True)
NAMES = sorted({path.name.split(".")[0] for path in TEXTS.glob("*.ttir")})


def text_of(name: str, version: str = "3.9") -> str:
    return (TEXTS / f"{name}.triton-{version}.ttir").read_text()


def operations(region: Region) -> Iterator[Operation]:
    for block in region.blocks:
        for operation in block.operations:
            yield operation
            for inner in operation.regions:
                yield from operations(inner)


@pytest.mark.parametrize("version", ["3.6", "3.9"])
@pytest.mark.parametrize("name", NAMES)
def test_stored_texts_compile(name: str, version: str) -> None:
    function = parse(text_of(name, version))
    emitted = emit(function, OPTIONS)
    assert jit.compile_object(emitted.llvm, verify=True)
    kinds = ("tt.load", "tt.store", "tt.atomic_rmw")
    sites = [
        operation
        for operation in operations(function.body)
        if operation.name in kinds or int(operation.attributes.get("divisibility", 1)) > 1
    ]
    assert len(emitted.sites) == len(sites) > 0
    assert all(site.line is not None and site.line.line > 0 for site in emitted.sites)
    assert emitted.blocks


@pytest.mark.parametrize("name", NAMES)
def test_two_triton_versions_give_the_same(name: str) -> None:
    old, new = (parse(text_of(name, version)) for version in ("3.6", "3.9"))
    assert [
        (operation.name, operation.types, operation.attributes)
        for operation in operations(old.body)
        if operation.name != "arith.constant"
    ] == [
        (operation.name, operation.types, operation.attributes)
        for operation in operations(new.body)
        if operation.name != "arith.constant"
    ]


def test_lines_are_those_of_inlined_functions() -> None:
    emitted = emit(parse(text_of("postprocess")), OPTIONS)
    files = {site.line.file for site in emitted.sites if site.line}
    assert files == {f"harness/kernels/fused/{name}.py" for name in ("postprocess", "moves", "copy")}


BARRIER = "ttg.barrier all loc"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (BARRIER, "ttg.barrier global_read loc", "does not know this form of ttg.barrier"),
        (BARRIER, "ttg.local_dealloc loc", "does not know the operation ttg.local_dealloc"),
        ("arith.cmpi slt", "arith.cmpi about", "this form of arith.cmpi"),
        ("tt.splat", "tt.splat_twice", "the operation tt.splat_twice"),
        ("tensor<64xi32>", "tensor<64xi24>", "no type i24"),
        ("tensor<64x!tt.ptr<i8>>", "tensor<64x!tt.ptr<i8>, #blocked>", "no type"),
        ("end = 64 : i32", "finish = 64 : i32", "this form of tt.make_range"),
        ("scf.for", "scf.forall", "the operation scf.forall"),
        ("tt.return", "tt.call @other() : () -> ()", "the operation tt.call"),
        ("module {", 'module attributes {"ttg.num-warps" = 4 : i32} {', "a module header"),
        ("attributes {noinline = false} {", "{", "a function"),
        ("#loc1 = loc(", "#loc1 = elsewhere(", "cannot read the location"),
        ('loc("lanes"(#loc5))', "loc(somewhere else)", "cannot read the location"),
    ],
)
def test_what_is_not_known_is_refused(old: str, new: str, complaint: str) -> None:
    text = text_of("copy_bytes")
    assert old in text
    with pytest.raises(ExecutorCannot, match=complaint) as caught:
        parse(text.replace(old, new))
    assert "\n" not in str(caught.value)


def test_refusals_name_the_kernel_line() -> None:
    text = text_of("copy_bytes").replace("ttg.barrier all", "ttg.unheard_of")
    with pytest.raises(ExecutorCannot, match=r"sample_kernels\.py:\d+, in \w*\): ttg\.unheard_of"):
        parse(text)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_text_that_ends_early_is_refused(keep: float) -> None:
    lines = [line for line in text_of("choose").splitlines() if not line.startswith("#")]
    aliases = [line for line in text_of("choose").splitlines() if line.startswith("#")]
    with pytest.raises(ExecutorCannot):
        parse("\n".join([*lines[: int(len(lines) * keep)], *aliases]))


def test_two_functions_are_refused() -> None:
    text = text_of("copy_bytes")
    start, end = text.index("  tt.func"), text.index("  } loc(#loc)\n}") + len("  } loc(#loc)\n")
    function = text[start:end]
    with pytest.raises(ExecutorCannot, match="were not inlined"):
        parse(text.replace(function, function + function))


def test_types() -> None:
    assert parse_type("i32") == Integer(32)
    assert parse_type("tensor<4x1x8xi1>") == Tensor((4, 1, 8), Integer(1))
    assert parse_type("tensor<16x!tt.ptr<bf16>>") == Tensor((16,), Pointer(Float("bf16", 16)))
    for text in ("tensor<?xi32>", "!tt.ptr<!tt.ptr<i8>>", "memref<4xi32>", "i7", "!tt.tensordesc<tensor<4xi8>>"):
        with pytest.raises(ExecutorCannot):
            parse_type(text)


def test_locations(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text("@jit\ndef outer(x):\n    inner(x)\n\n\n@jit(\n    option=1,\n)\ndef inner(x):\n    return x\n")
    assert [function_at(str(file), line) for line in (1, 3, 4, 6, 9, 10)] == ["outer"] * 3 + ["inner"] * 3
    from triton.language import standard

    table = LocationTable(
        [
            f'#loc = loc("{file}":10:5)',
            f'#loc1 = loc("{file}":3:5)',
            "#loc2 = loc(callsite(#loc at #loc1))",
            f'#loc3 = loc("{standard.__file__}":1:1)',
            "#loc4 = loc(callsite(#loc3 at #loc2))",
            '#loc5 = loc("name (of)"(#loc4))',
            "#loc6 = loc(unknown)",
            "#loc7 = loc(fused[#loc6, #loc1])",
            f'#loc8 = loc("{file}":3:5 to 3:9)',
        ]
    )
    inner, outer = SourceLine(str(file), "inner", 10), SourceLine(str(file), "outer", 3)
    assert table.line("#loc2") == inner
    assert table.line("#loc5") == inner
    assert table.line("#loc6") is None
    assert table.line("#loc7") == table.line("#loc8") == outer
    library = table.line("#loc3")
    assert library is not None
    assert library.file == standard.__file__


def run(text: str, memory: np.ndarray, *arguments: int) -> KernelVariant:
    """Run a kernel given as TTIR; its first argument is the address of `memory`, which it may touch."""
    function = parse(text)
    emitted = emit(function, OPTIONS)
    compiled = CompiledVariant(
        jit.compile_object(emitted.llvm, verify=True), len(function.arguments), emitted.sites, emitted.blocks
    )
    variant, watch = KernelVariant(function.name, compiled, OPTIONS), Watch()
    watch.begin(memory.ctypes.data, [AccessSpan(0, memory.nbytes, "memory", "memory")])
    words = [memory.ctypes.data, *(argument & (1 << 64) - 1 for argument in arguments)]
    assert variant.launch((1, 1, 1), 0, watch.address, words) == 0
    return variant


FIBONACCI = """
module {
  tt.func public @fibonacci(%out: !tt.ptr<i32>, %n: i32) attributes {noinline = false} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %lanes = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    cf.br ^bb1(%zero, %one, %n, %lanes : i32, i32, i32, tensor<4xi32>)
  ^bb1(%a: i32, %b: i32, %left: i32, %t: tensor<4xi32>):  // 2 preds: ^bb0, ^bb2
    %done = arith.cmpi eq, %left, %zero : i32
    cf.cond_br %done, ^bb3(%a, %t : i32, tensor<4xi32>), ^bb2
  ^bb2:  // pred: ^bb1
    %sum = arith.addi %a, %b : i32
    %less = arith.subi %left, %one : i32
    %ones = tt.splat %b : i32 -> tensor<4xi32>
    %u = arith.addi %t, %ones : tensor<4xi32>
    cf.br ^bb1(%b, %sum, %less, %u : i32, i32, i32, tensor<4xi32>)
  ^bb3(%result: i32, %v: tensor<4xi32>):  // pred: ^bb1
    %start = tt.splat %out : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %places = tt.addptr %start, %lanes : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    %r = tt.splat %result : i32 -> tensor<4xi32>
    %w = arith.muli %v, %r : tensor<4xi32>
    tt.store %places, %w : tensor<4x!tt.ptr<i32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("n", [0, 1, 7])
def test_arguments_of_blocks(n: int) -> None:
    memory = np.zeros(4, dtype=np.int32)
    run(FIBONACCI, memory, n)
    a, b, t = 0, 1, np.arange(4)
    for _ in range(n):
        a, b, t = b, a + b, t + b
    assert memory.tolist() == (t * a).tolist()


SIBLINGS = """
module {
  tt.func public @siblings(%out: !tt.ptr<i32>, %flag: i1) attributes {noinline = false} {
    %one = arith.constant 1 : i32
    scf.if %flag {
      %x = arith.addi %one, %one : i32
      tt.store %out, %x : !tt.ptr<i32>
    } else {
      %x = arith.subi %one, %one : i32
      tt.store %out, %x : !tt.ptr<i32>
    }
    scf.if %flag {
      %x = tt.addptr %out, %one : !tt.ptr<i32>, i32
      tt.store %x, %one : !tt.ptr<i32>
    }
    tt.return
  }
}
"""


def test_sibling_regions_may_use_a_name_again() -> None:
    memory = np.full(2, 9, dtype=np.int32)
    run(SIBLINGS, memory, 1)
    assert memory.tolist() == [2, 1]
    run(SIBLINGS, memory, 0)
    assert memory.tolist() == [0, 1]


UNSIGNED = """
module {
  tt.func public @unsigned(%out: !tt.ptr<i32>, %start: i32, %stop: i32, %step: i32) attributes {noinline = false} {
    %zero = arith.constant 0 : i32
    %total = scf.for unsigned %i = %start to %stop step %step iter_args(%sum = %zero) -> (i32)  : i32 {
      %next = arith.addi %sum, %i overflow<nsw> : i32
      scf.yield %next : i32
    }
    tt.store %out, %total : !tt.ptr<i32>
    tt.return
  }
}
"""


def test_unsigned_loops() -> None:
    memory = np.zeros(1, dtype=np.int32)
    # Signed, the loop would not run at all; with these steps it ends before it wraps around.
    run(UNSIGNED, memory, 5, -0x20000000, 0x50000000)
    assert memory[0] == np.array([5, 0x50000005, 0xA0000005]).sum().astype(np.int32)


def test_lines_of_a_text_without_locations() -> None:
    assert run(SIBLINGS, np.zeros(2, dtype=np.int32), 1).all_lines() == set()
