"""Every JSON shape of the canvas API, as values. The OpenAPI document is generated from these.

Absent means default or unknown; an absent `cost` is unknown, never zero. Times are milliseconds.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from ..values import jsontext
from ..values.messages import Citation, Usage


class Shape(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of everything in the API: snake_case here, camelCase there."""


# --- sessions --------------------------------------------------------------------------------------------------------

Source: TypeAlias = Literal["own", "file", "watch", "client", "gateway"]


class LiveState(Shape, frozen=True, kw_only=True):
    """What runs in a session now."""

    runs: int
    state: Literal["running", "waiting"]
    model: str | None = None
    doing: str | None = None
    since: int


class ForkedFrom(Shape, frozen=True, kw_only=True):
    key: str
    entry: str | None = None


class SpawnedByView(Shape, frozen=True, kw_only=True):
    """The call that started a sub-agent's session."""

    session: str
    key: str | None = None
    entry: str | None = None
    call_id: str | None = None


class SessionView(Shape, frozen=True, kw_only=True):
    """A session in the list. `shape` is a sketch of its tree: lanes of roles, 8 added for failures."""

    key: str
    title: str
    titled: bool = False
    source: Source
    group: str
    project: str | None = None
    written_as: str
    models: tuple[str, ...] = ()
    messages: int = 0
    branches: int = 0
    size: int = 0
    created: int | None = None
    modified: int = 0
    cost: float | None = None
    unpriced: int = 0
    bad_lines: int = 0
    problems: int = 0
    read_only: bool = False
    forked_from: ForkedFrom | None = None
    spawned_by: SpawnedByView | None = None
    shape: tuple[tuple[int, ...], ...] = ()
    live: LiveState | None = None
    rated: int = 0
    notes: int = 0


class IndexState(Shape, frozen=True, kw_only=True):
    """How far the search index has followed the sessions."""

    state: Literal["ready", "indexing", "off"]
    done: int
    total: int


class Group(Shape, frozen=True, kw_only=True):
    source: Source
    group: str
    count: int


class SessionList(Shape, frozen=True, kw_only=True):
    sessions: tuple[SessionView, ...]
    total: int
    next: str | None = None
    groups: tuple[Group, ...]
    size: int
    index: IndexState


class DeletedSession(Shape, frozen=True, kw_only=True):
    """The result of a deletion. `at` and `undo_until` are absent for an opened file, which is only closed."""

    key: str
    at: int | None = None
    undo_until: int | None = None


class DeletedView(Shape, frozen=True, kw_only=True):
    """A session that was deleted `at` a time and can be restored until it is purged.

    A name can be deleted more than once: `key` and `at` together identify it.
    """

    key: str
    at: int
    undo_until: int
    title: str
    source: Source
    group: str
    messages: int = 0
    size: int = 0


class DeletedList(Shape, frozen=True, kw_only=True):
    sessions: tuple[DeletedView, ...]


class FileProblemView(Shape, frozen=True, kw_only=True):
    name: str
    line: int | None = None
    message: str


class OpenedFiles(Shape, frozen=True, kw_only=True):
    sessions: tuple[SessionView, ...]
    problems: tuple[FileProblemView, ...]


class SourceView(Shape, frozen=True, kw_only=True):
    id: str
    kind: Literal["home", "watch", "file", "gateway"]
    label: str
    where: str
    sessions: int
    read_only: bool = False
    watching: bool = False
    error: str | None = None


class SourceList(Shape, frozen=True, kw_only=True):
    sources: tuple[SourceView, ...]


class ToolDisplayView(Shape, frozen=True, kw_only=True):
    """How a plugin wants the calls of its tool drawn."""

    icon: str | None = None
    label: str | None = None
    result: Literal["text", "markdown", "json", "diff"] = "text"


class Me(Shape, frozen=True, kw_only=True):
    """The current visitor, and the server's capabilities."""

    scope: Literal["read", "write"]
    csrf: str | None = None
    version: str
    epoch: str
    address: str
    capabilities: tuple[str, ...]
    limits: dict[str, int]
    tool_views: dict[str, ToolDisplayView] = {}


# --- the tree --------------------------------------------------------------------------------------------------------


class RowUsage(Shape, frozen=True, kw_only=True):
    input: int
    output: int
    cache_read: int
    cache_write: int
    total: int
    reasoning: int | None = None


