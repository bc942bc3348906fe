"""Settings of the core tools: one shape wherever they are given, and a mistake is refused where it is made."""

from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from cli.running import run
from interlingua.plugins.installed import tool_config
from interlingua.tools import discover_core_tools
from interlingua.tools.core.exec import ExecSettings
from interlingua.tools.core.image import ImageSettings
from interlingua.tools.core.memory import MemorySettings
from interlingua.tools.core.web_fetch import WebFetchSettings
from interlingua.tools.core.web_search import WebSearchSettings
from interlingua.tools.tool import check_settings, read_settings, with_settings

KINDS: dict[str, Any] = {
    "exec": ExecSettings,
    "image": ImageSettings,
    "memory": MemorySettings,
    "web_fetch": WebFetchSettings,
    "web_search": WebSearchSettings,
}
# A setting of each tool, in both spellings, and a misspelt one with the name that is meant.
GIVEN = [
    ("exec", "timeout_sec", "timeoutSec", 5.0, "timeout_secs", "timeout_sec"),
    ("image", "model", "model", "gpt-5", "modell", "model"),
    ("memory", "max_results", "maxResults", 3, "maxResult", "maxResults"),
    ("web_fetch", "allow_hosts", "allowHosts", ("docs.example",), "allow_host", "allow_hosts"),
    ("web_search", "base_url", "baseUrl", "https://search.example", "baseURL", "baseUrl"),
]
NAMES = [row[0] for row in GIVEN]


@pytest.mark.parametrize(("tool", "name", "camel", "value", "_wrong", "_meant"), GIVEN, ids=NAMES)
def test_settings_are_read_by_tool_in_either_spelling(
    tool: str, name: str, camel: str, value: Any, _wrong: str, _meant: str
) -> None:
    """As Python or as JSON names them."""
    for spelling in (name, camel):
        context = il.ToolContext(config={"tools": {tool: {spelling: value}}})
        assert value == getattr(read_settings(tool, KINDS[tool], context), name)
    assert KINDS[tool]() == read_settings(tool, KINDS[tool], il.ToolContext())


@pytest.mark.parametrize(("tool", "_name", "_camel", "_value", "wrong", "meant"), GIVEN, ids=NAMES)
def test_a_misspelt_setting_is_refused_with_the_one_that_is_meant(
    tool: str, _name: str, _camel: str, _value: Any, wrong: str, meant: str, tmp_path: Path
) -> None:
    """By an agent, by the registry and by the check, before any tool runs; it does not cost a tool in silence."""
    settings = {tool: {wrong: 1}}
    message = f"unknown setting '{wrong}' of {tool}; did you mean '{meant}'"
    registry = il.ToolRegistry()
    discover_core_tools(registry)
    context = il.ToolContext(root=str(tmp_path), config={"tools": settings})
    for attempt in (
        lambda: check_settings({"tools": settings}),
        lambda: registry.resolve_all(context),
        lambda: registry.report(context),
        lambda: registry.resolve("read", context),
        lambda: il.Agent("debug/parrot-1", ["read"], tool_settings=settings),
        lambda: il.Agent("debug/parrot-1", ["read"], context=context),
    ):
        with pytest.raises(il.FormatError, match=message):
            attempt()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"tools": {"exce": {}}}, "unknown tool 'exce'; did you mean 'exec'"),
        ({"tools": {"weather": {}}}, "valid tools: exec, image, memory"),
        ({"exec": {"network": True}}, "write {'tools': {'exec'"),
        ({"tools": {"exec": {"network": "yes"}}}, r"exec: Expected `bool`, got `str` - at `\$.network`"),
        ({"tools": {"exec": True}}, "config.tools.exec must be a mapping, not bool"),
        ({"tools": ["exec"]}, "config.tools must be a mapping, not list"),
    ],
    ids=["misspelt", "unknown", "outside", "type", "no-mapping", "list"],
)
def test_wrong_settings_say_what_and_where(config: dict[str, Any], message: str) -> None:
    """The tool, the setting and the remedy."""
    with pytest.raises(il.FormatError, match=message):
        check_settings(config)


def test_a_registered_tool_may_have_settings_of_its_own(tmp_path: Path) -> None:
    """Its factory reads them; the registry knows its name."""
    seen: list[Any] = []
    registry = il.ToolRegistry()

    def factory(context: il.ToolContext) -> None:
        seen.append((context.config or {})["tools"]["tides"])

    registry.register_factory(factory, {"id": "tides"})
    registry.resolve_all(il.ToolContext(config={"tools": {"tides": {"unit": "m"}}}))
    assert [{"unit": "m"}] == seen


def test_settings_of_an_agent_are_added_to_those_of_its_context(tmp_path: Path) -> None:
    """Those that are given to the agent itself count."""
    config = {"own": 1, "tools": {"exec": {"network": True}, "memory": {"max_results": 2}}}
    context = with_settings(il.ToolContext(config=config), {"exec": {"tmp_mb": 64}})
    assert {"own": 1, "tools": {"exec": {"tmp_mb": 64}, "memory": {"max_results": 2}}} == context.config
    assert config["tools"] == {"exec": {"network": True}, "memory": {"max_results": 2}}
    agent = il.Agent("debug/parrot-1", ["exec"], tool_settings={"exec": {"timeout_sec": 7}})
    assert "may take 7 s" in agent.tools[0].description


@pytest.mark.parametrize(
    ("config", "tool", "expected"),
    [
        ({"webFetch": {"maxChars": 9}}, "web_fetch", WebFetchSettings(max_chars=9)),
        ({"webSearch": {"count": 2}}, "web_search", WebSearchSettings(count=2)),
        ({"memory": {"maxResults": 2}}, "memory", MemorySettings(max_results=2)),
        ({"imageModel": "a"}, "image", ImageSettings(model="a")),
        ({"imageModel": {"primary": "a", "fallbacks": ["b"]}}, "image", ImageSettings(model="a", fallbacks=("b",))),
    ],
    ids=["web_fetch", "web_search", "memory", "image", "fallbacks"],
)
def test_settings_where_earlier_versions_had_them_are_read(config: dict[str, Any], tool: str, expected: Any) -> None:
    """At the top of the configuration; those by tool count before them."""
    assert expected == read_settings(tool, KINDS[tool], il.ToolContext(config=config))
    both = il.ToolContext(config={**config, "tools": {tool: {}}})
    assert KINDS[tool]() == read_settings(tool, KINDS[tool], both)


def test_the_programs_read_tools_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table for each tool; a mistake names the file and the line."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    assert {"tools": {}} == tool_config()
    file = tmp_path / "tools.toml"
    file.write_text("[exec]\ntimeout_sec = 7\n")
    assert {"tools": {"exec": {"timeout_sec": 7}}} == tool_config()
    assert "may take 7 s" in run("tools", "show", "exec", "--json").out
    file.write_text("[exec]\ntimeout_sec = 7\n\n[web_fetch]\nallow_host = []\n")
    failed = run("tools", "show", "exec")
    assert 1 == failed.code
    assert "tools.toml: line 5: unknown setting 'allow_host' of web_fetch; did you mean 'allow_hosts'?" in failed.err
