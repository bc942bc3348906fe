"""The page of the canvas in Chromium, beside the flow library given all nodes and beside Inspect View.

Run with `.venv/bin/python bench/browser.py [--nodes 5000 20000] [--messages 100000] [--only nodes transcript]`.
It needs Chromium, Node and web/node_modules (`make programs web`); Inspect View is in `bench/.envs/inspect`, which
`make bench` makes. What is compared takes turns. Each page is opened twice in a new profile, from an idle tab: the
time from the start of the navigation to the first card or text is measured at the first visit, with an empty cache, and
at the second. Then the time between frames is measured while the page is scrolled for two seconds.
"""

import argparse
import contextlib
import functools
import http.server
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

import interlingua as il
from canvas import HERE, Row, free_port, ours, running
from interlingua.serving.access import Access
from interlingua.sessions import Session

WEB = HERE.parent / "web"
INSPECT = HERE / ".envs" / "inspect" / "bin"
RESULTS = HERE / "results" / "browser.md"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ROUNDS = 3
FRAME = 1000 / 60  # milliseconds
TEXT = "Move the send behind an outbox that is written in the same transaction, and retry it with a lease. "
# Every node handed to the library, as one would at first: cards of the same size and text as ours.
ALL_NODES = """
import "@xyflow/react/dist/base.css";
import { ReactFlow } from "@xyflow/react";
import { createElement as h } from "react";
import { createRoot } from "react-dom/client";
const style = { width: 268, height: 108, overflow: "hidden" };
const Card = ({ data }) => h("div", { className: "thecard", style }, h("b", null, data.role), h("p", null, data.text));
const types = { card: Card };
fetch("rows.json").then((answer) => answer.json()).then((rows) => {
  const nodes = rows.map((row) => ({ id: row.id, type: "card", position: { x: row.x, y: row.y }, data: row }));
  const below = rows.filter((row) => row.parent);
  const edges = below.map((row) => ({ id: `e${row.id}`, source: row.parent, target: row.id }));
  const flow = h(ReactFlow, { nodes, edges, nodeTypes: types, minZoom: 0.02, panOnScroll: true });
  const page = h("div", { style: { width: "100vw", height: "100vh" } }, flow);
  createRoot(document.getElementById("root")).render(page);
});
"""
SETTLED = 2000  # ms: a new window of Chromium loads some hundred files of its own first
# Runs in each page before its own code, so that nothing is injected while the page starts: notes when the first element
# of a kind has a size and was drawn.
FIRST = """(() => {
  const look = () => {
    const found = document.querySelector(%s);
    const drawn = found !== null && found.getBoundingClientRect().height > 0;
    requestAnimationFrame(drawn ? () => { window.firstDrawn = performance.now(); } : look);
  };
  look();
})()"""
# The times of frames while the page is scrolled.
FRAMES = """() => new Promise((done) => {
  const times = [];
  let last = performance.now();
  const end = last + 2000;
  const step = (now) => {
    times.push(now - last);
    last = now;
    if (now < end) requestAnimationFrame(step);
    else done(times.slice(2));
  };
  requestAnimationFrame(step);
})"""


class Measure(NamedTuple):
    """Milliseconds to the first element at the first and second visit, and the p95 of the time between frames."""

    first: float
    again: float
    frame: float


def measured(browser: Browser, address: str, selector: str, login: str | None = None) -> Measure:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    if login is not None:
        context.request.get(login)  # sets the cookie; no page is loaded
    page = context.new_page()
    page.set_default_timeout(600_000)
    page.add_init_script(FIRST % json.dumps(selector))
    page.wait_for_timeout(SETTLED)
    visits = []
    for _ in range(2):
        page.goto(address, wait_until="commit")
        visits.append(first_drawn(page))
        page.wait_for_timeout(1000)
        if len(visits) == 1:
            page.goto("about:blank")
    page.mouse.move(600, 450)
    page.evaluate(f"window.frames_ = ({FRAMES})()")
    for _ in range(40):
        page.mouse.wheel(0, 240)
        page.wait_for_timeout(40)
    times = sorted(page.evaluate("window.frames_"))
    context.close()
    return Measure(*visits, times[int(len(times) * 0.95)])


