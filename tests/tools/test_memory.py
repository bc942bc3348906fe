"""memory_search and memory_get: notes found in any script, and nothing found that is no note."""

import asyncio
import contextlib
import os
import sqlite3
import stat
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.tools.core.memory import INDEX_NAME, memory_get_tool, memory_search_tool, open_inside
from interlingua.tools.memory_index import MAX_FILE_BYTES, LocalNote, MemoryIndex, chunks_of, terms_of
from interlingua.tools.tool import MissingContext, ToolContext
from interlingua.values.errors import FormatError, ToolInputError

MEMORY = """# Preferences

Likes green tea.

## Work

Deployments happen on Tuesdays with the blue script.
"""
DAY = """# 2026-03-01

Met Zoë at the café about the résumé.

数据库连接超时, 重启后恢复正常。
東京タワーへ行った。
การประชุมพรุ่งนี้
"""


@pytest.fixture
def agent(tmp_path):
    home = tmp_path / "agent"
    (home / "memory").mkdir(parents=True)
    (home / "MEMORY.md").write_text(MEMORY)
    (home / "memory" / "day.md").write_text(DAY)
    return home


def tools(agent_dir=None, workspace_dir=None, **settings):
    context = ToolContext(
        agent_dir=str(agent_dir) if agent_dir else None,
        workspace_dir=str(workspace_dir) if workspace_dir else None,
        config={"tools": {"memory": settings}} if settings else None,
    )
    return memory_search_tool(context), memory_get_tool(context)


async def search(agent_dir=None, query="", *, workspace_dir=None, settings=None, **params):
    tool, _ = tools(agent_dir, workspace_dir, **(settings or {}))
    return (await tool.execute("call", {"query": query, **params})).details


async def get(agent_dir, path, **params):
    _, tool = tools(agent_dir)
    return (await tool.execute("call", {"path": path, **params})).details


async def test_words_are_found_with_place_and_score(agent):
    """
    Path, line range, score between 0 and 1, and the passage.
    """
    found = await search(agent, "blue script")
    assert [
        {
            "path": "MEMORY.md",
            "startLine": 5,
            "endLine": 7,
            "score": 1.0,
            "snippet": "## Work\n\nDeployments happen on Tuesdays with the blue script.",
        }
    ] == found["results"]
    assert ("fts5", 2) == (found["provider"], found["notes"])


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("deployment", "MEMORY.md"),
        ("DEPLOY", "MEMORY.md"),
        ("tuesday", "MEMORY.md"),
        ("preferences", "MEMORY.md"),
        ("cafe", "memory/day.md"),
        ("résumé", "memory/day.md"),
        ("zoe", "memory/day.md"),
        ("数据库", "memory/day.md"),
        ("超时", "memory/day.md"),
        ("东", None),
        ("東京", "memory/day.md"),
        ("タワー", "memory/day.md"),
        ("พรุ่งนี้", "memory/day.md"),
        ("day", "memory/day.md"),
        ("nowhere", None),
    ],
)
async def test_words_are_found_in_any_script(agent, query, path):
    """
    Whatever case, accent or ending; two Chinese characters suffice; headings and file names count.
    """
    assert path == next((hit["path"] for hit in (await search(agent, query))["results"]), None)


async def test_all_words_score_higher_than_some(agent):
    """
    The share of the words found decides, and the least score cuts off the rest.
    """
    found = await search(agent, "green script tuesdays")
    assert [("MEMORY.md", 5), ("MEMORY.md", 1)] == [(hit["path"], hit["startLine"]) for hit in found["results"]]
    best, rest = (hit["score"] for hit in found["results"])
    assert 1 > best > rest > 0
    assert 1 == len((await search(agent, "green script tuesdays", minScore=best))["results"])
    assert 1 == len((await search(agent, "green script tuesdays", maxResults=1))["results"])


HOSTILE = [
    '"',
    '" OR "1"="1',
    "NEAR(a b)",
    "heading: tea",
    "tea AND",
    "NOT",
    "-tea",
    "tea*",
    "^tea",
    "{heading body}: tea",
    "tea'); DROP TABLE words; --",
    "\0tea",
    "((((",
    "*",
    "…",
    "😀",
    "a" * 2000,
    " ".join(str(n) for n in range(300)),
    "\ud800",
]


@pytest.mark.parametrize("query", HOSTILE)
async def test_a_query_is_only_words(agent, query):
    """
    No text is syntax, and none breaks the index.
    """
    await search(agent, query)
    assert 1 == len((await search(agent, "green tea"))["results"])


@given(st.text(max_size=60))
def test_any_text_can_be_searched_for(query):
    """
    Text of any kind gives results or none, never an error.
    """
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5 (x)")
    terms = terms_of(query)
    assert [] == (db.execute("SELECT * FROM t WHERE t MATCH ?", (" OR ".join(terms),)).fetchall() if terms else [])
    db.close()


