"""Traces of OpenTelemetry with calls of models in them: spans in one of three vocabularies, in one of two shapes.

A span's attributes name what was asked and answered as the GenAI conventions do (`gen_ai.input.messages`, or their
events), as OpenLLMetry does (`gen_ai.prompt.0.role`), or as OpenInference does (`llm.input_messages.0.message.role`).
Attributes are an object, flat or nested, or OTLP's list of keys and typed values. One trace is one conversation: that
of its last call of a model outside of sub-agents, whose input is the history up to there. Messages alone, as the
conventions write them (`role` and `parts`), are read too.
opentelemetry.io/docs/specs/semconv/gen-ai, arize-ai.github.io/openinference/spec
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, FormatError
from ...values.messages import (
    AssistantMessage,
    Block,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    Usage,
)
from ...values.request import Conversation, Entry, ModelDescriptor
from ..codec import ANSWER, USER
from ..residual import fields_of, number, optional, reading
from ..wire import ListedSession, Parts, RecordLists, Rows, SessionStream
from . import new_messages, templates
from .line_sessions import ReadAgain, Reader, TemplateStream, read
from .reading import Pairing, by_keys, document_of, image_of, result_content, several
from .records import milliseconds, usual_milliseconds

API = "otel"


# --- spans -----------------------------------------------------------------------------------------------------------


class _Span:
    """One span, whichever way it is written."""

    def __init__(self, wire: dict[str, Any]) -> None:
        self._wire = wire
        given = wire.get("attributes")
        self.attributes = _flat(given if type(given) is dict else _attributes(given))

    def like(self, attributes: dict[str, Any]) -> "_Span":
        """The same span with other attributes, and without events."""
        return _Span({**self._wire, "attributes": attributes, "events": ()})

    @property
    def id(self) -> Any:
        wire = self._wire
        return _first(wire, "span_id", "spanId") or _first(_context(wire), "span_id", "spanId") or _first(wire, "id")

    @property
    def parent(self) -> Any:
        return _first(self._wire, "parent_id", "parentSpanId", "parent_span_id", "parentId")

    @property
    def start(self) -> int | None:
        return _moment(_first(self._wire, "start_time", "startTime", "startTimeUnixNano", "start_time_unix_nano"))

    @property
    def end(self) -> int | None:
        return _moment(_first(self._wire, "end_time", "endTime", "endTimeUnixNano", "end_time_unix_nano"))

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        given = self._wire.get("events")
        return [
            (str(event.get("name")), _flat(_attributes(event.get("attributes"))))
            for event in (given if isinstance(given, list) else ())
            if isinstance(event, dict)
        ]

    @property
    def is_model_call(self) -> bool:
        kind = self.attributes.get("openinference.span.kind")
        if kind:
            return str(kind).upper() == "LLM"
        operation = self.attributes.get("gen_ai.operation.name")
        if operation is not None:
            return operation in ("chat", "generate_content", "text_completion")
        return any(key.startswith(_CALL_KEYS) for key in self.attributes) or any(
            name.startswith("gen_ai.") for name, _ in self.events
        )

    @property
    def model(self) -> str | None:
        for name in _MODELS:
            found = self.attributes.get(name)
            if found and isinstance(found, str):
                return found
        return None

    def usage(self) -> Usage | None:
        """Decodes usage; in all three conventions the input includes cache reads and writes."""
        attributes = self.attributes
        counts: dict[str, int] = {}
        for name in by_keys(_counted, attributes):
            if type(attributes[name]) is int:
                counts.setdefault(_COUNTS[name], attributes[name])
        if "input" not in counts and "output" not in counts:
            return None
        read, written = counts.get("read", 0), counts.get("written", 0)
        fresh = max(counts.get("input", 0) - read - written, 0)
        return Usage.of(
            fresh,
            counts.get("output", 0),
            cache_read=read,
            cache_write=written,
            reasoning=counts.get("reasoning"),
        )


_MODELS = ("gen_ai.response.model", "llm.model_name", "gen_ai.request.model", "llm.request.model")
_CALL_KEYS = (
    "llm.input_messages",
    "llm.output_messages",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.prompt",
    "gen_ai.completion",
)
_COUNTS = {
    "gen_ai.usage.input_tokens": "input",
    "gen_ai.usage.prompt_tokens": "input",
    "llm.token_count.prompt": "input",
    "gen_ai.usage.output_tokens": "output",
    "gen_ai.usage.completion_tokens": "output",
    "llm.token_count.completion": "output",
    "gen_ai.usage.cache_read.input_tokens": "read",
    "gen_ai.usage.cache_read_input_tokens": "read",
    "llm.token_count.prompt_details.cache_read": "read",
    "gen_ai.usage.cache_creation.input_tokens": "written",
    "gen_ai.usage.cache_creation_input_tokens": "written",
    "llm.token_count.prompt_details.cache_write": "written",
    "gen_ai.usage.reasoning.output_tokens": "reasoning",
    "llm.token_count.completion_details.reasoning": "reasoning",
}


@functools.lru_cache(500)
def _counted(names: tuple[str, ...]) -> list[str]:
    return list(filter(frozenset(names).__contains__, _COUNTS))


def _context(wire: dict[str, Any]) -> dict[str, Any]:
    return fields_of(wire.get("context")) or fields_of(wire.get("spanContext"))


def _first(wire: Mapping[str, Any], *keys: str) -> Any:
    for key in keys:
        if key in wire:
            found = wire[key]
            if found is not None and found != "":
                return found
    return None


def _moment(value: Any) -> int | None:
    """ISO 8601, seconds, milliseconds or nanoseconds, the last also as text, or seconds and nanoseconds."""
    if value is None:
        return None
    usual = usual_milliseconds(value)
    if usual is not None:
        return usual
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, int) for part in value):
        return int(value[0] * 1000 + value[1] // 1_000_000)
    if isinstance(value, str) and value.isdigit() and len(value) < 30:
        value = int(value)
    given = number(value)
    if given is None or given != given or abs(given) > 1e20:
        return milliseconds(value)
    scale = next((scale for limit, scale in ((1e17, 1e-6), (1e14, 1e-3), (1e11, 1)) if abs(given) > limit), 1000)
    return round(given * scale)


def _attributes(wire: Any) -> dict[str, Any]:
    """Attributes as an object; OTLP has a list of keys and typed values."""
    if isinstance(wire, dict):
        return wire
    items = wire if isinstance(wire, list) else []
    return {item["key"]: _typed(item.get("value")) for item in items if isinstance(fields_of(item).get("key"), str)}


def _typed(value: Any) -> Any:
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "intValue" and isinstance(inner, str) and inner.lstrip("-").isdigit() and len(inner) < 30:
        return int(inner)
    if kind == "arrayValue":
        return [_typed(item) for item in fields_of(inner).get("values") or ()]
    if kind == "kvlistValue":
        return _attributes(fields_of(inner).get("values"))
    return inner


def _flat(attributes: dict[str, Any]) -> dict[str, Any]:
    """Nested attributes under joined names; lists of messages stay as they are."""
    for name, item in attributes.items():
        if (type(item) is dict or type(item) is list) and name not in _WHOLE:
            break
    else:
        return attributes
    found: dict[str, Any] = {}
    _add_leaves("", attributes, found)
    return found


def _add_leaves(prefix: str, value: Any, found: dict[str, Any]) -> None:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            name = f"{prefix}.{key}" if prefix else str(key)
            if isinstance(item, (dict, list)) and name not in _WHOLE:
                _add_leaves(name, item, found)
            else:  # most are
                found[name] = item
    elif isinstance(value, list) and prefix.endswith(("_messages", "tool_calls", "message.contents")):
        for at, item in enumerate(value):
            _add_leaves(f"{prefix}.{at}", item, found)
    else:
        found[prefix] = value


_WHOLE = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions")


# --- messages --------------------------------------------------------------------------------------------------------


def _messages_of(span: _Span, pairs: Pairing) -> tuple[list[Any], list[Any]]:
    """What was asked and what was answered, in the vocabulary that the span has."""
    attributes = span.attributes
    if not attributes.keys().isdisjoint(_WHOLE):
        system = _instruction(_json(attributes[_WHOLE[2]])) if _WHOLE[2] in attributes else None
        given, given_back = _listed(attributes.get(_WHOLE[0])), _listed(attributes.get(_WHOLE[1]))
        asked = [message for item in given for message in _genai(item, pairs, span, False)]
        answered = [message for item in given_back for message in _genai(item, pairs, span, True)]
        return [system, *asked] if system else asked, answered
    if any(key.startswith(("llm.input_messages.", "llm.output_messages.")) for key in attributes):
        asked = [_inference(item, pairs, span, False) for item in _numbered(attributes, "llm.input_messages.")]
        answered = [_inference(item, pairs, span, True) for item in _numbered(attributes, "llm.output_messages.")]
        return asked, answered
    if any(key.startswith(("gen_ai.prompt.", "gen_ai.completion.")) for key in attributes):
        asked = [_llmetry(item, pairs, span, False) for item in _numbered(attributes, "gen_ai.prompt.")]
        answered = [_llmetry(item, pairs, span, True) for item in _numbered(attributes, "gen_ai.completion.")]
        return asked, answered
    return _in_events(span, pairs)


def _numbered(attributes: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Objects whose fields stand in attributes of their number: `prefix.0.field`."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(prefix):
            at, _, field = key[len(prefix) :].partition(".")
            if at.isdigit() and len(at) < 9:
                found.setdefault(int(at), {})[field] = value
    return [found[at] for at in sorted(found)]


def _made(role: Any, blocks: list[Block], span: _Span, answered: bool, stop: Any = None) -> Any:
    """A message of a role; the answer of the span has its model, its usage and its time."""
    if role in ("system", "developer"):
        return SystemMessage(content=tuple(blocks), developer=role == "developer")
    if answered:
        return replace(
            ANSWER,
            extra={},
            content=tuple(blocks),
            model=span.model,
            usage=span.usage(),
            timestamp=span.end or span.start,
            stop_detail=optional(stop),
        )
    return replace(ANSWER if role in ("assistant", "model", "ai") else USER, extra={}, content=tuple(blocks))


def _inference(item: dict[str, Any], pairs: Pairing, span: _Span, answered: bool) -> Any:
    """A message in the vocabulary of OpenInference."""
    item = {key.removeprefix("message."): value for key, value in item.items()}
    blocks: list[Block] = [TextBlock(text=item["content"])] if isinstance(item.get("content"), str) else []
    for part in _numbered(item, "contents."):
        text = part.get("message_content.text")
        thought = part.get("message_content.type") in ("reasoning", "thinking")
        url = part.get("message_content.image.image.url")
        if isinstance(text, str):
            blocks.append(ThinkingBlock(thinking=text) if thought else TextBlock(text=text))
        elif (found := image_of(url)) is not None:
            blocks.append(found)
    if item.get("role") == "tool":
        return pairs.result(item.get("tool_call_id"), item.get("name"), tuple(blocks))
    for call in _numbered(item, "tool_calls."):
        name, given = call.get("tool_call.function.name"), call.get("tool_call.function.arguments")
        blocks.append(pairs.call(call.get("tool_call.id"), name, given))
    return _made(item.get("role"), blocks, span, answered)


def _llmetry(item: dict[str, Any], pairs: Pairing, span: _Span, answered: bool) -> Any:
    """A message in the vocabulary of OpenLLMetry."""
    content = item.get("content")
    parts = _json(content) if isinstance(content, str) and content[:1] == "[" else None
    blocks: list[Block] = []
    if isinstance(parts, list) and parts and all(isinstance(part, dict) and "type" in part for part in parts):
        blocks += _blocks(parts, pairs)
    elif isinstance(content, str) and content:
        blocks.append(TextBlock(text=content))
    if item.get("role") == "tool":
        return pairs.result(item.get("tool_call_id"), item.get("name"), tuple(blocks))
    for call in _numbered(item, "tool_calls."):
        blocks.append(pairs.call(call.get("id"), call.get("name"), call.get("arguments")))
    return _made(item.get("role"), blocks, span, answered, item.get("finish_reason"))


def _genai(item: Any, pairs: Pairing, span: _Span, answered: bool) -> list[Any]:
    """A message in the vocabulary of the conventions: a role and its parts, results among them."""
    item = fields_of(item)
    blocks: list[Block] = []
    results: list[Any] = []
    given = item.get("parts") if "parts" in item else item.get("content")
    for part in given if isinstance(given, list) else [given]:
        if type(part) is dict and part.get("type") == "text" and type(part.get("content")) is str:  # most are
            blocks.append(TextBlock(text=part["content"]))
            continue
        found = _part(part, pairs)
        if found is not None:
            (results if isinstance(found, ToolResultMessage) else blocks).append(found)
    if blocks or not results:
        results.append(_made(item.get("role"), blocks, span, answered, item.get("finish_reason")))
    return results


def _part(part: Any, pairs: Pairing) -> Any:
    """A block or a result; None for an empty part."""
    if isinstance(part, str):
        return TextBlock(text=part)
    part = fields_of(part)
    kind, content = part.get("type"), part.get("content")
    text = content if isinstance(content, str) else part.get("text")
    if kind in ("text", None) and isinstance(text, str):
        return TextBlock(text=text)
    if kind in ("reasoning", "thinking") and isinstance(text, str):
        return ThinkingBlock(thinking=text)
    if kind == "tool_call":
        return pairs.call(part.get("id"), part.get("name"), part.get("arguments"))
    if kind == "tool_call_response":
        value = next((part[key] for key in ("response", "result", "content") if key in part), None)
        content = result_content(value, API) if isinstance(value, str | list | None) else jsontext.compact(value)
        return pairs.result(part.get("id"), part.get("name"), content)
    if kind in ("blob", "uri", "file", "image_url") and part.get("modality", "image") == "image":
        source = {"data": content, "mime_type": part.get("mime_type")} if kind == "blob" else part
        source = part.get("uri") if kind == "uri" else part.get("image_url") if kind == "image_url" else source
        return image_of(source) or OpaqueBlock(dialect=API, value=part)
    return OpaqueBlock(dialect=API, value=part) if part else None


def _blocks(parts: list[Any], pairs: Pairing) -> list[Block]:
    """The blocks among parts, without results."""
    found = [_part(part, pairs) for part in parts]
    return [block for block in found if block is not None and not isinstance(block, ToolResultMessage)]


def _instruction(value: Any) -> SystemMessage | None:
    parts = value if isinstance(value, list) else [value]
    texts = [part if isinstance(part, str) else fields_of(part).get("content") for part in parts]
    blocks = tuple(TextBlock(text=text) for text in texts if isinstance(text, str))
    return SystemMessage(content=blocks) if blocks else None


def _in_events(span: _Span, pairs: Pairing) -> tuple[list[Any], list[Any]]:
    """Messages in events, as the conventions had it before they were attributes."""
    asked: list[Any] = []
    answers: list[Any] = []
    for name, event in span.events:
        if name == "gen_ai.client.inference.operation.details":
            return _messages_of(span.like({**span.attributes, **event}), pairs)
        kind = name.removeprefix("gen_ai.").removesuffix(".message")
        body = _json(event.get("body") or event.get("gen_ai.event.content") or event.get("event_body")) or event
        if kind in ("user", "system", "assistant", "tool"):
            asked.append(_chat({"role": kind, **fields_of(body)}, pairs, span, False))
        elif kind == "choice":
            message = fields_of(_json(fields_of(body).get("message"))) or fields_of(body)
            answers.append(_chat({"role": "assistant", **message}, pairs, span, True))
        elif name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            answered = name.endswith("completion")
            given = _json(event.get("gen_ai.completion" if answered else "gen_ai.prompt"))
            for item in given if isinstance(given, list) else ():
                (answers if answered else asked).append(_chat(fields_of(item), pairs, span, answered))
    return asked, answers


def _chat(item: dict[str, Any], pairs: Pairing, span: _Span, answered: bool) -> Any:
    """A message in the style of chat completions."""
    content = item.get("content")
    blocks = _blocks(content if isinstance(content, list) else [content], pairs)
    if item.get("role") == "tool":
        return pairs.result(item.get("tool_call_id") or item.get("id"), item.get("name"), tuple(blocks))
    for call in _listed(item.get("tool_calls")):
        function = fields_of(fields_of(call).get("function")) or fields_of(call)
        blocks.append(pairs.call(fields_of(call).get("id"), function.get("name"), function.get("arguments")))
    return _made(item.get("role"), blocks, span, answered)


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return jsontext.read(value)
    except FormatError:
        return None


def _listed(value: Any) -> list[Any]:
    found = _json(value) if type(value) is str else value
    return found if isinstance(found, list) else []


# --- traces ----------------------------------------------------------------------------------------------------------


def _spans_in(value: Any) -> Iterator[dict[str, Any]]:
    """The spans of a file: a list or lines of them, OTLP's resource spans, or these in lines."""
    if isinstance(value, list):
        for item in value:
            if type(item) is dict and item.keys().isdisjoint(_OUTER):  # most are
                if _is_span(item):
                    yield item
            else:
                yield from _spans_in(item)
    elif isinstance(value, dict):
        outer = None
        if not value.keys().isdisjoint(_OUTER):
            outer = next((key for key in _OUTER if isinstance(value.get(key), list)), None)
        if outer is not None:
            yield from _spans_in(value[outer])
        elif _is_span(value):
            yield value


