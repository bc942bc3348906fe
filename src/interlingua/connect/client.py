"""`Client`: finds the connector for a model, retries, falls back and prices the response, as one well-formed stream."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack, overload

from msgspec.structs import asdict, replace

from ..conversion.inputs import ContextInput, context_of, read_context
from ..dialects import WIRES
from ..values.canonical import check_context
from ..values.errors import FormatError, InterlinguaError, OutputInvalid, unknown
from ..values.messages import AssistantMessage, ImageBlock, Message, TextBlock, UserMessage
from ..values.request import Context, Conversation, ModelDescriptor, Options, Request
from . import telemetry
from .auth.resolver import AuthResolver
from .call import (
    AskOptions,
    Attempts,
    Call,
    GetApiKey,
    GivenOptions,
    Model,
    OnRetry,
    chain,
    check_kind,
    named,
    options_of,
    retry_of,
)
from .connector import Connector, HttpConnector
from .models import Catalogue, own_rows
from .names import full_name
from .providers import ROWS, Provider
from .registry import ConnectorRegistry, listed_model
from .results import CORRECTIONS, OutputType, Result, Spent, T, correction
from .retry import Breaker, Retry
from .stream import Stream, without_frames
from .transport import HttpTransport, Reply, Transport, shared


class Client:
    """Connectors, transport, credentials and retries for calls. Clients share only the catalogue.

    Connections belong to the event loop, and end with it. Within `async with Client() as client` the client has its
    own, which are closed at the end. A given `transport` stays open: its creator closes it.
    """

    def __init__(
        self,
        *,
        connectors: ConnectorRegistry | None = None,
        transport: Transport | None = None,
        auth: AuthResolver | None = None,
        retry: Retry | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self._pool = _Pool()
        self._transport = transport or self._pool
        self.connectors = (
            connectors if connectors is not None else builtin_connectors(transport=self._transport, auth=auth)
        )
        self.retry = retry or Retry()
        self.breaker = breaker or Breaker()
        self._auth = auth

    def __repr__(self) -> str:
        return f"Client({len(self.connectors.list_providers())} providers)"

    async def __aenter__(self) -> Self:
        self._pool.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.leave()

    def stream(
        self, model: Model, context: ContextInput, *, output: Any = None, **options: Unpack[AskOptions]
    ) -> Stream:
        """Streams the response of a model, event by event.

        `context` is a text, a message, a list of messages, a `Context`, a `Conversation` or a `Request`; `system` is
        its system text, and `images` are added to the last user message. If the model fails before it has delivered
        anything, the `fallbacks` are tried in order, each with the conversation adapted to it.

        `api_key`, `base_url`, `headers` and `settings` apply to the first model only; pass a fallback's own as
        `{"model": …, "api_key": …}`. `get_api_key(provider)` is called before each attempt and takes precedence over
        `api_key`. With `output`, a type, `Stream.partial_output` is the output so far.
        """
        given = GivenOptions(options)
        del options
        context = _extended(context, given)
        asked = None if output is None else OutputType[Any](output)
        try:
            if asked is not None:
                _refuse_two_schemas(given)
                given["output_schema"] = asked.schema
            stream = self._begin(True, True, model, context, given)
        except InterlinguaError as error:
            raise without_frames(error) from error.__cause__
        stream.output_type = asked
        return stream

    @overload
    async def complete(
        self, model: Model, context: ContextInput, *, output: type[T], **options: Unpack[AskOptions]
    ) -> Result[T]: ...
    @overload
    async def complete(
        self, model: Model, context: ContextInput, *, output: None = None, **options: Unpack[AskOptions]
    ) -> AssistantMessage: ...
    @overload
    async def complete(
        self, model: Model, context: ContextInput, *, output: Any, **options: Unpack[AskOptions]
    ) -> Result[Any]: ...
    async def complete(
        self, model: Model, context: ContextInput, *, output: Any = None, **options: Unpack[AskOptions]
    ) -> Any:
        """Returns the whole response. A failure is raised, with the partial message as its `partial`.

        It is requested unstreamed, unless `stream=True` or the provider only streams. With `output` (a dataclass, a
        Struct, a pydantic model, any type, or a JSON Schema) the response is parsed as that type and returned in a
        `Result`. An invalid response is sent back at most twice, with the error; then `OutputInvalid` is raised.
        """
        given = GivenOptions(options)
        del options
        context = _extended(context, given)
        if output is None:
            return (await self._whole(model, context, given))[0]
        asked = OutputType[Any](output)
        _refuse_two_schemas(given)
        given["output_schema"] = asked.schema
        messages: list[Any] = []
        spent = Spent()
        for sent_back in range(CORRECTIONS + 1):
            answer, losses = await self._whole(model, _followed(context, messages) if messages else context, given)
            messages.append(answer)
            spent.add(answer)
            value, problem = asked.read(answer)
            if problem is None:
                return Result(output=value, messages=tuple(messages), spent=spent, losses=tuple(losses))
            if sent_back < CORRECTIONS:
                messages.append(correction(problem))
        failure = OutputInvalid(f"the answer does not fit the output type: {problem}")
        failure.partial = answer
        raise failure

    async def _whole(self, model: Model, context: ContextInput, options: GivenOptions) -> tuple[AssistantMessage, Any]:
        try:
            stream = self._begin(bool(options.get("stream")), False, model, context, options)
        except InterlinguaError as error:
            raise without_frames(error) from error.__cause__
        message = await stream.result()
        if stream.failure is not None:
            raise stream.failure
        return message, stream.losses

    def _begin(self, streamed: bool, is_seen: bool, model: Model, context: Any, options: GivenOptions) -> Stream:
        """Parses the arguments of a call, once, and starts its stream."""
        options = GivenOptions(options)
        fallbacks = options.pop("fallbacks", ())
        retry: Retry | int | None = options.pop("retry", None)
        on_retry: OnRetry | None = options.pop("on_retry", None)
        get_api_key: GetApiKey | None = options.pop("get_api_key", None)
        for name, value in (("on_retry", on_retry), ("get_api_key", get_api_key)):
            if value is not None:
                check_kind(name, value)
        wire_options, call_options = options_of(options, stream=streamed)
        if isinstance(context, str):
            context = context_of(context)
        else:
            context, wire_options = _context_of(context, wire_options)
            check_context(context)
        first = named(model)
        # Options of a single wire are merged into the body.
        extra = wire_options.extra
        request = Request(
            model=first,
            context=context,
            options=replace(wire_options, extra={}) if extra else wire_options,
            extra=extra,
        )
        call = Call(
            candidates=chain(model, fallbacks, call_options),
            request=request,
            signal=call_options.signal,
            retry=retry_of(retry, self.retry),
            is_seen=is_seen,
            on_retry=on_retry,
            get_api_key=get_api_key,
        )
        source = Attempts(call, self.find_known, self.breaker)
        return Stream(source, finish=source.priced, observer=telemetry.observer_of(source, request))

    def find(self, model: Model) -> tuple[Connector, ModelDescriptor]:
        """Returns the connector for a model, and the model with its place: provider, api, quirks of its host."""
        return self.find_known(model, None)

    def find_known(self, model: Model, catalogue: Catalogue | None) -> tuple[Connector, ModelDescriptor]:
        """Like `find`, with the catalogue's facts about the model; those that the caller gave take precedence."""
        connector, found = self._locate(model, catalogue)
        known = None
        if catalogue is not None:
            if not isinstance(connector, HttpConnector):  # those list what the catalogue has
                known = listed_model(connector, found.id)
            known = known or catalogue.describe(connector.provider, found.id)
        if known is not None:
            if found != ModelDescriptor(id=known.id, provider=known.provider):  # more than the name
                given = {name: value for name, value in asdict(found).items() if value}
                if known.compat and found.compat:
                    given["compat"] = {**known.compat, **found.compat}
                known = replace(known, **given)
            found = known
        if isinstance(connector, HttpConnector):
            return connector, connector.complete(found)
        return connector, replace(found, provider=found.provider or connector.provider, api=found.api or connector.api)

    def _locate(self, model: Model, catalogue: Catalogue | None = None) -> tuple[Connector, ModelDescriptor]:
        if isinstance(model, ModelDescriptor):
            return self._described(model)
        name = full_name(model, self.connectors, catalogue=catalogue)
        provider, _, id = name.partition("/")
        connector = self.connectors.get_by_provider(provider)
        assert connector is not None
        check = getattr(connector, "check_model", None)  # a connector that knows all of its models may refuse others
        if check is not None:
            check(id)
        if name != model and not isinstance(connector, HttpConnector):
            listed = listed_model(connector, id)  # a connector's own list knows more
            if listed is not None:
                return connector, listed
        return connector, ModelDescriptor(id=id, provider=connector.provider)

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
                name = model.provider or model.api or model.id
                raise InterlinguaError(unknown("provider", name, self.connectors.list_providers()))
            connector = served[0]
        return connector, model


