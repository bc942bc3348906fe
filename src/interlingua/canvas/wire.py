"""The wire view: what is stored, what a dialect would send, and every loss between, each where it applies."""

import bisect
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

from msgspec.structs import replace as change

from ..dialects import WIRES
from ..serving.problems import HttpProblem
from ..values import jsontext
from ..values.canonical import plain
from ..values.errors import InterlinguaError
from ..values.folding import unfold
from ..values.losses import Loss
from ..values.messages import AgentMessage, AssistantMessage
from ..values.request import ModelDescriptor, Request
from .places import entry_of, spot
from .sending import Sent, origins, send, wire_of
from .shapes import JsonLine, LossView, WireView
from .trees import Tree

STRING_SHOWN = 240  # characters of a string on a line
MESSAGES_SHOWN = 200  # the latest ones
_MEDIA = ("data", "image_url", "file_data", "bytes", "url")


def wire_view(
    tree: Tree,
    to: str | None,
    target: ModelDescriptor,
    *,
    part: Literal["request", "answer", "stream"] = "request",
    thinking: Literal["drop", "text"] = "drop",
    with_kept: bool = False,
) -> WireView:
    if part != "request":
        return _answer_view(tree, to, target, part)
    asked = before_answer(tree, to)
    request, ids = tree.request_with_entries(asked, None)
    own = request.model.api == target.api and not target.provider
    sent = send(request, target, thinking=thinking, own=own)
    shown, first = _shown(request)
    losses = tuple(_numbered(sent.losses, ids))
    came = origins(request, sent)
    sent_lines = list(_lines(sent.body, came=came, ids=ids, losses=losses, first=first))
    stored_lines = list(_lines(_stored(shown), ids=ids, losses=losses, shift=first))
    notes = (f"{first} earlier messages are sent as well, and not shown here",) if first else ()
    encoded = jsontext.write(sent.body)
    return WireView(
        dialect=target.api,
        model=f"{target.provider}/{target.id}" if target.provider else target.id or None,
        stored=tuple(stored_lines),
        sent=tuple(sent_lines),
        losses=tuple(_with_ghosts(_with_keepers(losses, request, sent, with_kept), sent_lines)),
        bytes=len(encoded),
        media_bytes=sum(_media_sizes(sent.body)),
        hidden=sum(loss.severity == "record" for loss in losses),
        back=own and not [loss for loss in losses if loss.severity != "record"],
        notes=notes,
    )


def before_answer(tree: Tree, to: str | None) -> str | None:
    """What an answer read ends before it; other entries are read themselves."""
    at = to if to is not None else tree.head()
    if at is None:
        raise HttpProblem(404, "the session is empty", code="entry_not_found", remedy="say something first")
    entry = tree.entry(at)
    message: AgentMessage = entry.message
    return entry.parent_id if isinstance(message, AssistantMessage) and entry.parent_id is not None else at


def _shown(request: Request) -> tuple[Request, int]:
    """The request with its latest messages alone, and how many are left out."""
    first = max(0, len(request.context.messages) - MESSAGES_SHOWN)
    if not first:
        return request, 0
    return change(request, context=change(request.context, messages=request.context.messages[first:])), first


def _stored(request: Request) -> dict[str, Any]:
    """A request as it is stored, with the paths that losses have."""
    context = plain(request.context)
    body = {"system": context.pop("systemPrompt", None), **context, "options": plain(request.options)}
    return {key: value for key, value in {"model": plain(request.model), **body}.items() if value}


# --- losses ----------------------------------------------------------------------------------------------------------


def _numbered(losses: Sequence[Loss], ids: Sequence[str | None]) -> Iterator[LossView]:
    """In order of appearance: by message and block, what is beside the messages first; bookkeeping last."""
    ordered = sorted(losses, key=lambda loss: (loss.severity == "record", _order(loss.path)))
    for n, loss in enumerate(ordered, 1):
        entry, block = entry_of(loss.path, ids)
        yield LossView(
            n=n, path=loss.path, what=loss.what, why=loss.why, severity=loss.severity, entry=entry, block=block
        )


def loss_views(losses: Sequence[Loss], ids: Sequence[str | None]) -> tuple[LossView, ...]:
    return tuple(_numbered(losses, ids))


def _order(path: str) -> tuple[int, int, str]:
    found = spot(path)
    if found is None:
        return (-1 if path.startswith(("$.model", "$.system")) else 1 << 30, -1, path)
    return (found.message, -1 if found.block is None else found.block, path)


def _with_ghosts(losses: Sequence[LossView], lines: Sequence[JsonLine]) -> Iterator[LossView]:
    """Where on the sent side something is missing: before the first line that came from behind it."""
    known = [(_order(line.source), at) for at, line in enumerate(lines) if line.source is not None]
    known.sort()
    for loss in losses:
        if loss.severity != "dropped":
            yield loss
            continue
        at = bisect.bisect_right(known, (_order(loss.path), len(lines)))
        yield change(loss, ghost=known[at][1] if at < len(known) else max(0, len(lines) - 1))


def _with_keepers(losses: Sequence[LossView], request: Request, sent: Sent, wanted: bool) -> Sequence[LossView]:
    """Which other wires would not lose it."""
    if not wanted or len(request.context.messages) > MESSAGES_SHOWN:
        return losses
    lost: dict[str, set[str]] = {}
    for api in WIRES:
        if api == sent.api:
            continue
        try:
            other = send(request, ModelDescriptor(id=request.model.id, api=api))
        except InterlinguaError:
            continue
        lost[api] = {loss.path for loss in other.losses if loss.severity != "record"}
    return [
        loss
        if loss.severity == "record"
        else change(loss, kept_by=tuple(api for api, paths in lost.items() if loss.path not in paths))
        for loss in losses
    ]


