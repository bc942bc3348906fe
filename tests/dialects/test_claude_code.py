"""Claude Code's sessions: lines of a tree, with Anthropic's messages in them."""

import json
from pathlib import Path

import pytest

import interlingua as il
from interlingua.dialects.files import claude_code
from interlingua.values.errors import BadWire, Unsupported

SESSION = (Path(__file__).parents[1] / "wire/claude-code/session.jsonl").read_bytes()


def test_lines_are_entries_of_a_tree() -> None:
    """Ids and parents are the file's; a line of several messages lends its id to the last of them."""
    session = claude_code.decode(SESSION)
    places = {entry.id: entry.parent_id for entry in session.entries if entry.id}
    assert places == {
        "u-1": None,
        "a-1": "u-1",
        "a-2": "a-1",
        "u-2": "a-2",
        "u-3#0": "u-2",
        "u-3": "u-3#0",
        "x-1": "a-1",
        "y-1": "u-3",
        "a-9": "y-1",
        "x-2": "x-1",
    }


def test_a_session_stands_at_its_last_line_that_is_not_a_sub_agents() -> None:
    """Sub-agents are branches; the path to the head does not go through them."""
    session = claude_code.decode(SESSION)
    assert session.head == "a-9"
    path = [entry.id for entry in session.path()]
    assert path == ["u-1", "a-1", "a-2", "u-2", "u-3#0", "u-3", "y-1", "a-9"]
    assert session.model == il.ModelDescriptor(id="claude-sonnet-4-5", provider="anthropic")


def test_messages_are_read_as_the_wire_has_them() -> None:
    """Thinking with its signature, calls, results with their tool's name and what the program was told, usage, time."""
    messages = claude_code.decode(SESSION).messages
    thought, calls, result, second, words = messages[1:6]
    assert thought.content == (il.ThinkingBlock(thinking="I should count them.", thinking_signature="c2lnbmF0dXJl"),)
    assert thought.usage.cache_read == 4000
    assert thought.response_id == calls.response_id == "msg_1"  # one answer, streamed as several lines
    assert [call.name for call in calls.tool_calls] == ["Bash", "Read"]
    assert (result.tool_name, result.content, result.details["stdout"]) == ("Bash", "12 todo.md", "12 todo.md")
    assert (second.tool_name, second.details) == ("Read", None)
    assert words.content == (il.TextBlock(text="[Request interrupted by user]"),)
    assert messages[0].timestamp == 1759392001250


def test_other_lines_keep_their_kind() -> None:
    """A notice is no system message: it never reached the model."""
    entries = claude_code.decode(SESSION).entries
    roles = [entry.message.role for entry in entries if isinstance(entry.message, il.CustomMessage)]
    assert roles == ["summary", "file-history-snapshot", "claude-code:system", "queue-operation"]


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
