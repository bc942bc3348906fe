"""`interlingua plugins`: lists, installs, checks and creates plugins."""

import contextlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from ..plugins import ExtensionInfo, discover_extensions
from ..plugins.checking import check_plugin
from ..plugins.installed import FOLDER
from ..plugins.loading import GROUP
from ..plugins.manifest import NAMES, check_id, find_entry, folders, manifest_path, read_manifest
from ..values import jsontext
from ..values.errors import FormatError, InterlinguaError
from ..values.places import home, private_folder
from ..values.regular import naming, read_regular
from . import output
from .options import JSON, CommandGroup, warn


@click.group("plugins", cls=CommandGroup)
def command() -> None:
    """List, install, check or create plugins."""


@command.command("list")
@click.argument("directories", nargs=-1, type=click.Path(path_type=Path), metavar="[DIR]…")
@JSON
def list_command(directories: tuple[Path, ...], as_json: bool) -> None:
    """List plugins in directories (default: ~/.interlingua/plugins) and installed packages, without running them."""
    places = [place.expanduser() for place in directories] or [home() / "plugins"]
    rows = [
        *(row for place in places for row in _folder_rows(place)),
        *(_package_row(point) for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)),
    ]
    if as_json:
        output.print_json(rows)
        return
    if not rows:
        output.console(err=True).print("no plugins found")
        return
    table = Table("id", "kind", "from", "description", box=None, header_style="bold")
    for row in rows:
        table.add_row(row["id"], row["kind"], row["from"], row["description"] or "")
    output.console().print(table)


def _folder_rows(place: Path) -> list[dict[str, Any]]:
    """The plugins of a directory, with an error for those that are unreadable."""
    known = {info.path: info for info in discover_extensions(place)}
    return [
        _folder_row(known[str(folder)]) if str(folder) in known else _broken_row(folder) for folder in folders(place)
    ]


def _broken_row(folder: Path) -> dict[str, Any]:
    path = manifest_path(folder)
    text = "no manifest"
    try:
        if path is not None:
            read_manifest(path)
    except FormatError as error:
        text = str(error)
    return _row(folder.name, folder.name, "broken", str(folder), text)


def _folder_row(info: ExtensionInfo) -> dict[str, Any]:
    entry = info.entry_point or ""
    kind = "folder" if entry.endswith(".py") else "script" if entry else "no entry"
    return _row(info.id, info.name, kind, info.path, info.description, info.channels, info.providers)


def _package_row(point: Any) -> dict[str, Any]:
    known = point.dist.metadata if point.dist is not None else {}
    summary = known["Summary"] if "Summary" in known else None  # noqa: SIM401 (a message has no get)
    return _row(point.name, point.name, "package", point.value, summary)


def _row(
    id: str,
    name: str,
    kind: str,
    place: str,
    description: str | None,
    channels: Iterable[str] = (),
    providers: Iterable[str] = (),
) -> dict[str, Any]:
    about = {"id": id, "name": name, "kind": kind, "from": place, "description": description}
    return {**about, "channels": list(channels), "providers": list(providers)}


@command.command("install")
@click.argument("sources", nargs=-1, required=True, metavar="PACKAGE|DIR…")
@click.option("-U", "--upgrade", is_flag=True, help="Replace an installed plugin.")
@click.option("-e", "--editable", is_flag=True, help="Use a package's directory as it is, for its development.")
def install_command(sources: tuple[str, ...], upgrade: bool, editable: bool) -> None:
    """Install plugins for every command.

    A directory with a plugin's manifest is copied to ~/.interlingua/plugins; anything else (a package name, a wheel, a
    project directory, a git URL) is passed to pip, for this Python. A plugin runs with your rights: install only what
    you trust.
    """
    for source in sources:
        folder = Path(source).expanduser()
        if folder.is_dir() and manifest_path(folder) is not None:
            _install_folder(folder.resolve(), upgrade)
        elif folder.is_dir():
            # pip takes a name without a slash for a package of the index, also where a directory has that name.
            _install_package(str(_project(folder)), upgrade, editable)
        else:
            _install_package(source, upgrade, editable)


