"""One call to one target: the request out, the response back to the client, in one of two lanes.

*Same wire*, if the provider would receive exactly the client's own request: its bytes are forwarded unchanged, and so
are the response's; only the model's name is replaced. Frames are decoded before they are forwarded, so that invalid
data never reaches the client. *Translated*: decoded, adapted, encoded, both ways.

Failures are raised as typed errors. `ClientReply.begun`: whether the client has seen anything of the response by then.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ..connect.auth.credentials import scrub
from ..connect.connector import is_quick
from ..connect.registry import Foreign, opened
from ..connect.stream import (
    LARGEST_ANSWER,
    AttemptWatch,
    Batch,
    EventSource,
    Stream,
    error_in,
    page_text,
    quirks_of,
    unique_id,
)
from ..connect.transport import ERROR_BODY_LIMIT, Transport, whole
from ..connect.transport import Reply as Upstream
from ..dialects.framing import Frame, Framing, actual_type, essence
from ..dialects.provider_errors import failure_of
from ..dialects.wire import AWS, JSON, SSE, Rephrased
from ..values import jsontext
from ..values.abort import Abort
from ..values.errors import AuthFailed, BadWire, FormatError, InterlinguaError, TimedOut, TransportError
from ..values.events import (
    BlockStart,
    Done,
    Error,
    Start,
    StreamEvent,
    TextStart,
    ThinkingStart,
    ToolCallStart,
)
from ..values.folding import CUT_OFF, unfold
from ..values.losses import Loss, replaced, without_records
from ..values.messages import AssistantMessage, blocks_of
from ..values.request import CallOptions, Request
from .cache_breaks import SentPrompts
from .exchange import DeferredAnswer, Exchange
from .fast_frames import FrameDecoder
from .handover import item_ids, joined, shifted
from .incoming import LARGE_BODY, Incoming
from .outgoing import Outgoing, outgoing, refuse_losses, refuse_untranslatable, request_headers, signed
from .recall import is_unique
from .references import References
from .replying import ClientReply
from .rewriting import Cutter, FrameRenaming, renaming, valid_text, without_repeats
from .routing import Place
from .state import StateError, log_failure
from .turns import Turns

_FIRST = 2048  # bytes of a stream that do not wait for the rest, where all of it has come at once
_SETTLING = 0.2  # seconds that an upstream may take to end its body after the last event
_MESSAGE_EVENTS = frozenset({Start, Done, Error})
_SILENT = frozenset({Start, TextStart, ThinkingStart, ToolCallStart, BlockStart})  # that show nothing of the answer


def _refuse_odd_bytes(data: bytes, api: str) -> None:
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise BadWire(api, f"a frame is not UTF-8: {error.reason} at byte {error.start}") from None


class _RephrasedFraming:
    """The frames of a stream of another endpoint, in the form of the main one."""

    def __init__(self, framing: Framing, rephrased: Rephrased) -> None:
        self._framing = framing
        self._rephrased = rephrased
        self.name = framing.name

    def feed(self, data: bytes) -> list[Frame]:
        return [self._main(frame) for frame in self._framing.feed(data)]

    def close(self) -> list[Frame]:
        return [self._main(frame) for frame in self._framing.close()]

    def _main(self, frame: Frame) -> Frame:
        return replace(frame, data=_main_form(frame.data, self._rephrased))


def _main_form(answer: bytes, rephrased: Rephrased) -> bytes:
    """Returns a JSON value of another endpoint in the form of the main one; what is no object is left to the codec."""
    try:
        value = jsontext.read(answer)
    except FormatError:
        return answer
    return jsontext.write(rephrased.decode_answer(value)) if isinstance(value, dict) else answer


class Attempt:
    """One call to one target. `is_sent`: the target has been called."""

    def __init__(
        self,
        place: Place,
        exchange: Exchange,
        incoming: Incoming,
        reply: ClientReply,
        transport: Transport,
        references: References,
        *,
        holds: bool,
        turns: Turns,
        prompts: SentPrompts | None = None,
        may_break: bool = False,
        before: AssistantMessage | None = None,
        encoder: Any = None,
    ) -> None:
        self._place = place
        self._exchange = exchange
        self._incoming = incoming
        self._reply = reply
        self._transport = transport
        self._references = references
        self._is_shared = references.recall.shared is not None  # what is remembered
        self._turns = turns
        self._holds = holds  # back what shows nothing, so that another place may still answer
        self._pending: list[bytes] = []
        self._stamp = int(time.time() * 1000)
        self.is_sent = False
        self._upstream: Upstream | None = None
        self._watch: AttemptWatch | None = None
        self._prompts = prompts  # to see what a prompt changes of the one before
        self._may_break = may_break  # another candidate may continue the response, so it must pass through an encoder
        self._before = before  # what earlier places gave of the answer, and `encoder` has written
        self._shift = len(blocks_of(before.content)) if before is not None else 0
        self._used_ids = item_ids(before) if before is not None else frozenset[str]()
        self.encoder: Any = encoder
        self.decoder: Any = None
        self._source: EventSource | None = None  # of a connector in this process
        self._frames: FrameDecoder | None = None
        self._repaired = jsontext.Repairs()  # of the response, where it is decoded to be written anew
        self._answer_id = incoming.wire.http.response_id + exchange.id
        self._is_named = "background" in exchange.extra

    async def run(self) -> None:
        """Delivers the response to the client, to its end."""
        if self._place.wire is None:
            refuse_untranslatable(self._place, self._incoming)
            await self._local()
            return
        stream = self._exchange.is_stream or self._place.wire.http.only_streams
        body = self._incoming.body
        if is_quick(self._incoming.request) and (body is None or len(body) <= LARGE_BODY):
            made = outgoing(self._place, self._incoming, stream)
        else:
            made = await asyncio.to_thread(outgoing, self._place, self._incoming, stream)
        refuse_losses(made, self._exchange.key.max_losses)
        self._exchange.lane = made.lane
        self._exchange.losses = made.losses
        self._reply.losing(made.losses)
        if self._prompts is not None and self._before is None:
            key, session = self._exchange.key.name, self._exchange.session
            found = await self._prompts.sent(key, self._place.name, session, self._incoming.request, made.body)
            self._exchange.cache_break = found or self._exchange.cache_break
        watch = self._watch = AttemptWatch(None, self._place.timeouts, self._place.alarms)
        try:
            await self._call(made, stream, watch)
        except InterlinguaError as error:
            raise watch.why or error from None
        finally:
            watch.finish()
            if self._upstream is not None:
                self._upstream.close()

    def is_unanswered(self, failure: InterlinguaError) -> bool:
        """Whether the target, which has the request, sent nothing in time: it may work on it, and charge it."""
        watched = self._watch.why if self._watch is not None else failure
        return self.is_sent and isinstance(failure, TimedOut) and isinstance(watched, TimedOut)

    # --- the call

    def _note_sent(self) -> None:
        self.is_sent = True
        self._exchange.attempts += 1

    async def _call(self, made: Outgoing, stream: bool, watch: AttemptWatch) -> None:
        place = self._place
        assert place.wire is not None
        options, endpoint = place.access()
        assert endpoint is not None
        url = endpoint.urls[stream]
        if endpoint.sign is None and not endpoint.renewable:
            headers = request_headers(place, self._incoming, endpoint.headers, endpoint.key, made.lane)
            body = made.body
        else:  # expiring tokens and signatures: built by the connector
            url, headers, body = await watch.during(signed(place, self._incoming, made, options, stream))
        if made.rephrased is not None:
            url = endpoint.base + made.rephrased.route.removeprefix(place.wire.http.base)
        self._note_sent()
        upstream = self._upstream = await watch.during(self._transport.send("POST", url, headers, body))
        watch.reading(upstream.close)
        kind = essence(upstream.headers.get("Content-Type"))
        codec = place.wire.codec
        if upstream.status != 200:
            failed = await whole(upstream, ERROR_BODY_LIMIT)
            raise codec.decode_error(
                upstream.status, page_text(failed) if kind == "text/html" else failed, upstream.headers
            )
        head, found = b"", None
        while found is None and (chunk := await upstream.chunk()):
            head += chunk
            found = actual_type(head.lstrip(), kind)  # OpenRouter sends blank lines while a model is silent
        if found is None:
            raise BadWire(codec.API, "empty answer")
        if found == "text/html":
            page = page_text((head + await whole(upstream, ERROR_BODY_LIMIT))[:2000])[:200].decode(errors="replace")
            raise BadWire(codec.API, f"got a web page instead of an answer; check the base URL: {page!r}")
        framing = codec.framing(found) if stream or found != JSON else None
        if framing is not None and made.rephrased is not None:
            framing = _RephrasedFraming(framing, made.rephrased)
        if found == JSON and (framing is None or framing.name == "sse"):
            rest = b"" if getattr(upstream, "ended", False) else await whole(upstream, LARGEST_ANSWER)
            answer = head + rest
            await self._whole(answer if made.rephrased is None else _main_form(answer, made.rephrased), made)
        elif not self._exchange.is_stream:
            await self._collect(head, framing, made)
        elif made.lane == "same" and found == place.wire.http.content_type and not self._may_break:
            await self._pass(head, framing, made)
        else:
            self._exchange.lane = "translated"
            await self._translate(head, framing, made)

    # --- answers

    def _decoder(self, made: Outgoing) -> Any:
        place = self._place
        assert place.wire is not None
        self.decoder = place.wire.codec.StreamDecoder(
            model=place.model.id,
            provider=place.model.provider,
            timestamp=self._stamp,
            mint=unique_id,
            quirks=quirks_of(place.wire, place.model),
        )
        self.decoder.restoring(made.restore)
        return self.decoder

    async def _whole(self, body: bytes, made: Outgoing) -> None:
        """Handles an unstreamed response; a client that requested a stream gets it as one."""
        exchange, place = self._exchange, self._place
        if made.lane == "same" and not exchange.is_stream and place.text_answer is not None:
            found = place.text_answer(body) if self._asked.options.service_tier is None else None
            if found is not None:
                # It is decoded for those who read it: some observers, and a client that refers to it later.
                assert place.decode is not None
                exchange.usage = found.usage
                exchange.response = DeferredAnswer(place.decode, body, self._stamp, found.model)
                if found.id:
                    self._references.remember_text(exchange, found, exchange.response, len(body))
                    if self._is_shared:
                        await self._share()
                await self._forward(body, made)
                return
        with self._repaired:
            answer = self._decode(body, made)
        if answer.stop_reason == "error" and (given := error_in(body)) is not None:
            assert self._place.wire is not None
            raise self._place.wire.codec.decode_error(0, {"error": given})
        if (failure := self._failure(answer)) is not None:
            raise failure
        self._answered(answer)
        if self._exchange.is_stream:
            await self._play(list(unfold(answer)))
        elif made.lane == "same":
            if self._is_shared:
                await self._share()
            await self._forward(body, made)
        else:
            await self._respond(answer, (*made.losses, *self._read_losses()))

    def _read_losses(self) -> Sequence[Loss]:
        """What could not be read of the response as it was. Bytes that are forwarded have lost nothing."""
        return tuple(map(replaced, dict.fromkeys(self._repaired))) if self._repaired else ()

    async def _forward(self, body: bytes, made: Outgoing) -> None:
        """Sends the provider's unstreamed response, with the model's name as the client wrote it."""
        rename = renaming(self._incoming.wire.http.model_paths, self._exchange.asked_model)
        await self._reply.whole(rename(body), made.losses)

    def _decode(self, body: bytes, made: Outgoing) -> AssistantMessage:
        decode = self._place.decode
        assert decode is not None
        answer = decode(body, self._stamp)
        if made.restore is not None:
            answer = replace(answer, content=tuple(map(made.restore, blocks_of(answer.content))))
        return answer

    async def _respond(self, answer: AssistantMessage, losses: tuple[Loss, ...]) -> None:
        """Sends an unstreamed response in the client's form."""
        encoded = self._incoming.wire.codec.encode_response(self._named(answer), request=self._asked)
        lost = losses + without_records(encoded.losses)
        self._exchange.losses = lost
        if self._is_shared:
            await self._share()
        await self._reply.whole(encoded.bytes(), lost)

    async def _collect(self, head: bytes, framing: Any, made: Outgoing) -> None:
        """Collects a stream, for a client that requested an unstreamed response."""
        last = None
        with self._repaired:
            async for batch in self._batches(head, framing, made):
                last = batch[-1]
        if isinstance(last, Error) and (failure := self._failure(last.error)) is not None:
            raise failure
        assert isinstance(last, Done | Error)
        answer = last.message if isinstance(last, Done) else last.error
        self._answered(answer)
        await self._respond(answer, (*made.losses, *self._read_losses()))

    async def _batches(self, head: bytes, framing: Any, made: Outgoing) -> Any:
        """The events of a stream, as they come together; the last is its end."""
        decoder, watch, upstream = self._decoder(made), self._watch, self._upstream
        assert watch is not None and upstream is not None
        chunk, rest = head[:_FIRST], head[_FIRST:]
        while chunk:
            events: Batch = []
            for frame in framing.feed(chunk):
                events += decoder.feed(frame)
            if events:
                yield events
                if type(events[-1]) in (Done, Error):
                    return
                watch.pause()
                watch.resume()
            chunk, rest = await self._next_chunk(upstream, rest), b""
            if watch.why is not None:
                raise watch.why
        events = [event for frame in framing.close() for event in decoder.feed(frame)]
        if not events or type(events[-1]) not in (Done, Error):
            events += decoder.close()
        yield events

    async def _next_chunk(self, upstream: Upstream, chunk: bytes = b"") -> bytes:
        """Returns the next bytes of a stream that has begun, `chunk` first. Streams that begin go ahead."""
        chunk = chunk or await upstream.chunk()
        if chunk:
            await self._turns.take(len(chunk))
            if getattr(upstream, "arrived", 0):  # while it waited
                chunk += await upstream.chunk()
        return chunk

    async def _translate(self, head: bytes, framing: Any, made: Outgoing) -> None:
        with self._repaired:
            async for batch in self._batches(head, framing, made):
                await self._play(batch)
        await self._settle()

    async def _play(self, batch: Batch) -> None:
        """Sends events to the client, in one write."""
        if self.encoder is None:
            self.encoder = self._incoming.wire.codec.StreamEncoder(request=self._asked)
        encoder, out = self.encoder, self._pending
        shows, ended = not self._holds, False
        for event in batch:
            kind = type(event)
            if kind in _MESSAGE_EVENTS:
                if kind is Start and self._before is not None:
                    continue
                if kind is Error and (self._reply.begun or not _SILENT.issuperset(map(type, batch[:-1]))):
                    await self._reply.write(b"".join(out))  # it is raised: what came before it goes out first
                    out.clear()
                event, ended = self._message_event(event), kind is not Start
            elif self._shift:
                event = shifted(event, self._shift, self._used_ids)
            if not shows and kind not in _SILENT:
                shows = True
            out.append(encoder.feed(event))
        if not shows:
            return
        self._holds = False
        data = b"".join(out)
        out.clear()
        if ended:
            self._exchange.losses += (*self._read_losses(), *without_records(encoder.losses))
            await self._share()
            await self._reply.end(data + encoder.close())
        else:
            await self._reply.write(data)

    def _message_event(self, event: StreamEvent) -> StreamEvent:
        """Returns the first and the last event for this client. A failure is raised."""
        if isinstance(event, Start):
            return Start(self._named(event.partial or AssistantMessage(content=())))
        if isinstance(event, Done):
            answer = joined(self._before, event.message)
            self._answered(answer)
            return Done(event.reason, self._named(answer))
        assert isinstance(event, Error)
        self._exchange.answer = joined(self._before, self._without_keys(event.error))
        failure = self._failure(event.error)
        if failure is not None:
            raise failure
        if not self._reply.begun and self._holds:
            raise failure_of(event.error)
        return Error(event.reason, self._named(self._exchange.answer))  # an answer that ends badly: refused, filtered

    def _failure(self, answer: AssistantMessage) -> InterlinguaError | None:
        """Returns why a response that ended badly is none: the decoder's failure, or that nothing is in it."""
        failure: InterlinguaError | None = getattr(self.decoder, "failure", None)
        if failure is not None or answer.stop_reason != "error" or answer.stop_detail or blocks_of(answer.content):
            return failure
        return BadWire(self._place.model.api, "the response has neither content nor a stop reason")

    def _without_keys(self, answer: AssistantMessage) -> AssistantMessage:
        """Returns a failed response without the provider's keys in its message: it may be recorded."""
        text, secrets = answer.error_message, self._place.secrets
        if text is None or not any(secret in text for secret in secrets):
            return answer
        return replace(answer, error_message=scrub(text, secrets=secrets))

    async def break_off(self, why: str, *, aborted: bool = False) -> None:
        """Keeps the partial response of an interrupted attempt, and closes what the client has seen open."""
        if self._exchange.answer is not None:
            return
        if self._frames is not None:
            self._frames.flush()
        if self._source is not None:
            events = self._source.cut(why)
        elif self.decoder is not None:
            events = self.decoder.close(why, aborted=aborted)
        else:
            return
        if events and isinstance(events[-1], Error):
            self._exchange.answer = joined(self._before, events[-1].error)
            if self.encoder is not None and self._reply.begun and not aborted:
                rest = (shifted(one, self._shift, self._used_ids) for one in events[:-1])
                await self._reply.write(b"".join(map(self.encoder.feed, rest)))

    async def _share(self) -> None:
        """Shares the response before its end is sent: the next turn may come at once, to another worker."""
        if self._is_shared:
            try:
                await self._references.recall.save()
            except StateError as error:
                log_failure("answers are not shared with other workers yet", error)

    def _answered(self, message: AssistantMessage) -> None:
        """Remembers a complete response before the client has its end: the next turn may come at once."""
        self._exchange.answer = message
        self._references.remember(self._exchange, message, self._id_of(message))

    def _named(self, message: AssistantMessage) -> AssistantMessage:
        """Returns a response with what clients expect: its own id, and a stop reason of their wire."""
        changes: dict[str, Any] = {}
        if message.response_id != (id := self._id_of(message)):
            changes["response_id"] = id
        if message.stop_reason == "toolUse" and message.stop_detail is not None:
            # Ollama and Google end calls with their word for a plain end, which other wires have as well.
            changes["stop_detail"] = None
        return replace(message, **changes) if changes else message

    def _id_of(self, message: AssistantMessage) -> str:
        """The id of a response: the provider's, except where the client already has one, or could refer to it by an id
        that the next response has, too (KoboldCpp: `chatcmpl-A1`). Bytes that are forwarded have the provider's."""
        id, exchange = message.response_id, self._exchange
        if not id or self._is_named:
            return self._answer_id
        is_referred = exchange.wire.http.stored_route is not None and exchange.lane != "same"
        return id if not is_referred or is_unique(id) else self._answer_id

    @property
    def _asked(self) -> Request:
        return self._exchange.with_references(self._incoming.request)

    async def _pass(self, head: bytes, framing: Any, made: Outgoing) -> None:
        """Forwards the bytes of a stream as they arrive, in whole frames; each is decoded first."""
        decoder, reply, exchange = self._decoder(made), self._reply, self._exchange
        watch, upstream, facts = self._watch, self._upstream, self._incoming.wire.http
        border = b"\n\n" if facts.content_type == SSE else b"\n"
        fast = self._frames = FrameDecoder(framing, decoder, varying=facts.varying, border=border)
        assert watch is not None and upstream is not None
        rename = FrameRenaming(
            renaming(facts.model_paths, exchange.asked_model), b"" if facts.content_type == AWS else border
        )
        hidden = facts.without_usage if made.hides_usage else None
        cutter, begun = Cutter(facts.content_type), set[bytes]()
        chunk, ended, last = head, False, b""
        while chunk:
            out, fresh = self._pending, False
            data = cutter.feed(chunk)
            if facts.content_type != AWS and not data.isascii():
                data = valid_text(data)
            if facts.opening_event is not None and facts.opening_event in data:
                data = without_repeats(data, facts.content_type, facts.opening_event, begun)
            if data:
                events: Batch = []
                if facts.content_type == AWS:
                    messages = framing.feed(data)
                    framing.feed(b"")  # raises if one is damaged, before any is forwarded
                    for message in messages:
                        _refuse_odd_bytes(message.data, exchange.wire.api)  # checksums hold: nothing can be replaced
                    events, fresh = fast.feed_frames(messages)
                else:
                    events, fresh = fast.feed(data)
                if fresh:
                    self._holds = False
                if events:
                    fresh = True
                    ended = self._observe(events, ended, data)
                if hidden is not None:
                    data = hidden(data)
                out.append(rename(data))
            if out and not self._holds:
                data = b"".join(out)
                out.clear()
                if ended:
                    await self._share()
                    if getattr(upstream, "ended", False):
                        last = data
                        break
                    reply.ending()
                await reply.write(data)
            if ended:
                reply.ended = True  # a client may leave now
                chunk = await self._last_chunk(upstream)
                continue
            if fresh:
                watch.pause()
                watch.resume()
            chunk = await self._next_chunk(upstream)
            if watch.why is not None:
                raise watch.why
        rest = cutter.close()
        events = fast.flush()
        for frame in (*framing.feed(rest), *framing.close()) if rest else framing.close():
            events += decoder.feed(frame)
        if not ended:
            self._observe([*events, *decoder.close()], False)
        self._holds = False
        await self._share()
        await reply.end(b"".join((last, *self._pending, rename(rest))))

    def _observe(self, events: Batch, ended: bool, data: bytes = b"") -> bool:
        """Observes forwarded frames. Invalid data, a failure before any content, a refused key, or a failure whose
        `data` quotes a key of the provider is raised."""
        last = events[-1]
        if type(last) is Error:
            self._exchange.answer = self._without_keys(last.error)
            failure = self._failure(last.error)
            if isinstance(failure, BadWire | TransportError) or (failure is not None and self._holds):
                raise failure
            is_own = isinstance(failure, AuthFailed)  # the gateway's key was refused: no word of the client's
            if failure is not None and (is_own or any(secret.encode() in data for secret in self._place.secrets)):
                raise failure
            self._exchange.error = failure
            self._holds = False
            return True
        if self._holds and any(type(event) not in _SILENT for event in events):
            self._holds = False
        if type(last) is Done:
            self._answered(last.message)
            return True
        return ended

    async def _last_chunk(self, upstream: Upstream) -> bytes:
        """Returns what follows the end of the response, if it arrives soon."""
        if getattr(upstream, "ended", False):
            return b""
        try:
            async with asyncio.timeout(_SETTLING):
                return await upstream.chunk()
        except (TimeoutError, InterlinguaError):
            return b""

    async def _settle(self) -> None:
        """Reads the rest of a body that is almost complete, so that the connection can be reused."""
        upstream = self._upstream
        assert upstream is not None
        while await self._last_chunk(upstream):
            pass
        if getattr(upstream, "ended", False):
            self._upstream = None

    # --- connectors of this process

    async def _local(self) -> None:
        place, given = self._place, self._incoming.request
        signal = Abort()
        request = replace(given, model=place.model, options=replace(given.options, stream=True))
        options = CallOptions(signal=signal, timeout=place.timeouts)
        self._note_sent()
        events = opened(place.connector, request, options)
        source: EventSource
        if isinstance(events, Stream):
            source = events.source
        else:
            base = AssistantMessage(
                content=(), api=place.model.api, provider=place.model.provider, model=place.model.id
            )
            source = Foreign(events, base, place.connector.id, signal, place.timeouts)
        batches, self._source = source.batches(), source
        last: StreamEvent | None = None
        try:
            async for batch in batches:
                if not batch:
                    continue
                last = batch[-1]
                if isinstance(last, Error):
                    if self._exchange.is_stream and len(batch) > 1:
                        await self._play(batch[:-1])
                    self._exchange.answer = joined(self._before, last.error)
                    raise source.failure or failure_of(last.error)
                if self._exchange.is_stream:
                    await self._play(batch)
        finally:
            signal.abort()
            await batches.aclose()
        if not isinstance(last, Done):
            raise TransportError(CUT_OFF)
        if not self._exchange.is_stream:
            self._answered(last.message)
            await self._respond(last.message, ())
