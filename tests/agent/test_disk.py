"""A disk that fails in the middle of a run."""

import errno
import os
from typing import Any

import pytest

from agent.grammar import check_events, check_pairing
from agent.making import agent_of, call, calling, events_of, noted, texts
from interlingua.sessions import Session
from interlingua.values.events import AgentEnd


class FullDisk:
    """A session whose disk is full from the nth line on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lines: int) -> None:
        self.left = lines
        self.write = os.write
        monkeypatch.setattr("interlingua.sessions.files.os.write", self)

    def __call__(self, file: int, data: Any) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.write(file, data)


@pytest.mark.parametrize("lines", range(9))
async def test_a_full_disk_ends_the_run_in_order_and_loses_nothing_saved(
    lines: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever line does not fit: the events are whole, the reason is the disk; with room again the run goes on."""
    note, seen = noted()
    steps = (calling(call("note", "a"), call("note", "b")), "done", "done", "done")
    with Session.open(tmp_path / "s.jsonl") as session:
        disk = FullDisk(monkeypatch, lines)
        agent = agent_of(*steps, tools=[note], session=session)
        events = await events_of(agent)
        check_events(events, broken=True)
        if isinstance(events[-1], AgentEnd) and events[-1].reason == "error":
            assert "No space left" in str(agent.state.error)
        disk.left = 10_000
    with Session.open(tmp_path / "s.jsonl") as session:
        again = agent_of(*steps, tools=[note], session=session)
        await again.prompt("go on")
        check_pairing(again.messages)
        assert "done" == texts(again.messages)[-1]
    assert len(seen) <= 2
