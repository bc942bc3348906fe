"""Write routes: runs, entries, branches, notes, sessions."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, TypeVar

from msgspec import UNSET, UnsetType, field
from msgspec.structs import replace

from ..serving.problems import HttpProblem
from ..sessions import EntryExists, Session, SessionBusy, SessionInfo, SessionNotFound, StaleHead, StaleVersion, gc
from ..sessions.store import Deleted
from ..values.canonical import build
from ..values.errors import FormatError
from ..values.messages import AgentMessage, CustomMessage, Message, UserMessage
from ..values.request import Conversation
from .library import SessionPlace
from .live import Fed, FeedRequest
from .open_sessions import Hub
from .reading_routes import Nothing
from .routing import BYTES, LIMITS, ApiCall, read_limited, route
from .runs import CanvasRun
from .shapes import (
    BranchView,
    DeletedList,
    DeletedSession,
    DeletedView,
    Handover,
    HandoverRequest,
    ModelList,
    NoteView,
    Row,
    RunList,
    RunRequest,
    RunView,
    SessionView,
    Shape,
    StartedRuns,
    ToolList,
    Uploaded,
)
from .targets import handover_view, listed
from .trees import branch_view, note_view
from .writers import AGENT, merged

T = TypeVar("T")


# --- models and runs -------------------------------------------------------------------------------------------------


class ModelsQuery(Shape, frozen=True, kw_only=True):
    q: str = ""
    limit: int = 50
    ready: bool = False
    session: str | None = None


@route("GET", "/api/models", query=ModelsQuery, returns=ModelList)
async def models(call: ApiCall) -> ModelList:
    """List the models, those in use first."""
    query = call.query
    used: tuple[str, ...] = ()
    if query.session is not None:
        hub = await call.canvas.hub(query.session)
        used = await asyncio.to_thread(_used, hub)
    limit = min(max(query.limit, 1), 1000)
    return await asyncio.to_thread(listed, call.canvas.runs.client, query.q, limit, used, query.ready)


def _used(hub: Hub) -> tuple[str, ...]:
    rows = hub.tree.path_rows(None, 200)
    return tuple(dict.fromkeys(f"{row.provider}/{row.model}" for row in rows if row.model and row.provider))


@route("GET", "/api/tools", returns=ToolList)
async def tools(call: ApiCall) -> ToolList:
    """List the tools that runs may use."""
    return call.canvas.runs.toolbox.listed()


@route("POST", "/api/sessions/{key}/handover", body=HandoverRequest, returns=Handover)
async def handover(call: ApiCall) -> Handover:
    """Show what some models would not read, before anything is sent."""
    body, hub = call.body, await call.canvas.hub(call["key"])

    def seen() -> Handover:
        return handover_view(
            hub.tree, body.to, body.models, text=body.text, replaces=body.replaces, thinking=body.thinking
        )

    return await asyncio.to_thread(seen)


@route("POST", "/api/sessions/{key}/runs", body=RunRequest, returns=StartedRuns, status=202)
async def run(call: ApiCall) -> StartedRuns:
    """Continue from an entry on one model, or on several at once."""
    hub = await call.canvas.hub(call["key"])
    return await call.canvas.runs.start(hub, call.body)


class RunsQuery(Shape, frozen=True, kw_only=True):
    session: str | None = None


@route("GET", "/api/runs", query=RunsQuery, returns=RunList)
async def runs(call: ApiCall) -> RunList:
    """List runs, ended ones included."""
    return RunList(runs=tuple(run.view() for run in call.canvas.runs.all(call.query.session)))


@route("GET", "/api/runs/{run}", returns=RunView)
async def one_run(call: ApiCall) -> RunView:
    """Get a run."""
    return call.canvas.runs.find(call["run"]).view()


@route("POST", "/api/runs/{run}/stop", body=Nothing, returns=RunView)
async def stop(call: ApiCall) -> RunView:
    """Stop a run; the partial response is kept."""
    found: CanvasRun = call.canvas.runs.find(call["run"])
    call.canvas.runs.stop(found)
    return found.view()


class Steering(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str


@route("POST", "/api/runs/{run}/steer", body=Steering, returns=RunView)
async def steer(call: ApiCall) -> RunView:
    """Send input to a running agent."""
    found: CanvasRun = call.canvas.runs.find(call["run"])
    call.canvas.runs.steer(found, call.body.text)
    return found.view()


class ApprovalDecision(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    call_id: str
    allow: bool
    always: bool = False


@route("POST", "/api/runs/{run}/approve", body=ApprovalDecision, returns=RunView)
async def approve(call: ApiCall) -> RunView:
    """Approve or refuse a waiting call."""
    found: CanvasRun = call.canvas.runs.find(call["run"])
    call.canvas.runs.answer(found, call.body.call_id, call.body.allow, call.body.always)
    return found.view()


class UploadQuery(Shape, frozen=True, kw_only=True):
    type: str = "application/octet-stream"


@route("POST", "/api/uploads", query=UploadQuery, body=BYTES, returns=Uploaded, status=201)
async def upload(call: ApiCall) -> Uploaded:
    """Store media for a later message."""
    data = await read_limited(call.request, LIMITS["upload"])
    name = await asyncio.to_thread(call.canvas.runs.uploads.put, data)
    return Uploaded(sha256=name, mime_type=call.query.type, size=len(data))


# --- sessions --------------------------------------------------------------------------------------------------------


class NewSession(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str | None = None
    system: str | None = None


@route("POST", "/api/sessions", body=NewSession, returns=SessionView, status=201)
async def new_session(call: ApiCall) -> SessionView:
    """Create an empty session."""
    body, library = call.body, call.canvas.library

    def made() -> SessionPlace:
        about = Conversation(system=body.system) if body.system else None
        with Session.open(agent=AGENT, store=library.store, about=about) as session:
            session.label(None, body.title)  # without one, the first message gives the title
            return library.place(library.own_key(session.agent, session.id))

    place = await asyncio.to_thread(made)
    call.canvas.describer.forget(place.key)
    call.canvas.session_changed(place)
    return await asyncio.to_thread(call.canvas.describe, place)


class Title(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str


@route("PATCH", "/api/sessions/{key}", body=Title, returns=SessionView)
async def rename(call: ApiCall) -> SessionView:
    """Set the title of a session."""
    async with _writing(call) as (hub, session):
        await asyncio.to_thread(session.label, None, call.body.title)
    call.canvas.describer.forget(hub.place.key)
    return await asyncio.to_thread(call.canvas.describe, hub.place)


@route("DELETE", "/api/sessions/{key}", returns=DeletedSession)
async def delete_session(call: ApiCall) -> DeletedSession:
    """Delete a session; it can be restored for a while. An opened file is only closed."""
    canvas = call.canvas
    place = canvas.library.place(call["key"])
    if place.source == "watch":
        raise HttpProblem(409, "another program's session", code="read_only", remedy="delete it in that program")
    if place.source == "file":
        await asyncio.to_thread(canvas.finder.forget_place, place)
        await asyncio.to_thread(canvas.library.close_file, place)
        gone = DeletedSession(key=place.key)
    else:
        store, finder = canvas.library.store, canvas.finder
        made = await asyncio.to_thread(gc.delete, store, place.agent, place.id, index=finder)
        gone = DeletedSession(key=place.key, at=made.at, undo_until=_undo_until(made))
    await canvas.close_hub(place.key)
    canvas.session_gone(place.key)
    return gone


def _undo_until(one: Deleted) -> int:
    return one.at + int(gc.UNDO * 1000)


@route("GET", "/api/deleted", returns=DeletedList)
async def deleted(call: ApiCall) -> DeletedList:
    """List the deleted sessions that can be restored, the latest first."""
    if call.visitor.scope != "write":
        raise HttpProblem(403, "this access may only read", remedy="use a key with the scope `write`")
    found = await asyncio.to_thread(call.canvas.library.deleted)
    return DeletedList(sessions=tuple(_deleted_view(place, one) for place, one in found))


def _deleted_view(place: SessionPlace, one: Deleted) -> DeletedView:
    info = place.info or SessionInfo(id=place.id, agent=place.agent)
    return DeletedView(
        key=place.key,
        at=one.at,
        undo_until=_undo_until(one),
        title=info.title or ("New session" if not info.messages else place.id),
        source=place.source,
        group=place.group,
        messages=info.messages,
        size=info.size,
    )


class PurgeQuery(Shape, frozen=True, kw_only=True):
    """`at`: when it was deleted."""

    at: int


@route("DELETE", "/api/deleted/{key}", query=PurgeQuery, returns=Nothing)
async def purge_session(call: ApiCall) -> Nothing:
    """Remove a deleted session permanently."""
    canvas, place = call.canvas, _own_place(call)
    store = canvas.library.store

    def removed() -> None:
        one = gc.find_deleted(store, place.agent, place.id, call.query.at)
        gc.purge_one(store, place.agent, one, home=canvas.library.home)

    await asyncio.to_thread(removed)
    canvas.sources_changed()
    return Nothing()


class RestoreRequest(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`at`: when it was deleted; else the latest of this key."""

    at: int | None = None


