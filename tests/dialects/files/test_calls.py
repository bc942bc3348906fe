"""Calls of models in batches, logs, traces and training rows."""

import json
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from dialects.files.samples import outline, read, sample
from interlingua.dialects import FORMATS, dialect
from interlingua.values.errors import BadWire


def test_a_line_of_a_batch_is_the_request_in_it() -> None:
    """With its system text, options and model; a body for the Responses API is read as that."""
    conversation = read("openai-batch/request.json")
    assert outline(conversation) == ["user: How many eggs are in a dozen?", "assistant: Twelve.", "user: Sure?"]
    assert (conversation.system, conversation.model.id) == ("Be brief.", "gpt-4o-mini")
    assert conversation.options.max_tokens == 10
    assert outline(read("openai-batch/responses.json")) == ["user: How many eggs?"]


def test_a_line_of_a_batchs_output_is_the_answer_in_it() -> None:
    """With usage in disjoint buckets."""
    (answer,) = read("openai-batch/answer.json").messages
    assert (answer.text, answer.model) == ("Twelve.", "gpt-4o-mini-2024-07-18")
    assert (answer.usage.input, answer.usage.cache_read, answer.usage.output) == (12, 8, 3)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("openai-batch/failure.json", "bad model"), ("anthropic-batch/errored.json", "max_tokens: required")],
)
def test_a_request_of_a_batch_that_failed_is_an_error(name: str, reason: str) -> None:
    """It is an answer that says why."""
    (answer,) = read(name).messages
    assert (answer.stop_reason, answer.error_message) == ("error", reason)


def test_anthropics_batches_are_requests_or_results() -> None:
    """The body that creates one holds many requests."""
    request, result = sample("anthropic-batch/request.json"), sample("anthropic-batch/result.json")
    assert outline(read("anthropic-batch/request.json"))[1] == "assistant: Twelve."
    (answer,) = read("anthropic-batch/result.json").messages
    assert (answer.text, answer.usage.output) == ("Twelve.", 3)
    created = json.dumps({"requests": [request, request]}).encode()
    assert len(list(il.read(created))) == 2
    lines = b"".join(json.dumps(result).encode() + b"\n" for _ in range(3))
    assert len(list(il.read(lines))) == 3


def test_embeddings_are_no_conversation() -> None:
    """A batch of them is refused, not read as empty."""
    line = {"custom_id": "1", "method": "POST", "url": "/v1/embeddings", "body": {"model": "e", "input": "Hi"}}
    assert il.detect(line) is None
    with pytest.raises(BadWire, match="holds no conversation"):
        dialect("openai-batch").decode(line)


def test_a_logged_call_of_litellm_is_question_and_answer() -> None:
    """Times in seconds or as text, messages as values or as their text."""
    conversation = read("litellm-log/call.json")
    assert outline(conversation) == ["user: How many eggs?", "assistant: Twelve."]
    assert (conversation.system, conversation.model.id) == ("Be brief.", "gpt-4o")
    asked, answer = conversation.messages
    assert (asked.timestamp, answer.timestamp, answer.usage.input) == (1766000068285, 1766000070079, 20)
    failed = read("litellm-log/failure.json")
    assert outline(failed) == ["user: How many eggs?", "assistant: "]
    assert failed.messages[1].error_message == "RateLimitError: slow down"


def test_a_generation_of_langfuse_is_question_and_answer() -> None:
    """Not a row for training; with the model, the usage and the times of the observation."""
    generation = sample("langfuse/generation.json")
    found = il.detect(generation)
    assert found is not None and found.dialect == "langfuse"
    conversation = read("langfuse/generation.json")
    assert outline(conversation) == [
        "user: How many eggs?",
        "assistant:  count()",
        "count -> 12",
        "assistant: Twelve.",
    ]
    assert (conversation.system, conversation.model.id, len(conversation.tools)) == ("Be brief.", "gpt-4o", 1)
    answer = conversation.messages[-1]
    assert (answer.model, answer.timestamp) == ("gpt-4o", 1767225601000)
    assert (answer.usage.input, answer.usage.cache_read, answer.usage.output) == (16, 4, 5)
    assert il.encode(conversation, "langfuse").body == generation


def test_generations_of_langfuse_are_read_in_every_form() -> None:
    """Pages of the API with spans among them, exports with names in snake case and JSON text, lines, failures."""
    generation = sample("langfuse/generation.json")
    span = {"id": "s", "traceId": "t", "type": "SPAN", "input": "x"}
    page = {"data": [span, generation, generation], "meta": {"page": 1}}
    assert [outline(one)[-1] for one in il.read(json.dumps(page).encode())] == ["assistant: Twelve."] * 2
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in (generation, generation))
    assert [outline(one)[-1] for one in il.read(lines)] == ["assistant: Twelve."] * 2
    messages = [{"role": "user", "content": "Hi"}]
    row = {"id": "g", "trace_id": "t", "type": "GENERATION", "provided_model_name": "m", "output": "Hello"}
    (exported,) = il.read(json.dumps({**row, "input": json.dumps(messages)}).encode())
    assert outline(exported) == ["user: Hi", "assistant: Hello"] and exported.model.id == "m"
    old = {"id": "g", "traceId": "t", "type": "GENERATION", "prompt": messages, "completion": "Hello"}
    assert outline(il.decode(old)) == ["user: Hi", "assistant: Hello"]
    failed = {**old, "completion": None, "level": "ERROR", "statusMessage": "slow down"}
    assert il.decode(failed).messages[-1].error_message == "slow down"


