"""One call to a provider and its answer: request out, batches of events in. Tries once.

Whatever happens, what comes out is one well-formed stream; `failure` says afterwards what went wrong, as a typed error.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..dialects.framing import Frame, actual_type
from ..dialects.provider_errors import failure_of
from ..dialects.wire import Decoding, Dialect
from ..values.abort import Abort
from ..values.errors import Aborted, BadWire, DialectError, InterlinguaError, ProviderError
from ..values.events import Done, Error, StreamEvent
from ..values.folding import renamed, unfold
from ..values.interop import must_propagate
from ..values.jsontext import read
from ..values.messages import AssistantMessage, blocks_of
from .timeouts import Timeouts, Watch
from .transport import ERROR_BODY_LIMIT, Reply, Transport, whole

Batch = list[StreamEvent]

LONGEST_MESSAGE = 4000
_LARGEST_ANSWER = 256 * 1024 * 1024  # of one that comes whole: it may hold pictures
_LONGEST_PAGE = 16 * 1024


class Call(Struct, frozen=True, kw_only=True):
    """All that a transport needs to know, and what the answer's decoder does."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    names: Mapping[str, str] = {}  # of tools: the wire's -> the conversation's
    losses: Any = ()
    renewable: bool = False  # the key is a login's token: if it is refused, there may be a newer one

    def __repr__(self) -> str:
        return f"Call(body of {len(self.body)} bytes)"  # the headers hold the key


class Exchange:
    """One attempt. `prepare` makes the call when the exchange begins: what it raises arrives in the stream."""

    def __init__(
        self,
        dialect: Dialect,
        decoder: Decoding,
        base: AssistantMessage,
        prepare: Callable[..., Any],
        transport: Transport,
        *,
        timeouts: Timeouts,
        signal: Abort | None = None,
        on_response: Callable[[int, Mapping[str, str]], object] | None = None,
        scrub: Callable[[str], str] = str,
    ) -> None:
        self._dialect = dialect
        self._decoder = decoder
        self._base = base
        self._names: Mapping[str, str] = {}
        self._prepare = prepare
        self._transport = transport
        self._timeouts = timeouts
        self._signal = signal
        self._on_response = on_response
        self._scrub = scrub
        self._reply: Reply | None = None
        self._head = b""  # of the body: what was read to see what it is
        self._watch: Watch | None = None
        self.failure: InterlinguaError | None = None
        self.losses: Any = ()

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """The events, as many at a time as came at a time."""
        watch = self._watch = Watch(self._signal, self._timeouts)
        try:
            frames = await self._begin(watch)
            while chunk := self._head or await self._chunk(watch):
                self._head = b""
                events = self._received(frames.feed(chunk))
                if not events:
                    continue
                if isinstance(events[-1], Done | Error):
                    await self._settle()
                    yield self._last(events)
                    return
                watch.progress()
                yield events
            events = self._received(frames.close())
            ended = bool(events) and isinstance(events[-1], Done | Error)
            yield self._last(events if ended else events + self._decoder.close())
        except InterlinguaError as failure:
            yield self._failed(failure)
        except BaseException as error:  # of a callback, a transport or an auth resolver that somebody else wrote
            if must_propagate(error):
                raise
            yield self._failed(contained(error))
        finally:
            watch.finish()
            self.close()

    def close(self) -> None:
        """Ends the connection at once. What is still expected of it fails."""
        if self._reply is not None:
            self._reply.close()

    def cut(self, why: str) -> Batch:
        """The terminal event for a caller that leaves now; nothing if the stream has ended."""
        if self._watch is not None:
            self._watch.end(Aborted(why))
        self.close()
        return self._decoder.close(why, aborted=True)

    async def _begin(self, watch: Watch) -> Any:
        """Sends the request; the framing of the answer. A login's token that is refused is renewed once."""
        call: Call = await watch.during(asyncio.ensure_future(self._prepare()))
        self.losses = call.losses
        self._names = call.names
        self._decoder.renaming(call.names)
        reply = await self._sent(call, watch)
        if reply.status == 401 and call.renewable:
            reply.close()
            reply = await self._sent(await watch.during(asyncio.ensure_future(self._prepare(renew=True))), watch)
        return await self._framing(reply, watch)

    async def _sent(self, call: Call, watch: Watch) -> Reply:
        sending = asyncio.ensure_future(self._transport.send("POST", call.url, call.headers, call.body))
        try:
            reply = self._reply = await watch.during(sending)
        except BaseException:
            sending.add_done_callback(_close_unwanted)
            raise
        watch.reading(reply.close)
        if self._on_response is not None:
            self._on_response(reply.status, reply.headers)
        return reply

    async def _framing(self, reply: Reply, watch: Watch) -> Any:
        kind = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if reply.status != 200:
            body = await self._whole(watch)
            raise self._dialect.decode_error(reply.status, _text(body) if kind == "text/html" else body, reply.headers)
        kind = await self._actual_type(kind, watch)
        framing = self._dialect.framing(kind)
        if kind == "application/json" and framing.name == "sse":
            base, body = self._base, await self._whole(watch, _LARGEST_ANSWER)
            answer = self._dialect.decode_response(
                body, model=base.model, provider=base.provider, timestamp=base.timestamp
            )
            if answer.stop_reason == "error" and (given := _error_in(body)) is not None:
                self._decoder.failure = self._dialect.decode_error(0, {"error": given})
            return _Unstreamed(answer, self._names)
        if kind == "text/html":
            page = (await self._whole(watch))[:200].decode(errors="replace")
            raise BadWire(self._dialect.API, f"a web page came instead of an answer; is the base URL right? {page!r}")
        return framing

    async def _actual_type(self, declared: str, watch: Watch) -> str:
        """The content type of the body by its first bytes, which are kept to be read again."""
        found = None
        while found is None and (chunk := await self._chunk(watch)):
            self._head = (self._head + chunk).lstrip()  # padding before the first byte means nothing
            found = actual_type(self._head, declared)
        return found or declared

    async def _whole(self, watch: Watch, most: int = ERROR_BODY_LIMIT) -> bytes:
        assert self._reply is not None
        head, self._head = self._head, b""
        try:
            return head + await whole(self._reply, most)
        except InterlinguaError as error:
            raise watch.why or error from None

    async def _chunk(self, watch: Watch) -> bytes:
        assert self._reply is not None
        try:
            chunk = await self._reply.chunk()
        except InterlinguaError as error:
            raise watch.why or error from None
        if watch.why is not None:  # what had arrived before it does not count any more
            raise watch.why
        return chunk

    def _received(self, frames: "list[Frame] | Batch") -> Batch:
        events: Batch = []
        feed = self._decoder.feed
        for frame in frames:
            events += feed(frame) if isinstance(frame, Frame) else (frame,)
        return events

    async def _settle(self) -> None:
        """Reads to the end of the body where that is near, so that the connection can be used again."""
        if self._reply is not None:
            try:
                async with asyncio.timeout(0.05):
                    while await self._reply.chunk():
                        pass
            except (TimeoutError, InterlinguaError):
                self._reply.close()

    def _last(self, events: Batch) -> Batch:
        last = events[-1] if events else None
        if isinstance(last, Error):
            text = self._scrub(last.error.error_message or "")
            if text != (last.error.error_message or ""):
                events[-1] = last = Error(last.reason, replace(last.error, error_message=text))
            self.failure = scrubbed(self._decoder.failure or failure_of(last.error), self._scrub)
        return events

    def _failed(self, failure: InterlinguaError) -> Batch:
        self.failure = scrubbed(failure, self._scrub)
        return self._decoder.close(str(failure), aborted=isinstance(failure, Aborted))


