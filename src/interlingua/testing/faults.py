"""Faults between a provider and its client, as values that compose.

An `Answer` is the pending response, as plain data; a fault is a function from one answer to another, and knows nothing
of sockets. "Events" are counted in frames of the wire, from the first one that is sent. Every fault takes `times`: how
many requests it affects; None is all of them.
"""

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from ..dialects.framing import AWSEventStream, write_aws
from ..dialects.registry import wire
from ..dialects.wire import AWS, JSON
from ..values import jsontext
from ..values.errors import Overloaded, ProviderError, RateLimited


class Piece(NamedTuple):
    """Bytes to send at once: a frame of the wire, unless a fault splits it differently."""

    data: bytes
    terminal: bool = False


class Wait(NamedTuple):
    """A pause; None is forever."""

    seconds: float | None


class HangUp(NamedTuple):
    """Closes the connection here, with a reset or without; nothing more is sent."""

    reset: bool = False


Step: TypeAlias = Piece | Wait | HangUp


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The response to send. Without `headers`, only the pieces are sent: it is not HTTP.

    `content_type` is that of the frames, whatever the headers claim; an unstreamed body is one piece.
    """

    api: str
    status: int = 200
    headers: dict[str, str] | None
    content_type: str
    streamed: bool = True
    steps: Iterable[Step]
    delay: float = 0


class Fault(Protocol):
    """The protocol of a fault: write your own as a dataclass with these three members.

    `replaces`: the fault replaces the whole response, so no reply is built for it.
    """

    @property
    def times(self) -> int | None: ...
    @property
    def replaces(self) -> bool: ...
    def apply(self, answer: Answer) -> Answer: ...


@dataclass(frozen=True, kw_only=True)
class _Replacing:
    """Replaces the provider's response."""

    times: int | None = None
    replaces: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class _Changing:
    """Changes the provider's response."""

    times: int | None = None
    replaces: ClassVar[bool] = False


# --- instead of the response -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Status(_Replacing):
    """An error status; its body is the dialect's own unless given as text, bytes or JSON. Once by default."""

    code: int
    body: Any = None
    times: int | None = field(default=1, kw_only=True)

    def apply(self, answer: Answer) -> Answer:
        if self.body is None:
            return _refusal(answer, ProviderError(f"the server answers {self.code}", status=self.code))
        if isinstance(self.body, str | bytes):
            body = self.body.encode() if isinstance(self.body, str) else self.body
            return _whole(answer, self.code, body, "text/plain")
        return _whole(answer, self.code, jsontext.write(self.body), JSON)


@dataclass(frozen=True)
class RateLimit(_Replacing):
    """A 429 in the dialect's shape. `retry_after`: seconds, a date, or any text; or `ms` in the header for that. Once.

    Only the header has the delay, so that a reader of the body finds nothing there.
    """

    retry_after: str | float | datetime | None = None
    ms: int | None = None
    times: int | None = field(default=1, kw_only=True)

    def apply(self, answer: Answer) -> Answer:
        refused = _refusal(answer, RateLimited("too many requests", status=429, code="rate_limit_exceeded"))
        return replace(refused, headers={**(refused.headers or {}), **self._wait()})

    def _wait(self) -> dict[str, str]:
        headers = {} if self.ms is None else {"retry-after-ms": str(self.ms)}
        match self.retry_after:
            case None:
                return headers
            case datetime():
                return {**headers, "retry-after": format_datetime(self.retry_after.astimezone(UTC), usegmt=True)}
            case _:
                return {**headers, "retry-after": str(self.retry_after)}


@dataclass(frozen=True)
class Refuse(_Replacing):
    """Closes the connection before any byte of a response."""

    reset: bool = False

    def apply(self, answer: Answer) -> Answer:
        return replace(answer, headers=None, steps=(HangUp(self.reset),))


@dataclass(frozen=True)
class Empty(_Replacing):
    """200, the right content type, and no body."""

    def apply(self, answer: Answer) -> Answer:
        return replace(answer, status=200, steps=())


@dataclass(frozen=True)
class Html(_Replacing):
    """200 with an HTML page, as from a captive portal or a wrong URL."""

    page: str = "<!doctype html>\n<html><head><title>Welcome</title></head><body>Please log in.</body></html>\n"
    status: int = 200

    def apply(self, answer: Answer) -> Answer:
        return _whole(answer, self.status, self.page.encode(), "text/html; charset=utf-8")


