"""The cache view: which prefix each request shares, byte by byte, with the one before, and what broke it.

Providers cache prefixes: tools first, then the system text, then the messages. A request is cut into these pieces in
that order; up to the first piece that differs, what was cached for the last request can be read again.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..dialects import WIRES
from ..dialects.registry import DEFAULT_WIRE
from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.messages import AgentMessage, AssistantMessage, Usage, blocks_of
from ..values.request import Entry, ModelDescriptor, Request
from .places import entry_of
from .sending import Sent, origins, send
from .shapes import Broken, CacheRow, CacheTokens, CacheView, Marker, Reading
from .trees import Tree

ANSWERS_SHOWN = 40  # the latest ones: each is a request of its own, to be encoded in full
_MESSAGES_ENCODED = 10_000  # in all; of long conversations fewer answers are shown
_SHOWN = 120  # characters around a difference
# Where wires say what comes before the messages, in the order in which it is cached; and where the messages are.
_HEADS = ("tools", "toolConfig", "tool_config", "system", "systemInstruction", "system_instruction", "instructions")
_BODIES = ("messages", "contents", "input")


class Piece(NamedTuple):
    """A part of a request that is cached as one: its path, its bytes, and what it is in words."""

    path: str
    data: bytes
    label: str


def cache_view(tree: Tree, to: str | None, dialect: str | None) -> CacheView:
    """The answers on the way to an entry, each with what its request shares with the one before."""
    path = tree.path(to)
    answers = [at for at, entry in enumerate(path) if isinstance(entry.message, AssistantMessage)]
    rows: list[CacheRow] = []
    before: list[Piece] | None = None
    shown = max(2, min(ANSWERS_SHOWN, _MESSAGES_ENCODED // max(len(path), 1)))
    first = max(0, len(answers) - shown)
    for at in answers[max(0, first - 1) :]:
        entry = path[at]
        try:
            sent, request, ids = _request(tree, path[:at], entry, dialect)
        except InterlinguaError:
            before = None
            continue
        pieces = list(_pieces(sent.body))
        rows.append(_row(entry, sent, request, ids, pieces, before))
        before = pieces
    return CacheView(dialect=dialect, answers=tuple(rows[1:] if first else rows))


def _request(
    tree: Tree, path: Sequence[Entry], entry: Entry, dialect: str | None
) -> tuple[Sent, Request, list[str | None]]:
    """The request that an answer was given to, as its own wire says it, or another."""
    message: AgentMessage = entry.message
    assert isinstance(message, AssistantMessage)
    api = dialect or (message.api if message.api in WIRES else DEFAULT_WIRE)
    session = tree.session_at(entry.id)
    request, ids = tree.request_of(path, session, session.base.model)
    target = ModelDescriptor(id=message.model or "", provider=message.provider or "", api=api or DEFAULT_WIRE)
    return send(request, target), request, ids


def _pieces(body: Any) -> Iterator[Piece]:
    if not isinstance(body, dict):
        return
    for key in _HEADS:
        if key in body:
            label = "the tools" if "tool" in key.lower() else "the system text"
            yield Piece(f"$.{key}", jsontext.write(body[key]), label)
    for key in _BODIES:
        items = body.get(key)
        for at, item in enumerate(items if isinstance(items, list) else ()):
            yield Piece(f"$.{key}[{at}]", jsontext.write(item), f"message {at + 1}")


def _row(
    entry: Entry,
    sent: Sent,
    request: Request,
    ids: Sequence[str | None],
    pieces: Sequence[Piece],
    before: Sequence[Piece] | None,
) -> CacheRow:
    message: AgentMessage = entry.message
    assert isinstance(message, AssistantMessage)
    usage = message.usage
    shared, broken = _shared(before or (), pieces)
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


class _Difference(NamedTuple):
    piece: Piece
    was: Piece | None
    at: int


def _shared(before: Sequence[Piece], now: Sequence[Piece]) -> tuple[int, _Difference | None]:
    """How many bytes are the same, and the first difference; None where nothing of before was changed."""
    shared = 0
    for number, was in enumerate(before):
        piece = now[number] if number < len(now) else None
        if piece is not None and piece.data == was.data:
            shared += len(was.data)
            continue
        if piece is None:
            return shared, _Difference(was, was, 0)
        at = _common(was.data, piece.data)
        return shared + at, _Difference(piece, was, at)
    return shared, None


def _common(a: bytes, b: bytes) -> int:
    """The length of the common beginning."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _broken(found: _Difference, request: Request, sent: Sent, ids: Sequence[str | None]) -> Broken:
    came = origins(request, sent)
    source = came.get(found.piece.path)
    entry = entry_of(source, ids)[0] if source is not None else None
    was = found.was.data if found.was is not None else b""
    return Broken(
        path=found.piece.path,
        entry=entry,
        why=f"{found.piece.label} differs from the request before",
        was=_around(was, found.at),
        is_=_around(found.piece.data, found.at),
    )


def _around(data: bytes, at: int) -> str:
    return data[max(0, at - _SHOWN // 2) : at + _SHOWN // 2].decode("utf-8", "replace")


def _markers(request: Request, ids: Sequence[str | None]) -> Iterator[Marker]:
    for message, id in zip(request.context.messages, ids, strict=True):
        for number, block in enumerate(blocks_of(message.content)):
            if getattr(block, "cache", None) is not None:
                yield Marker(entry=id, block=number)


def breaks(before: Sequence[Reading], usage: Usage) -> str | None:
    """Whether an answer read from the cache less than the one before had left there; a first look, by figures alone."""
    last = next((reading for reading in reversed(before) if reading.cache_read is not None), None)
    if last is None or last.cache_read is None or last.cache_write is None:
        return None
    kept = last.cache_read + last.cache_write
    if kept and usage.cache_read < kept // 2:
        return f"{usage.cache_read:,} of {kept:,} cached tokens could be reused"
    return None
