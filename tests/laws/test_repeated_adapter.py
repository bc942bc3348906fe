"""Adapting again and again for one target gives what adapting once gives."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from interlingua import AssistantMessage, Context, ModelDescriptor, Request, TextBlock, UserMessage, adapt
from interlingua.conversion.adapting import adapter
from interlingua.conversion.adapting.adapter import RepeatedAdapter
from interlingua.values.messages import Citation
from interlingua.values.request import Options
from strategies import options

TARGETS = (
    ModelDescriptor(id="claude-opus-4-6", provider="anthropic", api="anthropic-messages", context_window=200),
    ModelDescriptor(id="m", provider="up", api="anthropic-messages"),
    ModelDescriptor(id="gpt-5.2", provider="openai", api="openai-responses", max_tokens=64),
    ModelDescriptor(id="m", provider="up", api="openai-completions", context_window=100, max_tokens=50),
    ModelDescriptor(id="gemini-3-pro", provider="google", api="google-generative-ai"),
    ModelDescriptor(id="m", provider="up", api="bedrock-converse-stream"),
    ModelDescriptor(id="m", provider="ollama", api="ollama-chat", context_window=40),
)


def texts() -> SearchStrategy[Any]:
    text = st.one_of(st.sampled_from(["Hi", " ", "", "a\ud800", "long " * 40]), st.text(max_size=200))
    return st.one_of(text, text.map(lambda one: (TextBlock(text=one),)))


def chats() -> SearchStrategy[Request]:
    def request(given: list[Any], system: Any, chosen: Any) -> Request:
        kinds = (UserMessage, AssistantMessage)
        messages = tuple(kinds[at % 2](content=content) for at, content in enumerate(given))
        return Request(model=TARGETS[0], context=Context(system=system, messages=messages), options=chosen)

    return st.builds(request, st.lists(texts(), min_size=1, max_size=5), st.none() | texts(), options())


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.api)
@settings(max_examples=30)
@given(chosen=options(), given_requests=st.lists(chats(), min_size=2, max_size=3))
def test_a_repeated_adapter_does_what_adapt_does(target: ModelDescriptor, chosen: Any, given_requests: Any) -> None:
    """
    Whatever it adapted before, of whatever size, with the same options or others.
    """
    again = RepeatedAdapter(target)
    for request in (*given_requests, *(replace(one, options=chosen) for one in given_requests)):
        expected, actual = adapt(request, target, caching=True), again(request)
        assert expected.request == actual.request
        assert (expected.losses, expected.warnings) == (actual.losses, actual.warnings)
        assert (expected.restore_block is None) == (actual.restore_block is None)
        if expected.request.context.messages:
            assert expected.source("$.messages[0].content[0]") == actual.source("$.messages[0].content[0]")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.api)
@pytest.mark.parametrize(
    "answers",
    [
        (AssistantMessage(content="B"),),
        (AssistantMessage(content=None), UserMessage(content="C")),
        (AssistantMessage(content=()), UserMessage(content="C")),
        (
            AssistantMessage(content=(TextBlock(text="B", citations=(Citation(title="t"),)),)),
            UserMessage(content="C"),
        ),
    ],
    ids=["prefill", "no content", "empty", "citations"],
)
def test_what_is_not_plain_is_adapted_by_itself(target: ModelDescriptor, answers: Any) -> None:
    """
    After a longer request of plain text, with the same options.
    """
    again, first = RepeatedAdapter(target), UserMessage(content="A")
    long = UserMessage(content="long " * 9)
    for answer in (AssistantMessage(content="BBB"), AssistantMessage(content=(TextBlock(text="BBB"),))):
        again(Request(model=target, context=Context(messages=(first, answer, long)), options=Options(max_tokens=9)))
    request = Request(model=target, context=Context(messages=(first, *answers)), options=Options(max_tokens=9))
    expected, actual = adapt(request, target, caching=True), again(request)
    assert (expected.request, expected.losses) == (actual.request, actual.losses)


def test_plain_requests_of_one_kind_are_adapted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Until one is longer than all before it, or says something else.
    """
    seen: list[str] = []

    def counted(request: Request, *given: Any, **options: Any) -> Any:
        seen.append(request.context.messages[-1].content)  # type: ignore[arg-type]
        return adapt(request, *given, **options)

    monkeypatch.setattr(adapter, "adapt", counted)
    again = RepeatedAdapter(TARGETS[1])
    for text in ("four", "two", "longer", "six six", "three"):
        again(Request(model=TARGETS[1], context=Context(messages=(UserMessage(content=text),))))
    assert seen == ["four", "longer", "six six"]
