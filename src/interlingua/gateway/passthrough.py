"""Passes other paths on, with the provider's key: to the provider of the model that the path or the body names.

Their form is the provider's alone (embeddings, images, speech); of a response only its usage is read.
"""

import asyncio
import math
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from aiohttp import web

from ..connect.stream import LARGEST_ANSWER, Timeouts, scrubbed
from ..connect.transport import Reply as Upstream
from ..connect.transport import Transport, whole
from ..dialects.framing import essence
from ..dialects.provider_errors import as_provider_error, status_of
from ..dialects.wire import JSON
from ..values import jsontext
from ..values.errors import Aborted, BadRequest, FormatError, InterlinguaError, TimedOut
from ..values.messages import AssistantMessage, Usage
from .dispatch import Dispatcher
from .exchange import Exchange, Gate
from .incoming import aside, json_object, read_body
from .replying import LEFT, ClientReply, HttpChannel, in_time, stopping_error
from .rewriting import renaming
from .routing import NO_CONVERSATION, Router
from .settings import ClientLimits
from .settlement import Settlement

_MODEL_IN_PATH = re.compile(r"(?<=/models/).+(?=:[A-Za-z]+$)|(?<=/model/)[^/]+(?=/)")  # of Google and Bedrock
# Where providers report the use of calls that are no conversation: OpenAI, Google, Cohere, Ollama (/api/embed).
_USAGE = (("usage",), ("response", "usage"), ("usageMetadata",), ("meta", "tokens"), ("meta", "billed_units"), ())
_COUNTS = (
    ("prompt_tokens", "completion_tokens", "cached_tokens"),
    ("input_tokens", "output_tokens", "cached_tokens"),
    ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount"),
    ("prompt_eval_count", "eval_count", ""),
    ("total_tokens", "", ""),  # Voyage
)


class Passthrough:
    """The paths that the gateway only passes on, for keys that may use them. `active`: tasks with an open exchange."""

    def __init__(
        self, transport: Transport, settlement: Settlement, dispatcher: Dispatcher, active: set[asyncio.Task[Any]]
    ) -> None:
        self._transport = transport
        self._settlement = settlement
        self._dispatcher = dispatcher
        self._active = active

    async def answer(
        self,
        http: web.BaseRequest,
        exchange: Exchange,
        channel: HttpChannel,
        router: Router,
        gate: Gate | None,
        limits: ClientLimits,
    ) -> web.StreamResponse:
        """Sends a request to the provider of its model, and the response back."""
        path, key = http.rel_url.raw_path, exchange.key
        remedy = "" if key.passthrough else ", or use a key that may use other paths (--passthrough)"
        remedy = f"check the base URL of the client{remedy}"
        nothing = BadRequest(f"nothing answers {http.method} {path}; {remedy}", status=404)
        if http.method != "POST" or not key.passthrough or _is_odd(path):
            raise nothing
        body = await read_body(http, limits)
        try:
            given = await aside(len(body), json_object, body, jsontext.read)
        except InterlinguaError:
            raise nothing from None
        in_path = _MODEL_IN_PATH.search(path)
        asked = unquote(in_path[0]) if in_path is not None else given.get("model")
        if not isinstance(asked, str) or not asked:
            raise nothing
        await aside(len(body), json_object, body)
        exchange.asked_model, exchange.body, exchange.lane = asked, body, "passed"
        plan = await router.plan(asked, key, NO_CONVERSATION, http.headers, 0)
        place = next((one for one in plan.places if one.wire is not None), None)
        endpoint = place.access()[1] if place is not None else None
        if place is None or place.wire is None or endpoint is None or endpoint.sign is not None:
            raise nothing
        exchange.model = place.model
        # Four bytes per token, the usual mean for English text: replaced by the reported count at the end.
        tokens, reservation = len(body) // 4, None
        if gate is not None:
            reservation = await gate.admit(exchange, input_tokens=tokens, output_tokens=0, highest_cost=None)
        name = place.model.id
        if in_path is not None:
            path = f"{path[: in_path.start()]}{quote(name, safe='')}{path[in_path.end() :]}"
            # Google's bodies repeat the name of the path (ai.google.dev/api/embeddings).
            body = body.replace(jsontext.write(f"models/{asked}"), jsontext.write(f"models/{name}"))
        else:
            body = renaming((("model",),), name)(body)
        # The key of a client of Google may stand in the query: it is the gateway's, and goes no further.
        query = "&".join(one for one in http.rel_url.raw_query_string.split("&") if one and not one.startswith("key="))
        url = endpoint.base + path.removeprefix(place.wire.http.base) + (f"?{query}" if query else "")
        exchange.attempts, counter, is_charged = 1, _UsageCounter(), False
        task = asyncio.current_task()
        assert task is not None
        self._active.add(task)
        try:
            async with asyncio.timeout(place.timeouts.first) as clock, place.turn():
                upstream = await self._transport.send("POST", url, endpoint.headers, body)
                try:
                    kind = upstream.headers.get("Content-Type", JSON)
                    headers = {**ClientReply(channel, exchange).headers(), "Content-Type": kind}
                    # Without a length the end is not in sight: passed on as it comes, not read whole.
                    if upstream.status < 400 and essence(kind) != JSON and "Content-Length" not in upstream.headers:
                        await self._pass_stream(
                            upstream, headers, exchange, channel, clock, place.timeouts, limits, counter
                        )
                        return channel.response
                    answer = await whole(upstream, LARGEST_ANSWER)
                finally:
                    upstream.close()
            if upstream.status >= 400:
                raise place.wire.codec.decode_error(upstream.status, answer, upstream.headers)
            exchange.status, is_charged = upstream.status, True
            counter.usage = _reported_usage(answer)
            return web.Response(status=upstream.status, body=answer, headers=headers)
        except (TimeoutError, InterlinguaError, asyncio.CancelledError) as error:
            failure: InterlinguaError
            if isinstance(error, asyncio.CancelledError):
                is_charged = True
                if not self._dispatcher.is_stopping:
                    exchange.is_aborted, exchange.error = True, Aborted(LEFT)
                    raise
                failure = stopping_error()
            elif isinstance(error, InterlinguaError):
                failure = self._dispatcher.blamed(scrubbed(error, place.secrets), place)
            elif exchange.is_stream:
                failure = TimedOut("the stream was silent, or took, too long")
            else:
                failure = TimedOut(f"no response within {place.timeouts.first:g} s")
            exchange.error = failure
            if not exchange.is_stream:
                exchange.status = status_of(as_provider_error(failure))
                raise failure from None
            channel.abort()  # nobody knows the form of an error within the stream: it must not look whole
            return channel.response
        except ConnectionError:
            exchange.is_aborted, exchange.error, is_charged = True, Aborted(LEFT), True
            raise
        finally:
            self._active.discard(task)
            if is_charged or exchange.is_stream:  # the provider has the input
                exchange.is_estimated = counter.usage is None or exchange.error is not None
                exchange.answer = AssistantMessage(content=(), usage=counter.usage or Usage.of(tokens, 0))
            self._settlement.close(exchange, reservation)

    async def _pass_stream(
        self,
        upstream: Upstream,
        headers: Mapping[str, str],
        exchange: Exchange,
        channel: HttpChannel,
        clock: asyncio.Timeout,
        timeouts: Timeouts,
        limits: ClientLimits,
        counter: "_UsageCounter",
    ) -> None:
        """Passes on a stream as it comes. `clock` measures the silence of the provider, not of the client."""
        loop = asyncio.get_running_loop()
        until = math.inf if limits.total is None else loop.time() + limits.total - (time.time() - exchange.started)
        idle = math.inf if timeouts.idle is None else timeouts.idle
        chunk = await upstream.chunk()
        exchange.is_stream, exchange.status, exchange.first_byte = True, upstream.status, time.time()
        await channel.open({**headers, "X-Accel-Buffering": "no"})  # nginx would keep it back
        while chunk:
            clock.reschedule(None if until == math.inf else until)
            counter.feed(chunk)
            await in_time(channel.write(chunk), limits.send_timeout, channel.abort)
            due = min(until, loop.time() + idle)
            clock.reschedule(None if due == math.inf else due)
            chunk = await upstream.chunk()
        counter.feed(b"\n")
        await channel.end(b"", limits.send_timeout)


