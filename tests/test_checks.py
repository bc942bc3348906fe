"""check: what is wrong, where, and what to write instead."""

import inspect
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from agent.making import agent_of, call, calling, noted
from corpus.cases import DIALECT_OF, cases, corpus
from interlingua.conversion import adapting, media
from interlingua.conversion.adapting.adapter import adapt
from interlingua.conversion.checks import ADVICE, too_few
from interlingua.conversion.sources import Source, documents
from interlingua.dialects import DIALECTS, WIRES
from interlingua.values.canonical import dump
from interlingua.values.messages import UserMessage
from interlingua.values.request import Context, Conversation, ModelDescriptor, OutputSchema, Request
from laws.wires import every_dialect
from strategies import json_values, requests, wellformed_requests

CALLED = {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "f", "arguments": {}}]}
ANSWERED = {
    "role": "toolResult",
    "toolCallId": "c1",
    "toolName": "f",
    "content": [{"type": "text", "text": "x"}],
    "isError": False,
}
USER = {"role": "user", "content": "Hi"}

# The rows of the format's own page of mistakes, in the spellings that people bring from other wires.
MISTAKES: list[tuple[list[Any], str, str]] = [
    ([USER, CALLED, {"role": "tool", "tool_call_id": "c1", "content": "x"}], "$[2]", '"role":"toolResult"'),
    ([USER, CALLED, {"role": "function", "name": "f", "content": "x"}], "$[2]", '"role":"toolResult"'),
    (
        [USER, CALLED, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]}],
        "$[2].content[0]",
        '"role":"toolResult"',
    ),
    (
        [USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]}],
        "$[1].content[0]",
        '"type":"toolCall"',
    ),
    (
        [
            USER,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
            },
        ],
        "$[1].tool_calls[0]",
        '"type":"toolCall"',
    ),
    (
        [USER, {"role": "assistant", "content": "", "toolCalls": [{"id": "c1", "name": "f", "arguments": {}}]}],
        "$[1].toolCalls[0]",
        '"type":"toolCall"',
    ),
    ([{"role": "system", "content": "Be brief."}, USER], "$[0].role", "systemPrompt"),
    ([USER, {"role": "model", "parts": [{"text": "Hi"}]}], "$[1].role", "assistant"),
]


@pytest.mark.parametrize("dialect", ["clawtools", "openclaw", "interlingua", "transcript"])
@pytest.mark.parametrize(("messages", "path", "remedy"), MISTAKES)
def test_other_wires_spellings_are_mistakes(dialect: str, messages: list[Any], path: str, remedy: str) -> None:
    """
    In what is meant as the format's own: the path is named, and the right form is there to paste.
    """
    found = [f for f in il.check(messages, dialect) if f.path == path and f.severity == "error"]
    assert found
    assert any(remedy in finding.remedy for finding in found)


FOREIGN = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]}
SESSION = {"type": "session", "version": 3, "id": "s", "timestamp": "2025-01-01T00:00:00Z", "cwd": "/"}
LINE = {"type": "message", "parentId": None, "timestamp": "2025-01-01T00:00:00Z"}
CONTAINERS = [
    ("interlingua", {"model": {"id": "m", "api": ""}, "context": {"messages": [USER, FOREIGN]}}, "$.messages[1]"),
    ("interlingua", {"messages": [USER, FOREIGN]}, "$.messages[1]"),
    (
        "interlingua",
        {"entries": [{"id": "1", "message": USER}, {"id": "2", "parentId": "1", "message": FOREIGN}]},
        "$.entries[1].message",
    ),
    ("transcript", [USER, FOREIGN], "$[1]"),
    ("openclaw", [SESSION, {**LINE, "id": "1", "message": FOREIGN}], "$[1].message"),
]


@pytest.mark.parametrize(("dialect", "data", "path"), CONTAINERS)
def test_a_mistake_has_its_path_in_every_container_of_ours(dialect: str, data: Any, path: str) -> None:
    """In requests, contexts, conversations, session lines and OpenClaw lines; each once."""
    (finding,) = il.check(data, dialect)
    assert (f"{path}.content[0]", "error") == (finding.path, finding.severity)


