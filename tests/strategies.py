"""Values of the format with everything in them, for tests that must hold whatever is said.

`requests` and its parts are wild: anything the types allow. `wellformed_requests` are conversations as providers accept
them, and `answers` are messages as a model gives them. `own` is the name of the dialect under test: only then do blocks
and extras of that dialect occur; those of others occur everywhere.
"""

import base64
import json
import random
import string as letters
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from interlingua.dialects import WIRES
from interlingua.values.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    BlockEnd,
    BlockStart,
    Done,
    Error,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from interlingua.values.folding import parse_arguments
from interlingua.values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    Block,
    CacheMarker,
    Citation,
    Content,
    Cost,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ReplyPayload,
    ServerToolCall,
    ServerToolResult,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from interlingua.values.request import (
    Context,
    Conversation,
    Entry,
    ModelCost,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    ToolChoice,
    ToolSpec,
)

T = TypeVar("T")

# --- text, numbers, JSON ---------------------------------------------------------------------------------------------

ODD_TEXTS = (
    "",
    " ",
    "\n",
    "\x00",
    "\u2028\u2029",
    "\ufeff",
    "\ufffd",
    "🙂👩‍👩‍👧",
    "שלום עולם",
    "\u202eright to left",
    "e\u0301 is not \u00e9",
    "\U0010ffff",
    '"quoted" \\ud800 \\n',
    "null",
    "NaN",
    "{}",
    "data: x\n\nevent: y\r\n",
    "[DONE]",
    "data:image/png;base64,AAAA",
    "~",
)
HUGE = (2**53 + 1, -(2**53) - 1, 2**63, 2**64, -(2**64) - 1, 10**30)


@cache
def texts(max_size: int = 8) -> SearchStrategy[str]:
    """Any valid Unicode text: no unpaired surrogates, everything else."""
    anything = st.text(st.characters(codec="utf-8"), max_size=max_size)
    return st.one_of(st.text(letters.ascii_letters, max_size=max_size), st.sampled_from(ODD_TEXTS), anything)


@cache
def identifiers() -> SearchStrategy[str]:
    """Short plain words, for names that no format is particular about."""
    return st.sampled_from(["a", "b", "read_file", "get-weather", "x_1", "Ω", "a.b", "two words"])


@cache
def integers() -> SearchStrategy[int]:
    return st.one_of(st.integers(0, 100), st.sampled_from(HUGE), st.integers())


@cache
def counts() -> SearchStrategy[int]:
    return st.one_of(st.integers(0, 10_000), st.sampled_from([0, 2**53 + 1]))


@cache
def numbers() -> SearchStrategy[float | int]:
    return st.one_of(st.integers(0, 2), finite())


@cache
def finite() -> SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False)


_SCALARS: SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), integers(), finite(), texts())


def _around(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.one_of(_SCALARS, st.lists(inner, max_size=3), st.dictionaries(texts(4), inner, max_size=3))


_SHALLOW = _around(_SCALARS)
_NESTED = _around(_SHALLOW)


@cache
def json_values() -> SearchStrategy[Any]:
    """Any JSON value, a few levels deep."""
    return _NESTED


@cache
def json_objects() -> SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts(4), _NESTED, max_size=3)


@cache
def deep_objects(most: int = 100) -> SearchStrategy[dict[str, Any]]:
    """One object in another, up to `most` levels; lists in between."""
    return st.integers(1, most).map(nested)


def nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 3 == 1 and level < levels - 1 else {"in": value}
    return value if isinstance(value, dict) else {"in": value}


@cache
def arguments() -> SearchStrategy[dict[str, Any]]:
    return st.one_of(json_objects(), json_objects(), json_objects(), deep_objects())


@cache
def schemas() -> SearchStrategy[dict[str, Any]]:
    """JSON Schemas of an object."""
    kinds = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"enum": [1, None]}, {"anyOf": [{}, True]}])
    properties = st.dictionaries(identifiers(), kinds, max_size=2)
    plain = st.builds(lambda p: {"type": "object", "properties": p, "required": sorted(p)}, properties)
    more = st.fixed_dictionaries({"$ref": st.just("#/$defs/A"), "$defs": st.just({"A": {"const": {"a": [1.5]}}})})
    return st.one_of(plain, plain, more, st.just({}))


