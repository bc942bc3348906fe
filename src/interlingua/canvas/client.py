"""`CanvasClient` and `AsyncCanvasClient`: show a program's conversations on a canvas.

Commits return immediately. They are stored on disk, sent in batches, and retried until the server has acknowledged
them; the server may be offline for any time. Reads (`get_canvas`, `list_canvases`) go to the server.
"""

import asyncio
import contextlib
import hashlib
import http.client
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import quote, urlsplit

from ..values import jsontext
from ..values.canonical import plain
from ..values.errors import InterlinguaError, TransportError
from ..values.messages import AssistantMessage, CustomMessage, SystemMessage, ToolResultMessage, UserMessage
from ..values.places import home as default_home
from ..values.places import private_folder
from ..values.regular import open_regular, read_regular

# --- the outbox ------------------------------------------------------------------------------------------------------
#
# Changes to be sent to a canvas server: stored on disk until they are acknowledged, sent in batches, retried.
#
# A file of lines, and beside it the number of acknowledged bytes. When everything is acknowledged, both are emptied.


MAX_BATCH = 1_000  # changes per batch
MAX_BATCH_BYTES = 4 << 20


class Outbox:
    """A queue of changes. Any thread may add; one sender takes and acknowledges."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._file = -1
        self._done = 0
        if path is not None:
            private_folder(path.parent)
            self._waiting = self._recovered(path)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _recovered(self, path: Path) -> list[bytes]:
        """Recovers what an earlier process left; half a line at the end was never acknowledged."""
        try:
            data = read_regular(path)
            self._done = int(read_regular(self._mark(path)).decode() or 0)
        except (OSError, ValueError):
            data, self._done = read_regular(path) if path.exists() else b"", 0
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) != len(data):
            os.truncate(path, len(whole))
        return [line for line in whole[self._done :].split(b"\n") if line]

    @staticmethod
    def _mark(path: Path) -> Path:
        return path.with_suffix(".done")

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, change: dict[str, Any]) -> None:
        """Stores a change; when it returns, the change survives this process."""
        line = jsontext.write(change)
        with self._lock:
            if self._file >= 0:
                os.write(self._file, line + b"\n")
            self._waiting.append(line)

    def batch(self, limit: int = MAX_BATCH) -> list[bytes]:
        """Returns the oldest pending changes, as JSON; they stay until they are acknowledged."""
        with self._lock:
            taken: list[bytes] = []
            size = 0
            for line in self._waiting[:limit]:
                if taken and size + len(line) > MAX_BATCH_BYTES:
                    break
                taken.append(line)
                size += len(line)
            return taken

    def acknowledge(self, count: int) -> None:
        """Removes the oldest changes: the server has them."""
        with self._lock:
            self._done += sum(len(line) + 1 for line in self._waiting[:count])
            del self._waiting[:count]
            if self._path is None or self._file < 0:
                return
            if not self._waiting:
                os.ftruncate(self._file, 0)
                self._done = 0
            mark = open_regular(self._mark(self._path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with os.fdopen(mark, "wb") as stream:
                stream.write(str(self._done).encode())

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1


# --- a canvas in a program -------------------------------------------------------------------------------------------
#
# A canvas in a program: nodes, branches, merges. Pure: changes are passed to a function, which sends them.
#
# The methods are those of the `llm-canvas` package, with two bugs fixed: a branch is a value of its own, so that
# threads and tasks do not move each other's; and a canvas that is read back is complete, branches included.


Node: TypeAlias = dict[str, Any]
Change: TypeAlias = dict[str, Any]
MAIN = "main"
_MESSAGES = (UserMessage, AssistantMessage, ToolResultMessage, SystemMessage, CustomMessage)


class CanvasBranch:
    """A line of nodes, appended to by commits. Two branches of one canvas never move each other."""

    def __init__(self, canvas: "LocalCanvas", info: dict[str, Any], *, detached: bool = False) -> None:
        self._canvas = canvas
        self._info = info
        self._detached = detached

    @property
    def name(self) -> str:
        return str(self._info["name"])

    @property
    def description(self) -> str | None:
        return self._info["description"]  # type: ignore[no-any-return]

    @property
    def head_node_id(self) -> str | None:
        return self._info["head_node_id"]  # type: ignore[no-any-return]

    @property
    def branch_info(self) -> dict[str, Any]:
        return dict(self._info)

    def get_head_node(self) -> Node | None:
        return None if self.head_node_id is None else self._canvas.get_node(self.head_node_id)

    def commit_message(self, message: Any, meta: dict[str, Any] | None = None, *, node_id: str | None = None) -> Node:
        """Appends a message to the head and moves the head to it; a message of the package, or one of ours."""
        return self._canvas._commit(self, message, meta, node_id)

    def listener(self, agent: Any) -> Callable[[Any], None]:
        """The listener for `agent.watch(branch)`: commits the messages so far, and then each one as it ends."""
        for message in agent.history.messages:
            self.commit_message(message)

        def listen(event: Any) -> None:
            if event.type == "message_end":
                self.commit_message(event.message)

        return listen

    def update_message(self, node_id: str, updated: Any) -> Node:
        """Replaces a node's message: by a message, or by that of a node."""
        return self._canvas.update_message(node_id, updated)

    def checkout(self, name: str, description: str | None = None, create_if_not_exists: bool = False) -> "CanvasBranch":
        """Returns another branch; a new one begins at this one's head."""
        return self._canvas._branch(name, description, create_if_not_exists, self.head_node_id)

    def merge_from(self, source_branch_names: str | Sequence[str], merge_message: Any) -> Node:
        """Appends one node to this branch's head that has the heads of other branches as further parents."""
        return self._canvas.merge(source_branch_names, merge_message, self.name)