def test_mistakes_in_the_log_of_another_program_are_warnings() -> None:
    """A log is not rewritten, and is repaired when it is sent; for a target the same mistake is an error."""
    result = {"type": "tool_result", "tool_use_id": "nothing", "content": "x"}
    line = {"type": "user", "sessionId": "s", "uuid": "a", "parentUuid": None}
    log = [{**line, "message": {"role": "user", "content": [result]}}]
    assert {"warning"} == {finding.severity for finding in il.check(log, "claude-code")}
    assert "error" in {finding.severity for finding in il.check(log, "claude-code", "anthropic-messages")}


def test_only_the_last_call_of_a_record_may_be_without_a_result() -> None:
    """A call that the conversation went on from without its result is a mistake in every record."""
    other = {"type": "toolCall", "id": "d", "name": "f", "arguments": {}}
    called = {"role": "assistant", "content": [{**other, "id": "c"}]}
    last = {"role": "assistant", "content": [other]}
    result = {"role": "toolResult", "toolCallId": "d", "toolName": "f", "content": [], "isError": False}
    assert () == il.check([USER, last], "transcript")
    assert ["$.messages[1].content[0]"] == [one.path for one in il.check([USER, called, USER, last], "transcript")]
    assert il.check([USER, called, USER], "transcript")
    assert () == il.check([USER, last, result], "transcript")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ([USER, {"role": "toolResult", "content": []}], "$[1]"),
        ({"entries": [{"message": {"role": "toolResult", "content": []}}]}, "$.entries[0].message"),
    ],
)
def test_every_missing_field_of_a_session_s_message_is_named(value: Any, place: str) -> None:
    """Also those after the first one, at which reading stops."""
    found = [finding.path for finding in il.check(value, "transcript")]
    assert [f"{place}.{name}" for name in ("toolCallId", "toolName", "isError")] == found


def test_a_mistake_in_a_context_is_found_by_its_path() -> None:
    """
    Also when nobody says that it is one: `systemPrompt` tells.
    """
    context = {"systemPrompt": "s", "messages": [USER, CALLED, {"role": "tool", "tool_call_id": "c1", "content": "x"}]}
    for data in (context, json.dumps(context), json.dumps(context).encode()):
        assert "$.messages[2]" in [f.path for f in il.check(data)]


@pytest.mark.parametrize("dialect", ["clawtools", "interlingua", None])
def test_what_is_right_has_no_findings(dialect: str | None) -> None:
    """
    A call, its result, an answer.
    """
    right = [USER, CALLED, ANSWERED, {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}]
    assert il.check(right, dialect) == ()


ATTOCODE_CALL = {"id": "c1", "name": "f", "arguments": {}}
ATTOCODE: list[tuple[Any, str, str]] = [
    ([{**USER, "role": "human"}], "$[0].role", '"user"'),
    (
        [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "$[0].content[0]",
        '{"type":"text","text":"Hi"}',
    ),
    ([{"role": "user", "content": 5}], "$[0].content", "a string"),
    ([{"role": "user"}], "$[0].content", "a string"),
    (
        [
            USER,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
            },
        ],
        "$[1].tool_calls",
        '{"id":"c1","name":"f","arguments":{}}',
    ),
    (
        [USER, {"role": "assistant", "content": "", "toolCalls": [{**ATTOCODE_CALL, "arguments": '{"a":1}'}]}],
        "$[1].toolCalls[0]",
        '"arguments":{"a":1}',
    ),
    (
        [USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]}],
        "$[1].content[0]",
        '{"id":"c1","name":"f","arguments":{"a":1}}',
    ),
    ([USER, {"role": "tool", "tool_call_id": "c1", "content": "x"}], "$[1].tool_call_id", "toolCallId"),
    ([USER, {"role": "tool", "content": "x"}], "$[1].toolCallId", "toolCallId"),
    ([USER, {"role": "user", "content": "", "toolResults": [{"result": 5}]}], "$[1].toolResults[0]", "callId"),
    ({"messages": [{"role": "toolResult", "content": "x", "toolCallId": "c1"}]}, "$.messages[0].role", '"role":"tool"'),
    ({"content": "Hi", "stopReason": "stop", "usage": {"inputTokens": 1}}, "$.stopReason", "end_turn"),
]


