"""HTTP transport. Knows nothing of providers, keys or dialects.

One pooled client per event loop: clients must not cross loops, and a loop closes its client when it ends. Proxies come
from the environment unless given; certificates are verified against the system's authorities or the given ones.
"""

import asyncio
import contextlib
import functools
import re
import ssl
import threading
import weakref
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..values.decompression import Decompressor, is_compressed
from ..values.errors import FormatError, InterlinguaError, NoConnection, TimedOut, TransportError, causes
from ..values.jsontext import is_clean
from ..values.places import is_set

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

ERROR_BODY_LIMIT = 1024 * 1024
_REMEMBERED = 256  # URLs
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.1
_TARGET = re.compile(r"/[!-~]*")  # of a request line
_PROXY_VARIABLES = ("https_proxy", "http_proxy", "all_proxy", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")


class Reply(Protocol):
    """A response whose body is still arriving."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    async def chunk(self) -> bytes:
        """Returns the next bytes as received; empty at the end."""
        ...

    def close(self) -> None:
        """Closes the connection at once, also during a pending `chunk`."""
        ...


class Transport(Protocol):
    """The protocol of HTTP transports."""

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply: ...


def with_headers(headers: Mapping[str, str], *given: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the headers with those that a caller gave, which replace others of the same name, in any case.

    Raises FormatError for what HTTP forbids.
    """
    merged = dict(headers)
    for each in given:
        for name, value in each.items() if each else ():
            _check_header(name, value)
            for other in [other for other in merged if other.lower() == name.lower()]:
                del merged[other]
            merged[name] = value
    return merged


def _check_header(name: str, value: str) -> None:
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        # A whole line as the name has the value in it, which may be a key.
        shown = re.sub(r"[:\s].*", "…", name, flags=re.DOTALL) if isinstance(name, str) else name
        raise FormatError(f"invalid header name {shown!r}; use letters, digits and hyphens", "options.headers")
    # RFC 9112, 6.3: two lengths that differ are a request-smuggling risk.
    if name.lower() in ("content-length", "transfer-encoding"):
        raise FormatError(f"the client writes {name} itself; remove it", "options.headers")
    if not isinstance(value, str):
        raise FormatError(f"the header {name} must be a string, not {type(value).__name__}", "options.headers")
    # RFC 9110, 5.5: no CR, LF or NUL in a value; a line break would begin another header.
    if not (value.isascii() or is_clean(value)) or any(mark in value for mark in "\r\n\0"):
        raise FormatError(f"the header {name} has a character that HTTP forbids; remove it", "options.headers")


async def whole(reply: Reply, limit: int = ERROR_BODY_LIMIT) -> bytes:
    """Returns the rest of a body, up to the limit."""
    parts = []
    while limit > 0 and (part := await reply.chunk()):
        parts.append(part[:limit])
        limit -= len(part)
    return b"".join(parts)


class HttpTransport:
    """The default transport: `http1` for plain calls, aiohttp (loaded on first use) for proxies and unusual addresses.

    `proxy` is a URL (default: HTTPS_PROXY, HTTP_PROXY and NO_PROXY); `ca` the path of a PEM file, or PEM text, with
    authorities to trust beside the system's; `connect` the connect timeout in seconds. With `remembers_proxies` the
    environment is read once per URL: a tenth of a plain call of the gateway.
    """

    def __init__(
        self,
        *,
        proxy: str | None = None,
        ca: str | None = None,
        connect: float = 30.0,
        remembers_proxies: bool = False,
    ) -> None:
        self._proxy = proxy
        self._remembers_proxies = remembers_proxies
        self._proxies: dict[str, str | None] = {}  # by URL
        self._ca = ca
        self._connect = connect
        self._lock = threading.Lock()
        self._sessions: dict[asyncio.AbstractEventLoop, _LoopClients] = {}
        self._context: ssl.SSLContext | None = None

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        loop_clients = self._sessions.get(asyncio.get_running_loop())
        if loop_clients is None or loop_clients.clients.is_closed:
            loop_clients = await self._begin()
        proxy = self._proxies[url] if url in self._proxies else self._proxy_of(url)
        address = _plain_url(url) if proxy is None else None
        reply: Reply
        if address is None:
            session = loop_clients.clients.session()
            reply = await self._send_by_aiohttp(session, method, url, headers, body, proxy)
        else:
            try:
                reply = await loop_clients.clients.pool.send(method, address, headers, body)
            except InterlinguaError as error:
                raise _bare(error) from error.__cause__
        encoding = reply.headers.get("Content-Encoding")
        return _Decompressed(reply, encoding) if encoding and is_compressed(encoding) else reply

    def _proxy_of(self, url: str) -> str | None:
        given = self._proxy or _proxy_of_environment(url)
        found = None if given is None else _usable(given)
        if self._remembers_proxies:
            if len(self._proxies) >= _REMEMBERED:
                self._proxies.clear()
            self._proxies[url] = found
        return found

    async def _send_by_aiohttp(
        self,
        session: "aiohttp.ClientSession",
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        proxy: str | None,
    ) -> Reply:
        import aiohttp

        try:
            return _Reply(
                await session.request(method, _url(url), data=body, headers=headers, allow_redirects=False, proxy=proxy)
            )
        except (aiohttp.ServerTimeoutError, TimeoutError) as error:
            raise TimedOut(f"no connection to {_host(url)} within {self._connect:g} s") from _bare(error)
        except aiohttp.InvalidURL as error:
            raise TransportError(f"{_host(url)} is not a valid address") from _bare(error)
        except aiohttp.ClientResponseError as error:
            refused = f"{error.status} {error.message}"
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:  # a certificate's error is a ValueError, too
            kind = NoConnection if proxy is None and hasattr(error, "os_error") else TransportError
            raise kind(f"no answer from {_host(url)}: {error or type(error).__name__}") from _bare(error)
        except ValueError as error:  # aiohttp: a line break, or another character that no header may have
            raise FormatError(
                "a header or the key has a character that HTTP forbids; remove it", "options.headers"
            ) from _bare(error)
        # Raised here, away from its cause, which holds the password.
        raise TransportError(f"no answer from {_host(url)}: the proxy answered {refused}")

    async def aclose(self) -> None:
        """Closes the client of the running event loop."""
        with self._lock:
            loop_clients = self._sessions.pop(asyncio.get_running_loop(), None)
        if loop_clients is not None:
            await loop_clients.close()

    async def _begin(self) -> "_LoopClients":
        """Returns the client of the running event loop."""
        # A generator, because an ending event loop closes the generators that were begun on it, and so the client.
        generator = _opened(self._trust(), self._connect)
        clients = await anext(generator)
        loop_clients = _LoopClients(clients, generator, weakref.finalize(self, _let_go, clients))
        with self._lock:
            ended = [loop for loop in self._sessions if loop.is_closed()]
            left = [self._sessions.pop(loop) for loop in ended]
            self._sessions[asyncio.get_running_loop()] = loop_clients
        # A loop that was closed without `shutdown_asyncgens` left its client open. This waits for nothing there.
        for kept in left:
            await kept.close()
        return loop_clients

    def _trust(self) -> ssl.SSLContext | None:
        """Returns the authorities to trust; None for the system's, which are loaded on demand."""
        if self._ca is None:
            return None
        with self._lock:
            if self._context is None:
                self._context = ssl.create_default_context()
                pem = "-----BEGIN" in self._ca
                self._context.load_verify_locations(cafile=None if pem else self._ca, cadata=self._ca if pem else None)
            return self._context


async def _opened(trust: ssl.SSLContext | None, connect: float) -> "AsyncGenerator[_Clients, None]":
    """The clients of an event loop. They have no reference to their transport, so both are freed when unused."""
    clients = _Clients(trust, connect)
    try:
        yield clients
    finally:
        clients.is_closed = True
        clients.pool.close()
        if clients.opened is not None:
            await clients.opened.close()


class _LoopClients(NamedTuple):
    """What one event loop has; the generator ends with the loop.

    Where the transport is collected as part of a cycle, `hold` has the clients until then: else they would be collected
    with it, before the generator has closed them.
    """

    clients: "_Clients"
    generator: "AsyncGenerator[_Clients, None]"
    hold: "weakref.finalize[[_Clients], HttpTransport]"

    async def close(self) -> None:
        self.hold.detach()
        await self.generator.aclose()


def _let_go(clients: "_Clients") -> None:
    pass


class _Clients:
    """Connections of our own, and aiohttp's session once it is needed."""

    __slots__ = ("_connect", "_trust", "is_closed", "opened", "pool")

    def __init__(self, trust: ssl.SSLContext | None, connect: float) -> None:
        from .http1 import Http1Pool  # not loaded for the debug models

        self._trust = trust
        self._connect = connect
        self.pool = Http1Pool(trust, connect)
        self.is_closed = False
        self.opened: aiohttp.ClientSession | None = None

    def session(self) -> "aiohttp.ClientSession":
        import aiohttp

        from .http1 import KEEP_ALIVE

        if self.opened is None or self.opened.closed:
            self.opened = aiohttp.ClientSession(
                # True: those of the system, which aiohttp has read when it was imported
                connector=aiohttp.TCPConnector(limit=0, ssl=self._trust or True, keepalive_timeout=KEEP_ALIVE),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect),
                trust_env=False,  # it would also send credentials from a .netrc
                auto_decompress=False,  # it sets no limit; `_Decompressed` does
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept"),
            )
        return self.opened


