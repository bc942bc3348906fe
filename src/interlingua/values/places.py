"""Where Interlingua keeps what it keeps: one folder, the same for keys, models, sessions and plugins."""

import functools
import os
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
