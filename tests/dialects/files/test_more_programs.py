"""Programs and frameworks without recordings: LM Studio, SillyTavern, LangChain, OpenAI's Assistants."""

import json
from typing import Any

import pytest

import interlingua as il
from dialects.files.samples import outline, read, sample
from interlingua.dialects import FORMATS, dialect
from interlingua.values.errors import BadWire


def test_steps_of_lm_studio_are_the_responses_that_they_were() -> None:
    """Each has its own usage; the version that is not selected is a branch."""
    conversation = read("lm-studio/eggs.conversation.json")
    assert outline(conversation) == [
        "user: How many eggs?",
        "assistant:  count()",
        "count -> 12",
        "assistant: Twelve.",
    ]
    first, last = conversation.messages[1], conversation.messages[3]
    assert (first.thinking, first.usage, last.usage) == ("I count.", il.Usage.of(12, 5), il.Usage.of(30, 3))
    assert (conversation.title, conversation.system, last.model) == ("Eggs", "Be brief.", "qwen3-8b")
    beside = [entry for entry in conversation.entries if entry not in conversation.path()]
    assert [entry.message.text for entry in beside] == ["Ten."]


def test_swipes_of_silly_tavern_are_branches() -> None:
    """The path has the one that is shown; notes of the program were never sent."""
    conversation = read("silly-tavern/chat.jsonl")
    assert outline(conversation) == [
        "assistant: Welcome.",
        "user: How many eggs?",
        "silly-tavern:note: ",
        "assistant: Twelve.",
    ]
    answer = conversation.messages[3]
    assert (answer.thinking, answer.model, conversation.title) == ("I count.", "gpt-4o", "Seraphina")
    (other,) = [entry.message for entry in conversation.entries if entry not in conversation.path()]
    assert (other.text, other.model) == ("Ten.", "gpt-4")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2024-01-31@15h04m05s678ms", 1706713445678),
        ("2024-1-31 @15h 04m 05s 678ms", 1706713445678),
        ("January 31, 2024 3:04pm", 1706713440000),
        ("2024-01-31T15:04:05.678Z", 1706713445678),
        (1706713445678, 1706713445678),
        ("yesterday", None),
    ],
)
def test_times_of_silly_tavern_are_read_in_all_its_spellings(written: Any, expected: int | None) -> None:
    """The program has changed how it writes them more than once."""
    lines = [{"name": "You", "is_user": True, "mes": "Hi", "send_date": written}]
    assert dialect("silly-tavern").decode(lines).messages[0].timestamp == expected


def test_messages_of_langchain_are_read_with_their_usage() -> None:
    """Calls stand once, though the message has them twice; the input is counted without the cached part."""
    conversation = read("langchain/messages.json")
    assert outline(conversation) == ["user: How many eggs?", "assistant:  count()", "count -> 12", "assistant: Twelve."]
    call = conversation.messages[1]
    assert (call.usage.input, call.usage.cache_read, call.usage.reasoning) == (10, 20, 2)
    assert (call.model, conversation.system) == ("gpt-4o", "Be brief.")
    assert conversation.messages[0].content[1].url == "https://x.example/eggs.png"


def test_what_langchain_dumps_is_read_too() -> None:
    """Constructors of messages, with a call that stands among the blocks and beside them."""
    conversation = read("langchain/dumped.json")
    assert outline(conversation) == [
        "user: How many eggs?",
        "assistant: I look. count()",
        "count -> 12",
        "assistant: Twelve.",
    ]
    assert conversation.messages[2].is_error
    state = read("langchain/state.json")
    assert (outline(state), state.messages[1].thinking) == (["user: How many?", "assistant: Twelve."], "I count.")


def test_a_thread_of_the_assistants_is_in_the_order_of_time() -> None:
    """The API lists the newest first; calls are in the steps of a run."""
    conversation = read("openai-assistants/list.json")
    assert outline(conversation) == ["user: How many eggs?", "assistant:  count()", "count -> 12", "assistant: Twelve."]
    answer = conversation.messages[3]
    assert (answer.content[0].citations[0].title, answer.timestamp) == ("file_1", 1699016400000)
    assert conversation.messages[1].usage == il.Usage.of(20, 5)


def test_a_state_from_the_server_of_langgraph_has_its_messages_under_values() -> None:
    """Beside what comes next; it returns as it was."""
    state = {"values": sample("langchain/state.json"), "next": [], "metadata": {"step": 3}}
    (found,) = il.read(json.dumps(state).encode())
    assert outline(found) == outline(read("langchain/state.json"))
    assert il.encode(found, "langchain").body == state


@pytest.mark.parametrize("name", ["lm-studio", "silly-tavern", "langchain", "openai-assistants"])
@pytest.mark.parametrize(
    "body", [{}, [], [{"role": "user", "content": "Hi"}], {"messages": [{"role": "user"}]}, {"data": []}]
)
def test_a_look_alike_is_refused(name: str, body: Any) -> None:
    """Messages of providers are theirs."""
    assert not FORMATS[name].detect(body)
    with pytest.raises(BadWire):
        dialect(name).decode(body)


def test_results_of_these_programs_reach_both_wires() -> None:
    """Every answered call keeps its result."""
    for name in ("lm-studio/eggs.conversation.json", "langchain/messages.json", "openai-assistants/list.json"):
        body = il.encode(read(name), "openai-completions").body
        assert [m["content"] for m in body["messages"] if m["role"] == "tool"] == ["12"], name
        assert "12" in str(il.encode(read(name), "anthropic-messages").body), name
