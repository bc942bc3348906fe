"""A connector: adapt + encode + transport + decode, for one provider. It tries once; `Client` tries again.

The built-in ones are made from a row of `providers`; any object with these names is a connector too.
"""

import asyncio
import contextlib
import functools
import hashlib
import inspect
import logging
import os
import string
import time
import uuid
from collections.abc import AsyncIterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import replace

from .. import __version__
from ..conversion.adapting.adapter import adapt
from ..dialects import Dialect, dialect
from ..dialects.files.clawtools import read_context
from ..values.canonical import build
from ..values.errors import FormatError, InterlinguaError
from ..values.events import StreamEvent
from ..values.interop import struct_of
from ..values.jsontext import read, write
from ..values.messages import AssistantMessage
from ..values.request import Api, CallOptions, Context, ModelDescriptor, Options, Request, ResolvedAuth, StreamOptions
from .auth.credentials import scrub
from .auth.resolver import AuthResolver, authenticate, convention, missing, resolve_auth, resolved_by
from .exchange import Call, Exchange
from .providers import Provider, Route, has_image, is_login_token
from .stream import Stream
from .timeouts import Timeouts
from .transport import Transport, shared, whole

_log = logging.getLogger(__name__)

USER_AGENT = f"interlingua/{__version__}"


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

    @property
    def models(self) -> Sequence[ModelDescriptor]:
        """What the catalogue knows of this provider's models; others can be called as well."""
        if self._models is None:
            from .models import models

            self._models = [self.complete(model) for model in models(self.provider)]
        return self._models

    def complete(self, model: ModelDescriptor) -> ModelDescriptor:
        """The model's description with what the row knows filled in; what it says itself counts."""
        route = self.row.route(model.id)
        return replace(
            model,
            provider=model.provider or self.provider,
            api=model.api or route.api,
            compat={**self.row.compat, **route.compat, **(model.compat or {})} or None,
        )

    def stream(
        self,
        model: ModelDescriptor | Mapping[str, Any],
        context: Context | Mapping[str, Any],
        options: StreamOptions | Mapping[str, Any] | None = None,
    ) -> Stream:
        """One attempt at an answer. What is given may be the JSON that the clawtools documents show."""
        model, context, options = stream_arguments(model, context, options)
        wire_options, call = options.split()
        # What only one wire can say is part of the body, beside what the options say.
        request = Request(
            model=self.complete(model),
            context=context,
            options=replace(wire_options, extra={}),
            extra=wire_options.extra,
        )
        return Stream(self.exchange(request, call), self.blank(request.model))

    def blank(self, model: ModelDescriptor) -> AssistantMessage:
        """An answer of which nothing is known yet."""
        return AssistantMessage(
            content=(), api=model.api, provider=self.provider, model=model.id, timestamp=int(time.time() * 1000)
        )

    def exchange(self, request: Request, call: CallOptions, transport: Transport | None = None) -> Exchange:
        """One attempt, not yet begun. The request's model is complete."""
        model = request.model
        wire = dialect(model.api)
        base = self.blank(model)
        secrets = [call.api_key]  # and the key that is found elsewhere, when it is
        decoder = wire.StreamDecoder(
            model=model.id,
            provider=self.provider,
            timestamp=base.timestamp,
            mint=lambda: f"call_{uuid.uuid4().hex}",
            quirks=_quirks(wire, model),
        )
        return Exchange(
            wire,
            decoder,
            base,
            functools.partial(self._prepare, request, call, secrets),
            transport or self._transport or shared(),
            timeouts=Timeouts.of(call.timeout),
            signal=call.signal,
            on_response=call.on_response,
            scrub=functools.partial(scrub, secrets=secrets),
        )

    async def reported_cost(
        self, message: AssistantMessage, model: ModelDescriptor, options: StreamOptions
    ) -> AssistantMessage:
        """The answer with the cost that the provider's own record tells, where the answer itself does not."""
        usage, id = message.usage, message.response_id
        if usage is None or usage.cost is not None or id is None:
            return message
        from .models import openrouter_generation

        _, call = options.split()
        env = os.environ if call.env is None else call.env
        base = await self._base(model, call, env)
        headers = {"User-Agent": USER_AGENT, **self.row.headers, **(model.headers or {}), **(call.headers or {})}
        if not _names_key(headers):
            auth = await self._authorise(call, env)
            headers |= key_header("bearer", auth.api_key or "", auth) if auth else {}

        async def fetch(path: str) -> Any:
            reply = await (self._transport or shared()).send("GET", base + path, headers, None)
            body = await whole(reply)
            if reply.status != 200:
                raise dialect(self.api).decode_error(reply.status, body, reply.headers)
            return read(body)

        cost = await openrouter_generation(fetch, id)
        return replace(message, usage=replace(usage, cost=cost)) if cost is not None else message

    async def _prepare(
        self, request: Request, call: CallOptions, secrets: "list[str | None]", *, renew: bool = False
    ) -> Call:
        """The call as it goes out. What may take long (many messages, pictures) is worked on beside the event loop."""
        model = request.model
        wire = dialect(model.api)
        env = os.environ if call.env is None else call.env
        auth = await self._authorise(call, env, rejected=secrets[-1] if renew else None)
        url = await self._url(wire, model, call, env)
        body, names, losses = await _beside_the_loop(request, functools.partial(self._body, wire, request))
        if call.on_payload is not None:
            changed = call.on_payload(body, model)
            changed = await changed if inspect.isawaitable(changed) else changed
            body = body if changed is None else changed
        key = auth.api_key if auth is not None else None
        secrets.append(key)
        if model.api == "google-gemini-cli" and key is not None:
            key, body = _unpacked(key, body)
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
        headers |= await self._signed(model, call, env, auth, key, url, headers, data)
        renewable = auth is not None and auth.mode == "oauth" and (auth.source or "").startswith("stored:")
        return Call(url=url, headers=headers, body=data, names=names, losses=losses, renewable=renewable)

    def _body(self, wire: Dialect, request: Request) -> tuple[dict[str, Any], Mapping[str, str], Any]:
        request = replace(request, options=replace(request.options, stream=True))
        adapted = adapt(request, request.model, caching=True)
        encoded = wire.encode_request(adapted.request)
        body = {**self.row.body, **encoded.body}
        if _keeps_reasoning_sealed(request):
            body.setdefault("include", ["reasoning.encrypted_content"])
        for warning in adapted.warnings:
            _log.warning("%s/%s: %s", self.provider, request.model.id, warning.why)
        return body, adapted.names, _Joined(adapted.losses, adapted.warnings, encoded.losses)

    async def _url(self, wire: Dialect, model: ModelDescriptor, call: CallOptions, env: Mapping[str, str]) -> str:
        own_path = (model.compat or {}).get("path")
        quirks = {"quirks": _quirks(wire, model)} if own_path else {}
        return await self._base(model, call, env) + wire.path(model.id, True, **quirks)

    def address(self, model: ModelDescriptor, call: CallOptions | StreamOptions) -> str:
        """What tells one place that serves a model from another. No request goes there: clouds fill in more."""
        env = os.environ if call.env is None else call.env
        given = call.base_url or model.base_url or _first(self.row.base_url_env, env)
        if given:
            return given.rstrip("/")
        provided = call.settings or {}
        blanks = {name: provided.get(name) or _first(setting.env, env) for name, setting in self.row.settings.items()}
        return f"{self.row.route(model.id).base_url or self.row.base_url} {blanks or ''}".rstrip()

    async def _base(self, model: ModelDescriptor, call: CallOptions, env: Mapping[str, str]) -> str:
        route = self.row.route(model.id)
        base = (
            call.base_url
            or model.base_url
            or _first(self.row.base_url_env, env)
            or await self._address(model, route, call, env)
        )
        if "://" not in base:
            base = f"http://{base}"
        return base.rstrip("/")

    async def _address(self, model: ModelDescriptor, route: Route, call: CallOptions, env: Mapping[str, str]) -> str:
        template = route.base_url or self.row.base_url
        if not template:
            wanted = " or ".join(("base_url=…", *self.row.base_url_env))
            raise InterlinguaError(f"{self.row.label} has no address of its own: give {wanted}")
        names = {name for _, name, _, _ in string.Formatter().parse(template) if name}
        values = {name: await self._setting(name, model, call, env) for name in sorted(names)}
        return template.format(**values).replace("https://global-aiplatform", "https://aiplatform")

    async def _setting(self, name: str, model: ModelDescriptor, call: CallOptions, env: Mapping[str, str]) -> str:
        """A part of the address: given, else of the environment; clouds know more places to look."""
        setting = self.row.settings[name]
        given = (call.settings or {}).get(name)
        value = given or _first(setting.env, env) or setting.default
        if name == "region":
            from .auth.cloud import aws_region

            return await asyncio.to_thread(aws_region, given, model.id, env=env)
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
        elif call.api_key or _first(variables, env):
            found = resolve_auth(self.provider, variables, call.api_key, env=env)  # no file is read for these
        else:
            found = await authenticate(self.provider, variables, env=env, rejected=rejected)
        if found is not None or self.row.keyless or self.row.auth_style(self.api) in ("aws", "google", "none"):
            return found
        raise missing(self.provider, variables, env=env)

    async def _signed(
        self,
        model: ModelDescriptor,
        call: CallOptions,
        env: Mapping[str, str],
        auth: ResolvedAuth | None,
        key: str | None,
        url: str,
        headers: Mapping[str, str],
        data: bytes,
    ) -> Mapping[str, str]:
        """The headers that prove who calls. A key the caller put into the headers is left alone."""
        style = self.row.auth_style(model.api)
        if _names_key(headers):
            return {}
        if key is not None:
            return key_header(style, key, auth)
        if style == "aws":
            from .auth.cloud import aws_headers

            region = (call.settings or {}).get("region")
            profile = (call.settings or {}).get("profile")
            return await aws_headers("POST", url, headers, data, model=model.id, region=region, profile=profile)
        if style == "google":
            from .auth.cloud import google_headers

            return await google_headers()
        return {}


