"""The life of a stream: read, left, asked for its result, read by several; and what a connector of one's own may do."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

import interlingua as il
from connect.talking import API, KEY, ask, events_of, options, own, saying, until
from interlingua.connect.client import Client
from interlingua.connect.connector import HttpConnector
from interlingua.connect.providers import PROVIDERS
from interlingua.connect.stream import Alarms, AttemptWatch, Stream, Timeouts
from interlingua.dialects import WIRES
from interlingua.testing import Pace, Server, SlowHeaders, Stall
from interlingua.values.errors import Aborted
from interlingua.values.events import Done, Error, Start, TextDelta, TextEnd, TextStart, ThinkingStart, ToolCallStart
from interlingua.values.folding import unfold
from interlingua.values.request import StreamOptions
from laws.grammar import faults

HANGING = Stall(after_events=4)


async def _break(stream: Stream) -> None:
    async for event in stream:
        if isinstance(event, TextDelta):
            break


async def _return(stream: Stream) -> None:
    async def loop() -> il.events.StreamEvent | None:
        async for event in stream:
            if isinstance(event, TextDelta):
                return event
        return None

    assert isinstance(await loop(), TextDelta)


async def _raise(stream: Stream) -> None:
    with pytest.raises(ZeroDivisionError) as kept:
        async for event in stream:
            if isinstance(event, TextDelta):
                raise ZeroDivisionError
    assert kept  # whoever keeps the exception keeps its frames, and yet the loop is left


async def _aclose(stream: Stream) -> None:
    reader = aiter(stream)
    while not isinstance(await anext(reader), TextDelta):
        pass
    await stream.aclose()


async def _async_with(stream: Stream) -> None:
    async with stream:
        reader = aiter(stream)
        while not isinstance(await anext(reader), TextDelta):
            pass


async def _forget_the_reader(stream: Stream) -> None:
    reader = aiter(stream)
    while not isinstance(await anext(reader), TextDelta):
        pass
    del reader
    gc.collect()


async def _cancel_the_task(stream: Stream) -> None:
    begun = asyncio.Event()

    async def loop() -> None:
        async for event in stream:
            if isinstance(event, TextDelta):
                begun.set()

    task = asyncio.create_task(loop())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _cancel_the_result(stream: Stream) -> None:
    task = asyncio.create_task(stream.result())
    await until(lambda: "Once" in stream.partial.text)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _time_out(stream: Stream) -> None:
    async def expire(limit: asyncio.Timeout) -> None:
        await until(lambda: "Once" in stream.partial.text)
        limit.reschedule(asyncio.get_running_loop().time())

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60) as limit:
            expiring = asyncio.create_task(expire(limit))
            await stream.result()
    await expiring


WAYS = [_break, _return, _raise, _aclose, _async_with, _forget_the_reader, _cancel_the_task, _cancel_the_result]


@pytest.mark.parametrize("leave", [*WAYS, _time_out], ids=lambda way: way.__name__.strip("_"))
async def test_case_91_leaving_a_stream_closes_it(server: Server, leave: Any) -> None:
    """However a stream is left, the upstream sees it, and the result is marked as aborted, with what came."""
    server.say("Once upon a time", fault=HANGING)
    stream = ask(server)
    await leave(stream)
    await server.disconnected(timeout=60)
    message = await stream.result()
    assert ("aborted", "Once") == (message.stop_reason, message.text[:4])
    assert isinstance(stream.failure, Aborted)
    assert message is stream.failure.partial


async def test_a_stream_that_is_dropped_whole_closes_its_connection(server: Server) -> None:
    """Nobody holds the stream any more: garbage collection is enough."""
    server.say("Once upon a time", fault=HANGING)
    stream = ask(server)
    while not isinstance(await stream.next(), TextDelta):
        pass
    del stream
    gc.collect()
    await server.disconnected()


async def test_a_stream_nobody_reads_makes_no_call(server: Server) -> None:
    """A stream begins when it is first read; one that was never read costs nothing, and can be closed."""
    stream = ask(server)
    await stream.aclose()
    assert [] == server.requests
    assert "aborted" == (await stream.result()).stop_reason
    assert [] == faults(await events_of(stream))


async def test_case_92_what_came_before_leaving_is_kept_and_well_formed(server: Server) -> None:
    """After leaving, the events that are left end the stream as they should: every block closed, one terminal event."""
    server.say("Once upon a time", thinking="Hm.", fault=Stall(after_events=6))
    stream = ask(server)
    seen = []
    async for event in stream:
        seen.append(event)
        if isinstance(event, TextStart):
            break
    seen += await events_of(stream)
    assert [] == faults(seen)
    assert isinstance(seen[-1], Error)
    assert "Hm." == seen[-1].error.thinking


async def test_the_result_can_be_had_without_iterating(server: Server) -> None:
    """`result()` alone reads the stream; asked again, it gives the same message."""
    server.say("Whole")
    stream = ask(server)
    message = await stream.result()
    assert "Whole" == message.text
    assert message is await stream.result()
    assert [] == await events_of(stream)


async def test_the_result_is_the_message_of_the_terminal_event(server: Server) -> None:
    """One message: in the last event, as the result, as `message`, as `partial`; and what the events amount to."""
    server.say("The very same", thinking="Which?")
    stream = ask(server)
    events = await events_of(stream)
    assert isinstance(events[-1], Done)
    assert events[-1].message is stream.message
    assert events[-1].message is stream.partial
    assert events[-1].message is await stream.result()
    assert events[-1].message == il.fold(events)


async def test_a_loop_after_the_end_finds_nothing(server: Server) -> None:
    """Events are given once; nothing follows the terminal one."""
    stream = ask(server)
    assert isinstance((await events_of(stream))[-1], Done)
    assert [] == await events_of(stream)
    assert await stream.next() is None
    assert stream.take() is None


async def test_leaving_after_the_end_changes_nothing(server: Server) -> None:
    """Closing a stream that has ended leaves its message as it is."""
    stream = ask(server)
    message = await stream.result()
    await stream.aclose()
    await stream.aclose()
    assert message is stream.message
    assert stream.failure is None


async def test_two_readers_share_the_events(server: Server) -> None:
    """Each event goes to one of them, none is lost, and both come to an end."""
    server.say("a b c d e f g h i j k l m n o p", chunk=2)
    stream = ask(server)
    one, two = await asyncio.gather(events_of(stream), events_of(stream))
    assert 16 == sum(isinstance(event, TextDelta) for event in one + two)
    assert 1 == sum(isinstance(event, Done) for event in one + two)


async def test_waiting_for_the_result_takes_no_event_from_a_loop(server: Server) -> None:
    """One task loops, another waits for the result: the loop still sees every event."""
    server.say("a b c d e f g h", chunk=2)
    stream = ask(server)
    looping = asyncio.create_task(events_of(stream))
    await asyncio.sleep(0)
    message = await stream.result()
    events = await looping
    assert [] == faults(events)
    assert message.text == "".join(event.delta for event in events if isinstance(event, TextDelta))


async def test_leaving_while_another_task_waits_ends_both(server: Server) -> None:
    """A reader that is waiting for the first byte is told when somebody else closes the stream."""
    server.answer("never", fault=SlowHeaders(60))
    stream = ask(server)
    reading = asyncio.create_task(events_of(stream))
    await asyncio.to_thread(server.wait_for_requests, 1)
    await stream.aclose()
    async with asyncio.timeout(60):
        events = await reading
    assert [Start, Error] == [type(event) for event in events]
    assert "aborted" == (await stream.result()).stop_reason
    await server.disconnected()


async def test_leaving_a_connector_s_own_stream_while_it_connects_ends_it(server: Server) -> None:
    """The same without the client around it."""
    server.answer("never", fault=SlowHeaders(60))
    connector = HttpConnector(PROVIDERS["anthropic"])
    model = il.ModelDescriptor(id="m")
    stream = connector.stream(
        model,
        il.Context(messages=(il.UserMessage(content="Hi"),)),
        StreamOptions(api_key=KEY, base_url=server.base_url(API)),
    )
    reading = asyncio.create_task(events_of(stream))
    await asyncio.to_thread(server.wait_for_requests, 1)
    await stream.aclose()
    async with asyncio.timeout(60):
        assert isinstance((await reading)[-1], Error)
    await server.disconnected()


async def test_the_message_so_far_can_be_read_at_any_time(server: Server) -> None:
    """Before the start, at every event, and after the end."""
    server.say("One two three", chunk=4, fault=Pace(0.01))
    stream = ask(server)
    assert () == stream.partial.content
    assert "test-model" == stream.partial.model
    texts = []
    async for event in stream:
        assert isinstance(event, Done) or stream.partial.text.startswith(event.partial.text)
        texts.append(stream.partial.text)
    assert "One two three" == texts[-1]
    assert texts == sorted(texts, key=len)


async def test_partials_are_snapshots(server: Server) -> None:
    """What an event showed does not change when more comes."""
    server.say("One two three", chunk=4)
    shown = [(event, event.partial) async for event in ask(server) if isinstance(event, TextDelta)]
    assert [partial for _, partial in shown] == [event.partial for event, _ in shown]
    assert ["One ", "One two ", "One two thre", "One two three"] == [partial.text for _, partial in shown if partial]


async def test_failures_are_never_thrown_after_the_call(server: Server) -> None:
    """A model nobody knows, a server that is not there, a key that is missing: all arrive in the stream."""
    asked = [
        Client().stream("nobody/nothing", "Hi"),
        Client().stream("no slash at all", "Hi"),
        Client().stream("anthropic/m", "Hi", env={}),
        Client().stream("anthropic/m", "Hi", api_key=KEY, base_url="http://127.0.0.1:9", retry=0),
        Client().stream("anthropic/m", "Hi", api_key=KEY, base_url="not an address", retry=0),
        Client().stream("anthropic/m", "Hi", api_key=KEY, base_url=server.base_url(API), headers={"X": "a\r\nb: c"}),
    ]
    for stream in asked:
        events = await events_of(stream)
        assert [Start, Error] == [type(event) for event in events]
        assert [] == faults(events)
        assert stream.failure is not None
        assert stream.failure.partial is stream.message


async def test_an_unknown_option_is_refused_at_the_call() -> None:
    """A misspelled option is a mistake of the caller: it is raised where it was made, and names the right ones."""
    with pytest.raises(il.InterlinguaError, match=r"temperatur.*temperature"):
        Client().stream("debug/parrot-1", "Hi", temperatur=1)


async def test_complete_raises_what_stream_tells(server: Server) -> None:
    """The typed error, with the answer so far on it."""
    server.say("Once upon a time", fault=HANGING)
    with pytest.raises(il.TimedOut) as raised:
        await Client().complete(
            "anthropic/m", "Hi", **options(server, timeout=Timeouts(first=20, idle=0.5), stream=True)
        )
    assert "Once" == raised.value.partial.text[:4]


@pytest.mark.parametrize("callback", ["on_payload", "on_response"])
async def test_what_a_callback_raises_ends_the_stream_as_an_error(server: Server, callback: str) -> None:
    """A callback of the caller's that fails is a failure of the call, in the stream like any other."""

    def fail(*_: Any) -> None:
        raise LookupError("my own mistake")

    stream = ask(server, **{callback: fail})
    events = await events_of(stream)
    assert [] == faults(events)
    assert "my own mistake" in str(stream.failure)
    assert isinstance(stream.failure.__cause__ if stream.failure else None, LookupError)


