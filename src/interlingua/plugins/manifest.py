"""The manifest of a plugin folder: read without running code; none of its paths may leave the folder."""

import contextlib
import importlib.util
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..values import jsontext
from ..values.errors import FormatError
from ..values.places import PLUGIN_GROUP
from ..values.regular import read_regular

NAMES = ("interlingua.plugin.json", "openclaw.plugin.json")
MAX_BYTES = 256 * 1024
ENTRIES = ("plugin.py", "__init__.py")
SCRIPTS = ("index.ts", "index.js", "index.mts", "index.mjs", "src/index.ts", "src/index.js")

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,63}")


class ToolDisplay(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the canvas draws the calls of a tool: data only, so that no code of the plugin has to run."""

    icon: str | None = None
    label: str | None = None
    result: Literal["text", "markdown", "json", "diff"] = "text"


class Manifest(Struct, frozen=True, kw_only=True, rename="camel"):
    """A plugin's description. Unknown fields are kept in `extra`."""

    id: str
    name: str | None = None
    description: str | None = None
    version: str | None = None
    kind: str | tuple[str, ...] | None = None
    config_schema: dict[str, Any] | None = None
    skills: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    entry: str | None = None
    tool_views: dict[str, ToolDisplay] = {}
    extra: dict[str, Any] = {}


def check_id(id: str) -> str:
    """Returns a valid id: it becomes part of module names, paths and messages."""
    if not _ID.fullmatch(id):
        shown = id if len(id) <= 80 else f"{id[:80]}…"
        raise FormatError(
            f"{shown!r} cannot be the id of a plugin; use letters, digits, `.`, `_` and `-`, first a letter or digit, "
            "at most 64",
            "$.id",
        )
    return id


def manifest_path(folder: Path) -> Path | None:
    """Returns the manifest file of a folder, if it has one; ours takes precedence over OpenClaw's."""
    return next((path for name in NAMES if os.path.lexists(path := folder / name)), None)


def read_manifest(path: Path) -> Manifest:
    """Reads the manifest in a file. Raises `FormatError` with the reason if it is invalid."""
    value = jsontext.read(_content(path))
    if not isinstance(value, dict):
        raise FormatError("a manifest is a JSON object")
    if not isinstance(value.get("id"), str):
        raise FormatError('a manifest needs an id, as in {"id": "weather"}', "$.id")
    check_id(value["id"])
    known = {field.encode_name for field in msgspec.structs.fields(Manifest)} - {"extra"}
    given = {key: item for key, item in value.items() if key in known and item is not None}
    try:
        manifest = msgspec.convert(given, Manifest)
    except msgspec.ValidationError as error:
        raise FormatError(f"not a manifest: {error}") from None
    for at, skill in enumerate(manifest.skills):
        inside(path.parent, skill, f"$.skills[{at}]")
    return msgspec.structs.replace(manifest, extra={key: item for key, item in value.items() if key not in known})


def _content(path: Path) -> bytes:
    """Returns the bytes of a regular file within the size limit; never of a link, a pipe or a device."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise FormatError(f"{path.name} cannot be read: {error.strerror}; it must be a file, not a link") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FormatError(f"{path.name} is not a regular file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > MAX_BYTES:
        raise FormatError(f"{path.name} is larger than {MAX_BYTES:,} bytes")
    return data


def inside(folder: Path, name: str, place: str = "$") -> Path:
    """The path of `name` in `folder`. Raises if it leaves it, by `..`, as an absolute path or through a link."""
    parts = Path(name).parts
    if not parts or "\0" in name or "\\" in name or name.startswith("~") or Path(name).is_absolute() or ".." in parts:
        raise FormatError(f"{name!r} is not a path inside the plugin's folder", place)
    root = folder.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise FormatError(f"{name!r} leads out of the plugin's folder", place)
    return path


def find_entry(folder: Path, manifest: Manifest) -> Path:
    """Returns the Python entry file of a plugin. Raises `FormatError` if there is none that may be run."""
    if manifest.entry is not None:
        path = inside(folder, manifest.entry, "$.entry")
        if path.suffix != ".py" or not path.is_file():
            raise FormatError(f"the entry {manifest.entry} is not a Python file in the plugin's folder", "$.entry")
        return path
    for name in ENTRIES:
        if os.path.lexists(folder / name):
            path = inside(folder, name)
            if path.is_file():
                return path
    if is_script(folder):
        raise FormatError("JavaScript plugin; only plugins with a Python entry are loaded")
    raise FormatError(f"no entry; name one in the manifest, or add {' or '.join(ENTRIES)}")


def is_script(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (*SCRIPTS, "package.json"))


def folders(root: Path) -> Iterator[Path]:
    """Returns the folders with a manifest: `root` itself, or its direct subfolders, by name. Links are not followed."""
    if manifest_path(root) is not None:
        yield root
        return
    try:
        with os.scandir(root) as entries:
            found = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    yield from (root / name for name in found if manifest_path(root / name) is not None)


# Extensions in a directory: read from their manifests, without running any code.


class ExtensionInfo(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An extension, as described by its manifest. `entry_point` may be a file in another language."""

    id: str
    name: str
    description: str | None = None
    channels: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    path: str
    entry_point: str | None = None


def discover_extensions(directory: str | os.PathLike[str] | None) -> list[ExtensionInfo]:
    """Returns the extensions in the sub-directories of `directory`, sorted by directory name. Others are skipped."""
    if directory is None:
        return []
    found = (_read(folder) for folder in folders(Path(directory).expanduser()))
    return [info for info in found if info is not None]


def get_extension_path(id: str, directory: str | os.PathLike[str] | None) -> str | None:
    """Returns the path of the extension with this id."""
    return next((info.path for info in discover_extensions(directory) if info.id == id), None)


def list_channel_extensions(directory: str | os.PathLike[str] | None) -> list[str]:
    """Returns the ids of extensions with channels."""
    return [info.id for info in discover_extensions(directory) if info.channels]


def list_provider_extensions(directory: str | os.PathLike[str] | None) -> list[str]:
    """Returns the ids of extensions with providers."""
    return [info.id for info in discover_extensions(directory) if info.providers]


def tool_views(directory: Path, *, packages: bool = False) -> dict[str, ToolDisplay]:
    """By tool, how plugins want its calls drawn: those in the sub-directories of `directory`, then with `packages`
    those of installed packages. The first plugin wins; no code of a plugin runs.
    """
    found: dict[str, ToolDisplay] = {}
    for folder in (*folders(directory), *(_package_folders() if packages else ())):
        path = manifest_path(folder)
        with contextlib.suppress(FormatError):
            found = {**(read_manifest(path).tool_views if path is not None else {}), **found}
    return found


def _package_folders() -> Iterator[Path]:
    """The folders of plugin packages that contain a manifest, by the name of their entry point."""
    from importlib.metadata import entry_points  # on first use: slow to import

    for point in sorted(entry_points(group=PLUGIN_GROUP), key=lambda point: point.name):
        folder = _package_folder(point.value.partition(":")[0].strip())
        if folder is not None:
            yield folder


def _package_folder(module: str) -> Path | None:
    """The folder with the manifest of a module: its own if it is a package, else that of a package around it."""
    top, *inner = names = module.split(".")
    if not all(map(str.isidentifier, names)):
        return None
    try:
        spec = importlib.util.find_spec(top)  # of a top-level name: imports nothing
    except (ImportError, ValueError, OSError):
        return None
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        for depth in range(len(inner), -1, -1):
            folder = Path(location, *inner[:depth])
            if manifest_path(folder) is not None:
                return folder
    return None


def _read(folder: Path) -> ExtensionInfo | None:
    path = manifest_path(folder)
    try:
        manifest = read_manifest(path) if path is not None else None
    except FormatError:
        return None
    if manifest is None:
        return None
    entry = _entry_point(folder, manifest)
    return ExtensionInfo(
        id=manifest.id,
        name=manifest.name or folder.name,
        description=manifest.description,
        channels=manifest.channels,
        providers=manifest.providers,
        path=str(folder),
        entry_point=str(entry) if entry is not None else None,
    )


def _entry_point(folder: Path, manifest: Manifest) -> Path | None:
    """Returns the entry file of an extension: ours, else the one in package.json, else the default script."""
    try:
        return find_entry(folder, manifest)
    except FormatError:
        pass
    for name in (*_named_in_package(folder), *SCRIPTS):
        try:
            path = inside(folder, name)
        except FormatError:
            continue
        if path.is_file():
            return path
    return None


def _named_in_package(folder: Path) -> list[str]:
    """Returns `openclaw.extensions[0]` of package.json, if that can be read."""
    path = folder / "package.json"
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return []
        value = jsontext.read(read_regular(path, MAX_BYTES))
    except (OSError, FormatError):
        return []
    named = value.get("openclaw") if isinstance(value, dict) else None
    listed = named.get("extensions") if isinstance(named, dict) else None
    return [listed[0]] if isinstance(listed, list) and listed and isinstance(listed[0], str) else []
