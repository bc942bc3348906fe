"""The debug provider: the models that clawtools users know, habits of its own, scripts, and recordings."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from connect.talking import events_of
from interlingua.connect.client import Client
from interlingua.connect.debug import (
    ECHOES,
    RESPONDERS,
    DebugConnector,
    ScriptedCall,
    Step,
    last_user_text,
    least,
    string_hash,
)
from interlingua.connect.registry import ConnectorRegistry
from interlingua.dialects.files import clawtools
from interlingua.values.events import Done, Error, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallEnd, ToolCallStart
from interlingua.values.request import ModelCost
from laws.grammar import faults

CLAW = "clawfice-debug"


def context(
    text: Any = "Hello!", *, system: str | None = None, tools: tuple[il.ToolSpec, ...] | None = None
) -> il.Context:
    return il.Context(system=system, messages=(il.UserMessage(content=text),), tools=tools)


async def answer_of(model: str, asked: Any = "Hello!", **how: Any) -> il.AssistantMessage:
    return await Client().complete(model, asked, **how)


async def played(script: Any, asked: Any = "Hi", *, model: str = "debug/script", **how: Any) -> tuple[Any, list[Any]]:
    client = Client(connectors=ConnectorRegistry([DebugConnector(script)]))
    stream = client.stream(model, asked, retry=0, **how)
    events = await events_of(stream)
    assert [] == faults(events)
    return stream, events


# --- the eight models -------------------------------------------------------------------------------------------------


def test_there_are_eight_models_as_clawtools_has_them() -> None:
    """Under their provider, api and address; text only, free, and only one of them thinks."""
    connector = DebugConnector(provider=CLAW, label="Clawfice Debug Providers")
    assert ("builtin/clawfice-debug", "Clawfice Debug Providers", CLAW, CLAW, ()) == (
        connector.id,
        connector.label,
        connector.provider,
        connector.api,
        connector.env_vars,
    )
    names = "dummy-echo-1 sys-echo-1 parrot-1 silent-1 upper-parrot-1 tagged-parrot-1 inspect-echo-1 thinking-stream-1"
    assert names.split() == [model.id for model in connector.models] == [*ECHOES]
    free = ModelCost(input=0, output=0, cache_read=0, cache_write=0)
    for model in connector.models:
        assert (CLAW, f"local://{CLAW}", ("text",), 100_000, 16_000, free) == (
            model.api,
            model.base_url,
            model.input,
            model.context_window,
            model.max_tokens,
            model.cost,
        )
        assert (model.id == "thinking-stream-1") == model.reasoning


@pytest.mark.parametrize(
    ("text", "hash", "index"), [("", 0, 0), ("hi", 3329, 4), ("hello", 99162322, 2), ("Hello!", -2137068113, 3)]
)
def test_the_hash_is_that_of_clawtools(text: str, hash: int, index: int) -> None:
    """Signed, 32 bits, over UTF-16 units."""
    assert (hash, index) == (string_hash(text), abs(string_hash(text)) % 5)


def test_the_hash_counts_utf16_units() -> None:
    """A character beyond the first plane is two, and an unpaired surrogate one."""
    assert 0xD83D * 31 + 0xDE00 == string_hash("😀")
    assert 0xD83D == string_hash("\ud83d")


@pytest.mark.parametrize("model", [*ECHOES])
@pytest.mark.parametrize("provider", [CLAW, "debug"])
async def test_each_of_the_eight_streams_start_to_stop_the_same_each_time(model: str, provider: str) -> None:
    """In clawtools' own events: start, one delta, its end, done; the thinking model first thinks in eight pieces."""
    events = await events_of(Client().stream(f"{provider}/{model}", "Hello!"))
    assert [] == faults(events)
    projected = [out for out in map(clawtools.project, events) if out is not None]
    thinking = ["thinking_delta"] * 8 + ["thinking_end"] if model == "thinking-stream-1" else []
    texts = ["text_delta"] * (3 if thinking else 1) + ["text_end"]
    assert ["start", *thinking, *texts, "done"] == [out["type"] for out in projected]
    assert "stop" == projected[-1]["stopReason"]
    assert projected[-1]["usage"]["inputTokens"] >= 0
    again = await events_of(Client().stream(f"{provider}/{model}", "Hello!"))
    assert projected == [out for out in map(clawtools.project, again) if out is not None]


