"""The published `llm-canvas` package against its own server and against ours: the same programs end in the same canvas.

Its client runs unchanged, in an environment of its own. Its server needs Python 3.12; where that is not to be had, its
client's half alone is checked, and said.

Run by `make interop`.
"""

import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from serving import Checks, environment, free_port, running

HERE = Path(__file__).parent


def examples(port: int) -> dict[str, str]:
    """Runs the programs; gives the canvas that each made."""
    done = subprocess.run(
        [environment("llm_canvas") / "python", HERE / "llm_canvas_examples.py", str(port)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode:
        sys.exit(f"the examples failed against port {port}:\n{done.stderr[-3000:]}")
    found: dict[str, str] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def canvas_of(port: int, id: str) -> dict[str, Any]:
    """A canvas, read once: the other server gives lists of blocks only the first time."""
    address = f"http://127.0.0.1:{port}/api/v1/canvas?canvas_id={id}"
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=30) as response:
        found: dict[str, Any] = json.load(response)["data"]
    return found


def normalized(canvas: dict[str, Any]) -> Any:
    """The canvas without what is made up anew each time: ids are numbers in the order of the nodes, times are gone."""
    names = {id: str(number) for number, id in enumerate(canvas["nodes"])}
    nodes = [
        {
            "id": names[node["id"]],
            "message": without_nulls(node["message"]),
            "parent": names.get(node.get("parent_id") or ""),
            "children": [names[child] for child in node["child_ids"]],
            "meta": {key: value for key, value in (node.get("meta") or {}).items() if key != "timestamp"},
            "timed": "timestamp" in (node.get("meta") or {}),
        }
        for node in canvas["nodes"].values()
    ]
    return {"title": canvas["title"], "description": canvas["description"], "nodes": nodes}


def without_nulls(value: Any) -> Any:
    """Optional fields that a framework fills with null are absent; nulls in a tool's input are its own."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: v if k == "input" else without_nulls(v) for k, v in value.items() if v is not None or k == "input"}


def main() -> None:
    checks = Checks("llm-canvas")
    programs = environment("llm_canvas")
    version = subprocess.check_output(
        [programs / "python", "-c", "import sys; print(sys.version_info >= (3, 12))"], text=True
    )
    theirs: dict[str, Any] = {}
    if version.strip() == "True":
        port = free_port()
        with running(
            [programs / "llm-canvas", "server", "--port", str(port)], f"http://127.0.0.1:{port}/api/v1/health"
        ):
            theirs = {name: normalized(canvas_of(port, id)) for name, id in examples(port).items()}
    else:
        print("  !!   no Python 3.12: the package's own server was not run; its client ran against ours alone")
    port = free_port()
    with tempfile.TemporaryDirectory() as home:
        command = [
            Path(sys.executable).parent / "interlingua",
            "canvas",
            "--no-open",
            "--port",
            "0",
            "--client-port",
            str(port),
        ]
        with running([*command, "--home", home], f"http://127.0.0.1:{port}/api/v1/health"):
            ours = {name: normalized(canvas_of(port, id)) for name, id in examples(port).items()}
            again = {name: normalized(canvas_of(port, id)) for name, id in examples(port).items()}
    for name, canvas in ours.items():
        checks.same(f"{name}: {len(canvas['nodes'])} nodes, the same twice", canvas, again[name])
        if theirs:
            checks.same(f"{name}: the same canvas as on the package's own server", theirs[name], canvas)
    checks.finish()


if __name__ == "__main__":
    main()
