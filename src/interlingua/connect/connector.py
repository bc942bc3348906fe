"""A connector: adapt + encode + transport + decode, for one provider. It makes one attempt; `Client` retries.

The built-in ones are created from a row of `providers`; any object with these names is a connector too.
"""

import asyncio
import contextlib
import functools
import inspect
import itertools
import logging
import os
import re
import string
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable
from urllib.parse import urlsplit

import orjson
from msgspec import Struct
from msgspec.structs import replace

from .._version import __version__
from ..conversion.inputs import read_context
from ..dialects import Wire
from ..dialects.framing import actual_type
from ..dialects.provider_errors import failure_of
from ..dialects.registry import wire
from ..dialects.wire import Decoding
from ..values.canonical import build
from ..values.decompression import MAX_BODY
from ..values.errors import (
    Aborted,
    BadWire,
    DialectError,
    InterlinguaError,
    NoConnection,
    ProviderError,
    TransportError,
)
from ..values.events import Done, Error, StreamEvent
from ..values.folding import unfold
from ..values.interop import must_propagate, struct_of
from ..values.jsontext import read, write
from ..values.messages import AssistantMessage, Block, blocks_of
from ..values.request import Api, CallOptions, Context, ModelDescriptor, Request, ResolvedAuth, StreamOptions
from ..values.validation import check_context
from .auth.credentials import Secret, scrub
from .auth.resolver import AuthResolver, authenticate, convention, given_key, missing, resolved_by
from .providers import Provider, Route, has_image, is_login_token
from .stream import TERMINAL, Batch, Stream, Timeouts, Watch, contained, without_frames
from .transport import ERROR_BODY_LIMIT, Reply, Transport, shared, whole

if TYPE_CHECKING:
    from ..conversion.adapting.adapter import Adapted

_log = logging.getLogger(__name__)

USER_AGENT = f"interlingua/{__version__}"
LONGEST_MESSAGE = 4000
LARGEST_ANSWER = MAX_BODY  # of an unstreamed response, which may contain images
LARGE_ANSWER = 256 * 1024  # bytes from which a response is parsed in a thread
_MAX_VALUES = 2_000_000  # in a large response: `[],[],…` takes twenty times its size in memory
_LONGEST_PAGE = 16 * 1024
_MAX_COMPLETED = 64  # descriptions of models that a connector keeps
# Bytes that are decoded at a time: few at first, so that the first event does not wait for the rest of a burst.
_FIRST_PIECE, _LARGEST_PIECE = 2048, 16 * 1024


