"""Path resolution below a root, for paths written by a model. Pure: no disk access.

A path is relative to the root, or absolute and inside it. `..` is resolved lexically; a path that still leaves the root
is refused. Tools that change files take a path exactly as given. When reading, a missing name may match one that looks
the same: without the leading `@` of chat clients, with other spaces, in another Unicode form (NFC or NFD); the result
then names the path that was read.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..values.errors import ToolAuthorizationError, ToolInputError

Parts = tuple[str, ...]

_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_DRIVE = re.compile(r"[A-Za-z]:($|[\\/])")
_ENCODED_SEPARATOR = re.compile("%(2f|5c|00)", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class OutsideRoot(ToolAuthorizationError):
    """The path leaves the root, or may do so."""

    def __init__(self, path: str, why: str = "it is outside the root") -> None:
        super().__init__(f"{shown(path)}: refused, {why}. Use a path relative to the root.")
        self.path = path


def name_bytes(name: str) -> bytes:
    """Returns a name as bytes on disk: UTF-8 whatever the locale, which `os.fsencode` would follow."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ToolInputError(f"{shown(name)}: unpaired surrogate in the name; use valid Unicode") from None


def name_text(name: bytes) -> str:
    """Returns the name with these bytes; invalid UTF-8 is escaped as Python does."""
    return name.decode("utf-8", "surrogateescape")


def root_bytes(root: str | os.PathLike[str]) -> bytes:
    """Returns a path of the host program as bytes, in the locale's encoding if possible."""
    try:
        return os.fsencode(root)
    except UnicodeEncodeError:
        return name_bytes(os.fspath(root))


def nowhere() -> None:
    """A `home` function for systems without a home directory."""


def spellings(path: str, roots: tuple[str, ...] = ("/",), home: Callable[[], str | None] = nowhere) -> list[Parts]:
    """The possible readings of `path` as parts below the root; the first that exists counts, else the last.

    `roots` are the absolute spellings of the root. `home` expands `~`; None refuses it.
    """
    return [_confined(text, roots, path) for text in readings(path, home)]


def readings(path: str, home: Callable[[], str | None] = nowhere) -> list[str]:
    """Returns the possible readings of `path`, as plain paths: the text itself, and without the `@` and spaces of chat
    clients.

    Policy checks and file access both use this function. Raises `OutsideRoot` for a path that has no reading that can
    be opened.
    """
    _refuse_strange(path)
    meant = _SPACES.sub(" ", path.removeprefix("@"))
    texts = [path] if meant == path else [path, meant]
    _refuse_strange(meant)
    return [_expanded(text, home) for text in texts]


def look(name: str) -> str:
    """The normal form of a name: one kind of space, one Unicode form."""
    return unicodedata.normalize("NFC", _SPACES.sub(" ", name))


def has_variants(path: str) -> bool:
    """Whether other names may look like this path."""
    return not path.isascii() or " " in path or path.startswith("@")


def variant(meant: Parts, names_in: Callable[[Parts], Iterable[str]]) -> Parts | None:
    """The only existing path that looks like this one; None if there is none, or more than one."""
    found: Parts = ()
    for part in meant:
        names = set(names_in(found))
        alike = [part] if part in names else [name for name in names if look(name) == look(part)]
        if len(alike) != 1:
            return None
        found = (*found, alike[0])
    return found


PATCH_HEADERS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")


def patch_lines(text: str) -> list[str]:
    """The lines of a patch, as `apply_patch` reads them."""
    return text.replace("\r\n", "\n").strip("\n").split("\n")


def patch_paths(text: str) -> list[str]:
    """Returns the paths in a patch, at any position that may hold one."""
    heads = (line for line in patch_lines(text) if line.startswith(PATCH_HEADERS))
    return [line.partition(": ")[2].strip() for line in heads]


def strip_root(path: str, roots: tuple[str, ...]) -> str | None:
    """An absolute path relative to the root; None if it is outside."""
    for root in roots:
        if path == root:
            return ""
        if path.startswith(root.rstrip("/") + "/"):
            return path[len(root.rstrip("/")) + 1 :]
    return None


def shown(text: str) -> str:
    """A name made printable: one line, no terminal codes, valid Unicode; `\\xff` for a byte that is not UTF-8."""
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    return _ESCAPES.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _refuse_strange(path: str) -> None:
    if not isinstance(path, str):
        raise ToolInputError(f"a path must be text, not {type(path).__name__}")
    if "\0" in path:
        raise OutsideRoot(path, "it contains a NUL character")
    if _DRIVE.match(path):
        raise OutsideRoot(path, "it is a drive path")
    if path.startswith(("//", "\\\\")):
        raise OutsideRoot(path, "it is a network path")
    if "\\" in path and ".." in re.split(r"[\\/]", path):
        raise OutsideRoot(path)


def _expanded(path: str, home: Callable[[], str | None]) -> str:
    if path[:5].lower() == "file:":
        return _of_url(path)
    if path == "~" or path.startswith("~/"):
        place = home()
        if place is None:
            raise OutsideRoot(path)
        return place + path[1:]
    return path


def _of_url(url: str) -> str:
    if _ENCODED_SEPARATOR.search(url):
        raise OutsideRoot(url, "it hides a separator")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise OutsideRoot(url, "it is not a file URL") from None
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise OutsideRoot(url, "it is not a file URL of this machine")
    _refuse_strange(path)
    return path


def _confined(path: str, roots: tuple[str, ...], text: str) -> Parts:
    absolute = path.startswith("/")
    names: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            names.append(part)
        elif names:
            names.pop()
        elif not absolute:
            raise OutsideRoot(text)
    if not absolute:
        return tuple(names)
    rest = strip_root("/" + "/".join(names), roots)
    if rest is None:
        raise OutsideRoot(text)
    return tuple(rest.split("/")) if rest else ()


def home() -> str | None:
    """The home directory; None if there is none."""
    try:
        return name_text(root_bytes(Path.home()))
    except RuntimeError:
        return None