# --- connectors that somebody else wrote ------------------------------------------------------------------------------

MESSAGE = il.AssistantMessage(content=(il.TextBlock(text="Hello"),), stop_reason="stop", usage=il.Usage.of(3, 2))
WELL = (Start(), TextStart(0), TextDelta(0, "Hello"), TextEnd(0, "Hello"), Done("stop", MESSAGE))


async def streamed_events(make: Any, **how: Any) -> tuple[Stream, list[il.events.StreamEvent]]:
    stream = own(make).stream("own/m", "Hi", **how)
    events = await events_of(stream)
    assert [] == faults(events)
    return stream, events


async def test_a_connector_of_one_s_own_streams() -> None:
    """Its events arrive as it gave them; what it does not say of itself is filled in."""
    stream, events = await streamed_events(saying(*WELL))
    assert [type(event) for event in WELL] == [type(event) for event in events]
    message = await stream.result()
    assert ("Hello", "own", "m", "own-api") == (message.text, message.provider, message.model, message.api)
    assert MESSAGE.usage == message.usage


async def test_a_connector_may_be_a_coroutine_that_gives_its_events() -> None:
    """`async def stream` that returns an iterable, a natural mistake, is understood."""

    async def stream(*_: Any) -> Any:
        return saying(*WELL)()

    assert "Hello" == (await (await streamed_events(stream))[0].result()).text


