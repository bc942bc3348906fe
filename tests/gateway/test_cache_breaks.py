"""Which byte broke a prompt cache: where a conversation returns, its prompt is compared with what was sent before."""

import asyncio
import json
import tracemalloc
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from gateway.conftest import WIRES, settings_for
from interlingua.conversion.prompt_cache import prompt_pieces
from interlingua.gateway import Exchange, Gateway
from interlingua.gateway.access_log import record_of
from interlingua.gateway.cache_breaks import CacheBreak, SentPrompts
from interlingua.gateway.metrics import Metrics
from interlingua.gateway.recorder import Recorder
from interlingua.gateway.settings_file import RecordingSettings
from interlingua.sessions import Session, store_at
from interlingua.testing import Server
from interlingua.values import jsontext

HEADER = "x-interlingua-cache-break"
SYSTEM = {
    "openai-completions": "$.messages[0]",
    "openai-responses": "$.instructions",
    "anthropic-messages": "$.system",
    "google-generative-ai": "$.systemInstruction",
    "bedrock-converse-stream": "$.system",
    "ollama-chat": "$.messages[0]",
}


class Seen:
    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    async def observe(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)


def chat(model: str, system: str, *texts: str) -> dict[str, Any]:
    """A conversation of the given turns, the user's first."""
    roles = ("user", "assistant")
    turns = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    return {"model": model, "messages": [{"role": "system", "content": system}, *turns]}


async def post(gateway: Gateway, body: Any, **headers: str) -> str | None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers) as response,
    ):
        assert response.status == 200, await response.text()
        return response.headers.get(HEADER)


@pytest.mark.parametrize("upstream_api", WIRES)
async def test_the_first_byte_that_differs_is_in_the_header_the_log_the_record_and_the_numbers(
    upstream_api: str, upstream: Server, tmp_path: Path
) -> None:
    """
    A conversation that grows breaks nothing; another date in its system text does, and is found to the byte.
    """
    upstream.say("Fine.")
    seen, metrics, store = Seen(), Metrics(), store_at(None, tmp_path)
    recorder = Recorder(RecordingSettings(home=str(tmp_path)))
    before, after = "Today is Monday. Be brief.", "Today is Friday. Be brief."
    async with Gateway(settings_for(upstream), observers=[seen, metrics, recorder]) as gateway:
        assert await post(gateway, chat(upstream_api, before, "Hi")) is None
        assert await post(gateway, chat(upstream_api, before, "Hi", "Fine.", "And?")) is None
        sent = upstream.last.body
        header = await post(gateway, chat(upstream_api, after, "Hi", "Fine.", "And?", "Fine.", "So?"))
        await gateway._settlement.flush()
        await recorder.flush()
    was = next(part for part in prompt_pieces(json.loads(sent)) if b"Monday" in part.data)
    now = next(part for part in prompt_pieces(json.loads(upstream.last.body)) if b"Friday" in part.data)
    byte = now.data.index(b"Friday")
    assert was.data[:byte] == now.data[:byte]
    assert header is not None and header.startswith(f"{SYSTEM[upstream_api]} byte {byte}; ")
    broken = seen.exchanges[-1].cache_break
    assert broken is not None and (broken.path, broken.byte, broken.shared) == (SYSTEM[upstream_api], byte, byte)
    assert record_of(seen.exchanges[-1])["cache_break"] == header
    assert f'cache_breaks_total{{key="local",model="up-{upstream_api}/test-model"}} 1' in metrics.exposition().decode()
    await recorder.close()
    (listed,) = store.sessions("gateway")
    with Session.open(listed.id, agent="gateway", store=store, read_only=True) as session:
        about = list(session.entries())[-1].extra["interlingua"]["gateway"]
    assert (about["cacheBreak"]["path"], about["cacheBreak"]["byte"]) == (broken.path, byte)


