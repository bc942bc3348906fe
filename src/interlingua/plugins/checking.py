"""Loads one plugin in a separate process, and reports what it registers or why it fails.

Run as `python -m interlingua.plugins.checking FOLDER CONFIG REPORT`: the report goes to a file, since the plugin may
print anything.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from ..connect.registry import ConnectorRegistry
from ..tools.catalog import discover_core_tools
from ..tools.registry import ToolRegistry
from ..tools.sandbox import HOME, Sandbox, sandbox_status, sandboxed, scrubbed
from ..values import jsontext
from ..values.errors import FormatError
from ..values.regular import read_regular
from .loading import LoadedPlugin, PluginProblem, aload_plugins
from .manifest import manifest_path

SECONDS = 60.0


def check_plugin(folder: Path, config: dict[str, Any] | None = None, *, seconds: float = SECONDS) -> dict[str, Any]:
    """Returns what the plugin in `folder` registers, under `plugins`, and its errors, under `problems`.

    Its code runs in another process, without our keys, and in the sandbox if available: no network, no files except its
    own and Python's, no view of other processes. It cannot affect this process.
    """
    if manifest_path(folder) is None:
        return _report([], [_problem(folder, "discover", "no manifest interlingua.plugin.json in the folder")])
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "report.json"
        command = [sys.executable, "-P", "-m", __name__, str(folder), jsontext.write(config or {}).decode(), str(out)]
        env = scrubbed(os.environ)
        status = sandbox_status()
        if status.available:
            command = sandboxed(command, status.program, Sandbox(root=place, read_only=_readable(folder)), place)
            env |= {"HOME": HOME if status.program else place, "TMPDIR": place}
        try:
            done = subprocess.run(command, check=False, capture_output=True, env=env, timeout=seconds, cwd=place)
        except subprocess.TimeoutExpired:
            return _report([], [_problem(folder, "register", f"it was not loaded within {seconds:g} s")])
        try:
            report: dict[str, Any] = jsontext.read(read_regular(out))
        except (OSError, FormatError):
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            # The shell of the sandbox reports a signal as 128 and its number.
            by_signal = status.program is not None and done.returncode > 128
            code = 128 - done.returncode if by_signal else done.returncode
            text = f"it ended the process (status {code}){': ' + lines[-1][:500] if lines else ''}"
            return _report([], [_problem(folder, "register", text)])
        return report


def _readable(folder: Path) -> tuple[str, ...]:
    """The paths that the process needs beside the system: the plugin, Python, this package and installed packages."""
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    ours = str(Path(__file__).resolve().parents[2])
    return tuple(dict.fromkeys((sys.prefix, sys.exec_prefix, ours, *packages, str(folder), str(folder.resolve()))))


def _problem(folder: Path, stage: Any, message: str) -> PluginProblem:
    return PluginProblem(path=str(folder), plugin_id=None, stage=stage, message=message)


def _report(plugins: list[dict[str, Any]], problems: list[PluginProblem]) -> dict[str, Any]:
    return {"plugins": plugins, "problems": to_builtins(problems)}


async def _checked(folder: str, config: dict[str, Any]) -> dict[str, Any]:
    tools = ToolRegistry(on_warning=lambda message: None)
    discover_core_tools(tools)
    loaded = await aload_plugins([folder], config=config, tools=tools, connectors=ConnectorRegistry())
    report = _report([_described(plugin) for plugin in loaded], loaded.problems)
    loaded.unload()
    late = [problem for plugin in loaded for problem in plugin.problems if problem.stage == "unload"]
    return report | {"problems": [*report["problems"], *to_builtins(late)]}


def _described(plugin: LoadedPlugin) -> dict[str, Any]:
    return {
        "id": plugin.id,
        "name": plugin.name,
        "version": plugin.version,
        "description": plugin.description,
        "source": plugin.source,
        "tools": [{"name": tool.name, "description": tool.description} for tool in plugin.tools],
        "factories": [{"names": list(one.names), "optional": one.optional} for one in plugin.tool_factories],
        "connectors": [str(connector.id) for connector in plugin.connectors],
        "dialects": list(plugin.dialects),
        "registrations": [one.kind for one in plugin.registrations],
        "skills": list(plugin.skills),
        "channels": list(plugin.channels),
        "providers": list(plugin.providers),
    }


def main(folder: str, config: str, out: str) -> None:
    report = asyncio.run(_checked(folder, jsontext.read(config)))
    Path(out).write_bytes(jsontext.write(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
