"""The user's MCP servers: `mcp.toml` in the home folder, one table for each. Errors are reported per table.

    [servers.files]
    command = "npx"
    args = ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/notes"]

    [servers.issues]
    url = "https://mcp.example.org/mcp"
    headers = { Authorization = "Bearer ${ISSUES_TOKEN}" }

Tables named `mcp_servers` (as Codex has them) or `mcpServers` (as Claude has them) are read as well.
"""

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from ..connect.tables import Mistake, convert, read_tables, refuse_unknown, table
from ..values.errors import FormatError
from ..values.places import home

FILE = "mcp.toml"
TABLES = ("servers", "mcp_servers", "mcpServers")
_PROGRAM = ("command", "args", "env", "inherit", "cwd", "secluded")
_ADDRESS = ("url", "headers", "oauth")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class ServerUse(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the tools of a server are used; see `mcp_tools`. `prefix` defaults to the server's name."""

    prefix: str | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    timeout: Annotated[float, Meta(gt=0)] | None = None
    trusted: bool = False
    resources: bool = True
    enabled: bool = True
    disabled: bool = False
    type: str | None = None  # from other programs' files; implied by the fields


class NamedServer(NamedTuple):
    """A server of the file, by its name; `server` is the argument for `mcp_tools`."""

    name: str
    server: dict[str, Any]
    use: ServerUse

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments for `mcp_tools`."""
        use = self.use
        options: dict[str, Any] = {
            "prefix": self.name if use.prefix is None else use.prefix or None,
            "trusted": use.trusted,
            "resources": use.resources,
            "include": use.include,
            "exclude": use.exclude,
        }
        return options if use.timeout is None else options | {"timeout": use.timeout}


class ServerList(NamedTuple):
    """The servers of a file, and the errors of those that cannot be used."""

    servers: tuple[NamedServer, ...] = ()
    problems: tuple[str, ...] = ()


def read_servers() -> ServerList:
    """Reads the servers of `mcp.toml`, including disabled ones."""
    place = home() / FILE
    problems: list[str] = []
    try:
        found = read_tables(place, _tables) or {}
    except FormatError as error:
        return ServerList(problems=(str(error),))
    servers = []
    for name, given in found.items():
        try:
            servers.append(_server(name, given, os.environ))
        except Mistake as mistake:
            problems.append(f"{place}: {mistake.path}: {mistake.message}; this server is not used")
    return ServerList(tuple(servers), tuple(problems))


def _tables(given: dict[str, Any]) -> dict[str, Any]:
    refuse_unknown(given, TABLES, "")
    return {name: one for key in TABLES for name, one in table(given.get(key, {}), key).items()}


def _server(name: str, given: Any, env: Mapping[str, str]) -> NamedServer:
    path = f"servers.{name}"
    own = table(given, path)
    fields = (*_PROGRAM, *_ADDRESS)
    refuse_unknown(own, (*fields, *ServerUse.__struct_fields__), path)
    if ("command" in own) == ("url" in own):
        raise Mistake("give either `command` (a program) or `url` (an address)", path)
    use = convert({key: value for key, value in own.items() if key not in fields}, ServerUse, path)
    server = {key: _expanded(value, env, path) for key, value in own.items() if key in fields}
    return NamedServer(name, server, use)


def _expanded(value: Any, env: Mapping[str, str], path: str) -> Any:
    """Replaces `${NAME}` by the environment variable, so that the file needs no keys."""
    if isinstance(value, list):
        return [_expanded(item, env, path) for item in value]
    if isinstance(value, dict):
        return {key: _expanded(item, env, path) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    missing = [name for name in _VARIABLE.findall(value) if name not in env]
    if missing:
        raise Mistake(f"the variable {missing[0]} is not set", path)
    return _VARIABLE.sub(lambda found: env[found[1]], value)


def chosen_servers(names: Iterable[str] | None, known: ServerList) -> ServerList:
    """Returns the selected servers: all enabled ones for None, else those named.

    A name is that of a server of the file, a URL, or a command with its arguments.
    """
    if names is None:
        enabled = [one for one in known.servers if one.use.enabled and not one.use.disabled]
        return ServerList(tuple(enabled), known.problems)
    by_name = {one.server["url"]: one for one in known.servers if "url" in one.server}
    by_name |= {one.name: one for one in known.servers}
    found = tuple(by_name[name] if name in by_name else _unlisted(name, by_name) for name in names)
    return ServerList(found, tuple(problem for problem in known.problems if any(name in problem for name in names)))


def _unlisted(text: str, known: Mapping[str, Any]) -> NamedServer:
    """Returns a server that is not in the file: a URL, or a command line."""
    if text.startswith(("http://", "https://")):
        host = urlsplit(text).hostname or "mcp"
        return NamedServer(re.sub(r"\W", "_", host), {"url": text}, ServerUse())
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise FormatError(f"not a command: {text!r}: {error}", "--mcp") from None
    if len(command) > 1 or "/" in text:
        name = re.sub(r"\W", "_", Path(command[0]).stem)
        return NamedServer(name, {"command": command[0], "args": command[1:]}, ServerUse())
    there = f"configured: {', '.join(known)}" if known else f"{home() / FILE} has none"
    raise FormatError(f"no MCP server {text!r}; {there}; or give a URL, or a command with its arguments", "--mcp")