async def test_an_edited_message_is_named_and_a_new_conversation_is_not(gateway: Gateway, upstream: Server) -> None:
    """
    The path is that of the provider's request; what only repeats the beginning breaks nothing.
    """
    upstream.say("Fine.")
    api = "anthropic-messages"
    assert await post(gateway, chat(api, "Be brief.", "Hi", "Fine.", "And?")) is None
    assert await post(gateway, chat(api, "Be brief.", "Hi")) is None
    assert await post(gateway, chat(api, "Be brief.", "Hi", "Fine.", "And?", "Fine.", "So?")) is None
    header = await post(gateway, chat(api, "Be brief.", "Hi", "Fine.", "Or?", "Fine.", "So?"))
    assert header is not None and header.startswith("$.messages[2] byte ")
    # Both branches are known now: neither breaks again.
    assert await post(gateway, chat(api, "Be brief.", "Hi", "Fine.", "And?", "Fine.", "So?", "Fine.", "1")) is None
    assert await post(gateway, chat(api, "Be brief.", "Hi", "Fine.", "Or?", "Fine.", "So?", "Fine.", "2")) is None


async def test_a_cache_marker_that_moves_breaks_nothing(gateway: Gateway, upstream: Server) -> None:
    """
    Clients mark the last message of each turn; the marker is no part of what is cached.
    """
    upstream.say("Fine.")
    mark = {"cache_control": {"type": "ephemeral"}}

    def body(*texts: str) -> dict[str, Any]:
        turns = [
            {"role": ("user", "assistant")[at % 2], "content": [{"type": "text", "text": text}]}
            for at, text in enumerate(texts)
        ]
        turns[-1]["content"][0] |= mark  # type: ignore[index, operator]
        return {"model": "anthropic-messages", "max_tokens": 50, "messages": turns}

    async with aiohttp.ClientSession() as session:
        for texts in (("Hi",), ("Hi", "Fine.", "And?"), ("Hi", "Fine.", "And?", "Fine.", "So?")):
            async with session.post(f"{gateway.url}/v1/messages", json=body(*texts)) as response:
                assert response.status == 200 and HEADER not in response.headers


async def test_a_session_keeps_its_prompts_though_the_first_message_changes(gateway: Gateway, upstream: Server) -> None:
    """
    With the client's own id of the conversation, also a change of its first message is found.
    """
    upstream.say("Fine.")
    api = "ollama-chat"
    assert await post(gateway, chat(api, "Be brief.", "It is 10:01. Hi"), session_id="one") is None
    later = chat(api, "Be brief.", "It is 10:02. Hi", "Fine.", "And?")
    assert await post(gateway, later, session_id="two") is None
    header = await post(gateway, later, session_id="one")
    assert header is not None and header.startswith("$.messages[1] byte ")


def request_of(texts: list[str]) -> il.Request:
    messages = [
        il.UserMessage(content=text) if at % 2 == 0 else il.AssistantMessage(content=(il.TextBlock(text=text),))
        for at, text in enumerate(texts)
    ]
    return il.Request(model=il.ModelDescriptor(id="m"), context=il.Context(messages=tuple(messages)))


async def sent(prompts: SentPrompts, texts: list[str], key: str = "key") -> CacheBreak | None:
    body = json.dumps({"messages": [{"content": text} for text in texts]}, ensure_ascii=False)
    return await prompts.sent(key, "p/m", "session", request_of(texts), body.encode())


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=6), st.data())
async def test_any_change_is_found_at_its_first_byte(texts: list[str], data: st.DataObject) -> None:
    """
    Whatever text of whichever message is changed, path and byte are where the two requests first differ.
    """
    prompts = SentPrompts(1 << 20)
    await sent(prompts, texts)
    at = data.draw(st.integers(0, len(texts) - 1))
    other = data.draw(st.text(st.characters(exclude_categories=["Cs"])))
    changed = [*texts[:at], other, *texts[at + 1 :], "more", "and more"]
    found = await sent(prompts, changed)
    old, new = (list(prompt_pieces({"messages": [{"content": text} for text in one]})) for one in (texts, changed))
    if other == texts[at]:
        assert found is None
    else:
        pairs = list(zip(old[at].data, new[at].data, strict=False))
        byte = next((number for number, (a, b) in enumerate(pairs) if a != b), len(pairs))
        assert found is not None and (found.path, found.byte) == (f"$.messages[{at}]", byte)
        assert found.shared == sum(len(part.data) for part in old[:at]) + byte
    assert await sent(prompts, changed) is None


