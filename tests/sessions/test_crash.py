"""kill -9 at random points of real processes: every acknowledged line is there, and the session goes on.

INTERLINGUA_KILLS says how often; the normal run does it a few dozen times.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import interlingua as il
from interlingua.sessions import Session
from interlingua.sessions.repair import examine
from interlingua.sessions.sqlite import sqlite_store
from sessions.making import texts, user

KILLS = int(os.environ.get("INTERLINGUA_KILLS", "50"))

# Runs turns with tools as an agent would, and says each line that was acknowledged.
AGENT = """
import os, sys
import interlingua as il
from interlingua.sessions import Session
where = {"store": sys.argv[2]} if sys.argv[2] else {}
session = Session.open(sys.argv[1], **where)
say = lambda text: os.write(1, (text + "\\n").encode())
for unfinished in session.unfinished_calls():
    session.append(il.ToolResultMessage(tool_call_id=unfinished.call.id, content="unknown", is_error=True))
turn = len(session.messages)
say("ready")
while True:
    turn += 1
    say(session.append(il.UserMessage(content="?" + "q" * (turn % 50 * 40))).id)
    call = il.ToolCall(id=f"c{turn}", name="run", arguments={"n": turn})
    ids = [session.append(il.AssistantMessage(content=(call,), stop_reason="toolUse")).id]
    session.journal("tool_start", call_id=call.id, name="run")
    ids.append(session.append(il.ToolResultMessage(tool_call_id=call.id, content="r" * 2000, is_error=False)).id)
    session.journal("tool_end", call_id=call.id, name="run")
    if turn % 7 == 0:
        session.rewind(ids[0])
        session.append(il.ToolResultMessage(tool_call_id=call.id, content="again", is_error=False))
    if turn % 11 == 0:
        session.compact("so far", ids[0])
    say("\\n".join(ids))
"""


def run_and_kill(name: str, store: str, chance: random.Random) -> list[str]:
    """Starts the agent, kills it at some moment, and gives the ids that it had been promised."""
    with subprocess.Popen([sys.executable, "-c", AGENT, name, store], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"ready\n" == process.stdout.readline()
        time.sleep(chance.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        parse_place = process.stdout.read().decode()
    return parse_place[: parse_place.rfind("\n") + 1].split()


LIVES = 5  # of one session


@pytest.mark.parametrize("seed", range(-(-KILLS // LIVES)))
def test_every_acknowledged_line_survives_a_kill(tmp_path: Path, seed: int) -> None:
    """Each life begins where the last ended; after each, the file is whole, paired but for the call under way."""
    path, chance, promised = tmp_path / "x.jsonl", random.Random(seed), set[str]()
    for _ in range(LIVES):
        promised.update(run_and_kill(str(path), "", chance))
        with Session.open(path) as session:
            assert promised <= {entry.id for entry in session.entries()}
            assert [] == [
                problem for problem in session.problems if problem.line and "truncated" not in problem.message
            ]
            assert len(session.unfinished_calls()) <= 1
            request = il.Conversation(entries=session.context_entries()).request()
            assert il.adapt(request, "anthropic-messages").request.context.messages or not promised
    assert {"call"} >= {finding.what for finding in examine(path.read_bytes()).findings}
    assert promised


@pytest.mark.skipif(sys.platform == "win32", reason="kills processes as POSIX does")
def test_sqlite_survives_a_kill_as_well(tmp_path: Path) -> None:
    """The same, in a database."""
    place, chance, promised = tmp_path / "s.db", random.Random(8), set[str]()
    for _ in range(max(5, KILLS // 10)):
        promised.update(run_and_kill("s", f"sqlite:{place}", chance))
        store = sqlite_store(place)
        with Session.open("s", store=store) as session:
            assert promised <= {entry.id for entry in session.entries()}
            assert () == session.problems
        store.close()


def test_a_kill_in_the_middle_of_a_write_is_mended(tmp_path: Path) -> None:
    """What a dying kernel may leave: half of the last line, at any length."""
    path = tmp_path / "x.jsonl"
    with Session.open(path) as session:
        session.append(user("whole"))
    for size in (1, 2, 17, 100, 5000):
        with path.open("ab") as stream:
            stream.write((b'{"role":"user","content":"' + b"h" * 6000)[:size])
        with Session.open(path) as session:
            session.append(user(f"after {size}"))
    with Session.open(path) as session:
        assert ["whole", *(f"after {size}" for size in (1, 2, 17, 100, 5000))] == texts(session.messages)
