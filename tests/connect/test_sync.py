"""The same calls without an event loop: as good as the others."""

import asyncio
import gc
import os
import signal as signals
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import interlingua as il
from connect.talking import API, KEY, options
from interlingua import sync
from interlingua.connect.blocking import SyncStream, run
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.stream import Timeouts
from interlingua.testing import Pace, Server, SlowHeaders, Stall
from interlingua.values.events import Done, Error, TextDelta
from interlingua.values.folding import unfold
from laws.grammar import faults

MODEL = "anthropic/test-model"


@pytest.fixture
def server() -> Any:
    with Server(chunk=4) as running:
        yield running
    sync.close()


def test_complete_and_stream(server: Server) -> None:
    """The message; the events in a plain loop; the result, the partial, the losses."""
    server.say("Hello there", thinking="Hm.")
    assert "Hello there" == sync.complete(MODEL, "Hi", **options(server)).text
    stream = sync.stream(MODEL, "Hi", **options(server))
    assert () == stream.partial.content
    events = list(stream)
    assert [] == faults(events)
    assert isinstance(events[-1], Done)
    assert events[-1].message is stream.message is stream.result() is stream.partial
    assert stream.failure is None
    assert "$.options.maxTokens" in [loss.path for loss in stream.losses]


class Burst:
    """A transport whose answer arrives at once: text in very many pieces."""

    status = 200
    headers = {"Content-Type": "text/event-stream"}
    ended = True
    PIECES = 2000

    async def send(self, *_: Any) -> "Burst":
        encoder = il.dialect(API).StreamEncoder()
        message = il.AssistantMessage(content=(il.TextBlock(text="x" * self.PIECES),), stop_reason="stop")
        self._body = b"".join(map(encoder.feed, unfold(message, size=1)))
        return self

    async def chunk(self) -> bytes:
        body, self._body = self._body, b""
        return body

    def close(self) -> None:
        pass


@pytest.mark.parametrize("driven", [True, False], ids=["sync", "async"])
def test_the_first_event_does_not_wait_for_the_rest_of_a_burst(driven: bool) -> None:
    """It is handed out when it is decoded; what arrived behind it is decoded when somebody asks for more."""
    stream = Client(transport=Burst()).stream(MODEL, "Hi", api_key=KEY)
    if driven:
        reader = iter(SyncStream(stream))
        events = [next(reader)]
        waiting = stream.waiting
        events += reader
    else:

        async def read() -> tuple[list[Any], int]:
            reader = aiter(stream)
            first = await anext(reader)
            waiting = stream.waiting
            return [first, *[event async for event in reader]], waiting

        events, waiting = run(read())
    assert Burst.PIECES == sum(isinstance(event, TextDelta) for event in events)
    assert waiting < Burst.PIECES / 10
    sync.close()


def test_a_failure_is_raised_by_complete_and_told_by_stream(server: Server) -> None:
    """Typed, with the partial answer."""
    server.answer(il.AuthFailed("no", status=401))
    with pytest.raises(il.AuthFailed) as raised:
        sync.complete(MODEL, "Hi", **options(server))
    assert "error" == raised.value.partial.stop_reason
    stream = sync.stream(MODEL, "Hi", **options(server))
    assert isinstance(list(stream)[-1], Error)
    assert isinstance(stream.failure, il.AuthFailed)


def _break(stream: sync.SyncStream) -> None:
    for event in stream:
        if isinstance(event, TextDelta):
            break


def _raise(stream: sync.SyncStream) -> None:
    with pytest.raises(ZeroDivisionError):
        for event in stream:
            if isinstance(event, TextDelta):
                raise ZeroDivisionError


def _close(stream: sync.SyncStream) -> None:
    reader = iter(stream)
    while not isinstance(next(reader), TextDelta):
        pass
    stream.close()


def _with(stream: sync.SyncStream) -> None:
    with stream:
        reader = iter(stream)
        while not isinstance(next(reader), TextDelta):
            pass


def _forget(stream: sync.SyncStream) -> None:
    reader = iter(stream)
    while not isinstance(next(reader), TextDelta):
        pass
    del reader
    gc.collect()


@pytest.mark.parametrize("leave", [_break, _raise, _close, _with, _forget], ids=lambda way: way.__name__.strip("_"))
def test_case_91_leaving_a_plain_loop_closes_the_connection(server: Server, leave: Any) -> None:
    """However it is left."""
    server.say("Once upon a time", fault=Stall(after_events=4))
    stream = sync.stream(MODEL, "Hi", **options(server))
    leave(stream)
    server.wait_for_disconnect(timeout=60)
    assert ("aborted", "Once") == (stream.result().stop_reason, stream.result().text[:4])


