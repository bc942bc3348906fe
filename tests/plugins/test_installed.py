"""What the user has installed reaches every program, and whatever is broken of it costs nothing but itself."""

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from cli.running import Outcome, run
from interlingua import FormatError, ToolRegistry
from interlingua.connect.registry import ConnectorRegistry
from interlingua.plugins.installed import open_installed
from interlingua.testing import Server
from interlingua.tools import call_tool
from interlingua.values import places
from plugins.making import plugin

SERVER = Path(__file__).parents[1] / "mcp_tools" / "honest.py"

EVERYTHING = """
    from interlingua import tool
    from interlingua.connect.debug import DebugConnector

    class Shouting:
        API = "shouting"

        @staticmethod
        def decode(value):
            from interlingua import Conversation, Entry, UserMessage
            return Conversation(entries=(Entry(message=UserMessage(content=value["shout"].lower())),))

        @staticmethod
        def encode(conversation):
            from interlingua.values.losses import Encoded
            return Encoded({"shout": conversation.entries[0].message.content.upper()}, ())

        @staticmethod
        def sniff(value):
            return "it shouts" if isinstance(value, dict) and "shout" in value else None

    @tool
    def tides(port: str) -> str:
        "The tide of a port."
        return f"high in {port}"

    def register(api):
        api.register_tool(tides)
        api.register_connector(DebugConnector(provider="parrot", label="Parrot"))
        api.register_dialect("shouting", Shouting)
"""
BLOCKED = """
    import threading

    def register(api):
        threading.Event().wait()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    (place / "plugins").mkdir(parents=True)
    monkeypatch.setenv("INTERLINGUA_HOME", str(place))
    monkeypatch.delenv("INTERLINGUA_MODEL", raising=False)
    return place


def il(home: Path, *arguments: str | Path, **options: Any) -> Outcome:
    return run(*arguments, env={**os.environ, "INTERLINGUA_HOME": str(home)}, **options)


def servers(home: Path, text: str) -> None:
    (home / "mcp.toml").write_text(textwrap.dedent(text).format(python=json.dumps(sys.executable), file=SERVER))


def test_a_plugin_of_the_home_folder_reaches_every_command(home: Path, tmp_path: Path) -> None:
    """Its tool in `tools`, its connector in `run` and `chat`, its dialect in `convert` and `dialects`."""
    plugin(home / "plugins", "coast", EVERYTHING)
    ran = il(home, "tools", "run", "tides", '{"port": "Ems"}', "--yes")
    assert (0, "high in Ems") == (ran.code, ran.out.strip()), ran.err
    asked = il(home, "run", "-q", "-m", "parrot/dummy-echo-1", "hello there")
    assert 0 == asked.code and "hello there" in asked.out, asked.err
    talked = il(home, "chat", "-m", "parrot/dummy-echo-1", "hello there", given=b"", cwd=tmp_path)
    assert 0 == talked.code and "hello there" in talked.out, talked.err
    assert "shouting" in il(home, "dialects").out
    shouted = il(home, "convert", "-", "-t", "shouting", given=b'[{"role": "user", "content": "hi"}]')
    assert {"shout": "HI"} == shouted.json, shouted.err
    assert "shouting" in il(home, "detect", "-", given=b'{"shout": "A"}').out


def test_a_plugin_of_an_installed_package_reaches_commands(home: Path, tmp_path: Path) -> None:
    """An entry point is enough: no option names it."""
    (tmp_path / "coast_pkg.py").write_text(textwrap.dedent(EVERYTHING))
    info = tmp_path / "coast_pkg-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: coast-pkg\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[interlingua.plugins]\ncoast = coast_pkg:register\n")
    done = run(
        *("tools", "run", "tides", '{"port": "Ems"}', "--yes"),
        env={**os.environ, "INTERLINGUA_HOME": str(home), "PYTHONPATH": str(tmp_path)},
    )
    assert (0, "high in Ems") == (done.code, done.out.strip()), done.err


async def test_broken_and_blocked_plugins_cost_only_themselves(home: Path) -> None:
    """One that never returns from `register` is given up in time, one that is malformed is named; others are loaded."""
    plugin(home / "plugins", "a-blocked", BLOCKED)
    plugin(home / "plugins", "b-broken", "raise SystemExit(3)")
    plugin(home / "plugins", "coast", EVERYTHING)
    (home / "plugins.toml").write_text("timeout = 0.2\n")
    registry = ToolRegistry()
    async with open_installed(tools=registry, connectors=ConnectorRegistry()) as installed:
        assert ["coast"] == [one.id for one in installed.plugins]
        assert ["a-blocked", "b-broken"] == [problem.partition(":")[0] for problem in installed.problems]
        assert "longer than 0.2 s" in installed.problems[0]
        assert ["tides"] == [tool.name for tool in await installed.resolve()]
    assert 0 == len(registry)


async def test_the_users_file_configures_and_disables_plugins(home: Path) -> None:
    """`plugins.toml` has each plugin's settings, and a mistake in it is a problem that stops no plugin."""
    code = """
        from interlingua import tool
        def register(api):
            unit = api.plugin_config.get("unit", "C")
            @tool
            def weather() -> str:
                "The weather."
                return unit
            api.register_tool(weather)
    """
    plugin(home / "plugins", "weather", code)
    plugin(home / "plugins", "coast", EVERYTHING)
    (home / "plugins.toml").write_text('disabled = ["coast"]\n[config.weather]\nunit = "F"\n')
    async with open_installed(connectors=ConnectorRegistry()) as installed:
        (weather,) = await installed.resolve()
        assert "F" == (await call_tool(weather, "1", {})).text
    (home / "plugins.toml").write_text('disbled = ["coast"]\n')
    async with open_installed(connectors=ConnectorRegistry()) as installed:
        assert ["coast", "weather"] == sorted(one.id for one in installed.plugins)
        assert "did you mean `disabled`" in installed.problems[0]


