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
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.testing import Server, SlowHeaders, Stall
from interlingua.values.events import Done, Error, TextDelta
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


def test_a_failure_is_raised_by_complete_and_told_by_stream(server: Server) -> None:
    """Typed, with the partial answer."""
    server.answer(il.AuthFailed("no", status=401))
    with pytest.raises(il.AuthFailed) as raised:
        sync.complete(MODEL, "Hi", **options(server))
    assert "error" == raised.value.partial.stop_reason
    stream = sync.stream(MODEL, "Hi", **options(server))
    assert isinstance(list(stream)[-1], Error)
    assert isinstance(stream.failure, il.AuthFailed)


def _break(stream: sync.Stream) -> None:
    for event in stream:
        if isinstance(event, TextDelta):
            break


def _raise(stream: sync.Stream) -> None:
    with pytest.raises(ZeroDivisionError):
        for event in stream:
            if isinstance(event, TextDelta):
                raise ZeroDivisionError


def _close(stream: sync.Stream) -> None:
    reader = iter(stream)
    while not isinstance(next(reader), TextDelta):
        pass
    stream.close()


def _with(stream: sync.Stream) -> None:
    with stream:
        reader = iter(stream)
        while not isinstance(next(reader), TextDelta):
            pass


def _forget(stream: sync.Stream) -> None:
    reader = iter(stream)
    while not isinstance(next(reader), TextDelta):
        pass
    del reader
    gc.collect()


@pytest.mark.parametrize("leave", [_break, _raise, _close, _with, _forget], ids=lambda way: way.__name__.strip("_"))
def test_case_91_leaving_a_plain_loop_closes_the_connection(server: Server, leave: Any) -> None:
    """However it is left; at once."""
    server.say("Once upon a time", fault=Stall(after_events=4))
    stream = sync.stream(MODEL, "Hi", **options(server))
    leave(stream)
    left = time.monotonic()
    assert server.wait_for_disconnect().time - left < 1
    assert ("aborted", "Once") == (stream.result().stop_reason, stream.result().text[:4])


def _break_far_behind(stream: sync.Stream) -> None:
    for _ in stream:
        _until_it_waits_for_room(stream)
        break


def _read_on_and_close(stream: sync.Stream) -> None:
    reader = iter(stream)
    next(reader)
    _until_it_waits_for_room(stream)
    stream.close()
    reader.close()  # type: ignore[attr-defined]


def _until_it_waits_for_room(stream: sync.Stream) -> None:
    end = time.monotonic() + 20
    while not stream._paused:
        assert time.monotonic() < end, "it never got ahead"
        time.sleep(0.005)


@pytest.mark.parametrize("leave", [_break_far_behind, _read_on_and_close], ids=lambda way: way.__name__.strip("_"))
def test_leaving_a_stream_that_is_far_ahead_leaves_no_task(leave: Any) -> None:
    """What brings the events waits for a slow reader, and does not wait for one that has left."""

    async def tasks() -> list[str]:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        return [str(task.get_coro()) for task in rest]

    client = Client(connectors=ConnectorRegistry([DebugConnector([Step(text="x" * 6000, chunk=1)])]))
    try:
        for _ in range(3):
            leave(sync.Stream(client.stream("debug/script", "Hi")))
        end = time.monotonic() + 20
        while (left := sync.run(tasks())) and time.monotonic() < end:
            time.sleep(0.01)
        assert [] == left
    finally:
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


def test_many_threads_share_one_loop(server: Server) -> None:
    """Twenty threads, one driver, all answers right."""
    texts: dict[int, list[str]] = {}

    def ask(number: int) -> None:
        texts[number] = [sync.complete(MODEL, f"I am {number}", **options(server)).text for _ in range(3)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: [f"I am {number}"] * 3 for number in range(20)} == texts
    assert 1 == sum(thread.name == "interlingua-sync" for thread in threading.enumerate())


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


def test_a_callback_cannot_wait_for_another_sync_call(server: Server) -> None:
    """It would wait for itself for ever: it is told instead."""

    def callback(*_: Any) -> None:
        sync.complete("debug/parrot-1", "Hi")

    stream = sync.stream(MODEL, "Hi", **options(server, on_response=callback))
    assert "wait for itself" in (stream.result().error_message or "")


def test_closing_the_driver_ends_its_thread_and_the_next_call_begins_another(server: Server) -> None:
    """Nothing of the first is left."""
    sync.complete(MODEL, "Hi", **options(server))
    sync.close()
    sync.close()
    assert not any(thread.name == "interlingua-sync" for thread in threading.enumerate())
    time.sleep(0.05)
    assert 0 == server.open_connections
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
    started = time.monotonic()
    assert ("end\n", "", 0) == _run(program, server)
    assert time.monotonic() - started < 30