@runtime_checkable
class Connector(Protocol):
    """Streams from one provider."""

    @property
    def id(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def api(self) -> Api: ...
    @property
    def models(self) -> Sequence[ModelDescriptor]: ...
    @property
    def env_vars(self) -> Sequence[str]: ...
    def stream(
        self, model: ModelDescriptor, context: Context, options: StreamOptions | None = None, /
    ) -> AsyncIterable[StreamEvent]: ...


class HttpConnector:
    """The connector of a provider's row."""

    def __init__(
        self,
        row: Provider,
        *,
        transport: Transport | None = None,
        auth: AuthResolver | None = None,
        models: Sequence[ModelDescriptor] | None = None,
    ) -> None:
        self.row = row
        self.id = f"builtin/{row.id}"
        self.label = row.label
        self.provider = row.id
        self.api = row.api
        self.env_vars = row.env
        self._transport = transport
        self._auth = auth
        self._models = models
        self._completed: dict[str, tuple[ModelDescriptor, ModelDescriptor]] = {}  # by model id

    @property
    def models(self) -> Sequence[ModelDescriptor]:
        """The provider's models in the catalogue; others can be called as well."""
        if self._models is None:
            from .models import models

            self._models = [self.complete(model) for model in models(self.provider)]
        return self._models

    def complete(self, model: ModelDescriptor) -> ModelDescriptor:
        """Completes a model's descriptor with the facts of the row; its own take precedence.

        The result for the last description of an id is kept, so that what is derived from it can be kept, too.
        """
        given, known = self._completed.get(model.id, (None, None))
        if known is not None and given == model:
            return known
        route = self._route(model)
        found = replace(
            model,
            provider=model.provider or self.provider,
            api=model.api or route.api,
            compat={**self.row.compat, **route.compat, **(model.compat or {})} or None,
        )
        if not model.compat:  # a caller may change its dictionary
            if len(self._completed) >= _MAX_COMPLETED:
                self._completed.clear()
            self._completed[model.id] = model, found
        return found

    def _route(self, model: ModelDescriptor) -> Route:
        """Returns the route of this model. One that specifies its wire is on no route of another wire."""
        route = self.row.route(model.id)
        return route if model.api in ("", route.api) else Route(pattern="", api=model.api)

    def stream(
        self,
        model: ModelDescriptor | Mapping[str, Any],
        context: Context | Mapping[str, Any],
        options: StreamOptions | Mapping[str, Any] | None = None,
    ) -> Stream:
        """Makes one attempt. The arguments may be the JSON of the clawtools documents."""
        model, context, options = stream_arguments(model, context, options)
        wire_options, call = options.split()
        # Options of a single wire are merged into the body.
        request = Request(
            model=self.complete(model),
            context=context,
            options=replace(wire_options, extra={}),
            extra=wire_options.extra,
        )
        model = request.model
        base = AssistantMessage(content=(), api=model.api, provider=self.provider, model=model.id, timestamp=_now())
        return Stream(self.exchange(request, call), base)

    def exchange(self, request: Request, options: CallOptions, *, streamed: bool = True) -> "Exchange":
        """Returns one attempt that has not started. The request's model is complete; `streamed`: whether events are
        needed.
        """
        target = wire(request.model.api)
        # Some services of a wire only stream.
        request = replace(request, options=replace(request.options, stream=streamed or target.http.only_streams))
        return Exchange(self, target, request, options, self.transport)

    @property
    def transport(self) -> Transport:
        """The transport of requests."""
        return self._transport or shared()

    async def reported_cost(
        self, message: AssistantMessage, model: ModelDescriptor, call: CallOptions
    ) -> AssistantMessage:
        """Returns the response with the cost from the provider's own record, if the response has none."""
        usage, id = message.usage, message.response_id
        if usage is None or usage.cost is not None or id is None:
            return message
        from .models import openrouter_generation

        env = os.environ if call.env is None else call.env
        base = await self._base(model, call, env)
        headers = {"User-Agent": USER_AGENT, **self.row.headers, **(model.headers or {}), **(call.headers or {})}
        if not _names_key(headers):
            auth = await self._authorise(call, env)
            headers |= key_header("bearer", auth.api_key or "", auth) if auth else {}

        async def fetch(path: str) -> Any:
            reply = await self.transport.send("GET", base + path, headers, None)
            body = await whole(reply)
            if reply.status != 200:
                raise wire(self.api).codec.decode_error(reply.status, body, reply.headers)
            return read(body)

        cost = await openrouter_generation(fetch, id)
        return replace(message, usage=replace(usage, cost=cost)) if cost is not None else message

    async def prepare(
        self, target: Wire, request: Request, call: CallOptions, secrets: "list[str | None]", *, renew: bool = False
    ) -> "Prepared":
        """Builds the outgoing request. Slow work (many messages, images) runs off the event loop."""
        model = request.model
        env = os.environ if call.env is None else call.env
        auth = await self._authorise(call, env, rejected=secrets[-1] if renew else None)
        url = await self._base(model, call, env) + self._path(target, model, bool(request.options.stream))
        if is_quick(request):
            body, restore, losses = self.body(target, request, thinking=call.thinking)
        else:
            body, restore, losses = await asyncio.to_thread(self.body, target, request, thinking=call.thinking)
        if call.on_payload is not None:
            changed = call.on_payload(body, model)
            changed = await changed if inspect.isawaitable(changed) else changed
            body = body if changed is None else changed
        key = auth.api_key if auth is not None else None
        secrets.append(key)
        if target.http.unpack_key is not None and key is not None:
            key, body = target.http.unpack_key(key, body)
        data = write(body)
        headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": USER_AGENT,
            **self.row.headers,
            **(self.row.request_headers(request, key) if self.row.request_headers else {}),
            **(model.headers or {}),
            **(call.headers or {}),
        }
        if not _names_key(headers):  # a key in the caller's headers takes precedence
            style = self.row.auth or target.http.auth
            if key is not None:
                headers |= key_header(style, key, auth)
            elif style in ("aws", "google"):
                headers |= await _cloud_headers(style, model, call, url, headers, data)
        renewable = auth is not None and auth.mode == "oauth" and (auth.source or "").startswith("stored:")
        return Prepared(url=url, headers=headers, body=data, restore=restore, losses=losses, renewable=renewable)

    def body(
        self,
        target: Wire,
        request: Request,
        adapted: "Adapted | None" = None,
        *,
        thinking: Literal["drop", "text"] | None = None,
    ) -> "tuple[dict[str, Any], Restore | None, Any]":
        """Returns the body of a request, the function that restores the response's blocks, and the losses."""
        if adapted is None:
            from ..conversion.adapting.adapter import adapt  # not loaded for the debug models

            adapted = adapt(request, request.model, thinking=thinking or "drop", caching=True)
        encoded = target.codec.encode_request(adapted.request)
        body = {**self.row.body, **encoded.body}
        if target.http.complete_body is not None:
            body = target.http.complete_body(request, body)
        for warning in adapted.warnings:
            _log.warning("%s/%s: %s", self.provider, request.model.id, warning.why)
        return body, adapted.restore_block, _Joined(adapted.losses, adapted.warnings, encoded.losses)

    async def access(self, model: ModelDescriptor, call: CallOptions) -> "Endpoint":
        """Returns everything of a call that does not depend on its request, computed once for many calls."""
        env = os.environ if call.env is None else call.env
        target = wire(model.api)
        base = await self._base(model, call, env)
        auth = await self._authorise(call, env)
        key = auth.api_key if auth is not None else None
        style = self.row.auth or target.http.auth
        headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": USER_AGENT,
            **self.row.headers,
            **(model.headers or {}),
            **(call.headers or {}),
        }
        sign = None
        if not _names_key(headers):
            if key is not None and target.http.unpack_key is None:
                headers |= key_header(style, key, auth)
            elif key is None and style in ("aws", "google"):
                sign = functools.partial(_cloud_headers, style, model, call)
        return Endpoint(
            base=base,
            urls=(base + self._path(target, model, False), base + self._path(target, model, True)),
            headers=headers,
            key=key,
            sign=sign,
            renewable=(auth is not None and auth.mode == "oauth") or target.http.unpack_key is not None,
        )

    async def url(self, model: ModelDescriptor, call: CallOptions, *, stream: bool = True) -> str:
        """Returns the URL of requests for a model."""
        base = await self._base(model, call, os.environ if call.env is None else call.env)
        return base + self._path(wire(model.api), model, stream)

    def _path(self, target: Wire, model: ModelDescriptor, stream: bool) -> str:
        own_path = (model.compat or {}).get("path")
        quirks = {"quirks": quirks_of(target, model)} if own_path else {}
        return str(target.codec.path(model.id, stream, **quirks))

    def address(self, model: ModelDescriptor, call: CallOptions | StreamOptions) -> str:
        """Returns what identifies the place that serves a model. Not a request URL: clouds fill in more."""
        env = os.environ if call.env is None else call.env
        given = call.base_url or model.base_url or _first(self.row.base_url_env, env)
        if given:
            return given.rstrip("/")
        provided = call.settings or {}
        blanks = {name: provided.get(name) or _first(setting.env, env) for name, setting in self.row.settings.items()}
        return f"{self._route(model).base_url or self.row.base_url} {blanks or ''}".rstrip()

    async def _base(self, model: ModelDescriptor, call: CallOptions, env: Mapping[str, str]) -> str:
        base = (
            call.base_url
            or model.base_url
            or _first(self.row.base_url_env, env)
            or await self._address(model, self._route(model), call, env)
        )
        if "://" not in base:
            base = f"http://{base}"
        return _checked_base(base).rstrip("/")

    async def _address(self, model: ModelDescriptor, route: Route, call: CallOptions, env: Mapping[str, str]) -> str:
        template = route.base_url or self.row.base_url
        if not template:
            wanted = " or ".join(("base_url=…", *self.row.base_url_env))
            raise InterlinguaError(f"{self.row.label} has no default base URL; give {wanted}")
        names = {name for _, name, _, _ in string.Formatter().parse(template) if name}
        values = {name: await self._setting(name, model, call, env) for name in sorted(names)}
        return template.format(**values).replace("https://global-aiplatform", "https://aiplatform")

    def setting(self, name: str, call: CallOptions) -> str | None:
        """Returns a setting of the row: from the call, else the environment, else its default."""
        env = os.environ if call.env is None else call.env
        known = self.row.settings[name]
        return (call.settings or {}).get(name) or _first(known.env, env) or known.default

    async def _setting(self, name: str, model: ModelDescriptor, call: CallOptions, env: Mapping[str, str]) -> str:
        """A part of the address: given, else of the environment; clouds know more places to look."""
        setting = self.row.settings[name]
        given = (call.settings or {}).get(name)
        value = self.setting(name, call)
        if name == "region":
            from .auth.cloud import aws_region

            return await asyncio.to_thread(aws_region, given, model.id, env=env, default=setting.default)
        if name == "project" and value is None:
            from .auth.cloud import google_project

            with contextlib.suppress(InterlinguaError):  # no credentials, so no project of theirs
                return await google_project(given, env=env)
        if value is None:
            raise InterlinguaError(
                f"{self.row.label} needs a {name}: give settings={{'{name}': …}} or set {' or '.join(setting.env)}"
            )
        return value

    async def _authorise(
        self, call: CallOptions, env: Mapping[str, str], rejected: str | None = None
    ) -> ResolvedAuth | None:
        variables = (*self.row.env, convention(self.provider))
        if self._auth is not None:
            found = await resolved_by(self._auth, self.provider, self.row.env, call.api_key)
        else:
            found = given_key(variables, call.api_key, env)  # no file is read for these
            if found is None:
                found = await authenticate(self.provider, variables, env=env, rejected=rejected)
        if found is not None or self.row.keyless or self.row.auth_style(self.api) in ("aws", "google", "none"):
            return found
        raise missing(self.provider, variables, env=env)