async def test_keys_and_models_are_apart_and_memory_is_bounded() -> None:
    """
    Another key's prompts are never compared; the store forgets what was used longest ago.
    """
    prompts = SentPrompts(20_000)
    await sent(prompts, ["a", "b", "c"], "alice")
    assert await sent(prompts, ["x", "b", "c"], "bob") is None
    assert await sent(prompts, ["x", "b", "c"], "alice") is not None
    for number in range(200):
        await sent(prompts, [f"{number}" * 50, "b", "c"], f"key {number}")
    assert prompts._size <= 20_000
    assert prompts._size == sum(one.size for _, known in prompts._prompts.values() for one in known)
    assert await sent(prompts, ["y", "b", "c"], "alice") is None  # forgotten


async def test_large_prompts_are_compared_as_well() -> None:
    """
    Beside the event loop, with the same result.
    """
    prompts = SentPrompts(10_000_000)
    long = "x" * 100_000
    await sent(prompts, [long, "b", "c"])
    found = await sent(prompts, [long, "B", "c"])
    assert found is not None and found.path == "$.messages[1]"
    assert prompts._size == sum(one.size for _, known in prompts._prompts.values() for one in known)


async def test_stored_prompts_take_the_memory_that_is_counted() -> None:
    """Encoders allocate at least 4 KB for a body; what is stored of a short one must not."""
    prompts = SentPrompts(1 << 20)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(4000):
            context = il.Context(messages=(il.UserMessage(content=f"question {number}"),))
            request = il.Request(model=il.ModelDescriptor(id="m"), context=context)
            await prompts.sent("key", "m", None, request, jsontext.write({"prompt": f"question {number}"}))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < 2 << 20


@pytest.mark.parametrize("indent", [None, 1])
async def test_spelling_and_markers_break_no_cache(indent: int | None) -> None:
    """
    A client may write the same prompt with other spaces, and moves its cache markers with each turn; a text that
    another conversation shares does not hide the one that goes on.
    """
    prompts = SentPrompts(1 << 20)

    async def ask(*texts: str, marked: int, indent: int | None = None) -> CacheBreak | None:
        messages: list[dict[str, object]] = [{"content": text} for text in texts]
        messages[marked]["cache_control"] = {"type": "ephemeral"}
        body = json.dumps({"tools": [{"name": "t"}], "messages": messages}, indent=indent)
        return await prompts.sent("key", "p/m", "session", request_of(list(texts)), body.encode())

    assert await ask("a", "b", "c", marked=2) is None
    assert await ask("a", "b", "c", "d", "e", marked=4, indent=indent) is None
    assert await ask("a", "b", "c", "d", "e", "f", "g", marked=6) is None
    found = await ask("a", "b", "c", "D", "e", marked=4, indent=indent)
    assert found is not None and (found.path, found.byte) == ("$.messages[3]", len('{"content":"'))
    assert await ask("a", "b", "c", "D", "e", "F", "G", marked=6) is None
    assert await ask("a", "b", "c", "d", "e", "f", "g", "h", "i", marked=8) is None
    again = await ask("a", "b", "c", "d", "e", "f", "g", "H", "i", marked=8)
    assert again is not None and again.path == "$.messages[7]"


async def test_a_prompt_replaces_all_that_it_adds_to() -> None:
    """
    Callers that send one prompt at the same time leave several copies; the next prompt is compared with none of them
    again.
    """
    prompts = SentPrompts(10_000_000)
    long = "x" * 100_000
    await asyncio.gather(*(sent(prompts, [long, "b", "c"]) for _ in range(4)))
    assert await sent(prompts, [long, "b", "c", "d", "e"]) is None
    assert [len(known) for _, known in prompts._prompts.values()] == [1]
    found = await sent(prompts, [long, "b", "C"])
    assert found is not None and found.path == "$.messages[2]"