def _read_on_and_close(stream: sync.SyncStream) -> None:
    reader = iter(stream)
    next(reader)
    stream.close()
    reader.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("leave", [_break, _read_on_and_close], ids=lambda way: way.__name__.strip("_"))
def test_leaving_a_stream_leaves_no_task(leave: Any) -> None:
    """Nothing goes on behind the back of a reader that has left."""

    async def tasks() -> list[str]:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        return [str(task.get_coro()) for task in rest]

    client = Client(connectors=ConnectorRegistry([DebugConnector([Step(text="x" * 6000, chunk=1)])]))
    try:
        for _ in range(3):
            leave(sync.SyncStream(client.stream("debug/script", "Hi")))
        assert [] == sync.run(tasks())
    finally:
        sync.close()


def test_the_thread_that_waits_does_the_work(server: Server) -> None:
    """No event passes from one thread to another: there is no other."""
    server.say("a b c d e f g h", chunk=1, fault=Pace(0.002))
    before, seen = threading.active_count(), set[int]()
    stream = sync.stream(MODEL, "Hi", **options(server, on_response=lambda *_: seen.add(threading.get_ident())))
    counts = {threading.active_count() for _ in stream}
    assert "a b c d e f g h" == stream.result().text
    assert {threading.get_ident()} == seen
    assert {before} == counts


def test_one_call_after_another_uses_one_connection(server: Server) -> None:
    """Also when a stream is among them."""
    for _ in range(3):
        sync.complete(MODEL, "Hi", **options(server))
        list(sync.stream(MODEL, "Hi", **options(server)))
    assert 1 == server.open_connections


def test_two_streams_in_turn(server: Server) -> None:
    """One thread may read two answers at once."""
    server.say("a b c d e f g h", chunk=2)
    streams = [sync.stream(MODEL, "Hi", **options(server)) for _ in range(2)]
    pairs = list(zip(*streams, strict=True))
    assert ["a b c d e f g h"] * 2 == [stream.result().text for stream in streams]
    assert [] == faults([first for first, _ in pairs]) == faults([second for _, second in pairs])


def test_a_reader_that_takes_its_time_is_no_silence(server: Server) -> None:
    """While nobody waits for an event, no timeout counts."""
    server.say("Once upon a time", fault=Stall(after_events=4, seconds=0.05))
    stream = sync.stream(MODEL, "Hi", **options(server, timeout=Timeouts(first=20, idle=1)))
    for event in stream:
        if isinstance(event, TextDelta):
            time.sleep(1.5)
    assert "Once upon a time" == stream.result().text


def test_a_connection_that_was_closed_meanwhile_is_not_used_again() -> None:
    """Nobody watches the connections between two calls; the next call notices first."""
    with Server() as first:
        sync.complete(MODEL, "Hi", **options(first))
        port = int(first.url.rpartition(":")[2])
    with Server(port=port) as second:
        assert "Hi" == sync.complete(MODEL, "Hi", **options(second)).text
    sync.close()


def test_abort_from_another_thread(server: Server) -> None:
    """A thread that is blocked in the loop is set free."""
    signal = il.Abort()
    server.say("Once upon a time", fault=Stall(after_events=4))
    timer = threading.Timer(0.2, signal.abort, ("enough",))
    timer.start()
    stream = sync.stream(MODEL, "Hi", **options(server, signal=signal))
    events = list(stream)
    timer.join()
    assert [] == faults(events)
    assert "aborted: enough" == stream.result().error_message
    server.wait_for_disconnect()


def test_many_threads_may_call(server: Server) -> None:
    """Twenty threads, all answers right, and no more connections than threads."""
    texts: dict[int, list[str]] = {}

    def ask(number: int) -> None:
        texts[number] = [sync.complete(MODEL, f"I am {number}", **options(server)).text for _ in range(3)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: [f"I am {number}"] * 3 for number in range(20)} == texts
    assert server.open_connections <= 20


def test_one_thread_loops_while_another_waits_for_the_result(server: Server) -> None:
    """Neither takes anything from the other."""
    server.say("a b c d e f g h", chunk=2, fault=Stall(after_events=4, seconds=0.2))
    stream = sync.stream(MODEL, "Hi", **options(server))
    results: list[il.AssistantMessage] = []
    events = iter(stream)
    seen = [next(events)]
    waiting = threading.Thread(target=lambda: results.append(stream.result()))
    waiting.start()
    seen += list(events)
    waiting.join()
    assert [] == faults(seen)
    assert [stream.message] == results