@cache
def base64_data() -> SearchStrategy[str]:
    """Base64 as people send it: padded, unpadded, URL-safe, broken into lines. All of it must come back as it was."""
    proper = st.binary(max_size=9).map(lambda raw: base64.b64encode(raw).decode())
    return st.one_of(proper, proper, st.sampled_from(["", "QQ", "a-_b", "QUJD\nREVG", "/+8="]))


@cache
def ids() -> SearchStrategy[str]:
    """Ids of calls: few, so that they repeat; also none, long ones, and ones that no provider mints."""
    return st.sampled_from(["call_1", "call_2", "toolu_01ABC", "", "fc|rs_" + "x" * 450, "id with ünicode\n", "call_0"])


# --- building structs ------------------------------------------------------------------------------------------------


def sparse(
    cls: Callable[..., T],
    needed: Mapping[str, SearchStrategy[Any]],
    may: Mapping[str, SearchStrategy[Any]],
    most: int = 3,
) -> SearchStrategy[T]:
    """Values of `cls` with the fields of `needed` and up to `most` of those in `may`.

    Few fields at a time keeps drawing fast and counterexamples short; over many examples all pairs occur.
    """
    names = sorted(may)
    chosen = st.lists(st.sampled_from(names), unique=True, max_size=most)

    @st.composite
    def build(draw: st.DrawFn) -> T:
        fields = {name: draw(strategy) for name, strategy in needed.items()}
        for name in draw(chosen):
            fields[name] = draw(may[name])
        return cls(**fields)

    return build()


@cache
def unknown_keys() -> SearchStrategy[dict[str, Any]]:
    """What one wire says and no format models."""
    return st.dictionaries(st.sampled_from(["x_note", "x_a", "x_ü"]), _SHALLOW, min_size=1, max_size=2)


@cache
def extras(own: str | None = None) -> SearchStrategy[dict[str, Any]]:
    """What only one dialect can say, mostly of another dialect than `own`."""
    others = sorted({*WIRES, "some-other", "interlingua"} - {own or ""})
    foreign = st.dictionaries(st.sampled_from(others), unknown_keys(), min_size=1, max_size=2)
    if own is None:
        return foreign
    return st.one_of(unknown_keys().map(lambda residual: {own: residual}), foreign)


# --- blocks ----------------------------------------------------------------------------------------------------------


@cache
def cache_markers(own: str | None = None) -> SearchStrategy[CacheMarker]:
    return sparse(CacheMarker, {}, {"ttl": st.sampled_from(["5m", "1h", ""]), "extra": extras(own)}, most=2)


@cache
def citations(own: str | None = None) -> SearchStrategy[Citation]:
    may: dict[str, SearchStrategy[Any]] = dict.fromkeys(("title", "url", "cited_text"), texts())
    return sparse(Citation, {}, {**may, "start": counts(), "end": counts(), "extra": extras(own)}, most=4)


@cache
def text_blocks(own: str | None = None) -> SearchStrategy[TextBlock]:
    return sparse(
        TextBlock,
        {"text": texts()},
        {
            "text_signature": texts(),
            "citations": st.lists(citations(own), min_size=1, max_size=2).map(tuple),
            "refusal": st.just(True),
            "cache": cache_markers(own),
            "extra": extras(own),
        },
        most=2,
    )


@cache
def thinking_blocks(own: str | None = None) -> SearchStrategy[ThinkingBlock]:
    return sparse(
        ThinkingBlock,
        {"thinking": texts()},
        {"thinking_signature": texts(), "redacted": st.just(True), "extra": extras(own)},
    )


_IMAGES = st.sampled_from(["image/png", "image/jpeg", "image/svg+xml"])
_SOUNDS = st.sampled_from(["audio/wav", "audio/mpeg", "audio/ogg"])
_FILES = st.sampled_from(["application/pdf", "text/plain", "text/csv", "video/mp4", "application/octet-stream"])
_URLS = st.sampled_from(["https://example.org/a.png?b=ü#c", "gs://bucket/a", "data:image/png;base64,AAAA", ""])


def _media(mime: SearchStrategy[str], own: str | None) -> dict[str, SearchStrategy[Any]]:
    files = st.sampled_from(["file_1", "files/abc", ""])
    return {
        "data": base64_data(),
        "mime_type": mime,
        "url": _URLS,
        "file_id": files,
        "cache": cache_markers(own),
        "extra": extras(own),
    }


@cache
def image_blocks(own: str | None = None) -> SearchStrategy[ImageBlock]:
    may = {**_media(_IMAGES, own), "detail": st.sampled_from(["low", "auto", "huge"])}
    return st.one_of(
        sparse(ImageBlock, {"data": base64_data(), "mime_type": _IMAGES}, may), sparse(ImageBlock, {}, may)
    )


