"""Compactions of Claude Code that keep messages: the path is what the program sends, the file comes back as it was."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.dialects.files import claude_code
from interlingua.values.losses import Lines

Line = dict[str, Any]


def line(uuid: str, parent: str | None, type: str = "user", content: Any = None, **more: Any) -> Line:
    inner: Line = {"role": type, "content": content or f"text of {uuid}"}
    if type == "assistant":
        inner["content"] = content or [{"type": "text", "text": f"text of {uuid}"}]
        usage = {"input_tokens": 3, "output_tokens": 5}
        inner |= {"type": "message", "id": more.pop("id", f"m-{uuid}"), "model": "claude-x", "usage": usage}
    return {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": type, "message": inner, **more}


def boundary(uuid: str, **stated: Any) -> Line:
    place = {"uuid": uuid, "parentUuid": None, "sessionId": "s"}
    return {**place, "type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", **stated}}


def chain(first: str, last: str, anchor: str) -> Line:
    return {"preservedSegment": {"headUuid": first, "anchorUuid": anchor, "tailUuid": last}}


def listed(*kept: str, anchor: str) -> Line:
    return {"preservedMessages": {"anchorUuid": anchor, "uuids": [*kept], "allUuids": [*kept, "unwritten"]}}


def summary(uuid: str, parent: str) -> Line:
    return line(uuid, parent, isCompactSummary=True)


def hook(uuid: str, parent: str | None) -> Line:
    return {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": "system", "subtype": "stop_hook_summary"}


def call(id: str) -> Line:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {}}


def result(id: str) -> Line:
    return {"type": "tool_result", "tool_use_id": id, "content": f"of {id}"}


def decoded(lines: list[Line]) -> il.Conversation:
    """The session, which all ways of reading give; its lines come back, and parents are before their children."""
    session = claude_code.decode(Lines(lines))
    assert lines == claude_code.encode(session).body == claude_code.encode(il.load(il.dump(session))).body
    assert session == claude_code.read([json.dumps(one).encode() + b"\n" for one in lines])
    streamed = claude_code.stream(lambda: iter(lines))
    assert streamed is not None
    assert session.entries == tuple(streamed.entries())
    assert (session.head, session.title) == (streamed.head, streamed.about.title)
    known: set[str | None] = {None}
    for entry in session.entries:
        assert entry.parent_id in known
        known.add(entry.id)
    return session


def path(lines: list[Line]) -> list[str]:
    return [entry.id for entry in decoded(lines).path() if entry.id is not None]


BEFORE = [line("u1", None), line("a1", "u1", "assistant"), line("u2", "a1"), line("a2", "u2", "assistant")]
KEPT = [chain("u2", "a2", "s"), listed("u2", "a2", anchor="s"), chain("u2", "a2", "s") | listed("u2", "a2", anchor="s")]


@pytest.mark.parametrize("stated", KEPT, ids=["chain", "list", "both"])
@pytest.mark.parametrize("parent", ["a2", "s"])
def test_what_a_compaction_kept_follows_its_summary(stated: Line, parent: str) -> None:
    """The next line states the last kept one as its parent, or the summary."""
    title = {"type": "ai-title", "aiTitle": "T"}
    lines = [*BEFORE, boundary("b", **stated), title, summary("s", "b"), title, line("u3", parent)]
    assert ["b", "s", "u2", "a2", "u3"] == path(lines)
    session = decoded(lines)
    assert {"u1", "a1"} <= {entry.id for entry in session.entries}
    assert ("T", "claude-x") == (session.title, session.model.id if session.model else None)
    assert [5, 5] == [m.usage.output for e in session.entries if (m := e.message).role == "assistant" and m.usage]  # type: ignore[union-attr]


def test_a_session_that_ends_with_a_compaction_stands_at_what_it_kept() -> None:
    """Also where that is one message, and where the program wrote more lines before the compaction."""
    assert ["b", "s", "u2", "a2"] == path([*BEFORE, boundary("b", **KEPT[0]), summary("s", "b")])
    for stated in (chain("a2", "a2", "s"), listed("a2", anchor="s")):
        assert ["b", "s", "a2"] == path([*BEFORE, hook("h", "a2"), boundary("b", **stated), summary("s", "b")])


def test_the_first_messages_may_be_kept_and_the_last_be_summarized() -> None:
    """Then the kept ones follow the boundary, and the summary follows them."""
    for stated in (chain("u1", "a1", "b"), listed("u1", "a1", anchor="b")):
        lines = [*BEFORE, boundary("b", **stated), summary("s", "b"), line("u3", "s")]
        assert ["b", "u1", "a1", "s", "u3"] == path(lines)


def test_each_compaction_of_several_keeps_its_own() -> None:
    """A message that two of them kept follows the later summary; an earlier summary may be kept as well."""
    first = [*BEFORE, boundary("b", **KEPT[2]), summary("s", "b"), line("u3", "s"), line("a3", "u3", "assistant")]
    again = [boundary("c", **listed("a2", "u3", "a3", anchor="t")), summary("t", "c"), line("u4", "t")]
    assert ["c", "t", "a2", "u3", "a3", "u4"] == path([*first, *again])
    other = [boundary("c", **listed("a3", anchor="t")), summary("t", "c"), line("u4", "a3")]
    assert ["c", "t", "a3", "u4"] == path([*first, *other])
    all_of_it = [boundary("c", **listed("b", "s", "u2", "a2", "u3", anchor="c")), summary("t", "c"), line("u4", "t")]
    assert ["c", "b", "s", "u2", "a2", "u3", "t", "u4"] == path([*first, *all_of_it])
    nothing = [boundary("c"), summary("t", "c"), line("u4", "t")]
    assert ["c", "t", "u4"] == path([*first, *nothing])


@pytest.mark.parametrize("stated", [chain("a1", "r2", "s"), listed("a1", "a2", "r1", "r2", anchor="s")])
def test_results_of_parallel_calls_stay_beside_them(stated: Line) -> None:
    """An answer of several lines is kept as a whole; what the program wrote after the last kept line is not."""
    lines = [
        line("u", None),
        line("a0", "u", "assistant", [{"type": "text", "text": "Two."}], id="m"),
        line("a1", "a0", "assistant", [call("1")], id="m"),
        line("a2", "a1", "assistant", [call("2")], id="m"),
        line("r1", "a1", content=[result("1")]),
        line("r2", "a2", content=[result("2")]),
        hook("h", "r2"),
        boundary("b", **stated),
        summary("s", "b"),
        line("n", "s", content="<system-reminder>Note</system-reminder>", isMeta=True),
        line("u3", "n"),
    ]
    assert ["b", "s", "a2", "r1", "r2", "n", "u3"] == path(lines)


@pytest.mark.parametrize("stated", [chain("r", "u2", "s"), listed("r", "u2", anchor="s")])
def test_a_line_of_several_messages_is_kept_whole(stated: Line) -> None:
    """Its id is that of the last of them."""
    lines = [
        line("a", None, "assistant", [call("1"), call("2")]),
        line("r", "a", content=[result("1"), result("2")]),
        line("u2", "r"),
        *(boundary("b", **stated), summary("s", "b"), line("u3", "u2")),
    ]
    assert ["b", "s", "r#0", "r", "u2", "u3"] == path(lines)


def test_a_branch_begins_at_a_kept_message_or_at_the_last_of_them() -> None:
    """The program has forgotten the others; a sub-agent's lines are a tree of their own, and stay where they are."""
    compacted = [*BEFORE, hook("h", "a2"), boundary("b", **KEPT[2]), summary("s", "b"), line("u3", "s")]
    assert ["b", "s", "u2", "u4"] == path([*compacted, line("u4", "u2")])
    for forgotten in ("u1", "h"):
        assert ["b", "s", "u2", "a2", "u4"] == path([*compacted, line("u4", forgotten)])
    assert ["u4"] == path([*compacted, line("u4", "in another file")])
    side = {"isSidechain": True, "agentId": "x"}
    lines = [line("x1", None, **side), *compacted, line("x2", "x1", "assistant", **side)]
    assert ["b", "s", "u2", "a2", "u3"] == path(lines)
    assert ["x1"] == [entry.parent_id for entry in decoded(lines).entries if entry.id == "x2"]


