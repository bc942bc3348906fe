"""Calls to a test's own server, and connectors that a test writes itself."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import interlingua as il
from interlingua.connect.client import Client
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.retry import Retry
from interlingua.connect.stream import Stream
from interlingua.testing import Server

KEY = "sk-the-key-of-this-test-0123456789"
API = "anthropic-messages"
QUICK = Retry(attempts=3, base=0.001, cap=0.002)


def options(server: Server, api: str = API, **more: Any) -> dict[str, Any]:
    """Where to call, with patience for a busy machine and none for failures."""
    return {"api_key": KEY, "base_url": server.base_url(api), "timeout": 20, "retry": 0, **more}


def ask(server: Server, context: Any = "Hi", *, client: Client | None = None, **more: Any) -> Stream:
    """An answer in Anthropic's dialect."""
    return (client or Client()).stream("anthropic/test-model", context, **options(server, **more))


async def events_of(stream: Stream) -> list[il.events.StreamEvent]:
    return [event async for event in stream]


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Waits for something that is about to happen."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)


class Own:
    """A connector as somebody else writes one: `make` gives its events."""

    label = "A connector of one's own"
    env_vars = ()

    def __init__(
        self, make: Callable[..., Any], *, id: str = "own/one", provider: str = "own", api: str = "own-api"
    ) -> None:
        self.id = id
        self.provider = provider
        self.api = api
        self.models = [il.ModelDescriptor(id="m", provider=provider, api=api)]
        self._make = make

    def stream(self, model: il.ModelDescriptor, context: il.Context, options: Any = None, /) -> Any:
        return self._make(model, context, options)


def own(make: Callable[..., Any], **how: Any) -> Client:
    """A client that knows one connector."""
    return Client(connectors=ConnectorRegistry([Own(make)]), retry=QUICK, **how)


def saying(*events: Any) -> Callable[..., AsyncIterator[Any]]:
    """A connector's `stream` that yields these, raising those that are exceptions."""

    async def stream(*_: Any) -> AsyncIterator[Any]:
        for event in events:
            if isinstance(event, BaseException):
                raise event
            yield event

    return stream
