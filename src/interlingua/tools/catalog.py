"""The core tools as a table: id, section, profiles, factory. A new tool is a row.

A tool's module is imported when the tool is created. A row whose module is missing is skipped with a warning.
"""

import importlib
import importlib.util
import logging
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..values.errors import FormatError
from ..values.interop import describe, must_propagate
from .registry import OPENCLAW, ToolRegistry, named, no_match, unknown_group
from .tool import Tool, ToolContext, ToolMeta, ToolProfile, ToolSection

_log = logging.getLogger(__name__)

OnLoadWarning: TypeAlias = Callable[[str], object]

SECTIONS: tuple[ToolSection, ...] = tuple(
    ToolSection(id=id, label=label)
    for id, label in (
        ("fs", "Files"),
        ("runtime", "Runtime"),
        ("web", "Web"),
        ("memory", "Memory"),
        ("sessions", "Sessions"),
        ("ui", "UI"),
        ("messaging", "Messaging"),
        ("automation", "Automation"),
        ("nodes", "Nodes"),
        ("agents", "Agents"),
        ("media", "Media"),
    )
)


class ToolRow(NamedTuple):
    """One core tool. `profiles` by letter (minimal, coding, messaGing); `place` is `module:factory` in tools/core.

    `needs` names required context fields; a tool that accepts alternatives checks them itself.
    """

    id: str
    section: str
    profiles: str
    flagged: bool
    place: str
    needs: str
    description: str


_AT = "interlingua.host.session_tools"
_MESSAGE = f"{_AT}:message_tool"
_HOST = "sessions session_key"

# fmt: off
ROWS: tuple[ToolRow, ...] = (
    ToolRow("read", "fs", "c", False, "read:read_tool", "", "Read a file: text by lines, or an image"),
    ToolRow("write", "fs", "c", False, "write:write_tool", "", "Create or overwrite a file"),
    ToolRow("edit", "fs", "c", False, "edit:edit_tool", "", "Replace exact text in a file"),
    ToolRow("apply_patch", "fs", "c", False, "apply_patch:apply_patch_tool", "", "Change several files by one patch"),
    ToolRow("ls", "fs", "c", False, "ls:ls_tool", "", "List a directory"),
    ToolRow("find", "fs", "c", False, "find:find_tool", "", "Find files by name"),
    ToolRow("grep", "fs", "c", False, "grep:grep_tool", "", "Search in files"),
    ToolRow("exec", "runtime", "c", False, "exec:exec_tool", "", "Run a shell command"),
    ToolRow("process", "runtime", "c", False, "process:process_tool", "", "Follow and end commands in the background"),
    ToolRow("web_search", "web", "", True, "web_search:web_search_tool", "", "Search the web"),
    ToolRow("web_fetch", "web", "", True, "web_fetch:web_fetch_tool", "", "Fetch a page as readable text"),
    ToolRow("memory_search", "memory", "c", True, "memory:memory_search_tool", "", "Search the memory notes"),
    ToolRow("memory_get", "memory", "c", True, "memory:memory_get_tool", "", "Read part of a memory note"),
    ToolRow("sessions_list", "sessions", "cg", True, f"{_AT}:sessions_list_tool", _HOST, "List sessions"),
    ToolRow("sessions_history", "sessions", "cg", True, f"{_AT}:sessions_history_tool", _HOST, "Read another session"),
    ToolRow("sessions_send", "sessions", "cg", True, f"{_AT}:sessions_send_tool", _HOST, "Write to another session"),
    ToolRow("sessions_spawn", "sessions", "c", True, f"{_AT}:sessions_spawn_tool", _HOST, "Start a sub-agent"),
    ToolRow("subagents", "sessions", "c", True, f"{_AT}:subagents_tool", _HOST, "Manage sub-agents"),
    ToolRow("session_status", "sessions", "mcg", True, f"{_AT}:session_status_tool", _HOST, "Show a session's status"),
    ToolRow("message", "messaging", "g", False, _MESSAGE, "channel", "Write to a channel"),
    ToolRow("canvas", "ui", "", True, "canvas:canvas_tool", "canvas", "Show something on a canvas, and look at it"),
    ToolRow("image", "media", "c", False, "image:image_tool", "complete", "Ask a vision model about an image"),
)
# fmt: on

_LETTERS: dict[str, ToolProfile] = {"m": "minimal", "c": "coding", "g": "messaging"}

