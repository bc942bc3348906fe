"""The HTTP client of the web tools, guarded against SSRF: checked addresses only, within limits.

A name is resolved once; every address must be allowed, and the connection uses exactly these, so DNS rebinding has no
effect. Each redirect is checked like the first URL, and judged by the policy of the call. No cookies, no credentials,
no proxy from the environment; headers with a key are sent to their origin only. Errors name hosts and numbers, never
text of the response.
"""

import asyncio
import functools
import socket
import ssl
import unicodedata
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import msgspec
from msgspec import Struct

from ..values.abort import Abort
from ..values.decompression import PIECE, Decompressor, is_compressed
from ..values.errors import ToolAuthorizationError, ToolInputError, TransportError
from .access import require_redirect

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from aiohttp.abc import AbstractResolver, ResolveResult


# Which URLs and addresses a web tool may reach. Pure: no lookups here.
#
# A URL is parsed once, by `read_url`, and rebuilt from the checked parts, so that the HTTP client cannot parse it
# differently. Special addresses are those of the IANA special-purpose registries (RFC 6890), spelled out, since
# `is_global` of the standard library differs between Python versions.

Address: TypeAlias = IPv4Address | IPv6Address

_PORTS = {"http": 80, "https": 443}
_MAX_URL_CHARS = 8192
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
_SAFE_IN_PATH = "/:?#[]@!$&'()*+,;=-._~%"


class UrlTarget(NamedTuple):
    """A checked URL: `host` is lower-case ASCII (punycode for other scripts), `address` is set when it is a literal."""

    url: str
    scheme: str
    host: str
    port: int
    address: Address | None

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port


class _Block(NamedTuple):
    """A block of special addresses, and whether `allow_private` permits it."""

    network: IPv4Network | IPv6Network
    what: str
    private: bool


