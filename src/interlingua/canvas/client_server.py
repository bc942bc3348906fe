"""Canvases of programs over HTTP: routes for our own clients, and a second listener for `llm-canvas`."""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ..serving import guard
from ..serving.listener import Listener
from ..serving.problems import HttpProblem, problem_of
from ..serving.sse import EventChannel, serve_events
from ..sessions import EntryExists, Session, SessionBusy, SessionError, SessionNotFound, StaleHead, gc
from ..sessions.files import FileStore
from ..values import jsontext
from ..values.canonical import build
from ..values.errors import BadWire, FormatError, InterlinguaError
from ..values.messages import AgentMessage, Message
from .library import CLIENT
from .reading_routes import Nothing
from .routing import JSON_LIMIT, ApiCall, CanvasState, read_limited, route
from .shapes import Shape
from .writers import no_canvas

# --- routes for our own clients --------------------------------------------------------------------------------------
#
# Routes for our own canvas clients: whole canvases, and idempotent changes in batches.


MAX_OPERATIONS = 5_000


class CanvasList(Shape, frozen=True, kw_only=True):
    canvases: tuple[dict[str, Any], ...]


class CanvasBody(Shape, frozen=True, kw_only=True):
    """A canvas in the `llm-canvas` format, with its branches beside the nodes."""

    data: dict[str, Any]


