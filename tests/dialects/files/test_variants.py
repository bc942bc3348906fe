"""Variants of session files that other versions and other programs write, and files that only look alike."""

import html
import json
from typing import Any

import pytest

import interlingua as il
from dialects.files.samples import WIRE, outline, read
from interlingua.values.errors import BadWire
from interlingua.values.messages import text_of


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def returned(data: bytes, name: str) -> il.Conversation:
    """The one conversation of a file, which is detected by its content and goes back as it was."""
    detection = il.detect(data)
    assert detection is not None and detection.dialect == name
    (conversation,) = il.read(data)
    body = il.encode(conversation, name).body
    whole = json.loads(data) if data.count(b"\n") < 2 else [json.loads(line) for line in data.splitlines()]
    assert json.loads(json.dumps(body)) == whole
    return conversation


GEMINI_ANSWERS = {"gemini": "Done.", "model": [{"type": "text", "text": "Done."}, {"type": "grounding", "source": "d"}]}


@pytest.mark.parametrize(("kind", "content"), GEMINI_ANSWERS.items())
def test_a_gemini_session_needs_no_project(kind: str, content: Any) -> None:
    """The answers' type is `gemini`, or `model`; their content text or typed parts."""
    asked = {"type": "user", "content": [{"text": "Why?"}], "timestamp": "2026-01-14T16:00:00.000Z"}
    session = {"sessionId": "s", "messages": [asked, {"type": kind, "content": content}]}
    conversation = returned(json.dumps(session).encode(), "gemini-cli")
    assert outline(conversation) == ["user: Why?", "assistant: Done."]


def test_the_first_versions_of_codex_wrote_one_document() -> None:
    """A `session` beside its `items`, which may have no type."""
    call = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    items = [{"role": "user", "content": "Go", "timestamp": 1736900000}, call, output]
    document = {"session": {"id": "s", "cwd": "/x"}, "items": [*items, {"role": "assistant", "content": "Done."}]}
    conversation = returned(json.dumps(document).encode(), "codex-cli")
    assert outline(conversation) == ["user: Go", "assistant:  shell()", "shell -> ok", "assistant: Done."]
    assert conversation.messages[0].timestamp == 1736900000000


def item(role: str, text: str, **fields: Any) -> dict[str, Any]:
    kind = "input_text" if role == "user" else "text"
    return {"type": "response_item", "payload": {**fields, "role": role, "content": [{"type": kind, "text": text}]}}


def test_items_of_codex_are_read_behind_a_first_line_of_another_kind() -> None:
    """Parts may be of type `text`; an item without a type is no message, as Codex itself would pass over it."""
    begun = {"type": "session.start", "payload": {"id": "s"}}
    asked, answered = item("user", "Go", type="message"), item("assistant", "Done.", type="message")
    assert outline(returned(lines(begun, asked, item("user", "Stop"), answered), "codex-cli"))[-1] == "assistant: Done."
    assert il.detect(lines(begun, item("user", "Go"), item("assistant", "Done."))) is None


@pytest.mark.parametrize(
    "text",
    [
        "<goal_context>Ship it</goal_context>",
        "<external_ide>x</external_ide>",
        "Warning: apply_patch was requested via shell.",
    ],
)
def test_what_codex_puts_in_for_the_model_is_no_person_s(text: str) -> None:
    """codex-rs/core/src/context names the tags."""
    data = lines({"type": "session_meta", "payload": {"id": "s"}}, item("user", text, type="message"))
    (message,) = next(il.read(data)).messages
    assert message.origin == "program"


def test_a_log_of_inspect_may_have_no_samples() -> None:
    """It is a log without a conversation."""
    log = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}, "plan": {}, "results": {}}
    assert () == returned(json.dumps(log).encode(), "inspect-ai").entries


def test_a_line_that_is_no_object_is_a_problem_of_its_file() -> None:
    """The others are read."""
    line = {
        "type": "user",
        "uuid": "a",
        "parentUuid": None,
        "sessionId": "s",
        "message": {"role": "user", "content": "Hi"},
    }
    more = {**line, "uuid": "b", "parentUuid": "a"}
    (conversation,) = il.read(lines(line, [1], "torn", more))
    assert ["user: Hi", "user: Hi"] == outline(conversation)
    assert [2, 3] == [problem.line for problem in conversation.problems]


LOOK_ALIKES = {
    "messages with `text`": {"id": "1", "title": "T", "messages": [{"role": "user", "text": "Hi"}]},
    "a header of another program's log": [
        {"type": "session", "version": 0, "id": "s", "cwd": "/x"},
        {"type": "turn/start", "seq": 1, "data": {"turn": 1}},
    ],
    "a channel of Slack": [
        {"type": "message", "user": "U1", "text": "Hi", "ts": "1700000000.1"},
        {"type": "message", "subtype": "channel_join", "user": "U2", "text": "joined", "ts": "1700000000.2"},
    ],
    "messages and steps of another program": [
        {"role": "user", "message": "Hi"},
        {"type": "function_result", "name": "f", "result": "x"},
        {"role": "assistant", "content": "Done."},
    ],
    "a question with choices": {"question": "Which?", "choices": ["a", "b"], "answer": "a"},
}


@pytest.mark.parametrize("value", LOOK_ALIKES.values(), ids=LOOK_ALIKES.keys())
def test_what_only_looks_alike_is_refused(value: Any) -> None:
    """Rather than read as a conversation that says nothing."""
    data = lines(*value) if isinstance(value, list) else json.dumps(value).encode()
    assert il.detect(data) is None
    with pytest.raises(BadWire, match="no known format"):
        list(il.read(data))


def test_a_call_that_codex_exec_prints_belongs_to_the_answer_before_its_result() -> None:
    """What was thought and said before the call is the same answer; what follows the result is the next one."""
    conversation = read("codex-exec-stream/run.jsonl")
    spoken = [line for line in outline(conversation) if line.startswith(("assistant", "user")) or " -> " in line]
    assert spoken[0] == "assistant: Counting. command_execution()"
    assert conversation.messages[2].thinking == "I should count."
    assert sum(line.startswith("assistant") for line in spoken) == 3


def step(kind: str, source: str = "MODEL", **fields: Any) -> dict[str, Any]:
    return {"step_index": 0, "source": source, "type": kind, "status": "DONE", **fields}


def test_a_step_of_antigravity_may_have_another_name_than_its_tool() -> None:
    """Steps named after a call answer it; the others answer the calls that are left, in order."""
    calls = [{"name": name, "args": {}} for name in ("list_dir", "view_file", "write_to_file")]
    steps = [step(kind, content=kind) for kind in ("LIST_DIRECTORY", "CODE_ACTION", "VIEW_FILE", "SEARCH_WEB")]
    asked = step("USER_INPUT", "USER_EXPLICIT", content="<USER_REQUEST>\nGo\n</USER_REQUEST>")
    answer = step("PLANNER_RESPONSE", tool_calls=calls)
    conversation = returned(lines(asked, answer, *steps, step("PLANNER_RESPONSE", content="Done.")), "antigravity")
    assert outline(conversation)[2:] == [
        "list_dir -> LIST_DIRECTORY",
        "write_to_file -> CODE_ACTION",
        "view_file -> VIEW_FILE",
        "program: SEARCH_WEB",
        "assistant: Done.",
    ]


def qwen(uuid: str, parent: str | None, kind: str, *parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    message = {"role": "model" if kind == "assistant" else "user", "parts": list(parts)}
    return {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind, "message": message, **fields}


def test_qwen_marks_what_no_person_wrote() -> None:
    """Notifications and scheduled prompts by their subtype, the context of a hook by its tag; core/src/services."""
    hook = {"text": "<qwen:user-prompt-submit-context>\nBe brief.\n</qwen:user-prompt-submit-context>"}
    asked = qwen("a", None, "user", {"text": "Go"}, hook)
    steered = qwen("b", "a", "user", {"text": "Wait"}, subtype="mid_turn_user_message")
    notes = [qwen(id, "b", "user", {"text": id}, subtype=id) for id in ("notification",)]
    conversation = returned(
        lines(asked, steered, *notes, qwen("e", "notification", "user", {"text": "On"})), "qwen-code"
    )
    said = [line.split("\n")[0] for line in outline(conversation)]
    assert said == [
        "user: Go",
        "program: <qwen:user-prompt-submit-context>",
        "user: Wait",
        "program: notification",
        "user: On",
    ]


def test_lines_of_qwen_with_one_id_are_one_answer() -> None:
    """The program aggregates the fragments; the usage of the last one counts."""
    call = {"functionCall": {"id": "c", "name": "read_file", "args": {}}}
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 4}
    first = qwen("b", "a", "assistant", {"text": "Hm", "thought": True})
    second = qwen("b", "a", "assistant", {"text": "Look."}, call, model="q", usageMetadata=usage)
    conversation = returned(lines(qwen("a", None, "user", {"text": "Go"}), first, second), "qwen-code")
    assert outline(conversation) == ["user: Go", "assistant: Look. read_file()"]
    answer = conversation.messages[1]
    assert (answer.thinking, answer.model, answer.usage.input) == ("Hm", "q", 12)


