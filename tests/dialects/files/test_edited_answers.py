"""Answers of several records that have more or fewer blocks than those: they are written anew, all else stays."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from dialects.files.samples import outline
from interlingua.dialects import FORMATS
from interlingua.dialects.files import claude_code, codex_cli, codex_exec
from interlingua.values.errors import Unsupported
from interlingua.values.losses import Lines, Reporter
from interlingua.values.messages import Block, TextBlock, ThinkingBlock, ToolCall, text_of

Line = dict[str, Any]
TEXT = TextBlock(text="Walrus")


def line(uuid: str, parent: str | None, content: Any, **more: Any) -> Line:
    inner: Line = {"role": "user", "content": content}
    if uuid.startswith("a"):
        inner = {"role": "assistant", "content": [content], "type": "message", "model": "claude-x", "id": "m-1"}
    kind = inner["role"]
    return {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind, "message": inner, **more}


def call(id: str) -> Line:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {}}


def result(id: str) -> list[Line]:
    return [{"type": "tool_result", "tool_use_id": id, "content": f"of {id}"}]


THOUGHT = {"type": "thinking", "thinking": "Count.", "signature": "c2ln"}
SESSION = [
    line("u-1", None, "How many?"),
    line("a-1", "u-1", THOUGHT),
    line("a-2", "a-1", call("c1")),
    line("u-2", "a-2", result("c1")),
    line("a-3", "a-2", call("c2")),
    line("x-1", "a-2", "Look.", isSidechain=True, agentId="b"),
    line("u-3", "a-3", result("c2")),
    line("u-4", "u-3", "Thanks."),
]


def edited(session: il.Conversation, at: int, *content: Block) -> il.Conversation:
    entry: Any = session.entries[at]
    entries = [*session.entries]
    entries[at] = replace(entry, message=replace(entry.message, content=content))
    return replace(session, entries=tuple(entries))


def tree(session: il.Conversation) -> list[Any]:
    return [(entry.id, entry.parent_id, blocks(entry)) for entry in session.entries]


def blocks(entry: il.Entry) -> list[Any]:
    content: Any = getattr(entry.message, "content", None)
    return [replace(block, extra={}) for block in content] if isinstance(content, tuple) else [content]


@pytest.mark.parametrize("first", [(), (TEXT,), (TEXT, TEXT), (TEXT, TEXT, TEXT)], ids=len)
@pytest.mark.parametrize("is_stored", [False, True])
def test_what_follows_an_answer_that_was_divided_anew_stays_attached(first: Any, is_stored: bool) -> None:
    session = claude_code.decode(Lines(SESSION))
    answer: Any = session.entries[1].message
    changed = edited(session, 1, *first, *answer.content[1:])
    changed = il.load(il.dump(changed)) if is_stored else changed
    body, losses = claude_code.encode(changed)
    assert losses == ()
    back = claude_code.decode(json.loads(json.dumps(body)))
    assert tree(back) == tree(changed)
    assert (outline(back), back.head) == (outline(changed), changed.head)
    assert [one for one in body if one["type"] == "user" and one["uuid"] in ("u-1", "u-3", "u-4")] == [
        SESSION[0],
        *SESSION[6:],
    ]
    ids = ["a-1", "a-2", "a-3"] if first else ["a-1", "a-3"]  # of lines of one block each, as far as there are ids
    lines = [one for one in body if one["uuid"].startswith("a-")]
    assert [one["uuid"] for one in lines] == ids
    assert [len(one["message"]["content"]) for one in lines][:-1] == [1] * (len(ids) - 1)
    assert [one["parentUuid"] for one in lines] == ["u-1", *ids[:-1]]
    known = {None}
    for one in body:
        assert one["parentUuid"] in known
        known.add(one["uuid"])
    assert list(claude_code.copy(changed, changed.entries, Reporter()) or ()) == list(body)


def test_a_compaction_keeps_an_answer_that_was_divided_anew() -> None:
    kept = {"anchorUuid": "s-1", "uuids": ["a-1", "a-2", "u-2"]}
    lines = [
        *SESSION[:4],
        {
            "uuid": "b-1",
            "parentUuid": None,
            "type": "system",
            "subtype": "compact_boundary",
            "compactMetadata": {"preservedMessages": kept},
        },
        line("s-1", "b-1", "A summary", isCompactSummary=True),
        line("u-4", "u-2", "Thanks."),
    ]
    session = claude_code.decode(Lines(lines))
    (at,) = (at for at, entry in enumerate(session.entries) if entry.id == "a-2")
    answer: Any = session.entries[at].message
    changed = edited(session, at, *answer.content[1:])
    back = claude_code.decode(claude_code.encode(changed).body)
    assert tree(back)[1:] != tree(session)[1:]
    assert [entry[:2] for entry in tree(back)] == [entry[:2] for entry in tree(session)]
    assert outline(back) == outline(changed)


@pytest.mark.parametrize("content", [THOUGHT, call("c1")], ids=["thought", "call"])
@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ((None, "end_turn"), "stop"),
        (("end_turn", None), "stop"),
        (("tool_use", "end_turn"), "stop"),
        ((None, "max_tokens"), "length"),
        (("max_tokens", None), "length"),
    ],
)
def test_an_answer_ends_as_one_of_its_lines_states(content: Line, stated: Any, expected: str) -> None:
    """A call means that results are awaited, unless the answer was cut off."""
    lines = [line("u-1", None, "Hi"), line("a-1", "u-1", content), line("a-2", "a-1", {"type": "text", "text": "So."})]
    for one, reason in zip(lines[1:], stated, strict=True):
        one["message"]["stop_reason"] = reason
    lines[1]["message"]["usage"] = {"input_tokens": 3, "output_tokens": 5}
    session = claude_code.decode(Lines(lines))
    answer: Any = session.entries[1].message
    is_called = content["type"] == "tool_use" and expected == "stop"
    assert answer.stop_reason == ("toolUse" if is_called else expected)
    assert (answer.stop_detail, answer.usage.output) == (stated[1] or stated[0], 5)
    assert claude_code.encode(session).body == lines


def test_an_entry_that_was_attached_elsewhere_states_its_new_parent() -> None:
    """Also where its record states another parent than the entry was given when it was read."""
    session = claude_code.decode(Lines(SESSION))
    (at,) = (at for at, entry in enumerate(session.entries) if entry.id == "u-3")
    assert (session.entries[at].parent_id, SESSION[6]["parentUuid"]) == ("u-2", "a-3")
    entries = [*session.entries]
    entries[at] = replace(entries[at], parent_id="u-1")
    body = claude_code.encode(replace(session, entries=tuple(entries))).body
    assert [one["parentUuid"] for one in body if one["uuid"] == "u-3"] == ["u-1"]


def test_parts_of_an_answer_follow_what_took_the_place_of_their_parent() -> None:
    lines = [*SESSION[:3], line("a-4", "a-2", THOUGHT), line("a-5", "a-1", call("c3"))]
    for one in lines[3:]:
        one["message"]["id"] = "m-2"
    session = claude_code.decode(Lines(lines))
    assert claude_code.encode(session).body == lines
    answer: Any = session.entries[1].message
    body = claude_code.encode(edited(session, 1, *answer.content[1:])).body
    assert [(one["uuid"], one["parentUuid"]) for one in body[1:]] == [("a-2", "u-1"), ("a-4", "a-2"), ("a-5", "a-2")]


@pytest.mark.parametrize(("content", "count"), [([], 2), (None, 2), ("So.", 3)])
def test_lines_without_a_list_of_blocks_are_lines_of_their_answer(content: Any, count: int) -> None:
    lines = [*SESSION[:2], line("a-2", "a-1", None), line("a-3", "a-2", call("c1"))]
    lines[2]["message"]["content"] = content
    session = claude_code.decode(Lines(lines))
    assert [len(blocks(entry)) for entry in session.entries] == [1, count]
    assert claude_code.encode(session).body == lines


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_lines_of_an_answer_stay_among_others_when_earlier_messages_are_removed(removed: int) -> None:
    others = [line(f"u-{number}", None, "Hi") for number in (7, 8)]
    session = claude_code.decode(Lines([*others, *SESSION]))
    left = replace(session, entries=session.entries[removed:])
    assert claude_code.encode(left).body == [*others[removed:], *SESSION]


def test_an_answer_may_be_there_twice() -> None:
    """Its lines have the same places: each of the two has its own lines, in their order."""
    session = claude_code.decode(Lines(SESSION))
    other = edited(session, 1, *session.entries[1].message.content[:2], ToolCall(id="c2", name="walrus", arguments={}))  # type: ignore[union-attr, index]
    twice = replace(session, entries=(*other.entries[:2], *session.entries[1:]))
    body = claude_code.encode(twice).body
    assert sorted(one["uuid"] for one in body) == sorted([*(one["uuid"] for one in SESSION), "a-1", "a-2", "a-3"])
    assert [one["uuid"] for one in body if one["uuid"].startswith("u-")] == ["u-1", "u-2", "u-3", "u-4"]


INTERLEAVED = [
    line("a-3", None, call("c2"), isSidechain=True, agentId="q"),
    line("a-1", None, THOUGHT, isSidechain=True, agentId="p"),
    line("a-2", "a-1", call("c1"), isSidechain=True, agentId="p"),
    line("u-1", "a-2", result("c1"), isSidechain=True, agentId="p"),
    line("u-2", "a-3", result("c2"), isSidechain=True, agentId="q"),
    line("a-4", "a-3", call("c3"), isSidechain=True, agentId="q"),
    line("u-3", "a-4", result("c3"), isSidechain=True, agentId="q"),
    line("a-5", "a-2", call("c4"), isSidechain=True, agentId="p"),
    line("u-4", "a-5", result("c4"), isSidechain=True, agentId="p"),
]


def test_an_answer_with_a_line_less_does_not_delay_the_lines_of_another() -> None:
    for one in INTERLEAVED:
        if one["agentId"] == "q" and one["type"] == "assistant":
            one["message"]["id"] = "m-2"
    session = claude_code.decode(Lines(INTERLEAVED))
    assert claude_code.encode(session).body == INTERLEAVED
    (at,) = (
        at
        for at, entry in enumerate(session.entries)
        if blocks(entry)[:1] == [ThinkingBlock(thinking="Count.", thinking_signature="c2ln")]
    )
    answer: Any = session.entries[at].message
    body = claude_code.encode(edited(session, at, answer.content[0])).body
    assert [one["uuid"] for one in body] == ["a-3", "a-5", "u-1", "u-2", "a-4", "u-3", "u-4"]
    answers = tuple(entry for entry in session.entries if isinstance(entry.message, il.AssistantMessage))
    body = claude_code.encode(replace(session, entries=answers)).body
    assert [one["uuid"] for one in body] == ["a-3", "a-1", "a-2", "a-4", "a-5"]


def test_a_line_that_is_there_many_times_is_as_many_entries() -> None:
    lines = [SESSION[0]] * 9
    session = claude_code.decode(Lines(lines))
    assert [entry.id for entry in session.entries] == ["u-1", *(f"u-1~{number}" for number in range(2, 10))]
    assert claude_code.encode(session).body == lines
    first, second, *others = session.entries
    body = claude_code.encode(replace(session, entries=(first, replace(second, id="z"), *others))).body
    assert [one["uuid"] for one in body] == ["u-1", "z", *["u-1"] * 7]


def test_a_compaction_stays_before_the_lines_written_again_after_it() -> None:
    """It is read before the lines that it keeps; also when earlier entries were removed, its lines have their place."""
    kept = {"anchorUuid": "s-1", "uuids": ["u-2", "u-3"]}
    place = {"parentUuid": None, "type": "system", "subtype": "compact_boundary"}
    lines = [
        *(line("u-1", None, "1"), line("u-2", "u-1", "2"), line("u-3", "u-2", "3")),
        {"uuid": "b-1", **place, "compactMetadata": {"preservedMessages": kept}},
        line("s-1", "b-1", "A summary", isCompactSummary=True),
        *(line("u-2", "s-1", "2"), line("u-3", "u-2", "3"), line("u-4", "u-3", "4")),
    ]
    session = claude_code.decode(Lines(lines))
    assert claude_code.encode(session).body == lines
    for removed in ({"u-1"}, {"u-2"}, {"u-1", "u-2"}, {"u-1", "u-2", "u-3"}):
        left = tuple(entry for entry in session.entries if entry.id not in removed)
        body = claude_code.encode(replace(session, entries=left)).body
        assert body == [*(one for one in lines[:3] if one["uuid"] not in removed), *lines[3:]]


def test_parts_of_another_answer_keep_their_places() -> None:
    """Two sub-agents at work at the same time; the first answer has a line less, the other's lines stay in order."""
    lines = [
        line("a-1", None, THOUGHT, isSidechain=True, agentId="p"),
        line("a-2", "a-1", call("c1"), isSidechain=True, agentId="p"),
        line("a-3", None, call("c2"), isSidechain=True, agentId="q"),
        line("u-1", "a-2", result("c1"), isSidechain=True, agentId="p"),
        line("u-2", "a-3", result("c2"), isSidechain=True, agentId="q"),
        line("a-4", "a-3", call("c3"), isSidechain=True, agentId="q"),
        line("u-3", "a-4", result("c3"), isSidechain=True, agentId="q"),
    ]
    session = claude_code.decode(Lines(lines))
    answer: Any = session.entries[0].message
    changed = edited(session, 0, *answer.content[1:])
    body = claude_code.encode(changed).body
    assert [one["uuid"] for one in body] == ["a-2", "a-3", "u-1", "u-2", "a-4", "u-3"]
    assert body[1:] == lines[2:]


