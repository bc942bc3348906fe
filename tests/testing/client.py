"""A client made of nothing but aiohttp and a dialect: what a connector does, without its comforts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

import interlingua as il
from interlingua.testing import Server
from interlingua.values.errors import BadWire
from interlingua.values.events import StreamEvent

MODEL = "test-model"


@dataclass
class Received:
    """An answer as the client got it: what came over the wire, and what the dialect makes of it."""

    status: int
    headers: dict[str, str]
    chunks: list[bytes] = field(default_factory=list)
    events: list[StreamEvent] = field(default_factory=list)
    failure: str = ""

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def message(self) -> il.AssistantMessage:
        return il.fold(self.events)


def request(api: str, *content: Any, stream: bool = True, **context: Any) -> il.Request:
    """What is asked: a user's words, or blocks."""
    message = il.UserMessage(content=content[0] if isinstance(content[0], str) else tuple(content))
    return il.Request(
        model=il.ModelDescriptor(id=MODEL, api=api),
        context=il.Context(messages=(message,), **context),
        options=il.Options(stream=stream, max_tokens=100),
    )


async def ask(
    server: Server, api: str, asked: il.Request | str = "Hi", *, stream: bool = True, **http: Any
) -> Received:
    """Sends a request and reads the answer to its end, whatever the end is."""
    if isinstance(asked, str):
        asked = request(api, asked, stream=stream)
    wire = il.dialect(api)
    url = server.base_url(api) + wire.path(MODEL, stream)
    body = wire.encode_request(asked).bytes()
    http["headers"] = {"content-type": "application/json", **http.get("headers", {})}
    received = Received(0, {})
    async with aiohttp.ClientSession() as session:
        try:
            async with session.post(url, data=body, **http) as response:
                received.status, received.headers = response.status, dict(response.headers)
                async for data in response.content.iter_any():
                    received.chunks.append(data)
        except (aiohttp.ClientError, TimeoutError) as error:
            received.failure = type(error).__name__
    if stream and received.status == 200:
        received.events = list(decoded(wire, received))
    return received


def decoded(wire: Any, received: Received) -> Iterator[StreamEvent]:
    """The events of what came, as they would have come out piece by piece."""
    framing = wire.framing(received.headers.get("Content-Type", "").partition(";")[0])
    decoder = wire.StreamDecoder(model=MODEL)
    try:
        for chunk in received.chunks:
            for frame in framing.feed(chunk):
                yield from decoder.feed(frame)
        for frame in framing.close():
            yield from decoder.feed(frame)
    except BadWire as fault:
        yield from decoder.close(str(fault))
    else:
        yield from decoder.close(received.failure or None)