PAGE = {"type": "knowledge", "title": "Eggs", "url": "http://e", "text": "Four.", "is_citable": True}


def test_claude_s_conversations_may_stand_in_an_object() -> None:
    """One or several; an answer that ends with a result is one answer, and the pages that a search found are text."""
    call = {"type": "tool_use", "name": "web_search", "input": {"q": "eggs"}, "id": None}
    found = {"type": "tool_result", "name": "web_search", "tool_use_id": None, "content": [PAGE]}
    asked = {"uuid": "a", "sender": "human", "text": "How many?", "content": []}
    chat = {
        "name": "Eggs",
        "uuid": "c",
        "chat_messages": [asked, {"sender": "assistant", "text": "", "content": [call, found]}],
    }
    conversation = returned(json.dumps({"conversations": [chat]}).encode(), "claude-web-export")
    expected = ["user: How many?", "assistant:  web_search()", "web_search -> Eggs\nhttp://e\nFour."]
    assert outline(conversation) == expected
    assert [outline(one) for one in il.read(json.dumps({"conversations": [chat, chat]}).encode())] == [
        expected,
        expected,
    ]


RESPONSE = {"functionResponse": {"id": "a", "name": "t", "response": {"output": "Four."}}}
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
GIVEN = {
    "a response": [RESPONSE],
    "one that names another call": [{"functionResponse": {**RESPONSE["functionResponse"], "id": "b"}}],
    "a part": RESPONSE,
    "text": "Four.",
    "a text part": [{"text": "Four."}],
    "a picture beside it": [RESPONSE, PICTURE],
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN.keys())
def test_what_a_call_of_gemini_gave_answers_it(given: Any) -> None:
    """`result` is Google's PartListUnion: parts, a part, or text; what stands beside the response is no person's."""
    call = {"id": "a", "name": "t", "args": {}, "status": "success", "result": given}
    answer = {"id": "2", "type": "gemini", "content": "", "toolCalls": [call]}
    asked = {"id": "1", "type": "user", "content": "How many?"}
    session = {"sessionId": "s", "projectHash": "h", "messages": [asked, answer]}
    conversation = returned(json.dumps(session).encode(), "gemini-cli")
    assert outline(conversation)[:3] == ["user: How many?", "assistant:  t()", "t -> Four."]
    assert [m.origin for m in conversation.messages[3:]] == ["program"] * (given == GIVEN["a picture beside it"])
    assert conversation.messages[2].tool_call_id == conversation.messages[1].tool_calls[0].id


@pytest.mark.parametrize("status", ["error", "cancelled"])
@pytest.mark.parametrize("more", [{}, {"result": None}, {"result": []}])
@pytest.mark.parametrize("within", [False, True])
def test_a_failed_call_of_gemini_gave_what_was_shown_of_it(status: str, more: dict[str, Any], within: bool) -> None:
    """`resultDisplay` is all that there is of it; what a call that succeeded showed is not what the model read."""
    call = {"id": "a", "name": "t", "args": {}, "status": status, **more, "resultDisplay": "No such file."}
    done = {**call, "id": "b", "status": "success"}
    named = [{"functionCall": {key: one[key] for key in ("id", "name", "args")}} for one in (call, done)]
    answer = {"id": "2", "type": "gemini", "content": named if within else "", "toolCalls": [call, done]}
    asked = {"id": "1", "type": "user", "content": "How many?"}
    session = {"sessionId": "s", "projectHash": "h", "messages": [asked, answer]}
    conversation = returned(json.dumps(session).encode(), "gemini-cli")
    (result,) = conversation.messages[2:]
    assert (result.tool_call_id, result.text, result.is_error) == ("a", "No such file.", True)


def test_deepseek_s_first_exports_name_no_one() -> None:
    """Messages have `content` and `reasoning_content` alone; questions and answers take turns."""

    def node(id: str, parent: str | None, *texts: str | None) -> dict[str, Any]:
        message = {"content": texts[0], "reasoning_content": texts[1], "model": "deepseek-chat"} if texts else None
        return {"id": id, "parent": parent, "children": [], "message": message}

    nodes = [
        node("root", None),
        node("1", "root", "Why?", None),
        node("2", "1", "So.", "Hm"),
        node("3", "2", "Ah", None),
    ]
    chat = {"title": "T", "inserted_at": "2025-01-01", "mapping": {one["id"]: one for one in nodes}}
    conversation = returned(json.dumps(chat).encode(), "deepseek-export")
    assert outline(conversation) == ["user: Why?", "assistant: So.", "user: Ah"]


def test_lm_studio_s_results_name_the_number_of_the_call() -> None:
    """The model's own id for a call need not be in the result."""
    call = {"type": "toolCallRequest", "callId": 7, "toolCallRequestId": "x", "name": "calc", "parameters": {}}
    steps = [
        {"type": "contentBlock", "content": [part]}
        for part in (call, {"type": "toolCallResult", "callId": 7, "content": "2"})
    ]
    asked = {"versions": [{"type": "singleStep", "role": "user", "content": [{"type": "text", "text": "Go"}]}]}
    chat = {
        "name": "T",
        "messages": [asked, {"versions": [{"type": "multiStep", "role": "assistant", "steps": steps}]}],
    }
    assert outline(returned(json.dumps(chat).encode(), "lm-studio")) == ["user: Go", "assistant:  calc()", "calc -> 2"]


def test_lm_studio_names_the_model_of_every_version() -> None:
    """Also of one without statistics; of others it says why they ended."""
    block = {"type": "contentBlock", "content": [{"type": "text", "text": "Eggs"}]}
    ended = {**block, "genInfo": {"identifier": "qwen3", "stats": {"stopReason": "contextLengthReached"}}}
    versions = [
        {"type": "multiStep", "role": "assistant", "senderInfo": {"senderName": "qwen2"}, "steps": [step]}
        for step in (block, ended)
    ]
    chat = {"name": "T", "messages": [{"versions": versions, "currentlySelected": 1}]}
    answers = [entry.message for entry in returned(json.dumps(chat).encode(), "lm-studio").entries]
    found = {(one.model, one.stop_reason) for one in answers if isinstance(one, il.AssistantMessage)}
    assert {("qwen2", None), ("qwen3", "length")} == found


def test_the_calls_of_a_silly_tavern_chat_are_on_the_path() -> None:
    """They stand in a line of the system, whose other lines are notes; a narrator's line is a system message."""
    header = {"user_name": "You", "character_name": "Bot", "chat_metadata": {}}

    def line(text: str, user: bool = False, system: bool = False, **about: Any) -> dict[str, Any]:
        return {"name": "x", "is_user": user, "is_system": system, "mes": text, "extra": about}

    called = [{"id": "c", "name": "Roll", "parameters": '{"n": 1}', "result": "4"}]
    chat = [header, line("Roll", user=True), line("Tools", system=True, tool_invocations=called), line("Four.")]
    conversation = returned(
        lines(*chat, line("Night falls.", type="narrator"), line("Saved", system=True)), "silly-tavern"
    )
    said = outline(conversation)
    assert said[:3] == ["user: Roll", "assistant:  Roll()", "Roll -> 4"]
    assert said[3:5] == ["assistant: Four.", "system: Night falls."]
    assert conversation.messages[1].tool_calls[0].arguments == {"n": 1}


def test_roo_code_puts_reasoning_before_an_answer() -> None:
    """As an item without a role; what the program says of the editor beside results is not the person's."""
    call = {"type": "tool_use", "id": "c", "name": "read_file", "input": {}}
    given = [
        {"type": "tool_result", "tool_use_id": "c", "content": "4"},
        {"type": "text", "text": "<environment_details>"},
    ]
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "xx", "id": "rs", "ts": 2}
    task = [
        {"role": "user", "content": [{"type": "text", "text": "<task>Go</task>"}], "ts": 1},
        thought,
        {"role": "assistant", "content": [call], "ts": 3},
        {"role": "user", "content": given, "ts": 4},
    ]
    conversation = returned(json.dumps(task).encode(), "cline")
    assert outline(conversation)[1:] == ["assistant:  read_file()", "None -> 4", "program: <environment_details>"]
    assert conversation.messages[1].content[0].thinking_signature == "xx"


