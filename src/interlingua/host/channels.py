"""Channels: sinks that deliver a `ReplyPayload` to people, and the set of sinks that an agent may use.

A sink is any object with a `name`, its `actions`, and `send`. Two are built in: a terminal, and a webhook.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import mimetypes
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, TextIO, TypeAlias, runtime_checkable

from msgspec.structs import replace

from ..connect.retry import Retry
from ..tools.fs import adapted_bridge
from ..tools.tool import FsBridge, visible
from ..tools.web import Fetched, FetchRules, LookUp, fetch, look_up
from ..values import jsontext
from ..values.abort import Abort
from ..values.canonical import plain
from ..values.errors import (
    FormatError,
    InterlinguaError,
    Overloaded,
    ProviderError,
    RateLimited,
    ToolAuthorizationError,
)
from ..values.messages import ReplyPayload, Value
from ..values.text import natural

Action: TypeAlias = Literal["send", "reply", "react"]
LARGEST_FILE = 8_000_000  # maximum bytes of a local file in a webhook
SIGNATURE, TIMESTAMP, DELIVERY = "X-Interlingua-Signature", "X-Interlingua-Timestamp", "X-Interlingua-Delivery"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class Receipt(Value, frozen=True, kw_only=True):
    """The record of a delivery: where, the id that the channel assigned (if any), and the attempt."""

    channel: str
    target: str | None = None
    message_id: str | None = None
    attempts: int = 1


@runtime_checkable
class Sink(Protocol):
    """Delivers replies to one channel. Raises an `InterlinguaError` if a delivery fails."""

    @property
    def name(self) -> str: ...
    @property
    def actions(self) -> tuple[Action, ...]:
        """The supported actions; `reply` means that it honours `reply_to_id`, `react` that it has a method `react`."""
        ...

    async def send(
        self,
        payload: ReplyPayload,
        *,
        target: str | None = None,
        files: FsBridge | None = None,
        signal: Abort | None = None,
    ) -> Receipt:
        """Delivers a payload. Local media paths are read from `files`."""
        ...


class Channels:
    """The sinks of an agent, by name. `bound` is the only conversation it may write to: a channel and a target."""

    def __init__(
        self,
        sinks: Iterable[Sink] | Mapping[str, Sink],
        *,
        default: str | None = None,
        bound: tuple[str, str | None] | None = None,
    ) -> None:
        given = sinks.values() if isinstance(sinks, Mapping) else sinks
        self.sinks = {sink.name: sink for sink in given}
        self.bound = bound
        self.default = bound[0] if bound else default or next(iter(self.sinks), None)
        if self.default is not None:
            self.sink(self.default)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions of all sinks together."""
        reachable = [self.sinks[self.bound[0]]] if self.bound else self.sinks.values()
        able = {action for sink in reachable for action in sink.actions}
        order: tuple[Action, ...] = ("send", "reply", "react")
        return tuple(action for action in order if action in able)

    def sink(self, name: str | None) -> Sink:
        """Returns the sink with this name, or the default. Raises `FormatError` for an unknown one."""
        sink = self.sinks.get(name or self.default or "")
        if sink is None:
            raise FormatError(f"unknown channel {name!r}; known: {', '.join(self.sinks) or 'none'}", "$.channel")
        return sink

    def place(self, channel: str | None, target: str | None) -> tuple[Sink, str | None]:
        """Returns where to send. Raises `ToolAuthorizationError` for any place but the bound one, if there is one."""
        if self.bound is None:
            return self.sink(channel), target
        name, only = self.bound
        if (channel or name) != name or (target or only) != only:
            place = f"{name}:{only}" if only else name
            raise ToolAuthorizationError(f"this conversation may only write to {place}; leave out channel and target")
        return self.sink(name), only


def channels_of(value: Any) -> Channels:
    """Returns the channel of a tool context as channels: from one sink, several, or channels."""
    if isinstance(value, Channels):
        return value
    return Channels([value] if isinstance(value, Sink) else value)


