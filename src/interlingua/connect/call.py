"""One call: the value built from the caller's arguments, and the attempts until one model responds.

Access is what a provider needs: key, base URL, headers, and the settings of the URL. The access given with a call
belongs to the first model; a fallback uses its own row, variables and stored credentials, or brings its own.
"""

import asyncio
import contextlib
import inspect
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Required, TypeAlias, TypedDict

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..dialects.generations import EFFORTS
from ..dialects.provider_errors import failure_of
from ..values.abort import Abort
from ..values.errors import Aborted, ContextTooLong, FormatError, InterlinguaError, TransportError, nearest
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
from ..values.interop import must_propagate, several
from ..values.messages import AssistantMessage, ImageBlock, TextBlock
from ..values.request import (
    CallOptions,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    StreamOptions,
    ToolChoice,
)
from .auth.credentials import Secret
from .connector import Connector, HttpConnector, account_of
from .models import Catalogue, own_notes, warm
from .registry import Foreign, opened
from .retry import Breaker, CallTarget, Retry, asks_to_wait, elsewhere
from .stream import TERMINAL, AttemptWatch, Batch, EventSource, Stream, Timeouts, contained, without_frames
from .transport import with_headers

Model: TypeAlias = str | ModelDescriptor
OnRetry: TypeAlias = Callable[[InterlinguaError, float], object]
GetApiKey: TypeAlias = Callable[[str], str | Awaitable[str | None] | None]
_COST_TIMEOUT = 5.0  # seconds to fetch the cost of a response


