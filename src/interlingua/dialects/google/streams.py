"""Streamed answers: decoding and encoding.

The first part of a chunk continues the text of the chunk before if it is of the same kind, unless that was signed; all
other parts are separate. An empty signed part is the signature of the text before it; a signed part with text is a
separate part. ai.google.dev/gemini-api/docs/thought-signatures
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias

from ...values import jsontext
from ...values.errors import ProviderError
from ...values.events import StreamEvent, TextDelta
from ...values.losses import QUIET
from ...values.messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall
from ..framing import Frame, json_line, write_sse
from ..residual import RESPONSE, Ids, put_back, residual_of, string
from ..streaming import Decoder, Encoder
from .content import decode_block, decode_call, decode_text, decoder_of, encode_block, with_citations
from .facts import (
    API,
    CANDIDATE,
    CODES,
    ENVELOPE,
    PLAIN,
    STOP_REASONS,
    decode_error,
    encode_error,
    error_body,
    has_envelope,
)
from .responses import (
    block_reason,
    decode_answer,
    decode_envelope,
    decode_usage,
    encode_answer,
    encode_envelope,
    encode_response,
    first_candidate,
    wire_stop_reason,
    with_envelope,
)

# Streamed arguments (`partialArgs`): values of JSON paths, such as `$.place.name` = "Bos", to be continued.
#
# Together they are an object and, while they come in document order, the fragments of its JSON text.


Path: TypeAlias = list[str | int]

_VALUES = ("stringValue", "numberValue", "boolValue")  # else `nullValue`
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


class _Pieces(list[str]):
    """The fragments of a string."""


class PartialArguments:
    """Accumulates the arguments of one call, in constant time per fragment."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._at: Path = []  # path of the last value in the text
        self._in_string = False
        self._orderly = True

    def add(self, piece: dict[str, Any]) -> str:
        """Adds a fragment; returns its JSON text."""
        # Vertex AI, PartialArg: a JSON path (RFC 9535), the value in one of four fields, and `willContinue` if more of
        # it follows.
        path = _steps(piece["jsonPath"])
        value = next((piece[key] for key in _VALUES if key in piece), None)
        continues = isinstance(value, str) and bool(piece.get("willContinue"))
        if self._in_string and isinstance(value, str) and path == self._at:
            self._found(path).append(value)
            self._in_string = continues
            return self._encoded(jsontext.compact(value)[1:-1] + ("" if continues else '"'))
        container, step = self._container(path), path[-1]
        if _has(container, step):
            return self._repeat(container, step, value)
        text = self._text_between(path)
        _put(container, step, value)
        self._at, self._in_string = path, continues
        spelled = jsontext.compact(value)
        return self._encoded(text + (spelled[:-1] if continues else spelled))

    def rest(self) -> str:
        """The end of the text."""
        if not self._at:
            return ""
        return self._encoded(('"' if self._in_string else "") + _closers(self._at))

    def value(self) -> dict[str, Any]:
        """All arguments so far."""
        return _joined(self._root)  # type: ignore[no-any-return]

    def _encoded(self, text: str) -> str:
        return text if self._orderly else ""

    def _repeat(self, container: Any, step: Any, value: Any) -> str:
        """A repeated path: strings are appended, other values replaced. The JSON text cannot express it and ends."""
        if isinstance(value, str) and isinstance(container[step], _Pieces):
            container[step].append(value)
            if not value:
                return ""
        else:
            container[step] = _Pieces([value]) if isinstance(value, str) else value
        self._orderly = False
        return ""

    def _text_between(self, path: Path) -> str:
        """The JSON text between two values: closing brackets, comma, opening brackets and keys."""
        depth = 0
        while depth < min(len(path), len(self._at)) and path[depth] == self._at[depth]:
            depth += 1
        text = '"' if self._in_string else ""
        text += _closers(self._at[depth + 1 :]) + "," if self._at else "{"
        for at in range(depth, len(path)):
            step = path[at]
            if isinstance(step, str):
                text += jsontext.compact(step) + ":"
            if at + 1 < len(path):
                text += "{" if isinstance(path[at + 1], str) else "["
        return text

    def _container(self, path: Path) -> Any:
        """The parent object or list of a path; missing ones are created."""
        place: Any = self._root
        for step, following in pairwise(path):
            if not _has(place, step):
                _put(place, step, {} if isinstance(following, str) else [])
            place = place[step]
        if isinstance(place, _Pieces) or not isinstance(place, dict if isinstance(path[-1], str) else list):
            raise TypeError(f"{path} is inside a value")
        return place

    def _found(self, path: Path) -> Any:
        place: Any = self._root
        for step in path:
            place = place[step]
        return place


