"""The three ways in docs/plugins.md are short and work as written; the tests that the table of attacks names exist."""

import asyncio
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from interlingua import ToolRegistry
from interlingua.plugins import load_plugins
from interlingua.tools import call_tool

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/plugins.md").read_text()
FILES = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
WAYS = [part for part in PAGE.split("\n## ") if part.startswith(("A function", "A folder", "An installed package"))]


def written(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILES[name])


def test_each_way_takes_at_most_twenty_lines() -> None:
    """Blank lines aside, the code of each way is short."""
    counts = []
    for way in WAYS:
        code = "".join(re.findall(r"^```.*?\n(.*?)^```", way, re.DOTALL | re.MULTILINE))
        counts.append(len([line for line in code.splitlines() if line.strip()]))
    assert 3 == len(counts)
    assert all(count <= 20 for count in counts), counts


def test_the_folder_of_the_page_is_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files, written as they stand, load and answer."""
    written(tmp_path, "weather/interlingua.plugin.json", "weather/plugin.py")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(FILES["load.py"], "load.py", "exec"), names)
    tools = names["tools"]
    assert isinstance(tools, ToolRegistry)
    tool = tools.resolve("weather")
    assert tool is not None
    assert "Rome: 21 F" == asyncio.run(call_tool(tool, "1", {"city": "Rome"})).text
    refused = load_plugins(tmp_path, config={"weather": {"unit": "K"}})
    assert ["config"] == [problem.stage for problem in refused.problems]


def test_the_package_of_the_page_is_found_when_it_is_installed(tmp_path: Path) -> None:
    """It is built to a wheel, unpacked where Python looks, and its tool answers in a new process."""
    source, site = tmp_path / "source", tmp_path / "site"
    written(source, "pyproject.toml", "tides.py")
    text = (source / "pyproject.toml").read_text()
    build = '\n[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    build += '\n[tool.hatch.build.targets.wheel]\ninclude = ["tides.py"]\n'
    (source / "pyproject.toml").write_text(text + build)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = (source / "dist").iterdir()
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        "import asyncio, json\nfrom interlingua import ToolRegistry\nfrom interlingua.plugins import load_plugins\n"
        "from interlingua.tools import call_tool\ntools = ToolRegistry()\n"
        "plugins = load_plugins(entry_points=True, tools=tools)\n"
        "said = asyncio.run(call_tool(tools.resolve('tide'), '1', {'port': 'Brest'})).text\n"
        "print(json.dumps([[one.id, one.version] for one in plugins] + [said]))"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(site)}, check=True, capture_output=True)
    assert [["tides", "1.0"], "Brest: high"] == json.loads(done.stdout)
