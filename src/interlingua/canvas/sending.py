"""A request as a target would get it: adapted, encoded, with every loss, and where each sent value came from."""

import base64
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from ..conversion.adapting.adapter import Adapted, adapt
from ..dialects import WIRES, dialect
from ..serving.problems import HttpProblem
from ..values.errors import InterlinguaError
from ..values.losses import Loss, Losses
from ..values.messages import (
    AudioBlock,
    Block,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
)
from ..values.request import ModelDescriptor, Request

# Characters of the private use area: no conversation's own text is confused with a mark.
_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_MARK = re.compile(f"{_OPEN}(\\d+)\\.(-?\\d+){_CLOSE}")


class Sent(NamedTuple):
    """What goes over the wire: the body, what it could not say (paths into the source), and how it was adapted.

    The losses are found when they are first looked at: not everyone who sends wants to know.
    """

    api: str
    body: Any
    losses: Sequence[Loss]
    adapted: Adapted | None


def send(
    request: Request, target: ModelDescriptor, *, thinking: Literal["drop", "text"] = "drop", own: bool = False
) -> Sent:
    """The request for a target. `own`: it goes back to the dialect that it came from, and is not adapted."""
    wire = wire_of(target.api)
    if own:
        encoded = wire.encode_request(request)
        return Sent(target.api, encoded.body, encoded.losses, None)
    adapted = adapt(request, target, thinking=thinking)
    encoded = wire.encode_request(adapted.request)
    return Sent(target.api, encoded.body, Losses(lambda: _joined(adapted, encoded.losses)), adapted)


def wire_of(api: str) -> Any:
    """The codec of a wire; 422 for what is none."""
    if api not in WIRES:
        raise HttpProblem(422, f"no wire {api!r}", path="query.as", remedy=f"choose one of {', '.join(sorted(WIRES))}")
    return dialect(api)


def _joined(adapted: Adapted, losses: Sequence[Loss]) -> tuple[Loss, ...]:
    """What adapting and encoding cost, each once, at its place in the source."""
    found = list(adapted.losses)
    for loss in losses:
        path = adapted.source(loss.path)
        if path is not None:  # what was added by adapting, the source never had
            found.append(loss if path == loss.path else replace(loss, path=path))
    return tuple(dict.fromkeys(found))


# --- where a sent value came from ------------------------------------------------------------------------------------


def origins(request: Request, sent: Sent) -> dict[str, str]:
    """By the path of a sent value, the path in the source of what it says.

    The codecs do not tell; so a copy of the request whose texts are marks is encoded, and the marks are looked for.
    """
    source = sent.adapted.request if sent.adapted is not None else request
    marked = replace(
        source,
        context=replace(
            source.context, messages=tuple(_marked(at, message) for at, message in enumerate(source.context.messages))
        ),
    )
    try:
        body = wire_of(sent.api).encode_request(marked).body
    except InterlinguaError:
        return {}
    found: dict[str, str] = {}
    for path, text in _texts(body, "$"):
        mark = _MARK.search(text) or _MARK.search(_decoded(text))
        if mark is None:
            continue
        at, block = int(mark[1]), int(mark[2])
        place = f"$.messages[{at}]" + (f".content[{block}]" if block >= 0 else ".content")
        origin = sent.adapted.source(place) if sent.adapted is not None else place
        if origin is not None:
            found[path] = origin
            for above in _ancestors(path):
                found.setdefault(above, origin)
    return found


def _ancestors(path: str) -> Iterator[str]:
    """The values around a value, up to the list that holds the messages."""
    while (cut := max(path.rfind("."), path.rfind("["))) > 0:
        path = path[:cut]
        if "[" not in path:
            return
        yield path


def _marked(at: int, message: Message) -> Message:
    if isinstance(message, CustomMessage) or message.content is None:
        return message
    if isinstance(message.content, str):
        return replace(message, content=f"{_OPEN}{at}.-1{_CLOSE}")
    return replace(message, content=tuple(_mark(at, n, block) for n, block in enumerate(message.content)))


def _mark(at: int, number: int, block: Block) -> Block:
    mark = f"{_OPEN}{at}.{number}{_CLOSE}"
    match block:
        case TextBlock():
            return replace(block, text=mark)
        case ThinkingBlock():
            return replace(block, thinking=mark)
        case ToolCall():
            return replace(block, arguments={"mark": mark}, arguments_text=None)
        case ImageBlock() | AudioBlock() | DocumentBlock() if block.data is not None:
            return replace(block, data=base64.b64encode(mark.encode()).decode())
        case _:
            return block


def _decoded(text: str) -> str:
    """Base64 as text, in case it is a mark."""
    encoded = text.rpartition(",")[2]
    if len(encoded) > 64:
        return ""
    try:
        return base64.b64decode(encoded, validate=True).decode("utf-8", "replace")
    except ValueError:
        return ""


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _texts(item, f"{path}[{at}]")