class Operation(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One change. Changes are idempotent and may be sent again.

    `create` creates a canvas; `commit` adds a node (`node` in the `llm-canvas` format, or `message` in our own) and
    moves `branch` to it; `update` replaces its message; `branch` creates, moves or deletes a branch.
    """

    op: Literal["create", "commit", "update", "branch"]
    canvas: str
    id: str | None = None
    node: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    parent: str | None = None
    parents: tuple[str, ...] = ()
    branch: str | None = None
    expect: str | UnsetType | None = UNSET
    head: str | None = None
    title: str | None = None
    description: str | None = None
    deleted: bool = False


class CommitBatch(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operations: tuple[Operation, ...]


class CommitOutcome(Shape, frozen=True, kw_only=True):
    """`head` is the head of a branch that had moved elsewhere: the node is kept, the branch is not moved."""

    ok: bool = True
    head: str | None = None
    stale: bool = False
    error: dict[str, Any] | None = None


class Outcomes(Shape, frozen=True, kw_only=True):
    outcomes: tuple[CommitOutcome, ...]


@route("GET", "/api/canvases", returns=CanvasList)
async def canvases(call: ApiCall) -> CanvasList:
    """List the canvases that programs created."""
    return CanvasList(canvases=tuple(await asyncio.to_thread(call.canvas.nodes.summaries)))


@route("GET", "/api/canvases/{id}", returns=CanvasBody)
async def one_canvas(call: ApiCall) -> CanvasBody:
    """Get a canvas, with all its nodes and branches."""

    def data() -> dict[str, Any]:
        found: dict[str, Any] = call.canvas.nodes.data(call["id"])
        with call.canvas.nodes.reading(call["id"]) as session:
            branches = [
                {
                    "name": branch.name,
                    "description": branch.description,
                    "head_node_id": branch.head,
                    "created_at": (branch.created or 0) / 1000,
                }
                for branch in session.branches().values()
            ]
        return {**found, "branches": branches}

    return CanvasBody(data=await asyncio.to_thread(data))


@route("DELETE", "/api/canvases/{id}", returns=Nothing)
async def delete_canvas(call: ApiCall) -> Nothing:
    """Delete a canvas; it can be restored as a session."""
    await _delete(call.canvas, call["id"])
    return Nothing()


async def _delete(canvas: CanvasState, id: str) -> None:
    key = canvas.nodes.key(id)
    await canvas.lingering.close_one(key)
    try:
        await asyncio.to_thread(gc.delete, canvas.library.store, CLIENT, id, index=canvas.finder)
    except SessionNotFound:
        raise no_canvas(id) from None
    await canvas.close_hub(key)
    canvas.session_gone(key)


@route("POST", "/api/batch", body=CommitBatch, returns=Outcomes)
async def batch(call: ApiCall) -> Outcomes:
    """Apply changes in order; a failed one does not prevent the others."""
    operations = call.body.operations
    if len(operations) > MAX_OPERATIONS:
        raise HttpProblem(413, f"more than {MAX_OPERATIONS} operations", path="$.operations", limit=MAX_OPERATIONS)
    outcomes: list[CommitOutcome] = []
    for id, some in itertools.groupby(operations, key=lambda one: one.canvas):
        outcomes += await _apply(call.canvas, id, list(some))
    return Outcomes(outcomes=tuple(_located(outcome, number) for number, outcome in enumerate(outcomes)))


async def _apply(canvas: CanvasState, id: str, rest: list[Operation]) -> list[CommitOutcome]:
    """Applies the changes of one canvas."""
    nodes = canvas.nodes
    outcomes: list[CommitOutcome] = []
    while rest and rest[0].op == "create":
        outcomes.append(await _created(canvas, rest.pop(0)))
    if not rest:
        return outcomes
    try:
        session = await canvas.lingering.take(nodes.place(id))
    except InterlinguaError as error:
        problem = no_canvas(id) if isinstance(error, SessionNotFound) else problem_of(error)
        return [*outcomes, *(_failed(problem) for _ in rest)]
    try:
        outcomes += await asyncio.to_thread(_outcomes, nodes, session, rest)
    except SessionError as error:
        await canvas.lingering.close_one(nodes.key(id))  # the next attempt opens the file again
        raise _not_saved(error) from None
    await canvas.update_open(nodes.key(id))
    canvas.session_changed(nodes.place(id))
    return outcomes


async def _created(canvas: CanvasState, operation: Operation) -> CommitOutcome:
    try:
        await _create(canvas, operation.title, operation.description, operation.canvas)
    except (HttpProblem, SessionBusy) as error:
        return _failed(problem_of(error))
    except SessionError as error:
        raise _not_saved(error) from None
    return CommitOutcome()


async def _create(canvas: CanvasState, title: str | None, description: str | None, id: str | None = None) -> str:
    made = await asyncio.to_thread(canvas.nodes.create, title, description, id)
    canvas.describer.forget(canvas.nodes.key(made))
    canvas.session_changed(canvas.nodes.place(made))
    return str(made)


def _not_saved(error: SessionError) -> HttpProblem:
    return HttpProblem(503, str(error), code="not_saved", remedy="send the batch again")


def _located(outcome: CommitOutcome, number: int) -> CommitOutcome:
    """Names the operation in the path of an error: `$.operations[3].canvas`."""
    if outcome.error is None:
        return outcome
    path = str(outcome.error.get("path") or "$").removeprefix("$")
    return replace(outcome, error={**outcome.error, "path": f"$.operations[{number}]{path}"})


def _outcomes(nodes: Any, session: Session, operations: Sequence[Operation]) -> list[CommitOutcome]:
    """Applies changes in one write; raises SessionError if it fails: the client then sends them again."""
    with session.grouped():
        return [_outcome(nodes, session, operation) for operation in operations]


def _outcome(nodes: Any, session: Session, operation: Operation) -> CommitOutcome:
    try:
        match operation.op:
            case "commit":
                _commit(nodes, session, operation)
                _move(session, operation)
            case "update":
                _update(nodes, session, operation)
            case "branch":
                _set_branch(session, operation)
    except StaleHead as error:
        return CommitOutcome(stale=True, head=error.head)
    except InterlinguaError as error:
        return _failed(problem_of(error))
    return CommitOutcome()


def _failed(problem: HttpProblem) -> CommitOutcome:
    return CommitOutcome(ok=False, error=problem.body()["detail"])


def _commit(nodes: Any, session: Session, operation: Operation) -> None:
    name, branch = operation.id or "", _branch_at_parent(session, operation)
    if operation.node is not None:
        node = {**operation.node, "parent_id": operation.parent}
        nodes.append(session, operation.canvas, name, node, operation.parents, branch)
        return
    message: AgentMessage = build(operation.message, Message, "$.message")
    where: dict[str, Any] = {"parent_id": operation.parent} if branch is None else {"branch": branch}
    try:
        session.append(message, id=name, parents=operation.parents, **where)
    except EntryExists:
        if session.entry(name).message != message:
            raise


def _branch_at_parent(session: Session, operation: Operation) -> str | None:
    """Returns the branch if its head is the node's parent: then one write commits the node and moves the branch."""
    if operation.branch is None or operation.parent is None or operation.expect not in (UNSET, operation.parent):
        return None
    known = session.marks.branches.get(operation.branch)
    return operation.branch if known is not None and known.head == operation.parent else None


def _move(session: Session, operation: Operation) -> None:
    """Moves the branch to the committed node, unless it has moved already or was moved concurrently."""
    if operation.branch is None:
        return
    known = session.marks.branches.get(operation.branch)
    if known is None or known.head != operation.id:
        expected = {} if operation.expect is UNSET else {"expect": operation.expect}
        session.set_branch(operation.branch, operation.id, **expected)


def _update(nodes: Any, session: Session, operation: Operation) -> None:
    name = operation.id or ""
    if operation.node is not None:
        nodes.revise(session, operation.canvas, name, {**operation.node, "child_ids": []})
        return
    message: AgentMessage = build(operation.message, Message, "$.message")
    if session.entry(name).message != message:
        session.revise(name, message)


def _set_branch(session: Session, operation: Operation) -> None:
    name = operation.branch or ""
    known = session.marks.branches.get(name)
    if operation.deleted:
        if known is not None:
            session.delete_branch(name)
    elif known is None or known.head != operation.head or operation.description not in (None, known.description):
        expected = {} if operation.expect is UNSET else {"expect": operation.expect}
        session.set_branch(name, operation.head, description=operation.description, **expected)


# --- the listener for llm-canvas -------------------------------------------------------------------------------------
#
# The server that the published `llm-canvas` client expects, on a second port: its ten routes, and nothing else.
#
# That client cannot send a token, so this listener is off by default, on loopback only, and refuses requests of
# browsers. A canvas is a session of the agent `canvas`; a node is an entry (several, where one message of that format
# is several of ours), and the codec of the `llm-canvas` dialect translates both ways, so that every block is kept.
# Differences from the original server are bug fixes: contents can be read more than once, unknown blocks do not refuse
# a commit, a slow viewer gets an event, `last_updated` is the time of the last change, and everything is on disk before
# it is acknowledged.


BODY_LIMIT = 4 * JSON_LIMIT  # images are inline in the JSON here
SHORT = 16 << 10  # bytes of a body that is written synchronously

T = TypeVar("T")


class _CommitEvent(Struct):
    data: dict[str, Any]
    event_type: str = "commit_message"
    canvas_id: str | None = None


class _CommitRequest(Struct):
    data: _CommitEvent


class _CreateRequest(Struct):
    title: str | None = None
    description: str | None = None


class ClientListener:
    """The second listener."""

    def __init__(self, canvas: CanvasState, port: int) -> None:
        self._canvas = canvas
        self._all = EventChannel(canvas.epoch)
        self._channels: dict[str, EventChannel] = {}
        self._nodes = canvas.nodes
        self._listener = Listener(self._app(), "127.0.0.1", port)

    @property
    def address(self) -> str:
        return self._listener.address

    async def start(self) -> None:
        await self._listener.start()

    async def stop(self) -> None:
        for channel in (self._all, *self._channels.values()):
            channel.close("shutdown")
        await self._listener.stop()

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=BODY_LIMIT)
        app.on_response_prepare.append(guard.add_headers)
        for method, path, handler in (
            ("GET", "/health", self._health),
            ("GET", "/canvas/list", self._list),
            ("GET", "/canvas/sse", self._all_events),
            ("GET", "/canvas", self._get),
            ("POST", "/canvas", self._create),
            ("DELETE", "/canvas/{id}", self._delete),
            ("POST", "/canvas/{id}/messages", self._commit),
            ("PUT", "/canvas/{id}/messages/{node}", self._update),
            ("GET", "/canvas/{id}/sse", self._events),
            ("GET", "/sse/documentation", self._documentation),
        ):
            app.router.add_route(method, f"/api/v1{path}", guard.guarded(self._checked(handler)))
        app.router.add_route("*", "/{rest:.*}", guard.guarded(self._checked(self._nothing)))
        return app

    def _checked(self, handler: guard.Handler) -> guard.Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            guard.refuse_foreign_host(request)
            guard.refuse_browsers(request)
            try:
                return await handler(request)
            except HttpProblem as problem:
                return _framework_422(problem) if problem.status == 422 else problem.response()
            except (BadWire, FormatError) as error:
                return _framework_422(HttpProblem(422, error.message, path=error.path, remedy="send a message node"))

        return handle

    # --- the routes --------------------------------------------------------------------------------------------------

    async def _health(self, request: web.Request) -> web.Response:
        return _json({"status": "healthy", "server_type": "local", "timestamp": None})

    async def _documentation(self, request: web.Request) -> web.Response:
        return _json({"events": []})

    async def _nothing(self, request: web.Request) -> web.Response:
        raise HttpProblem(404, f"no route {request.path}", remedy="this port is for the llm-canvas client")

    async def _list(self, request: web.Request) -> web.Response:
        return _json({"canvases": await asyncio.to_thread(self._nodes.summaries)})

    async def _get(self, request: web.Request) -> web.Response:
        id = request.query.get("canvas_id") or request.query.get("id")
        if not id:
            raise HttpProblem(422, "no canvas is named", path="query.canvas_id", remedy="add ?canvas_id=")
        return _json({"data": await asyncio.to_thread(self._nodes.data, id)})

    async def _create(self, request: web.Request) -> web.Response:
        body: _CreateRequest = _decoded(await read_limited(request, BODY_LIMIT) or b"{}", _CreateRequest)
        id = await _create(self._canvas, body.title, body.description)
        summary = await asyncio.to_thread(self._nodes.summary, id)
        self._publish_all("canvas_created", summary)
        return _json({"canvas_id": id, "message": "Canvas created successfully"})

    async def _delete(self, request: web.Request) -> web.Response:
        id = request.match_info["id"]
        await _delete(self._canvas, id)
        channel = self._channels.pop(id, None)
        if channel is not None:
            channel.close("canvas_deleted")
        self._publish_all("canvas_deleted", {"canvas_id": id})
        return _json({"canvas_id": id, "message": "Canvas deleted successfully"})

    async def _commit(self, request: web.Request) -> web.Response:
        id = request.match_info["id"]
        raw = await read_limited(request, BODY_LIMIT)
        body: _CommitRequest = _decoded(raw, _CommitRequest)
        node = body.data.data
        name = node.get("id")
        if not isinstance(name, str) or not name:
            raise HttpProblem(422, "a node needs an id", path="$.data.data.id", remedy="send the whole node")
        session = await self._session(id)
        await _written(session, len(raw), lambda: self._nodes.append(session, id, name, node))
        await self._changed(id, "message_committed", name)
        return _json({"message_id": name, "canvas_id": id, "message": "Message committed successfully"})

    async def _update(self, request: web.Request) -> web.Response:
        id, name = request.match_info["id"], request.match_info["node"]
        raw = await read_limited(request, BODY_LIMIT)
        body: _CommitRequest = _decoded(raw, _CommitRequest)
        node = body.data.data
        if node.get("id") not in (None, name):
            raise HttpProblem(
                422,
                f"the node is {node.get('id')!r}, the path names {name!r}",
                path="$.data.data.id",
                remedy="send one id",
            )
        session = await self._session(id)
        changed = await _written(session, len(raw), lambda: self._nodes.revise(session, id, name, node))
        for other in changed:
            await self._changed(id, "message_updated", other)
        return _json({"message_id": name, "canvas_id": id, "message": "Message updated successfully"})

    async def _session(self, id: str) -> Session:
        try:
            return await self._canvas.lingering.take(self._nodes.place(id))
        except SessionNotFound:
            raise no_canvas(id) from None

    # --- events ------------------------------------------------------------------------------------------------------

    async def _all_events(self, request: web.Request) -> web.StreamResponse:
        return await self._follow(request, self._all)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        id = request.match_info["id"]
        await asyncio.to_thread(self._nodes.reading(id).close)
        return await self._follow(request, self._channels.setdefault(id, EventChannel(self._canvas.epoch)))

    async def _follow(self, request: web.Request, channel: EventChannel) -> web.StreamResponse:
        async def nothing() -> tuple[int, bytes]:
            return channel.last, b"{}"

        return await serve_events(request, channel, nothing)

    def _publish_all(self, event: str, data: Any) -> None:
        self._all.publish(event, jsontext.write({"type": event, "timestamp": time.time(), "data": data}))

    async def _changed(self, id: str, event: str, name: str) -> None:
        """Notifies viewers of both kinds of a commit or change."""
        key = self._nodes.key(id)
        await self._canvas.update_open(key)
        channel = self._channels.get(id)
        if channel is not None and channel.viewers:
            node = (await asyncio.to_thread(self._nodes.data, id))["nodes"].get(name)
            fields = {"type": event, "timestamp": time.time(), "canvas_id": id, "data": node}
            channel.publish(event, jsontext.write(fields))


async def _written(session: Session, size: int, write: Callable[[], T]) -> T:
    """Writes to a session. One short line to a file takes less time than a round trip to a thread."""
    if size <= SHORT and isinstance(session.store, FileStore):
        with session.unless_busy() as is_locked:
            if is_locked:
                return write()
    return await asyncio.to_thread(write)


def _decoded(raw: bytes, shape: Any) -> Any:
    try:
        return msgspec.convert(jsontext.read(raw), shape)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `")
        path = place.rstrip("`") or "$"
        raise HttpProblem(422, message[:1].lower() + message[1:], path=path, remedy="send an event") from None


def _framework_422(problem: HttpProblem) -> web.Response:
    """Returns a 422 in the list form of the published server's framework, with code and remedy."""
    fields: dict[str, Any] = {"loc": ["body", problem.path or "$"], "msg": str(problem), "type": problem.code}
    fields |= {"error": problem.code, "path": problem.path, "remedy": problem.remedy}
    return web.Response(body=jsontext.write({"detail": [fields]}), status=422, content_type="application/json")


def _json(value: Any) -> web.Response:
    return web.Response(body=jsontext.write(value), content_type="application/json")