_BLOCKS = tuple(
    _Block(ip_network(network), what, private)
    for network, what, private in (
        ("0.0.0.0/8", "unspecified", False),
        ("10.0.0.0/8", "private", True),
        ("100.64.0.0/10", "carrier-grade NAT", True),
        ("127.0.0.0/8", "loopback", True),
        ("168.63.129.16/32", "a cloud provider's host service", False),
        ("169.254.0.0/16", "link-local (cloud metadata)", False),
        ("172.16.0.0/12", "private", True),
        ("192.0.0.0/24", "reserved", False),
        ("192.0.2.0/24", "documentation", False),
        ("192.88.99.0/24", "a 6to4 relay", False),
        ("192.168.0.0/16", "private", True),
        ("198.18.0.0/15", "benchmarking", True),
        ("198.51.100.0/24", "documentation", False),
        ("203.0.113.0/24", "documentation", False),
        ("224.0.0.0/4", "multicast", False),
        ("240.0.0.0/4", "reserved", False),
        ("::/128", "unspecified", False),
        ("::1/128", "loopback", True),
        ("64:ff9b:1::/48", "local NAT64", True),
        ("2001::/23", "reserved", False),
        ("2001:db8::/32", "documentation", False),
        ("3fff::/20", "documentation", False),
        ("fc00::/7", "private", True),
        ("fe80::/10", "link-local", False),
        ("fec0::/10", "site-local", True),
        ("ff00::/8", "multicast", False),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)


def read_url(url: str) -> UrlTarget:
    """The target of an http or https URL. Raises `ToolInputError` for anything else, ambiguous spellings included."""
    text = url.strip(" ")
    _refuse_odd_characters(text)
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ToolInputError(f"not a URL: {error}") from None
    if parts.scheme not in _PORTS:
        raise ToolInputError(f"only http and https URLs can be fetched, not {parts.scheme or 'a URL without a scheme'}")
    if "@" in parts.netloc:
        raise ToolInputError("a URL with a user name or password is not fetched; leave out the part before the @")
    written, port = _host_and_port(parts.netloc, _PORTS[parts.scheme])
    host, address = _host(written)
    shown = f"[{host}]" if ":" in host else host
    place = shown if port == _PORTS[parts.scheme] else f"{shown}:{port}"
    path = quote(parts.path or "/", safe=_SAFE_IN_PATH)
    query = f"?{quote(parts.query, safe=_SAFE_IN_PATH)}" if parts.query else ""
    return UrlTarget(f"{parts.scheme}://{place}{path}{query}", parts.scheme, host, port, address)


def refusal(
    target: UrlTarget, address: Address, *, allow_hosts: Iterable[str] = (), allow_private: bool = False
) -> str:
    """The reason why this address of the target is refused; empty if it is allowed.

    `allow_hosts` permits any listed `name`, `.suffix`, address or network, optionally with `:port` (not for networks).
    `allow_private` permits private networks and this machine, never link-local addresses.
    """
    what, private = special(address)
    if not what or (private and allow_private) or any(_allows(rule, target, address) for rule in allow_hosts):
        return ""
    return f"{address} is not a public address ({what})"


def special(address: Address) -> tuple[str, bool]:
    """The kind of a non-public address, and whether it is merely private; empty for a public one."""
    for block in _BLOCKS:
        if address.version == block.network.version and address in block.network:
            return block.what, block.private
    if isinstance(address, IPv4Address):
        return "", False
    inner = _embedded(address)
    if inner is not None:
        what, private = special(inner)
        return (f"carries {inner}: {what}", private) if what else ("", False)
    return ("", False) if address in _GLOBAL_V6 else ("reserved", False)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address embedded in an IPv6 address: mapped, compatible, NAT64, 6to4, ISATAP."""
    number = int(address)
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _COMPATIBLE or address in _NAT64:
        return IPv4Address(number & 0xFFFFFFFF)
    if address.sixtofour is not None:
        return address.sixtofour
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        return IPv4Address(number & 0xFFFFFFFF)
    return None


def _allows(rule: str, target: UrlTarget, address: Address) -> bool:
    rule = rule.strip().lower()
    if "/" in rule:
        return _in_network(rule, address)
    name, port = rule, ""
    if rule.startswith("["):
        name, _, port = rule[1:].partition("]")
        port = port.removeprefix(":")
    elif rule.count(":") == 1:
        name, _, port = rule.partition(":")
    if port and port != str(target.port):
        return False
    if name.startswith("."):
        return target.host.endswith(name)
    return _same_host(name, target.host)


def _same_host(name: str, host: str) -> bool:
    try:
        return _host(name)[0] == host
    except ToolInputError:
        return False


def _in_network(rule: str, address: Address) -> bool:
    try:
        network = ip_network(rule, strict=False)
    except ValueError:
        return False
    return network.version == address.version and address in network


def _refuse_odd_characters(text: str) -> None:
    """Refuses tabs, line breaks, spaces and backslashes, which URL parsers treat differently."""
    if len(text) > _MAX_URL_CHARS:
        raise ToolInputError(f"the URL is longer than {_MAX_URL_CHARS} characters")
    odd = next((char for char in text if char in " \\\x7f" or ord(char) < 0x20 or 0xD800 <= ord(char) < 0xE000), None)
    if odd is not None:
        raise ToolInputError(f"the URL contains {odd!r}; write it percent-encoded, or / for a backslash")


def _host_and_port(netloc: str, default: int) -> tuple[str, int]:
    host, _, port = netloc.partition("]") if netloc.startswith("[") else netloc.partition(":")
    if netloc.startswith("["):
        host, port = f"{host}]", port.removeprefix(":") if port.startswith(":") or not port else "?"
    if not port:
        return host, default
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise ToolInputError(f"the URL's port is not a number between 1 and 65535: {port!r}")
    return host, int(port)


def _host(written: str) -> tuple[str, Address | None]:
    """The normal form of a host, for comparison and connection."""
    if written.startswith("["):
        return _v6(written[1:-1])
    if ":" in written:
        return _v6(written)
    name = unicodedata.normalize("NFKC", written).lower().replace("。", ".").removesuffix(".")
    if not name.isascii():
        name = _punycode(name)
    if not name or not _NAME.issuperset(name) or ".." in name or name.startswith(".") or len(name) > 253:
        raise ToolInputError(f"not a host name: {written!r}")
    address = _v4(name)
    return (name, None) if address is None else (str(address), address)


def _v6(written: str) -> tuple[str, Address]:
    if "%" in written:
        raise ToolInputError("an IPv6 address with a zone is local to this machine and is not fetched")
    try:
        address = IPv6Address(written)
    except ValueError:
        raise ToolInputError(f"not an IPv6 address: {written!r}") from None
    return str(address), address


def _v4(name: str) -> IPv4Address | None:
    """An IPv4 address in any spelling that inet_aton or a browser accepts: fewer parts, octal, hexadecimal."""
    parts = name.split(".")
    if not (parts[-1].isdigit() or parts[-1].startswith("0x")):
        return None
    numbers = [_number(part) for part in parts]
    if len(parts) > 4 or any(n is None for n in numbers):
        raise ToolInputError(f"not a host name nor an IPv4 address: {name!r}")
    *heads, last = (n for n in numbers if n is not None)
    if any(n > 255 for n in heads) or last >= 256 ** (4 - len(heads)):
        raise ToolInputError(f"not an IPv4 address: {name!r}")
    return IPv4Address(sum(n << 8 * (3 - at) for at, n in enumerate(heads)) + last)


def _number(part: str) -> int | None:
    try:
        if part.startswith("0x"):
            return int(part[2:] or "0", 16) if "_" not in part else None
        if not part.isdigit():
            return None
        return int(part, 8) if len(part) > 1 and part.startswith("0") else int(part)
    except ValueError:
        return None


def _punycode(name: str) -> str:
    import idna  # comes with aiohttp

    try:
        return idna.encode(name, uts46=True).decode()
    except idna.IDNAError as error:
        raise ToolInputError(f"not a host name: {name!r} ({error})") from None


def parse_address(text: str) -> Address:
    """An address from a resolver, without its zone (`fe80::1%eth0`)."""
    return ip_address(text.partition("%")[0])


T = TypeVar("T")
LookUp: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host name (and port), as text."""

USER_AGENT = "interlingua-web/1"
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK = 64 * 1024
_RATIO_FLOOR = 1_000_000  # bytes: a small page may compress well


class FetchRules(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Allowed addresses and limits. `max_bytes` counts after decompression.

    `allow_hosts` permits hosts (`name`, `.suffix`, address, network; with `:port`), `allow_private` private networks
    and this machine. A `proxy` resolves names again: the check here does not bind it.
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
    """A response. `truncated` if the body was longer; `notes` about redirects and the proxy."""

    url: str
    final_url: str
    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool = False
    notes: tuple[str, ...] = ()

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case; empty if missing."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


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
    accepts: Callable[[str], bool] | None = None,
    signal: Abort | None = None,
    look_up: LookUp = look_up,
    tls: ssl.SSLContext | None = None,
) -> Fetched:
    """Fetches a URL. Does not read the body if `accepts` rejects its content type.

    Raises `ToolInputError` for an invalid URL, `ToolAuthorizationError` for a forbidden address or a response that
    exceeds a limit, `TransportError` if there is no response in time.
    """
    rules = rules or FetchRules()
    client = _Client(rules, look_up, tls or _trusted())
    request = _Request(method=method, headers=dict(headers or {}), body=body, accepts=accepts)
    try:
        async with asyncio.timeout(rules.timeout):
            return await unless_aborted(client.follow(url, request), signal)
    except TimeoutError:
        raise TransportError(f"{read_url(url).host}: no complete response within {rules.timeout:g} seconds") from None


class _Request(Struct, frozen=True, kw_only=True):
    method: str
    headers: dict[str, str]
    body: bytes | None
    accepts: Callable[[str], bool] | None


class _Client:
    """One fetch: its rules, its resolver, its redirects."""

    def __init__(self, rules: FetchRules, look_up: LookUp, tls: ssl.SSLContext) -> None:
        self.rules = rules
        self.look_up = look_up
        self.tls = tls

    async def follow(self, url: str, request: _Request) -> Fetched:
        target = read_url(url)
        first, notes = target, [*self._proxy_note()]
        for _ in range(self.rules.max_redirects + 1):
            sent = request if target.origin == first.origin else msgspec.structs.replace(request, headers={})
            answer = await self._request(target, sent)
            onward = answer.headers.get("location")
            if answer.status not in _REDIRECTS or onward is None:
                return msgspec.structs.replace(answer, url=first.url, notes=tuple(notes))
            if request.body is not None:
                raise TransportError(f"{target.host} redirects, but a request body is not forwarded; use the final URL")
            target, before = _redirected(target, onward), target
            require_redirect(before.host, target.url)
            if before.scheme == "https" and target.scheme == "http":
                notes.append(f"redirected from https to unencrypted http at {target.host}")
        raise TransportError(f"{first.host}: more than {self.rules.max_redirects} redirects, the last to {target.host}")

    async def _request(self, target: UrlTarget, request: _Request) -> Fetched:
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
                    request.method,
                    URL(target.url, encoded=True),
                    headers=_headers(request),
                    data=request.body,
                    allow_redirects=False,
                    proxy=self.rules.proxy,
                ) as response,
            ):
                return await self._read(target, response, request)
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise TransportError(f"{target.host}: {_reason(error)}") from None

    async def _checked(self, target: UrlTarget) -> list[Address]:
        """All addresses of the target; raises ToolAuthorizationError if one is not allowed."""
        addresses = [target.address] if target.address is not None else await self._looked_up(target)
        for address in addresses:
            why = refusal(target, address, allow_hosts=self.rules.allow_hosts, allow_private=self.rules.allow_private)
            if why:
                raise ToolAuthorizationError(
                    f"{target.host} is not fetched: {why}. The user can allow it with allowHosts in the settings of "
                    "the tool; trying another spelling will not help"
                )
        return addresses

    async def _looked_up(self, target: UrlTarget) -> list[Address]:
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

    async def _read(self, target: UrlTarget, response: "ClientResponse", request: _Request) -> Fetched:
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
        if (answer.status in _REDIRECTS and "location" in answer.headers) or not _reads_body(request, answer):
            return answer
        body, truncated = await self._body(target, response)
        return msgspec.structs.replace(answer, body=body, truncated=truncated)

    async def _body(self, target: UrlTarget, response: "ClientResponse") -> tuple[bytes, bool]:
        """The decompressed body, up to the limit; the received bytes are limited too."""
        unpack = _unpacking(response.headers.get("content-encoding", ""), target, self.rules.max_bytes)
        taken = bytearray()
        received = 0
        async for chunk in response.content.iter_chunked(_CHUNK):
            received += len(chunk)
            for piece in unpack(chunk):
                taken += piece
                if len(taken) > _RATIO_FLOOR and len(taken) > received * self.rules.max_ratio:
                    raise ToolAuthorizationError(
                        f"{target.host}: the response decompresses to more than {self.rules.max_ratio} times its size"
                    )
                if len(taken) > self.rules.max_bytes:
                    break
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


