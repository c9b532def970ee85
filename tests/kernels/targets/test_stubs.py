"""Stubs: what production imports and we do not have may be named, but not used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.kernels.executors.base import Arena, Executor
from harness.kernels.targets.vllm.importing import Finder, import_under_test, install, uninstall
from harness.kernels.targets.vllm.placeholders import NotReplaced, placeholder
from harness.refusal import UnknownTarget

ROOT = Path(__file__).parents[3]
WORKER = "vllm/v1/worker/code.py"
HELPER = "vllm/utils/helper.py"


class PlainExecutor(Executor):
    """Kernels stay functions."""

    name = "plain"

    @classmethod
    def unavailable(cls) -> str | None:
        return None

    def allocate(self, size: int) -> Arena:
        raise NotImplementedError

    def jit(self, function: Any, **options: Any) -> Any:
        return function


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before
    for name in [name for name in sys.modules if name == "vllm" or name.startswith("vllm.")]:
        del sys.modules[name]


def load(source: str, stubbed: dict[str, dict[str, Any]] | None = None) -> Any:
    sources = {WORKER: source, HELPER: "def double(n):\n    return 2 * n\n"}
    install(Finder(sources, {}, stubbed or {}, PlainExecutor()))
    return import_under_test("the sample", WORKER)


def test_a_placeholder_may_be_named() -> None:
    thing = placeholder("vllm.config", "Thing")
    assert not isinstance(3, thing)
    assert (thing | None) is not None
    assert thing[int] is thing
    assert list[thing] is not None

    class Derived(thing):  # type: ignore[misc, valid-type]
        pass

    assert issubclass(Derived, thing)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda thing: thing(), "vllm.config.Thing was called"),
        (lambda thing: thing.field, "vllm.config.Thing.field was read"),
        (lambda thing: getattr(thing, "field", None), "vllm.config.Thing.field was read"),
        (lambda thing: hasattr(thing, "field"), "vllm.config.Thing.field was read"),
        (lambda thing: type("Derived", (thing,), {})(), "Derived was called"),
    ],
)
def test_a_placeholder_may_not_be_used(use: Any, message: str) -> None:
    with pytest.raises(NotReplaced, match=message):
        use(placeholder("vllm.config", "Thing"))


def test_real_modules_replacements_and_placeholders_together() -> None:
    module = load(
        "import vllm.envs as envs\n"
        "from vllm import envs as again\n"
        "from vllm.config import Config\n"
        "from vllm.utils.helper import double\n"
        "from vllm.far.away import Other\n"
        "def run(config: Config | None, other: Other = None):\n"
        "    return double(envs.LEVEL), envs is again\n",
        {"vllm.envs": {"LEVEL": 4}},
    )
    assert module.run(None) == (8, True)
    assert module.__name__ == "vllm.v1.worker.code"
    with pytest.raises(NotReplaced, match=r"vllm\.config\.Config was called"):
        module.Config()


def test_using_a_placeholder_while_loading_refuses_the_target() -> None:
    with pytest.raises(UnknownTarget, match=r"^the sample: .*code\.py does not load: vllm\.config\.config was called"):
        load("from vllm.config import config\n@config\nclass Settings:\n    pass\n")


def test_a_process_serves_one_target() -> None:
    load("")
    with pytest.raises(RuntimeError, match="one process serves one target"):
        load("")


def test_a_target_that_did_not_load_leaves_the_process_free() -> None:
    finder = Finder({WORKER: "import vllm.config\n"}, {}, {}, PlainExecutor())
    install(finder)
    import_under_test("the sample", WORKER)
    uninstall(finder)
    assert finder not in sys.meta_path
    load("VALUE = 1\n")


def test_device_memory_comes_from_the_allocator() -> None:
    program = (
        "import torch\n"
        "from harness.kernels.targets.vllm.allocation import Allocations, attribute_names\n"
        "served = []\n"
        "def allocate(name, shape, dtype):\n"
        "    served.append((name, tuple(shape), str(dtype)))\n"
        "    return torch.full(tuple(shape), 77, dtype=dtype, device='cpu')\n"
        "def start(name, source, destination):\n"
        "    destination.copy_(source)\n"
        "device = torch.device('cpu')\n"
        "with Allocations(device, allocate, start, ['first', 'second']) as allocations:\n"
        "    a = torch.zeros(3, dtype=torch.int32, device=device)\n"
        "    b = torch.empty((2, 2), dtype=torch.int64, device=device)\n"
        "    c = torch.full((2,), 5, dtype=torch.int32, device=device)\n"
        "    host = torch.zeros(4)\n"
        "    buffer = allocations.make_buffer(2, dtype=torch.int32)\n"
        "assert a.tolist() == [0, 0, 0] and b.tolist() == [[77, 77], [77, 77]] and c.tolist() == [5, 5]\n"
        "assert host.tolist() == [0, 0, 0, 0] and buffer.gpu.tolist() == [0, 0]\n"
        "buffer.np[:] = 9, 8\n"
        "assert buffer.copy_to_gpu(1).tolist() == [9] and buffer.gpu.tolist() == [9, 0]\n"
        "class Owner: pass\n"
        "owner = Owner(); owner.x, owner.y = c, buffer\n"
        "assert attribute_names({'': owner}, allocations.served) == ['private 0', 'private 1', 'x', 'y']\n"
        "print(served)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT, timeout=1800
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(
        [
            ("first", (3,), "torch.int32"),
            ("second", (2, 2), "torch.int64"),
            ("private 2", (2,), "torch.int32"),
            ("private 3", (2,), "torch.int32"),
        ]
    )