ODD: list[tuple[str, tuple[Any, ...], str, str]] = [
    ("raises before anything", (ValueError("no"),), "", "error"),
    ("raises in the middle", (*WELL[:3], ValueError("no")), "Hello", "error"),
    ("raises an error of ours", (*WELL[:3], il.Overloaded("busy")), "Hello", "error"),
    ("ends early", WELL[:3], "Hello", "error"),
    ("yields nothing", (), "", "error"),
    ("yields only a start", (Start(),), "", "error"),
    ("yields what is no event", ("text", 7, None), "", "error"),
    ("yields a dict in the middle", (*WELL[:3], {"type": "text_delta"}), "Hello", "error"),
    ("yields after done", (*WELL, TextDelta(0, "more"), Done("stop", MESSAGE)), "Hello", "stop"),
    ("forgets the start", WELL[1:], "Hello", "stop"),
    ("starts twice", (Start(), *WELL), "Hello", "stop"),
    ("opens no block", (Start(), TextDelta(0, "Hello"), Done("stop", MESSAGE)), "Hello", "stop"),
    ("closes no block", (*WELL[:3], WELL[4]), "Hello", "stop"),
    ("closes twice", (*WELL[:4], WELL[3], WELL[4]), "Hello", "stop"),
    ("says only the end", (Done("stop", MESSAGE),), "Hello", "stop"),
    ("ends with an empty message", (*WELL[:4], Done("stop", il.AssistantMessage(content=()))), "Hello", "stop"),
    ("skips an index", (Start(), TextStart(5), TextDelta(5, "Hello"), WELL[4]), "Hello", "stop"),
    ("uses an index twice", (Start(), ThinkingStart(0), *WELL[1:]), "Hello", "stop"),
    ("ends in no message", (*WELL[:4], Done("stop", None)), "Hello", "error"),  # type: ignore[arg-type]
    ("fails without a word", (Error("error", il.AssistantMessage(content=())),), "", "error"),
]


