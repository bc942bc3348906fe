"""Stopping a call: by signal at any point of it, by cancellation, by silence. What is known by then is kept."""

import asyncio
import gc
import threading
from typing import Any

import pytest

import interlingua as il
from connect.talking import QUICK, ask, events_of, options, own, until
from interlingua.connect.client import Client
from interlingua.connect.retry import Retry
from interlingua.connect.stream import Timeouts
from interlingua.testing import Pace, RateLimit, Server, SlowHeaders, Split, Stall, Status
from interlingua.values.errors import Aborted
from interlingua.values.events import Error, Start, TextDelta
from laws.grammar import faults


async def _aborted(stream: Any) -> il.AssistantMessage:
    async with asyncio.timeout(10):
        events = await events_of(stream)
    assert [] == faults(events)
    assert isinstance(events[-1], Error)
    assert "aborted" == events[-1].reason
    assert isinstance(stream.failure, Aborted)
    return await stream.result()


async def test_a_signal_that_has_fired_makes_no_call(server: Server) -> None:
    """No exception, an empty aborted message with the reason, and nothing reached the server."""
    signal = il.Abort()
    signal.abort("changed my mind")
    message = await _aborted(ask(server, signal=signal))
    assert ((), "aborted: changed my mind") == (message.content, message.error_message)
    assert [] == server.requests


async def test_abort_while_the_request_is_prepared_sends_nothing(server: Server) -> None:
    """A callback that sees the body may abort the call before it is sent."""
    signal = il.Abort()
    message = await _aborted(ask(server, signal=signal, on_payload=lambda *_: signal.abort("not this body")))
    assert ((), "aborted: not this body") == (message.content, message.error_message)
    assert [] == server.requests


async def test_abort_while_waiting_for_the_status_line(server: Server) -> None:
    """The connection is closed although nothing of the answer has come."""
    signal = il.Abort()
    server.answer("late", fault=SlowHeaders(60))
    reading = asyncio.create_task(_aborted(ask(server, signal=signal)))
    await asyncio.to_thread(server.wait_for_requests, 1)
    signal.abort()
    assert () == (await reading).content
    await server.disconnected()


async def test_case_54_abort_wins_over_a_pending_read(server: Server) -> None:
    """The stream is open and silent; the reader hangs in it; abort ends it."""
    signal = il.Abort()
    server.say("Once upon a time", fault=Stall(after_events=4))
    stream = ask(server, signal=signal)
    reading = asyncio.create_task(_aborted(stream))
    await until(lambda: stream.partial.text != "")
    signal.abort("stop")
    message = await reading
    assert ("Once", "aborted: stop") == (message.text[:4], message.error_message)
    await server.disconnected()


async def test_case_85_an_aborted_stream_keeps_the_usage_that_is_known(server: Server) -> None:
    """Anthropic tells the input at the beginning: an abort later does not lose it, nor its price."""
    signal = il.Abort()
    usage = il.Usage.of(1000, 50, cache_read=20)
    message = il.AssistantMessage(content=(il.TextBlock(text="Once upon a time"),), usage=usage)
    server.answer(message, fault=Stall(after_events=4))
    stream = ask(server, signal=signal)
    async for event in stream:
        if isinstance(event, TextDelta):
            signal.abort()
    known = (await stream.result()).usage
    assert known is not None
    assert (1000, 20) == (known.input, known.cache_read)
    assert known.output < 50


async def test_case_85_what_is_not_known_is_not_invented(server: Server) -> None:
    """Where the wire tells the usage only at the end, an aborted answer has none."""
    signal = il.Abort()
    server.say("Once upon a time", fault=Stall(after_events=4))
    chat = Client().stream("groq/m", "Hi", **options(server, "openai-completions", signal=signal))
    reading = asyncio.create_task(_aborted(chat))
    await until(lambda: chat.partial.text != "")
    signal.abort()
    assert (await reading).usage is None


