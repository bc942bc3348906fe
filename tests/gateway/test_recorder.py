"""The recorder process: killed, stopped, out of disk space, one of two; every skipped exchange is reported."""

import asyncio
import os
import resource
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import interlingua as il
from gateway.stores import exchange
from gateway.test_recording import KEY, answer, echo, record, recorder, sessions, turn
from interlingua.gateway import Listen, Settings
from interlingua.gateway import recorder as recorder_module
from interlingua.gateway.exchange import Exchange
from interlingua.gateway.recorder import Recorder, recorder_of
from interlingua.gateway.recording import AGENT, _message_of, decode_record, encode_record
from interlingua.gateway.service import Service
from interlingua.gateway.settings_file import RecordingSettings, ServeSettings
from interlingua.sessions import Session, store_at
from interlingua.values.messages import CustomMessage, ToolCall, UserMessage
from interlingua.values.request import Context, Request


def questions(*numbers: int) -> list[Exchange]:
    """Conversations of one turn each."""
    return [turn([f"question {number}"], answer(f"answer {number}")) for number in numbers]


def texts(home: Path) -> list[str]:
    """The recorded questions; one that is there twice is twice in it."""
    found = []
    for session in sessions(home):
        found += [m.content for m in session.messages if isinstance(m, UserMessage) and isinstance(m.content, str)]
    return sorted(found)


def expected(*numbers: int) -> list[str]:
    return sorted(f"question {number}" for number in numbers)


async def started(made: Recorder) -> int:
    """The process id of a recorder that has written something."""
    await made.observe(turn(["question 0"], answer("answer 0")))
    await asyncio.wait_for(made.flush(), 30)
    assert made._process is not None
    return made._process.pid


async def successor(made: Recorder, before: int) -> int:
    """The process id of the recorder after this one."""
    async with asyncio.timeout(30):
        while made._process is None or made._process.pid == before:
            await asyncio.sleep(0.01)
    return made._process.pid


async def test_a_killed_recorder_is_restarted_and_gets_what_it_had_not_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost or written twice; the restart is logged and counted."""
    counted: list[str] = []
    made = recorder_of(RecordingSettings(enabled=True, home=str(tmp_path)), counted.append)
    assert made is not None
    pid = await started(made)
    os.kill(pid, signal.SIGSTOP)  # the next ones are sent, and not acknowledged
    for one in questions(1, 2, 3):
        await made.observe(one)
    await made.written()
    os.kill(pid, signal.SIGKILL)
    for one in questions(4, 5):
        await made.observe(one)
    await asyncio.wait_for(made.close(), 30)
    assert expected(0, 1, 2, 3, 4, 5) == texts(tmp_path)
    assert all(2 == session.line_count - 1 for session in sessions(tmp_path))
    assert ["restart"] == counted
    assert "the recorder exited with signal 9; restarting, 5 exchanges are sent again" in caplog.text


async def test_an_exchange_at_which_the_recorder_crashes_repeatedly_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are recorded."""
    counted: list[str] = []
    made = recorder_of(RecordingSettings(enabled=True, home=str(tmp_path)), counted.append)
    assert made is not None
    pid = await started(made)
    os.kill(pid, signal.SIGSTOP)
    for one in questions(1, 2):
        await made.observe(one)
    os.kill(pid, signal.SIGKILL)
    for _ in range(recorder_module.DEATHS):
        pid = await successor(made, pid)
        os.kill(pid, signal.SIGKILL)
    await asyncio.wait_for(made.close(), 60)
    assert expected(0, 2) == texts(tmp_path)
    assert 1 == counted.count("crashed")
    assert "x1 is not recorded: the recorder crashed 3 times at it" in caplog.text


async def test_signals_that_end_a_gateway_do_not_end_its_recorder(tmp_path: Path) -> None:
    """The gateway drains first; what it still has to record comes after the signal."""
    made = recorder(tmp_path)
    pid = await started(made)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    for one in questions(1):
        await made.observe(one)
    await asyncio.wait_for(made.close(), 30)
    assert expected(0, 1) == texts(tmp_path)
    assert 0 == made.restarts


