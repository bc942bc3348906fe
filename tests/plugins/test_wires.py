"""A plugin's wire works wherever a built-in one does: laws, detection, calls, the test server, conversion, lists."""

import asyncio
import inspect
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import interlingua as il
from interlingua.cli import group
from interlingua.dialects import DIALECTS, WIRES
from interlingua.dialects.ollama import codec
from interlingua.dialects.registry import route
from interlingua.plugins import load_plugins
from interlingua.testing import ErrorEvent, Server
from interlingua.tools.schemas import extract_tool_schemas
from laws import (
    test_adapt,
    test_encoders,
    test_errors,
    test_losses,
    test_odd_answers,
    test_round_trip,
    test_streams,
)
from plugins.making import plugin

# One made of a built-in wire, and one that is all the plugin's own: its codec is a copy of Ollama's under another name.
VARIANT, OWN = "spare-chat", "own-chat"
CODE = """
    from interlingua.dialects import Evidence, Http, Wire
    from interlingua.dialects.framing import write_ndjson
    from interlingua.dialects.limits import TargetLimits
    from interlingua.dialects.ollama.wire import OLLAMA
    from interlingua.values import jsontext
    from . import codec

    def broken(value):
        raise RuntimeError("a test of the plugin's that fails")

    variant = OLLAMA.variant(
        "spare-chat",
        quirks={"path": "/spare/talk"},
        http={"base": "/llm", "route": r"/spare/talk", "models_route": r"/spare/models", "route_rank": 5},
        limits={"max_stop_sequences": 1},
        evidence=(
            Evidence("request", 1, "broken", broken),
            Evidence("request", 2, "a model of Spare's", lambda v: v["model"].startswith("spare/") and "messages" in v),
        ),
    )
    own = Wire(
        api="own-chat",
        codec=codec,
        limits=TargetLimits(
            api="own-chat", error_flag=False, later_system=True, images=("data",), documents=(), result_media=False,
            mixed_content=False, reasoning=("effort", "switch"), opaque=False,
        ),
        calls_beside=True,
        http=Http(
            route=r"/own/talk",
            models_route=r"/own/models",
            list_models=lambda names: {"models": [{"name": name} for name in names]},
            content_type="application/x-ndjson",
            stream_default=True,
            ping=b"\\n",
            error_event=lambda error, sent, body: write_ndjson(jsontext.write(body)),
        ),
        evidence=(
            Evidence("chunk", 3, "lines of Own's", lambda v: v["model"].startswith("own/") and "done" in v),
            Evidence("response", 3, "an answer of Own's", lambda v: v["model"].startswith("own/") and "done" in v),
            Evidence("request", 3, "a model of Own's", lambda v: v["model"].startswith("own/") and "messages" in v),
        ),
        telemetry="own",
    )

    def register(api):
        api.register_dialect("spare-chat", variant)
        api.register_dialect("own-chat", own)
"""
MODELS = {VARIANT: "spare/small", OWN: "own/small"}
both = pytest.mark.parametrize("name", [VARIANT, OWN])


@pytest.fixture
def wires(tmp_path: Path) -> Iterator[None]:
    """The plugin, loaded; when it goes, nothing of it stays."""
    before = dict(DIALECTS)
    source = inspect.getsource(codec).replace("from ...values", "from interlingua.values")
    source = source.replace("from ..", "from interlingua.dialects.").replace('"ollama-chat"', f'"{OWN}"')
    folder = plugin(tmp_path, "wires", CODE)
    (folder / "codec.py").write_text(source.replace("/api/chat", "/own/talk"))
    loaded = load_plugins(tmp_path)
    assert [] == loaded.problems
    yield
    loaded.unload()
    assert before == dict(DIALECTS)
    assert {VARIANT, OWN}.isdisjoint(WIRES)
    assert il.detect({"model": "own/small", "messages": []}) == il.detect({"model": "x/small", "messages": []})


def described(name: str, server: Server) -> il.ModelDescriptor:
    return il.ModelDescriptor(id=MODELS[name], api=name, base_url=server.base_url(name))


