"""One archive of other programs' files and our own sessions: found, followed, counted once, never changed."""

import gzip
import json
import os
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.conversion import large_sessions, sources
from interlingua.dialects import FORMATS
from interlingua.sessions import Session, archive_reading, store_at
from interlingua.sessions.archive import Archive, ArchiveError, Report
from interlingua.sessions.archive_index import ConversationPart, Stamp
from interlingua.sessions.archive_reading import conversations, part_of, read_file
from interlingua.sessions.cards import BUCKETS, Totals, Used
from interlingua.sessions.text_index import TextHit, TextIndex
from interlingua.sessions.texts import Query
from interlingua.values.losses import Lines
from sessions.histories import answered, asked, claude_session, codex_session, write_lines
from sessions.making import user


def _price(used: Used) -> float | None:
    return used.output / 10 if used.model and used.model.startswith("claude") else None


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "CODEX_HOME": str(tmp_path / "codex")}


@pytest.fixture
def archive(tmp_path: Path, env: dict[str, str]) -> Iterator[Archive]:
    with Archive(tmp_path / "home", env=env, price=_price) as made:
        yield made


def found(archive: Archive, text: str, **filters: Any) -> list[TextHit]:
    return archive.search(archive.query(text, **filters)).hits


def titles(archive: Archive, text: str, **filters: Any) -> set[str | None]:
    return {hit.title for hit in found(archive, text, **filters)}


def add(archive: Archive, *sources: object) -> Report:
    archive.add([str(source) for source in sources])
    return archive.update()


# --- finding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".aider.chat.history.md", "run.traj", "run.TRAJ.gz"])
def test_files_are_found_under_the_names_that_programs_give_them(archive: Archive, tmp_path: Path, name: str) -> None:
    """Aider's history is hidden; SWE-agent's trajectories have an ending of their own."""
    folder = tmp_path / "files"
    folder.mkdir()
    if "traj" in name.lower():
        turns = [{"role": "user", "content": "How many eggs?"}, {"role": "assistant", "content": "Twelve."}]
        data = json.dumps({"history": turns, "trajectory": [], "info": {"model_stats": {}}}).encode()
    else:
        data = b"# aider chat started at 2026-01-02 03:04:05\n\n#### How many eggs?\n\nTwelve.\n"
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (folder / ".other.json").write_text("{}")
    assert add(archive, folder).indexed == 1
    assert [hit.text.role for hit in found(archive, "eggs")] == ["user"]


def test_histories_of_programs_are_found_beside_our_own_sessions(archive: Archive, tmp_path: Path) -> None:
    """One search covers Claude Code, Codex and the sessions of this home."""
    claude_session(tmp_path / "claude")
    codex_session(tmp_path / "codex", topic="walrus")
    with Session.open("mine", home=tmp_path / "home") as session:
        session.append(user("a walrus of my own"))
    report = add(archive, "claude-code", "codex-cli")
    assert (2, ()) == (report.indexed, report.problems)
    assert {"how does the walrus swim?", "the walrus?", "a walrus of my own"} == titles(archive, "walrus")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"tool": "claude-code"}, {"how does the walrus swim?"}),
        ({"tool": "codex-cli"}, {"the walrus?"}),
        ({"tool": "interlingua"}, {"a walrus of my own"}),
        ({"tool": "Bash"}, {"how does the walrus swim?"}),
        ({"model": "gpt-5"}, {"the walrus?"}),
        ({"project": "garden"}, {"how does the walrus swim?"}),
        ({"project": "pond"}, {"the walrus?"}),
        ({"since": 1_772_409_600_000, "until": 1_772_496_000_000}, {"the walrus?"}),  # 2 March 2026
        ({"min_total": 3.0}, {"how does the walrus swim?"}),
        ({"max_total": 3.0}, set()),
        ({"tool": "gemini-cli"}, set()),
        ({"model": "no-such-model"}, set()),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_a_search_filters_by_tool_model_project_date_and_cost(
    archive: Archive, tmp_path: Path, filters: dict[str, Any], expected: set[str]
) -> None:
    """Each filter leaves the conversations that it names."""
    claude_session(tmp_path / "claude")
    codex_session(tmp_path / "codex", topic="walrus")
    with Session.open("mine", home=tmp_path / "home") as session:
        session.append(user("a walrus of my own"))
    add(archive, "claude-code", "codex-cli")
    assert expected == titles(archive, "walrus", **filters)


