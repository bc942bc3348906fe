"""What the clawtools documents let others write works as they write it: tools, connectors, plugins, contexts."""

import asyncio
import inspect
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import interlingua as il
from interlingua import clawtools
from interlingua.connect.client import Client
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.retry import NEVER
from interlingua.tools import call_tool, to_openrouter_schema
from interlingua.tools.tool import as_tool
from interlingua.values.folding import unfold
from interlingua.values.request import ResolvedAuth, StreamContext
from plugins.making import plugin

SEED = Path(__file__).parents[3] / "shared" / "seeds"
PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
VISITOR = {"senderIsOwner": False}


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """No test leaves a plugin's module behind."""
    before = set(sys.modules)
    yield
    for name in [name for name in sys.modules if name.startswith("interlingua_plugin_") and name not in before]:
        del sys.modules[name]


async def shout(call_id: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": params["text"].upper()}], "details": {"id": call_id}}


# --- names -----------------------------------------------------------------------------------------------------------


def test_every_type_of_the_reference_page_is_importable() -> None:
    """Each heading of the types reference that names a type."""
    pages = [*SEED.glob("002*")]
    if not pages:
        pytest.skip("the documents are not here")
    headings = re.findall(r"^### `(\w+)", pages[0].read_text(), re.MULTILINE)
    assert len(headings) > 30
    assert [] == [name for name in headings if not hasattr(clawtools, name)]


def test_what_is_listed_is_there() -> None:
    """`__all__` names nothing else."""
    assert [] == [name for name in clawtools.__all__ if not hasattr(clawtools, name)]


# --- tools -----------------------------------------------------------------------------------------------------------


async def two(call_id: str, params: dict[str, Any]) -> str:
    return f"{call_id} {params['text']} {None} {None}"


async def three(call_id: str, params: dict[str, Any], signal: Any) -> str:
    return f"{call_id} {params['text']} {type(signal).__name__} {None}"


async def four(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> str:
    on_update({"content": [{"type": "text", "text": "half"}]})
    on_update({"details": {"done": 0.5}})
    return f"{call_id} {params['text']} {type(signal).__name__} called"


async def by_name(call_id: str, params: dict[str, Any], *, onUpdate: Any) -> str:
    onUpdate({"content": [{"type": "text", "text": "half"}]})
    return f"{call_id} {params['text']} {None} called"


def plain(call_id: str, params: dict[str, Any]) -> str:
    return f"{call_id} {params['text']} {None} {None}"


@pytest.mark.parametrize("made", [dict, SimpleNamespace, il.Tool])
@pytest.mark.parametrize(
    ("execute", "expected", "updates"),
    [
        (two, "c hi None None", []),
        (plain, "c hi None None", []),
        (three, "c hi Abort None", []),
        (four, "c hi Abort called", [("half", None), ("", {"done": 0.5})]),
        (by_name, "c hi None called", [("half", None)]),
    ],
)
async def test_execute_may_leave_out_arguments(made: Any, execute: Any, expected: str, updates: list[Any]) -> None:
    """Two, three or four of them, by coroutine or not; partial results may lack content or details."""
    tool = made(name="t", description="d", parameters=PARAMETERS, execute=execute)
    received: list[Any] = []
    result = await call_tool(
        tool, "c", {"text": "hi"}, on_update=lambda part: received.append((part.text, part.details))
    )
    assert (expected, updates) == (result.text, received)


@pytest.mark.parametrize("execute", [lambda: "x", lambda params: "x", lambda a, b, c, d, e: "x"])
def test_execute_with_other_arguments_is_refused_when_the_tool_is_made(execute: Any) -> None:
    """Not in the middle of a run."""
    with pytest.raises(il.FormatError, match="execute of the tool t takes"):
        il.Tool(name="t", description="d", parameters={}, execute=execute)


async def test_an_agent_runs_tools_that_take_fewer_arguments() -> None:
    """The same through the loop, with hooks around the call."""
    from agent.making import agent_of, calling

    tools = [{"name": "shout", "description": "", "parameters": PARAMETERS, "execute": shout}]
    agent = agent_of(calling(il_call("shout", {"text": "hi"})), "done", tools=tools, before_tool_call=lambda seen: None)  # type: ignore[arg-type]
    result = await agent.prompt("go")
    (answered,) = [m for m in result.messages if isinstance(m, il.ToolResultMessage)]
    assert ("HI", {"id": "shout"}) == (answered.text, answered.details)


def il_call(name: str, arguments: dict[str, Any]) -> Any:
    from interlingua.connect.debug import ScriptedCall

    return ScriptedCall(name=name, id=name, arguments=arguments)


@pytest.mark.parametrize("locked", [{"ownerOnly": True}, {"owner_only": True}, {"ownerOnly": True, "owner_only": None}])
@pytest.mark.parametrize("made", [dict, SimpleNamespace])
@pytest.mark.parametrize(
    "way", ["register", "factory", "list", "async factory", "plugin", "plugin list", "plugin factory", "agent", "call"]
)
async def test_a_tool_for_owners_stays_one_however_it_is_registered(
    tmp_path: Path, way: str, made: Any, locked: dict[str, Any]
) -> None:
    """Nobody else runs it; the owner does."""
    ran: list[str] = []

    async def pay(call_id: str, params: dict[str, Any]) -> str:
        ran.append(call_id)
        return "paid"

    tool = made(name="pay", description="Pays.", parameters={"type": "object"}, execute=pay, **locked)
    found = await registered(tmp_path, way, tool)
    refused = await call_tool(found, "visitor", {}, context=VISITOR)
    allowed = await call_tool(found, "owner", {}, context={"sender_is_owner": True})
    assert (403, "paid", ["owner"]) == (refused.details["status"], allowed.text, ran)


async def registered(root: Path, way: str, tool: Any) -> Any:
    """The tool as it comes out of this way of registering it."""
    from agent.making import agent_of

    tools = il.ToolRegistry()
    about = {"id": "pay"}

    async def later(context: Any) -> Any:
        return [tool]

    match way:
        case "call":
            return tool
        case "agent":
            return agent_of("x", tools=[tool]).tools[0]
        case "register":
            tools.register(tool)
        case "factory":
            tools.register_factory(lambda context: tool, about)
        case "list":
            tools.register_factory(lambda context: [tool, None] and [tool], about)
        case "async factory":
            tools.register_factory(later, about)
        case _:
            given = {"plugin": "tool", "plugin list": "[tool]", "plugin factory": "lambda context: tool"}[way]
            plugin(root, "payer", f"def register(api):\n    tool = api.config['tool']\n    api.registerTool({given})")
            (loaded,) = il.load_plugins(root, tools=tools, config={"tool": tool})
            assert () == loaded.problems
    return await tools.aresolve("pay") or (await tools.aresolve_all())[0]


async def test_a_tool_for_owners_stays_one_behind_mcp() -> None:
    """The server refuses it to a context that is no owner's."""
    mcp = pytest.importorskip("mcp")
    from interlingua.mcp.server import make_server
    from interlingua.tools.policy import ALLOW

    tool = {"name": "pay", "description": "", "parameters": {"type": "object"}, "execute": two, "ownerOnly": True}
    server = make_server([tool], policy=ALLOW, context=clawtools.ToolContext(sender_is_owner=False))
    async with mcp.Client(server) as client:
        answer = await client.call_tool("pay", {})
    assert answer.is_error
    assert "only be used by the owner" in answer.content[0].text


async def test_a_factory_may_be_called_without_a_context_or_give_nothing(tmp_path: Path) -> None:
    """`() => tool`, `null` and `undefined` are factories and answers of the documents."""
    tools = il.ToolRegistry()
    tool = {"name": "shout", "description": "", "parameters": PARAMETERS, "execute": shout}
    seen: list[Any] = []
    tools.register_factory(lambda context: seen.append(context.workspace_dir), {"id": "none"})
    tools.register_factory(lambda: tool, {"id": "some", "label": "Some", "sectionId": "mine", "profiles": ["coding"]})
    assert ["shout"] == [one.name for one in tools.resolve_all({"workspaceDir": "/w"})]
    assert (["/w"], ("coding",), "mine") == (seen, tools.list()[1].profiles, tools.list()[1].section_id)


def test_a_context_with_a_misspelt_field_is_refused() -> None:
    """And not taken as one without the field."""
    with pytest.raises(il.FormatError, match="unknown fields 'workspacedir'"):
        il.ToolRegistry().resolve_all({"workspacedir": "/w"})


@pytest.mark.parametrize("given", ["tool", "spec", "json"])
def test_a_tool_is_wrapped_for_openrouter(given: str) -> None:
    """Only the wrapper differs: the schema is the same."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    about: dict[str, Any] = {"name": "read_file", "description": "Read a file"}
    tool: Any = {
        "tool": il.Tool(**about, parameters=schema, execute=two),
        "spec": il.ToolSpec(**about, input_schema=schema),
        "json": {**about, "input_schema": schema},
    }[given]
    assert {"type": "function", "function": {**about, "parameters": schema}} == to_openrouter_schema(tool)


async def test_the_specifications_own_read_call_runs(tmp_path: Path) -> None:
    """`file_path` absolute, `offset` 0, as in its example of an answer with calls."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "index.ts").write_text("import { createServer } from 'http';\n")
    ct = await clawtools.create_clawtools({"skipBuiltinConnectors": True})
    context = {"root": str(tmp_path), "bridge": clawtools.create_node_bridge(str(tmp_path))}
    read = ct.tools.resolve("read", context)
    arguments = {"file_path": str(tmp_path / "src" / "index.ts"), "offset": 0, "limit": 200}
    result = await call_tool(read, "toolu_1", arguments)
    assert (False, "createServer" in result.text) == (result.is_error, True)


def test_the_bridge_example_gives_the_file_tools(tmp_path: Path) -> None:
    """`ct.tools.resolveAll({workspaceDir, root, bridge})`."""
    ct = clawtools.create_clawtools()
    bridge = clawtools.create_node_bridge(str(tmp_path))
    tools = ct.tools.resolve_all({"workspaceDir": str(tmp_path), "root": str(tmp_path), "bridge": bridge})
    assert {"read", "write", "edit"} <= {tool.name for tool in tools}
    assert [] == [tool for tool in ct.tools.resolve_all({}) if tool.name in ("read", "write", "edit")]


# --- contexts and messages -------------------------------------------------------------------------------------------


USER = {"role": "user", "content": "Read it."}
TURN = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": "I'll read that file now."},
        {"type": "toolCall", "id": "call_abc123", "name": "read", "arguments": {"path": "src/index.ts"}},
    ],
}
RESULT = {
    "role": "toolResult",
    "toolCallId": "call_abc123",
    "toolName": "read",
    "content": [{"type": "text", "text": "File contents here…"}],
    "isError": False,
}
TOOLS = [{"name": "read", "description": "Read a file", "input_schema": {"type": "object"}}]