@cache
def audio_blocks(own: str | None = None) -> SearchStrategy[AudioBlock]:
    may = {**_media(_SOUNDS, own), "transcript": texts()}
    return st.one_of(
        sparse(AudioBlock, {"data": base64_data(), "mime_type": _SOUNDS}, may), sparse(AudioBlock, {}, may)
    )


@cache
def document_blocks(own: str | None = None) -> SearchStrategy[DocumentBlock]:
    may = {
        **_media(_FILES, own),
        "text": texts(),
        "title": texts(),
        "context": texts(),
        "citations": st.booleans(),
    }
    whole = sparse(DocumentBlock, {"data": base64_data(), "mime_type": _FILES}, may)
    return st.one_of(whole, sparse(DocumentBlock, {}, may))


ARGUMENT_TEXTS = ("", " ", "{ }", '{"a": 1}', '{"a":1,"a":2}', '{"a":1', "[1]", "null", "nonsense", '{"a":1e2}', "{}{}")


@cache
def tool_calls(own: str | None = None, *identities: str) -> SearchStrategy[ToolCall]:
    """Calls with their arguments as an object, or spelled in some odd way, or broken."""
    needed = {"id": st.sampled_from(identities) if identities else ids(), "name": identifiers()}
    may = {"thought_signature": texts(), "cache": cache_markers(own), "extra": extras(own)}
    plain = sparse(ToolCall, {**needed, "arguments": arguments()}, may, most=2)
    spelled = sparse(_spelled, {**needed, "spelled": argument_texts()}, may, most=2)
    return st.one_of(plain, spelled)


@cache
def argument_texts() -> SearchStrategy[str]:
    """Arguments as some models spell them."""
    return st.one_of(st.sampled_from(ARGUMENT_TEXTS), arguments().map(json.dumps))


def _spelled(spelled: str, **fields: Any) -> ToolCall:
    parsed, text, error = parse_arguments(spelled)
    return ToolCall(arguments=parsed, arguments_text=text, parse_error=error, **fields)


@cache
def server_tool_calls(own: str | None = None) -> SearchStrategy[ServerToolCall]:
    may = {"arguments": json_values(), "cache": cache_markers(own), "extra": extras(own)}
    return sparse(ServerToolCall, {"id": ids(), "name": st.sampled_from(["web_search", "code_execution"])}, may)


@cache
def server_tool_results(own: str | None = None) -> SearchStrategy[ServerToolResult]:
    return sparse(
        ServerToolResult,
        {
            "tool_call_id": ids(),
            "tool_name": st.sampled_from(["web_search", "code_execution"]),
            "dialect": st.sampled_from([own or "some-other", "some-other"]),
        },
        {
            "content": json_values(),
            "is_error": st.just(True),
            "cache": cache_markers(own),
            "extra": extras(own),
        },
    )


@cache
def opaque_blocks(own: str | None = None) -> SearchStrategy[OpaqueBlock]:
    """Blocks that are not modelled: of another dialect, or of `own` with a type that it does not know."""
    unknown = unknown_keys().map(lambda residual: {"type": "x_unknown", **residual})
    return st.builds(OpaqueBlock, dialect=st.sampled_from([own or "some-other", "some-other"]), value=unknown)


@cache
def blocks(own: str | None = None) -> SearchStrategy[Block]:
    return st.one_of(
        text_blocks(own),
        thinking_blocks(own),
        image_blocks(own),
        audio_blocks(own),
        document_blocks(own),
        tool_calls(own),
        server_tool_calls(own),
        server_tool_results(own),
        opaque_blocks(own),
    )


@cache
def contents(own: str | None = None, most: int = 3) -> SearchStrategy[Content]:
    several = st.lists(blocks(own), max_size=most).map(tuple)
    return st.one_of(several, several, several, texts(), st.none())


# --- messages --------------------------------------------------------------------------------------------------------


@cache
def costs() -> SearchStrategy[Cost]:
    parts = dict.fromkeys(("input", "output", "cache_read", "cache_write"), numbers())
    return sparse(Cost, {"total": numbers()}, parts)


@cache
def usages(own: str | None = None) -> SearchStrategy[Usage]:
    needed = dict.fromkeys(("input", "output", "cache_read", "cache_write", "total_tokens"), counts())
    return sparse(Usage, needed, {"cost": costs(), "reasoning": counts(), "extra": extras(own)})


