"""OpenTelemetry after the GenAI conventions: off by default, and silent about what was said unless asked."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import interlingua as il
from interlingua.connect import telemetry
from interlingua.connect.client import Client
from interlingua.testing import Cut, Server, Stall


class Watched:
    """What was exported."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._reader])

    @property
    def span(self) -> ReadableSpan:
        (span,) = self.spans
        return span

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._spans.get_finished_spans()

    def points(self, name: str) -> list[Any]:
        """The measurements under a name."""
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def enable(self, **how: Any) -> None:
        telemetry.enable(tracer_provider=self.tracers, meter_provider=self.meters, **how)


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    telemetry.disable()
    watched.tracers.shutdown()
    watched.meters.shutdown()


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.clear()
    return running


SECRET = "The treasure is under the oak"


async def ask(server: Server, **options: Any) -> il.AssistantMessage:
    context = il.Context(system="Keep secrets.", messages=(il.UserMessage(content=SECRET),))
    base = server.base_url("anthropic-messages")
    stream = Client().stream("anthropic/m-1", context, base_url=base, api_key="key-1", retry=0, timeout=20, **options)
    return await stream.result()


async def test_it_is_off_by_default(server: Server, watched: Watched) -> None:
    """Nothing is recorded until it is enabled, and nothing after it is disabled."""
    await ask(server)
    watched.enable()
    telemetry.disable()
    await ask(server)
    assert ((), []) == (watched.spans, watched.points("gen_ai.client.operation.duration"))


def test_nothing_of_it_is_imported_while_it_is_off() -> None:
    """A call without telemetry pays nothing for it."""
    program = (
        "import sys, interlingua as il\n"
        "il.sync.complete('debug/parrot-1', 'Hi')\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules if name.startswith('opentelemetry')}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()


async def test_a_call_is_one_client_span(server: Server, watched: Watched) -> None:
    """Named after the operation and the model; it says what was asked for and what it took."""
    watched.enable()
    usage = il.Usage.of(30, 12, cache_read=50, cache_write=7)
    server.answer(il.AssistantMessage(content=(il.TextBlock(text="Hush."),), usage=usage, response_id="msg_77"))
    await ask(server, max_tokens=64, temperature=0.5)
    span = watched.span
    assert ("chat m-1", SpanKind.CLIENT) == (span.name, span.kind)
    assert StatusCode.UNSET == span.status.status_code
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m-1",
        "gen_ai.request.max_tokens": 64,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.model": "m-1",
        "gen_ai.response.id": "msg_77",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 87,
        "gen_ai.usage.output_tokens": 12,
        "gen_ai.usage.cache_read.input_tokens": 50,
        "gen_ai.usage.cache_creation.input_tokens": 7,
    } == dict(span.attributes or {})


async def test_tokens_duration_and_first_chunk_are_measured(server: Server, watched: Watched) -> None:
    """Tokens by kind; times in seconds."""
    watched.enable()
    server.answer(il.AssistantMessage(content=(il.TextBlock(text="Hush."),), usage=il.Usage.of(30, 12)))
    await ask(server)
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in watched.points("gen_ai.client.token.usage")}
    assert {"input": 30, "output": 12} == tokens
    (first,) = watched.points("gen_ai.client.operation.time_to_first_chunk")
    (whole,) = watched.points("gen_ai.client.operation.duration")
    assert (1, 1) == (first.count, whole.count)
    assert 0 < first.sum <= whole.sum < 60
    about = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m-1"}
    assert about == dict(whole.attributes)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (il.RateLimited("slow down", status=429), "rate_limit_error"),
        (il.ProviderError("sorry", status=500), "api_error"),
    ],
)
async def test_an_error_has_a_type(server: Server, watched: Watched, reply: il.ProviderError, kind: str) -> None:
    """The provider's own word; on the span and on the duration."""
    watched.enable()
    server.answer(reply)
    await ask(server)
    assert StatusCode.ERROR == watched.span.status.status_code
    assert kind == (watched.span.attributes or {})["error.type"]
    (whole,) = watched.points("gen_ai.client.operation.duration")
    assert kind == whole.attributes["error.type"]


