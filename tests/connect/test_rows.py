"""Every row of the providers' table, and every route of a row, does all that a connector does. The server is real."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from connect.asking import PLACES, PNG, REPORTED_COST, UNKNOWN, Place, ask, asked_of, events_of
from interlingua.connect import models as catalogue
from interlingua.connect.client import Client, builtin_connectors
from interlingua.connect.providers import ROWS, Provider, Setting
from interlingua.testing import Server, Stall
from interlingua.values.errors import Aborted
from interlingua.values.events import Error, TextDelta, ThinkingDelta, ThinkingEnd, ToolCallEnd, ToolCallStart
from interlingua.values.messages import text_of
from laws.grammar import faults

everywhere = pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)

LOOK_UP = il.ToolSpec(
    name="look_up",
    description="Looks a word up.",
    input_schema={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
# No wire takes a name like this one.
READ_ALL = il.ToolSpec(name="files: read all", description="Reads.", input_schema={"type": "object", "properties": {}})


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(chunk=6) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.clear()
    return running


def test_the_table_names_every_provider_once() -> None:
    """And each row speaks a wire that exists."""
    ids = [row.id for row in ROWS]
    assert sorted(set(ids)) == sorted(ids)
    wanted = "anthropic openai openai-chat azure-openai-responses openai-codex amazon-bedrock google google-vertex \
        google-gemini-cli google-interactions openrouter ollama cohere mistral groq cerebras xai deepseek together \
        fireworks huggingface \
        github-copilot vercel-ai-gateway minimax kimi-coding zai openai-compatible anthropic-compatible"
    assert set() == set(wanted.split()) - set(ids)


@everywhere
async def test_text_streams(server: Server, place: Place) -> None:
    """Words arrive as they were said, in one well-formed stream that knows who spoke."""
    text = "Good morning, and welcome to Oslo: 12° and “sunny”."
    server.say(text)
    stream = ask(server, place, "Weather?")
    events = await events_of(stream)
    message = await stream.result()
    deltas = [event.delta for event in events if isinstance(event, TextDelta)]
    assert [] == faults(events)
    assert text == "".join(deltas) and len(deltas) > 1
    assert ("stop", None, None) == (message.stop_reason, message.error_message, stream.failure)
    assert (place.row.id, place.model, place.api) == (message.provider, message.model, message.api)
    assert not any(isinstance(event, ToolCallStart) for event in events)


@everywhere
async def test_thinking_streams_before_the_answer(server: Server, place: Place) -> None:
    """Thoughts are a block of their own, closed before the words begin."""
    server.say("Twelve.", thinking="Five and seven make twelve.")
    stream = ask(server, place, "Five and seven?", reasoning="high")
    events = await events_of(stream)
    thoughts = [at for at, event in enumerate(events) if isinstance(event, ThinkingDelta)]
    (closed,) = [at for at, event in enumerate(events) if isinstance(event, ThinkingEnd)]
    spoken = [at for at, event in enumerate(events) if isinstance(event, TextDelta)]
    assert [] == faults(events)
    assert "Five and seven make twelve." == "".join(events[at].delta for at in thoughts)  # type: ignore[union-attr]
    assert max(thoughts) < closed < min(spoken)
    message = await stream.result()
    assert [il.ThinkingBlock, il.TextBlock] == [type(block) for block in message.content]


@everywhere
async def test_parallel_calls_stream_under_the_tools_own_names(server: Server, place: Place) -> None:
    """Also where the wire must call a tool otherwise: in every event, every partial message and the result."""
    server.answer(_call_each_tool)
    stream = ask(server, place, il.Context(messages=(il.UserMessage(content="Go"),), tools=(LOOK_UP, READ_ALL)))
    names: list[str] = []
    events = []
    async for event in stream:
        events.append(event)
        if isinstance(event, ToolCallStart):
            assert event.block is not None and event.partial is not None
            names += [event.block.name, event.partial.content[event.content_index].name]  # type: ignore[union-attr]
        if isinstance(event, ToolCallEnd):
            names.append(event.tool_call.name)
    assert [] == faults(events)
    assert {"look_up", "files: read all"} == set(names)
    message = await stream.result()
    calls = [block for block in message.content if isinstance(block, il.ToolCall)]
    wanted = [("look_up", {"word": "a", "n": 1}), ("files: read all", {"word": "b", "n": 2})]
    assert wanted == [(call.name, call.arguments) for call in calls]
    assert "toolUse" == message.stop_reason
    assert 2 == len({call.id for call in calls}) and all(call.id for call in calls)
    sent = asked_of(server)
    assert sent.context.tools is not None
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name) for tool in sent.context.tools)


def _call_each_tool(request: il.Request) -> list[il.ToolCall]:
    return [
        il.ToolCall(id=f"call_{n}", name=tool.name, arguments={"word": word, "n": n})
        for n, (tool, word) in enumerate(zip(request.context.tools or (), "ab", strict=True), 1)
    ]


@everywhere
async def test_system_text_image_and_tools_arrive(server: Server, place: Place) -> None:
    """What the server reads is what was asked."""
    question = il.UserMessage(
        content=(il.TextBlock(text="What is this?"), il.ImageBlock(data=PNG, mime_type="image/png"))
    )
    context = il.Context(system="Be brief.", messages=(question,), tools=(LOOK_UP,))
    await ask(server, place, context, max_tokens=321, temperature=0.5).result()
    sent = asked_of(server)
    assert sent.context.tools is not None
    assert "Be brief." == sent.context.system_prompt
    (received,) = sent.context.messages
    assert isinstance(received.content, tuple)
    images = [block for block in received.content if isinstance(block, il.ImageBlock)]
    assert [PNG] == [image.data for image in images]
    assert ["What is this?"] == [block.text for block in received.content if isinstance(block, il.TextBlock)]
    (tool,) = sent.context.tools
    assert ("look_up", "Looks a word up.") == (tool.name, tool.description)
    assert {"word": {"type": "string"}} == tool.input_schema["properties"]
    if place.api != "openai-codex-responses":  # it knows no such limits
        assert (321, 0.5) == (sent.options.max_tokens, sent.options.temperature)


@everywhere
async def test_a_tools_result_goes_back_in_its_place(server: Server, place: Place) -> None:
    """Three turns arrive in their order, the result under the id of its call."""
    history = (
        il.UserMessage(content="What does ‘il’ mean?"),
        il.AssistantMessage(
            content=(il.ToolCall(id="call_abcdefghijkl", name="look_up", arguments={"word": "il"}),),
            stop_reason="toolUse",
        ),
        il.ToolResultMessage(
            tool_call_id="call_abcdefghijkl",
            tool_name="look_up",
            content=(il.TextBlock(text="A pronoun."),),
            is_error=False,
        ),
    )
    server.say("It is a pronoun.")
    stream = ask(server, place, il.Context(messages=history, tools=(LOOK_UP,)))
    assert "It is a pronoun." == text_of((await stream.result()).content)
    sent = asked_of(server)
    question, called, tool_result = sent.context.messages
    assert "What does ‘il’ mean?" == text_of(question.content)
    assert isinstance(called, il.AssistantMessage) and isinstance(tool_result, il.ToolResultMessage)
    (call,) = [block for block in called.content if isinstance(block, il.ToolCall)]
    assert ("look_up", {"word": "il"}) == (call.name, call.arguments)
    assert call.id == tool_result.tool_call_id
    assert "A pronoun." == text_of(tool_result.content)


REFUSALS = {
    "a wrong key": (il.AuthFailed("no such key", status=401), il.AuthFailed),
    "too many requests": (il.RateLimited("slow down", status=429, retry_after=7), il.RateLimited),
    "a failure of its own": (il.ProviderError("we are sorry", status=500), il.ProviderError),
    "too much load": (il.Overloaded("come back later", status=503), il.Overloaded),
    "too long a prompt": (il.ContextTooLong("prompt is too long: 9 > 8 maximum", status=400), il.ContextTooLong),
    "a bad request": (il.BadRequest("there is no such field", status=400), il.BadRequest),
}


@pytest.mark.parametrize("why", REFUSALS)
@everywhere
async def test_an_error_answer_is_a_typed_error(server: Server, place: Place, why: str) -> None:
    """It ends the stream as its last event; `complete` would raise it, with the message so far."""
    refusal, kind = REFUSALS[why]
    server.answer(refusal)
    stream = ask(server, place, "Hello?")
    events = await events_of(stream)
    assert [] == faults(events) and isinstance(events[-1], Error)
    assert type(stream.failure) is kind and isinstance(stream.failure, il.ProviderError)
    assert refusal.status == stream.failure.status
    message = stream.failure.message
    assert message.endswith(refusal.message)  # behind the terms of its wire, if they are others
    assert refusal.retry_after == stream.failure.retry_after
    assert stream.failure.partial == await stream.result() == events[-1].error
    assert ("error", message, ()) == (
        events[-1].error.stop_reason,
        events[-1].error.error_message,
        events[-1].error.content,
    )
    assert 1 == len(server.requests)


# The wires' own words for an answer that a filter broke off. Ollama has none.
DECLINED = {
    "anthropic-messages": "refusal",
    "openai-completions": "content_filter",
    "openai-responses": "content_filter",
    "azure-openai-responses": "content_filter",
    "openai-codex-responses": "content_filter",
    "google-generative-ai": "SAFETY",
    "google-vertex": "SAFETY",
    "google-gemini-cli": "SAFETY",
    "bedrock-converse-stream": "content_filtered",
}


@pytest.mark.parametrize("place", [p for p in PLACES if p.api in DECLINED], ids=lambda place: place.name)
async def test_an_answer_that_a_filter_broke_off_keeps_what_was_said(server: Server, place: Place) -> None:
    """The error is `ContentFiltered`; its `partial` holds the words before it."""
    half = (il.TextBlock(text="First you take"),)
    server.answer(il.AssistantMessage(content=half, stop_reason="error", stop_detail=DECLINED[place.api]))
    with pytest.raises(il.ContentFiltered) as caught:
        options = {"api_key": "key-1", "base_url": server.base_url(place.api), "retry": 0}
        await Client().complete(place.name, "How?", **options)
    assert ("First you take", "error") == (
        text_of(caught.value.partial.content),
        caught.value.partial.stop_reason,
    )
    assert DECLINED[place.api] == caught.value.code


@everywhere
async def test_usage_adds_up_and_an_unknown_price_is_no_price(server: Server, place: Place) -> None:
    """`totalTokens` is the sum of the buckets; what an unknown model costs is unknown, unless the provider tells."""
    server.answer(
        il.AssistantMessage(content=(il.TextBlock(text="Hi"),), usage=il.Usage.of(30, 12, cache_read=0, cache_write=0))
    )
    usage = (await ask(server, place._replace(model=_unknown(place)), "Hello").result()).usage
    assert usage is not None
    assert (30, 12) == (usage.input + usage.cache_read + usage.cache_write, usage.output)
    assert 42 == usage.total_tokens
    reported = REPORTED_COST if place.row.reports_cost else None
    assert reported == (usage.cost.total if usage.cost else None)


def _unknown(place: Place) -> str:
    """A model of the same route that no list of prices has."""
    return place.model if place.model == UNKNOWN else f"{place.model}4-{UNKNOWN}"


PRICED = [
    Place(row, model.id)
    for row in ROWS
    for model in [next((m for m in catalogue.models(row.id) if m.cost and m.cost.input and m.cost.output), None)]
    if model is not None and not row.reports_cost
]


@pytest.mark.parametrize("place", PRICED, ids=lambda place: place.name)
async def test_a_known_price_is_told_in_dollars(server: Server, place: Place) -> None:
    """Each part and the whole, for a model that the catalogue knows."""
    server.answer(il.AssistantMessage(content=(il.TextBlock(text="Hi"),), usage=il.Usage.of(1000, 100)))
    usage = (await ask(server, place, "Hello").result()).usage
    assert usage is not None and usage.cost is not None
    assert usage.cost.total is not None and usage.cost.total > 0
    assert usage.cost.input is not None and usage.cost.output is not None
    assert pytest.approx(usage.cost.total) == usage.cost.input + usage.cost.output


def test_most_providers_have_prices() -> None:
    """So that the test above does not pass by testing nothing."""
    assert len(PRICED) >= 12


@everywhere
async def test_abort_keeps_what_had_come(server: Server, place: Place) -> None:
    """The stream ends at once, as aborted, with the words so far; the server sees the connection close."""
    text = "A very long story that nobody will ever hear to its end, since it stops. " * 3
    server.say(text, fault=Stall(after_events=9))
    signal = il.Abort()
    stream = ask(server, place, "Tell me", signal=signal)
    events = []
    async for event in stream:
        events.append(event)
        if isinstance(event, TextDelta):
            signal.abort("enough")
    message = await stream.result()
    received = text_of(message.content)
    assert [] == faults(events)
    assert ("aborted", "aborted") == (message.stop_reason, getattr(events[-1], "reason", None))
    assert isinstance(stream.failure, Aborted) and "enough" == stream.failure.reason
    assert received and text.startswith(received) and received != text
    assert stream.failure.partial == message
    await server.disconnected()


MADE_UP = Provider(
    id="made-up",
    label="A host that speaks the chat wire, almost",
    api="openai-completions",
    base_url="{where}/openai-completions/v1",
    settings={"where": Setting(("MADE_UP_URL",))},
    env=("MADE_UP_KEY",),
    headers={"X-Client": "interlingua"},
    compat={"maxTokensField": "max_tokens", "seedField": "random_seed", "supportsDeveloperRole": False},
    body={"safe_prompt": True},
)


async def test_a_new_provider_is_one_row(server: Server) -> None:
    """Address, key, headers, quirks and body are all told by data."""
    client = Client(connectors=builtin_connectors(rows=(MADE_UP,)))
    server.say("Hello from nowhere.")
    answer = await client.complete(
        "made-up/model-1",
        il.Context(system="Be brief.", messages=(il.UserMessage(content="Hi"),)),
        env={"MADE_UP_URL": server.url, "MADE_UP_KEY": "made-up-key"},
        max_tokens=64,
        seed=7,
    )
    assert ("Hello from nowhere.", "made-up") == (text_of(answer.content), answer.provider)
    sent, body = server.last.headers, server.last.json
    assert ("Bearer made-up-key", "interlingua") == (sent["Authorization"], sent["X-Client"])
    settings: dict[str, Any] = {
        "model": "model-1",
        "max_tokens": 64,
        "random_seed": 7,
        "safe_prompt": True,
        "stream": False,
    }
    assert settings == {name: body.get(name) for name in settings}
    assert "system" == body["messages"][0]["role"]


PAGE = Path(__file__).parents[2] / "docs/connectors.md"


def table() -> str:
    """The rows for readers."""
    lines = ["| Provider | Who | Wire | Key |", "| --- | --- | --- | --- |"]
    for row in ROWS:
        wires = dict.fromkeys((row.api, *(route.api for route in row.routes)))
        key = ", ".join(f"`{name}`" for name in row.env) or ("none needed" if row.keyless else "a login")
        lines.append(f"| `{row.id}` | {row.label} | {', '.join(f'`{wire}`' for wire in wires)} | {key} |")
    return "\n".join(lines)


def test_the_table_of_providers_in_the_documentation_is_this_one() -> None:
    """A new row is documented by being one."""
    assert table() in PAGE.read_text(), f"{PAGE.name} is out of date: run `make docs`"


async def test_a_provider_can_be_written_into_the_users_own_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that the documentation shows, with the address of this server."""
    (shown,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    notes = shown.replace("http://10.0.0.7:8000/v1", server.base_url("openai-completions"))
    (tmp_path / "models.toml").write_text(notes)
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    server.say("From below.")
    answer = await Client().complete("default", "Hi", env={"BASEMENT_KEY": "key-1"}, max_tokens=5)
    assert ("From below.", "basement", "qwen3-32b") == (text_of(answer.content), answer.provider, answer.model)
    assert ("Bearer key-1", 5) == (server.last.headers["Authorization"], server.last.json["max_tokens"])
