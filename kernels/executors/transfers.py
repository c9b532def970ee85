"""A transfer is an asynchronous copy from host to device memory: the host does not wait for it.

Until the host waits for the device, it is unknown when the copy happens: a host that writes the same memory again races
with it. On the CPU every transfer happens as late as is legal, just before the next launch, so that such a write shows
in what kernels read. The bytes are compared again when the host waits for the device, so that a later write shows as
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
        """Perform all transfers started so far: a launch comes next."""
        for name, source, promised, destination in self._waiting:
            destination.copy_(source)
            self._in_flight.append((name, source, promised))
        self._waiting.clear()

    def wait(self) -> None:
        """The host waits for the device: from now on it may write again."""
        self.finish()
        for name, source, promised in self._in_flight:
            if not source.equal(promised):
                self.late_writes.append(name)
        self._in_flight.clear()

    def forget(self) -> None:
        """Forget what was observed, and what a call that failed midway has left."""
        self._waiting.clear()
        self._in_flight.clear()
        self.late_writes.clear()
