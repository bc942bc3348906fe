"""Watches conversations that other programs are writing; their files are read, never written.

A `Watcher` imports the changed files of one program (or of any folder) and notifies viewers; `follow_home` and
`follow_store` do the same for our own sessions that other processes write.
"""

import asyncio
import contextlib
import hashlib
import itertools
import logging
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from ..conversion.sources import is_followed
from ..sessions.files import ENDING
from ..sessions.programs import HEAD, PROGRAMS, project_of
from ..sessions.store import SpawnedBy
from ..sessions.watching import RESCAN, FolderWatch
from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.regular import stream_regular
from .library import Library, SessionPlace, imported_id
from .open_sessions import OpenSessions
from .shapes import SourceView

SETTLE = 0.15  # seconds: a program writes a response in several pieces
LISTING = 1.0  # seconds between two lists of a store without files, at least
_SINGLY = 100  # changes that are shown one by one: of more, the whole list is loaded anew
BUSY_SHARE = 4  # a file that takes a second to read is read again after as many seconds
_log = logging.getLogger(__name__)


# --- other programs' histories ---------------------------------------------------------------------------------------


class Watcher:
    """Follows the conversations of a program, or of a folder, into the list and into open trees."""

    def __init__(self, library: Library, given: str) -> None:
        self._library = library
        program = PROGRAMS.get(given)
        if program is None and not Path(given).expanduser().is_dir():
            known = ", ".join(PROGRAMS)
            raise InterlinguaError(f"cannot watch {given!r}; name a folder, or one of {known}")
        self.root = program.root() if program is not None else Path(given).expanduser().absolute()
        self.label = program.name if program is not None else self.root.name or str(self.root)
        self.id = self.label if program is not None else _folder_id(self.root)
        self._program = program
        self._dialect = program.name if program is not None else None
        self.error: str | None = None
        self.is_watching = False
        self._parents = Parents(self.root)

    def _matches(self, path: Path) -> bool:
        if self._program is not None:
            return self._program.has(path, self.root)
        return is_followed(path)

    async def follow(self, canvas: OpenSessions) -> None:
        """Imports existing files and then changes, until cancelled."""
        watch = FolderWatch(self.root, self._matches, self._program.depth if self._program is not None else None)
        due: dict[Path, float] = {}  # files to read, and when
        free: dict[Path, float] = {}  # when a file may be read again
        self.is_watching = True
        try:
            await asyncio.to_thread(self._register_known)
            await self._take_all(canvas, await watch.scan())
            while True:
                now = time.monotonic()
                timeout = min((at - now for at in due.values()), default=RESCAN)
                for path in await watch.wait(max(0.0, timeout)):
                    due.setdefault(path, max(time.monotonic() + SETTLE, free.get(path, 0.0)))
                for path in [path for path, at in due.items() if at <= time.monotonic()]:
                    del due[path]
                    began = time.monotonic()
                    await self._take(canvas, path)
                    free[path] = time.monotonic() + BUSY_SHARE * (time.monotonic() - began)
        finally:
            self.is_watching = False
            watch.close()

    def _register_known(self) -> None:
        """Lists earlier imports, so that links are valid while the files are checked again."""
        for found in self._library.cache.known(self.id):
            self._library.register_watched(self.id, self.label, found, None, None)

    async def _take_all(self, canvas: OpenSessions, paths: list[Path]) -> None:
        """Reads a whole history; viewers are notified once a second, not for each file."""
        notified = time.monotonic()
        for path in paths:
            await self._try_reading(path)
            if time.monotonic() - notified > 1.0:
                canvas.sources_changed()
                notified = time.monotonic()
        canvas.sources_changed()

    async def _take(self, canvas: OpenSessions, path: Path) -> None:
        places, gone = await self._try_reading(path)
        for place in gone:
            await canvas.close_hub(place.key)
            canvas.session_gone(place.key)
        for place in places:
            canvas.describer.forget(place.key)
            await canvas.update_open(place.key)
            canvas.session_changed(place)

    async def _try_reading(self, path: Path) -> tuple[list[SessionPlace], list[SessionPlace]]:
        """Reads a file; one that cannot be read is reported and does not stop the watcher."""
        try:
            return await asyncio.to_thread(self._read, path)
        except Exception as error:
            if self._program is None and isinstance(error, InterlinguaError):  # a folder has other files, too
                return [], []
            self.error = f"{path.name}: {error}"
            _log.warning("%s could not be read: %s", path, error)
            return [], []

    def _read(self, path: Path) -> tuple[list[SessionPlace], list[SessionPlace]]:
        if not path.is_file():
            return [], self._library.unregister(str(path.absolute()))
        found = self._library.cache.open_path(path, self.id, self._dialect, allow_partial=True)
        head = _beginning(path)
        spawned = self._parents.of(path, head) if self._dialect is not None else None
        return self._library.register_watched(self.id, self.label, found, project_of(path, head), spawned), []

    def view(self, sessions: int) -> SourceView:
        return SourceView(
            id=self.id,
            kind="watch",
            label=self.label,
            where=str(self.root),
            sessions=sessions,
            read_only=True,
            watching=self.is_watching,
            error=self.error if self.root.is_dir() else f"{self.root} is not there yet",
        )


