"""Claude Code's sessions: lines of a tree, with Anthropic's messages in them."""

import json
from pathlib import Path

import pytest

import interlingua as il
from interlingua.dialects.files import claude_code
from interlingua.values.errors import BadWire, Unsupported
from interlingua.values.losses import Lines

SESSION = (Path(__file__).parents[1] / "wire/claude-code/session.jsonl").read_bytes()


def test_lines_are_entries_of_a_tree() -> None:
    """Ids and parents are the file's; a line of several messages lends its id to the last of them."""
    session = claude_code.decode(SESSION)
    places = {entry.id: entry.parent_id for entry in session.entries if entry.id}
    assert places == {
        "u-1": None,
        "a-2": "u-1",  # a-1 and a-2 are one answer
        "u-2": "a-2",
        "u-3#0": "u-2",
        "u-3": "u-3#0",
        "x-1": "a-2",
        "y-1": "u-3",
        "a-9": "y-1",
        "x-2": "x-1",
    }


def test_a_session_stands_at_its_last_line_that_is_not_a_sub_agents() -> None:
    """Sub-agents are branches; the path to the head does not go through them."""
    session = claude_code.decode(SESSION)
    assert session.head == "a-9"
    path = [entry.id for entry in session.path()]
    assert path == ["u-1", "a-2", "u-2", "u-3#0", "u-3", "y-1", "a-9"]
    assert session.model == il.ModelDescriptor(id="claude-sonnet-4-5", provider="anthropic")


def test_messages_are_read_as_the_wire_has_them() -> None:
    """Thinking with its signature, calls, results with their tool's name and what the program was told, usage, time."""
    messages = claude_code.decode(SESSION).messages
    answer, result, second, text = messages[1:5]
    thought = il.ThinkingBlock(thinking="I should count them.", thinking_signature="c2lnbmF0dXJl")
    assert answer.content[0] == thought  # one answer, streamed as several lines
    assert answer.usage.cache_read == 4000
    assert answer.response_id == "msg_1"
    assert [call.name for call in answer.tool_calls] == ["Bash", "Read"]
    assert (result.tool_name, result.content, result.details["stdout"]) == ("Bash", "12 todo.md", "12 todo.md")
    assert (second.tool_name, second.details) == ("Read", None)
    assert text.content == (il.TextBlock(text="[Request interrupted by user]"),)
    assert messages[0].timestamp == 1759392001250


def test_other_lines_keep_their_kind() -> None:
    """A notice is no system message: it never reached the model. The output of a local command did."""
    notice = SESSION.replace(b'"local_command"', b'"informational"')
    for data, expected in ((SESSION, []), (notice, ["claude-code:system"])):
        entries = claude_code.decode(data).entries
        roles = [entry.message.role for entry in entries if isinstance(entry.message, il.CustomMessage)]
        assert roles == ["summary", "file-history-snapshot", *expected, "queue-operation"]


def test_a_bad_line_is_named() -> None:
    """The number of the line is in the message."""
    with pytest.raises(BadWire, match="line 2"):
        claude_code.decode(b'{"type":"summary"}\n{"type":')


def test_a_foreign_message_among_its_own_is_refused_with_its_place() -> None:
    """Lines are not made up for messages that never stood in one."""
    session = claude_code.decode(SESSION.splitlines()[2])
    longer = il.Conversation(
        entries=(*session.entries, il.Entry(message=il.UserMessage(content="More"))), extra=session.extra
    )
    with pytest.raises(Unsupported, match="read and returned") as refused:
        claude_code.encode(longer)
    assert refused.value.path == "$.messages[1]"


def test_a_session_reaches_the_wire() -> None:
    """The path to the head is a request that Anthropic's dialect can say."""
    body = il.convert(SESSION, "anthropic-messages").body
    assert [message["role"] for message in body["messages"]][:2] == ["user", "assistant"]
    assert "toolu_1" in json.dumps(body)


def line(uuid: str, parent: str | None, type: str, content: object, **more: object) -> dict[str, object]:
    inner: dict[str, object] = {"role": type, "content": content}
    if "id" in more:
        inner |= {"type": "message", "id": more.pop("id"), "model": "claude-x", "usage": more.pop("usage", USAGE)}
    return {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": type, "message": inner, **more}


USAGE = {"input_tokens": 3, "output_tokens": 5}


def call(id: str) -> dict[str, object]:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {}}


