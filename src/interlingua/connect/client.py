"""Asking models: finds the connector, tries again, falls back, prices the answer. One well-formed stream comes out."""

import asyncio
import contextlib
import functools
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, get_args

from msgspec.structs import replace

from ..dialects import WIRES
from ..dialects.files.clawtools import read_context
from ..dialects.provider_errors import failure_of
from ..values.abort import Abort
from ..values.canonical import message_of
from ..values.errors import Aborted, ContextTooLong, FormatError, InterlinguaError, TransportError
from ..values.events import (
    BlockStart,
    Done,
    Error,
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallStart,
)
from ..values.folding import CUT_OFF
from ..values.interop import must_propagate
from ..values.messages import AssistantMessage, CustomMessage, Message, UserMessage
from ..values.request import Context, Conversation, ModelDescriptor, Options, Request, StreamOptions
from . import models as catalogue
from . import telemetry
from .auth.resolver import AuthResolver
from .candidates import Candidate, Fallback, Model, chain
from .connector import Connector, HttpConnector, account_of, options_of
from .exchange import Batch, contained
from .foreign import Foreign, models_of, opened
from .overrides import own_notes, own_rows
from .providers import ROWS, Provider
from .registry import ConnectorRegistry
from .retry import Breaker, Retry, Target, asks_to_wait, elsewhere
from .stream import Source, Stream
from .timeouts import Timeouts, Watch
from .transport import Transport

OnRetry: TypeAlias = Callable[[InterlinguaError, float], object]
GetApiKey: TypeAlias = Callable[[str], str | Awaitable[str | None] | None]
_COST_TIMEOUT = 5.0  # seconds that the record of an answer's cost may take