@cache
def user_messages(own: str | None = None) -> SearchStrategy[UserMessage]:
    return sparse(UserMessage, {"content": contents(own)}, {"timestamp": integers(), "extra": extras(own)}, most=1)


@cache
def assistant_messages(own: str | None = None) -> SearchStrategy[AssistantMessage]:
    strings = ("provider", "model", "stop_detail", "error_message", "response_id", "response_model")
    return sparse(
        AssistantMessage,
        {"content": contents(own)},
        {
            **dict.fromkeys(strings, texts()),
            "api": st.sampled_from(sorted(WIRES)),
            "usage": usages(own),
            "stop_reason": st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]),
            "timestamp": integers(),
            "extra": extras(own),
        },
    )


@cache
def tool_result_messages(own: str | None = None) -> SearchStrategy[ToolResultMessage]:
    return sparse(
        ToolResultMessage,
        {"tool_call_id": ids(), "content": contents(own), "is_error": st.booleans()},
        {
            "tool_name": identifiers(),
            "details": json_values(),
            "timestamp": integers(),
            "cache": cache_markers(own),
            "extra": extras(own),
        },
    )


@cache
def system_messages(own: str | None = None) -> SearchStrategy[SystemMessage]:
    may = {"developer": st.just(True), "timestamp": integers(), "extra": extras(own)}
    return sparse(SystemMessage, {"content": contents(own)}, may, most=1)


@cache
def custom_messages() -> SearchStrategy[CustomMessage]:
    """Roles that no wire and no version of ours knows."""
    roles = st.sampled_from(["bashExecution", "x_role", "bränch"])
    return st.builds(CustomMessage, role=roles, fields=unknown_keys())


@cache
def messages(own: str | None = None) -> SearchStrategy[AgentMessage]:
    return st.one_of(
        user_messages(own),
        assistant_messages(own),
        tool_result_messages(own),
        system_messages(own),
        custom_messages(),
    )


# --- requests --------------------------------------------------------------------------------------------------------


@cache
def models(own: str | None = None, api: str | None = None) -> SearchStrategy[ModelDescriptor]:
    costs_of = st.builds(ModelCost, input=numbers(), output=numbers(), cache_read=numbers(), cache_write=numbers())
    return sparse(
        ModelDescriptor,
        {"id": st.sampled_from(["", "claude-x", "gpt/5", "model with spaces", "モデル"])},
        {
            "name": texts(),
            "api": st.sampled_from([api or "some-other", own or "some-other", "some-other"]),
            "provider": texts(),
            "base_url": texts(),
            "reasoning": st.booleans(),
            "input": st.just(("text", "image")),
            "cost": costs_of,
            "context_window": counts(),
            "max_tokens": counts(),
            "headers": st.just({"x-a": "b"}),
            "extra": extras(own),
        },
        most=2,
    )


@cache
def tool_specs(own: str | None = None) -> SearchStrategy[ToolSpec]:
    ours = sparse(
        ToolSpec,
        {"name": identifiers()},
        {
            "description": texts(),
            "input_schema": schemas(),
            "strict": st.booleans(),
            "cache": cache_markers(own),
            "extra": extras(own),
        },
    )
    value = unknown_keys().map(lambda residual: {"type": "x_search", **residual})
    theirs = st.builds(ToolSpec, name=st.just("x_search"), dialect=st.just("some-other"), value=value)
    return st.one_of(ours, ours, ours, theirs)


@cache
def systems(own: str | None = None) -> SearchStrategy[Any]:
    return st.one_of(st.none(), texts(), st.lists(text_blocks(own), max_size=2).map(tuple))


