"""Variants of session files that recorded files have: other lines, missing ids, context beside a prompt."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from dialects.files.samples import outline
from interlingua.dialects import FORMATS
from interlingua.dialects.files.claude_attachments import SENT

TIMES = {"timestamp": "2026-01-02T03:04:05.000Z", "sessionId": "s", "cwd": "/tmp"}


def lines(*values: dict[str, Any]) -> bytes:
    return "\n".join(json.dumps(value) for value in values).encode()


def one(name: str, *values: dict[str, Any]) -> il.Conversation:
    """The conversation of these lines, which are detected as `name` and returned as they were."""
    data = lines(*values)
    found = il.detect(data)
    assert found is not None and found.dialect == name
    (conversation,) = il.read(data)
    assert list(il.encode(conversation, name).body) == list(values)
    return conversation


# --- Cursor ----------------------------------------------------------------------------------------------------------

CURSOR_CALL = {
    "role": "assistant",
    "message": {"content": [{"type": "tool_use", "name": "Read", "input": {"path": "eggs"}}]},
}
CURSOR_ASKED = {"role": "user", "message": {"content": [{"type": "text", "text": "How many?"}]}}


def test_events_among_the_lines_of_cursor_are_kept_off_the_wire() -> None:
    """A transcript with `turn_ended` lines is still one of Cursor."""
    conversation = one("cursor", CURSOR_ASKED, CURSOR_CALL, {"type": "turn_ended", "status": "success"})
    assert outline(conversation) == ["user: How many?", "assistant:  Read()", "cursor:turn_ended: "]


def test_a_result_with_an_unknown_id_answers_the_call_without_one() -> None:
    """Cursor drops the ids of calls, not those of results."""
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "12"}
    conversation = one("cursor", CURSOR_ASKED, CURSOR_CALL, {"role": "user", "message": {"content": [result]}})
    call, answer = conversation.messages[1].tool_calls[0], conversation.messages[2]
    assert (answer.tool_call_id, answer.tool_name, answer.text) == (call.id, "Read", "12")
    body = il.encode(conversation, "openai-completions").body
    assert [message["content"] for message in body["messages"] if message["role"] == "tool"] == ["12"]


def test_a_result_with_an_unknown_id_leaves_calls_with_ids_open() -> None:
    """It belongs to a call that is not in the file."""
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "b", "content": "12"}
    asked = {"role": "assistant", "message": {"content": [call]}}
    conversation = one("cursor", CURSOR_ASKED, asked, {"role": "user", "message": {"content": [result]}})
    assert conversation.messages[2].tool_call_id == "b"


# --- Claude Code -----------------------------------------------------------------------------------------------------


def asked(content: Any, **fields: Any) -> dict[str, Any]:
    return {
        "parentUuid": None,
        "isSidechain": False,
        "type": "user",
        "message": {"role": "user", "content": content},
        "uuid": "u1",
        **TIMES,
        **fields,
    }


@pytest.mark.parametrize(
    ("content", "origin"),
    [
        ("<system-reminder>\nBe brief.\n</system-reminder>", "program"),
        ("<system-reminder>Be brief.</system-reminder>How many eggs?", None),
        ("<ide_selection>x</ide_selection>\n<ide_opened_file>y</ide_opened_file>", "program"),
        ("<task-notification>done</task-notification>\nRead the output file.", "program"),
        ([{"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"}], "program"),
        (
            [
                {"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"},
                {"type": "text", "text": "How many eggs?"},
            ],
            None,
        ),
        ([{"type": "text", "text": "[Request interrupted by user]"}], "program"),
    ],
)
def test_a_prompt_behind_context_of_an_editor_is_a_persons(content: Any, origin: str | None) -> None:
    """Editors put reminders, open files and selections before the text of a prompt."""
    assert one("claude-code", asked(content), asked("Thanks", uuid="u2", parentUuid="u1")).messages[0].origin == origin


def queued(prompt: Any, mode: str = "prompt") -> dict[str, Any]:
    attached = {"type": "queued_command", "prompt": prompt, "commandMode": mode, "source_uuid": "x"}
    return {
        "parentUuid": "u1",
        "isSidechain": False,
        "type": "attachment",
        "attachment": attached,
        "uuid": "q",
        **TIMES,
    }


@pytest.mark.parametrize(
    ("prompt", "mode", "text", "origin"),
    [
        ("And the milk.", "prompt", "And the milk.", None),
        ([{"type": "text", "text": "And the milk."}], "prompt", "And the milk.", None),
        (
            "<task-notification>done</task-notification>",
            "prompt",
            "<task-notification>done</task-notification>",
            "program",
        ),
        ("3 eggs found", "task-notification", "3 eggs found", "program"),
    ],
)
def test_a_prompt_that_was_queued_reaches_the_model(prompt: Any, mode: str, text: str, origin: str | None) -> None:
    """Claude Code writes it as an attachment, and sends it with the next results."""
    message = one("claude-code", asked("Count the eggs."), queued(prompt, mode)).messages[1]
    assert isinstance(message, il.UserMessage)
    assert (message.text, message.origin, message.timestamp) == (text, origin, 1767323045000)


@pytest.mark.parametrize(
    ("attached", "texts"),
    [
        ({"type": "edited_text_file", "filename": "a.py", "snippet": "1\tx = 1"}, ["a.py", "1\tx = 1"]),
        ({"type": "hook_additional_context", "content": ["Be kind."], "hookName": "SessionStart"}, ["Be kind."]),
        ({"type": "hook_additional_context", "content": ["Be kind.", "Be brief."]}, ["Be kind.", "Be brief."]),
        ({"type": "skill_listing", "content": "- count: counts", "skillCount": 1}, ["- count: counts"]),
        ({"type": "mcp_instructions_delta", "addedNames": ["x"], "addedBlocks": ["## x"]}, ["## x"]),
        ({"type": "mcp_instructions_delta", "addedBlocks": [], "removedNames": ["x"]}, ["removed: x"]),
        (
            {
                "type": "file",
                "filename": "a.py",
                "content": {"type": "text", "file": {"content": "x = 1", "numLines": 1}},
            },
            ["a.py", "x = 1"],
        ),
        (
            {"type": "nested_memory", "path": "/p/A.md", "content": {"path": "/p/A.md", "content": "Be kind."}},
            ["/p/A.md", "Be kind."],
        ),
        (
            {"type": "todo_reminder", "content": [{"content": "Count", "status": "pending", "activeForm": "Counting"}]},
            ["[pending] Count"],
        ),
        (
            {
                "type": "task_reminder",
                "content": [{"id": "1", "subject": "Count", "status": "pending"}],
                "itemCount": 1,
            },
            ["#1 [pending] Count"],
        ),
        (
            {"type": "hook_success", "hookEvent": "SessionStart", "hookName": "SessionStart:x", "content": "Be kind."},
            ["Be kind."],
        ),
        (
            {"type": "hook_blocking_error", "blockingError": {"blockingError": "Not so.", "command": "./x"}},
            ["./x", "Not so."],
        ),
        ({"type": "token_usage", "used": 5, "total": 10, "remaining": 5}, ["tokens: 5 of 10"]),
        (
            {"type": "diagnostics", "files": [{"uri": "a.py", "diagnostics": [{"message": "bad", "range": {}}]}]},
            ['a.py: [{"message":"bad","range":{}}]'],
        ),
    ],
)
def test_attachments_with_text_reach_the_model_as_the_programs(attached: Any, texts: list[str]) -> None:
    """Claude Code sends them in reminders; the lines return as they were."""
    message = one("claude-code", asked("Count the eggs."), {**queued("x"), "attachment": attached}).messages[1]
    assert isinstance(message, il.UserMessage) and message.origin == "program"
    assert [block.text for block in message.content] == texts


@pytest.mark.parametrize(
    "attached",
    [
        {"type": "skill_listing"},
        {"type": "task_reminder", "content": []},
        {"type": "todo_reminder", "content": [{"content": "Count", "status": "pending"}, {"status": "pending"}]},
        {"type": "hook_success", "hookEvent": "PostToolUse", "content": "Be kind."},
        {"type": "hook_success", "hookEvent": "SessionStart", "content": ""},
        {"type": "hook_system_message", "content": "For the screen."},
        {"type": "command_permissions", "allowedTools": ["Read"]},
        {"type": "queued_command", "prompt": ""},
        None,
        "x",
    ],
)
def test_other_attachments_are_kept_as_they_are(attached: Any) -> None:
    """They are bookkeeping, or not as they should be."""
    line = {**queued("x"), "attachment": attached}
    assert isinstance(one("claude-code", asked("Count the eggs."), line).messages[1], il.CustomMessage)


def test_a_picture_that_was_attached_reaches_the_model() -> None:
    picture = {"type": "image", "file": {"base64": "aGk=", "type": "image/png", "originalSize": 2}}
    attached = {"type": "file", "filename": "a.png", "content": picture}
    message = one("claude-code", asked("Count the eggs."), {**queued("x"), "attachment": attached}).messages[1]
    assert message.content[1] == il.ImageBlock(data="aGk=", mime_type="image/png")


@pytest.mark.parametrize(
    ("rendered", "texts"),
    [
        ([{"content": "The list is empty."}], ["The list is empty."]),
        ([{"content": [{"type": "text", "text": "Empty."}]}, {"content": "Go on."}], ["Empty.", "Go on."]),
        ([{"content": "Empty.", "other": 1}], ["Empty."]),
    ],
)
@pytest.mark.parametrize("kind", ["task_reminder", "a kind of next year"])
def test_what_an_attachment_states_as_sent_is_what_the_model_read(kind: str, rendered: Any, texts: list[str]) -> None:
    """Newer versions write it beside the attachment, for every kind."""
    attached = {"type": kind, "content": [], "itemCount": 0}
    line = {**queued("x"), "attachment": attached, "rendered": rendered, "renderedRole": "system"}
    read = one("claude-code", asked("Count."), line).messages[1:]
    assert [(message.text, message.origin) for message in read] == [(text, "program") for text in texts]


@pytest.mark.parametrize("rendered", [[], None, "x", [1], [{"content": 1}]])
def test_an_attachment_that_states_nothing_as_sent_is_kept_as_it_is(rendered: Any) -> None:
    line = {**queued("x"), "attachment": {"type": "skill_listing", "content": "- x"}, "rendered": rendered}
    assert isinstance(one("claude-code", asked("Count."), line).messages[1], il.CustomMessage)


def test_the_output_of_a_command_reaches_the_model() -> None:
    """Claude Code writes it as a line of the system, and sends it with the next prompt."""
    command = {**queued("x"), "type": "system", "subtype": "local_command", "content": "<local-command-stdout>3"}
    del command["attachment"]
    other = {**command, "subtype": "informational", "uuid": "i", "parentUuid": "q"}
    output, notice = one("claude-code", asked("Count the eggs."), command, other).messages[1:]
    assert (output.text, output.origin) == ("<local-command-stdout>3", "program")
    assert isinstance(notice, il.CustomMessage)


def test_the_system_text_that_a_session_states_is_that_of_its_calls() -> None:
    def snapshot(uuid: str, *texts: str, aside: bool = False) -> dict[str, Any]:
        attached = {"type": "prompt_snapshot", "systemPrompt": list(texts)}
        return {**queued("x"), "uuid": uuid, "attachment": attached, "isSidechain": aside}

    conversation = one(
        "claude-code",
        asked("Count the eggs."),
        snapshot("s1", "Be kind."),
        snapshot("s2", "Be kind.", "Be brief."),
        snapshot("s3", "Be swift.", aside=True),
    )
    assert [block.text for block in conversation.system] == ["Be kind.", "Be brief."]
    assert il.encode(conversation, "claude-code").losses == ()
    other = il.encode(replace(conversation, system="Be loud."), "claude-code")
    assert [loss.path for loss in other.losses] == ["$.system"]


def shaped(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Attachments of a kind: all its values, some of them, or some that are not as they should be."""
    text = st.text(st.sampled_from("ab \n[]:#{}-."), max_size=8) | st.integers() | st.none() | st.just([1])
    shape: dict[str, Any] = {}
    for template, of in SENT[kind]:
        fields = re.findall(r"\{([\w.]*)\}", template)
        item = text if fields == [""] else st.fixed_dictionaries({}, optional=dict.fromkeys([*fields, "x"], text))
        for path in [of] if of else fields:
            inner = shape
            *outer, last = path.split(".")
            for key in outer:
                inner = inner.setdefault(key, {})
            inner[last] = st.lists(item, max_size=3) | item if of else text
    return nested(shape).map(lambda found: {"type": kind, **found})