def on_canvas(*messages: Any) -> dict[str, Any]:
    """A canvas whose nodes hang from one another."""
    ids = [f"n{at}" for at in range(len(messages))]
    return {
        "canvas_id": "c",
        "nodes": {
            id: {
                "id": id,
                "message": message,
                "parent_id": ids[at - 1] if at else None,
                "child_ids": ids[at + 1 : at + 2],
                "meta": None,
            }
            for at, (id, message) in enumerate(zip(ids, messages, strict=True))
        },
    }


CANVAS: list[tuple[Any, str, str]] = [
    (on_canvas({"role": "model", "content": "Hi"}), "$.nodes.n0.message.role", '"assistant"'),
    (on_canvas(USER, {"role": "tool", "tool_call_id": "c1", "content": "x"}), "$.nodes.n1.message.role", "tool_result"),
    (on_canvas({"role": "user", "content": {"text": "x"}}), "$.nodes.n0.message.content", "a string"),
    (
        on_canvas(
            USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": "{}"}]}
        ),
        "$.nodes.n1.message.content[0].input",
        "an object",
    ),
    (
        on_canvas(USER, {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}),
        "$.nodes.n1.message.content[0].tool_use_id",
        "a string",
    ),
    (
        on_canvas(
            USER, {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "f", "arguments": "{}"}]}
        ),
        "$.nodes.n1.message.tool_calls",
        '"type":"tool_use"',
    ),
    (
        {**on_canvas(USER), "nodes": {"n0": {**on_canvas(USER)["nodes"]["n0"], "parent_id": "x"}}},
        "$.nodes.n0.parent_id",
        "null",
    ),
    (
        {**on_canvas(USER), "nodes": {"n0": {**on_canvas(USER)["nodes"]["n0"], "child_ids": ["x"]}}},
        "$.nodes.n0.child_ids[0]",
        "nodes",
    ),
    ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "$[0].content[0]", "`image`"),
]


@pytest.mark.parametrize(
    ("dialect", "data", "path", "remedy"),
    [("attocode", *case) for case in ATTOCODE] + [("llm-canvas", *case) for case in CANVAS],
    ids=[f"{name}-{at}" for name, cases in (("attocode", ATTOCODE), ("canvas", CANVAS)) for at in range(len(cases))],
)
def test_what_a_document_forbids_is_found_with_what_to_write(dialect: str, data: Any, path: str, remedy: str) -> None:
    """
    Attocode's messages and LLM Canvas's nodes have rules of their own: shapes of other wires, missing and wrong fields.
    """
    found = [f for f in il.check(data, dialect) if f.path == path and f.severity == "error"]
    assert found
    assert any(remedy in finding.remedy for finding in found)


def test_what_the_documents_show_has_no_findings() -> None:
    """
    A call and its result in Attocode's two forms, a response, and a canvas.
    """
    call = {"role": "assistant", "content": "", "toolCalls": [ATTOCODE_CALL]}
    cached = {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}
    response = {"content": "", "toolCalls": [ATTOCODE_CALL], "stopReason": "tool_use", "usage": {"inputTokens": 1}}
    for data in (
        [cached, call, {"role": "tool", "content": "x", "toolCallId": "c1"}],
        [USER, call, {"role": "user", "content": "", "toolResults": [{"callId": "c1", "result": {"a": 1}}]}],
        response,
    ):
        assert il.check(data) == il.check(data, "attocode") == ()
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x"}], "is_error": True}
    canvas = on_canvas(
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": [{"type": "text", "text": "Hm."}, use]},
        {"role": "user", "content": [result]},
    )
    assert il.check(canvas) == il.check({"success": True, "data": canvas}) == il.check(canvas, "llm-canvas") == ()


FAULTS: list[tuple[list[Any], list[str]]] = [
    ([USER, CALLED], ["$.messages[1].content[0]"]),
    ([USER, ANSWERED], ["$.messages[1]"]),
    ([USER, CALLED, ANSWERED, ANSWERED], ["$.messages[3]"]),
    ([USER, CALLED, USER, ANSWERED], ["$.messages[3]"]),
]


