"""A transfer is a copy from host to device memory that the host does not wait for.

Until the device has been waited for, nobody knows when it happens: a host that writes the same memory again races with
it. On the CPU every transfer happens as late as is legal, just before the next launch, so that such a write shows in
what kernels read; and the bytes are looked at again when the device is waited for, so that one that came later shows as
well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class Transfers:
    """Transfers of one executor, in order. `late_writes` names those whose source was written too early."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self._in_flight: list[tuple[str, torch.Tensor, torch.Tensor]] = []
        self.late_writes: list[str] = []

    def start(self, name: str, source: torch.Tensor, destination: torch.Tensor) -> None:
        """Copy host memory to the device, some time before the next launch."""
        if destination.is_cuda:
            destination.copy_(source, non_blocking=True)
        else:
            self._waiting.append((name, source, source.clone(), destination))

    def finish(self) -> None:
        """Let everything started so far happen: a launch comes next."""
        for name, source, promised, destination in self._waiting:
            destination.copy_(source)
            self._in_flight.append((name, source, promised))
        self._waiting.clear()

    def wait(self) -> None:
        """The device is waited for: from here on the host may write again."""
        self.finish()
        for name, source, promised in self._in_flight:
            if not source.equal(promised):
                self.late_writes.append(name)
        self._in_flight.clear()

    def forget(self) -> None:
        """Forget what was seen, and what a call that failed half-way has left."""
        self._waiting.clear()
        self._in_flight.clear()
        self.late_writes.clear()