@pytest.mark.parametrize(
    "stated",
    [
        chain("missing", "a2", "s"),
        chain("u2", "missing", "s"),
        chain("u2", "a2", "missing"),
        chain("u2", "a2", "u1"),
        chain("a2", "u2", "s"),
        chain("u3", "u3", "s"),
        chain("s", "s", "s"),
        listed("u2", "missing", anchor="s"),
        listed("a2", "u2", anchor="s"),
        listed("s", "u2", anchor="s"),
        listed(anchor="s"),
        {"preservedMessages": {"anchorUuid": ["s"], "uuids": ["u2"]}},
        {"preservedMessages": {"anchorUuid": "s", "uuids": [["u2"], None]}},
        {"preservedMessages": ["u2"], "preservedSegment": "u2"},
        {"preservedSegment": {"headUuid": {}, "tailUuid": [], "anchorUuid": "s"}},
    ],
)
def test_what_names_lines_that_are_not_there_keeps_nothing(stated: Line) -> None:
    """The tree is that of the lines."""

    def session(**stated: Any) -> list[Line]:
        return [*BEFORE, boundary("b", **stated), summary("s", "b"), line("u3", "s"), line("u4", "a2")]

    placed = [(entry.id, entry.parent_id) for entry in decoded(session(**stated)).entries]
    assert [(entry.id, entry.parent_id) for entry in decoded(session()).entries] == placed


