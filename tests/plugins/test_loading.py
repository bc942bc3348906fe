"""Plugins in folders: which are found, how they register, what they get, and what stays when they go."""

import asyncio
import json
import logging
import sys
from pathlib import Path

import pytest

import interlingua
from interlingua import ToolRegistry
from interlingua.connect.client import builtin_connectors
from interlingua.connect.registry import ConnectorRegistry
from interlingua.dialects import DIALECTS
from interlingua.plugins import aload_plugins, load_plugins
from interlingua.tools import ToolContext, call_tool, discover_core_tools
from interlingua.values.events import Done, Start
from plugins.making import ECHO, Recorder, plugin

CONNECTOR = """
    from interlingua import ModelDescriptor
    from interlingua.connect.debug import DebugConnector

    def register(api):
        api.registerConnector(DebugConnector(provider="parrot", label="Parrot"))
"""

DIALECT = """
    from interlingua import Conversation, Encoded, Entry, UserMessage

    class Lines:
        def decode(self, data):
            return Conversation(entries=tuple(Entry(message=UserMessage(content=x)) for x in data["lines"]))

        def encode(self, conversation):
            return Encoded({"lines": [entry.message.content for entry in conversation.entries]}, ())

        def sniff(self, value):
            return "has lines" if isinstance(value["lines"], list) else None

    def register(api):
        api.register_dialect("lines", Lines())
"""


async def test_a_plugin_brings_a_tool_that_can_be_called(tmp_path: Path) -> None:
    """A folder with a manifest and a plugin.py is loaded, and its tool is in the registry under the plugin's name."""
    plugin(tmp_path, "parrot", name="Parrot", description="Repeats", version="1.2", kind="memory")
    tools = ToolRegistry()
    loaded = load_plugins([tmp_path], tools=tools)
    assert [(one.id, one.name, one.description, one.version, one.kind) for one in loaded] == [
        ("parrot", "Parrot", "Repeats", "1.2", "memory")
    ]
    assert loaded[0].source == str(tmp_path / "parrot" / "plugin.py")
    meta = tools.list()[0]
    assert (meta.id, meta.source, meta.plugin_id) == ("echo", "plugin", "parrot")
    found = tools.resolve("echo")
    assert found is not None
    assert (await call_tool(found, "1", {"text": "hi"})).text == "hi"


def test_both_manifest_names_count_and_ours_first(tmp_path: Path) -> None:
    """OpenClaw's manifest is read; where both are, ours counts."""
    plugin(tmp_path, "theirs", manifest="openclaw.plugin.json")
    folder = plugin(tmp_path, "ours")
    (folder / "openclaw.plugin.json").write_text('{"id": "other"}')
    assert ["ours", "theirs"] == [one.id for one in load_plugins(tmp_path)]