@pytest.mark.parametrize(
    ("model", "asked", "reply"),
    [
        ("parrot-1", "Hello there", "Hello there"),
        ("silent-1", "Hello there", "(silent)"),
        ("upper-parrot-1", "Hello ß", "HELLO SS"),
        ("tagged-parrot-1", "Hello there", "[relay] Hello there"),
    ],
)
async def test_the_parrots(model: str, asked: str, reply: str) -> None:
    """What they repeat."""
    assert reply == (await answer_of(f"{CLAW}/{model}", asked)).text


async def test_the_echo_acknowledges_and_quotes() -> None:
    """One of five sentences by the hash of the text, a blank line, the quotation; an unknown id does the same."""
    firsts = {}
    for text in ("", "hi", "hello", "Hello!"):
        reply = (await answer_of(f"{CLAW}/dummy-echo-1", text)).text
        first, blank, quoted = reply.split("\n")
        assert ("", f'You said: "{text}"') == (blank, quoted)
        firsts[abs(string_hash(text)) % 5] = first
        assert reply == (await answer_of(f"{CLAW}/no-such-model", text)).text
    assert 4 == len(set(firsts.values()))


TOOLS = (
    il.ToolSpec(name="look", description="Looks.", input_schema={"type": "object", "properties": {}}),
    il.ToolSpec(name="go", input_schema={"type": "object", "properties": {}}),
)


async def test_the_system_echo() -> None:
    """The prompt, trimmed, and the tools with their number; placeholders where there are none."""
    full = (await answer_of(f"{CLAW}/sys-echo-1", context(system="  Be brief. ", tools=TOOLS))).text
    assert "\nBe brief.\n" in full
    assert "Tools (2):\n- look: Looks.\n- go" in full
    bare = (await answer_of(f"{CLAW}/sys-echo-1", context())).text
    assert "(no system prompt)" in bare
    assert "Tools (0)" in bare
    assert "(no system prompt)" not in (await answer_of(f"{CLAW}/sys-echo-1", context(system=""))).text


async def test_the_inspector() -> None:
    """Four lines, exactly."""
    text = (await answer_of(f"{CLAW}/inspect-echo-1", context("Look", system="s", tools=TOOLS))).text
    assert [
        "[inspect] messages: 1",
        "[inspect] last_user: Look",
        "[inspect] tools: look, go",
        "[inspect] has_system_prompt: yes",
    ] == text.split("\n")
    bare = (await answer_of(f"{CLAW}/inspect-echo-1", context("Look"))).text
    assert ["[inspect] tools: (none)", "[inspect] has_system_prompt: no"] == bare.split("\n")[2:]


async def test_the_thinker_quotes_the_user_and_eighty_characters_of_the_system_prompt() -> None:
    """First in its thoughts, then in its answer."""
    message = await answer_of(f"{CLAW}/thinking-stream-1", context("Why?", system="s" * 100))
    assert 'The user asked: "Why?"' in message.thinking
    assert "s" * 80 in message.thinking
    assert "s" * 81 not in message.thinking
    assert "Why?" in message.text
    assert [il.ThinkingBlock, il.TextBlock] == [type(block) for block in message.content]


async def test_usage_is_a_quarter_of_the_characters_rounded_up() -> None:
    """System prompt and messages as JSON in, the reply out; the silent one read nothing."""
    asked = context("Hello!", system="Be brief.")
    read = len("Be brief.") + len(json.dumps([{"role": "user", "content": "Hello!"}], separators=(",", ":")))
    usage = (await answer_of(f"{CLAW}/parrot-1", asked)).usage
    assert usage is not None
    assert (math.ceil(read / 4), math.ceil(6 / 4), 0) == (usage.input, usage.output, usage.cost and usage.cost.total)
    silent = (await answer_of(f"{CLAW}/silent-1", asked)).usage
    assert silent is not None
    assert (0, 2) == (silent.input, silent.output)
    thought = await answer_of(f"{CLAW}/thinking-stream-1", asked)
    assert thought.usage is not None
    assert math.ceil((len(thought.text) + len(thought.thinking)) / 4) == thought.usage.output


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ((il.UserMessage(content="a"), il.UserMessage(content="b")), "b"),
        ((il.UserMessage(content=(il.TextBlock(text="x"), il.TextBlock(text="y"))),), "x"),
        ((il.UserMessage(content=(il.ImageBlock(data="AA==", mime_type="image/png"),)),), ""),
        ((il.UserMessage(content="a"), il.AssistantMessage(content="b")), "a"),
        ((), "(no message)"),
    ],
)
def test_the_last_user_text(messages: tuple[Any, ...], text: str) -> None:
    """The last message of the user: a string, or the first text of its blocks."""
    assert text == last_user_text(il.Context(messages=messages))