def result(id: str) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": id, "content": f"of {id}"}


PARALLEL = [
    line("u", None, "user", "Go"),
    line(
        "a1", "u", "assistant", [{"type": "text", "text": "Two at once."}], id="m1", usage={**USAGE, "output_tokens": 1}
    ),
    line("a2", "a1", "assistant", [call("c1")], id="m1"),
    line("r1", "a2", "user", [result("c1")]),
    line("a3", "a2", "assistant", [call("c2")], id="m1"),
    line("p", "a3", "progress", None),
    line("r2", "a3", "user", [result("c2")]),
    line("n", "r1", "user", "<system-reminder>Note</system-reminder>", isMeta=True),
    line("b", "r2", "assistant", [{"type": "text", "text": "Done."}], id="m2"),
]


def test_results_of_parallel_calls_follow_one_another() -> None:
    """In the file they are siblings: each has the line of its own call for a parent."""
    session = claude_code.decode(PARALLEL)
    assert ["u", "a3", "r1", "p", "r2", "n", "b"] == [entry.id for entry in session.path()]
    assert [5, 5] == [m.usage.output for m in session.messages if isinstance(m, il.AssistantMessage) and m.usage]
    assert PARALLEL == claude_code.encode(session).body
    for wire in ("anthropic-messages", "openai-completions", "openai-responses"):
        body = json.dumps(il.encode(session, wire).body)
        assert "of c1" in body
        assert "of c2" in body
        assert "No result was recorded" not in body


def test_what_the_program_put_in_is_distinguished_from_what_a_person_wrote() -> None:
    """By the marks of the line, and by the tags that only the program writes."""
    session = claude_code.decode(PARALLEL)
    assert [None, "program"] == [m.origin for m in session.messages if isinstance(m, il.UserMessage)]


def test_the_title_is_the_persons_then_the_models_then_a_summary_of_this_session() -> None:
    """Summaries of other sessions stand at the top of a file."""
    other, own = (
        {"type": "summary", "summary": "Other", "leafUuid": "z"},
        {"type": "summary", "summary": "Own", "leafUuid": "b"},
    )
    ai, custom = {"type": "ai-title", "aiTitle": "Model"}, {"type": "custom-title", "customTitle": "Person"}
    titles = [claude_code.decode([*some, *PARALLEL]).title for some in ([other], [other, own], [own, ai], [custom, ai])]
    assert [None, "Own", "Model", "Person"] == titles


def test_history_before_a_compaction_is_in_the_tree_and_not_on_the_path() -> None:
    """The model reads the summary in its place."""
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "s",
        "parentUuid": None,
        "logicalParentUuid": "b",
    }
    summary = line("k", "s", "user", "It was about calls.", isCompactSummary=True)
    session = claude_code.decode([*PARALLEL, boundary, summary])
    assert ["s", "k"] == [entry.id for entry in session.path()]
    assert 9 == len(session.entries)


def test_an_error_that_stands_as_an_answer_has_failed() -> None:
    """No model gave it, and none reads it; the lines come back as they were."""
    text = [{"type": "text", "text": "API Error: 529"}]
    failed = line("b", "a", "assistant", text, id="m", isApiErrorMessage=True)
    failed["message"] |= {"model": "<synthetic>", "stop_reason": "stop_sequence", "stop_sequence": ""}  # type: ignore[operator]
    lines = [line("a", None, "user", "Hi"), failed, line("c", "b", "user", "Again")]
    session = claude_code.decode(lines)
    answer = session.messages[1]
    assert ("error", "API Error: 529") == (answer.stop_reason, answer.error_message)
    assert lines == claude_code.encode(il.load(il.dump(session))).body
    assert "529" not in il.encode(session, "openai-completions").bytes().decode()