def _folder_id(root: Path) -> str:
    """Returns the cache name of a folder's sessions."""
    name = re.sub(r"[^A-Za-z0-9_-]", "-", root.name).lstrip("-") or "folder"
    return f"{name[:40]}-{hashlib.blake2b(str(root).encode('utf-8', 'surrogateescape'), digest_size=4).hexdigest()}"


def _beginning(path: Path) -> bytes:
    with stream_regular(path) as stream:
        return stream.read(HEAD)


# --- sub-agents ------------------------------------------------------------------------------------------------------


class _Origin(NamedTuple):
    """The file of the parent, what identifies the sub-agent in it, and its initial prompt."""

    parent: Path
    name: str
    prompt: str | None = None


class Parents:
    """Finds the conversation and the call that started a sub-agent: each program records this differently."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._threads: dict[str, Path] = {}  # files of Codex and Gemini by session id

    def of(self, path: Path, head: bytes) -> SpawnedBy | None:
        found = self._origin(path, head)
        if found is None or found.parent == path or not found.parent.is_file():
            return None
        return SpawnedBy(session=imported_id(found.parent), call_id=_call_of(found.parent, found.name, found.prompt))

    def _origin(self, path: Path, head: bytes) -> "_Origin | None":
        lines = [line for line in head.split(b"\n")[:20] if line.strip()]
        first = _object(lines[0]) if lines else {}
        payload = first.get("payload")
        if isinstance(payload, dict) and first.get("type") == "session_meta":
            return self._codex(payload)
        if isinstance(first.get("sessionId"), str) and ("kind" in first or "projectHash" in first):
            return self._gemini(path, first)
        return _claude(path, lines)

    def _codex(self, meta: dict[str, Any]) -> "_Origin | None":
        # SessionSource::SubAgent(ThreadSpawn { parent_thread_id, … }) in codex-rs/protocol.
        source = meta.get("source")
        spawn = source.get("subagent") if isinstance(source, dict) else None
        spawn = spawn.get("thread_spawn") if isinstance(spawn, dict) else None
        parent = spawn.get("parent_thread_id") if isinstance(spawn, dict) else None
        own = meta.get("id")
        if not isinstance(parent, str) or not isinstance(own, str):
            return None
        if parent not in self._threads or not self._threads[parent].is_file():
            found = next(self._root.rglob(f"rollout-*{parent}.jsonl"), None) if _is_plain(parent) else None
            if found is not None:
                self._threads[parent] = found
        return _Origin(self._threads[parent], own) if parent in self._threads else None

    def _gemini(self, path: Path, header: dict[str, Any]) -> "_Origin | None":
        # A sub-agent's file is in a folder named after its parent's session.
        if header.get("kind") != "subagent" or path.parent.name == "chats":
            return None
        parent = path.parent.name
        for other in sorted(path.parent.parent.glob(f"session-*{parent[:8]}*.json*")):
            if _object(_beginning(other).split(b"\n")[0]).get("sessionId", parent) == parent:
                return _Origin(other, str(header["sessionId"]))
        return None


def _claude(path: Path, lines: list[bytes]) -> "_Origin | None":
    """Each line of a sub-agent's file names the session of its parent, and the agent."""
    for raw in lines:
        line = _object(raw)
        session, agent = line.get("sessionId"), line.get("agentId")
        if line.get("isSidechain") is True and isinstance(session, str) and isinstance(agent, str):
            if not _is_plain(session) or session == path.stem:
                return None
            project = path.parent.parent.parent if path.parent.name == "subagents" else path.parent
            message = line.get("message")
            content = message.get("content") if isinstance(message, dict) else None
            return _Origin(project / f"{session}.jsonl", agent, content if isinstance(content, str) else None)
    return None


