"""What the laws need to know of a dialect, and how they read and write through it."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from interlingua.dialects import FORMATS, WIRES, Dialect, dialect
from interlingua.dialects.framing import Frame
from interlingua.values.errors import BadWire
from interlingua.values.events import StreamEvent
from interlingua.values.folding import unfold
from interlingua.values.messages import AssistantMessage
from interlingua.values.request import Request

every_dialect = pytest.mark.parametrize("name", sorted(WIRES))
RETURNED = frozenset(name for name in FORMATS if FORMATS[name].is_log)
every_file = pytest.mark.parametrize("name", sorted(FORMATS.keys() - RETURNED))
every_returned = pytest.mark.parametrize("name", sorted(RETURNED))


def owner(name: str) -> str:
    """The name under which a dialect files what only it can say: a variant uses that of its base."""
    wire = dialect(name)
    return str(getattr(wire, "module", wire).API)


def fields_outside(wire: Dialect, request: Request) -> dict[str, Any]:
    """What this wire says of a request beside its body: the model or the streaming, where the path tells them."""
    fields: dict[str, Any] = {}
    if wire.path("a", True) != wire.path("b", True):
        fields["model"] = request.model.id
    if wire.path("a", True) != wire.path("a", False):
        fields["stream"] = request.options.stream
    return fields


def spelled(value: Any) -> str:
    """A JSON value as text that is equal exactly for equal values: `1` is not `true`, nor is it `1.0`."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


def through_json(value: Any) -> Any:
    """A body as its reader sees it."""
    return json.loads(json.dumps(value, allow_nan=False))


def streamed(wire: Dialect, events: Iterable[StreamEvent]) -> bytes:
    """The body of a streamed answer."""
    encoder = wire.StreamEncoder()
    return b"".join([*map(encoder.feed, events), encoder.close()])


def stream_of(wire: Dialect, message: AssistantMessage, size: int | None = None) -> bytes:
    return streamed(wire, unfold(message, size=size))


def frames_of(wire: Dialect, body: bytes) -> list[Frame]:
    framing = wire.framing()
    return framing.feed(body) + framing.close()


def decode_stream(wire: Dialect, chunks: Iterable[bytes], **given: Any) -> list[StreamEvent]:
    """The events of a body that arrives in these chunks, as a connector would see them."""
    framing, decoder = wire.framing(), wire.StreamDecoder(**given)
    events: list[StreamEvent] = []
    try:
        for chunk in chunks:
            for frame in framing.feed(chunk):
                events += decoder.feed(frame)
        for frame in framing.close():
            events += decoder.feed(frame)
    except BadWire as fault:
        return events + decoder.close(str(fault))
    return events + decoder.close()


def understood(wire: Dialect, frames: Iterable[Frame], **given: Any) -> list[StreamEvent]:
    """The events of these frames."""
    decoder = wire.StreamDecoder(**given)
    return [event for frame in frames for event in decoder.feed(frame)] + decoder.close()
