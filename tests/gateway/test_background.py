"""Background responses: they go on without their client, and are looked up, followed and cancelled by id."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from msgspec.structs import replace

import interlingua as il
from gateway.conftest import settings_for
from interlingua.gateway import ClientKey, Exchange, Gateway
from interlingua.gateway.exchange import LOCAL
from interlingua.gateway.ledger import Ledger
from interlingua.gateway.recall import Recall
from interlingua.gateway.recall_store import TableRecall, open_recall
from interlingua.gateway.state import open_database
from interlingua.testing import Server, faults
from interlingua.values.errors import RateLimited

LONG = "one two three four five six seven eight nine ten " * 4
MODELS = ["openai-responses", "anthropic-messages", "ollama-chat"]


@dataclass(frozen=True)
class Paused(faults.Stall):
    """A stall without end that says when it has begun: everything before it was sent."""

    begun: threading.Event = field(default_factory=threading.Event)

    def _silence(self, ping: bytes) -> Iterator[Any]:
        self.begun.set()
        yield from super()._silence(ping)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, 20)


@asynccontextmanager
async def client_of(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def when_ended(client: openai.AsyncOpenAI, id: str) -> Any:
    async with asyncio.timeout(20):
        while (found := await client.responses.retrieve(id)).status == "in_progress":
            await asyncio.sleep(0.02)
    return found


@pytest.mark.parametrize("model", MODELS)
async def test_a_response_goes_on_without_its_client(model: str, gateway: Gateway, upstream: Server) -> None:
    """
    It is in progress at once, complete later under the same id, and can be continued; no provider is asked to queue it.
    """
    upstream.say(LONG, fault=faults.Pace(0.02))
    async with client_of(gateway) as client:
        first = await client.responses.create(model=model, input="Hi", background=True)
        assert ("in_progress", True, []) == (first.status, first.background, first.output)
        with pytest.raises(openai.BadRequestError, match="in progress"):
            await client.responses.create(model=model, input="And?", previous_response_id=first.id)
        done = await when_ended(client, first.id)
        assert (first.id, "completed", True, LONG) == (done.id, done.status, done.background, done.output_text)
        assert done.usage and done.usage.output_tokens > 0
        assert "background" not in upstream.last.json
        upstream.say("Well.")
        after = await client.responses.create(model=model, input="And?", previous_response_id=first.id)
        assert "Well." == after.output_text and LONG.strip() in upstream.last.body.decode()


@pytest.mark.parametrize("model", MODELS)
async def test_a_stream_is_followed_again_by_who_lost_it(model: str, gateway: Gateway, upstream: Server) -> None:
    """
    The client leaves and the response goes on; the events after the last one that it saw come as they are generated.
    """
    upstream.say(LONG, fault=faults.Pace(0.02))
    async with client_of(gateway) as client:
        seen = []
        stream = await client.responses.create(model=model, input="Hi", background=True, stream=True)
        async for event in stream:
            seen.append(event)
            if len(seen) == 6:
                break
        await stream.close()
        id = seen[0].response.id  # type: ignore[union-attr]
        assert "in_progress" == (await client.responses.retrieve(id)).status
        last = seen[-1].sequence_number
        seen += [event async for event in await client.responses.retrieve(id, stream=True, starting_after=last)]
        assert [event.sequence_number for event in seen] == list(range(len(seen)))
        assert seen[-1].type == "response.completed" and seen[-1].response.output_text == LONG
        again = [event async for event in await client.responses.retrieve(id, stream=True)]
        assert [event.type for event in again] == [event.type for event in seen]
    assert not upstream.disconnects


async def test_the_events_of_few_ended_streams_are_kept(
    gateway: Gateway, upstream: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The oldest are dropped first; their responses are then streamed as any stored one.
    """
    monkeypatch.setattr("interlingua.gateway.background._MAX_KEPT", 2)
    upstream.say(LONG)
    async with client_of(gateway) as client:
        ids = []
        for _ in range(4):
            stream = await client.responses.create(model="ollama-chat", input="Hi", background=True, stream=True)
            ids += [event.response.id async for event in stream if event.type == "response.completed"]
        assert [False, False, True, True] == [gateway._background.run(LOCAL.name, id) is not None for id in ids]
        events = [event async for event in await client.responses.retrieve(ids[0], stream=True)]
        assert events[-1].type == "response.completed" and events[-1].response.output_text == LONG