async def _cloud_headers(
    style: str, model: ModelDescriptor, call: CallOptions, url: str, headers: Mapping[str, str], data: bytes
) -> Mapping[str, str]:
    """Returns the authorization headers that are not a key: an AWS signature, a Google token."""
    from .auth.cloud import aws_headers, google_headers

    if style == "google":
        return await google_headers()
    settings = call.settings or {}
    return await aws_headers(
        "POST", url, headers, data, model=model.id, region=settings.get("region"), profile=settings.get("profile")
    )


def stream_arguments(model: Any, context: Any, options: Any = None) -> tuple[ModelDescriptor, Context, StreamOptions]:
    """Normalizes the arguments of `stream`."""
    context = read_context(context)
    check_context(context)
    return (
        model if isinstance(model, ModelDescriptor) else build(dict(model), ModelDescriptor, "model"),
        context,
        StreamOptions() if options is None else struct_of(options, StreamOptions, "options"),
    )


def key_header(style: str, key: str, auth: ResolvedAuth | None = None) -> dict[str, str]:
    """Returns the headers of a key: in the wire's auth style, but login tokens always as bearer tokens."""
    token = auth is not None and auth.mode in ("oauth", "token")
    if style in ("bearer", "aws") or token or is_login_token(key):
        return {"Authorization": f"Bearer {key}"}
    return {"x-goog-api-key" if style == "google" else style: key}


_KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


def _names_key(headers: Mapping[str, str]) -> bool:
    return not _KEY_HEADERS.isdisjoint(map(str.lower, headers))


def _header_keys(*given: Mapping[str, str] | None) -> list[str]:
    """Returns the keys that a caller put into headers."""
    named = [(name.lower(), value) for headers in given if headers for name, value in headers.items() if value]
    return [value.removeprefix("Bearer ") for name, value in named if name in _KEY_HEADERS]


def account_of(call: CallOptions) -> str:
    """Identifies the account of a call, without showing the key. Empty if the call has no key."""
    keys = [*([call.api_key] if call.api_key else []), *_header_keys(call.headers)]
    return f"{hash(tuple(keys)):x}" if keys else ""  # valid in this process only; no key can be derived from it


def _first(names: Sequence[str], env: Mapping[str, str]) -> str | None:
    return next((value for name in names if (value := env.get(name, "").strip())), None)


def quirks_of(target: Wire, model: ModelDescriptor) -> dict[str, Any] | None:
    """Returns the quirks of the variant and of the model's host for the codec."""
    own = getattr(target.codec, "quirks", {})
    return {"api": model.api, **own, **(model.compat or {})} if own or model.compat else None


def _now() -> int:
    return int(time.time() * 1000)


def unique_id(number: int) -> str:
    """Returns a unique id for a call without one: responses of several turns share a conversation."""
    return f"call_{uuid.uuid4().hex}"