GROUPS: dict[str, tuple[str, ...]] = {
    section.id: tuple(row.id for row in ROWS if row.section == section.id) for section in SECTIONS
} | {OPENCLAW: tuple(row.id for row in ROWS if row.flagged)}
"""The core tools of each group (`group:fs`, …)."""


def get_core_tool_catalog() -> list[ToolMeta]:
    """The metadata of each core tool, without importing any."""
    return [_meta(row) for row in ROWS]


def get_core_sections() -> list[ToolSection]:
    return list(SECTIONS)


def discover_core_tools(
    registry: ToolRegistry,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] | None = None,
    on_load_warning: OnLoadWarning | None = None,
    openclaw_root: str | None = None,
) -> None:
    """Registers the core tools; they are created when resolved.

    `include` and `exclude` take ids and groups (`group:web`); an empty `include` selects nothing, `exclude` wins.
    `openclaw_root` is added to `registry.search_roots` for the plugin loader; nothing in it is executed here.
    """
    warn = on_load_warning or _log.warning
    for name in dict.fromkeys((*(include or ()), *(exclude or ()))):
        if problem := _problem(name):
            warn(problem)
    for section in SECTIONS:
        registry.register_section(section)
    for row in ROWS:
        meta = _meta(row)
        if (include is None or named(meta, include)) and not (exclude and named(meta, exclude)):
            _register(registry, row, meta, warn)
    if openclaw_root is not None:
        _search(registry, openclaw_root, warn)


def core_tools(names: Iterable[str], context: ToolContext | None = None) -> list[Tool]:
    """Core tools by their ids (`read`, `exec`) or groups (`group:fs`); raises for one that is unknown or needs more."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if problem := _problem(name):
            raise FormatError(problem, "tools")
    registry = ToolRegistry()
    discover_core_tools(registry, include=wanted)
    tools = registry.resolve_all(context)
    for one in registry.skipped:
        if one.id in wanted:
            raise FormatError(f"the core tool {one.id} cannot be used here: {one.reason}", "tools")
    return tools


def _problem(name: str) -> str | None:
    """The message for an id or group that selects no core tool; None for any other."""
    selects = any(named(_meta(row), (name,)) for row in ROWS)
    return unknown_group(name, GROUPS) or (None if selects else no_match(name, [row.id for row in ROWS]))


def _register(registry: ToolRegistry, row: ToolRow, meta: ToolMeta, warn: OnLoadWarning) -> None:
    if importlib.util.find_spec(_module(row)) is None:
        warn(f"the core tool {row.id} could not be loaded: no module {_module(row)}")
    else:
        registry.register_factory(_Later(row, warn), meta)


def _search(registry: ToolRegistry, root: str, warn: OnLoadWarning) -> None:
    if not Path(root).expanduser().is_dir():
        warn(
            f"{root} is not a directory, so no plugins are searched there; set openclaw_root to the path of a checkout"
        )
    elif root not in registry.search_roots:
        registry.search_roots = (*registry.search_roots, root)


class _Later:
    """A lazy factory: imports the module of a row and calls its factory. Equal to any other for the same row."""

    def __init__(self, row: ToolRow, warn: OnLoadWarning) -> None:
        self._row = row
        self._warn = warn

    def __call__(self, context: ToolContext) -> Tool | list[Tool] | None:
        try:
            factory: Any = getattr(importlib.import_module(_module(self._row)), self._row.place.partition(":")[2])
        except BaseException as error:  # foreign code may raise anything on import
            if not must_propagate(error):
                self._warn(f"the core tool {self._row.id} could not be loaded: {describe(error)}")
            raise
        made: Tool | list[Tool] | None = factory(context)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Later) and self._row == other._row

    def __hash__(self) -> int:
        return hash(self._row)


def _module(row: ToolRow) -> str:
    """The module of a row: one of the core tools, or any other by its full name."""
    name = row.place.partition(":")[0]
    return name if "." in name else f"{__package__}.core.{name}"


def _meta(row: ToolRow) -> ToolMeta:
    return ToolMeta(
        id=row.id,
        label=row.id,
        description=row.description,
        section_id=row.section,
        profiles=tuple(_LETTERS[letter] for letter in row.profiles),
        source="core",
        include_in_open_claw_group=row.flagged,
        needs=tuple(row.needs.split()),
    )