@pytest.mark.parametrize(("messages", "paths"), FAULTS)
def test_pairing_is_checked_for_any_target(messages: list[Any], paths: list[str]) -> None:
    """
    Calls without results, results without calls, doubled results, words between call and result.
    """
    found = il.check(messages, "clawtools")
    assert [f.path for f in found] == paths
    assert {f.severity for f in found} == {"error"}


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff\xfe", "nonsense", "[1,", '{"a": NaN}', None, 5, [], {}, [5], "data: {\n\n"]
)
@pytest.mark.parametrize("dialect", [None, *sorted(DIALECTS)])
def test_what_cannot_be_read_is_one_finding(data: Any, dialect: str | None) -> None:
    """
    Never an exception, and never silence about what nobody can read.
    """
    found = il.check(data, dialect)
    assert len([f for f in found if "format" in f.remedy]) <= 1
    assert all(f.path.startswith("$") and f.message and f.remedy for f in found)
    if dialect is None:
        assert len(found) == 1


@given(data=st.one_of(json_values(), st.binary(max_size=30)), dialect=st.sampled_from([None, *sorted(DIALECTS)]))
def test_checking_never_fails(data: Any, dialect: str | None) -> None:
    """
    Whatever it is fed, with or without a target.
    """
    for target in (None, "anthropic-messages", "openai-completions"):
        for finding in il.check(data, dialect, target):
            assert finding.severity in ("error", "warning")


@every_dialect
@given(data=st.data())
def test_a_finding_is_what_adapting_would_repair(name: str, data: st.DataObject) -> None:
    """
    One set of rules: each repair is a finding with advice of its own, and there are no others.
    """
    source: Request = data.draw(st.one_of(requests(None, None, 5), wellformed_requests(own=name)))
    adapted = adapt(source, name)
    losses = (*adapted.losses, *adapted.warnings)
    assert {loss.what for loss in losses} <= ADVICE.keys()
    assert [f.path for f in il.check(source, target=name)] == [loss.path for loss in losses]
    assert il.check(Conversation.of(source), target=name) == il.check(source, target=name)


def test_every_advice_is_given_by_some_target() -> None:
    """
    The table of advice has no rows that nothing leads to.
    """
    passes = Path(inspect.getfile(adapting)).parent.glob("*.py")
    source = "".join([*(path.read_text() for path in passes), inspect.getsource(media)])
    assert [what for what in ADVICE if f'"{what}"' not in source] == []


def test_a_target_adds_its_own_rules() -> None:
    """
    Ids, blanks, order of turns: what one takes another refuses.
    """
    call = {**CALLED, "content": [{**CALLED["content"][0], "id": "call:1"}, {"type": "text", "text": ""}]}
    data = [call, {**ANSWERED, "toolCallId": "call:1"}]
    assert il.check(data, "clawtools") == ()
    paths = {f.path for f in il.check(data, "clawtools", "anthropic-messages") if f.severity == "error"}
    assert paths == {
        "$.messages",
        "$.messages[0].content[0].id",
        "$.messages[0].content[1]",
        "$.messages[1].toolCallId",
    }
    assert all(f.severity == "warning" for f in il.check(data, "clawtools", "ollama-chat"))


def test_wires_are_checked_too() -> None:
    """
    A body of any wire, whose dialect is detected.
    """
    for name in sorted(WIRES):
        body = il.encode(il.decode([USER, CALLED], "clawtools"), name, adapt=False).body
        assert [f.path for f in il.check(body, name)] == ["$.messages[1].content[0]"]


# --- session files ---------------------------------------------------------------------------------------------------


async def test_a_healthy_session_file_has_no_findings(tmp_path: Path) -> None:
    """
    Lines of the session's own, later system messages, documents and roles of an application are right in it.
    """
    note, _ = noted()
    steps = (calling(call("note", "c1"), call("note", "c2")), calling(call("note", "c3", text="{")), "done")
    with il.Session.open("healthy", home=tmp_path) as session:
        await agent_of(*steps, tools=[note], session=session).prompt("go")
        session.label(session.head, "here")
        session.compact("What was said.", session.head)
        session.append(il.SystemMessage(content="Be brief."))
        session.append(
            il.UserMessage(content=(il.DocumentBlock(text="x"), il.ImageBlock(url="https://a.example/b.png")))
        )
        session.append(il.CustomMessage("narrator", {"content": [{"x": 1}], "parts": []}))
        session.append(il.AssistantMessage(content=(), stop_reason="error", error_message="cut off"))
        lines, tree = Path(session.where).read_bytes(), session.conversation()
    assert il.check(lines) == il.check(lines, "transcript") == il.check(tree) == ()
    assert il.check(il.encode(tree, "interlingua").bytes()) == ()
    assert (
        il.check(il.encode(tree, "openclaw").bytes()) == il.check(il.encode(tree, "openclaw").bytes(), "openclaw") == ()
    )


SESSIONS = corpus().parent / "sessions-corpus" / "pi"


@pytest.mark.skipif(not SESSIONS.is_dir(), reason=f"no session files at {SESSIONS}")
def test_recorded_session_files_have_no_findings() -> None:
    """
    Those in which every result names its call.
    """
    checked = 0
    for path in sorted(SESSIONS.glob("*.jsonl")):
        expected = json.loads(path.with_name(f"{path.name}.expected.json").read_text())
        if all(one["answered"] == one["tool_results"] for one in expected["active"]):
            assert (path.name, ()) == (path.name, il.check(path.read_bytes()))
            checked += 1
    assert checked > 4


RECORDED = corpus().parent / "sessions-corpus"


@pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no session files at {RECORDED}")
@pytest.mark.parametrize(
    "format", sorted(folder.name for folder in RECORDED.iterdir() if folder.is_dir()) if RECORDED.is_dir() else []
)
def test_no_recording_of_a_program_has_an_error(format: str) -> None:
    """
    What programs really wrote is right as it is, whatever a request would have to be: recordings, not others' tests.
    """
    wrong = []
    for expectation in sorted((RECORDED / format).glob("*.expected.json")):
        expected = json.loads(expectation.read_text())
        path = expectation.with_name(expectation.name.removesuffix(".expected.json"))
        if expected["origin"] != "genuine" or not expected.get("conversations"):
            continue
        for document in itertools.islice(documents(Source(path), None, []), 40):
            findings = il.check(document.data, document.dialect)
            wrong += [(path.name, one.path, one.message) for one in findings if one.severity == "error"]
    assert wrong == []


@pytest.mark.skipif(not corpus().is_dir(), reason=f"no recorded traffic at {corpus()}")
def test_no_turn_of_a_request_that_a_provider_answered_is_wrong() -> None:
    """
    Recorded requests, also with several messages of one role in a row and with results of calls that are stored.
    """
    wrong = []
    for api in DIALECT_OF:
        for case in cases(api):
            if case.request is None or case.status != 200:
                continue
            request = case.dialect.decode_request(case.request)
            found = il.check(request, target=request.model if request.model.id else case.dialect_name)
            wrong += [
                (case.id, f.path)
                for f in found
                if f.message.split(":")[0] in ABOUT_TURNS and NOT_ALWAYS not in f.message
            ]
    assert wrong == []


# Mistral documents that no user message may follow a result ("Unexpected role 'user' after role 'tool'"); one recorded
# request shows that its service does not always enforce it.
NOT_ALWAYS = "stands between results and user"
ABOUT_TURNS = ("tool result", "order", "neighbours", "beginning", "shape", "turn")


# Requests that providers answered: what `check` calls an error in them is wrong.
USER = {"role": "user", "content": "Hi"}
ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "an empty list of system blocks": (
        "bedrock-converse-stream",
        {"messages": [{"role": "user", "content": [{"text": "Hi"}]}], "system": []},
    ),
    "a blank system text": (
        "google-generative-ai",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "systemInstruction": {"parts": [{"text": ""}]}},
    ),
    "ids with dots and colons": (
        "openai-completions",
        {
            "model": "kimi-k2",
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": "functions.weather:0",
                            "type": "function",
                            "function": {"name": "weather", "arguments": "{}"},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "functions.weather:0", "content": "40 C"},
            ],
        },
    ),
    "call ids with colons": (
        "openai-responses",
        {
            "model": "gpt-oss-120b",
            "input": [
                USER,
                {"type": "function_call", "call_id": "resp_1:call_0", "name": "first", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "resp_1:call_0", "output": "done"},
            ],
        },
    ),
    "a search that the provider ran": (
        "openai-responses",
        {
            "model": "gpt-4.1",
            "input": [
                USER,
                {
                    "type": "web_search_call",
                    "id": "ws_1",
                    "status": "completed",
                    "action": {"type": "search", "query": "x"},
                },
                {"role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
                USER,
            ],
        },
    ),
    "code that the provider ran": (
        "google-generative-ai",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Hi"}]},
                {
                    "role": "model",
                    "parts": [
                        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
                        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                        {"text": "1"},
                    ],
                },
                {"role": "user", "parts": [{"text": "Thanks"}]},
            ]
        },
    ),
    "the other spelling of a keyword": (
        "google-generative-ai",
        {
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseSchema": {
                    "type": "OBJECT",
                    "properties": {"a": {"type": "STRING"}},
                    "property_ordering": ["a"],
                },
            },
        },
    ),
    "a document whose name has an underscore": (
        "bedrock-converse-stream",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"document": {"format": "txt", "name": "company_policy", "source": {"bytes": "SGk="}}},
                        {"text": "How many days?"},
                    ],
                }
            ]
        },
    ),
}