# --- lines -----------------------------------------------------------------------------------------------------------


def _lines(
    value: Any,
    *,
    came: dict[str, str] | None = None,
    ids: Sequence[str | None] = (),
    losses: Sequence[LossView] = (),
    shift: int = 0,
    first: int = 0,
) -> Iterator[JsonLine]:
    """JSON as indented lines, each with its path, where it came from, and the losses that are about it.

    What came from messages before `first` is left out.
    """
    by_path: dict[str, list[int]] = {}
    for loss in losses:
        if loss.severity != "record":
            by_path.setdefault(loss.path, []).append(loss.n)
    given: set[int] = set()
    skipped = _early(came or {}, first)
    for depth, text, path, cut in _walk(value, "$", "", 0, skipped=skipped):
        source = path if came is None else came.get(path)
        if source is not None and came is None and shift:
            source = _shifted(source, shift)
        entry, block = entry_of(source, ids) if source is not None else (None, None)
        numbers = tuple(n for n in _about(source, by_path) if n not in given) if source is not None else ()
        given.update(numbers)
        yield JsonLine(
            depth=depth,
            text=text,
            path=path,
            source=source if came is not None else None,
            entry=entry,
            block=block,
            loss=numbers,
            cut=cut,
        )


def _early(came: dict[str, str], first: int) -> set[str]:
    """The paths of sent items that came from messages before the first one that is shown."""
    if not first:
        return set()
    items = ((path, spot(origin)) for path, origin in came.items() if path.endswith("]") and path.count("[") == 1)
    return {path for path, found in items if found is not None and found.message < first}


def _shifted(path: str, shift: int) -> str:
    found = spot(path)
    if found is None:
        return path
    return path.replace(f"$.messages[{found.message}]", f"$.messages[{found.message + shift}]", 1)


def _about(source: str, by_path: dict[str, list[int]]) -> list[int]:
    return by_path.get(source, [])


def _walk(
    value: Any, path: str, label: str, depth: int, last: bool = True, skipped: Collection[str] = ()
) -> Iterator[tuple[int, str, str, int | None]]:
    """Depth, text, path and characters left out of each line."""
    comma = "" if last else ","
    if isinstance(value, dict | list | tuple) and value:
        is_object = isinstance(value, dict)
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        yield depth, f"{label}{'{' if is_object else '['}", path, None
        for number, (key, item) in enumerate(items):
            place = f"{path}.{key}" if is_object else f"{path}[{key}]"
            if place in skipped:
                continue
            name = f"{jsontext.compact(key)}: " if is_object else ""
            yield from _walk(item, place, name, depth + 1, number == len(items) - 1, skipped)
        yield depth, f"{'}' if is_object else ']'}{comma}", path, None
        return
    if isinstance(value, str) and len(value) > STRING_SHOWN:
        text = jsontext.compact(value[:STRING_SHOWN])
        yield depth, f'{label}{text[:-1]}…"{comma}', path, len(value) - STRING_SHOWN
        return
    yield depth, f"{label}{jsontext.compact(value)}{comma}", path, None


def _media_sizes(value: Any) -> Iterator[int]:
    """The bytes of base64 in a body."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str) and key in _MEDIA and len(item) > STRING_SHOWN:
                yield len(item)
            else:
                yield from _media_sizes(item)
    elif isinstance(value, list):
        for item in value:
            yield from _media_sizes(item)


# --- answers ---------------------------------------------------------------------------------------------------------


def _answer_view(tree: Tree, to: str | None, target: ModelDescriptor, part: str) -> WireView:
    at = to if to is not None else tree.head()
    entry = tree.session_at(at).entry(at) if at is not None else None
    message: AgentMessage | None = entry.message if entry is not None else None
    if not isinstance(message, AssistantMessage):
        raise HttpProblem(422, "only an answer has a wire form of its own", path="query.to", remedy="choose an answer")
    wire = wire_of(target.api)
    ids = [at]
    losses: tuple[LossView, ...] = ()
    if part == "stream":
        encoder = wire.StreamEncoder()
        raw = b"".join([*(encoder.feed(event) for event in unfold(message)), encoder.close()])
        lines = tuple(
            JsonLine(depth=0, text=line[: 10 * STRING_SHOWN], path=f"${number}", cut=_left(line))
            for number, line in enumerate(raw.decode("utf-8", "replace").split("\n"))
        )
        size = len(raw)
    else:
        encoded = wire.encode_response(message)
        moved = [change(loss, path=f"$.messages[0]{loss.path.removeprefix('$')}") for loss in encoded.losses]
        losses = tuple(_numbered(moved, ids))
        lines = tuple(_lines(encoded.body))
        size = len(jsontext.write(encoded.body))
    return WireView(
        dialect=target.api,
        model=message.model,
        stored=tuple(_lines(plain(message))),
        sent=lines,
        losses=losses,
        bytes=size,
        media_bytes=0,
        hidden=sum(loss.severity == "record" for loss in losses),
    )


def _left(line: str) -> int | None:
    return len(line) - 10 * STRING_SHOWN if len(line) > 10 * STRING_SHOWN else None