class ProviderAccess(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The access to one provider; `repr` never shows it."""

    api_key: str | None = None
    base_url: str | None = None
    headers: dict[str, str] | None = None
    settings: dict[str, str] | None = None

    def __repr__(self) -> str:
        return "Access(…)"


ACCESS = ProviderAccess.__struct_fields__
_NO_ACCESS = dict.fromkeys(ACCESS)


class WithAccess(TypedDict, total=False):
    """A model with its own access, accepted wherever a further model may be named."""

    model: Required[Model]
    api_key: str
    base_url: str
    headers: dict[str, str]
    settings: dict[str, str]


Fallback: TypeAlias = Model | WithAccess


_PLAIN = CallOptions()


class GivenOptions(dict[str, Any]):
    """The keyword options of a call. Its `repr` shows only names: error reports may show local variables."""

    def __repr__(self) -> str:
        return f"GivenOptions({', '.join(self)})"


Picture: TypeAlias = str | os.PathLike[str] | bytes | ImageBlock
"""An image as `interlingua.image` accepts it: a path, its bytes, a URL; or its block."""


class AccessOptions(TypedDict, total=False):
    """The keyword options of every call, for type checkers: access and timeouts."""

    api_key: str | None
    headers: dict[str, str] | None
    signal: Abort | None
    timeout: float | Timeouts | None
    base_url: str | None
    settings: dict[str, str] | None
    env: Mapping[str, str] | None


class AnswerOptions(AccessOptions, total=False):
    """The keyword options of a model call: those of `Options` and `CallOptions`, fallbacks and retries."""

    fallbacks: Fallback | Sequence[Fallback]
    retry: Retry | int | None
    on_retry: OnRetry | None
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    stop: str | Sequence[str] | None
    seed: int | None
    reasoning: str | int | bool | Reasoning | None
    tool_choice: str | ToolChoice | None
    parallel_tools: bool | None
    cache_retention: Literal["none", "short", "long"] | None
    session_id: str | None
    service_tier: str | None
    metadata: dict[str, Any] | None
    stream: bool | None
    extra: dict[str, Any]
    on_payload: Callable[..., Any] | None
    on_response: Callable[..., Any] | None
    thinking: Literal["drop", "text"] | None


class AskOptions(AnswerOptions, total=False):
    """The keyword options of `complete` and `stream`, for type checkers.

    `system` and `images` are added to the context: the system text, and images in the last user message.
    """

    system: str | Sequence[TextBlock] | None
    images: Picture | Sequence[Picture]
    output_schema: Mapping[str, Any] | OutputSchema | None
    get_api_key: GetApiKey | None


class Candidate(Struct, frozen=True):
    """A model that may respond to a call, and its own call options."""

    model: Model
    options: CallOptions


class Call(Struct, frozen=True, kw_only=True):
    """A whole call, parsed once at the edge and passed on.

    The model of `request` is the first candidate's, as far as its name shows. Its option `stream` is False if no events
    are needed: the response may then be fetched unstreamed.
    """

    candidates: tuple[Candidate, ...]
    request: Request
    retry: Retry
    signal: Abort | None = None  # the caller's
    is_seen: bool = True  # False if no event reaches the caller: a truncated response is then requested again
    on_retry: OnRetry | None = None
    get_api_key: GetApiKey | None = None


def chain(
    model: Model, fallbacks: Fallback | Sequence[Fallback], options: CallOptions = _PLAIN
) -> tuple[Candidate, ...]:
    """The candidates of a call in their order. Only the first has the access that `options` bring."""
    if not fallbacks and isinstance(fallbacks, tuple | list):
        return (Candidate(model, options),)
    is_one = isinstance(fallbacks, str | ModelDescriptor | Mapping)
    others = (fallbacks,) if is_one else several(fallbacks, "models", "fallbacks")
    # A key is never sent to another provider than the one that it was given for.
    without = replace(options, **_NO_ACCESS)
    return (
        Candidate(model, options),
        *(_candidate(one, without, f"fallbacks[{at}]") for at, one in enumerate(others)),
    )


def _candidate(given: Fallback, options: CallOptions, path: str) -> Candidate:
    model, access = parted(given, path)
    return Candidate(model, replace(options, **access))


def parted(given: Fallback, path: str) -> tuple[Model, dict[str, Any]]:
    """Splits a model and its own access."""
    if isinstance(given, str | ModelDescriptor):
        return given, {}
    if not isinstance(given, Mapping) or not isinstance(given.get("model"), str | ModelDescriptor):
        raise FormatError("not a model; give its name, a ModelDescriptor, or {'model': …, 'api_key': …}", path)
    rest = {name: value for name, value in given.items() if name != "model"}
    try:
        access = msgspec.convert(rest, ProviderAccess)
    except msgspec.ValidationError as error:
        raise FormatError(f"{error}; valid keys: model, {', '.join(ACCESS)}", path) from None
    return given["model"], {name: value for name in ACCESS if (value := getattr(access, name)) is not None}


def place_of(model: Model) -> tuple[str, str | None]:
    """Returns where a model is called, as far as its name or descriptor shows. Access is valid for one place only."""
    if isinstance(model, ModelDescriptor):
        return model.provider or f"={model.api}", model.base_url
    return own_notes().aliases.get(model, model).partition("/")[0], None


def named(model: Model) -> ModelDescriptor:
    """Returns the descriptor of a model, as far as its name shows."""
    if isinstance(model, ModelDescriptor):
        return model
    if not isinstance(model, str):
        kind = type(model).__name__
        raise FormatError(f"a model is a name such as 'openai/gpt-5', or a ModelDescriptor, not {kind}", "model")
    provider, slash, id = model.partition("/")
    return ModelDescriptor(id=id, provider=provider) if slash else ModelDescriptor(id=model)


def options_of(options: Mapping[str, Any], *, stream: bool | None = None) -> tuple[Options, CallOptions]:
    """Parses keyword options to the two values; an unknown name is an error that lists the known ones.

    `stream` replaces the option of this name, which is validated all the same.
    """
    given = [name for name in options if name not in _NAMES]
    if given:
        hint = " (the tools are the Context's)" if "tools" in given else ""
        near = nearest(given[0], AskOptions.__annotations__, 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        known = ", ".join(sorted(_NAMES))
        raise InterlinguaError(f"unknown option {', '.join(map(repr, given))}{hint}; {meant}valid options: {known}")
    call: dict[str, Any] = {}
    wire: dict[str, Any] = {}
    for name, value in options.items():
        if value is not None and name in _KINDS:
            check_kind(name, value)
        (call if name in _CALL else wire)[name] = value
    for item in options.get("stop") or ():
        if not isinstance(item, str):
            raise FormatError(
                f"stop must be a string or a list of strings, not of {type(item).__name__}", "options.stop"
            )
    # Before anything is opened: a header with a line break would otherwise fail inside the transport, after the retries
    # began.
    if options.get("headers"):
        with_headers({}, options["headers"])
    max_tokens, timeout = options.get("max_tokens"), options.get("timeout")
    if max_tokens is not None and max_tokens < 0:  # Anthropic takes 0, to fill its prompt cache
        raise FormatError(f"max_tokens must be at least 0, not {max_tokens}", "options.max_tokens")
    if isinstance(timeout, int | float) and not timeout > 0:
        raise FormatError(f"timeout must be a number of seconds above 0, not {timeout}", "options.timeout")
    if stream is not None:
        wire["stream"] = stream
    return Options(**wire), CallOptions(**call)


_CALL = frozenset(CallOptions.__struct_fields__)
_NAMES = frozenset(StreamOptions.__struct_fields__)
_NUMBER = "a number"
_INTEGER = "an integer"
_TEXT = str, "a string"
_TABLE = Mapping, "a dictionary"
_SWITCH = bool, "True or False"
_FUNCTION = Callable, "a function"
# The valid types of each option, and how messages describe them. Other options are validated where they are used.
_KINDS: dict[str, tuple[Any, str]] = {
    "max_tokens": (int, _INTEGER),
    "top_k": (int, _INTEGER),
    "seed": (int, _INTEGER),
    "temperature": ((int, float), _NUMBER),
    "top_p": ((int, float), _NUMBER),
    "timeout": ((int, float, Timeouts), _NUMBER),
    "stop": ((str, Sequence), "a string or a list of strings"),
    "reasoning": ((str, int, Reasoning), "a level such as 'high', a number of tokens, True or False"),
    "tool_choice": ((str, ToolChoice), "'auto', 'none', 'required' or the name of a tool"),
    "parallel_tools": _SWITCH,
    "output_schema": ((Mapping, OutputSchema), "a JSON Schema"),
    "cache_retention": (("none", "short", "long"), "'none', 'short' or 'long'"),
    "session_id": _TEXT,
    "service_tier": _TEXT,
    "metadata": _TABLE,
    "stream": _SWITCH,
    "extra": _TABLE,
    "api_key": _TEXT,
    "headers": _TABLE,
    "signal": (Abort, "an Abort"),
    "base_url": _TEXT,
    "settings": _TABLE,
    "env": _TABLE,
    "thinking": (("drop", "text"), "'drop' or 'text'"),
    "on_payload": _FUNCTION,
    "on_response": _FUNCTION,
    "on_retry": _FUNCTION,
    "get_api_key": _FUNCTION,
}


def check_kind(name: str, value: Any) -> None:
    """Validates an option. Only numbers and enumerated values are shown in errors: others may be secret."""
    wanted, text = _KINDS[name]
    if isinstance(wanted, tuple) and isinstance(wanted[0], str):
        fits = value in wanted
    else:
        fits = isinstance(value, wanted) and not (text in (_NUMBER, _INTEGER) and isinstance(value, bool))
    if not fits:
        is_plain = text in (_NUMBER, _INTEGER) or name in ("cache_retention", "thinking")
        shown = repr(value)[:80] if is_plain else type(value).__name__
        raise FormatError(f"{name} must be {text}, not {shown}", f"options.{name}")
    if name == "reasoning" and isinstance(value, str) and value not in _LEVELS:
        levels = ", ".join(map(repr, _LEVELS))
        valid = f"{levels}, a number of tokens, True or False; Reasoning(effort=…) sends any other level"
        raise FormatError(f"unknown reasoning {value[:80]!r}; valid: {valid}", "options.reasoning")


_LEVELS = ("off", *EFFORTS)


def retry_of(given: Retry | int | None, usual: Retry) -> Retry:
    """Returns a `Retry`, from itself or from a number of retries."""
    if given is None or isinstance(given, Retry):
        return given or usual
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise FormatError(f"retry must be a Retry or a number of further attempts, not {given!r}", "options.retry")
    return Retry(attempts=given + 1)


# --- attempts ---------------------------------------------------------------------------------------------------------


Find: TypeAlias = Callable[[Model, Catalogue], tuple[Connector, ModelDescriptor]]


class Attempts:
    """A source that retries, and falls back, as long as no content has been delivered to the caller.

    `find` returns the connector for a model, and the model with its known facts. The start of the last candidate is
    delivered at once: it names the model that responds in any case. A further attempt then goes on without one.
    """

    def __init__(self, call: Call, find: Find, breaker: Breaker) -> None:
        self._call = call
        self._find = find
        self._breaker = breaker
        self._catalogue: Catalogue | None = None
        self._source: EventSource | None = None  # of the present attempt
        self._kept_back: Batch = []  # its events so far, while none of them has content
        self._has_started = False  # the start was delivered
        self._own_signal: Abort | None = None
        self._left: str | None = None  # why the reader left
        self._connector: Connector | None = None
        self._options = call.candidates[0].options
        self._target = CallTarget("", "")
        self.model = call.request.model  # of the present attempt
        self.failure: InterlinguaError | None = None

    @property
    def base(self) -> AssistantMessage:
        """The message before the first event, for a stream that ends there."""
        model = self._call.request.model
        return AssistantMessage(content=(), api=model.api or None, provider=model.provider or None, model=model.id)

    @property
    def losses(self) -> Any:
        return self._source.losses if self._source is not None else ()

    @property
    def is_ready(self) -> bool:
        return getattr(self._source, "is_ready", True)

    def priced(self, message: AssistantMessage) -> AssistantMessage:
        """Returns the response with its cost, if known."""
        if self._catalogue is None:
            return message
        tier = self._call.request.options.service_tier
        if tier is not None and any(loss.path == "$.options.serviceTier" for loss in self.losses):
            tier = None  # it was not sent
        with contextlib.suppress(InterlinguaError):  # a broken price list must not fail the call
            return self._catalogue.priced(message, self.model, tier)
        return message

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yields the events of the first attempt with content; else the last failure."""
        call, at, tries, too_small = self._call, 0, 0, 0
        failure: InterlinguaError | None = None
        events: Batch = []
        while at < len(call.candidates):
            candidate, more = call.candidates[at], at + 1 < len(call.candidates)
            try:
                if tries == 0:
                    await self._choose(candidate)
                    if at == 0:
                        self._check_fallbacks()
                    if 0 < (self.model.context_window or 0) <= too_small:
                        at += 1
                        continue  # a model with an unknown window is tried: it may be large enough
                    if failure is not None:
                        self._report(failure, 0.0)
                source = self._source = await self._open(candidate, more)
                batches = source.batches()
            except InterlinguaError as refused:
                failure, events = refused, [_error(self.model, refused)]
            else:
                begun = False
                events = self._kept_back = []
                try:
                    async for batch in batches:
                        if not begun:
                            events += self._continued(batch)
                            if events and isinstance(events[-1], Error):
                                break
                            if not (any(map(_shows, batch)) if call.is_seen else isinstance(batch[-1], Done)):
                                if call.is_seen and not more and events and isinstance(events[0], Start):
                                    self._has_started = True
                                    yield [events.pop(0)]
                                continue
                            begun, self._kept_back, batch = True, [], events
                        if batch:
                            yield await self._finished(batch) if isinstance(batch[-1], TERMINAL) else batch
                finally:
                    await batches.aclose()
                if begun:
                    return
                self._kept_back = []
                if events and isinstance(events[-1], Error):
                    failure = source.failure or failure_of(events[-1].error)
                else:
                    failure = source.failure or TransportError(CUT_OFF)
                    events = [*events, _error(self.model, failure)]
            tries += 1
            # Do not retry a target that requests a delay if there is another candidate.
            if tries < call.retry.attempts and call.retry.again(failure) and not (more and asks_to_wait(failure)):
                seconds = call.retry.wait(failure, tries)
                self._report(failure, seconds)
                if await self._sleep(seconds):
                    continue
                failure = Aborted(self._signal.reason)
                events = [_error(self.model, failure)]
            self._breaker.failed(self._target, failure)
            if isinstance(failure, ContextTooLong):
                too_small = max(too_small, self.model.context_window or 0)
            if not elsewhere(failure):
                break
            at, tries = at + 1, 0
        self.failure = failure and without_frames(failure)
        yield events

    def cut(self, why: str) -> Batch:
        pending, self._kept_back = self._kept_back, []
        rest = self._continued(self._source.cut(why)) if self._source is not None else []
        self._left = why
        if self._own_signal is not None:
            self._own_signal.abort(why)
        return [*pending, *rest] if rest else []

    @property
    def _signal(self) -> Abort:
        """The signal of waits and of foreign connectors: fires with the caller's, and when the reader leaves."""
        if self._own_signal is None:
            given = self._call.signal
            self._own_signal = Abort() if given is None else given.child()
            if self._left is not None:
                self._own_signal.abort(self._left)
        return self._own_signal

    def _continued(self, batch: Batch) -> Batch:
        """Returns the batch of an attempt, without the start if that of an earlier one was delivered."""
        return batch[1:] if self._has_started and batch and isinstance(batch[0], Start) else batch

    async def _choose(self, candidate: Candidate) -> None:
        """Selects the candidate's connector, and what its failures and limits apply to: base URL and account."""
        try:
            self._catalogue = await warm()
            self._connector, self.model = self._find(candidate.model, self._catalogue)
        except InterlinguaError:
            self.model = named(candidate.model)
            self._target = CallTarget(self.model.provider, self.model.id)
            raise
        model, options, connector = self.model, candidate.options, self._connector
        if isinstance(connector, HttpConnector):
            address = connector.address(model, options)
        else:
            address = options.base_url or model.base_url or connector.id
        self._target = CallTarget(model.provider, model.id, address, account_of(options))

    def _check_fallbacks(self) -> None:
        """Refuses a fallback without a connector before anything is sent, not when it is needed."""
        assert self._catalogue is not None
        for at, candidate in enumerate(self._call.candidates[1:]):
            try:
                self._find(candidate.model, self._catalogue)
            except InterlinguaError as error:
                raise FormatError(str(error), f"fallbacks[{at}]") from None

    async def _open(self, candidate: Candidate, more: bool) -> EventSource:
        """An attempt that has not begun. Whatever a foreign connector raises is its failure, not ours."""
        self._breaker.check(self._target)
        if more:
            self._breaker.check_wait(self._target)
        options, connector, model = candidate.options, self._connector, self.model
        assert connector is not None
        if self._call.get_api_key is not None:
            options = await self._with_key(self._call.get_api_key, options)
        if self._left is not None:  # in the meantime: nothing is sent
            raise Aborted(self._left)
        self._options = options
        if isinstance(connector, HttpConnector):
            return connector.exchange(replace(self._call.request, model=model), options)
        options = replace(options, signal=self._signal)
        try:
            events = opened(connector, replace(self._call.request, model=model), options)
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

    async def _with_key(self, get: GetApiKey, options: CallOptions) -> CallOptions:
        """Returns the candidate's options, with the key from the caller's function for its provider."""
        watch = AttemptWatch(self._signal, Timeouts.of(options.timeout))
        try:
            key = get(self.model.provider)
            if inspect.isawaitable(key):
                key = await watch.during(key)
        except InterlinguaError:
            raise
        except BaseException as error:
            if must_propagate(error):
                raise
            raise contained(error) from error
        finally:
            watch.finish()
        if key is not None and not isinstance(key, str | Secret):
            raise FormatError(
                f"get_api_key must return a string or None, not {type(key).__name__}", "options.get_api_key"
            )
        return replace(options, api_key=key) if key else options

    def _report(self, failure: InterlinguaError, seconds: float) -> None:
        if self._call.on_retry is not None:
            self._call.on_retry(failure, seconds)

    async def _sleep(self, seconds: float) -> bool:
        """Sleeps; False if the call was aborted before the end."""
        try:
            await asyncio.wait_for(self._signal.wait(), seconds)
        except TimeoutError:
            return True
        return False

    async def _finished(self, batch: Batch) -> Batch:
        """Returns the last batch, after its terminal event was reported to the breaker and its cost was fetched."""
        last, connector = batch[-1], self._connector
        if isinstance(last, Done):
            self._breaker.succeeded(self._target)
            if isinstance(connector, HttpConnector) and connector.row.reports_cost:
                with contextlib.suppress(InterlinguaError, TimeoutError):  # then the cost is unknown
                    # openrouter.ai/docs/api-reference/get-a-generation: the cost is known a moment after the answer, if
                    # at all.
                    async with asyncio.timeout(_COST_TIMEOUT):
                        message = await connector.reported_cost(last.message, self.model, self._options)
                        return [*batch[:-1], Done(last.reason, message)]
        elif isinstance(last, Error):
            self.failure = (self._source.failure if self._source is not None else None) or failure_of(last.error)
            self._breaker.failed(self._target, self.failure)
        return batch


def _shows(event: StreamEvent) -> bool:
    """Whether an event has content. Events without content can be delayed, so that a fallback may still respond."""
    kind = type(event)  # as `match`, in a third of the time: every call takes this way
    if kind in _STARTS:
        return False
    if kind in _DELTAS:
        return bool(event.delta)  # type: ignore[union-attr]
    return kind not in _ENDS or bool(event.content)  # type: ignore[union-attr]


_STARTS = frozenset({Start, TextStart, ThinkingStart, ToolCallStart, BlockStart})
_DELTAS = frozenset({TextDelta, ThinkingDelta, ToolCallDelta})
_ENDS = frozenset({TextEnd, ThinkingEnd})


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