def nested(shape: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {key: nested(value) if isinstance(value, dict) else value for key, value in shape.items()}
    return st.fixed_dictionaries({}, optional=fields)


@given(st.sampled_from(sorted(SENT)).flatmap(shaped))
def test_attachments_return_as_they_were(attached: dict[str, Any]) -> None:
    attached = {"hookEvent": "SessionStart", **attached}
    (_, message) = one("claude-code", asked("Count."), {**queued("x"), "attachment": attached}).messages
    assert isinstance(message, il.CustomMessage) or (message.origin == "program" and message.content)


# --- Grok CLI --------------------------------------------------------------------------------------------------------

GROK = (
    {"type": "system", "content": "You are Grok."},
    {"type": "user", "content": [{"type": "text", "text": "OS: Linux"}], "synthetic_reason": "environment_context"},
    {"type": "user", "content": [{"type": "text", "text": "How many eggs?"}], "prompt_index": 0},
    {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "I count."}]},
    {
        "type": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": "c1", "name": "count", "arguments": '{"of":"eggs"}'}],
        "model_id": "grok-4.5",
    },
    {"type": "tool_result", "tool_call_id": "c1", "content": "12"},
    {"type": "user", "content": [{"type": "text", "text": "Hurry."}], "synthetic_reason": "interjection"},
    {"type": "assistant", "content": "Twelve.", "tool_calls": [], "model_id": "grok-4.5"},
)