class Client:
    """All that a call needs: connectors, transport, credentials, patience. Clients share only the catalogue."""

    def __init__(
        self,
        *,
        connectors: ConnectorRegistry | None = None,
        transport: Transport | None = None,
        auth: AuthResolver | None = None,
        retry: Retry | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self.connectors = connectors if connectors is not None else builtin_connectors(transport=transport, auth=auth)
        self.retry = retry or Retry()
        self.breaker = breaker or Breaker()
        self._transport = transport
        self._auth = auth

    def stream(
        self,
        model: Model,
        context: Any,
        *,
        fallbacks: Fallback | Sequence[Fallback] = (),
        retry: Retry | int | None = None,
        on_retry: OnRetry | None = None,
        get_api_key: GetApiKey | None = None,
        **options: Any,
    ) -> Stream:
        """The answer of a model, event by event.

        `context` is a text, a message, a list of messages, a `Context`, a `Conversation` or a `Request`. When the model
        fails before it has said anything, the `fallbacks` are asked in turn, each with the conversation adapted to it.
        `api_key`, `base_url`, `headers` and `settings` are the first model's alone; a fallback that needs its own is
        given as `{"model": …, "api_key": …}`. `get_api_key(provider)` is asked for a key before each attempt; what it
        gives counts before `api_key`.
        """
        wire_options, call = options_of(options)
        context, wire_options = _context_of(context, wire_options)
        retry_policy = self.retry if retry is None else retry if isinstance(retry, Retry) else Retry(attempts=retry + 1)
        signal = call.signal.child() if call.signal is not None else Abort()  # fires when the reader leaves
        candidates = chain(model, fallbacks, replace(StreamOptions.of(wire_options, call), signal=signal))
        source = _Trying(self, candidates, context, signal, retry_policy, on_retry, get_api_key)
        named = _named(model)
        base = AssistantMessage(content=(), api=named.api or None, provider=named.provider or None, model=named.id)
        stream = Stream(source, base, source.priced)
        return telemetry.observed(stream, Request(model=named, context=context, options=wire_options))

    async def complete(self, model: Model, context: Any, **options: Any) -> AssistantMessage:
        """The whole answer. A failure is raised, with what had come of the answer as its `partial`."""
        stream = self.stream(model, context, **options)
        message = await stream.result()
        if stream.failure is not None:
            raise stream.failure
        return message

    def find(self, model: Model) -> tuple[Connector, ModelDescriptor]:
        """The connector for a model, and the model described as well as can be."""
        if isinstance(model, ModelDescriptor):
            return self._described(model)
        name = own_notes().aliases.get(model, model)
        provider, slash, id = name.partition("/")
        connector = self.connectors.get_by_provider(provider) if slash else None
        if connector is not None and id:
            return connector, _placed(connector, ModelDescriptor(id=id, provider=connector.provider))
        found = self.connectors.find_model(name)
        if len(found) == 1:
            return found[0][0], _placed(*found[0])
        raise InterlinguaError(_not_found(name, [f"{one.provider}/{name}" for one, _ in found], self.connectors))

    def _described(self, model: ModelDescriptor) -> tuple[Connector, ModelDescriptor]:
        connector = self.connectors.get_by_provider(model.provider)
        if connector is None and model.api in WIRES and model.base_url:
            row = Provider(
                id=model.provider or model.api, label=model.provider or model.api, api=model.api, keyless=True
            )
            connector = HttpConnector(row, transport=self._transport, auth=self._auth, models=())
        if connector is None:
            served = [one for one in self.connectors if one.api == model.api]
            if not (model.api and model.provider == "" and len(served) == 1):
                raise InterlinguaError(_not_found(model.provider or model.id, [], self.connectors))
            connector = served[0]
        return connector, _placed(connector, model)


def builtin_connectors(
    *, transport: Transport | None = None, auth: AuthResolver | None = None, rows: Sequence[Provider] = ROWS
) -> ConnectorRegistry:
    """A registry of its own with a connector for every row, the user's own rows, and the debug connectors."""
    from .debug import DebugConnector

    registry = ConnectorRegistry()
    for row in (*rows, *own_rows()):
        registry.register(HttpConnector(row, transport=transport, auth=auth))
    registry.register(DebugConnector(provider="clawfice-debug", label="Clawfice Debug Providers"))
    registry.register(DebugConnector())
    return registry


def _placed(connector: Connector, model: ModelDescriptor) -> ModelDescriptor:
    """The model with its place: provider, api, and the ways of its host."""
    if isinstance(connector, HttpConnector):
        return connector.complete(model)
    return replace(model, provider=model.provider or connector.provider, api=model.api or connector.api)


def _known(connector: Connector, model: ModelDescriptor) -> ModelDescriptor:
    """The model with what the catalogue knows of it; what the caller says counts."""
    known = next((one for one in _listed(connector) if one.id == model.id), None)
    if known is None:
        known = catalogue.describe(connector.provider, model.id)
    if known is None:
        return model
    return replace(known, **{name: value for name in model.__struct_fields__ if (value := getattr(model, name))})


def _named(model: Model) -> ModelDescriptor:
    """A model as far as its name tells."""
    if isinstance(model, ModelDescriptor):
        return model
    provider, slash, id = model.partition("/")
    return ModelDescriptor(id=id, provider=provider) if slash else ModelDescriptor(id=model)


def _listed(connector: Connector) -> Sequence[ModelDescriptor]:
    return () if isinstance(connector, HttpConnector) else models_of(connector)


def _not_found(name: str, candidates: list[str], connectors: ConnectorRegistry) -> str:
    import difflib

    if candidates:
        return f"several providers serve {name!r}: say which, as in {' or '.join(candidates[:6])}"
    provider = name.partition("/")[0]
    near = difflib.get_close_matches(provider, connectors.list_providers(), 3, 0.7)
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(connectors.list_providers())}"
    return f"no provider is known for the model {name!r}: write provider/model{hint}"


