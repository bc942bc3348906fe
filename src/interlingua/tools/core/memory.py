"""`memory_search` and `memory_get`: search and read the agent's notes, `MEMORY.md` and `memory/**/*.md`.

The notes are in the workspace and in the agent's directory. If the workspace is a remote bridge, its notes are read
through it.
"""

import asyncio
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from ...values.abort import Abort
from ...values.errors import ToolInputError
from ..access import permitted
from ..fs import ByteBridge, context_bridge
from ..memory_index import LocalNote, MemoryIndex, NoteFile, refuse_large
from ..params import read_arguments, schema_of
from ..tool import MissingContext, Tool, ToolContext, ToolResult, as_execute, json_result, read_settings

SEARCH_DESCRIPTION = (
    "Searches the memory notes (MEMORY.md and memory/*.md) for terms, and returns the best passages with path, line "
    "range and score. Use it before answering about earlier work, decisions, dates, people or preferences; read more "
    "of a note with memory_get."
)
GET_DESCRIPTION = "Reads a memory note, or some lines of it: the path is one that memory_search returned."

INDEX_NAME = "memory-index.sqlite"

_TOP = ("MEMORY.md", "memory.md")
_FOLDER = "memory"
_MAX_NOTES = 10_000
_MAX_DEPTH = 8
_MAX_LINES = 2000
_MAX_CHARS = 100_000


class MemorySettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The settings of `memory`. `paths` adds notes or folders of notes, absolute or relative to the workspace."""

    enabled: bool = True
    paths: tuple[str, ...] = ()
    index: str | None = None
    max_results: int = 6


class MemorySearchArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="Terms to search for, in any order.", min_length=1, max_length=2000)]
    max_results: Annotated[int, Meta(description="How many passages at most.", ge=1, le=50)] | UnsetType = UNSET
    min_score: Annotated[
        float, Meta(description="Leave out passages below this score: 1 is all terms in the best place.", ge=0, le=1)
    ] = 0.0


class MemoryGetArguments(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The note's path, as memory_search gives it.", min_length=1)]
    from_: Annotated[int, Meta(description="First line, counted from 1.", ge=1)] = field(default=1, name="from")
    lines: Annotated[int, Meta(description="How many lines.", ge=1)] | UnsetType = UNSET


class MemoryNote(NamedTuple):
    """A note and its key in the index: its absolute path, or one that no local file has."""

    key: str
    file: NoteFile


class BridgeNote(NamedTuple):
    """A note fetched through a bridge."""

    data: bytes
    changed: tuple[int, int]

    def state(self) -> tuple[int, int]:
        return self.changed

    def read(self) -> tuple[bytes, tuple[int, int]]:
        return self.data, self.changed


class BridgeNotes:
    """The notes of a bridge, cached by modification time and size."""

    def __init__(self, bridge: ByteBridge) -> None:
        self._bridge = bridge
        self._fetched: dict[str, BridgeNote] = {}

    async def fetch(self) -> dict[str, MemoryNote]:
        names = [name for name in await self._names(".") if name in _TOP]
        names += await self._below(_FOLDER, _MAX_DEPTH)
        found = [(name, await self._note(name)) for name in names[:_MAX_NOTES]]
        self._fetched = {name: note for name, note in found if note is not None}
        return {name: MemoryNote(f"bridge:{name}", note) for name, note in self._fetched.items()}

    async def _names(self, folder: str) -> list[str]:
        try:
            return sorted(await self._bridge.readdir(folder))
        except Exception:  # a bridge is foreign code; a folder that it cannot list has no notes
            return []

    async def _below(self, folder: str, depth: int) -> list[str]:
        found: list[str] = []
        for name in await self._names(folder):
            if name.startswith("."):
                continue
            if name.endswith("/"):
                found += await self._below(f"{folder}/{name[:-1]}", depth - 1) if depth else []
            elif name.lower().endswith(".md"):
                found.append(f"{folder}/{name}")
        return found

    async def _note(self, name: str) -> BridgeNote | None:
        try:
            found = await self._bridge.stat(name)
            if found is None or not found.is_file:
                return None
            refuse_large(found.size)
            before = self._fetched.get(name)
            changed = int(found.mtime_ms * 1_000_000), found.size
            if before is not None and before.changed == changed and changed[0]:
                return before
            return BridgeNote(await self._bridge.read_bytes(name), changed)
        except Exception:
            return None


class Places:
    """The places of notes: local folders, the workspace first, and a bridge."""

    def __init__(self, context: ToolContext, settings: "MemorySettings") -> None:
        remote = context.bridge is not None and not hasattr(context.bridge, "local_root")
        workspace = context.workspace_dir or context.root
        given = (None if remote else workspace, context.agent_dir)
        self.folders = tuple(dict.fromkeys(Path(place).absolute() for place in given if place))
        self.bridge = BridgeNotes(context_bridge(context)) if remote else None
        self._extra = settings.paths
        if not self.folders and self.bridge is None:
            raise MissingContext("agent_dir", "workspace_dir")

    async def notes(self) -> dict[str, MemoryNote]:
        """All notes by name."""
        fetched = await self.bridge.fetch() if self.bridge is not None else {}
        local = await asyncio.to_thread(_notes, self.folders, self._extra)
        for name, note in local.items():
            fetched.setdefault(note.key if name in fetched else name, note)
        return {name: note for name, note in fetched.items() if permitted(name, note.key)}


def memory_search_tool(context: ToolContext) -> Tool | None:
    """The search tool; None if the settings disable memory."""
    settings = read_settings("memory", MemorySettings, context)
    places = Places(context, settings)
    if not settings.enabled:
        return None
    index = MemoryIndex(_index_path(context, settings) if places.bridge is None else None)

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        arguments = read_arguments("memory_search", params, MemorySearchArguments)
        limit = arguments.max_results or settings.max_results
        return await asyncio.to_thread(_found, index, await places.notes(), arguments, limit)

    return Tool(
        name="memory_search",
        label="Search memory",
        description=SEARCH_DESCRIPTION,
        parameters=schema_of(MemorySearchArguments),
        execute=execute,
    )


def memory_get_tool(context: ToolContext) -> Tool | None:
    """The reading tool; None if the settings disable memory."""
    settings = read_settings("memory", MemorySettings, context)
    places = Places(context, settings)
    if not settings.enabled:
        return None

    @as_execute
    async def execute(params: dict[str, Any], signal: Abort | None) -> ToolResult:
        arguments = read_arguments("memory_get", params, MemoryGetArguments)
        return await asyncio.to_thread(_got, places, await places.notes(), arguments)

    return Tool(
        name="memory_get",
        label="Read memory",
        description=GET_DESCRIPTION,
        parameters=schema_of(MemoryGetArguments),
        execute=execute,
    )


def _index_path(context: ToolContext, settings: MemorySettings) -> Path | None:
    """The index path: in the agent's directory; a workspace is the user's folder, where nothing is created unasked."""
    if settings.index is not None:
        return Path(settings.index)
    return None if context.agent_dir is None else Path(context.agent_dir) / INDEX_NAME


def _found(
    index: MemoryIndex, notes: Mapping[str, MemoryNote], arguments: MemorySearchArguments, limit: int
) -> ToolResult:
    try:
        names = {note.key: name for name, note in notes.items()}
        files = {note.key: note.file for note in notes.values()}
        found = index.search(files, arguments.query, max_results=limit, min_score=arguments.min_score)
    except sqlite3.Error as error:
        payload = {"results": [], "disabled": True, "error": f"the memory index failed: {error}"}
        return msgspec.structs.replace(json_result(payload), is_error=True)
    hits = [msgspec.structs.replace(hit, path=names[hit.path]) for hit in found]
    payload = {"results": msgspec.to_builtins(hits), "provider": "fts5", "notes": len(notes)}
    if not notes:
        payload["message"] = "no memory notes yet; neither MEMORY.md nor memory/*.md exists"
    elif not hits:
        payload["message"] = "no note contains these terms; try fewer or other terms"
    return json_result(payload)


def _got(places: Places, notes: Mapping[str, MemoryNote], arguments: MemoryGetArguments) -> ToolResult:
    name = _name_of(arguments.path, notes, places.folders)
    try:
        text = notes[name].file.read()[0].decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError as error:
        raise ToolInputError(f"memory_get: {name} cannot be read: {error.strerror}") from None
    lines = text.removesuffix("\n").split("\n") if text else []
    if lines and arguments.from_ > len(lines):
        raise ToolInputError(f"memory_get: {name} has {len(lines)} lines; from {arguments.from_} is past the end")
    count = min(arguments.lines or _MAX_LINES, _MAX_LINES)
    taken = lines[arguments.from_ - 1 : arguments.from_ - 1 + count]
    shown = "\n".join(taken)[:_MAX_CHARS]
    payload: dict[str, Any] = {"path": name, "from": arguments.from_, "lines": shown.count("\n") + 1 if taken else 0}
    payload |= {"totalLines": len(lines), "text": shown}
    following = arguments.from_ + payload["lines"]
    if following <= len(lines):
        payload["message"] = f"more lines follow; continue with from {following}"
    return json_result(payload)


def _name_of(path: str, notes: Mapping[str, MemoryNote], places: tuple[Path, ...]) -> str:
    """The name of the note at `path`. Only listed notes match, so no spelling of a path leads elsewhere."""
    plain = os.path.normpath(path.strip().removeprefix("@"))
    spellings = [plain.replace(os.sep, "/")]
    spellings += [Path(plain).relative_to(place).as_posix() for place in places if Path(plain).is_relative_to(place)]
    for spelling in spellings:
        if spelling in notes:
            return spelling
    known = ", ".join(list(notes)[:20]) or "none"
    raise ToolInputError(f"memory_get: {path[:200]!r} is not a memory note; available notes: {known}")


def _notes(places: tuple[Path, ...], extra: tuple[str, ...]) -> dict[str, MemoryNote]:
    """All notes by name: the path in its folder, or the absolute path if that name is taken or outside."""
    notes: dict[str, MemoryNote] = {}
    for place in places:
        for path in (*_top(place), *_markdown_files(place, place / _FOLDER, _MAX_DEPTH)):
            name = path.relative_to(place).as_posix()
            notes[str(path) if name in notes else name] = _local(place, path)
    for text in extra:
        added = Path(text).expanduser()
        if not added.is_absolute():
            if not places:
                continue  # relative to a workspace that is not on this machine
            added = places[0] / added
        if added.is_dir():
            place, more = added, _markdown_files(added, added, _MAX_DEPTH)
        else:
            place, more = added.parent, [added] if _stays_inside(added.parent, added) else []
        for path in more:
            notes.setdefault(_added_name(path, places), _local(place, path))
    return dict(list(notes.items())[:_MAX_NOTES])


def _local(place: Path, path: Path) -> MemoryNote:
    return MemoryNote(str(path), LocalNote(lambda: open_inside(place, path)))


def _added_name(path: Path, places: tuple[Path, ...]) -> str:
    place = next((place for place in places if path.is_relative_to(place)), None)
    return str(path) if place is None else path.relative_to(place).as_posix()


def _top(place: Path) -> list[Path]:
    """`MEMORY.md` or `memory.md`; listed once on a case-insensitive file system."""
    try:
        there = {entry.name for entry in os.scandir(place)}
    except OSError:
        return []
    return [place / name for name in _TOP if name in there and _stays_inside(place, place / name)]


def _markdown_files(place: Path, folder: Path, depth: int) -> list[Path]:
    """The markdown files below a folder, sorted. Skips linked folders, and files that resolve to outside."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    found: list[Path] = []
    for entry in entries:
        path = folder / entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            found += _markdown_files(place, path, depth - 1) if depth else []
        elif entry.name.lower().endswith(".md") and _stays_inside(place, path):
            found.append(path)
    return found


def _stays_inside(place: Path, path: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(place.resolve())
    except (OSError, RuntimeError):
        return False


def open_inside(place: Path, path: Path) -> int:
    """Opens a note for reading, component by component without following links, so that a swapped path fails."""
    root = place.resolve()
    real = path.resolve(strict=True)
    if not real.is_relative_to(root):
        raise ToolInputError(f"{path.name} leads out of the memory folder")
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
    if os.open not in os.supports_dir_fd:
        return os.open(real, flags)
    *folders, name = real.relative_to(root).parts
    at = os.open(root, flags | os.O_DIRECTORY)
    try:
        for folder in folders:
            at, before = os.open(folder, flags | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at), at
            os.close(before)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)
