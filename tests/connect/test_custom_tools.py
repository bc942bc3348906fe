"""Custom tools of OpenAI's on wires that have none: their calls come back as what they are to the conversation."""

import pytest

import interlingua as il
from interlingua.dialects import WIRES
from interlingua.testing import Server

TOOL = il.ToolSpec(
    name="run.sql", dialect="openai-responses", value={"type": "custom", "name": "run.sql", "description": "Runs SQL."}
)
CONTEXT = il.Context(messages=(il.UserMessage(content="Count them."),), tools=(TOOL,))


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("api", sorted(name for name, wire in WIRES.items() if wire.limits.custom_form is None))
async def test_a_call_of_a_wrapped_custom_tool_comes_back_as_one(api: str, streamed: bool) -> None:
    """Under the tool's own name, marked as a custom call, so that it returns to OpenAI as such; streamed or not."""
    with Server() as server:

        def call(request: il.Request) -> il.ToolCall:
            (offered,) = request.context.tools or ()
            return il.ToolCall(id="call_1", name=offered.name, arguments={"input": "select 1"})

        server.answer(call)
        model = il.ModelDescriptor(id="m", api=api, base_url=server.base_url(api))
        options = {"api_key": "k", "max_tokens": 50}
        answer = (
            await il.stream(model, CONTEXT, **options).result()
            if streamed
            else await il.complete(model, CONTEXT, **options)
        )
    (got,) = answer.tool_calls
    assert ("run.sql", {"input": "select 1"}) == (got.name, got.arguments)
    assert {"~type": "custom_tool_call"} == got.extra["openai-responses"]
    request = il.Request(
        model=il.ModelDescriptor(id="gpt-5", api="openai-responses"),
        context=il.Context(messages=(*CONTEXT.messages, answer), tools=CONTEXT.tools),
    )
    body = il.dialect("openai-responses").encode_request(il.adapt(request, "openai-responses").request).body
    assert ["custom_tool_call"] == [item["type"] for item in body["input"] if item.get("type", "").endswith("_call")]