class _Pool:
    """The connections of one client: the shared ones, or its own from the first `enter` to the last `leave`.

    Not its own from the start: nothing would close them before the client is collected, which aiohttp warns about.
    """

    def __init__(self) -> None:
        self._own: HttpTransport | None = None
        self._entered = 0

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        return await (self._own or shared()).send(method, url, headers, body)

    def enter(self) -> None:
        self._entered += 1
        self._own = self._own or HttpTransport()

    async def leave(self) -> None:
        self._entered -= 1
        if not self._entered and self._own is not None:
            own, self._own = self._own, None
            await own.aclose()


def builtin_connectors(
    *, transport: Transport | None = None, auth: AuthResolver | None = None, rows: Sequence[Provider] = ROWS
) -> ConnectorRegistry:
    """Returns a new registry with a connector for every row, the user's own rows, and the debug connectors."""
    from .debug import DebugConnector

    registry = ConnectorRegistry()
    for row in (*rows, *own_rows()):
        registry.register(HttpConnector(row, transport=transport, auth=auth))
    registry.register(DebugConnector(provider="clawfice-debug", label="Clawfice Debug Providers"))
    registry.register(DebugConnector())
    return registry


def _refuse_two_schemas(options: dict[str, Any]) -> None:
    if options.get("output_schema") is not None:
        raise InterlinguaError("output and output_schema exclude each other; give output")


