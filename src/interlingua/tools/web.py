"""The guarded HTTP client of the web tools: one request, to an address that was checked, within limits.

A name is looked up once, by us; every address it has must be allowed, and the connection goes to exactly these. There
is no second lookup that could answer differently. Redirects are followed by hand, each judged like a first URL. No
cookies, no credentials, no proxy from the environment; headers that carry a key stay with the origin they were for.
Errors name hosts and numbers, never the words of the answer: a model reads them as ours.
"""

import asyncio
import functools
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urljoin

import msgspec
from msgspec import Struct

from ..values.abort import Abort
from ..values.errors import FormatError, ToolAuthorizationError, ToolInputError, TransportError
from .addresses import Address, Target, parse_address, read_url, refusal

if TYPE_CHECKING:  # aiohttp takes a fifth of a second to import: only a fetch pays for it
    from aiohttp import ClientResponse
    from aiohttp.abc import AbstractResolver, ResolveResult

T = TypeVar("T")
LookUp: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Gives the addresses of a host name (and port), as text."""

USER_AGENT = "interlingua-web/1"
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK = 64 * 1024
_RATIO_FLOOR = 1_000_000  # bytes: a small page may well be one repeated line


class FetchRules(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What may be reached and how much is taken. `max_bytes` counts after decompression.

    `allow_hosts` opens what it names (`name`, `.suffix`, address, network; with `:port`), `allow_private` opens private
    networks and this machine. With `proxy`, the proxy looks names up again: the check made here does not bind it.
    """

    allow_hosts: tuple[str, ...] = ()
    allow_private: bool = False
    proxy: str | None = None
    max_bytes: int = 2_000_000
    max_ratio: int = 100
    max_header_bytes: int = 32 * 1024
    max_redirects: int = 3
    timeout: float = 30.0


class Fetched(Struct, frozen=True, kw_only=True):
    """An answer. `truncated` says that the body went on; `notes` what a reader should know of the way to it."""

    url: str
    final_url: str
    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool = False
    notes: tuple[str, ...] = ()

    @property
    def content_type(self) -> str:
        """The media type alone, lower-case; empty when the server did not say."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


Rules = TypeVar("Rules", bound=FetchRules)


def read_rules(kind: type[Rules], config: Mapping[str, Any] | None, key: str) -> Rules:
    """The rules under `key` of a tool context's config. Raises `FormatError` for a setting that does not exist."""
    try:
        return msgspec.convert(dict((config or {}).get(key) or {}), kind, strict=False)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise FormatError(f"the settings of {key} are wrong: {error}", f"$.{key}") from None


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, from the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def fetch(
    url: str,
    rules: FetchRules | None = None,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    wants: Callable[[str], bool] | None = None,
    signal: Abort | None = None,
    look_up: LookUp = look_up,
    tls: ssl.SSLContext | None = None,
) -> Fetched:
    """Fetches a URL. The body is left unread when `wants` refuses its content type.

    Raises `ToolInputError` for a URL that is none, `ToolAuthorizationError` for one that may not be reached and for an
    answer that breaks a limit on purpose, `TransportError` when no answer came in time.
    """
    rules = rules or FetchRules()
    client = _Client(rules, look_up, tls or _trusted())
    asked = _Asked(method=method, headers=dict(headers or {}), body=body, wants=wants)
    try:
        async with asyncio.timeout(rules.timeout):
            return await unless_aborted(client.follow(url, asked), signal)
    except TimeoutError:
        raise TransportError(f"{read_url(url).host}: no whole answer within {rules.timeout:g} seconds") from None


class _Asked(Struct, frozen=True, kw_only=True):
    method: str
    headers: dict[str, str]
    body: bytes | None
    wants: Callable[[str], bool] | None