@given(st.text(alphabet="ab#`~ \n\t", max_size=200))
def test_chunks_are_the_text(text):
    """
    Each chunk is exactly the lines it names, in order, and only blank lines are in none.
    """
    lines = text.split("\n")
    chunks = chunks_of(text)
    assert [chunk.text for chunk in chunks] == ["\n".join(lines[chunk.first - 1 : chunk.last]) for chunk in chunks]
    covered = {number for chunk in chunks for number in range(chunk.first, chunk.last + 1)}
    assert not [line for number, line in enumerate(lines, 1) if line.strip() and number not in covered]


def test_headings_make_chunks_and_a_trail():
    """
    A heading inside a code block is no heading.
    """
    text = "# A\na\n## B\n```\n# no\n```\n# C\nc"
    assert [(1, 2, "A"), (3, 6, "A › B"), (7, 8, "C")] == [chunk[:3] for chunk in chunks_of(text)]


def test_long_sections_are_cut_at_blank_lines():
    """
    No chunk grows without end.
    """
    text = "\n\n".join("word " * 60 for _ in range(50))
    sizes = [len(chunk.text) for chunk in chunks_of(text)]
    assert len(sizes) > 5
    assert max(sizes) < 3000


async def test_changes_are_seen(agent):
    """
    A changed, a new and a deleted note, with the same tool.
    """
    tool, _ = tools(agent)

    async def paths(query):
        return [hit["path"] for hit in (await tool.execute("c", {"query": query})).details["results"]]

    assert ["MEMORY.md"] == await paths("green")
    (agent / "MEMORY.md").write_text(MEMORY.replace("green", "black"))
    (agent / "memory" / "new.md").write_text("green again")
    assert (["memory/new.md"], ["MEMORY.md"]) == (await paths("green"), await paths("black"))
    (agent / "memory" / "new.md").unlink()
    assert [] == await paths("green")


