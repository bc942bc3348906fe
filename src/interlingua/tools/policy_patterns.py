"""The patterns of policy rules: globs of paths, and hosts. Matching takes linear time."""

import ipaddress
import posixpath
import re
import socket
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ..values.text import natural
from .paths import home, look

PATH_LENGTH = 4096  # PATH_MAX of Linux: a longer one is not opened
_DEFAULT_PORTS = {"http": 80, "https": 443}


# --- paths -----------------------------------------------------------------------------------------------------------


def from_root(path: str, root: str | None) -> str:
    """A plain path without `.`, `..` and double slashes; relative if inside the root."""
    path = re.sub(r"^//+", "/", posixpath.normpath(path or "."))
    base = None if root is None else posixpath.normpath(root)
    if base is not None and not path.startswith("/"):
        path = posixpath.normpath(posixpath.join(base, path))
    if base is not None and (path == base or path.startswith(base.rstrip("/") + "/")):
        path = posixpath.relpath(path, base)
    return path


def normal_path(path: str, root: str | None = None) -> str:
    """A path as other programs may read it: no `.`, `..`, double slashes, `@`, `~`, `file:`; relative in the root."""
    path = unicodedata.normalize("NFC", path).strip()
    path = re.sub(r"[\u00a0\u2000-\u200a\u202f\u205f\u3000]", " ", path)
    if path[:5].casefold() == "file:":
        path = unquote(re.sub(r"^file:(//[^/]*)?", "", path, flags=re.IGNORECASE))
    path = path.removeprefix("@").replace("\\", "/").replace("\0", "")
    if path == "~" or path.startswith("~/"):
        path = (home() or "~") + path[1:]
    return from_root(path, root)


def path_matches(patterns: tuple[str, ...], path: str, root: str | None, *, strict: bool) -> bool:
    """Whether a glob matches the path. `strict`, for allow rules: case-sensitive, relative globs inside the root."""
    if not strict:
        path = look(path).casefold()
    if len(path) > PATH_LENGTH:
        return False
    outside = path.startswith(("/", "../")) or path == ".."
    for pattern in patterns:
        forms = (pattern, root) if strict else (look(pattern).casefold(), root and look(root).casefold())
        glob = _pattern(*forms)
        if glob.startswith("/") and not outside and forms[1] is not None:
            if glob_matcher(glob)(posixpath.join(forms[1], path)):  # `/home/**` for what is inside a root below it
                return True
            continue
        anywhere = "/" not in glob.rstrip("/")
        if outside and not glob.startswith("/") and (strict or not anywhere):
            continue
        if glob_matcher(glob)(path) or (not strict and path == glob.removesuffix("/**")):
            return True  # naming a directory affects its contents
    return False


def _pattern(pattern: str, root: str | None) -> str:
    if pattern.startswith("~/"):
        pattern = (home() or "~") + pattern[1:]
    if root is not None and pattern.startswith(root.rstrip("/") + "/"):
        return pattern[len(root.rstrip("/")) + 1 :] or "**"
    return pattern.removeprefix("./")


_GLOB_TOKENS = re.compile(r"(?:\*\*/)+|\*\*+|\*|.", re.DOTALL)
_EXPRESSIONS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=512)
def glob_matcher(pattern: str) -> Callable[[str], object]:
    """`*` within a name, `**` across names; without a slash at any depth; includes everything below a match."""
    body = pattern.rstrip("/")
    tokens = [token[:3] if token.endswith("**/") else token[:2] for token in _GLOB_TOKENS.findall(body)]
    if "/" not in body:
        tokens.insert(0, "**/")
    across = sum(token in ("**", "**/") for token in tokens)
    if across > 1 or max(name.count("*") for name in body.replace("**", "").split("/")) > 1:
        return GlobSteps(tokens).match  # an expression with several stars may backtrack for ever
    body = "".join(_EXPRESSIONS.get(token) or re.escape(token) for token in tokens)
    return re.compile(f"{body}(?:/.*)?\\Z", re.DOTALL).match