def first_drawn(page: Page) -> float:
    """Asks rarely, and without a script of the driver's own: both would take time from the page."""
    devtools = page.context.new_cdp_session(page)
    for _ in range(6000):
        page.wait_for_timeout(100)
        found = devtools.send("Runtime.evaluate", {"expression": "window.firstDrawn"})["result"]
        if "value" in found:
            devtools.detach()
            return float(found["value"])
    raise TimeoutError(f"{page.url} drew nothing in ten minutes")


def median(measures: list[Measure]) -> Measure:
    return Measure(*(statistics.median(values) for values in zip(*measures, strict=True)))


# --- nodes -----------------------------------------------------------------------------------------------------------


def tree(home: Path, count: int) -> list[dict[str, Any]]:
    """A session with a fork every fifty messages; gives its rows for the peer, in lanes."""
    rows, parent, lane, depth = [], None, 0, 0
    with Session.open("tree", home=home, sync="never") as session:
        for number in range(count):
            if number % 50 == 0 and number:
                parent, lane, depth = f"m{number - 25}", lane + 1, depth - 24
            message: Any = il.UserMessage(content=f"{number} {TEXT}")
            if number % 2:
                message = il.AssistantMessage(content=f"{number} {TEXT * 2}", model="m", stop_reason="stop")
            session.append(message, id=f"m{number}", parent_id=parent)
            rows.append(
                {
                    "id": f"m{number}",
                    "parent": parent,
                    "role": message.role,
                    "text": message.text,
                    "x": lane * 312,
                    "y": depth * 132,
                }
            )
            parent, depth = f"m{number}", depth + 1
    return rows


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def all_nodes(folder: Path, rows: list[dict[str, Any]]) -> Iterator[str]:
    """The peer's page, built with the same library, and served from this process."""
    source = WEB / "bench-all-nodes.tmp.jsx"
    source.write_text(ALL_NODES)
    try:
        config = {
            "root": str(WEB),
            "logLevel": "error",
            "build": {
                "outDir": str(folder),
                "emptyOutDir": False,
                "lib": {"entry": str(source), "formats": ["es"], "fileName": "all"},
            },
            "define": {"process.env.NODE_ENV": '"production"'},
        }
        script = f"import('vite').then((vite) => vite.build({json.dumps({**config, 'configFile': False})}))"
        subprocess.run(["node", "-e", script], cwd=WEB, check=True)
    finally:
        source.unlink()
    style = "".join(f'<link rel="stylesheet" href="{path.name}">' for path in folder.glob("*.css"))
    script = next(path.name for path in folder.glob("all*.js"))
    (folder / "index.html").write_text(
        f'<!doctype html>{style}<div id="root"></div><script type="module" src="{script}"></script>'
    )
    (folder / "rows.json").write_text(json.dumps(rows))
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


