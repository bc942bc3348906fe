"""The toolkit: tools, connectors, extensions and plugins in one call, sync and async, isolated from each other."""

import textwrap
from pathlib import Path

import pytest

from interlingua import (
    Client,
    Context,
    FormatError,
    ToolRegistry,
    ToolResultMessage,
    UserMessage,
    tool,
)
from interlingua.connect.debug import DebugConnector, ScriptedCall, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.plugins.toolkit import DiscoveryOptions, Toolkit, create_toolkit, create_toolkit_async
from interlingua.tools import ToolContext, call_tool, extract_tool_schemas
from interlingua.values.messages import text_of
from plugins.making import ECHO, plugin

SLOW = ECHO.replace(
    "def register(api):", "async def register(api):\n        import asyncio\n        await asyncio.sleep(0)"
)


def test_a_toolkit_has_registries_and_lists() -> None:
    """Core tools and built-in connectors are there, each connector with a provider and models or an api."""
    kit = create_toolkit()
    assert (ToolRegistry, ConnectorRegistry, list) == (type(kit.tools), type(kit.connectors), type(kit.extensions))
    assert {"read", "exec", "web_fetch"} <= {meta.id for meta in kit.tools}
    assert {"anthropic", "openai", "google"} <= set(kit.connectors.list_providers())
    assert all(connector.id and connector.api for connector in kit.connectors)


async def test_ready_can_be_awaited_any_number_of_times() -> None:
    """Of a toolkit that is loaded, it says so at once."""
    kit = create_toolkit(skip_core_tools=True, skip_builtin_connectors=True)
    await kit.ready
    await kit.ready
    assert (0, 0) == (len(kit.tools), len(kit.connectors))


