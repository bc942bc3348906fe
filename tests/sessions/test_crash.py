"""kill -9 at random points of real processes: every acknowledged line is there, and the session goes on.

INTERLINGUA_KILLS says how often; the normal run does it a few dozen times.
"""

import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.sessions import Session, SessionBusy
from interlingua.sessions.repair import examine
from interlingua.sessions.session import store_at
from sessions.making import texts, user

ROOT = Path(__file__).parents[2]
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
        time.sleep(chance.uniform(0, 0.3 if store else 0.03))  # a database takes longer for a line
        process.send_signal(signal.SIGKILL)
        parse_place = process.stdout.read().decode()
    return parse_place[: parse_place.rfind("\n") + 1].split()


LIVES = 5  # of one session
TORN = ("the last line was truncated", "the last line had no newline")  # a kill may end a write before any byte


@pytest.mark.parametrize("seed", range(-(-KILLS // LIVES)))
def test_every_acknowledged_line_survives_a_kill(tmp_path: Path, seed: int, record_property: Any) -> None:
    """Each life begins where the last ended; after each, the file is whole, paired but for the call under way."""
    path, chance, promised = tmp_path / "x.jsonl", random.Random(seed), set[str]()
    for _ in range(LIVES):
        promised.update(run_and_kill(str(path), "", chance))
        with Session.open(path) as session:
            check(session, promised, record_property)
            assert all(problem.message.startswith(TORN) for problem in session.problems if problem.line)
            assert len(session.unfinished_calls()) <= 1
            request = il.Conversation(entries=session.context_entries()).request()
            assert il.adapt(request, "anthropic-messages").request.context.messages or not promised
    assert {"call"} >= {finding.what for finding in examine(path.read_bytes()).findings}
    assert promised


@pytest.mark.skipif(sys.platform == "win32", reason="kills processes as POSIX does")
def test_sqlite_survives_a_kill_as_well(tmp_path: Path, record_property: Any) -> None:
    """The same, in a database."""
    survive(f"sqlite:{tmp_path}/s.db", record_property)


@pytest.mark.skipif(not shutil.which("initdb") or sys.platform == "win32", reason="no PostgreSQL server is installed")
def test_postgresql_survives_a_kill_as_well(record_property: Any) -> None:
    """The same, on a server that goes on."""
    spec = importlib.util.spec_from_file_location("postgres_sessions", ROOT / "interop/postgres_sessions.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    place = module.programs()
    assert place is not None
    with module.server(place) as address:
        survive(address, record_property)


def survive(address: str, record_property: Any) -> None:
    """Kills the agent of one session of a database again and again, and looks at the session after each."""
    chance, promised = random.Random(8), set[str]()
    store = store_at(address)
    for _ in range(max(5, KILLS if "INTERLINGUA_KILLS" in os.environ else 5)):
        promised.update(run_and_kill("s", address, chance))
        session = until_free(store)
        check(session, promised, record_property)
        assert () == session.problems
        session.close()
    store.close()


def until_free(store: Any) -> Session:
    """The session for writing: a server notices a moment later that a client died."""
    for _ in range(200):
        try:
            return Session.open("s", store=store)
        except SessionBusy:
            time.sleep(0.05)
    raise AssertionError("the session of a killed writer stayed busy")


def check(session: Session, promised: set[str], record_property: Any) -> None:
    """Each promised line is there, once; the table of `make crash` adds up what is recorded."""
    there = Counter(entry.id for entry in session.entries())
    lost = [id for id in promised if id not in there]
    doubled = [id for id, times in there.items() if times > 1]
    for name, value in (("kills", 1), ("lost", len(lost)), ("doubled", len(doubled)), ("acknowledged", len(promised))):
        record_property(name, value)
    assert ([], []) == (lost, doubled)


def test_a_kill_in_the_middle_of_a_write_is_repaired(tmp_path: Path) -> None:
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
