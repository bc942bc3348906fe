"""A workspace with both tools, with and without the sandbox; nothing may be left running when a test ends."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from interlingua.tools.core.exec import exec_tool
from interlingua.tools.core.process import process_tool
from interlingua.tools.processes import marked, process_table
from interlingua.tools.sandbox import sandbox_status
from interlingua.tools.tool import Tool, ToolContext, ToolResult
from interlingua.values.abort import Abort

NO_SANDBOX = pytest.mark.skipif(
    not sandbox_status().available, reason=f"NOT TESTED in the sandbox: {sandbox_status().reason}"
)


class Workspace:
    """Both tools over one root."""

    def __init__(self, root: Path, sandboxed: bool, settings: dict[str, Any]) -> None:
        self.root = root
        self.sandboxed = sandboxed
        self.context = ToolContext(root=str(root), sandboxed=sandboxed, config={"tools": {"exec": settings}})
        tool = exec_tool(self.context)
        assert tool is not None
        self.exec: Tool = tool
        self.process = process_tool(self.context)
        self.table = process_table(self.context)
        self.begun: dict[str, str] = {}

    async def run(
        self,
        command: str,
        signal: Abort | None = None,
        on_update: Callable[[ToolResult], object] | None = None,
        **params: Any,
    ) -> ToolResult:
        return await self.exec.execute("call", {"command": command, **params}, signal, on_update)

    async def start(self, command: str, **params: Any) -> str:
        result = await self.run(command, background=True, **params)
        assert result.details["status"] == "running", result.text
        session = str(result.details["sessionId"])
        self.begun[session] = result.details["tail"]
        return session

    async def act(self, action: str, **params: Any) -> ToolResult:
        return await self.process.execute("call", {"action": action, **params})

    async def read_until(self, session: str, fragment: str) -> str:
        """Polls until `words` have come."""
        text = self.begun.pop(session, "") + "\n"
        for _ in range(60):
            if fragment in text:
                return text
            result = await self.act("poll", sessionId=session, timeout=500)
            text += result.details["output"] + "\n"
        raise AssertionError(f"{fragment!r} never came: {text!r}")


@pytest.fixture(params=["plain", pytest.param("sandboxed", marks=NO_SANDBOX)])
def sandboxed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "sandboxed")


@pytest.fixture
def settings() -> dict[str, Any]:
    """Settings of the tool; a test overrides them with `pytest.mark.parametrize("settings", […])`."""
    return {"graceSec": 0.3}


@pytest.fixture
async def place(tmp_path: Path, sandboxed: bool, settings: dict[str, Any]) -> AsyncIterator[Workspace]:
    root = tmp_path / "root"
    root.mkdir()
    workspace = Workspace(root, sandboxed, settings)
    yield workspace
    mine = [session.id for session in workspace.table.sessions()]
    await workspace.table.close()
    assert [] == [pid for session in mine for pid in marked(session)], "processes were left behind"
    assert [] == zombies(), "zombies were left behind"


def zombies() -> list[int]:
    """Our dead children that nobody has waited for."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state == "Z" and int(parent) == os.getpid():
            found.append(int(entry.parent.name))
    return found