@pytest.mark.parametrize(
    ("attached", "content"),
    {
        "a text added": ({"type": "skill_listing", "content": "Skills."}, (TextBlock(text="Skills."), TEXT)),
        "a text changed": ({"type": "opened_file_in_ide", "filename": "todo.md"}, (TextBlock(text="Closed: todo.md"),)),
        "an image added": ({"type": "date", "date": "May 1"}, (il.ImageBlock(data="aGk=", mime_type="image/png"),)),
        "a value changed": ({"type": "date", "date": "May 1"}, (TextBlock(text="date: May 2"),)),
    }.values(),
)
def test_an_attachment_that_was_edited_is_what_was_sent(attached: Line, content: Any) -> None:
    """The line states it where the values of its kind cannot."""
    place = {"uuid": "u-2", "parentUuid": "u-1", "sessionId": "s", "type": "attachment"}
    session = claude_code.decode(Lines([SESSION[0], {**place, "attachment": attached, "isSidechain": False}]))
    body, losses = claude_code.encode(edited(session, 1, *content))
    (_, back) = claude_code.decode(json.loads(json.dumps(body))).entries
    assert (blocks(back), losses) == ([replace(block, extra={}) for block in content], ())
    assert body[1]["attachment"]["type"] == attached["type"]


def item(at: int, **payload: Any) -> Line:
    return {"timestamp": f"2026-01-01T10:00:{at:02}.000Z", "type": "response_item", "payload": payload}


