"""Defences against other web pages: the checks of every request, and the headers of every response.

- `Host` must be ours: a page that rebinds its own name to this machine's address still sends its own name.
- `Origin` and `Sec-Fetch-Site`, if a browser sends them, must show that the request comes from our own pages. Other
  ports of this machine are other origins, but the same *site*, so `same-site` is refused as well.
- Changes require a header that no form and no foreign script can send.
"""

import asyncio
import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol, TypeAlias

from aiohttp import web

from ..values.text import natural
from .access import Access, Visitor
from .problems import HttpProblem, problem_of

CSRF_HEADER = "X-Canvas-CSRF"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:;"
    " font-src 'self'; connect-src 'self'; worker-src 'self' blob:; frame-src 'self' blob:; frame-ancestors 'none';"
    " base-uri 'none'; form-action 'none'"
)
API_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
# The policies forbid scripts from elsewhere; these headers keep a response from being read, framed or taken for another
# type by other sites.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = logging.getLogger(__name__)


class Guarded(Protocol):
    """The parts of a request that the checks use, independent of the HTTP library."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def transport(self) -> asyncio.Transport | None: ...


def refuse_foreign_host(request: Guarded, names: Collection[str] = ()) -> None:
    """Refuses a `Host` that is neither an address of this machine nor one of the given names."""
    host = request.headers.get("Host", "")
    name, port = _split(host)
    if name not in names and name != "localhost" and not _is_address(name):
        raise HttpProblem(
            403, f"the host {host!r} is not this server's", code="bad_host", remedy="use the address that was printed"
        )
    local = request.transport.get_extra_info("sockname") if request.transport is not None else None
    if name not in names and isinstance(local, tuple) and port != local[1]:  # a Unix socket has no port
        raise HttpProblem(403, f"the host {host!r} does not have the port of this server", code="bad_host")


def refuse_foreign_origin(request: Guarded) -> None:
    """Refuses requests that a browser marks as coming from another origin than our own pages."""
    # Fetch standard, 3.2: browsers send `Origin` with every request that may change something.
    origin, host = request.headers.get("Origin"), request.headers.get("Host", "")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        raise HttpProblem(
            403, f"the origin {origin!r} is not this server's", code="bad_origin", remedy="open the page itself"
        )
    # Fetch Metadata (w3.org/TR/fetch-metadata): pages cannot set headers that begin with `Sec-`.
    site = request.headers.get("Sec-Fetch-Site", "none")
    # A link on another site, or a typed address, may open a page; nothing else may come from another site.
    navigates = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method == "GET"
    if site not in ("same-origin", "none") and not (navigates and not is_private(request)):
        why = f"a request from another site ({site})"
        raise HttpProblem(403, why, code="bad_origin", remedy="open the page itself")


def refuse_browsers(request: web.Request) -> None:
    """Refuses requests that a browser marks: for listeners that serve only programs on this machine."""
    for name in request.headers:
        if name.lower() in ("origin", "cookie", "referer") or name.lower().startswith("sec-"):
            raise HttpProblem(
                403, f"requests from browsers are refused here ({name})", code="bad_origin", remedy="use a program"
            )


def is_private(request: Guarded) -> bool:
    """Whether the path shows user data: pages and their scripts do not."""
    return request.path.startswith(("/api", "/blobs", "/embed"))


def authenticate(request: web.Request, access: Access, cookie_name: str) -> Visitor | None:
    """Returns the visitor by the key or the cookie of a request; None without a valid one."""
    given = request.headers.get("Authorization", "")
    if given.startswith("Bearer "):
        return access.by_key(given.removeprefix("Bearer ").strip())
    cookie = request.cookies.get(cookie_name)
    return access.by_cookie(cookie) if cookie is not None else None


def authorize(request: web.Request, visitor: Visitor | None) -> Visitor:
    """Refuses a request that its visitor may not make."""
    if visitor is None:
        raise HttpProblem(
            401, "not logged in", remedy="open the address with its one-time token, or send a key as a bearer token"
        )
    if request.method not in SAFE_METHODS:
        if visitor.scope != "write":
            raise HttpProblem(403, "this access may only read", remedy="use a key with the scope `write`")
        # Only cookies are sent by a browser without the page's doing: a key needs no second proof.
        if visitor.csrf is not None:
            sent = request.headers.get(CSRF_HEADER, "")
            if not hmac.compare_digest(sent.encode(), visitor.csrf.encode()):
                raise HttpProblem(
                    403, f"the header {CSRF_HEADER} is missing or wrong", code="bad_csrf", remedy="reload the page"
                )
    return visitor


def guarded(handler: Handler) -> Handler:
    """Wraps a handler: failures become error responses."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except (HttpProblem, web.HTTPException) as error:
            return problem_of(error).response()
        except Exception as error:
            found = problem_of(error)
            is_lost = request.transport is None or request.transport.is_closing()  # the client disconnected
            if found.status >= 500 and not (is_lost and isinstance(error, ConnectionError)):
                _log.error("%s %s failed", request.method, request.path, exc_info=error)
            return found.response()

    return handle


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """A signal handler that adds the defensive headers to every response, unless it has its own."""
    omitted = set()
    if "frame-ancestors *" in response.headers.get("Content-Security-Policy", ""):
        omitted.add("X-Frame-Options")
    # Separates the page from the window that opened it, in a new process. A navigation that the user began has no such
    # window; without the header the browser keeps its process, and the page is shown earlier.
    if request.headers.get("Sec-Fetch-Site") in ("none", "same-origin"):
        omitted.add("Cross-Origin-Opener-Policy")
    for name, value in HEADERS.items():
        if name not in omitted:
            response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", API_POLICY if is_private(request) else PAGE_POLICY)
    # RFC 9111, 5.2.2.5: conversations are in no cache, neither the browser's nor a proxy's.
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.pop("Server", None)


def _split(host: str) -> tuple[str, int]:
    """Splits a Host header into name and port."""
    # RFC 9110, 7.2; an IPv6 address is in brackets (RFC 3986, 3.2.2).
    name, colon, port = host.rpartition(":")
    if not colon or (host.startswith("[") and not name.endswith("]")):
        name, port = host, "80"
    number = natural(port, digits=5)
    return name.strip("[]").lower(), -1 if number is None else number


def _is_address(name: str) -> bool:
    """Whether a host is an IP address, which cannot be rebound: only names can."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
