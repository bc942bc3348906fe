"""What can go wrong between a provider and its client, as values that compose.

An `Answer` is what the server is about to send, as plain data; a fault is a function from one answer to another, and
knows nothing of sockets. "Events" are counted in frames of the wire, from the first one that is sent. Every fault takes
`times`: how many requests it strikes before it leaves the answer alone; None is all of them.
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
    """Bytes to send in one go: a frame of the wire, until a fault cuts it otherwise."""

    data: bytes
    terminal: bool = False


class Wait(NamedTuple):
    """Silence for a while; None is for ever."""

    seconds: float | None


class HangUp(NamedTuple):
    """The connection ends here, with a reset or without, and nothing more is sent."""

    reset: bool = False


Step: TypeAlias = Piece | Wait | HangUp


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What goes over the connection. Without `headers`, the pieces are all that does: it is no HTTP.

    `content_type` is that of the frames, whatever the headers claim; a body that comes whole is one piece.
    """

    api: str
    status: int = 200
    headers: dict[str, str] | None
    content_type: str
    streamed: bool = True
    steps: Iterable[Step]
    delay: float = 0


class Fault(Protocol):
    """Any value with these three will do: a fault of your own is a dataclass.

    `replaces` says that nothing is left of the answer, so that no reply need be made for it.
    """

    @property
    def times(self) -> int | None: ...
    @property
    def replaces(self) -> bool: ...
    def apply(self, answer: Answer) -> Answer: ...


@dataclass(frozen=True, kw_only=True)
class _Replacing:
    """The provider's answer never comes; something else does."""

    times: int | None = None
    replaces: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class _Changing:
    """The answer comes, and not as it should."""

    times: int | None = None
    replaces: ClassVar[bool] = False


# --- instead of the answer -------------------------------------------------------------------------------------------


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

    The header alone tells the wait, so that a reader of the body finds nothing there.
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
    """The connection closes before any byte of an answer."""

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
    """200 with a page for people, as a captive portal or a wrong address gives it."""

    page: str = "<!doctype html>\n<html><head><title>Welcome</title></head><body>Please log in.</body></html>\n"
    status: int = 200

    def apply(self, answer: Answer) -> Answer:
        return _whole(answer, self.status, self.page.encode(), "text/html; charset=utf-8")


@dataclass(frozen=True)
class Garbage(_Replacing):
    """Bytes that mean nothing: as the body, under the right content type, or instead of HTTP. The same ones each time.

    No line end is among them, so that no framing takes a part of them for a frame.
    """

    size: int = 512
    http: bool = True

    def apply(self, answer: Answer) -> Answer:
        noise = random.Random(self.size).randbytes(self.size).replace(b"\n", b"\x80").replace(b"\r", b"\x80")
        if self.http:
            return replace(answer, status=200, steps=(Piece(noise),))
        return replace(answer, headers=None, steps=(Piece(noise), HangUp()))


# --- when the answer comes -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlowHeaders(_Changing):
    """Silence before the status line."""

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
    """Silence after some events: for `seconds`, and then it goes on; without them, for ever. `pings` may break it.

    A ping has the wire's own form (an event of Anthropic's, a comment elsewhere) and comes `every` so many seconds.
    Bedrock's Converse has none.
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


# --- how far it comes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut(_Changing):
    """The connection closes after so many events or bytes of the body, with a TCP `reset` or without.

    `neat`: the HTTP body ends as if it were whole, as when a proxy gives up.
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
    """The stream ends neatly without the frames that say so."""

    def apply(self, answer: Answer) -> Answer:
        return replace(answer, steps=(s for s in answer.steps if not (isinstance(s, Piece) and s.terminal)))


@dataclass(frozen=True)
class ErrorEvent(_Changing):
    """An error inside the stream, as this wire says it, and then the end. An answer that comes whole is the error."""

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


# --- in what shape it comes ------------------------------------------------------------------------------------------


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
    """Frames come twice: all of them, or the one numbered `at_event`, from 0."""

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
    """One frame is damaged: its `json`, its `utf8`, or the `frame` around them. Counted from 0.

    The first two leave the frame whole, checksums included. A broken frame is one that runs into the next; in AWS
    streams, one whose checksum is wrong.
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
    spoil = _broken_json if how == "json" else _broken_utf8
    if content_type != AWS:
        return spoil(frame)
    (whole,) = AWSEventStream().feed(frame)
    return write_aws(whole.event, spoil(whole.data), message_type=str((whole.headers or {})[":message-type"]))


def _broken_json(data: bytes) -> bytes:
    """Without its last closing bracket, or with one too many where it has none."""
    at = data.rfind(b"}")
    return data[:at] + data[at + 1 :] if at >= 0 else data.rstrip(b"\n") + b"}" + data[len(data.rstrip(b"\n")) :]


def _broken_utf8(data: bytes) -> bytes:
    """With a byte that begins nothing, inside the last string that is a value."""
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
    """Each step with the number of pieces before it. Only pieces have a number of their own; others bear -1."""
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
