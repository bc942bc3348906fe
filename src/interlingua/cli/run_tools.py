"""The tools of a run: core tools, plugins, functions of a file, MCP servers; and the questions before their calls."""

import asyncio
import contextlib
import inspect
import os
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..chat import approval
from ..plugins import load_plugins
from ..tools.catalog import discover_core_tools
from ..tools.decorator import tool
from ..tools.fs import local_bridge
from ..tools.policy import ApprovalRequest, Permissions, standing_rule
from ..tools.registry import PROFILES, ToolRegistry
from ..tools.tool import Tool, ToolContext
from ..values.errors import FormatError
from ..values.interop import describe, must_propagate
from . import output

_FUNCTIONS = "interlingua_functions"  # the module name of the code of --functions


@contextlib.asynccontextmanager
async def opened(
    names: Sequence[str], functions: Sequence[str], servers: Sequence[str], plugins: Sequence[str], context: ToolContext
) -> AsyncIterator[list[Tool]]:
    """The tools that were asked for, while they can be used."""
    made = [*_registered(names, plugins, context), *(one for code in functions for one in functions_of(code))]
    async with contextlib.AsyncExitStack() as stack:
        for server in servers:
            from ..mcp import mcp_tools  # large

            taken = [one.name for one in made]
            made += await stack.enter_async_context(mcp_tools(_server(server), taken=taken))
        doubled = {one.name for one in made if sum(other.name == one.name for other in made) > 1}
        if doubled:
            raise FormatError(f"two tools are called {min(doubled)!r}; rename one of them", "--functions")
        yield made


def context_at(root: Path) -> ToolContext:
    place = str(root.resolve())
    return ToolContext(root=place, workspace_dir=place, bridge=local_bridge(place), complete=_complete)


async def _complete(*args: Any, **kwargs: Any) -> Any:
    from ..connect.client import complete

    return await complete(*args, **kwargs)


def _registered(names: Sequence[str], plugins: Sequence[str], context: ToolContext) -> list[Tool]:
    """Core tools and those of plugins, by id, group (`group:fs`) or profile (`coding`)."""
    warnings: list[str] = []
    registry = ToolRegistry(on_warning=warnings.append)
    discover_core_tools(registry, on_load_warning=_warn)
    if plugins:
        for problem in load_plugins([Path(path) for path in plugins], tools=registry).problems:
            _warn(str(problem))
    added = [meta.id for meta in registry.list() if meta.source == "plugin"] if plugins else []
    profiles = [name for name in names if name in PROFILES and not registry.has(name)]
    chosen = [name for name in (*names, *added) if name not in profiles]
    made = {one.name: one for profile in profiles for one in registry.resolve_by_profile(profile, context)}
    made |= {one.name: one for one in registry.resolve_all(context, include=chosen)} if chosen else {}
    if warnings:
        raise FormatError(f"{warnings[0]}; `interlingua tools list` lists them", "--tool")
    for skipped in registry.skipped:
        _warn(f"{skipped.id} is not available: {skipped.reason}")
    return [*made.values()]


def functions_of(code: str) -> list[Tool]:
    """The public functions of a Python file, or of code, as tools."""
    path = Path(code).expanduser()
    is_file = "\n" not in code and path.suffix == ".py"
    where = str(path) if is_file else "--functions"
    module = ModuleType(_FUNCTIONS)
    try:
        text = path.read_text(encoding="utf-8") if is_file else code
        module.__file__ = where
        sys.modules[_FUNCTIONS] = module  # type hints are resolved there
        exec(compile(text, where, "exec"), module.__dict__)
    except BaseException as error:  # the user's own code
        if must_propagate(error) and not isinstance(error, SystemExit):
            raise
        raise FormatError(f"{where}: cannot be used as tools: {describe(error)}", "--functions") from None
    found = [
        value if isinstance(value, Tool) else tool(value)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, Tool) or (inspect.isfunction(value) and value.__module__ == _FUNCTIONS))
    ]
    if not found:
        raise FormatError(f"{where}: no functions to use as tools; define one with `def name(…):`", "--functions")
    return found


def _server(given: str) -> Any:
    """An MCP server: an address, or a command line."""
    if given.startswith(("http://", "https://")):
        return given
    parts = shlex.split(given)
    if not parts:
        raise FormatError("an empty MCP server; give an address or a command", "--mcp")
    return {"command": parts[0], "args": parts[1:]}


def _warn(message: str) -> None:
    print(f"interlingua: {message}", file=sys.stderr)


# --- approval ---------------------------------------------------------------------------------------------------------


class Approval:
    """Asks the user at the terminal, even when standard input is a pipe; without a terminal, nothing is approved."""

    def __init__(self, permissions: Permissions, bridge: Any) -> None:
        self._permissions = permissions
        self._bridge = bridge
        self._asking = asyncio.Lock()
        self.denied = False  # a call was refused for want of a terminal

    async def __call__(self, request: ApprovalRequest) -> bool:
        async with self._asking:
            decision = self._permissions.decide(request.tool_name, request.params)
            if decision.action == "allow":
                return True  # by an `always` meanwhile
            try:
                terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
            except OSError:
                self.denied = True
                return False
            try:
                diff = await approval.preview(request.tool_name, request.params, self._bridge)
                output.console(err=True).print(approval.shown(request, diff, decision))
                return await self._ask(terminal, request)
            finally:
                os.close(terminal)

    async def _ask(self, terminal: int, request: ApprovalRequest) -> bool:
        rule = standing_rule(request.tool_name, request.params)
        while True:
            os.write(terminal, f"allow {request.tool_name}? {approval.choices(rule)}: ".encode())
            line = await _line(terminal)
            answer = approval.answer_of(line)
            if not line or (answer is not None and answer.verdict == "no"):
                return False
            if answer is not None:
                if answer.verdict == "always" and rule is not None:
                    self._permissions.allow(rule)
                return True


async def _line(terminal: int) -> str:
    """The next line that is typed."""
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    loop.add_reader(terminal, typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(terminal)
    return os.read(terminal, 4096).decode(errors="replace")