def test_a_picture_of_copilot_may_be_an_object_of_bytes() -> None:
    """`JSON.stringify` writes the bytes of an array like that; other objects only name the picture."""
    picture = {"kind": "image", "id": "a", "mimeType": "image/png", "value": {"0": 137, "1": 80, "2": 78}}
    named = {**picture, "value": {"$mid": 1, "path": "/a.png"}}
    asked = {"message": {"text": "Look"}, "variableData": {"variables": [picture, named]}, "response": []}
    chat = {"requesterUsername": "u", "responderUsername": "GitHub Copilot", "requests": [asked]}
    data, other, _ = returned(json.dumps(chat).encode(), "copilot-chat").messages[0].content
    assert (data.data, data.mime_type, other.file_id) == ("iVBO", "image/png", "a")


def test_a_prompt_of_copilot_that_was_never_answered_has_no_answer() -> None:
    """Its `result` is missing or null."""
    asked = {"message": {"text": "Go", "parts": []}, "response": [], "result": None, "timestamp": 1755529008205}
    chat = {"requesterUsername": "u", "responderUsername": "GitHub Copilot", "requests": [asked]}
    assert outline(returned(json.dumps(chat).encode(), "copilot-chat")) == ["user: Go"]


def test_kimi_s_context_is_read_beside_its_log() -> None:
    """Messages of the chat wire; marks of the program stand between them."""
    call = {"id": "c", "type": "function", "function": {"name": "Bash", "arguments": "{}"}}
    data = lines(
        {"role": "_system_prompt", "content": "Be brief."},
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [{"type": "think", "think": "Hm"}], "tool_calls": [call]},
        {"role": "_usage", "token_count": 10},
        {"role": "tool", "content": [{"type": "text", "text": "ok"}], "tool_call_id": "c"},
    )
    conversation = returned(data, "kimi")
    assert outline(conversation) == ["user: Go", "assistant:  Bash()", "None -> ok"]
    assert (conversation.system, conversation.messages[1].thinking) == ("Be brief.", "Hm")


def goose(role: str, *content: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"role": role, "created": 1750000000, "content": list(content), "metadata": metadata}


def test_a_notice_of_goose_takes_nothing_from_the_model() -> None:
    """Only what is hidden from the beginning on was compacted; a notice is no message of anyone."""
    said = [goose("user", {"type": "text", "text": "Go"}), goose("assistant", {"type": "text", "text": "Done."})]
    notice = goose("assistant", {"type": "systemNotification", "msg": "x"}, agentVisible=False)
    more = [
        goose("user", {"type": "text", "text": "More"}),
        goose("assistant", {"type": "conversationCompacted", "msg": "x"}),
    ]
    conversation = returned(lines({"working_dir": "/x", "description": "T"}, *said, notice, *more), "goose")
    assert [line for line in outline(conversation) if "goose" not in line] == [
        "user: Go",
        "assistant: Done.",
        "user: More",
    ]
    hidden = [{**message, "metadata": {"agentVisible": False}} for message in said]
    summary = goose("user", {"type": "text", "text": "Summary"}, userVisible=False)
    compacted = returned(lines({"working_dir": "/x", "description": "T"}, *hidden, summary), "goose")
    assert (outline(compacted), len(compacted.entries)) == (["program: Summary"], 3)


def test_messages_of_old_versions_of_langchain_have_one_call_and_stated_usage() -> None:
    """`function_call` and `token_usage`; LangGraph's removals are no messages."""
    called = {"function_call": {"name": "f", "arguments": '{"a": 1}'}}
    about = {"token_usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}}
    messages = [
        {"type": "human", "content": "Go", "additional_kwargs": {}},
        {"type": "ai", "content": "", "additional_kwargs": called, "response_metadata": about},
        {"type": "function", "content": "4", "name": "f", "additional_kwargs": {}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "RemoveMessage"], "kwargs": {}},
    ]
    conversation = returned(json.dumps({"messages": messages}).encode(), "langchain")
    assert outline(conversation)[:3] == ["user: Go", "assistant:  f()", "f -> 4"]
    answer, result = conversation.messages[1:3]
    assert answer.tool_calls[0].id == result.tool_call_id
    assert (answer.usage.input, answer.usage.output, answer.usage.cache_read) == (4, 2, 1)


def test_a_prompt_of_continue_may_hold_pictures() -> None:
    """As parts of the type `imageUrl`."""
    content = [
        {"type": "text", "text": "What?"},
        {"type": "imageUrl", "imageUrl": {"url": "data:image/png;base64,aGk="}},
    ]
    session = {
        "sessionId": "s",
        "title": "T",
        "history": [{"message": {"role": "user", "content": content}, "contextItems": []}],
    }
    (message,) = returned(json.dumps(session).encode(), "continue").messages
    assert message.content[1] == il.ImageBlock(data="aGk=", mime_type="image/png")


