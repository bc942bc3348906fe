"""A provider that repeats the key in its answers does not get it into errors, answers or telemetry."""

import asyncio
import json
import re
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import interlingua as il
from interlingua import sync
from interlingua.connect import stream, telemetry
from interlingua.connect.auth.credentials import Scrubber
from interlingua.connect.client import Client
from interlingua.connect.listing import list_models
from interlingua.connect.models import warm
from interlingua.connect.retry import Breaker
from interlingua.dialects import WIRES, dialect
from interlingua.values.events import Done, Error
from interlingua.values.folding import unfold
from interlingua.values.jsontext import write

KEY = "sk-key-0123456789abcdefghij"
ERROR = {"message": f"bad key {KEY}", "code": KEY, "type": KEY, "param": KEY, KEY: [KEY]}
BODIES: list[tuple[int, Any]] = [
    (400, {"error": ERROR}),
    (401, {"error": ERROR}),
    (429, {"type": "error", "error": ERROR, "request_id": KEY}),
    (500, {"error": {"code": 500, "status": KEY, "message": KEY, "details": [{"reason": KEY}]}}),
    (403, {"message": KEY, "__type": KEY}),
    (404, KEY),
    (200, {"error": ERROR}),
    (200, {"id": KEY, "model": KEY, "choices": [{"index": 0, "finish_reason": KEY, "message": {"content": "hi"}}]}),
    (200, {"id": KEY, "type": "message", "role": "assistant", "model": KEY, "content": [], "stop_reason": KEY}),
    (200, {"id": KEY, "status": "failed", "error": {"code": KEY, "message": KEY}, "output": []}),
    (200, {"candidates": [{"finishReason": KEY, "finishMessage": KEY, "content": {"parts": [{"text": "x"}]}}]}),
    (200, {"promptFeedback": {"blockReason": KEY, "blockReasonMessage": KEY}, "responseId": KEY}),
]


@asynccontextmanager
async def answering(status: int, body: Any, kind: str = "application/json") -> AsyncIterator[str]:
    """A server that gives one answer to every request; `body` may be a function that says which."""

    exchanges: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchanges.add(asyncio.current_task())  # type: ignore[arg-type]
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):  # a caller that goes away
            await reader.readuntil(b"\r\n\r\n")
            answer = body() if callable(body) else body
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            head = f"HTTP/1.1 {status} {KEY}\r\nContent-Type: {kind}\r\nConnection: close\r\n"
            writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        # A connection that was opened and left is accepted now: asyncio leaks one that it meets while it closes.
        for _ in range(5):
            await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*exchanges), 60)
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    "model", ["openai/gpt-4o-chat", "anthropic/claude-x", "google/gemini-x", "groq/x", "openai/gpt-4o"]
)
@pytest.mark.parametrize(("status", "body"), BODIES, ids=range(len(BODIES)))
async def test_a_key_that_a_provider_repeats_is_hidden(model: str, status: int, body: Any) -> None:
    """In the text, code and body of errors, in the whole message with stop detail, and in the printed traceback."""
    async with answering(status, body) as address:
        try:
            stream = il.stream(model, "hi", base_url=address, api_key=KEY, retry=0)
            events = [event async for event in stream]
            shown = repr(events[-1]) + repr(getattr(stream, "failure", None))
            message = await stream.result()
            shown += repr((message.stop_detail, message.error_message, message.response_id, message.response_model))
        except il.InterlinguaError as error:
            shown = "".join(traceback.format_exception(error)) + repr(vars(error))
    assert KEY not in shown


@pytest.mark.parametrize("key", ['sk-"key"-0123456789abcdefghij', "sk-\\key-0123456789abcdefghij"])
async def test_a_repeated_key_is_hidden_whatever_characters_it_has(key: str) -> None:
    message = {"role": "assistant", "content": "hi"}
    body = {"id": "1", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}], "own": key}
    async with answering(200, body) as address:
        found = await il.complete("openai-chat/gpt-4o", "hi", base_url=address, api_key=key, retry=0)
    assert found.text == "hi"
    assert found.extra["openai-completions"]["~response"]["own"] != key


@pytest.mark.parametrize("url", [
    "ftp://user:pa55word@host.example/v1", "FTP://u:pa55word@h", "ssh://u:pa55%40word@h", "//u:pa55word@h", "file:///pa55word",
    "http://u:pa55word@h:99999/", "http://u:pa55@word@[::bad/", "javascript:pa55word", "gopher://u:pa55word@h", "http://",
    "ftp://u:pa55/word@h", "ftp://u:pa55?word@h", "ws://u:pa55word@h", "http://u:pa55word@:80/",
])  # fmt: skip
async def test_an_address_that_cannot_be_called_is_not_repeated(url: str) -> None:
    """A typed error says what is wrong with it; the password in it is in no message and no traceback."""
    with pytest.raises(il.InterlinguaError) as caught:
        await il.complete("openai/gpt-4o", "hi", base_url=url, api_key=KEY)
    shown = "".join(line for line in traceback.format_exception(caught.value) if "base_url=" not in line)
    assert "pa55" not in shown
    assert "pa55" not in repr(vars(caught.value))