def _call_of(parent: Path, name: str, prompt: str | None) -> str | None:
    """The call that started a sub-agent: its result names the agent; before that, its arguments contain the prompt."""
    started = None
    with stream_regular(parent) as stream:
        for raw in stream:
            if name.encode() in raw:
                found = _answered(_object(raw), name)
                if found is not None:
                    return found
            if started is None and prompt is not None and b'"prompt"' in raw:
                started = _started(_object(raw), prompt)
    return started


def _answered(line: dict[str, Any], name: str) -> str | None:
    """Returns the call whose result, or progress, names this sub-agent."""
    data, result, payload = line.get("data"), line.get("toolUseResult"), line.get("payload")
    if isinstance(data, dict) and data.get("agentId") == name and isinstance(line.get("parentToolUseID"), str):
        return str(line["parentToolUseID"])
    if isinstance(result, dict) and result.get("agentId") == name:
        return next((str(b["tool_use_id"]) for b in _blocks(line) if isinstance(b.get("tool_use_id"), str)), None)
    if isinstance(payload, dict) and payload.get("type") == "function_call_output":
        return payload["call_id"] if isinstance(payload.get("call_id"), str) else None
    calls = line.get("toolCalls")
    named = (call for call in calls if name in str(call)) if isinstance(calls, list) else ()
    return next((call["id"] for call in named if isinstance(call, dict) and isinstance(call.get("id"), str)), None)


def _started(line: dict[str, Any], prompt: str) -> str | None:
    for block in _blocks(line):
        given = block.get("input")
        if block.get("type") == "tool_use" and isinstance(given, dict) and given.get("prompt") == prompt:
            return str(block.get("id"))
    return None


def _blocks(line: dict[str, Any]) -> list[dict[str, Any]]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _object(raw: bytes) -> dict[str, Any]:
    with contextlib.suppress(InterlinguaError):
        value = jsontext.read(raw)
        return value if isinstance(value, dict) else {}
    return {}


def _is_plain(name: str) -> bool:
    """Whether a name can be part of a file name and is not a pattern."""
    return re.fullmatch(r"[A-Za-z0-9_-]{1,200}", name) is not None


# --- this home -------------------------------------------------------------------------------------------------------


async def follow_home(canvas: OpenSessions) -> None:
    """Notifies the list of sessions that other processes write: agents, the gateway's recordings, a host."""
    library = canvas.library
    root = library.home / "agents"
    watch = FolderWatch(root, lambda path: path.suffix == ENDING and path.parent.name == "sessions", depth=2)
    began = time.time() - 1.0  # the times of files may be rounded down
    try:
        # Viewers may have had their list before the first scan.
        changed = [*itertools.takewhile(lambda path: _changed_since(path, began), await watch.scan())]
        while True:
            for path in changed:
                place = library.own_session(path)
                if place is None:
                    continue
                canvas.describer.forget(place.key)
                if path.is_file():
                    canvas.session_changed(place)
                else:
                    canvas.session_gone(place.key)
            await asyncio.sleep(SETTLE)
            changed = await watch.wait(RESCAN)
    finally:
        watch.close()


def _changed_since(path: Path, moment: float) -> bool:
    try:
        return path.stat().st_mtime >= moment
    except OSError:  # it is gone, which is a change
        return True


async def follow_store(canvas: OpenSessions) -> None:
    """The same for a store without files: while somebody looks at the list, it is compared with the one before."""
    library = canvas.library

    def listed() -> dict[str, SessionPlace]:
        return {place.key: place for place in library.places() if not place.read_only}

    before: dict[str, SessionPlace] | None = None
    pause = 0.0
    while True:
        await asyncio.sleep(pause)
        if before is not None and not canvas.events.viewers:
            continue
        began = time.monotonic()
        try:
            found = await asyncio.to_thread(listed)
        except (InterlinguaError, OSError) as error:  # the database is away; requests say so
            _log.debug("the sessions cannot be listed: %s", error)
            pause = LISTING
            continue
        pause = max(LISTING, 20 * (time.monotonic() - began))
        if before is not None:
            _show_changes(canvas, before, found)
        before = found


def _show_changes(canvas: OpenSessions, before: dict[str, SessionPlace], found: dict[str, SessionPlace]) -> None:
    changed = [place for key, place in found.items() if key not in before or before[key].info != place.info]
    gone = before.keys() - found.keys()
    if len(changed) + len(gone) > _SINGLY:
        canvas.sources_changed()
        return
    for place in changed:
        canvas.describer.forget(place.key)
        canvas.session_changed(place)
    for key in gone:
        canvas.session_gone(key)