# --- the terminal -----------------------------------------------------------------------------------------------------


class TerminalSink:
    """Prints replies: as Markdown with colours on a terminal, as plain text otherwise."""

    name = "terminal"
    actions: tuple[Action, ...] = ("send", "reply")

    def __init__(self, stream: TextIO | None = None, *, rich: bool | None = None) -> None:
        self._stream = stream
        self._rich = rich
        self._count = 0

    async def send(
        self,
        payload: ReplyPayload,
        *,
        target: str | None = None,
        files: FsBridge | None = None,
        signal: Abort | None = None,
    ) -> Receipt:
        stream = self._stream or sys.stdout
        rich = stream.isatty() if self._rich is None else self._rich
        if rich:
            self._print(payload, stream)
        else:
            stream.write("".join(f"{line}\n" for line in _lines(payload)))
        stream.flush()
        self._count += 1
        return Receipt(channel=self.name, target=target, message_id=str(self._count))

    def _print(self, payload: ReplyPayload, stream: TextIO) -> None:
        from rich.console import Console
        from rich.markdown import Markdown
        from rich.text import Text

        console = Console(file=stream)
        if payload.reply_to_id:
            console.print(Text(f"↪ {visible(payload.reply_to_id)}", style="dim"))
        if payload.text:
            text = visible(payload.text)
            console.print(Text(text, style="red") if payload.is_error else Markdown(text))
        for place in _places(payload):
            console.print(Text(f"📎 {_named(place)}", style="dim"))


def _lines(payload: ReplyPayload) -> list[str]:
    """Returns a payload as plain lines. Only visible characters are kept, so that a model's text cannot control the
    terminal.
    """
    text = visible(payload.text or "")
    return [
        *([f"[reply to {visible(payload.reply_to_id)}]"] if payload.reply_to_id else []),
        *([f"error: {text}" if payload.is_error else text] if text else []),
        *(f"[media] {_named(place)}" for place in _places(payload)),
    ]


def _places(payload: ReplyPayload) -> tuple[str, ...]:
    return payload.media_urls or ((payload.media_url,) if payload.media_url else ())


def _named(place: str) -> str:
    return f"{place.partition(',')[0]} ({len(place)} characters)" if place.startswith("data:") else visible(place)