_LARGE = 200  # messages; a request of this size takes about a millisecond to encode


def is_quick(request: Request) -> bool:
    """Whether a request is adapted and encoded on the event loop: few messages, and no image to resize."""
    messages = request.context.messages
    return len(messages) < _LARGE and not any(map(has_image, messages))


class _Joined(Sequence[Any]):
    """Losses of adapting, then of encoding, computed on access."""

    def __init__(self, *parts: Sequence[Any]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._parts)

    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at]

    def __repr__(self) -> str:
        return repr(tuple(self))


# --- one attempt ------------------------------------------------------------------------------------------------------


Restore: TypeAlias = Callable[[Block], Block]


class Prepared(Struct, frozen=True, kw_only=True):
    """An outgoing request, and what the response's decoder must know of it."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    restore: Restore | None = None  # restores the conversation's form of a block of the response
    losses: Any = ()
    renewable: bool = False  # the key is a login's token: if it is refused, there may be a newer one

    def __repr__(self) -> str:
        return f"Prepared(body of {len(self.body)} bytes)"  # the headers hold the key


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where and how a model is called: the URLs for unstreamed and streamed responses, headers, and a function that
    signs a request (url, headers, body) instead of a key. `renewable`: the key may change.
    """

    base: str
    urls: tuple[str, str]
    headers: Mapping[str, str]
    key: str | None = None
    sign: Callable[[str, Mapping[str, str], bytes], Awaitable[Mapping[str, str]]] | None = None
    renewable: bool = False

    def __repr__(self) -> str:
        return f"Endpoint({self.base})"  # the headers hold the key


