"""What a client's format cannot hold comes back to the provider that gave it."""

from collections.abc import Iterator
from contextlib import closing

import pytest

import interlingua as il
from gateway.conftest import WIRES, settings_for
from gateway.sdks import CLIENTS, Client
from interlingua.gateway import Gateway
from interlingua.gateway.recall import Recall
from interlingua.testing import Server
from interlingua.testing.threads import LoopThread
from interlingua.values.messages import blocks_of

SIGNING = [api for api in WIRES if api not in ("openai-completions", "ollama-chat")]  # that have signed thinking

SIGNED = {1: "Zmlyc3Q=", 2: "c2Vjb25k"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(strict=True) as server:
        yield server


@pytest.fixture(scope="module")
def address(server: Server) -> Iterator[str]:
    thread = LoopThread("gateway-under-test")
    gateway = Gateway(settings_for(server))
    thread.start(gateway.start())
    yield gateway.url
    thread.run(gateway.stop())
    thread.stop()


def signatures(request: il.Request | None) -> list[str | None]:
    """The signatures of the thoughts and calls in a request, in order."""
    assert request is not None
    blocks = [
        block
        for message in request.context.messages
        if isinstance(message, il.AssistantMessage)
        for block in blocks_of(message.content)
    ]
    thoughts = [block.thinking_signature for block in blocks if isinstance(block, il.ThinkingBlock)]
    return thoughts or [block.thought_signature for block in blocks if isinstance(block, il.ToolCall)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("upstream", SIGNING)
@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.wire)
def test_signed_thinking_survives_three_turns(
    kind: type[Client], upstream: str, stream: bool, server: Server, address: str
) -> None:
    """
    Thinking, calls, results, more thinking: the third request holds the signatures of the first two answers.
    """
    server.clear()
    for number in (1, 2):
        call = il.ToolCall(
            id=f"call_{number}",
            name="weather",
            arguments={"city": "Oslo"},
            thought_signature=SIGNED[number] if upstream == "google-generative-ai" else None,
        )
        thought = il.ThinkingBlock(thinking=f"Thought {number}.", thinking_signature=SIGNED[number])
        server.answer((call,) if upstream == "google-generative-ai" else (thought, call))
    server.say("Fine.")
    with closing(kind(address, upstream, stream=stream)) as client:
        answer = client.say("How is the weather?", tools=True, thinking=True)
        for _ in range(2):
            client.results({call.id: "sunny" for call in answer.calls}, answer.calls)
            answer = client.ask(tools=True, thinking=True)
    assert answer.text == "Fine."
    assert [SIGNED[1], SIGNED[2]] == [signature for signature in signatures(server.last.request) if signature]


async def test_keys_never_see_each_others_answers() -> None:
    """
    What one key was answered is not put back for another, by digest or by call id.
    """
    recall = Recall(100_000)
    asked = il.Request(model=il.ModelDescriptor(id="m"), context=il.Context(messages=(il.UserMessage(content="Hi"),)))
    call = il.ToolCall(id="call_1", name="look", arguments={})
    thought = il.ThinkingBlock(thinking="secret", thinking_signature="c2ln")
    recall.remember(
        "alice", asked, il.AssistantMessage(content=(thought, call), api="anthropic-messages", model="claude")
    )
    echo = il.AssistantMessage(content=(call,))
    returned = il.Request(
        model=asked.model, context=il.Context(messages=(*asked.context.messages, echo, il.UserMessage(content="And?")))
    )
    chat = il.wire("openai-completions")
    assert recall.restore("bob", chat, returned) == (returned, False)
    restored, changed = recall.restore("alice", chat, returned)
    assert changed
    assert restored.context.messages[1].content == (thought, call)


def test_the_store_is_bounded() -> None:
    """
    The oldest answers go first, and what is kept never grows beyond the limit.
    """
    recall = Recall(20_000)
    for number in range(200):
        request = il.Request(
            model=il.ModelDescriptor(id="m"), context=il.Context(messages=(il.UserMessage(content=f"Hi {number}"),))
        )
        call = il.ToolCall(id=f"call_{number}", name="look", arguments={"n": number})
        recall.remember("key", request, il.AssistantMessage(content=(call,)))
    assert 0 < len(recall) <= 40