class _Decompressed:
    """A response with a compressed body."""

    __slots__ = ("_decompressor", "_pieces", "_reply", "headers", "status")

    def __init__(self, reply: Reply, encoding: str) -> None:
        self._reply = reply
        self.status = reply.status
        self.headers = reply.headers
        self._decompressor = Decompressor(encoding)
        self._pieces: Iterator[bytes] = iter(())

    async def chunk(self) -> bytes:
        while True:
            await asyncio.sleep(0)  # a few bytes may stand for many: let timeouts count
            for piece in self._pieces:
                return piece
            received = await self._reply.chunk()
            if not received:
                self._decompressor.close()
                return b""
            self._pieces = self._decompressor.feed(received)

    def close(self) -> None:
        self._reply.close()


class _Reply:
    """An aiohttp response behind the protocol above."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: "aiohttp.ClientResponse") -> None:
        self._response = response
        self.status = response.status
        self.headers = response.headers

    @property
    def ended(self) -> bool:
        """Whether the whole body has been read."""
        return self._response.content.at_eof()

    async def chunk(self) -> bytes:
        try:
            return await self._response.content.readany()
        except Exception as error:
            import aiohttp

            if not isinstance(error, aiohttp.ClientError | OSError):
                raise
            error.__traceback__ = None  # aiohttp raises the same exception object again: it would accumulate frames
            raise TransportError(f"the connection broke: {error or type(error).__name__}") from error

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is gone, and the connection with it
            self._response.close()


@functools.lru_cache(maxsize=_REMEMBERED)
def _url(url: str) -> "URL":
    from yarl import URL

    return URL(url, encoded=True)


@functools.lru_cache(maxsize=_REMEMBERED)
def _plain_url(url: str) -> "URL | None":
    """The address, where a plain call reaches it: no name and password in it, which aiohttp makes a header of."""
    try:
        address = _url(url)
        is_plain = address.scheme in ("http", "https") and address.raw_host and address.port and address.user is None
        return address if is_plain and _TARGET.fullmatch(address.raw_path_qs) else None
    except ValueError:
        return None  # aiohttp reports what is wrong with it


def _proxy_of_environment(url: str) -> str | None:
    """Returns the proxy of HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY for this URL."""
    if not is_set(*_PROXY_VARIABLES):  # the usual case: no look at every variable there is
        return None
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    parts = urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return None if proxy is None or proxy_bypass(parts.netloc.rpartition("@")[2]) else proxy


def _usable(proxy: str) -> str:
    """Returns a proxy's URL, `http` by default. Another scheme is an error: a call must not bypass a proxy."""
    kind, found, _ = proxy.partition("://")
    if found and kind.lower() not in ("http", "https"):
        raise TransportError(
            f"a {kind} proxy cannot be used: give an http one (HTTPS_PROXY), or exempt the host (NO_PROXY)"
        )
    return proxy if found else f"http://{proxy}"


def _bare(error: BaseException) -> BaseException:
    """Returns the error and its cause, without the frames of aiohttp: their variables hold the headers, so the key."""
    for one in (error, *causes(error)):
        one.__traceback__ = None
    return error


def _host(url: str) -> str:
    """Returns the host of a URL, without anything that may be secret."""
    from yarl import URL

    try:
        return str(URL(url, encoded=True).origin())
    except ValueError:
        return "the given base URL"


_shared: HttpTransport | None = None


def shared() -> HttpTransport:
    """Returns the shared default transport."""
    global _shared
    if _shared is None:
        _shared = HttpTransport()
    return _shared
