"""Where an MCP server is: a command to run, or an address."""

from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ..values.errors import FormatError


class StdioServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that is a program: it is started, spoken to over its standard streams, and ended.

    It gets the environment that commands of the `exec` tool get, which holds no keys; what it needs beyond that is
    given in `env`, or named in `inherit`.
    """

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    inherit: tuple[str, ...] = ()
    cwd: str | None = None

    @property
    def label(self) -> str:
        return self.command.rsplit("/", 1)[-1]


class HttpServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server behind an address, over streamable HTTP. `headers` carry what it wants to know, such as a key."""

    url: str
    headers: dict[str, str] = {}

    @property
    def label(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]


Server: TypeAlias = StdioServer | HttpServer


def server_of(given: Server | str | Mapping[str, Any]) -> Server:
    """A server from an address, or from a mapping as configuration files have them: `command` or `url` first."""
    if isinstance(given, StdioServer | HttpServer):
        return given
    if isinstance(given, str):
        given = {"url": given}
    value = {name: item for name, item in given.items() if name not in ("type", "transport", "disabled")}
    try:
        server = msgspec.convert(value, HttpServer) if "url" in value else msgspec.convert(value, StdioServer)
    except msgspec.ValidationError as error:
        raise FormatError(f"not an MCP server: {error}; give command and args, or url and headers", "server") from None
    if isinstance(server, HttpServer) and urlsplit(server.url).scheme not in ("http", "https"):
        raise FormatError(
            f"{server.url} is no http address; a program is given as a mapping with its command", "server"
        )
    return server