@pytest.mark.parametrize("shape", ACCEPTED)
def test_what_providers_accept_is_no_error(shape: str) -> None:
    """
    Shapes of recorded requests that were answered: `check` finds no error, and `adapt` sends what says something.
    """
    api, body = ACCEPTED[shape]
    request = il.dialect(api).decode_request(body)
    assert [] == [finding for finding in il.check(request, target=api) if finding.severity == "error"]
    sent = il.dialect(api).encode_request(il.adapt(request, api).request).body
    assert {key: value for key, value in body.items() if shape != "a blank system text" or key == "contents"} == sent


def test_entries_that_nothing_leads_to_are_found() -> None:
    """A parent that is missing, and ancestors that go round in a circle; an entry before its parent is neither."""
    lines = [
        {"role": "session", "version": 1},
        {"id": "a", "parentId": "b", "role": "user", "content": "in a circle"},
        {"id": "b", "parentId": "a", "role": "assistant", "content": "in a circle"},
        {"id": "c", "parentId": "gone", "role": "user", "content": "an orphan"},
        {"id": "d", "parentId": "e", "role": "assistant", "content": "before its parent"},
        {"id": "e", "parentId": None, "role": "user", "content": "a beginning"},
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    findings = [finding for finding in il.check(data) if finding.message.startswith("parent: ")]
    assert {"error"} == {finding.severity for finding in findings}
    found = [(finding.path, finding.message) for finding in findings]
    circle = "parent: the ancestors go round in a circle"
    assert found == [
        ("$.entries[0].parentId", circle),
        ("$.entries[1].parentId", circle),
        ("$.entries[2].parentId", "parent: no entry 'gone'"),
    ]
    assert found == [
        (finding.path, finding.message)
        for finding in il.check(il.decode(data))
        if finding.message.startswith("parent: ")
    ]


CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}