@pytest.mark.parametrize(("events", "text", "reason"), [one[1:] for one in ODD], ids=[one[0] for one in ODD])
async def test_whatever_a_connector_yields_the_caller_sees_a_well_formed_stream(
    events: tuple[Any, ...], text: str, reason: str
) -> None:
    """What came is kept, exceptions are errors, and the grammar holds."""
    stream, _ = await streamed_events(saying(*events), retry=0)
    message = await stream.result()
    assert (text, reason) == (message.text, message.stop_reason)
    assert (reason == "error") == (stream.failure is not None) == (message.error_message is not None)


@pytest.mark.parametrize("result", [None, 7, "text", [WELL[0]]])
async def test_a_connector_that_gives_no_stream_at_all_is_an_error(result: Any) -> None:
    """Not an async iterable: said so, with the connector's id."""
    stream, _ = await streamed_events(lambda *_: result, retry=0)
    assert "own/one" in str(stream.failure)


async def test_a_connector_whose_stream_raises_at_the_call_is_an_error() -> None:
    """`stream` itself raises: the same as raising on the first event."""

    def stream(*_: Any) -> Any:
        raise KeyError("settings")

    failed, _ = await streamed_events(stream, retry=0)
    assert isinstance(failed.failure, il.TransportError)


async def test_blocks_that_only_the_last_message_holds_are_added() -> None:
    """A connector that streams the text and says its call only at the end still has the call executed."""
    call = il.ToolCall(id="c", name="look", arguments={"at": 1})
    message = il.AssistantMessage(content=(il.TextBlock(text="Hello"), call))
    stream, events = await streamed_events(saying(*WELL[:4], Done("toolUse", message)))
    assert (call,) == (await stream.result()).tool_calls
    assert any(isinstance(event, ToolCallStart) for event in events)