def cases() -> Iterator[Any]:
    """Every law over all wires, with the other parameters that it has."""
    modules = (test_round_trip, test_streams, test_losses, test_errors, test_adapt, test_encoders, test_odd_answers)
    for module in modules:
        for law in vars(module).values():
            marks = [mark for mark in getattr(law, "pytestmark", ()) if mark.name == "parametrize"]
            if "name" not in [mark.args[0] for mark in marks] or law.__module__ != module.__name__:
                continue
            marks = [mark for mark in marks if mark.args[0] != "name"]
            others = [[_row(mark.args[0], values) for values in mark.args[1]] for mark in marks]
            for at, rows in enumerate(itertools.product(*others)):
                given = {key: value for row in rows for key, value in row.items()}
                yield pytest.param(law, given, id=f"{law.__name__}-{at}" if others else law.__name__)


def _row(names: str | tuple[str, ...], values: Any) -> dict[str, Any]:
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    return dict(zip(split, values if len(split) > 1 else (values,), strict=True))


@both
@pytest.mark.parametrize(("law", "given"), list(cases()))
@pytest.mark.usefixtures("wires")
def test_a_plugins_wire_obeys_the_laws(name: str, law: Callable[..., None], given: dict[str, Any]) -> None:
    """Round trips, streams, losses, errors and adapting hold for it as for every built-in wire."""
    if "PLACES" in law.__globals__ and law.__name__ == "test_an_answer_always_has_an_id_and_a_model":
        pytest.skip("a table of built-in wires")
    law(name=name, **given)


@both
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.usefixtures("wires")
async def test_a_plugins_wire_makes_calls(name: str, streamed: bool) -> None:
    """`complete` and `stream` reach the paths of the wire, and tools come and go under their own names."""
    context = il.Context(
        system="Be brief.",
        messages=(il.UserMessage(content="Weather?"),),
        tools=(
            il.ToolSpec(name="weather", input_schema={"type": "object", "properties": {"city": {"type": "string"}}}),
        ),
    )
    with Server() as server:
        server.call("weather", {"city": "Oslo"}, text="Let me see.")
        model = described(name, server)
        if streamed:
            answer = await il.stream(model, context).result()
        else:
            answer = await il.complete(model, context)
    path = "/llm/spare/talk" if name == VARIANT else "/own/talk"
    assert (f"/{name}{path}", name) == (server.last.path, server.last.api)
    assert ("Let me see.", [("weather", {"city": "Oslo"})]) == (
        answer.text,
        [(call.name, call.arguments) for call in answer.tool_calls],
    )
    assert (name, "toolUse") == (answer.api, answer.stop_reason)


@pytest.mark.usefixtures("wires")
async def test_a_plugins_decoder_may_have_only_the_methods_of_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """`feed`, `close` and `restoring` are enough; frames are then decoded one by one."""
    inner = WIRES[OWN].codec.StreamDecoder

    class Minimal:
        failure = None

        def __init__(self, **given: Any) -> None:
            decoder = inner(**given)
            self.feed, self.close, self.restoring = decoder.feed, decoder.close, decoder.restoring

    monkeypatch.setattr(WIRES[OWN].codec, "StreamDecoder", Minimal)
    with Server() as server:
        server.say("Hello there.")
        message = await il.stream(described(OWN, server), "Hi").result()
    assert ("Hello there.", "stop") == (message.text, message.stop_reason)
    law = test_odd_answers.test_half_a_pair_in_an_answer_is_among_the_losses_of_the_call
    await asyncio.to_thread(law, OWN, True, "~half~")


@both
@pytest.mark.usefixtures("wires")
async def test_a_plugins_wire_fails_as_others_do(name: str) -> None:
    """An error inside a stream and an error answer are the wire's own, and typed."""
    with Server() as server:
        server.say("never mind", fault=ErrorEvent("overloaded", after_events=1))
        message = await il.stream(described(name, server), "Hi", retry=0).result()
        assert ("error", True) == (message.stop_reason, "overloaded" in (message.error_message or ""))
        server.clear()
        server.answer(il.ProviderError("slow down", status=429))
        with pytest.raises(il.RateLimited, match="slow down"):
            await il.complete(described(name, server), "Hi", retry=0)


@both
@pytest.mark.usefixtures("wires")
def test_a_plugins_wire_is_detected(name: str) -> None:
    """By its evidence, with its rank among the others; a test that raises says nothing."""
    body = {"model": MODELS[name], "messages": [{"role": "user", "content": "Hi"}]}
    found = il.detect(json.dumps(body))
    assert found is not None
    assert (name, True) == (found.dialect, "openai-completions" in found.others)
    assert MODELS[name] == il.decode(body).model.id  # type: ignore[union-attr]