@cache
def options(own: str | None = None) -> SearchStrategy[Options]:
    effort = st.sampled_from(["minimal", "low", "medium", "high", "xhigh", "some other word"])
    reasoning = sparse(
        Reasoning,
        {},
        {
            "effort": effort,
            "budget": counts(),
            "enabled": st.booleans(),
            "summary": st.sampled_from(["auto", "detailed"]),
            "extra": extras(own),
        },
    )
    choice = sparse(
        ToolChoice,
        {"mode": st.sampled_from(["auto", "none", "required"])},
        {"names": st.lists(identifiers(), max_size=2).map(tuple), "extra": extras(own)},
    )
    schema = sparse(
        OutputSchema,
        {},
        {
            "schema": schemas(),
            "name": identifiers(),
            "description": texts(),
            "strict": st.booleans(),
            "extra": extras(own),
        },
        most=4,
    )
    return sparse(
        Options,
        {},
        {
            "max_tokens": counts(),
            "temperature": numbers(),
            "top_p": numbers(),
            "top_k": counts(),
            "stop": st.lists(texts(), max_size=2).map(tuple),
            "seed": counts(),
            "reasoning": reasoning,
            "tool_choice": choice,
            "parallel_tools": st.booleans(),
            "output_schema": schema,
            "cache_retention": st.sampled_from(["none", "short", "long"]),
            "session_id": texts(),
            "service_tier": st.sampled_from(["auto", "default", "flex", "some other word"]),
            "metadata": st.dictionaries(st.sampled_from(["user_id", "trace", ""]), _SCALARS, max_size=2),
            "stream": st.booleans(),
            "extra": extras(own),
        },
        most=5,
    )


@cache
def contexts(own: str | None = None, most: int = 4) -> SearchStrategy[Context]:
    return sparse(
        Context,
        {"messages": st.lists(messages(own), max_size=most).map(tuple)},
        {
            "system": systems(own),
            "tools": st.lists(tool_specs(own), max_size=2).map(tuple),
            "system_role": st.sampled_from(["developer", "system"]),
            "extra": extras(own),
        },
    )


@cache
def requests(own: str | None = None, api: str | None = None, most: int = 4) -> SearchStrategy[Request]:
    """Anything that the types allow. `api` is the dialect's name where it is a variant of `own`."""
    may = {"options": options(own), "extra": extras(own)}
    return sparse(Request, {"model": models(own, api), "context": contexts(own, most)}, may, most=2)


@cache
def entries() -> SearchStrategy[Entry]:
    ids_of = st.sampled_from(["1", "2", "3", ""])
    further = st.lists(ids_of, min_size=1, max_size=2, unique=True).map(tuple)
    may = {"id": ids_of, "parent_id": ids_of, "parents": further, "extra": extras()}
    return sparse(Entry, {"message": messages()}, may)


@cache
def conversations() -> SearchStrategy[Conversation]:
    return sparse(
        Conversation,
        {"entries": st.lists(entries(), max_size=3).map(tuple)},
        {
            "head": st.sampled_from(["1", "2", "nowhere"]),
            "system": systems(),
            "tools": st.lists(tool_specs(), max_size=2).map(tuple),
            "model": models(),
            "options": options(),
            "system_role": st.just("developer"),
            "extra": extras(),
        },
    )


@cache
def reply_payloads() -> SearchStrategy[ReplyPayload]:
    urls = st.lists(texts(), max_size=2).map(tuple)
    may: dict[str, SearchStrategy[Any]] = dict.fromkeys(("text", "media_url", "reply_to_id"), texts())
    return sparse(ReplyPayload, {}, {**may, "media_urls": urls, "is_error": st.booleans(), "extra": extras()})


# --- conversations as providers accept them --------------------------------------------------------------------------

_NAME = letters.ascii_letters + letters.digits + "_"


@cache
def _proper_id() -> SearchStrategy[str]:
    return st.text(_NAME, min_size=1, max_size=40)


@cache
def _proper_text() -> SearchStrategy[str]:
    return st.one_of(
        st.sampled_from(["Hello!", "What is on this picture?", "שלום, what's up 🙂", 'One\ntwo\tthree \\ "four"']),
        st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=20).map(lambda t: f"a{t}z"),
    )


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel


@cache
def wellformed_requests(
    *, images: bool = True, thinking: bool = False, turns: int = 3, own: str | None = None, tools: bool = True
) -> SearchStrategy[Request]:
    """Conversations that a provider accepts: turns alternate, every call is answered once, ids are unique.

    `thinking` adds signed thinking of `own` before the answers. Nothing of other dialects occurs; max_tokens is set.
    """
    return _wellformed(images=images, thinking=thinking, turns=turns, own=own, tools=tools)


