"""What extensions lie in a directory: read from their manifests, without running any code."""

import os
from pathlib import Path

from msgspec import Struct

from ..values import jsontext
from ..values.errors import FormatError
from .manifest import MAX_BYTES, SCRIPTS, Manifest, find_entry, folders, inside, manifest_path, read_manifest


class ExtensionInfo(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An extension, as its manifest describes it. `entry_point` may be a file of another language."""

    id: str
    name: str
    description: str | None = None
    channels: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    path: str
    entry_point: str | None = None


def discover_extensions(directory: str | os.PathLike[str] | None) -> list[ExtensionInfo]:
    """The extensions in the sub-directories of `directory`, by the names of these. What is no extension is left out."""
    if directory is None:
        return []
    found = (_read(folder) for folder in folders(Path(directory).expanduser()))
    return [info for info in found if info is not None]


def get_extension_path(id: str, directory: str | os.PathLike[str] | None) -> str | None:
    """Where the extension with this id lies."""
    return next((info.path for info in discover_extensions(directory) if info.id == id), None)


def list_channel_extensions(directory: str | os.PathLike[str] | None) -> list[str]:
    """The ids of the extensions that bring channels."""
    return [info.id for info in discover_extensions(directory) if info.channels]


def list_provider_extensions(directory: str | os.PathLike[str] | None) -> list[str]:
    """The ids of the extensions that bring providers."""
    return [info.id for info in discover_extensions(directory) if info.providers]


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
    """The file that an extension begins with: ours, else what package.json names, else the usual script."""
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
    """`openclaw.extensions[0]` of package.json, if that can be read."""
    path = folder / "package.json"
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return []
        value = jsontext.read(path.read_bytes())
    except (OSError, FormatError):
        return []
    named = value.get("openclaw") if isinstance(value, dict) else None
    listed = named.get("extensions") if isinstance(named, dict) else None
    return [listed[0]] if isinstance(listed, list) and listed and isinstance(listed[0], str) else []
