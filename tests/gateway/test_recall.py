"""What a client's format cannot hold comes back to the provider that gave it."""

import asyncio
import contextlib
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import openai
import pytest

import interlingua as il
from gateway.conftest import WIRES, settings_for
from gateway.sdks import CLIENTS, Client
from gateway.stores import redis_server
from interlingua.gateway import Gateway
from interlingua.gateway.exchange import Exchange
from interlingua.gateway.recall import Recall, StoredResponse
from interlingua.gateway.recall_store import RETENTION, TableRecall, open_recall
from interlingua.gateway.state import StateError, open_database
from interlingua.testing import Server, faults
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


@pytest.mark.parametrize("said", ["One moment.", "", "  One\n moment. "])
@pytest.mark.parametrize("echoed", ["", "One moment.", "I look it up.", "One moment. And more."])
def test_a_text_that_the_client_changed_is_not_replaced(said: str, echoed: str) -> None:
    """
    The call tells which response it was; its thinking returns, beside the text that the client sent.
    """
    recall, chat = Recall(10_000), il.wire("openai-completions")
    thought = il.ThinkingBlock(thinking="hm", thinking_signature="c2ln")
    call = il.ToolCall(id="call_1", name="look", arguments={"at": "it"})
    model = il.ModelDescriptor(id="m")
    texts = (il.TextBlock(text=said),) if said else ()
    asked = il.Request(model=model, context=il.Context(messages=(il.UserMessage(content="Hi"),)))
    recall.remember("key", asked, il.AssistantMessage(content=(thought, *texts, call), api="anthropic-messages"))
    echo = il.AssistantMessage(content=(*((il.TextBlock(text=echoed),) if echoed else ()), call))
    returned = il.Request(model=model, context=il.Context(messages=(*asked.context.messages, echo)))
    restored, _ = recall.restore("key", chat, returned)
    is_same = not echoed or echoed.split() == said.split()
    expected = texts if is_same else (il.TextBlock(text=echoed),)
    assert (thought, *expected, call) == restored.context.messages[1].content


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


def test_what_outgrows_the_store_is_forgotten_and_not_stale() -> None:
    """
    A conversation that is too large is not known any more, in place of one that lacks its last turns.
    """
    recall = Recall(5_000)
    message = il.UserMessage(content="Hi")
    recall.create("key", "conv_1", (message,))
    assert recall.conversation("key", "conv_1") == (message,)
    recall.extend("key", "conv_1", "req_1", (il.UserMessage(content="x" * 10_000),))
    assert recall.conversation("key", "conv_1") is None


