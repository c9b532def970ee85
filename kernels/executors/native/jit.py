"""The JIT turns LLVM IR into machine code in this process: llvmlite compiles it to an object and links that.

It links object bytes and not the module, so that a compiled variant and one from the disk cache take the
same path.
"""

from __future__ import annotations

import ctypes
import functools
import os
import weakref

import llvmlite.binding as llvm

from harness.kernels.executors.native.abi import ENTRY_POINT

_Run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


def host() -> str:
    """What machine code depends on: the processor and its features, the compiler's version."""
    features = ",".join(sorted(name for name, present in llvm.get_host_cpu_features().items() if present))
    version = ".".join(str(part) for part in llvm.llvm_version_info)
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features} llvm-{version}"


@functools.cache
def _target(process: int) -> llvm.Target:
    del process  # only a cache key: LLVM is set up once in each process
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


def _machine(optimisation: int) -> llvm.TargetMachine:
    return _target(os.getpid()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=optimisation,
        reloc="pic",
    )


def compile_object(text: str, *, verify: bool, coroutines: bool = False) -> bytes:
    """An object file for a module of LLVM IR. Only the mid-level passes that `coroutines` need run, and code generation
    does not optimise: a variant then compiles five times as fast and its launches take 1.5 times as long, but most
    variants are launched only a few times."""
    machine = _machine(0)
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_process_triple()
    module.data_layout = str(machine.target_data)
    if verify:
        module.verify()
    if coroutines:
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
        builder.getModulePassManager().run(module, builder)
    compiled = machine.emit_object(module)
    module.close()
    assert isinstance(compiled, bytes)
    return compiled


class LoadedCode:
    """An object linked into this process. Its memory is freed when this is dropped."""

    def __init__(self, compiled: bytes) -> None:
        _target(os.getpid())
        module = llvm.parse_assembly("")
        engine = llvm.create_mcjit_compiler(module, _machine(0))
        engine.add_object_file(llvm.ObjectFileRef.from_data(compiled))
        engine.finalize_object()
        self.run = _Run(engine.get_function_address(ENTRY_POINT))
        """Takes the address of a launch record, returns the watch record's fault count."""
        weakref.finalize(self, engine.close)