def _context_of(given: Any, wire_options: Options) -> tuple[Context, Options]:
    """What may be asked, as a Context. Options that come with a request count where none are given."""
    if isinstance(given, Context):
        return read_context(given), wire_options
    if isinstance(given, Conversation):
        given = given.request()
    if isinstance(given, Request):
        fields = {
            name: value
            for name in wire_options.__struct_fields__
            if (value := getattr(wire_options, name)) not in (None, {})
        }
        extra = {**given.options.extra, **given.extra, **wire_options.extra}  # what only one wire can say goes along
        return read_context(given.context), replace(given.options, **{**fields, "extra": extra})
    if isinstance(given, str):
        return Context(messages=(UserMessage(content=given),)), wire_options
    are_json = [isinstance(message, dict) for message in given] if isinstance(given, list | tuple) else []
    if isinstance(given, bytes | dict) or (are_json and all(are_json)):
        from ..conversion import decode

        return _context_of(decode(given if isinstance(given, bytes | dict) else list(given)), wire_options)
    messages = tuple(given) if isinstance(given, list | tuple) else (given,)
    for message in messages:
        if not isinstance(message, (*_MESSAGES, dict)):
            raise FormatError(f"a context is a text, messages, a Context or a request, not {_kind(message)}", "context")
    messages = tuple(map(message_of, messages))
    if not messages:
        raise FormatError("there is nothing to ask: the context has no messages", "context")
    return Context(messages=messages), wire_options


_MESSAGES = (*get_args(Message), CustomMessage)


def _kind(value: Any) -> str:
    return "a list with a string in it" if isinstance(value, str) else type(value).__name__


class _Failed(Exception):
    """An attempt that failed before the caller saw anything of it."""

    def __init__(self, failure: InterlinguaError, events: Batch) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.events = events


def _failure_of(state: Any) -> InterlinguaError:
    failed: _Failed = state.outcome.exception()
    return failed.failure