async def test_servers_of_the_users_file_are_opened_and_closed(home: Path) -> None:
    """Their tools bear the server's name; a server that is broken, off or wrong costs nothing but itself."""
    pytest.importorskip("mcp")
    servers(
        home,
        """
        [servers.honest]
        command = {python}
        args = ["{file}"]
        include = ["add"]
        trusted = true

        [servers.gone]
        command = "no-such-program-at-all"

        [servers.off]
        command = "never-started"
        enabled = false

        [servers.odd]
        comand = "x"

        [servers.secret]
        url = "https://127.0.0.1:9/mcp"
        headers = {{ Authorization = "Bearer ${{NO_SUCH_VARIABLE}}" }}
        """,
    )
    registry = ToolRegistry()
    async with open_installed(tools=registry, connectors=ConnectorRegistry()) as installed:
        assert ["honest_add"] == [tool.name for tool in installed.servers["honest"]]
        tool = registry.resolve("honest_add")
        assert tool is not None and "5" == (await call_tool(tool, "1", {"a": 2, "b": 3})).text
        assert ["honest"] == list(installed.servers)
        text = "\n".join(installed.problems)
        assert "gone" in text and "did you mean `command`" in text and "NO_SUCH_VARIABLE" in text
        assert "never-started" not in text
    assert 0 == len(registry)


async def test_a_server_can_be_chosen_by_name_address_or_command(home: Path) -> None:
    """Also one that is switched off; an unknown name is an error that lists the known ones."""
    pytest.importorskip("mcp")
    servers(home, '[mcp_servers.honest]\ncommand = {python}\nargs = ["{file}"]\ndisabled = true\n')
    async with open_installed(connectors=ConnectorRegistry(), servers=("honest",)) as installed:
        assert "honest_add" in installed.tools
    command = f"{sys.executable} {SERVER}"
    async with open_installed(connectors=ConnectorRegistry(), servers=(command,)) as installed:
        assert any(tool.name.endswith("_add") for tools in installed.servers.values() for tool in tools)
    async with open_installed(connectors=ConnectorRegistry()) as installed:
        assert {} == installed.servers
    with pytest.raises(FormatError, match=r"no MCP server 'nobody'; configured: honest"):
        async with open_installed(connectors=ConnectorRegistry(), servers=("nobody",)):
            pass


