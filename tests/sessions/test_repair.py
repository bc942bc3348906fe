"""The doctor: each kind of damage, what is found, and what the new file says."""

import json
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.conversion.adapting.work import NO_RESULT
from interlingua.sessions import Session
from interlingua.sessions.repair import EMPTY, examine
from sessions.making import lines_of, texts

USER: dict[str, Any] = {"role": "user", "content": "Hi", "id": "u"}
CALL: dict[str, Any] = {"type": "toolCall", "id": "c", "name": "read", "arguments": {}}
CALLING: dict[str, Any] = {"role": "assistant", "content": [CALL], "id": "a", "parentId": "u"}
RESULT: dict[str, Any] = {"role": "toolResult", "toolCallId": "c", "content": "r", "isError": False}
END: dict[str, Any] = {"role": "assistant", "content": "end"}


def doctored(*lines: dict[str, Any] | bytes, tail: bytes = b"") -> tuple[list[str], list[Any]]:
    """What was found, by its word; and the lines of the new file, which has no findings."""
    found = examine(lines_of(*lines) + tail)
    assert () == examine(found.data).findings
    return [finding.what for finding in found.findings], [json.loads(line) for line in found.data.splitlines()]


def placed(line: dict[str, Any], id: str, parent: str | None) -> dict[str, Any]:
    return {**line, "id": id} | ({} if parent is None else {"parentId": parent})


def test_a_healthy_file_comes_back_byte_for_byte() -> None:
    """Odd spacing, foreign roles, blank lines and bare lines are not damage."""
    data = lines_of(
        b'{ "role":"session", "version":1 }',
        b"",
        b'{"role":"user" ,"content":"Hi"}',
        {"role": "weather", "rain": True},
        {"role": "assistant", "content": [CALL], "stopReason": "aborted"},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": [CALL]},
        RESULT,
        {"role": "head", "target": "line-3"},
    )
    assert ((), data) == examine(data)


def test_bad_lines_and_a_torn_tail_are_left_out() -> None:
    """Each is named with its line."""
    assert (["bad-line", "bad-line", "torn-tail"], [USER]) == doctored(b"{x", USER, b"[1]", tail=b'{"role":"us')


def test_case_105_what_was_glued_to_half_a_line_is_saved() -> None:
    """The half is lost, the whole one is not."""
    glued = b'{"role":"user","content":"hal{"role":"user","content":"whole"}'
    both = b'{"role":"user","content":"one"}{"role":"user","content":"two"}'
    found, lines = doctored(glued, both)
    assert ["bad-line", "bad-line"] == found
    assert ["whole", "one", "two"] == [line["content"] for line in lines]


def test_all_messages_of_an_array_in_one_line_are_saved() -> None:
    """However many: with braces, quotes and letters of any kind in their words."""
    contents = [f'{n}: {{"role": "user"}} é漢 \\ ' + "x" * 1000 for n in range(250)]
    array = [{"role": "user", "content": text} for text in contents]
    for data in (json.dumps(array).encode(), json.dumps(array, ensure_ascii=False).encode()):
        found, lines = doctored(data)
        assert (["bad-line"], contents) == (found, [line["content"] for line in lines])


def test_case_22_empty_call_ids_are_given_pairwise() -> None:
    """Call and result together, and the session can be resumed anywhere."""
    found, lines = doctored(
        USER,
        {**CALLING, "content": [{**CALL, "id": ""}, {**CALL, "id": ""}]},
        placed({**RESULT, "toolCallId": "", "content": "first"}, "r1", "a"),
        placed({**RESULT, "toolCallId": "", "content": "second"}, "r2", "r1"),
        placed(END, "e", "r2"),
    )
    assert ["call-id", "call-id"] == found
    ids = [block["id"] for block in lines[1]["content"]]
    assert all(ids) and 2 == len(set(ids))
    assert [(ids[0], "first"), (ids[1], "second")] == [(line["toolCallId"], line["content"]) for line in lines[2:4]]
    resumed = il.decode(lines_of(*lines), "transcript")
    assert [] == [f for f in il.check(resumed, target="anthropic-messages") if f.severity == "error"]


def test_case_27_after_one_repair_calls_and_results_are_a_bijection() -> None:
    """A call without a result gets one, a result without a call goes; a second repair changes nothing."""
    found, lines = doctored(
        USER,
        {**CALLING, "content": [CALL, {**CALL, "id": "d"}]},
        placed(RESULT, "r1", "a"),
        placed({**RESULT, "toolCallId": "stray"}, "r2", "r1"),
        placed(RESULT, "r3", "r2"),
        placed(END, "e", "r3"),
    )
    assert ["result", "result", "call"] == found
    assert ["c", "d"] == [line["toolCallId"] for line in lines if line["role"] == "toolResult"]
    assert ["u", "a", "r1", lines[3]["id"], "e"] == [line["id"] for line in lines]
    assert [None, "u", "a", "r1", lines[3]["id"]] == [line.get("parentId") for line in lines]


