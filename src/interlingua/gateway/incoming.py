"""Requests of clients: whose they are, their bodies, decoded once for all targets; what is ambiguous is refused.

A provider must not read another request than the one that was checked here: keys that come twice, other encodings and
duplicate fields are errors.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from aiohttp import web
from msgspec import Struct
from multidict import MultiMapping

from ..dialects.wire import Rephrased, Wire
from ..serving import guard
from ..serving.listener import is_loopback
from ..serving.problems import HttpProblem
from ..values import jsontext
from ..values.decompression import decompressed, is_compressed
from ..values.errors import AuthFailed, BadRequest, DialectError, FormatError, TransportError
from ..values.request import Request
from ..values.tokens import taken
from .exchange import LOCAL, ClientKey, Exchange, Gate
from .front import PlainRequest
from .operations import GatewayOperation
from .recall import referred_ids
from .references import References
from .settings import ClientLimits, Listen

T = TypeVar("T")
ClientRequest: TypeAlias = web.BaseRequest | PlainRequest

LARGE_BODY = 64 * 1024  # bytes of a request above which it is worked on beside the event loop
_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
_SESSION_HEADERS = ("session_id", "conversation_id", "x-session-id", "x-claude-code-session-id")
# Content codings of bodies; any other is refused.
_READABLE_CODINGS = frozenset({"", "identity", "gzip", "deflate", "zstd"})


class Incoming(Struct, frozen=True, kw_only=True):
    """The client's request, decoded once for all targets. `body` is None if it no longer equals the received one,
    `received`.
    """

    wire: Wire
    request: Request
    body: bytes | None
    received: bytes = b""
    resolved: Request | None = None  # with stored items in the place of references, for who does not have them
    item_owners: frozenset[str] = frozenset()  # the providers that have those items
    as_array: bool = False
    headers: Mapping[str, str] = {}
    tokens: int | None = None  # estimate of the context, where it was made with the decoding
    rephrased: Rephrased | None = None  # the endpoint that the client called, if only that one knows its request


async def identify(http: ClientRequest, client_wire: Wire, gate: Gate | None, listen: Listen) -> ClientKey:
    """Returns the key of a request."""
    secret = _read_headers(http, client_wire)[0]
    try:
        key = LOCAL if gate is None else await gate.identify(secret)
    except AuthFailed:
        if secret is None and http.headers.get("Authorization", "").startswith("AWS4-"):
            # A signature proves a secret that only AWS and the client know.
            raise AuthFailed(
                "an AWS signature cannot be checked here; set AWS_BEARER_TOKEN_BEDROCK to the gateway's key, which "
                "AWS SDKs send over HTTPS only (--tls-cert)",
                status=401,
            ) from None
        raise
    if key is LOCAL and (listen.unix is not None or is_loopback(listen.host)):
        _refuse_pages(http)
    return key


def _refuse_pages(http: ClientRequest) -> None:
    """Without keys a gateway serves the programs of this machine. Web pages can send requests to it, too, and would
    spend its owner's money: a browser marks them."""
    try:
        guard.refuse_foreign_host(http)
        guard.refuse_foreign_origin(http)
    except HttpProblem as problem:
        remedy = problem.remedy or "use the address that was printed"
        raise AuthFailed(f"{problem}; {remedy}, or make a key for it", status=403, code=problem.code) from None


def method_of(http: web.BaseRequest) -> str:
    """The method of a request, where HEAD is a GET whose response has no body (RFC 9110, 9.3.2)."""
    return "GET" if http.method == "HEAD" else http.method


def secret_of(http: ClientRequest) -> str | None:
    """Returns the client's key, from the header of its protocol. An AWS signature is not a key: it proves one that only
    AWS has."""
    given = http.headers.get("Authorization", "")
    scheme, _, token = given.partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    for name in _KEY_HEADERS:
        value = http.headers.get(name)
        if value:
            return value.strip()
    return http.query.get("key") or None


