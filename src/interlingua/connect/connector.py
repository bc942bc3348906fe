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
import string
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from .._version import __version__
from ..conversion.inputs import read_context
from ..dialects import Wire
from ..dialects.registry import wire
from ..values.canonical import build, check_context
from ..values.errors import (
    InterlinguaError,
)
from ..values.events import StreamEvent
from ..values.interop import struct_of
from ..values.jsontext import is_clean, read, write
from ..values.losses import Loss, without_records
from ..values.messages import AssistantMessage, ImageBlock
from ..values.request import Api, CallOptions, Context, ModelDescriptor, Request, ResolvedAuth, StreamOptions
from .auth.credentials import Secret
from .auth.resolver import AuthResolver, authenticate, convention, given_key, missing, resolved_by
from .providers import ModelRoute, Provider
from .stream import Prepared, Restore, Stream, StreamAttempt, now, quirks_of
from .transport import Transport, shared, whole, with_headers

if TYPE_CHECKING:
    from ..conversion.adapting.adapter import Adapted

_log = logging.getLogger(__name__)

USER_AGENT = f"interlingua/{__version__}"
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": USER_AGENT}
_MAX_COMPLETED = 64  # descriptions of models that a connector keeps


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

    def _route(self, model: ModelDescriptor) -> ModelRoute:
        """Returns the route of this model. One that specifies its wire is on no route of another wire."""
        route = self.row.route(model.id)
        return route if model.api in ("", route.api) else ModelRoute(pattern="", api=model.api)

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
            options=replace(wire_options, stream=True, extra={}),
            extra=wire_options.extra,
        )
        model = request.model
        base = AssistantMessage(content=(), api=model.api, provider=self.provider, model=model.id, timestamp=now())
        return Stream(self.exchange(request, call), base)

    def exchange(self, request: Request, options: CallOptions) -> StreamAttempt:
        """Returns one attempt that has not started. The request's model and its option `stream` are complete."""
        target = wire(request.model.api)
        if target.http.only_streams and not request.options.stream:  # some services of a wire
            request = replace(request, options=replace(request.options, stream=True))
        given: Any = options.api_key
        key = given.reveal() if isinstance(given, Secret) else given
        secrets = [key, *_header_keys(options.headers, request.model.headers)]
        return StreamAttempt(self.row, target, request, options, self.transport, self.prepare, secrets)

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
        headers = with_headers({"User-Agent": USER_AGENT, **self.row.headers}, model.headers, call.headers)
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
    ) -> Prepared:
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
        if key != secrets[0]:
            secrets.append(key)
        if target.http.unpack_key is not None and key is not None:
            key, body = target.http.unpack_key(key, body)
        # Before the headers: AWS signs the very bytes that are sent.
        data = write(body)
        given = {
            **self.row.headers,
            **(self.row.request_headers(request, key) if self.row.request_headers else {}),
        }
        headers = {**_HEADERS, **given}
        if model.headers or call.headers:
            given = with_headers(given, model.headers, call.headers)
            headers = with_headers(headers, model.headers, call.headers)
        if not _names_key(given):  # a key in the caller's headers takes precedence
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
        sent, losses = adapted
        restore = adapted.restore_block
        encoded = target.codec.encode_request(sent)
        body = {**self.row.body, **encoded.body}
        if target.http.complete_body is not None:
            body = target.http.complete_body(request, body)
        for warning in adapted.warnings:
            _log.warning("%s/%s: %s", self.provider, request.model.id, warning.why)
        return body, restore, _Joined(losses, adapted.warnings, encoded.losses)

    async def access(self, model: ModelDescriptor, call: CallOptions) -> "Endpoint":
        """Returns everything of a call that does not depend on its request, computed once for many calls."""
        env = os.environ if call.env is None else call.env
        target = wire(model.api)
        base = await self._base(model, call, env)
        auth = await self._authorise(call, env)
        key = auth.api_key if auth is not None else None
        style = self.row.auth or target.http.auth
        headers = with_headers({**_HEADERS, **self.row.headers}, model.headers, call.headers)
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

    async def _address(
        self, model: ModelDescriptor, route: ModelRoute, call: CallOptions, env: Mapping[str, str]
    ) -> str:
        template = route.base_url or self.row.base_url
        if not template:
            wanted = " or ".join(("base_url=…", *self.row.base_url_env))
            raise InterlinguaError(f"{self.row.label} has no default base URL; give {wanted}")
        names = {name for _, name, _, _ in string.Formatter().parse(template) if name}
        values = {name: await self._setting(name, model, call, env) for name in sorted(names)}
        # Vertex AI: the host of the location `global` has no location in its name.
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
    if style in ("bearer", "aws") or (auth is not None and auth.mode in ("oauth", "token")):
        return {"Authorization": f"Bearer {key}"}
    return {"x-goog-api-key" if style == "google" else style: key}


_KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


def _names_key(headers: Mapping[str, str]) -> bool:
    return not _KEY_HEADERS.isdisjoint(map(str.lower, headers))


def _header_keys(*given: Mapping[str, str] | None) -> list[str]:
    """Returns the keys that a caller put into headers."""
    named = [(str(name).lower(), value) for headers in given if headers for name, value in headers.items() if value]
    return [str(value).removeprefix("Bearer ") for name, value in named if name in _KEY_HEADERS]


def account_of(call: CallOptions) -> str:
    """Identifies the account of a call, without showing the key. Empty if the call has no key."""
    keys = [*([call.api_key] if call.api_key else []), *_header_keys(call.headers)]
    return f"{hash(tuple(keys)):x}" if keys else ""  # valid in this process only; no key can be derived from it


def _first(names: Sequence[str], env: Mapping[str, str]) -> str | None:
    return next((value for name in names if (value := env.get(name, "").strip())), None)


_LARGE = 200  # messages; a request of this size takes about a millisecond to encode


def is_quick(request: Request) -> bool:
    """Whether a request is adapted and encoded on the event loop: few messages, and no image to resize."""
    messages = request.context.messages
    if len(messages) >= _LARGE:
        return False
    for message in messages:
        content = getattr(message, "content", None)
        if type(content) is tuple and ImageBlock in map(type, content):
            return False
    return True


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

    def without_records(self) -> tuple[Loss, ...]:
        return tuple(itertools.chain.from_iterable(map(without_records, self._parts)))

    def __repr__(self) -> str:
        return repr(tuple(self))


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


@functools.lru_cache(maxsize=64)
def _checked_base(base: str) -> str:
    """Returns a valid base URL. The error for an invalid one quotes no part of it: it may hold a password."""
    try:
        parts = urlsplit(base)
        scheme, usable = parts.scheme, bool(parts.hostname) and parts.port != 0 and is_clean(base)
    except ValueError:
        scheme, usable = "http", False
    if scheme not in ("http", "https"):
        raise InterlinguaError(f"base URL with the scheme {scheme!r}; give one that begins with http:// or https://")
    if not usable:
        raise InterlinguaError("invalid base URL; give https://host or https://host/path")
    return base