def test_training_data_may_end_in_a_call() -> None:
    """The call is what is learnt; a request that ends so is refused by its provider."""
    row = {"messages": [{"role": "user", "content": "Go"}, CALL]}
    assert () == il.check(row)
    assert () == il.check(row, "openai-finetune")
    assert [finding for finding in il.check({**row, "model": "m"}) if finding.severity == "error"]
    assert il.check({"messages": [*row["messages"], {"role": "user", "content": "On"}]})


def test_results_may_answer_calls_that_the_service_keeps() -> None:
    """Behind `previous_response_id` or `conversation`."""
    body = {"model": "m", "input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}
    assert () == il.check({**body, "previous_response_id": "resp_1"})
    assert () == il.check({**body, "conversation": "conv_1"})
    assert il.check(body)


def test_a_session_that_was_taken_while_a_call_runs_is_sound() -> None:
    """Ours, and those of other programs."""
    called = {"type": "toolCall", "id": "c", "name": "f", "arguments": {}}
    ours = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": [called]}]
    assert () == il.check(ours, "transcript")
    line = {"type": "assistant", "sessionId": "s", "uuid": "a", "parentUuid": None}
    content = [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]
    assert () == il.check([{**line, "message": {"role": "assistant", "content": content}}], "claude-code")


@pytest.mark.parametrize("name", ["openclaw", "transcript"])
def test_a_call_that_was_interrupted_is_no_error_of_a_session(name: str) -> None:
    """The person wrote on; the call has no result, and gets a note in its place when it is sent."""
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}
    answer = {
        "role": "assistant",
        "content": [call],
        "api": "x",
        "provider": "x",
        "model": "m",
        "stopReason": "toolUse",
    }
    asked = {"role": "user", "content": "Go", "timestamp": 1}
    lines = [asked, {**answer, "timestamp": 2}, {**asked, "content": "Stop", "timestamp": 3}]
    found = il.check("\n".join(json.dumps(line) for line in lines), name)
    assert ["warning"] == [finding.severity for finding in found if "none for the call" in finding.message]
    assert not [finding for finding in found if finding.severity == "error"]


