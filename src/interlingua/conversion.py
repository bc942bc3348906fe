"""detect, decode, encode, convert: any format in, any format out, with what was lost.

`decode` takes a request body, a bare list of messages, an answer, a recorded stream or a session file. `encode` adapts
first when the target is another dialect than the conversation's own; what adapting cost is part of the losses.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec.structs import replace

from . import handover, jsontext
from .canonical import build, plain
from .dialects import DIALECTS, dialect
from .errors import BadWire, FormatError, InterlinguaError, Unsupported
from .folding import fold
from .losses import Encoded, Lines, Loss, Losses
from .messages import AssistantMessage
from .profiles import PROFILES
from .request import Conversation, Entry, ModelDescriptor, Request

SELF = "interlingua"


class Detection(NamedTuple):
    """Which dialect some data is in, why we think so, and which others it could be."""

    dialect: str
    reason: str
    others: tuple[str, ...] = ()


def detect(data: Any) -> Detection | None:
    """What the data is, from its content alone; None when nothing fits."""
    try:
        value = value_of(data)
    except InterlinguaError:
        return None
    found = [(name, reason) for name, sniff in _sniffers() if (reason := sniff(value))]
    if not found:
        return None
    (name, reason), *others = found
    return Detection(name, reason, tuple(other for other, _ in others))


def decode(data: Any, dialect: str | None = None) -> Conversation:
    """The conversation in `data`: JSON values, text or bytes, in the named dialect or in the one that is detected."""
    if dialect is None:
        found = detect(data)
        if found is None:
            value_of(data)  # says what is wrong, if it is not even JSON
            raise BadWire("detect", f"no known format; name one: {', '.join(sorted(DIALECTS))}")
        dialect = found.dialect
    if dialect == SELF:
        return _decode_own(value_of(data))
    module = _dialect(dialect)
    if dialect not in PROFILES:
        return _conversation(module.decode(data))
    stream = _as_stream(data)
    if stream is not None:
        return _one(_decode_stream(stream, dialect), dialect)
    value = value_of(data)
    if _is_answer(value):
        return _one(module.decode_response(value), dialect)
    return _conversation(module.decode(value))


def encode(conversation: Conversation, dialect: str, *, strict: bool = False, adapt: bool = True) -> Encoded:
    """The conversation in another format, and what that format could not say.

    In strict mode the first loss that is not mere bookkeeping is raised as Unsupported instead.
    """
    if dialect == SELF:
        return Encoded(plain(conversation), ())
    module = _dialect(dialect)
    losses: list[Loss] = list(_untold_branches(conversation)) if dialect in PROFILES else []
    if adapt and dialect in PROFILES and not _is_own(conversation, dialect):
        request = conversation.request()
        adapted = handover.adapt(request, dialect)
        body, said = module.encode(Conversation.of(adapted.request))
        found = Losses(lambda: _once([*losses, *adapted.losses], _seen_from(request, adapted, said)))
    else:
        body, said = module.encode(conversation)
        found = Losses(lambda: _once(losses, said))
    if strict:
        for loss in found:
            if loss.severity != "record":
                raise Unsupported(dialect, f"{loss.what}: {loss.why}", loss.path)
    return Encoded(body, found)


def convert(data: Any, to: str, dialect: str | None = None, *, strict: bool = False) -> Encoded:
    """`decode`, then `encode`."""
    return encode(decode(data, dialect), to, strict=strict)


def _once(first: Iterable[Loss], second: Iterable[Loss]) -> tuple[Loss, ...]:
    return tuple(dict.fromkeys([*first, *second]))


def _seen_from(source: Request, adapted: handover.Adapted, losses: Iterable[Loss]) -> Iterable[Loss]:
    """What an encoder lost of an adapted request, with the places that these things have in the source."""
    for loss in losses:
        match = _IN_MESSAGE.match(loss.path)
        if match is None:
            yield loss
            continue
        at, rest = int(match[1]), match[2]
        place = adapted.places[at]
        if place is None:
            continue  # added by adapting: the source never had it
        if adapted.request.context.messages[at] is not source.context.messages[place] and rest.startswith(".content"):
            rest = ".content"  # blocks have moved
        yield replace(loss, path=f"$.messages[{place}]{rest}")


_IN_MESSAGE = re.compile(r"\$\.messages\[(\d+)\](.*)", re.DOTALL)


def _dialect(name: str) -> Any:
    return dialect(name)


def _is_own(conversation: Conversation, name: str) -> bool:
    return conversation.model is not None and conversation.model.api == name


def _untold_branches(conversation: Conversation) -> Iterable[Loss]:
    """A request has room for one path through the tree."""
    path = {id(entry) for entry in conversation.path()}
    for at, entry in enumerate(conversation.entries):
        if id(entry) not in path:
            yield Loss(f"$.entries[{at}]", "branch", "not on the path to the head", "dropped")
        elif entry.id is not None or entry.parent_id is not None:
            yield Loss(f"$.entries[{at}].id", "id", "a request has no entry ids", "record")


def value_of(data: Any) -> Any:
    """JSON values: parsed if they are text, a list of them if the text is a line format."""
    if not isinstance(data, bytes | bytearray | str):
        return data
    try:
        return jsontext.read(data)
    except FormatError:
        lines = _lines(data)
        if lines is None:
            raise
        return Lines(lines)


def _lines(data: bytes | bytearray | str) -> list[Any] | None:
    # Not str.splitlines(): U+2028 may stand raw inside a JSON string.
    texts: list[Any] = [
        line for line in (data.split("\n") if isinstance(data, str) else data.split(b"\n")) if line.strip()
    ]
    if len(texts) < 2:
        return None
    values = []
    for number, line in enumerate(texts, 1):
        try:
            values.append(jsontext.read(line))
        except FormatError as error:
            if number == 1:
                return None
            raise BadWire("lines", f"line {number}: {error.message}") from None
    return values


# --- our own ---------------------------------------------------------------------------------------------------------


def _conversation(value: Any) -> Conversation:
    assert isinstance(value, Conversation)
    return value


def _decode_own(value: Any) -> Conversation:
    if isinstance(value, dict) and "role" in value:
        value = {"entries": [{"message": value}]}
    elif isinstance(value, list):
        value = {"entries": [{"message": message} for message in value]}
    return _conversation(build(value, Conversation))


# --- answers and recorded streams ------------------------------------------------------------------------------------


def _one(message: AssistantMessage, name: str) -> Conversation:
    return Conversation(entries=(Entry(message=message),), model=ModelDescriptor(id=message.model or "", api=name))


def _is_answer(value: Any) -> bool:
    return isinstance(value, dict) and any(test(value) for _, _, test in _ANSWERS)


def is_stream(data: bytes) -> bool:
    """Whether bytes are a recorded stream of server-sent events."""
    return _as_stream(data) is not None


def stands_alone(value: Any, name: str) -> bool:
    """Whether one JSON value is a whole conversation in this dialect, and not one line of a longer one."""
    if name == SELF or name in PROFILES:
        return True
    return not getattr(_dialect(name), "LINES", False)


def _as_stream(data: Any) -> bytes | None:
    """Recorded bytes of a stream, if that is what the data is."""
    if isinstance(data, str):
        data = data.encode("utf-8", "replace")
    if not isinstance(data, bytes | bytearray):
        return None
    head = bytes(data[:4096]).lstrip(b"\xef\xbb\xbf\r\n\t ")
    if head.startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return bytes(data)
    return None


def _decode_stream(data: bytes, name: str) -> AssistantMessage:
    module = _dialect(name)
    frames, decoder = module.framing("text/event-stream"), module.StreamDecoder()
    events = [event for frame in [*frames.feed(data), *frames.close()] for event in decoder.feed(frame)]
    return fold([*events, *decoder.close()])


# --- detecting -------------------------------------------------------------------------------------------------------


def _sniffers() -> Iterable[tuple[str, Callable[[Any], str | None]]]:
    """The most telling first: our own, the session files, then the wires from the least to the most common shape."""
    yield SELF, _sniff_own
    for name in DIALECTS:
        if name not in PROFILES:
            sniff = getattr(_dialect(name), "sniff", None)
            if sniff is not None:
                yield name, sniff
    for name, reason, test in (*_ANSWERS, *_REQUESTS):
        yield name, _telling(reason, test)


def _telling(reason: str, test: Callable[[Any], bool]) -> Callable[[Any], str | None]:
    def sniff(value: Any) -> str | None:
        try:
            return reason if test(value) else None
        except (KeyError, TypeError, AttributeError, IndexError):
            return None

    return sniff


def _sniff_own(value: Any) -> str | None:
    if isinstance(value, dict) and isinstance(value.get("entries"), list):
        return "an object with `entries`"
    return None


def _has(*keys: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(key in value for key in keys)


_ANSWERS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("google-generative-ai", "an answer with `candidates`", _has("candidates")),
    ("openai-completions", "an answer with `choices`", _has("choices")),
    ("openai-responses", "an answer with `output` items", lambda v: v.get("object") == "response" and "output" in v),
    ("bedrock-converse-stream", "an answer with `stopReason` beside `output`", _has("output", "stopReason")),
    ("anthropic-messages", "an answer of type `message`", lambda v: v.get("type") == "message" and "content" in v),
    ("ollama-chat", "an answer with `done` beside `message`", _has("message", "done")),
)


def _messages(value: Any) -> list[dict[str, Any]]:
    found = value.get("messages") if isinstance(value, dict) else value
    return [m for m in found if isinstance(m, dict)] if isinstance(found, list) else []


def _parts(value: Any) -> list[dict[str, Any]]:
    return [
        part
        for message in _messages(value)
        if isinstance(message.get("content"), list)
        for part in message["content"]
        if isinstance(part, dict)
    ]


def _is_bedrock(value: Any) -> bool:
    if isinstance(value, dict) and ("inferenceConfig" in value or "toolConfig" in value):
        return True
    parts = _parts(value)
    return bool(parts) and not any("type" in part for part in parts)


def _is_responses(value: Any) -> bool:
    if isinstance(value, dict):
        return "input" in value and "messages" not in value
    kinds = {"function_call", "function_call_output", "reasoning", "message", "item_reference"}
    return any(item.get("type") in kinds for item in _messages(value)) or any(
        part.get("type") in ("input_text", "output_text", "input_image", "input_file") for part in _parts(value)
    )


def _is_anthropic(value: Any) -> bool:
    if isinstance(value, dict) and "messages" in value and _says_anthropic(value):
        return True
    telling = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"}
    return any(
        part.get("type") in telling or (part.get("type") in ("image", "document") and "source" in part)
        for part in _parts(value)
    )


def _says_anthropic(body: dict[str, Any]) -> bool:
    if body.keys() & {"system", "anthropic_version", "stop_sequences", "mcp_servers", "output_config"}:
        return True
    if any(isinstance(tool, dict) and "input_schema" in tool for tool in body.get("tools") or ()):
        return True
    return "claude" in str(body.get("model")) and "max_tokens" in body and "stream_options" not in body


def _is_ollama(value: Any) -> bool:
    if (
        isinstance(value, dict)
        and "messages" in value
        and ("keep_alive" in value or isinstance(value.get("options"), dict))
    ):
        return True
    return any(
        isinstance(message.get("images"), list)
        or "tool_name" in message
        or any(
            isinstance(call.get("function", {}).get("arguments"), dict)
            for call in message.get("tool_calls") or ()
            if isinstance(call, dict)
        )
        for message in _messages(value)
    )


def _is_completions(value: Any) -> bool:
    known = {"system", "developer", "user", "assistant", "tool", "function"}
    messages = _messages(value)
    return bool(messages) and all(message.get("role") in known for message in messages)


def _is_contents(value: Any) -> bool:
    if isinstance(value, dict):
        return "contents" in value
    return any(isinstance(message.get("parts"), list) and "id" not in message for message in _messages(value))


_REQUESTS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("google-gemini-cli", "an envelope with `request.contents`", lambda v: "contents" in v["request"]),
    ("google-generative-ai", "`contents` with `parts`", _is_contents),
    ("openai-responses", "`input` items", _is_responses),
    ("bedrock-converse-stream", "content blocks without `type`", _is_bedrock),
    ("anthropic-messages", "Anthropic's content blocks or top-level `system`", _is_anthropic),
    ("ollama-chat", "Ollama's `options`, `images` or arguments as objects", _is_ollama),
    ("openai-completions", "messages with the chat roles", _is_completions),
)