def test_calls_of_claude_code_without_ids_are_answered_in_order() -> None:
    """As other programs write them: a result's parent is the line of its call."""

    def line(uuid: str, parent: str | None, role: str, *content: dict[str, Any]) -> dict[str, Any]:
        message = {"role": role, "content": list(content)}
        return {"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message}

    calls = [{"type": "tool_use", "name": name, "input": {}} for name in ("Read", "Bash")]
    results = [{"type": "tool_result", "content": text, "is_error": True} for text in ("a", "b")]
    asked = line("u", None, "user", {"type": "text", "text": "Go"})
    data = lines(asked, line("v", "u", "assistant", *calls), line("w", "v", "user", *results))
    conversation = returned(data, "claude-code")
    assert outline(conversation) == ["user: Go", "assistant:  Read() Bash()", "Read -> a", "Bash -> b"]
    for target in ("anthropic-messages", "openai-completions"):
        assert "No result" not in json.dumps(il.encode(conversation, target).body)


STORY = "<!-- Generated by SpecStory, Markdown v2.1.0 -->\n\n# Fix it\n\n<!-- Claude Code Session x (2026-01-01) -->\n"
TURNS = """
_**User (2026-01-01 10:00:00Z)**_

Go

---

_**Agent - sidechain (claude-x 2026-01-01 10:00:01Z)**_

Searched.

---

_**Agent (claude-x 2026-01-01 10:00:02Z)**_

Done.
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_turns_of_a_sub_agent_in_specstory_are_beside_the_path(end: str) -> None:
    """They were part of the turn before; the title ends where its line does."""
    text = (STORY + TURNS).replace("\n", end)
    (conversation,) = il.read(text.encode())
    assert (outline(conversation), conversation.title) == (["user: Go", "assistant: Done."], "Fix it")
    assert len(conversation.entries) == 3
    assert il.encode(conversation, "specstory").body == text


def test_a_session_of_specstory_may_have_no_turns_yet() -> None:
    """The mark of the program says what it is; other Markdown with the mark is refused."""
    (conversation,) = il.read(STORY.encode())
    assert (conversation.entries, conversation.title) == ((), "Fix it")
    assert il.encode(conversation, "specstory").body == STORY
    assert il.detect(STORY + "\nSome notes about it.\n") is None


@pytest.mark.parametrize("more", [{}, {"id": "lsh", "status": "in_progress"}])
def test_codex_calls_its_local_shell(more: dict[str, Any]) -> None:
    """The item has no name; its output answers it."""
    action = {"type": "exec", "command": ["ls"], "timeout_ms": 5}
    call = {"type": "local_shell_call", "call_id": "c", "status": "completed", "action": action, **more}
    given = {"type": "function_call_output", "call_id": "c", "output": "a"}
    items = [{"type": "response_item", "payload": payload} for payload in (call, given)]
    data = lines({"type": "session_meta", "payload": {"id": "s"}}, item("user", "Go", type="message"), *items)
    conversation = returned(data, "codex-cli")
    assert outline(conversation) == ["user: Go", "assistant:  local_shell()", "local_shell -> a"]
    assert conversation.messages[1].tool_calls[0].arguments == action


def test_codex_searches_tools_and_hears_other_agents() -> None:
    """A search that the client runs is a call with its result; what another agent sends is the program's."""
    payloads = (
        {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "tides"}},
        {
            "type": "tool_search_output",
            "call_id": "c",
            "status": "completed",
            "execution": "client",
            "tools": [{"n": 1}],
        },
        {
            "type": "agent_message",
            "author": "/root/a",
            "recipient": "/root",
            "content": [{"type": "input_text", "text": "Hi"}],
        },
        {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "AAAA"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    )
    told = {"author": "/root/a", "recipient": "/root", "content": "More", "trigger_turn": True}
    items = [{"type": "response_item", "payload": payload} for payload in payloads]
    begun = {"type": "session_meta", "payload": {"id": "s"}}
    sent = {"type": "inter_agent_communication", "payload": told}
    conversation = returned(lines(begun, item("user", "Go", type="message"), *items, sent), "codex-cli")
    assert outline(conversation) == [
        "user: Go",
        "assistant:  tool_search()",
        'tool_search -> [{"n":1}]',
        "program: Hi",
        "assistant: Done.",
        "program: More",
    ]


def test_tokens_that_codex_wrote_to_the_cache_are_in_its_input() -> None:
    """codex-rs/protocol, `TokenUsage`: input includes what was read from the cache and written to it."""
    counts = {"input_tokens": 10, "cached_input_tokens": 4, "cache_write_input_tokens": 3, "output_tokens": 5}
    info = {"type": "token_count", "info": {"total_token_usage": counts}}
    begun = {"type": "session_meta", "payload": {"id": "s"}}
    data = lines(begun, item("user", "Go", type="message"), {"type": "event_msg", "payload": info})
    run = lines({"type": "thread.started", "thread_id": "t"}, {"type": "turn.completed", "usage": counts})
    for usage in (returned(data, "codex-cli").usage, returned(run, "codex-exec-stream").usage):
        assert usage is not None
        assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (3, 5, 4, 3)


def test_openhands_events_of_every_kind_are_a_trajectory() -> None:
    """A change of state among the first events is no reason to refuse the others."""

    def event(kind: str, source: str, **fields: Any) -> dict[str, Any]:
        return {"kind": kind, "id": kind, "timestamp": "2025-11-01T00:00:01", "source": source, **fields}

    asked = event("MessageEvent", "user", llm_message={"role": "user", "content": [{"type": "text", "text": "Go"}]})
    call = {"id": "c", "name": "bash", "arguments": "{}"}
    acted = event("ActionEvent", "agent", tool_name="bash", tool_call_id="c", tool_call=call, llm_response_id="r")
    failed = event("AgentErrorEvent", "agent", tool_name="bash", tool_call_id="c", error="bad")
    states = [event("ConversationStateUpdateEvent", "environment", key="x", value=1), event("PauseEvent", "user")]
    conversation = returned(json.dumps([states[0], asked, acted, failed, states[1]]).encode(), "openhands")
    assert outline(conversation) == ["user: Go", "assistant:  bash()", "bash -> bad"]
    assert il.detect(json.dumps(states).encode()) is None


@pytest.mark.parametrize("odd", [[], {}, 3, None])
def test_a_kind_that_is_no_text_spoils_nothing_else(odd: Any) -> None:
    """It may be unhashable: the block stays as it is, and a list that only begins like a trajectory is unknown."""
    content = [{"type": odd, "x": 1}, {"type": "text", "text": "Done."}]
    line = {"type": "assistant", "uuid": "a", "parentUuid": None, "sessionId": "s"}
    asked = {**line, "uuid": "u", "type": "user", "message": {"role": "user", "content": "Go"}}
    answer = {**line, "parentUuid": "u", "message": {"role": "assistant", "content": content}}
    conversation = returned(lines(asked, answer), "claude-code")
    assert outline(conversation) == ["user: Go", "assistant: Done."]
    result = {"role": "tool", "tool_call_id": "c", "content": [{"type": odd, "x": 1}]}
    il.adapt(
        il.decode([{"role": "user", "content": "Go"}, result], "openai-completions").request(), "anthropic-messages"
    )
    assert il.detect([{"kind": odd, "source": "user"}, {"kind": odd, "source": "agent"}]) is None


# --- calls in the ways of chat programs ------------------------------------------------------------------------------


def details(done: str, **fields: str) -> str:
    attributes = "".join(f' {name}="{html.escape(value)}"' for name, value in fields.items())
    return f'<details type="tool_calls" done="{done}"{attributes}>\n<summary>Tool Executed</summary>\n</details>\n'


def test_calls_that_open_webui_shows_as_html_are_calls() -> None:
    """With their results, where they were made; one that still ran has none, and thoughts stay as they are shown."""
    thought = '<details type="reasoning" done="true">\n> Hm\n</details>\n'
    read_a = details("true", id="c1", name="read", arguments=json.dumps('{"path": "a<b>"}'), result='"\\"12\\""')
    read_b = details("true", id="c2", name="read", arguments='{"path": "b"}', result='{"n": 1}', files="")
    runs = details("false", id="c3", name="wait", arguments='""')
    content = f"{thought}Let me see.\n{read_a}{read_b}Twelve.\n{runs}"
    messages = {
        "u": {"id": "u", "parentId": None, "role": "user", "content": "How many?", "timestamp": 1},
        "a": {"id": "a", "parentId": "u", "role": "assistant", "content": content, "model": "m", "timestamp": 2},
    }
    chat = {"title": "Eggs", "models": ["m"], "history": {"messages": messages, "currentId": "a"}}
    conversation = returned(json.dumps({"chat": chat}).encode(), "open-webui")
    assert outline(conversation) == [
        "user: How many?",
        f"assistant: {thought}Let me see.\n read()",
        'read -> "12"',
        "assistant:  read()",
        'read -> {"n": 1}',
        "assistant: Twelve.\n wait()",
    ]
    calls = [call for message in conversation.messages for call in getattr(message, "tool_calls", ())]
    assert [("c1", {"path": "a<b>"}), ("c2", {"path": "b"}), ("c3", {})] == [(one.id, one.arguments) for one in calls]


def test_html_of_open_webui_that_does_not_end_is_text() -> None:
    """As it is while an answer arrives."""
    content = 'See <details type="tool_calls" done="false" id="c" name="read">'
    messages = {"a": {"id": "a", "parentId": None, "role": "assistant", "content": content}}
    conversation = returned(json.dumps({"history": {"messages": messages, "currentId": "a"}}).encode(), "open-webui")
    assert outline(conversation) == [f"assistant: {content}"]


def test_a_call_that_goose_could_not_read_is_a_call() -> None:
    """With its error, so that its result has one."""
    failed = {"type": "toolRequest", "id": "c", "toolCall": {"status": "error", "error": "-32602: invalid arguments"}}
    result = {"type": "toolResponse", "id": "c", "toolResult": {"status": "error", "error": "-32602: invalid"}}
    wires = [goose("user", {"type": "text", "text": "Go"}), goose("assistant", failed), goose("user", result)]
    conversation = returned(lines(*wires), "goose")
    _, answer, outcome = conversation.messages
    assert isinstance(answer, il.AssistantMessage) and isinstance(outcome, il.ToolResultMessage)
    assert [("c", "-32602: invalid arguments")] == [(call.id, call.parse_error) for call in answer.tool_calls]
    assert ("c", True) == (outcome.tool_call_id, outcome.is_error)


@pytest.mark.parametrize("heading", ["[read_file for 'a'] Result:", "[read_file] Result:\n"])
@pytest.mark.parametrize("is_apart", [True, False])
def test_results_of_cline_may_be_text(heading: str, is_apart: bool) -> None:
    """Under the name of the tool, of the call that has no result; what else the user gets stays where it is."""
    calls = [
        {"type": "tool_use", "id": id, "name": name, "input": {"path": "a"}}
        for id, name in (("c1", "list_files"), ("c2", "read_file"))
    ]
    texts = [heading, "twelve"] if is_apart else [f"{heading}\ntwelve"]
    blocks = [{"type": "text", "text": text} for text in (*texts, "<environment_details>\nx\n</environment_details>")]
    wire = [
        {"role": "user", "content": [{"type": "text", "text": "<task>\nCount\n</task>"}]},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a"}, *blocks]},
    ]
    conversation = returned(json.dumps(wire).encode(), "cline")
    results = [message for message in conversation.messages if isinstance(message, il.ToolResultMessage)]
    assert [("c1", "a"), ("c2", "twelve")] == [(one.tool_call_id, one.text.strip()) for one in results]
    last = conversation.messages[-1]
    assert isinstance(last, il.UserMessage) and last.origin == "program" and "twelve" not in last.text


CHUNKS = {
    "beside": [{"role": "model", "functionCall": {"name": "read", "args": {"n": 1}}, "response": {"found": 12}}],
    "apart": [
        {"role": "model", "functionCall": {"name": "read", "parameters": {"n": 1}}},
        {"role": "user", "functionResponse": {"name": "read", "response": {"found": 12}}},
    ],
    "in parts": [
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"n": 1}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"found": 12}}}]},
    ],
}