class _Trying:
    """A source that tries again, and elsewhere, as long as nothing has reached the caller."""

    def __init__(
        self,
        client: Client,
        candidates: Sequence[Candidate],
        context: Context,
        signal: Abort,
        retry: Retry,
        on_retry: OnRetry | None,
        get_api_key: GetApiKey | None,
    ) -> None:
        self._client = client
        self._breaker = client.breaker
        self._candidates = candidates
        self._context = context
        self._signal = signal
        self._retry = retry
        self._on_retry = on_retry
        self._get_api_key = get_api_key
        self._current: Source | None = None
        self._model = _named(candidates[0].model)
        self._options = candidates[0].options
        self._residual: Batch = []  # what has come of an attempt and shows nothing yet
        self.failure: InterlinguaError | None = None

    @property
    def losses(self) -> Any:
        return self._current.losses if self._current is not None else ()

    def priced(self, message: AssistantMessage) -> AssistantMessage:
        """The answer with what it cost, where that is known."""
        tier = self._options.service_tier
        if tier is not None and any(loss.path == "$.options.serviceTier" for loss in self.losses):
            tier = None  # it was not sent
        with contextlib.suppress(InterlinguaError):  # a broken price list must not cost the answer
            return catalogue.priced(message, self._model, tier)
        return message

    async def batches(self) -> AsyncGenerator[Batch, None]:
        failed: _Failed | None = None
        too_small = 0  # the largest known window that the conversation did not fit
        for left, candidate in zip(range(len(self._candidates) - 1, -1, -1), self._candidates, strict=True):
            try:
                asked = await self._asked(candidate, more=left > 0)
                if 0 < (asked.model.context_window or 0) <= too_small:
                    continue  # one whose window is not known is asked: it may be large enough
                if failed is not None:
                    self._emit(failed.failure, 0.0)
                self._model = asked.model
                first, rest = await self._begin(asked)
            except _Failed as failure:
                failed = failure
                if isinstance(failed.failure, ContextTooLong):
                    too_small = max(too_small, self._model.context_window or 0)
                if not elsewhere(failed.failure):
                    break
                continue
            async with contextlib.aclosing(rest):
                yield await self._noted(asked, first)
                async for batch in rest:
                    if batch:
                        yield await self._noted(asked, batch)
            return
        assert failed is not None
        self.failure = failed.failure
        yield failed.events

    async def _asked(self, candidate: Candidate, more: bool) -> "_Asked":
        try:
            await catalogue.warm()
            connector, model = self._client.find(candidate.model)
            model = _known(connector, model)
        except InterlinguaError as failure:
            raise _Failed(failure, [_error(_named(candidate.model), failure)]) from None
        return _Asked(connector, model, candidate.options, _target(connector, model, candidate.options), more)

    def cut(self, why: str) -> Batch:
        pending, self._residual = self._residual, []
        rest = self._current.cut(why) if self._current is not None else []
        self._signal.abort(why)
        return [*pending, *rest] if rest else []

    async def _begin(self, asked: "_Asked") -> tuple[Batch, AsyncGenerator[Batch, None]]:
        """The first events that show something, and where the rest comes from. It counts once, however often tried."""
        try:
            return await self._begin_once(asked)
        except _Failed as failed:
            self._note_failure(asked, failed.failure)
            raise

    async def _begin_once(self, asked: "_Asked") -> tuple[Batch, AsyncGenerator[Batch, None]]:
        """The first attempt; the others only if it fails. A call that succeeds knows no retries."""
        try:
            return await self._try(asked)
        except _Failed as failed:
            if self._retry.attempts < 2 or not self._again(asked, failed.failure):
                raise
            seconds = self._retry.wait(failed.failure, 1)
            self._emit(failed.failure, seconds)
        await self._sleep(seconds)
        return await self._begin_again(asked)

    def _again(self, asked: "_Asked", failure: InterlinguaError) -> bool:
        """Whether to try the same one again: not one that asks to be left alone, where another can be asked."""
        return self._retry.again(failure) and not (asked.more and asks_to_wait(failure))

    async def _begin_again(self, asked: "_Asked") -> tuple[Batch, AsyncGenerator[Batch, None]]:
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

        trying = AsyncRetrying(
            stop=stop_after_attempt(self._retry.attempts - 1),
            retry=retry_if_exception(lambda error: isinstance(error, _Failed) and self._again(asked, error.failure)),
            wait=lambda state: self._retry.wait(_failure_of(state), state.attempt_number + 1),
            before_sleep=lambda state: self._emit(_failure_of(state), state.upcoming_sleep),
            sleep=self._sleep,
            reraise=True,
        )
        return await trying(self._try, asked)

    async def _try(self, asked: "_Asked") -> tuple[Batch, AsyncGenerator[Batch, None]]:
        model = asked.model
        try:
            self._breaker.check(*asked.target[:3])
            if asked.more:
                self._breaker.check_wait(*asked.target)
            self._options = await self._with_key(asked)
            self._current = source = _source(asked.connector, model, self._context, self._options)
        except InterlinguaError as refused:
            raise _Failed(refused, [_error(model, refused)]) from None
        batches = source.batches()
        try:
            return await self._first(source, batches, model), batches
        except BaseException:
            await batches.aclose()
            raise

    async def _with_key(self, asked: "_Asked") -> StreamOptions:
        """The candidate's options, with the key that the caller's function gives for its provider."""
        if self._get_api_key is None:
            return asked.options
        watch = Watch(self._signal, Timeouts.of(asked.options.timeout))
        try:
            key = self._get_api_key(asked.model.provider)
            if inspect.isawaitable(key):
                key = await watch.during(asyncio.ensure_future(key))
        except InterlinguaError:
            raise
        except BaseException as error:
            if must_propagate(error):
                raise
            raise contained(error) from error
        finally:
            watch.finish()
        return replace(asked.options, api_key=key) if key else asked.options

    async def _first(self, source: Source, batches: AsyncGenerator[Batch, None], model: ModelDescriptor) -> Batch:
        """The events up to the first that shows something. An attempt that fails before is raised."""
        pending = self._residual = []
        async for batch in batches:
            pending += batch
            if pending and isinstance(pending[-1], Error):
                self._residual = []
                raise _Failed(source.failure or failure_of(pending[-1].error), pending)
            if any(map(_shows, batch)):
                self._residual = []
                return pending
        self._residual = []
        failure = source.failure or TransportError(CUT_OFF)
        raise _Failed(failure, [*pending, _error(model, failure)])

    def _emit(self, failure: InterlinguaError, seconds: float) -> None:
        if self._on_retry is not None:
            self._on_retry(failure, seconds)

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._signal.wait(), seconds)
        except TimeoutError:
            return
        failure = Aborted(self._signal.reason)
        raise _Failed(failure, [_error(self._model, failure)])

    async def _noted(self, asked: "_Asked", batch: Batch) -> Batch:
        """Draws from the last event what is to be learned from it."""
        last, connector = batch[-1], asked.connector
        if isinstance(last, Done):
            self._breaker.succeeded(*asked.target)
            if isinstance(connector, HttpConnector) and connector.row.reports_cost:
                with contextlib.suppress(InterlinguaError, TimeoutError):  # then nobody told, and the answer stands
                    async with asyncio.timeout(_COST_TIMEOUT):
                        given = await connector.reported_cost(last.message, asked.model, self._options)
                        return [*batch[:-1], Done(last.reason, given)]
        elif isinstance(last, Error):
            self.failure = (self._current.failure if self._current is not None else None) or failure_of(last.error)
            self._note_failure(asked, self.failure)
        return batch

    def _note_failure(self, asked: "_Asked", failure: InterlinguaError) -> None:
        provider, model, address, account = asked.target
        self._breaker.failed(provider, model, failure, address, account)


