"""What the originals' own suites assert of streams, connectors and transports, line by line.

`pi_13_NN` is a line of pi-ai's list, `claw_20_…` a section of clawtools'. Where ours differs by decision, ours counts.
"""

import asyncio
import dataclasses
import itertools
import json
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from connect.talking import KEY, QUICK, Own, ask, events_of, options, saying, until
from interlingua.connect.client import Client
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.retry import overflowed
from interlingua.dialects.files import clawtools
from interlingua.testing import Answer, Empty, Server, Stall, Status, Wait
from interlingua.values.errors import Aborted
from interlingua.values.events import (
    Done,
    Error,
    Start,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from laws.grammar import faults

# A provider for every wire.
WIRES = {
    "anthropic-messages": "anthropic",
    "openai-completions": "groq",
    "openai-responses": "openai",
    "openai-codex-responses": "openai-codex",
    "azure-openai-responses": "azure-openai-responses",
    "google-generative-ai": "google",
    "ollama-chat": "ollama",
    "bedrock-converse-stream": "amazon-bedrock",
}
every_wire = pytest.mark.parametrize("api", [*WIRES])
LOOK = il.ToolSpec(
    name="look",
    description="Looks.",
    input_schema={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)


@pytest.fixture(scope="module")
def running() -> Any:
    with Server(chunk=5) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.clear()
    return running


def on(server: Server, api: str, asked: Any = "Hi", **how: Any) -> Any:
    return Client().stream(f"{WIRES[api]}/test-model", asked, **options(server, api, **how))


async def both(stream: Any) -> tuple[list[il.events.StreamEvent], il.AssistantMessage]:
    events = await events_of(stream)
    assert [] == faults(events)
    return events, await stream.result()


# --- pi-ai ------------------------------------------------------------------------------------------------------------


@every_wire
async def test_pi_13_01_text_tools_and_thinking_over_several_turns(server: Server, api: str) -> None:
    """A question, a thought and a call, its result, an answer, one more question: each request carries all before."""
    call = il.ToolCall(id="call_1", name="look", arguments={"at": "the sky"})
    server.answer((il.ThinkingBlock(thinking="Let me see."), call))
    server.say("It is blue.")
    server.say("You are welcome.")
    history: list[Any] = [il.UserMessage(content="What colour?")]
    for follow in (None, "Thanks!", None):
        events, message = await both(on(server, api, il.Context(messages=tuple(history), tools=(LOOK,))))
        history.append(message)
        history += [
            il.ToolResultMessage(tool_call_id=one.id, tool_name=one.name, content="blue", is_error=False)
            for one in message.tool_calls
        ]
        history += [il.UserMessage(content=follow)] if follow else []
        assert isinstance(events[-1], Done)
    assert ["toolUse", "stop", "stop"] == [m.stop_reason for m in history if isinstance(m, il.AssistantMessage)]
    asked = server.last.request
    assert asked is not None
    body = json.dumps(server.last.json)
    assert all(text in body for text in ("What colour?", "the sky", "blue", "It is blue.", "Thanks!"))


@every_wire
async def test_pi_13_02_the_grammar_of_events(server: Server, api: str) -> None:
    """Each start has its end, deltas add up to the end's content, one terminal event, whose message is the result."""
    server.answer(
        (
            il.ThinkingBlock(thinking="Let me see."),
            il.TextBlock(text="I will look."),
            il.ToolCall(id="c1", name="look", arguments={"at": "the sky above"}),
        )
    )
    stream = on(server, api, il.Context(messages=(il.UserMessage(content="Hi"),), tools=(LOOK,)))
    events, message = await both(stream)
    for delta, end in ((TextDelta, TextEnd), (ThinkingDelta, ThinkingEnd)):
        joined = "".join(event.delta for event in events if isinstance(event, delta))
        assert [joined] == [event.content for event in events if isinstance(event, end)]
    joined = "".join(event.delta for event in events if isinstance(event, ToolCallDelta))
    assert [json.loads(joined)] == [event.tool_call.arguments for event in events if isinstance(event, ToolCallEnd)]
    assert isinstance(events[-1], Done)
    assert events[-1].message is message


@every_wire
async def test_pi_13_03_abort_in_the_middle_and_go_on(server: Server, api: str) -> None:
    """Aborted, what came is kept, and the next request with that history succeeds."""
    signal = il.Abort()
    server.say("Once upon a time there was", fault=Stall(after_events=6), times=1)
    stream = on(server, api, signal=signal)
    reading = asyncio.create_task(both(stream))
    await until(lambda: stream.partial.text != "")
    signal.abort()
    _, message = await reading
    assert ("aborted", "Once") == (message.stop_reason, message.text[:4])
    server.clear()
    after = [il.UserMessage(content="Tell me"), message, il.UserMessage(content="And then?")]
    assert (await on(server, api, after).result()).text.endswith("And then?")


@every_wire
async def test_pi_13_04_abort_before_the_request(server: Server, api: str) -> None:
    """Aborted, empty, no exception, nothing sent."""
    signal = il.Abort()
    signal.abort()
    _, message = await both(on(server, api, signal=signal))
    assert ("aborted", ()) == (message.stop_reason, message.content)
    assert [] == server.requests


@every_wire
async def test_pi_13_05_an_empty_aborted_answer_in_the_history(server: Server, api: str) -> None:
    """Followed by a new message of the user: it is left out, and the request goes through."""
    aborted = il.AssistantMessage(content=(), stop_reason="aborted", error_message="aborted")
    asked = [il.UserMessage(content="One"), aborted, il.UserMessage(content="Two")]
    assert (await on(server, api, asked).result()).text.endswith("Two")


@pytest.mark.parametrize(("api", "known"), [(api, api == "anthropic-messages") for api in WIRES])
async def test_pi_13_06_usage_of_an_aborted_answer(server: Server, api: str, known: bool) -> None:
    """What the wire told before is kept; where it tells only at the end, usage is absent, not zero."""
    signal = il.Abort()
    server.say("Once upon a time there was a stream", fault=Stall(after_events=6))
    stream = on(server, api, signal=signal)
    reading = asyncio.create_task(both(stream))
    await until(lambda: stream.partial.text != "")
    signal.abort()
    _, message = await reading
    assert known == bool(message.usage and message.usage.input)


@every_wire
@pytest.mark.parametrize("cached", [0, 30])
async def test_pi_13_07_the_total_is_the_sum_of_its_parts(server: Server, api: str, cached: int) -> None:
    """With and without a cache."""
    usage = il.Usage.of(20, 7, cache_read=cached)
    server.answer(il.AssistantMessage(content=(il.TextBlock(text="x"),), usage=usage))
    found = (await on(server, api).result()).usage
    assert found is not None
    assert found.input + found.output + found.cache_read + found.cache_write == found.total_tokens == 27 + cached


@every_wire
@pytest.mark.parametrize("content", [(), "", "   ", (il.TextBlock(text=""),)], ids=["list", "empty", "blank", "block"])
async def test_pi_13_08_an_empty_message_of_the_user(server: Server, api: str, content: Any) -> None:
    """An answer or an error in the stream; never a crash."""
    server.say("Yes?")
    _, message = await both(on(server, api, [il.UserMessage(content=content)]))
    assert message.stop_reason in ("stop", "error")
    assert (message.stop_reason == "stop") or message.error_message


async def test_pi_13_09_an_empty_answer_inside_the_history(server: Server) -> None:
    """It goes through on a strict server."""
    asked = [il.UserMessage(content="One"), il.AssistantMessage(content=()), il.UserMessage(content="Two")]
    with Server(strict=True) as strict:
        for api in WIRES:
            assert (await on(strict, api, asked).result()).text.endswith("Two")


async def test_pi_13_10_a_call_without_a_result(server: Server) -> None:
    """A result is put in before the next message of the user, and the strict server takes it."""
    call = il.AssistantMessage(
        content=(il.ToolCall(id="c1", name="look", arguments={"at": "it"}),), stop_reason="toolUse"
    )
    asked = il.Context(messages=(il.UserMessage(content="One"), call, il.UserMessage(content="Two")), tools=(LOOK,))
    with Server(strict=True) as strict:
        for api in WIRES:
            assert "Two" == (await on(strict, api, asked).result()).text
            received = strict.last.request
            assert received is not None
            assert any(isinstance(message, il.ToolResultMessage) for message in received.context.messages)


@pytest.mark.parametrize(("retention", "marked"), [(None, False), ("short", True), ("long", True), ("none", False)])
async def test_pi_13_22_cache_retention(server: Server, retention: Any, marked: bool) -> None:
    """Marked where it was asked for, and only there; long has a time to live."""
    how = {} if retention is None else {"cache_retention": retention}
    context = il.Context(system="Be brief.", messages=(il.UserMessage(content="Hi"),))
    await on(server, "anthropic-messages", context, **how).result()
    body = json.dumps(server.last.json)
    assert marked == ("cache_control" in body)
    assert (retention == "long") == ('"ttl"' in body)


async def test_pi_13_22_cache_keys_of_openai(server: Server) -> None:
    """The session is the key, and long is a day. Caching cannot be switched off on this wire: that is reported."""
    await on(server, "openai-responses", session_id="s-1", cache_retention="long").result()
    assert ("s-1", "24h") == (server.last.json["prompt_cache_key"], server.last.json["prompt_cache_retention"])
    stream = on(server, "openai-responses", cache_retention="none")
    await stream.result()
    assert "prompt_cache_key" not in server.last.json
    assert "$.options.cacheRetention" in [loss.path for loss in stream.losses]


async def test_pi_13_23_temperature_is_dropped_with_thinking(server: Server) -> None:
    """A model that thinks by budget takes no temperature."""
    stream = on(server, "anthropic-messages", reasoning=2048, temperature=0.5, max_tokens=4096)
    await stream.result()
    body = server.last.json
    assert 2048 == body["thinking"]["budget_tokens"]
    assert body.get("temperature", 1) == 1


async def test_pi_13_26_copilot_says_who_began(server: Server) -> None:
    """Bearer token, and the initiator by the last role."""
    asked: list[Any] = [il.UserMessage(content="Hi")]
    how = options(server, "openai-completions")
    await Client().stream("github-copilot/gpt-4o", asked, **how).result()
    assert (f"Bearer {KEY}", "user") == (
        server.last.headers["Authorization"],
        server.last.headers["X-Initiator"],
    )
    call = il.AssistantMessage(
        content=(il.ToolCall(id="c1", name="look", arguments={"at": "it"}),), stop_reason="toolUse"
    )
    result = il.ToolResultMessage(tool_call_id="c1", tool_name="look", content="seen", is_error=False)
    await Client().stream("github-copilot/gpt-4o", [*asked, call, result], **how).result()
    assert "agent" == server.last.headers["X-Initiator"]


async def test_pi_13_29_codex_completes_on_the_terminal_event(server: Server) -> None:
    """Although the body stays open: the answer is complete when it says so."""

    class LeftOpen:
        """All is said, and the body does not end."""

        times = None
        replaces = False

        def apply(self, answer: Answer) -> Answer:
            return dataclasses.replace(answer, steps=itertools.chain(answer.steps, (Wait(None),)))

    server.say("Done is done", fault=LeftOpen())
    async with asyncio.timeout(10):
        _, message = await both(on(server, "openai-codex-responses"))
    assert ("stop", "Done is done") == (message.stop_reason, message.text)
    await server.disconnected()


async def test_pi_13_29_codex_incomplete_is_length_and_the_session_is_said(server: Server) -> None:
    """The stop reason of a cut answer; the session in the headers only where there is one."""
    server.answer(il.AssistantMessage(content=(il.TextBlock(text="so"),), stop_reason="length"))
    assert "length" == (await on(server, "openai-codex-responses", session_id="s-1").result()).stop_reason
    assert "s-1" in {value for name, value in server.last.headers.items() if "session" in name.lower()}
    await on(server, "openai-codex-responses").result()
    assert not any("session" in name.lower() for name in server.last.headers)


async def test_pi_13_30_an_empty_stream_is_tried_again_with_a_single_start(server: Server) -> None:
    """The discarded attempt leaves no trace."""
    server.say("Here", fault=Empty(times=2))
    stream = ask(server, retry=QUICK)
    events, message = await both(stream)
    assert (1, "Here") == (sum(isinstance(event, Start) for event in events), message.text)
    assert 3 == len(server.requests)


OVERFLOWS = {
    "anthropic": "prompt is too long: 213462 tokens > 200000 maximum",
    "openai": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "google": "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "xai": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "groq": "Please reduce the length of the messages or completion.",
    "openrouter": "This endpoint's maximum context length is 262144 tokens. However, you requested about 300000.",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "lm-studio": "The number of tokens to keep from the initial prompt is greater than the context length",
    "copilot": "prompt token count of 300000 exceeds the limit of 128000",
    "minimax": "invalid params, context window exceeds limit (2013)",
    "kimi": "Your request exceeded model token limit: 262144",
    "mistral": "Prompt contains 300000 tokens ... too large for model with 131072 maximum context length",
    "bedrock": "Input is too long for requested model.",
}


@pytest.mark.parametrize("provider", [*OVERFLOWS])
async def test_pi_13_33_overflow_in_each_provider_s_own_words(server: Server, provider: str) -> None:
    """One typed error for all of them, over the wire."""
    server.answer("never", fault=Status(400, {"error": {"message": OVERFLOWS[provider]}}))
    stream = on(server, "openai-completions")
    message = await stream.result()
    assert isinstance(stream.failure, il.ContextTooLong)
    assert overflowed(message)


async def test_pi_13_33_an_overflow_that_is_not_told_shows_in_the_usage(server: Server) -> None:
    """A plain stop after more input than the window holds."""
    server.answer(il.AssistantMessage(content=(il.TextBlock(text="x"),), usage=il.Usage.of(2000, 1)))
    message = await on(server, "openai-completions").result()
    assert (True, False) == (overflowed(message, 1000), overflowed(message, 4000))


# --- clawtools, section 20 --------------------------------------------------------------------------------------------


async def claw(server: Server, asked: Any = "Hi", api: str = "openai-completions", **how: Any) -> list[dict[str, Any]]:
    """The events of a call as clawtools' users see them."""
    ids: dict[int, str] = {}
    events = await events_of(on(server, api, asked, **how))
    return [out for event in events if (out := clawtools.project(event, ids=ids)) is not None]


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_claw_20_text_stream(server: Server) -> None:
    """Start first and once, done last and once, deltas before their end and equal to it, no calls, words preserved."""
    server.say("The quick brown fox jumps over the lazy dog.")
    events = await claw(server)
    kinds = types(events)
    assert ("start", "done") == (kinds[0], kinds[-1])
    assert len(events) >= 2
    assert (1, 1) == (kinds.count("start"), kinds.count("done") + kinds.count("error"))
    deltas = "".join(event["delta"] for event in events if event["type"] == "text_delta")
    assert deltas == events[kinds.index("text_end")]["content"] == "The quick brown fox jumps over the lazy dog."
    assert kinds.index("text_end") > max(at for at, kind in enumerate(kinds) if kind == "text_delta")
    assert "stop" == events[-1]["stopReason"]
    assert not any(kind.startswith("toolcall") for kind in kinds)


ARGUMENTS = {"path": "a b/ü.txt", "limit": 7, "deep": True, "ratio": 0.5}


async def test_claw_20_tool_call_stream(server: Server) -> None:
    """Start, deltas strictly inside, end; arguments an object with its types; no text where there is none."""
    server.call("read", ARGUMENTS, id="call_abc")
    events = await claw(
        server, il.Context(messages=(il.UserMessage(content="Hi"),), tools=(replace(LOOK, name="read"),))
    )
    kinds = types(events)
    assert "start" == kinds[0]
    assert "done" == kinds[-1]
    first, last = kinds.index("toolcall_start"), kinds.index("toolcall_end")
    deltas = [at for at, kind in enumerate(kinds) if kind == "toolcall_delta"]
    assert deltas
    assert all(first < at < last for at in deltas)
    assert "toolUse" == events[-1]["stopReason"]
    assert {"id": "call_abc", "name": "read", "arguments": ARGUMENTS} == events[last]["toolCall"]
    assert "text_end" not in kinds


@pytest.mark.parametrize("status", [401, 429, 500, 503])
async def test_claw_20_errors(server: Server, status: int) -> None:
    """Error events with words, never exceptions; nothing done after, no calls. Ours has a start before, always."""
    server.answer("never", fault=Status(status))
    events = await claw(server)
    assert ["start", "error"] == types(events)
    assert events[-1]["error"]


async def test_claw_20_consistency(server: Server) -> None:
    """The same scenario twice is the same twice; a change affects the next request alone."""
    server.say("Same")
    assert await claw(server) == await claw(server)
    server.clear()
    server.say("Other")
    assert "Other" in json.dumps(await claw(server))


async def test_claw_20_thinking(server: Server) -> None:
    """Unchanged; all of it before its end, and its end before the first text."""
    server.say("The answer.", thinking="Let me think about it.")
    events = await claw(server)
    kinds = types(events)
    thought = "".join(event["delta"] for event in events if event["type"] == "thinking_delta")
    assert thought == events[kinds.index("thinking_end")]["content"] == "Let me think about it."
    assert kinds.index("thinking_end") > max(at for at, kind in enumerate(kinds) if kind == "thinking_delta")
    assert kinds.index("thinking_end") < kinds.index("text_delta")


@pytest.mark.parametrize("api", ["anthropic-messages", "openai-completions"])
async def test_claw_20_multi_tool_calls(server: Server, api: str) -> None:
    """Two calls in turn: names, arguments, one pair each; starts and deltas carry the id.

    Where the wire says that a call has ended, none begins inside another; chat completions never say, and may come
    back to a call, so both stay open to the end.
    """
    calls = (
        il.ToolCall(id="a", name="look", arguments={"at": "one thing"}),
        il.ToolCall(id="b", name="look", arguments={"at": "another thing"}),
    )
    server.answer(calls)
    events = await claw(server, il.Context(messages=(il.UserMessage(content="Hi"),), tools=(LOOK,)), api=api)
    ended = [event["toolCall"] for event in events if event["type"] == "toolcall_end"]
    assert [("a", "one thing"), ("b", "another thing")] == [(call["id"], call["arguments"]["at"]) for call in ended]
    pairs = [kind for kind in types(events) if kind in ("toolcall_start", "toolcall_end")]
    if api == "anthropic-messages":
        assert ["toolcall_start", "toolcall_end"] * 2 == pairs
    assert ["toolcall_end"] * 2 + ["toolcall_start"] * 2 == sorted(pairs)
    assert "done" == events[-1]["type"]
    for id in "ab":
        text = "".join(event["delta"] for event in events if event["type"] == "toolcall_delta" and event["id"] == id)
        assert json.loads(text) in [call["arguments"] for call in ended if call["id"] == id]


async def test_claw_20_interleaved_calls_split_by_id() -> None:
    """Fragments of two calls at once, each with its call's id."""
    asked = il.Context(messages=(il.UserMessage(content="x"),), tools=(LOOK, replace(LOOK, name="see")))
    ids: dict[int, str] = {}
    events = [clawtools.project(event, ids=ids) async for event in Client().stream("debug/interleaved-tools-1", asked)]
    texts: dict[str, str] = {}
    for event in events:
        if event and event["type"] == "toolcall_delta":
            texts[event["id"]] = texts.get(event["id"], "") + event["delta"]
    assert 2 == len(texts)
    assert [{"at": "x"}] * 2 == [json.loads(text) for text in texts.values()]


async def test_claw_20_a_call_whose_start_had_no_id_ends_with_one() -> None:
    """Starts and deltas then lack the key; the end has what is known."""
    call = il.ToolCall(id="late", name="look", arguments={"at": "it"})
    script = (
        Start(),
        ToolCallStart(0),
        ToolCallDelta(0, '{"at":"it"}'),
        ToolCallEnd(0, call),
        Done("toolUse", il.AssistantMessage(content=(call,))),
    )
    client = Client(connectors=ConnectorRegistry([Own(saying(*script))]))
    ids: dict[int, str] = {}
    events = [clawtools.project(event, ids=ids) async for event in client.stream("own/m", "Hi")]
    assert [{"type": "toolcall_start"}, {"type": "toolcall_delta", "delta": '{"at":"it"}'}] == events[1:3]
    assert "late" == (events[3] or {})["toolCall"]["id"]


MESSAGE = il.AssistantMessage(content=())
TEXT = (TextDelta(0, "Hello "), TextDelta(0, "there"), TextEnd(0, "Hello there"))
CALL = il.ToolCall(id="c", name="look", arguments={"at": 1})
SEQUENCES: list[tuple[tuple[Any, ...], list[str]]] = [
    ((Start(), *TEXT, Done("stop", MESSAGE)), ["start", "text_delta", "text_delta", "text_end", "done"]),
    (
        (
            Start(),
            ToolCallStart(0, replace(CALL, arguments={})),
            ToolCallDelta(0, '{"at":1}'),
            ToolCallEnd(0, CALL),
            Done("toolUse", MESSAGE),
        ),
        ["start", "toolcall_start", "toolcall_delta", "toolcall_end", "done"],
    ),
    (
        (
            Start(),
            ThinkingDelta(0, "Hm"),
            ThinkingEnd(0, "Hm"),
            TextDelta(1, "Yes"),
            TextEnd(1, "Yes"),
            Done("length", MESSAGE),
        ),
        ["start", "thinking_delta", "thinking_end", "text_delta", "text_end", "done"],
    ),
    ((Error("error", replace(MESSAGE, error_message="no")),), ["start", "error"]),
]


@pytest.mark.parametrize(("given", "expected"), SEQUENCES, ids=["text", "call", "thinking", "error"])
async def test_claw_20_event_round_trip(given: tuple[Any, ...], expected: list[str]) -> None:
    """Events of a registered connector keep their number and order. Ours adds a start where there was none."""
    client = Client(connectors=ConnectorRegistry([Own(saying(*given))]))
    events = [
        out async for event in client.stream("own/m", "Hi", retry=0) if (out := clawtools.project(event)) is not None
    ]
    assert expected == types(events)
    if expected[-1] == "done":
        assert given[-1].reason == events[-1]["stopReason"]


@pytest.mark.parametrize("usage", [None, il.Usage.of(5, 3)])
async def test_claw_20_done_with_and_without_usage(usage: il.Usage | None) -> None:
    """What is not known is not there."""
    script = (Start(), *TEXT, Done("stop", replace(MESSAGE, usage=usage)))
    client = Client(connectors=ConnectorRegistry([Own(saying(*script))]))
    events = await events_of(client.stream("own/m", "Hi"))
    expected = {} if usage is None else {"usage": {"inputTokens": 5, "outputTokens": 3}}
    assert {"type": "done", "stopReason": "stop"} | expected == clawtools.project(events[-1])


async def test_claw_20_an_empty_stream_is_an_error_here() -> None:
    """clawtools passes nothing on; ours never ends without a terminal event."""
    client = Client(connectors=ConnectorRegistry([Own(saying())]))
    assert [Start, Error] == [type(event) for event in await events_of(client.stream("own/m", "Hi", retry=0))]


async def test_claw_20_abort(server: Server) -> None:
    """Ours ends the stream instead of raising; `complete` raises, by a name with "abort", with the reason."""
    signal = il.Abort()
    signal.abort("my reason")
    assert ["start", "error"] == types(await claw(server, signal=signal))
    with pytest.raises(Aborted) as raised:
        await Client().complete("groq/m", "Hi", **options(server, "openai-completions", signal=signal))
    assert "abort" in type(raised.value).__name__.lower()
    assert "my reason" == raised.value.reason
    hanging = il.Abort()
    server.say("Once", fault=Stall(after_events=0))
    asyncio.get_running_loop().call_later(0.1, hanging.abort)
    async with asyncio.timeout(10):
        with pytest.raises(Aborted):
            await Client().complete("groq/m", "Hi", **options(server, "openai-completions", signal=hanging))
    server.clear()
    unfired = await claw(server, signal=il.Abort())
    assert ("start", "done") == (unfired[0]["type"], unfired[-1]["type"])


async def test_claw_20_requests_sent(server: Server) -> None:
    """One POST to the path of chat completions: key, stream, words, tools and model as given."""
    await claw(server, il.Context(messages=(il.UserMessage(content="Say: ✓"),), tools=(LOOK,)))
    (sent,) = server.requests
    assert "POST" == sent.method
    assert sent.path.endswith("/chat/completions")
    assert f"Bearer {KEY}" == sent.headers["Authorization"]
    assert (True, "test-model") == (sent.json["stream"], sent.json["model"])
    assert {"role": "user", "content": "Say: ✓"} in sent.json["messages"]
    assert ["look"] == [tool["function"]["name"] for tool in sent.json["tools"]]


async def test_claw_20_bridge_requests(server: Server) -> None:
    """System prompt and messages as given, schemas under the wire's own name, no tools no key."""
    context = il.Context(system="Be brief.", messages=(il.UserMessage(content="Hi"),), tools=(LOOK,))
    await claw(server, context)
    assert {"role": "system", "content": "Be brief."} == server.last.json["messages"][0]
    tool = server.last.json["tools"][0]["function"]
    assert ("look", "Looks.", LOOK.input_schema) == (tool["name"], tool["description"], tool["parameters"])
    assert "input_schema" not in tool
    await claw(server)
    assert "tools" not in server.last.json


def test_claw_20_bridge_unknown_models_are_called_as_described() -> None:
    """Nothing is made up for a model that no catalogue knows: its limits stay unknown."""
    _, model = Client().find("groq/a-model-nobody-knows")
    assert ("groq", "openai-completions", None) == (model.provider, model.api, model.max_tokens)


def test_claw_20_bridge_errors_name_their_reason() -> None:
    """Where an error has no words."""
    assert "aborted" in str(clawtools.project(Error("aborted", MESSAGE)))
