"""The page itself, in Chromium, against a server of its own process: what a person does, and what must not happen."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il

playwright = pytest.importorskip("playwright.sync_api", reason="!!!! playwright is NOT INSTALLED: no browser test runs")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="!!!! chromium is NOT INSTALLED: no browser test runs")
expect = playwright.expect
LONG = int(os.environ.get("CANVAS_TIMEOUT", "60000"))  # milliseconds: a loaded machine is no failure
expect.set_options(timeout=LONG)


class Served:
    """A canvas in a process of its own, which can be killed and started again."""

    def __init__(self, home: Path, *files: Path, program: str | None = None, env: dict[str, str] | None = None) -> None:
        self.home = home
        self._files = files
        self._program = program
        self._env = {**os.environ, "INTERLINGUA_HOME": str(home), **(env or {})}
        self.port = 0
        self.start()

    def start(self) -> None:
        cli = [
            str(Path(sys.executable).parent / "interlingua"),
            "canvas",
            *map(str, self._files),
            "--no-open",
            f"--port={self.port}",
        ]
        command = cli if self._program is None else [sys.executable, "-c", self._program, str(self.home)]
        self.process = subprocess.Popen(
            command, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if found := re.search(r"http://[^/]+:(\d+)/\S*token=\S+", line):
                self.link, self.port = found.group(0), int(found.group(1))
                return
        raise AssertionError("the canvas did not start: " + "".join(said))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Tab:
    """A page that is logged in, and all that it complained about or asked of other hosts."""

    def __init__(self, browser: Any, served: Served | None = None, **how: Any) -> None:
        self.context = browser.new_context(
            **{"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce", **how}
        )
        self.context.set_default_timeout(LONG)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._encoded)
        self.page.on("request", self._asked)
        self.base = ""
        if served is not None:
            self.base = f"http://127.0.0.1:{served.port}"
            self.page.goto(served.link)
            expect(self.page.get_by_role("heading", name="Sessions", exact=True)).to_be_visible()

    def _encoded(self, message: Any) -> None:
        # Chromium writes every answer of 4xx and every lost connection there; those are looked at where they matter.
        if message.type == "error" and "Failed to load resource" not in message.text and "net::ERR" not in message.text:
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.base or "file://", "data:", "blob:")):
            self.foreign.append(request.url)

    def go(self, path: str) -> Any:
        self.page.goto(self.base + path)
        return self.page

    def key(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def card(self, id: str) -> Any:
        return self.page.locator(f'[data-card="{id}"]')

    def fine(self) -> None:
        assert self.complaints == []
        assert self.foreign == []


# --- seeing ----------------------------------------------------------------------------------------------------------

MESSAGES: tuple[il.AgentMessage, ...] = (
    il.UserMessage(content="Which way is north?"),
    il.AssistantMessage(
        content=(il.TextBlock(text="I shall look."), il.ToolCall(id="c1", name="compass", arguments={"at": "desk"})),
        model="some-model",
        provider="some",
        stop_reason="toolUse",
    ),
    il.ToolResultMessage(tool_call_id="c1", tool_name="compass", content=(il.TextBlock(text="up"),), is_error=False),
    il.AssistantMessage(content="Up is north.", model="some-model", provider="some", stop_reason="stop"),
)
CONVERSATION = il.Conversation(system="Be brief.", entries=tuple(il.Entry(message=message) for message in MESSAGES))


def test_a_session_of_every_dialect_that_can_be_written_opens(chromium: Any, tmp_path: Path) -> None:
    """Every format that holds this conversation shows it, on the canvas and as a transcript, without an error."""
    files = []
    for name in il.DIALECTS:
        try:
            raw = il.encode(CONVERSATION, name).bytes()
            il.decode(raw)
        except il.InterlinguaError:
            continue  # a dialect that is only read, or whose files cannot be told apart without its name
        path = tmp_path / f"{name}.json"
        path.write_bytes(raw)
        files.append(path)
    server = Served(tmp_path / "home", *files)
    try:
        tab = Tab(chromium, server)
        listed = tab.page.evaluate("fetch('/api/sessions?limit=500').then((answer) => answer.json())")["sessions"]
        assert len({session["writtenAs"] for session in listed}) >= 10, [session["writtenAs"] for session in listed]
        for session in listed:
            page = tab.go(f"/s/{session['key']}/canvas")
            expect(page.locator("[data-card]").first).to_be_visible()
            tab.key("2")
            expect(page.locator("article.turn").first).to_be_visible()
            assert tab.complaints == [], session
        tab.fine()
    finally:
        server.stop()
