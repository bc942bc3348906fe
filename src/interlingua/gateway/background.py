"""Background responses: generated without their client, which asks for them, follows or cancels them by id.

Until one has ended, the recall store has it as `in_progress`, so that every gateway with that store can answer for it.
The rules are those of platform.openai.com/docs/guides/background.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec.structs import replace

from ..dialects.registry import cut_frames
from ..dialects.wire import SSE
from ..values.errors import Aborted, BadRequest
from ..values.folding import unfold
from ..values.losses import Encoded
from ..values.messages import AssistantMessage
from .exchange import Exchange
from .incoming import Incoming
from .recall import Recall, StoredResponse, is_pending, size_of
from .replying import ClientReply, describe_losses, error_event
from .state import StateError, log_failure, unavailable

_LOOK = 1.0  # seconds between looks at the store: another gateway may have cancelled the response
_RENEW = 20.0  # seconds between signs of life of the gateway that generates it
_LOST = 60.0  # seconds without one after which it has failed
_KEPT = 300.0  # seconds that the events of an ended stream are kept
_MAX_KEPT = 100  # ended streams
# Generates a response: its events go to the run, and the future is done when the request is admitted.
Generate: TypeAlias = Callable[["BackgroundRun", "asyncio.Future[None]"], Awaitable[None]]


def is_background(incoming: Incoming) -> bool:
    """Whether the client asks for a response that goes on without it."""
    own = incoming.request.extra.get(incoming.wire.base, {})
    return incoming.wire.http.stored_route is not None and own.get("background") is True


def without_client(incoming: Incoming, exchange: Exchange) -> Incoming:
    """Returns a background request as a provider gets it; what its response repeats of it stays in the exchange."""
    api = incoming.wire.base
    own = incoming.request.extra[api]
    # …/guides/background, Limits: background sampling requires `store=true`.
    if own.get("store") is False:
        raise BadRequest("a background response is stored; leave out `background`, or set `store` to true", status=400)
    exchange.references = exchange.references or {api: own}
    exchange.extra["background"] = True
    rest = {name: value for name, value in own.items() if name != "background"}
    extra = {**incoming.request.extra, api: rest}
    exchange.request = replace(incoming.request, extra=extra)
    resolved = replace(incoming.resolved, extra=extra) if incoming.resolved is not None else None
    return replace(incoming, request=exchange.request, resolved=resolved, body=None)


class BackgroundRun:
    """The generation of one response, and the channel of its exchange (`replying.Channel`)."""

    def __init__(self, is_stream: bool) -> None:
        self.is_stream = is_stream
        self.task: asyncio.Task[None] | None = None
        self.is_generating = True
        self._events: list[bytes] = []
        self._changed = asyncio.Event()
        self._ended = False

    async def send(self, *_: Any) -> None:
        """The failure before the first event; the exchange has it."""

    async def open(self, headers: Any) -> None:
        pass

    async def write(self, data: bytes) -> None:
        if self.is_stream:
            self._events += cut_frames(data, SSE)
        self._changed.set()
        self._changed = asyncio.Event()

    async def end(self, data: bytes = b"", timeout: float | None = None) -> None:
        await self.write(data)

    def abort(self) -> None:
        pass

    def cancel(self) -> None:
        if self.is_generating and self.task is not None:
            self.task.cancel()

    async def finish(self, exchange: Exchange, response: StoredResponse | None) -> None:
        """Ends the stream, with the failure if it has no end."""
        self._ended, last = True, b""
        if not self._events and response is not None:
            encoder = exchange.wire.codec.StreamEncoder(request=response.request)
            last = b"".join(map(encoder.feed, unfold(response.answer))) + encoder.close()
        elif isinstance(exchange.error, Aborted):
            last = error_event(exchange.wire, Aborted("the response was cancelled"), len(self._events), None)
        await self.write(last)

    async def deliver(self, reply: ClientReply, start: int = 0) -> None:
        """Sends the events from a number on, as they come."""
        while True:
            changed, data, ended = self._changed, b"".join(self._events[start:]), self._ended
            start = max(start, len(self._events))
            if ended:
                await reply.end(data)
                return
            await reply.write(data)
            await changed.wait()


class Background:
    """The background responses of one gateway."""

    def __init__(self, recall: Recall) -> None:
        self._recall = recall
        self._runs: dict[tuple[str, str], BackgroundRun] = {}

    def run(self, key: str, id: str) -> BackgroundRun | None:
        """The run of a response whose events are here."""
        found = self._runs.get((key, id))
        return found if found is not None and found.is_stream else None

    async def start(self, exchange: Exchange, generate: Generate, is_stream: bool) -> tuple[BackgroundRun, Encoded]:
        """Starts a response; returns its run and how it is shown until it has ended. Raises why it is refused."""
        key, id = exchange.key.name, exchange.wire.http.response_id + exchange.id
        request = exchange.request
        assert request is not None
        pending = StoredResponse(
            request=exchange.with_references(request),
            given=exchange.extra.get("given", request.context.messages),
            answer=AssistantMessage(
                content=(),
                model=exchange.asked_model,
                response_id=id,
                stop_reason="stop",
                stop_detail="in_progress",
                timestamp=int(exchange.started * 1000),
            ),
            created=exchange.started,
            until=time.time() + _LOST,
        )
        run, admitted = BackgroundRun(is_stream), asyncio.get_running_loop().create_future()
        self._put(key, id, pending)
        if self._recall.stored(key, id) is None:
            remedy = "leave out `background`, or raise `recall_bytes` in the settings of the gateway"
            raise BadRequest(f"the response cannot be stored; {remedy}", status=400)
        try:
            await self._recall.save()
        except StateError as error:
            self._recall.delete(key, id)
            raise unavailable("stored responses cannot be changed", error) from None
        # Stored before it starts: a client that has its id may ask another gateway for it at once.
        run.task = asyncio.ensure_future(self._generate(run, key, id, exchange, generate, admitted))
        self._runs[key, id] = run
        await asyncio.shield(admitted)
        return run, exchange.wire.codec.encode_response(pending.answer, request=pending.request)

    async def _generate(
        self,
        run: BackgroundRun,
        key: str,
        id: str,
        exchange: Exchange,
        generate: Generate,
        admitted: "asyncio.Future[None]",
    ) -> None:
        renewing = asyncio.ensure_future(self._renew(run, key, id))
        try:
            await generate(run, admitted)
        except asyncio.CancelledError:
            admitted.cancel()  # by its client, or since the gateway stops: the exchange has which
        except Exception as error:  # it was refused
            if not admitted.done():
                admitted.set_exception(error)
            self._recall.delete(key, id)
        finally:
            run.is_generating = False
            renewing.cancel()
        stored = self._recall.stored(key, id)
        if stored is not None and stored.until is not None:
            stored = replace(stored, answer=_ended(stored.answer, exchange), until=None)
        if stored is not None:
            self._put(key, id, replace(stored, losses=describe_losses(exchange.losses) if exchange.losses else ""))
        try:
            await self._recall.save()
        except StateError as error:
            log_failure("answers are not shared with other workers yet", error)
        await run.finish(exchange, stored)
        if run.is_stream:
            asyncio.get_running_loop().call_later(_KEPT, self._runs.pop, (key, id), None)
            ended = [name for name, one in self._runs.items() if not one.is_generating]
            for name in ended[:-_MAX_KEPT]:
                del self._runs[name]
        else:
            del self._runs[key, id]

    async def _renew(self, run: BackgroundRun, key: str, id: str) -> None:
        """Shows that a response is being generated, and ends it if another gateway has cancelled or deleted it."""
        while True:
            await asyncio.sleep(_LOOK)
            try:
                await self._recall.fetch_ids(key, ("response", id))
                stored = self._recall.stored(key, id)
                if stored is None:
                    if self._recall.shared is not None:  # else it may only have been dropped
                        run.cancel()
                elif stored.answer.stop_detail == "cancelled":
                    run.cancel()
                elif stored.until is not None and stored.until < time.time() + _LOST - _RENEW:
                    self._put(key, id, replace(stored, until=time.time() + _LOST))
                    await self._recall.save()
            except StateError as error:
                log_failure("answers are not shared with other workers yet", error)

    async def cancel(self, key: str, id: str) -> None:
        """Ends a response that is being generated, here or by another gateway."""
        run, stored = self._runs.get((key, id)), self._recall.stored(key, id)
        if run is not None and run.task is not None:
            run.cancel()
            await asyncio.wait([run.task])
        elif stored is not None and is_pending(stored):
            self._put(key, id, replace(stored, answer=_cancelled(stored.answer), until=None))

    async def ended(self, key: str, id: str) -> None:
        """Waits until a response that another gateway generates has ended."""
        while is_pending(self._recall.stored(key, id)):
            await asyncio.sleep(_LOOK)
            try:
                await self._recall.fetch_ids(key, ("response", id))
            except StateError as error:
                raise unavailable("stored responses cannot be read", error) from None

    async def stop(self, seconds: float) -> None:
        """Waits until what has ended is stored."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _put(self, key: str, id: str, stored: StoredResponse) -> None:
        self._recall.store(key, id, stored, size_of((*stored.request.context.messages, stored.answer)))


def _cancelled(answer: AssistantMessage) -> AssistantMessage:
    return replace(answer, stop_reason="aborted", stop_detail="cancelled")


def _ended(pending: AssistantMessage, exchange: Exchange) -> AssistantMessage:
    """The end of a response that is not complete: what came of it, and why no more."""
    answer = replace(exchange.answer or pending, response_id=pending.response_id, timestamp=pending.timestamp)
    if exchange.error is None:
        return answer
    if isinstance(exchange.error, Aborted):
        return _cancelled(answer)
    return failed(answer, str(exchange.error))


def failed(answer: AssistantMessage, why: str) -> AssistantMessage:
    return replace(answer, stop_reason="error", stop_detail="failed", error_message=why)