def test_a_list_of_missing_lines_leaves_the_chain() -> None:
    lines = [*BEFORE, boundary("b", **chain("u2", "a2", "s"), **listed("u2", "x", anchor="s")), summary("s", "b")]
    assert ["b", "s", "u2", "a2"] == path(lines)


def test_a_chain_that_does_not_reach_its_first_line_is_not_followed() -> None:
    """The program's own error: a last line whose parent is older than what was kept."""
    before = [*BEFORE, hook("h", "u1")]
    lines = [*before, boundary("b", **chain("u2", "h", "s")), summary("s", "b"), line("u3", "h")]
    assert ["u1", "h", "u3"] == path(lines)
    lines = [*before, boundary("b", **listed("u2", "a2", "h", anchor="s")), summary("s", "b"), line("u3", "h")]
    assert ["b", "s", "u2", "a2", "h", "u3"] == path(lines)


def test_lines_that_the_program_wrote_again_are_off_the_path() -> None:
    """A later compaction may append the lines before an earlier one once more, under the same ids."""
    first = [*BEFORE, boundary("b", **KEPT[2]), summary("s", "b"), line("u3", "a2"), line("a3", "u3", "assistant")]
    again = [*BEFORE[:2], boundary("c", **listed("a3", anchor="t")), summary("t", "c"), line("u4", "a3")]
    assert ["c", "t", "a3", "u4"] == path([*first, *again])


def test_a_file_that_is_torn_in_a_compaction_is_read(tmp_path: Path) -> None:
    """Without its summary nothing follows the boundary."""
    file = tmp_path / "session.jsonl"
    raws = [json.dumps(one) for one in (*BEFORE, boundary("b", **KEPT[2]), summary("s", "b"), line("u3", "a2"))]
    file.write_text("\n".join(raws)[:-20])
    (session,) = il.read(file)
    assert ["b", "s", "u2", "a2"] == [entry.id for entry in session.path()]
    file.write_text("\n".join(raws[:6])[:-20])
    (session,) = il.read(file)
    assert ["b"] == [entry.id for entry in session.path()]