class _UsageCounter:
    """The usage that a stream on any path reports: what its last event with one reports."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self._line: list[bytes] = []  # the pieces of an incomplete line
        self._size = 0

    def feed(self, data: bytes) -> None:
        lines, end, rest = data.rpartition(b"\n")
        if end:
            if self._size <= LARGEST_ANSWER:
                for line in b"".join((*self._line, lines)).splitlines():
                    # Whatever the content type is: providers stream events, lines of JSON and plain JSON on such paths.
                    document = line.removeprefix(b"data:").lstrip()
                    if document.startswith(b"{"):
                        self.usage = _reported_usage(document) or self.usage
            self._line, self._size = [], 0
        self._size += len(rest)
        if self._size <= LARGEST_ANSWER:
            self._line.append(rest)


def _reported_usage(answer: bytes) -> Usage | None:
    """Returns the usage that a response on any path reports; of a stream, what its last event with one reports."""
    is_stream = not answer.lstrip().startswith(b"{")
    found = None
    for data in [line[5:] for line in answer.splitlines() if line.startswith(b"data:")] if is_stream else [answer]:
        try:
            value = jsontext.read(data)
        except FormatError:  # `[DONE]`, or no JSON at all
            continue
        found = _usage_in(value) or found
    return found


def _usage_in(value: Any) -> Usage | None:
    for path in _USAGE:
        counts = value
        for name in path:
            counts = counts.get(name) if isinstance(counts, dict) else None
        for input, output, cached in _COUNTS if isinstance(counts, dict) else ():
            if type(counts.get(input)) is int or type(counts.get(output)) is int:
                details = counts.get(f"{input}_details")
                details = details if isinstance(details, dict) else counts
                given = (counts.get(input), counts.get(output), details.get(cached))
                read, written, again = (one if type(one) is int and one > 0 else 0 for one in given)
                return Usage.of(max(0, read - again), written, cache_read=min(again, read))
    return None


def _is_odd(path: str) -> bool:
    """Whether the next server may interpret a path as another one."""
    # Twice: `%252e` is a dot for a server behind one that decodes once.
    decoded = unquote(unquote(path))
    return ".." in decoded or "//" in decoded or "\\" in decoded or any(ord(char) < 33 for char in decoded)
