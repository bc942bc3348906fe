"""Decoding of streamed answers. platform.openai.com/docs/api-reference/chat-streaming"""

from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.losses import QUIET
from ...values.messages import AudioBlock, Block, OpaqueBlock, TextBlock, ThinkingBlock, Usage
from ..framing import Frame
from ..residual import MESSAGE, residual
from ..streaming import Decoder
from .accumulators import ACCUMULATING, CallReader, DetailReader, OpenBlock, joined, merge_delta
from .answers import decode_envelope, is_prompt_filtered, read_answer
from .assistant import (
    decode_assistant_audio,
    decode_assistant_part,
    encode_assistant,
    is_audio,
    is_legacy_call,
    plain_thought,
    repeats_call,
    text_in,
)
from .content import (
    Pairing,
    are_sources,
    chunks_in,
    decode_citation,
    decode_part,
    google_signature,
    shifted,
    text_chunk,
)
from .facts import (
    API,
    CHOICES,
    DETAILS,
    PART,
    PARTS,
    PLAIN,
    PLAIN_HOST,
    RANKS,
    STRINGS,
    THOUGHTS,
    TRACKS,
    compat_of,
    decode_error,
    decode_usage,
    find_usage,
)


class StreamDecoder(Decoder):
    """Decodes the frames of a streamed answer."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._compat = compat_of(self._quirks)
        self._shell: dict[str, Any] = {}  # the wire's envelope
        self._keys: tuple[str, ...] = ()  # keys of the latest chunk, whose envelope …
        self._latest: dict[str, Any] = {}  # … is merged when a chunk with other keys comes
        self._choice: dict[str, Any] = {}  # the first choice without its message
        self._message: dict[str, Any] = {}  # fields of the message beside its tracks, and empty tracks
        self._others: dict[Any, dict[str, Any]] = {}  # the other choices, whole
        self._block = OpenBlock(self._record, self._finished)
        self._calls = CallReader(self._record, self._block, Pairing(self._mint))
        self._details = DetailReader(self._record, self._block, self._open)
        self._hot = ""  # the track of the next chunk, if it looks like the last one:
        self._quiet: dict[str, Any] = {}  # its choice without the delta, …
        self._rest: dict[str, Any] = {}  # … its delta without the fragment
        self._wires: dict[int, dict[str, Any]] = {}  # fields of blocks beside their text
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
            hot, choices = self._hot, value["choices"]
            if hot and hot == self._block.track and len(choices) == 1:
                # Fast path: most chunks have the next fragment of the open block and look like the last one.
                choice = choices[0]
                delta = choice.pop("delta", None)
                if delta and choice == self._quiet:
                    given = delta.pop(hot, None)
                    if delta == self._rest:
                        if given.__class__ is str:
                            self._record.delta(self._block.key, given)
                            return
                        if given.__class__ is list and hot == "tool_calls":
                            self._calls.read(given)
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
        if self._ended or self._choice.get("finish_reason"):
            return True
        return not (self._choice or self._message or self._others) and is_prompt_filtered(self._shell)

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

    def _warm(self, choice: dict[str, Any], delta: dict[str, Any], track: str) -> None:
        """Remembers the shape of a chunk that only continues the open block."""
        quiet = {key: value for key, value in choice.items() if key != "delta"}
        if self._block.track == track and delta is choice.get("delta") and not any(quiet.values()):
            self._hot, self._quiet = track, quiet
            self._rest = {key: value for key, value in delta.items() if key != track}

    def _read_choice(self, choice: dict[str, Any]) -> None:
        if not self._choice and "index" in choice:
            self._choice["index"] = choice["index"]
        delta = choice.get("delta")
        if delta is None:
            delta = choice.get("message") or {}
        reported = []
        for key, value in delta.items():
            if value and key != "role":
                reported.append(key)
                continue
            if key == "content" and value.__class__ is list:
                self._end_part()
            if key not in self._message:
                self._message[key] = value
        if len(reported) > 1:
            self._read_many(delta, reported)
        elif reported:
            self._read_field(reported[0], delta[reported[0]])
            self._warm(choice, delta, reported[0])
        for key, value in choice.items():
            if value is None:
                if key not in self._choice:
                    self._choice[key] = None
            elif key not in _CHOICE_SHELL:
                self._read_shell(key, value)

    def _read_shell(self, key: str, value: Any) -> None:
        """Handles the fields of a choice beside its delta."""
        if key == "finish_reason":
            if value or not self._choice.get(key):
                self._choice[key] = value
        elif key == "usage":
            self._choice[key] = value
        else:
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
        for key in others if len(others) == 1 else sorted(others, key=_rank):
            self._read_field(key, delta[key])
        self._details.repeated = ""

    def _read_field(self, key: str, value: Any) -> None:
        if key in STRINGS and isinstance(value, str):
            self._read_text(key, value)
        elif key == "tool_calls" and isinstance(value, list):
            self._calls.read(value)
        elif key == DETAILS and isinstance(value, list):
            for detail in value:
                self._details.read(detail)
        elif key == "content" and isinstance(value, list):
            self._listed = True
            for part in value:
                self._read_part(part)
        elif key == "content":
            self._read_text(key, jsontext.compact(value))
            self._message[key] = value
        elif key in ("audio", "function_call") and isinstance(value, dict):
            self._feed_accumulator(key, value)
        elif key == "images" and isinstance(value, list):
            for image in value:
                self._open("images", decode_part(image))
                self._record.close(self._block.key, decode_part(image))
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
        if self._calls.is_waiting:
            self._calls.open(all_of_them=True)
        self._record.open(self._block.begin(track), block)

    def _end_part(self) -> None:
        """An empty content list: more text is another part."""
        self._listed = True
        self._block.leave()

    def _read_text(self, track: str, text: str, names: list[str] | None = None) -> None:
        if self._block.track != track:
            if track == "content":
                self._open(track, TextBlock(text=""))
            elif track == "refusal":
                self._open(track, TextBlock(text="", refusal=True))
            else:
                self._open(track, plain_thought("", names or [track], self._compat))
        if names is not None:
            aliases, key = self._details.aliases, self._block.key
            known = aliases.get(key, ())
            aliases[key] = [name for name in THOUGHTS if name in names or name in known]
        self._record.delta(self._block.key, text)

    def _read_part(self, part: Any) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            if self._block.track != "content":
                self._open("content", TextBlock(text=""))
            self._record.delta(self._block.key, part["text"])
            self._note_part(part, "text")
        elif kind == "thinking" and isinstance(part.get("thinking"), (str, list)):
            text = part["thinking"] if isinstance(part["thinking"], str) else chunks_in(part["thinking"])
            if text is None:
                self._whole_part(part)
                return
            if self._block.track != "thinking part":
                self._open("thinking part", ThinkingBlock(thinking="", extra={API: {PART: True}}))
                self._wires[self._block.key] = {"type": "thinking", PLAIN: isinstance(part["thinking"], str)}
            self._record.delta(self._block.key, text)
            self._note_part(part, "thinking")
        else:
            self._whole_part(part)

    def _note_part(self, part: dict[str, Any], track: str) -> None:
        if len(part) > 2:
            known = self._wires.setdefault(self._block.key, {})
            known.update((key, value) for key, value in part.items() if key not in ("type", track))

    def _whole_part(self, part: Any) -> None:
        block = decode_assistant_part(part)
        self._open("part", block)
        self._record.close(self._block.key, block)

    def _feed_accumulator(self, track: str, value: dict[str, Any]) -> None:
        """Audio, or a legacy function call: opened when its id or name is known."""
        known = self._message.get(track)
        wire = known if isinstance(known, dict) else {}
        merge_delta(wire, value, ACCUMULATING)
        self._message[track] = wire
        if track not in self._tracked and (is_audio(wire) if track == "audio" else is_legacy_call(wire)):
            self._open(track, AudioBlock() if track == "audio" else OpaqueBlock(dialect=API, value={}))
            self._tracked[track] = self._block.key

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
        del self._block, self._calls, self._details  # they refer to this decoder: no cycle is left to collect

    def _close_blocks(self) -> None:
        self._calls.close()
        for key in self._record.open_keys():
            self._record.close(key, self._finished(key, self._block.track if key == self._block.key else ""))  # type: ignore[arg-type]

    def _finished(self, key: int, track: str) -> Block:
        """The block, decoded as in a whole answer."""
        record = self._record
        if key in self._details.numbers:
            return self._details.finished(key)
        for track, at in self._tracked.items():
            if at == key:
                given = joined(self._message.pop(track))
                if track == "audio":
                    return decode_assistant_audio(given, answer=True)
                return OpaqueBlock(dialect=API, value={track: given})
        text, block, wire = record.text(key), record.block(key), self._wires.get(key)
        if isinstance(block, ThinkingBlock) and wire is not None:
            plain = wire.get(PLAIN)
            rest = {name: value for name, value in wire.items() if name != PLAIN}
            return decode_part({**rest, "thinking": text if plain else [text_chunk(text)] if text else []})
        if isinstance(block, ThinkingBlock):
            return plain_thought(text, self._details.aliases.get(key) or [track], self._compat)
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
            own = tuple(shifted(decode_citation(_unnumbered(source)), before) for source in given)
            block = replace(block, citations=own)
        signature = google_signature(self._message) if first else None
        return block if signature is None else replace(block, text_signature=signature)

    def _residual(self, content: tuple[Block, ...]) -> dict[str, Any]:
        """The residual of the message, as in a whole answer."""
        marks: dict[str, Any] = {}
        self._details.mark_repeats(content, marks, self._compat)
        if self._listed and not _implies_parts(content):
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


_PADDING = frozenset({"obfuscation", "p"})  # padding against traffic analysis
_CHOICE_SHELL = frozenset({"delta", "message", "index"})
_GIVEN = frozenset({*TRACKS, "annotations"})  # contained in the blocks


def _unnumbered(source: dict[str, Any]) -> dict[str, Any]:
    """A citation without the `index` that joins lists in a stream."""
    return {key: value for key, value in source.items() if key != "index"}


def _rank(track: str) -> int:
    return RANKS.get(track, len(RANKS))


def _implies_parts(content: tuple[Block, ...]) -> bool:
    """Whether encoding the blocks gives a content list with the same parts."""
    encoded = encode_assistant(content, {}, PLAIN_HOST, QUIET, answer=True)["content"]
    listed = encode_assistant(content, {PARTS: True}, PLAIN_HOST, QUIET, answer=True)["content"]
    return isinstance(encoded, list) and len(encoded) == len(listed)
