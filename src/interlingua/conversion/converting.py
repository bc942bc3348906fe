"""detect, decode, encode, convert: any format in, any format out, with what was lost.

`decode` takes a request body, a bare list of messages, an answer, a recorded stream or a session file. `encode` adapts
first when the target is another dialect than the conversation's own; what adapting cost is part of the losses.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from ..dialects import DIALECTS, FILES, WIRES
from ..dialects import dialect as find
from ..dialects.framing import SSE, Frame
from ..dialects.limits import PROFILES
from ..values import jsontext
from ..values.canonical import build, plain
from ..values.errors import BadWire, FormatError, InterlinguaError, Unsupported
from ..values.folding import fold
from ..values.losses import Encoded, Lines, Loss, Losses, extra_losses, off_path
from ..values.messages import AssistantMessage
from ..values.request import Conversation, Entry, ModelDescriptor, Request
from .adapting import adapter as handover

SELF = "interlingua"


class Detection(NamedTuple):
    """Which dialect some data is in, why we think so, and which others it could be."""

    dialect: str
    reason: str
    others: tuple[str, ...] = ()


def detect(data: Any) -> Detection | None:
    """What the data is, from its content alone; None when nothing fits."""
    found = dict(_findings(data))
    if not found:
        return None
    name, reason = next(iter(found.items()))
    return Detection(name, reason, tuple(found)[1:])


def decode(data: Any, dialect: str | None = None) -> Conversation:
    """The conversation in `data`: JSON values, text or bytes, in the named dialect or in the one that is detected."""
    if dialect is None:
        found = detect(data)
        if found is None:
            _refuse_several(value_of(data))  # which says what is wrong, if it is not even JSON
            raise BadWire("detect", f"no known format; name one: {', '.join(sorted(DIALECTS))}")
        dialect = found.dialect
    if dialect == SELF:
        value = value_of(data)
        _refuse_several(value)
        return _decode_own(value)
    module: Any = find(dialect)
    if dialect not in WIRES:
        try:
            return _conversation(module.decode(data))
        except BadWire:
            if not getattr(module, "LINES", False):
                _refuse_several(value_of(data))
            raise
    kind = _stream_kind(data)
    if kind is not None:
        framing = module.framing(kind)
        return _one(_received(module, [*framing.feed(_bytes(data)), *framing.close()]), dialect)
    value = value_of(data)
    _refuse_several(value)
    chunks = _chunks(value)
    if chunks is not None:
        return _one(_received(module, chunks), dialect)
    if any(PROFILES[name].api == PROFILES[dialect].api and _holds(test, value) for name, _, test in _ANSWERS):
        return _one(module.decode_response(value), dialect)
    return _conversation(module.decode(value))


def encode(conversation: Conversation, dialect: str, *, strict: bool = False, adapt: bool = True) -> Encoded:
    """The conversation in another format, and what that format could not say.

    In strict mode the first loss that is not mere bookkeeping is raised as Unsupported instead.
    """
    if dialect == SELF:
        return Encoded(plain(conversation), ())
    module = find(dialect)
    if dialect not in WIRES:
        body, losses = module.encode(conversation)
    else:
        body, losses = _encode_wire(conversation, dialect, adapt and not _is_own(conversation, dialect))
    if strict:
        for loss in losses:
            if loss.severity != "record":
                raise Unsupported(dialect, f"{loss.what}: {loss.why}", loss.path)
    return Encoded(body, losses)


def convert(data: Any, to: str, dialect: str | None = None, *, strict: bool = False) -> Encoded:
    """`decode`, then `encode`."""
    return encode(decode(data, dialect), to, strict=strict)


def _encode_wire(conversation: Conversation, name: str, adapting: bool) -> Encoded:
    module, branches = find(name), list(_unencoded_branches(conversation))
    if not adapting:
        body, given = module.encode(conversation)
        return Encoded(body, Losses(lambda: _once(branches, given)))
    adapted = handover.adapt(conversation.request(), name)
    body, given = module.encode(Conversation.of(adapted.request))
    return Encoded(body, Losses(lambda: _once(branches, adapted.losses, _seen_from(adapted, given))))


def _once(*losses: Iterable[Loss]) -> tuple[Loss, ...]:
    return tuple(dict.fromkeys(loss for some in losses for loss in some))


def _seen_from(adapted: handover.Adapted, losses: Iterable[Loss]) -> Iterator[Loss]:
    """What an encoder lost of an adapted request, with the places that these things have in the source."""
    for loss in losses:
        path = adapted.source(loss.path)
        if path is not None:  # what was added by adapting, the source never had
            yield loss if path == loss.path else replace(loss, path=path)


def _is_own(conversation: Conversation, name: str) -> bool:
    return conversation.model is not None and conversation.model.api == name


def _unencoded_branches(conversation: Conversation) -> Iterator[Loss]:
    """A request has room for one path through the tree."""
    path = {id(entry) for entry in conversation.path()}
    for at, entry in enumerate(conversation.entries):
        if id(entry) not in path:
            yield off_path(conversation, at, "not on the path to the head")
            continue
        for name, value in (("id", entry.id), ("parentId", entry.parent_id), ("parents", entry.parents)):
            if value:
                yield Loss(f"$.entries[{at}].{name}", "entry", "a request has no entries", "record")
        for owner, residual in entry.extra.items():
            yield from extra_losses(
                owner, residual, f"$.entries[{at}].extra.{owner}", "a request has no entries", "record"
            )
    if conversation.head is not None:
        yield Loss("$.head", "head", "a request has no branches", "record")


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
    if isinstance(value, dict) and "context" in value:
        return Conversation.of(build(value, Request))
    if isinstance(value, dict) and "role" in value:
        value = [value]
    if isinstance(value, list):
        value = {"entries": [{"message": message} for message in value]}
    return _conversation(build(value, Conversation))


def split(value: Any, name: str | None = None) -> list[Any]:
    """The conversations in one JSON document: an export or a log may hold many."""
    for known in [name] if name in FILES else FILES if name is None else ():
        parts = getattr(find(known), "split", lambda value: None)(value)
        if parts is not None:
            return list(parts)
    return [value]


# What a whole conversation has, and no message, item or block: these have a role or a type.
_WHOLE = ("messages", "contents", "input", "request", "context", "entries", "conversations", "nodes", "mapping")


def _refuse_several(value: Any) -> None:
    """Raises where a value is a list of whole conversations, or the lines of a file of them."""
    if isinstance(value, list) and len(value) > 1 and all(map(_is_whole, value)):
        raise BadWire(
            "decode",
            f"a list of {len(value)} conversations; decode each by itself, or use `interlingua convert IN -o FOLDER/`",
        )


def _is_whole(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(message, dict) and "role" in message for message in value)
    return isinstance(value, dict) and value.keys().isdisjoint(("role", "type")) and any(key in value for key in _WHOLE)


def stands_alone(value: Any, name: str) -> bool:
    """Whether one JSON value is a whole conversation in this dialect, and not one line of a longer one."""
    if name == SELF or name in WIRES:
        return True
    return not getattr(find(name), "LINES", False)


# --- answers and recorded streams ------------------------------------------------------------------------------------

EVENTS = "text/event-stream"
AWS = "application/vnd.amazon.eventstream"


def is_stream(data: Any) -> bool:
    """Whether data are a recorded stream: server-sent events, or AWS frames."""
    return _stream_kind(data) is not None


def _bytes(data: bytes | bytearray | str) -> bytes:
    return data.encode("utf-8", "replace") if isinstance(data, str) else bytes(data)


def _stream_kind(data: Any) -> str | None:
    if not isinstance(data, bytes | bytearray | str):
        return None
    head = _bytes(data[:4096])
    if head.lstrip(b"\xef\xbb\xbf\r\n\t ").startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return EVENTS
    # A frame begins with its length and that of its headers, a checksum, and the first header's name.
    size, headers = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:8], "big")
    return AWS if 16 <= headers + 16 <= size and b":" in head[12:14] and b"-type" in head[12:200] else None


def _chunks(value: Any) -> list[Frame] | None:
    """The frames of a stream that was recorded as JSON values: Ollama's lines, Google's array."""
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, dict) and ("candidates" in item or {"message", "done"} <= item.keys()) for item in value):
        return [Frame(jsontext.write(item)) for item in value]
    return None


def _received(module: Any, frames: Iterable[Frame]) -> AssistantMessage:
    decoder = module.StreamDecoder()
    events = [event for frame in frames for event in decoder.feed(frame)]
    return fold([*events, *decoder.close()])


def _one(message: AssistantMessage, name: str) -> Conversation:
    return Conversation(entries=(Entry(message=message),), model=ModelDescriptor(id=message.model or "", api=name))


# --- detecting -------------------------------------------------------------------------------------------------------

Test: TypeAlias = Callable[[Any], Any]


def _findings(data: Any) -> Iterator[tuple[str, str]]:
    """The most telling first: streams, our own, session files, answers, then requests from the rarest shape on."""
    kind = _stream_kind(data)
    if kind is not None:
        yield from _in_stream(_bytes(data), kind)
        return
    try:
        value = value_of(data)
    except InterlinguaError:
        return
    for name, reason, test in _OWN:
        if _holds(test, value):
            yield name, reason
    for name in DIALECTS:
        given = _holds(getattr(find(name), "sniff", None), value) if name not in WIRES else None
        if given:
            yield name, given
    for name, reason, test in (*_CHUNKS, *_ANSWERS, *_REQUESTS, *_PERHAPS):
        if _holds(test, value):
            yield name, reason


def _holds(test: Test | None, value: Any) -> Any:
    """What the test says of a value, which may be anything."""
    try:
        return test(value) if test is not None else None
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError):
        return None


def _in_stream(data: bytes, kind: str) -> Iterator[tuple[str, str]]:
    if kind == AWS:
        is_chunk = b":event-type\x07\x00\x05chunk" in data[:4096]
        name = "bedrock-invoke-anthropic" if is_chunk else "bedrock-converse-stream"
        yield name, "AWS frames of `chunk` events" if is_chunk else "AWS frames"
        return
    for frame in _first_frames(data):
        for name, reason, test in _STREAMED:
            if _holds(test, frame):
                yield name, f"a stream with {reason}"
        if any(_holds(test, frame) for _, _, test in _STREAMED):
            return


def _first_frames(data: bytes) -> Iterator[Any]:
    """What the first events say; comments, pings and errors tell nothing."""
    try:
        for frame in SSE().feed(data[: 1 << 20] + b"\n\n")[:20]:
            yield jsontext.read(frame.data) if frame.data.startswith(b"{") else None
    except InterlinguaError:
        return


def _has(*keys: str) -> Test:
    return lambda value: isinstance(value, dict) and all(key in value for key in keys)


_STREAMED: tuple[tuple[str, str, Test], ...] = (
    ("openai-responses", "`response.…` events", lambda v: v["type"].startswith("response.")),
    ("anthropic-messages", "`message_…` events", lambda v: v["type"].startswith(("message_", "content_block_"))),
    ("openai-completions", "chunks that have `choices`", _has("choices")),
    ("google-gemini-cli", "an envelope around `candidates`", lambda v: "candidates" in v["response"]),
    ("google-generative-ai", "chunks that have `candidates`", lambda v: v.keys() & {"candidates", "promptFeedback"}),
    ("google-vertex", "chunks that have `candidates`", lambda v: v.keys() & {"candidates", "promptFeedback"}),
)
_OWN: tuple[tuple[str, str, Test], ...] = (
    (SELF, "an object with `entries`", lambda v: isinstance(v["entries"], list)),
    (SELF, "a `model` beside a `context`", lambda v: isinstance(v["context"]["messages"], list) and "model" in v),
)
_CHUNKS: tuple[tuple[str, str, Test], ...] = (
    (
        "google-generative-ai",
        "an array of chunks that have `candidates`",
        lambda v: _chunks(v) and "candidates" in v[0],
    ),
    ("google-vertex", "an array of chunks that have `candidates`", lambda v: _chunks(v) and "candidates" in v[0]),
    ("ollama-chat", "lines with `message` and `done`", lambda v: _chunks(v) and "done" in v[0]),
)
_ANSWERS: tuple[tuple[str, str, Test], ...] = (
    ("google-gemini-cli", "an envelope around `candidates`", lambda v: "candidates" in v["response"]),
    ("google-generative-ai", "an answer with `candidates`", _has("candidates")),
    ("google-generative-ai", "an answer with `promptFeedback`", _has("promptFeedback")),
    ("google-vertex", "an answer with `candidates`", _has("candidates")),
    ("openai-completions", "an answer with `choices`", _has("choices")),
    ("openai-responses", "an answer with `output` items", lambda v: v["object"] == "response" and "output" in v),
    ("bedrock-converse-stream", "an answer with `stopReason` beside `output`", _has("output", "stopReason")),
    (
        "anthropic-messages",
        "an answer of type `message`",
        lambda v: v["type"] == "message" and "id" in v and "role" in v,
    ),
    ("ollama-chat", "an answer with `done` beside `message`", _has("message", "done")),
)


def _messages(value: Any) -> list[dict[str, Any]]:
    found = value.get("messages") if isinstance(value, dict) else value
    return [m for m in found if isinstance(m, dict)] if isinstance(found, list) else []


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    for message in _messages(value):
        if isinstance(message.get("content"), list):
            yield from (part for part in message["content"] if isinstance(part, dict))


def _is_contents(value: Any) -> bool:
    if isinstance(value, dict):
        return "contents" in value
    return any(isinstance(message.get("parts"), list) and "id" not in message for message in _messages(value))


_ITEM = re.compile(r".*_call(_output)?|reasoning|item_reference|compaction|additional_tools")
_ITEM_PARTS = ("input_text", "output_text", "input_image", "input_file")


def _is_responses(value: Any) -> bool:
    if isinstance(value, dict):
        return "messages" not in value and ("input" in value or isinstance(value.get("prompt"), dict))
    items = _messages(value)
    return any("role" not in item and _ITEM.fullmatch(str(item.get("type"))) for item in items) or any(
        part.get("type") in _ITEM_PARTS for part in _parts(value)
    )


_UNTYPED = frozenset(
    {
        "text", "image", "document", "video", "audio", "toolUse", "toolResult", "reasoningContent", "cachePoint",
        "guardContent", "citationsContent",
    }
)  # fmt: skip


def _is_bedrock(value: Any) -> bool:
    if isinstance(value, dict) and ("inferenceConfig" in value or "toolConfig" in value):
        return True
    parts = list(_parts(value))
    return bool(parts) and all("type" not in part and part.keys() & _UNTYPED for part in parts)


def _is_anthropic(value: Any) -> bool:
    roles = [message.get("role") for message in _messages(value)]
    if roles[:1] == ["system"] or not {"developer", "tool"}.isdisjoint(roles):
        return False
    return (isinstance(value, dict) and "messages" in value and _says_anthropic(value)) or any(
        map(_is_anthropic_part, _parts(value))
    )


def _is_anthropic_part(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    if kind == "thinking":
        return isinstance(part.get("thinking"), str)  # a list of chunks is Mistral's
    return kind in ("tool_use", "tool_result", "redacted_thinking", "server_tool_use") or (
        kind in ("image", "document") and "source" in part
    )


def _says_anthropic(body: dict[str, Any]) -> bool:
    if body.keys() & {"system", "anthropic_version", "stop_sequences", "mcp_servers", "output_config"}:
        return True
    if any(isinstance(tool, dict) and "input_schema" in tool for tool in body.get("tools") or ()):
        return True
    return "claude" in str(body.get("model")) and "max_tokens" in body and not body.keys() & _CHAT_ONLY


_CHAT_ONLY = {"stream_options", "max_completion_tokens", "response_format", "n", "store", "reasoning_effort"}


def _is_ollama(value: Any) -> bool:
    if isinstance(value, dict) and ("keep_alive" in value or isinstance(value.get("options"), dict)):
        return "messages" in value
    return any(map(_is_ollama_message, _messages(value)))


def _is_ollama_message(message: dict[str, Any]) -> bool:
    if isinstance(message.get("images"), list) or "tool_name" in message:
        return True
    calls = message.get("tool_calls")
    return any(isinstance(call["function"]["arguments"], dict) for call in calls or ())


def _roles(value: Any) -> set[Any]:
    return {message.get("role") for message in _messages(value)}


_CHAT_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))


def _is_chat(value: Any) -> bool:
    roles = _roles(value)
    return bool(roles) and roles <= _CHAT_ROLES


def _is_plain(value: Any, *roles: str) -> bool:
    """Messages of only these roles whose content is text: the shape that all chat wires share."""
    messages = _messages(value)
    return bool(messages) and _roles(value) <= set(roles) and all(map(_is_text, messages))


def _is_text(message: dict[str, Any]) -> bool:
    content = message.get("content")
    if isinstance(content, list):
        return all(isinstance(part, dict) and part.get("type") == "text" for part in content)
    return isinstance(content, str) and message.keys() == {"role", "content"}


_REQUESTS: tuple[tuple[str, str, Test], ...] = (
    ("google-gemini-cli", "an envelope with `request.contents`", lambda v: "contents" in v["request"]),
    ("google-generative-ai", "`contents` with `parts`", _is_contents),
    ("google-vertex", "`contents` with `parts`", _is_contents),
    ("openai-responses", "`input` items", _is_responses),
    ("bedrock-converse-stream", "content blocks without `type`", _is_bedrock),
    (
        "bedrock-invoke-anthropic",
        "an `anthropic_version` in the body",
        lambda v: "messages" in v and v["anthropic_version"].startswith("bedrock"),
    ),
    ("anthropic-messages", "Anthropic's content blocks or top-level `system`", _is_anthropic),
    ("ollama-chat", "Ollama's `options`, `images` or arguments as objects", _is_ollama),
    ("openai-completions", "messages with the chat roles", _is_chat),
)
# What a chat of nothing but words could be as well.
_PERHAPS: tuple[tuple[str, str, Test], ...] = (
    ("anthropic-messages", "plain messages", lambda v: _is_plain(v, "user", "assistant") and not _says(v, _CHAT_ONLY)),
    (
        "ollama-chat",
        "plain messages",
        lambda v: _is_plain(v, "system", "user", "assistant") and not _says(v, _CHAT_ONLY),
    ),
    (
        "openai-responses",
        "plain messages",
        lambda v: isinstance(v, list) and _is_plain(v, "system", "user", "assistant"),
    ),
    ("clawtools", "plain messages", lambda v: _is_plain(v, "user", "assistant") and not _says(v, {"model"})),
)


def _says(value: Any, keys: Iterable[str]) -> bool:
    return isinstance(value, dict) and bool(value.keys() & set(keys))