class CallRow(Shape, frozen=True, kw_only=True):
    """A call in its response's row. Results are separate rows; which belongs to which depends on the branch."""

    id: str
    name: str
    arg: str | None = None
    bad: bool = False
    server: bool = False


class AnsweredCall(Shape, frozen=True, kw_only=True):
    id: str
    name: str | None = None
    error: bool = False


class Row(Shape, frozen=True, kw_only=True):
    """An entry of the tree, small enough to send all of them. `seq` increases in log order."""

    seq: int
    id: str
    parent: str | None = None
    parents: tuple[str, ...] = ()
    role: str
    text: str
    chars: int | None = None
    at: int | None = None
    ms: int | None = None
    model: str | None = None
    provider: str | None = None
    stop: str | None = None
    stop_detail: str | None = None
    usage: RowUsage | None = None
    cost: float | int | None = None
    calls: tuple[CallRow, ...] = ()
    call: AnsweredCall | None = None
    thinking: int = 0
    images: int = 0
    files: int = 0
    audio: int = 0
    opaque: int = 0
    error: str | None = None
    origin: str | None = None
    version: int = 0
    label: str | None = None
    rating: int | None = None
    notes: int = 0
    session: str | None = None
    spawned: tuple[str, ...] = ()
    caller: str | None = None
    live: str | None = None
    bad: str | None = None


class BranchView(Shape, frozen=True, kw_only=True):
    """A named head. `merged`: its head is a parent of a merge."""

    name: str
    head: str | None = None
    description: str | None = None
    created: int | None = None
    current: bool = False
    live: bool = False
    merged: bool = False


class LineProblem(Shape, frozen=True, kw_only=True):
    line: int | None = None
    after: str | None = None
    message: str


class TreePage(Shape, frozen=True, kw_only=True):
    """A page of rows. With the first ones come the problems of the file and the stored view state."""

    epoch: str
    rows: tuple[Row, ...]
    next: int | None = None
    total: int
    head: str | None = None
    branches: tuple[BranchView, ...]
    session: SessionView
    problems: tuple[LineProblem, ...] = ()
    view: dict[str, Any] | None = None


# --- contents --------------------------------------------------------------------------------------------------------


class Media(Shape, frozen=True, kw_only=True):
    """Where a block's data is: `src` on this server, or a remote `url` that is never loaded automatically."""

    mime_type: str | None = None
    src: str | None = None
    size: int | None = None
    width: int | None = None
    height: int | None = None
    url: str | None = None
    file_id: str | None = None
    missing: bool = False


