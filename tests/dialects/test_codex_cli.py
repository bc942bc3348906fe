"""Codex's rollouts: Responses items in lines, in today's form and in the old one."""

from pathlib import Path

import interlingua as il
from interlingua.dialects.files import codex_cli

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


def test_instructions_that_were_changed_are_said_as_they_are_now() -> None:
    """The header holds the system text in one place only."""
    session = codex_cli.decode(ROLLOUT)
    changed = il.load(il.dump(session).replace(b"a coding agent", b"a poet"), il.Conversation)
    header = codex_cli.encode(changed).body[0]
    assert header["payload"]["base_instructions"] == {"text": "You are a poet."}
    assert header["payload"]["cwd"] == "/home/ada/notes"