def test_a_search_path_may_be_a_plugin_itself_and_the_home_directory_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`~` is expanded, several paths are searched in order, one that is missing is no error."""
    monkeypatch.setenv("HOME", str(tmp_path))
    plugin(tmp_path / "b", "second")
    plugin(tmp_path / "a", "first")
    loaded = load_plugins(["~/a/first", tmp_path / "b", tmp_path / "missing"])
    assert (["first", "second"], []) == ([one.id for one in loaded], loaded.problems)


@pytest.mark.parametrize("entry", ["plugin.py", "__init__.py", "src/start.py"])
def test_the_entry_is_the_manifests_then_plugin_py_then_init(tmp_path: Path, entry: str) -> None:
    """Each of the three ways to begin works."""
    plugin(tmp_path, "parrot", file=entry)
    if entry == "src/start.py":
        (tmp_path / "parrot/interlingua.plugin.json").write_text(json.dumps({"id": "parrot", "entry": entry}))
    assert [str(tmp_path / "parrot" / entry)] == [one.source for one in load_plugins(tmp_path)]


@pytest.mark.parametrize(
    "code",
    [
        "def activate(api): api.register_tool(TOOL)",
        "plugin = PluginDefinition(id='parrot', register=lambda api: api.register_tool(TOOL))",
        "plugin = PluginDefinition(activate=lambda api: api.register_tool(TOOL))",
        "class P:\n    tool = TOOL\n    def register(self, api): api.register_tool(self.tool)\nplugin = P()",
        "class plugin:\n    tool = TOOL\n    def activate(self, api): api.register_tool(self.tool)",
        "def plugin(api): api.register_tool(TOOL)",
        "def register(api): api.registerTool(TOOL, {'optional': False})",
        "def register(api): api.register_tool({'name': 'echo', 'parameters': {}, 'execute': TOOL.execute})",
    ],
)
def test_a_plugin_may_be_a_function_a_definition_an_object_or_a_class(tmp_path: Path, code: str) -> None:
    """Whatever way a plugin is written, its tool is registered; methods are bound."""
    start = "from interlingua import tool\nfrom interlingua.plugins import PluginDefinition\n@tool(name='echo')\n"
    start += "def TOOL(text: str) -> str:\n    return text\n"
    plugin(tmp_path, "parrot", start + code)
    loaded = load_plugins(tmp_path)
    assert ([], [["echo"]]) == (loaded.problems, [[tool.name for tool in one.tools] for one in loaded])


def test_enabled_and_disabled_choose(tmp_path: Path) -> None:
    """Disabled beats enabled; an empty list of enabled ones loads nothing; an unknown id is no error."""
    for id in ("a", "b", "c"):
        plugin(tmp_path, id)

    def ids(**choice: list[str]) -> list[str]:
        return [one.id for one in load_plugins(tmp_path, **choice)]

    assert ["a", "b", "c"] == ids()
    assert ["b"] == ids(enabled_plugins=["b", "unknown"])
    assert ["a", "c"] == ids(disabled_plugins=["b"])
    assert ["a"] == ids(enabled_plugins=["a", "b"], disabled_plugins=["b"])
    assert ([], []) == (ids(enabled_plugins=[]), ids(enabled_plugins=["unknown"]))


async def test_an_asynchronous_register_is_awaited(tmp_path: Path) -> None:
    """`aload_plugins` awaits it; `load_plugins` says that it cannot."""
    code = ECHO.replace(
        "def register(api):", "async def register(api):\n        import asyncio\n        await asyncio.sleep(0)"
    )
    plugin(tmp_path, "slow", code)
    plugin(tmp_path, "quick")
    loaded = await aload_plugins(tmp_path)
    assert (["quick", "slow"], []) == ([one.id for one in loaded], loaded.problems)
    plain = load_plugins(tmp_path)
    assert ["quick"] == [one.id for one in plain]
    assert [("slow", "register", "its register function is asynchronous; use aload_plugins")] == [
        (problem.plugin_id, problem.stage, problem.message) for problem in plain.problems
    ]


async def test_cancelling_the_load_is_not_a_plugins_failure(tmp_path: Path) -> None:
    """A task that loads plugins can be cancelled."""
    plugin(tmp_path, "endless", "import asyncio\nasync def register(api):\n    await asyncio.sleep(3600)")
    task = asyncio.create_task(aload_plugins(tmp_path))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "interlingua_plugin_endless" not in sys.modules


async def test_a_connector_of_a_plugin_streams(tmp_path: Path) -> None:
    """A connector that a plugin registered answers like any other."""
    plugin(tmp_path, "parrot", CONNECTOR)
    connectors = ConnectorRegistry()
    loaded = load_plugins(tmp_path, connectors=connectors)
    assert 1 == len(loaded[0].connectors)
    client = interlingua.Client(connectors=connectors)
    model = loaded[0].connectors[0].models[0].id
    events = [event async for event in client.stream(f"parrot/{model}", "hello")]
    assert (Start, Done) == (type(events[0]), type(events[-1]))


def test_a_dialect_of_a_plugin_is_one_of_the_formats(tmp_path: Path) -> None:
    """It is found by name, detected, read and written; and gone after unloading."""
    plugin(tmp_path, "lines", DIALECT)
    loaded = load_plugins(tmp_path)
    data = {"lines": ["a", "b"]}
    detected = interlingua.detect(data)
    assert detected is not None
    assert ("lines", "has lines") == (detected.dialect, detected.reason)
    conversation = interlingua.decode(data)
    assert data == interlingua.encode(conversation, "lines").body
    loaded.unload()
    assert "lines" not in DIALECTS
    with pytest.raises(interlingua.InterlinguaError, match="unknown dialect"):
        interlingua.dialect("lines")


def test_a_dialect_that_fails_when_asked_does_not_stop_detection(tmp_path: Path) -> None:
    """One dialect's broken `sniff` says nothing; the others are still asked."""
    plugin(tmp_path, "lines", DIALECT.replace('return "has lines"', "raise RuntimeError\n            return 1"))
    loaded = load_plugins(tmp_path)
    found = interlingua.detect({"messages": [{"role": "user", "content": "hi"}], "lines": []})
    loaded.unload()
    assert found is not None