class Exchange:
    """One attempt: request out, batches of events in.

    The output is always one well-formed stream; `failure` is the typed error afterwards.
    """

    def __init__(
        self, connector: HttpConnector, target: Wire, request: Request, options: CallOptions, transport: Transport
    ) -> None:
        self._connector = connector
        self._wire = target
        self._request = request
        self._options = options
        self._transport = transport
        given: Any = options.api_key
        key = given.reveal() if isinstance(given, Secret) else given
        # And the key that is found elsewhere, when it is.
        self._secrets: list[str | None] = [key, *_header_keys(options.headers, request.model.headers)]
        self._restore: Restore | None = None
        self._timestamp = _now()
        self._decoding: Decoding | None = None
        self._reply: Reply | None = None
        self._is_cleaned = True  # the decoder takes secrets out of its messages
        self._head = b""  # of the body: what was read to see what it is
        self._watch: Watch | None = None
        self.is_ready = False
        self.failure: InterlinguaError | None = None
        self.losses: Any = ()

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yields the events, in batches as they arrive, but small ones at first."""
        watch = self._watch = Watch(self._options.signal, Timeouts.of(self._options.timeout))
        size = _FIRST_PIECE
        try:
            reply = await self._begin(watch)
            frames = await self._framing(reply, watch)
            if frames is None:
                answer = await self._whole_answer(watch)
                await self._settle(reply)
                yield self._last(answer)
                return
            decoder = self._decoder
            while chunk := self._head or await self._chunk(watch):
                self._head, at = b"", 0
                while at < len(chunk):
                    events: Batch = []
                    end = at + size
                    border = chunk.find(b"\n\n", end - 2, end + size)
                    if border >= 0:  # the end of an event: a framing takes whole ones faster than parts
                        end = border + 2
                    for frame in frames.feed(chunk[at:end]):
                        events += decoder.feed(frame)
                    at, size = end, min(2 * size, _LARGEST_PIECE)
                    self.is_ready = at < len(chunk)
                    if not events:
                        continue
                    if isinstance(events[-1], TERMINAL):
                        await self._settle(reply)
                        yield self._last(events)
                        return
                    watch.pause()
                    yield events
                    watch.resume()
            events = [event for frame in frames.close() for event in decoder.feed(frame)]
            ended = bool(events) and isinstance(events[-1], TERMINAL)
            yield self._last(events if ended else events + decoder.close())
        except InterlinguaError as failure:
            yield self._failed(failure)
        except BaseException as error:  # of a foreign callback, transport or auth resolver
            if must_propagate(error):
                raise
            yield self._failed(contained(error))
        finally:
            watch.finish()
            self.close()

    def close(self) -> None:
        """Closes the connection at once. Pending reads fail."""
        if self._reply is not None:
            self._reply.close()

    def cut(self, why: str) -> Batch:
        """Returns the terminal event for a caller that leaves now; nothing if the stream has ended."""
        if self._watch is not None:
            self._watch.end(Aborted(why))
        self.close()
        return self._decoder.close(why, aborted=True)

    @property
    def _decoder(self) -> Decoding:
        if self._decoding is None:
            model = self._request.model
            self._decoding = self._wire.codec.StreamDecoder(
                model=model.id,
                provider=self._connector.provider,
                timestamp=self._timestamp,
                mint=unique_id,
                quirks=quirks_of(self._wire, model),
            )
            self._decoding.restoring(self._restore)
            scrubbing = getattr(self._decoding, "scrubbing", None)
            if scrubbing is not None:
                scrubbing(functools.partial(_cleaned, self._secrets))  # not a method: that would be a cycle
            self._is_cleaned = scrubbing is not None  # a wire of a plugin may have none
        return self._decoding

    async def _begin(self, watch: Watch) -> Reply:
        """Sends the request. A login's token that is refused is renewed once."""
        prepared, reply = await watch.during(self._send(watch))
        if reply.status == 401 and prepared.renewable:
            reply.close()
            _, reply = await watch.during(self._send(watch, renew=True))
        watch.reading(reply.close)
        return reply

    async def _send(self, watch: Watch, *, renew: bool = False) -> tuple[Prepared, Reply]:
        connector, options = self._connector, self._options
        prepared = await connector.prepare(self._wire, self._request, options, self._secrets, renew=renew)
        self.losses = prepared.losses
        self._restore = prepared.restore
        if watch.why is not None:  # aborted by a callback: nothing is sent
            raise watch.why
        try:
            reply = await self._transport.send("POST", prepared.url, prepared.headers, prepared.body)
        except TransportError as error:
            raise unreachable(error, connector.row, prepared.url) from error.__cause__
        self._reply = reply
        if options.on_response is not None:
            options.on_response(reply.status, reply.headers)
        return prepared, reply

    async def _framing(self, reply: Reply, watch: Watch) -> Any:
        """Returns the framing of the body; None for an unstreamed response, which some proxies send for any request."""
        codec = self._wire.codec
        kind = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if reply.status != 200:
            body = await self._whole(watch)
            raise codec.decode_error(reply.status, page_text(body) if kind == "text/html" else body, reply.headers)
        declared, found = kind, None
        while found is None and (chunk := await self._chunk(watch)):
            self._head = (self._head + chunk).lstrip()  # padding before the first byte means nothing
            found = actual_type(self._head, declared)
        kind = found or declared
        if kind == "text/html":
            page = (await self._whole(watch))[:200].decode(errors="replace")
            raise BadWire(codec.API, f"got a web page instead of an answer; check the base URL: {page!r}")
        framing = codec.framing(kind)
        if kind == "application/json" and (not self._request.options.stream or framing.name == "sse"):
            return None
        return framing

    async def _whole_answer(self, watch: Watch) -> Batch:
        """Returns the events of an unstreamed response; only the last one if the others are not needed."""
        body = await self._whole(watch, LARGEST_ANSWER + 1)
        if len(body) <= LARGE_ANSWER:
            return self._decoded(body)
        check_size(body, self._wire.codec.API)
        return await watch.during(asyncio.to_thread(self._decoded, body))

    def _decoded(self, body: bytes) -> Batch:
        codec, model = self._wire.codec, self._request.model
        fields = {"model": model.id, "provider": self._connector.provider, "timestamp": self._timestamp}
        more = {"mint": unique_id, "quirks": quirks_of(self._wire, model)}
        takes = parameters_of(getattr(codec.decode_response, "func", codec.decode_response))
        fields |= {name: value for name, value in more.items() if value is not None and name in takes}
        answer = codec.decode_response(body, **fields)
        if self._restore is not None:
            answer = replace(answer, content=tuple(map(self._restore, blocks_of(answer.content))))
        answer = _cleaned(self._secrets, answer)
        if answer.stop_reason == "error" and (given := error_in(body)) is not None:
            self._decoder.failure = codec.decode_error(0, {"error": given})
        events = list(unfold(answer))
        return events if self._request.options.stream else events[-1:]

    async def _whole(self, watch: Watch, limit: int = ERROR_BODY_LIMIT) -> bytes:
        assert self._reply is not None
        head, self._head = self._head, b""
        try:
            return head + await whole(self._reply, limit - len(head))
        except InterlinguaError as error:
            raise watch.why or error from None

    async def _chunk(self, watch: Watch) -> bytes:
        assert self._reply is not None
        try:
            chunk = await self._reply.chunk()
        except InterlinguaError as error:
            raise watch.why or error from None
        if watch.why is not None:  # what had arrived before it does not count any more
            raise watch.why
        return chunk

    async def _settle(self, reply: Reply) -> None:
        """Reads the rest of a body that is almost complete, so that the connection can be reused."""
        if getattr(reply, "ended", False):
            self._reply = None  # the connection is already free for others
            return
        try:
            async with asyncio.timeout(0.05):
                while await reply.chunk():
                    pass
        except (TimeoutError, InterlinguaError):
            reply.close()

    def _last(self, events: Batch) -> Batch:
        last = events[-1] if events else None
        if isinstance(last, Done):
            if not self._is_cleaned:
                events[-1] = Done(last.reason, _cleaned(self._secrets, last.message))
        elif isinstance(last, Error):
            events[-1] = last = Error(last.reason, _without_secrets(self._secrets, last.error))
            self.failure = self._scrubbed(self._decoder.failure or failure_of(last.error))
        return events

    def _failed(self, failure: InterlinguaError) -> Batch:
        self.failure = self._scrubbed(failure)
        events = self._decoder.close(str(failure), aborted=isinstance(failure, Aborted))
        if events and isinstance(last := events[-1], Error):
            events[-1] = Error(last.reason, _without_secrets(self._secrets, last.error))
        return events

    def _scrubbed(self, failure: InterlinguaError) -> InterlinguaError:
        return without_frames(scrubbed(failure, functools.partial(scrub, secrets=self._secrets)))