# --- the webhook ------------------------------------------------------------------------------------------------------


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Signs a delivery: `sha256=` and the HMAC of the timestamp, a dot and the body, in hex."""
    digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, tolerance: float = 300.0) -> bool:
    """For receivers: whether a delivery was signed with the secret, at most `tolerance` seconds ago."""
    given = {name.lower(): value for name, value in headers.items()}
    timestamp, signature = given.get(TIMESTAMP.lower(), ""), given.get(SIGNATURE.lower(), "")
    at = natural(timestamp)
    if at is None or abs(time.time() - at) > tolerance:
        return False
    return hmac.compare_digest(sign(secret, timestamp, body).encode(), signature.encode())


class WebhookSink:
    """Posts replies as JSON to a URL, signed if there is a secret; retries transient failures.

    The body is `{"id", "type": "message" | "reaction", "channel", "target", "payload", "sentAt"}`. The id is the same
    for every attempt, so that a receiver can detect duplicates. Requests use the guarded client of the web tools: this
    machine and private networks only if `rules` allow them.
    """

    actions: tuple[Action, ...] = ("send", "reply", "react")

    def __init__(
        self,
        url: str,
        *,
        name: str = "webhook",
        secret: str | None = None,
        headers: Mapping[str, str] | None = None,
        retry: Retry | None = None,
        rules: FetchRules | None = None,
        look_up: LookUp = look_up,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._url = url
        self._secret = secret
        self._headers = dict(headers or {})
        self._retry = retry or Retry(attempts=4)
        self._rules = rules or FetchRules(timeout=15.0, max_bytes=64 * 1024)
        self._look_up = look_up
        self._clock = clock

    async def send(
        self,
        payload: ReplyPayload,
        *,
        target: str | None = None,
        files: FsBridge | None = None,
        signal: Abort | None = None,
    ) -> Receipt:
        executed = payload if files is None else await _executed(payload, files)
        return await self._deliver({"type": "message", "target": target, "payload": plain(executed)}, target, signal)

    async def react(
        self,
        message_id: str,
        emoji: str,
        *,
        remove: bool = False,
        target: str | None = None,
        signal: Abort | None = None,
    ) -> Receipt:
        """Adds a reaction to a message, or removes it."""
        reaction = {"messageId": message_id, "emoji": emoji, "remove": remove}
        return await self._deliver({"type": "reaction", "target": target, "payload": reaction}, target, signal)

    async def _deliver(self, fields: dict[str, Any], target: str | None, signal: Abort | None) -> Receipt:
        id = str(uuid.uuid4())
        whole = {"id": id, "channel": self.name, **fields, "sentAt": int(self._clock() * 1000)}
        body = jsontext.write(whole)
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = await self._post(id, body, signal)
            except InterlinguaError as error:
                if attempt >= self._retry.attempts or not self._retry.again(error) or _stopped(signal):
                    raise
                await _pause(self._retry.wait(error, attempt), signal)
                if _stopped(signal):
                    raise
            else:
                return Receipt(channel=self.name, target=target, message_id=_id_in(answer) or id, attempts=attempt)

    async def _post(self, id: str, body: bytes, signal: Abort | None) -> Fetched:
        timestamp = str(int(self._clock()))
        headers = {**self._headers, "Content-Type": "application/json", DELIVERY: id, TIMESTAMP: timestamp}
        if self._secret is not None:
            headers[SIGNATURE] = sign(self._secret, timestamp, body)
        answer = await fetch(
            self._url,
            self._rules,
            method="POST",
            headers=headers,
            body=body,
            signal=signal,
            look_up=self._look_up,
        )
        if not 200 <= answer.status < 300:
            raise _refused(self.name, answer)
        return answer


def _refused(name: str, answer: Fetched) -> ProviderError:
    """Returns the error of a refused delivery, which states whether to retry."""
    header = answer.headers.get("retry-after", "")
    after = float(header) if re.fullmatch(r"\d{1,6}", header) else None
    kind = RateLimited if answer.status == 429 else Overloaded if answer.status in (408, 503) else ProviderError
    return kind(
        f"the webhook {name} answered with status {answer.status}",
        status=answer.status,
        retry_after=after,
        provider=name,
    )


def _id_in(answer: Fetched) -> str | None:
    """Returns the id that the receiver assigned to the message, if any."""
    with contextlib.suppress(FormatError):
        given = jsontext.read(answer.body)
        if isinstance(given, dict) and isinstance(given.get("id") or given.get("messageId"), str):
            return str(given.get("id") or given.get("messageId"))[:200]
    return None


def _stopped(signal: Abort | None) -> bool:
    return signal is not None and signal.aborted


async def _pause(seconds: float, signal: Abort | None) -> None:
    if signal is None:
        await asyncio.sleep(seconds)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(signal.wait(), seconds)


async def _executed(payload: ReplyPayload, files: FsBridge) -> ReplyPayload:
    """Embeds local files in the payload: the receiver cannot read ours."""
    places = [place if _URL.match(place) else await _inlined(place, files) for place in _places(payload)]
    return replace(payload, media_url=places[0], media_urls=tuple(places)) if places else payload


async def _inlined(path: str, given: FsBridge) -> str:
    files = adapted_bridge(given)
    stat = await files.stat(path)
    if stat is None or not stat.is_file:
        raise FormatError(f"no file {path[:200]!r} to send", "$.mediaUrls")
    if stat.size > LARGEST_FILE:
        raise FormatError(f"{path[:200]!r} has {stat.size} bytes; at most {LARGEST_FILE} are sent", "$.mediaUrls")
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(await files.read_bytes(path)).decode()}"
