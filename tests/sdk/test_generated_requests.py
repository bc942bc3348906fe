"""What we encode is what the vendors' own packages accept."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import interlingua as il
from interlingua.values.request import Request
from sdk.validators import VALIDATORS
from strategies import wellformed_requests


@pytest.mark.parametrize("name", VALIDATORS)
@settings(max_examples=60, phases=[Phase.generate])
@given(data=st.data())
def test_well_formed_requests_are_accepted_by_the_vendors_types(name: str, data: st.DataObject) -> None:
    """A proper conversation, adapted to the target and encoded, is valid by the vendor's own definition."""
    request: Request = data.draw(wellformed_requests(thinking=name in SIGNED, own=name))
    adapted, _ = il.adapt(request, name)
    body = il.dialect(name).encode_request(adapted).body
    assert VALIDATORS[name](body) == []


# Whose own types have a place for signed thinking that no id of the provider's belongs to.
SIGNED = ("anthropic-messages", "google-generative-ai", "bedrock-converse-stream", "ollama-chat")

BROKEN = [
    (
        "anthropic-messages",
        {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "text"}]}]},
    ),
    ("anthropic-messages", {"model": "m", "max_tokens": 1, "messages": [], "colour": "red"}),
    ("openai-completions", {"model": "m", "messages": [{"role": "tool", "content": "x"}]}),
    ("openai-responses", {"model": "m", "input": [{"type": "function_call", "name": "n"}]}),
    ("google-generative-ai", {"contents": [{"role": "user", "parts": [{"texxt": "x"}]}]}),
    ("bedrock-converse-stream", {"messages": [{"role": "user", "content": [{"text": 5}]}]}),
    ("ollama-chat", {"model": "m", "messages": [{"content": "x"}]}),
]


@pytest.mark.parametrize(("name", "body"), BROKEN)
def test_the_validators_see_what_is_wrong(name: str, body: dict) -> None:
    """A check that cannot fail would prove nothing."""
    assert VALIDATORS[name](body)