# --- habits of its own ------------------------------------------------------------------------------------------------

SEARCH = il.ToolSpec(
    name="search",
    description="Searches.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer"},
            "deep": {"type": "boolean"},
            "kind": {"enum": ["web", "news"]},
            "also": {"type": "string"},
        },
        "required": ["query", "limit", "deep", "kind"],
    },
)


async def test_the_caller_of_tools_calls_with_the_least_arguments_and_then_speaks() -> None:
    """As the schema asks; once there is a result, it says so."""
    asked = context("find it", tools=(SEARCH, *TOOLS))
    message = await answer_of("debug/tool-call-1", asked)
    (call,) = message.tool_calls
    assert ("toolUse", "search") == (message.stop_reason, call.name)
    assert {"query": "find it", "limit": 0, "deep": False, "kind": "web"} == call.arguments
    result = il.ToolResultMessage(tool_call_id=call.id, tool_name="search", content="found", is_error=False)
    after = il.Context(messages=(*asked.messages, message, result), tools=asked.tools)
    assert "All calls are answered." == (await answer_of("debug/tool-call-1", after)).text
    assert "There are no tools to call." == (await answer_of("debug/tool-call-1", "find it")).text


async def test_parallel_and_interleaved_calls() -> None:
    """All tools at once: one after the other, or a piece of each in turn, told apart by index and id."""
    asked = context("find it", tools=(SEARCH, SEARCH.__class__(name="fetch", input_schema=SEARCH.input_schema)))
    for model in ("parallel-tools-1", "interleaved-tools-1"):
        events = await events_of(Client().stream(f"debug/{model}", asked))
        assert [] == faults(events)
        assert ["search", "fetch"] == [call.name for call in il.fold(events).tool_calls]
        assert 2 == len({call.id for call in il.fold(events).tool_calls})
        deltas = [event.content_index for event in events if isinstance(event, ToolCallDelta)]
        assert (model == "interleaved-tools-1") == (deltas != sorted(deltas))


async def test_bad_arguments_are_told_and_never_executed() -> None:
    """The text that the model wrote is kept beside the error."""
    message = await answer_of("debug/bad-arguments-1", context("go", tools=TOOLS))
    (call,) = message.tool_calls
    assert ({}, '{"unfinished": ', True) == (call.arguments, call.arguments_text, bool(call.parse_error))


async def test_length_errors_and_slowness() -> None:
    """A stop for length; an error before and in the middle; a stream that can be watched."""
    assert "length" == (await answer_of("debug/length-1")).stop_reason
    with pytest.raises(il.Overloaded) as before:
        await answer_of("debug/error-1", retry=0)
    assert 529 == before.value.status
    with pytest.raises(il.ProviderError) as middle:
        await answer_of("debug/error-midstream-1", retry=0)
    assert "It began well, but" == middle.value.partial.text


async def test_a_slow_answer_can_be_aborted() -> None:
    """Between two deltas, at once; what was said is kept, with its usage."""
    signal = il.Abort()
    script = [Step(text=("One ", "two ", "three"), delay=0.05), "never"]
    client = Client(connectors=ConnectorRegistry([DebugConnector(script)]))
    stream = client.stream("debug/script", "Count", signal=signal)
    async for event in stream:
        if isinstance(event, TextDelta):
            signal.abort("enough")
    message = await stream.result()
    assert ("aborted", "One ", True) == (message.stop_reason, message.text, message.usage is not None)


async def test_an_answer_without_delays_can_be_aborted() -> None:
    """Although nothing in it ever waits: the signal is looked at before each delta."""
    signal = il.Abort()
    client = Client(connectors=ConnectorRegistry([DebugConnector([Step(text="x" * 1000, chunk=1)])]))
    stream = client.stream("debug/script", "Go", signal=signal)
    async for event in stream:
        if isinstance(event, TextDelta):
            signal.abort()
    assert ("aborted", True) == ((await stream.result()).stop_reason, len((await stream.result()).text) < 5)


