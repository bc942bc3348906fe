"""What browser tests share: canvases to look at, and tabs that notice every error and every foreign request."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

from interlingua.canvas.library import Library
from interlingua.canvas.server import Canvas
from interlingua.testing.threads import LoopThread

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Milliseconds to wait for what must come: long, because a busy machine is no failure.
LONG = int(os.environ.get("CANVAS_TIMEOUT", "120000"))
T = TypeVar("T")

playwright = pytest.importorskip("playwright.sync_api", reason="!!!! playwright is NOT INSTALLED: no browser test runs")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="!!!! chromium is NOT INSTALLED: no browser test runs")
expect = playwright.expect
expect.set_options(timeout=LONG)


class Served:
    """A canvas in a process of its own, which can be killed and started again on the same port."""

    def __init__(self, home: Path, *files: Path) -> None:
        self._files = files
        self._env = {**os.environ, "INTERLINGUA_HOME": str(home)}
        self.port = 0
        self.start()

    def start(self) -> None:
        program = str(Path(sys.executable).parent / "interlingua")
        self.process = subprocess.Popen(
            [program, "canvas", *map(str, self._files), "--no-open", f"--port={self.port}"],
            env=self._env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        printed = []
        for line in self.process.stdout:
            printed.append(line)
            if found := re.search(r"http://[^/]+:(\d+)/\S*token=\S+", line):
                self.link, self.port = found.group(0), int(found.group(1))
                return
        raise AssertionError("the canvas did not start: " + "".join(printed))

    def kill(self) -> None:
        """Ends it as `kill -9` does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Threaded:
    """A canvas in a thread of this process: starts in milliseconds, and can be given a client of the test's own."""

    def __init__(self, home: Path, **how: Any) -> None:
        self._thread = LoopThread("canvas")
        self._thread.start(self._start(home, how))
        self.home = home

    async def _start(self, home: Path, how: dict[str, Any]) -> None:
        self.canvas = Canvas(Library(home), port=0, **how)
        await self.canvas.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(work)

    @property
    def link(self) -> str:
        return self.canvas.link()

    @property
    def port(self) -> int:
        return self.canvas.port

    def stop(self) -> None:
        self.run(self.canvas.stop())
        self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Tab:
    """A page that is logged in, with all that it complained about and all that it asked of other hosts."""

    def __init__(self, browser: Any, server: Served | Threaded | None = None, **how: Any) -> None:
        self.context = browser.new_context(
            **{"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce", **how}
        )
        self.context.set_default_timeout(LONG)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._written)
        self.context.on("request", self._asked)
        self.base = ""
        if server is not None:
            self.base = f"http://127.0.0.1:{server.port}"
            self.page.goto(server.link)
            expect(self.page.get_by_role("heading", name="Sessions", exact=True)).to_be_visible()

    def _written(self, message: Any) -> None:
        # Chromium writes every answer of 4xx and every lost connection there; those are looked at where they matter.
        if message.type == "error" and "Failed to load resource" not in message.text and "net::ERR" not in message.text:
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.base or "file://", "data:", "blob:")):
            self.foreign.append(request.url)

    def go(self, path: str) -> Any:
        self.page.goto(self.base + path)
        return self.page

    def get(self, path: str) -> Any:
        """The server's JSON, asked for as the page asks."""
        return self.page.request.get(self.base + path).json()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def card(self, id: str) -> Any:
        return self.page.locator(f'.react-flow [data-card="{id}"]')

    def turn(self, id: str) -> Any:
        return self.page.locator(f'article[data-entry="{id}"]')

    def box(self, place: Any) -> Any:
        """Where something is, once it is drawn."""
        while (found := place.bounding_box()) is None:
            self.page.wait_for_timeout(10)
        return found

    @contextlib.contextmanager
    def holding(self, pattern: str) -> Iterator[list[Any]]:
        """Holds such requests of the page until the end of the block; there is at least one."""
        held: list[Any] = []
        is_open = False
        self.page.route(pattern, lambda route: route.continue_() if is_open else held.append(route))
        yield held
        while not held:
            self.page.wait_for_timeout(10)
        is_open = True
        for one in held:
            one.continue_()

    def until(self, condition: str, argument: Any = None) -> Any:
        """Waits for a condition in the page: a function in JavaScript."""
        return self.page.wait_for_function(condition, arg=argument)

    def close(self) -> None:
        """Ends the tab; nothing may have gone wrong in it, and nothing may have left this machine."""
        self.context.close()
        assert self.complaints == []
        assert self.foreign == []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.context.close()
