"""Asking models: finds the connector, tries again, falls back, prices the answer. One well-formed stream comes out."""

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from ..abort import Abort
from ..containment import must_propagate
from ..dialects import WIRES
from ..dialects.clawtools import read_context
from ..errors import Aborted, FormatError, InterlinguaError, TransportError
from ..events import Done, Error, Start
from ..folding import CUT_OFF
from ..messages import AssistantMessage, CustomMessage, Message, UserMessage
from ..request import Context, Conversation, ModelDescriptor, Options, Request, StreamOptions
from . import catalogue, telemetry
from .auth import AuthResolver
from .connector import Connector, HttpConnector, options_of
from .exchange import Batch, failure_of
from .foreign import Foreign, models_of, opened
from .overrides import own_notes, own_rows
from .providers import ROWS, Provider
from .registry import ConnectorRegistry
from .resilience import Breaker, Retry, elsewhere
from .stream import Source, Stream
from .transport import Transport
from .watching import Timeouts

Model: TypeAlias = str | ModelDescriptor
OnRetry: TypeAlias = Callable[[InterlinguaError, float], object]
_PATIENCE_FOR_COST = 5.0  # seconds that the record of an answer's cost may take


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
        fallbacks: Sequence[Model] = (),
        retry: Retry | int | None = None,
        on_retry: OnRetry | None = None,
        **options: Any,
    ) -> Stream:
        """The answer of a model, event by event.

        `context` is a text, a message, a list of messages, a `Context`, a `Conversation` or a `Request`. When the model
        fails before it has said anything, the `fallbacks` are asked in turn, each with the conversation adapted to it.
        """
        said, call = options_of(options)
        context, said = _context_of(context, said)
        fallbacks = (fallbacks,) if isinstance(fallbacks, str | ModelDescriptor) else fallbacks
        patience = self.retry if retry is None else retry if isinstance(retry, Retry) else Retry(attempts=retry + 1)
        source = _Trying(self, (model, *fallbacks), context, StreamOptions.of(said, call), patience, on_retry)
        named = _named(model)
        base = AssistantMessage(content=(), api=named.api or None, provider=named.provider or None, model=named.id)
        stream = Stream(source, base, source.priced)
        return telemetry.observed(stream, Request(model=named, context=context, options=said))

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