def _extended(context: Any, options: dict[str, Any]) -> Any:
    """Returns the context with the `system` text and the `images` of the options, which are removed from them."""
    system, pictures = options.pop("system", None), options.pop("images", None)
    if system is None and pictures is None:
        return context
    from ..conversion.attachments import images_of  # only calls with images need it

    images = images_of(pictures if pictures is not None else ())
    if isinstance(context, Conversation):
        context = context.request()
    if isinstance(context, Request):
        return replace(context, context=_extended(context.context, {"system": system, "images": images}))
    read, _ = _context_of(context, Options())
    if system is not None and read.system:
        raise FormatError("two system prompts, in the context and in system=…; give one", "system")
    if images:
        read = replace(read, messages=(*read.messages[:-1], _pictured(read.messages[-1], images)))
    if not isinstance(system, str | list | tuple | None):
        raise FormatError(f"the system text is a string or text blocks, not {type(system).__name__}", "system")
    return read if system is None else replace(read, system=system if isinstance(system, str) else tuple(system))


def _pictured(message: Message, images: Sequence[ImageBlock]) -> UserMessage:
    if not isinstance(message, UserMessage):
        raise FormatError(f"images go with a message of the user, but the last one is {message.role}", "images")
    content = message.content or ()
    return replace(message, content=(*((TextBlock(text=content),) if isinstance(content, str) else content), *images))


def _followed(context: Any, messages: Sequence[Message]) -> Any:
    """Returns a context with further messages; options of a request are kept."""
    if isinstance(context, Conversation):
        context = context.request()
    if isinstance(context, Request):
        return replace(context, context=_followed(context.context, messages))
    read, _ = _context_of(context, Options())
    return replace(read, messages=(*read.messages, *messages))


def _context_of(given: Any, wire_options: Options) -> tuple[Context, Options]:
    """Normalizes the input to a Context. Options of a request apply where none are given."""
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
        extra = {**given.options.extra, **given.extra, **wire_options.extra}  # options of a single wire
        return read_context(given.context), replace(given.options, **{**fields, "extra": extra})
    if isinstance(given, dict) and given.keys() == {"role", "content"}:
        given = [given]  # a message alone
    are_json = [isinstance(message, dict) for message in given] if isinstance(given, list | tuple) else []
    if isinstance(given, bytes | dict) or (are_json and all(are_json)):
        from ..conversion import decode

        return _context_of(decode(given if isinstance(given, bytes | dict) else list(given)), wire_options)
    return context_of(given), wire_options


@functools.cache
def default_client() -> Client:
    """Returns the client behind `interlingua.stream` and `interlingua.complete`."""
    return Client(transport=shared())


def stream(model: Model, context: ContextInput, *, output: Any = None, **options: Unpack[AskOptions]) -> Stream:
    """Streams the response of a model; see `Client.stream`. Never raises once called: failures are events."""
    given: Any = GivenOptions(options)
    del options
    return default_client().stream(model, context, output=output, **given)


@overload
async def complete(
    model: Model, context: ContextInput, *, output: type[T], **options: Unpack[AskOptions]
) -> Result[T]: ...
@overload
async def complete(
    model: Model, context: ContextInput, *, output: None = None, **options: Unpack[AskOptions]
) -> AssistantMessage: ...
@overload
async def complete(
    model: Model, context: ContextInput, *, output: Any, **options: Unpack[AskOptions]
) -> Result[Any]: ...
async def complete(model: Model, context: ContextInput, *, output: Any = None, **options: Unpack[AskOptions]) -> Any:
    """Returns the whole response of a model, or with `output` a `Result` of that type; see `Client.complete`.

    A failure is raised, with the partial message as its `partial`.
    """
    given: Any = GivenOptions(options)
    del options
    return await default_client().complete(model, context, output=output, **given)
