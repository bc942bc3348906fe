"""Where requests go, and what passes unchanged."""

import asyncio
import itertools
import json
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from gateway.conftest import WIRES, settings_for
from interlingua.gateway import Alias, Exchange, Gateway, ProviderSettings, RoutingRule, Settings, Target
from interlingua.gateway.rewriting import Cutter, FrameRenaming, Renaming, with_option, without_repeats
from interlingua.gateway.routing import Slots
from interlingua.testing import Server, faults
from interlingua.values.messages import ServerToolCall, blocks_of

BODY = {"model": "chain", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}


async def posted(gateway: Gateway, path: str, body: Any, **options: Any) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.post(gateway.url + path, json=body, **options) as response:
        return response.status, await response.read()


def chained(first: Server, second: Server, **alias: Any) -> Settings:
    """An alias that falls back from one server to another of another wire."""
    return replace(
        settings_for(first),
        providers=(
            ProviderSettings(id="one", api="anthropic-messages", base_url=first.base_url("anthropic-messages")),
            ProviderSettings(id="two", api="openai-completions", base_url=second.base_url("openai-completions")),
        ),
        aliases=(
            Alias(
                name="chain",
                targets=(Target(model="one/test-model", context_window=1000),),
                fallbacks=(Target(model="two/test-model", context_window=100_000),),
                retries=0,
                **alias,
            ),
        ),
    )


