"""Streamed responses: decoding and encoding. platform.openai.com/docs/api-reference/chat-streaming"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import ProviderError
from ...values.losses import QUIET
from ...values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
)
from ...values.text import natural
from ..framing import Frame, json_line, write_sse
from ..openai_shared import encode_error
from ..residual import MESSAGE, fields_of, optional, put_back, residual, restored, whole
from ..streaming import Decoder, Encoder
from .accumulators import ACCUMULATING, STRINGS, CallParts, begins_another, joined, merge_delta
from .content import (
    ResultPairing,
    are_sources,
    chunks_in,
    decode_citation,
    decode_part,
    encode_call,
    encode_citation,
    encode_part_unreported,
    google_signature,
    real_id,
    shifted,
    signed,
    text_chunk,
)
from .facts import (
    API,
    CHOICES,
    CUSTOM,
    DETAILS,
    FIELDS,
    PART,
    PARTS,
    PLAIN,
    PLAIN_HOST,
    RANKS,
    REPEATS,
    THOUGHTS,
    TRACKS,
    compat_of,
    decode_error,
    decode_usage,
    find_usage,
)
from .messages import (
    TEXTS,
    decode_assistant_audio,
    decode_assistant_part,
    decode_detail,
    encode_assistant,
    encode_detail,
    is_audio,
    is_detail,
    is_legacy_call,
    joined_text,
    plain_thought,
    repeats_call,
    text_in,
    usual_repeats,
)
from .responses import (
    decode_envelope,
    encode_envelope,
    encode_response,
    filters_of,
    read_answer,
    response_residual,
    whole_answer,
    wire_stop_reason,
)

_PIECES = "~pieces"  # fragments of a string, stored in its object

# --- wire to ours -----------------------------------------------------------------------------------------------------


class _Details(Struct):
    """What is known of the entries of `reasoning_details`."""

    keys: dict[Any, int] = {}  # blocks by type and index of the entry
    numbers: dict[int, int] = {}  # number of the entry of a block
    aliases: dict[int, list[str]] = {}  # plain fields with the thinking of a block
    repeats: set[str] = set()  # plain fields that repeat the entries
    repeated: str = ""  # the text of the entries in this chunk, if a plain field repeats it


class StreamDecoder(Decoder):
    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._compat = compat_of(self._quirks)
        self._shell: dict[str, Any] = {}  # the wire's envelope
        self._keys: tuple[str, ...] = ()  # keys of the latest chunk, whose envelope …
        self._latest: dict[str, Any] = {}  # … is merged when a chunk with other keys comes
        self._choice: dict[str, Any] = {}  # the first choice without its message
        self._message: dict[str, Any] = {}  # fields of the message beside its tracks, and empty tracks
        # …/chat/create, `n`: several choices share a stream; the chunks of all are interleaved, with one
        # `finish_reason` each.
        self._others: dict[Any, dict[str, Any]] = {}  # the other choices, whole
        self._key = -1  # of the block that opened last: the number of blocks before it
        self._track = ""  # its field of the message
        self._pairing = ResultPairing(self._mint)
        self._calls: list[CallParts] = []
        self._by_index: dict[int, CallParts] = {}
        self._opened = 0  # how many of the calls are open
        self._details = _Details()
        # The next chunk, if it looks like the last one: its track, its choice without the delta, its delta without the
        # fragment.
        self._hot: tuple[str, dict[str, Any], dict[str, Any]] = "", {}, {}
        self._wires: dict[int, dict[str, Any]] = {}  # fields of blocks and entries beside their text
        self._tracked: dict[str, int] = {}  # the blocks of audio and of a legacy function call
        self._counted: tuple[Any, Usage | None] = None, None  # the wire's usage, and its decoded form
        self._texts = 0
        self._text_length = 0  # length of the finished texts
        self._listed = False
        self._ended = False

    def _is_marker(self, text: bytes) -> bool:
        if super()._is_marker(text):
            self._ended = True
            self._conclude()
            return True
        return not text

    def _read(self, value: Any, frame: Frame) -> None:
        if (*value,) == self._keys and not value.get("usage"):
            self._latest = value
            (hot, quiet, rest), choices = self._hot, value["choices"]
            if hot and hot == self._track and len(choices) == 1:
                # Fast path: most chunks have the next fragment of the open block and look like the last one.
                choice = choices[0]
                delta = choice.pop("delta", None)
                if delta and choice == quiet:
                    given = delta.pop(hot, None)
                    if delta == rest:
                        if given.__class__ is str:
                            self._record.delta(self._key, given)
                            return
                        if given.__class__ is list and hot == "tool_calls":
                            self._read_calls(given)
                            return
                    delta[hot] = given
                choice["delta"] = delta
        else:
            self._envelope(value)
            if self._record.finished:
                return
        for choice in value.get("choices") or ():
            if choice.get("index"):
                self._read_other(choice)
            else:
                self._read_choice(choice)

    def _complete(self) -> bool:
        # `data: [DONE]` ends a stream (…/chat/streaming). Hosts leave it out: a finish reason is as good an end.
        if self._ended or self._choice.get("finish_reason"):
            return True
        return not (self._choice or self._message or self._others) and bool(filters_of(self._shell))

    # the envelope

    def _envelope(self, value: dict[str, Any]) -> None:
        error = value.get("error")
        if error:
            self._merge_envelope(value)
            self._failed(decode_error(0, value))
            return
        if self._latest:
            self._merge_envelope(self._latest)
        self._merge_envelope(value)
        self._latest = {}
        # Chunks with the same keys have the same envelope, unless they carry usage or errors.
        self._keys = () if "error" in value or "x_groq" in value else (*value,)
        self._record.note(**decode_envelope(self._shell, self._given), usage=self._usage(find_usage(self._shell, {})))
        self._record.begin()

    def _usage(self, wire: Any) -> Usage | None:
        """The wire's usage, decoded once: it comes with one chunk and is needed there and at the end."""
        if wire is not self._counted[0]:
            self._counted = wire, decode_usage(wire, self._compat)
        return self._counted[1]

    def _merge_envelope(self, value: dict[str, Any]) -> None:
        shell = self._shell
        for key, text in value.items():
            if key == "choices" or (key in shell and (text is None or text == "")):
                continue
            if key == "id" and shell.get("id"):
                continue  # some hosts change it in every chunk
            if key == "object":  # hosts have different values for chunks
                text = "chat.completion"
            if key == "x_groq" and isinstance(text, dict) and isinstance(shell.get(key), dict):
                text = {**shell[key], **text}
            if key not in _PADDING:
                shell[key] = text

    # choices

    def _read_choice(self, choice: dict[str, Any]) -> None:
        if not self._choice and "index" in choice:
            self._choice["index"] = choice["index"]
        given = choice.get("delta")
        delta = (choice.get("message") or {}) if given is None else given
        reported = []
        for key, value in delta.items():
            if value and key != "role":
                reported.append(key)
                continue
            if key == "content" and value.__class__ is list:  # empty: more text is another part
                self._listed = True
                self._settle()
                self._track = ""
            if key not in self._message:
                self._message[key] = value
        if len(reported) > 1:
            self._read_many(delta, reported)
        elif reported:
            self._read_field(reported[0], delta[reported[0]])
            quiet = {key: value for key, value in choice.items() if key != "delta"}
            if self._track == reported[0] and given is not None and not any(quiet.values()):
                self._hot = self._track, quiet, {key: value for key, value in delta.items() if key != self._track}
        for key, value in choice.items():
            if value is None:
                if key not in self._choice:
                    self._choice[key] = None
            elif key == "finish_reason":
                # OpenRouter repeats the chunk with `finish_reason` when it sends the usage; other hosts send "" or null
                # after it.
                if value or not self._choice.get(key):
                    self._choice[key] = value
            elif key == "usage":
                self._choice[key] = value  # some hosts send growing counts in every chunk: the last counts, no sum
            elif key not in ("delta", "message", "index"):
                merge_delta(self._choice, {key: value}, ())

    def _read_many(self, delta: dict[str, Any], reported: list[str]) -> None:
        """A delta of several kinds: thinking first, then text, then calls; the same text is read once."""
        details = delta.get(DETAILS)
        message = text_in(details) if isinstance(details, list) and details else ""
        received: list[Any] = []
        for name in THOUGHTS:
            text = delta.get(name)
            if text and text.__class__ is str:
                if text == message:
                    self._details.repeated = message
                    self._details.repeats.add(name)
                elif text not in received:
                    received.append(text)
                    self._read_text(name, text, [other for other in THOUGHTS if delta.get(other) == text])
        others = [key for key in reported if key not in THOUGHTS or delta[key].__class__ is not str]
        if "function_call" in others and repeats_call(delta):
            others.remove("function_call")
            merge_delta(self._message, {"function_call": delta["function_call"]}, ACCUMULATING)
        for key in others if len(others) == 1 else sorted(others, key=lambda key: RANKS.get(key, len(RANKS))):
            self._read_field(key, delta[key])
        self._details.repeated = ""

    def _read_field(self, key: str, value: Any) -> None:
        if key in STRINGS and isinstance(value, str):
            self._read_text(key, value)
        elif key == "tool_calls" and isinstance(value, list):
            self._read_calls(value)
        elif key == DETAILS and isinstance(value, list):
            for detail in value:
                self._read_detail(detail)
        elif key == "content" and isinstance(value, list):
            self._listed = True
            for part in value:
                self._read_part(part)
        elif key == "content":
            self._read_text(key, jsontext.compact(value))
            self._message[key] = value
        elif key in ("audio", "function_call") and isinstance(value, dict):
            # Opened when its id or name is known.
            wire = self._message[key] = fields_of(self._message.get(key))
            merge_delta(wire, value, ACCUMULATING)
            if key not in self._tracked and (is_audio(wire) if key == "audio" else is_legacy_call(wire)):
                self._open(key, AudioBlock() if key == "audio" else OpaqueBlock(dialect=API, value={}))
                self._tracked[key] = self._key
        elif key == "images" and isinstance(value, list):
            for image in value:
                self._open("images", decode_part(image))
                self._record.close(self._key, decode_part(image))
        else:
            merge_delta(self._message, {key: value}, ())

    def _read_other(self, choice: dict[str, Any]) -> None:
        """Another choice than the first: assembled as in a whole answer."""
        known = self._others.setdefault(choice["index"], {})
        for key, value in choice.items():
            if key in ("delta", "message"):
                merge_delta(known.setdefault("message", {}), value or {}, ACCUMULATING)
            elif key == "finish_reason":
                known[key] = value or known.get(key)
            else:
                merge_delta(known, {key: value}, ())

    # blocks

    def _open(self, track: str, block: Block) -> None:
        """Opens a block of any kind but a call, after all calls before it."""
        if self._opened < len(self._calls):
            self._open_calls(all_of_them=True)
        self._record.open(self._begin(track), block)

    def _begin(self, track: str) -> int:
        """Closes the open block unless it may stay open, and returns the key of the next."""
        self._settle()
        self._key += 1
        self._track = track
        return self._key

    def _settle(self) -> None:
        if self._track and self._track not in _SIDE_BY_SIDE and self._record.is_open(self._key):
            self._record.close(self._key, self._finished(self._key, self._track))

    def _read_text(self, track: str, text: str, names: list[str] | None = None) -> None:
        if self._track != track:
            is_thought = track in THOUGHTS
            empty = plain_thought("", names or [track], self._compat) if is_thought else TextBlock(text="")
            self._open(track, replace(empty, refusal=True) if track == "refusal" else empty)
        if names is not None:
            aliases, key = self._details.aliases, self._key
            known = aliases.get(key, ())
            aliases[key] = [name for name in THOUGHTS if name in names or name in known]
        self._record.delta(self._key, text)

    def _read_part(self, part: Any) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        given = part.get(kind) if kind in ("text", "thinking") else None  # the field is called like the type
        text = chunks_in(given) if kind == "thinking" and isinstance(given, list) else optional(given)
        if text is None:
            block = decode_assistant_part(part)
            self._open("part", block)
            self._record.close(self._key, block)
        else:
            if kind == "text" and self._track != "content":
                self._open("content", TextBlock(text=""))
            elif kind == "thinking" and self._track != "thinking part":
                self._open("thinking part", ThinkingBlock(thinking="", extra={API: {PART: True}}))
                self._wires[self._key] = {"type": kind, PLAIN: isinstance(given, str)}
            self._record.delta(self._key, text)
            if len(part) > 2:
                known = self._wires.setdefault(self._key, {})
                known.update((key, value) for key, value in part.items() if key not in ("type", kind))

    # calls

    # platform.openai.com/docs/guides/function-calling, Streaming: the first delta of a call has id and name, the others
    # only its `index` and argument text. Hosts differ: no index (Mistral), the whole call in one delta (Groq, xAI,
    # Mistral), an empty id in later deltas, indices from 1: so neither the index nor the number of deltas is relied on.
    def _read_calls(self, deltas: list[Any]) -> None:
        """Handles the calls of one chunk. A call opens when its id and name are known, and all before it are open."""
        touched: list[CallParts] = []  # in this chunk
        for delta in deltas:
            function = delta.get("function") or {}
            arguments = function.get("arguments")
            call = self._by_index.get(delta.get("index"))
            if arguments.__class__ is str and call and call.key is not None and len(delta) == 2 and len(function) == 1:
                call.pieces.append(arguments)
                self._record.delta(call.key, arguments)
            else:
                custom = delta.get("custom")
                if isinstance(custom, dict):
                    function, arguments = custom, custom.get("input")
                call = self._find_call(delta, function, touched)
                call.note(delta)
                if not isinstance(arguments, str):
                    if arguments is not None and "function" in call.wire:
                        call.wire["function"]["arguments"] = arguments
                elif arguments:
                    call.pieces.append(arguments)
                    if call.key is not None:
                        self._record.delta(call.key, _escaped(arguments) if call.is_custom() else arguments)
                if call.key is None:
                    self._open_calls()
            touched.append(call)

    def _find_call(self, delta: dict[str, Any], function: dict[str, Any], touched: list[CallParts]) -> CallParts:
        """The call of a delta: by its index, else by its id, else the last one; or a new one."""
        index, given, name = delta.get("index"), real_id(delta.get("id")), function.get("name")
        index = natural(index) if isinstance(index, str) else whole(index)  # some hosts send a string
        call: CallParts | None
        if index is not None:
            call = self._by_index.get(index)
            if call is not None and begins_another(call, given, name, function.get("arguments")):
                call = None
        elif given is not None:
            call = next((known for known in self._calls if known.id == given), None)
            if call in touched and name:
                call = None  # a whole answer instead of a stream, whose calls share an id
        else:
            call = self._calls[-1] if self._calls else None
            if call is not None and name and call.name and (name != call.name or call in touched):
                call = None
        if call is None:
            call = CallParts()
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.id = call.id or given
        # A name comes whole: hosts that repeat it in each delta would multiply it if it were appended.
        if name and (call.name is None or not call.pieces):
            call.name = name
        return call

    def _open_calls(self, *, all_of_them: bool = False) -> None:
        """Opens calls in order. At the end, a call without an id gets a generated one."""
        while self._opened < len(self._calls):
            call = self._calls[self._opened]
            if not (all_of_them or (call.id and call.name)):
                return
            self._opened += 1
            call.key = self._begin("tool_calls")
            if not call.name:
                self._record.open(call.key, OpaqueBlock(dialect=API, value={"tool_calls": [call.wire]}))
                continue
            call.id = call.id or self._pairing.mint()
            block, text = call.finished(call.known()), "".join(call.pieces)
            if isinstance(block, ToolCall):
                block = replace(block, arguments={})
            self._record.open(call.key, block)
            self._record.delta(call.key, _TEXT_BEGINS + _escaped(text) if call.is_custom() else text)

    # `reasoning_details`: openrouter.ai/docs/use-cases/reasoning-tokens

    def _read_detail(self, detail: Any) -> None:
        """Handles one delta of an entry: those with the same type and index belong together."""
        kind = detail.get("type") if isinstance(detail, dict) else None
        if kind not in TEXTS:
            opaque = OpaqueBlock(dialect=API, value={DETAILS: [detail]})
            self._begin_detail(opaque)
            self._record.close(self._key, opaque)
            return
        field = TEXTS[kind]
        text = detail.get(field)
        if text.__class__ is not str:
            text = ""
        index = detail.get("index")
        place = (kind, index if isinstance(index, (int, str)) else None)
        key = self._details.keys.get(place)
        if key is not None:
            # Another entry, although its type and index are known: it has another id, or the block has ended.
            id, is_later = detail.get("id"), index is None and key != self._key
            is_other = id and id != self._wires[key].get("id", id) and self._wires[key]["id"]
            if is_other or is_later or not self._record.is_open(key):
                key = None
        taken_over = key is None and field == "text" and self._takes_over(text)
        if key is None:
            if not taken_over:
                self._begin_detail(decode_detail({**detail, field: ""}, len(self._details.numbers)))
            key = self._details.keys[place] = self._key
            self._wires[key] = {}
        known = self._wires[key]
        if field == "data":
            known.setdefault(_PIECES, []).append(text)
        elif not taken_over:
            self._record.delta(key, text)
        for name, value in detail.items():
            if name not in known or (name != field and value):
                known[name] = value

    def _begin_detail(self, block: Block) -> None:
        self._open(DETAILS, block)
        self._details.numbers[self._key] = len(self._details.numbers)

    def _takes_over(self, text: str) -> bool:
        """Whether the entry repeats the plain thinking just before it: then they are one block."""
        details, key = self._details, self._key
        if not text or text == details.repeated or self._track not in THOUGHTS or not self._record.is_open(key):
            return False
        if self._record.text(key) != text:
            return False
        details.repeats.update(details.aliases.pop(key, [self._track]))
        details.numbers[key] = len(details.numbers)
        self._track = DETAILS
        return True

    # the end

    def _finish(self) -> None:
        if not self._message and not self._choice and self._others:
            first = self._others.pop(min(self._others, key=str))
            self._read_choice(joined(first))
        self._close_blocks()
        if self._latest:
            self._merge_envelope(self._latest)
        content = tuple(self._record.content)
        extra_fields = self._residual(content)
        beside: dict[str, Any] = {MESSAGE: extra_fields} if extra_fields else {}
        if self._others:
            beside[CHOICES] = [
                joined(other) for _, other in sorted(self._others.items(), key=lambda item: str(item[0]))
            ]
        choice = self._choice or None
        if choice is not None and isinstance(choice.get("error"), dict):  # OpenRouter sends errors inside a choice
            self.failure = decode_error(0, {"error": choice["error"]})
        usage = self._usage(find_usage(self._shell, self._choice))
        self._record.end(read_answer(self._shell, choice, content, beside, self._given, self._compat, usage))

    def _close_blocks(self) -> None:
        self._open_calls(all_of_them=True)
        for call in self._calls:
            if call.key is not None:
                if call.is_custom() and self._record.is_open(call.key):
                    self._record.delta(call.key, _TEXT_ENDS)
                self._record.close(call.key, call.finished(call.whole()))
        for key in self._record.open_keys():
            self._record.close(key, self._finished(key, self._track if key == self._key else ""))  # type: ignore[arg-type]

    def _finished(self, key: int, track: str) -> Block:
        """The block, decoded as in a whole answer."""
        record = self._record
        if key in self._details.numbers:
            entry = {name: value for name, value in self._wires[key].items() if name != _PIECES}
            field, pieces = TEXTS[entry["type"]], self._wires[key].get(_PIECES)
            if isinstance(entry.get(field), str):
                entry[field] = record.text(key) if pieces is None else "".join(pieces)
            return decode_detail(entry, self._details.numbers[key])
        for track, at in self._tracked.items():
            if at == key:
                given = joined(self._message.pop(track))
                if track == "audio":
                    return decode_assistant_audio(given, answer=True)
                return OpaqueBlock(dialect=API, value={track: given})
        text, block, wire = record.text(key), record.block(key), self._wires.get(key)
        if isinstance(block, ThinkingBlock):
            if wire is None:
                return plain_thought(text, self._details.aliases.get(key) or [track], self._compat)
            rest = {name: value for name, value in wire.items() if name != PLAIN}
            return decode_part({**rest, "thinking": text if wire.get(PLAIN) else [text_chunk(text)] if text else []})
        if isinstance(block, TextBlock) and block.refusal:
            return TextBlock(text=text, refusal=True)
        finished = decode_part({"type": "text", "text": text, **wire}) if wire else TextBlock(text=text)
        return self._sourced(finished) if isinstance(finished, TextBlock) else finished

    def _sourced(self, block: TextBlock) -> TextBlock:
        """The text with its citations so far, and the signature if it is the first."""
        given, before, first = self._message.get("annotations"), self._text_length, not self._texts
        self._text_length += len(block.text)
        self._texts += 1
        if given and are_sources(given):
            del self._message["annotations"]
            # Their `index` joins lists in a stream.
            wires = ({key: value for key, value in source.items() if key != "index"} for source in given)
            block = replace(block, citations=tuple(shifted(decode_citation(wire), before) for wire in wires))
        signature = google_signature(self._message) if first else None
        return block if signature is None else replace(block, text_signature=signature)

    def _residual(self, content: tuple[Block, ...]) -> dict[str, Any]:
        """The residual of the message, as in a whole answer."""
        marks: dict[str, Any] = {}
        if self._details.numbers and joined_text(content[key] for key in self._details.numbers):
            repeats = [name for name in THOUGHTS if name in self._details.repeats]
            # Thinking in plain fields, not in parts of `content`.
            thoughts = (block for block in content if isinstance(block, ThinkingBlock) and not is_detail(block))
            plain = any(not (block.extra.get(API) or {}).get(PART) for block in thoughts)
            if not plain and repeats != usual_repeats(False, self._compat, answer=True):
                marks[REPEATS] = repeats
        if self._listed:  # unless encoding the blocks gives a content list with the same parts
            usual = encode_assistant(content, {}, PLAIN_HOST, QUIET, answer=True)["content"]
            listed = encode_assistant(content, {PARTS: True}, PLAIN_HOST, QUIET, answer=True)["content"]
            if not isinstance(usual, list) or len(usual) != len(listed):
                marks[PARTS] = True
        encoded = encode_assistant(content, marks, self._compat, QUIET, answer=True)
        beside = {
            key: value
            for key, value in joined(self._message).items()
            if not (encoded.get(key) and key in _GIVEN) or (key == "content" and value)
        }
        wire = {**encoded, **beside}
        if not encoded["content"] and "content" not in self._message:
            del wire["content"]
        return {**residual(wire, encoded), **marks}