def test_the_ten_compatibility_registrations_are_recorded(tmp_path: Path) -> None:
    """None of them fails; each is kept with its arguments, in order."""
    names = [
        "registerHook",
        "registerHttpHandler",
        "registerHttpRoute",
        "registerChannel",
        "registerGatewayMethod",
        "registerCli",
        "registerService",
        "registerProvider",
        "registerCommand",
        "on",
    ]
    calls = "\n".join(f"    api.{name}('{name}', flag=True)" for name in names)
    plugin(tmp_path, "hooked", f"def register(api):\n{calls}\n    api.register_hook('snake')")
    loaded = load_plugins(tmp_path)
    assert [*((name,) for name in names), ("snake",)] == [one.args for one in loaded[0].registrations]
    assert {"flag": True} == loaded[0].registrations[0].options
    assert ("register_http_route", "on") == (loaded[0].registrations[2].kind, loaded[0].registrations[9].kind)
    assert () == loaded[0].connectors


def test_the_api_tells_the_plugin_who_it_is(tmp_path: Path) -> None:
    """id, name, version, description, source, configuration, logger and paths are all there, in both spellings."""
    code = """
        def register(api):
            api.on(api.id, api.name, api.version, api.description, api.source, dict(api.config), api.pluginConfig,
                   api.plugin_config, api.resolvePath("data/x.txt"))
            api.logger.warn("careful: 100%")
            api.logger.info("fine")
    """
    folder = plugin(tmp_path, "who", code, name="Who", version="3", description="Asks")
    received = Recorder()
    config = {"who": {"a": 1}, "other": {}}
    loaded = load_plugins(tmp_path, config=config, logger=received)
    assert loaded[0].registrations[0].args == (
        "who",
        "Who",
        "3",
        "Asks",
        str(folder / "plugin.py"),
        config,
        {"a": 1},
        {"a": 1},
        str(folder / "data/x.txt"),
    )
    assert ["who: careful: 100%"] == received.of("warn")
    assert "who: fine" in received.of("info")


def test_a_logging_logger_will_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The standard library's logger is a logger, though its `warn` is deprecated."""
    plugin(tmp_path, "loud", "def register(api): api.logger.warn('careful')")
    with caplog.at_level(logging.INFO, "mine"):
        load_plugins(tmp_path, logger=logging.getLogger("mine"))
    assert "loud: careful" in caplog.messages


def test_a_factory_gets_the_context_and_optional_tools_wait_to_be_asked(tmp_path: Path) -> None:
    """Factories make their tools for a context; an optional one is resolved only where it is named."""
    code = """
        from interlingua import tool
        def factory(name):
            def make(context):
                @tool(name=name, description=str(context.workspace_dir))
                def made() -> str:
                    return name
                return made
            return make
        def register(api):
            api.register_tool(factory("plain"), names=["plain"])
            api.registerTool(factory("rare"), {"name": "rare", "optional": True})
    """
    plugin(tmp_path, "maker", code)
    tools = ToolRegistry()
    loaded = load_plugins(tmp_path, tools=tools)
    assert [(("plain",), False), (("rare",), True)] == [(one.names, one.optional) for one in loaded[0].tool_factories]
    context = ToolContext(workspace_dir="/here")
    assert [("plain", "/here")] == [(tool.name, tool.description) for tool in tools.resolve_all(context)]
    assert ["rare"] == [tool.name for tool in tools.resolve_all(context, include=["rare"])]


def test_configuration_is_checked_before_any_code_runs(tmp_path: Path) -> None:
    """Wrong configuration keeps that plugin out, and says what is wrong; the next one loads."""
    schema = {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}
    plugin(tmp_path, "a", "raise SystemExit('must not run')", configSchema=schema)
    plugin(tmp_path, "b", "def register(api): api.on(api.plugin_config)", configSchema=schema)
    loaded = load_plugins(tmp_path, config={"a": {"port": "many"}, "b": {"port": 80}})
    assert ["b"] == [one.id for one in loaded]
    assert ({"port": 80},) == loaded[0].registrations[0].args
    (problem,) = loaded.problems
    assert ("a", "config") == (problem.plugin_id, problem.stage)
    assert "port" in problem.message