def test_rows_of_an_inspect_dataset_are_its_inputs() -> None:
    """The target is no message; calls and content are in Inspect's terms, not those of the Responses API."""
    rows = [sample("inspect-ai/text_row.json"), sample("inspect-ai/row.json")]
    for data in (json.dumps(rows), "\n".join(map(json.dumps, rows))):
        text, chat = il.read(data.encode())
        assert outline(text) == ["user: How many eggs?"]
        assert outline(chat) == ["user: How many eggs?", "assistant:  count()", "count -> 12"]
        assert chat.system == "Be brief." and chat.messages[1].tool_calls[0].arguments == {"of": "eggs"}
        assert [il.encode(one, "inspect-ai").body for one in (text, chat)] == rows
    assert il.detect({"model": "gpt-4o", "input": "Hi"}).dialect == "openai-responses"


def test_a_trace_is_its_last_call_outside_of_sub_agents() -> None:
    """Earlier answers have the model and the usage of their own spans."""
    conversation = read("otel/openinference.json")
    assert outline(conversation) == ["user: How many eggs?", "assistant:  count()", "count -> 12", "assistant: Twelve."]
    first, last = conversation.messages[1], conversation.messages[3]
    assert (first.usage.input, first.usage.cache_read, last.usage.input) == (10, 20, 40)
    assert (first.tool_calls[0].arguments, conversation.system) == ({"what": "eggs"}, "Be brief.")
    assert last.timestamp == 1783555207000


def test_spans_of_otlp_have_typed_attributes() -> None:
    """A list of keys, times in nanoseconds."""
    conversation = read("otel/otlp.json")
    assert outline(conversation) == ["user: How many eggs?", "assistant: Twelve."]
    answer = conversation.messages[1]
    assert (answer.model, answer.timestamp, answer.usage) == ("gpt-4o", 1733000001000, il.Usage.of(20, 3))


def test_messages_of_the_genai_conventions_have_parts() -> None:
    """By themselves, and as attributes of a span."""
    messages = sample("otel/messages.json")
    expected = ["user: How many eggs?", "assistant:  count()", "count -> 12", "assistant: Twelve."]
    assert outline(read("otel/messages.json")) == expected
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
        "gen_ai.input.messages": json.dumps(messages[:-1]),
        "gen_ai.output.messages": json.dumps(messages[-1:]),
    }
    span = {"name": "chat", "trace_id": "t", "span_id": "s", "attributes": attributes}
    conversation = dialect("otel").decode([span])
    assert (outline(conversation), conversation.system) == (expected, "Be brief.")


def test_events_of_a_span_are_messages() -> None:
    """As the conventions had it first."""
    events = [
        {"name": "gen_ai.user.message", "attributes": {"content": "How many eggs?"}},
        {"name": "gen_ai.choice", "attributes": {"message": json.dumps({"content": "Twelve."}), "index": 0}},
    ]
    span = {"name": "chat", "context": {"trace_id": "t", "span_id": "s"}, "attributes": {}, "events": events}
    assert outline(dialect("otel").decode([span])) == ["user: How many eggs?", "assistant: Twelve."]


def test_each_trace_is_a_conversation() -> None:
    """Spans of two traces may stand in any order."""
    spans = sample("otel/openinference.json")
    others = [{**span, "context": {**span["context"], "trace_id": "u"}} for span in spans]
    mixed = [span for pair in zip(spans, others, strict=True) for span in pair]
    assert len(list(il.read(json.dumps(mixed).encode()))) == 2


def test_spans_without_a_model_are_no_conversation() -> None:
    """A trace of a web server is refused."""
    span = {"name": "GET /", "context": {"trace_id": "t", "span_id": "s"}, "attributes": {"http.method": "GET"}}
    assert il.detect([span]) is None
    with pytest.raises(BadWire, match="calls of models"):
        dialect("otel").decode([span])


def test_a_row_of_alpaca_is_its_history_and_one_more_turn() -> None:
    """The instruction and, on the next line, its input."""
    conversation = read("alpaca/row.json")
    assert outline(conversation) == [
        "user: Hello",
        "assistant: Good day",
        "user: How many eggs are in this?\nA dozen",
        "assistant: Twelve.",
    ]
    assert conversation.system == "Be brief."


def test_of_two_answers_the_chosen_one_is_on_the_path() -> None:
    """The other is a branch beside it."""
    conversation = read("alpaca/pair.json")
    assert outline(conversation)[-1] == "assistant: Twelve."
    assert [entry.id for entry in conversation.entries[-2:]] == ["chosen", "rejected"]


def test_rows_of_a_set_are_read_one_by_one(tmp_path: Path) -> None:
    """As lines and as one array, also where rows differ in what they have."""
    rows = [{"instruction": "a", "output": "b"}, {"instruction": "c", "input": "d", "output": "e"}]
    for text in (json.dumps(rows), "\n".join(map(json.dumps, rows))):
        assert [outline(found)[-1] for found in il.read(text.encode())] == ["assistant: b", "assistant: e"]


@pytest.mark.parametrize("name", ["openai-batch", "anthropic-batch", "litellm-log", "langfuse", "otel", "alpaca"])
@pytest.mark.parametrize("body", [{}, [], {"custom_id": "1"}, {"messages": []}, {"instruction": "a"}, [[]], {"a": 1}])
def test_what_is_no_call_is_refused(name: str, body: Any) -> None:
    """With the place, and never read as an empty conversation."""
    assert not FORMATS[name].detect(body)
    with pytest.raises(BadWire):
        dialect(name).decode(body)
