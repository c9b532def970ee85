"""Waiting ends when connections have something to read, or are closed.

`multiprocessing.connection.wait` and `Connection.poll` do the same, and register the connections anew at every call. A
campaign looks several times for each case, always at the same few connections.
"""

from __future__ import annotations

import select
from collections.abc import Collection, Sequence
from multiprocessing.connection import Connection


class Readiness:
    """Says which connections can be read without blocking."""

    def __init__(self) -> None:
        self._connections: tuple[Connection, ...] = ()
        self._poll = select.poll()

    def of(self, connections: Sequence[Connection], seconds: float = 0.0) -> Collection[Connection]:
        """Those of the connections that can be read now, or else the first that can within `seconds`."""
        given = tuple(connections)
        if given != self._connections:
            self._connections, self._poll = given, select.poll()
            for connection in given:
                self._poll.register(connection.fileno(), select.POLLIN)
        milliseconds = max(seconds, 0.0) * 1000  # a negative number would mean for ever
        ready = {number for number, _ in self._poll.poll(milliseconds)}
        return [one for one in given if one.fileno() in ready]