def test_the_chat_history_of_grok_is_what_was_sent() -> None:
    """Reasoning belongs to the answer after it; what the program put in is marked as such."""
    conversation = one("grok", *GROK)
    assert outline(conversation) == [
        "program: OS: Linux",
        "user: How many eggs?",
        "assistant: I look. count()",
        "count -> 12",
        "user: Hurry.",
        "assistant: Twelve.",
    ]
    call = conversation.messages[2]
    assert (call.thinking, call.model, conversation.system) == ("I count.", "grok-4.5", "You are Grok.")


def test_reasoning_of_grok_without_an_answer_is_kept() -> None:
    """A run can end after it."""
    conversation = one("grok", *GROK[:4])
    assert conversation.messages[-1].thinking == "I count."


# --- Droid -----------------------------------------------------------------------------------------------------------

DROID = (
    {"type": "system", "subtype": "init", "cwd": "/tmp", "session_id": "s", "tools": ["Execute"], "model": "glm"},
    {"type": "message", "role": "user", "id": "m1", "text": "How many eggs?", "timestamp": 1767812641000},
    {"type": "message", "role": "assistant", "id": "m2", "text": "I look.", "timestamp": 1767812642000},
    {"type": "tool_call", "id": "c1", "messageId": "m2", "toolName": "Execute", "parameters": {"command": "ls"}},
    {"type": "tool_result", "id": "c1", "messageId": "m3", "toolId": "Execute", "isError": False, "value": "12"},
)
DROID_END = {"type": "completion", "finalText": "Twelve.", "usage": {"input_tokens": 10, "output_tokens": 5}}


