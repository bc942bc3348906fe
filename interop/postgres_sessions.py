"""Sessions and search in a real PostgreSQL server, started here: as on files, two writers, a killed one, many.

Run by `make interop`. Skipped where no server is installed.
"""

import asyncio
import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

import interlingua as il
from interlingua.connect.debug import DebugConnector, ScriptedCall, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.gateway.exchange import ClientKey, Exchange
from interlingua.gateway.recording import SessionWriter, decode_record, encode_record
from interlingua.sessions import Session, SessionBusy, SessionError, Store, save
from interlingua.sessions.files import FileStore
from interlingua.sessions.gc import collect_blobs, collect_branches
from interlingua.sessions.postgres_index import PostgresTextIndex
from interlingua.sessions.sql import SqlStore, postgres_store
from interlingua.sessions.text_index import TextIndex
from interlingua.sessions.texts import Query

WRITERS, TURNS = 4, 50


def programs() -> Path | None:
    """Where the server's programs are."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), None)


@contextlib.contextmanager
def server(place: Path) -> Iterator[str]:
    """A server of its own in a scratch folder, reached by a socket; it does not run as root."""
    with tempfile.TemporaryDirectory(prefix="ilpg") as folder:
        scratch = Path(folder)
        as_other = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if as_other:
            shutil.chown(scratch, "postgres")
        data, log = scratch / "data", scratch / "log"
        run = [*as_other, str(place / "pg_ctl"), "-D", str(data), "-w"]
        options = f"-k {scratch} -c listen_addresses='' -c fsync=off"
        subprocess.run(
            [*as_other, str(place / "initdb"), "-D", str(data), "-A", "trust", "-U", "il"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        subprocess.run([*run, "-l", str(log), "-o", options, "start"], check=True, stdout=subprocess.DEVNULL)
        try:
            yield f"postgresql://il@/postgres?host={scratch}"
        finally:
            subprocess.run([*run, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL)


def same_as_files(address: str) -> None:
    """A tree with branches, labels, a compaction and a large picture reads the same from a file and from the server."""
    picture = il.ImageBlock(data="aGVsbG8gd29ybGQh" * 8192, mime_type="image/png")
    with tempfile.TemporaryDirectory() as home:
        seen = []
        for where in ({"home": home}, {"store": address}):
            with Session.open("same", **where) as session:  # type: ignore[arg-type]
                first = session.append(il.UserMessage(content=(il.TextBlock(text="Hi"), picture)), id="a")
                session.append(il.AssistantMessage(content="one"), id="b")
                session.rewind(first.id)
                session.append(il.AssistantMessage(content="two"), id="c")
                session.label("b", "old")
                session.compact("Sum", "c")
                session.append(il.UserMessage(content="more"), id="d")
            with Session.open("same", **where, read_only=True) as session:  # type: ignore[arg-type]
                seen.append((session.messages, session.context_messages()[1:], session.labels(), session.head))
    check(seen[0] == seen[1], "a session reads the same as from a file")


def one_writer(address: str) -> None:
    """The second is told who has it; when the first dies, the server frees the session."""
    ready = multiprocessing.Event()
    holder = multiprocessing.Process(target=hold, args=(address, ready))
    holder.start()
    ready.wait(30)
    try:
        Session.open("held", store=address)
    except SessionBusy as busy:
        check("connection" in str(busy), "a second writer is told who writes")
    else:
        sys.exit("PostgreSQL: two writers at once")
    with Session.open("held", store=address, read_only=True) as reader:
        check(len(reader.messages) == 1, "a reader comes in any time")
    os.kill(holder.pid or 0, signal.SIGKILL)
    holder.join()
    for _ in range(100):
        with contextlib.suppress(SessionBusy), Session.open("held", store=address) as session:
            session.append(il.UserMessage(content="mine"))
            check(len(session.messages) == 2, "a killed writer's session goes on")
            return
        time.sleep(0.1)
    sys.exit("PostgreSQL: the session of a killed writer stayed busy")


def hold(address: str, ready: "multiprocessing.synchronize.Event") -> None:
    session = Session.open("held", store=address)
    session.append(il.UserMessage(content="theirs"))
    ready.set()
    time.sleep(60)


def many(address: str) -> None:
    """Sessions of several processes at once, none in the way of another."""
    workers = [multiprocessing.Process(target=work, args=(address, f"w{n}")) for n in range(WRITERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    store = postgres_store(address)
    counts = {info.id: info.messages for info in store.sessions("main") if info.id.startswith("w")}
    store.close()
    check(counts == {f"w{n}": TURNS for n in range(WRITERS)}, f"{WRITERS} writers, {TURNS} messages each")


def work(address: str, name: str) -> None:
    with Session.open(name, store=address) as session:
        for turn in range(TURNS):
            session.append(il.UserMessage(content=f"{name} {turn}"))


def together(address: str) -> None:
    """Appends to a session are one commit, which an error in the middle takes back whole."""
    line = b'{"role":"user","content":"Hi","id":"a"}'
    store, other = postgres_store(address), postgres_store(address)
    check(store.create("group", "0", lambda: [line]), "a session is created at once")
    check(not other.create("group", "0", lambda: [line]), "and once")
    with Session.open("0", agent="group", store=store) as session:
        try:
            with session.grouped():
                session.append(il.UserMessage(content="lost"))
                with contextlib.suppress(SessionError):
                    store.database.rows("SELECT 1 / 0")
        except SessionError:
            check([m.content for m in session.messages] == ["Hi"], "an aborted group is reported, and leaves nothing")
        else:
            sys.exit("PostgreSQL: an aborted group was taken for a written one")
        session.append(il.UserMessage(content="kept"))
    with Session.open("0", agent="group", store=other, read_only=True) as session:
        check([m.content for m in session.messages] == ["Hi", "kept"], "a session goes on after an aborted group")
    store.close()
    other.close()


def crowd(address: str) -> None:
    """More sessions are open than the server allows connections, each for one writer."""
    store = postgres_store(address)
    sessions = [Session.open(str(at), agent="crowd", store=store) for at in range(300)]
    for session in sessions:
        session.append(il.UserMessage(content="Hi"))
    busy = 0
    for other in (store, postgres_store(address)):
        for at in range(0, 300, 100):
            try:
                Session.open(str(at), agent="crowd", store=other)
            except SessionBusy:
                busy += 1
    check(busy == 6, "300 open sessions exclude other writers")
    for session in sessions:
        session.close()
    for at in range(0, 300, 100):
        with Session.open(str(at), agent="crowd", store=store) as session:
            session.append(il.UserMessage(content="again"))
    check(len(store.sessions("crowd")) == 300, "closed ones are free again")
    store.close()


def recording(address: str) -> None:
    """Two recorders of one conversation, each with a connection of its own, write every turn once."""
    ready = multiprocessing.Barrier(2)
    workers = [multiprocessing.Process(target=record, args=(address, ready, at)) for at in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    check(all(not worker.exitcode for worker in workers), "two recorders report no record as lost")
    store = postgres_store(address)
    found = store.sessions("gateway")
    check([info.messages for info in found] == [2 * TURNS] * 10, "two recorders write each turn once")
    store.close()


def record(address: str, ready: "multiprocessing.synchronize.Barrier", at: int) -> None:
    writer = SessionWriter(postgres_store(address))
    outcomes: list[tuple[int, str | None]] = []
    ready.wait(30)
    histories: list[list[il.AgentMessage]] = [[] for _ in range(10)]
    for turn in range(TURNS):
        records = []
        for number, messages in enumerate(histories):
            messages.append(il.UserMessage(content=f"{number}: {turn}?"))
            answer = il.AssistantMessage(content=f"{number}: {turn}.")
            key = ClientKey(name="k")
            request = il.Request(model=il.ModelDescriptor(id="m"), context=il.Context(messages=tuple(messages)))
            exchange = Exchange(
                id=f"{turn}-{number}",
                key=key,
                wire=il.wire("anthropic"),
                asked_model="m",
                is_stream=False,
                started=time.time(),
                request=request,
                response=answer,
            )
            records.append(decode_record(encode_record(turn * 10 + number, exchange)))
            messages.append(answer)
        outcomes += writer.write(records[::-1] if at else records)
        writer.release()
    outcomes += writer.close()
    lost = [reason for _, reason in outcomes if reason is not None]
    if lost or len({number for number, _ in outcomes}) != 10 * TURNS:
        sys.exit(f"PostgreSQL: {len(lost)} records are lost: {lost[:3]}")


def clearing(address: str) -> None:
    """Dead branches and unnamed blobs go."""
    store = postgres_store(address)
    picture = il.ImageBlock(data="aGVsbG8gd29ybGQh" * 9000, mime_type="image/png")
    entries = (
        il.Entry(message=il.UserMessage(content="a"), id="1"),
        il.Entry(message=il.UserMessage(content=(picture,)), id="2", parent_id="1"),
        il.Entry(message=il.UserMessage(content="c"), id="3", parent_id="1"),
    )
    save(il.Conversation(entries=entries, head="3"), id="g", agent="gc", store=store).close()
    check(collect_branches(store, "gc", "g", delete=True).items > 0, "dead branches are cleared")
    time.sleep(0.01)
    check(collect_blobs(store, "gc", grace=0.001).items == 1, "blobs that nothing names are cleared")
    with Session.open("g", agent="gc", store=store, read_only=True) as session:
        check([entry.id for entry in session.entries()] == ["1", "3"], "what is left is the way to the head")
    store.close()


def no_call_twice(address: str) -> None:
    """A payment that was made is not made again by a fork, whether it is cut at the call, behind it, or compacted."""
    paid: list[str] = []

    @il.tool
    def pay(to: str) -> str:
        """Pays."""
        paid.append(to)
        return f"paid {to}"

    script = (Step(calls=(ScriptedCall(name="pay", id="c1", arguments={"to": "bob"}),)), "Paid.", "Nothing to do.")
    client = il.Client(connectors=ConnectorRegistry([DebugConnector(script)]))

    def agent(session: Session) -> il.Agent:
        return il.Agent("debug/script", [pay], client=client, session=session)

    store = postgres_store(address)
    with Session.open("paid", agent="pay", store=store) as session:
        asyncio.run(agent(session).prompt("pay bob"))
        ids = [entry.id for entry in session.path()]
        session.compact("Bob was paid.", ids[0])
        for at in [*ids[1:], session.head]:
            with session.fork(at) as other:
                asyncio.run(agent(other).prompt("go on"))
    check(paid == ["bob"], "a call that was finished is not run again by any fork")
    store.close()


QUESTIONS = (
    Query(text="lease"),
    Query(text="LEASE"),
    Query(text="lea"),
    Query(text='"a lease with a deadline"'),
    Query(text="lease -outbox"),
    Query(text="naïve"),
    Query(text="naive"),
    Query(text="租约"),
    Query(text="claim_delivery"),
    Query(text="nothing-has-this"),
    Query(text="lease", role="user"),
    Query(text="lease", model="m-1"),
    Query(tool="exec"),
    Query(is_error=True),
    Query(role="assistant"),
    Query(role="toolResult", is_error=True),
    Query(model="last-one"),
    Query(model="last-two"),
    Query(model="none"),
    Query(role="user", tool="exec"),
    Query(min_cost=0.5),
    Query(text="lease", min_cost=0.1),
    Query(min_cost=2.0),
    Query(min_total=1.0),
    Query(min_total=0.5, max_total=0.9),
    Query(max_total=0.1),
    Query(since=2_000, until=3_000),
    Query(text="lease", stores=("own",)),
    Query(text="lease", stores=("cache",)),
    Query(text="lease", project="none"),
    Query(role="a\0b"),
    Query(text="lease", sessions=(("search", "one"),)),
    Query(text="lease", sessions=(("search", "two"),), limit=1),  # of hits of the same time, any may be the first
)


USED = {
    name: il.Usage(input=10, output=5, cache_read=0, cache_write=0, total_tokens=15, cost=il.Cost(total=cost))
    for name, cost in (("one", 0.7), ("two", 1.4))
}


def talk(session: Session, name: str) -> None:
    call = il.ToolCall(id="c1", name="exec", arguments={"command": "pytest -k claim_delivery"})
    for message in (
        il.UserMessage(content=f"{name}: which lease, naïve or not? 租约还是发件箱", timestamp=1_000),
        il.AssistantMessage(
            content=(il.TextBlock(text="A lease with a deadline."), call), model="m-1", timestamp=2_000
        ),
        il.ToolResultMessage(tool_call_id="c1", tool_name="exec", content="1 failed", is_error=True, timestamp=3_000),
        il.AssistantMessage(content="A lease and an outbox.", model=f"last-{name}", timestamp=4_000, usage=USED[name]),
    ):
        session.append(message)


def searching(address: str) -> None:
    """The server's own search finds what the index beside files finds, also in what came later and in what went."""
    with tempfile.TemporaryDirectory() as home:
        stores: tuple[Store, SqlStore] = (FileStore(home), postgres_store(address))
        indexes = (TextIndex(Path(home) / "search.db", {"own": stores[0]}), PostgresTextIndex(stores[1]))

        def found(query: Query) -> list[set[tuple[str, int, str]]]:
            results = [index.search(replace(query, agent="search")) for index in indexes]
            totals = [(one.total, one.sessions, one.next is None) for one in results]
            check(totals[0] == totals[1], f"as many hits as in the index beside files: {query}, {totals}", quiet=True)
            return [
                {(hit.id, hit.line, "".join(part.text for part in hit.snippet)) for hit in one.hits} for one in results
            ]

        def compare(what: str) -> None:
            for index in indexes:
                index.follow()
            for query in QUESTIONS:
                files, own = found(query)
                check(files == own, f"the hits of {query}: {files} and {own}", quiet=True)
            names = [tuple(map(sorted, index.filters())) for index in indexes]
            check(names[0] == names[1] and all(names[0]), f"the values to filter by: {names}", quiet=True)
            print(f"PostgreSQL: {len(QUESTIONS)} searches find what the index beside files finds, {what}")

        for store in stores:
            for name in ("one", "two"):
                with Session.open(name, agent="search", store=store) as session:
                    talk(session, name)
        compare("at first")
        check(bool(found(Query(text="lease"))[1]), "a search finds something")
        for store in stores:
            with Session.open("one", agent="search", store=store) as session:
                session.append(il.UserMessage(content="One more lease."), id="late")
                session.revise("late", il.UserMessage(content="One more outbox."))
        compare("after more was said and revised")
        for store in stores:
            listed = next(info for info in store.sessions("search") if info.id == "two")
            gone = store.trash("search", "two")
            shown = store.trashed_info("search", gone)
            check(shown == replace(listed, where=shown.where), "a deleted session is listed as before", quiet=True)
        compare("after a session was deleted")
        check({id for id, *_ in found(Query(text="lease"))[1]} == {"one"}, "a deleted session is not found")
        for index in indexes:
            index.close()
        stores[1].close()


def check(holds: bool, what: str, *, quiet: bool = False) -> None:
    if not holds:
        sys.exit(f"PostgreSQL: not so: {what}")
    if not quiet:
        print(f"PostgreSQL: {what}")


def main() -> None:
    place = programs()
    if place is None:
        print("PostgreSQL: no server is installed (initdb, pg_ctl): skipped")
        return
    with server(place) as address:
        # Search comes first: both indexes must have the same sessions.
        for part in (searching, same_as_files, one_writer, many, together, crowd, recording, clearing, no_call_twice):
            part(address)


if __name__ == "__main__":
    main()