async def test_leaving_a_slow_answer_ends_it_for_another_reader() -> None:
    """A delay does not hold up whoever closes the stream."""
    client = Client(connectors=ConnectorRegistry([DebugConnector([Step(text="x", delay=60)])]))
    stream = client.stream("debug/script", "Hi")
    reading = asyncio.create_task(events_of(stream))
    await asyncio.sleep(0.02)
    await stream.aclose()
    async with asyncio.timeout(60):
        assert [] == faults(await reading)


async def test_a_silence_longer_than_the_timeout_ends_it() -> None:
    """The same watch as over a network."""
    stream, _ = await played([Step(text="x", delay=60)], timeout=0.1)
    assert isinstance(stream.failure, il.TimedOut)


def test_the_least_value_of_a_schema() -> None:
    """Plain schemas; what is odd gives a text."""
    assert [0, 0, False, [], None, {}, "t", "d", 1, 5] == [
        least(schema, "t")
        for schema in (
            {"type": "integer"},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "array"},
            {"type": "null"},
            {"type": "object"},
            {"type": ["string", "null"]},
            {"type": "string", "default": "d"},
            {"const": 1},
            {"enum": [5, 6]},
        )
    ]
    assert "t" == least(None, "t")


def test_its_own_models_have_the_eight_and_more() -> None:
    """Listed under `debug`, which is the default where no key is found."""
    assert [*RESPONDERS] == [model.id for model in DebugConnector().models]
    assert set(ECHOES) < set(RESPONDERS)


# --- scripts ----------------------------------------------------------------------------------------------------------


async def test_a_script_answers_in_turn_by_what_the_context_holds() -> None:
    """So that a run taken up by another process goes on where it was."""
    script = ["first", Step(text="second"), il.AssistantMessage(content="third")]
    history: tuple[Any, ...] = ()
    for expected in ("first", "second", "third", "(the script has no more to say)"):
        history += (il.UserMessage(content="next"),)
        stream, _ = await played(script, list(history))
        message = await stream.result()
        assert expected == message.text
        history += (message,)


async def test_a_script_may_be_a_function_or_hold_functions() -> None:
    """Of the request."""
    stream, _ = await played(lambda request: f"you use {request.model.id}")
    assert "you use script" == (await stream.result()).text
    stream, _ = await played([lambda request: Step(text=last_user_text(request.context)[::-1])], "abc")
    assert "cba" == (await stream.result()).text


async def test_a_step_says_thinking_text_and_calls_in_pieces() -> None:
    """Pieces as given, or cut to size; usage as told."""
    step = Step(
        thinking=("Hm. ", "Well."),
        text="abcdef",
        chunk=4,
        calls=(ScriptedCall(name="look", arguments={"a": 1}), ScriptedCall(name="look", arguments={}, id="mine")),
        usage={"input": 7, "cacheRead": 3},
    )
    stream, events = await played([step])
    message = await stream.result()
    assert ["Hm. ", "Well."] == [event.delta for event in events if isinstance(event, ThinkingDelta)]
    assert ["abcd", "ef"] == [event.delta for event in events if isinstance(event, TextDelta)]
    assert [{"a": 1}, {}] == [call.arguments for call in message.tool_calls]
    assert "mine" == message.tool_calls[1].id
    assert (7, 3, "toolUse") == (message.usage.input, message.usage.cache_read, message.stop_reason)


async def test_interleaved_calls_overlap() -> None:
    """Both are open at once, and each ends whole."""
    step = Step(
        calls=(ScriptedCall(name="a", arguments={"x": "1" * 20}), ScriptedCall(name="b", arguments={"y": "2" * 20})),
        interleaved=True,
        chunk=6,
    )
    _, events = await played([step])
    kinds = [type(event) for event in events]
    assert kinds.index(ToolCallEnd) > len(kinds) - 1 - kinds[::-1].index(ToolCallStart)
    assert [{"x": "1" * 20}, {"y": "2" * 20}] == [call.arguments for call in il.fold(events).tool_calls]


@pytest.mark.parametrize(
    ("step", "kind", "text"),
    [
        (Step(error="no", status=401), il.AuthFailed, ""),
        (Step(error="later", status=429), il.RateLimited, ""),
        (Step(error="prompt is too long", status=400), il.ContextTooLong, ""),
        (Step(text="so far", error="broken"), il.ProviderError, "so far"),
        (il.ContentFiltered("not this"), il.ContentFiltered, ""),
    ],
    ids=["401", "429", "overflow", "midstream", "value"],
)
async def test_errors_in_a_script_are_typed(step: Any, kind: type, text: str) -> None:
    """As a provider's would be; after what was said before them."""
    stream, events = await played([step])
    assert kind is type(stream.failure)
    assert isinstance(events[-1], Error)
    assert text == (await stream.result()).text