def _read_headers(http: ClientRequest, client_wire: Wire) -> tuple[str | None, dict[str, str], str | None]:
    """The key of a request, the headers that belong to it, and its session. Plain calls of a connection share them."""
    head = http.head if isinstance(http, PlainRequest) else None
    if head is not None and head.read is not None:
        return head.read  # type: ignore[no-any-return]
    headers = http.headers
    if head is None:
        _refuse_two_keys(headers)
    own = {name: ", ".join(values) for name in client_wire.http.request_headers if (values := headers.getall(name, ()))}
    session = next((value for name in _SESSION_HEADERS if (value := headers.get(name))), None)
    found = (secret_of(http), own, session)
    if head is not None:
        head.read = found
    return found


def _refuse_two_keys(headers: MultiMapping[str]) -> None:
    """Refuses a key or a session twice: a proxy before the gateway may have checked the other one. Lists may come in
    several headers (RFC 9110, 5.2)."""
    for name in ("Authorization", *_KEY_HEADERS, *_SESSION_HEADERS):
        if len(headers.getall(name, ())) > 1:
            raise BadRequest(f"the header {name} was sent twice; send it once", status=400)


async def read_body(http: ClientRequest, limits: ClientLimits) -> bytes:
    """Returns the body of a request, decompressed."""
    if (coding := http.headers.get("Content-Encoding", "").lower()) not in _READABLE_CODINGS:
        raise _unreadable_coding(coding)
    body = await _received(http, limits)
    if not is_compressed(coding):
        return body
    try:
        return await asyncio.to_thread(decompressed, body, coding, limits.body)
    except OverflowError:
        raise _too_large(limits) from None
    except TransportError as error:
        raise BadRequest(f"the body cannot be read: it is not {coding}: {error}", status=400) from None


async def _received(http: ClientRequest, limits: ClientLimits) -> bytes:
    """The body of a request, as it was sent."""
    if isinstance(http, web.BaseRequest) and (http.content_length or 0) > limits.body:
        raise _too_large(limits)
    try:
        if isinstance(http, web.BaseRequest) and http.content.is_eof():  # the body is already complete
            return await http.read()
        if isinstance(http, web.BaseRequest) and http.headers.get("Expect", "").lower() == "100-continue":
            # The client waits for it with its body (RFC 9110, 10.1.1); aiohttp sends it only for its own routes.
            await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            http.writer.output_size = 0  # the response has not begun
        async with asyncio.timeout(limits.body_timeout):
            return await http.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(limits) from None
    except TimeoutError:
        message = f"the body did not arrive within {limits.body_timeout:g} s; send it again, or less"
        raise BadRequest(message, status=408) from None
    except web.RequestPayloadError:
        raise BadRequest("the body cannot be read: its pieces do not fit together", status=400) from None


def _too_large(limits: ClientLimits) -> BadRequest:
    return BadRequest(f"the body is larger than {limits.body} bytes; send less", status=413, code="request_too_large")


def _unreadable_coding(coding: str) -> BadRequest:
    """The error for a body in a content coding that cannot be decoded (RFC 9110, 15.5.16)."""
    return BadRequest(
        f"bodies in {coding!r} cannot be read; send gzip, deflate, zstd, or no Content-Encoding", status=415
    )


async def read_request(
    http: ClientRequest, body: bytes, asked: GatewayOperation, exchange: Exchange, references: References
) -> Incoming:
    """Decodes the client's request; a large one in a thread, so that other streams are not blocked."""
    client_wire = exchange.wire
    tokens: int | None = None
    if len(body) <= LARGE_BODY:
        request = _decoded(asked, body)
    else:
        request, tokens = await asyncio.to_thread(_decoded_and_measured, asked, body)
    exchange.body = body
    exchange.asked_model = request.model.id
    if not request.model.id:
        raise BadRequest("the request names no model; set `model`", status=400)
    wanted = request.options.stream if asked.stream is None else asked.stream
    if wanted is None and request.extra:
        _refuse_odd_stream(request.extra.get(client_wire.base, {}))
    exchange.is_stream = client_wire.http.stream_default if wanted is None else wanted
    _, exchange.headers, session = _read_headers(http, client_wire)
    exchange.session = request.options.session_id or session
    as_array = exchange.is_stream and client_wire.http.json_streams and http.query.get("alt") != "sse"
    expanded = False
    if client_wire.http.stored_route is not None:
        exchange.extra["given"] = request.context.messages
        if request.extra:  # where a reference would be
            request, expanded = await references.with_history(exchange, request)
    if references.recall.shared is not None:
        await references.recall.fetch_answers(exchange.key.name, client_wire, request)
    if not request.context.messages and "prepares" not in exchange.extra:
        if client_wire.http.empty_loads and not request.context.system:
            exchange.extra["prepares"] = True
        else:
            refuse_empty(asked, request)
    decoded = request
    request, changed = references.recall.restore(exchange.key.name, client_wire, request)
    exchange.request = request
    resolved, owners = request, frozenset[str]()
    if client_wire.http.item_blocks is not None:
        ids = referred_ids(request.context.messages, client_wire.base)
        if ids:
            resolved, owners = await references.with_items(exchange, request, ids)
    return Incoming(
        wire=client_wire,
        request=request,
        resolved=resolved,
        item_owners=owners,
        body=None if changed or expanded else body,
        received=body,
        as_array=as_array,
        headers=exchange.headers,
        tokens=None if expanded or resolved is not decoded else tokens,
    )