# --- every wire -----------------------------------------------------------------------------------------------------

ANSWER = il.AssistantMessage(
    content=(il.TextBlock(text="hello"),), stop_reason="stop", response_id="the-id", response_model="the-model",
    usage=il.Usage.of(3, 2),
)  # fmt: skip
KINDS = {"sse": "text/event-stream", "ndjson": "application/x-ndjson", "aws": "application/vnd.amazon.eventstream"}
STRINGS = re.compile(rb'"(?:[^"\\\\]|\\\\.)*"(?!\s*:)')  # values, not names
CALLED = [api for api in WIRES if WIRES[api].http.auth != "none" and api != "openai-responses-websocket"]


def about(message: il.AssistantMessage | None) -> str:
    """All that is said beside the content, which is the model's own."""
    return "" if message is None else repr(replace(message, content=()))


async def shown_of(api: str, address: str, client: Client, **how: Any) -> str:
    """All that a caller can see of an answer: each event, each partial, the message, the failure and its traceback."""
    model = il.ModelDescriptor(id="m", api=api, provider="", base_url=address)
    seen: list[str] = []
    try:
        stream = client.stream(model, "hi", api_key=KEY, retry=0, timeout=60, **how)
        async for event in stream:
            final = event.message if isinstance(event, Done) else event.error if isinstance(event, Error) else None
            seen += [about(final or getattr(event, "partial", None))]
        seen += [about(await stream.result()), repr(stream.failure)]
        if stream.failure is not None:
            beside = {name: value for name, value in vars(stream.failure).items() if name != "partial"}
            seen += ["".join(traceback.format_exception(stream.failure)), repr(beside)]
    except il.InterlinguaError as error:
        seen += ["".join(traceback.format_exception(error)), repr(vars(error))]
    return " ".join(seen)


def streamed(api: str) -> bytes:
    """A good answer, as the wire streams it."""
    codec = dialect(api)
    encoder = codec.StreamEncoder()
    return b"".join([*(encoder.feed(event) for event in unfold(ANSWER)), encoder.close()])


def in_one_piece(api: str) -> bytes:
    """A good answer, as the wire gives it whole."""
    return write(dialect(api).encode_response(ANSWER).body)


def echoed(data: bytes, which: int) -> bytes:
    """The answer with the key in the place of one of its texts, whichever that is."""
    found = [*STRINGS.finditer(data)]
    if not found:
        return data
    one = found[which % len(found)]
    return data[: one.start()] + b'"%b"' % KEY.encode() + data[one.end() :]


@pytest.mark.parametrize("api", CALLED)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_key_in_any_text_of_an_answer_is_seen_nowhere_beside_the_content(
    api: str, stream: bool, record_property: Any
) -> None:
    """In each event's partial, the first included, in the message and in the failure; on every wire, text by text."""
    kind = KINDS.get(dialect(api).framing().name, "application/json") if stream else "application/json"
    data = streamed(api) if stream else in_one_piece(api)
    if kind == KINDS["aws"]:
        data, kind = in_one_piece(api), "application/json"  # a changed frame has a wrong checksum
    texts = len(STRINGS.findall(data))
    assert texts
    which, client = 0, Client(breaker=Breaker(failures=10_000))
    async with answering(200, lambda: echoed(data, which), kind) as address:
        for which in range(texts):
            assert KEY not in await shown_of(api, address, client, stream=stream), which
    record_property("tried", texts)


@pytest.mark.parametrize("api", CALLED)
@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
async def test_telemetry_never_has_a_key_that_a_provider_repeats(api: str, status: int) -> None:
    """Neither its spans nor its measurements, on any wire."""
    spans, reader, tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    telemetry.enable(tracer_provider=tracers, meter_provider=MeterProvider([reader]))
    body = {"error": ERROR, "id": KEY, "model": KEY, "type": "error", "message": KEY, "code": KEY, "__type": KEY}
    try:
        async with answering(status, body) as address:
            await shown_of(api, address, Client())
    finally:
        telemetry.disable()
    exported = [span.to_json() for span in spans.get_finished_spans()]
    assert exported
    assert KEY not in "".join(exported)
    assert KEY not in str(reader.get_metrics_data())


@given(st.integers(0, 40), st.sampled_from(["header", "option"]))
async def test_a_key_that_was_given_as_a_header_is_hidden_as_well(which: int, way: str) -> None:
    """However the caller gave it."""
    how: dict[str, Any] = {"headers": {"Authorization": f"Bearer {KEY}"}} if way == "header" else {"api_key": KEY}
    async with answering(200, echoed(in_one_piece("openai-completions"), which)) as address:
        stream = il.stream("groq/x", "hi", base_url=address, retry=0, **{"api_key": "other", **how})
        seen = [about(getattr(event, "partial", None)) async for event in stream]
        seen += [about(await stream.result()), repr(stream.failure)]
    assert KEY not in " ".join(seen)