def _redirected(target: UrlTarget, onward: str) -> UrlTarget:
    try:
        return read_url(urljoin(target.url, onward))
    except (ToolInputError, ValueError):
        raise ToolAuthorizationError(f"{target.host} redirects to a URL that is not http or https") from None


def _reason(error: Exception) -> str:
    """The reason of a failed request. Parser errors quote the response, so their text is not used."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorError() | OSError():
            return str(error)[:300] or type(error).__name__
        case aiohttp.ClientResponseError():
            return "the answer is not valid HTTP, or one of its headers is too long"
        case _:
            return f"the connection broke off ({type(error).__name__})"


def _reads_body(request: _Request, answer: Fetched) -> bool:
    return request.accepts is None or not 200 <= answer.status < 300 or request.accepts(answer.content_type)


def _headers(request: _Request) -> dict[str, str]:
    return {
        "User-Agent": USER_AGENT,
        "Accept": "text/markdown, text/html;q=0.9, */*;q=0.5",
        "Accept-Encoding": "gzip, deflate",
        **request.headers,
    }


@functools.cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()


def _pinned(target: UrlTarget, addresses: list[Address]) -> "AbstractResolver":
    """A resolver for one name that returns only the checked addresses."""
    from aiohttp.abc import AbstractResolver

    class Pinned(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> "list[ResolveResult]":
            if host != target.host:
                raise OSError(f"the address of {host} was not checked")
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


def _unpacking(encoding: str, target: UrlTarget, limit: int) -> Callable[[bytes], Iterable[bytes]]:
    """A function that yields the next bytes of a body, decompressed as they are asked for."""
    if not is_compressed(encoding):
        return lambda chunk: (chunk,)
    try:
        unpacker = Decompressor(encoding, limit + PIECE)
    except TransportError:
        raise TransportError(f"{target.host}: unexpected content encoding {encoding!r}") from None

    def unpack(chunk: bytes) -> Iterator[bytes]:
        try:
            yield from unpacker.feed(chunk)
        except TransportError:
            raise TransportError(f"{target.host}: the answer's compression is broken") from None

    return unpack


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