@pytest.mark.parametrize("made", [StreamContext, il.Context, clawtools.StreamContext])
def test_a_context_takes_the_system_prompt_by_its_documented_name(made: Any) -> None:
    """And is the same context as with our own name for it."""
    context = made(system_prompt="Be brief.", messages=[il.UserMessage(content="x")])
    assert il.Context(system="Be brief.", messages=(il.UserMessage(content="x"),)) == context
    assert ("Be brief.", "Be brief.") == (context.system, context.system_prompt)
    with pytest.raises(il.FormatError, match="one system text"):
        made(system="a", system_prompt="b", messages=())


@pytest.mark.parametrize("form", ["values", "json", "mixed", "whole"])
async def test_a_context_of_json_reaches_the_model_as_what_it_says(form: str) -> None:
    """Messages and tools as the documents write them, through the client and through a connector."""
    messages: list[Any] = [USER, TURN, RESULT]
    if form == "mixed":
        messages[0] = il.UserMessage(content="Read it.")
    context: Any = StreamContext(system_prompt="Be brief.", messages=messages, tools=TOOLS)
    if form == "whole":
        context = {"systemPrompt": "Be brief.", "messages": messages, "tools": TOOLS}
    elif form == "values":
        context = il.load(json.dumps({"systemPrompt": "Be brief.", "messages": messages, "tools": TOOLS}), il.Context)
    seen: list[il.Request] = []

    def reply(request: il.Request) -> str:
        seen.append(request)
        return "Done."

    connector = scripted(reply)
    client = Client(connectors=ConnectorRegistry([connector]), retry=NEVER)
    answer = await client.complete("debug/script", context)
    stream = connector.stream({"id": "script", "api": "debug", "provider": "debug"}, context, {"maxTokens": 9})
    assert ("Done.", "Done.") == (answer.text, (await stream.result()).text)
    for request in seen:
        user, turn, result = request.context.messages
        assert "Be brief." == request.context.system_prompt
        assert ("Read it.", ["read"], "File contents here…") == (
            user.text,
            [call.name for call in turn.tool_calls],  # type: ignore[union-attr]
            result.text,
        )
        assert ["read"] == [tool.name for tool in request.context.tools or ()]
    assert 9 == seen[1].options.max_tokens


