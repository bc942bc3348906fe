"""Routes for our own canvas clients: canvases as a whole, and changes in batches, each of which may be sent twice."""

import asyncio
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from ..serving.problems import HttpProblem, problem_of
from ..sessions import EntryExists, Session, SessionNotFound, StaleHead, gc
from ..values.canonical import build
from ..values.errors import InterlinguaError
from ..values.messages import AgentMessage, Message
from .library import CLIENT
from .nodes import no_canvas
from .routing import Call, route
from .shapes import Shape
from .viewer_routes import Nothing

MAX_OPERATIONS = 5_000


class CanvasList(Shape, frozen=True, kw_only=True):
    canvases: tuple[dict[str, Any], ...]


class CanvasBody(Shape, frozen=True, kw_only=True):
    """A canvas in the `llm-canvas` format, with its branches beside the nodes."""

    data: dict[str, Any]


class Operation(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One change. All of them may be sent again: what is done already is done once.

    `create` makes a canvas; `commit` adds a node (`node` in the `llm-canvas` format, or `message` in our own) and moves
    `branch` to it; `update` puts another message in its place; `branch` makes, moves or deletes a branch.
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


class Batch(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operations: tuple[Operation, ...]


class Outcome(Shape, frozen=True, kw_only=True):
    """`head` is where a branch stands that the operation found elsewhere: the node is kept, the branch is not moved."""

    ok: bool = True
    head: str | None = None
    stale: bool = False
    error: dict[str, Any] | None = None


class Outcomes(Shape, frozen=True, kw_only=True):
    outcomes: tuple[Outcome, ...]


@route("GET", "/api/canvases", returns=CanvasList)
async def canvases(call: Call) -> CanvasList:
    """The canvases that programs made."""
    return CanvasList(canvases=tuple(await asyncio.to_thread(call.canvas.nodes.summaries)))


@route("GET", "/api/canvases/{id}", returns=CanvasBody)
async def one_canvas(call: Call) -> CanvasBody:
    """One canvas, with all its nodes and branches."""

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
async def delete_canvas(call: Call) -> Nothing:
    """Delete a canvas; it can be restored as the session that it is."""
    canvas, id = call.canvas, call["id"]
    key = canvas.nodes.key(id)
    await canvas.lingering.let_go(key)
    try:
        await asyncio.to_thread(gc.delete, canvas.library.store, CLIENT, id, index=canvas.finder)
    except SessionNotFound:
        raise no_canvas(id) from None
    await canvas.close_hub(key, "deleted")
    canvas.describer.forget(key)
    canvas.session_gone(key)
    return Nothing()


@route("POST", "/api/batch", body=Batch, returns=Outcomes)
async def batch(call: Call) -> Outcomes:
    """Apply changes in order; one that fails does not keep the others from being applied."""
    operations = call.body.operations
    if len(operations) > MAX_OPERATIONS:
        raise HttpProblem(413, f"more than {MAX_OPERATIONS} operations", path="$.operations", limit=MAX_OPERATIONS)
    outcomes: list[Outcome] = []
    at = 0
    while at < len(operations):
        end = at + 1
        while end < len(operations) and operations[end].canvas == operations[at].canvas:
            end += 1
        outcomes += await _apply(call, operations[at:end])
        at = end
    return Outcomes(outcomes=tuple(outcomes))


async def _apply(call: Call, operations: tuple[Operation, ...]) -> list[Outcome]:
    """Changes of one canvas, in one go."""
    canvas, id = call.canvas, operations[0].canvas
    nodes = canvas.nodes
    outcomes: list[Outcome] = []
    rest = list(operations)
    while rest and rest[0].op == "create":
        made = rest.pop(0)
        await asyncio.to_thread(nodes.create, made.title, made.description, id)
        canvas.describer.forget(nodes.key(id))
        outcomes.append(Outcome())
    if not rest:
        canvas.session_changed(nodes.place(id))
        return outcomes
    try:
        session = await canvas.lingering.take(nodes.place(id))
    except InterlinguaError as error:
        problem = no_canvas(id) if isinstance(error, SessionNotFound) else problem_of(error)
        return [*outcomes, *(_failed(problem) for _ in rest)]
    outcomes += await asyncio.to_thread(lambda: [_outcome(nodes, session, operation) for operation in rest])
    await canvas.update_open(nodes.key(id))
    canvas.session_changed(nodes.place(id))
    return outcomes


def _outcome(nodes: Any, session: Session, operation: Operation) -> Outcome:
    try:
        return _done(nodes, session, operation)
    except StaleHead as error:
        return Outcome(stale=True, head=error.head)
    except InterlinguaError as error:
        return _failed(problem_of(error))


def _failed(problem: HttpProblem) -> Outcome:
    return Outcome(ok=False, error=problem.body()["detail"])


def _done(nodes: Any, session: Session, operation: Operation) -> Outcome:
    match operation.op:
        case "commit":
            _commit(nodes, session, operation)
            return _move(session, operation)
        case "update":
            _update(nodes, session, operation)
        case "branch":
            return _set_branch(session, operation)
        case "create":
            pass
    return Outcome()


def _commit(nodes: Any, session: Session, operation: Operation) -> None:
    name = operation.id or ""
    if operation.node is not None:
        node = {**operation.node, "parent_id": operation.parent}
        nodes.append(session, operation.canvas, name, node, operation.parents)
        return
    message: AgentMessage = build(operation.message, Message, "$.message")
    try:
        session.append(message, id=name, parent_id=operation.parent, parents=operation.parents)
    except EntryExists:
        if session.entry(name).message != message:
            raise


def _move(session: Session, operation: Operation) -> Outcome:
    """Moves the branch to what was committed, unless somebody else moved it first."""
    if operation.branch is None:
        return Outcome()
    known = session.branches().get(operation.branch)
    if known is not None and known.head == operation.id:
        return Outcome()
    expected = {} if operation.expect is UNSET else {"expect": operation.expect}
    session.set_branch(operation.branch, operation.id, **expected)
    return Outcome()


def _update(nodes: Any, session: Session, operation: Operation) -> None:
    name = operation.id or ""
    if operation.node is not None:
        nodes.revise(session, operation.canvas, name, {**operation.node, "child_ids": []})
        return
    message: AgentMessage = build(operation.message, Message, "$.message")
    if session.entry(name).message != message:
        session.revise(name, message)


def _set_branch(session: Session, operation: Operation) -> Outcome:
    name = operation.branch or ""
    known = session.branches().get(name)
    if operation.deleted:
        if known is not None:
            session.delete_branch(name)
        return Outcome()
    if known is None or known.head != operation.head or operation.description not in (None, known.description):
        expected = {} if operation.expect is UNSET else {"expect": operation.expect}
        session.set_branch(name, operation.head, description=operation.description, **expected)
    return Outcome()