def _context_of(given: Any, said: Options) -> tuple[Context, Options]:
    """What may be asked, as a Context. Options that come with a request count where none are given."""
    if isinstance(given, Context):
        return read_context(given), said
    if isinstance(given, Conversation):
        given = given.request()
    if isinstance(given, Request):
        told = {name: value for name in said.__struct_fields__ if (value := getattr(said, name)) not in (None, {})}
        extra = {**given.options.extra, **given.extra, **said.extra}  # what only one wire can say goes along
        return given.context, replace(given.options, **{**told, "extra": extra})
    if isinstance(given, str):
        return Context(messages=(UserMessage(content=given),)), said
    if isinstance(given, bytes | dict) or (isinstance(given, list | tuple) and any(isinstance(m, dict) for m in given)):
        from ..conversion import decode

        return _context_of(decode(given if isinstance(given, bytes | dict) else list(given)), said)
    messages = tuple(given) if isinstance(given, list | tuple) else (given,)
    for message in messages:
        if not isinstance(message, _MESSAGES):
            raise FormatError(f"a context is a text, messages, a Context or a request, not {_kind(message)}", "context")
    if not messages:
        raise FormatError("there is nothing to ask: the context has no messages", "context")
    return Context(messages=messages), said


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
        models: Sequence[Model],
        context: Context,
        options: StreamOptions,
        retry: Retry,
        on_retry: OnRetry | None,
    ) -> None:
        self._client = client
        self._breaker = client.breaker
        self._models = models
        self._context = context
        self._signal = options.signal.child() if options.signal is not None else Abort()  # fires when the reader leaves
        self._options = replace(options, signal=self._signal)
        self._retry = retry
        self._on_retry = on_retry
        self._current: Source | None = None
        self._model = _named(models[0])
        self.failure: InterlinguaError | None = None

    @property
    def losses(self) -> Any:
        return self._current.losses if self._current is not None else ()

    def priced(self, message: AssistantMessage) -> AssistantMessage:
        """The answer with what it cost, where that is known."""
        with contextlib.suppress(InterlinguaError):  # a broken price list must not cost the answer
            return catalogue.priced(message, self._model)
        return message

    async def batches(self) -> AsyncGenerator[Batch, None]:
        for left, model in zip(range(len(self._models) - 1, -1, -1), self._models, strict=True):
            try:
                connector = await self._found(model)
                held, rest = await self._begin(connector, self._model)
            except _Failed as failed:
                self._breaker.failed(self._model.provider, self._model.id, failed.failure)
                if left and elsewhere(failed.failure):
                    self._tell(failed.failure, 0.0)
                    continue
                self.failure = failed.failure
                yield failed.events
                return
            async with contextlib.aclosing(rest):
                yield await self._noted(connector, held)
                async for batch in rest:
                    if batch:
                        yield await self._noted(connector, batch)
            return

    async def _found(self, model: Model) -> Connector:
        try:
            await catalogue.warm()
            connector, self._model = self._client.find(model)
            self._model = _known(connector, self._model)
        except InterlinguaError as failure:
            raise _Failed(failure, [_error(self._model, failure)]) from None
        return connector

    def cut(self, why: str) -> Batch:
        rest = self._current.cut(why) if self._current is not None else []
        self._signal.abort(why)
        return rest

    async def _begin(self, connector: Connector, model: ModelDescriptor) -> tuple[Batch, AsyncGenerator[Batch, None]]:
        """The first events that say something, and where the rest comes from. A call that succeeds knows no retries."""
        try:
            return await self._try(connector, model)
        except _Failed as failed:
            if self._retry.attempts < 2 or not self._retry.again(failed.failure):
                raise
            seconds = self._retry.wait(failed.failure, 1)
            self._tell(failed.failure, seconds)
        await self._sleep(seconds)
        return await self._begin_again(connector, model)

    async def _begin_again(
        self, connector: Connector, model: ModelDescriptor
    ) -> tuple[Batch, AsyncGenerator[Batch, None]]:
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

        trying = AsyncRetrying(
            stop=stop_after_attempt(self._retry.attempts - 1),
            retry=retry_if_exception(lambda error: isinstance(error, _Failed) and self._retry.again(error.failure)),
            wait=lambda state: self._retry.wait(_failure_of(state), state.attempt_number + 1),
            before_sleep=lambda state: self._tell(_failure_of(state), state.upcoming_sleep),
            sleep=self._sleep,
            reraise=True,
        )
        return await trying(self._try, connector, model)

    async def _try(self, connector: Connector, model: ModelDescriptor) -> tuple[Batch, AsyncGenerator[Batch, None]]:
        try:
            self._breaker.check(model.provider, model.id)
            self._current = source = _source(connector, model, self._context, self._options)
        except InterlinguaError as refused:
            raise _Failed(refused, [_error(model, refused)]) from None
        batches = source.batches()
        try:
            return await _first(source, batches, model), batches
        except BaseException:
            await batches.aclose()
            raise

    def _tell(self, failure: InterlinguaError, seconds: float) -> None:
        if self._on_retry is not None:
            self._on_retry(failure, seconds)

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._signal.wait(), seconds)
        except TimeoutError:
            return
        failure = Aborted(self._signal.reason)
        raise _Failed(failure, [_error(self._model, failure)])

    async def _noted(self, connector: Connector, batch: Batch) -> Batch:
        """Draws from the last event what is to be learned from it."""
        last, model = batch[-1], self._model
        if isinstance(last, Done):
            self._breaker.succeeded(model.provider, model.id)
            if isinstance(connector, HttpConnector) and connector.row.tells_cost:
                with contextlib.suppress(InterlinguaError, TimeoutError):  # then nobody told, and the answer stands
                    async with asyncio.timeout(_PATIENCE_FOR_COST):
                        return [*batch[:-1], Done(last.reason, await connector.told_cost(last.message, self._options))]
        elif isinstance(last, Error):
            self.failure = (self._current.failure if self._current is not None else None) or failure_of(last.error)
            self._breaker.failed(model.provider, model.id, self.failure)
        return batch


async def _first(source: Source, batches: AsyncGenerator[Batch, None], model: ModelDescriptor) -> Batch:
    """The events up to the first that says something. An attempt that fails before is raised."""
    held: Batch = []
    async for batch in batches:
        held += batch
        if held and isinstance(held[-1], Error):
            raise _Failed(source.failure or failure_of(held[-1].error), held)
        if len(held) > 1 or (held and not isinstance(held[0], Start)):
            return held
    failure = source.failure or TransportError(CUT_OFF)
    raise _Failed(failure, [*held, _error(model, failure)])


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