async def test_abort_between_two_attempts(server: Server) -> None:
    """The wait before the next attempt ends at once, and there is no next attempt."""
    signal = il.Abort()
    server.answer("late", fault=Status(503, times=9))
    waits: list[float] = []
    patient = Retry(attempts=3, base=60, cap=60)
    stream = ask(server, signal=signal, retry=patient, on_retry=lambda _, seconds: waits.append(seconds))
    reading = asyncio.create_task(_aborted(stream))
    await until(lambda: bool(waits))
    signal.abort()
    await reading
    assert 1 == len(server.requests)
    assert waits[0] >= 30


async def test_leaving_between_two_attempts_ends_the_attempts(server: Server) -> None:
    """Closing the stream while it waits to try again: nobody tries again."""
    server.answer("late", fault=Status(503, times=9))
    waits: list[float] = []
    stream = ask(server, retry=Retry(base=0.2, cap=0.4), on_retry=lambda _, seconds: waits.append(seconds))
    reading = asyncio.create_task(events_of(stream))
    await until(lambda: bool(waits))
    await stream.aclose()
    assert [Start, Error] == [type(event) for event in await reading]
    await asyncio.sleep(0.5)
    assert 1 == len(server.requests)


@pytest.mark.parametrize("at", ["get_api_key", "on_payload", "on_retry"])
async def test_leaving_in_a_callback_sends_nothing_more(server: Server, at: str) -> None:
    """Before the first request, or before the next one: the wait between them ends as well."""
    server.answer("late", fault=Status(503, times=9))

    def leave(*_: Any) -> None:
        stream.leave("enough")

    stream = ask(server, retry=Retry(base=600, cap=600), **{at: leave})
    message = await _aborted(stream)
    assert "enough" == message.error_message
    await asyncio.wait_for(stream.aclose(), 10)
    assert (1 if at == "on_retry" else 0) == len(server.requests)


async def test_abort_from_another_thread(server: Server) -> None:
    """The signal may fire anywhere."""
    signal = il.Abort()
    server.say("Once upon a time", fault=Stall(after_events=4))
    stream = ask(server, signal=signal)
    reading = asyncio.create_task(_aborted(stream))
    await until(lambda: stream.partial.text != "")
    thread = threading.Thread(target=signal.abort, args=("elsewhere",))
    thread.start()
    assert "aborted: elsewhere" == (await reading).error_message
    thread.join()
    await server.disconnected()


async def test_abort_counts_more_than_what_has_already_arrived(server: Server) -> None:
    """The reader is slow and the rest of the answer is here: after the abort none of it is read any more."""
    signal = il.Abort()
    server.say("x" * 5_000_000, chunk=20_000, fault=Split(4096))
    stream = ask(server, signal=signal)
    async for event in stream:
        if isinstance(event, TextDelta):
            signal.abort()
            break
    assert "aborted" == (await stream.result()).stop_reason


async def test_a_cancelled_task_is_an_abort(server: Server) -> None:
    """The cancellation goes on, the connection is closed, and the partial answer is there."""
    server.say("Once upon a time", fault=Stall(after_events=4))
    stream = ask(server)
    reading = asyncio.create_task(stream.result())
    await until(lambda: stream.partial.text != "")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert ("aborted", "cancelled") == ((await stream.result()).stop_reason, (await stream.result()).error_message)
    await server.disconnected()