def test_case_28_an_added_result_blames_nobody() -> None:
    """It is marked, and tells the model not to assume that the tool ran."""
    found, lines = doctored(USER, CALLING, {"role": "user", "content": "next", "id": "n", "parentId": "a"})
    assert ["call"] == found
    added = lines[2]
    assert (NO_RESULT, True, True) == (added["content"][0]["text"], added["isError"], added["synthetic"])
    assert "user" not in NO_RESULT


def test_case_29_ids_with_nothing_in_common_do_not_pile_up() -> None:
    """As many results as calls, and the repair is the new file."""
    found, lines = doctored(USER, CALLING, placed({**RESULT, "toolCallId": "other"}, "r", "a"), placed(END, "e", "r"))
    assert ["result", "call"] == found
    assert ["user", "assistant", "toolResult", "assistant"] == [line["role"] for line in lines]


def test_a_result_that_came_too_late_moves_behind_its_call() -> None:
    """Nothing that a tool gave is thrown away for being displaced."""
    found, lines = doctored(
        USER, CALLING, {"role": "user", "content": "steer"}, {"role": "user", "content": "more"}, RESULT, END
    )
    assert ["order"] == found
    assert ["Hi", None, "r", "steer", "more", "end"] == [
        line["content"] if isinstance(line["content"], str) else None for line in lines
    ]


def test_calls_at_the_ends_of_all_branches_are_answered_and_the_head_stays() -> None:
    """A run that was cut off, here and on another branch."""
    found, lines = doctored(
        USER, CALLING, placed({**CALLING, "content": [{**CALL, "id": "d"}]}, "b", "u"), USER | {"id": "z"}
    )
    assert ["call", "call"] == found
    assert {"role": "head", "target": "z"} == lines[-1]


def test_a_failed_answer_needs_no_results() -> None:
    """Its calls were never to be run; what is there stays."""
    failed = {**CALLING, "stopReason": "error", "errorMessage": "overloaded"}
    assert [] == doctored(USER, failed, {"role": "user", "content": "again"})[0]
    assert [] == doctored(USER, failed, RESULT, {"role": "user", "content": "again"})[0]


def test_orphans_circles_and_double_ids_get_their_place() -> None:
    """Behind the line before; the later of two equal ids gets another."""
    found, lines = doctored(
        {**USER, "parentId": "b"},
        placed(END, "a", "gone"),
        {"role": "user", "content": "x", "id": "a", "parentId": "a"},
        {"role": "user", "content": "y", "id": "s", "parentId": "s"},
    )
    assert ["parent", "parent", "id", "parent"] == found
    assert [("u", None), ("a", "u"), ("a-2", "a"), ("s", "a-2")] == [(x["id"], x.get("parentId")) for x in lines]


def test_null_and_blank_content_says_something() -> None:
    """A user's or a tool's message is not dropped; an answer's blank parts are."""
    blank = {"type": "text", "text": " "}
    found, lines = doctored(
        {"role": "user", "content": None},
        {"role": "assistant", "content": [blank, {**CALL}]},
        {**RESULT, "content": [blank]},
        {"role": "user", "content": [blank, {"type": "text", "text": "x"}]},
        {"role": "assistant", "content": None},
    )
    assert ["blank"] * 5 == found
    assert EMPTY == lines[0]["content"]
    assert [CALL] == lines[1]["content"]
    assert "(no output)" == lines[2]["content"]
    assert [{"type": "text", "text": "x"}] == lines[3]["content"]
    assert [] == lines[4]["content"]


def test_stale_heads_labels_and_compactions_are_put_right() -> None:
    """They name what is not there."""
    found, lines = doctored(
        USER,
        {"role": "head", "target": "gone"},
        {"role": "label", "target": "gone", "label": "x"},
        {"role": "label", "target": "u", "label": "y"},
        {"role": "compaction", "summary": "s", "firstKept": "gone", "id": "k", "parentId": "u"},
    )
    assert ["head", "label", "first-kept"] == found
    assert ["user", "label", "compaction"] == [line["role"] for line in lines]
    assert "firstKept" not in lines[2]


def test_references_follow_what_was_renamed_or_moved() -> None:
    """Labels, heads and first kept entries by line number point to the same messages."""
    data = lines_of(
        b"{bad",
        {"role": "user", "content": "one"},
        {"role": "user", "content": "two"},
        {"role": "compaction", "summary": "s", "firstKept": "line-3"},
        {"role": "label", "target": "line-2", "label": "first"},
        {"role": "head", "target": "line-3"},
    )
    lines = [json.loads(line) for line in examine(data).data.splitlines()]
    assert "line-2" == lines[2]["firstKept"]
    assert ("line-1", "line-2") == (lines[3]["target"], lines[4]["target"])


CHAT_CALL = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"a":1}'}}
OUR_CALL = {"role": "assistant", "content": [{**CALL, "arguments": {"a": 1}}]}
WIRES: dict[str, list[dict[str, Any]]] = {
    "chat completions": [
        {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ],
    "Anthropic": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}]},
    ],
    "toolUseId": [OUR_CALL, {"role": "toolResult", "toolUseId": "c", "content": "r"}],
    "tool_result role": [OUR_CALL, {"role": "tool_result", "toolCallId": "c", "content": "r"}],
}


