"""Where Interlingua keeps what it keeps: one folder, the same for keys, models, sessions and plugins."""

import contextlib
import functools
import os
import sys
from collections.abc import Mapping
from pathlib import Path


def home(env: Mapping[str, str] | None = None) -> Path:
    """The folder of everything that Interlingua keeps: `$INTERLINGUA_HOME`, else `~/.interlingua`."""
    env = os.environ if env is None else env
    return _home(env.get("INTERLINGUA_HOME", "").strip(), env.get("HOME", "").strip())


@functools.lru_cache(maxsize=16)  # asked for several times in each call
def _home(given: str, user: str) -> Path:
    if given:
        return Path(given).expanduser()
    return (Path(user) if user else Path.home()) / ".interlingua"


def private_folder(folder: Path) -> Path:
    """The folder; if missing, it and those above it are created for this user alone (`mkdir` makes those wider)."""
    if not folder.is_dir():
        if folder.parent != folder:
            private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def short(path: Path) -> str:
    """The path for people to read: `~` for their home folder."""
    user = os.environ.get("HOME", "")
    within = bool(user) and path.is_absolute() and path.is_relative_to(user)
    return f"~/{path.relative_to(user)}".removesuffix("/.") if within else str(path)


PLUGIN_GROUP = "interlingua.plugins"  # the entry points of packages that are plugins


def has_plugins() -> bool:
    """Whether a plugin is installed, in the home folder or as a package.

    A look at a few files: most processes load none, and importing what loads them takes longer than all else.
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
