"""Usual requests are decoded by a short way: the result is the same as by the long one."""

import importlib
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il

# Where the short way begins, and the fields that it knows beside some that it does not.
NUMBERS = st.one_of(st.integers(-2, 2**40), st.floats(0, 2), st.just(None), st.booleans(), st.just("9"))
FLAGS = st.one_of(st.booleans(), st.just(None), st.just(1))
TEXTS = st.one_of(st.sampled_from(["", "m", "Be brief."]), st.just(None), st.just(3))


def fields(**known: Any) -> Any:
    return st.fixed_dictionaries({}, optional=known)


CHAT = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.just("user"), "content": st.sampled_from(["Hi", ""])}),
        st.fixed_dictionaries({"role": st.just("system"), "content": st.just("Be brief.")}),
        st.fixed_dictionaries({"role": st.just("assistant"), "content": st.just("Yes?")}, optional={"odd": st.just(1)}),
    ),
    max_size=3,
)
GOOGLE = st.lists(st.just({"role": "user", "parts": [{"text": "Hi"}]}), max_size=2)
BEDROCK = st.lists(st.just({"role": "user", "content": [{"text": "Hi"}]}), max_size=2)
OPTIONS = {"temperature": NUMBERS, "topP": NUMBERS, "stopSequences": st.just(["x"])}
BODIES: dict[str, tuple[str, Any]] = {
    "anthropic-messages": (
        "anthropic.requests._is_usual",
        fields(model=TEXTS, messages=CHAT, max_tokens=NUMBERS, system=TEXTS, stream=FLAGS, temperature=NUMBERS),
    ),
    "openai-completions": (
        "openai_chat.requests._is_usual",
        fields(
            model=TEXTS,
            messages=CHAT,
            max_tokens=NUMBERS,
            max_completion_tokens=NUMBERS,
            stream=FLAGS,
            temperature=NUMBERS,
            stream_options=st.sampled_from([{"include_usage": True}, {"include_usage": 1}, {}, None]),
        ),
    ),
    "openai-responses": (
        "openai_responses.requests.is_usual",
        fields(
            model=TEXTS,
            input=st.one_of(CHAT, st.just("Hi")),
            instructions=TEXTS,
            max_output_tokens=NUMBERS,
            stream=FLAGS,
            store=FLAGS,
        ),
    ),
    "google-generative-ai": (
        "google.requests.is_usual",
        fields(
            contents=GOOGLE,
            generationConfig=st.one_of(
                fields(maxOutputTokens=NUMBERS, max_output_tokens=NUMBERS, **OPTIONS), st.just(None)
            ),
            systemInstruction=TEXTS,
        ),
    ),
    "bedrock-converse-stream": (
        "bedrock.requests.is_usual",
        fields(messages=BEDROCK, inferenceConfig=st.one_of(fields(maxTokens=NUMBERS, **OPTIONS), st.just(None))),
    ),
    "ollama-chat": (
        "ollama.codec.is_usual",
        fields(
            model=TEXTS,
            messages=CHAT,
            stream=FLAGS,
            options=st.one_of(fields(num_predict=NUMBERS, num_ctx=NUMBERS), st.just(None)),
            keep_alive=TEXTS,
        ),
    ),
}


def outcome(api: str, body: Any, given: dict[str, Any]) -> Any:
    try:
        return il.wire(api).codec.decode_request(body, **given)
    except il.InterlinguaError as error:
        return str(error)


@pytest.mark.parametrize("api", BODIES)
@given(data=st.data())
def test_the_short_way_gives_the_same_request(api: str, data: st.DataObject) -> None:
    """
    Whichever fields a request has, of whatever type: no residual is lost, and none is made up.
    """
    place, bodies = BODIES[api]
    module, _, name = place.rpartition(".")
    body = data.draw(bodies)
    given = data.draw(st.sampled_from([{}, {"model": "claude-x", "stream": True}]))
    short = outcome(api, body, given)
    with patch.object(importlib.import_module(f"interlingua.dialects.{module}"), name, lambda *_: False):
        assert outcome(api, body, given) == short


@pytest.mark.parametrize("api", BODIES)
def test_the_usual_request_takes_the_short_way(api: str) -> None:
    """
    One question with a limit: what is asked most.
    """
    wire = il.wire(api)
    request = il.Request(
        model=il.ModelDescriptor(id="m", api=api),
        context=il.Context(messages=(il.UserMessage(content="Hi"),)),
        options=il.Options(max_tokens=100),
    )
    body = wire.codec.encode_request(request).body
    given = {} if "model" in body else {"model": "m", "stream": False}
    module, _, name = BODIES[api][0].rpartition(".")
    found = importlib.import_module(f"interlingua.dialects.{module}")
    decide, decided = getattr(found, name), []
    with patch.object(found, name, lambda *given: decided.append(decide(*given)) or decided[-1]):
        assert wire.codec.decode_request(body, **given).options.max_tokens == 100
    assert decided and all(decided)


@pytest.mark.parametrize("api", BODIES)
def test_decoded_values_share_nothing_that_can_be_changed(api: str) -> None:
    """A program that writes into the `extra` of one message changes no other."""
    codec = il.wire(api).codec
    question = il.Request(
        model=il.ModelDescriptor(id="m"),
        context=il.Context([il.UserMessage("Hi"), il.AssistantMessage("Yes?"), il.UserMessage("Go")]),
    )
    body = codec.encode_request(question).bytes()
    answer = codec.encode_response(il.AssistantMessage("Yes", stop_reason="stop")).bytes()
    values: list[Any] = []
    for _ in range(2):
        request = codec.decode_request(body)
        values += (request.context, *request.context.messages, codec.decode_response(answer))
    owned = {id(value.extra) for value in values}
    assert len(values) == len(owned)
