"""Plugin folders for tests, written as their authors would write them."""

import json
import textwrap
from pathlib import Path
from typing import Any

ECHO = """
    from interlingua import tool

    @tool
    def echo(text: str) -> str:
        "Says it again."
        return text

    def register(api):
        api.register_tool(echo)
"""


def plugin(root: Path, id: str, code: str | None = ECHO, *, file: str = "plugin.py", **manifest: Any) -> Path:
    """A plugin folder with a manifest and, unless `code` is None, an entry."""
    folder = root / manifest.pop("folder", id)
    folder.mkdir(parents=True, exist_ok=True)
    name = manifest.pop("manifest", "interlingua.plugin.json")
    (folder / name).write_text(json.dumps({"id": id, **manifest}))
    if code is not None:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(code))
    return folder


class Recorder:
    """A logger with the three methods that hosts of the TypeScript library pass."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def info(self, message: str) -> None:
        self.lines.append(("info", message))

    def warn(self, message: str) -> None:
        self.lines.append(("warn", message))

    def error(self, message: str) -> None:
        self.lines.append(("error", message))

    def of(self, level: str) -> list[str]:
        return [message for at, message in self.lines if at == level]