_FIRST = 64  # items of a trace among which a span is
_OUTER = (
    "resourceSpans",
    "resource_spans",
    "scopeSpans",
    "scope_spans",
    "instrumentationLibrarySpans",
    "spans",
)


def _is_span(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("attributes"), (dict, list)):
        return False
    if not isinstance(value.get("name"), str):
        return False
    return bool(value.get("trace_id")) or _first(value, "trace_id", "context", "spanId", "span_id") is not None


def _is_trace(value: Any) -> bool:
    if isinstance(value, list) and next(_spans_in(value[:_FIRST]), None) is None:
        return False  # nothing further is looked at: other sessions have many lines
    return any(_Span(span).is_model_call for span in _spans_in(value))


def _is_messages(value: Any) -> bool:
    """Messages as the conventions write them: roles with typed parts."""
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


def _is_message(value: Any) -> bool:
    parts = value.get("parts") if isinstance(value, dict) and isinstance(value.get("role"), str) else None
    return (
        isinstance(parts, list)
        and "id" not in value
        and all(
            isinstance(part, dict)
            and isinstance(part.get("type"), str)
            and ("content" in part or part["type"] in ("tool_call", "tool_call_response"))
            for part in parts
        )
    )


def _is_call(value: Any) -> bool:
    """The attributes of one call alone."""
    return isinstance(value, dict) and any(_is_messages(_json(value.get(key))) for key in _WHOLE[:2])