def test_scripts_without_spaces_are_found(archive: Archive, tmp_path: Path) -> None:
    """Two characters of Chinese or Japanese are enough."""
    path = write_lines(
        tmp_path / "x" / "a.jsonl", [asked("u", None, "请帮我实现一个应用"), asked("v", "u", "東京都の天気")]
    )
    add(archive, path)
    assert ["应用", "天気"] == [
        part.text for text in ("应用", "天気") for part in found(archive, text)[0].snippet if part.is_hit
    ]


def test_every_kind_of_text_of_a_file_is_found(archive: Archive, tmp_path: Path) -> None:
    """Questions, answers, arguments and results, each with its kind, entry and model."""
    claude_session(tmp_path / "claude")
    add(archive, "claude-code")
    kinds = {hit.text.kind: hit.text for text in ("swim", "flippers", "ls", "harbour") for hit in found(archive, text)}
    assert {"text", "arguments", "result"} == kinds.keys()
    assert ("toolResult", "Bash", "r1") == (kinds["result"].role, kinds["result"].tool, kinds["result"].entry)
    assert "claude-sonnet-4-5" == kinds["arguments"].model


def test_an_export_in_a_zip_is_found_by_conversation(archive: Archive, tmp_path: Path) -> None:
    """Each conversation of a ChatGPT export is one of the archive, and opens as that one."""
    path = chatgpt_zip(tmp_path / "chatgpt-export.zip", ["about the puffin", "about the razorbill"])
    add(archive, path)
    (hit,) = [hit for hit in found(archive, "razorbill") if hit.text.kind == "text"]
    conversation = archive.open(archive.find(hit.id[:8]))
    assert ["about the razorbill"] == [
        entry.message.text for entry in conversation.path() if entry.message.role == "user"
    ]  # type: ignore[union-attr]


def chatgpt_zip(path: Path, questions: list[str]) -> Path:
    conversations = []
    for number, question in enumerate(questions):
        message = {
            "id": f"m{number}",
            "author": {"role": "user"},
            "create_time": 1_770_000_000.0 + number,
            "content": {"content_type": "text", "parts": [question]},
        }
        mapping = {
            "root": {"id": "root", "message": None, "parent": None, "children": ["n"]},
            "n": {"id": "n", "message": message, "parent": "root", "children": []},
        }
        conversations.append(
            {"title": f"t{number}", "mapping": mapping, "current_node": "n", "conversation_id": f"c{number}"}
        )
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("conversations.json", json.dumps(conversations))
    return path


# --- following -------------------------------------------------------------------------------------------------------


def test_the_index_follows_files_that_grow_change_move_and_go(archive: Archive, tmp_path: Path) -> None:
    """After each update a search finds what is there, and nothing else."""
    path = write_lines(tmp_path / "h" / "a.jsonl", [asked("u", None, "the first egret")])
    add(archive, tmp_path / "h")
    with path.open("a") as stream:
        stream.write(json.dumps(asked("v", "u", "the second egret")) + "\n")
    assert 1 == archive.update().indexed
    assert 2 == len(found(archive, "egret"))
    moved = path.rename(tmp_path / "h" / "b.jsonl")
    report = archive.update()
    assert (0, 1, 0) == (report.indexed, report.moved, report.removed)
    assert {str(moved)} == {one.path for one in archive.conversations(archive.query())}
    write_lines(moved, [asked("u", None, "only a bittern")])
    archive.update()
    assert ([], 1) == (found(archive, "egret"), len(found(archive, "bittern")))
    moved.unlink()
    assert 1 == archive.update().removed
    assert ([], []) == (found(archive, "bittern"), archive.conversations(archive.query()))