@pytest.mark.parametrize("text", ["not toml [", "servers = 3", "[server.x]\ncommand = 'y'", "[servers]\nx = 'y'"])
async def test_a_malformed_server_file_is_a_problem_and_no_failure(home: Path, text: str) -> None:
    """Whatever the file has, programs start."""
    (home / "mcp.toml").write_text(text)
    async with open_installed(connectors=ConnectorRegistry()) as installed:
        assert 1 == len(installed.problems) and "mcp.toml" in installed.problems[0]


def test_commands_use_the_servers_of_the_file(home: Path, tmp_path: Path) -> None:
    """`tools` lists and runs them; `--no-plugins` leaves them out; `chat --home` finds them in that home."""
    pytest.importorskip("mcp")
    servers(home, '[servers.honest]\ncommand = {python}\nargs = ["{file}"]\ntrusted = true\n')
    ran = il(home, "tools", "run", "honest_add", '{"a": 1, "b": 2}', "--yes")
    assert (0, "3") == (ran.code, ran.out.strip()), ran.err
    names = [meta["id"] for meta in il(home, "tools", "list", "--json", "--no-plugins").json]
    assert "read" in names and "honest_add" not in names
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"calls": [{"name": "honest_add", "arguments": {"a": 20, "b": 22}}]}, "Done."]))
    talked = run(
        *("chat", "-m", f"debug/script:{script}", "--yes", "--home", home, "--root", tmp_path, "add", "--new"),
        given=b"",
        env={**os.environ, "INTERLINGUA_HOME": str(tmp_path / "other")},
    )
    assert 0 == talked.code and "42" in talked.out + talked.err, talked.out + talked.err


def test_whether_anything_is_installed_is_known_from_a_few_files(home: Path, tmp_path: Path) -> None:
    """Programs without plugins do not pay for them."""
    assert not places.has_plugins()
    plugin(home / "plugins", "coast", None)
    assert places.has_plugins()


def test_the_gateway_serves_the_models_of_plugins(home: Path) -> None:
    """A connector that a plugin brings answers clients, and its hooks hear that the gateway starts and stops."""
    seen = home / "seen.txt"
    code = textwrap.dedent(EVERYTHING) + textwrap.dedent(
        f"""
        def _note(event, context):
            with open({str(seen)!r}, "a") as file:
                file.write(context["hook"] + "\\n")

        _register = register

        def register(api):
            _register(api)
            api.register_hook("gateway_start", _note)
            api.on("gateway_stop", _note)
        """
    )
    plugin(home / "plugins", "coast", code)
    ask = (
        "import json, os, urllib.request\n"
        "body = json.dumps({'model': 'parrot/dummy-echo-1', 'messages': [{'role': 'user', 'content': 'good day'}]})\n"
        "request = urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body.encode(),\n"
        "    {'Content-Type': 'application/json', 'Authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']})\n"
        "print(urllib.request.urlopen(request).read().decode())\n"
    )
    done = il(home, "serve", "--", sys.executable, "-c", ask)
    assert 0 == done.code and "good day" in done.out, done.err
    assert ["gateway_start", "gateway_stop"] == seen.read_text().split()


def test_chat_takes_options_of_the_call(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--base-url`, `--reasoning` and `--temperature` reach the request."""
    monkeypatch.setenv("OPENROUTER_API_KEY", "none")
    with Server() as server:
        base = server.base_url("openai-completions")
        done = il(
            home,
            *("chat", "-m", "openrouter/some/model", "--base-url", base, "--reasoning", "high", "--temperature", "0.5"),
            *("--tools", "none", "--root", tmp_path, "hello"),
            given=b"",
        )
        assert 0 == done.code, done.err
        (options,) = [one.request.options for one in server.requests if one.request is not None]
        assert options.reasoning is not None and ("high", 0.5) == (options.reasoning.effort, options.temperature)
