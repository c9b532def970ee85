"""A page in headless Chromium, driven over its debugging pipe: no server, no port, and no package for it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 60.0


def chromium() -> str:
    """The program. Skips the test, with the reason, where there is none."""
    found = next((path for path in map(shutil.which, NAMES) if path is not None), None)
    if found is None:
        pytest.skip(f"no browser here: none of {', '.join(NAMES)}")
    return found


class Tab:
    """One tab. `events` are what the browser reported since it was opened: method and parameters."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number, self._rest, self._session = 0, b"", ""
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        """The next message; events are kept too."""
        while b"\0" not in self._rest:
            part = os.read(self._answers, 1 << 20)
            assert part, "the browser ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message

    def open(self, page: Path, *, dark: bool = False, width: int = 1280, height: int = 800) -> float:
        """Show a file. Returns the seconds until it was there, drawn once."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.events.clear()
        begin = time.perf_counter()
        self.call("Page.navigate", url=page.as_uri())
        while not any(method == "Page.loadEventFired" for method, _ in self.events):
            assert time.perf_counter() - begin < SECONDS
            self._next()
        drawn = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.evaluate(drawn)
        return time.perf_counter() - begin

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, `Tab` or `Enter`."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r")}[key]
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Keep what the window shows, or the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A browser with one tab, whose profile is a new folder."""
    program = chromium()
    reads, commands = os.pipe()
    answers, writes = os.pipe()
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    options += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}"]
    # The browser reads from descriptor 3 and writes to 4, whatever these are here.
    shell = ["bash", "-c", 'exec "${@:3}" 3<&"$1" 4>&"$2"', "-", str(reads), str(writes)]
    running = subprocess.Popen(
        [*shell, program, *options, "--remote-debugging-pipe", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(reads, writes),
    )
    os.close(reads)
    os.close(writes)
    try:
        yield Tab(commands, answers)
    finally:
        running.terminate()
        running.wait(SECONDS)
        os.close(commands)
        os.close(answers)