def scripted(reply: Any) -> Any:
    from interlingua.connect.debug import DebugConnector

    return DebugConnector(reply)


# --- connectors ------------------------------------------------------------------------------------------------------


START, DONE = {"type": "start"}, {"type": "done", "stopReason": "stop", "usage": {"inputTokens": 3, "outputTokens": 2}}
CALL = {"id": "c1", "name": "read", "arguments": {"path": "a"}}

STREAMS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "text": (
        [START, {"type": "text_delta", "delta": "Hel"}, {"type": "text_delta", "delta": "lo"},
         {"type": "text_end", "content": "Hello"}, DONE],
        {"text": "Hello", "stop_reason": "stop"},
    ),
    "text without its end": ([START, {"type": "text_delta", "delta": "Hello"}, DONE], {"text": "Hello"}),
    "text without deltas": ([START, {"type": "text_end", "content": "Hello"}, DONE], {"text": "Hello"}),
    "no start": ([{"type": "text_delta", "delta": "Hello"}, DONE], {"text": "Hello"}),
    "no usage": ([START, {"type": "text_delta", "delta": "x"}, {"type": "done", "stopReason": "length"}],
                 {"stop_reason": "length", "usage": None}),
    "usage in part": (
        [START, {"type": "text_delta", "delta": "x"}, {**DONE, "usage": {"outputTokens": 2}}],
        {"usage": il.Usage.of(0, 2)},
    ),
    "thinking": (
        [START, {"type": "thinking_delta", "delta": "Hm"}, {"type": "thinking_end", "content": "Hm"},
         {"type": "text_delta", "delta": "Yes"}, {"type": "text_end", "content": "Yes"}, DONE],
        {"thinking": "Hm", "text": "Yes"},
    ),
    "a call": (
        [START, {"type": "toolcall_start"}, {"type": "toolcall_delta", "delta": '{"path":'},
         {"type": "toolcall_delta", "delta": '"a"}'}, {"type": "toolcall_end", "toolCall": CALL},
         {"type": "done", "stopReason": "toolUse"}],
        {"tool_calls": (il.ToolCall(**CALL),), "stop_reason": "toolUse"},
    ),
    "a call at once": ([START, {"type": "toolcall_end", "toolCall": CALL}, {"type": "done", "stopReason": "toolUse"}],
                       {"tool_calls": (il.ToolCall(**CALL),)}),
    "calls side by side": (
        [START, {"type": "toolcall_start", "id": "c1"}, {"type": "toolcall_start", "id": "c2"},
         {"type": "toolcall_delta", "id": "c2", "delta": "{}"}, {"type": "toolcall_delta", "id": "c1", "delta": "{"},
         {"type": "toolcall_end", "toolCall": {**CALL, "id": "c2"}},
         {"type": "toolcall_delta", "id": "c1", "delta": "}"},
         {"type": "toolcall_end", "toolCall": CALL}, {"type": "done", "stopReason": "toolUse"}],
        {"tool_calls": (il.ToolCall(**CALL), il.ToolCall(**{**CALL, "id": "c2"}))},
    ),
    "an unknown event": ([START, {"type": "ping"}, {"type": "text_delta", "delta": "x"}, DONE], {"text": "x"}),
    "an error": ([{"type": "error", "error": "it broke"}], {"stop_reason": "error", "error_message": "it broke"}),
    "an error in the middle": (
        [START, {"type": "text_delta", "delta": "Hel"}, {"type": "error", "error": "it broke"}],
        {"text": "Hel", "stop_reason": "error", "error_message": "it broke"},
    ),
    "done with an error": ([START, {"type": "done", "stopReason": "error"}], {"stop_reason": "error"}),
}  # fmt: skip