def test_a_sub_agent_is_a_tree_of_its_own_that_names_its_call() -> None:
    """By what it is asked, in files; by `parent_tool_use_id`, in the program's output."""
    asked = {"type": "tool_use", "id": "t", "name": "Task", "input": {"prompt": "Look"}}
    inline = [
        line("u", None, "user", "Go"),
        line("a", "u", "assistant", [asked], id="m1"),
        line("x", None, "user", "Look", isSidechain=True),
        line("y", "x", "assistant", [{"type": "text", "text": "Seen"}], id="m2", isSidechain=True),
        line("r", "a", "user", [result("t")]),
    ]
    streamed = [
        {**{k: v for k, v in one.items() if k not in ("parentUuid", "sessionId", "isSidechain")}, "session_id": "s"}
        for one in inline
    ]
    for at in (2, 3):
        streamed[at]["parent_tool_use_id"] = "t"
    streamed.append(
        {"type": "result", "session_id": "s", "usage": {"input_tokens": 70, "output_tokens": 7}, "total_cost_usd": 0.5}
    )
    for lines in (inline, streamed):
        session = claude_code.decode(lines)
        assert ["u", "a", "r"] == [
            entry.id for entry in session.path() if isinstance(entry.message, il.values.messages.MessageBase)
        ][:3]
        (first,) = [entry for entry in session.entries if entry.id == "x"]
        assert (None, {"entry": "a", "callId": "t"}) == (first.parent_id, first.extra["claude-code"]["~spawnedBy"])
        assert lines == claude_code.encode(session).body
    assert (70, 7, 0.5) == (session.usage.input, session.usage.output, session.usage.cost.total)


def test_a_working_directory_does_not_make_a_session_a_stream_of_frames() -> None:
    """`-type` in the first bytes of a file is no header of AWS."""
    data = json.dumps({**PARALLEL[0], "cwd": "/a:b/content-type"}).encode() + b"\n" + json.dumps(PARALLEL[1]).encode()
    assert "claude-code" == il.detect(data).dialect


def test_an_export_from_the_web_is_read_and_returned() -> None:
    """Its lines are `loglines` of one object."""
    export = {"id": "x", "loglines": PARALLEL, "updated": 1}
    assert "claude-code" == il.detect(export).dialect
    assert export == il.encode(il.decode(export), "claude-code").body


def test_a_line_that_the_file_has_twice_makes_no_circle() -> None:
    """Each has a place of its own, and both come back."""
    lines = [*PARALLEL[:4], PARALLEL[3], *PARALLEL[4:]]
    session = claude_code.decode(lines)
    assert not [finding for finding in il.check(session) if "circle" in finding.message]
    assert lines == claude_code.encode(session).body


@pytest.mark.parametrize("changed", ["nothing", "streamed", "blank lines", "sub-agents", "odd lines"])
def test_a_file_is_read_line_by_line_as_it_is_as_a_whole(tmp_path: Path, changed: str) -> None:
    """With all that its lines say about one another."""
    lines = [json.loads(line) for line in SESSION.splitlines()]
    if changed == "streamed":
        lines = [{("session_id" if key == "sessionId" else key): line[key] for key in line} for line in lines]
        lines.append({"type": "result", "usage": {"input_tokens": 3, "output_tokens": 4}, "total_cost_usd": 0.5})
    elif changed == "sub-agents":
        lines[3:6] = [{**line, "isSidechain": True, "agentId": "a"} for line in lines[3:6]]
    elif changed == "odd lines":
        lines += [{"type": 3}, {}, lines[2], {"type": "summary", "summary": "S", "leafUuid": lines[2].get("uuid")}]
    end = "\n\r\n \n" if changed == "blank lines" else "\n"
    file = tmp_path / "session.jsonl"
    file.write_text("".join(json.dumps(line) + end for line in lines))
    expected = claude_code.decode(Lines(lines))
    assert expected == claude_code.read(file.read_bytes().splitlines(keepends=True))
    assert [expected] == list(il.read(file)) == list(il.read(file, "claude-code")) == list(il.read(file.read_bytes()))


def test_what_is_no_file_of_lines_is_left_to_the_slower_way() -> None:
    """A document in one line, a torn line, a line that is no object."""
    line = b'{"type":"user","uuid":"a","parentUuid":null,"message":{"role":"user","content":"x"}}\n'
    assert claude_code.read([line, line]) is not None
    for raws in ([line], [line, line[:-9]], [line, b"[]\n"], [b'{"loglines":[' + line + b"]}"], []):
        assert claude_code.read(raws) is None
    (found,) = il.read(line + line[:-9] + b"\n" + line.replace(b'"a"', b'"b"'))
    assert (2, 2) == (len(found.entries), found.problems[0].line)