def test_ai_studio_s_failed_answer_has_failed() -> None:
    """With its reason; another one after it has not."""
    failed = {"role": "model", "text": "", "errorMessage": "An internal error has occurred."}
    for chunks, wanted in (([failed], "error"), ([failed, {"role": "model", "text": "Twelve"}], None)):
        prompt = {"runSettings": {}, "chunkedPrompt": {"chunks": [{"role": "user", "text": "Count"}, *chunks]}}
        answer = returned(json.dumps(prompt).encode(), "aistudio").messages[-1]
        assert isinstance(answer, il.AssistantMessage)
        reason = failed["errorMessage"] if wanted else None
        assert (wanted, reason) == (answer.stop_reason, answer.error_message)


def test_chatgpt_says_what_failed_and_what_was_cut() -> None:
    """An error of a tool is one; an answer of the most tokens ended for its length."""
    nodes: dict[str, Any] = {"r": {"id": "r", "message": None, "parent": None, "children": ["c"]}}
    contents: list[tuple[str, Any, dict[str, Any]]] = [
        ("assistant", {"content_type": "code", "language": "python", "text": "1/0"}, {"recipient": "python"}),
        ("tool", {"content_type": "system_error", "name": "ZeroDivisionError", "text": "division by zero"}, {}),
        ("assistant", {"content_type": "text", "parts": ["Because"]}, {}),
    ]
    for at, (role, content, more) in enumerate(contents):
        author = {"role": role, "name": "python" if role == "tool" else None, "metadata": {}}
        metadata = {"model_slug": "gpt-4o", "finish_details": {"type": "max_tokens"}} if at == 2 else {}
        message = {"author": author, "content": content, "create_time": 1735000000.5, "recipient": "all", **more}
        children = ["ctx"[at + 1]] if at < 2 else []
        node = {"message": {**message, "metadata": metadata}, "parent": "rct"[at], "children": children}
        nodes["ctx"[at]] = {"id": "ctx"[at], **node}
    chat = {"title": "T", "mapping": nodes, "current_node": "x"}
    _, call, result, answer = returned(json.dumps(chat).encode(), "chatgpt-export").messages
    assert isinstance(call, il.AssistantMessage) and isinstance(result, il.ToolResultMessage)
    assert result.is_error and result.tool_call_id == call.tool_calls[0].id
    assert isinstance(answer, il.AssistantMessage) and answer.stop_reason == "length"


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_calls_of_ai_studio_have_their_responses(chunks: list[Any]) -> None:
    """In the chunk of the call, in one of their own, or in its parts."""
    given = [{"role": "user", "text": "Count"}, *chunks, {"role": "model", "text": "Twelve"}]
    prompt = {"runSettings": {"model": "models/gemini-x"}, "chunkedPrompt": {"chunks": given}}
    conversation = returned(json.dumps(prompt).encode(), "aistudio")
    assert outline(conversation) == [
        "user: Count",
        "assistant:  read()",
        'read -> {"found":12}',
        "assistant: Twelve",
    ]
    assert [{"n": 1}] == [call.arguments for call in conversation.messages[1].tool_calls]  # type: ignore[union-attr]


STEPS = {
    "steps": lambda steps: {"steps": steps},
    "run_steps": lambda steps: {"run_steps": {"object": "list", "data": steps[::-1]}},
    "runs": lambda steps: {"runs": [{"object": "thread.run", "id": "r", "steps": {"data": steps}}]},
}


@pytest.mark.parametrize("beside", STEPS.values(), ids=STEPS)
def test_steps_of_runs_beside_the_messages_of_a_thread_are_calls(beside: Any) -> None:
    """Before the answer of their run, also where they have its second."""
    steps = [
        {
            "object": "thread.run.step",
            "created_at": when,
            "step_details": {
                "type": "tool_calls",
                "tool_calls": [
                    {
                        "id": f"c{when}",
                        "type": "function",
                        "function": {"name": "read", "arguments": f'{{"n": {when}}}', "output": "12"},
                    }
                ],
            },
        }
        for when in (2, 3)
    ]
    messages = [
        {"object": "thread.message", "id": f"m{when}", "created_at": when, "role": role, "content": text}
        for when, role, text in ((3, "assistant", "Twelve"), (2, "user", "Count"))
    ]
    thread = {"object": "thread", "id": "t", "messages": {"object": "list", "data": messages}, **beside(steps)}
    conversation = returned(json.dumps(thread).encode(), "openai-assistants")
    calls = ["assistant:  read()", "read -> 12"]
    assert outline(conversation) == ["user: Count", *calls, *calls, "assistant: Twelve"]
    results = [one.tool_call_id for one in conversation.messages if isinstance(one, il.ToolResultMessage)]
    assert ["c2", "c3"] == results


def test_an_array_of_rows_with_messages_is_detected() -> None:
    """One of a single row returns as such; of several, each is a conversation."""
    row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}], "id": 7}
    assert outline(returned(json.dumps([row]).encode(), "openai-finetune")) == ["user: Hi", "assistant: Yes"]
    detection = il.detect([row, row])
    assert detection is not None and detection.dialect == "openai-finetune"
    assert 2 == len(list(il.read(json.dumps([row, row]).encode())))
    for other in ([], [{"messages": [{"role": "human", "text": "Hi"}]}], [{"messages": "x"}], [[]]):
        found = il.detect(other)
        assert found is None or found.dialect != "openai-finetune"


def test_a_log_of_continue_is_a_conversation_a_line() -> None:
    """With the model that answered; training data of TRL has the same two texts."""
    edit = (WIRE / "continue/log.json").read_bytes()
    own = {"eventName": "chatInteraction", "modelTitle": "llama3", "prompt": "<user>\nHow many eggs?\n\n"}
    chat = {key: value for key, value in json.loads(edit).items() if key not in ("modelName", "filepath")} | own
    data = edit + json.dumps(chat).encode()
    assert "continue" == il.detect(data).dialect == il.detect(edit).dialect  # type: ignore[union-attr]
    texts = [[text_of(message.content) for message in one.messages] for one in il.read(data)]
    assert [["Count the eggs in this function.", "return 12"], [own["prompt"], "return 12"]] == texts
    with pytest.raises(BadWire, match="a log of 2 calls"):
        il.decode(data)
    for line, conversation in zip(data.splitlines(), il.read(data), strict=True):
        answer = conversation.messages[-1]
        assert isinstance(answer, il.AssistantMessage)
        assert ("llama3", "ollama", 1769940000000) == (answer.model, answer.provider, answer.timestamp)
        assert json.loads(line) == il.encode(conversation, "continue").body
    plain = {"prompt": "How many eggs?", "completion": "Twelve."}
    assert "trl" == il.detect(plain).dialect  # type: ignore[union-attr]


def test_a_shared_list_without_calls_is_a_list_of_messages() -> None:
    """Nothing in it tells LobeChat from others that write OpenAI's messages."""
    rows = [{"content": "Hi", "role": "user"}, {"content": "Hello", "role": "assistant"}]
    assert "openai-completions" == il.detect(rows).dialect  # type: ignore[union-attr]


def gemini(*records: dict[str, Any]) -> il.Conversation:
    times = {"timestamp": "2026-08-01T10:00:00.000Z"}
    given = [{"id": str(at), **times, **record} for at, record in enumerate(records)]
    session = {"sessionId": "s", "projectHash": "h", "startTime": "x", "lastUpdated": "x", "messages": given}
    return returned(json.dumps(session).encode(), "gemini-cli")


def test_content_of_gemini_may_be_a_part_or_hold_plain_texts() -> None:
    """`PartListUnion` of its SDK: a text, a part, or a list of both."""
    conversation = gemini(
        {"type": "user", "content": {"text": "Why?"}},
        {"type": "gemini", "content": {"text": "So."}, "model": "m"},
        {"type": "user", "content": ["And", {"text": " then?"}]},
    )
    assert outline(conversation) == ["user: Why?", "assistant: So.", "user: And then?"]
    texts = [part["text"] for part in il.encode(conversation, "anthropic-messages").body["messages"][-1]["content"]]
    assert texts == ["And", " then?"]


@pytest.mark.parametrize("listed", [True, False])
def test_an_answer_of_gemini_may_hold_its_calls_among_its_parts(listed: bool) -> None:
    """So are histories that replace earlier ones; a result that stands in `toolCalls` too is one result."""
    given = {"functionResponse": {"id": "c", "name": "count", "response": {"output": "12"}}}
    thought = {"text": "Count.", "thought": True}
    call = {"functionCall": {"id": "c", "name": "count", "args": {"of": "eggs"}}, "thoughtSignature": "SIG"}
    item_ = {"id": "c", "name": "count", "args": {"of": "eggs"}, "status": "success", "result": [given]}
    conversation = gemini(
        {"type": "user", "content": [{"text": "<session_context>\nToday is Monday."}]},
        {"type": "user", "content": [{"text": "How many?"}]},
        {"type": "gemini", "content": [thought, call], "model": "m", **({"toolCalls": [item_]} if listed else {})},
        {"type": "user", "content": [given]},
        {"type": "gemini", "content": [{"text": "12."}], "model": "m"},
    )
    shown = [line for line in outline(conversation) if not line.startswith("gemini-cli:")]
    assert shown == [
        "program: <session_context>\nToday is Monday.",
        "user: How many?",
        "assistant:  count()",
        "count -> 12",
        "assistant: 12.",
    ]
    assert conversation.messages[2].thinking == "Count."