def test_the_path_alone_is_written_so_that_it_is_the_path_again() -> None:
    """A boundary is written after what it kept and before what follows: the program forgets what else is before it."""
    answer = [line("a1", "u3", "assistant", id="m"), line("a9", "a1", "assistant", id="m"), line("u5", "a9")]
    lines = [*BEFORE, hook("h", "a2"), boundary("b", **KEPT[2]), summary("s", "b"), line("u3", "a2"), *answer]
    lines[1] = {**lines[1], "uuid": "a0"}
    lines[2] = {**lines[2], "parentUuid": "a0"}
    session = decoded(lines)
    alone = claude_code.encode(il.Conversation(entries=session.path(), extra=session.extra)).body
    assert ["u2", "a2", "b", "s", "u3", "a1", "a9", "u5"] == [one["uuid"] for one in alone]
    assert ["b", "s", "u2", "a2", "u3", "a9", "u5"] == path(alone)


def sent(lines: list[Line]) -> list[str] | None:
    """What the program would send of main lines, one answer a line: it knows of the last compaction alone."""
    tree = {one["uuid"]: one["parentUuid"] for one in lines if "uuid" in one and not one.get("isSidechain")}
    ids, head = [*tree], next(reversed(tree))
    last = next((one for one in reversed(lines) if one.get("subtype") == "compact_boundary"), None)
    stated = {} if last is None else last["compactMetadata"]
    if last is not None and "preservedMessages" in stated:
        anchor, kept = (stated["preservedMessages"][key] for key in ("anchorUuid", "uuids"))
        tree |= dict(zip(kept, (anchor, *kept), strict=False))
        forgotten = {*ids[: ids.index(last["uuid"])]}.difference(kept)
        moved = {id for id in ids if id not in kept and (tree[id] == anchor or tree[id] in forgotten)}
        tree = {id: kept[-1] if id in moved else tree[id] for id in ids if id not in forgotten}
        head = kept[-1] if head in (anchor, last["uuid"]) else head
    path: list[str] = []
    at: str | None = head
    while at is not None:
        path.insert(0, at)
        at = tree[at]
    return path


@pytest.mark.parametrize("seed", range(150))
def test_the_path_is_what_the_program_sends(seed: int) -> None:
    """In sessions with several compactions, branches, sub-agents and lines between."""
    chance = random.Random(seed)
    lines = [line("u0", None)]
    context = ["u0"]  # what the model reads
    for at in range(1, chance.randint(5, 30)):
        kind = chance.choice("uuaaahhxqrrbbp")
        tip = context[-1]
        if kind == "r":  # back to an earlier message
            del context[chance.randint(1, len(context)) :]
        elif kind == "q":
            lines.append({"type": "queue-operation", "operation": "enqueue"})
        elif kind == "x":
            lines.append(line(f"x{at}", None, isSidechain=True))
        elif kind in "bp":
            size = chance.randint(1, 4)
            kept = context[:size] if kind == "p" else [id for id in context[-size:] if id[0] not in "bs"]
            anchor = f"b{at}" if kind == "p" else f"s{at}"
            stated = listed(*kept, anchor=anchor) if kept else {}
            lines += [boundary(f"b{at}", **stated), {"type": "mode", "mode": "m"}, summary(f"s{at}", f"b{at}")]
            context = [f"b{at}", *kept, f"s{at}"] if kind == "p" else [f"b{at}", f"s{at}", *kept]
            if kept and chance.random() < 0.5:
                lines.append(hook(f"h{at}", f"s{at}"))
                context.append(f"h{at}")
        else:
            lines.append(hook(f"h{at}", tip) if kind == "h" else line(f"{kind}{at}", tip, USES[kind]))
            context.append(f"{kind}{at}")
    assert sent(lines) == path(lines)


USES = {"u": "user", "a": "assistant"}
