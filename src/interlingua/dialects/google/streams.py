"""Streamed answers, both ways.

Parts of one chunk are parts of their own; the first of a chunk goes on with the text before it if it is of the same
kind, unless that was signed. An empty signed part is the signature of the text before it; a signed part with text of
its own stands alone.
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
from ..framing import SSE, Frame, Framing, framing_for, write_sse
from ..residual import RESPONSE, Ids, put_back, residual_of, string
from ..streaming import Decoder, Encoder
from .answers import (
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

# Arguments that Google streams as values of paths: `$.place.name` is "Bos", and goes on.
#
# They amount to an object, and, as long as they come in the order of a JSON text, to that text piece by piece.


Path: TypeAlias = list[str | int]

_VALUES = ("stringValue", "numberValue", "boolValue")  # `nullValue` is the rest
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


class _Pieces(list[str]):
    """A string that is still growing."""


class PartialArguments:
    """Takes the pieces of one call's arguments; the work for each does not grow with those before it."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._at: Path = []  # where the text has come to
        self._in_string = False
        self._orderly = True

    def add(self, piece: dict[str, Any]) -> str:
        """Takes one piece; gives the JSON text that it brings."""
        path = _steps(piece["jsonPath"])
        value = next((piece[key] for key in _VALUES if key in piece), None)
        goes_on = isinstance(value, str) and bool(piece.get("willContinue"))
        if self._in_string and isinstance(value, str) and path == self._at:
            self._found(path).append(value)
            self._in_string = goes_on
            return self._encoded(jsontext.compact(value)[1:-1] + ("" if goes_on else '"'))
        container, step = self._container(path), path[-1]
        if _has(container, step):
            return self._again(container, step, value)
        text = self._text_between(path)
        _put(container, step, value)
        self._at, self._in_string = path, goes_on
        spelled = jsontext.compact(value)
        return self._encoded(text + (spelled[:-1] if goes_on else spelled))

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

    def _again(self, container: Any, step: Any, value: Any) -> str:
        """A value that was given before: text goes on, anything else is replaced. A text cannot go back there."""
        if isinstance(value, str) and isinstance(container[step], _Pieces):
            container[step].append(value)
            if not value:
                return ""
        else:
            container[step] = _Pieces([value]) if isinstance(value, str) else value
        self._orderly = False
        return ""

    def _text_between(self, path: Path) -> str:
        """From the last value to the place of the next: what closes, the comma, what opens."""
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
        """The object or list that the last step leads out of, made on the way if need be."""
        place: Any = self._root
        for step, following in pairwise(path):
            if not _has(place, step):
                _put(place, step, {} if isinstance(following, str) else [])
            place = place[step]
        if isinstance(place, _Pieces) or not isinstance(place, dict if isinstance(path[-1], str) else list):
            raise TypeError(f"{path} leads into a value")
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
        raise ValueError(f"{path!r} is no path into arguments")
    return steps


def _closers(path: Path) -> str:
    return "".join("}" if isinstance(step, str) else "]" for step in reversed(path))