async def test_leaving_a_connector_of_one_s_own_closes_it() -> None:
    """Its generator is closed, and its signal has fired."""
    closed, signals = asyncio.Event(), []

    async def stream(model: Any, context: Any, options: Any) -> AsyncIterator[Any]:
        signals.append(options.signal)
        try:
            for event in WELL[:3]:
                yield event
            await asyncio.Event().wait()
        finally:
            closed.set()

    async for event in own(stream).stream("own/m", "Hi"):
        if isinstance(event, TextDelta):
            break
    async with asyncio.timeout(60):
        await closed.wait()
    assert [True] == [signal.aborted for signal in signals]


async def test_a_connector_that_will_not_end_does_not_hold_anybody() -> None:
    """It swallows its cancellation: abort still wins, and the stream ends."""
    signal, refused = il.Abort(), asyncio.Event()

    async def stream(*_: Any) -> AsyncIterator[Any]:
        yield WELL[0]
        yield WELL[1]
        while not refused.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await refused.wait()

    asked = own(stream).stream("own/m", "Hi", signal=signal)
    asyncio.get_running_loop().call_later(0.05, signal.abort)
    async with asyncio.timeout(10):
        events = await events_of(asked)
    assert [] == faults(events)
    assert "aborted" == (await asked.result()).stop_reason
    refused.set()
    await asyncio.sleep(0.01)


async def test_a_silent_connector_times_out() -> None:
    """The timeouts hold for connectors of one's own, too."""

    async def stream(*_: Any) -> AsyncIterator[Any]:
        for event in WELL[:3]:
            yield event
        await asyncio.Event().wait()

    asked, _ = await streamed_events(stream, timeout=0.2, retry=0)
    assert isinstance(asked.failure, il.TimedOut)
    assert "Hello" == (await asked.result()).text


# --- bursts -----------------------------------------------------------------------------------------------------------


