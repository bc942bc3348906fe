"""Codex's rollouts: Responses items in lines, in today's form and in the old one."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import interlingua as il
from interlingua.cli import group
from interlingua.dialects.files import codex_cli
from interlingua.values.messages import ServerToolCall

WIRE = Path(__file__).parents[1] / "wire/codex-cli"
ROLLOUT, OLD = (WIRE / "rollout.jsonl").read_bytes(), (WIRE / "old.jsonl").read_bytes()


def test_the_parts_of_a_rollout_are_where_they_belong() -> None:
    """The header's instructions are the system text, the turn's settings name the model, an item is a message."""
    session = codex_cli.decode(ROLLOUT)
    assert session.system == "You are a coding agent."
    assert session.model == il.ModelDescriptor(id="gpt-5.1-codex", provider="openai")
    kinds = [
        message.role if isinstance(message, il.CustomMessage) else type(message).__name__
        for message in session.messages
    ]
    assert kinds == [
        "SystemMessage",
        "turn_context",
        "UserMessage",
        "event_msg",
        "AssistantMessage",
        "ToolResultMessage",
        "AssistantMessage",
        "ToolResultMessage",
        "response_item",
        "event_msg",
        "AssistantMessage",
        "compacted",
    ]
    results = [message for message in session.messages if isinstance(message, il.ToolResultMessage)]
    assert [result.tool_name for result in results] == ["shell", "apply_patch"]


def test_an_old_rollout_tells_whether_a_tool_succeeded() -> None:
    """Some versions wrap a result with its success."""
    session = codex_cli.decode(OLD)
    (result,) = [message for message in session.messages if isinstance(message, il.ToolResultMessage)]
    assert (result.content, result.is_error, result.tool_name) == ("sandbox denied it", True, "shell")


def test_instructions_that_were_changed_are_encoded_as_they_are_now() -> None:
    """The header holds the system text in one place only."""
    session = codex_cli.decode(ROLLOUT)
    changed = il.load(il.dump(session).replace(b"a coding agent", b"a poet"), il.Conversation)
    header = codex_cli.encode(changed).body[0]
    assert header["payload"]["base_instructions"] == {"text": "You are a poet."}
    assert header["payload"]["cwd"] == "/home/ada/notes"


def item(**payload: object) -> dict[str, object]:
    return {"timestamp": "2026-01-01T00:00:00.000Z", "type": "response_item", "payload": payload}


def event(type: str, **payload: object) -> dict[str, object]:
    return {"timestamp": "2026-01-01T00:00:00.000Z", "type": "event_msg", "payload": {"type": type, **payload}}


def message_line(role: str, text: str) -> dict[str, object]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": text}])


def called(id: str) -> dict[str, object]:
    return item(type="function_call", call_id=id, name="shell", arguments="{}")


def output(id: str) -> dict[str, object]:
    return item(type="function_call_output", call_id=id, output=f"of {id}")


META = {"timestamp": "2026-01-01T00:00:00.000Z", "type": "session_meta", "payload": {"id": "s"}}
TOTAL = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 9, "reasoning_output_tokens": 4}
LONG = [
    META,
    message_line("user", "<environment_context>\n<cwd>/</cwd>"),
    message_line("user", "Go"),
    {"timestamp": "2026-01-01T00:00:00.000Z", "type": "turn_context", "payload": {"model": "gpt-x"}},
    item(type="reasoning", id="rs", summary=[], encrypted_content="abc"),
    event("agent_message", message="Two."),
    message_line("assistant", "Two."),
    called("c1"),
    called("c2"),
    event("token_count", info=None),
    event("token_count", info={"total_token_usage": TOTAL, "last_token_usage": TOTAL}),
    output("c1"),
    output("c2"),
    message_line("assistant", "Done."),
    event("thread_name_updated", thread_name="Two calls"),
]


def test_the_items_of_one_answer_are_one_message() -> None:
    """Up to the next output: many calls come before the first of them."""
    session = codex_cli.decode(LONG)
    answers = [message for message in session.messages if isinstance(message, il.AssistantMessage)]
    assert [["ThinkingBlock", "TextBlock", "ToolCall", "ToolCall"], ["TextBlock"]] == [
        [type(block).__name__ for block in answer.content] for answer in answers
    ]
    assert ["gpt-x", "gpt-x"] == [answer.model for answer in answers]
    assert LONG == codex_cli.encode(il.load(il.dump(session))).body
    again = il.encode(session, "openai-responses").body["input"]
    assert [one["payload"] for one in LONG[1:] if one["type"] == "response_item"] == again


def test_usage_title_and_context_are_read() -> None:
    """Input includes what was cached; context comes as messages of the user."""
    session = codex_cli.decode(LONG)
    assert (40, 9, 60, 4) == (
        session.usage.input,
        session.usage.output,
        session.usage.cache_read,
        session.usage.reasoning,
    )
    assert "Two calls" == session.title
    assert ["program", None] == [m.origin for m in session.messages if isinstance(m, il.UserMessage)]


def test_turns_that_were_rolled_back_are_off_the_path_and_in_the_tree() -> None:
    """Context that the program wrote begins no turn."""
    lines = [
        *LONG,
        message_line("user", "Wrong"),
        message_line("assistant", "Oh."),
        event("thread_rolled_back", num_turns=1),
        message_line("user", "Right"),
    ]
    session = codex_cli.decode(lines)
    assert ["Go", "Right"] == [m.text for m in session.messages if isinstance(m, il.UserMessage) and not m.origin]
    assert "Wrong" in [m.text for m in (e.message for e in session.entries) if isinstance(m, il.UserMessage)]
    assert lines == codex_cli.encode(session).body
    assert ["<environment_context>\n<cwd>/</cwd>"] == [
        m.text
        for m in codex_cli.decode([*lines, event("thread_rolled_back", num_turns=9)]).messages
        if isinstance(m, il.UserMessage)
    ]


def test_a_message_of_another_agent_begins_a_turn() -> None:
    """One turn is rolled back: that of the message, not also the prompt before it."""
    sent = {
        "type": "agent_message",
        "author": "/a",
        "recipient": "/",
        "content": [{"type": "input_text", "text": "Hi"}],
    }
    lines = [*LONG, item(**sent), message_line("assistant", "Oh."), event("thread_rolled_back", num_turns=1)]
    session = codex_cli.decode(lines)
    assert ["Go"] == [m.text for m in session.messages if isinstance(m, il.UserMessage) and not m.origin]
    assert "Hi" not in [m.text for m in session.messages if isinstance(m, il.UserMessage)]


def test_a_call_of_the_shell_may_have_only_an_id() -> None:
    """Those of the chat completions wire; the output names it."""
    call = {"type": "local_shell_call", "id": "s1", "call_id": None, "status": "completed", "action": {"type": "exec"}}
    output = {"type": "function_call_output", "call_id": "s1", "output": "ok"}
    lines = [*LONG, message_line("user", "List"), item(**call), item(**output)]
    session = codex_cli.decode(lines)
    assert ["s1"] == [made.id for made in session.messages[-2].tool_calls]
    assert "local_shell" == session.messages[-1].tool_name
    assert lines == codex_cli.encode(session).body


def test_a_file_of_events_alone_is_read_from_them() -> None:
    """Where there are items, events only repeat them for the screen."""
    lines = [
        META,
        event("user_message", message="Go"),
        event("agent_reasoning", text="Hm"),
        event("agent_message", message="Ok", x=1),
    ]
    session = codex_cli.decode(lines)
    assert ["user", "assistant"] == [message.role for message in session.messages]
    assert lines == codex_cli.encode(session).body


@pytest.mark.parametrize("id", [{}, {"id": None}, {"id": "ws_1"}])
def test_a_search_of_the_provider_needs_no_id(id: dict[str, Any], tmp_path: Path) -> None:
    """Codex keeps none where the provider stores nothing; `show` prints the query, and the item returns without one."""
    found = {"status": "completed", "action": {"type": "search", "query": "price of eggs"}}
    lines = [*LONG, message_line("user", "Look"), item(type="web_search_call", **id, **found)]
    session = codex_cli.decode(lines)
    (search,) = session.messages[-1].content
    assert isinstance(search, ServerToolCall)
    assert (search.name, search.arguments) == ("web_search", found["action"])
    assert codex_cli.encode(session).body == lines
    assert il.encode(session, "openai-responses").body["input"][-1] == {"type": "web_search_call", **id, **found}
    file = tmp_path / "rollout.jsonl"
    file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert "price of eggs" in CliRunner().invoke(group, ["show", str(file)]).output