def as_object(value: Any) -> Any:
    """JSON as an object with names in snake_case."""
    from interlingua.values.interop import snake_case

    if isinstance(value, dict) and "arguments" not in value and "path" not in value:
        return SimpleNamespace(**{snake_case(name): as_object(item) for name, item in value.items()})
    return SimpleNamespace(**value) if isinstance(value, dict) and "arguments" in value else value


def connector_of(events: list[Any], how: str, **more: Any) -> Any:
    """A connector of the documents that yields these events, with nothing that may be absent."""

    async def stream(model: Any, context: Any, options: Any) -> AsyncIterator[Any]:
        for event in events:
            await asyncio.sleep(0)
            yield event

    ways: dict[str, Any] = {
        "async": stream,
        "two arguments": lambda model, context: stream(model, context, None),
        "list": lambda *_: events,
        "generator": lambda *_: iter(events),
        "awaitable": lambda *_: _later(stream(*_)),
    }
    return {"id": "mine/one", "provider": "mine", "api": "mine-wire", "stream": ways[how], **more}


async def _later(value: Any) -> Any:
    return value


@pytest.mark.parametrize("how", ["async", "two arguments", "list", "generator", "awaitable"])
@pytest.mark.parametrize("form", ["json", "objects"])
@pytest.mark.parametrize("name", STREAMS)
async def test_a_connector_may_yield_the_documented_events(name: str, form: str, how: str) -> None:
    """As mappings or objects, from any kind of iterable; what comes out is a stream of ours."""
    events, expected = STREAMS[name]
    given = events if form == "json" else [as_object(event) for event in events]
    client = Client(connectors=ConnectorRegistry([connector_of(given, how)]), retry=NEVER)
    stream = client.stream("mine/any", "hi")
    received = [event async for event in stream]
    message = await stream.result()
    assert expected == {name: getattr(message, name) for name in expected}
    assert ("mine", "mine-wire", "any") == (message.provider, message.api, message.model)
    assert message == il.fold(received)