def test_nothing_is_left_of_a_removed_file(archive: Archive, tmp_path: Path) -> None:
    """The texts, terms and usage of a file that is gone are erased from the index."""
    path = claude_session(tmp_path / "claude", topic="xenopus")
    add(archive, "claude-code")
    path.unlink()
    archive.update()
    database = sqlite3.connect(archive.home / "canvas" / "search.db")
    tables = ("files", "sessions", "texts", "kept", "usage", "terms_docsize")
    assert [0] * 6 == [database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables]


def test_an_update_that_changes_nothing_reads_nothing(archive: Archive, tmp_path: Path) -> None:
    """A file with the same size and time is not read again."""
    path = claude_session(tmp_path / "claude")
    add(archive, "claude-code")
    path.chmod(0)
    report = archive.update()
    path.chmod(0o600)
    assert (0, 1, ()) == (report.indexed, report.unchanged, report.problems)


def test_the_index_can_be_deleted(archive: Archive, tmp_path: Path, env: dict[str, str]) -> None:
    """What was added is known without the index, and the next update builds it again."""
    claude_session(tmp_path / "claude")
    add(archive, "claude-code")
    archive.close()
    (archive.home / "canvas" / "search.db").unlink()
    with Archive(archive.home, env=env) as again:
        assert 1 == again.update().indexed
        assert found(again, "walrus")


def test_files_are_not_changed(archive: Archive, tmp_path: Path) -> None:
    """Adding, updating and opening leave every byte and time of a source as it was."""
    path = claude_session(tmp_path / "claude")

    def state() -> list[Any]:
        return [path.read_bytes(), path.stat().st_mtime_ns, path.parent.stat().st_mtime_ns, list(path.parent.iterdir())]

    before = state()
    add(archive, "claude-code")
    archive.open(archive.find(found(archive, "walrus")[0].id))
    assert before == state()


def test_a_file_that_two_sources_name_is_indexed_once(archive: Archive, tmp_path: Path) -> None:
    """By its program and its folder, by two folders, or under a second name."""
    path = claude_session(tmp_path / "claude")
    os.link(path, path.with_name("same.jsonl"))
    add(archive, "claude-code", tmp_path / "claude", tmp_path)
    assert 1 == len(archive.conversations(archive.query()))


def test_a_source_that_is_missing_for_a_while_keeps_what_was_indexed(archive: Archive, tmp_path: Path) -> None:
    """A disk that is not mounted loses nothing of the index, and the report names it."""
    claude_session(tmp_path / "claude")
    add(archive, "claude-code")
    (tmp_path / "claude").rename(tmp_path / "elsewhere")
    (problem,) = archive.update().problems
    assert "what was indexed of it is kept" in problem.message
    assert found(archive, "walrus")
    archive.remove(["claude-code"])
    archive.update()
    assert [] == found(archive, "walrus")


