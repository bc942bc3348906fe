"""The tools of a run: core tools, plugins, functions of a file, MCP servers; and the approval of calls."""

import asyncio
import contextlib
import inspect
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..chat import approval
from ..plugins import Plugins
from ..plugins.installed import Installed, open_installed
from ..tools.catalog import discover_core_tools
from ..tools.decorator import tool
from ..tools.policy import ApprovalRequest, Permissions, standing_rule
from ..tools.registry import PROFILES, ToolRegistry, named, no_match
from ..tools.tool import Tool, ToolContext
from ..values.errors import FormatError
from ..values.interop import describe, must_propagate
from ..values.regular import kind_of, read_regular
from . import output
from .options import warn

_FUNCTIONS = "interlingua_functions"  # module name of the code of --functions


@contextlib.asynccontextmanager
async def opened(plugins: Sequence[str], servers: Sequence[str], *, bare: bool) -> AsyncIterator[Installed]:
    """Opens the core tools and what is installed: all plugins, those of more directories, and the named MCP servers."""
    registry = ToolRegistry()
    discover_core_tools(registry, on_load_warning=warn)
    if bare:
        yield Installed(Plugins(), registry)
        return
    paths = [Path(path) for path in plugins]
    async with open_installed(tools=registry, paths=paths, servers=tuple(servers)) as found:
        for problem in found.failed_servers.values():
            raise FormatError(problem, "--mcp")  # each was asked for, by its name, address or command
        for problem in found.problems:
            warn(problem)
        yield found


async def chosen(
    found: Installed, names: Sequence[str], functions: Sequence[str], plugins: Sequence[str], context: ToolContext
) -> list[Tool]:
    """Returns the requested tools: by id, group (`group:fs`) or profile; of directories, servers and functions."""
    registry = found.tools
    folders = [Path(path).resolve() for path in plugins]
    of_plugins = {one.id for one in found.plugins for folder in folders if folder in _parents(Path(one.source))}
    added = [meta.id for meta in registry if meta.plugin_id in of_plugins]
    added += [one.name for tools in found.servers.values() for one in tools if one.name in registry]
    profiles = [name for name in names if name in PROFILES and name not in registry]
    wanted = [name for name in (*names, *added) if name not in profiles]
    for name in wanted:
        if not any(named(meta, (name,)) for meta in registry) and registry.find(name) is None:
            raise FormatError(
                f"{no_match(name, [meta.id for meta in registry])}; see: interlingua tools list", "--tool"
            )
    made: dict[str, Tool] = {}
    for profile in profiles:
        made |= {one.name: one for one in await registry.aresolve_all(context, profile=profile)}
    if wanted:
        made |= {one.name: one for one in await registry.aresolve_all(context, include=wanted)}
        for skipped in registry.skipped:
            warn(f"the tool {skipped.id} is not available: {skipped.reason}")
    for one in (one for code in functions for one in functions_of(code)):
        if one.name in made:
            raise FormatError(f"duplicate tool name {one.name!r}; rename the function", "--functions")
        made[one.name] = one
    return [*made.values()]


def _parents(path: Path) -> tuple[Path, ...]:
    return (path.resolve(), *path.resolve().parents)


def functions_of(code: str) -> list[Tool]:
    """The public functions of a Python file, or of code, as tools."""
    path = _code_file(code)
    where = str(path) if path is not None else "--functions"
    module = ModuleType(_FUNCTIONS)
    try:
        text = code if path is None else read_regular(path).decode()
    except OSError as error:
        raise FormatError(f"{where}: {error.strerror or error}; give a Python file, or code", "--functions") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: not UTF-8 (byte {error.start:,}); give a Python file", "--functions") from None
    try:
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


def _code_file(given: str) -> Path | None:
    """Returns the named file; None for code."""
    if "\n" in given or not given.strip():
        return None
    path = Path(given).expanduser()
    try:
        is_there = path.exists()
    except (OSError, ValueError):  # longer than a path may be, or with a NUL
        return None
    if is_there and path.suffix != ".py" and kind_of(path) is None:
        raise FormatError(f"{path}: not a Python file; give one that ends in .py, or code", "--functions")
    return path if is_there or path.suffix == ".py" else None


# --- approval ---------------------------------------------------------------------------------------------------------


class TerminalApproval:
    """Asks the user at the terminal, even if standard input is a pipe; without a terminal, nothing is approved."""

    def __init__(self, permissions: Permissions, bridge: Any) -> None:
        self._permissions = permissions
        self._bridge = bridge
        self._asking = asyncio.Lock()
        self.denied = False  # a call was refused because there is no terminal

    async def __call__(self, request: ApprovalRequest) -> bool:
        async with self._asking:
            decision = self._permissions.decide(request.tool_name, request.params)
            if decision.action == "allow":
                return True  # allowed by an `always` meanwhile
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
    """Returns the next typed line."""
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    loop.add_reader(terminal, typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(terminal)
    return os.read(terminal, 4096).decode(errors="replace")