@pytest.mark.parametrize("name", STREAMS)
def test_the_events_are_read_back_from_what_they_are_projected_to(name: str) -> None:
    """`unproject` is the inverse of `project`: the same content, stop reason and usage."""
    message = il.fold(clawtools.unproject(STREAMS[name][0]))
    ids: dict[int, str] = {}
    projected = [clawtools.project(event, ids=ids) for event in unfold(message)]
    again = il.fold(clawtools.unproject([event for event in projected if event is not None]))
    assert (message.content, message.stop_reason, message.usage) == (again.content, again.stop_reason, again.usage)


async def test_a_connector_may_yield_our_events_as_json() -> None:
    """The formal specification's, with and without the message so far."""
    message = il.AssistantMessage(content=(il.TextBlock(text="Hello"), il.ToolCall(**CALL)), stop_reason="toolUse")
    for partial in (False, True):
        events = [json.loads(il.dump(event, partial=partial)) for event in unfold(message, size=2)]
        client = Client(connectors=ConnectorRegistry([connector_of(events, "async")]), retry=NEVER)
        answer = await client.complete("mine/any", "hi")
        assert (message.content, "toolUse") == (answer.content, answer.stop_reason)


@pytest.mark.parametrize("form", ["mapping", "object"])
async def test_what_a_connector_may_leave_out_may_be_absent(form: str, tmp_path: Path) -> None:
    """`label`, `models` and `envVars`: it is registered, found, listed and asked, by a plugin or by hand."""
    given = connector_of(STREAMS["text"][0], "async")
    connector = given if form == "mapping" else SimpleNamespace(**given)
    plugin(tmp_path, "mine", "def register(api):\n    api.registerConnector(api.config['connector'])")
    connectors = ConnectorRegistry()
    (loaded,) = il.load_plugins(tmp_path, connectors=connectors, config={"connector": connector})
    assert () == loaded.problems
    found = connectors.get("mine/one")
    assert (form == "object") == (found is connector)
    assert ([], [found], "mine") == (
        connectors.find_model("any"),
        connectors.get_by_api("mine-wire"),
        connectors.list_providers()[0],
    )
    client = Client(connectors=connectors, retry=NEVER)
    assert "Hello" == (await client.complete("mine/any", "hi")).text
    described = il.ModelDescriptor(id="any", api="mine-wire", provider="mine")
    assert "Hello" == (await client.complete(described, "hi")).text
    loaded.unload()