ROLLOUT = [
    item(1, type="message", role="user", content=[{"type": "input_text", "text": "How many?"}]),
    item(2, type="reasoning", summary=[{"type": "summary_text", "text": "Count."}], encrypted_content="c2ln"),
    item(3, type="function_call", name="shell", arguments="{}", call_id="c1"),
    item(4, type="function_call_output", call_id="c1", output="12"),
    item(5, type="function_call", name="shell", arguments="{}", call_id="c2"),
    item(6, type="function_call_output", call_id="c2", output="13"),
]


@pytest.mark.parametrize(
    ("at", "change"),
    {
        "without the thought": (1, lambda content: content[1:]),
        "with a text before": (1, lambda content: (TEXT, *content)),
        "with a text behind": (1, lambda content: (*content, TEXT)),
        "one line with a text": (3, lambda content: (TEXT, *content)),
        "one line with a text behind": (3, lambda content: (*content, TEXT)),
    }.values(),
)
def test_each_block_of_an_answer_is_an_item_of_codex(at: int, change: Any) -> None:
    session = codex_cli.decode(Lines(ROLLOUT))
    changed = edited(session, at, *change(session.entries[at].message.content))
    body, losses = codex_cli.encode(il.load(il.dump(changed)))
    assert losses == ()
    assert [blocks(entry) for entry in codex_cli.decode(body).entries] == [blocks(entry) for entry in changed.entries]
    others = [one for one in ROLLOUT if one["payload"].get("call_id") == ("c2" if at == 1 else "c1")]
    assert [one for one in body if one in others] == others
    for one in body:  # as the program reads it
        assert one["payload"]["type"] != "message" or isinstance(one["payload"]["content"], list)