@dataclass(frozen=True)
class Garbage(_Replacing):
    """Random bytes: as the body, with the right content type, or instead of HTTP. The same ones each time.

    They contain no line end, so that no framing finds a frame in them.
    """

    size: int = 512
    http: bool = True

    def apply(self, answer: Answer) -> Answer:
        noise = random.Random(self.size).randbytes(self.size).replace(b"\n", b"\x80").replace(b"\r", b"\x80")
        if self.http:
            return replace(answer, status=200, steps=(Piece(noise),))
        return replace(answer, headers=None, steps=(Piece(noise), HangUp()))


# --- timing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlowHeaders(_Changing):
    """A pause before the status line."""

    seconds: float

    def apply(self, answer: Answer) -> Answer:
        return replace(answer, delay=answer.delay + self.seconds)


@dataclass(frozen=True)
class Pace(_Changing):
    """A pause before each event."""

    seconds: float

    def apply(self, answer: Answer) -> Answer:
        def paced() -> Iterator[Step]:
            for step in answer.steps:
                if isinstance(step, Piece):
                    yield Wait(self.seconds)
                yield step

        return replace(answer, steps=paced())


@dataclass(frozen=True)
class Stall(_Changing):
    """A pause after some events: for `seconds`, or forever. `pings` may interrupt it.

    A ping has the wire's own form (an event on Anthropic's wire, a comment elsewhere) and is sent `every` so many
    seconds. Bedrock's Converse has none.
    """

    after_events: int = 1
    seconds: float | None = None
    pings: bool = False
    every: float = 0.05

    def apply(self, answer: Answer) -> Answer:
        ping = b" " if answer.content_type == JSON else wire(answer.api).http.ping

        def stalled() -> Iterator[Step]:
            sent = 0
            for at, step in _counted(answer.steps):
                if at == self.after_events:
                    yield from self._silence(ping if self.pings else b"")
                yield step
                sent = max(sent, at + 1)
            if sent == self.after_events:  # all events were sent, but not the end of the stream
                yield from self._silence(ping if self.pings else b"")

        return replace(answer, steps=stalled())

    def _silence(self, ping: bytes) -> Iterator[Step]:
        if not ping:
            yield Wait(self.seconds)
            return
        left = self.seconds
        while left is None or left > 0:
            yield Piece(ping)
            yield Wait(self.every)
            left = None if left is None else left - self.every


# --- truncation ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut(_Changing):
    """Closes the connection after so many events or bytes of the body, with a TCP `reset` or without.

    `neat`: the HTTP body ends as if it were complete, as when a proxy gives up.
    """

    after_events: int | None = None
    after_bytes: int | None = None
    reset: bool = False
    neat: bool = False

    def apply(self, answer: Answer) -> Answer:
        return replace(answer, steps=self._cut(answer.steps))

    def _cut(self, steps: Iterable[Step]) -> Iterator[Step]:
        events, room = self.after_events, self.after_bytes
        if events is None and room is None:
            events = 1
        for at, step in _counted(steps):
            if at == events:
                break
            if isinstance(step, Piece) and room is not None:
                if len(step.data) >= room:
                    yield Piece(step.data[:room])
                    break
                room -= len(step.data)
            yield step
        if not self.neat:
            yield HangUp(self.reset)


@dataclass(frozen=True)
class NoTerminal(_Changing):
    """Ends the stream cleanly without its terminal frames."""

    def apply(self, answer: Answer) -> Answer:
        return replace(answer, steps=(s for s in answer.steps if not (isinstance(s, Piece) and s.terminal)))


@dataclass(frozen=True)
class ErrorEvent(_Changing):
    """An error inside the stream, in the wire's form, and then the end. An unstreamed response is the error itself."""

    error: ProviderError | str = "the server is overloaded"
    after_events: int = 1

    def apply(self, answer: Answer) -> Answer:
        error = self.error if isinstance(self.error, ProviderError) else Overloaded(self.error)
        if not answer.streamed:
            return _refusal(answer, error)
        failing = wire(answer.api)
        data = failing.http.error_event(error, self.after_events, failing.codec.encode_error(error)[1])
        if answer.content_type == JSON:  # an element of Google's array
            data = (b",\r\n" if self.after_events else b"[") + data.removeprefix(b"data: ").rstrip(b"\n") + b"]"

        def broken() -> Iterator[Step]:
            for at, step in _counted(answer.steps):
                if at == self.after_events:
                    break
                yield step
            yield Piece(data, True)

        return replace(answer, steps=broken())