def test_a_pair_of_answers_behind_a_system_turn_is_a_sound_tree() -> None:
    """The first turn is the conversation's system text, and no entry that others hang from."""
    turns = [{"from": "system", "value": "S"}, {"from": "human", "value": "Q"}]
    row = {"conversations": turns, "chosen": {"from": "gpt", "value": "A"}, "rejected": {"from": "gpt", "value": "B"}}
    assert () == il.check(row)
    conversation = il.decode(row)
    assert ["Q", "A"] == [message.text for message in conversation.messages]
    assert row == il.encode(conversation, "sharegpt").body


# --- values, and findings of a trainer -------------------------------------------------------------------------------

BROKEN = "a\ud800"


@pytest.mark.parametrize(
    "data",
    [
        il.UserMessage(content=BROKEN),
        [il.UserMessage(content=BROKEN)],
        (il.UserMessage(content=BROKEN),),
        il.Context(messages=(il.UserMessage(content=BROKEN),)),
        Request(model=il.ModelDescriptor(id=""), context=il.Context(messages=(il.UserMessage(content=BROKEN),))),
    ],
    ids=["message", "list", "tuple", "context", "request"],
)
def test_values_are_of_no_dialect(data: Any) -> None:
    """A name in its place is the target; `target` comes first."""
    (finding,) = (found for found in il.check(data, "openai-completions") if found.severity == "error")
    assert (finding.path, finding.message.partition(":")[0]) == ("$.messages[0].content.text", "text")
    assert il.check(data, target="openai-completions") == il.check(data, "openai-completions")
    assert il.check(data, "ollama-chat", "anthropic-messages") == il.check(data, "anthropic-messages")
    assert il.check(data) == ()


def test_what_is_only_a_record_is_a_warning() -> None:
    """Whatever the advice says of such a repair in general."""
    schema = il.Options(output_schema=OutputSchema(schema={"type": "object"}))
    request = Request(
        model=il.ModelDescriptor(id=""), context=il.Context(messages=(il.UserMessage(content="Hi"),)), options=schema
    )
    losses = il.adapt(request, "openai-responses").losses
    findings = il.check(request, "openai-responses")
    assert {"record"} <= {loss.severity for loss in losses}
    for loss, finding in zip(losses, findings, strict=True):
        expected = "warning" if loss.severity == "record" else ADVICE[loss.what].severity
        assert (finding.severity, finding.remedy) == (expected, ADVICE[loss.what].remedy)


@pytest.mark.parametrize(
    ("count", "target", "found"),
    [(9, "openai-finetune", True), (10, "openai-finetune", False), (0, "sharegpt", False), (0, None, False)],
)
def test_a_file_for_a_trainer_needs_enough_rows(count: int, target: str | None, found: bool) -> None:
    finding = too_few(count, target)
    assert (finding is not None) is found
    if finding is not None:
        assert (finding.path, finding.message) == (
            "$",
            f"examples: {count} in the file; openai-finetune takes 10 or more",
        )