def stream_arguments(model: Any, context: Any, options: Any = None) -> tuple[ModelDescriptor, Context, StreamOptions]:
    """What `stream` is given, as values of ours."""
    return (
        model if isinstance(model, ModelDescriptor) else build(dict(model), ModelDescriptor, "model"),
        read_context(context),
        StreamOptions() if options is None else struct_of(options, StreamOptions, "options"),
    )


def key_header(style: str, key: str, auth: ResolvedAuth | None = None) -> dict[str, str]:
    """How a key is said: as the style wants it, but tokens of a login always as bearer tokens."""
    token = auth is not None and auth.mode in ("oauth", "token")
    if style in ("bearer", "aws") or token or is_login_token(key):
        return {"Authorization": f"Bearer {key}"}
    return {"x-goog-api-key" if style == "google" else style: key}


_KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


def _names_key(headers: Mapping[str, str]) -> bool:
    return not _KEY_HEADERS.isdisjoint(name.lower() for name in headers)


def account_of(call: CallOptions | StreamOptions) -> str:
    """What tells whose account a call uses, without showing the key. Empty where the call does not say."""
    named = [value for name, value in (call.headers or {}).items() if name.lower() in _KEY_HEADERS]
    keys = [key for key in (call.api_key, *named) if key]
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16] if keys else ""


