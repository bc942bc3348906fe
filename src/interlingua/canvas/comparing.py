"""The compare view: two branches or two files, message by message, with what differs within."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..sessions.cards import Totals
from ..sessions.compaction import is_bookkeeping
from ..sessions.comparison import Pair as Aligned
from ..sessions.comparison import aligned, alike, comparable, spans
from ..values import jsontext
from ..values.canonical import plain
from ..values.messages import AgentMessage, AssistantMessage, CustomMessage, ToolCall, blocks_of, text_of
from ..values.request import Entry
from .figures import totals_view
from .shapes import (
    ArgumentDifference,
    CallDifference,
    CompareRow,
    Comparison,
    ForkPoint,
    OtherDifference,
    Pair,
    Side,
    SpanView,
)
from .trees import Tree

_TEXT_LIMIT = 200_000  # characters of a text that are compared word by word
_KINDS = {"equal": "equal", "changed": "changed", "removed": "onlyA", "added": "onlyB"}


def compare_view(
    a: Tree, a_to: str | None, b: Tree, b_to: str | None, titles: tuple[str, str], offset: int, limit: int
) -> Comparison:
    """Two paths side by side, from where they part."""
    left, right = (_spoken(tree, to) for tree, to in ((a, a_to), (b, b_to)))
    values = [[comparable(entry.message) for entry in side] for side in (left, right)]
    pairs = list(aligned(*values))
    common = next((at for at, pair in enumerate(pairs) if pair.kind != "equal"), len(pairs))
    rows = pairs[common:]
    system = _system_row(a, b) if not offset else []
    shown = [_row(pair, left, right) for pair in rows[offset : offset + limit]]
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


def _spoken(tree: Tree, to: str | None) -> list[Entry]:
    return [entry for entry in tree.path(to) if not is_bookkeeping(entry.message)]


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
    same, text = alike(pieces)
    return [CompareRow(kind="changed", role="system", same=same, words=text, spans=_views(pieces))]


def _views(pieces: Sequence[Any]) -> tuple[SpanView, ...]:
    return tuple(SpanView(text=piece.text, in_=piece.side) for piece in pieces)


def _row(pair: Aligned, left: Sequence[Entry], right: Sequence[Entry]) -> CompareRow:
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
    same, text = alike(pieces)
    return CompareRow(
        **fields,
        same=same,
        words=text,
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
    """The calls of two answers: those of one tool in order, their arguments key by key."""
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
    """What differs beside words and calls."""
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
