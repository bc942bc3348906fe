"""The entry points of a wire codec: the parts of decoding and encoding that are the same for every wire.

A dialect writes the function that knows its wire. A decorator here gives it the public signature that all wires share,
reads text or bytes as JSON, turns any failure of decoding into `BadWire`, and adds the losses of the support table.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from ..values.losses import SYSTEM, Encoded, Reporter, SupportTable, encoded
from ..values.messages import AssistantMessage, ToolResultMessage, Usage, UserMessage
from ..values.request import Context, Conversation, ModelDescriptor, Options, Request, ToolSpec
from .residual import (
    BARE,
    Mint,
    an_object,
    body_of,
    fields_of,
    flag,
    keeping,
    number,
    optional,
    reading,
    restored,
    strings,
    whole,
    with_residual,
)
from .wire import TextAnswer

Quirks = Mapping[str, Any] | None  # the differences of a variant from the wire, and its name under `api`
F = TypeVar("F", bound=Callable[..., Any])
Answer = TypeVar("Answer")

# Templates for `replace`, which is faster than the constructors: those check what a program gives them. Each value that
# is made of one needs an `extra` of its own.
CONTEXT = Context(messages=())
USER = UserMessage(content=None)
ANSWER = AssistantMessage(content=())
RESULT = ToolResultMessage(content=None, tool_call_id="", is_error=False)


class Given(NamedTuple):
    """The arguments of a decoder beside the body. `api` is the name of the wire, or of the variant."""

    api: str
    model: str | ModelDescriptor | None = None
    stream: bool | None = None
    mint: Mint | None = None
    quirks: Quirks = None

    def model_of(self, name: Any) -> ModelDescriptor:
        """The model of a request: as the caller describes it, else as the body names it."""
        if isinstance(self.model, ModelDescriptor):
            return self.model
        return ModelDescriptor(id=optional(name) or self.model or "", api=self.api)

    def stream_of(self, wire: Mapping[str, Any]) -> bool | None:
        """Whether to stream: from the body, else from the caller."""
        value = wire.get("stream")
        return value if isinstance(value, bool) else self.stream


class DecodeRequest(Protocol):
    def __call__(
        self,
        body: Any,
        *,
        model: str | ModelDescriptor | None = None,
        stream: bool | None = None,
        mint: Mint | None = None,
        quirks: Quirks = None,
    ) -> Request: ...


class DecodeResponse(Protocol):
    def __call__(
        self,
        body: Any,
        *,
        model: str | None = None,
        provider: str | None = None,
        timestamp: int | None = None,
        mint: Mint | None = None,
        quirks: Quirks = None,
    ) -> AssistantMessage: ...


class EncodeRequest(Protocol):
    def __call__(self, request: Request, *, strict: bool = False, quirks: Quirks = None) -> Encoded: ...


class EncodeResponse(Protocol):
    def __call__(
        self, message: AssistantMessage, *, request: Request | None = None, quirks: Quirks = None
    ) -> Encoded: ...


def request_decoder(api: str) -> Callable[[Callable[[Any, Given], Request]], DecodeRequest]:
    """Makes `decode_request` of a function that takes the body as JSON values."""

    def decorate(decode: Callable[[Any, Given], Request]) -> DecodeRequest:
        def decode_request(
            body: Any,
            *,
            model: str | ModelDescriptor | None = None,
            stream: bool | None = None,
            mint: Mint | None = None,
            quirks: Quirks = None,
        ) -> Request:
            return decode(body_of(body, api), Given(api_of(quirks, api), model, stream, mint, quirks))

        return reading(api)(_named_like(decode, decode_request))

    return decorate


def response_decoder(
    api: str,
) -> Callable[[Callable[[Any, AssistantMessage, Given], AssistantMessage]], DecodeResponse]:
    """Makes `decode_response` of a function that takes the body as JSON values, and the message without its content."""

    def decorate(decode: Callable[[Any, AssistantMessage, Given], AssistantMessage]) -> DecodeResponse:
        def decode_response(
            body: Any,
            *,
            model: str | None = None,
            provider: str | None = None,
            timestamp: int | None = None,
            mint: Mint | None = None,
            quirks: Quirks = None,
        ) -> AssistantMessage:
            name = api_of(quirks, api)
            base = replace(ANSWER, extra={}, api=name, provider=provider, model=model, timestamp=timestamp)
            return decode(body_of(body, api), base, Given(name, model, None, mint, quirks))

        return reading(api)(_named_like(decode, decode_response))

    return decorate


def text_answer_reader(
    shape: type[Answer],
    usage: Callable[[Answer], Usage | None],
    about: Callable[[Answer], tuple[Any, ...]] = lambda answer: (),
) -> Callable[[bytes], TextAnswer | None]:
    """Makes `Wire.text_answer`: `shape` accepts only answers of plain text, `usage` and `about` read one."""
    decoder = functools.cache(lambda: msgspec.json.Decoder(shape))  # most programs need none

    def text_answer(body: bytes) -> TextAnswer | None:
        try:
            answer = decoder().decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        used = usage(answer)
        return None if used is None else TextAnswer(used, *about(answer))

    return text_answer


def request_encoder(
    api: str, support: SupportTable
) -> Callable[[Callable[[Request, Reporter, Quirks], Any]], EncodeRequest]:
    """Makes `encode_request` of a function that returns the body and reports the losses that `support` does not."""

    def decorate(encode: Callable[[Request, Reporter, Quirks], Any]) -> EncodeRequest:
        def encode_request(request: Request, *, strict: bool = False, quirks: Quirks = None) -> Encoded:
            variant, report = api_of(quirks, api), Reporter()
            body = encode(request, report, quirks)
            return encoded(api, body, request, support, report.losses, strict=strict, variant=variant)

        return _named_like(encode, encode_request)

    return decorate


def response_encoder(
    api: str, support: SupportTable
) -> Callable[[Callable[[AssistantMessage, Reporter, Request | None, Quirks], Any]], EncodeResponse]:
    """The same for `encode_response`."""

    def decorate(encode: Callable[[AssistantMessage, Reporter, Request | None, Quirks], Any]) -> EncodeResponse:
        def encode_response(
            message: AssistantMessage, *, request: Request | None = None, quirks: Quirks = None
        ) -> Encoded:
            report = Reporter("$")
            body = encode(message, report, request, quirks)
            return encoded(api, body, message, support, report.losses, variant=api_of(quirks, api))

        return _named_like(encode, encode_response)

    return decorate


def _named_like(function: Callable[..., Any], public: F) -> F:
    """`public` with the name and the docstring of `function`, but its own signature."""
    functools.update_wrapper(public, function, ("__module__", "__name__", "__qualname__", "__doc__"), ())
    del public.__wrapped__  # type: ignore[attr-defined]
    return public


# Options that a wire has as one field each, read and written by a table: our name -> the wire's.
_OPTION_READERS: dict[str, Callable[[Any], Any]] = {
    "max_tokens": whole,
    "temperature": number,
    "top_p": number,
    "top_k": whole,
    "stop": strings,
    "seed": whole,
    "service_tier": optional,
    "session_id": optional,
    "parallel_tools": flag,
}


def is_usual(wire: Mapping[str, Any], types: Mapping[str, type]) -> bool:
    """Whether an object has only these fields, each of its type. Then encoding gives it back, without a residual."""
    for key, value in wire.items():  # noqa: SIM110 - a generator takes twice the time, for each request
        if types.get(key) is not type(value):
            return False
    return True


def read_options(wire: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Fields of `Options` from the wire's fields; what is not of the right type stays in the residual."""
    return {option: _OPTION_READERS[option](wire.get(name)) for option, name in names.items()}


