"""Sessions of Claude Code, Codex and opencode that are made of conversations from elsewhere."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import interlingua as il

WIRE = Path(__file__).parents[2] / "wire"
WRITTEN = ("claude-code", "codex-cli", "opencode")
ASKED = il.Conversation(
    entries=tuple(
        il.Entry(message=message)
        for message in (
            il.UserMessage(content="How many?", timestamp=1_740_000_000_000),
            il.UserMessage(content="Today is Monday.", origin="program"),
            il.AssistantMessage(
                content=(
                    il.TextBlock(text="I count."),
                    il.ToolCall(id="call|1", name="ls", arguments={"path": "."}),
                    il.ToolCall(id="call|2", name="read", arguments={}),
                ),
                model="gpt-5",
                usage=il.Usage.of(10, 5, cache_read=3),
            ),
            il.ToolResultMessage(tool_call_id="call|1", tool_name="ls", content="Twelve.", is_error=False),
            il.ToolResultMessage(tool_call_id="call|2", tool_name="read", content="No such file.", is_error=True),
            il.AssistantMessage(content="Twelve.", model="gpt-5", usage=il.Usage.of(20, 2)),
        )
    ),
    title="Counting",
    model=il.ModelDescriptor(id="gpt-5"),
    extra={"my-program": {"cwd": "/home/ada/project"}},
)


def facts(conversation: il.Conversation) -> tuple[list[str], list[str], list[str]]:
    """What was asked, which tools were called, and what they gave."""
    messages = conversation.messages
    asked = [m.text for m in messages if isinstance(m, il.UserMessage)]
    calls = [call.name for m in messages if isinstance(m, il.AssistantMessage) for call in m.tool_calls]
    return asked, calls, [m.text for m in messages if isinstance(m, il.ToolResultMessage)]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_conversation_from_elsewhere_becomes_a_session(name: str) -> None:
    """It is recognised, and reads as it was: questions, calls and results, in their order."""
    body = il.encode(ASKED, name).bytes()
    assert il.detect(body).dialect == name  # type: ignore[union-attr]
    again = il.decode(body, name)
    asked, calls, given = facts(again)
    assert (asked, calls) == facts(ASKED)[:2]
    # Codex's wire has no mark for a result that is an error: the text says it.
    assert [text.removeprefix("Error: ") for text in given] == facts(ASKED)[2]
    assert [m.text for m in again.messages if isinstance(m, il.AssistantMessage)][-1] == "Twelve."


@pytest.mark.parametrize("name", WRITTEN)
def test_the_same_conversation_gives_the_same_session(name: str) -> None:
    """No clock and no chance: an import that is repeated finds the session that is there."""
    assert il.encode(ASKED, name).bytes() == il.encode(ASKED, name).bytes()


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("sample", ["kimi/wire.jsonl", "gemini-cli/session.json", "chatgpt-export/conversation.json"])
def test_a_session_of_one_program_becomes_one_of_another(name: str, sample: str) -> None:
    """With every answered result in its place."""
    (conversation,) = il.read(WIRE / sample)
    again = il.decode(il.encode(conversation, name).bytes(), name)
    assert set(facts(conversation)[2]) <= set(facts(again)[2])


def lines(conversation: il.Conversation, name: str) -> list[Any]:
    return list(il.encode(conversation, name).body)


def test_lines_of_claude_code_form_one_chain_of_one_session() -> None:
    """As the program writes them: UUIDs, the folder, and an answer's id on each of its lines."""
    *written, title = lines(ASKED, "claude-code")
    assert title == {"type": "custom-title", "customTitle": "Counting", "sessionId": written[0]["sessionId"]}
    assert [line["parentUuid"] for line in written] == [None, *(line["uuid"] for line in written[:-1])]
    assert {line["sessionId"] for line in written} == {str(uuid.UUID(written[0]["sessionId"]))}
    assert {line["cwd"] for line in written} == {"/home/ada/project"}
    answers = [line["message"] for line in written if line["type"] == "assistant"]
    assert len({answer["id"] for answer in answers[:3]}) == 1
    assert all(len(answer["content"]) == 1 for answer in answers)
    assert [line.get("isMeta", False) for line in written[:2]] == [False, True]


def test_ids_of_calls_are_those_that_the_program_may_send() -> None:
    """Anthropic takes letters, digits, `_` and `-`."""
    blocks = [block for line in lines(ASKED, "claude-code")[:-1] for block in line["message"]["content"]]
    called = [block["id"] for block in blocks if isinstance(block, dict) and block["type"] == "tool_use"]
    answered = [b["tool_use_id"] for b in blocks if isinstance(b, dict) and b["type"] == "tool_result"]
    assert called == answered
    assert all(id.replace("_", "").replace("-", "").isalnum() for id in called)