# Blocks of these fields stay open while others begin.
_SIDE_BY_SIDE = ("tool_calls", "function_call", "audio")
# The text of a custom tool is our argument `input`: the JSON around its fragments.
_TEXT_BEGINS, _TEXT_ENDS = '{"input":"', '"}'


def _escaped(text: str) -> str:
    return jsontext.compact(text)[1:-1]


_PADDING = frozenset({"obfuscation", "p"})  # padding against traffic analysis
_GIVEN = frozenset({*TRACKS, "annotations"})  # contained in the blocks


# --- ours to wire -----------------------------------------------------------------------------------------------------


class StreamEncoder(Encoder):
    encode_response = staticmethod(encode_response)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._compat = compat_of(self._quirks)
        # Whether the client requested usage (`stream_options.include_usage`); clients of other wires always get it.
        options: Any = {"stream_options": {"include_usage": True}}
        if self._request is not None:
            options = restored(options, self._request.extra, API)
        self._has_usage = bool(fields_of(options.get("stream_options")).get("include_usage"))
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

    def _send(self, track: str, delta: dict[str, Any]) -> bytes:
        self._track = track
        return self._write(delta)

    def _start(self, message: AssistantMessage) -> bytes:
        """The first chunk, with the role."""
        residual = response_residual(message)
        self._residual = residual.get(MESSAGE) or {}
        self._started = True
        self._set_head(put_back(encode_envelope(message, self._compat), residual))
        # OpenAI's first chunk has the role and no text; clients take it as the start of the message.
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
            if not special:
                self._writers[index] = lambda text: self._send("refusal", {"refusal": text})
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
        return self._send("content", {"content": [{**rest, "text": text}]})

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
        marks = block.extra.get(API) or {}
        if marks.get(PART):
            border = self._write({"content": []}) if self._track == "thinking part" else b""
            plain = bool(marks.get(PLAIN))
            self._writers[index] = lambda text: self._send_thinking_part(text if plain else [text_chunk(text)])
            self._track = ""
            return border
        if is_detail(block) and not block.redacted:
            entry = encode_detail(block, self._encoded_details)
            self._encoded_details += 1
            self._details[index] = {"type": entry["type"], "index": entry.get("index", self._encoded_details - 1)}
            self._writers[index] = self._detail_writer(index, TEXTS.get(entry["type"], "text"))
        elif not block.redacted:
            self._writers[index] = self._thought_writer(marks.get(FIELDS) or [self._compat.reasoning_field])
        return b""

    def _send_thinking_part(self, thinking: Any, part: dict[str, Any] = {"type": "thinking"}) -> bytes:  # noqa: B006
        return self._send("thinking part", {"content": [{**part, "thinking": thinking}]})

    def _thought_writer(self, names: list[str]) -> Callable[[str], bytes]:
        apart = "\n\n" if self._track == names[0] else ""

        def write(text: str) -> bytes:
            nonlocal apart
            text, apart = apart + text, ""
            self._track = names[0]
            return self._write(dict.fromkeys(names, text))

        return write

    def _detail_writer(self, index: int, field: str) -> Callable[[str], bytes]:
        repeats = self._residual.get(REPEATS, [self._compat.reasoning_field])

        def write(text: str) -> bytes:
            self._track = DETAILS
            self._details[index][field] = ""
            entry = {**self._details[index], field: text}
            return self._write({**dict.fromkeys(repeats, text), DETAILS: [entry]})

        return write

    def _end_thinking(self, index: int, block: ThinkingBlock) -> bytes:
        marks = block.extra.get(API) or {}
        if marks.get(PART):
            part = encode_part_unreported(block)[0]
            if len(part) == 2 and block.thinking:
                return b""
            return self._send_thinking_part("" if marks.get(PLAIN) else [], part)
        if not is_detail(block):
            return b""
        known = self._details.pop(index, None)
        if known is None:
            # Clients join entries by their index.
            entry = {"index": self._encoded_details, **encode_detail(block, self._encoded_details)}
            self._encoded_details += 1
        else:
            rest = {key: value for key, value in encode_detail(block, 0).items() if key not in known}
            if not rest and len(known) > 2:
                return b""
            entry = {"type": known["type"], "index": known["index"], **rest}
        return self._send(DETAILS, {DETAILS: [entry]})

    # calls and whole blocks

    def _open_call(self, index: int, call: ToolCall) -> bytes:
        custom = bool((call.extra.get(API) or {}).get(CUSTOM))
        encoded = encode_call(replace(call, arguments={"input": ""}) if custom else call, answer=True)
        number, self._encoded_calls = self._encoded_calls, self._encoded_calls + 1
        function = encoded.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            encoded = {**encoded, "function": {**function, "arguments": ""}}
        self._calls[index] = {"index": number, **encoded}
        if not custom:
            self._writers[index] = self._call_writer(index, number)
        return self._send("tool_calls", {"tool_calls": [self._calls[index]]})

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
                calls[index][_PIECES] = True
            return b"".join((self._head, opening, json_line(text), b"}}]}", _TAIL))

        return write

    def _end_call(self, index: int, call: ToolCall) -> bytes:
        known = self._calls.pop(index, None)
        if known is None:
            return b""
        given = encode_call(call, answer=True)
        rest = {key: value for key, value in given.items() if known.get(key) != value}
        for kind in ("function", "custom"):
            if kind in rest:
                more = {key: value for key, value in rest[kind].items() if known.get(kind, {}).get(key) != value}
                if _PIECES in known and isinstance(more.get("arguments"), str):
                    del more["arguments"]
                rest[kind] = more
                if not more:
                    del rest[kind]
        return self._write({"tool_calls": [{"index": known["index"], **rest}]}) if rest else b""

    def _end_block(self, index: int, block: Block) -> bytes:
        encoded = encode_assistant((block,), {}, self._compat, QUIET, answer=True)
        delta = {key: encoded[key] for key in TRACKS if encoded.get(key)}
        for key in ("audio", "function_call"):
            if key in delta and key in self._once:
                del delta[key]
        if not delta:
            return b""
        self._once.update(delta)
        if "tool_calls" in delta:
            delta["tool_calls"] = [
                {"index": self._encoded_calls, **call} if isinstance(call, dict) else call
                for call in delta["tool_calls"]
            ]
            self._encoded_calls += 1
        if DETAILS in delta:
            self._encoded_details += 1
        return self._send("part" if "content" in delta else next(iter(delta)), delta)

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
        chunks = []
        for number, choice in enumerate(choices):
            rest = {key: value for key, value in choice.items() if key != "message"}
            delta = dict(choice.get("message") or {})
            if not number:  # the fields of the message that no delta had before
                sent = {*TRACKS, "annotations"} if self._sources else TRACKS
                delta = {k: v for k, v in (delta or {"content": None}).items() if k != "role" and not (v and k in sent)}
            elif isinstance(delta.get("tool_calls"), list):  # clients expect `index`
                delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(delta["tool_calls"])]
            envelope = self._envelope if number else {**given, **self._envelope}
            chunks.append({**envelope, "choices": [{**rest, "delta": delta}]})
        # …/chat/streaming, `usage`: the last chunk before `[DONE]` has it, with an empty `choices`.
        if usage is not None and self._has_usage:
            chunks.append({**self._envelope, "choices": [], "usage": usage})
        return before + b"".join(write_sse(json_line(chunk)) for chunk in chunks) + write_sse(b"[DONE]")

    def _is_stop(self, message: AssistantMessage) -> bool:
        return message.stop_reason == "error" and (
            wire_stop_reason(message) != "error" or message.stop_detail == "error"
        )

    def _failure(self, error: ProviderError) -> bytes:
        return write_sse(jsontext.write(encode_error(error)[1]))


_TAIL = b',"finish_reason":null}]}\n\n'