@st.composite
def _wellformed(draw: st.DrawFn, *, images: bool, thinking: bool, turns: int, own: str | None, tools: bool) -> Request:
    names = draw(st.lists(st.text(_NAME, min_size=1, max_size=20), min_size=1, max_size=3, unique=True))
    unique = iter(draw(st.lists(_proper_id(), min_size=2 * turns, max_size=2 * turns, unique=True)))
    chosen: list[Any] = []
    for _ in range(draw(st.integers(1, turns))):
        chosen.append(UserMessage(content=draw(_proper_content(images))))
        calls = draw(st.integers(0, 2)) if tools else 0
        made = [
            ToolCall(id=next(unique), name=draw(st.sampled_from(names)), arguments=draw(json_objects()))
            for _ in range(calls)
        ]
        if made:
            chosen.append(AssistantMessage(content=(*draw(_proper_thoughts(thinking)), *made), api=own))
            chosen += [draw(_proper_result(call, images)) for call in made]
        chosen.append(AssistantMessage(content=(TextBlock(text=draw(_proper_text())),), api=own))
    chosen.append(UserMessage(content=draw(_proper_text())))
    specs = tuple(
        ToolSpec(name=name, description=draw(_proper_text()), input_schema={"type": "object", "properties": {}})
        for name in names
    )
    return Request(
        model=ModelDescriptor(id="some-model", api=own or ""),
        context=Context(
            system=draw(st.one_of(st.none(), _proper_text())), messages=tuple(chosen), tools=specs if tools else None
        ),
        options=draw(_proper_options(names if tools else [])),
    )


@st.composite
def scattered_requests(draw: st.DrawFn, own: str | None = None) -> Request:
    """Conversations whose turns are spread over several assistant messages, with results anywhere: before, between,
    long after their calls, twice or not at all. Each result says `result N`, once in the conversation.
    """
    chosen: list[Any] = []
    calls: list[ToolCall] = []
    for _ in range(draw(st.integers(1, 7))):
        if draw(st.integers(0, 3)) == 0:
            chosen.append(UserMessage(content=draw(st.sampled_from(["Go on.", " "]))))
            continue
        made = [
            ToolCall(id=_id(draw, len(calls) + n), name=draw(st.sampled_from(["look", "ask"])), arguments={"n": n})
            for n in range(draw(st.integers(0, 2)))
        ]
        calls += made
        blocks: tuple[Block, ...] = (*draw(_proper_thoughts(True)), *draw(st.sampled_from([(), (_SPOKEN,)])), *made)
        api = draw(st.sampled_from([own, own, "openai-responses", None]))
        reason = draw(
            st.sampled_from([None, "toolUse", "length", *(["error", "aborted"] if len(chosen) % 3 == 0 else [])])
        )
        chosen.append(AssistantMessage(content=blocks, api=api, stop_reason=reason))  # type: ignore[arg-type]
    answered = draw(st.lists(st.sampled_from(calls), max_size=2 * len(calls))) if calls else []
    for number, call in enumerate(answered):
        result = ToolResultMessage(
            tool_call_id=call.id,
            tool_name=draw(st.sampled_from([call.name, None])),
            content=(TextBlock(text=f"result {number}."),),
            is_error=draw(st.booleans()),
        )
        behind = next(at for at, message in enumerate(chosen) if call in getattr(message, "tool_calls", ())) + 1
        chosen.insert(draw(st.sampled_from([behind, len(chosen), draw(st.integers(0, len(chosen)))])), result)
    reasoning = draw(st.sampled_from([None, Reasoning(), Reasoning(effort="low"), Reasoning(budget=2000)]))
    return Request(
        model=ModelDescriptor(id="", api=own or ""),
        context=Context(messages=tuple(chosen)),
        options=Options(max_tokens=4000, reasoning=reasoning),
    )


# Calls and results in the words of wires that people mix, with the blocks and messages around them.
_CALLS: tuple[Callable[[str], dict[str, Any]], ...] = (
    lambda id: {"content": [{"type": "tool_use", "id": id, "name": "look", "input": {"n": 1}}]},
    lambda id: {"content": [{"type": "text", "text": "x"}, {"type": "function_call", "call_id": id, "name": "look"}]},
    lambda id: {"content": None, "tool_calls": [{"id": id, "function": {"name": "look", "arguments": "{}"}}]},
    lambda id: {"content": "I will.", "toolCalls": [{"id": id, "name": "look", "arguments": {"n": 1}}]},
    lambda id: {"content": [{"toolUse": {"toolUseId": id, "name": "look", "input": {}}}]},
)
_RESULTS: tuple[Callable[[str, str], dict[str, Any]], ...] = (
    lambda id, text: {"role": "tool", "tool_call_id": id, "content": text},
    lambda id, text: {"role": "tool", "toolCallId": id, "content": [{"type": "text", "text": text}]},
    lambda id, text: {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]},
    lambda id, text: {
        "role": "user",
        "content": [
            {"type": "text", "text": "And?"},
            {"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": text}], "is_error": True},
        ],
    },
    lambda id, text: {"role": "user", "content": [{"type": "function_call_output", "call_id": id, "output": text}]},
    lambda id, text: {"role": "user", "content": [{"toolResult": {"toolUseId": id, "content": [{"text": text}]}}]},
)