async def test_models_may_be_listed_as_json() -> None:
    """They are found by their ids."""
    models = [{"id": "big", "api": "mine-wire", "provider": "mine", "contextWindow": 1000}]
    client = Client(
        connectors=ConnectorRegistry([connector_of(STREAMS["text"][0], "async", models=models)]), retry=NEVER
    )
    assert 1000 == client.find("big")[1].context_window
    assert "big" == (await client.complete("big", "hi")).model


async def test_a_connectors_variables_give_it_its_key() -> None:
    """`envVars`: the key goes to that connector, unless the caller gives one."""
    keys: list[Any] = []

    async def stream(model: Any, context: Any, options: Any) -> AsyncIterator[Any]:
        keys.append(options.api_key)
        yield DONE | {"stopReason": "stop"}

    connector = {"id": "mine/one", "provider": "mine", "api": "w", "envVars": ["MINE_KEY"], "stream": stream}
    client = Client(connectors=ConnectorRegistry([connector]), retry=NEVER)
    for more in ({}, {"api_key": "given"}, {"env": {}}):
        await client.complete("mine/any", "hi", **{"env": {"MINE_KEY": "from-variable"}, **more})
    assert ["from-variable", "given", None] == keys


@pytest.mark.parametrize("missing", ["id", "provider", "api", "stream"])
def test_a_connector_without_a_required_name_is_refused(missing: str) -> None:
    """With the name of what it lacks."""
    given = {name: value for name, value in connector_of([], "async").items() if name != missing}
    with pytest.raises(il.FormatError, match=f"it lacks {missing}"):
        ConnectorRegistry().register(given)


async def resolving(provider: str) -> ResolvedAuth:
    return ResolvedAuth(api_key="k-async", mode="api-key")


class Resolver:
    def resolve(self, provider: str) -> dict[str, Any]:
        return {"apiKey": f"k-{provider}", "mode": "api-key"}


@pytest.mark.parametrize(
    ("resolver", "key"),
    [
        (lambda provider: ResolvedAuth(api_key=f"k-{provider}", mode="api-key"), "k-openai"),
        (lambda provider: {"apiKey": f"k-{provider}", "mode": "api-key"}, "k-openai"),
        (lambda provider: {"api_key": "k-snake"}, "k-snake"),
        (lambda provider: "k-text", "k-text"),
        (lambda: "k-none", "k-none"),
        (resolving, "k-async"),
        (Resolver(), "k-openai"),
        (lambda provider: None, None),
    ],
)
async def test_an_auth_resolver_may_be_a_plain_function(resolver: Any, key: str | None) -> None:
    """Of the provider's name, sync or async; a key that the caller gives counts before it."""
    from interlingua.testing import Server

    async with Server() as server:
        client = Client(auth=resolver, retry=NEVER)
        where = {"base_url": server.base_url("openai-responses")}
        if key is None:
            with pytest.raises(il.AuthFailed):
                await client.complete("openai/gpt-4o-mini", "hi", **where)
        else:
            await client.complete("openai/gpt-4o-mini", "hi", **where)
            assert f"Bearer {key}" == server.requests[-1].headers["Authorization"]
        await client.complete("openai/gpt-4o-mini", "hi", api_key="mine", **where)
        assert "Bearer mine" == server.requests[-1].headers["Authorization"]