def test_two_plugins_with_the_same_file_names_do_not_clash(tmp_path: Path) -> None:
    """Each has its own module and its own helpers beneath it; nothing is added to the search path."""
    path = list(sys.path)
    for id in ("one", "two.dotted", "two-dotted"):
        folder = plugin(tmp_path, id, "from . import helper\ndef register(api): api.on(helper.WHO, __name__)")
        (folder / "helper.py").write_text(f"WHO = {id!r}")
    loaded = load_plugins(tmp_path)
    assert [] == loaded.problems
    arguments = [one.registrations[0].args for one in loaded]
    assert ["one", "two-dotted", "two.dotted"] == [who for who, _ in arguments]
    assert 3 == len({name for _, name in arguments})
    assert path == sys.path


def test_unloading_leaves_nothing_behind(tmp_path: Path) -> None:
    """Tools, factories, connectors, dialects, modules and hooks go; the plugin's own `unregister` runs first."""
    code = """
        import sys
        from interlingua import tool
        from interlingua.connect.debug import DebugConnector
        from . import helper
        @tool
        def echo(text: str) -> str:
            return text
        class Dialect:
            decode = encode = lambda *given: None
        def register(api):
            api.register_tool(echo)
            api.register_tool(lambda context: None, name="made")
            api.register_connector(DebugConnector(provider="parrot", label="Parrot"))
            api.register_dialect("odd", Dialect())
            api.on("message_sent", print)
        def unregister(api):
            helper.gone.append(api.id)
    """
    folder = plugin(tmp_path, "whole", code)
    (folder / "helper.py").write_text("gone = []")
    tools, connectors = ToolRegistry(), ConnectorRegistry()
    discover_core_tools(tools)
    before = (tools.list(), connectors.list(), set(sys.modules), dict(DIALECTS))
    (loaded,) = load_plugins(tmp_path, tools=tools, connectors=connectors)
    assert {"echo", "made"} <= {meta.id for meta in tools}
    gone = sys.modules["interlingua_plugin_whole.helper"].gone
    loaded.unload()
    loaded.unload()
    after = {name for name in sys.modules if name.startswith("interlingua_plugin_")}
    assert before[:2] == (tools.list(), connectors.list())
    assert (before[3], set(), (), ["whole"]) == (dict(DIALECTS), after, loaded.registrations, gone)


def test_what_was_covered_comes_back_in_whatever_order_plugins_go(tmp_path: Path) -> None:
    """Two plugins replace a core tool; unloading the lower one first still restores the core tool at the end."""
    for id in ("a", "b"):
        plugin(tmp_path, id, ECHO.replace("echo", "read").replace("again", id))
    tools = ToolRegistry(on_warning=lambda message: None)
    discover_core_tools(tools)
    core = next(meta for meta in tools if meta.id == "read")
    place = [meta.id for meta in tools].index("read")
    a, b = load_plugins(tmp_path, tools=tools, replace=["read"])
    assert "b" == next(meta for meta in tools if meta.id == "read").plugin_id
    a.unload()
    assert "b" == next(meta for meta in tools if meta.id == "read").plugin_id
    b.unload()
    assert (core, place) == (tools.list()[place], [meta.id for meta in tools].index("read"))


def test_connectors_and_dialects_that_were_replaced_come_back(tmp_path: Path) -> None:
    """Allowed to replace them, a plugin covers what is built in, until it goes."""
    code = """
        from interlingua.connect.debug import DebugConnector
        class D:
            decode = encode = print
        def register(api):
            api.register_connector(DebugConnector(provider="anthropic", label="Not Anthropic"))
            api.register_dialect("openai-completions", D())
    """
    plugin(tmp_path, "cover", code)
    connectors, built_in = builtin_connectors(), interlingua.dialect("openai-completions")
    before = connectors.list()
    loaded = load_plugins(tmp_path, connectors=connectors, replace=["builtin/anthropic", "openai-completions"])
    assert ("Not Anthropic", []) == (getattr(connectors.get_by_provider("anthropic"), "label", None), loaded.problems)
    assert interlingua.dialect("openai-completions") is not built_in
    loaded.unload()
    assert (before, True) == (connectors.list(), interlingua.dialect("openai-completions") is built_in)


def test_a_late_registration_is_refused(tmp_path: Path) -> None:
    """What is registered after `register` has returned is an error for the plugin, not a tool out of nowhere."""
    plugin(tmp_path, "late", "kept = []\ndef register(api): kept.append(api)")
    load_plugins(tmp_path)
    api = sys.modules["interlingua_plugin_late"].kept[0]
    with pytest.raises(interlingua.FormatError, match="before register returns"):
        api.on("x")
    with pytest.raises(AttributeError, match="a plugin's api has no registerNothing; it has"):
        _ = api.registerNothing