def _refuse_odd_stream(residual: Mapping[str, Any]) -> None:
    """Refuses a `stream` that is no boolean: the client would get an answer of another form than it reads."""
    if residual.get("stream") is not None:
        raise BadRequest(f"$.stream: expected true or false, got {type(residual['stream']).__name__}", status=400)


def refuse_empty(asked: GatewayOperation, request: Request) -> None:
    """Refuses a request without messages, unless what its wire has in their place is sent: a system text among them, or
    a prompt that the provider stores. A model would be asked nothing, and adapting would invent a message.
    """
    facts, context = asked.wire.http, request.context
    if asked.kind == "rephrased" and facts.rephrased is not None:
        field = facts.rephrased.input_field
    else:
        field = facts.input_field
        is_among = asked.wire.limits.later_system and (field == "messages" or context.system_role is not None)
        if (context.system and is_among) or request.extra.get(asked.wire.base, {}).get("prompt"):
            return
    raise BadRequest(f"`{field}` is missing or empty; send at least one message in it", status=400)


def _decoded(asked: GatewayOperation, body: Any) -> Request:
    """The request of a client; what is wrong with it is the client's fault."""
    try:
        value = _read_json(body) if isinstance(body, bytes) else body
        request: Request = asked.wire.codec.decode_request(value, model=asked.model, stream=asked.stream)
    except (FormatError, DialectError) as error:
        raise BadRequest(str(error), status=400) from None
    return request


def _decoded_and_measured(asked: GatewayOperation, body: bytes) -> tuple[Request, int]:
    request = _decoded(asked, body)
    return request, taken(request.context)


def read_count(asked: GatewayOperation, body: bytes) -> Request:
    """The request whose tokens are to be counted."""
    assert asked.wire.http.count is not None
    refuse_other_encodings(body)
    try:
        return _decoded(asked, asked.wire.http.count.request(json_object(body)))
    except (KeyError, TypeError, AttributeError) as error:
        raise BadRequest(f"the body holds no request to count: {error!r}", status=400) from None


def rephrase(request: Callable[[Any], Any], body: bytes) -> bytes:
    return jsontext.write(request(json_object(body)))


def refuse_other_encodings(body: bytes) -> None:
    """Refuses a body that is not UTF-8 (RFC 8259, 8.1): a provider would read another text than the gateway."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise BadRequest(f"the body is not UTF-8: byte {error.start}; send JSON in UTF-8", status=400) from None


def _read_json(body: bytes) -> Any:
    """The value of a body. One with a key twice is refused: a provider may take the other value than the one that was
    checked here, also of limits and budgets."""
    value = jsontext.read(body)
    jsontext.refuse_duplicates(body, value)
    return value


def json_object(body: bytes | str, read: Callable[[bytes], Any] = _read_json) -> dict[str, Any]:
    """The JSON object of a body."""
    try:
        value = read(body.encode() if isinstance(body, str) else body)
    except FormatError as error:
        raise BadRequest(str(error), status=400) from None
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object", status=400)
    return value


async def aside(size: int, work: Callable[..., T], *given: Any) -> T:
    """The result of work that takes as long as its input is large; in a thread where it would hold up the others."""
    return work(*given) if size <= LARGE_BODY else await asyncio.to_thread(work, *given)