def _cleaned(secrets: Sequence[str | None], message: AssistantMessage) -> AssistantMessage:
    """Returns the message without secrets. Most have none, which a search of a few short fields shows."""
    about = f"{message.stop_detail} {message.response_id} {message.response_model}"
    if len(about) > _LONGEST_ABOUT:
        return _without_secrets(secrets, message)
    usage = message.usage.extra if message.usage is not None else None
    if message.extra or usage:
        try:
            about += orjson.dumps([message.extra, usage]).decode()
        except TypeError:  # huge integers, half surrogates, what a plugin's codec keeps
            about += f"{message.extra}{usage}"
    for key in secrets:
        if key and (key in about or '"' in key or "\\" in key):  # those are escaped
            return _without_secrets(secrets, message)
    return message


def _without_secrets(secrets: Sequence[str | None], message: AssistantMessage) -> AssistantMessage:
    """Returns the message without secrets in its metadata; its content comes from the model and is not changed."""
    clean = functools.partial(scrub, secrets=secrets)
    fields = ("error_message", "stop_detail", "response_id", "response_model")
    changed: dict[str, Any] = {name: clean(text) for name in fields if isinstance(text := getattr(message, name), str)}
    if message.usage is not None and message.usage.extra:
        changed["usage"] = replace(message.usage, extra=_scrubbed_value(message.usage.extra, clean))
    return replace(message, **changed, extra=_scrubbed_value(message.extra, clean))


