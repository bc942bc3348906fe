"""Any format in, any format out: what is detected, what is read, what is lost and said to be lost."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import interlingua as il
from corpus.cases import DIALECT_OF, cases, corpus
from dialects.trips import accounted, foreign_conversations
from interlingua.conversion import detection
from interlingua.conversion.adapting.adapter import adapt
from interlingua.conversion.adapting.work import SYNTHETIC
from interlingua.conversion.compacted import compacted
from interlingua.dialects import DIALECTS, FORMATS, WIRES, dialect
from interlingua.values.canonical import dump
from interlingua.values.errors import FormatError, InterlinguaError, Unsupported
from interlingua.values.losses import Lines, without_records
from interlingua.values.messages import AssistantMessage, ThinkingBlock, ToolResultMessage, UserMessage, blocks_of
from interlingua.values.request import Conversation, Entry, Request
from laws.differences import differing, is_under, view
from laws.test_adapt import changes
from laws.wires import RETURNED, every_dialect, every_file, fields_outside, owner, stream_of, through_json
from strategies import json_values, messages_for_answers, wellformed_requests

WIRE = Path(__file__).parent / "wire"

# --- detecting -------------------------------------------------------------------------------------------------------

MESSAGES = [{"role": "user", "content": "Hi"}]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SHAPES: list[tuple[Any, str]] = [
    ({"model": "m", "messages": MESSAGES, "stream_options": {}}, "openai-completions"),
    ({"messages": [{"role": "assistant", "tool_calls": [CALL]}]}, "openai-completions"),
    ({"messages": MESSAGES, "system": "s", "max_tokens": 1}, "anthropic-messages"),
    ({"messages": MESSAGES, "max_tokens": 1, "anthropic_version": "bedrock-2023-05-31"}, "bedrock-invoke-anthropic"),
    ({"messages": MESSAGES, "max_tokens": 1, "anthropic_version": "vertex-2023-10-16"}, "vertex-anthropic"),
    ({"model": "claude-x", "messages": MESSAGES, "max_tokens": 1}, "anthropic-messages"),
    ([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}], "anthropic-messages"),
    ({"model": "gpt-5", "input": "Hi"}, "openai-responses"),
    ([{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}], "openai-responses"),
    ({"contents": [{"parts": [{"text": "Hi"}]}]}, "google-generative-ai"),
    ([{"role": "user", "parts": [{"text": "Hi"}]}], "google-generative-ai"),
    ({"model": "m", "project": "p", "request": {"contents": []}}, "google-gemini-cli"),
    ({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}, "bedrock-converse-stream"),
    ({"messages": MESSAGES, "inferenceConfig": {}}, "bedrock-converse-stream"),
    ({"messages": MESSAGES, "toolConfig": {}}, "bedrock-converse-stream"),
    ({"messages": [{"role": "user", "content": [{"words": "Hi"}]}]}, "openai-completions"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}, "openai-completions"),
    ({"model": "m", "messages": MESSAGES, "keep_alive": "5m"}, "ollama-chat"),
    ([{"role": "user", "content": "Hi", "images": ["aGk="]}], "ollama-chat"),
    ({"systemPrompt": "s", "messages": MESSAGES}, "clawtools"),
    ({"entries": [{"message": {"role": "user", "content": "Hi"}}]}, "interlingua"),
    ({"model": {"id": "m"}, "context": {"messages": []}}, "interlingua"),
    ({"candidates": []}, "google-generative-ai"),
    ({"response": {"candidates": []}}, "google-gemini-cli"),
    ({"choices": []}, "openai-completions"),
    ({"object": "response", "output": []}, "openai-responses"),
    ({"output": {"message": {}}, "stopReason": "end_turn"}, "bedrock-converse-stream"),
    ({"id": "msg_1", "type": "message", "role": "assistant", "content": []}, "anthropic-messages"),
    ({"message": {"role": "assistant", "content": "Hi"}, "done": True}, "ollama-chat"),
]


LOOK_ALIKES: list[Any] = [
    {"candidates": {"first": {"status": "fail"}}},
    {"candidates": [{"id": "D1", "kind": "a duplicate"}]},
    {"run": 1, "candidates": []},
    {"promptFeedback": "good"},
    {"response": "the candidates"},
    {"request": "table of contents"},
    {"contents": [{"name": "a.py"}]},
    {"contents": "text"},
    {"version": "6", "dialect": "turso", "entries": []},
    {"entries": [{"message": "disk full", "level": "error"}]},
    {"entries": ["a message"]},
    {"input": {"seed": 1}},
    {"model": "text-embedding-3-small", "input": ["a text", "another"]},
    {"output": "text", "stopReason": "done"},
    {"message": "ok", "done": True},
    {"choices": [{"id": 1, "text": "Paris"}]},
    {"question": "Which?", "choices": []},
    {"messages": [{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Hello.", "tool_calls": []}]},
    ["inferenceConfig", "toolConfig"],
    [
        {"role": "user", "content": "Hi"},
        {"type": "tool_call", "tool": "git"},
        {"type": "tool_result", "result": "On main"},
    ],
    [{"type": "tool_call", "attrs": {"args": "{}"}}, {"type": "agent_response", "attrs": {"response": "[]"}}],
]


@pytest.mark.parametrize("data", LOOK_ALIKES)
def test_an_object_of_another_program_is_no_dialect(data: Any) -> None:
    """A key that a wire has, too, does not make it one: what it says would vanish."""
    assert il.detect(data) is None


@pytest.mark.parametrize(("data", "name"), SHAPES)
def test_a_shape_tells_its_dialect(data: Any, name: str) -> None:
    """
    As values, as text and as bytes; and what was detected can be read.
    """
    for given_as in (data, json.dumps(data), json.dumps(data).encode()):
        found = il.detect(given_as)
        assert found is not None
        assert (found.dialect, bool(found.reason)) == (name, True)
        assert name not in found.others


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "text"])
def test_a_byte_order_mark_is_no_part_of_a_body(encoding: str) -> None:
    """As in a file that is read."""
    line = '{"role":"user","content":"Grüße"}'
    text = f'{{"model":"m","messages":[{line}]}}'
    lines = f"{line}\n{line}\n"
    assert il.detect(lines) == il.detect(f"\ufeff{lines}") and il.decode(lines) == il.decode(f"\ufeff{lines}")
    marked = f"\ufeff{text}" if encoding == "text" else text.encode(encoding)
    assert il.detect(text) == il.detect(marked) and not il.check(marked)
    assert il.decode(text) == il.decode(marked) == il.decode(marked, "openai-completions")
    assert il.convert(text, "ollama-chat").body == il.convert(marked, "ollama-chat").body


OTHER_ANSWERS = {
    "openai-completions": {
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": at, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for at, text in enumerate(("Hi", "Ho"))
        ],
    },
    "google-generative-ai": {
        "candidates": [
            {"index": at, "content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
            for at, text in enumerate(("Hi", "Ho"))
        ],
        "modelVersion": "m",
    },
}


@pytest.mark.parametrize("name", OTHER_ANSWERS)
def test_another_answer_that_a_target_has_no_place_for_is_lost(name: str) -> None:
    """It is content, and no bookkeeping."""
    losses = il.convert(OTHER_ANSWERS[name], "anthropic-messages").losses
    assert ["answers"] == [loss.what for loss in losses if loss.severity == "dropped"]
    answer = il.dialect(name).decode_response(OTHER_ANSWERS[name])
    for target in {"anthropic-messages", *OTHER_ANSWERS} - {name}:  # as a gateway translates it
        lost = without_records(il.dialect(target).encode_response(answer).losses)
        assert ["answers"] == [loss.what for loss in lost if loss.severity == "dropped"], target
    with pytest.raises(Unsupported):
        il.convert(OTHER_ANSWERS[name], "anthropic-messages", strict=True)


def test_words_alone_could_be_several_dialects() -> None:
    """
    A list of roles and texts is the same in most chats: the others are named.
    """
    found = il.detect(MESSAGES)
    assert found is not None
    assert found.dialect == "openai-completions"
    assert found.others == ("anthropic-messages", "ollama-chat", "openai-responses", "clawtools")


@pytest.mark.parametrize(
    "data", [None, 5, [], {}, "", b"\xff", "nonsense", "[1", {"error": "x"}, [[[]]], "data: x\n\n"]
)
def test_what_is_nothing_is_detected_as_nothing(data: Any) -> None:
    """
    No guess, no exception; reading it is an error that tells what to do.
    """
    assert il.detect(data) is None
    with pytest.raises(InterlinguaError):
        il.decode(data)


@given(data=st.one_of(json_values(), st.binary(max_size=40), st.text(max_size=40)))
def test_detecting_never_fails(data: Any) -> None:
    """
    Whatever it is fed.
    """
    found = il.detect(data)
    assert found is None or found.dialect in {*DIALECTS, "interlingua"}


def objects_in_samples() -> list[dict[str, Any]]:
    """The objects that our samples are, or that are their lines or elements."""
    found: list[dict[str, Any]] = []
    for path in sorted(WIRE.glob("*/*.json*")):
        try:
            values = [json.loads(path.read_text())]
        except ValueError:
            values = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
        values = [item for value in values for item in (value if isinstance(value, list) else [value])]
        found += [value for value in values if isinstance(value, dict)][:5]
    return found


OBJECTS = [*objects_in_samples(), *(data for data, _ in SHAPES if isinstance(data, dict))]
VALUES: dict[str, list[Any]] = {}
for one in OBJECTS:
    for key, item in one.items():
        VALUES.setdefault(key, []).append(item)


@given(st.data())
def test_what_was_learned_of_other_objects_changes_no_detection(data: st.DataObject) -> None:
    """
    Tests that are left out for an object with the keys of an earlier one would not have held.
    """
    first = data.draw(st.sampled_from(OBJECTS))
    il.detect(first)  # learned from
    second = {key: data.draw(st.sampled_from(VALUES[key])) for key in first}
    every = detection._tests_by_kind()["object"]
    expected = dict.fromkeys(name for name, _, test in every if detection.holds(test, second))
    found = il.detect(second)
    assert list(expected) == ([] if found is None else [found.dialect, *found.others])


SAMPLES = [path for path in sorted(WIRE.glob("*/*")) if path.parent.name.replace("_", "-") in FORMATS]


ONE_A_LINE = ("openai-finetune", "sharegpt")


def sample(path: Path) -> bytes:
    """One conversation: of files that have one a line, the first."""
    data = path.read_bytes()
    return data.splitlines()[0] if path.parent.name in ONE_A_LINE else data


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_samples_of_every_format_are_recognised(path: Path) -> None:
    """
    By their content, not by their names.
    """
    found = il.detect(sample(path))
    assert found is not None
    assert found.dialect == path.parent.name.replace("_", "-")


# Whose bodies look the same as those of their base.
TWINS = {
    "google-vertex": "google-generative-ai",
    "bedrock-invoke-anthropic": "anthropic-messages",
    "vertex-anthropic": "anthropic-messages",
}


@pytest.mark.skipif(not corpus().exists(), reason="the corpus is not here")
@pytest.mark.parametrize("api", DIALECT_OF)
def test_recorded_requests_answers_and_streams_are_recognised(api: str) -> None:
    """
    All of the recorded traffic; a plain chat may be taken for another wire that could say it, which then is named.
    """
    wrong = []
    for case in cases(api):
        wanted = {case.dialect_name, TWINS.get(case.dialect_name, case.dialect_name)}
        bodies = [case.request] if case.request else []
        if not case.failed and not case.is_error_in_disguise:
            bodies.append(case.body)
        for data in bodies:
            found = il.detect(data)
            if found is None or not (found.dialect in wanted or wanted & {*found.others}):
                wrong.append((case.id, found))
            elif found.dialect not in wanted and TWINS.get(found.dialect) not in wanted:
                assert data is case.request
                assert found.dialect == "openai-completions"
    assert wrong == []


# --- reading ---------------------------------------------------------------------------------------------------------


@every_dialect
@given(data=st.data())
def test_an_answer_is_read_from_its_body_and_from_its_recorded_stream(name: str, data: st.DataObject) -> None:
    """
    `decode` tells answers and recorded streams from requests.
    """
    wire, message = dialect(name), data.draw(messages_for_answers(owner(name)))
    body = through_json(wire.encode_response(message).body)
    (entry,) = il.decode(body, name).entries
    assert entry.message == wire.decode_response(body)
    recorded = stream_of(wire, message)
    (entry,) = il.decode(recorded, name).entries
    assert isinstance(entry.message, AssistantMessage)
    assert entry.message.text == wire.decode_response(body).text
    found = il.detect(recorded)
    if found is not None:
        assert name in (found.dialect, *found.others) or name in VARIANTS


VARIANTS = ("azure-openai-responses", "openai-codex-responses", "google-gemini-cli", "vertex-anthropic")


def test_google_s_array_and_ollama_s_lines_are_streams() -> None:
    """
    Recorded as JSON, whole or a value a line.
    """
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]} for text in ("Hel", "lo")]
    lines = [{"message": {"role": "assistant", "content": text}, "done": text == "lo"} for text in ("Hel", "lo")]
    for data in (chunks, json.dumps(chunks), Lines(lines), "\n".join(map(json.dumps, lines))):
        assert il.decode(data).messages[0].text == "Hello"


def test_a_request_of_our_own_is_read() -> None:
    """
    Conversations, requests, lists of messages and single messages.
    """
    message = {"role": "user", "content": "Hi"}
    for data in ({"entries": [{"message": message}]}, {"model": {"id": "m"}, "context": {"messages": [message]}}):
        assert il.decode(data).messages == (UserMessage(content="Hi"),)
    for data in ([message], message):
        assert il.decode(data, "interlingua").messages == (UserMessage(content="Hi"),)


# --- law 2 between any two -------------------------------------------------------------------------------------------


@st.composite
def conversations_of(draw: st.DrawFn, source: str) -> Conversation:
    """A conversation as it comes from some format: what that one cannot say is gone, and its hints are there."""
    if source in FORMATS:
        body = dialect(source).encode(draw(foreign_conversations(source))).body
        return dialect(source).decode(through_json(body))
    drawn = draw(wellformed_requests(own=source, thinking=draw(st.booleans())))
    body = through_json(dialect(source).encode_request(drawn).body)
    return Conversation.of(dialect(source).decode_request(body, **fields_outside(dialect(source), drawn)))


def books(conversation: Conversation, name: str) -> tuple[list[str], list[str]]:
    """The differences that no loss covers, and the losses without a difference."""
    short = compacted(conversation)  # what is left out for a summary is not said at all: see test_compacted.py
    conversation = conversation if short is None else short.conversation
    request, own = conversation.request(), owner(name)
    losses = il.encode(conversation, name).losses
    beside = ("$.entries", "$.head", "$.title", "$.usage")  # of the conversation, which a request does not carry
    reported = sorted({loss.path for loss in losses if not loss.path.startswith(beside)})
    adapted = adapt(request, name)
    body, lost = dialect(name).encode(Conversation.of(adapted.request))
    again = dialect(name).decode_request(through_json(body), **fields_outside(dialect(name), adapted.request))
    on_the_wire = differing(view(adapted.request, own), view(again, own), [loss.path for loss in lost], own)
    found = changes(request, adapted, own) | {adapted.source(path) for path in on_the_wire} - {None}
    silent = sorted(path for path in found if not any(is_under(path, loss) for loss in reported))
    idle = [loss for loss in reported if not any(is_under(p, loss) or is_under(loss, p) for p in found)]
    return silent, idle


@every_dialect
@given(data=st.data())
def test_between_any_format_and_a_wire_nothing_is_lost_in_silence(name: str, data: st.DataObject) -> None:
    """
    What the source says and what is read back from the target differ exactly where losses are reported.
    """
    conversation = data.draw(conversations_of(data.draw(st.sampled_from(sorted({*DIALECTS} - {name, *RETURNED})))))
    note(f"source: {dump(conversation).decode()}")
    assert books(conversation, name) == ([], [])


@every_dialect
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_samples_of_every_format_reach_every_wire(path: Path, name: str) -> None:
    """
    Session files of programs included, which are never made from other formats.
    """
    conversation = il.decode(sample(path))
    assert conversation.entries
    assert books(conversation, name) == ([], [])


@every_file
@given(data=st.data())
def test_between_any_format_and_a_file_nothing_is_lost_in_silence(name: str, data: st.DataObject) -> None:
    """
    The same for formats that hold conversations: these are given what there is, unadapted.
    """
    conversation = data.draw(conversations_of(data.draw(st.sampled_from(sorted({*DIALECTS} - {name, *RETURNED})))))
    note(f"source: {dump(conversation).decode()}")
    if dialect(name).FIELD_SUPPORT:
        assert accounted(name, conversation) == ([], [])


@pytest.mark.parametrize("name", sorted({*DIALECTS} - RETURNED))
@given(data=st.data())
def test_strict_mode_refuses_exactly_what_would_be_lost(name: str, data: st.DataObject) -> None:
    """
    Anything but bookkeeping; the error names the place.
    """
    conversation = data.draw(conversations_of(data.draw(st.sampled_from(["openai-completions", "anthropic-messages"]))))
    body, losses = il.encode(conversation, name)
    real = {loss.path for loss in losses if loss.severity != "record"}
    if real:
        with pytest.raises(Unsupported) as refused:
            il.encode(conversation, name, strict=True)
        assert refused.value.path in real
    else:
        assert il.encode(conversation, name, strict=True).body == body


def test_losses_have_the_places_of_the_source() -> None:
    """
    Though adapting joined, moved and left out what came before.
    """
    chat = {
        "messages": [
            {"role": "user", "content": "One"},
            {"role": "user", "content": "Two"},
            {"role": "assistant", "content": None, "refusal": "No."},
            {"role": "user", "content": "Three"},
        ]
    }
    paths = {loss.path for loss in il.convert(chat, "bedrock-converse-stream").losses if loss.severity != "record"}
    assert "$.messages[2].content[0].refusal" in paths


def test_branches_that_a_request_cannot_hold_are_reported() -> None:
    """
    A request is one path through the tree.
    """
    tree = Conversation(
        entries=(
            Entry(message=UserMessage(content="a"), id="1"),
            Entry(message=UserMessage(content="b"), id="2", parent_id="1"),
            Entry(message=UserMessage(content="c"), id="3", parent_id="1"),
        )
    )
    losses = [loss.path for loss in il.encode(tree, "openai-completions").losses if loss.severity == "dropped"]
    assert losses == ["$.entries[1]"]


def test_the_same_dialect_is_not_adapted() -> None:
    """
    What came from a wire goes back to it as it was, broken or not.
    """
    broken = {"model": "m", "messages": [{"role": "assistant", "content": None, "tool_calls": [CALL]}]}
    assert il.convert(broken, "openai-completions", "openai-completions").body == broken
    repaired = il.convert(broken, "anthropic-messages", "openai-completions").body
    assert [message["role"] for message in repaired["messages"]] == ["user", "assistant", "user"]
    plain = il.encode(il.decode(broken, "openai-completions"), "anthropic-messages", adapt=False).body
    assert [message["role"] for message in plain["messages"]] == ["assistant"]


# --- session files ---------------------------------------------------------------------------------------------------

SESSIONS = corpus().parent / "sessions-corpus"


@pytest.mark.skipif(not SESSIONS.is_dir(), reason=f"no session files at {SESSIONS}")
@pytest.mark.parametrize("folder", ["codex-cli", "claude-code", "pi"])
def test_no_recorded_result_is_replaced_when_a_session_goes_to_any_wire(folder: str) -> None:
    """
    Programs write each block of an answer as a line of its own; calls and their results are still found.
    """
    seen = 0
    for path in sorted((SESSIONS / folder).glob("*.jsonl")):
        try:
            request = il.decode(path.read_bytes()).request()
        except InterlinguaError:
            continue  # other tests say which files are read
        spoken = [m for m in request.context.messages if isinstance(m, AssistantMessage)]
        sent = Counter(c.id for m in spoken if m.stop_reason not in ("error", "aborted") for c in m.tool_calls)
        results = Counter(m.tool_call_id for m in request.context.messages if isinstance(m, ToolResultMessage))
        unanswered = (sent - results).total()
        seen += (sent & results).total()
        for name in sorted(WIRES):
            adapted = adapt(request, name).request
            added = [m for m in adapted.context.messages if isinstance(m, ToolResultMessage) and m.extra == SYNTHETIC]
            assert (path.name, name, unanswered) == (path.name, name, len(added))
    assert seen > 100


@pytest.mark.skipif(not SESSIONS.is_dir(), reason=f"no session files at {SESSIONS}")
def test_reasoning_of_a_codex_session_goes_back_to_its_wire() -> None:
    """
    Sealed reasoning stands in lines of its own, before the call that it led to.
    """
    sealed = kept = 0
    for path in sorted((SESSIONS / "codex-cli").glob("*codex-session.jsonl")):
        request = il.decode(path.read_bytes()).request()
        sealed += thoughts(request)
        kept += thoughts(adapt(request, "openai-responses").request)
    assert kept == sealed > 20


def thoughts(request: Request) -> int:
    messages = [message for message in request.context.messages if isinstance(message, AssistantMessage)]
    return sum(isinstance(block, ThinkingBlock) for message in messages for block in blocks_of(message.content))


@pytest.mark.parametrize("name", [*sorted(set(DIALECTS) - {*RETURNED, "transcript", "openclaw"}), "interlingua"])
def test_a_list_of_conversations_is_never_read_as_one(name: str) -> None:
    """As a JSON array or as lines, detected or named: it is refused, with what to do instead."""
    entries = (il.Entry(message=il.UserMessage(content="Q")), il.Entry(message=il.AssistantMessage(content="A")))
    one = il.encode(il.Conversation(entries=entries), name).bytes().decode()
    for data in (f"{one}\n{one}\n", f"[{one},{one}]", [json.loads(one)] * 2):
        for named in (name, None):
            with pytest.raises(il.InterlinguaError, match="2 conversations; use read"):
                il.decode(data, named)


@pytest.mark.parametrize("name", [*sorted(set(DIALECTS) - {*RETURNED, "transcript", "openclaw"}), "interlingua"])
def test_a_list_of_one_conversation_is_read_as_it(name: str) -> None:
    """As `read` does: detected or named, as values, text or bytes."""
    entries = (il.Entry(message=il.UserMessage(content="Q")), il.Entry(message=il.AssistantMessage(content="A")))
    one = json.loads(il.encode(il.Conversation(entries=entries), name).bytes())
    text = json.dumps([one])
    (expected,) = il.read(text.encode())
    for data in ([one], text, text.encode()):
        for named in (name, None):
            assert (
                [m.text for m in il.decode(data, named).messages] == [m.text for m in expected.messages] == ["Q", "A"]
            )


def test_a_list_of_one_session_document_is_read_as_it() -> None:
    """Also if the format is not written from others."""
    asked = {"id": "1", "timestamp": "2026-01-01T00:00:00Z", "type": "user", "content": "Q"}
    times = {"startTime": asked["timestamp"], "lastUpdated": asked["timestamp"]}
    session = {"sessionId": "s", "projectHash": "h", **times, "messages": [asked]}
    assert [["Q"]] == [[m.text for m in found.messages] for found in il.read(json.dumps([session]).encode())]
    assert ["Q"] == [m.text for m in il.decode([session]).messages]
    with pytest.raises(il.BadWire, match="no known format"):
        il.decode([{"a": 1}])


@pytest.mark.parametrize("api", sorted(WIRES))
@pytest.mark.parametrize("body", [{}, {"a": 1}, {"a": 1, "b": {"messages": []}}, {f"k{at}": None for at in range(9)}])
def test_an_object_without_a_field_of_the_named_wire_is_no_request(api: str, body: dict[str, Any]) -> None:
    """
    As values, text or bytes. The error names what was found and what is missing.
    """
    for data in (body, json.dumps(body), json.dumps(body).encode()):
        with pytest.raises(il.BadWire, match="no field of a request") as caught:
            il.decode(data, api)
        assert f"`{WIRES[api].http.input_field}`" in str(caught.value)
        assert all(f"`{name}`" in str(caught.value) for name in [*body][:5])
    (finding,) = il.check(body, api)
    assert "no field of a request" in finding.message


@pytest.mark.parametrize("api", sorted(WIRES))
def test_an_empty_request_is_one(api: str) -> None:
    """
    With its field for messages, or the name of a stored input, and whatever else; it comes back as it was.
    """
    http = WIRES[api].http
    for body in ({http.input_field: [], "a": 1}, *({name: "x", "a": 1} for name in http.input_references)):
        conversation = il.decode(body, api)
        assert () == conversation.entries
        assert body == il.encode(conversation, api).body


@pytest.mark.parametrize(
    ("value", "place", "remedy"),
    [
        ({"content": "Hi"}, "conversation", '{"role": "user", "content": …}'),
        ([{"role": "user", "content": "Hi"}, {"content": "Hi"}], "conversation[1]", '{"role": "user", "content": …}'),
        ({"messages": [{"role": "user", "content": "Hi"}]}, "conversation", "use `decode`"),
        ({"role": None, "content": "Hi"}, "conversation", "'user', 'assistant', 'toolResult'"),
    ],
)
def test_an_object_that_is_no_message_is_refused_with_its_place_and_a_remedy(
    value: Any, place: str, remedy: str
) -> None:
    """It has no role, so nothing says who wrote it."""
    with pytest.raises(FormatError) as refused:
        il.encode(value, "openai-completions")
    assert (place, True) == (refused.value.path, remedy in refused.value.message)


SHARED = {
    "lines": ("hermes/session.jsonl", lambda value: value[2]["tool_calls"][0]["function"].update(name="other")),
    "document": ("hermes/session.json", lambda value: value["messages"].clear()),
    "request": ("anthropic-messages", lambda value: value["messages"][1]["content"][0]["input"].clear()),
}


@pytest.mark.parametrize("name", SHARED)
def test_values_that_the_caller_changes_later_change_nothing_that_was_decoded(name: str) -> None:
    """Neither the messages nor the file that is returned: `decode` copies values, and bytes are nobody else's."""
    file, change = SHARED[name]
    if name == "request":
        call = {"type": "tool_use", "id": "c", "name": "count", "input": {"what": "eggs"}}
        given: Any = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [call]}]}
    else:
        data = (Path(__file__).parent / "wire" / file).read_bytes()
        given = [json.loads(line) for line in data.splitlines()] if name == "lines" else json.loads(data)
    dialect_name = file.partition("/")[0]
    before, decoded = json.loads(json.dumps(given)), il.decode(given, dialect_name)
    change(given)
    assert given != before == il.encode(decoded, dialect_name).body
    assert dump(il.decode(before, dialect_name)) == dump(decoded)