async def test_a_task_cancelled_while_it_connects_is_an_abort(server: Server) -> None:
    """Before the first byte as well."""
    server.answer("late", fault=SlowHeaders(60))
    stream = ask(server)
    reading = asyncio.create_task(stream.result())
    await asyncio.to_thread(server.wait_for_requests, 1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert "aborted" == (await stream.result()).stop_reason
    await server.disconnected()


async def test_a_signal_that_never_fires_changes_nothing_and_keeps_nothing(server: Server) -> None:
    """Many calls with one signal leave no trace on it."""
    signal = il.Abort()
    client = Client(retry=QUICK)
    for _ in range(50):
        await _all_is_well(ask(server, client=client, signal=signal))
    gc.collect()
    assert {} == signal._callbacks
    assert 0 == len(signal._children or ())


async def _all_is_well(stream: Any) -> None:
    assert "Hi" == (await stream.result()).text


async def test_one_signal_stops_many_calls(server: Server) -> None:
    """All at once."""
    signal = il.Abort()
    server.say("Once upon a time", fault=Stall(after_events=4))
    streams = [ask(server, signal=signal) for _ in range(20)]
    reading = [asyncio.create_task(_aborted(stream)) for stream in streams]
    await until(lambda: all(stream.partial.text for stream in streams), 20)
    signal.abort()
    assert ["aborted"] * 20 == [message.stop_reason for message in await asyncio.gather(*reading)]
    await until(lambda: server.open_streams == 0)


# --- silence ----------------------------------------------------------------------------------------------------------


async def test_case_54_pings_are_no_progress(server: Server) -> None:
    """Pings keep coming and nothing else: the call ends within its idle timeout, as an error worth another try."""
    server.say("Once upon a time", fault=Stall(after_events=4, pings=True, every=0.02))
    stream = ask(server, timeout=Timeouts(first=20, idle=0.4))
    events = await events_of(stream)
    assert [] == faults(events)
    assert isinstance(stream.failure, il.TimedOut)
    assert "no further event within 0.4 s" == (await stream.result()).error_message
    assert "Once" == (await stream.result()).text[:4]
    await server.disconnected()


async def test_the_first_event_has_a_timeout_of_its_own(server: Server) -> None:
    """Slow headers, and pings before the first event, run into it; it may be shorter or longer than the idle one."""
    server.answer("late", fault=SlowHeaders(60), times=1)
    server.say("late", fault=Stall(after_events=0, pings=True, every=0.02))
    for _ in range(2):
        stream = ask(server, timeout=Timeouts(first=0.3, idle=60))
        await stream.result()
        assert isinstance(stream.failure, il.TimedOut)
        assert "no response within 0.3 s" == str(stream.failure)


async def test_an_answer_may_take_longer_than_its_timeouts(server: Server) -> None:
    """They count silence, not length."""
    server.say("a b c d e f g h i j", chunk=1, fault=Pace(0.2))
    stream = ask(server, timeout=Timeouts(first=20, idle=3))
    assert "a b c d e f g h i j" == (await stream.result()).text


async def test_no_timeout_is_possible(server: Server) -> None:
    """None means for ever."""
    server.say("Patience", fault=Stall(after_events=3, seconds=0.3))
    stream = ask(server, timeout=Timeouts(first=None, idle=None))
    assert "Patience" == (await stream.result()).text


async def test_an_error_body_that_never_ends_times_out(server: Server) -> None:
    """The body of a refusal is read under the same watch."""
    server.answer(il.Overloaded("wait", status=529), fault=Stall(after_events=0))
    stream = ask(server, timeout=0.3)
    await stream.result()
    assert isinstance(stream.failure, il.TimedOut)


async def test_a_rate_limit_s_wait_can_be_aborted(server: Server) -> None:
    """Also the wait that a provider asked for."""
    signal = il.Abort()
    server.answer("late", fault=RateLimit(30))
    waits: list[float] = []
    stream = ask(server, signal=signal, retry=3, on_retry=lambda _, seconds: waits.append(seconds))
    reading = asyncio.create_task(_aborted(stream))
    await until(lambda: bool(waits))
    signal.abort()
    await reading
    assert waits[0] >= 30


async def test_a_connector_of_one_s_own_sees_the_abort() -> None:
    """Its options hold a signal that fires with the caller's, with the same reason."""
    signal, seen = il.Abort(), asyncio.Queue[Any]()

    async def stream(model: Any, context: Any, options: Any) -> Any:
        options.signal.on_abort(lambda: seen.put_nowait(options.signal.reason))
        begun.set()
        yield Start()
        await asyncio.Event().wait()

    begun = asyncio.Event()
    reading = asyncio.create_task(_aborted(own(stream).stream("own/m", "Hi", signal=signal)))
    await begun.wait()
    assert seen.empty()
    signal.abort("reason")
    await reading
    assert "reason" == seen.get_nowait()