@pytest.mark.parametrize("said", [(), ({"type": "message", "role": "assistant", "id": "m4", "text": "Twelve."},)])
def test_the_output_of_droid_is_read(said: tuple[dict[str, Any], ...]) -> None:
    """The text of the completion is the last answer, whether or not a message had it."""
    conversation = one("droid", *DROID, *said, DROID_END)
    assert outline(conversation) == [
        "user: How many eggs?",
        "assistant: I look. Execute()",
        "Execute -> 12",
        "assistant: Twelve.",
    ]
    assert conversation.usage == il.Usage.of(10, 5)
    assert (conversation.messages[1].model, conversation.messages[0].timestamp) == ("glm", 1767812641000)


def test_a_call_of_droid_without_a_text_is_an_answer() -> None:
    """A model may call at once."""
    call = {"type": "tool_call", "id": "c1", "toolName": "Execute", "parameters": {}}
    conversation = one("droid", DROID[1], call, {"type": "tool_result", "id": "c1", "value": {"stdout": "12"}})
    assert outline(conversation) == ["user: How many eggs?", "assistant:  Execute()", 'Execute -> {"stdout":"12"}']


def test_the_output_of_droid_is_no_session() -> None:
    """It is not read line by line, since its usage is stated at the end."""
    line_reader = FORMATS["droid"].line_reader
    assert line_reader is not None and line_reader(list(DROID), None) is None