def check_size(body: bytes, api: str, *, largest: int = LARGEST_ANSWER, values: int = _MAX_VALUES) -> None:
    """Refuses a response that would take gigabytes of memory, before it is parsed."""
    if len(body) > largest or body.count(b",") + body.count(b"[") > values:
        raise BadWire(
            api, f"the answer has more than {largest >> 20} MB or {values:,} values; ask for less, or a stream"
        )


def unreachable(error: TransportError, row: Provider, url: str) -> TransportError:
    """Returns the error for an unreachable server; for a local one, it suggests starting it."""
    if not row.keyless or not isinstance(error, NoConnection):
        return error
    address = urlsplit(url)
    return TransportError(f"no connection to {row.label} at {address.scheme}://{address.netloc}; is it running?")


@functools.lru_cache(maxsize=64)
def parameters_of(function: Any) -> frozenset[str]:
    """The names of a function's parameters."""
    return frozenset(inspect.signature(function).parameters)


def page_text(page: bytes) -> bytes:
    """Returns the text of an HTML page, in one line."""
    return b" ".join(re.sub(rb"(?is)<(script|style)\b.*?</\1>|<[^>]*>", b" ", page[:_LONGEST_PAGE]).split())


def error_in(body: bytes) -> Any:
    """Returns the error inside an unstreamed response: OpenAI's `error`, or OpenRouter's inside a choice."""
    wire = read(body)
    if not isinstance(wire, dict):
        return None
    choices = wire.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return wire.get("error") or (first.get("error") if isinstance(first, dict) else None)


@functools.lru_cache(maxsize=64)
def _checked_base(base: str) -> str:
    """Returns a valid base URL. The error for an invalid one quotes no part of it: it may hold a password."""
    try:
        parts = urlsplit(base)
        scheme, usable = parts.scheme, bool(parts.hostname) and parts.port != 0
    except ValueError:
        scheme, usable = "http", False
    if scheme not in ("http", "https"):
        raise InterlinguaError(f"base URL with the scheme {scheme!r}; give one that begins with http:// or https://")
    if not usable:
        raise InterlinguaError("invalid base URL; give https://host or https://host/path")
    return base


_LONGEST_CODE = 200
_LONGEST_ABOUT = 400  # characters of stop detail, response id and model; longer ones are searched for secrets


def scrubbed(failure: InterlinguaError, scrub: Callable[[str], str]) -> InterlinguaError:
    """Returns the same error, without secrets in its message and body, and truncated."""
    text = scrub(str(failure))
    if len(text) > LONGEST_MESSAGE:
        text = f"{text[:LONGEST_MESSAGE]}… ({len(text)} characters)"
    if text != str(failure):
        failure.args = (text,)
        if isinstance(failure, ProviderError | DialectError):
            failure.message = text
    if isinstance(failure, ProviderError):
        failure.code = failure.code and scrub(failure.code)[:_LONGEST_CODE]
        failure.body = _scrubbed_value(failure.body, scrub)
    return failure


def _scrubbed_value(value: Any, scrub: Callable[[str], str], name: str = "") -> Any:
    """Returns a JSON value without secrets. A string is searched with its key before it, which may mark it as one."""
    if isinstance(value, dict):
        return {scrub(str(key)): _scrubbed_value(item, scrub, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed_value(item, scrub, name) for item in value]
    if not isinstance(value, str):
        return value
    head = f"{name}="
    text = scrub(head + value)
    return text.removeprefix(head) if text.startswith(head) else scrub(value)