@pytest.mark.parametrize("stream", [False, True])
async def test_cancelling_closes_the_call_and_is_counted(stream: bool, upstream: Server, tmp_path: Path) -> None:
    """
    The provider's stream is closed, what came stays, and twice is as once; the ledger has an estimate.
    """
    upstream.say(LONG, fault=(paused := Paused(after_events=6)))
    ledger = Ledger(f"sqlite:{tmp_path / 'ledger.db'}")
    async with Gateway(settings_for(upstream), observers=[ledger]) as gateway, client_of(gateway) as client:
        given: Any = {"model": "anthropic-messages", "input": "Hi", "background": True}
        if stream:
            events = await client.responses.create(**given, stream=True)
            id = (await anext(aiter(events))).response.id
        else:
            id = (await client.responses.create(**given)).id
        await paused.wait()
        for _ in range(2):
            ended = await client.responses.cancel(id)
            assert ("cancelled", id) == (ended.status, ended.id)
        await upstream.disconnected(5)
        assert "one two" in ended.output_text
        assert "cancelled" == (await client.responses.retrieve(id)).status
        if stream:
            last = [event async for event in events][-1]
            assert last.type == "error" and "cancelled" in last.message
    assert [(1, 1, 1)] == [(row.calls, row.aborted, row.estimated) for row in await ledger.usage(())]
    await ledger.close()


async def test_a_failure_is_the_end_of_the_response(gateway: Gateway, upstream: Server) -> None:
    """
    Before its stream began, and within: the status is `failed`, with the provider's message.
    """
    async with client_of(gateway) as client:
        for fault in (faults.Status(500), faults.ErrorEvent(il.Overloaded("busy"), after_events=5)):
            upstream.clear()
            upstream.say(LONG, fault=fault)
            first = await client.responses.create(model="anthropic-messages", input="Hi", background=True)
            done = await when_ended(client, first.id)
            assert done.status == "failed" and done.error and done.error.message
        upstream.clear()
        upstream.say(LONG, fault=faults.Status(500))
        stream = await client.responses.create(model="anthropic-messages", input="Hi", background=True, stream=True)
        assert ["response.created", "response.failed"] == [
            event.type async for event in stream if event.type != "response.in_progress"
        ]


async def test_what_is_refused_does_not_become_a_response(upstream: Server) -> None:
    """
    Unknown models, spent limits, `store: false` and no store are errors of the request itself.
    """
    upstream.say("Hello")
    async with Gateway(settings_for(upstream), gate=_Refusing()) as gateway, client_of(gateway) as client:
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(model="ollama-chat", input="Hi", background=True)
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="nothing", input="Hi", background=True)
        with pytest.raises(openai.BadRequestError, match="stored"):
            await client.responses.create(model="ollama-chat", input="Hi", background=True, store=False)
        assert 0 == len(gateway.recall)
    async with Gateway(settings_for(upstream, recall_bytes=0)) as gateway, client_of(gateway) as client:
        with pytest.raises(openai.BadRequestError, match="cannot be stored"):
            await client.responses.create(model="ollama-chat", input="Hi", background=True)
    assert not upstream.requests


async def test_losses_are_told_with_the_response(gateway: Gateway, upstream: Server) -> None:
    """
    They are not known before it is sent; whoever asks for it gets them in the header.
    """
    upstream.say("Hello")
    async with client_of(gateway) as client:
        first = await client.responses.create(model="ollama-chat", input="Hi", background=True, tool_choice="required")
        await when_ended(client, first.id)
        found = await client.responses.with_raw_response.retrieve(first.id)
        assert "$.options.toolChoice" in found.headers["x-interlingua-losses"]


