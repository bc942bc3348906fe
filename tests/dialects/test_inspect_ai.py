"""Samples of Inspect's evaluation logs."""

import io
import json
import zipfile
from pathlib import Path

import pytest

import interlingua as il
from dialects.trips import returned
from interlingua.dialects.files import inspect_ai
from interlingua.values.errors import BadWire

LOG = json.loads((Path(__file__).parents[1] / "wire/inspect-ai/log.json").read_text())
(SAMPLE,) = LOG["samples"]


def test_the_parts_of_a_sample_are_where_they_belong() -> None:
    """System text, pictures, reasoning, calls, results, and what the provider's own tools did."""
    sample = inspect_ai.decode(LOG)
    assert (sample.system, sample.model) == ("You may use bash.", il.ModelDescriptor(id="openai/gpt-4o"))
    asked, answer, result, failed, last = sample.messages
    assert asked.content[1] == il.ImageBlock(data="iVBORw0KGgo=", mime_type="image/png", detail="auto")
    assert answer.content[0].thinking_signature == "c2ln"
    assert [(call.name, call.parse_error) for call in answer.tool_calls] == [("bash", None), ("bash", "not JSON")]
    assert (result.content, result.tool_name, result.is_error) == ("12 todo.md", "bash", False)
    assert [type(block).__name__ for block in last.content] == ["ServerToolCall", "OpaqueBlock", "TextBlock"]
    # Where a tool gave nothing but an error, the model read the words of the error.
    assert (failed.content, failed.is_error, failed.details) == ("not JSON", True, {"type": "parsing"})


def test_a_sample_alone_is_read_too() -> None:
    """Without the log around it."""
    assert returned("inspect-ai", SAMPLE) == SAMPLE
    assert il.detect(SAMPLE).dialect == "inspect-ai"


def test_a_log_is_taken_apart() -> None:
    """Each sample with its log around it; decoding asks to take one."""
    two = {**LOG, "samples": [SAMPLE, {**SAMPLE, "id": 2}]}
    assert [part["samples"][0]["id"] for part in inspect_ai.split(two)] == [1, 2]
    assert inspect_ai.split(LOG) is None
    with pytest.raises(BadWire, match="take one"):
        inspect_ai.decode(two)


def test_system_text_that_was_changed_is_encoded_as_it_is_now() -> None:
    """It is the first message again, with what stood beside it."""
    changed = il.load(il.dump(inspect_ai.decode(SAMPLE)).replace(b"You may use bash.", b"Use your head."))
    assert inspect_ai.encode(changed).body["messages"][0] == {"id": "m0", "content": "Use your head.", "role": "system"}


def test_sealed_reasoning_with_a_summary_is_read_as_the_summary() -> None:
    """As the Responses API has it: the text beside the payload."""
    part = {"type": "reasoning", "reasoning": "c2VhbGVk", "summary": "I count.", "signature": "rs_1", "redacted": True}
    sample = {**SAMPLE, "messages": [{"role": "assistant", "content": [part, {"type": "text", "text": "12"}]}]}
    thought = inspect_ai.decode(sample).messages[0].content[0]
    assert (thought.thinking, thought.thinking_signature, thought.redacted) == ("I count.", "c2VhbGVk", False)
    assert returned("inspect-ai", sample) == sample


ATTACHING = {
    "id": 1,
    "epoch": 1,
    "input": "?",
    "target": "x",
    "messages": [{"role": "user", "content": "attachment://" + "a" * 32}, {"role": "assistant", "content": "Yes"}],
    "model_usage": {
        "m/one": {
            "input_tokens": 100,
            "output_tokens": 5,
            "total_tokens": 105,
            "input_tokens_cache_read": 60,
            "total_cost": 0.25,
        },
        "m/two": {"input_tokens": 10, "output_tokens": 1, "total_tokens": 18, "input_tokens_cache_read": 7},
    },
    "attachments": {"a" * 32: "A long text"},
}


def test_attachments_stand_where_messages_name_them() -> None:
    """And are named again on the way back."""
    session = inspect_ai.decode(ATTACHING)
    assert "A long text" == session.messages[0].text
    assert ATTACHING == inspect_ai.encode(session).body


def test_usage_is_that_of_the_sample_whether_or_not_input_includes_the_cached_part() -> None:
    """The total tells."""
    usage = inspect_ai.decode(ATTACHING).usage
    assert (50, 6, 67, 0.25) == (usage.input, usage.output, usage.cache_read, usage.cost.total)


def test_a_zipped_log_is_read_sample_by_sample() -> None:
    """Also while the run goes on, when it has no header yet."""
    for header in ("header.json", "_journal/start.json"):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(header, json.dumps({"eval": {"model": "m/one"}}))
            archive.writestr("samples/1_epoch_1.json", json.dumps(ATTACHING))
            archive.writestr("samples/1_epoch_2.json", json.dumps({**ATTACHING, "epoch": 2}))
            archive.writestr("summaries.json", "[]")
        found = list(il.read(out.getvalue()))
        assert ["m/one", "m/one"] == [session.model.id for session in found]


def test_a_large_sample_of_a_zipped_log_is_a_folder() -> None:
    """Its messages are in files of their own, its attachments have numbers; an id may be a path."""
    texts = ["unused", "One", "attachment://1", "Three", "Four"]
    pool = [{"role": "user" if at % 2 else "assistant", "content": text} for at, text in enumerate(texts)]
    members = {
        "header.json": {"eval": {"model": "m/one"}, "version": 3},
        "samples/a/1_epoch_1/sample.json": {"id": "a/1", "epoch": 1, "message_refs": [[1, 3], [4, 5]]},
        "samples/a/1_epoch_1/metadata.json": {"topic": "eggs"},
        "samples/a/1_epoch_1/messages/0.json": pool[:2],
        "samples/a/1_epoch_1/messages/10.json": pool[4:],
        "samples/a/1_epoch_1/messages/2.json": pool[2:4],
        "samples/a/1_epoch_1/events/0.json": [],
        "samples/a/1_epoch_1/attachments/0.json": ["", "A long text"],
        "samples/a/1_epoch_2.json": {**ATTACHING, "epoch": 2},
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, value in members.items():
            archive.writestr(name, json.dumps(value))
    chunked, whole = il.read(out.getvalue())
    assert ["One", "A long text", "Four"] == [message.text for message in chunked.messages]
    (sample,) = il.encode(chunked, "inspect-ai").body["samples"]
    assert ("attachment://1", {"topic": "eggs"}) == (sample["messages"][1]["content"], sample["metadata"])
    assert "A long text" == whole.messages[0].text


def test_a_log_without_samples_is_a_log() -> None:
    """It holds nothing, and comes back."""
    log = {"eval": {"model": "m"}, "samples": [], "status": "error"}
    assert "inspect-ai" == il.detect(log).dialect
    assert log == il.encode(il.decode(log), "inspect-ai").body