def test_a_row_for_a_trainer_may_be_any_value() -> None:
    """The same row as JSON, as a conversation and as messages has the same findings of the trainer."""
    row = {"messages": [{"role": "user", "content": "Hi"}]}
    conversation = il.decode(row, "openai-finetune")
    expected = il.check(row, target="openai-finetune")
    assert expected
    assert il.check(conversation, target="openai-finetune") == expected
    assert il.check([entry.message for entry in conversation.entries], target="openai-finetune") == expected
    assert il.check((conversation.entries[0].message,), target="openai-finetune") == expected
    assert il.check(conversation.entries[0].message, target="openai-finetune") == expected
    assert il.check(conversation.request(), target="openai-finetune") == expected
    assert il.check(conversation.request().context, target="openai-finetune") == expected


def test_an_object_without_messages_is_no_row() -> None:
    """Nothing is known of its format, and no trainer is asked."""
    found = il.check({"text": "Hi"}, target="openai-finetune")
    assert found == il.check({"text": "Hi"})
    assert ["error"] == [finding.severity for finding in found]


def test_a_row_that_cannot_be_read_has_one_finding_for_a_trainer() -> None:
    assert [finding.severity for finding in il.check("{", target="openai-finetune")] == ["error"]


def test_a_row_with_a_role_of_no_wire_is_read_as_a_row() -> None:
    row = {"messages": [{"role": "narrator", "content": "Once"}, {"role": "assistant", "content": "Yes"}]}
    assert il.detect(row) is None
    assert il.check(row, target="openai-finetune") == il.check(row, "openai-finetune", "openai-finetune")


# --- our own JSON and session lines ----------------------------------------------------------------------------------

MORE = [
    USER,
    {"role": "user", "content": [{"type": "document", "text": "x"}]},
    {"role": "system", "content": "later"},
    {"role": "narrator", "content": "x"},
]


@pytest.mark.parametrize(
    ("data", "dialect"),
    [
        (MORE, "transcript"),
        ({"messages": MORE}, "interlingua"),
        ({"entries": [{"message": message} for message in MORE]}, "interlingua"),
    ],
)
def test_our_messages_may_have_more_than_those_of_clawtools(data: Any, dialect: str) -> None:
    """
    Documents, later instructions, an application's own roles.
    """
    assert il.check(data, dialect) == ()


@pytest.mark.parametrize("entry", [5, {"message": 5}, {}])
def test_an_entry_without_a_message_is_found_by_its_path(entry: Any) -> None:
    (finding,) = il.check({"entries": [entry]}, "interlingua")
    assert (finding.path, finding.severity) == ("$.entries[0].message", "error")


def test_a_result_with_no_id_but_that_of_its_line_is_a_mistake() -> None:
    """
    Other wires write the id of the call there.
    """
    result = {"role": "toolResult", "id": "e2", "toolCallId": "", "toolName": "", "content": "x", "isError": False}
    assert "$[1].content" in [finding.path for finding in il.check([USER, result], "transcript")]


def test_a_line_is_a_message_itself_unless_it_is_an_entry_with_one() -> None:
    """
    A field `message` of another kind of line is its own business.
    """
    result = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    for line, path in (({**result, "message": USER}, "$[1]"), ({"type": "message", "message": result}, "$[1].message")):
        found = [finding.path for finding in il.check([USER, line], "openclaw") if "`tool`" in finding.message]
        assert found == [path]


def test_lines_that_are_messages_themselves_are_read_as_such() -> None:
    """Also where they have a type; a remedy for a result names the tool that was called."""
    lines = [
        {"role": "session", "version": 1, "id": "s"},
        {"type": "message", "role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "look", "arguments": {}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "12"},
    ]
    for data in (lines, "\n".join(json.dumps(line) for line in lines)):
        (finding,) = il.check(data)
        assert finding.path == "$[3]"
        assert finding.remedy is not None
        assert '"toolName":"look"' in finding.remedy


def test_extras_of_a_request_may_be_any_value() -> None:
    request = Request(
        model=ModelDescriptor(id="m"), context=Context(messages=(UserMessage(content="Hi"),)), extra={"other": 1}
    )
    assert il.check(request) == ()
    assert il.check(json.loads(dump(request)), "interlingua") == ()


def test_a_mistake_beside_our_messages_is_found() -> None:
    (finding,) = il.check({"messages": [USER], "system": "Be short."}, "interlingua")
    assert (finding.path, finding.remedy) == ("$.system", 'write it as `systemPrompt`: "Be short."')
