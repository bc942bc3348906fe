"""No copy of a session runs a call again: no fork, no copy in another store, no file that was converted."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlingua as il
from agent.making import agent_of, call, calling, results, text_result, texts, tool_of
from interlingua.agent import Agent
from interlingua.connect.debug import Step
from interlingua.sessions import Session, save
from interlingua.sessions.files import FileStore
from interlingua.sessions.gc import collect_branches
from interlingua.sessions.repair import examine
from interlingua.tools.tool import ToolResult

SCRIPT = (
    calling(call("work", "a", n=1), call("work", "b", n=1), call("alone", "c", n=1), text="Let me work"),
    calling(call("work", "a", n=2), call("work", "d", n=2), text="the id of the first call again"),
    Step(text="All done."),
)
EFFECTS = (["a1", "b1", "c1"], ["a2", "d2"])  # of each step that calls


def tools(effects: list[str]) -> list[Any]:
    """Tools whose effect is what they were asked; of those that run side by side, the first ends last."""

    async def run(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        effect = f"{id}{params['n']}"
        effects.append(effect)
        if id == "a":
            await asyncio.sleep(0.002)
        return text_result(f"did {effect}")

    return [tool_of("work", run), tool_of("alone", run, sequential=True)]


def worker(session: Session, effects: list[str]) -> Agent:
    return agent_of(*SCRIPT, tools=tools(effects), session=session)


async def ran(session: Session) -> None:
    effects: list[str] = []
    await worker(session, effects).prompt("pay")
    assert effects_from(0) == effects


def effects_from(step: int) -> list[str]:
    return [effect for effects in EFFECTS[step:] for effect in effects]


@contextmanager
def _fork(session: Session, at: str, folder: Path) -> Iterator[Session]:
    with session.fork(at) as other:
        yield other


@contextmanager
def _fork_of_a_fork(session: Session, at: str, folder: Path) -> Iterator[Session]:
    with session.fork(at) as first, first.fork(at) as other:
        yield other


@contextmanager
def _reopened_fork(session: Session, at: str, folder: Path) -> Iterator[Session]:
    with session.fork(at) as first:
        where = Path(first.where)
    with Session.open(where) as other:
        yield other


@contextmanager
def _fork_of_another_agent(session: Session, at: str, folder: Path) -> Iterator[Session]:
    with session.fork(at, agent="other") as other:
        yield other


@contextmanager
def _rewound(session: Session, at: str, folder: Path) -> Iterator[Session]:
    session.rewind(at)
    yield session


@contextmanager
def _branched(session: Session, at: str, folder: Path) -> Iterator[Session]:
    session.branch(at)
    yield session


@contextmanager
def _compacted(session: Session, at: str, folder: Path) -> Iterator[Session]:
    session.rewind(at)
    session.compact("What was before.", session.path()[0].id)
    yield session


@contextmanager
def _fork_of_a_compacted(session: Session, at: str, folder: Path) -> Iterator[Session]:
    with _compacted(session, at, folder), session.fork(session.head) as other:
        yield other


@contextmanager
def _in_a_database(session: Session, at: str, folder: Path) -> Iterator[Session]:
    session.rewind(at)
    with save(session.conversation(), store=f"sqlite:{folder}/sessions.db") as other:
        yield other


@contextmanager
def _fork_in_a_database(session: Session, at: str, folder: Path) -> Iterator[Session]:
    with save(session.conversation(), store=f"sqlite:{folder}/sessions.db") as kept, kept.fork(at) as other:
        yield other


def _converted(name: str) -> Any:
    @contextmanager
    def copied(session: Session, at: str, folder: Path) -> Iterator[Session]:
        with session.fork(at) as fork:
            data = il.encode(fork.conversation(), name).bytes()
        with save(il.decode(data, name), home=folder) as other:
            yield other

    return copied


@contextmanager
def _file_as_it_is(session: Session, at: str, folder: Path) -> Iterator[Session]:
    session.rewind(at)
    session.sync()
    with save(il.decode(Path(session.where).read_bytes(), "transcript"), home=folder) as other:
        yield other


@contextmanager
def _cleared(session: Session, at: str, folder: Path) -> Iterator[Session]:
    session.rewind(at)
    session.close()
    collect_branches(FileStore(folder), "main", session.id)
    with Session.open(session.id, home=folder, create=False) as other:
        assert at == other.head
        yield other


@contextmanager
def _repaired(session: Session, at: str, folder: Path) -> Iterator[Session]:
    with session.fork(at) as fork:
        where = Path(fork.where)
    path = folder / "repaired.jsonl"
    path.write_bytes(examine(where.read_bytes()).data)
    with Session.open(path) as other:
        yield other


COPIES: dict[str, Callable[[Session, str, Path], Any]] = {
    "a fork": _fork,
    "a fork of a fork": _fork_of_a_fork,
    "a fork that was opened again": _reopened_fork,
    "a fork of another agent's": _fork_of_another_agent,
    "the session, rewound": _rewound,
    "the session, branched": _branched,
    "the session, compacted": _compacted,
    "a fork of a compacted session": _fork_of_a_compacted,
    "a copy in a database": _in_a_database,
    "a fork in a database": _fork_in_a_database,
    "a transcript": _converted("transcript"),
    "our own JSON": _converted("interlingua"),
    "an OpenClaw file": _converted("openclaw"),
    "the file as it is": _file_as_it_is,
    "the session without its dead branches": _cleared,
    "the file, repaired": _repaired,
}


@pytest.mark.parametrize("how", COPIES)
async def test_no_copy_of_a_session_runs_a_finished_call_again(tmp_path: Path, how: str) -> None:
    """Wherever it is cut: calls before the cut are not run again, and have the results that they had."""
    with Session.open("s", home=tmp_path) as session:
        await ran(session)
        path, whole = session.path(), session.conversation()
    for at, entry in enumerate(path):
        home, effects = tmp_path / str(at), []  # type: ignore[var-annotated]
        with save(whole, id="s", home=home) as copy, COPIES[how](copy, entry.id or "", home) as other:
            assert all(unfinished.result for unfinished in other.unfinished_calls())
            await worker(other, effects).prompt("go on")
            answers = texts(results(other.messages))
        asked = sum(isinstance(entry.message, il.AssistantMessage) for entry in path[: at + 1])
        assert effects_from(asked) == effects, at
        assert [f"did {effect}" for effect in effects_from(0)] == answers, at


async def test_a_fork_reports_a_call_that_had_begun_and_not_ended(tmp_path: Path) -> None:
    """As the session itself does after a crash: nobody knows what it did, and it is not run again."""
    with Session.open("s", home=tmp_path) as session:
        await ran(session)
        answer = next(entry for entry in session.path() if isinstance(entry.message, il.AssistantMessage))
    path = Path(session.where)
    lines = path.read_bytes().splitlines(keepends=True)
    begun = next(at for at, line in enumerate(lines) if b'"tool_start"' in line)
    path.write_bytes(b"".join(lines[: begun + 1]))
    effects: list[str] = []
    with Session.open("s", home=tmp_path) as session, session.fork(answer.id) as other:
        assert [True, False, False] == [call.started for call in other.unfinished_calls()]
        await worker(other, effects).prompt("go on")
        first = results(other.messages)[0]
    assert "a" == first.tool_call_id and {"status": "unknown"} == first.details
    assert ["b1", "c1", "a2", "d2"] == effects


async def test_a_fork_keeps_the_pictures_of_a_result_that_it_only_knows_of(tmp_path: Path) -> None:
    """Large data is in the blobs of the other agent, too."""
    import base64

    picture = il.ImageBlock(data=base64.b64encode(b"\x89PNG" + bytes(70_000)).decode(), mime_type="image/png")

    async def run(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        return ToolResult(content=(picture,))

    script = (calling(call("look", "p")), Step(text="seen"))
    with Session.open("s", home=tmp_path) as session:
        await agent_of(*script, tools=[tool_of("look", run)], session=session).prompt("look")
        at = session.path()[1].id
        with session.fork(at, agent="other") as other:
            await agent_of(*script, tools=[tool_of("look", run)], session=other).prompt("again")
            assert (picture,) == results(other.messages)[0].content
            assert 1 == Path(other.where).read_bytes().count(b'"tool_end"')


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_chain_of_copies_runs_a_call_twice(data: st.DataObject, tmp_path_factory: Any) -> None:
    """However often a session is rewound, forked, copied and continued: each call of each answer runs at most once."""
    folder = tmp_path_factory.mktemp("chain")
    counts: dict[tuple[int, str], int] = {}

    async def run(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        key = (params["n"], id)
        counts[key] = counts.get(key, 0) + 1
        return text_result(f"did {key}")

    numbers = iter(range(1000))

    def reply(*_: Any) -> Step:
        wanted = data.draw(st.lists(st.sampled_from("xyz"), unique=True, max_size=3))
        n = next(numbers)
        return calling(*(call("work", id, n=n) for id in wanted)) if wanted else Step(text="done")

    async def go(session: Session) -> None:
        agent = agent_of(reply, tools=[tool_of("work", run)], session=session, limits=il.agent.Limits(turns=2))
        await agent.prompt("go")

    async def chain() -> None:
        session = Session.open("s", home=folder)
        try:
            await go(session)
            for step in range(data.draw(st.integers(1, 3))):
                at = data.draw(st.sampled_from([entry.id or "" for entry in session.entries()]))
                how = data.draw(
                    st.sampled_from(["a fork", "the session, rewound", "a transcript", "the file as it is"])
                )
                with COPIES[how](session, at, folder / str(step)) as other:
                    await go(other)
                    where = Path(other.where)
                if where != Path(session.where):
                    session.close()
                    session = Session.open(where)
        finally:
            session.close()

    asyncio.run(chain())
    assert all(count == 1 for count in counts.values()), counts