@command.command("uninstall")
@click.argument("names", nargs=-1, required=True, metavar="ID|PACKAGE…")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def uninstall_command(names: tuple[str, ...], yes: bool) -> None:
    """Remove plugins: a folder of ~/.interlingua/plugins, or an installed package."""
    for name in names:
        folder = _installed_folder(name)
        package = _package_of(name) if folder is None else None
        if folder is None and package is None:
            raise InterlinguaError(f"no plugin {name!r} is installed; `interlingua plugins list` shows them")
        what = str(folder) if folder is not None else f"the package {package}"
        if not yes:
            output.confirm(f"remove {what}?")
        if folder is not None:
            shutil.rmtree(folder)
        else:
            _pip("uninstall", str(package))
        click.echo(f"removed {what}")


def _install_folder(folder: Path, upgrade: bool) -> None:
    """Copies a plugin's folder. The new one is complete before it replaces the old one."""
    path = manifest_path(folder)
    assert path is not None
    manifest = read_manifest(path)
    find_entry(folder, manifest)
    place = home() / FOLDER / manifest.id
    old = _installed_folder(manifest.id)
    if (old is not None or place.exists()) and not upgrade:
        raise InterlinguaError(f"the plugin {manifest.id} is already installed in {old or place}; replace it with -U")
    private_folder(place.parent)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".new-") as temporary:
        copied = Path(temporary) / "new"
        shutil.copytree(folder, copied, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".git"))
        for present in {one for one in (old, place) if one is not None and one.exists()}:
            present.rename(Path(temporary) / f"old-{present.name}")
        for one in (copied, *copied.rglob("*")):
            if not one.is_symlink():
                one.chmod(one.stat().st_mode & 0o700)
        copied.rename(place)
    click.echo(f"installed {manifest.id} in {place}")


def _project(folder: Path) -> Path:
    """Returns the path of a Python project's directory."""
    if not any((folder / name).is_file() for name in ("pyproject.toml", "setup.py")):
        raise InterlinguaError(
            f"{folder}: a directory with neither a plugin's manifest nor a Python project; for the package of that "
            "name, run this in another directory"
        )
    return folder.resolve()


def _install_package(source: str, upgrade: bool, editable: bool) -> None:
    if source.startswith("-"):
        raise InterlinguaError(f"not a package: {source!r}; give a name, a path or a URL")
    before = _package_plugins()
    _pip("install", *(["--upgrade"] if upgrade else []), *(["--editable"] if editable else []), source)
    importlib.invalidate_caches()
    found = _package_plugins()
    new = sorted(found.keys() - before.keys())
    if new:
        click.echo(f"installed {', '.join(new)}")
    elif not any(_same(source, package) for package in found.values()):
        warn(f"{source} is installed, but has no plugin of the group {GROUP}")
    else:
        click.echo(f"{source} is installed")


def _installed_folder(id: str) -> Path | None:
    """Returns the folder of an installed plugin, by its id."""
    for folder in folders(home() / FOLDER):
        path = manifest_path(folder)
        with contextlib.suppress(FormatError):
            if path is not None and read_manifest(path).id == id:
                return folder
    broken = home() / FOLDER / id
    is_plain = id not in ("", ".", "..") and Path(id).name == id
    return broken if is_plain and broken.is_dir() and not broken.is_symlink() else None


def _package_plugins() -> dict[str, str]:
    """The plugins of installed packages: id and package."""
    return {point.name: point.dist.name if point.dist is not None else "" for point in entry_points(group=GROUP)}


def _package_of(name: str) -> str | None:
    """Returns the package that has this plugin, or this name."""
    plugins = _package_plugins()
    return plugins.get(name) or next((package for package in plugins.values() if _same(name, package)), None)


def _same(one: str, other: str) -> bool:
    """Whether two names refer to the same package (https://packaging.python.org/specifications/name-normalization)."""
    return re.sub(r"[-_.]+", "-", one).lower() == re.sub(r"[-_.]+", "-", other).lower()


def _pip(action: str, *arguments: str) -> None:
    """Runs pip, or uv if there is no pip, for this Python; its output goes to standard error."""
    yes = ["--yes"] if action == "uninstall" else []
    if importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-m", "pip", action, "--disable-pip-version-check", *yes, *arguments]
    elif (uv := shutil.which("uv")) is not None:
        command = [uv, "pip", action, "--python", sys.executable, *arguments]
    else:
        raise InterlinguaError(f"cannot {action} packages: neither pip nor uv found; install pip: python -m ensurepip")
    code = subprocess.run(command, check=False, stdout=sys.stderr.fileno()).returncode
    if code:
        raise InterlinguaError(f"pip could not {action} {arguments[-1]} (status {code}); see above")