async def test_a_broken_connection_and_an_abort_have_types_too(server: Server, watched: Watched) -> None:
    """Then it is the error's class."""
    watched.enable()
    server.say("Never to be heard", fault=Cut(after_events=1))
    await ask(server)
    server.clear()
    server.say("Never to be heard", fault=Stall(after_events=3))
    signal = il.Abort()
    stream = Client().stream(
        "anthropic/m-1",
        "Hi",
        base_url=server.base_url("anthropic-messages"),
        api_key="key-1",
        signal=signal,
        timeout=20,
    )
    async for _ in stream:
        signal.abort()
    kinds = [(span.attributes or {})["error.type"] for span in watched.spans]
    assert ["TransportError", "Aborted"] == kinds


async def test_leaving_a_stream_ends_its_span(server: Server, watched: Watched) -> None:
    """As aborted."""
    watched.enable()
    server.say("A long story", fault=Stall(after_events=4))
    base = server.base_url("anthropic-messages")
    async with Client().stream("anthropic/m-1", "Hi", base_url=base, api_key="key-1", timeout=20) as stream:
        await stream.next()
    assert "Aborted" == (watched.span.attributes or {})["error.type"]


async def test_what_was_said_is_not_recorded(server: Server, watched: Watched) -> None:
    """Neither prompts nor answers nor the system text, anywhere on the span; nor the key."""
    watched.enable()
    server.say("Under the OAK?")
    await ask(server)
    dumped = watched.span.to_json()
    assert [] == [text for text in (SECRET, "Under the OAK?", "Keep secrets.", "key-1") if text in dumped]


async def test_what_was_said_is_recorded_when_asked_for(server: Server, watched: Watched) -> None:
    """System text, messages and answer."""
    watched.enable(content=True)
    server.say("Under the OAK?")
    await ask(server)
    attributes = dict(watched.span.attributes or {})
    found = {name: json.loads(str(attributes[f"gen_ai.{name}"])) for name in CONTENTS}
    assert [{"type": "text", "content": "Keep secrets."}] == found["system_instructions"]
    assert [{"role": "user", "parts": [{"type": "text", "content": SECRET}]}] == found["input.messages"]
    expected = {"role": "assistant", "parts": [{"type": "text", "content": "Under the OAK?"}], "finish_reason": "stop"}
    assert [expected] == found["output.messages"]
    assert "key-1" not in watched.span.to_json()


CONTENTS = ("system_instructions", "input.messages", "output.messages")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


async def test_every_kind_of_content_has_its_part_in_the_conventions(server: Server, watched: Watched) -> None:
    """Reasoning, calls, results and media; the data of media stays out of the span."""
    watched.enable(content=True)
    server.answer((il.ThinkingBlock(thinking="Hm."), il.TextBlock(text="Look:"), CALL))
    asked = il.UserMessage((il.TextBlock(text="What?"), il.ImageBlock(data=PNG, mime_type="image/png")))
    linked = il.UserMessage((il.ImageBlock(url="https://example.org/a.png"), il.DocumentBlock(text="Notes")))
    result = il.ToolResultMessage(tool_call_id="c1", tool_name="area", content="6")
    model = il.ModelDescriptor(id="m", api="anthropic-messages", base_url=server.base_url("anthropic-messages"))
    given = [asked, il.AssistantMessage(content=(CALL,), stop_reason="toolUse"), result, linked]
    await il.complete(model, given, max_tokens=9, api_key="k")
    attributes = dict(watched.span.attributes or {})
    sent, received = (json.loads(str(attributes[f"gen_ai.{name}"])) for name in CONTENTS[1:])
    kinds = [(message["role"], [part["type"] for part in message["parts"]]) for message in (*sent, *received)]
    assert [
        ("user", ["text", "blob"]),
        ("assistant", ["tool_call"]),
        ("tool", ["tool_call_response"]),
        ("user", ["uri", "text"]),
        ("assistant", ["reasoning", "text", "tool_call"]),
    ] == kinds
    assert ("tool_call", ("tool_call",)) == (received[0]["finish_reason"], attributes["gen_ai.response.finish_reasons"])
    assert {"type": "tool_call", "id": "c1", "name": "area", "arguments": {"width": 2}} == sent[1]["parts"][0]
    assert {"type": "tool_call_response", "id": "c1", "response": "6"} == sent[2]["parts"][0]
    assert PNG not in watched.span.to_json()


CALL = il.ToolCall(id="c1", name="area", arguments={"width": 2})