def _joined(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {key: _joined(inner) for key, inner in value.items()}
    return list(map(_joined, value)) if isinstance(value, list) else value


def framing(content_type: str | None = None) -> Framing:
    """Without `alt=sse`, a stream is one JSON array of chunks."""
    return framing_for(content_type, SSE)


class StreamDecoder(Decoder):
    """Frames of a streamed answer to events. Every chunk is an answer of its own that goes on with the one before."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._wrapped = has_envelope(self._quirks)
        self._ids = Ids(self._mint)
        self._shell: dict[str, Any] = {}  # the wire's answer, its candidates aside
        self._outer: dict[str, Any] = {}  # what stood beside it in its envelope
        self._candidate: dict[str, Any] = {}  # the first candidate
        self._others: dict[Any, dict[str, Any]] = {}  # the other candidates, by index
        self._part: dict[str, Any] | None = None  # the open text part, its text aside
        self._kind: type[Block] | None = None  # of the open text, if the next chunk may go on with it
        self._call: _StreamedCall | None = None
        self._key = -1  # of the newest block

    def _read(self, value: Any, frame: Frame) -> None:
        if self._wrapped:
            value = self._unwrapped(value)
        if not self._shell:
            self._begin(value)
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
            # Another one, alone in its chunk.
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
                self._record.delta(self._key, text)  # one more piece, and nothing else: nearly always
                return
        for at, part in enumerate(parts):
            self._read_part(part, at == 0)

    def _read_part(self, part: Any, goes_on: bool) -> None:
        decode = decoder_of(part) if isinstance(part, dict) else None
        if decode is decode_text and isinstance(part.get("text", ""), str):
            self._read_text(part, goes_on)
        elif decode is decode_call and isinstance(part["functionCall"], dict):
            self._read_call(part)
        else:
            self._add(decode_block(part, self._ids))

    def _read_text(self, part: dict[str, Any], goes_on: bool) -> None:
        kind = ThinkingBlock if part.get("thought") is True else TextBlock
        text, signed = part.get("text", ""), "thoughtSignature" in part
        if not goes_on or self._kind is not kind or (signed and text):
            self._close_blocks()
            self._key += 1
            self._record.open(self._key, _EMPTY[kind])
            self._part = {}
        self._part.update(part)  # type: ignore[union-attr]
        self._record.delta(self._key, text)
        self._kind = None if signed else kind

    def _read_call(self, part: dict[str, Any]) -> None:
        """A call comes whole, or opens with its name and goes on in parts without one."""
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
        """The open text as the whole answer would have shown it."""
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
        if last is not None:  # sources are reported at the end: as far as it can be, before the block is closed
            self._record.close(self._key, cited[-1])
        message = decode_answer(self._whole(), cited, self._given)
        self._record.end(with_envelope(message, self._outer, bool(self._outer)) if self._wrapped else message)

    def _whole(self) -> dict[str, Any]:
        """The answer as it would have come at once; its parts are read already."""
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
_SIZES: dict[type, int] = {TextBlock: 1, ThinkingBlock: 2}  # keys of a part that is nothing but text
# What a candidate tells of its sources comes once, in pieces, or again and again; empty where there is nothing new.
_SOURCES = ("groundingMetadata", "citationMetadata", "urlContextMetadata")


def _merge_metadata(known: dict[str, Any], candidate: dict[str, Any]) -> None:
    """Changes `candidate`, which is about to be merged, so that nothing received before gets lost."""
    for key in _SOURCES:
        if key in known and key in candidate:
            candidate[key] = _grown(known[key], candidate[key], repeats=True)
    if "logprobsResult" in known and "logprobsResult" in candidate:
        candidate["logprobsResult"] = _grown(known["logprobsResult"], candidate["logprobsResult"], repeats=False)
    if "finishReason" in candidate and candidate["finishReason"] is None:
        candidate["finishReason"] = known.get("finishReason")


def _grown(before: Any, after: Any, *, repeats: bool) -> Any:
    """Objects key by key, lists one after the other, unless (`repeats`) the later one begins with the earlier.

    In place: what was received before is not copied for each piece.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in after.items():
            before[key] = _grown(before[key], value, repeats=repeats) if key in before else value
        return before
    if isinstance(before, list) and isinstance(after, list):
        if repeats and len(before) <= len(after) and after[: len(before)] == before:
            return after
        before.extend(after)
        return before
    return after


def _merge_candidate(known: dict[str, Any], candidate: dict[str, Any]) -> None:
    """Another candidate goes on: its parts are added, the rest is set."""
    parts = (known.get("content") or {}).get("parts")
    _merge_metadata(known, candidate)
    known.update(candidate)
    content = known.get("content")
    if parts and isinstance(content, dict):
        parts.extend(content.get("parts") or ())
        content["parts"] = parts


class _StreamedCall:
    """A call that comes in parts: first its name, then values of its arguments."""

    def __init__(self, id: str, generated: bool) -> None:
        self._id = id
        self._generated = generated
        self._part: dict[str, Any] = {}
        self._call: dict[str, Any] = {}
        self._arguments = PartialArguments()

    def add(self, part: dict[str, Any]) -> str:
        """Takes one part; gives the JSON text that it brings."""
        self._part.update({k: v for k, v in part.items() if k != "functionCall"})
        call = part["functionCall"]
        self._call.update({k: v for k, v in call.items() if k not in ("partialArgs", "willContinue")})
        return "".join(map(self._arguments.add, call.get("partialArgs") or ()))

    def rest(self) -> str:
        return self._arguments.rest()

    def finished(self) -> Block:
        """The call, read from what the whole answer would have shown."""
        given = self._call.get("args")
        args = {**(given if isinstance(given, dict) else {}), **self._arguments.value()}
        call = {**self._call, "id": self._id, "args": args}
        if self._generated:
            del call["id"]
        return decode_block({**self._part, "functionCall": call}, Ids(lambda _: self._id))


class StreamEncoder(Encoder):
    """Events to the bytes of a streamed answer. Parts have no index: blocks that overlap are sent one by one."""

    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._wrapped = has_envelope(self._quirks)
        self._beside: dict[str, Any] = {}  # what every chunk says beside its candidate
        self._index: dict[str, Any] = {}  # what it says in it beside the parts
        self._at = 0  # the block that may speak now
        self._waiting: dict[int, list[Any]] = {}  # events of later blocks
        self._kind: type[Block] | None = None  # of the text that the reader would go on with
        self._fresh = True  # nothing of this block was sent yet
        self._sealed = False  # it is thinking that cannot be encoded

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
            # Two texts in a row: an empty piece for the one before, so that this one is a part of its own.
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
            candidate["finishReason"] = wire_stop_reason(message)  # without it, a stream is cut off
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
        return write_sse(jsontext.write(chunk))


_NOTHING: dict[type[Block], dict[str, Any]] = {
    TextBlock: {"text": ""},
    ThinkingBlock: {"text": "", "thought": True},
}