async def made(how: str, **options: object) -> Toolkit:
    return create_toolkit(**options) if how == "sync" else await create_toolkit_async(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_parts_can_be_left_out_and_chosen(how: str) -> None:
    """The skip flags leave registries empty; the options for tools choose them, in either spelling."""
    empty = await made(how, skip_core_tools=True, skip_builtin_connectors=True)
    assert (0, 0, []) == (len(empty.tools), empty.connectors.size, empty.extensions)
    some = await made(
        how, tools=DiscoveryOptions(include=["group:fs"], exclude=["write"]), skip_builtin_connectors=True
    )
    assert ["read", "edit", "apply_patch", "ls", "find", "grep"] == [meta.id for meta in some.tools]
    received: list[str] = []
    await made(how, tools={"include": ["group:none"], "onLoadWarning": received.append}, skip_builtin_connectors=True)
    assert 1 == len(received)
    with pytest.raises(FormatError, match="tools has unknown fields 'wrong'; valid fields: openclaw_root, include"):
        await made(how, tools={"wrong": 1})


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_toolkits_share_nothing(how: str, tmp_path: Path) -> None:
    """What is registered in one, plugins included, is not in another; and one can register afterwards."""
    plugin(tmp_path, "parrot")
    one = await made(how, plugins=[tmp_path])
    two = await made(how, plugins=[tmp_path])

    @tool
    def mine() -> str:
        """Mine."""
        return "mine"

    one.tools.register(mine)
    one.connectors.clear()
    one.unload()
    assert (True, False) == ("mine" in one.tools, "mine" in two.tools)
    assert (False, True) == ("echo" in one.tools, "echo" in two.tools)
    assert (0, True) == (one.connectors.size, two.connectors.size > 10)
    two.unload()


def test_extensions_of_a_checkout_are_listed_and_not_run(tmp_path: Path) -> None:
    """`openclaw_root` is looked at by the manifests in it; loading from it takes its path in `plugins`."""
    plugin(
        tmp_path / "extensions",
        "parrot",
        textwrap.dedent(ECHO) + f"open({str(tmp_path / 'ran')!r}, 'w').close()",
        name="Parrot",
        channels=["chat"],
    )
    plugin(tmp_path / "extensions", "script", None, providers=["x"], manifest="openclaw.plugin.json")
    (tmp_path / "extensions" / "script" / "index.ts").write_text("")
    kit = create_toolkit(openclaw_root=str(tmp_path), skip_builtin_connectors=True)
    assert [("parrot", "Parrot", ("chat",), ()), ("script", "script", (), ("x",))] == [
        (info.id, info.name, info.channels, info.providers) for info in kit.extensions
    ]
    assert all(Path(info.path).is_dir() for info in kit.extensions)
    assert ([], [], False) == (kit.plugins, kit.plugins.problems, (tmp_path / "ran").exists())
    loaded = create_toolkit(plugins=[tmp_path / "extensions"], skip_builtin_connectors=True)
    assert (["parrot"], ["script"], True) == (
        [one.id for one in loaded.plugins],
        [problem.plugin_id for problem in loaded.plugins.problems],
        (tmp_path / "ran").exists(),
    )
    loaded.unload()
    assert (str(tmp_path),) == kit.tools.search_roots
    elsewhere = create_toolkit(extensions_dir=tmp_path / "none", openclaw_root=str(tmp_path), skip_core_tools=True)
    assert [] == elsewhere.extensions
    own = create_toolkit(openclaw_root="/nowhere", tools={"openclawRoot": str(tmp_path)}, skip_builtin_connectors=True)
    assert 2 == len(own.extensions)
    for one in (kit, elsewhere, own):
        one.unload()


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_lazy_loads_when_it_is_awaited(how: str, tmp_path: Path) -> None:
    """Core tools are there at once; connectors and plugins, asynchronous ones too, when `ready` was awaited."""
    plugin(tmp_path, "parrot", SLOW)
    kit = await made(how, lazy=True, plugins=[tmp_path])
    assert (True, False) == ("read" in kit.tools, "echo" in kit.tools)
    await kit.ready
    await kit.ready
    assert (True, True, []) == ("echo" in kit.tools, kit.connectors.size > 10, kit.plugins.problems)
    kit.unload()


async def test_what_goes_wrong_while_loading_lazily_is_raised_by_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure is not lost in the background."""

    def broken() -> None:
        raise OSError("no connectors today")

    monkeypatch.setattr("interlingua.plugins.toolkit.builtin_connectors", broken)
    kit = await create_toolkit_async(lazy=True)
    with pytest.raises(OSError, match="no connectors today"):
        await kit.ready


async def test_plugins_get_their_configuration_and_may_be_chosen(tmp_path: Path) -> None:
    """All options of the loader are options of the toolkit."""
    plugin(tmp_path, "strict", ECHO.replace("echo", "read"), configSchema={"required": ["port"]})
    plugin(tmp_path, "other")
    options = {"plugins": tmp_path, "config": {"strict": {"port": 1}}, "disabled_plugins": ["other"]}
    kit = create_toolkit(**options, replace=["read"], skip_builtin_connectors=True)  # type: ignore[arg-type]
    assert ["strict"] == [one.id for one in kit.plugins]
    assert "strict" == next(meta for meta in kit.tools if meta.id == "read").plugin_id
    kit.unload()
    assert "core" == next(meta for meta in kit.tools if meta.id == "read").source


async def test_a_question_leads_through_a_tool_to_an_answer(tmp_path: Path) -> None:
    """The whole way: resolved tools fit a context, the model calls one, its result goes back with the call's id."""
    plugin(tmp_path, "parrot")
    kit = await create_toolkit_async(plugins=[tmp_path])
    calls = (ScriptedCall(name="echo", arguments={"text": "polly"}),)
    kit.connectors.register(DebugConnector([Step(calls=calls), "She says polly."], provider="fake"))
    tools = kit.tools.resolve_all(ToolContext(root=str(tmp_path)), include=["echo"])
    specs, _ = extract_tool_schemas(tools)
    client = Client(connectors=kit.connectors)
    question = UserMessage(content="what does she say?")
    asked = await client.complete("fake/script", Context(messages=(question,), tools=tuple(specs)))
    (call,) = asked.tool_calls
    result = await call_tool(tools[0], call.id, call.arguments)
    answer = ToolResultMessage(tool_call_id=call.id, tool_name="echo", content=result.content, is_error=False)
    final = await client.complete("fake/script", Context(messages=(question, asked, answer), tools=tuple(specs)))
    assert ("toolUse", "polly", "She says polly.") == (asked.stop_reason, result.text, text_of(final.content))
    kit.unload()
