"""Gemini CLI's sessions and checkpoints."""

import json
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from dialects.trips import returned
from interlingua.dialects.files import gemini_cli
from interlingua.values.errors import BadWire
from interlingua.values.messages import text_of

WIRE = Path(__file__).parents[1] / "wire/gemini-cli"
SESSION = json.loads((WIRE / "session.json").read_text())


def test_an_answer_is_followed_by_what_its_tools_gave() -> None:
    """Thoughts, calls and results of one record; a picture beside a result is a message of its own."""
    messages = gemini_cli.decode(SESSION).messages
    answer, first, second, picture = messages[1:5]
    assert answer.thinking == "**Counting** I will run wc."
    assert [call.name for call in answer.tool_calls] == ["run_shell_command", "read_file", "write_file"]
    assert [(result.tool_call_id, text_of(result.content)) for result in (first, second)] == [
        ("run-1", "12"),
        ("run-2", "Binary content provided."),
    ]
    assert picture.content[0].mime_type == "image/png"


def test_usage_is_in_disjoint_buckets() -> None:
    """The prompt's tokens include the cached ones; thinking is counted beside the output."""
    usage = gemini_cli.decode(SESSION).messages[1].usage
    assert (usage.input, usage.cache_read, usage.output, usage.reasoning, usage.total_tokens) == (300, 600, 42, 30, 942)


def test_a_result_that_was_changed_is_encoded_in_its_call() -> None:
    """Results stand in their calls, in the words of the wire."""
    session = il.dump(gemini_cli.decode(SESSION)).replace(b'"text":"12"', b'"text":"13"')
    encoded = gemini_cli.encode(il.load(session, il.Conversation)).body
    (part,) = encoded["messages"][1]["toolCalls"][0]["result"]
    assert part["functionResponse"]["response"] == {"output": "13"}


@pytest.mark.parametrize("key", ["", "history", "clientHistory"])
def test_a_checkpoint_holds_contents(key: str) -> None:
    """A bare list, or a list in an object; a call without an id is answered all the same."""
    contents = json.loads((WIRE / "checkpoint.json").read_text())["history"]
    checkpoint: Any = {key: contents, "toolCall": {"name": "edit"}} if key else contents
    call, result = gemini_cli.decode(checkpoint).messages[1:3]
    assert call.tool_calls[0].id == result.tool_call_id
    assert returned("gemini-cli", checkpoint) == checkpoint


@pytest.mark.parametrize("value", [{}, {"messages": 1}, 7, {"messages": [1]}, [{"role": 1}]])
def test_what_is_neither_is_refused(value: Any) -> None:
    """One error that names the place."""
    with pytest.raises(BadWire):
        gemini_cli.decode(value)


HEADER = {"sessionId": "s", "projectHash": "p", "startTime": "2026-01-01T00:00:00Z"}


def record(id: str, type: str, content: str, **more: object) -> dict[str, object]:
    return {"id": id, "type": type, "content": content, "timestamp": "2026-01-01T00:00:00.000Z", **more}


LOGS = {
    "written twice": [
        HEADER,
        record("u", "user", "Go"),
        record("a", "gemini", "O"),
        record("b", "user", "On"),
        record("a", "gemini", "Ok"),
    ],
    "rewound": [
        HEADER,
        record("u", "user", "Go"),
        record("a", "gemini", "Ok"),
        record("x", "user", "No"),
        {"$rewindTo": "x"},
        record("b", "user", "On"),
    ],
    "set": [
        HEADER,
        record("x", "user", "No"),
        {"$set": {"messages": [record("u", "user", "Go"), record("a", "gemini", "O")]}},
        record("a", "gemini", "Ok"),
        record("b", "user", "On"),
    ],
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_says_what_counts_last(name: str) -> None:
    """What was replaced, rewound or set anew is in the tree and not on the path; the lines come back."""
    lines = [*LOGS[name], {"$set": {"summary": "A title"}}]
    session = gemini_cli.decode(lines)
    assert ["Go", "Ok", "On"] == [m.text for m in session.messages if not isinstance(m, il.CustomMessage)]
    assert "A title" == session.title
    assert lines == list(gemini_cli.encode(il.load(il.dump(session))).body)
    transcript = il.encode(session, "transcript").bytes()
    assert lines == list(il.encode(il.decode(transcript, "transcript"), "gemini-cli").body)


def test_a_log_that_was_rewound_to_an_unknown_record_is_empty() -> None:
    """As the program reads it."""
    lines = [HEADER, record("u", "user", "Go"), {"$rewindTo": "nowhere"}]
    session = gemini_cli.decode(lines)
    assert [] == [m for m in session.messages if isinstance(m, il.UserMessage)]
    assert lines == list(gemini_cli.encode(session).body)


def test_a_call_without_an_id_is_a_call() -> None:
    """Its made up id never goes back."""
    call = {"name": "read", "args": {"path": "a"}, "status": "success"}
    body = {"sessionId": "s", "projectHash": "p", "messages": [record("a", "gemini", "", toolCalls=[call, call])]}
    session = gemini_cli.decode(body)
    assert ["a-0", "a-1"] == [one.id for one in session.messages[0].tool_calls]
    assert body == gemini_cli.encode(session).body


def test_a_log_of_its_header_alone_is_an_empty_session() -> None:
    """The program was left before the first prompt; the line comes back."""
    header = {"sessionId": "0d5f", "projectHash": "c0ffee", "startTime": "2026-03-24T12:00:00.000Z", "kind": "main"}
    session = il.decode(json.dumps(header) + "\n")
    assert ((), [header]) == (tuple(session.path()), il.encode(session, "gemini-cli").body)


@pytest.mark.parametrize(
    "text", ["<state_snapshot>\n</state_snapshot>", "System: Potential loop detected. Details: x."]
)
def test_what_the_client_tells_the_model_is_no_prompt(text: str) -> None:
    """The summary of a compression, which a `$set` puts in the place of the history, and warnings about loops."""
    header = {"sessionId": "s", "projectHash": "p"}
    lines = [header, record("1", "user", "Go"), {"$set": {"messages": [record("2", "user", text)]}}]
    assert ["program"] == [message.origin for message in gemini_cli.decode(lines).messages]