async def test_a_change_with_the_same_time_and_size_is_seen(agent):
    """
    A note that was written just before it was read is read again.
    """
    note = agent / "MEMORY.md"
    tool, _ = tools(agent)
    await tool.execute("c", {"query": "green"})
    times = note.stat()
    note.write_text(MEMORY.replace("green", "black"))
    os.utime(note, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert 1 == len((await tool.execute("c", {"query": "black"})).details["results"])


async def test_the_index_stays_for_the_next_time_and_is_private(agent):
    """
    A file beside the notes that only its owner can read, and that is not read again when nothing changed.
    """
    for name in ("MEMORY.md", "memory/day.md"):
        os.utime(agent / name, (1, 1))
    await search(agent, "tea")
    index = agent / INDEX_NAME
    assert 0o600 == stat.S_IMODE(index.stat().st_mode)
    db = sqlite3.connect(index)
    before = db.execute("SELECT path, read FROM files ORDER BY path").fetchall()
    await search(agent, "tea")
    assert before == db.execute("SELECT path, read FROM files ORDER BY path").fetchall()
    db.close()
    assert 2 == len(before)


async def test_a_workspace_alone_is_left_as_it_is(tmp_path):
    """
    The index is kept in memory: nothing is written into a user's folder.
    """
    (tmp_path / "MEMORY.md").write_text("green tea")
    assert 1 == len((await search(query="tea", workspace_dir=tmp_path))["results"])
    assert ["MEMORY.md"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("content", [b"this is no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_broken_index_is_made_anew(agent, content):
    """
    It holds nothing that the notes do not.
    """
    (agent / INDEX_NAME).write_bytes(content)
    assert 1 == len((await search(agent, "tea"))["results"])
    assert 1 == len((await search(agent, "tea"))["results"])


async def test_an_index_of_another_version_is_made_anew(agent):
    """
    Old or new, it is thrown away.
    """
    db = sqlite3.connect(agent / INDEX_NAME)
    db.execute("PRAGMA user_version = 999")
    db.close()
    assert 1 == len((await search(agent, "tea"))["results"])


async def test_where_the_index_cannot_be_written_it_is_kept_in_memory(agent, tmp_path):
    """
    A folder in its place, a missing folder, a link: the search works all the same, and the link is not followed.
    """
    (agent / INDEX_NAME).mkdir()
    assert 1 == len((await search(agent, "tea"))["results"])
    missing = {"index": str(tmp_path / "no" / "where.sqlite")}
    assert 1 == len((await search(agent, "tea", settings=missing))["results"])
    for content in ("", "precious"):
        target, link = tmp_path / f"target{content}", tmp_path / f"link{content}.sqlite"
        target.write_text(content)
        link.symlink_to(target)
        assert 1 == len((await search(agent, "tea", settings={"index": str(link)}))["results"])
        assert (content, True) == (target.read_text(), link.is_symlink())


def test_many_can_search_while_notes_change(agent):
    """
    Readers in several threads, each with its own tool, and a writer: no error, and the constant note is always found.
    """
    failures = []

    def reader():
        async def loop():
            tool, _ = tools(agent)
            for _ in range(15):
                found = (await tool.execute("c", {"query": "green"})).details
                if [hit["path"] for hit in found["results"]] != ["MEMORY.md"]:
                    failures.append(found)

        asyncio.run(loop())

    threads = [threading.Thread(target=reader) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        (agent / "memory" / "changing.md").write_text(f"number {number}")
    for thread in threads:
        thread.join()
    assert [] == failures


async def test_no_notes_are_no_results_and_reported(tmp_path):
    """
    An empty memory is told from words that are not there.
    """
    empty = await search(tmp_path, "tea")
    assert ([], True) == (empty["results"], "no memory notes yet" in empty["message"])
    (tmp_path / "MEMORY.md").write_text("")
    assert "no note contains these terms" in (await search(tmp_path, "tea"))["message"]


async def test_agent_and_workspace_are_both_searched(agent, tmp_path):
    """
    A name that both have is told apart by its absolute path; either can be read.
    """
    work = tmp_path / "work"
    work.mkdir()
    (work / "MEMORY.md").write_text("green tea at work")
    search_tool, get_tool = tools(agent, work)
    found = (await search_tool.execute("c", {"query": "green"})).details
    paths = sorted(hit["path"] for hit in found["results"])
    assert sorted(["MEMORY.md", str(agent / "MEMORY.md")]) == paths
    texts = {path: (await get_tool.execute("c", {"path": path})).details["text"] for path in paths}
    assert {"MEMORY.md": "green tea at work", str(agent / "MEMORY.md"): MEMORY.rstrip("\n")} == texts


async def test_an_index_shared_by_two_workspaces_does_not_mix_them(agent, tmp_path):
    """
    A search sees the notes of its own folders only.
    """
    index = {"index": str(tmp_path / "shared.sqlite")}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "MEMORY.md").write_text(f"secret of {name}")
    for name in ("one", "two", "one"):
        found = await search(query="secret", workspace_dir=tmp_path / name, settings=index)
        assert [f"secret of {name}"] == [hit["snippet"] for hit in found["results"]]


async def test_paths_of_the_settings_are_notes_too(agent, tmp_path):
    """
    A file and a folder, absolute or relative.
    """
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("purple guide")
    (agent / "notes.txt").write_text("purple notes")
    settings = {"paths": [str(tmp_path / "docs"), "notes.txt", "missing.md"]}
    found = await search(agent, "purple", settings=settings)
    assert sorted([str(tmp_path / "docs" / "guide.md"), "notes.txt"]) == sorted(h["path"] for h in found["results"])


async def test_a_note_is_read_whole_or_in_part(agent):
    """
    Lines are counted from 1, and it is said when there are more.
    """
    whole = await get(agent, "MEMORY.md")
    part = await get(agent, "./MEMORY.md", **{"from": 5, "lines": 1})
    assert (MEMORY.rstrip("\n"), 7, None) == (whole["text"], whole["totalLines"], whole.get("message"))
    assert ("## Work", 1, "more lines follow; continue with from 6") == (
        part["text"],
        part["lines"],
        part["message"],
    )
    with pytest.raises(ToolInputError, match="has 7 lines"):
        await get(agent, "MEMORY.md", **{"from": 8})


@pytest.mark.parametrize(
    "spelling",
    ["memory/day.md", "@memory/day.md", "memory//day.md", "./memory/./day.md", "memory/../memory/day.md"],
)
async def test_a_note_is_found_by_every_harmless_spelling(agent, spelling):
    """
    Including its absolute path.
    """
    assert "memory/day.md" == (await get(agent, spelling))["path"]
    assert "memory/day.md" == (await get(agent, str(agent / "memory" / "day.md")))["path"]


@pytest.mark.parametrize(
    "path",
    [
        "../secret.md",
        "memory/../../secret.md",
        "/etc/passwd",
        "memory/../secret.txt",
        "secret.txt",
        "~/.ssh/id_rsa",
        "memory/link.md",
        "memory/linked/secret.md",
        "memory/.hidden.md",
        "memory/day.md\0",
        "memory",
        "memory/",
        "",
        ".",
        "file:///etc/passwd",
        "memory\\day.md",
        INDEX_NAME,
        "memory/fifo.md",
        "memory/huge.md",
    ],
)
async def test_nothing_but_a_note_is_read(agent, tmp_path, path):
    """
    Paths that climb, links that lead out, other files, pipes and what is too large.
    """
    (tmp_path / "secret.md").write_text("secret")
    (agent / "secret.txt").write_text("secret")
    (agent / "memory" / ".hidden.md").write_text("secret")
    (agent / "memory" / "link.md").symlink_to(tmp_path / "secret.md")
    (agent / "memory" / "linked").symlink_to(tmp_path)
    if sys.platform != "win32":
        os.mkfifo(agent / "memory" / "fifo.md")
    with (agent / "memory" / "huge.md").open("wb") as huge:
        huge.truncate(MAX_FILE_BYTES + 1)
    await search(agent, "tea")
    with pytest.raises(ToolInputError):
        await get(agent, path)
    assert [] == (await search(agent, "secret"))["results"]


async def test_a_link_that_stays_inside_is_followed(agent):
    """
    One note may have two names.
    """
    (agent / "memory" / "alias.md").symlink_to(agent / "MEMORY.md")
    assert MEMORY.rstrip("\n") == (await get(agent, "memory/alias.md"))["text"]


def test_a_note_swapped_for_a_link_while_it_is_read_leads_nowhere(agent, tmp_path):
    """
    However the swap falls, the outside file is never seen, neither by reading nor by searching.
    """
    secret = tmp_path / "secret.md"
    secret.write_text("outside")
    note, spare = agent / "memory" / "swap.md", tmp_path / "spare.md"
    note.write_text("inside")
    spare.symlink_to(secret)
    done = threading.Event()

    def swap():
        while not done.is_set():
            for source in (spare, None):
                fresh = agent / "fresh.tmp"
                if source is None:
                    fresh.write_text("inside")
                else:
                    fresh.symlink_to(secret)
                fresh.replace(note)

    async def read():
        search_tool, get_tool = tools(agent)
        seen = set()
        for _ in range(150):
            with contextlib.suppress(ToolInputError):
                seen.add((await get_tool.execute("c", {"path": "memory/swap.md"})).details["text"])
            found = (await search_tool.execute("c", {"query": "outside"})).details
            seen.update(hit["snippet"] for hit in found["results"])
        return seen

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        assert asyncio.run(read()) <= {"inside"}
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("swapped", ["memory/swap.md", "memory"])
async def test_a_link_put_in_place_between_the_check_and_the_opening_is_not_followed(
    agent, tmp_path, monkeypatch, swapped
):
    """
    The moment that a race hits by luck, hit each time: the note, or the folder above it, becomes a link.
    """
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "swap.md").write_text("outside")
    note = agent / "memory" / "swap.md"
    note.write_text("inside")
    victim, target = agent / swapped, outside if swapped == "memory" else outside / "swap.md"
    resolve = type(note).resolve

    def resolve_then_swap(path, strict=False):
        found = resolve(path, strict)
        if path == note and not victim.is_symlink():
            victim.rename(tmp_path / "away")
            victim.symlink_to(target)
        return found

    monkeypatch.setattr(type(note), "resolve", resolve_then_swap)
    with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
        open_inside(agent, note)
    assert victim.is_symlink()


def test_the_tools_need_a_folder_and_can_be_switched_off(tmp_path):
    """
    Without a folder the missing fields are named; with `enabled` false there is no tool; wrong settings are told.
    """
    with pytest.raises(MissingContext) as missing:
        memory_search_tool(ToolContext())
    assert ("agent_dir", "workspace_dir") == missing.value.fields
    assert (None, None) == tools(tmp_path, enabled=False)
    with pytest.raises(FormatError, match="path"):
        tools(tmp_path, path=["x"])


@pytest.mark.parametrize("params", [{}, {"query": ""}, {"query": "x", "maxResults": 0}, {"query": "x", "minScore": 2}])
async def test_nonsense_arguments_are_refused(agent, params):
    """
    Numbers out of range and missing words.
    """
    with pytest.raises(ToolInputError):
        await tools(agent)[0].execute("call", params)


def test_a_thousand_notes_are_searched_quickly_twice(tmp_path):
    """
    The second search reads no file again.
    """
    notes = {}
    for number in range(1000):
        path = tmp_path / f"{number}.md"
        path.write_text(f"# Note {number}\n\nword{number} and common text\n")
        os.utime(path, (1, 1))
        notes[str(path)] = LocalNote(lambda path=path: os.open(path, os.O_RDONLY))
    index = MemoryIndex(tmp_path / "index.sqlite")
    assert 1 == len(index.search(notes, "word77 note", max_results=1))
    assert str(tmp_path / "77.md") == index.search(notes, "word77", max_results=5)[0].path
    assert 5 == len(index.search(notes, "common", max_results=5))