class _Asked(NamedTuple):
    """A candidate that was found: who is asked, for which model, how. `more`: whether others can be asked after it."""

    connector: Connector
    model: ModelDescriptor
    options: StreamOptions
    target: Target
    more: bool


def _target(connector: Connector, model: ModelDescriptor, options: StreamOptions) -> Target:
    """What fails or is limited when a call does: the model at its address, and there the account."""
    if isinstance(connector, HttpConnector):
        address = connector.address(model, options)
    else:
        address = options.base_url or model.base_url or connector.id
    return Target(model.provider, model.id, address, account_of(options))


def _shows(event: StreamEvent) -> bool:
    """Whether an event brings anything of the answer. What does not can be kept back, so that another may answer."""
    match event:
        case Start() | TextStart() | ThinkingStart() | ToolCallStart() | BlockStart():
            return False
        case TextDelta() | ThinkingDelta() | ToolCallDelta():
            return bool(event.delta)
        case TextEnd() | ThinkingEnd():
            return bool(event.content)
        case _:
            return True


def _source(connector: Connector, model: ModelDescriptor, context: Context, options: StreamOptions) -> Source:
    """Where this connector's events come from. Whatever a foreign one raises is its failure, not ours."""
    try:
        events = opened(connector, model, context, options)
    except InterlinguaError:
        raise
    except BaseException as error:
        if must_propagate(error):
            raise
        raise TransportError(f"the connector {connector.id} failed: {error!r}") from error
    if isinstance(events, Stream):
        return events.source
    base = AssistantMessage(
        content=(), api=model.api, provider=model.provider, model=model.id, timestamp=int(time.time() * 1000)
    )
    return Foreign(events, base, connector.id, options.signal, Timeouts.of(options.timeout))


def _error(model: ModelDescriptor, failure: InterlinguaError) -> Error:
    reason: Any = "aborted" if isinstance(failure, Aborted) else "error"
    message = AssistantMessage(
        content=(),
        api=model.api,
        provider=model.provider,
        model=model.id,
        stop_reason=reason,
        error_message=str(failure),
    )
    return Error(reason, message)


@functools.cache
def default_client() -> Client:
    """The client behind `interlingua.stream` and `interlingua.complete`."""
    return Client()


def stream(model: Model, context: Any, **options: Any) -> Stream:
    """The answer of a model, event by event; see `Client.stream`. Never raises once called: failures are events."""
    return default_client().stream(model, context, **options)


async def complete(model: Model, context: Any, **options: Any) -> AssistantMessage:
    """The whole answer of a model. A failure is raised, with what had come of the answer as its `partial`."""
    return await default_client().complete(model, context, **options)