@st.composite
def mistaken_messages(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Messages with calls and results in other wires' words; the result of `call_N` says `result N`."""
    wire: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 4))):
        call, result = draw(st.sampled_from(_CALLS)), draw(st.sampled_from(_RESULTS))
        wire += [{"role": "user", "content": "Go on."}] if draw(st.booleans()) else []
        wire += [{"role": "assistant", **call(f"call_{number}")}, result(f"call_{number}", f"result {number}.")]
    return wire


_SPOKEN = TextBlock(text="I will look.")


def _id(draw: st.DrawFn, number: int) -> str:
    """Mostly an id of its own; the id that generated ones begin with, now and then."""
    return "call_0" if draw(st.integers(0, 4)) == 0 else f"call_{number}"


@st.composite
def _proper_content(draw: st.DrawFn, images: bool) -> Content:
    if draw(st.booleans()):
        return draw(_proper_text())
    picture = ImageBlock(data=PNG, mime_type="image/png")
    more = (picture,) if images and draw(st.booleans()) else ()
    return (TextBlock(text=draw(_proper_text())), *more)


@st.composite
def _proper_thoughts(draw: st.DrawFn, thinking: bool) -> tuple[Block, ...]:
    if not thinking or draw(st.booleans()):
        return ()
    signature = base64.b64encode(draw(st.binary(min_size=8, max_size=16))).decode()
    return (ThinkingBlock(thinking=draw(_proper_text()), thinking_signature=signature),)


@st.composite
def _proper_result(draw: st.DrawFn, call: ToolCall, images: bool) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id, tool_name=call.name, content=draw(_proper_content(images)), is_error=draw(st.booleans())
    )


@st.composite
def _proper_options(draw: st.DrawFn, names: list[str]) -> Options:
    choices = [None, ToolChoice(mode="auto"), ToolChoice(mode="required"), ToolChoice(mode="none")]
    if names:
        choices.append(ToolChoice(mode="required", names=(names[0],)))
    return Options(
        max_tokens=draw(st.integers(1, 4096)),
        temperature=draw(st.one_of(st.none(), st.floats(0, 1))),
        stop=draw(st.one_of(st.none(), st.just(("STOP",)))),
        tool_choice=draw(st.sampled_from(choices)) if names else None,
        stream=draw(st.one_of(st.none(), st.booleans())),
    )


# --- answers ---------------------------------------------------------------------------------------------------------


@cache
def messages_for_answers(own: str | None = None) -> SearchStrategy[AssistantMessage]:
    """Messages as a model gives them: the stop reason agrees with the content, and nothing failed."""
    return sparse(
        _answer,
        {"content": st.lists(_answer_blocks(own), max_size=4).map(tuple), "cut": st.booleans()},
        {
            "response_id": st.sampled_from(["msg_1", "chatcmpl-ü"]),
            "model": st.sampled_from(["some-model", "モデル"]),
            "usage": usages(),
            "extra": extras(),
        },
        most=4,
    )


def _answer(content: tuple[Block, ...], cut: bool, **fields: Any) -> AssistantMessage:
    called = any(isinstance(block, ToolCall) for block in content)
    return AssistantMessage(content=content, stop_reason="length" if cut else "toolUse" if called else "stop", **fields)


@cache
def _answer_blocks(own: str | None) -> SearchStrategy[Block]:
    plain = st.builds(TextBlock, text=texts(20))
    thought = sparse(ThinkingBlock, {"thinking": texts(20)}, {"thinking_signature": base64_data()})
    sealed = base64_data().map(lambda data: ThinkingBlock(thinking="", thinking_signature=data, redacted=True))
    call = tool_calls(own, "call_1", "call_2", "toolu_01ABC", "")
    rare = st.one_of(blocks(own), sealed, opaque_blocks(own))
    return st.one_of(plain, plain, thought, call, call, rare)


# --- events ----------------------------------------------------------------------------------------------------------