def test_lines_among_the_items_of_an_answer_of_codex_stay_there() -> None:
    other = {"timestamp": "2026-01-01T10:00:02.500Z", "type": "event_msg", "payload": {"type": "plan_update"}}
    lines = [*ROLLOUT[:2], other, *ROLLOUT[2:]]
    session = codex_cli.decode(Lines(lines))
    (at,) = (at for at, entry in enumerate(session.entries) if len(blocks(entry)) == 2)
    answer: Any = session.entries[at].message
    assert codex_cli.encode(edited(session, at, *answer.content[1:])).body == [lines[0], *lines[2:]]
    body = codex_cli.encode(edited(session, at, *answer.content, TEXT)).body
    assert [one for one in body if one in lines] == lines


def test_events_of_codex_are_those_of_their_blocks() -> None:
    told = {"agent_reasoning": ("text", "Count."), "agent_message": ("message", "Twelve.")}
    lines = [
        {"timestamp": "2026-01-01T10:00:00.000Z", "type": "event_msg", "payload": {"type": kind, key: text}}
        for kind, (key, text) in {"user_message": ("message", "How many?"), **told}.items()
    ]
    session = codex_cli.decode(Lines(lines))
    thought, text = ThinkingBlock(thinking="Why?"), TextBlock(text="Thirteen.")
    changed = edited(session, 1, text, thought)
    assert [blocks(entry) for entry in codex_cli.decode(codex_cli.encode(changed).body).entries[1:]] == [
        [text, thought]
    ]
    with pytest.raises(Unsupported):
        codex_cli.encode(edited(session, 1, text, ToolCall(id="c", name="shell", arguments={})))


