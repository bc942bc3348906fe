"""Plugins of installed packages: found by their entry points, loaded only when asked for."""

import json
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from interlingua import ToolRegistry
from interlingua.plugins import load_plugins

CODE = """
    from interlingua import tool
    from interlingua.connect.debug import DebugConnector
    from interlingua.plugins import PluginDefinition

    @tool
    def echo(text: str) -> str:
        "Says it again."
        return text

    def register(api):
        api.register_tool(echo)
        api.register_dialect("odd", type("D", (), {"decode": print, "encode": print})())

    connector = DebugConnector(provider="parrot", label="Parrot")
    definition = PluginDefinition(name="Defined", config_schema={"required": ["port"]}, register=register)

    def broken(api):
        raise SystemExit("never")
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory with an installed package, as an installer would leave it."""
    (tmp_path / "parrot_pkg.py").write_text(textwrap.dedent(CODE))
    info = tmp_path / "parrot_pkg-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot-pkg\nVersion: 1.5\nSummary: Repeats\n")
    points = {
        "parrot": "parrot_pkg:register",
        "a-tool": "parrot_pkg:echo",
        "a-connector": "parrot_pkg:connector",
        "broken": "parrot_pkg:broken",
        "gone": "no_such_module_at_all:register",
        "../evil": "parrot_pkg:register",
    }
    listed = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[interlingua.plugins]\n{listed}")
    return tmp_path


def loaded_with(site: Path, options: str) -> dict[str, Any]:
    """What a process that has the package gets."""
    code = f"""
        import json
        from interlingua import ToolRegistry
        from interlingua.connect.registry import ConnectorRegistry
        from interlingua.plugins import load_plugins
        tools, connectors = ToolRegistry(), ConnectorRegistry()
        got = load_plugins({options}, tools=tools, connectors=connectors)
        print(json.dumps({{
            "plugins": [[one.id, one.version, one.description, one.source] for one in got],
            "problems": [[one.plugin_id, one.stage, one.message.split(" (")[0]] for one in got.problems],
            "tools": [[meta.id, meta.plugin_id] for meta in tools],
            "connectors": [one.provider for one in connectors],
        }}))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def test_packages_bring_plugins_tools_and_connectors(site: Path) -> None:
    """A function, a tool or a connector may be the entry point; a broken one is reported, and the others stay."""
    report = loaded_with(site, "entry_points=True")
    assert [
        ["a-connector", "1.5", "Repeats", "parrot_pkg:connector"],
        ["a-tool", "1.5", "Repeats", "parrot_pkg:echo"],
        ["parrot", "1.5", "Repeats", "parrot_pkg:register"],
    ] == report["plugins"]
    assert ([["echo", "a-tool"]], ["parrot"]) == (report["tools"], report["connectors"])
    assert [
        [None, "manifest", "'../evil' cannot be the id of a plugin; use letters, digits, `.`, `_` and `-`, "
         "first a letter or digit, at most 64"],
        ["broken", "register", "SystemExit: never"],
        ["gone", "import", "ModuleNotFoundError: No module named 'no_such_module_at_all'"],
        ["parrot", "add", "tool echo already exists; allow it with replace=['echo']"],
    ] == report["problems"]  # fmt: skip


def test_packages_are_loaded_only_when_asked_for(site: Path) -> None:
    """By default no installed package is loaded; and they can be chosen by id."""
    assert [] == loaded_with(site, "()")["plugins"]
    chosen = loaded_with(site, "entry_points=True, enabled_plugins=['a-tool']")
    assert (["a-tool"], [None]) == tuple([row[0] for row in chosen[part]] for part in ("plugins", "problems"))


def test_entry_points_can_be_given_and_a_definition_brings_its_own_schema(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host may hand over entry points itself; the configuration is checked by the definition's schema."""
    monkeypatch.syspath_prepend(str(site))
    point = EntryPoint(name="defined", value="parrot_pkg:definition", group="interlingua.plugins")
    tools = ToolRegistry()
    refused = load_plugins(entry_points=[point], tools=tools)
    assert ([], ["config"]) == (list(refused), [problem.stage for problem in refused.problems])
    (one,) = loaded = load_plugins(entry_points=[point], tools=tools, config={"defined": {"port": 1}})
    assert ("Defined", ["echo"]) == (one.name, [meta.id for meta in tools])
    loaded.unload()
    assert [] == tools.list()
    sys.modules.pop("parrot_pkg")