async def test_the_stop_of_a_step_is_the_provider_s_word() -> None:
    """`length` is length; another word is kept beside the reason."""
    stream, _ = await played([Step(text="x", stop="length")])
    assert "length" == (await stream.result()).stop_reason
    stream, _ = await played([Step(text="x", stop="end_turn")])
    assert ("stop", "end_turn") == ((await stream.result()).stop_reason, (await stream.result()).stop_detail)


async def test_a_script_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`script:FILE`, or the variable; a list of strings and steps."""
    path = tmp_path / "script.json"
    path.write_text(
        json.dumps(["plain", {"text": ["two ", "pieces"], "calls": [{"name": "look", "arguments": {"a": 1}}]}])
    )
    assert "plain" == (await answer_of(f"debug/script:{path}", "Hi")).text
    history = [il.UserMessage(content="Hi"), il.AssistantMessage(content="plain"), il.UserMessage(content="On")]
    message = await answer_of(f"debug/script:{path}", history)
    assert ("two pieces", {"a": 1}) == (message.text, message.tool_calls[0].arguments)
    monkeypatch.setenv("INTERLINGUA_DEBUG_SCRIPT", str(path))
    assert "plain" == (await answer_of("debug/script", "Hi")).text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot read"),
        ('{"text": "x"}', "use a JSON list"),
        ('[{"txet": "x"}]', "not a step of a debug script.*txet"),
        ("[1, 2", "JSON"),
    ],
)
async def test_a_script_that_is_none_is_explained(tmp_path: Path, content: str | None, says: str) -> None:
    """In the stream; with the place."""
    path = tmp_path / "script.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(il.InterlinguaError, match=says):
        await answer_of(f"debug/script:{path}", "Hi")


async def test_without_a_script_it_says_how_to_name_one() -> None:
    """The variable is in the error."""
    with pytest.raises(il.InterlinguaError, match="INTERLINGUA_DEBUG_SCRIPT"):
        await answer_of("debug/script", "Hi")


async def test_what_a_script_s_function_raises_arrives_in_the_stream() -> None:
    """A mistake in a test's own function is not thrown out of the loop."""

    def fail(request: Any) -> str:
        raise ZeroDivisionError("mine")

    stream, _ = await played(fail)
    assert "mine" in str(stream.failure)


# --- recordings -------------------------------------------------------------------------------------------------------

RECORDED = il.Conversation(
    entries=tuple(
        il.Entry(message=message)
        for message in (
            il.UserMessage(content="What is it?"),
            il.AssistantMessage(
                content=(il.TextBlock(text="Let me look."), il.ToolCall(id="c1", name="look", arguments={"at": "it"})),
                stop_reason="toolUse",
            ),
            il.ToolResultMessage(tool_call_id="c1", tool_name="look", content="a cat", is_error=False),
            il.AssistantMessage(content=(il.TextBlock(text="It is a cat."),), stop_reason="stop"),
        )
    )
)


@pytest.mark.parametrize(
    "dialect",
    ["anthropic-messages", "openai-completions", "openai-responses", "google-generative-ai", "openclaw", "clawtools"],
)
async def test_a_recorded_conversation_is_replayed(tmp_path: Path, dialect: str) -> None:
    """In whatever dialect it was kept: its answers come again, in their order, as streams."""
    path = tmp_path / "recorded"
    path.write_bytes(il.encode(RECORDED, dialect).bytes())
    client = Client()
    first = await client.complete(f"debug/replay:{path}", "What is it?")
    assert "Let me look." == first.text
    assert [("look", {"at": "it"}, "toolUse")] == [(c.name, c.arguments, first.stop_reason) for c in first.tool_calls]
    (call,) = first.tool_calls
    result = il.ToolResultMessage(tool_call_id=call.id, tool_name="look", content="a cat", is_error=False)
    events = await events_of(
        client.stream(f"debug/replay:{path}", [il.UserMessage(content="What is it?"), first, result])
    )
    assert [] == faults(events)
    assert isinstance(events[-1], Done)
    assert ("It is a cat.", "debug") == (events[-1].message.text, events[-1].message.provider)