def test_items_of_their_own_are_left_where_they_cannot_hold_a_change() -> None:
    tools = [{"type": "function", "name": "wc"}]
    lines = [
        item(1, type="local_shell_call", call_id="c1", status="completed", action={"command": ["ls"]}),
        item(2, type="function_call_output", call_id="c1", output="12"),
        item(3, type="tool_search_call", call_id="c2", execution="client", arguments={"query": "count"}),
        item(4, type="tool_search_output", call_id="c2", execution="client", tools=tools),
        item(5, type="agent_message", content=[{"type": "input_text", "text": "Done."}], author="b"),
    ]
    session = codex_cli.decode(Lines(lines))
    calls = [entry.message.content[0] for entry in session.entries if isinstance(entry.message, il.AssistantMessage)]
    for at, call in zip((0, 2), calls, strict=True):
        changed = edited(session, at, replace(call, name="walrus"))
        (found,) = codex_cli.decode(codex_cli.encode(changed).body).entries[at].message.tool_calls
        assert (found.name, found.arguments) == ("walrus", call.arguments)
    found = session.entries[3]
    body = codex_cli.encode(edited(session, 3, TEXT)).body
    assert text_of(codex_cli.decode(body).entries[3].message.content) == TEXT.text
    failed = replace(session, entries=(replace(found, message=replace(found.message, is_error=True)),))
    assert [loss.what for loss in codex_cli.encode(failed).losses] == ["is_error"]
    with pytest.raises(Unsupported):
        codex_cli.encode(edited(session, 4, il.ImageBlock(data="aGk=", mime_type="image/png")))


def test_losses_are_in_the_message_whose_parts_the_lines_are() -> None:
    session = codex_cli.decode(Lines(ROLLOUT))
    last: Any = session.entries[4]
    failed = replace(last, message=replace(last.message, is_error=True))
    assert [
        loss.path for loss in codex_cli.encode(replace(session, entries=(*session.entries[:4], failed))).losses
    ] == ["$.messages[4].isError"]
    claude = claude_code.decode(Lines(SESSION))
    sealed = ThinkingBlock(thinking="Count.", thinking_signature="c2ln", redacted=True)
    changed = edited(claude, 1, TEXT, sealed, *claude.entries[1].message.content[1:])
    system = replace(changed, system="Be brief.")
    assert [loss.path for loss in claude_code.encode(system).losses] == [
        "$.system",
        "$.messages[1].content[1].thinking",
    ]


def printed(id: str, **fields: Any) -> Line:
    return {"type": "item.completed", "item": {"id": id, **fields}}


def test_a_result_that_shares_its_line_with_a_call_stays_behind_it() -> None:
    started = {"type": "item.started", "item": {"id": "i-2", "type": "command_execution", "command": "wc"}}
    lines = [
        printed("i-1", type="reasoning", text="Count."),
        started,
        printed("i-2", type="command_execution", command="wc", aggregated_output="12"),
        printed("i-3", type="agent_message", text="Twelve."),
    ]
    session = codex_exec.decode(Lines(lines))
    answer: Any = session.entries[0].message
    assert codex_exec.encode(edited(session, 0, *answer.content[1:])).body == lines[1:]


@pytest.mark.parametrize("name", ["claude-code", "codex-cli"])
def test_files_that_nobody_edited_come_back(name: str) -> None:
    lines = {"claude-code": SESSION, "codex-cli": ROLLOUT}[name]
    codec: Any = FORMATS[name].codec
    assert codec.encode(codec.decode(Lines(lines))).body == lines


def test_a_result_whose_call_was_removed_is_reported() -> None:
    """Its record holds the call, and an event stands before it now."""
    item = {"id": "i1", "type": "command_execution", "command": "ls", "aggregated_output": "a", "exit_code": 0}
    lines = [{"type": "turn.started"}, {"type": "item.completed", "item": {**item, "status": "completed"}}]
    session = codex_exec.decode(Lines(lines))
    (at,) = (at for at, entry in enumerate(session.entries) if isinstance(entry.message, il.AssistantMessage))
    changed = replace(session, entries=(*session.entries[:at], *session.entries[at + 1 :]))
    body, losses = codex_exec.encode(changed)
    assert lines[:1] == body
    assert ["ToolResultMessage"] == [loss.what for loss in losses]