@route("POST", "/api/sessions/{key}/restore", body=RestoreRequest, returns=SessionView)
async def restore_session(call: ApiCall) -> SessionView:
    """Restore a deleted session."""
    canvas, place = call.canvas, _own_place(call)
    try:
        await asyncio.to_thread(gc.restore, canvas.library.store, place.agent, place.id, at=call.body.at)
    except SessionBusy:
        raise HttpProblem(
            409,
            f"another session is named {place.id!r} now",
            code="name_taken",
            remedy="delete that session first, then restore this one",
        ) from None
    canvas.describer.forget(place.key)
    canvas.session_changed(place)
    return await asyncio.to_thread(canvas.describe, place)


def _own_place(call: ApiCall) -> SessionPlace:
    """The place of a session of the home; only these are deleted and restored."""
    place: SessionPlace = call.canvas.library.place(call["key"])
    if place.read_only:
        raise HttpProblem(404, f"no deleted session {place.key!r}", code="session_not_found", remedy="reload the list")
    return place


class ForkRequest(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at: str | None = None
    title: str | None = None


@route("POST", "/api/sessions/{key}/fork", body=ForkRequest, returns=SessionView, status=201)
async def fork(call: ApiCall) -> SessionView:
    """Copy one path as a new session."""
    body, canvas = call.body, call.canvas
    hub = await canvas.hub(call["key"])

    def made() -> SessionPlace:
        source = hub.tree.session_at(body.at)
        agent = hub.place.agent if not hub.place.read_only else AGENT
        with source.fork(body.at, agent=agent, store=canvas.library.store) as session:
            if body.title:
                session.label(None, body.title)
            return canvas.library.place(canvas.library.own_key(session.agent, session.id))

    place = await asyncio.to_thread(made)
    canvas.describer.forget(place.key)
    canvas.session_changed(place)
    return await asyncio.to_thread(canvas.describe, place)


# --- entries ---------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _writing(call: ApiCall, entry: str | None = None) -> AsyncIterator[tuple[Hub, Session]]:
    """Opens the session that holds an entry for writing; viewers are notified before it returns."""
    hub = await call.canvas.hub(call["key"])
    key = await asyncio.to_thread(hub.tree.key_at, entry)
    place = call.canvas.library.place(key)
    async with call.canvas.runs.writers.writing(place) as session:
        yield hub, session
    await hub.update()
    call.canvas.session_changed(hub.place)


async def _done(work: Callable[..., T], *values: Any, **named: Any) -> T:
    """Calls a function on a session, in a thread; a refusal becomes an HTTP error."""
    try:
        return await asyncio.to_thread(lambda: work(*values, **named))
    except StaleHead as error:
        raise HttpProblem(
            409, str(error), code="stale_head", path="$.expect", remedy="reload the branch", head=error.head
        ) from None
    except StaleVersion as error:
        raise HttpProblem(
            409, str(error), code="stale_version", path="$.version", remedy="reload the entry", version=error.version
        ) from None
    except EntryExists as error:
        raise HttpProblem(409, str(error), code="id_taken", path="$.id", remedy="choose another id") from None
    except SessionNotFound as error:
        code = "branch_not_found" if "no branch" in str(error) else "entry_not_found"
        raise HttpProblem(404, str(error), code=code, remedy="reload the tree") from None


def _message(value: Any) -> AgentMessage:
    try:
        message: AgentMessage = build(value, Message, "$.message")
    except FormatError as error:
        raise HttpProblem(422, error.message, path=error.path, remedy="write it as docs/format.md has it") from None
    return message


class NewEntry(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`expect` is the expected head of the branch."""

    message: dict[str, Any]
    parent: str | UnsetType | None = UNSET
    id: str | None = None
    branch: str | None = None
    expect: str | UnsetType | None = UNSET


@route("POST", "/api/sessions/{key}/entries", body=NewEntry, returns=Row, status=201)
async def append(call: ApiCall) -> Row:
    """Append a message."""
    body = call.body
    message = _message(body.message)
    where: dict[str, Any] = {"id": body.id}
    if body.branch is not None:
        where |= {"branch": body.branch} | ({} if body.expect is UNSET else {"expect": body.expect})
    elif body.parent is not UNSET:
        where["parent_id"] = body.parent
    parent = body.parent if isinstance(body.parent, str) else None
    async with _writing(call, parent) as (hub, session):
        made = await _done(session.append, message, **where)
    return await asyncio.to_thread(hub.tree.row, made.id or "")


class Revision(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another message, or only another text; `version` is the one that was read."""

    version: int
    message: dict[str, Any] | None = None
    text: str | None = None


@route("POST", "/api/sessions/{key}/entries/{id}/revisions", body=Revision, returns=Row)
async def revise(call: ApiCall) -> Row:
    """Replace the message of an entry; earlier versions are kept."""
    body, id = call.body, call["id"]
    async with _writing(call, id) as (hub, session):
        if body.message is not None:
            message = _message(body.message)
        elif body.text is not None:
            before: Any = (await _done(session.entry, id)).message
            message = UserMessage(content=body.text)
            if not isinstance(before, CustomMessage):
                message = replace(before, content=body.text)
        else:
            raise HttpProblem(422, "no message", path="$.message", remedy="send message or text")
        await _done(session.revise, id, message, version=body.version)
    return await asyncio.to_thread(hub.tree.row, id)


class NewNote(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str | None = None
    rating: Literal[-1, 0, 1] | None = None


@route("POST", "/api/sessions/{key}/entries/{id}/notes", body=NewNote, returns=NoteView, status=201)
async def note(call: ApiCall) -> NoteView:
    """Add a note to an entry, or a rating."""
    body = call.body
    if body.rating is None and not (body.text or "").strip():
        raise HttpProblem(422, "empty note", path="$.text", remedy="give a text or a rating")
    async with _writing(call, call["id"]) as (_, session):
        made = await _done(session.note, call["id"], body.text, rating=body.rating, by=call.visitor.name or None)
    return note_view(made)


@route("DELETE", "/api/sessions/{key}/entries/{id}/notes/{note}", returns=Nothing)
async def delete_note(call: ApiCall) -> Nothing:
    """Delete a note."""
    async with _writing(call, call["id"]) as (_, session):
        await _done(session.delete_note, call["note"])
    return Nothing()


class Label(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    label: str | None = None


@route("PUT", "/api/sessions/{key}/entries/{id}/label", body=Label, returns=Row)
async def label(call: ApiCall) -> Row:
    """Label an entry, or remove its label."""
    async with _writing(call, call["id"]) as (hub, session):
        await _done(session.label, call["id"], call.body.label)
    return await asyncio.to_thread(hub.tree.row, call["id"])


# --- branches --------------------------------------------------------------------------------------------------------


class BranchList(Shape, frozen=True, kw_only=True):
    branches: tuple[BranchView, ...]


@route("GET", "/api/sessions/{key}/branches", returns=BranchList)
async def branches(call: ApiCall) -> BranchList:
    """List the named branches."""
    hub = await call.canvas.hub(call["key"])
    return BranchList(branches=await asyncio.to_thread(hub.tree.branches))


class SetBranch(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    head: str | None = None
    expect: str | UnsetType | None = UNSET
    description: str | None = None
    current: bool = False


@route("PUT", "/api/sessions/{key}/branches/{name}", body=SetBranch, returns=BranchView)
async def set_branch(call: ApiCall) -> BranchView:
    """Create or move a branch; refused if `expect` is not its head."""
    body, name = call.body, call["name"]
    expected = {} if body.expect is UNSET else {"expect": body.expect}
    async with _writing(call, body.head) as (_, session):
        made = await _done(session.set_branch, name, body.head, description=body.description, **expected)
        if body.current:
            await _done(session.checkout, name)
    return branch_view(made, body.current)


@route("DELETE", "/api/sessions/{key}/branches/{name}", returns=Nothing)
async def delete_branch(call: ApiCall) -> Nothing:
    """Delete a branch name; its entries stay."""
    async with _writing(call) as (_, session):
        await _done(session.delete_branch, call["name"])
    return Nothing()


class Checkout(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    branch: str | None = None
    entry: str | None = None


class HeadView(Shape, frozen=True, kw_only=True):
    head: str | None = None


@route("POST", "/api/sessions/{key}/checkout", body=Checkout, returns=HeadView)
async def checkout(call: ApiCall) -> HeadView:
    """Check out a branch, or an entry."""
    body = call.body
    if (body.branch is None) == (body.entry is None):
        raise HttpProblem(422, "name a branch or an entry", path="$", remedy="send one of branch and entry")
    async with _writing(call, body.entry) as (_, session):
        if body.branch is not None:
            await _done(session.checkout, body.branch)
        else:
            await _done(session.rewind, body.entry)
        head = session.head
    return HeadView(head=head)


class MergeRequest(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`from` names branches or entries. A squash needs no message."""

    into: str
    sources: tuple[str, ...] = field(name="from")
    message: dict[str, Any] | None = None
    strategy: Literal["explicit", "linear", "squash"] = "explicit"


@route("POST", "/api/sessions/{key}/merge", body=MergeRequest, returns=Row, status=201)
async def merge(call: ApiCall) -> Row:
    """Merge branches into one."""
    body = call.body
    message = _message(body.message) if body.message is not None else None
    async with _writing(call) as (hub, session):
        made = await _done(merged, session, body.into, body.sources, message, body.strategy)
    return await asyncio.to_thread(hub.tree.row, made.id or "")


@route("POST", "/api/sessions/{key}/feed", body=FeedRequest, returns=Fed)
async def feed(call: ApiCall) -> Fed:
    """Report the events of a remote agent in a session."""
    hub = await call.canvas.hub(call["key"])
    return Fed(events=await call.canvas.feeds.take(hub, call.body))