class Burst:
    """A transport whose body comes in one piece."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def send(self, method: str, url: str, headers: Any, body: bytes | None) -> Any:
        chunks = [self.body]

        class Reply:
            status = 200
            headers: ClassVar[dict[str, str]] = {"Content-Type": "text/event-stream"}

            async def chunk(self) -> bytes:
                return chunks.pop() if chunks else b""

            def close(self) -> None:
                chunks.clear()

        return Reply()


async def test_the_first_event_does_not_wait_for_what_came_behind_it() -> None:
    """A burst of a thousand events, of which the last makes no sense: the first is handed out before that is read."""
    delta = (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"x"}}\n\n'
    )
    start = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
        b'"model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text",'
        b'"text":""}}\n\n'
    )
    stream = Client(transport=Burst(start + delta * 1000 + b"event: nonsense\ndata: {{{\n\n")).stream(
        "anthropic/m", "Hi", api_key=KEY, retry=0
    )
    reader = aiter(stream)
    assert isinstance(await anext(reader), Start)
    assert stream.waiting < 50
    assert stream.message is None
    await stream.aclose()


async def test_calls_that_share_a_timer_time_out_each_on_its_own() -> None:
    """
    Calls that end in time leave nothing behind; the others end when their own timeout has passed, also those that
    began later or made progress.
    """
    alarms, timeouts = Alarms(), Timeouts(first=0.8, idle=0.8)
    loop = asyncio.get_running_loop()

    async def waits(delay: float, *, progress: bool = False) -> float:
        await asyncio.sleep(delay)
        watch, start = AttemptWatch(None, timeouts, alarms), loop.time()
        try:
            if progress:
                await asyncio.sleep(0.3)  # long before its timeout, on a busy machine too
                watch.pause()
                watch.resume()
            with pytest.raises(il.TimedOut, match=r"within 0\.8 s"):
                await watch.during(asyncio.Event().wait())
        finally:
            watch.finish()
        return loop.time() - start

    ended = AttemptWatch(None, timeouts, alarms)
    took = await asyncio.gather(waits(0), waits(0.05), waits(0.05, progress=True), waits(0.9))
    ended.finish()
    assert all(one >= 0.79 for one in took) and took[2] >= 1.09
    assert ended.why is not None and not alarms._due

    quick = AttemptWatch(None, timeouts, alarms)
    quick.finish()
    assert not alarms._due
    await asyncio.sleep(0.9)
    assert quick.why is None


class _CountingLoop(asyncio.SelectorEventLoop):
    """Counts what is scheduled on it."""

    timers = callbacks = 0

    def call_at(self, *given: Any, **named: Any) -> Any:
        self.timers += 1
        return super().call_at(*given, **named)

    def call_soon(self, *given: Any, **named: Any) -> Any:
        self.callbacks += 1
        return super().call_soon(*given, **named)


@pytest.mark.parametrize("api", [*WIRES])
def test_an_event_wakes_its_reader_once_and_starts_no_timer(server: Server, api: str) -> None:
    """Whatever else is scheduled belongs to the call, and is little."""
    model = il.ModelDescriptor(id="m", provider="own", api=api, base_url=server.base_url(api))
    server.say("Hello")
    server.say("word" * 60, fault=Pace(0.001))
    with asyncio.Runner(loop_factory=_CountingLoop) as runner:
        loop: Any = runner.get_loop()
        for _ in range(2):  # the first opens the connection
            loop.timers = loop.callbacks = 0
            events = runner.run(events_of(Client().stream(model, "Hi", api_key=KEY)))
    assert isinstance(events[-1], Done) and len(events) >= 60
    assert (loop.callbacks < 90, loop.timers < 10) == (True, True), (loop.callbacks, loop.timers)


class _Canned:
    """A transport that responds to every request with the same bytes."""

    class Reply:
        status = 200
        ended = False

        def __init__(self, body: bytes, kind: str) -> None:
            self._body = body
            self.headers = {"Content-Type": kind}

        async def chunk(self) -> bytes:
            chunk, self._body, self.ended = self._body, b"", True
            return chunk

        def close(self) -> None: ...

    def __init__(self, body: bytes, kind: str) -> None:
        self._body = body
        self._kind = kind

    async def send(self, *_: Any) -> Reply:
        return self.Reply(self._body, self._kind)


@pytest.mark.parametrize("api", [*WIRES])
async def test_a_finished_call_leaves_nothing_to_the_garbage_collector(api: str) -> None:
    """Conversations may be large: they are freed when the call ends, not at some later collection."""
    codec = il.dialect(api)
    content = (il.TextBlock(text="Hello"), il.ToolCall(id="call_1", name="look", arguments={"at": "a"}))
    answer = il.AssistantMessage(content=content, stop_reason="toolUse", usage=il.Usage.of(1, 2))
    encoder = codec.StreamEncoder()
    body = b"".join(map(encoder.feed, unfold(answer))) + encoder.close()
    model = il.ModelDescriptor(id="m", provider="own", api=api, base_url="http://127.0.0.1:1")
    client = Client(transport=_Canned(body, WIRES[api].http.content_type))

    async def call() -> None:
        events = [event async for event in client.stream(model, "Hi", api_key=KEY)]
        assert isinstance(events[-1], Done), events[-1]

    await call()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await call()
        gc.collect()
        left = {type(one).__qualname__ for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.enable()
        gc.garbage.clear()
    assert not left & {"Exchange", "Attempts", "Stream", "StreamDecoder", "Recorder", "Request", "AssistantMessage"}