@contextlib.contextmanager
def shared_address(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:{folder / 'recall.db'}"
        return
    with redis_server(folder) as redis:
        yield redis.address


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_answers_of_one_worker_are_known_to_the_others(kind: str, tmp_path: Path) -> None:
    """
    A response is continued, a signature put back and a response deleted by another worker than the one that gave it.
    """
    with Server(strict=True) as upstream, shared_address(kind, tmp_path) as address:
        stores = [open_recall(address, 1 << 20) for _ in range(2)]
        gateways = [Gateway(settings_for(upstream), recall=Recall(1 << 20, store)) for store in stores]
        for gateway in gateways:
            await gateway.start()
        one, two = (openai.AsyncOpenAI(base_url=f"{g.url}/v1", api_key="none", max_retries=0) for g in gateways)
        thought = il.ThinkingBlock(thinking="Hm.", thinking_signature=SIGNED[1])
        upstream.answer([thought, il.TextBlock(text="I am fine.")])
        for stream in (False, True):
            options: Any = {"model": "anthropic-messages", "input": "How are you?", "reasoning": {"effort": "low"}}
            if stream:
                events = [event async for event in await one.responses.create(stream=True, **options)]
                first = events[-1].response
            else:
                first = await one.responses.create(**options)
            options["input"] = "And now?"
            second = await two.responses.create(previous_response_id=first.id, **options)
            assert signatures(upstream.last.request) == [SIGNED[1]]
            assert (await two.responses.retrieve(first.id)).output_text == "I am fine."
            await one.responses.delete(second.id)
            with pytest.raises(openai.NotFoundError):
                await two.responses.retrieve(second.id)
        items: list[Any] = [{"role": "user", "content": "How are you?"}]
        given = await one.responses.create(model="anthropic-messages", input=items, reasoning={"effort": "low"})
        items += [{"type": "item_reference", "id": item.id} for item in given.output]
        items += [{"role": "user", "content": "Sure?"}]
        await two.responses.create(model="anthropic-messages", input=items, reasoning={"effort": "low"})
        assert signatures(upstream.last.request) == [SIGNED[1]] and "I am fine." in str(upstream.last.json)
        await one.responses.delete(given.id)
        with pytest.raises(openai.NotFoundError, match="item with id"):
            await two.responses.create(model="anthropic-messages", input=items)
        conversation = await one.conversations.create()
        for client in (one, two, one):
            await client.responses.create(model="ollama-chat", input="Hello there", conversation=conversation.id)
        assert upstream.last.request is not None
        assert len(upstream.last.request.context.messages) == 5
        echo: list[Any] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I am fine."}]
        chat: Any = {"model": "anthropic-messages", "reasoning_effort": "low"}
        await one.chat.completions.create(messages=echo[:1], **chat)
        await two.chat.completions.create(messages=[*echo, {"role": "user", "content": "Well?"}], **chat)
        assert signatures(upstream.last.request) == [SIGNED[1]]
        for client, gateway, store in zip((one, two), gateways, stores, strict=True):
            await client.close()
            await gateway.stop()
            await store.close()


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_turns_at_once_of_several_workers_are_all_in_their_conversation(kind: str, tmp_path: Path) -> None:
    """
    Each turn is there once and in one piece, whichever worker answered; a deleted conversation is not revived.
    """
    with Server(strict=True) as upstream, shared_address(kind, tmp_path) as address:
        stores = [open_recall(address, 1 << 20) for _ in range(2)]
        gateways = [Gateway(settings_for(upstream), recall=Recall(1 << 20, store)) for store in stores]
        for gateway in gateways:
            await gateway.start()
        clients = [openai.AsyncOpenAI(base_url=f"{g.url}/v1", api_key="none", max_retries=0) for g in gateways]
        upstream.say("Yes.", fault=faults.SlowHeaders(0.2, times=None))
        conversation = await clients[0].conversations.create()
        named: Any = {"model": "anthropic-messages", "conversation": conversation.id}

        async def ask(number: int) -> None:
            client, stream = clients[number % 2], number % 3 == 0
            answer = await client.responses.create(input=f"Turn {number}?", stream=stream, **named)
            if stream:
                assert [event async for event in answer][-1].type == "response.completed"

        await asyncio.gather(*map(ask, range(12)))
        await ask(12)
        assert upstream.last.request is not None
        *messages, last = upstream.last.request.context.messages
        assert isinstance(last, il.UserMessage) and last.text == "Turn 12?"
        assert [("user", "assistant")] * 12 == [
            (one.role, two.role) for one, two in zip(messages[::2], messages[1::2], strict=True)
        ]
        assert {f"Turn {number}?" for number in range(12)} == {getattr(one, "text", "") for one in messages[::2]}
        asked = len(upstream.requests)
        late = asyncio.ensure_future(ask(14))
        await asyncio.to_thread(upstream.wait_for_requests, asked + 1)
        await clients[1].conversations.delete(conversation.id)
        await late
        for client in clients:
            with pytest.raises(openai.NotFoundError):
                await client.conversations.retrieve(conversation.id)
        for client, gateway, store in zip(clients, gateways, stores, strict=True):
            await client.close()
            await gateway.stop()
            await store.close()


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_what_is_appended_is_whole_bounded_and_never_makes_a_value(kind: str, tmp_path: Path) -> None:
    """
    Two writers at once lose nothing; a missing value stays missing, and one that outgrows the limit is forgotten.
    """
    with shared_address(kind, tmp_path) as address:
        stores = [open_recall(address, 10_000) for _ in range(2)]
        await stores[0].write({"known": "Größe".encode(), "other": b"x"})
        parts = [f"\n<{number}>".encode() for number in range(40)]
        await asyncio.gather(*(stores[at % 2].append("known", part) for at, part in enumerate(parts)))
        await stores[0].append("missing", b"late")
        found = await stores[1].read(["known", "missing"])
        assert ["known"] == list(found)
        first, *rest = found["known"].decode().split("\n")
        assert "Größe" == first and sorted(rest) == sorted(part.decode().strip() for part in parts)
        await stores[1].append("known", b"y" * 10_000)
        assert {"other": b"x"} == await stores[0].read(["known", "other"])
        for store in stores:
            await store.close()


class Away:
    """A store that does not reply."""

    async def read(self, names: Sequence[str]) -> dict[str, bytes]:
        raise StateError("no reply")

    async def write(self, values: Mapping[str, bytes]) -> None:
        raise StateError("no reply")

    async def append(self, name: str, value: bytes) -> None:
        raise StateError("no reply")

    async def delete(self, names: Sequence[str]) -> None:
        raise StateError("no reply")

    async def close(self) -> None: ...


class Unsure(TableRecall):
    """A table that appends, but whose first reply is lost."""

    replies = False

    async def append(self, name: str, value: bytes) -> None:
        await super().append(name, value)
        if not self.replies:
            self.replies = True
            raise StateError("no reply")


async def test_a_turn_without_a_reply_of_the_store_is_added_once(tmp_path: Path) -> None:
    """
    It is appended again with the next one, since it may be missing; a reader sees it once, and in its place.
    """
    address = f"sqlite:{tmp_path / 'recall.db'}"
    await open_recall(address, 1 << 20).close()  # makes the table
    store = Unsure(open_database(address, ()), 1 << 20)
    recall = Recall(1 << 20, store)
    recall.create("key", "conv_1", ())
    await recall.save()
    turns = [(il.UserMessage(content=text),) for text in ("One", "Two")]
    recall.extend("key", "conv_1", "req_1", turns[0])
    with pytest.raises(StateError):
        await recall.save()
    recall.extend("key", "conv_1", "req_2", turns[1])
    await recall.save()
    await recall.fetch_ids("key", ("conversation", "conv_1"))
    assert (*turns[0], *turns[1]) == recall.conversation("key", "conv_1")
    await store.close()


async def test_a_table_of_answers_is_bounded_and_forgets_the_oldest(tmp_path: Path) -> None:
    """
    Whatever is written, no more than its limit stays, and the latest is there.
    """
    store = open_recall(f"sqlite:{tmp_path / 'recall.db'}", 10_000)
    for number in range(100):
        await store.write({f"name{number}": b"x" * 500})
    kept = await store.read([f"name{number}" for number in range(100)])
    assert sum(map(len, kept.values())) <= 11_000
    assert "name99" in kept and "name0" not in kept
    await store.close()


async def test_what_a_table_keeps_expires(tmp_path: Path) -> None:
    """Nothing of a session outlives the undo period of its deletion: expired values are not read, and then deleted."""
    store = open_recall(f"sqlite:{tmp_path / 'recall.db'}", 1 << 20)
    await store.write({"old": b"x", "new": b"y"})
    await store.close()
    with closing(sqlite3.connect(tmp_path / "recall.db")) as database, database:
        database.execute("UPDATE gateway_recall SET at = at - ? WHERE name = 'old'", (RETENTION + 1,))
    store = open_recall(f"sqlite:{tmp_path / 'recall.db'}", 1 << 20)
    assert {"new": b"y"} == await store.read(["old", "new"])
    await store.write({"third": b"z"})
    await store.close()
    with closing(sqlite3.connect(tmp_path / "recall.db")) as database:
        assert [("new",), ("third",)] == database.execute("SELECT name FROM gateway_recall ORDER BY name").fetchall()


async def test_while_the_store_is_away_ids_are_refused_and_other_requests_are_served() -> None:
    """
    What cannot be looked up is not said to be missing: 503, to be tried again.
    """
    with Server(strict=True) as upstream:
        async with (
            Gateway(settings_for(upstream), recall=Recall(1 << 20, Away())) as gateway,
            openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client,
        ):
            first = await client.responses.create(model="ollama-chat", input="Hi")
            with pytest.raises(openai.InternalServerError, match="cannot be read"):
                await client.responses.create(model="ollama-chat", input="Hi", previous_response_id=first.id)
            with pytest.raises(openai.InternalServerError, match="cannot be changed"):
                await client.conversations.create()


class Full(TableRecall):
    """A table that can be read, but not written."""

    async def write(self, values: Mapping[str, bytes]) -> None:
        raise StateError("no memory")


async def test_a_response_that_cannot_be_shared_is_still_known_here(tmp_path: Path) -> None:
    """A store without memory or disk space has no newer state than the gateway that keeps the response."""
    address = f"sqlite:{tmp_path / 'recall.db'}"
    await open_recall(address, 1 << 20).close()  # makes the table
    store = Full(open_database(address, ()), 1 << 20)
    with Server(strict=True) as upstream:
        async with (
            Gateway(settings_for(upstream), recall=Recall(1 << 20, store)) as gateway,
            openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client,
        ):
            first = await client.responses.create(model="ollama-chat", input="Hi")
            await client.responses.create(model="ollama-chat", input="And?", previous_response_id=first.id)
            assert ["Hi", "Hi", "And?"] == [one["content"] for one in upstream.last.json["messages"]]
    await store.close()


def steps(work: Callable[..., object], *given: str) -> list[tuple[str, str]]:
    """Every call that some work makes, functions written in C included."""
    made: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, arg: Any) -> None:
        made.append((event, arg.__qualname__ if event.startswith("c_") else frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        work(*given)
    finally:
        sys.setprofile(None)
    return made


def test_an_id_of_another_key_takes_the_steps_of_one_that_does_not_exist() -> None:
    """
    The time of a look-up tells nothing: the name of the key is in the digest, so that both are simply not there.
    """
    recall = Recall(100_000)
    request = il.Request(model=il.ModelDescriptor(id="m"), context=il.Context(messages=(il.UserMessage(content="Hi"),)))
    answer = il.AssistantMessage(content=(il.TextBlock(text="Fine."),))
    recall.store("alice", "resp_1", StoredResponse(request=request, given=(), answer=answer, created=0.0), 100)
    recall.create("alice", "conv_1", (answer,))
    for look in (recall.stored, recall.conversation, recall.delete, recall.delete_conversation):
        foreign = "resp_1" if look in (recall.stored, recall.delete) else "conv_1"
        missing = foreign.replace("1", "2")
        assert steps(look, "bob", foreign) == steps(look, "bob", missing)
    assert steps(recall.stored, "alice", "resp_1") != steps(recall.stored, "alice", "resp_2")  # it sees differences


class Requests:
    """An observer that keeps what was asked."""

    def __init__(self) -> None:
        self.seen: list[il.Request | None] = []

    async def observe(self, exchange: Exchange) -> None:
        self.seen.append(exchange.request)


@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "shared"])
@pytest.mark.parametrize("options", [{}, {"store": False}], ids=["stored", "not stored"])
async def test_who_gave_a_plain_text_is_known(options: dict[str, Any], is_shared: bool, tmp_path: Path) -> None:
    """
    Of a text on the client's own wire, forwarded as it came; also where another worker has the next turn.
    """
    with Server(strict=True) as upstream:
        requests, stores = Requests(), [open_recall(f"sqlite:{tmp_path / 'recall.db'}", 1 << 20) for _ in range(2)]
        recalls = [Recall(1 << 20, store) for store in stores] if is_shared else [Recall(1 << 20)] * 2
        first, second = (Gateway(settings_for(upstream), recall=one, observers=[requests]) for one in recalls)
        async with (
            first,
            second,
            openai.AsyncOpenAI(base_url=f"{first.url}/v1", api_key="none", max_retries=0) as one,
            openai.AsyncOpenAI(base_url=f"{second.url}/v1", api_key="none", max_retries=0) as two,
        ):
            given = await one.responses.create(model="openai-responses", input="Hi", **options)
            items = [{"role": "user", "content": "Hi"}, *(item.model_dump(exclude_none=True) for item in given.output)]
            await two.responses.create(
                model="openai-responses", input=[*items, {"role": "user", "content": "And?"}], **options
            )
        for store in stores:
            await store.close()
        last = requests.seen[-1]
        assert last is not None
        answer = last.context.messages[1]
        assert isinstance(answer, il.AssistantMessage)
        assert ("up-openai-responses", "test-model") == (answer.provider, answer.model)