@pytest.mark.parametrize("body", [{"error": ERROR}, {"data": KEY}, KEY], ids=["error", "data", "text"])
@pytest.mark.parametrize("status", [200, 401, 500])
async def test_embeddings_and_lists_of_models_hide_a_repeated_key(status: int, body: Any) -> None:
    """They are calls with a key like any other."""
    async with answering(status, body) as address:
        with pytest.raises(il.InterlinguaError) as caught:
            await il.embed("openai/text-embedding-3-small", "a", base_url=address, api_key=KEY, retry=0)
        shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
        connector, _ = Client().find("openai/x")
        try:
            found = await list_models(connector, await warm(), il.CallOptions(api_key=KEY, base_url=address))  # type: ignore[arg-type]
            assert not found
        except il.InterlinguaError as error:
            shown += "".join(traceback.format_exception(error)) + repr(vars(error))
    assert KEY not in shown


# --- tracebacks with local variables ---------------------------------------------------------------------------------


def raising(*_: Any) -> Any:
    raise ValueError("of a callback")


async def completed(address: str, **how: Any) -> None:
    await il.complete("openai/gpt-4o", "hi", **{"base_url": address, "api_key": KEY, "retry": 0, **how})


async def read_to_the_end(address: str, **how: Any) -> None:
    stream = il.stream("anthropic/claude-x", "hi", **{"base_url": address, "api_key": KEY, "retry": 0, **how})
    await stream.result()
    assert stream.failure is not None
    raise stream.failure


async def blocking(address: str, **how: Any) -> None:
    given = {"base_url": address, "api_key": KEY, "retry": 0, **how}
    await asyncio.to_thread(lambda: sync.complete("openai/gpt-4o", "hi", **given))


async def embedded(address: str, **how: Any) -> None:
    del how
    await il.embed("openai/text-embedding-3-small", ["a"], base_url=address, api_key=KEY, retry=0)


PROBLEMS: list[dict[str, Any]] = [
    {},
    {"timeout": 0.001},
    {"on_payload": raising},
    {"on_response": raising},
    {"get_api_key": raising},
    {"max_tokens": "many"},
    {"nonsense": 1},
    {"fallbacks": [{"model": "openai/x", "api_key": KEY, "odd": 1}]},
    {"fallbacks": [{"model": "openai/x", "api_key": KEY, "base_url": "http://127.0.0.1:9"}]},
    {"base_url": "http://127.0.0.1:9"},
    {"base_url": "ftp://x"},
    {"headers": {"Authorization": f"Bearer {KEY}"}},
    {"headers": {"X-Bad": "a\nb"}},
]


@pytest.mark.parametrize("ask", [completed, read_to_the_end, blocking, embedded])
@pytest.mark.parametrize("problem", PROBLEMS, ids=range(len(PROBLEMS)))
async def test_a_traceback_with_local_variables_shows_no_key(
    ask: Callable[..., Any], problem: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In no frame of ours or of the HTTP client, for whatever reason a call failed; the caller's frames are his own."""
    monkeypatch.setenv("OTHER_API_KEY", KEY)
    async with answering(401, {"error": ERROR}) as address:
        try:
            await ask(address, **problem)
        except il.InterlinguaError as error:
            report = traceback.TracebackException.from_exception(error, capture_locals=True)
        else:
            raise AssertionError("it did not fail")
    pending: list[traceback.TracebackException | None] = [report]
    while pending:
        one = pending.pop()
        if one is not None:
            pending += [one.__cause__, one.__context__]
            assert KEY not in "".join(one.format_exception_only())
            for frame in one.stack:
                values = (frame.locals or {}).values()
                assert frame.filename == __file__ or not any(KEY in value for value in values), frame


def test_of_a_large_error_only_the_beginning_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A provider may quote a megabyte: neither its message nor its many values are searched to the end, and no part of a
    key that is cut there is left.
    """
    searched = 0

    class Counted(Scrubber):
        def __call__(self, text: str) -> str:
            nonlocal searched
            searched += len(text)
            return super().__call__(text)

    monkeypatch.setattr(stream, "Scrubber", Counted)
    for cut in range(0, 40, 7):
        text = "x" * (16 * 1024 - cut) + KEY
        quoted = [{"input": KEY, "msg": "no"}] * 20_000
        error = stream.scrubbed(il.BadRequest(text * 50, body={"detail": quoted, "text": text}), [KEY])
        assert searched < 100_000
        shown = f"{error} {error.body}"  # type: ignore[attr-defined]
        assert len(shown) < 10_000 and KEY[:8] not in shown
        searched = 0