@pytest.mark.parametrize("beside", [True, False])
def test_pictures_that_a_tool_of_qwen_code_gave_are_in_its_result(beside: bool) -> None:
    """They stand in the response, or behind it for models that take none there."""
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    response = {"id": "c", "name": "read", "response": {"output": "a file"}, **({} if beside else {"parts": [picture]})}
    begun = {"sessionId": "s", "timestamp": "2026-08-01T10:00:00.000Z"}
    call = {"parts": [{"functionCall": {"id": "c", "name": "read", "args": {}}}], "role": "model"}
    parts = [{"functionResponse": response}, *([picture] if beside else [])]
    data = lines(
        {
            **begun,
            "uuid": "1",
            "parentUuid": None,
            "type": "user",
            "message": {"role": "user", "parts": [{"text": "Go"}]},
        },
        {**begun, "uuid": "2", "parentUuid": "1", "type": "assistant", "message": call},
        {**begun, "uuid": "3", "parentUuid": "2", "type": "tool_result", "message": {"role": "user", "parts": parts}},
    )
    result = returned(data, "qwen-code").messages[2]
    assert [type(block).__name__ for block in result.content] == ["TextBlock", "ImageBlock"]


def test_what_is_steered_while_kimi_works_is_a_person_s() -> None:
    """Logs of the Python program: the turn goes on behind it."""

    def event(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": 1785397637.5, "message": {"type": kind, "payload": payload}}

    begun = {"type": "metadata", "protocol_version": "1.8"}
    answered = [event("StepBegin", n=1), event("ContentPart", type="text", text="Yes.")]
    steered = event("SteerInput", user_input="And eggs?")
    data = lines(begun, event("TurnBegin", user_input="Milk?"), *answered, steered, *answered)
    expected = ["user: Milk?", "assistant: Yes.", "user: And eggs?", "assistant: Yes."]
    assert outline(returned(data, "kimi")) == expected


def test_reminders_in_the_context_of_kimi_are_the_program_s() -> None:
    """It marks them with a tag."""
    reminder = {"role": "user", "content": [{"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"}]}
    data = lines({"role": "_checkpoint", "id": 0}, {"role": "user", "content": "Milk?"}, reminder)
    assert [message.origin for message in returned(data, "kimi").messages] == [None, "program"]


def test_the_last_answer_of_a_turn_has_the_metrics_of_cline() -> None:
    """Sessions of its SDK: the input includes what was read from the cache and written to it."""
    conversation = read("cline/sdk.messages.json")
    usage = conversation.messages[-1].usage
    assert usage is not None
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (17, 8, 3, 1)
    assert (conversation.system, conversation.messages[-1].model) == ("You are Cline.", "glm-5")


@pytest.mark.parametrize(("id", "parent"), [("condenseId", "condenseParent"), ("truncationId", "truncationParent")])
def test_what_roo_code_hides_from_the_model_is_beside_the_path(id: str, parent: str) -> None:
    """A summary in its place is the program's; where that was deleted, all is shown again."""
    asked = {"role": "user", "content": "<task>Milk?</task>", "ts": 1}
    hidden = [
        {"role": "assistant", "content": "Yes.", "reasoning_content": "Look.", "ts": 2, parent: "x"},
        {"role": "user", "content": "And eggs?", "ts": 3, parent: "x"},
    ]
    summary = {"role": "user", "content": "There is milk.", "ts": 4, "isSummary": True, id: "x"}
    last = {"role": "assistant", "content": "Eggs, too.", "ts": 5}
    conversation = returned(json.dumps([asked, *hidden, summary, last]).encode(), "cline")
    expected = ["user: <task>Milk?</task>", "program: There is milk.", "assistant: Eggs, too."]
    assert (outline(conversation), len(conversation.entries)) == (expected, 5)
    restored = returned(json.dumps([asked, *hidden]).encode(), "cline")
    assert (len(outline(restored)), restored.messages[1].thinking) == (3, "Look.")


def test_newer_chats_of_silly_tavern_name_the_character_in_its_lines() -> None:
    """The header says that its names are unused; the text of a file is read before the message."""
    header = {"chat_metadata": {}, "user_name": "unused", "character_name": "unused"}
    asked = {
        "name": "Me",
        "is_user": True,
        "is_system": False,
        "mes": "Read it.",
        "extra": {"file": {"text": "12 eggs"}},
    }
    answered = {"name": "Ada", "is_user": False, "is_system": False, "mes": "Twelve.", "extra": {}}
    conversation = returned(lines(header, asked, answered), "silly-tavern")
    assert (conversation.title, outline(conversation)) == ("Ada", ["user: 12 eggsRead it.", "assistant: Twelve."])


OUTPUT = [
    {"type": "reasoning", "id": "r", "content": [{"type": "output_text", "text": "Look at\nthe eggs."}]},
    {"type": "function_call", "id": "f", "call_id": "c", "name": "count", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "12"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Twelve."}]},
]


def test_the_items_that_open_webui_keeps_beside_the_text_are_read() -> None:
    """The text shows them as HTML."""
    shown = '<details type="reasoning" done="true">\n> Look at\n> the eggs.\n</details>\nTwelve.'
    asked = {"id": "1", "parentId": None, "childrenIds": ["2"], "role": "user", "content": "How many?"}
    answer = {"id": "2", "parentId": "1", "childrenIds": [], "role": "assistant", "content": shown, "output": OUTPUT}
    chat = {"title": "Eggs", "history": {"currentId": "2", "messages": {"1": asked, "2": answer}}}
    conversation = returned(json.dumps({"id": "a", "user_id": "u", "chat": chat}).encode(), "open-webui")
    called = ["assistant:  count()", "count -> 12"]
    assert outline(conversation) == ["user: How many?", *called, "assistant: Twelve."]
    assert conversation.messages[1].thinking == "Look at\nthe eggs."


def test_openhands_states_model_and_usage_and_adds_to_messages() -> None:
    """Events of its SDK: the last state counts, reasoning is in messages too, and skills add to a prompt."""

    def event(kind: str, source: str, **fields: Any) -> dict[str, Any]:
        return {"kind": kind, "id": kind, "timestamp": "2026-06-01T00:00:01", "source": source, **fields}

    def text(value: str) -> dict[str, Any]:
        return {"type": "text", "text": value}

    spent = {"prompt_tokens": 30, "completion_tokens": 5, "cache_read_tokens": 10, "cache_write_tokens": 2}
    metrics = {"agent": {"accumulated_token_usage": spent}, "condenser": {"accumulated_token_usage": spent}}
    state = {"agent": {"llm": {"model": "glm-5"}}, "stats": {"usage_to_metrics": metrics}}
    message = {"role": "assistant", "content": [text("Done.")], "reasoning_content": "Easy."}
    events = [
        event("SystemPromptEvent", "agent", system_prompt=text("Be good."), tools=[], dynamic_context=text("Today.")),
        event(
            "MessageEvent",
            "user",
            llm_message={"role": "user", "content": [text("Go")]},
            extended_content=[text("A skill")],
        ),
        event("MessageEvent", "agent", llm_message=message),
        event("ConversationStateUpdateEvent", "environment", key="full_state", value=state),
    ]
    conversation = returned(json.dumps(events).encode(), "openhands")
    assert outline(conversation) == ["user: Go", "program: A skill", "assistant: Done."]
    assert (conversation.messages[-1].thinking, conversation.system) == ("Easy.", "Be good.\n\nToday.")
    assert conversation.model is not None and conversation.model.id == "glm-5"
    assert conversation.usage == il.Usage.of(36, 10, cache_read=20, cache_write=4)


def test_what_pi_sends_beside_messages_is_the_program_s() -> None:
    """Commands of the user, what extensions put in, and summaries of branches; not what is excluded or shown only."""
    ran = {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 2, "cancelled": False, "timestamp": 5}
    records: list[dict[str, Any]] = [
        {"type": "message", "message": {"role": "user", "content": "Go", "timestamp": 1}},
        {"type": "message", "message": ran},
        {"type": "message", "message": {**ran, "excludeFromContext": True}},
        {"type": "custom_message", "customType": "x", "content": "Be brief.", "display": True},
        {"type": "custom", "customType": "x", "data": {}},
        {"type": "branch_summary", "fromId": "0", "summary": "It failed."},
    ]
    times = {"timestamp": "2026-08-01T10:00:00.000Z"}
    entries = [
        {"id": f"e{at}", "parentId": f"e{at - 1}" if at else None, **times, **one} for at, one in enumerate(records)
    ]
    begun = {"type": "session", "version": 3, "id": "s", "cwd": "/", **times}
    conversation = returned(lines(begun, *entries), "openclaw")
    branch = "The following is a summary of a branch that this conversation came back from:"
    assert outline(conversation) == [
        "user: Go",
        "program: Ran `ls`\n```\na\n```\n\nCommand exited with code 2",
        "bashExecution: ",
        "program: Be brief.",
        "custom: ",
        f"program: {branch}\n\n<summary>\nIt failed.</summary>",
    ]
    body = json.dumps(il.encode(conversation, "anthropic-messages").body)
    assert "Be brief." in body and "Ran `ls`" in body


def kimi_prompt(text: str, **origin: str) -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "toolCalls": [], "origin": origin}
    return {"type": "context.append_message", "message": message}


def test_a_compaction_of_kimi_keeps_prompts_before_its_summary() -> None:
    """The first and the last ones; records of older versions have no count of them."""
    prompts = [kimi_prompt(text, kind="user") for text in ("One", "Two", "Three")]
    counts = {"compactedCount": 3, "keptUserMessageCount": 2, "keptHeadUserMessageCount": 1}
    compaction = {"type": "context.apply_compaction", "contextSummary": "So far", "summary": "S", **counts}
    header = {"type": "metadata", "protocol_version": "1.5"}
    conversation = returned(lines(header, *prompts, compaction), "kimi")
    assert outline(conversation) == ["user: One", "user: Three", "program: So far"]


def test_a_skill_that_the_model_of_kimi_activated_is_no_prompt() -> None:
    """One that a person called by its name is."""
    origins = [{"kind": "skill_activation", "trigger": trigger} for trigger in ("user-slash", "model-tool")]
    prompts = [kimi_prompt(origin["trigger"], **origin) for origin in origins]
    conversation = returned(lines({"type": "metadata", "protocol_version": "1.5"}, *prompts), "kimi")
    assert outline(conversation) == ["user: user-slash", "program: model-tool"]


FILES: list[tuple[dict[str, Any], Any]] = [
    (
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}},
        il.DocumentBlock(data="aGk=", mime_type="application/pdf"),
    ),
    (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}, "title": "a"},
        il.DocumentBlock(text="hi", mime_type="text/plain", title="a"),
    ),
    ({"type": "file", "file": {"file_id": "f", "filename": "a"}}, il.DocumentBlock(file_id="f", title="a")),
    ({"type": "video_url", "video_url": {"url": "http://v"}}, il.DocumentBlock(url="http://v")),
    ({"type": "audio_url", "audio_url": {"url": "http://a"}}, il.AudioBlock(url="http://a")),
    (
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        il.AudioBlock(data="aGk=", mime_type="audio/mp3"),
    ),
    ({"type": "file", "content": "hi", "path": "/a"}, il.DocumentBlock(text="hi", title="/a")),
    (
        {"type": "media", "media": {"modality": "audio", "mediaType": "audio/mp3", "source": {"data": "aGk="}}},
        il.AudioBlock(data="aGk=", mime_type="audio/mp3"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("part", "block"), FILES)
def test_a_file_in_a_prompt_is_a_block(part: dict[str, Any], block: Any) -> None:
    """Documents, recordings and videos, as the providers' wires and MCP write them."""
    prompt = kimi_prompt("Look", kind="user")
    prompt["message"]["content"].append(part)
    conversation = returned(lines({"type": "metadata", "protocol_version": "1.5"}, prompt), "kimi")
    assert conversation.messages[0].content == (il.TextBlock(text="Look"), block)


def test_a_compression_of_qwen_code_keeps_prompts_and_results() -> None:
    """The retained part of `compressedHistory` has calls with their responses, and what a person asked before."""
    call = {"functionCall": {"id": "c", "name": "read_file", "args": {}}}
    response = {"functionResponse": {"id": "c", "name": "read_file", "response": {"output": "ok"}}}
    history = [
        {"role": "user", "parts": [{"text": "<state_snapshot>"}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
        {"role": "user", "parts": [{"text": "Go"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [response]},
    ]
    payload = {"info": {}, "compressedHistory": history}
    note = {"uuid": "b", "parentUuid": "a", "sessionId": "s", "type": "system", "subtype": "chat_compression"}
    conversation = returned(
        lines(qwen("a", None, "user", {"text": "Go"}), {**note, "systemPayload": payload}), "qwen-code"
    )
    assert outline(conversation) == [
        "program: <state_snapshot>",
        "assistant: Got it.",
        "user: Go",
        "assistant:  read_file()",
        "read_file -> ok",
    ]


def test_a_sub_agent_of_qwen_code_begins_with_the_history_that_it_got() -> None:
    """And what is sent to it later is no person's."""
    bootstrap = {"uuid": "a", "parentUuid": None, "sessionId": "s", "type": "system", "subtype": "agent_bootstrap"}
    history = [{"role": "user", "parts": [{"text": "Task"}]}]
    conversation = returned(
        lines(
            {**bootstrap, "systemPayload": {"kind": "fork", "history": history}},
            qwen("b", "a", "assistant", {"text": "Done."}),
            qwen("c", "b", "user", {"text": "More"}, externalInputKind="message"),
        ),
        "qwen-code",
    )
    assert outline(conversation) == ["program: Task", "assistant: Done.", "program: More"]


def test_a_result_of_goose_has_what_the_model_read() -> None:
    """Content for the user alone is none of it; a resource is text."""
    asked = {"type": "toolRequest", "id": "c", "toolCall": {"status": "success", "value": {"name": "shell"}}}
    shown = {"type": "text", "text": "# ok", "annotations": {"audience": ["user"], "priority": 0.0}}
    given = {"type": "text", "text": "ok", "annotations": {"audience": ["assistant"]}}
    resource = {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "eggs"}}
    value = {"content": [given, shown, resource], "isError": False}
    answer = {"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": value}}
    conversation = returned(
        lines(goose("user", {"type": "text", "text": "Go"}), goose("assistant", asked), goose("user", answer)), "goose"
    )
    assert [il.TextBlock(text="ok"), il.TextBlock(text="eggs")] == list(conversation.messages[2].content)


def opencode(role: str, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
    return {"info": {"role": role, "time": {"created": 1}, **info}, "parts": list(parts)}


OPENCODE_COMPACTED = [
    opencode("user", {"type": "text", "text": "One"}, id="m1"),
    opencode("assistant", {"type": "text", "text": "1"}, id="m2", parentID="m1"),
    opencode("user", {"type": "text", "text": "Two"}, id="m3"),
    opencode("assistant", {"type": "text", "text": "2"}, id="m4", parentID="m3"),
    opencode("user", {"type": "compaction", "auto": True, "tail_start_id": "m3"}, id="m5"),
    opencode("assistant", {"type": "text", "text": "Sum"}, id="m6", parentID="m5", summary=True, finish="stop"),
]


def test_a_compaction_of_opencode_keeps_its_tail() -> None:
    """After the summary the model reads the messages from `tail_start_id` on; the request for it is a question."""
    session: dict[str, Any] = {"info": {"id": "s"}, "messages": [*OPENCODE_COMPACTED]}
    conversation = returned(json.dumps(session).encode(), "opencode")
    kept = ["program: What did we do so far?", "assistant: Sum", "user: Two", "assistant: 2"]
    assert (kept, 6) == (outline(conversation), len(conversation.entries))
    session["messages"] += [
        opencode("user", {"type": "text", "text": "Three"}, id="m7"),
        opencode("user", {"type": "compaction", "auto": True, "tail_start_id": "m4"}, id="m8"),
        opencode("assistant", {"type": "text", "text": "Again"}, id="m9", parentID="m8", summary=True, finish="stop"),
        opencode("user", {"type": "text", "text": "Four"}, id="m10"),
    ]
    assert outline(returned(json.dumps(session).encode(), "opencode")) == [
        *(kept[0], "assistant: Again", kept[3], *kept[:2]),
        *("user: Three", "user: Four"),
    ]
    session["info"]["revert"] = {"messageID": "m8"}
    assert [*kept, "user: Three"] == outline(returned(json.dumps(session).encode(), "opencode"))
    session["info"]["revert"] = {"messageID": "m4"}
    assert ["user: One", "assistant: 1", "user: Two"] == outline(returned(json.dumps(session).encode(), "opencode"))


def test_an_interrupted_tool_of_opencode_gave_what_it_had() -> None:
    """The model reads the output until then, not the error."""
    state = {"status": "error", "error": "Aborted", "input": {}, "metadata": {"interrupted": True, "output": "half"}}
    call = {"type": "tool", "callID": "c", "tool": "bash", "state": state}
    messages = [opencode("user", {"type": "text", "text": "Go"}, id="m1"), opencode("assistant", call, id="m2")]
    conversation = returned(json.dumps({"info": {"id": "s"}, "messages": messages}).encode(), "opencode")
    assert outline(conversation)[2] == "bash -> half"


def test_the_screen_of_cline_has_outcomes_where_requests_have_no_text() -> None:
    """A request that was cancelled says why; a mark of the program ends a result."""
    shown = [
        {"ts": 1, "type": "say", "say": "text", "text": "Go"},
        {"ts": 2, "type": "say", "say": "api_req_started", "text": json.dumps({"tokensIn": 1, "tokensOut": 2})},
        {"ts": 3, "type": "ask", "ask": "command", "text": "ls"},
        {"ts": 4, "type": "say", "say": "command_output", "text": "eggs"},
        {"ts": 5, "type": "say", "say": "api_req_started", "text": json.dumps({"cancelReason": "user_cancelled"})},
        {"ts": 6, "type": "say", "say": "completion_result", "text": "Done.HAS_CHANGES"},
    ]
    conversation = returned(json.dumps(shown).encode(), "cline")
    assert outline(conversation) == ["user: Go", "assistant:  command()", "command -> eggs", "assistant: Done."]
    assert conversation.messages[3].stop_reason == "aborted"


def test_an_answer_of_roo_code_may_have_its_reasoning_in_details() -> None:
    """In the format of OpenRouter, where no block has it."""
    details = [{"type": "reasoning.text", "text": "Hm", "signature": "x"}]
    answer = {
        "role": "assistant",
        "content": [{"type": "text", "text": "Done."}],
        "reasoning_details": details,
        "ts": 2,
    }
    asked = {"role": "user", "content": [{"type": "text", "text": "<task>Go</task>"}], "ts": 1}
    conversation = returned(json.dumps([asked, answer]).encode(), "cline")
    assert conversation.messages[1].content[0] == il.ThinkingBlock(thinking="Hm", thinking_signature="x")


def test_openhands_has_summaries_and_calls_of_agents_that_run_by_themselves() -> None:
    """A condensation puts its summary in the place of events; an ACP agent reports its calls."""
    text = [{"type": "text", "text": "Go"}]
    events = [
        {"kind": "MessageEvent", "id": "1", "source": "user", "llm_message": {"role": "user", "content": text}},
        {"kind": "Condensation", "id": "2", "source": "environment", "forgotten_event_ids": [], "summary": "So far"},
        {"kind": "ACPToolCallEvent", "id": "3", "tool_call_id": "c", "title": "ls", "status": "in_progress"},
        {
            "kind": "ACPToolCallEvent", "id": "4", "tool_call_id": "c", "title": "ls", "tool_kind": "execute",
            "status": "completed", "raw_input": {"command": "ls"}, "raw_output": "eggs",
        },
    ]  # fmt: skip
    events = [{"source": "agent", "timestamp": "2026-01-01T00:00:00", **event} for event in events]
    conversation = returned(json.dumps(events).encode(), "openhands")
    assert outline(conversation) == ["user: Go", "program: So far", "assistant:  execute()", "execute -> eggs"]


COUNTS = {"input": 100, "output": 20, "reasoning": 0, "cache": {"read": 0, "write": 0}}
REQUEST = {"tokensIn": 100, "tokensOut": 20, "cost": 0.25}
CHAT = {"model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}]}
PRICED = {
    "opencode": {
        "info": {"id": "ses_1", "title": "T", "time": {"created": 1735000000000}},
        "messages": [
            {
                "info": {"id": "msg_1", "role": "assistant", "modelID": "m", "tokens": COUNTS, "cost": 0.25},
                "parts": [{"type": "text", "text": "Hi"}],
            }
        ],
    },
    "cline": [
        {"ts": 1735000000000, "type": "say", "say": "text", "text": "Go"},
        {"ts": 1735000000001, "type": "say", "say": "api_req_started", "text": json.dumps(REQUEST)},
        {"ts": 1735000000002, "type": "say", "say": "text", "text": "Hi"},
    ],
    "litellm-log": {
        "id": "1",
        "call_type": "acompletion",
        "startTime": 1735000000.1,
        "response_cost": 0.25,
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "messages": [{"role": "user", "content": "Go"}],
        "response": CHAT,
    },
    "langfuse": {
        "id": "g",
        "traceId": "t",
        "type": "GENERATION",
        "input": [{"role": "user", "content": "Go"}],
        "output": {"role": "assistant", "content": "Hi"},
        "usageDetails": {"input": 100, "output": 20, "total": 120},
        "costDetails": {"input": 0.2, "output": 0.05, "total": 0.25},
    },
}


@pytest.mark.parametrize("name", PRICED)
def test_the_cost_that_a_file_states_is_the_cost(name: str) -> None:
    """And not the list price."""
    answer = returned(json.dumps(PRICED[name]).encode(), name).messages[-1]
    assert isinstance(answer, il.AssistantMessage) and answer.usage is not None
    assert il.Cost(total=0.25) == answer.usage.cost


@pytest.mark.parametrize(
    "answer",
    ["Twelve.", json.dumps({"candidates": [{"content": {"role": "model", "parts": [{"text": "Twelve."}]}}]})],
    ids=["text", "JSON as a text"],
)
@pytest.mark.parametrize("beside", [True, False], ids=["fields beside it", "a request beside it"])
def test_a_log_of_gemini_may_have_the_text_of_the_answer(beside: bool, answer: str) -> None:
    """In place of the response's object."""
    asked = {"contents": [{"role": "user", "parts": [{"text": "How many eggs?"}]}]}
    line = {**(asked if beside else {"request": asked}), "response": answer}
    conversation = returned(json.dumps(line).encode(), "cloud-batch")
    assert outline(conversation) == ["user: How many eggs?", "assistant: Twelve."]
    assert conversation.problems == ()


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("key", ["", "request"])
def test_contents_beside_a_response_of_gemini_are_its_request(key: str, several: bool) -> None:
    """A log may have the fields of the request beside the answer to it; one content may stand without a list."""
    asked = {"role": "user", "parts": [{"text": "How many?"}]}
    body = {"contents": [asked] if several else asked, "generationConfig": {"temperature": 1}}
    answered = {"content": {"role": "model", "parts": [{"text": "Twelve."}]}, "finishReason": "STOP"}
    line = {**({key: body} if key else body), "response": {"candidates": [answered], "modelVersion": "gemini-x"}}
    conversation = returned(json.dumps(line).encode(), "cloud-batch")
    assert outline(conversation) == ["user: How many?", "assistant: Twelve."]
    assert conversation.options is not None and conversation.options.temperature == 1


@pytest.mark.parametrize("asked", [{"contents": "How many?"}, {"prompt": "How many?"}, {"request": {}}])
def test_an_answer_of_gemini_beside_a_request_of_another_shape_is_refused(asked: dict[str, Any]) -> None:
    """It is not read as the envelope of the answer alone."""
    answered = {"content": {"role": "model", "parts": [{"text": "Twelve."}]}, "finishReason": "STOP"}
    with pytest.raises(BadWire, match="no known format"):
        il.decode({**asked, "response": {"candidates": [answered]}})


@pytest.mark.parametrize(
    "reference",
    [
        {"inlineReference": {"path": "/x/eggs.py", "scheme": "file"}},
        {"inlineReference": {"uri": {"path": "/x/eggs.py", "scheme": "file"}, "range": {"startLineNumber": 1}}},
        {"inlineReference": {"name": "eggs.py", "location": {"uri": {"path": "/x/y.py"}}}},
        {"inlineReference": {"path": "/x/y.py"}, "name": "eggs.py"},
    ],
)
def test_a_reference_of_copilot_chat_stands_in_the_text_of_the_answer(reference: dict[str, Any]) -> None:
    """It divides the markdown in the file, and is shown by its name."""
    parts = [
        {"value": "The count in "},
        {"kind": "inlineReference", **reference},
        {"value": " is wrong."},
        {"value": "!"},
    ]
    request = {"message": {"text": "Why?"}, "response": parts, "result": {}}
    session = {"requesterUsername": "u", "responderUsername": "GitHub Copilot", "requests": [request]}
    conversation = returned(json.dumps(session).encode(), "copilot-chat")
    (_, answer) = conversation.messages
    assert [block.text for block in answer.content] == ["The count in eggs.py is wrong.", "!"]