async def test_exchanges_are_skipped_while_the_disk_is_full_and_each_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Sessions stay readable, and recording continues when there is space again."""
    counted: list[str] = []
    made = recorder_of(RecordingSettings(enabled=True, home=str(tmp_path)), counted.append)
    assert made is not None
    pid = await started(made)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
    for one in questions(1, 2):
        await made.observe(one)
    await asyncio.wait_for(made.flush(), 30)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    for one in questions(3):
        await made.observe(one)
    await asyncio.wait_for(made.close(), 30)
    assert expected(0, 3) == texts(tmp_path)
    assert ["failed", "failed"] == counted
    assert 2 == caplog.text.count("x1 is not recorded: ")


async def test_requests_wait_for_a_slow_recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit `catch_up` waits; nothing is skipped."""
    monkeypatch.setattr(recorder_module, "MAX_UNACKNOWLEDGED", 3)
    made = recorder(tmp_path)
    pid = await started(made)
    assert 0 == made.backlog
    os.kill(pid, signal.SIGSTOP)
    for one in questions(1, 2, 3, 4):
        await made.observe(one)
    assert 1000 < made.backlog
    waiting = asyncio.ensure_future(made.catch_up())
    await asyncio.sleep(0.2)
    assert not waiting.done()
    os.kill(pid, signal.SIGCONT)
    await asyncio.wait_for(waiting, 30)
    await asyncio.wait_for(made.close(), 30)
    assert expected(0, 1, 2, 3, 4) == texts(tmp_path)