class TextView(Shape, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str
    more: int | None = None
    refusal: bool = False
    citations: tuple[Citation, ...] = ()
    cached: bool = False


class ThinkingView(Shape, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    text: str
    more: int | None = None
    signed: bool = False
    redacted: bool = False


class ImageView(Media, frozen=True, kw_only=True, tag_field="type", tag="image"):
    pass


class AudioView(Media, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    transcript: str | None = None


class DocumentView(Media, frozen=True, kw_only=True, tag_field="type", tag="document"):
    title: str | None = None
    text: str | None = None
    more: int | None = None


class ToolCallView(Shape, frozen=True, kw_only=True, tag_field="type", tag="toolCall"):
    """`made` is what could be parsed of arguments that are not a JSON object; such a call is never run."""

    id: str
    name: str
    arguments: Any = None
    arguments_text: str | None = None
    parse_error: str | None = None
    made: Any = None
    more: int | None = None
    cached: bool = False


class ServerToolCallView(Shape, frozen=True, kw_only=True, tag_field="type", tag="serverToolCall"):
    id: str
    name: str
    arguments: Any = None
    more: int | None = None


class ServerToolResultView(Shape, frozen=True, kw_only=True, tag_field="type", tag="serverToolResult"):
    tool_call_id: str
    tool_name: str
    dialect: str
    content: Any = None
    is_error: bool = False
    more: int | None = None


class OpaqueView(Shape, frozen=True, kw_only=True, tag_field="type", tag="opaque"):
    dialect: str
    name: str | None = None
    value: Any = None
    more: int | None = None


BlockView: TypeAlias = (
    TextView
    | ThinkingView
    | ImageView
    | AudioView
    | DocumentView
    | ToolCallView
    | ServerToolCallView
    | ServerToolResultView
    | OpaqueView
)


class MessageView(Shape, frozen=True, kw_only=True):
    """A message for the page: media by URL, long texts truncated, with the number of omitted characters."""

    role: str
    content: tuple[BlockView, ...]
    as_text: bool = False
    at: int | None = None
    model: str | None = None
    provider: str | None = None
    api: str | None = None
    response_model: str | None = None
    response_id: str | None = None
    usage: Usage | None = None
    stop: str | None = None
    stop_detail: str | None = None
    error: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    details: Any = None
    details_more: int | None = None
    origin: str | None = None
    developer: bool = False
    fields: dict[str, Any] | None = None


class NoteView(Shape, frozen=True, kw_only=True):
    id: str
    text: str | None = None
    rating: int | None = None
    by: str | None = None
    at: int


class EntryView(Shape, frozen=True, kw_only=True):
    id: str
    parent: str | None = None
    version: int = 0
    message: MessageView
    notes: tuple[NoteView, ...] = ()


class EntryPage(Shape, frozen=True, kw_only=True):
    entries: tuple[EntryView, ...]
    more: bool = False


class TextPart(Shape, frozen=True, kw_only=True):
    """A part of a long text. `line` is the line in the file that it is stored in, from one."""

    text: str
    offset: int
    total: int
    line: int | None = None


class Version(Shape, frozen=True, kw_only=True):
    version: int
    at: int | None = None
    message: MessageView


class Versions(Shape, frozen=True, kw_only=True):
    versions: tuple[Version, ...]


# --- statistics ------------------------------------------------------------------------------------------------------


class Tokens(Shape, frozen=True, kw_only=True):
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    total: int = 0


class ModelTotals(Shape, frozen=True, kw_only=True):
    """`cost` is the sum of known costs; `unpriced` counts the responses without one."""

    messages: dict[str, int]
    tokens: Tokens
    cost: float | None = None
    unpriced: int = 0
    ms: int | None = None
    thinking: int = 0
    tools: dict[str, int]
    failed_tools: dict[str, int]
    stop_reasons: dict[str, int]


class TotalsView(ModelTotals, frozen=True, kw_only=True):
    models: dict[str, ModelTotals]


class Point(Shape, frozen=True, kw_only=True):
    id: str
    role: str
    at: int | None = None
    ms: int | None = None
    model: str | None = None
    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    cost: float | int | None = None


class Timeline(Shape, frozen=True, kw_only=True):
    points: tuple[Point, ...]


# --- search ----------------------------------------------------------------------------------------------------------


class SnippetPart(Shape, frozen=True, kw_only=True):
    text: str
    hit: bool = False


HitKind: TypeAlias = Literal[
    "text", "thinking", "arguments", "result", "system", "summary", "note", "document", "title", "other"
]


class Hit(Shape, frozen=True, kw_only=True):
    """A search hit. `number` counts messages from the root."""

    key: str
    title: str
    entry: str
    block: int | None = None
    role: str
    kind: HitKind
    tool: str | None = None
    model: str | None = None
    at: int | None = None
    number: int | None = None
    spawned: bool = False
    snippet: tuple[SnippetPart, ...]


class FilterValues(Shape, frozen=True, kw_only=True):
    """The values that a search can filter by."""

    roles: tuple[str, ...]
    tools: tuple[str, ...]
    models: tuple[str, ...]


class SearchResult(Shape, frozen=True, kw_only=True):
    hits: tuple[Hit, ...]
    total: int
    sessions: int
    ms: int
    next: str | None = None
    index: IndexState


# --- compare ---------------------------------------------------------------------------------------------------------


class SpanView(Shape, frozen=True, kw_only=True):
    """A span of text, on both sides or on one."""

    text: str
    in_: Literal["both", "a", "b"] = field(name="in")


class ArgumentDifference(Shape, frozen=True, kw_only=True):
    key: str
    a: Any = None
    b: Any = None
    same: bool
    spans: tuple[SpanView, ...] = ()


class CallDifference(Shape, frozen=True, kw_only=True):
    name: str
    a: int | None = None
    b: int | None = None
    args: tuple[ArgumentDifference, ...]


class OtherDifference(Shape, frozen=True, kw_only=True):
    what: str
    a: Any = None
    b: Any = None


class Pair(Shape, frozen=True, kw_only=True):
    a: float | int | None = None
    b: float | int | None = None


class CompareRow(Shape, frozen=True, kw_only=True):
    kind: Literal["equal", "changed", "onlyA", "onlyB"]
    a: str | None = None
    b: str | None = None
    role: str
    same: int | None = None
    words: int | None = None
    spans: tuple[SpanView, ...] = ()
    calls: tuple[CallDifference, ...] = ()
    other: tuple[OtherDifference, ...] = ()
    ms: Pair | None = None
    cost: Pair | None = None


class Side(Shape, frozen=True, kw_only=True):
    key: str
    to: str | None = None
    title: str
    branch: str | None = None
    models: tuple[str, ...]
    after: int
    totals: TotalsView
    system: str | None = None


class ForkPoint(Shape, frozen=True, kw_only=True):
    a: str
    b: str


class Comparison(Shape, frozen=True, kw_only=True):
    a: Side
    b: Side
    common: int
    fork: ForkPoint | None = None
    total: int
    rows: tuple[CompareRow, ...]
    next: int | None = None


# --- lossless views --------------------------------------------------------------------------------------------------


class DialectView(Shape, frozen=True, kw_only=True):
    id: str
    label: str
    can_write: bool = True


class Dialects(Shape, frozen=True, kw_only=True):
    wires: tuple[DialectView, ...]
    files: tuple[DialectView, ...]


class JsonLine(Shape, frozen=True, kw_only=True):
    """A line of indented JSON. `source` is the stored path of a sent value; `cut` counts the omitted characters."""

    depth: int
    text: str
    path: str
    source: str | None = field(default=None, name="from")
    entry: str | None = None
    block: int | None = None
    loss: tuple[int, ...] = ()
    cut: int | None = None


class LossView(Shape, frozen=True, kw_only=True):
    """`ghost` is the index of the sent line before which something is missing; `kept_by` dialects that keep it.

    `times` counts the losses of this kind in messages that are not shown; the path is that of the first.
    """

    n: int
    path: str
    what: str
    why: str
    severity: Literal["dropped", "weakened", "record"]
    entry: str | None = None
    block: int | None = None
    ghost: int | None = None
    kept_by: tuple[str, ...] = ()
    times: int = 1


class WireView(Shape, frozen=True, kw_only=True):
    """`back`: the dialect is the conversation's own, and the sent body round-trips exactly.

    `partial`: only the `last` messages that were asked for were encoded; sizes, losses and paths are theirs.
    """

    dialect: str
    model: str | None = None
    stored: tuple[JsonLine, ...]
    sent: tuple[JsonLine, ...]
    losses: tuple[LossView, ...]
    bytes: int
    media_bytes: int
    hidden: int
    back: bool = False
    curl: str | None = None
    notes: tuple[str, ...] = ()
    partial: bool = False


class FindingView(Shape, frozen=True, kw_only=True):
    """`repaired`: sending repairs it on a copy; the stored value is unchanged."""

    n: int
    path: str
    severity: Literal["error", "warning"]
    effect: Literal["refuses", "weakens", "drops"]
    message: str
    remedy: str
    entry: str | None = None
    block: int | None = None
    repaired: bool = False


class Fit(Shape, frozen=True, kw_only=True):
    tokens: int
    window: int | None = None
    max: int | None = None


class DoctorView(Shape, frozen=True, kw_only=True):
    target: str | None = None
    findings: tuple[FindingView, ...]
    fits: Fit | None = None
    problems: tuple[LineProblem, ...] = ()


class Marker(Shape, frozen=True, kw_only=True):
    entry: str | None = None
    block: int | None = None


class CacheTokens(Shape, frozen=True, kw_only=True):
    read: int
    written: int
    fresh: int


class Broken(Shape, frozen=True, kw_only=True):
    """The first difference between a request and the previous one: nothing after it can be reused."""

    path: str
    entry: str | None = None
    why: str
    was: str | None = None
    is_: str | None = field(default=None, name="is")
    extra_cost: float | None = None


class CacheRow(Shape, frozen=True, kw_only=True):
    entry: str
    model: str | None = None
    dialect: str
    bytes: int
    shared: int
    tokens: CacheTokens | None = None
    markers: tuple[Marker, ...] = ()
    broke: Broken | None = None


class CacheView(Shape, frozen=True, kw_only=True):
    """`partial`: the requests were compared from the `last` messages of the path on, and sizes are of these."""

    dialect: str | None = None
    answers: tuple[CacheRow, ...]
    partial: bool = False


class Segment(Shape, frozen=True, kw_only=True):
    """A part of what a model reads: usually one message; far from the end, several neighbours."""

    kind: Literal["system", "tools", "message", "summary"]
    entry: str | None = None
    role: str | None = None
    tokens: int
    estimated: bool
    messages: int = 1


class CompactionMark(Shape, frozen=True, kw_only=True):
    entry: str
    first_kept: str | None = None
    before: int | None = None
    after: int | None = None


class Reading(Shape, frozen=True, kw_only=True):
    """What one response read, in tokens."""

    entry: str
    number: int
    read: int | None = None
    fresh: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    cost: float | int | None = None
    broke: str | None = None
    extra_cost: float | None = None


class ContextView(Shape, frozen=True, kw_only=True):
    """What a model reads at an entry. `exact`: the total is the provider's count; `left` messages are not read.

    `partial`: only the `last` messages that were asked for were read; unless exact, the total is theirs.
    """

    model: str | None = None
    window: int | None = None
    max: int | None = None
    total: int
    exact: bool
    segments: tuple[Segment, ...]
    cached: int | None = None
    compactions: tuple[CompactionMark, ...] = ()
    left: int = 0
    answers: tuple[Reading, ...] = ()
    partial: bool = False


# --- runs ------------------------------------------------------------------------------------------------------------


class Price(Shape, frozen=True, kw_only=True):
    """Dollars per million tokens."""

    input: float | int
    output: float | int
    cache_read: float | int | None = None
    cache_write: float | int | None = None


class ModelView(Shape, frozen=True, kw_only=True):
    """A model to choose. `ready`: a key was found, or none is needed."""

    name: str
    id: str
    provider: str
    label: str | None = None
    api: str
    window: int | None = None
    max: int | None = None
    price: Price | None = None
    ready: bool
    why: str | None = None
    input: tuple[str, ...] = ()
    reasoning: bool | None = None
    local: bool = False
    used: bool = False


class ProviderView(Shape, frozen=True, kw_only=True):
    id: str
    label: str
    ready: bool
    why: str | None = None


class ModelList(Shape, frozen=True, kw_only=True):
    models: tuple[ModelView, ...]
    providers: tuple[ProviderView, ...]
    total: int


class LossCounts(Shape, frozen=True, kw_only=True):
    dropped: int = 0
    weakened: int = 0
    record: int = 0


class ErrorView(Shape, frozen=True, kw_only=True):
    """Why a run ended. `kind` is the name of the error's class."""

    kind: str
    message: str
    retry_after: float | None = None
    provider: str | None = None


RunState: TypeAlias = Literal["starting", "running", "waiting", "done", "stopped", "error"]


class RunView(Shape, frozen=True, kw_only=True):
    """A response in progress, or an ended one. `mine` is false for a remote agent that only reports here."""

    id: str
    session: str
    start: str | None = field(default=None, name="from")
    prompt: str | None = None
    model: str
    branch: str | None = None
    state: RunState
    error: ErrorView | None = None
    began: int
    ended: int | None = None
    losses: LossCounts
    usage: RowUsage | None = None
    cost: float | None = None
    head: str | None = None
    queued: int = 0
    tools: tuple[str, ...] = ()
    waiting: "tuple[Approval, ...]" = ()
    mine: bool = True


class RunList(Shape, frozen=True, kw_only=True):
    runs: tuple[RunView, ...]


class LiveNode(Shape, frozen=True, kw_only=True):
    """A response in progress."""

    node: str
    run: str
    parent: str | None = None
    model: str | None = None
    provider: str | None = None
    role: str = "assistant"
    began: int
    content: tuple[BlockView, ...] = ()
    losses: LossCounts | None = None


class Approval(Shape, frozen=True, kw_only=True):
    """A call that waits for approval. `pattern` is what `always` would allow; absent: nothing."""

    run: str
    call_id: str
    tool: str
    arguments: Any
    reason: str
    pattern: str | None = None


class InputBlock(Shape, frozen=True, kw_only=True):
    """A part of the user's input: text, or uploaded media."""

    type: Literal["text", "image", "document", "audio"]
    text: str | None = None
    upload: str | None = None
    mime_type: str | None = None
    title: str | None = None


class RunOptions(Shape, frozen=True, kw_only=True):
    max_tokens: int | None = None
    temperature: float | int | None = None
    reasoning: str | int | bool | None = None


class RunRequest(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Continue from an entry (default: the head; null begins a new root), with or without a message, on models.

    `replaces` makes the message a new sibling of that entry. `key` makes the request idempotent.
    """

    start: str | UnsetType | None = field(default=UNSET, name="from")
    text: str | None = None
    content: tuple[InputBlock, ...] = ()
    replaces: str | None = None
    models: tuple[str, ...]
    thinking: Literal["drop", "text"] = "drop"
    options: RunOptions | None = None
    tools: tuple[str, ...] = ()
    branch: str | None = None
    key: str | None = None


class StartedRuns(Shape, frozen=True, kw_only=True):
    """`linked`: the session could not be written, and continues in a linked fork."""

    session: SessionView
    linked: bool = False
    prompt: str | None = None
    runs: tuple[RunView, ...]


class HandoverRequest(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: str | None = None
    models: tuple[str, ...]
    text: str | None = None
    replaces: str | None = None
    thinking: Literal["drop", "text"] = "drop"
    tools: tuple[str, ...] = ()


class Reads(Shape, frozen=True, kw_only=True):
    messages: int
    tokens: int


class HandoverModel(Shape, frozen=True, kw_only=True):
    """What one model would not read. `refuses` is what sending cannot repair; `cost` estimates the input."""

    model: str
    api: str
    losses: tuple[LossView, ...]
    counts: LossCounts
    fits: bool
    tokens: int
    window: int | None = None
    cost: float | None = None
    refuses: tuple[FindingView, ...] = ()
    cached: int | None = None
    same_family: bool = False


class Spot(Shape, frozen=True, kw_only=True):
    entry: str | None = None
    block: int | None = None


class CauseCount(Shape, frozen=True, kw_only=True):
    severity: Literal["dropped", "weakened", "record"]
    count: int


class Cause(Shape, frozen=True, kw_only=True):
    """The same loss for several models, as one row."""

    what: str
    why: str | None = None
    label: str
    entries: tuple[Spot, ...]
    by: dict[str, CauseCount]


class Handover(Shape, frozen=True, kw_only=True):
    reads: Reads
    models: tuple[HandoverModel, ...]
    causes: tuple[Cause, ...]


class ToolView(Shape, frozen=True, kw_only=True):
    name: str
    label: str
    section: str
    asks: bool


class ToolList(Shape, frozen=True, kw_only=True):
    tools: tuple[ToolView, ...]
    profiles: tuple[str, ...]


class Uploaded(Shape, frozen=True, kw_only=True):
    sha256: str
    mime_type: str
    size: int


# --- export ----------------------------------------------------------------------------------------------------------


class ScanRequest(Shape, frozen=True, kw_only=True):
    """The path to an entry, or all branches. `patterns` holds further texts to search for."""

    format: str
    to: str | None = None
    all: bool = False
    patterns: tuple[str, ...] = ()
    thinking: bool = True
    media: bool = True


class FindView(Shape, frozen=True, kw_only=True):
    """A match that looks private. `suggested`: it is almost certainly private."""

    id: str
    kind: str
    text: str
    before: str
    after: str
    entry: str | None = None
    block: int | None = None
    where: str
    suggested: bool = False


class Scan(Shape, frozen=True, kw_only=True):
    """The matches, and the size of the file in bytes."""

    finds: tuple[FindView, ...]
    bytes: int


class ExportRequest(ScanRequest, frozen=True, kw_only=True):
    """`redact` names matches of a scan with the same choice; `replace` replaces them."""

    redact: tuple[str, ...] = ()
    replace: str | None = None


class ExportLosses(Shape, frozen=True, kw_only=True):
    losses: tuple[LossView, ...]


_encoder = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Returns the JSON of a shape; unpaired surrogates, which a file may contain, are written as U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return jsontext.write(msgspec.to_builtins(value))