async def test_other_gateways_of_a_store_answer_for_it_and_cancel_it(
    upstream: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A client's next request may reach another worker.
    """
    monkeypatch.setattr("interlingua.gateway.background._LOOK", 0.02)
    upstream.say(LONG, fault=faults.Pace(0.01))
    address = f"sqlite:{tmp_path / 'recall.db'}"
    stores = [open_recall(address, 1 << 20) for _ in range(2)]
    here, there = (Gateway(settings_for(upstream), recall=Recall(1 << 20, store)) for store in stores)
    async with here, there, client_of(here) as client, client_of(there) as other:
        first = await client.responses.create(model="anthropic-messages", input="Hi", background=True)
        assert "in_progress" == (await other.responses.retrieve(first.id)).status
        events = [event async for event in await other.responses.retrieve(first.id, stream=True)]
        assert events[-1].type == "response.completed" and events[-1].response.output_text == LONG
        for end in (other.responses.cancel, other.responses.delete):
            upstream.clear()
            upstream.say(LONG, fault=(paused := Paused(after_events=6)))
            second = await client.responses.create(model="anthropic-messages", input="Hi", background=True)
            await paused.wait()
            await end(second.id)
            await upstream.disconnected(5)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(second.id)
    for store in stores:
        await store.close()


class Slow(TableRecall):
    """A table that takes its time to write."""

    async def write(self, values: Mapping[str, bytes]) -> None:
        await super().write(values)
        await asyncio.sleep(0.1)


async def test_a_response_that_is_being_stored_is_not_taken_for_a_cancelled_one(
    upstream: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It is no longer in progress before its exchange has ended.
    """
    monkeypatch.setattr("interlingua.gateway.background._LOOK", 0.01)
    upstream.say(LONG)
    address = f"sqlite:{tmp_path / 'recall.db'}"
    await open_recall(address, 1 << 20).close()  # makes the table
    store = Slow(open_database(address, ()), 1 << 20)
    ledger = Ledger(f"sqlite:{tmp_path / 'ledger.db'}")
    gateway = Gateway(settings_for(upstream), recall=Recall(1 << 20, store), observers=[ledger])
    async with gateway, client_of(gateway) as client:
        stream = await client.responses.create(model="ollama-chat", input="Hi", background=True, stream=True)
        assert "response.completed" == [event.type async for event in stream][-1]
    assert [(1, 0)] == [(row.calls, row.aborted) for row in await ledger.usage(())]
    await ledger.close()
    await store.close()


async def test_a_gateway_that_stops_leaves_no_response_in_progress(
    upstream: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    One that it could not finish has failed; one of a gateway that was killed has failed when nobody renews it.
    """
    upstream.say(LONG, fault=faults.Stall(after_events=6))
    address = f"sqlite:{tmp_path / 'recall.db'}"
    stores = [open_recall(address, 1 << 20) for _ in range(2)]
    monkeypatch.setattr("interlingua.gateway.server._SHUTDOWN", 0.1)
    first_recall = Recall(1 << 20, stores[0])
    async with Gateway(settings_for(upstream), recall=first_recall) as gateway, client_of(gateway) as client:
        first = await client.responses.create(model="anthropic-messages", input="Hi", background=True)
        await asyncio.to_thread(upstream.wait_for_requests, 1)
    recall = Recall(1 << 20, stores[1])
    async with Gateway(settings_for(upstream), recall=recall) as later, client_of(later) as client:
        found = await client.responses.retrieve(first.id)
        assert found.status == "failed" and found.error and "stopping" in found.error.message
        stored = recall.stored(LOCAL.name, first.id)
        assert stored is not None and stored.until is None
        recall.store(LOCAL.name, "resp_killed", replace(stored, until=time.time() - 1), 100)
        await recall.save()
        found = await client.responses.retrieve("resp_killed")
        assert found.status == "failed" and found.error and "has ended" in found.error.message
    for store in stores:
        await store.close()


async def test_keys_do_not_see_each_others_background_responses(upstream: Server) -> None:
    """
    To another key there is no such response: not to be read, followed or cancelled.
    """
    upstream.say(LONG, fault=faults.Pace(0.01))
    async with Gateway(settings_for(upstream), gate=_ByName()) as gateway:
        body = {"model": "anthropic-messages", "input": "Hi", "background": True, "stream": True}
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer one"}) as session:
            async with session.post(f"{gateway.url}/v1/responses", json=body) as response:
                line = (await response.content.readuntil(b"\n\n")).decode()
            id = line.partition('"id":"')[2].partition('"')[0]
            path = f"{gateway.url}/v1/responses/{id}"
            other = {"Authorization": "Bearer two"}
            for method, end in (("GET", ""), ("GET", "?stream=true"), ("POST", "/cancel"), ("DELETE", "")):
                async with session.request(method, path + end, headers=other) as response:
                    assert 404 == response.status
            async with session.get(path) as response:
                assert 200 == response.status and "in_progress" == (await response.json())["status"]


class _ByName:
    """The secret is the name of the key."""

    async def identify(self, secret: str | None) -> ClientKey:
        return ClientKey(name=secret or "-")

    async def admit(self, exchange: Exchange, **_: Any) -> Any:
        return None


class _Refusing(_ByName):
    async def admit(self, exchange: Exchange, **_: Any) -> Any:
        raise RateLimited("enough", status=429)