async def test_a_recorder_that_hangs_does_not_stop_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a timeout exchanges are skipped, logged and counted, until it responds."""
    monkeypatch.setattr(recorder_module, "STALLED", 0.3)
    monkeypatch.setattr(recorder_module, "MAX_UNACKNOWLEDGED", 1)
    counted: list[str] = []
    made = recorder_of(RecordingSettings(enabled=True, home=str(tmp_path)), counted.append)
    assert made is not None
    monkeypatch.setattr(recorder_module, "STALLED", 30.0)
    pid = await started(made)
    monkeypatch.setattr(recorder_module, "STALLED", 0.3)
    os.kill(pid, signal.SIGSTOP)
    for one in questions(1, 2):
        await made.observe(one)
    await asyncio.wait_for(made.catch_up(), 10)
    for one in questions(3, 4):
        await made.observe(one)
    assert 0 == made.backlog
    assert ["stalled", "stalled"] == counted
    os.kill(pid, signal.SIGCONT)
    async with asyncio.timeout(30):
        while made.waiting:
            await asyncio.sleep(0.01)
    for one in questions(5):
        await made.observe(one)
    monkeypatch.setattr(recorder_module, "STALLED", 30.0)
    await asyncio.wait_for(made.close(), 30)
    assert expected(0, 1, 2, 5) == texts(tmp_path)
    assert "no response from the recorder for 0.3 s" in caplog.text
    assert "the recorder responds again; 2 exchanges were not recorded" in caplog.text


async def test_two_workers_record_one_conversation(tmp_path: Path) -> None:
    """Its turns come to either worker; each recorder waits until the other has closed the session."""
    one, other = recorder(tmp_path), recorder(tmp_path)
    messages: list[Any] = []
    for number in range(4):
        reply = answer(f"answer {number}")
        messages.append(f"question {number}")
        made = (one, other)[number % 2]
        await made.observe(turn(list(messages), reply))
        await asyncio.wait_for(made.flush(), 30)
        messages.append(echo(reply))
    await asyncio.gather(one.close(), other.close())
    (session,) = sessions(tmp_path)
    assert 8 == len(session.messages) == len(list(session.entries()))
    assert all("gateway" in entry.extra["interlingua"] for entry in list(session.entries())[1::2])


async def test_a_session_that_is_deleted_meanwhile_is_begun_anew(tmp_path: Path) -> None:
    """What the recorder has open is not what is at its place any more."""
    made = recorder(tmp_path)
    first = answer("Hi.")
    await made.observe(turn(["Hello"], first))
    await asyncio.wait_for(made.flush(), 30)
    for path in tmp_path.rglob("*.jsonl"):
        path.unlink()
    await made.observe(turn(["Hello", echo(first), "More"], answer("Sure.")))
    await asyncio.wait_for(made.close(), 30)
    (session,) = sessions(tmp_path)
    assert 4 == len(session.messages)


async def test_the_same_turn_again_adds_nothing_to_the_file(tmp_path: Path) -> None:
    """A question that is asked all the time does not make its session grow."""
    await record(tmp_path, *[turn(["Hello"], answer("Hi.")) for _ in range(20)])
    (session,) = sessions(tmp_path)
    assert 3 == session.line_count


async def test_a_database_is_recorded_to_as_well(tmp_path: Path) -> None:
    """Each append is a transaction; conversations continue, and repeated turns add nothing."""
    address = f"sqlite:{tmp_path / 'records.db'}"
    made = recorder_of(RecordingSettings(enabled=True, store=address))
    assert made is not None
    first = answer("Hi.")
    for one in (turn(["Hello"], first), turn(["Hello", echo(first), "More"], answer("Sure.")), *questions(1, 2)):
        await made.observe(one)
    await asyncio.wait_for(made.close(), 30)
    store = store_at(address)
    lengths = []
    for info in store.sessions(AGENT):
        with Session.open(info.id, agent=AGENT, store=store, read_only=True) as session:
            lengths.append(len(session.messages))
    store.close()
    assert [2, 2, 4] == sorted(lengths)


@pytest.mark.parametrize(
    "message",
    [
        UserMessage(content="plain"),
        CustomMessage("weather", {"sky": "clear", "number": 1 << 80}),
        CustomMessage("user", {"content": "not a user's"}),
        il.AssistantMessage(content=(ToolCall(id="t", name="f", arguments={"n": 1 << 80, "x": [None, 1.5]}),)),
        il.ToolResultMessage(tool_call_id="t", tool_name="f", content="ok", is_error=False),
        UserMessage(content=(il.TextBlock(text="x", extra={"interlingua": {"new": 1}}),)),
        UserMessage(content=(il.OpaqueBlock(dialect="interlingua", value={"type": "future", "a": 1}),)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_every_message_reaches_the_recorder_as_it_was(message: Any) -> None:
    """Custom roles, unknown fields and blocks, integers of any size."""
    request = Request(model=il.ModelDescriptor(id="m"), context=Context(messages=(message,)))
    made = exchange(KEY, request=request, response=answer("Hi."), attempts=1, status=200)
    received = decode_record(encode_record(7, made))
    assert (7, "x1", "ci") == (received.number, received.id, received.key)
    assert [message, answer("Hi.")] == [_message_of(raw) for raw in received.messages]


async def test_the_numbers_have_what_is_not_recorded_and_a_reload_changes_nothing(tmp_path: Path) -> None:
    """As `interlingua serve` runs it: `/metrics` has the reasons; recording goes on after the file was read again."""
    config = tmp_path / "gateway.toml"
    config.write_text("")
    home = tmp_path / "home"
    settings = ServeSettings(
        gateway=Settings(listen=Listen(port=0)), recording=RecordingSettings(enabled=True, home=str(home))
    )
    async with Service(settings, tmp_path, config=config) as service, aiohttp.ClientSession() as client:

        async def ask(text: str) -> None:
            body = {"model": "debug/echo", "max_tokens": 50, "messages": [{"role": "user", "content": text}]}
            async with client.post(f"{service.gateway.url}/v1/messages", json=body) as response:
                assert 200 == response.status, await response.text()

        recorder = service.recorder
        assert recorder is not None
        await ask("one")
        await asyncio.wait_for(recorder.flush(), 30)
        assert recorder._process is not None
        pid = recorder._process.pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        await ask("two")
        await asyncio.wait_for(recorder.flush(), 30)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        config.write_text("open_models = true\n")
        assert await service.reload()
        await ask("three")
        await asyncio.wait_for(recorder.flush(), 30)
        numbers = service.metrics.exposition().decode()
    assert 'interlingua_gateway_unrecorded_total{reason="failed"} 1\n' in numbers
    assert "interlingua_gateway_unwritten_records 0\n" in numbers
    assert ["one", "three"] == texts(home)