def login(address: str, home: Path) -> str:
    """A one-time address, asked for with the key that programs of this user have."""
    import urllib.request

    key = Access(home / "canvas").local_key
    asked = urllib.request.Request(
        f"{address}/api/links", b"{}", {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked) as answer:
        return str(json.loads(answer.read())["address"])


def nodes(browser: Browser, count: int) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as built:
        home = Path(folder)
        rows = tree(home, count)
        own, peer = [], []
        with ours(home) as (address, _, _), all_nodes(Path(built), rows) as other:
            for _ in range(ROUNDS):
                link = login(address, home)
                own.append(measured(browser, f"{address}/s/own~main~tree/canvas?at=m0", "[data-card]", link))
                peer.append(measured(browser, other, ".thecard"))
        mine, theirs = median(own), median(peer)
        for visit, ms, their_ms in (("first", mine.first, theirs.first), ("second", mine.again, theirs.again)):
            ratio = ms / their_ms
            Row(
                f"first card of {count:,} nodes, {visit} visit, beside all of them in the library",
                f"{ms:,.0f} ms",
                f"{their_ms:,.0f} ms",
                f"≤ 1/10 ({ratio:.3f})",
                ratio <= 0.1,
            )
        Row(
            f"p95 frame while {count:,} nodes are scrolled",
            f"{mine.frame:.1f} ms",
            f"{theirs.frame:.1f} ms",
            "≤ 1.2 frames",
            mine.frame <= 1.2 * FRAME,
        )


# --- transcript ------------------------------------------------------------------------------------------------------


def transcript(browser: Browser, count: int) -> None:
    """A long transcript beside Inspect View with the same messages, or with as many as it opens."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with Session.open("long", home=home, sync="never") as session:
            for number in range(count):
                made = (
                    il.AssistantMessage(content=f"{number} {TEXT}", model="m")
                    if number % 2
                    else il.UserMessage(content=f"{number} {TEXT}")
                )
                session.append(made, id=f"m{number}")
        own = []
        with ours(home) as (address, _, _):
            for _ in range(ROUNDS):
                link = login(address, home)
                own.append(
                    measured(
                        browser, f"{address}/s/own~main~long/transcript?at=m{count - 1}", "article.turn .words", link
                    )
                )
        mine = median(own)
        peer, opened = inspect_view(browser, count, home) or (None, 0)
        for visit, ms, their_ms in (
            ("first", mine.first, peer and peer.first),
            ("second", mine.again, peer and peer.again),
        ):
            ratio = ms / their_ms if their_ms else 0.0
            Row(
                f"first text of a transcript of {count:,} messages, {visit} visit",
                f"{ms:,.0f} ms",
                f"{their_ms:,.0f} ms ({opened:,})" if their_ms else "–",
                f"≤ 1/4 of Inspect View ({ratio:.2f})",
                bool(peer) and ratio <= 0.25,
            )
        Row(
            "p95 frame while it is scrolled",
            f"{mine.frame:.1f} ms",
            f"{peer.frame:.1f} ms" if peer else "–",
            "≤ 1.2 frames",
            mine.frame <= 1.2 * FRAME,
        )


# Writes a log of one sample with this many messages, as an evaluation would.
WRITE_LOG = """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser
from inspect_ai.solver import solver
count, folder, text = int(sys.argv[1]), sys.argv[2], sys.argv[3]
@solver
def given():
    async def solve(state, generate):
        kinds = (ChatMessageUser, ChatMessageAssistant)
        state.messages = [kinds[n % 2](content=f"{n} {text}") for n in range(count)]
        return state
    return solve
eval(Task(dataset=[Sample(input="x", id="one")], solver=given()), model="mockllm/model", log_dir=folder, display="none")
"""


def inspect_view(browser: Browser, count: int, home: Path) -> tuple[Measure, int] | None:
    """The measures and number of messages at the largest size that Inspect View opens within ten minutes."""
    if not (INSPECT / "inspect").exists():
        print(f"!!!! {INSPECT} is missing: Inspect View is not measured (make bench makes it)")
        return None
    while count >= 100:
        logs = home / f"logs{count}"
        subprocess.run(
            [INSPECT / "python", "-c", WRITE_LOG, str(count), str(logs), TEXT], check=True, capture_output=True
        )
        port = free_port()
        name = next(logs.glob("*.eval")).name
        command = [INSPECT / "inspect", "view", "start", "--log-dir", str(logs), "--port", str(port)]
        with running(command, f"http://127.0.0.1:{port}/"), contextlib.suppress(Exception):
            address = f"http://127.0.0.1:{port}/#/logs/{name}/samples/sample/one/1/messages"
            measures = [measured(browser, address, "[class*=message] p") for _ in range(ROUNDS)]
            return median(measures), count
        count //= 10
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="*", default=[5000, 20000])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", default=["nodes", "transcript"])
    asked = parser.parse_args()
    if CHROMIUM is None or not (WEB / "node_modules").is_dir():
        sys.exit("!!!! Chromium or web/node_modules is MISSING: the page is not measured (make programs web)")
    load = os.getloadavg()[0]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        if "nodes" in asked.only:
            for count in asked.nodes:
                nodes(browser, count)
        if "transcript" in asked.only:
            transcript(browser, asked.messages)
        browser.close()
    Row.write(RESULTS, "the page", load)


if __name__ == "__main__":
    main()