def test_an_interrupted_update_is_completed_and_doubles_nothing(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far an update came, the next one leaves each text and each answer once."""
    for number in range(6):
        claude_session(tmp_path / "claude", f"s{number}", topic="walrus")
    archive.add(["claude-code"])
    monkeypatch.setattr("interlingua.sessions.archive.FLUSH_CHARS", 10)
    for steps in range(1, 5):
        looks = iter(range(steps))
        archive.update(stop=lambda looks=looks: next(looks, None) is None)  # type: ignore[misc]
    assert archive.update().complete
    assert 6 * 2 == len(found(archive, "walrus", limit=100))
    assert [12] == [total.answers for total in archive.totals("all", archive.query())]


def test_a_file_that_has_grown_is_read_from_where_it_ended(archive: Archive, tmp_path: Path) -> None:
    """The lines that were read are not read again; a last line that is being written waits for its end."""
    path = claude_session(tmp_path / "claude")
    add(archive, "claude-code")
    before = archive.index.files()[str(path)]
    line = json.dumps(answered("a3", "a2", "and the puffin dives", message_id="m3")).encode()
    with path.open("ab") as stream:
        stream.write(line[:100])
    report = archive.update()
    assert [(5, "the last line is not complete")] == [(one.line, one.message) for one in report.problems]
    with path.open("ab") as stream:
        stream.write(line[100:] + b"\n")
    assert () == archive.update().problems
    after = archive.index.files()[str(path)]
    assert (before.n, path.stat().st_size) == (after.n, after.covered)  # the same row: it was not begun anew
    (one,) = archive.conversations(archive.query())
    assert (5, 1, 3) == (one.messages, len(found(archive, "puffin")), archive.totals("all", archive.query())[0].answers)


def test_a_file_that_was_replaced_by_a_longer_one_is_read_anew(archive: Archive, tmp_path: Path) -> None:
    """Growing is told from replacing by what stands at the end of the known part."""
    path = write_lines(tmp_path / "h" / "a.jsonl", [asked("u", None, "the first egret")])
    add(archive, path)
    write_lines(path, [asked("u", None, "only a bittern, in longer words than before"), asked("v", "u", "and a heron")])
    archive.update()
    assert ([], 1, 1) == (found(archive, "egret"), len(found(archive, "bittern")), len(found(archive, "heron")))


def test_a_large_file_is_written_in_parts_and_is_one_conversation(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it was interrupted between its parts, each text is found once."""
    texts = [(at, f"egret number {at} " * 20) for at in range(1, 200)]
    lines = [answered(f"u{at}", f"u{at - 1}", text, message_id=f"m{at}") for at, text in texts]
    lines.insert(0, asked("u0", None, "title of it all"))
    write_lines(tmp_path / "h" / "a.jsonl", lines)
    archive.add([str(tmp_path / "h")])
    monkeypatch.setattr("interlingua.sessions.archive_reading.BLOCK", 8_000)
    monkeypatch.setattr("interlingua.sessions.archive.FLUSH_CHARS", 10_000)
    for steps in (3, 5, 7):
        looks = iter(range(steps))
        archive.update(stop=lambda looks=looks: next(looks, None) is None)  # type: ignore[misc]
    archive.update()
    (one,) = archive.conversations(archive.query())
    assert ("title of it all", 200) == (one.title, one.messages)
    assert 199 == archive.search(archive.query("egret")).total
    assert 199 == archive.totals("all", archive.query())[0].answers


RECORDED = {"claude-code": "claude-code", "codex-cli": "codex-cli", "openclaw": "pi", "qwen-code": "qwen-code"}
RECORDED |= {"droid": "droid"}


@pytest.mark.parametrize("kind", RECORDED)
def test_reading_line_by_line_finds_what_reading_as_a_whole_finds(kind: str) -> None:
    """Our samples, and recorded sessions where they are at hand: the same texts, attributes and usage."""
    recorded = Path(__file__).parents[2].parent / "shared" / "sessions-corpus" / RECORDED[kind]
    own = Path(__file__).parents[1] / "wire" / kind
    read = 0
    for path in sorted([*own.glob("*.jsonl"), *recorded.glob("*.jsonl")]):
        lines = [part for parts in read_file(path, kind, Stamp.of(path)) if parts.covered for part in parts.parts]
        if not lines:
            continue  # only read as a whole
        read += 1
        whole = [part_of(0, kind, conversation, None) for _, conversation in conversations(path, kind, [])]
        assert spoken(whole) == spoken(lines), path.name
        assert sums(whole) == sums(lines), path.name
    assert read


def test_a_transcript_is_read_line_by_line_as_it_is_as_a_whole(tmp_path: Path) -> None:
    """Texts, roles, tools and usage are the same, so that a long one need not be held in memory."""
    call = il.ToolCall(id="c", name="look", arguments={"city": "Oslo"})
    usage = il.Usage.of(10, 20, cost=il.Cost(total=0.5))
    about = il.Conversation(system="Be brief.", title="Weather", model=il.ModelDescriptor(id="m"))
    with Session.open("s", home=tmp_path / "home", about=about) as session:
        session.append(il.UserMessage(content="Is it raining?", timestamp=1))
        session.append(il.AssistantMessage(content=(il.TextBlock(text="Let me look."), call), usage=usage, timestamp=2))
        session.append(il.ToolResultMessage(tool_call_id="c", tool_name="look", content="rain", is_error=False))
        session.label(None, "Rain")
        session.append(il.AssistantMessage(content="Yes.", model="m", usage=usage, timestamp=4))
    (path,) = (tmp_path / "home").rglob("s.jsonl")
    lines = [part for parts in read_file(path, "transcript", Stamp.of(path)) if parts.covered for part in parts.parts]
    whole = [part_of(0, "transcript", one, None) for _, one in conversations(path, "transcript", [])]
    assert lines and spoken(whole) == spoken(lines)
    assert (sums(whole), whole[0].messages, whole[0].title) == (sums(lines), lines[0].messages, lines[0].title)


STREAMED = [name for name, form in FORMATS.items() if (form.stream or form.listed) and not form.line_reader]


@pytest.mark.parametrize("kind", STREAMED)
def test_a_large_session_is_read_some_entries_at_a_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same texts, title, models, usage and number of messages."""
    monkeypatch.setattr(large_sessions, "LARGE", 1)
    monkeypatch.setattr(archive_reading, "ENTRIES", 2)
    for path in sorted((Path(__file__).parents[1] / "wire" / kind).glob("*.json*")):
        if large_sessions.open_large(sources.Source(path), kind, []) is None:
            continue
        read = list(read_file(path, kind, Stamp.of(path)))
        parts = [part for one in read for part in one.parts]
        (whole,) = (part_of(0, kind, conversation, None) for _, conversation in conversations(path, kind, []))
        assert len(parts) >= whole.messages / 2
        assert (spoken([whole]), sums([whole])) == (spoken(parts), sums(parts)), path.name
        assert whole.messages == sum(part.messages for part in parts)
        assert whole.title == next((part.title for part in reversed(parts) if part.title is not None), None)
        assert whole.models == tuple(dict.fromkeys(model for part in parts for model in part.models))
        assert whole.ended == next((part.ended for part in reversed(parts) if part.ended is not None), None)
        assert {0} == {part.number for part in parts}


def spoken(parts: list[ConversationPart]) -> Counter[tuple[Any, ...]]:
    """Texts of messages; records of which no message can be made are written otherwise."""
    texts = [text for part in parts for text in part.texts if text.kind != "other"]
    return Counter((text.kind, text.role, text.tool, text.model, text.text) for text in texts)


def sums(parts: list[ConversationPart]) -> list[int]:
    once: dict[bytes, Used] = {}
    for one in (used for part in parts for used in part.used):
        if one.key not in once or one.output >= once[one.key].output:
            once[one.key] = one
    return [sum(getattr(one, bucket) for one in once.values()) for bucket in BUCKETS]


def test_stats_and_the_archive_count_alike(archive: Archive) -> None:
    """Of each format that has usage: tokens and cost of the same files, each answer once."""
    folder = Path(__file__).parents[1] / "wire"
    add(archive, folder)
    compared = 0
    for name in archive.index.names():
        paths = {one.path for one in archive.conversations(archive.query(tool=name, limit=1000))}
        counted = Totals()
        for path in paths:
            for kind, conversation in conversations(Path(str(path)), None, []):
                if kind == name:
                    counted.add_conversation(conversation, _price)
        (total,) = archive.totals("all", archive.query(tool=name)) or [None]
        if total is not None:
            compared += 1
            assert [counted.tokens[bucket] for bucket in BUCKETS] == list(total[2:7]), name
            assert (counted.cost if counted.priced else None) == pytest.approx(total.cost), name
            assert counted.unpriced == total.unpriced, name
            assert counted.tokens == sum((one.tokens for one in counted.models.values()), Counter()), name
        else:
            assert not counted.tokens.total(), name
    assert compared > 10


def test_copies_of_an_answer_are_counted_once_in_stats(tmp_path: Path) -> None:
    """The one with the most output counts, as in the archive."""
    lines = [asked("u0", None, "Hi"), answered("u1", "u0", "Hello", message_id="m1")]
    conversation = il.decode(Lines(lines))
    counted = Totals()
    for _ in range(2):
        counted.add_conversation(conversation, _price)
    once = Totals()
    once.add_conversation(conversation, _price)
    assert (once.tokens, once.cost) == (counted.tokens, counted.cost)
    assert once.tokens["output"]


def test_a_fork_of_codex_counts_only_what_came_after_it(archive: Archive, tmp_path: Path) -> None:
    """A fork writes its history again with new times: the copies are not counted a second time."""
    first = codex_session(tmp_path / "codex")
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        line["timestamp"] = "2026-03-03T09:00:00.500Z"
    lines[0]["payload"] |= {"id": "fork", "forked_from_id": "2026-03-02T09-00-00-0000"}
    more = {"input_tokens": 90, "cached_input_tokens": 0, "output_tokens": 5}
    total = {"input_tokens": 140, "cached_input_tokens": 10, "output_tokens": 12}
    info = {"type": "token_count", "info": {"total_token_usage": total, "last_token_usage": more}}
    lines.append({"timestamp": "2026-03-03T09:01:00.000Z", "type": "event_msg", "payload": info})
    write_lines(first.with_name("rollout-fork.jsonl"), lines)
    add(archive, "codex-cli")
    (total_,) = archive.totals("all", archive.query())
    assert (2, 40 + 90, 7 + 5) == (total_.answers, total_.input, total_.output)


# --- totals ----------------------------------------------------------------------------------------------------------


def test_an_answer_that_occurs_in_two_files_is_counted_once(archive: Archive, tmp_path: Path) -> None:
    """A resumed session copies its history: the copies are the same answers."""
    first = [asked("u", None, "a"), answered("x", "u", "b", message_id="m1", input=100, output=10)]
    again = [*first, asked("v", "x", "c"), answered("y", "v", "d", message_id="m2", input=200, output=20)]
    write_lines(tmp_path / "h" / "first.jsonl", first)
    write_lines(tmp_path / "h" / "again.jsonl", again)
    add(archive, tmp_path / "h")
    (total,) = archive.totals("all", archive.query())
    assert (2, 300, 30, pytest.approx(3.0)) == (total.answers, total.input, total.output, total.cost)


def test_a_copy_counts_when_the_first_file_is_gone(archive: Archive, tmp_path: Path) -> None:
    """Whichever file of two copies is deleted, the answer is still counted once."""
    lines = [asked("u", None, "a"), answered("x", "u", "b", message_id="m1")]
    paths = [write_lines(tmp_path / "h" / name, lines) for name in ("a.jsonl", "b.jsonl")]
    add(archive, tmp_path / "h")
    paths[0].unlink()
    archive.update()
    assert [1] == [total.answers for total in archive.totals("all", archive.query())]


def test_totals_are_by_day_model_and_project(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group sums to the whole; an unknown price is counted, not taken for zero."""
    monkeypatch.setenv("TZ", "UTC")
    claude_session(tmp_path / "claude")
    codex_session(tmp_path / "codex")
    add(archive, "claude-code", "codex-cli")
    query = archive.query()
    rows = {
        group: {one.name: one.answers for one in archive.totals(group, query)} for group in ("day", "model", "project")
    }
    assert {"2026-03-01": 2, "2026-03-02": 1} == rows["day"]
    assert {"claude-sonnet-4-5": 2, "gpt-5": 1} == rows["model"]
    assert {"garden": 2, "pond": 1} == rows["project"]
    (whole,) = archive.totals("all", query)
    assert (240, 47, 10, 1, pytest.approx(4.0)) == (
        whole.input, whole.output, whole.cache_read, whole.unpriced, whole.cost
    )  # fmt: skip


def test_answers_of_our_own_sessions_are_counted(archive: Archive, tmp_path: Path) -> None:
    """Our sessions count like any other program's, forks once."""
    with Session.open("mine", home=tmp_path / "home") as session:
        session.append(user("q"))
        usage = il.Usage.of(5, 6)
        session.append(il.AssistantMessage(content="a", model="m", usage=usage, timestamp=1_772_000_000_000))
        session.fork(id="copy").close()
    archive.update()
    assert [(1, 5, 6)] == [(one.answers, one.input, one.output) for one in archive.totals("all", archive.query())]


# --- hostile files ---------------------------------------------------------------------------------------------------


def test_hostile_files_do_not_stop_the_others(archive: Archive, tmp_path: Path) -> None:
    """A FIFO, broken JSON, deep nesting, a zip bomb and an unreadable file are problems by name; the rest is found."""
    folder = tmp_path / "h"
    claude_session(tmp_path / "h")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "broken.json").write_text('{"messages": [')
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "empty.jsonl").write_text("")
    (folder / "bytes.jsonl").write_bytes(bytes(range(256)) * 40)
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("../out.json", b"0" * 1000)
    (folder / "package.json").write_text('{"name": "x"}')
    (folder / "notes.md").write_text("# notes")
    (folder / "loop").symlink_to(folder)
    report = add(archive, folder)
    failed = {Path(problem.path).name for problem in report.problems if problem.kind == "failed"}
    assert {"pipe.jsonl", "broken.json", "deep.json", "empty.jsonl", "bytes.jsonl", "bomb.zip"} == failed
    assert 2 == report.skipped
    assert found(archive, "walrus")


