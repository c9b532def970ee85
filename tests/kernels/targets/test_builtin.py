"""The builtin target loads every file of our fused kernels."""

from __future__ import annotations

import pytest

from harness.kernels.executors.registry import default_executor_name, executor_class
from harness.kernels.targets import builtin


def test_a_kernel_file_that_is_not_listed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be imported without the executor, and launch nothing that is checked."""
    monkeypatch.setattr(builtin, "_MODULES", tuple(name for name in builtin._MODULES if name != "host"))
    with pytest.raises(RuntimeError, match=r"kernels/fused has host, which _MODULES in .* does not list"):
        builtin.load_kernels(executor_class(default_executor_name())(), ())