async def test_the_run_of_an_agent_is_one_trace(server: Server, watched: Watched) -> None:
    """Its calls of models and tools are the children of its span; what it used is the sum of theirs."""
    watched.enable(content=True)
    server.call("area", {"width": 2})
    server.say("Four.")

    def area(width: int) -> int:
        """The area of a square."""
        return width * width

    agent = il.Agent("openai-chat/m", [area], base_url=server.base_url("openai-completions"), api_key="k")
    result = await agent.prompt("Area?", raise_on_error=True)
    names = {span.name: span for span in watched.spans}
    run, tool = names["invoke_agent"], names["execute_tool area"]
    assert ["chat m", "execute_tool area", "chat m", "invoke_agent"] == [span.name for span in watched.spans]
    parents = {span.parent.span_id for span in watched.spans if span.parent is not None and span.context is not None}
    assert run.context is not None and {run.context.span_id} == parents
    about = dict(run.attributes or {})
    assert result.usage is not None
    assert ("invoke_agent", "openai", result.usage.input, result.usage.output) == (
        about["gen_ai.operation.name"],
        about["gen_ai.provider.name"],
        about["gen_ai.aggregated_usage.input_tokens"],
        about["gen_ai.aggregated_usage.output_tokens"],
    )
    assert ("Area?", "Four.") == tuple(
        json.loads(str(about[f"gen_ai.{name}.messages"]))[0]["parts"][0]["content"] for name in ("input", "output")
    )
    assert {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "area",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "The area of a square.",
        "gen_ai.tool.call.arguments": '{"width":2}',
        "gen_ai.tool.call.result": "4",
    } == {name: value for name, value in (tool.attributes or {}).items() if name != "gen_ai.tool.call.id"}


async def test_a_failed_tool_and_a_failed_run_have_failed_spans(server: Server, watched: Watched) -> None:
    """And say nothing of what was said unless asked for it."""
    watched.enable()
    server.call("broken")
    server.answer(il.AuthFailed("wrong key", status=401))

    def broken() -> str:
        raise ValueError(SECRET)

    agent = il.Agent("openai-chat/m", [broken], base_url=server.base_url("openai-completions"), api_key="k")
    assert "error" == (await agent.prompt(SECRET)).reason
    failed = {span.name: span for span in watched.spans if span.status.status_code is StatusCode.ERROR}
    assert {"execute_tool broken", "chat m", "invoke_agent"} == {*failed}
    assert "tool_error" == (failed["execute_tool broken"].attributes or {})["error.type"]
    assert "AuthFailed" == (failed["invoke_agent"].attributes or {})["error.type"]
    assert not [span.name for span in watched.spans if SECRET in span.to_json()]


@pytest.mark.parametrize(
    ("provider", "name"),
    [("openai-chat", "openai"), ("amazon-bedrock", "aws.bedrock"), ("google", "gcp.gemini"), ("groq", "groq")],
)
async def test_providers_go_by_the_conventions_names(
    server: Server, watched: Watched, provider: str, name: str
) -> None:
    """Ours, where the conventions have none."""
    watched.enable()
    api = Client().find(f"{provider}/m")[1].api
    await Client().stream(f"{provider}/m", "Hi", base_url=server.base_url(api), api_key="key-1", retry=0).result()
    assert name == (watched.span.attributes or {})["gen_ai.provider.name"]


async def test_who_really_answered_is_named_after_a_fallback(server: Server, watched: Watched) -> None:
    """On the span and on every measurement: provider and model of the fallback, not of the model that failed."""
    watched.enable()
    server.answer(il.Overloaded("busy", status=529), times=1)
    server.say("Hush.")
    second = {"model": "groq/m-2", "api_key": "key-2", "base_url": server.base_url("openai-completions")}
    assert "Hush." == (await ask(server, fallbacks=[second])).text
    asked = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "groq", "gen_ai.request.model": "m-2"}
    assert "chat m-2" == watched.span.name
    assert asked == {name: (watched.span.attributes or {})[name] for name in asked}
    for name in ("operation.duration", "operation.time_to_first_chunk", "token.usage"):
        for point in watched.points(f"gen_ai.client.{name}"):
            assert asked == {key: point.attributes[key] for key in asked}


async def test_a_failure_names_who_failed_last(server: Server, watched: Watched) -> None:
    """The last of the chain."""
    watched.enable()
    server.answer(il.Overloaded("busy", status=529))
    second = {"model": "groq/m-2", "api_key": "key-2", "base_url": server.base_url("openai-completions")}
    await ask(server, fallbacks=[second])
    assert "groq" == (watched.span.attributes or {})["gen_ai.provider.name"]