def _first(names: Sequence[str], env: Mapping[str, str]) -> str | None:
    return next((value for name in names if (value := env.get(name, "").strip())), None)


def _quirks(wire: Dialect, model: ModelDescriptor) -> dict[str, Any] | None:
    own = getattr(wire, "quirks", {})
    return {"api": model.api, **own, **(model.compat or {})} if own or model.compat else None


def _keeps_reasoning_sealed(request: Request) -> bool:
    """Whether the provider keeps nothing, so that what it needs to go on reasoning must come back to us, sealed.

    Not every host of a model can do that: where one cannot, its row or the model's description says so.
    """
    if (request.model.compat or {}).get("supportsEncryptedReasoning") is False:
        return False
    api, thinking = request.model.api, request.options.reasoning
    if api == "openai-codex-responses":
        return True
    return (
        api in ("openai-responses", "azure-openai-responses") and thinking is not None and thinking.enabled is not False
    )


def _unpacked(key: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Cloud Code Assist's credential is a token and a project in one JSON text."""
    import msgspec

    try:
        both = msgspec.json.decode(key, type=dict[str, Any])
    except msgspec.MsgspecError:
        return key, body
    project = both.get("projectId")
    return str(both.get("token", "")), ({**body, "project": project} if project else body)


class _Joined(Sequence[Any]):
    """Losses of the hand-over, then those of the encoding, looked up when somebody looks."""

    def __init__(self, *parts: Sequence[Any]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __getitem__(self, at: Any) -> Any:
        return tuple(loss for part in self._parts for loss in part)[at]

    def __repr__(self) -> str:
        return repr(tuple(self))


_LARGE = 200  # messages; a request of this size takes about a millisecond to encode


async def _beside_the_loop(request: Request, work: Any) -> Any:
    messages = request.context.messages
    if len(messages) < _LARGE and not any(map(has_image, messages)):  # a picture may have to be resized
        return work()
    return await asyncio.to_thread(work)


def options_of(options: Mapping[str, Any]) -> tuple[Options, CallOptions]:
    """Keyword options as the two values they mean; an unknown name is an error that tells the known ones."""
    unknown = [name for name in options if name not in StreamOptions.__struct_fields__]
    if unknown:
        known = ", ".join(sorted(StreamOptions.__struct_fields__))
        elsewhere = " (the system text and the tools are the Context's)" if {"system", "tools"} & {*unknown} else ""
        raise InterlinguaError(f"no option is called {', '.join(map(repr, unknown))}{elsewhere}; there are: {known}")
    for name, wanted in _KINDS.items():
        value = options.get(name)
        if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
            raise FormatError(f"{name} must be a number, not {value!r}", f"options.{name}")
    if (options.get("max_tokens") or 1) < 1:
        raise FormatError(f"max_tokens must be at least 1, not {options['max_tokens']}", "options.max_tokens")
    return StreamOptions(**options).split()


_NUMBER = (int, float)
_KINDS: dict[str, Any] = {
    "max_tokens": int,
    "top_k": int,
    "seed": int,
    "temperature": _NUMBER,
    "top_p": _NUMBER,
    "timeout": (int, float, Timeouts),
}
