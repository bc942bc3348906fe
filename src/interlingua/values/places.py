"""The home folder of Interlingua, for keys, models, sessions and plugins."""

import contextlib
import errno
import functools
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def home(env: Mapping[str, str] | None = None) -> Path:
    """Returns the home folder: `$INTERLINGUA_HOME`, else `~/.interlingua`."""
    raw = _raw_environment() if env is None else None
    if raw is not None:
        return _encoded_home(raw.get(_HOME_VARIABLES[0]), raw.get(_HOME_VARIABLES[1]))
    env = os.environ if env is None else env
    return _home(env.get("INTERLINGUA_HOME", "").strip(), env.get("HOME", "").strip())


def _raw_environment() -> dict[Any, Any] | None:
    """The dictionary behind `os.environ`, which takes an exception for each variable that is not set: every call to a
    model looks for eight. Its keys and values are encoded for the operating system.
    """
    return getattr(os.environ, "_data", None)


_HOME_VARIABLES = tuple(map(os.environ.encodekey, ("INTERLINGUA_HOME", "HOME")))


def is_set(*names: str) -> bool:
    """Whether the environment has one of these variables."""
    raw = _raw_environment()
    if raw is None:
        return any(name in os.environ for name in names)
    return not raw.keys().isdisjoint(_encoded(names))


@functools.lru_cache(maxsize=16)
def _encoded(names: tuple[str, ...]) -> frozenset[Any]:
    return frozenset(map(os.environ.encodekey, names))


@functools.lru_cache(maxsize=16)  # called several times per call
def _encoded_home(*variables: Any) -> Path:
    return _home(*("" if value is None else os.environ.decodevalue(value).strip() for value in variables))


def _home(given: str, user: str) -> Path:
    if given:
        return Path(given).expanduser()
    return (Path(user) if user else Path.home()) / ".interlingua"


def private_folder(folder: Path) -> Path:
    """Creates the folder and its missing parents with mode 0700 (`mkdir` creates parents with wider modes)."""
    if not folder.is_dir():
        if folder.parent != folder:
            private_folder(folder.parent)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, f"{folder} is a file, not a folder", str(folder)) from None
        except FileNotFoundError:  # /proc, for example, has folders in which none can be made
            raise PermissionError(errno.EACCES, f"cannot create a folder in {folder.parent}", str(folder)) from None
    return folder


def short(path: Path) -> str:
    """Shortens a path for display: `~` for the user's home folder."""
    user = os.environ.get("HOME", "")
    within = bool(user) and path.is_absolute() and path.is_relative_to(user)
    return f"~/{path.relative_to(user)}".removesuffix("/.") if within else str(path)


PLUGIN_GROUP = "interlingua.plugins"  # entry points of plugin packages


def has_plugins() -> bool:
    """Whether a plugin is installed, in the home folder or as a package.

    Reads a few files only: most processes load no plugin, and importing the loader is slow.
    """
    return any(home().glob("plugins/*/*.plugin.json")) or has_package_plugins()


def has_package_plugins() -> bool:
    """Whether an installed package has an entry point of our group. `importlib.metadata` takes ten times as long."""
    mark = f"[{PLUGIN_GROUP}]".encode()
    for place in dict.fromkeys(sys.path):
        with contextlib.suppress(OSError):
            if any(mark in file.read_bytes() for file in Path(place or ".").glob("*.*-info/entry_points.txt")):
                return True
    return False