def write_options(body: dict[str, Any], options: Options, names: Mapping[str, str]) -> None:
    """Puts the options that are set into `body`, in the order of the table."""
    for option, name in names.items():
        value = getattr(options, option)
        if value is not None:
            body[name] = list(value) if option == "stop" else value


# Tools as `{"type": "function", "function": {"name": …, "description": …, "parameters": …}}`.


def decode_function_tool(wire: Any, api: str) -> ToolSpec:
    """A function; a tool of any other type is the wire's own."""
    function = fields_of(an_object(wire, api).get("function"))
    kind = wire.get("type", "function")
    if kind != "function" or not isinstance(function.get("name"), str):
        return ToolSpec(name=str(kind), dialect=api, value=wire)
    tool = ToolSpec(
        name=function["name"],
        description=optional(function.get("description")),
        input_schema=function.get("parameters"),
    )
    return keeping(tool, api, wire, encode_function_tool(tool, api))


def encode_function_tool(spec: ToolSpec, api: str) -> dict[str, Any]:
    function: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        function["description"] = spec.description
    if spec.input_schema is not None:
        function["parameters"] = spec.input_schema
    return restored({"type": "function", "function": function}, spec.extra, api)


def report_first_system(report: Reporter) -> None:
    """The records for a first system message on a wire where that is the system prompt."""
    report.at("$.messages[0]", "system message", "a first system message is the system prompt", "record")
    report.at(SYSTEM, "system", "a first system message is the system prompt", "record")


def api_of(quirks: Quirks, api: str) -> str:
    """The name of the wire, or of the variant that has these quirks."""
    return quirks["api"] if quirks else api


def conversation_codec(
    api: str, decode_request: DecodeRequest, encode_request: EncodeRequest, field: str = "messages"
) -> tuple[Callable[..., Conversation], Callable[..., Encoded]]:
    """`decode` and `encode` of conversations; `field` is the wire's name for the messages."""

    def decode(data: Any, *, quirks: Quirks = None) -> Conversation:
        """A request body, or a bare list of its messages, as a conversation."""
        body = body_of(data, api)
        if isinstance(body, list):
            request = decode_request({field: body}, quirks=quirks)
            return Conversation.of(with_residual(request, api, **{BARE: True}))
        conversation = Conversation.of(decode_request(an_object(body, api), quirks=quirks))
        # No request has a title; programs that keep their conversations as requests write one beside the messages.
        title = body.get("title")
        return replace(conversation, title=title) if isinstance(title, str) else conversation

    def encode(conversation: Conversation, *, quirks: Quirks = None) -> Encoded:
        """The request body, or the bare list if that is what was decoded."""
        request = conversation.request()
        extra_fields = request.extra.get(api, {})
        if not extra_fields.get(BARE):
            return encode_request(request, quirks=quirks)
        rest = {key: value for key, value in extra_fields.items() if key != BARE}
        body, losses = encode_request(replace(request, extra={**request.extra, api: rest}), quirks=quirks)
        return Encoded(body.get(field, []), losses)

    return decode, encode
