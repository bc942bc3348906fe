"""Encoding of streamed answers."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import ProviderError
from ...values.losses import QUIET
from ...values.messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall
from ...values.request import Request
from ..framing import json_line, write_sse
from ..openai_shared import encode_error
from ..residual import MESSAGE, put_back, restored
from ..streaming import Encoder
from .answers import encode_envelope, encode_response, response_residual, whole_answer, wire_stop_reason
from .assistant import TEXTS, encode_assistant, encode_detail, is_detail
from .content import encode_answered_call, encode_citation, encode_part_unreported, signed, text_chunk
from .facts import API, CUSTOM, DETAILS, FIELDS, PART, PARTS, PIECES, PLAIN, REPEATS, TRACKS, compat_of


class StreamEncoder(Encoder):
    """Encodes a streamed answer."""

    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._compat = compat_of(self._quirks)
        self._has_usage = self._request is None or _wants_usage(self._request)
        self._started = False
        self._head = b""  # a chunk up to its delta
        self._envelope: dict[str, Any] = {}
        self._residual: dict[str, Any] = {}  # residual of the message that is known at the start
        self._writers: dict[int, Callable[[str], bytes]] = {}
        self._track = ""  # track of the last delta
        self._border = False  # a part of a content list ended: more text is another part
        self._details: dict[int, dict[str, Any]] = {}  # open entries by content index, as sent so far
        self._encoded_details = 0
        self._calls: dict[int, dict[str, Any]] = {}  # open calls by content index, as sent so far
        self._encoded_calls = 0
        self._texts = 0
        self._text_length = 0
        self._sources = 0
        self._once: set[str] = set()

    def _text(self, index: int, text: str) -> bytes:
        writer = self._writers.get(index)
        return b"" if writer is None else writer(text)

    _thinking = _arguments = _text

    def _write(self, delta: dict[str, Any]) -> bytes:
        return b"".join((self._head, json_line(delta), _TAIL))

    def _start(self, message: AssistantMessage) -> bytes:
        """The first chunk, with the role."""
        residual = response_residual(message)
        self._residual = residual.get(MESSAGE) or {}
        self._started = True
        self._set_head(put_back(encode_envelope(message, self._compat), residual))
        return self._write({"role": "assistant"})

    def _set_head(self, envelope: dict[str, Any]) -> None:
        self._envelope = {key: envelope[key] for key in ("id", "created", "model") if key in envelope}
        self._envelope["object"] = "chat.completion.chunk"  # clients ignore chunks with another `object`
        head = jsontext.write({**self._envelope, "choices": []})
        self._head = b"data: " + head[:-2] + b'{"index":0,"delta":'

    # text

    def _open_text(self, index: int, block: TextBlock) -> bytes:
        special = block.cache is not None or bool(block.extra.get(API))
        if block.refusal:
            self._writers[index] = self._write_nothing if special else self._write_refusal
            return b""
        if not (special or self._residual.get(PARTS)):
            self._writers[index] = self._write_text
            return b""
        self._writers[index] = self._write_text_part
        self._once.discard("part")
        return self._cross_border(always=True)

    def _cross_border(self, *, always: bool = False) -> bytes:
        """An empty content list between two parts, which separates them."""
        border, self._border = self._border, False
        return self._write({"content": []}) if self._track == "content" and (border or always) else b""

    def _write_text(self, text: str) -> bytes:
        border = b""
        if self._border or self._track != "content":
            self._texts += self._border or not self._texts
            border = self._cross_border()
            self._track = "content"
        return b"".join((border, self._head, b'{"content":', json_line(text), b"}", _TAIL))

    def _write_text_part(self, text: str, rest: dict[str, Any] = {"type": "text"}) -> bytes:  # noqa: B006
        if "part" not in self._once:
            self._once.add("part")
            self._texts += 1
        self._track = "content"
        return self._write({"content": [{**rest, "text": text}]})

    def _write_refusal(self, text: str) -> bytes:
        self._track = "refusal"
        return self._write({"refusal": text})

    def _write_nothing(self, text: str) -> bytes:
        return b""

    def _end_text(self, index: int, block: TextBlock) -> bytes:
        special = block.cache is not None or bool(block.extra.get(API))
        if block.refusal:
            return self._end_block(index, block) if special else b""
        if not (special or self._writers.get(index) == self._write_text_part):
            return self._write_sources(block) if block.text else b""
        rest = {key: value for key, value in encode_part_unreported(block)[0].items() if key != "text"}
        encoded = b"" if len(rest) == 1 and "part" in self._once else self._write_text_part("", rest)
        encoded += self._write_sources(block)
        self._border = True
        return encoded

    def _write_sources(self, block: TextBlock) -> bytes:
        """Citations and signature, while their text is the last content sent."""
        delta: dict[str, Any] = {}
        if block.citations and self._texts == 1:
            sources = [encode_citation(citation, self._text_length) for citation in block.citations]
            delta["annotations"] = [{"index": self._sources + at, **source} for at, source in enumerate(sources)]
            self._sources += len(sources)
        if block.text_signature is not None and self._texts == 1 and "extra_content" not in self._once:
            self._once.add("extra_content")
            delta["extra_content"] = signed(block.text_signature)
        self._text_length += len(block.text)
        return self._write(delta) if delta else b""

    # thinking

    def _open_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        residual = block.extra.get(API) or {}
        if residual.get(PART):
            border = self._write({"content": []}) if self._track == "thinking part" else b""
            self._writers[index] = self._write_thinking_string if residual.get(PLAIN) else self._write_thinking_chunk
            self._track = ""
            return border
        if block.redacted:
            self._writers[index] = self._write_nothing
        elif is_detail(block):
            entry = encode_detail(block, self._encoded_details)
            self._encoded_details += 1
            self._details[index] = {"type": entry["type"], "index": entry.get("index", self._encoded_details - 1)}
            self._writers[index] = self._detail_writer(index, TEXTS.get(entry["type"], "text"))
        else:
            self._writers[index] = self._thought_writer(residual.get(FIELDS) or [self._compat.reasoning_field])
        return b""

    def _write_thinking_chunk(self, text: str) -> bytes:
        self._track = "thinking part"
        return self._write({"content": [{"type": "thinking", "thinking": [text_chunk(text)]}]})

    def _write_thinking_string(self, text: str) -> bytes:
        self._track = "thinking part"
        return self._write({"content": [{"type": "thinking", "thinking": text}]})

    def _thought_writer(self, names: list[str]) -> Callable[[str], bytes]:
        apart = "\n\n" if self._track == names[0] else ""

        def write(text: str) -> bytes:
            nonlocal apart
            text, apart = apart + text, ""
            self._track = names[0]
            return self._write(dict.fromkeys(names, text))

        return write

    def _detail_writer(self, index: int, message: str) -> Callable[[str], bytes]:
        repeats = self._residual.get(REPEATS, [self._compat.reasoning_field])

        def write(text: str) -> bytes:
            self._track = DETAILS
            self._details[index][message] = ""
            entry = {**self._details[index], message: text}
            return self._write({**dict.fromkeys(repeats, text), DETAILS: [entry]})

        return write

    def _end_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        residual = block.extra.get(API) or {}
        if residual.get(PART):
            part = encode_part_unreported(block)[0]
            empty: Any = "" if residual.get(PLAIN) else []
            return b"" if len(part) == 2 and block.thinking else self._write_thinking_rest({**part, "thinking": empty})
        if not is_detail(block):
            return b""
        known = self._details.pop(index, None)
        if known is None:
            # Clients join entries by their index.
            entry = {"index": self._encoded_details, **encode_detail(block, self._encoded_details)}
            self._encoded_details += 1
        else:
            given = encode_detail(block, 0)
            rest = {key: value for key, value in given.items() if key not in known}
            if not rest and len(known) > 2:
                return b""
            entry = {"type": known["type"], "index": known["index"], **rest}
        self._track = DETAILS
        return self._write({DETAILS: [entry]})

    def _write_thinking_rest(self, part: dict[str, Any]) -> bytes:
        self._track = "thinking part"
        return self._write({"content": [part]})

    # calls and whole blocks

    def _open_call(self, index: int, call: ToolCall) -> bytes:
        custom = bool((call.extra.get(API) or {}).get(CUSTOM))
        encoded = encode_answered_call(replace(call, arguments={"input": ""}) if custom else call)
        number, self._encoded_calls = self._encoded_calls, self._encoded_calls + 1
        function = encoded.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            encoded = {**encoded, "function": {**function, "arguments": ""}}
        self._calls[index] = {"index": number, **encoded}
        self._writers[index] = self._write_nothing if custom else self._call_writer(index, number)
        self._track = "tool_calls"
        return self._write({"tool_calls": [self._calls[index]]})

    def _call_writer(self, index: int, number: int) -> Callable[[str], bytes]:
        opening = b'{"tool_calls":[{"index":%d,"function":{"arguments":' % number
        calls = self._calls
        blank: str | None = ""  # buffered until it is known whether anything follows

        def write(text: str) -> bytes:
            nonlocal blank
            if blank is not None:
                text = blank + text
                if not text.strip():
                    blank = text
                    return b""
                blank = None
                calls[index][PIECES] = True
            return b"".join((self._head, opening, json_line(text), b"}}]}", _TAIL))

        return write

    def _end_call(self, index: int, call: ToolCall) -> bytes:
        known = self._calls.pop(index, None)
        if known is None:
            return b""
        given = encode_answered_call(call)
        rest = {key: value for key, value in given.items() if known.get(key) != value}
        for kind in ("function", "custom"):
            if kind in rest:
                more = {key: value for key, value in rest[kind].items() if known.get(kind, {}).get(key) != value}
                if PIECES in known and isinstance(more.get("arguments"), str):
                    del more["arguments"]
                rest[kind] = more
        rest = {key: value for key, value in rest.items() if value != {} or key not in ("function", "custom")}
        return self._write({"tool_calls": [{"index": known["index"], **rest}]}) if rest else b""

    def _end_block(self, index: int, block: Block) -> bytes:
        encoded = encode_assistant([block], {}, self._compat, QUIET, answer=True)
        delta = {key: encoded[key] for key in TRACKS if encoded.get(key)}
        for key in ("audio", "function_call"):
            if key in delta and key in self._once:
                del delta[key]
        if not delta:
            return b""
        self._once.update(delta)
        if "tool_calls" in delta:
            delta["tool_calls"] = [{"index": self._encoded_calls, **call} for call in delta["tool_calls"]]
            self._encoded_calls += 1
        if DETAILS in delta:
            self._encoded_details += 1
        self._track = "part" if "content" in delta else next(iter(delta))
        return self._write(delta)

    # the end

    def _end(self, message: AssistantMessage) -> bytes:
        """Fields without a delta, the finish reason, the other choices, the usage."""
        before = b"" if self._started else self._start(message)
        given = whole_answer(message, self._compat, QUIET)
        self._set_head(given)
        choices = given.pop("choices", None) or [
            {"index": 0, "message": {}, "finish_reason": wire_stop_reason(message)}
        ]
        usage = given.pop("usage") if isinstance(given.get("usage"), dict) else None
        chunks = [self._last_chunk({**given, **self._envelope}, choices[0])]
        for choice in choices[1:]:
            rest = {key: value for key, value in choice.items() if key != "message"}
            delta = dict(choice.get("message") or {})
            if isinstance(delta.get("tool_calls"), list):  # clients expect `index`
                delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(delta["tool_calls"])]
            chunks.append({**self._envelope, "choices": [{**rest, "delta": delta}]})
        if usage is not None and self._has_usage:
            chunks.append({**self._envelope, "choices": [], "usage": usage})
        return before + b"".join(write_sse(json_line(chunk)) for chunk in chunks) + write_sse(b"[DONE]")

    def _last_chunk(self, envelope: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
        rest = {key: value for key, value in choice.items() if key != "message"}
        delta = {
            key: value
            for key, value in (choice.get("message") or {"content": None}).items()
            if key != "role" and not (value and (key in TRACKS or (key == "annotations" and self._sources)))
        }
        return {**envelope, "choices": [{**rest, "delta": delta}]}

    def _is_stop(self, message: AssistantMessage) -> bool:
        return message.stop_reason == "error" and (
            wire_stop_reason(message) != "error" or message.stop_detail == "error"
        )

    def _failure(self, error: ProviderError) -> bytes:
        return write_sse(jsontext.write(encode_error(error)[1]))


_TAIL = b',"finish_reason":null}]}\n\n'


def _wants_usage(request: Request) -> bool:
    """Whether the client requested usage (`stream_options.include_usage`); True for requests of other wires."""
    encoded: dict[str, Any] = {"stream_options": {"include_usage": True}}
    options = restored(encoded, request.extra, API).get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))
