"""What `process` does with commands in the background."""

import asyncio
from typing import Any

import pytest

from interlingua.values.errors import ToolInputError


async def test_list_shows_what_runs_and_what_ended(place: Any) -> None:
    """One line per command: id, state, time, name."""
    assert "No commands." == (await place.act("list")).text
    session = await place.start("sleep 60")
    await place.run("exit 4")
    listed = await place.act("list")
    assert ["sleep 60", "exit 4"] == [row["name"] for row in listed.details["sessions"]]
    assert ["running", "failed"] == [row["status"] for row in listed.details["sessions"]]
    assert listed.text.startswith(f"{session}  running")


async def test_poll_gives_what_is_new_and_how_it_ended(place: Any) -> None:
    """Each poll drains; the last one tells the exit code."""
    session = await place.start("echo one; read x; echo two; exit 5")
    assert "one" in await place.read_until(session, "one")
    await place.act("poll", sessionId=session)
    assert "(no new output)\n\n(running)" == (await place.act("poll", sessionId=session)).text
    await place.act("submit", sessionId=session, data="go")
    text = await place.read_until(session, "two")
    assert "one" not in text
    await place.table.get(session).wait(20)
    last = await place.act("poll", sessionId=session)
    assert ("failed", 5) == (last.details["status"], last.details["exitCode"])
    assert last.text.endswith("(exit code 5)")


async def test_poll_never_splits_a_character(place: Any) -> None:
    """Bytes of a character that has not arrived whole wait for the next poll."""
    session = await place.start(r"printf 'a\303'; read x; printf '\244b\n'")
    assert "a" == (await place.read_until(session, "a")).strip()
    await place.act("submit", sessionId=session)
    assert "äb" == (await place.read_until(session, "b")).strip()


async def test_write_feeds_the_input_and_eof_ends_it(place: Any) -> None:
    """`sort` prints when its input ends."""
    session = await place.start("sort")
    await place.act("write", sessionId=session, data="b\na\n")
    assert "Wrote 0 bytes and closed the input." == (await place.act("write", sessionId=session, eof=True)).text
    assert "a\nb" in await place.read_until(session, "b")
    closed = await place.act("write", sessionId=session, data="x")
    assert (True, "failed") == (closed.is_error, closed.details["status"])


async def test_a_terminal_takes_keys_and_lines(place: Any) -> None:
    """An interactive program is driven as a person would."""
    session = await place.start("PS1='ready> ' exec bash --norc --noprofile -i", pty=True)
    await place.act("submit", sessionId=session, data="sh -c 'echo $((40 + 2)); exec sleep 60'")
    await place.read_until(session, "\n42")  # printed by the job itself: an interrupt while bash forks it may be lost
    await place.act("send-keys", sessionId=session, keys=["C-c"])
    await place.read_until(session, "ready> ")  # what is typed before the prompt is back may be flushed
    await place.act(
        "send-keys", sessionId=session, keys=["e", "c", "h", "o", "Space", "o", "k", "7", "BSpace", "Enter"]
    )
    await place.read_until(session, "\nok\n")
    await place.act("send-keys", sessionId=session, keys=["C-d"])
    assert await place.table.get(session).wait(20)


async def test_a_paste_cannot_break_out_of_its_brackets(place: Any) -> None:
    """The closing mark inside pasted text is taken out: what follows it would be typed."""
    session = await place.start("stty -echo raw; echo ready; head -c 23 | od -c", pty=True)
    await place.read_until(session, "ready")
    await place.act("paste", sessionId=session, text="safe\x1b[201~unsafe")
    pasted = await place.act("paste", sessionId=session, text="x", bracketed=False)
    assert "Wrote 1 bytes." == pasted.text
    text = await place.read_until(session, "0000027")
    assert 2 == text.count("033")


async def test_the_log_is_read_by_lines(place: Any) -> None:
    """The last lines without an offset, any lines with one."""
    result = await place.run("seq 1 1000")
    session = result.details["sessionId"]
    last = await place.act("log", sessionId=session)
    assert [str(number) for number in range(801, 1001)] == last.text.split("\n")[:-1]
    assert "[lines 800–999 of 1000]" == last.text.split("\n")[-1]
    some = await place.act("log", sessionId=session, offset=10, limit=2)
    assert "11\n12\n[lines 10–11 of 1000]" == some.text


async def test_kill_ends_and_remove_forgets(place: Any) -> None:
    """A killed command stays in the list until it is removed; clear takes only what has ended."""
    session = await place.start("sleep 60")
    assert (await place.act("clear", sessionId=session)).is_error
    assert not (await place.act("kill", sessionId=session)).is_error
    assert (await place.act("kill", sessionId=session)).is_error
    assert "killed" == place.table.get(session).exit.reason
    other = await place.start("sleep 60")
    assert "Forgot 1 finished commands." == (await place.act("clear")).text
    log = place.table.get(other).output.path
    assert not (await place.act("remove", sessionId=other)).is_error
    assert not log.exists()
    assert "No commands." == (await place.act("list")).text


@pytest.mark.parametrize(
    ("action", "params", "expected"),
    [
        ("poll", {"sessionId": "nobody"}, "no session nobody"),
        ("send-keys", {"keys": ["Enter"]}, "needs a terminal"),
    ],
)
async def test_what_cannot_be_done_is_reported_to_the_model(
    place: Any, action: str, params: dict[str, Any], expected: str
) -> None:
    """A wrong session or a wrong kind of input is a failed result with the reason."""
    session = await place.start("cat")
    result = await place.act(action, **{"sessionId": session, **params})
    assert (True, "failed") == (result.is_error, result.details["status"])
    assert expected in result.text


async def test_nonsense_is_refused(place: Any) -> None:
    """Unknown actions and keys, and actions without their arguments, raise."""
    session = await place.start("cat", pty=True)
    for params in (
        {"action": "explode"},
        {"action": "poll"},
        {"action": "send-keys", "sessionId": session, "keys": ["Hyper-Q"]},
        {"action": "send-keys", "sessionId": session},
        {"action": "paste", "sessionId": session},
        {"action": "log", "sessionId": session, "offset": -1},
    ):
        with pytest.raises(ToolInputError):
            await place.process.execute("call", params)


async def test_a_command_that_does_not_read_does_not_block_us(place: Any) -> None:
    """Writing more than a pipe holds ends after a while with what was taken."""
    session = place.table.get(await place.start("sleep 60"))
    written = await asyncio.wait_for(session.write(b"x" * 1_000_000, seconds=0.3), 20)
    assert 0 < written < 1_000_000