@pytest.mark.usefixtures("wires")
def test_recorded_answers_of_a_plugins_wire_are_read() -> None:
    """Whole and streamed ones, by the plugin's evidence alone."""
    chunks = [
        {"model": "own/small", "message": {"role": "assistant", "content": "Hel"}, "done": False},
        {"model": "own/small", "message": {"role": "assistant", "content": "lo"}, "done": True, "done_reason": "stop"},
    ]
    streamed = il.decode("\n".join(map(json.dumps, chunks)))
    whole = il.decode({**chunks[1], "message": {"role": "assistant", "content": "Hello"}})
    assert [("Hello", OWN)] * 2 == [(one.entries[0].message.text, one.model.api) for one in (streamed, whole)]  # type: ignore[union-attr]


@both
@pytest.mark.parametrize("other", sorted(WIRES))
@pytest.mark.usefixtures("wires")
def test_conversations_go_to_a_plugins_wire_and_back(name: str, other: str) -> None:
    """`convert` in both directions, `check` and `adapt` with the limits of the wire."""
    request = il.Request(
        model=il.ModelDescriptor(id="m", api=other),
        context=il.Context(
            messages=(
                il.UserMessage(content="Weather?"),
                il.AssistantMessage(content=(il.ToolCall(id="call_1", name="weather", arguments={"city": "Oslo"}),)),
                il.ToolResultMessage(
                    tool_call_id="call_1", tool_name="weather", content=(il.TextBlock(text="5 °C"),), is_error=False
                ),
            )
        ),
    )
    there = il.convert(il.encode(il.Conversation.of(request), other).body, name, other)
    back = il.decode(il.convert(there.body, other, name).body, other)
    messages = [entry.message for entry in back.entries]
    assert ["user", "assistant", "toolResult"] == [message.role for message in messages]
    assert [("weather", {"city": "Oslo"})] == [(c.name, c.arguments) for c in messages[1].tool_calls]
    assert [] == [finding for finding in il.check(there.body, name, target=name) if finding.severity == "error"]


@pytest.mark.usefixtures("wires")
def test_the_limits_of_a_plugins_wire_are_kept() -> None:
    """What it refuses is adapted and found."""
    request = il.Request(
        model=il.ModelDescriptor(id="m", api=VARIANT),
        context=il.Context(messages=(il.UserMessage(content="Hi"),)),
        options=il.Options(stop=("a", "b")),
    )
    assert ("a",) == il.adapt(request, VARIANT).request.options.stop
    assert ["$.options.stop"] == [finding.path for finding in il.check(request, target=VARIANT)]
    assert () == il.check(request, target=OWN)
    assert [] == extract_tool_schemas([], OWN)[0]


@pytest.mark.usefixtures("wires")
def test_the_command_line_lists_and_writes_a_plugins_wire(tmp_path: Path) -> None:
    """`dialects` and `convert` know what was registered before they run."""
    listed = CliRunner().invoke(group, ["dialects", "--json"])
    assert {VARIANT, OWN} <= {row["name"] for row in json.loads(listed.stdout) if row["kind"] == "wire"}
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(json.dumps({"model": "own/small", "messages": [{"role": "user", "content": "Hi"}]}))
    done = CliRunner().invoke(group, ["convert", str(source), "-t", VARIANT, "-o", str(target), "-j", "1"])
    assert 0 == done.exit_code, done.output
    assert [{"role": "user", "content": "Hi"}] == json.loads(target.read_text())["messages"]


@pytest.mark.usefixtures("wires")
def test_the_test_server_finds_a_plugins_wire_by_its_path() -> None:
    """With the name of the wire in front, or by the end of the path alone."""
    assert [VARIANT, VARIANT, OWN, OWN] == [
        route(path).api for path in (f"/{VARIANT}/spare/talk", "/spare/talk", "/x/own/talk", "/own/models")
    ]


def test_a_wire_goes_by_its_own_name(tmp_path: Path) -> None:
    """A name that is not the wire's is refused, with both names."""
    code = """
        from interlingua.dialects.ollama.wire import OLLAMA
        def register(api):
            api.register_dialect("one", OLLAMA.variant("other"))
    """
    plugin(tmp_path, "named", code)
    loaded = load_plugins(tmp_path)
    assert ["the dialect 'other' cannot be registered as 'one'; use its own name"] == [
        problem.message.removeprefix("register: ") for problem in loaded.problems
    ]
