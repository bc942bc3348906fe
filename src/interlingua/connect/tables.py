"""TOML files of the user: unknown keys are refused, with the line of the error and a suggestion."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ..values.errors import FormatError, nearest
from ..values.regular import read_regular

T = TypeVar("T")


class Mistake(Exception):
    """A value in the file that is TOML, but invalid here; `path` leads to it."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message, path)
        self.message, self.path = message, path


def read_tables(place: Path, read: Callable[[dict[str, Any]], T]) -> T | None:
    """The result of `read` for a file; None if there is none. A `Mistake` becomes a `FormatError` with the line."""
    try:
        text = read_regular(place).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise FormatError(f"{place}: not UTF-8: {error.reason}") from None
    except OSError as error:
        raise FormatError(f"{place}: {error.strerror}") from None
    import tomllib  # slow to load; most users have no such file

    try:
        return read(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{place}: not TOML: {error}") from None
    except Mistake as mistake:
        raise FormatError(f"{place}: line {_line(text, read, mistake)}: {mistake.message}", mistake.path) from None


def _line(text: str, read: Callable[[dict[str, Any]], Any], mistake: Mistake) -> int:
    """The first line with which the file, read up to there, has this mistake."""
    import tomllib

    lines = text.splitlines()
    for count in range(1, len(lines) + 1):
        try:
            read(tomllib.loads("\n".join(lines[:count])))
        except tomllib.TOMLDecodeError:
            continue
        except Mistake as found:
            if found.args == mistake.args:
                return count
    return len(lines)


def table(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Mistake("expected a table", path)
    return value


def refuse_unknown(given: dict[str, Any], known: Collection[str], path: str) -> None:
    for key in given.keys() - set(known):
        near = nearest(key, known, 1)
        names = ", ".join(f"`{name}`" for name in known) or "none"
        hint = f"did you mean `{near[0]}`?" if near else f"there are {names}"
        raise Mistake(f"unknown key `{key}`; {hint}", path)


def convert(value: Any, kind: Any, path: str) -> Any:
    """Converts a value to this type; unknown keys of a table are refused with a suggestion."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        refuse_unknown(table(value, path), kind.__struct_fields__, path)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        raise Mistake(text, path + where.rstrip("`")) from None
    except FormatError as error:  # from a value that checks itself
        raise Mistake(error.message, f"{path}.{error.path}") from None