def test_torn_lines_are_noted_and_the_rest_is_found(archive: Archive, tmp_path: Path) -> None:
    """A line that is no JSON is named with its number; the others are indexed."""
    path = write_lines(tmp_path / "h" / "a.jsonl", [asked("u", None, "a sound line about gannets")])
    with path.open("a") as stream:
        stream.write('{"type": "user", "mess')
    report = add(archive, path)
    assert [(str(path), 2, "note")] == [(one.path, one.line, one.kind) for one in report.problems]
    assert found(archive, "gannets")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("claude-cod", "did you mean claude-code?"),
        ("nowhere.zip", "no such file or folder"),
        ("gemini-cli", "does not exist"),
    ],
)
def test_a_source_that_is_not_there_is_refused_and_none_is_added(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    """One wrong name among several adds nothing, and says what was probably meant."""
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path / "none"))
    claude_session(tmp_path / "claude")
    with pytest.raises(ArchiveError, match=message):
        archive.add(["claude-code", name])
    assert [] == archive.sources()


def test_the_home_itself_is_no_source(archive: Archive, tmp_path: Path) -> None:
    """Our own sessions are in the archive already: a folder around the home does not add them again."""
    with Session.open("mine", home=tmp_path / "home") as session:
        session.append(user("a walrus of my own"))
    with pytest.raises(ArchiveError, match="always in the archive"):
        archive.add([str(tmp_path / "home" / "agents")])
    add(archive, tmp_path)
    assert 1 == len(found(archive, "walrus"))


# --- sharing the index -----------------------------------------------------------------------------------------------


def test_the_canvas_does_not_see_the_archive_in_its_own_searches(archive: Archive, tmp_path: Path) -> None:
    """Both use one index file: each search is over the stores of its program, and neither forgets the other's."""
    claude_session(tmp_path / "claude")
    with Session.open("mine", home=tmp_path / "home") as session:
        session.append(user("a walrus of my own"))
    add(archive, "claude-code")
    index = TextIndex(archive.home / "canvas" / "search.db", {"own": store_at(None, archive.home)})
    index.follow()
    results = index.search(Query(text="walrus"))
    index.close()
    assert (1, 1, 1) == (len(results.hits), results.total, results.sessions)
    assert 3 == len(found(archive, "walrus"))


def test_an_index_of_an_older_version_is_rebuilt(archive: Archive, tmp_path: Path) -> None:
    """An index that another version wrote is replaced by one of this version."""
    place = archive.home / "canvas" / "search.db"
    place.parent.mkdir(parents=True)
    old = sqlite3.connect(place)
    old.executescript("CREATE TABLE sessions (n); PRAGMA user_version = 2;")
    old.close()
    claude_session(tmp_path / "claude")
    add(archive, "claude-code")
    assert found(archive, "walrus")