@pytest.mark.parametrize("name", WIRES)
def test_other_wires_words_are_read_and_written_as_ours(name: str) -> None:
    """Calls and results in any spelling."""
    found, lines = doctored(USER, *WIRES[name], {"role": "assistant", "content": "end"})
    assert {"shape"} == set(found)
    conversation = il.decode(lines_of(*lines), "transcript")
    messages = [message for message in conversation.messages if not isinstance(message, il.CustomMessage)]
    assert [il.UserMessage, il.AssistantMessage, il.ToolResultMessage, il.AssistantMessage] == list(map(type, messages))
    assert [("c", "read", {"a": 1})] == [(c.id, c.name, c.arguments) for c in messages[1].tool_calls]  # type: ignore[union-attr]
    assert ("c", "read", "r") == (messages[2].tool_call_id, messages[2].tool_name, texts([messages[2]])[0])  # type: ignore[union-attr]


def test_one_line_that_was_several_messages_keeps_its_id_for_what_follows() -> None:
    """The parts before it are behind one another."""
    mixed = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}, {"type": "text", "text": "go on"}],
        "id": "m",
        "parentId": "a",
    }
    _, lines = doctored(USER, CALLING, mixed, placed(END, "e", "m"))
    assert [("u", None), ("a", "u"), ("m.1", "a"), ("m", "m.1"), ("e", "m")] == [
        (line["id"], line.get("parentId")) for line in lines
    ]


def test_what_makes_no_sense_at_all_is_kept_aside() -> None:
    """Under a role that no model is told of."""
    found, lines = doctored({"role": "user", "content": {"deep": 1}}, {"role": "assistant", "content": [], "usage": 7})
    assert ["shape", "shape"] == found
    assert '{"deep":1}' == lines[0]["content"]
    assert "assistant" == lines[1]["role"] and "usage" not in lines[1]


def test_foreign_pictures_and_thinking_are_read() -> None:
    """Blocks with our names for their kind, and another wire's for what is in them."""
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    found, lines = doctored(
        {"role": "user", "content": [{"type": "image", "source": source}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
    )
    assert ["shape", "shape"] == found
    assert [{"type": "image", "data": "aGk=", "mimeType": "image/png"}] == lines[0]["content"]
    assert [{"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}] == lines[1]["content"]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ({"role": "developer", "content": {"x": 1}}, ['{"x": 1}']),
        ({"role": "tool", "content": [5]}, ["[5]"]),
        ({"role": "user", "content": [{"type": "tool_use"}, {"type": "text", "text": "kept"}]}, ["tool_use", "kept"]),
        ({"role": "assistant", "content": "kept", "tool_calls": 7}, ['"tool_calls": 7', "kept"]),
        ({"role": "assistant", "content": [{"type": "image", "source": 5}]}, ["image", r"\"source\":5"]),
        ({"role": "toolResult", "toolCallId": "c", "content": [{"type": "tool_result", "content": "kept"}]}, ["kept"]),
    ],
)
def test_foreign_words_that_nobody_understands_are_kept(line: dict[str, Any], kept: list[str]) -> None:
    """As text, beside the message or under a role of their own: all the line said is still in the file."""
    found, lines = doctored(USER, CALLING, line)
    assert "shape" in found
    dumped = json.dumps(lines)
    assert kept == [word for word in kept if word in dumped]


def test_another_programs_file_is_written_in_our_words(tmp_path: Path) -> None:
    """Its tree, labels and compactions too."""
    rest: dict[str, Any] = {"timestamp": "2026-01-01T00:00:00Z"}
    one, two = {"role": "user", "content": "one"}, {"role": "user", "content": "two"}
    theirs = lines_of(
        {"type": "session", "version": 3, "id": "s", "cwd": "/x", **rest},
        {"type": "message", "id": "a", "parentId": None, "message": one, **rest},
        {"type": "label", "id": "l", "parentId": "a", "targetId": "a", "label": "L", **rest},
        {"type": "message", "id": "b", "parentId": "l", "message": two, **rest},
        {"type": "compaction", "id": "k", "parentId": "b", "summary": "S", "firstKeptEntryId": "b", **rest},
    )
    found = examine(theirs)
    assert ["foreign-file"] == [finding.what for finding in found.findings]
    assert () == examine(found.data).findings
    path = tmp_path / "x.jsonl"
    path.write_bytes(found.data)
    with Session.open(path, read_only=True) as session:
        assert (["one", "two"], {"a": "L"}, ()) == (texts(session.messages), session.labels(), session.problems)
        assert ["two"] == texts(session.context_messages())[1:]


def test_what_the_doctor_wrote_opens_as_a_session(tmp_path: Path) -> None:
    """With the same words on the path."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(examine(lines_of(USER, b"{bad", CALLING, {"role": "user", "content": "go"})).data)
    with Session.open(path) as session:
        assert ["Hi", "", NO_RESULT, "go"] == texts(session.messages)
        assert () == session.problems
        session.fork().close()