def split(value: Any) -> list[Any] | None:
    """The traces of a file, if there are several."""
    if _is_messages(value):
        return None
    if isinstance(value, list) and len(value) > 1 and all(map(_is_call, value)):
        return value
    return several(PARTS, list(_spans_in(value)))


def _traces(header: Any, lists: RecordLists) -> Iterator[Any]:
    """The spans of each trace with calls of models."""
    for trace, found in lists.grouped(_trace_in, *([""] if isinstance(header, list) else _SPANS)).items():
        spans = found if trace is not None else list(filter(_is_span, found))
        for span in spans:
            if _Span(span).is_model_call:
                yield spans
                break


def _trace_in(record: Any) -> Any:
    """The id of a span's trace; None for what is no span."""
    if _is_span(record):
        return _first(record, "trace_id", "traceId") or _first(_context(record), "trace_id", "traceId")
    if next(_spans_in(record), None) is not None:
        raise BadWire(API, "expected spans, not lists of them")
    return None


_SPANS = tuple(
    f"{outer}..{inner}..spans"
    for outer, inner in itertools.product(
        ("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
    )
)
PARTS = Parts(_traces, ("", *_SPANS))


def _conversation(calls: list[_Span], spans: list[_Span]) -> Conversation:
    """The last call outside of sub-agents; before it what it was asked, with the models and times of earlier calls."""
    outer = calls if len(calls) == 1 else _outer(calls, spans)
    last = outer[-1]
    pairs = Pairing()
    asked, answered = _messages_of(last, pairs)
    answers = {_key(message): message for span in outer[:-1] for message in _messages_of(span, Pairing())[1]}
    asked = [answers.get(_key(message), message) for message in asked] if answers else asked
    system = asked.pop(0) if asked and isinstance(asked[0], SystemMessage) else None
    model = last.model
    texts = tuple(block for block in system.content or () if isinstance(block, TextBlock)) if system else None
    return Conversation(
        entries=tuple([Entry(message=message) for message in (*asked, *answered)]),
        system=texts[0].text if texts is not None and len(texts) == 1 else texts or None,
        model=ModelDescriptor(id=model) if model else None,
    )


def _outer(calls: list[_Span], spans: list[_Span]) -> list[_Span]:
    """The calls outside of sub-agents, in the order of their times."""
    by_id = {span.id: span for span in spans}
    depths = {span.id: _depth(span, by_id) for span in calls}
    top = min(depths.values())
    return sorted((span for span in calls if depths[span.id] == top), key=lambda span: span.start or 0)


def _key(message: Any) -> Any:
    """What an answer has in common with its repetition in a later request."""
    if not isinstance(message, AssistantMessage):
        return id(message)
    return message.text, tuple((call.id, call.name) for call in message.tool_calls)


def _depth(span: _Span, spans: Mapping[Any, _Span]) -> int:
    """How many agents and tools a span is inside of."""
    depth, seen = 0, {span.id}
    while (found := spans.get(span.parent)) is not None and found.id not in seen:
        seen.add(found.id)
        span = found
        depth += 1
    return depth


class _Reader(Reader):
    """Reads messages alone."""

    def entries(self, records: Iterable[Any]) -> Iterator[Entry]:
        span, pairs = _Span({}), Pairing()
        return (Entry(message=message) for item in records for message in _genai(item, pairs, span, False))


@reading(API)
def decode(data: Any) -> Conversation:
    """One trace, the attributes of one call, or messages alone."""
    body = document_of(data, API)
    if _is_messages(body):
        return templates.keep(read(_Reader(), body), body, API)
    spans = [_Span(span) for span in _spans_in(body)] or ([_Span({"attributes": body})] if _is_call(body) else [])
    calls = [span for span in spans if span.is_model_call]
    if not calls:
        raise BadWire(API, "expected spans with calls of models, or their messages")
    return templates.keep(_conversation(calls, spans), body, API)


@reading(API)
def listed(header: Any, messages: ReadAgain) -> SessionStream | None:
    """Messages alone, one entry at a time."""
    return TemplateStream(_Reader(), messages, API, "") if all(map(_is_message, messages())) else None


def detect(value: Any) -> str | None:
    """Whether a document holds spans with calls of models, or messages of the conventions."""
    if _is_messages(value):
        return "messages of a `role` and typed `parts` with `content`"
    if _is_call(value) or (isinstance(value, list) and value and all(map(_is_call, value))):
        return "`gen_ai.input.messages` or `gen_ai.output.messages`"
    return "spans with calls of models" if _is_trace(value) else None


FORMAT = templates.file_format(
    API,
    decode,
    detect=detect,
    split=split,
    parts=PARTS,
    lines=True,
    rank=25,
    write=lambda conversation: new_messages.otel(conversation, decode),
    rows=Rows(last_apart=True),
    listed=ListedSession(("",), listed),
)
