"""Themes: the terminal colours, for dark and light backgrounds, or none.

Selected by `chat --theme`, else by the variable INTERLINGUA_THEME, else by `theme` in `settings.toml` of the home
folder. NO_COLOR (https://no-color.org) and terminals without colours take precedence.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..values.errors import FormatError
from ..values.places import home

VARIABLE = "INTERLINGUA_THEME"
_FILE = "settings.toml"
_LINE = re.compile(r"^\s*theme\s*=.*$", re.MULTILINE)


class Theme(NamedTuple):
    """Colours of the input line (prompt-toolkit), and replacements for the colours of all other text (rich)."""

    name: str
    prompt: str
    asking: str
    replaced: Mapping[str, str] = MappingProxyType({})
    has_colour: bool = True


# The terminal's own yellow, cyan and green are too pale on white: dark ones of the 256-colour palette instead, with a
# contrast of at least 4.5:1 to white (https://www.w3.org/TR/WCAG22/#contrast-minimum).
_ON_WHITE = {
    "yellow": "color(94)",
    "cyan": "color(23)",
    "green": "color(28)",
    "red": "color(124)",
    "blue": "color(25)",
    "magenta": "color(90)",
    "white": "color(238)",
    "black": "color(241)",
}

DARK = Theme("dark", "bold ansicyan", "bold ansiyellow")
THEMES = {
    theme.name: theme
    for theme in (
        DARK,
        Theme(
            "light",
            "bold #005f5f",
            "bold #875f00",
            {**_ON_WHITE, **{f"bright_{name}": dark for name, dark in _ON_WHITE.items()}},
        ),
        Theme("mono", "bold", "bold", has_colour=False),
    )
}


def usual_theme() -> Theme:
    """Returns the theme of the variable, of the settings, or the dark one."""
    given = os.environ.get(VARIABLE, "").strip()
    if given:
        return named(given, VARIABLE)
    return _stored(home() / _FILE) or DARK


def named(name: str, where: str) -> Theme:
    """Returns the theme with this name. Raises `FormatError`, which lists the names."""
    if name not in THEMES:
        raise FormatError(f"unknown theme {name!r}; valid themes: {', '.join(THEMES)}", where)
    return THEMES[name]


def _stored(place: Path) -> Theme | None:
    if not place.exists():
        return None
    from ..connect.tables import Mistake, read_tables, refuse_unknown

    def read(given: dict[str, Any]) -> Theme | None:
        refuse_unknown(given, ("theme",), "$")
        if "theme" not in given:
            return None
        try:
            return named(given["theme"] if isinstance(given["theme"], str) else repr(given["theme"]), "$.theme")
        except FormatError as error:
            raise Mistake(error.message, "$.theme") from None

    return read_tables(place, read)


def store(theme: Theme) -> Path:
    """Writes the theme to the settings; comments stay. Returns the file."""
    from ..conversion.local_files import atomic
    from ..values.regular import read_regular

    place = home() / _FILE
    _stored(place)  # an invalid file is not changed
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = read_regular(place).decode() if place.exists() else ""
    line = f'theme = "{theme.name}"'
    with atomic(place) as stream:
        stream.write((_LINE.sub(line, text, count=1) if _LINE.search(text) else f"{line}\n{text}").encode())
    return place