def test_a_rollout_of_codex_has_its_header_settings_and_items() -> None:
    """What the screen shows and what was spent stand beside the items."""
    header, settings, *rest = lines(ASKED, "codex-cli")
    assert (header["type"], header["payload"]["cwd"]) == ("session_meta", "/home/ada/project")
    assert uuid.UUID(header["payload"]["id"])
    assert (settings["type"], settings["payload"]["model"]) == ("turn_context", "gpt-5")
    items = [line["payload"] for line in rest if line["type"] == "response_item"]
    assert all(isinstance(item["content"], list) for item in items if item["type"] == "message")
    counts = [line["payload"]["info"] for line in rest if line["payload"]["type"] == "token_count"]
    assert counts[-1]["total_token_usage"]["input_tokens"] == 33  # with the cached part


def test_ids_of_opencode_sort_as_the_messages_stand() -> None:
    """The program orders by them."""
    body = il.encode(ASKED, "opencode").body
    ids = [message["info"]["id"] for message in body["messages"]]
    assert ids == sorted(ids)
    assert (body["info"]["title"], body["info"]["directory"]) == ("Counting", "/home/ada/project")
    states = [p["state"]["status"] for m in body["messages"] for p in m["parts"] if p["type"] == "tool"]
    assert states == ["completed", "error"]


def test_calls_with_the_same_id_have_their_own_results_in_opencode() -> None:
    """Some programs number the calls of each answer anew."""
    messages: list[il.Message] = [il.UserMessage(content="Look")]
    for text in ("one", "two"):
        calls = tuple(il.ToolCall(id=id, name="ls", arguments={}) for id in ("0", "0", "1"))
        messages.append(il.AssistantMessage(content=calls, stop_reason="toolUse"))
        messages += [
            il.ToolResultMessage(tool_call_id=id, tool_name="ls", content=f"{text} {at}", is_error=False)
            for at, id in enumerate(("0", "0"))
        ]
    body = il.encode(messages, "opencode").body
    states = [p["state"] for m in body["messages"] for p in m["parts"] if p["type"] == "tool"]
    assert [state.get("output") for state in states] == ["one 0", "one 1", None, "two 0", "two 1", None]


def test_what_opencode_has_no_place_for_is_reported() -> None:
    """Branches, results without a call, blocks, records of a program, and the fields of a call."""
    conversation = il.Conversation(
        entries=(
            il.Entry(message=il.UserMessage(content="Hi"), id="a"),
            il.Entry(message=il.UserMessage(content="No"), id="b", parent_id="a"),
            il.Entry(message=il.CustomMessage("note", {"text": "x"}), id="c", parent_id="a"),
            il.Entry(
                message=il.ToolResultMessage(tool_call_id="x", tool_name="ls", content="1", is_error=False),
                id="d",
                parent_id="c",
            ),
            il.Entry(
                message=il.AssistantMessage(content=(il.OpaqueBlock(dialect="z", value=1),)), id="e", parent_id="d"
            ),
        ),
        system="Be brief.",
        options=il.Options(temperature=0),
    )
    lost = {loss.path for loss in il.encode(conversation, "opencode").losses if loss.severity != "record"}
    assert lost == {
        "$.entries[1]",
        "$.messages[1]",
        "$.messages[2]",
        "$.messages[3].content[0]",
        "$.system",
        "$.options.temperature",
    }


def test_a_session_that_was_continued_is_written_anew() -> None:
    """With the messages that were added since."""
    (conversation,) = il.read(WIRE / "opencode/session.json")
    more = (*conversation.entries, il.Entry(message=il.UserMessage(content="And now?")))
    continued = il.Conversation(entries=more, extra=conversation.extra, title=conversation.title)
    assert facts(il.decode(il.encode(continued, "opencode").body, "opencode"))[0][-1] == "And now?"


def test_a_record_whose_messages_no_longer_fit_together_is_written_anew() -> None:
    """One line had two results; one of them is an answer now."""
    calls = [{"type": "tool_use", "id": id, "name": "ls", "input": {}} for id in "cd"]
    results = [{"type": "tool_result", "tool_use_id": id, "content": id} for id in "cd"]
    answer = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": calls}
    lines = [
        {"type": "user", "uuid": "1", "parentUuid": None, "message": {"role": "user", "content": "Look"}},
        {"type": "assistant", "uuid": "2", "parentUuid": "1", "message": {**answer, "stop_reason": "tool_use"}},
        {"type": "user", "uuid": "3", "parentUuid": "2", "message": {"role": "user", "content": results}},
    ]
    conversation = il.decode(lines, "claude-code")
    *first, last = conversation.entries
    changed = structs.replace(last, message=il.AssistantMessage(content="No"))
    again = il.encode(structs.replace(conversation, entries=(*first, changed)), "claude-code").body
    assert "No" in [message.text for message in il.decode(again, "claude-code").messages]


def test_what_the_program_says_itself_is_reported() -> None:
    """The system text, the tools and the options are those of the program that goes on."""
    asked = il.Conversation(entries=ASKED.entries, system="Be brief.", options=il.Options(temperature=0))
    assert {"$.system", "$.options"} <= {loss.path for loss in il.encode(asked, "claude-code").losses}
    assert "$.system" not in {loss.path for loss in il.encode(asked, "codex-cli").losses}  # it has a place there