@command.command("check")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR")
@click.option("--config", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Its configuration, JSON.")
@JSON
def check_command(folder: Path, config: Path | None, as_json: bool) -> None:
    """Load a plugin in a separate process, and show what it registers, or its errors."""
    report = check_plugin(folder.absolute(), _configuration(config))
    if as_json:
        output.print_json(report)
    else:
        _show(report)
    sys.exit(1 if report["problems"] or not report["plugins"] else 0)


def _configuration(path: Path | None) -> dict[str, Any]:
    value = jsontext.read(read_regular(path)) if path is not None else {}
    if not isinstance(value, dict):
        raise FormatError("not a configuration; use an object with each plugin's settings under its id", str(path))
    return value


def _show(report: dict[str, Any]) -> None:
    out = output.console()
    for plugin in report["plugins"]:
        out.print(Text.assemble((plugin["id"], "bold"), f" {plugin['version'] or ''}".rstrip(), " loads"))
        for tool in plugin["tools"]:
            lines = (tool["description"] or "").splitlines()
            out.print(Text(f"  tool {tool['name']}{': ' + lines[0] if lines else ''}"))
        for factory in plugin["factories"]:
            out.print(Text(f"  factory of {', '.join(factory['names']) or 'unnamed tools'}"))
        for kind in ("connectors", "dialects", "registrations", "skills", "channels", "providers"):
            if plugin[kind]:
                out.print(Text(f"  {kind}: {', '.join(plugin[kind])}"))
    for problem in report["problems"]:
        out.print(Text.assemble((f"{problem['stage']}: ", "red"), problem["message"]))


# --- a new one --------------------------------------------------------------------------------------------------------

_PLUGIN = '''"""{title}: a plugin with one tool."""

from interlingua import tool


@tool
def {function}(text: str) -> str:
    """Says a text backwards.

    Args:
        text: what to say
    """
    return text[::-1]


def register(api):
    """Called once when the plugin is loaded; `api.plugin_config` holds its configuration."""
    api.register_tool({function})
'''

_TEST = '''"""Run with pytest."""

import asyncio
from pathlib import Path

from interlingua import ToolRegistry
from interlingua.plugins import load_plugins
from interlingua.tools import call_tool


def test_the_tool_answers():
    tools = ToolRegistry()
    plugins = load_plugins([Path(__file__).parent], tools=tools)
    assert plugins.problems == []
    result = asyncio.run(call_tool(tools.resolve("{function}"), "1", {{"text": "abc"}}))
    assert result.text == "cba"
    plugins.unload()
'''


@command.command("new")
@click.argument("name")
@click.option("--dir", "parent", type=click.Path(path_type=Path, file_okay=False), default=".", help="Where to put it.")
def new_command(name: str, parent: Path) -> None:
    """Create a working plugin: a manifest, its code, and a test."""
    check_id(name)
    folder = parent / name
    if folder.exists():
        raise InterlinguaError(f"{folder} already exists; choose another name, or remove it")
    function = "".join(char if char.isalnum() else "_" for char in name.lower())
    function = f"{function}_reverse" if function[0].isalpha() else f"reverse_{function}"
    title = name.replace("-", " ").replace("_", " ").capitalize()
    manifest = {
        "id": name,
        "name": title,
        "version": "0.1.0",
        "description": "Says a text backwards.",
        "configSchema": {"type": "object", "properties": {}},
    }
    files = {
        NAMES[0]: json.dumps(manifest, indent=2) + "\n",
        "plugin.py": _PLUGIN.format(title=title, function=function),
        "test_plugin.py": _TEST.format(function=function),
    }
    folder.mkdir(parents=True)
    try:
        for file, text in files.items():
            with naming(folder / file):
                (folder / file).write_text(text, encoding="utf-8")
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    click.echo(f"{folder}: {', '.join(files)}")
    click.echo(f"Check it with `interlingua plugins check {folder}`.")