# --- framing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split(_Changing):
    """The same bytes in pieces of `size`, whatever the frames; a large size joins them all."""

    size: int = 1

    def apply(self, answer: Answer) -> Answer:
        return replace(answer, steps=self._recut(answer.steps))

    def _recut(self, steps: Iterable[Step]) -> Iterator[Step]:
        pending = b""
        for step in steps:
            if not isinstance(step, Piece):
                if pending:
                    yield Piece(pending)
                    pending = b""
                yield step
                continue
            pending += step.data
            while len(pending) >= self.size:
                yield Piece(pending[: self.size])
                pending = pending[self.size :]
        if pending:
            yield Piece(pending)


@dataclass(frozen=True)
class Repeat(_Changing):
    """Sends frames twice: all of them, or the one numbered `at_event`, from 0."""

    at_event: int | None = None

    def apply(self, answer: Answer) -> Answer:
        def repeated() -> Iterator[Step]:
            for at, step in _counted(answer.steps):
                yield step
                if isinstance(step, Piece) and self.at_event in (None, at):
                    yield step

        return replace(answer, steps=repeated())


@dataclass(frozen=True)
class Corrupt(_Changing):
    """Corrupts one frame: its `json`, its `utf8`, or the `frame` around them. Counted from 0.

    The first two leave the framing intact, checksums included. A corrupt frame is one that runs into the next; in AWS
    streams, one with a wrong checksum.
    """

    at_event: int = 1
    how: Literal["json", "utf8", "frame"] = "json"

    def apply(self, answer: Answer) -> Answer:
        def corrupted() -> Iterator[Step]:
            for at, step in _counted(answer.steps):
                if isinstance(step, Piece) and at == self.at_event:
                    step = Piece(_damaged(step.data, self.how, answer.content_type), step.terminal)
                yield step

        return replace(answer, steps=corrupted())


def _damaged(frame: bytes, how: str, content_type: str) -> bytes:
    if how == "frame":
        return _broken_frame(frame, content_type)
    corrupt = _broken_json if how == "json" else _broken_utf8
    if content_type != AWS:
        return corrupt(frame)
    (whole,) = AWSEventStream().feed(frame)
    return write_aws(whole.event, corrupt(whole.data), message_type=str((whole.headers or {})[":message-type"]))


def _broken_json(data: bytes) -> bytes:
    """Removes the last closing bracket, or adds one if there is none."""
    at = data.rfind(b"}")
    return data[:at] + data[at + 1 :] if at >= 0 else data.rstrip(b"\n") + b"}" + data[len(data.rstrip(b"\n")) :]


def _broken_utf8(data: bytes) -> bytes:
    """Inserts an invalid byte into the last string value."""
    values = list(re.finditer(rb':\s*"', data))
    at = values[-1].end() if values else len(data.rstrip(b"\n"))
    return data[:at] + b"\xff" + data[at:]


def _broken_frame(frame: bytes, content_type: str) -> bytes:
    if content_type == AWS:
        return frame[:-1] + bytes([frame[-1] ^ 0xFF])
    if content_type == JSON:
        return frame[1:]
    return frame.rstrip(b"\n") + (b"\n" if frame.endswith(b"\n\n") else b"")


# --- shared ----------------------------------------------------------------------------------------------------------


def _counted(steps: Iterable[Step]) -> Iterator[tuple[int, Step]]:
    """Yields each step with the number of pieces before it; -1 for steps that are not pieces."""
    at = 0
    for step in steps:
        if isinstance(step, Piece):
            yield at, step
            at += 1
        else:
            yield -1, step


def _refusal(answer: Answer, error: ProviderError) -> Answer:
    status, body, headers = wire(answer.api).error_response(error)
    return _whole(answer, status, body, JSON, headers)


def _whole(
    answer: Answer, status: int, body: bytes, content_type: str, headers: dict[str, str] | None = None
) -> Answer:
    fields = {**(answer.headers or {}), **(headers or {}), "content-type": content_type}
    return replace(
        answer, status=status, headers=fields, content_type=content_type, streamed=False, steps=(Piece(body, True),)
    )
