"""The lossless views: aligned comparison, doctor, cache prefixes, and the model's context."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from ..conversion.adapting.adapter import adapt, structural_repairs
from ..conversion.checks import check
from ..conversion.prompt_cache import PromptDifference, PromptPiece, prompt_pieces, shared_prefix
from ..dialects import WIRES
from ..dialects.registry import DEFAULT_WIRE
from ..sessions.cards import Totals
from ..sessions.compaction import ROLE, first_kept_of, is_compaction
from ..sessions.comparison import MessagePair as Aligned
from ..sessions.comparison import aligned, alike, comparable, spans
from ..sessions.tree import is_message
from ..values import jsontext
from ..values import tokens as budget
from ..values.canonical import plain
from ..values.errors import InterlinguaError
from ..values.messages import AgentMessage, AssistantMessage, CustomMessage, ToolCall, Usage, blocks_of, text_of
from ..values.request import Context, Entry, ModelDescriptor, Request
from .shapes import (
    ArgumentDifference,
    Broken,
    CacheRow,
    CacheTokens,
    CacheView,
    CallDifference,
    CompactionMark,
    CompareRow,
    Comparison,
    ContextView,
    DoctorView,
    FindingView,
    Fit,
    ForkPoint,
    Marker,
    OtherDifference,
    Pair,
    Reading,
    Segment,
    Side,
    SpanView,
)
from .targets import Sent, entry_of, is_of_record, origins, send, window_of
from .trees import Tree, from_user
from .views import totals_view

# --- compare ---------------------------------------------------------------------------------------------------------
#
# The compare view: two branches or two files, message by message, with their differences.


_TEXT_LIMIT = 200_000  # characters of a text that are compared word by word
_KINDS = {"equal": "equal", "changed": "changed", "removed": "onlyA", "added": "onlyB"}


def compare_view(
    a: Tree, a_to: str | None, b: Tree, b_to: str | None, titles: tuple[str, str], offset: int, limit: int
) -> Comparison:
    """Compares two paths, from where they diverge."""
    left, right = (_messages_to(tree, to) for tree, to in ((a, a_to), (b, b_to)))
    values = [[comparable(entry.message) for entry in side] for side in (left, right)]
    pairs = list(aligned(*values))
    common = next((at for at, pair in enumerate(pairs) if pair.kind != "equal"), len(pairs))
    rows = pairs[common:]
    system = _system_row(a, b) if not offset else []
    shown = [_compared_row(pair, left, right) for pair in rows[offset : offset + limit]]
    fork = ForkPoint(a=left[common - 1].id or "", b=right[common - 1].id or "") if common else None
    after = offset + limit
    return Comparison(
        a=_side(a, a_to, titles[0], left, common),
        b=_side(b, b_to, titles[1], right, common),
        common=common,
        fork=fork,
        total=len(rows),
        rows=(*system, *shown),
        next=after if after < len(rows) else None,
    )


def _messages_to(tree: Tree, to: str | None) -> list[Entry]:
    return [entry for entry in tree.path(to) if is_message(entry.message)]


def _side(tree: Tree, to: str | None, title: str, path: Sequence[Entry], common: int) -> Side:
    after = path[common:]
    totals = Totals()
    for entry in after:
        totals.add(entry.message)
    head = path[-1].id if path else to
    branch = next((branch.name for branch in tree.branches() if branch.head == head), None)
    models = dict.fromkeys(m.model for entry in after if isinstance(m := entry.message, AssistantMessage) and m.model)
    return Side(
        key=tree.place.key,
        to=head,
        title=title,
        branch=branch,
        models=tuple(models),
        after=len(after),
        totals=totals_view(totals, after),
        system=text_of(tree.session.base.system) or None,
    )


def _system_row(a: Tree, b: Tree) -> list[CompareRow]:
    before, after = (text_of(tree.session.base.system) for tree in (a, b))
    if before == after:
        return []
    pieces = spans(before[:_TEXT_LIMIT], after[:_TEXT_LIMIT])
    if not before or not after:
        return [CompareRow(kind="onlyA" if before else "onlyB", role="system", spans=_views(pieces))]
    same, total = alike(pieces)
    return [CompareRow(kind="changed", role="system", same=same, words=total, spans=_views(pieces))]


def _views(pieces: Sequence[Any]) -> tuple[SpanView, ...]:
    return tuple(SpanView(text=piece.text, in_=piece.side) for piece in pieces)


def _compared_row(pair: Aligned, left: Sequence[Entry], right: Sequence[Entry]) -> CompareRow:
    a = left[pair.a] if pair.a is not None else None
    b = right[pair.b] if pair.b is not None else None
    known = a or b
    assert known is not None
    fields: dict[str, Any] = {
        "kind": _KINDS[pair.kind],
        "a": a.id if a is not None else None,
        "b": b.id if b is not None else None,
        "role": known.message.role,
        "cost": _pair(_cost(a), _cost(b)),
    }
    if pair.kind != "changed" or a is None or b is None:
        return CompareRow(**fields)
    pieces = spans(_text(a.message)[:_TEXT_LIMIT], _text(b.message)[:_TEXT_LIMIT])
    same, total = alike(pieces)
    return CompareRow(
        **fields,
        same=same,
        words=total,
        spans=_views(pieces),
        calls=tuple(_calls(a.message, b.message)),
        other=tuple(_others(a.message, b.message)),
    )


def _text(message: AgentMessage) -> str:
    return jsontext.compact(message.fields) if isinstance(message, CustomMessage) else text_of(message.content)


def _cost(entry: Entry | None) -> float | int | None:
    message: AgentMessage | None = entry.message if entry is not None else None
    usage = message.usage if isinstance(message, AssistantMessage) else None
    return usage.cost.total if usage is not None and usage.cost is not None else None


def _pair(a: float | None, b: float | None) -> Pair | None:
    return None if a is None and b is None else Pair(a=a, b=b)


def _calls(a: AgentMessage, b: AgentMessage) -> Iterator[CallDifference]:
    """Compares the calls of two responses: those of one tool in order, their arguments key by key."""
    left, right = _numbered_calls(a), _numbered_calls(b)
    for number, call in left:
        at = next((at for at, (_, other) in enumerate(right) if other.name == call.name), None)
        if at is None:
            yield CallDifference(name=call.name, a=number, args=tuple(_arguments(call.arguments, {})))
            continue
        other_number, other = right.pop(at)
        yield CallDifference(
            name=call.name, a=number, b=other_number, args=tuple(_arguments(call.arguments, other.arguments))
        )
    for number, call in right:
        yield CallDifference(name=call.name, b=number, args=tuple(_arguments({}, call.arguments)))


def _numbered_calls(message: AgentMessage) -> list[tuple[int, ToolCall]]:
    if isinstance(message, CustomMessage):
        return []
    return [(at, block) for at, block in enumerate(blocks_of(message.content)) if isinstance(block, ToolCall)]


def _arguments(a: dict[str, Any], b: dict[str, Any]) -> Iterator[ArgumentDifference]:
    for key in dict.fromkeys((*a, *b)):
        left, right = a.get(key), b.get(key)
        same = key in a and key in b and left == right
        texts = isinstance(left, str) and isinstance(right, str) and not same
        pieces = spans(str(left)[:_TEXT_LIMIT], str(right)[:_TEXT_LIMIT]) if texts else []
        yield ArgumentDifference(key=key, a=left, b=right, same=same, spans=_views(pieces))


def _others(a: AgentMessage, b: AgentMessage) -> Iterator[OtherDifference]:
    """Returns differences beside text and calls."""
    left, right = (_rest(message) for message in (a, b))
    for key in dict.fromkeys((*left, *right)):
        if left.get(key) != right.get(key):
            yield OtherDifference(what=key, a=_short(left.get(key)), b=_short(right.get(key)))


def _rest(message: AgentMessage) -> dict[str, Any]:
    value = comparable(message)
    kept = {key: item for key, item in value.items() if key not in ("role", "content")}
    for block in value.get("content") or ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in ("text", "toolCall"):
            kept.setdefault(str(kind), []).append(block)
    return kept


def _short(value: Any) -> Any:
    text = jsontext.compact(plain(value)) if value is not None else ""
    return value if len(text) <= 2_000 else f"{text[:2_000]}…"


# --- doctor ----------------------------------------------------------------------------------------------------------
#
# The doctor: findings of a conversation for a chosen model, on every node, before anything is sent.


def doctor_view(tree: Tree, to: str | None, target: ModelDescriptor | None) -> DoctorView:
    """Returns the findings at an entry; without a target, those that apply to any target."""
    request, ids = tree.request_with_entries(to)
    found = check(request, target=target)
    losses = structural_repairs(request) if target is None else adapt(request, target).losses
    views: list[FindingView] = []
    shown = (pair for pair in zip(found, losses, strict=True) if not is_of_record(pair[0].path, request))
    for n, (finding, loss) in enumerate(shown, 1):
        entry, block = entry_of(finding.path, ids)
        effect = "refuses" if finding.severity == "error" else "drops" if loss.severity == "dropped" else "weakens"
        views.append(
            FindingView(
                n=n,
                path=finding.path,
                severity=finding.severity,
                effect=effect,  # type: ignore[arg-type]
                message=finding.message,
                remedy=finding.remedy,
                entry=entry,
                block=block,
                repaired=True,  # a finding is a repair that sending makes on a copy
            )
        )
    tokens = budget.taken(request.context)
    fit = None
    if target is not None:
        window, longest = (target.context_window, target.max_tokens)
        if window is None:
            window, longest = window_of(target.provider or None, target.id or None)
        fit = Fit(tokens=tokens, window=window, max=longest)
        if window is not None and tokens > window:
            head = to if to is not None else tree.head()
            views.insert(0, _too_long(tokens, window, head))
    return DoctorView(
        target=None if target is None else f"{target.provider}/{target.id}".strip("/") or target.api,
        findings=tuple(views),
        fits=fit,
        problems=tree.problems(),
    )


def _too_long(tokens: int, window: int, entry: str | None) -> FindingView:
    return FindingView(
        n=0,
        path="$.messages",
        severity="error",
        effect="refuses",
        message=f"the conversation does not fit: about {tokens:,} tokens, the model reads {window:,}",
        remedy="compact it, or choose a model that reads more",
        entry=entry,
    )


# --- cache -----------------------------------------------------------------------------------------------------------
#
# The cache view: which prefix each request shares, to the byte, with the previous one, and what invalidated it.


REQUESTS_SHOWN = 40  # the latest ones: each is a request that must be encoded in full
_MESSAGES_ENCODED = 10_000  # total; fewer responses of long conversations are shown
_SHOWN = 120  # characters around a difference


def cache_view(tree: Tree, to: str | None, dialect: str | None, last: int | None = None) -> CacheView:
    """Returns the responses on the path to an entry, each with what its request shares with the previous one.

    With `last`, requests are encoded from that many messages before the end of the path on.
    """
    path: Sequence[Entry] = tree.path(to, None if last is None else last + 1)
    is_partial = last is not None and len(path) > last
    path = from_user(path[1:]) if is_partial else path
    answers = [at for at, entry in enumerate(path) if isinstance(entry.message, AssistantMessage)]
    rows: list[CacheRow] = []
    before: list[PromptPiece] | None = None
    shown = max(2, min(REQUESTS_SHOWN, _MESSAGES_ENCODED // max(len(path), 1)))
    first = max(0, len(answers) - shown)
    for at in answers[max(0, first - 1) :]:
        entry = path[at]
        try:
            sent, request, ids = _request(tree, path[:at], entry, dialect)
        except InterlinguaError:
            before = None
            continue
        pieces = list(prompt_pieces(sent.body))
        rows.append(_row(entry, sent, request, ids, pieces, before))
        before = pieces
    return CacheView(dialect=dialect, answers=tuple(rows[1:] if first or is_partial else rows), partial=is_partial)


def _request(
    tree: Tree, path: Sequence[Entry], entry: Entry, dialect: str | None
) -> tuple[Sent, Request, list[str | None]]:
    """Returns the request of a response in its own wire, or another."""
    message: AgentMessage = entry.message
    assert isinstance(message, AssistantMessage)
    api = dialect or (message.api if message.api in WIRES else DEFAULT_WIRE)
    session = tree.session_at(entry.id)
    request, ids = tree.request_of(path, session, session.base.model)
    target = ModelDescriptor(id=message.model or "", provider=message.provider or "", api=api or DEFAULT_WIRE)
    return send(request, target), request, ids


def _row(
    entry: Entry,
    sent: Sent,
    request: Request,
    ids: Sequence[str | None],
    pieces: Sequence[PromptPiece],
    before: Sequence[PromptPiece] | None,
) -> CacheRow:
    message: AgentMessage = entry.message
    assert isinstance(message, AssistantMessage)
    usage = message.usage
    shared, broken = shared_prefix(before or (), pieces)
    return CacheRow(
        entry=entry.id or "",
        model=message.model,
        dialect=sent.api,
        bytes=sum(len(piece.data) for piece in pieces),
        shared=shared,
        tokens=None
        if usage is None
        else CacheTokens(read=usage.cache_read, written=usage.cache_write, fresh=usage.input),
        markers=tuple(_markers(request, ids)),
        broke=None if broken is None or before is None else _broken(broken, request, sent, ids),
    )


def _broken(found: PromptDifference, request: Request, sent: Sent, ids: Sequence[str | None]) -> Broken:
    came = origins(request, sent)
    source = came.get(found.piece.path)
    entry = entry_of(source, ids)[0] if source is not None else None
    return Broken(
        path=found.piece.path,
        entry=entry,
        why=f"{found.piece.label} differs from the request before",
        was=_around(found.was.data, found.at),
        is_=_around(found.piece.data, found.at),
    )


def _around(data: bytes, at: int) -> str:
    return data[max(0, at - _SHOWN // 2) : at + _SHOWN // 2].decode("utf-8", "replace")


def _markers(request: Request, ids: Sequence[str | None]) -> Iterator[Marker]:
    for message, id in zip(request.context.messages, ids, strict=True):
        content = () if isinstance(message, CustomMessage) else message.content
        for number, block in enumerate(blocks_of(content)):
            if getattr(block, "cache", None) is not None:
                yield Marker(entry=id, block=number)


def breaks(before: Sequence[Reading], usage: Usage) -> str | None:
    """Whether a response read less from the cache than the previous one had left there; a first check by usage only."""
    last = next((reading for reading in reversed(before) if reading.cache_read is not None), None)
    if last is None or last.cache_read is None or last.cache_write is None:
        return None
    kept = last.cache_read + last.cache_write
    if kept and usage.cache_read < kept // 2:
        return f"{usage.cache_read:,} of {kept:,} cached tokens could be reused"
    return None


# --- context ---------------------------------------------------------------------------------------------------------
#
# The context ruler: what the model read at an entry, after compaction, and how much of its window that used.


ANSWERS_SHOWN = 200
_SEGMENTS_APART = 1000  # the latest ones
_SEGMENTS_JOINED = 250  # groups of earlier ones


def context_view(
    tree: Tree,
    to: str | None,
    model: tuple[str | None, str | None] | None = None,
    last: int | None = None,
) -> ContextView:
    """Returns what is read at `to`: by this response, or by the next one; or the `last` messages of it."""
    at = to if to is not None else tree.head()
    if at is None:
        return ContextView(total=0, exact=True, segments=())
    path: Sequence[Entry] = tree.path(at, None if last is None else last + 1)
    is_partial = last is not None and len(path) > last
    path = from_user(path[1:]) if is_partial else path
    message: AgentMessage = path[-1].message
    answer = message if isinstance(message, AssistantMessage) else None
    session = tree.session_at(at)
    read_path = path[:-1] if answer is not None and path[-1].parent_id is not None else path
    request, ids = tree.request_of(read_path, session, session.base.model or session.model)
    segments = _segments(request, ids, path)
    total, exact, cached = _total(answer, request)
    provider, name = model or _model(answer, path, request)
    window, longest = window_of(provider, name)
    read = {segment.entry for segment in segments}
    return ContextView(
        model=name,
        window=window,
        max=longest,
        total=total,
        exact=exact,
        segments=_joined(segments),
        cached=cached,
        compactions=tuple(_marks(path)),
        left=sum(entry.id not in read and is_message(entry.message) for entry in path if entry.id != at),
        answers=_answers(path, session.message_count(to=at) if is_partial else None),
        partial=is_partial,
    )


def _joined(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Joins neighbours of one kind and role far from the end: of more than these, no ruler has a mark for each."""
    early, late = segments[:-_SEGMENTS_APART], segments[-_SEGMENTS_APART:]
    size = -(-len(early) // _SEGMENTS_JOINED)
    found: list[Segment] = []
    for start in range(0, len(early), max(size, 1)):
        parts: dict[tuple[str, str | None], list[Segment]] = {}
        for segment in early[start : start + size]:
            parts.setdefault((segment.kind, segment.role), []).append(segment)
        found += map(_one, parts.values())
    return (*found, *late)


def _one(same: Sequence[Segment]) -> Segment:
    if len(same) == 1:
        return same[0]
    tokens, estimated = sum(one.tokens for one in same), any(one.estimated for one in same)
    return replace(same[0], entry=None, tokens=tokens, estimated=estimated, messages=len(same))


def _segments(request: Request, ids: Sequence[str | None], path: Sequence[Entry]) -> tuple[Segment, ...]:
    context = request.context
    empty = Context(messages=())
    compactions = {entry.id for entry in path if is_compaction(entry.message)}
    found: list[Segment] = []
    if context.system:
        tokens = budget.taken(Context(messages=(), system=context.system))
        found.append(Segment(kind="system", tokens=tokens, estimated=True))
    if context.tools:
        tokens = budget.taken(Context(messages=(), tools=context.tools)) - budget.taken(empty)
        found.append(Segment(kind="tools", tokens=tokens, estimated=True))
    for message, id in zip(context.messages, ids, strict=True):
        kind = "summary" if id in compactions else "message"
        tokens = budget.estimate(message)
        if isinstance(message, AssistantMessage) and message.usage is not None and message.usage.output:
            found.append(
                Segment(kind="message", entry=id, role=message.role, tokens=message.usage.output, estimated=False)
            )
            continue
        found.append(Segment(kind=kind, entry=id, role=message.role, tokens=tokens, estimated=True))  # type: ignore[arg-type]
    return tuple(found)


def _total(answer: AssistantMessage | None, request: Request) -> tuple[int, bool, int | None]:
    """Returns the provider's count of what a response read; an estimate for the next one."""
    usage = answer.usage if answer is not None else None
    if usage is not None and (read := usage.input + usage.cache_read + usage.cache_write):
        return read, True, usage.cache_read
    return budget.taken(request.context), False, None


def _model(answer: AssistantMessage | None, path: Sequence[Entry], request: Request) -> tuple[str | None, str | None]:
    answers = [m for entry in reversed(path) if isinstance(m := entry.message, AssistantMessage) and m.model]
    last = answer if answer is not None and answer.model else answers[0] if answers else None
    if last is not None:
        return last.provider, last.model
    return request.model.provider or None, request.model.id or None


def _marks(path: Sequence[Entry]) -> list[CompactionMark]:
    marks = []
    for entry in path:
        message: AgentMessage = entry.message
        if message.role != ROLE or not is_compaction(message):
            continue
        fields = getattr(message, "fields", {})
        before, after = fields.get("tokensBefore"), None
        summary = fields.get("summary")
        if isinstance(summary, str):
            after = -(-len(summary) // 4)
        marks.append(
            CompactionMark(
                entry=entry.id or "",
                first_kept=first_kept_of(message),
                before=before if isinstance(before, int) else None,
                after=after,
            )
        )
    return marks


def _answers(path: Sequence[Entry], count: int | None) -> tuple[Reading, ...]:
    """Returns the latest responses; `count` is the number of messages to the end of the path, if it is cut."""
    found: list[Reading] = []
    counted_messages = 0 if count is None else count - sum(is_message(entry.message) for entry in path)
    for entry in path:
        message: AgentMessage = entry.message
        counted_messages += is_message(message)
        if not isinstance(message, AssistantMessage):
            continue
        usage = message.usage
        known = usage is not None
        found.append(
            Reading(
                entry=entry.id or "",
                number=counted_messages,
                read=usage.input + usage.cache_read + usage.cache_write if usage is not None else None,
                fresh=usage.input if usage is not None else None,
                cache_read=usage.cache_read if usage is not None else None,
                cache_write=usage.cache_write if usage is not None else None,
                output=usage.output if usage is not None else None,
                cost=usage.cost.total if usage is not None and usage.cost is not None else None,
                broke=breaks(found, usage) if known and usage is not None else None,
            )
        )
    return tuple(found[-ANSWERS_SHOWN:])