def _text(page: bytes) -> bytes:
    """What a page for people says, in one line."""
    return b" ".join(re.sub(rb"(?is)<(script|style)\b.*?</\1>|<[^>]*>", b" ", page[:_LONGEST_PAGE]).split())


def _error_in(body: bytes) -> Any:
    """The error that a whole answer tells beside its content: OpenAI's `error`, or OpenRouter's inside a choice."""
    wire = read(body)
    if not isinstance(wire, dict):
        return None
    choices = wire.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return wire.get("error") or (first.get("error") if isinstance(first, dict) else None)


class _Unstreamed:
    """An answer that came whole although a stream was asked for, as if it were frames."""

    def __init__(self, message: AssistantMessage, names: Mapping[str, str]) -> None:
        content = tuple(renamed(block, names) for block in blocks_of(message.content))
        self._events = list(unfold(replace(message, content=content)))

    def feed(self, chunk: bytes) -> Batch:
        return self.close()

    def close(self) -> Batch:
        events, self._events = self._events, []
        return events


def _close_unwanted(sending: "asyncio.Future[Reply]") -> None:
    """A reply that came when nobody wanted it any more."""
    if not sending.cancelled() and sending.exception() is None:
        sending.result().close()


def contained(error: BaseException) -> InterlinguaError:
    """What foreign code raised, as an error of ours."""
    failure = InterlinguaError(f"the call failed: {error!r}")
    failure.__cause__ = error
    return failure


def scrubbed(failure: InterlinguaError, scrub: Callable[[str], str]) -> InterlinguaError:
    """The same error, without secrets in its words and its body, and no longer than people read."""
    text = scrub(str(failure))
    if len(text) > LONGEST_MESSAGE:
        text = f"{text[:LONGEST_MESSAGE]}… ({len(text)} characters)"
    if text != str(failure):
        failure.args = (text,)
        if isinstance(failure, ProviderError | DialectError):
            failure.message = text
    if isinstance(failure, ProviderError) and failure.body is not None:
        failure.body = _scrubbed_value(failure.body, scrub)
    return failure


def _scrubbed_value(value: Any, scrub: Callable[[str], str], name: str = "") -> Any:
    """A JSON value without secrets: a text is looked at with its name before it, which may say that it is one."""
    if isinstance(value, dict):
        return {scrub(str(key)): _scrubbed_value(item, scrub, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed_value(item, scrub, name) for item in value]
    if not isinstance(value, str):
        return value
    head = f"{name}="
    text = scrub(head + value)
    return text.removeprefix(head) if text.startswith(head) else scrub(value)