class LocalCanvas:
    """A canvas as this program sees it. `changed` is called with each change, in order, one at a time."""

    def __init__(
        self,
        changed: Callable[[Change], None],
        canvas_id: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> None:
        self.canvas_id = canvas_id or str(uuid.uuid4())
        self.title = title
        self.description = description
        self.created_at = time.time()
        self.last_updated = self.created_at
        self._changed = changed
        self._lock = threading.RLock()
        self._nodes: dict[str, Node] = {}
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        self._branches: dict[str, dict[str, Any]] = {MAIN: _info(MAIN, "Main conversation thread", None)}

    def listener(self, agent: Any) -> Callable[[Any], None]:
        """The listener for `agent.watch(canvas)`: commits the agent's messages to `main`."""
        return self.checkout(MAIN).listener(agent)

    # --- nodes -------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> dict[str, Node]:
        return dict(self._nodes)

    def get_node(self, node_id: str) -> Node | None:
        return self._nodes.get(node_id)

    def iter_nodes(self) -> Iterator[Node]:
        return iter(list(self._nodes.values()))

    def add_message(
        self,
        message: Any,
        parent_node_id: str | None = None,
        meta: dict[str, Any] | None = None,
        node_id: str | None = None,
    ) -> Node:
        """Adds a node below another, or as a root; no branch moves."""
        with self._lock:
            if parent_node_id is not None and parent_node_id not in self._nodes:
                raise KeyError(f"no node {parent_node_id!r}")
            return self._add(message, parent_node_id, meta, node_id, ())

    def _commit(self, branch: CanvasBranch, message: Any, meta: dict[str, Any] | None, node_id: str | None) -> Node:
        with self._lock:
            head = branch.head_node_id
            node = self._add(message, head, meta, node_id, (), branch if not branch._detached else None, head)
            branch._info["head_node_id"] = node["id"]
            return node

    def _add(
        self,
        message: Any,
        parent: str | None,
        meta: dict[str, Any] | None,
        node_id: str | None,
        parents: Sequence[str],
        branch: CanvasBranch | None = None,
        expect: str | None = None,
    ) -> Node:
        id = node_id or str(uuid.uuid4())
        if id in self._nodes:
            raise ValueError(f"node {id!r} already exists")
        node: Node = {
            "id": id,
            "message": _encoded(message),
            "parent_id": parent,
            "child_ids": [],
            "meta": {"timestamp": time.time(), **(meta or {})},
        }
        change: Change = {"op": "commit", "canvas": self.canvas_id, "id": id, **_body(message, node)}
        change |= ({"parent": parent} if parent is not None else {}) | ({"parents": list(parents)} if parents else {})
        if branch is not None:
            change |= {"branch": branch.name, "expect": expect}
        self._nodes[id] = node
        for above in (parent, *parents):
            if above is not None:
                self._nodes[above]["child_ids"].append(id)
        self._emit(change, "commit_message", node)
        return node

    def update_message(self, node_id: str, updated: Any) -> Node:
        """Replaces a node's message; id, parent and children stay."""
        with self._lock:
            node = self._nodes.get(node_id)
            if node is None:
                raise ValueError(f"no node {node_id!r}")
            given = updated if isinstance(updated, dict) and "message" in updated else {"message": updated}
            node["message"] = _encoded(given["message"])
            node["meta"] = {**(node["meta"] or {}), **(given.get("meta") or {})}
            change = {"op": "update", "canvas": self.canvas_id, "id": node_id, **_body(given["message"], node)}
            self._emit(change, "update_message", node)
            return node

    # --- branches ----------------------------------------------------------------------------------------------------

    @property
    def branches(self) -> list[CanvasBranch]:
        return [CanvasBranch(self, info) for info in self._branches.values()]

    def list_branches(self) -> list[dict[str, Any]]:
        return [dict(info) for info in self._branches.values()]

    def checkout(
        self,
        name: str | None = None,
        description: str | None = None,
        create_if_not_exists: bool = False,
        commit_message: Node | None = None,
    ) -> CanvasBranch:
        """Returns a branch by its name, created on request at a node or at the head of main; or, without a name, a
        detached head.

        Commits to a detached head move no branch.
        """
        start = commit_message["id"] if commit_message is not None else None
        if start is not None and start not in self._nodes:
            raise ValueError(f"no node {start!r}")
        if name is None:
            if start is None:
                raise ValueError("name a branch, or a node to begin at")
            info = _info(f"detached-{start[:8]}", f"Detached HEAD at {start}", start)
            return CanvasBranch(self, info, detached=True)
        main = self._branches.get(MAIN)
        return self._branch(name, description, create_if_not_exists, start or (main["head_node_id"] if main else None))

    def _branch(self, name: str, description: str | None, create: bool, start: str | None) -> CanvasBranch:
        with self._lock:
            info = self._branches.get(name)
            if info is None:
                if not create:
                    raise ValueError(f"no branch {name!r}; create it with create_if_not_exists=True")
                info = self._branches[name] = _info(name, description or f"Branch {name}", start)
                change = {"op": "branch", "canvas": self.canvas_id, "branch": name, "head": start}
                self._changed({**change, "description": info["description"]})
            return CanvasBranch(self, info)

    def delete_branch(self, name: str) -> None:
        """Deletes a branch; its nodes stay. `main` cannot be deleted."""
        with self._lock:
            if name not in self._branches:
                raise ValueError(f"no branch {name!r}")
            if name == MAIN:
                raise ValueError("branch 'main' cannot be deleted")
            del self._branches[name]
            self._changed({"op": "branch", "canvas": self.canvas_id, "branch": name, "deleted": True})

    def merge(self, source_branch_names: str | Sequence[str], merge_message: Any, target_branch_name: str) -> Node:
        """Adds one node to the target's head that has the sources' heads as further parents. All or nothing."""
        names = [source_branch_names] if isinstance(source_branch_names, str) else list(source_branch_names)
        if not names:
            raise ValueError("name at least one branch to merge")
        with self._lock:
            for name in (*names, target_branch_name):
                if name not in self._branches:
                    raise ValueError(f"no branch {name!r}")
            heads = [self._branches[name]["head_node_id"] for name in names]
            for name, head in zip(names, heads, strict=True):
                if head is None:
                    raise ValueError(f"nothing was committed to {name!r}")
            target = self._branches[target_branch_name]
            branch, at = CanvasBranch(self, target), target["head_node_id"]
            further = [head for head in dict.fromkeys(heads) if head != at]
            node = self._add(merge_message, at, None, None, further, branch, at)
            target["head_node_id"] = node["id"]
            return node

    def commit_message(self, message: Any, meta: dict[str, Any] | None = None) -> Node:
        """Commits to main."""
        return self.checkout(MAIN).commit_message(message, meta)

    # --- import and export -------------------------------------------------------------------------------------------

    def to_summary(self) -> dict[str, Any]:
        return {
            "canvas_id": self.canvas_id,
            "created_at": self.created_at,
            "root_ids": [id for id, node in self._nodes.items() if node.get("parent_id") is None],
            "node_count": len(self._nodes),
            "title": self.title,
            "description": self.description,
            "meta": {"last_updated": self.last_updated},
        }

    def to_canvas_data(self) -> dict[str, Any]:
        return {
            "canvas_id": self.canvas_id,
            "title": self.title,
            "description": self.description,
            "created_at": self.created_at,
            "last_updated": self.last_updated,
            "nodes": dict(self._nodes),
            "branches": self.list_branches(),
        }

    @classmethod
    def from_canvas_data(cls, data: dict[str, Any], changed: Callable[[Change], None] = lambda change: None) -> Any:
        """Builds a canvas from its JSON, with its branches."""
        canvas = cls(changed, data["canvas_id"], data.get("title"), data.get("description"))
        canvas.created_at = data.get("created_at") or canvas.created_at
        canvas.last_updated = data.get("last_updated") or canvas.created_at
        for id, node in data["nodes"].items():
            canvas._nodes[id] = {**node, "child_ids": list(node.get("child_ids") or ())}
        for info in data.get("branches") or ():
            canvas._branches[info["name"]] = dict(info)
        return canvas

    def add_event_listener(self, listener: Callable[[dict[str, Any]], None]) -> None:
        """Calls `listener` with each event in the package's own shape. Its exceptions do not reach the committer."""
        self._listeners.append(listener)

    def remove_event_listener(self, listener: Callable[[dict[str, Any]], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def _emit(self, change: Change, event: str, node: Node) -> None:
        self.last_updated = time.time()
        self._changed(change)
        fields = {"event_type": event, "canvas_id": self.canvas_id, "timestamp": self.last_updated, "data": node}
        for listener in [*self._listeners]:
            try:
                listener(fields)
            except Exception:
                _log().exception("a listener of the canvas failed")


def _log() -> Any:
    import logging

    return logging.getLogger(__name__)


def _info(name: str, description: str, head: str | None) -> dict[str, Any]:
    return {"name": name, "description": description, "head_node_id": head, "created_at": time.time()}


def _encoded(message: Any) -> Any:
    return plain(message) if isinstance(message, _MESSAGES) else message


def _body(message: Any, node: Node) -> dict[str, Any]:
    """Returns one of our messages unchanged; one of the package's as a node of its format."""
    if isinstance(message, _MESSAGES):
        return {"message": plain(message)}
    if not isinstance(message, dict) or "role" not in message:
        raise ValueError("a message is an object with a role and content, or a message of interlingua")
    return {"node": {"id": node["id"], "message": message, "meta": node["meta"]}}


# --- the clients -----------------------------------------------------------------------------------------------------


FIRST_PAUSE, LAST_PAUSE = 0.2, 10.0  # seconds between attempts while the server is away
TIMEOUT = 30.0
POLL = 0.01  # seconds between two looks of the asynchronous client


class CanvasUnreachable(TransportError):
    """No canvas server responds."""


class CanvasClient:
    """Shows conversations on a canvas, from any thread.

    `address` is the server's; by default the one that runs on this machine. `key` is one with the scope `write`; on
    this machine none is needed. With `queue`, unsent changes survive this process.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        key: str | None = None,
        home: str | Path | None = None,
        queue: bool = True,
    ) -> None:
        self._folder = (Path(home).expanduser() if home is not None else default_home()) / "canvas"
        self._address = address
        self._key = key
        place = hashlib.blake2b((address or "local").encode(), digest_size=8).hexdigest()
        self._outbox = Outbox(self._folder / "outbox" / f"{place}.jsonl" if queue else None)
        self._limit = MAX_BATCH
        self._failures: list[dict[str, Any]] = []
        self._canvases: dict[str, LocalCanvas] = {}
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._send, name="interlingua-canvas", daemon=True)
        if self._outbox:
            self._wake.set()
        else:
            self._idle.set()
        self._thread.start()

    # --- canvases ----------------------------------------------------------------------------------------------------

    def create_canvas(self, title: str | None = None, description: str | None = None) -> LocalCanvas:
        canvas = LocalCanvas(self._keep, title=title, description=description)
        fields = {"op": "create", "canvas": canvas.canvas_id, "title": title, "description": description}
        self._keep({key: value for key, value in fields.items() if value is not None})
        main = canvas.list_branches()[0]
        named = {"branch": main["name"], "description": main["description"]}
        self._keep({"op": "branch", "canvas": canvas.canvas_id, **named})
        self._canvases[canvas.canvas_id] = canvas
        return canvas

    def get_canvas(self, canvas_id: str) -> LocalCanvas | None:
        """Returns a canvas from the server, with its branches; None if it does not exist."""
        self.flush()
        answer = self._answer("GET", f"/api/canvases/{quote(canvas_id, safe='')}")
        if answer is None:
            return None
        canvas: LocalCanvas = LocalCanvas.from_canvas_data(answer["data"], self._keep)
        self._canvases[canvas_id] = canvas
        return canvas

    def list_canvases(self) -> list[LocalCanvas]:
        found = [self.get_canvas(one["canvas_id"]) for one in self.get_canvas_summaries()]
        return [one for one in found if one is not None]

    def get_canvas_summaries(self) -> list[dict[str, Any]]:
        self.flush()
        answer = self._answer("GET", "/api/canvases") or {"canvases": ()}
        return list(answer["canvases"])

    def get_canvas_data(self, canvas_id: str) -> dict[str, Any] | None:
        found = self.get_canvas(canvas_id)
        return None if found is None else found.to_canvas_data()

    def remove_canvas(self, canvas_id: str) -> bool:
        self.flush()
        if self._answer("DELETE", f"/api/canvases/{quote(canvas_id, safe='')}", b"{}") is None:
            return False
        self._canvases.pop(canvas_id, None)
        return True

    def check_server_health(self) -> bool:
        """Whether the server responds and accepts our credentials."""
        try:
            return self._request("GET", "/api/me")[0] == 200
        except (OSError, http.client.HTTPException, InterlinguaError):
            return False

    def __len__(self) -> int:
        """The number of canvases that this client knows."""
        return len(self._canvases)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Changes that the server refused, or branches moved concurrently: each with the server's response."""
        return list(self._failures)

    @property
    def pending(self) -> int:
        """The number of changes that the server does not have yet."""
        return len(self._outbox)

    # --- sending -----------------------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = TIMEOUT) -> bool:
        """Waits until the server has everything; False on timeout. Pending changes are sent later."""
        self._wake.set()
        return self._idle.wait(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Sends pending changes within a timeout; the rest stays on disk for the next client."""
        self.flush(timeout)
        self._closing = True
        self._wake.set()
        self._thread.join(timeout)
        with self._lock:
            self._disconnect()
        self._outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, change: dict[str, Any]) -> None:
        self._outbox.add(change)
        self._idle.clear()
        self._wake.set()

    def _send(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing:
            if not self._outbox:
                self._idle.set()
                self._wake.wait()
                self._wake.clear()
                continue
            try:
                self._send_batch()
                pause = FIRST_PAUSE
            except (OSError, http.client.HTTPException, InterlinguaError):
                self._wake.wait(pause)
                self._wake.clear()
                pause = min(pause * 2, LAST_PAUSE)

    def _send_batch(self) -> None:
        lines = self._outbox.batch(self._limit)
        status, answer = self._request("POST", "/api/batch", b'{"operations":[' + b",".join(lines) + b"]}")
        if status in (401, 403, 404, 429) or status >= 500:
            raise InterlinguaError(f"the canvas accepts no changes now ({status}): {_reason(answer)}")
        if status != 200 and len(lines) > 1:  # one of them is at fault: send them one by one
            self._limit = 1
            return
        outcomes = answer["outcomes"] if status == 200 else [{"ok": False, "error": answer}]
        for line, outcome in zip(lines, outcomes, strict=True):
            if not outcome.get("ok", True) or outcome.get("stale"):
                self._failures.append({"change": jsontext.read(line), "outcome": outcome})
        self._outbox.acknowledge(len(lines))
        self._limit = MAX_BATCH

    def _answer(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Returns the server's answer; None for what it does not have."""
        status, answer = self._request(method, path, body)
        if status >= 400 and status != 404:
            raise InterlinguaError(f"the canvas answered {status}: {_reason(answer)}")
        return None if status == 404 else answer

    def _request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        with self._lock:
            for again in (True, False):  # a kept-alive connection may have been closed meanwhile
                try:
                    if self._connection is None:
                        self._connection = self._connect()
                    self._connection.request(method, path, body, self._headers())
                    response = self._connection.getresponse()
                    raw = response.read()
                    return response.status, jsontext.read(raw) if raw else None
                except (OSError, http.client.HTTPException):
                    self._disconnect()
                    if not again:
                        raise
            raise AssertionError

    def _connect(self) -> http.client.HTTPConnection:
        """Connects to the server: at the given address, or at that of the last server on this machine."""
        address = self._address
        if address is None:
            try:
                address = str(jsontext.read(read_regular(self._folder / "server.json"))["address"])
            except (OSError, InterlinguaError):
                raise CanvasUnreachable("no canvas runs on this machine; start one: interlingua canvas") from None
        parts = urlsplit(address)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=TIMEOUT)

    def _headers(self) -> dict[str, str]:
        key = self._key
        if key is None:
            from ..serving.access import Access

            key = Access(self._folder).local_key
        return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _reason(answer: Any) -> str:
    detail = answer.get("detail") if isinstance(answer, dict) else None
    return str(detail.get("message")) if isinstance(detail, dict) else str(answer)[:200]


class AsyncCanvasClient:
    """`CanvasClient` for programs with an event loop: requests wait in a thread. Commits need not be awaited."""

    def __init__(
        self,
        address: str | None = None,
        *,
        key: str | None = None,
        home: str | Path | None = None,
        queue: bool = True,
    ) -> None:
        self._client = CanvasClient(address, key=key, home=home, queue=queue)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def create_canvas(self, title: str | None = None, description: str | None = None) -> LocalCanvas:
        return self._client.create_canvas(title, description)

    async def get_canvas(self, canvas_id: str) -> LocalCanvas | None:
        return await asyncio.to_thread(self._client.get_canvas, canvas_id)

    async def list_canvases(self) -> list[LocalCanvas]:
        return await asyncio.to_thread(self._client.list_canvases)

    async def get_canvas_summaries(self) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._client.get_canvas_summaries)

    async def get_canvas_data(self, canvas_id: str) -> dict[str, Any] | None:
        return await asyncio.to_thread(self._client.get_canvas_data, canvas_id)

    async def remove_canvas(self, canvas_id: str) -> bool:
        return await asyncio.to_thread(self._client.remove_canvas, canvas_id)

    async def check_server_health(self) -> bool:
        return await asyncio.to_thread(self._client.check_server_health)

    def __len__(self) -> int:
        return len(self._client)

    @property
    def failures(self) -> list[dict[str, Any]]:
        return self._client.failures

    @property
    def pending(self) -> int:
        return self._client.pending

    async def flush(self, timeout: float | None = TIMEOUT) -> bool:
        """Waits until the server has everything; False on timeout."""
        self._client.flush(0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self.pending:  # not in a thread, which a cancelled task would leave waiting
                    await asyncio.sleep(POLL)
        return not self.pending

    async def close(self, timeout: float = 5.0) -> None:
        await self.flush(timeout)
        await asyncio.to_thread(self._client.close, 0 if self.pending else timeout)