class GlobSteps:
    """A glob run as a nondeterministic automaton, in linear time. The bits of an integer are the states it is in.

    State n: the first n tokens have matched. `**/` takes two states, before and inside the names that it passes over.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self._literal: dict[str, int] = {}
        self._one = self._stays = self._stays_in_name = self._skips = self._enters = 0
        at = 0
        for token in tokens:
            bit = 1 << at
            if token == "**/":
                self._enters |= bit
                self._stays |= bit << 1
                self._literal["/"] = self._literal.get("/", 0) | bit << 1
                at += 1
            elif token in ("*", "**"):
                self._skips |= bit
                self._stays |= bit if token == "**" else 0
                self._stays_in_name |= bit if token == "*" else 0
            elif token == "?":
                self._one |= bit
            else:
                self._literal[token] = self._literal.get(token, 0) | bit
            at += 1
        self._last = 1 << at

    def match(self, path: str) -> bool:
        states = self._closed(1)
        for char in path:
            if char == "/" and states & self._last:
                return True  # everything below a match
            steps = self._literal.get(char, 0) | (0 if char == "/" else self._one)
            stays = self._stays if char == "/" else self._stays | self._stays_in_name
            states = self._closed((states & steps) << 1 | states & stays)
            if not states:
                return False
        return bool(states & self._last)

    def _closed(self, states: int) -> int:
        """The states, and those reached from them without a character."""
        while (
            further := states
            | (states & self._skips) << 1
            | (states & self._enters) << 1
            | (states & self._enters) << 2
        ) != states:
            states = further
        return states


# --- hosts -----------------------------------------------------------------------------------------------------------


class Host(Struct, frozen=True):
    name: str
    port: int | None
    certain: bool = True


def host_of(text: str) -> Host:
    """The host of a URL, or a bare host; not certain if programs might parse it differently."""
    if re.search(r"[\s\\\x00-\x20\x7f]", text) or not text.isascii():
        return Host(name="", port=None, certain=False)
    address = text if "://" in text else f"https://{text}"
    try:
        parts = urlsplit(address)
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return Host(name="", port=None, certain=False)
    if not name or "%" in name or parts.scheme not in _DEFAULT_PORTS:
        return Host(name=name, port=port, certain=False)
    return Host(name=_plain_host(name), port=_DEFAULT_PORTS[parts.scheme] if port is None else port)


def _plain_host(name: str) -> str:
    """The normal form of a host: no trailing dot, addresses in canonical form (`0x7f.1` is 127.0.0.1)."""
    name = name.rstrip(".").casefold()
    try:
        if re.fullmatch(r"[0-9a-fx.]+", name) and name[:1].isdigit():
            return socket.inet_ntoa(socket.inet_aton(name))
        address = ipaddress.ip_address(name)
    except (OSError, ValueError):
        return name
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def host_matches(pattern: str, host: Host, *, strict: bool) -> bool:
    """Whether a pattern matches a host. `strict`, for allow rules: default or named port, certain host."""
    name, port = host_pattern(pattern)
    if not host.name and pattern != "*":
        return False
    if strict and not host.certain:
        return False
    if port is not None and host.port is not None and port != host.port:
        return False
    if strict and port is None and host.port not in _DEFAULT_PORTS.values():
        return False
    if name == "*":
        return True
    if name.startswith("."):
        return host.name == name[1:] or host.name.endswith(name)
    return host.name == _plain_host(name)


def host_pattern(pattern: str) -> tuple[str, int | None]:
    name, colon, port = pattern.casefold().rpartition(":")
    number = natural(port, digits=5)
    if colon and number is not None and (name.count(":") == 0 or name.endswith("]")):
        return name.strip("[]"), number
    return pattern.casefold().strip("[]"), None