class _Client:
    """One fetch: its rules, its resolver, its redirects."""

    def __init__(self, rules: FetchRules, look_up: LookUp, tls: ssl.SSLContext) -> None:
        self.rules = rules
        self.look_up = look_up
        self.tls = tls

    async def follow(self, url: str, asked: _Asked) -> Fetched:
        target = read_url(url)
        first, notes = target, [*self._proxy_note()]
        for _ in range(self.rules.max_redirects + 1):
            sent = asked if target.origin == first.origin else msgspec.structs.replace(asked, headers={})
            answer = await self._request(target, sent)
            onward = answer.headers.get("location")
            if answer.status not in _REDIRECTS or onward is None:
                return msgspec.structs.replace(answer, url=first.url, notes=tuple(notes))
            if asked.body is not None:
                raise TransportError(f"{target.host} redirects, and a body is not sent on: give the final address")
            target, before = _redirected(target, onward), target
            if before.scheme == "https" and target.scheme == "http":
                notes.append(f"redirected from https to unencrypted http at {target.host}")
        raise TransportError(f"{first.host}: more than {self.rules.max_redirects} redirects, the last to {target.host}")

    async def _request(self, target: Target, asked: _Asked) -> Fetched:
        import aiohttp
        from yarl import URL

        addresses = await self._checked(target)
        proxied = self.rules.proxy is not None
        connector = aiohttp.TCPConnector(
            resolver=None if proxied else _pinned(target, addresses),
            use_dns_cache=False,
            force_close=True,
            ssl=self.tls,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=self.rules.timeout),
        )
        try:
            async with (
                session,
                session.request(
                    asked.method,
                    URL(target.url, encoded=True),
                    headers=_headers(asked),
                    data=asked.body,
                    allow_redirects=False,
                    proxy=self.rules.proxy,
                ) as response,
            ):
                return await self._read(target, response, asked)
        except (aiohttp.ClientError, zlib.error, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise TransportError(f"{target.host}: {_reason(error)}") from None

    async def _checked(self, target: Target) -> list[Address]:
        """All addresses of the target, each of them allowed."""
        addresses = [target.address] if target.address is not None else await self._looked_up(target)
        for address in addresses:
            why = refusal(target, address, allow_hosts=self.rules.allow_hosts, allow_private=self.rules.allow_private)
            if why:
                raise ToolAuthorizationError(
                    f"{target.host} is not fetched: {why}. The user can allow it with allowHosts in the settings of "
                    "the tool; trying another spelling will not help"
                )
        return addresses

    async def _looked_up(self, target: Target) -> list[Address]:
        try:
            found = await self.look_up(target.host, target.port)
        except (OSError, UnicodeError) as error:
            if self.rules.proxy is not None:
                return []
            raise TransportError(f"{target.host}: the name has no address ({error})") from None
        addresses = [parse_address(text) for text in dict.fromkeys(found)]
        if not addresses and self.rules.proxy is None:
            raise TransportError(f"{target.host}: the name has no address")
        return addresses

    async def _read(self, target: Target, response: "ClientResponse", asked: _Asked) -> Fetched:
        if sum(len(name) + len(value) for name, value in response.raw_headers) > self.rules.max_header_bytes:
            raise ToolAuthorizationError(
                f"{target.host}: the answer's headers are larger than {self.rules.max_header_bytes} bytes"
            )
        answer = Fetched(
            url=target.url,
            final_url=target.url,
            status=response.status,
            headers={name.lower(): value for name, value in response.headers.items()},
            body=b"",
        )
        if (answer.status in _REDIRECTS and "location" in answer.headers) or not _wanted(asked, answer):
            return answer
        body, truncated = await self._body(target, response)
        return msgspec.structs.replace(answer, body=body, truncated=truncated)

    async def _body(self, target: Target, response: "ClientResponse") -> tuple[bytes, bool]:
        """The body, decompressed, up to the limit. What came in is limited too: it may decompress to nothing at all."""
        inflate = _inflater(response.headers.get("content-encoding", ""), target)
        taken = bytearray()
        received = 0
        async for chunk in response.content.iter_chunked(_CHUNK):
            received += len(chunk)
            taken += inflate(chunk, self.rules.max_bytes - len(taken) + 1)
            if len(taken) > _RATIO_FLOOR and len(taken) > received * self.rules.max_ratio:
                raise ToolAuthorizationError(
                    f"{target.host}: the answer unpacks to more than {self.rules.max_ratio} times its size (a bomb)"
                )
            if len(taken) > self.rules.max_bytes or received > self.rules.max_bytes:
                response.close()
                return bytes(taken[: self.rules.max_bytes]), True
        return bytes(taken), False

    def _proxy_note(self) -> tuple[str, ...]:
        if self.rules.proxy is None:
            return ()
        return (
            "fetched through the configured proxy, which looked the name up itself: its address is not checked here",
        )


def _redirected(target: Target, onward: str) -> Target:
    try:
        return read_url(urljoin(target.url, onward))
    except (ToolInputError, ValueError):
        raise ToolAuthorizationError(f"{target.host} redirects to what is not a plain http or https URL") from None


def _reason(error: Exception) -> str:
    """Why no answer came. What the parser of the answer says quotes the answer, so it is not repeated."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorError() | OSError():
            return str(error)[:300] or type(error).__name__
        case aiohttp.ClientResponseError():
            return "the answer is not valid HTTP, or one of its headers is too long"
        case zlib.error():
            return "the answer's compression is broken"
        case _:
            return f"the connection broke off ({type(error).__name__})"


def _wanted(asked: _Asked, answer: Fetched) -> bool:
    return asked.wants is None or not 200 <= answer.status < 300 or asked.wants(answer.content_type)


def _headers(asked: _Asked) -> dict[str, str]:
    return {
        "User-Agent": USER_AGENT,
        "Accept": "text/markdown, text/html;q=0.9, */*;q=0.5",
        "Accept-Encoding": "gzip, deflate",
        **asked.headers,
    }


@functools.cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()


def _pinned(target: Target, addresses: list[Address]) -> "AbstractResolver":
    """A resolver that knows one name, and of it only the addresses that were checked."""
    from aiohttp.abc import AbstractResolver

    class Pinned(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> "list[ResolveResult]":
            if host != target.host:
                raise OSError(f"{host} was not checked")
            return [_resolved(host, port, address) for address in addresses]

        async def close(self) -> None:
            pass

    return Pinned()


def _resolved(host: str, port: int, address: Address) -> "ResolveResult":
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return {
        "hostname": host,
        "host": str(address),
        "port": port,
        "family": family,
        "proto": socket.IPPROTO_TCP,
        "flags": socket.AI_NUMERICHOST,
    }


def _inflater(encoding: str, target: Target) -> Callable[[bytes, int], bytes]:
    """A function that unpacks the next piece of a body, never to more than the room it is given."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda data, room: data[:room]
        case "gzip" | "x-gzip" | "deflate":
            return _Inflater().feed
        case other:
            raise TransportError(f"{target.host}: the answer is packed as {other!r}, which was not asked for")


class _Inflater:
    """gzip (of several members too), zlib and bare deflate, told apart by their first bytes."""

    def __init__(self) -> None:
        self._unpack: Any = None

    def feed(self, data: bytes, room: int) -> bytes:
        out = bytearray()
        while data and len(out) < room:
            if self._unpack is None:
                self._unpack = zlib.decompressobj(_window(data))
            out += self._unpack.decompress(data, room - len(out))
            data = self._unpack.unconsumed_tail
            if self._unpack.eof:
                data, self._unpack = self._unpack.unused_data, None
                if not data.startswith(b"\x1f\x8b"):
                    break
        return bytes(out)


def _window(data: bytes) -> int:
    """zlib's number for the format that begins so. A zlib head is a multiple of 31 whose low half-byte is 8."""
    if data[:1] == b"\x1f":
        return 31
    zlib_head = len(data) > 1 and data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    return 15 if zlib_head else -15


async def unless_aborted(work: Coroutine[Any, Any, T], signal: Abort | None) -> T:
    """The result of `work`, which is cancelled when the signal fires."""
    if signal is None:
        return await work
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    forget = signal.on_abort(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        return await task
    except asyncio.CancelledError:
        if not signal.aborted or _cancelled_from_outside():
            raise
        raise TransportError(f"stopped: {signal.reason or 'aborted'}") from None
    finally:
        forget()
        task.cancel()


def _cancelled_from_outside() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