# --- plugins ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "def register(api): api.registerTool(TOOL)",
        "def activate(api): api.register_tool(TOOL, {'optional': False})",
        "plugin = {'id': 'parrot', 'register': lambda api: api.registerTool(TOOL)}",
        "plugin = {'id': 'parrot', 'activate': lambda api: api.registerTool([TOOL])}",
        "async def register(api): api.registerTool(lambda ctx: [TOOL], {'names': ['shout']})",
        "from interlingua.plugins import PluginDefinition\n"
        "plugin = PluginDefinition(id='parrot', register=lambda api: api.registerTool(TOOL))",
        "class plugin:\n    id = 'parrot'\n    def register(self, api): api.registerTool(TOOL)",
        "plugin = TOOL",
    ],
)
async def test_a_plugin_is_defined_in_any_documented_way(tmp_path: Path, code: str) -> None:
    """A function, an object, a mapping; `register` or its alias; sync or async."""
    tool = (
        "TOOL = {'name': 'shout', 'description': '', 'parameters': {'type': 'object'},"
        " 'execute': lambda call_id, params: 'HI'}\n"
    )
    plugin(tmp_path, "parrot", tool + code)
    tools = il.ToolRegistry()
    options = {"searchPaths": [str(tmp_path)], "enabledPlugins": ["parrot"], "logger": {"info": str, "error": str}}
    loaded = await clawtools.aload_plugins(options, tools=tools)
    assert ([], ["parrot"]) == (loaded.problems, [one.id for one in loaded])
    (found,) = await tools.aresolve_all()
    assert "HI" == (await call_tool(found, "c", {})).text
    loaded.unload()


def test_a_plugin_may_call_everything_the_documents_name(tmp_path: Path) -> None:
    """Two registrations count, ten are recorded, and a path is resolved."""
    names = (
        "registerHook registerHttpHandler registerHttpRoute registerChannel registerGatewayMethod registerCli "
        "registerService registerProvider registerCommand on"
    )
    calls = "\n".join(f"    api.{name}('x', {{'y': 1}})" for name in names.split())
    plugin(tmp_path, "busy", f"def register(api):\n{calls}\n    api.resolvePath('plugin.py')")
    (loaded,) = il.load_plugins({"searchPaths": [str(tmp_path)]})
    assert (10, ()) == (len(loaded.registrations), loaded.problems)
    loaded.unload()


def test_what_the_documents_call_a_tool_is_one_of_ours() -> None:
    """With every optional field absent, in either spelling, or None."""
    bare = {"name": "t", "execute": two}
    full = {**bare, "label": None, "description": "d", "parameters": PARAMETERS, "ownerOnly": False, "sequential": True}
    made = [as_tool(bare), as_tool(full), as_tool(SimpleNamespace(**bare))]
    assert [("t", "", False), ("t", "d", False), ("t", "", False)] == [
        (tool.name, tool.description, tool.owner_only) for tool in made if tool is not None
    ]
    assert [None] * 5 == [as_tool(one) for one in (7, "x", {}, {"name": "t"}, {"name": "", "execute": two})]


def test_helpers_of_the_documents_are_the_packages_own() -> None:
    """One thing under two names, not two things."""
    assert (il.Tool, il.load_plugins, StreamContext) == (
        clawtools.Tool,
        clawtools.load_plugins,
        clawtools.StreamContext,
    )
    assert inspect.iscoroutinefunction(clawtools.aload_plugins)