def _has(container: Any, step: Any) -> bool:
    return step in container if isinstance(container, dict) else step < len(container)


def _put(container: Any, step: Any, value: Any) -> None:
    stored = _Pieces([value]) if isinstance(value, str) else value
    if isinstance(container, dict):
        container[step] = stored
    elif step == len(container):
        container.append(stored)
    else:
        raise IndexError(f"item {step} of a list of {len(container)}")


def _steps(path: str) -> Path:
    """`$.a[0].b` as `["a", 0, "b"]`."""
    steps: Path = []
    at = 1
    while found := _STEP.match(path, at):
        steps.append(int(found[2]) if found[2] else found[1] or found[3] or found[4] or "")
        at = found.end()
    if at < len(path) or not path.startswith("$") or not steps or isinstance(steps[0], int):
        raise ValueError(f"invalid argument path {path!r}")
    return steps


def _closers(path: Path) -> str:
    return "".join("}" if isinstance(step, str) else "]" for step in reversed(path))


def _joined(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {key: _joined(inner) for key, inner in value.items()}
    return list(map(_joined, value)) if isinstance(value, list) else value


class StreamDecoder(Decoder):
    """Decodes the frames of a streamed answer. Every chunk is a response that continues the one before."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._wrapped = has_envelope(self._quirks)
        self._ids = Ids(self._mint)
        self._shell: dict[str, Any] = {}  # the wire's answer without candidates
        self._outer: dict[str, Any] = {}  # the fields beside it in the envelope
        self._candidate: dict[str, Any] = {}  # the first candidate
        self._others: dict[Any, dict[str, Any]] = {}  # the other candidates, by index
        self._part: dict[str, Any] | None = None  # the open text part without its text
        self._kind: type[Block] | None = None  # kind of the open text, if the next chunk may continue it
        self._call: _StreamedCall | None = None
        self._key = -1  # of the newest block

    def _read(self, value: Any, frame: Frame) -> None:
        if self._wrapped:
            value = self._unwrapped(value)
        if not self._shell:
            self._begin(value)
        # Each chunk has the counts so far, not their growth: the last one is right.
        self._shell.update(value)
        candidates = value.get("candidates")
        if candidates:
            if len(candidates) == 1 and len(self._others) == 0:
                self._read_candidate(candidates[0])
            else:
                self._read_candidates(candidates)
        elif "error" in value:
            self._failed(decode_error(0, value))

    def _unwrapped(self, value: Any) -> Any:
        inner = value.get("response")
        if not isinstance(inner, dict):
            return value
        self._outer.update(value)
        return inner

    def _begin(self, value: dict[str, Any]) -> None:
        if "error" not in value:
            self._record.note(**decode_envelope(value, self._given))
            self._record.begin()

    def _read_candidates(self, candidates: list[dict[str, Any]]) -> None:
        for at, candidate in enumerate(candidates):
            index = candidate.get("index", at)
            if index == self._candidate.get("index", 0):
                self._read_candidate(candidate)
            else:
                _merge_candidate(self._others.setdefault(index, {}), candidate)

    def _read_candidate(self, candidate: dict[str, Any]) -> None:
        index = candidate.get("index")
        if index and type(index) is int and self._candidate and index != self._candidate.get("index"):
            # Another candidate, alone in its chunk.
            _merge_candidate(self._others.setdefault(index, {}), candidate)
            return
        known = self._candidate
        if len(candidate) > (1 if index is None else 2):  # more than its content
            _merge_metadata(known, candidate)
        known.update(candidate)
        content = candidate.get("content")
        parts = content.get("parts") if content else None
        if not parts:
            return
        kind, part = self._kind, parts[0]
        if kind is not None and len(parts) == 1 and type(part) is dict and len(part) == _SIZES[kind]:
            text = part.get("text")
            if type(text) is str and (kind is TextBlock or part.get("thought") is True):
                self._record.delta(self._key, text)  # fast path: nearly every chunk is one more text delta
                return
        for at, part in enumerate(parts):
            self._read_part(part, at == 0)

    def _read_part(self, part: Any, continues: bool) -> None:
        decode = decoder_of(part) if isinstance(part, dict) else None
        if decode is decode_text and isinstance(part.get("text", ""), str):
            self._read_text(part, continues)
        elif decode is decode_call and isinstance(part["functionCall"], dict):
            self._read_call(part)
        else:
            self._add(decode_block(part, self._ids))

    # A signature may come with the last text, or in an empty text part after it.
    def _read_text(self, part: dict[str, Any], continues: bool) -> None:
        kind = ThinkingBlock if part.get("thought") is True else TextBlock
        text, signed = part.get("text", ""), "thoughtSignature" in part
        if not continues or self._kind is not kind or (signed and text):
            self._close_blocks()
            self._key += 1
            self._record.open(self._key, _EMPTY[kind])
            self._part = {}
        self._part.update(part)  # type: ignore[union-attr]
        self._record.delta(self._key, text)
        # What follows a signed part is another part: a signature covers its own part only.
        self._kind = None if signed else kind

    def _read_call(self, part: dict[str, Any]) -> None:
        """A call is whole, or begins with its name and continues in parts without one."""
        call = part["functionCall"]
        if self._call is None or isinstance(call.get("name"), str):
            if "partialArgs" not in call and not call.get("willContinue"):
                self._add(decode_block(part, self._ids))
                return
            self._close_blocks()
            self._key += 1
            id, generated = self._ids.take(call.get("id"))
            self._call = _StreamedCall(id, generated)
            self._record.open(self._key, ToolCall(id=id, name=string(call["name"]), arguments={}))
        self._record.delta(self._key, self._call.add(part))
        if not call.get("willContinue"):
            self._close_blocks()

    def _add(self, block: Block) -> None:
        self._close_blocks()
        self._key += 1
        self._record.whole(self._key, block)

    def _open_text(self) -> Block | None:
        """The open text block, decoded as in a whole answer."""
        if self._part is None:
            return None
        if "text" in self._part:
            self._part["text"] = self._record.text(self._key)
        return decode_block(self._part, self._ids)

    def _close_blocks(self) -> None:
        if self._call is not None:
            call, self._call = self._call, None
            self._record.delta(self._key, call.rest())
            self._record.close(self._key, call.finished())
        elif self._part is not None:
            block = self._open_text()
            self._part = self._kind = None
            self._record.close(self._key, block)

    def _complete(self) -> bool:
        if self._candidate:
            # There is no end marker: the last chunk is the one with `finishReason`.
            return self._candidate.get("finishReason") is not None
        return block_reason(self._shell) is not None

    def _finish(self) -> None:
        if self._call is not None:
            self._close_blocks()
        content = list(self._record.content)
        last = self._open_text()
        if last is not None:
            content[-1] = last
        cited = with_citations(tuple(content), self._candidate)
        if last is not None:  # citations come with the last chunk, before the block is closed
            self._record.close(self._key, cited[-1])
        message = decode_answer(self._unstreamed(), cited, self._given)
        self._record.end(with_envelope(message, self._outer, bool(self._outer)) if self._wrapped else message)

    def _unstreamed(self) -> dict[str, Any]:
        """The wire's whole answer; its parts are already decoded."""
        wire = self._shell
        if self._candidate:
            wire = {**wire, "candidates": [self._candidate, *self._others.values()]}
        return wire

    def _fail(self, message: str, *, aborted: bool = False, detail: str | None = None) -> None:
        usage = decode_usage(self._shell.get("usageMetadata"))
        if usage is not None and not self._record.finished:
            self._record.note(usage=usage)
        super()._fail(message, aborted=aborted, detail=detail)


_EMPTY: dict[type, Block] = {TextBlock: TextBlock(text=""), ThinkingBlock: ThinkingBlock(thinking="")}
_SIZES: dict[type, int] = {TextBlock: 1, ThinkingBlock: 2}  # number of keys of a plain text part
# Metadata about sources comes once, in fragments, or repeatedly.
_SOURCES = ("groundingMetadata", "citationMetadata", "urlContextMetadata")


def _merge_metadata(known: dict[str, Any], candidate: dict[str, Any]) -> None:
    """Merges the known metadata into `candidate`, which will replace it."""
    for key in _SOURCES:
        if key in known and key in candidate:
            candidate[key] = _merged(known[key], candidate[key], repeats=True)
    if "logprobsResult" in known and "logprobsResult" in candidate:
        candidate["logprobsResult"] = _merged(known["logprobsResult"], candidate["logprobsResult"], repeats=False)
    if "finishReason" in candidate and candidate["finishReason"] is None:
        candidate["finishReason"] = known.get("finishReason")


def _merged(before: Any, after: Any, *, repeats: bool) -> Any:
    """Merges objects by key and appends lists, unless (`repeats`) the later list starts with the earlier one.

    In place, so that received data are not copied for each fragment.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in after.items():
            before[key] = _merged(before[key], value, repeats=repeats) if key in before else value
        return before
    if isinstance(before, list) and isinstance(after, list):
        if repeats and len(before) <= len(after) and after[: len(before)] == before:
            return after
        before.extend(after)
        return before
    return after


def _merge_candidate(known: dict[str, Any], candidate: dict[str, Any]) -> None:
    """Continues another candidate: appends its parts, replaces other fields."""
    parts = (known.get("content") or {}).get("parts")
    _merge_metadata(known, candidate)
    known.update(candidate)
    content = known.get("content")
    if parts and isinstance(content, dict):
        parts.extend(content.get("parts") or ())
        content["parts"] = parts


class _StreamedCall:
    """A call in several parts: first its name, then values of its arguments."""

    def __init__(self, id: str, generated: bool) -> None:
        self._id = id
        self._generated = generated
        self._part: dict[str, Any] = {}
        self._call: dict[str, Any] = {}
        self._arguments = PartialArguments()

    def add(self, part: dict[str, Any]) -> str:
        """Adds a part; returns its JSON text."""
        self._part.update({k: v for k, v in part.items() if k != "functionCall"})
        call = part["functionCall"]
        self._call.update({k: v for k, v in call.items() if k not in ("partialArgs", "willContinue")})
        return "".join(map(self._arguments.add, call.get("partialArgs") or ()))

    def rest(self) -> str:
        return self._arguments.rest()

    def finished(self) -> Block:
        """The call, decoded as in a whole answer."""
        given = self._call.get("args")
        args = {**(given if isinstance(given, dict) else {}), **self._arguments.value()}
        call = {**self._call, "id": self._id, "args": args}
        if self._generated:
            del call["id"]
        return decode_block({**self._part, "functionCall": call}, Ids(lambda _: self._id))


class StreamEncoder(Encoder):
    """Encodes a streamed answer. Parts have no index, so overlapping blocks are sent one after the other."""

    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._wrapped = has_envelope(self._quirks)
        self._beside: dict[str, Any] = {}  # fields of every chunk beside its candidate
        self._index: dict[str, Any] = {}  # fields of every candidate beside its content
        self._at = 0  # index of the block that is sent now
        self._waiting: dict[int, list[Any]] = {}  # events of later blocks
        self._kind: type[Block] | None = None  # kind of the text that a decoder would continue
        self._fresh = True  # nothing of this block was sent yet
        self._sealed = False  # redacted thinking, which is not sent

    def feed(self, event: StreamEvent) -> bytes:
        if self._closed:
            return b""
        if type(event) is TextDelta and event.content_index == self._at:
            return self._piece(TextBlock, {"text": event.delta})
        index = getattr(event, "content_index", self._at)
        if index == self._at:
            return super().feed(event)
        self._latest = event
        self._waiting.setdefault(index, []).append(event)
        return b""

    def _start(self, message: AssistantMessage) -> bytes:
        residual = residual_of(message.extra, API).get(RESPONSE, {})
        body = put_back(encode_envelope(message), residual)
        self._beside = {key: body[key] for key in ("modelVersion", "responseId") if key in body}
        self._index = {key: value for key, value in residual.get(CANDIDATE, {}).items() if key == "index"}
        self._wrapped = self._wrapped and not residual.get(PLAIN)
        return b""

    def _text(self, index: int, text: str) -> bytes:
        return self._piece(TextBlock, {"text": text})

    def _thinking(self, index: int, text: str) -> bytes:
        return b"" if self._sealed else self._piece(ThinkingBlock, {"text": text, "thought": True})

    def _open_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        self._sealed = block.redacted
        return b""

    def _piece(self, kind: type[Block], part: dict[str, Any]) -> bytes:
        parts = [part]
        if self._fresh and self._kind is kind:
            # Two texts in a row: an empty part before this one separates them.
            parts.insert(0, dict(_NOTHING[kind]))
        self._fresh, self._kind = False, None if "thoughtSignature" in part else kind
        return self._chunk(parts)

    def _end_text(self, index: int, block: TextBlock | ThinkingBlock) -> bytes:
        """The fields that no delta carries: the signature above all."""
        part = encode_block(block, QUIET)
        nothing = _NOTHING[type(block)]
        if part is not None and not self._fresh:
            rest = {key: value for key, value in part.items() if key != "text" and (key, value) != ("thought", True)}
            part = {**nothing, **rest} if rest else None
        return (self._piece(type(block), part) if part is not None else b"") + self._next()

    _end_thinking = _end_text

    def _end_block(self, index: int, block: Block) -> bytes:
        """A part that is sent whole, as calls are."""
        part = encode_block(block, QUIET)
        if part is None:
            return self._next()
        self._kind = None
        return self._chunk([part]) + self._next()

    _end_call = _end_block

    def _next(self) -> bytes:
        """Moves to the next block and sends what was buffered for it."""
        self._at += 1
        self._fresh = True
        return b"".join(map(self._dispatch, self._waiting.pop(self._at, ())))

    def _flush(self) -> bytes:
        out = b""
        for index in sorted(self._waiting):
            if index in self._waiting:
                self._at, self._fresh = index, True
                out += b"".join(map(self._dispatch, self._waiting.pop(index)))
        return out

    def _finish(self, message: AssistantMessage) -> bytes:
        return self._flush() + super()._finish(message)

    def _end(self, message: AssistantMessage) -> bytes:
        body = encode_answer(message, [])
        candidate = first_candidate(body)
        if candidate is not None and candidate.get("finishReason") is None:
            candidate["finishReason"] = wire_stop_reason(message)  # without it, clients treat the stream as cut off
        return self._event(body, residual_of(message.extra, API).get(RESPONSE, {}).get(ENVELOPE))

    def _is_stop(self, message: AssistantMessage) -> bool:
        if message.stop_reason != "error":
            return False
        return RESPONSE in residual_of(message.extra, API) or STOP_REASONS.get(message.stop_detail or "") == "error"

    def _fail(self, message: AssistantMessage) -> bytes:
        code = 499 if message.stop_reason == "aborted" else CODES.get(message.stop_detail or "")
        if code is None:
            return super()._fail(message)
        before, self._closed = self._flush(), True
        return before + self._event(error_body(code, message.error_message or "", message.stop_detail))

    def _failure(self, error: ProviderError) -> bytes:
        return self._flush() + self._event(encode_error(error)[1])

    def _chunk(self, parts: list[Any]) -> bytes:
        candidate = {"content": {"parts": parts, "role": "model"}, **self._index}
        return self._event({"candidates": [candidate], **self._beside})

    def _event(self, chunk: dict[str, Any], beside: Mapping[str, Any] | None = None) -> bytes:
        if self._wrapped and "error" not in chunk:
            chunk = {"response": chunk, **(beside or {})}
        return write_sse(json_line(chunk))


_NOTHING: dict[type[Block], dict[str, Any]] = {
    TextBlock: {"text": ""},
    ThinkingBlock: {"text": "", "thought": True},
}