@cache
def stream_events() -> SearchStrategy[StreamEvent]:
    """Single events of every kind; for the events of a whole stream see `interlingua.values.folding.unfold`."""
    index = st.integers(0, 5)
    finished = assistant_messages()
    good, bad = st.sampled_from(["stop", "length", "toolUse"]), st.sampled_from(["error", "aborted"])
    return st.one_of(
        st.builds(Start, st.one_of(st.none(), finished)),
        st.builds(TextStart, index, st.one_of(st.none(), text_blocks())),
        st.builds(TextDelta, index, texts()),
        st.builds(TextEnd, index, texts(), st.one_of(st.none(), text_blocks())),
        st.builds(ThinkingStart, index, st.one_of(st.none(), thinking_blocks())),
        st.builds(ThinkingDelta, index, texts()),
        st.builds(ThinkingEnd, index, texts(), st.one_of(st.none(), thinking_blocks())),
        st.builds(ToolCallStart, index, st.one_of(st.none(), tool_calls())),
        st.builds(ToolCallDelta, index, texts()),
        st.builds(ToolCallEnd, index, tool_calls()),
        st.builds(BlockStart, index),
        st.builds(BlockEnd, index, blocks()),
        st.builds(Done, good, finished),
        st.builds(Error, bad, finished),
    )


@cache
def agent_events() -> SearchStrategy[AgentEvent]:
    message = st.one_of(user_messages(), assistant_messages(), tool_result_messages())
    results = st.lists(tool_result_messages(), max_size=2).map(tuple)
    return st.one_of(
        st.builds(AgentStart),
        st.builds(AgentEnd, st.lists(message, max_size=2).map(tuple)),
        st.builds(TurnStart),
        st.builds(TurnEnd, message, results),
        st.builds(MessageStart, message),
        st.builds(MessageUpdate, stream_events(), message),
        st.builds(MessageEnd, message),
        st.builds(ToolExecutionStart, ids(), identifiers(), json_values()),
        st.builds(ToolExecutionUpdate, ids(), identifiers(), json_values(), json_values()),
        st.builds(ToolExecutionEnd, ids(), identifiers(), json_values(), st.booleans()),
    )


# --- wires -----------------------------------------------------------------------------------------------------------


@st.composite
def with_unknown_fields(draw: st.DrawFn, wire: Any) -> Any:
    """The wire with one to three unknown keys in any of its objects, at any depth."""
    copy = json.loads(json.dumps(wire))
    objects = list(_objects(copy))
    for at, key, value in draw(_INSERTED):
        if objects:
            objects[at % len(objects)][key] = value
    return copy


_INSERTED = st.lists(
    st.tuples(st.integers(0, 1000), st.sampled_from(["x_new", "x_", "x_ü y"]), _SHALLOW), min_size=1, max_size=3
)


_MAPS = ("headers", "nodes", "mapping")  # objects whose keys are data, so that any key means something


def _objects(value: Any) -> Any:
    """The objects in a value to which a newer version of its format might add a key."""
    if isinstance(value, dict):
        yield value
        for key, item in list(value.items()):
            if key in _MAPS and isinstance(item, dict):
                yield from _objects(list(item.values()))
            else:
                yield from _objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


def mutated(wire: Any, most: int = 3) -> SearchStrategy[Any]:
    """The wire with some of its nodes deleted, replaced by anything, or turned into a near relation."""
    return st.tuples(st.integers(0, 2**32), st.integers(1, most), st.lists(json_values(), min_size=1, max_size=2)).map(
        lambda drawn: _mutated(wire, random.Random(drawn[0]), drawn[1], drawn[2])
    )


def _mutated(wire: Any, chance: random.Random, times: int, values: list[Any]) -> Any:
    copy = json.loads(json.dumps({"": wire}))
    for _ in range(times):
        places = list(_places(copy))
        if not places:
            break
        holder, key = chance.choice(places)
        match chance.randrange(4):
            case 0 if holder is not copy:
                del holder[key]
            case 1:
                holder[key] = json.loads(json.dumps(chance.choice(values)))  # a copy: no value may end up inside itself
            case 2:
                holder[key] = _retyped(holder[key], chance)
            case _:
                other, other_key = chance.choice(places)
                holder[key] = json.loads(json.dumps(other[other_key]))
    return copy[""]


def _places(value: Any) -> Any:
    keys: Any = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _retyped(value: Any, chance: random.Random) -> Any:
    return chance.choice([None, True, [value], {"type": value}, str(value), 0, -1, 1.5, "", [], {}])


def json_bytes(value: Any) -> bytes:
    """JSON text by the standard library, so that our own writer does not vouch for itself."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