@pytest.mark.parametrize(
    "failure",
    [
        il.RateLimited("slow down", status=429),
        il.Overloaded("busy", status=529),
        il.ContextTooLong("prompt is too long", status=400),
        il.AuthFailed("wrong key", status=401),
        il.BadRequest("insufficient credits", status=402),
    ],
    ids=lambda failure: type(failure).__name__,
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_failure_goes_elsewhere(failure: il.ProviderError, stream: bool) -> None:
    """
    The fallback answers, in one answer of the client's wire.
    """
    with Server(strict=True) as first, Server(strict=True) as second:
        first.answer(failure)
        second.say("From the second.")
        async with Gateway(chained(first, second)) as gateway:
            status, body = await posted(gateway, "/v1/messages", {**BODY, "stream": stream})
    assert status == 200
    assert body.count(b"event: message_start") == (1 if stream else 0)
    assert b"second" in body


async def test_a_stream_that_fails_before_it_shows_anything_goes_elsewhere() -> None:
    """
    The client sees one beginning, and nothing of the failed attempt.
    """
    with Server(strict=True) as first, Server(strict=True) as second:
        first.say("From the first.", fault=faults.ErrorEvent(il.Overloaded("busy"), after_events=1))
        second.say("From the second.")
        async with Gateway(chained(first, second)) as gateway:
            status, body = await posted(gateway, "/v1/messages", {**BODY, "stream": True})
    assert (status, body.count(b"message_start\n")) == (200, 1)
    assert b"busy" not in body
    assert body.rstrip().endswith(b'{"type":"message_stop"}')


async def test_a_bad_request_is_bad_everywhere() -> None:
    """
    The fallback is not asked.
    """
    with Server(strict=True) as first, Server(strict=True) as second:
        first.answer(il.BadRequest("no such thing", status=400))
        async with Gateway(chained(first, second)) as gateway:
            status, _ = await posted(gateway, "/v1/messages", BODY)
        assert (status, len(second.requests)) == (400, 0)


async def test_a_conversation_stays_where_it_began() -> None:
    """
    Turns of one conversation go to one target; conversations spread over all.
    """
    with Server(strict=True) as first, Server(strict=True) as second:
        settings = chained(first, second)
        both = Alias(name="both", targets=(Target(model="one/test-model"), Target(model="two/test-model")))
        async with Gateway(replace(settings, aliases=(both,))) as gateway:
            for number in range(12):
                messages: list[Any] = [{"role": "user", "content": f"Question {number}"}]
                counts = len(first.requests), len(second.requests)
                for _ in range(3):
                    await posted(gateway, "/v1/chat/completions", {"model": "both", "messages": messages})
                    messages += [{"role": "assistant", "content": "x"}, {"role": "user", "content": "More"}]
                grown = (len(first.requests) - counts[0], len(second.requests) - counts[1])
                assert sorted(grown) == [0, 3]
        assert len(first.requests) and len(second.requests)


async def test_rules_send_requests_elsewhere() -> None:
    """
    By model and by what a request needs; a rule may lead to a model that clients cannot name.
    """
    with Server(strict=True) as first, Server(strict=True) as second:
        settings = chained(first, second)
        rules = (RoutingRule(to="two/test-model", model="cha*", needs=("tools",)),)
        async with Gateway(replace(settings, rules=rules, open_models=False)) as gateway:
            tool = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
            await posted(gateway, "/v1/messages", {**BODY, "tools": [tool]})
            await posted(gateway, "/v1/messages", BODY)
        assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_a_full_queue_refuses_and_a_turn_passes_on() -> None:
    """
    Those in the queue are served in order; one more than fits is refused.
    """
    slots = Slots("provider", limit=1, queue=1, wait=5)
    await slots.take()
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    with pytest.raises(il.RateLimited, match="too many calls wait"):
        await slots.take()
    slots.give()
    await waiting
    slots.give()
    await slots.take()


BODIES: dict[str, tuple[str, bytes]] = {
    "openai-completions": (
        "/v1/chat/completions",
        b'{ "model" : "openai-completions",\n "messages": [{"role":"user","content":"caf\\u00e9"}], "seed": 7}',
    ),
    "openai-responses": ("/v1/responses", b'{"input": "caf\\u00e9", "model": "openai-responses",  "store": false}'),
    "anthropic-messages": (
        "/v1/messages",
        b'{"max_tokens": 9,\t"messages":[{"role":"user","content":"caf\\u00e9"}], "model":"anthropic-messages"}',
    ),
    "google-generative-ai": (
        "/v1beta/models/google-generative-ai:generateContent",
        b'{"contents": [ {"role": "user", "parts": [{"text": "caf\\u00e9"}]}]}',
    ),
    "bedrock-converse-stream": (
        "/model/bedrock-converse-stream/converse",
        b'{"messages": [ {"role": "user", "content": [{"text": "caf\\u00e9"}]}]}',
    ),
    "ollama-chat": (
        "/api/chat",
        b'{"model": "ollama-chat", "stream" : false, "messages": [{"role":"user","content":"caf\\u00e9"}]}',
    ),
}


@pytest.mark.parametrize("api", WIRES)
async def test_the_same_wire_passes_byte_for_byte(api: str, gateway: Gateway, upstream: Server) -> None:
    """
    Spaces and escapes as the client wrote them; the model's name alone is replaced, both ways.
    """
    path, body = BODIES[api]
    upstream.say("Good morning.")
    async with aiohttp.ClientSession() as session, session.post(gateway.url + path, data=body) as response:
        answer = await response.read()
        assert response.status == 200, answer
    quoted = json.dumps(api).encode()
    assert upstream.last.body == body.replace(quoted, b'"test-model"')
    assert "upstream-key" in str(dict(upstream.last.headers))
    assert b"test-model" not in answer


async def test_usage_is_asked_for_and_removed_where_the_client_did_not() -> None:
    """
    The ledger has the provider's count; the client sees no chunk that it did not ask for.
    """
    with Server(strict=True) as upstream:
        upstream.say("Good morning.")
        async with Gateway(settings_for(upstream)) as gateway:
            body = {"model": "openai-completions", "stream": True, "messages": BODY["messages"]}
            _, answer = await posted(gateway, "/v1/chat/completions", body)
        assert upstream.last.json["stream_options"] == {"include_usage": True}
    assert b'"usage"' not in answer
    assert answer.endswith(b"data: [DONE]\n\n")


def test_only_the_models_own_place_is_renamed() -> None:
    """
    Names in metadata, tools or content stay.
    """
    rename = Renaming((("model",), ("response", "model")), "new")
    text = b'{"metadata": {"model": "old"}, "response": {"tools": [{"model": "old"}], "model" : "old"}}'
    assert rename(text) == text[:-6] + b'new"}}'
    assert with_option(b'{ "a": 1}', "o", "i") == b'{"o":{"i":true}, "a": 1}'


@given(
    before=st.sampled_from(["", '"a":{}', '"a":{"o":{"i":false}}', '"a":["{\\"o\\": {"]']),
    given=st.sampled_from(
        ["", '"o":null', '"o":{}', '"o":{"x":1}', '"o" : { "x": {"i": 2} }', '"o":{"x":1,"i":false}']
    ),
    after=st.sampled_from(["", '"b":{"o":{}}']),
)
def test_an_option_is_added_where_the_client_has_others(before: str, given: str, after: str) -> None:
    """
    Wherever it is among the client's fields, there is one object of that name, with the client's own options.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)

    text = "{" + ", ".join(part for part in (before, given, after) if part) + "}"
    value = json.loads(text)
    changed = json.loads(with_option(text.encode(), "o", "i"), object_pairs_hook=unique)
    assert changed == {**value, "o": {**(value.get("o") or {}), "i": True}}


_KEYS = st.sampled_from(["model", "response", "message", "a", 'q"model', "model\\\\"])
_VALUES = st.recursive(
    st.one_of(st.sampled_from(["old", '"model": "old"', '{"model":"old"}', "\\\\", '\\\\"']), st.integers(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=12,
)


@given(documents=st.lists(st.dictionaries(_KEYS, _VALUES, max_size=4), min_size=1, max_size=3), indent=st.booleans())
def test_renaming_changes_what_it_should_and_nothing_else(documents: list[Any], indent: bool) -> None:
    """
    Whatever else a document, or several frames in one piece, has under the same key.
    """
    rename = Renaming((("model",), ("response", "model")), "new")

    def renamed(document: Any) -> Any:
        wanted = dict(document)
        if isinstance(wanted.get("model"), str):
            wanted["model"] = "new"
        nested = wanted.get("response")
        if isinstance(nested, dict) and isinstance(nested.get("model"), str):
            wanted["response"] = nested | {"model": "new"}
        return wanted

    for document in documents:
        text = json.dumps(document, indent=2 if indent else None).encode()
        assert rename(text) == json.dumps(renamed(document), indent=2 if indent else None).encode()
    frames_of = [b"event: e\ndata: %s\n\n", b"data: %s\r\n\r\n", b"%s\n"]
    for form in frames_of:
        stream = b"".join(form % json.dumps(document).encode() for document in documents)
        assert rename(stream) == b"".join(form % json.dumps(renamed(document)).encode() for document in documents)


@given(
    documents=st.lists(st.dictionaries(_KEYS, _VALUES, max_size=4), min_size=1, max_size=5),
    sizes=st.lists(st.integers(1, 3), max_size=5),
)
@example([{"model": "old", "a": {}}, {"model": "old", "a": {"model": "old"}}], [1, 1])
@example([{"a": {}, "model": "old"}, {"a": {"model": "old"}}, {"b": {"a": {}, "model": "old"}}], [1, 1, 1])
@example([{"model": "old", "a": "x"}, {"b": {"model": "old"}}, {"model": "old", "a": "y"}], [1, 2])
def test_the_frames_of_a_stream_are_renamed_as_documents_are(documents: list[Any], sizes: list[int]) -> None:
    """
    However many arrive together, and whatever the frames before looked like.
    """
    for form in (b"event: e\ndata: %s\n\n", b"data: %s\r\n\r\n", b"%s\n"):
        given = [form % json.dumps(document).encode() for document in documents]
        wanted = [
            form
            % json.dumps(document | {"model": "new"} if isinstance(document.get("model"), str) else document).encode()
            for document in documents
        ]
        for paths, border in itertools.product(((("model",),), (("model",), ("no", "model"))), (b"", b"\n\n")):
            border = border[:1] if form == b"%s\n" else border
            rename, at, found = FrameRenaming(Renaming(paths, "new"), border), 0, b""
            for size in (*sizes, len(given)):
                found += rename(b"".join(given[at : at + size]))
                at += size
            assert found == b"".join(wanted)


def test_frames_are_cut_where_they_end() -> None:
    """
    However the bytes arrive.
    """
    data = b"event: a\ndata: 1\n\ndata: 2\r\n\r\n: ping\n\ndata: 3"
    for size in (1, 3, 100):
        cutter = Cutter("text/event-stream")
        cut = [cutter.feed(data[at : at + size]) for at in range(0, len(data), size)]
        assert b"".join(cut) == b"event: a\ndata: 1\n\ndata: 2\r\n\r\n: ping\n\n"
        assert all(piece == b"" or piece.endswith((b"\n\n", b"\r\n\r\n")) for piece in cut)
        assert cutter.close() == b"data: 3"


@pytest.mark.parametrize("border", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_an_opening_event_that_comes_twice_is_sent_once(border: bytes) -> None:
    """
    Whatever is between the two, also in another piece of the stream; texts that name the event stay.
    """
    opening = b'event: item.added\rdata: {"type":"item.added","index":0}'.replace(b"\r", border[:-1][-1:]) + border
    other = b'data: {"type":"delta","delta":"item.added, \\"type\\":\\"item.added\\""}' + border
    seen = set[bytes]()
    first = without_repeats(other + opening + other + opening + other, "text/event-stream", b"item.added", seen)
    assert first == other + opening + other + other
    assert other + other == without_repeats(other + opening + other, "text/event-stream", b"item.added", seen)


HALF = "The first half of a sentence"


def shown(api: str, body: bytes) -> il.AssistantMessage:
    """What a client of a wire makes of a stream."""
    codec = il.dialect(api)
    decoder, frames = codec.StreamDecoder(), codec.framing()
    events = [event for frame in (*frames.feed(body), *frames.close()) for event in decoder.feed(frame)]
    return il.fold([*events, *decoder.close()])


CALLS = {
    "openai-completions": ("/v1/chat/completions", BODY),
    "openai-responses": ("/v1/responses", {"model": "chain", "input": "Hi"}),
    "anthropic-messages": ("/v1/messages", BODY),
    "google-generative-ai": (
        "/v1beta/models/chain:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    ),
    "bedrock-converse-stream": (
        "/model/chain/converse-stream",
        {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
    ),
    "ollama-chat": ("/api/chat", {"model": "chain", "messages": [{"role": "user", "content": "Hi"}]}),
}


def streamed(api: str) -> tuple[str, dict[str, Any]]:
    path, body = CALLS[api]
    return path, {**body, "stream": True} if "model" in body else dict(body)


class Seen:
    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    async def observe(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)


@pytest.mark.parametrize(
    "fault",
    [faults.Cut(after_events=6), faults.ErrorEvent(il.Overloaded("busy"), after_events=6), faults.NoTerminal()],
    ids=["cut", "error event", "no end"],
)
@pytest.mark.parametrize("api", CALLS)
async def test_a_stream_that_breaks_goes_on_with_another_model_where_the_alias_allows_it(
    api: str, fault: faults.Fault
) -> None:
    """
    The client sees one answer with one end; the second model got the beginning, and the books have both.
    """
    seen = Seen()
    with Server(strict=True, chunk=4) as first, Server(strict=True) as second:
        first.say(HALF, thinking="Hm.", fault=fault)
        second.say(" and the other.")
        path, body = streamed(api)
        async with Gateway(chained(first, second, continues=True), observers=[seen]) as gateway:
            status, got = await posted(gateway, path, body)
        request = second.last.request
    answer = shown(api, got)
    assert (status, answer.stop_reason) == (200, "stop"), got
    assert answer.text.endswith(" and the other.")
    beginning = answer.text.removesuffix(" and the other.")
    assert beginning and HALF.startswith(beginning.strip())
    assert request is not None
    (given,) = [message for message in request.context.messages if isinstance(message, il.AssistantMessage)]
    assert given.text == beginning
    (exchange,) = seen.exchanges
    assert exchange.model is not None and exchange.model.provider == "two"
    assert [one.model.provider for one in exchange.earlier] == ["one"]
    assert exchange.answer is not None and exchange.answer.text == answer.text
    assert exchange.usage is not None and exchange.is_estimated
    assert exchange.usage.output >= exchange.earlier[0].usage.output > 0
    assert any("went on" in loss.why for loss in exchange.losses)


@pytest.mark.parametrize("api", CALLS)
async def test_a_stream_that_breaks_ends_in_the_clients_error_where_nobody_may_go_on(api: str) -> None:
    """
    The alias does not allow it, a call has been seen, or a schema must be matched: one stream, ended by an error.
    """
    call = il.ToolCall(id="call_1", name="weather", arguments={"city": "Paris of the far north"})
    path, body = streamed(api)
    for blocks, continues in (([il.TextBlock(text=HALF)], False), ([il.TextBlock(text="Look:"), call, call], True)):
        with Server(strict=True, chunk=4) as first, Server(strict=True) as second:
            first.answer(blocks, fault=faults.NoTerminal())
            second.say("Not me.")
            async with Gateway(chained(first, second, continues=continues)) as gateway:
                status, got = await posted(gateway, path, body)
            assert second.requests == []
        assert (status, shown(api, got).stop_reason) == (200, "error"), got


async def test_everybody_who_goes_on_may_break_as_well() -> None:
    """
    Three models give one answer; where the last breaks too, the stream ends in an error and keeps what came.
    """
    seen = Seen()
    with Server(strict=True, chunk=4) as first, Server(strict=True, chunk=4) as second:
        first.say("One, two, ", fault=faults.NoTerminal())
        second.say("three, four, ", fault=faults.NoTerminal())
        settings = chained(first, second, continues=True)
        (alias,) = settings.aliases
        third = (*alias.fallbacks, Target(model="one/test-reasoner", context_window=200_000))
        settings = replace(settings, aliases=(replace(alias, fallbacks=third),))
        async with Gateway(settings, observers=[seen]) as gateway:
            first.say("five, ", fault=faults.NoTerminal())
            _, broken = await posted(gateway, "/v1/messages", {**BODY, "stream": True})
            first.clear()
            second.clear()
            first.say("One, two, ", fault=faults.NoTerminal(), times=1)
            second.say("three, four, ", fault=faults.NoTerminal())
            first.say("five.")
            _, whole = await posted(gateway, "/v1/messages", {**BODY, "stream": True})
    answer = shown("anthropic-messages", whole)
    assert (answer.text, answer.stop_reason) == ("One, two, three, four, five.", "stop")
    assert [block.text for block in blocks_of(answer.content)] == ["One, two, ", "three, four, ", "five."]
    assert shown("anthropic-messages", broken).stop_reason == "error"
    assert seen.exchanges[0].answer is not None
    assert seen.exchanges[0].answer.text == "One, two, three, four, five, "


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("begins", [False, True])
async def test_a_stream_that_breaks_at_an_empty_step_goes_on(begins: bool, ends: bool) -> None:
    """
    A step of the Interactions API in which nothing has come is no content that another model could not continue.
    """
    events: list[dict[str, Any]] = [
        {"event_type": "interaction.created", "interaction": {"id": "int_1", "status": "in_progress", "model": "m"}}
    ]
    if begins:
        step = {"type": "model_output", "content": [{"type": "text", "text": HALF}]}
        events += [{"event_type": "step.start", "index": 0, "step": step}, {"event_type": "step.stop", "index": 0}]
    events += [{"event_type": "step.start", "index": 1, "step": {"type": "model_output"}}]
    events += [{"event_type": "step.stop", "index": 1}] if ends else []

    async def provider(http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(http)
        for event in events:
            await response.write(f"event: {event['event_type']}\ndata: {json.dumps(event)}\n\n".encode())
        return response

    app = web.Application()
    app.router.add_post("/{path:.*}", provider)
    with Server(strict=True) as second:
        async with TestServer(app) as host:
            settings = chained(second, second, continues=True)
            first = ProviderSettings(id="one", api="google-interactions", base_url=f"{host.make_url('/v1beta')}")
            second.say(" and the other.")
            async with Gateway(replace(settings, providers=(first, settings.providers[1]))) as gateway:
                status, got = await posted(gateway, "/v1/messages", {**BODY, "stream": True})
    answer = shown("anthropic-messages", got)
    assert (200, "stop") == (status, answer.stop_reason), got
    assert (HALF if begins else "") + " and the other." == answer.text


@pytest.mark.parametrize("kind", ["msg_{}", "rs_{}", "item_{}", "item_" + "0" * 30 + "{}"])
async def test_items_of_a_continued_stream_have_different_ids(kind: str) -> None:
    """
    Two hosts of the Responses API may number their items alike. The events of an item, the whole response and what is
    referred to later agree.
    """

    api = "openai-responses"

    def item(block: Any, at: int) -> Any:
        return replace(block, extra={api: {"id": kind.format(at)}})

    search = ServerToolCall(id=kind.format(1), name="web_search", extra={api: {"type": "web_search_call"}})
    with Server(strict=True, chunk=4) as first, Server(strict=True, chunk=4) as second:
        settings = chained(first, second, continues=True)
        providers = tuple(
            replace(one, api=api, base_url=server.base_url(api))
            for one, server in zip(settings.providers, (first, second), strict=True)
        )
        settings = replace(settings, providers=providers)
        hm, so = item(il.ThinkingBlock(thinking="Hm."), 0), item(il.ThinkingBlock(thinking="So."), 0)
        first.answer([hm, item(il.TextBlock(text=HALF), 1)], fault=faults.NoTerminal())
        second.answer([so, search, item(il.TextBlock(text=" and the other."), 2)])
        async with Gateway(settings) as gateway:
            path, body = streamed(api)
            _, got = await posted(gateway, path, body)
            events = [json.loads(line[6:]) for line in got.splitlines() if line.startswith(b"data: {")]
            response = events[-1]["response"]
            second.clear()
            references = [{"type": "item_reference", "id": item["id"]} for item in response["output"]]
            again = {"model": "two/test-model", "input": [*references, {"role": "user", "content": "And?"}]}
            status, _ = await posted(gateway, path, again)
            async with aiohttp.ClientSession() as session:
                kept = await (await session.get(f"{gateway.url}{path}/{response['id']}")).json()
            request = second.last.json if 200 == status else {}
    assert "response.completed" == events[-1]["type"], events[-1]
    ids = [item["id"] for item in response["output"]]
    assert 5 == len(ids) == len(set(ids))
    for name in ("response.output_item.added", "response.output_item.done"):
        assert ids == [event["item"]["id"] for event in events if name == event["type"]]
    assert all(ids[event["output_index"]] == event["item_id"] for event in events if "item_id" in event)
    assert ids == [item["id"] for item in kept["output"]]
    if 20 <= len(kind.format(0)):  # shorter ones are not unique, and no references
        assert "item_reference" not in json.dumps(request) and HALF in json.dumps(request)


async def test_an_unknown_model_is_refused_without_a_search_for_suggestions(upstream: Server) -> None:
    """
    The client gets none. Whoever asks again and again for a model that does not exist would hold up all streams.
    """
    searched: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and Path(frame.f_code.co_filename).name in ("difflib.py", "prices.py"):
            searched.append(frame.f_code.co_qualname)

    async with Gateway(settings_for(upstream)) as gateway:
        for number in range(2):  # the first one reads the lists
            sys.setprofile(note if number else None)
            try:
                status, _ = await posted(gateway, "/v1/messages", {**BODY, "model": f"no-such-model-{number}"})
            finally:
                sys.setprofile(None)
            assert 404 == status
    assert len(searched) < 5000, Counter(searched).most_common(5)