async def test_from_inside_a_running_loop(server: Server) -> None:
    """It blocks that loop, as any blocking call does, but it works."""
    assert "Hi" == sync.complete(MODEL, "Hi", **options(server)).text
    assert "Hi" == (await asyncio.to_thread(sync.complete, MODEL, "Hi", **options(server))).text


def test_a_callback_may_make_a_sync_call(server: Server) -> None:
    """It blocks the call that it belongs to, as any blocking call does, but it works."""
    texts: list[str] = []
    callback = lambda *_: texts.append(sync.complete("debug/parrot-1", "Hi").text)  # noqa: E731
    stream = sync.stream(MODEL, "Hi", **options(server, on_response=callback))
    assert ("Hi", ["Hi"]) == (stream.result().text, texts)


def test_close_closes_all_connections_and_the_next_call_begins_anew(server: Server) -> None:
    """Nothing of the first is left; a stream that was open then ends as cut off."""
    sync.complete(MODEL, "Hi", **options(server))
    server.say("Once upon a time", fault=Stall(after_events=4), times=1)
    stream = sync.stream(MODEL, "Hi", **options(server))
    events = iter(stream)
    next(events)
    sync.close()
    sync.close()
    assert isinstance([*events][-1], Error)
    end = time.monotonic() + 20
    while server.open_connections and time.monotonic() < end:
        time.sleep(0.01)
    assert 0 == server.open_connections
    server.say("Hi")
    assert "Hi" == sync.complete(MODEL, "Hi", **options(server)).text


PREAMBLE = f"""
import os, signal, sys, threading, time
import interlingua as il
from interlingua import sync
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have its background jobs ignore it
model = il.ModelDescriptor(id="m", api="{API}", provider="mine", base_url=sys.argv[1])
"""


def _started(program: str, server: Server) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PREAMBLE + program, server.base_url(API)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ANTHROPIC_API_KEY": KEY},
    )


def _run(program: str, server: Server) -> tuple[str, str, int]:
    with _started(program, server) as process:
        out, err = process.communicate(timeout=60)
    return out, err, process.returncode


@pytest.mark.skipif(not hasattr(signals, "SIGINT") or sys.platform == "win32", reason="signals are a matter of POSIX")
@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ("stream", Stall(after_events=4)),
        ("stream", SlowHeaders(60)),
        ("complete", Stall(after_events=0)),
        ("complete", SlowHeaders(60)),
    ],
    ids=["stream, in the middle", "stream, before", "complete, in the middle", "complete, before"],
)
def test_ctrl_c_ends_a_call(server: Server, fault: Any, how: str) -> None:
    """KeyboardInterrupt comes through, and the connection is closed."""
    server.say("Once upon a time", fault=fault)
    program = """
stream = sync.stream(model, "Hi", retry=0)
try:
    if HOW == "complete":
        sync.complete(model, "Hi", retry=0)
    for event in stream:
        pass
except KeyboardInterrupt:
    print("interrupted", stream.result().stop_reason if HOW == "stream" else "aborted")
""".replace("HOW", repr(how))
    with _started(program, server) as process:
        server.wait_for_requests(1, 30)
        process.send_signal(signals.SIGINT)
        assert ("interrupted aborted\n", "") == process.communicate(timeout=60)
    server.wait_for_disconnect()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_after_a_fork_both_go_on(server: Server) -> None:
    """The child gets a loop and connections of its own; the parent keeps its."""
    program = """
print(sync.complete(model, "before").text, flush=True)
child = os.fork()
if child == 0:
    print(sync.complete(model, "child").text, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(sync.complete(model, "parent").text, flush=True)
"""
    assert ("before\nchild\nparent\n", "", 0) == _run(program, server)


def test_a_program_may_end_in_the_middle_of_a_stream(server: Server) -> None:
    """A stream that is still open when the interpreter ends holds nothing up."""
    server.say("Once upon a time", fault=Stall(after_events=4))
    program = """
kept = iter(sync.stream(model, "Hi"))
next(kept)
class Cycle: pass
cycle = Cycle()
cycle.me, cycle.kept = cycle, iter(sync.stream(model, "Hi"))
next(cycle.kept)
print("end", flush=True)
"""
    assert ("end\n", "", 0) == _run(program, server)
