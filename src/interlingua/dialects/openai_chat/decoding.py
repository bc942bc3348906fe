"""Streamed answers, read."""

from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.events import StreamEvent
from ...values.losses import QUIET
from ...values.messages import AudioBlock, Block, OpaqueBlock, TextBlock, ThinkingBlock, ToolCall
from ..framing import SSE, Frame, Framing, framing_for
from ..residual import MESSAGE, residual
from ..streaming import Decoder
from .answers import decode_envelope, is_prompt_filtered, read_answer
from .assistant import (
    DETAIL_DECODERS,
    TEXTS,
    decode_detail,
    decode_spoken_part,
    decode_spoken_sound,
    is_detail,
    is_legacy_call,
    is_sound,
    joined_text,
    plain_thought,
    say,
    text_in,
    usual_repeats,
)
from .content import (
    Pairing,
    are_sources,
    chunks_in,
    decode_call,
    decode_citation,
    decode_part,
    google_signature,
    real_id,
    shifted,
    text_chunk,
)
from .facts import (
    API,
    CHOICES,
    DETAILS,
    PART,
    PARTS,
    PIECES,
    PLAIN,
    PLAIN_HOST,
    RANKS,
    REPEATS,
    STRINGS,
    THOUGHTS,
    TRACKS,
    compat_of,
    decode_error,
    decode_usage,
    find_usage,
)
from .fragments import ACCUMULATING, CallAccumulator, begins_another, grow, index_of, joined

_SIDE_BY_SIDE = ("tool_calls", "function_call", "audio")


class StreamDecoder(Decoder):
    """Frames of a streamed answer to events."""

    API = API

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._compat = compat_of(self._quirks)
        self._pairing = Pairing(self._mint)
        self._shell: dict[str, Any] = {}  # the wire's envelope
        self._keys: tuple[str, ...] = ()  # of the latest chunk, whose envelope …
        self._latest: dict[str, Any] = {}  # … is merged when another shape comes
        self._choice: dict[str, Any] = {}  # the first choice, without its message
        self._message: dict[str, Any] = {}  # what the message has beside its tracks, and tracks that are empty so far
        self._others: dict[Any, dict[str, Any]] = {}  # the other choices, whole
        self._track = ""  # of the block that opened last; its key is the number of blocks before it
        self._now = -1
        self._hot = ""  # the track that the next chunk most likely goes on with, if it looks like the last one:
        self._quiet: dict[str, Any] = {}  # its choice without the delta, …
        self._rest: dict[str, Any] = {}  # … its delta without the piece
        self._wires: dict[int, dict[str, Any]] = {}  # what blocks have beside their text
        self._aliases: dict[int, list[str]] = {}  # fields that gave the same thinking in other words' place
        self._details: dict[Any, int] = {}
        self._numbers: dict[int, int] = {}  # which of the details a block is
        self._repeats: set[str] = set()
        self._text = ""  # of the details in this chunk, if a plain field repeats them
        self._calls: list[CallAccumulator] = []
        self._by_index: dict[int, CallAccumulator] = {}
        self._opened = 0
        self._grown: dict[str, int] = {}  # the blocks of sound and of a call of the old kind
        self._texts = 0
        self._spoken = 0  # how much text the finished ones have
        self._listed = False
        self._ended = False

    def feed(self, frame: Frame) -> list[StreamEvent]:
        if frame.data.startswith(b"{"):
            return Decoder.feed(self, frame)
        encoded = frame.data.strip()
        if encoded == b"[DONE]":
            self._ended = True
            return self.close()
        return Decoder.feed(self, frame) if encoded else []

    def _read(self, value: Any, frame: Frame) -> None:
        if (*value,) == self._keys and not value.get("usage"):
            self._latest = value
            hot, choices = self._hot, value["choices"]
            if hot and len(choices) == 1:
                # Most chunks bring the next piece of the block that was heard last, and look just like the last one.
                choice = choices[0]
                delta = choice.pop("delta", None)
                if delta and choice == self._quiet:
                    given = delta.pop(hot, None)
                    if delta == self._rest:
                        if given.__class__ is str:
                            self._record.delta(self._now, given)
                            return
                        if given.__class__ is list and hot == "tool_calls":
                            self._hear_calls(given)
                            return
                    delta[hot] = given
                choice["delta"] = delta
        else:
            self._envelope(value)
            if self._record.finished:
                return
        for choice in value.get("choices") or ():
            if choice.get("index"):
                self._hear_other(choice)
            else:
                self._hear(choice)

    def _complete(self) -> bool:
        if self._ended or self._choice.get("finish_reason"):
            return True
        return not (self._choice or self._message or self._others) and is_prompt_filtered(self._shell)

    # the envelope

    def _envelope(self, value: dict[str, Any]) -> None:
        error = value.get("error")
        if error:
            self._merge_envelope(value)
            given = self.failure = decode_error(0, value)
            self._fail(given.message, detail=given.code)
            return
        if self._latest:
            self._merge_envelope(self._latest)
        self._merge_envelope(value)
        self._latest = {}
        # Chunks of the same shape differ in nothing that matters, unless they are of those that carry usage or errors.
        self._keys = () if "error" in value or "x_groq" in value else (*value,)
        self._record.note(
            **decode_envelope(self._shell, self._given),
            usage=decode_usage(find_usage(self._shell, {}), self._compat),
        )
        self._record.begin()

    def _merge_envelope(self, value: dict[str, Any]) -> None:
        shell = self._shell
        for key, text in value.items():
            if key == "choices" or (key in shell and (text is None or text == "")):
                continue
            if key == "id" and shell.get("id"):
                continue  # some hosts change it from chunk to chunk
            if key == "object":  # whatever hosts call their chunks
                text = "chat.completion"
            if key == "x_groq" and isinstance(text, dict) and isinstance(shell.get(key), dict):
                text = {**shell[key], **text}
            if key not in _PADDING:
                shell[key] = text

    # choices

    def _warm(self, choice: dict[str, Any], delta: dict[str, Any], track: str) -> None:
        """Notes what a chunk looks like that only brings more of the same."""
        quiet = {key: value for key, value in choice.items() if key != "delta"}
        if self._track == track and delta is choice.get("delta") and not any(quiet.values()):
            self._hot, self._quiet = track, quiet
            self._rest = {key: value for key, value in delta.items() if key != track}

    def _hear(self, choice: dict[str, Any]) -> None:
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
                self._cross_border()
            if key not in self._message:
                self._message[key] = value
        if len(reported) > 1:
            self._hear_many(delta, reported)
        elif reported:
            self._hear_one(reported[0], delta[reported[0]])
            self._warm(choice, delta, reported[0])
        for key, value in choice.items():
            if value is None:
                if key not in self._choice:
                    self._choice[key] = None
            elif key not in _CHOICE_SHELL:
                self._hear_shell(key, value)

    def _hear_shell(self, key: str, value: Any) -> None:
        """What a choice says beside its delta."""
        if key == "finish_reason":
            if value or not self._choice.get(key):
                self._choice[key] = value
        elif key == "usage":
            self._choice[key] = value
        else:
            grow(self._choice, {key: value}, ())

    def _hear_many(self, delta: dict[str, Any], reported: list[str]) -> None:
        """A delta of several kinds: thinking first, then text, then calls; words that stand twice are heard once."""
        details = delta.get(DETAILS)
        message = text_in(details) if isinstance(details, list) and details else ""
        received: list[Any] = []
        for name in THOUGHTS:
            text = delta.get(name)
            if text and text.__class__ is str:
                if text == message:
                    self._text = message
                    self._repeats.add(name)
                elif text not in received:
                    received.append(text)
                    self._hear_text(name, text, [other for other in THOUGHTS if delta.get(other) == text])
        others = [key for key in reported if key not in THOUGHTS or delta[key].__class__ is not str]
        for key in others if len(others) == 1 else sorted(others, key=_rank):
            self._hear_one(key, delta[key])
        self._text = ""

    def _hear_one(self, key: str, value: Any) -> None:
        if key in STRINGS and isinstance(value, str):
            self._hear_text(key, value)
        elif key == "tool_calls" and isinstance(value, list):
            self._hear_calls(value)
        elif key == DETAILS and isinstance(value, list):
            for detail in value:
                self._hear_detail(detail)
        elif key == "content" and isinstance(value, list):
            self._listed = True
            for part in value:
                self._hear_part(part)
        elif key == "content":
            self._hear_text(key, jsontext.compact(value))
            self._message[key] = value
        elif key in ("audio", "function_call") and isinstance(value, dict):
            self._feed_accumulator(key, value)
        elif key == "images" and isinstance(value, list):
            for image in value:
                self._open("images", decode_part(image))
                self._record.close(self._now, decode_part(image))
        else:
            grow(self._message, {key: value}, ())

    def _hear_other(self, choice: dict[str, Any]) -> None:
        """A choice that is not the first: kept as the whole answer would show it."""
        known = self._others.setdefault(choice["index"], {})
        for key, value in choice.items():
            if key in ("delta", "message"):
                grow(known.setdefault("message", {}), value or {}, ACCUMULATING)
            elif key == "finish_reason":
                known[key] = value or known.get(key)
            else:
                grow(known, {key: value}, ())

    # blocks

    def _open(self, track: str, block: Block) -> None:
        if self._opened < len(self._calls) and track != "tool_calls":
            self._open_calls(all_of_them=True)
        self._settle()
        self._now += 1
        self._track = track
        self._hot = ""
        self._record.open(self._now, block)

    def _settle(self) -> None:
        """Ends the block that opened last, unless it may go on beside others: calls of both kinds, and sound."""
        if self._track and self._track not in _SIDE_BY_SIDE and self._record.is_open(self._now):
            self._record.close(self._now, self._finished(self._now, self._track))

    def _cross_border(self) -> None:
        """An empty content list: more text is another part."""
        self._listed = True
        self._settle()
        self._track = self._hot = ""

    def _hear_text(self, track: str, text: str, names: list[str] | None = None) -> None:
        if self._track != track:
            if track == "content":
                self._open(track, TextBlock(text=""))
            elif track == "refusal":
                self._open(track, TextBlock(text="", refusal=True))
            else:
                self._open(track, plain_thought("", names or [track], self._compat))
        if names is not None:
            known = self._aliases.get(self._now, ())
            self._aliases[self._now] = [name for name in THOUGHTS if name in names or name in known]
        self._record.delta(self._now, text)

    def _hear_part(self, part: Any) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            if self._track != "content":
                self._open("content", TextBlock(text=""))
            self._record.delta(self._now, part["text"])
            self._note_part(part, "text")
        elif kind == "thinking" and isinstance(part.get("thinking"), (str, list)):
            text = part["thinking"] if isinstance(part["thinking"], str) else chunks_in(part["thinking"])
            if text is None:
                self._whole_part(part)
                return
            if self._track != "thinking part":
                self._open("thinking part", ThinkingBlock(thinking="", extra={API: {PART: True}}))
                self._wires[self._now] = {"type": "thinking", PLAIN: isinstance(part["thinking"], str)}
            self._record.delta(self._now, text)
            self._note_part(part, "thinking")
        else:
            self._whole_part(part)

    def _note_part(self, part: dict[str, Any], grown: str) -> None:
        if len(part) > 2:
            known = self._wires.setdefault(self._now, {})
            known.update((key, value) for key, value in part.items() if key not in ("type", grown))

    def _whole_part(self, part: Any) -> None:
        block = decode_spoken_part(part)
        self._open("part", block)
        self._record.close(self._now, block)

    def _hear_detail(self, detail: Any) -> None:
        """A piece of `reasoning_details`: pieces of one type and index belong together."""
        kind = detail.get("type") if isinstance(detail, dict) else None
        if kind not in DETAIL_DECODERS:
            self._new_detail(OpaqueBlock(dialect=API, value={DETAILS: [detail]}), {})
            return
        grown = TEXTS.get(kind, "data")
        text = detail.get(grown)
        text = text if isinstance(text, str) else ""
        index = detail.get("index")
        place = (kind, index if isinstance(index, (int, str)) else None)
        key = self._details.get(place)
        if key is not None and self._is_other(key, detail):
            key = None
        if key is None:
            if grown == "text" and self._takes_over(text):
                key = self._now
                self._wires[key] = {}
            else:
                key = self._new_detail(decode_detail({**detail, grown: ""}, len(self._numbers)), {})
                self._say_detail(key, grown, text)
            self._details[place] = key
        else:
            self._say_detail(key, grown, text)
        known = self._wires[key]
        for name, value in detail.items():
            if name not in known or (name != grown and value):
                known[name] = value

    def _say_detail(self, key: int, grown: str, text: str) -> None:
        if grown == "data":
            self._wires[key].setdefault(PIECES, []).append(text)
        else:
            self._record.delta(key, text)

    def _is_other(self, key: int, detail: dict[str, Any]) -> bool:
        """Whether a piece begins an entry of its own although one of its type and index is known."""
        known = self._wires[key]
        given = detail.get("id")
        if given and known.get("id") and given != known["id"]:
            return True
        if detail.get("index") is None and key != self._now:
            return True
        return not self._record.is_open(key)

    def _takes_over(self, text: str) -> bool:
        """Whether the entry repeats the plain thinking that was just heard: then that thinking is the entry."""
        track = self._track
        if not text or text == self._text or track not in THOUGHTS or not self._record.is_open(self._now):
            return False
        if self._record.text(self._now) != text:
            return False
        self._repeats.update(self._aliases.pop(self._now, [track]))
        self._number()
        self._track = DETAILS
        self._hot = ""
        return True

    def _new_detail(self, block: Block, wire: dict[str, Any]) -> int:
        self._open(DETAILS, block)
        self._wires[self._now] = wire
        self._number()
        if isinstance(block, OpaqueBlock):
            self._record.close(self._now, block)
        return self._now

    def _number(self) -> None:
        self._numbers[self._now] = len(self._numbers)

    def _feed_accumulator(self, track: str, value: dict[str, Any]) -> None:
        """Sound, or a call of the old kind: it opens when enough is known, and grows."""
        known = self._message.get(track)
        wire = known if isinstance(known, dict) else {}
        grow(wire, value, ACCUMULATING)
        self._message[track] = wire
        if track not in self._grown and (is_sound(wire) if track == "audio" else is_legacy_call(wire)):
            self._open(track, AudioBlock() if track == "audio" else OpaqueBlock(dialect=API, value={}))
            self._grown[track] = self._now

    # calls

    def _hear_calls(self, deltas: list[Any]) -> None:
        touched: list[CallAccumulator] = []  # in this chunk
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
                self._hear_call(call, delta, arguments)
            touched.append(call)

    def _hear_call(self, call: CallAccumulator, delta: dict[str, Any], arguments: Any) -> None:
        call.hear(delta)
        if isinstance(arguments, str):
            if arguments:
                call.pieces.append(arguments)
                if call.key is not None:
                    self._record.delta(call.key, _escaped(arguments) if call.is_custom() else arguments)
        elif arguments is not None and "function" in call.wire:
            call.wire["function"]["arguments"] = arguments
        if call.key is None:
            self._open_calls()

    def _find_call(
        self, delta: dict[str, Any], function: dict[str, Any], touched: list[CallAccumulator]
    ) -> CallAccumulator:
        """The call that a delta goes on with: by its index, else its id, else the last; or a new one."""
        index, given, name = index_of(delta.get("index")), real_id(delta.get("id")), function.get("name")
        call: CallAccumulator | None
        if index is not None:
            call = self._by_index.get(index)
            if call is not None and begins_another(call, given, name, function.get("arguments")):
                call = None
        elif given is not None:
            call = next((known for known in self._calls if known.id == given), None)
        else:
            call = self._calls[-1] if self._calls else None
            if call is not None and name and call.name and (name != call.name or call in touched):
                call = None
        if call is None:
            call = CallAccumulator()
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.id = call.id or given
        if name and (call.name is None or not call.pieces):
            call.name = name
        return call

    def _open_calls(self, *, all_of_them: bool = False) -> None:
        """Opens the calls whose turn it is. At the end, one that never got an id is given one."""
        while self._opened < len(self._calls):
            call = self._calls[self._opened]
            if not (all_of_them or call.is_known()):
                return
            self._opened += 1
            self._settle()
            self._now += 1
            self._track = "tool_calls"
            self._hot = ""
            call.key = self._now
            if not call.name:
                self._record.open(call.key, OpaqueBlock(dialect=API, value={"tool_calls": [call.wire]}))
                continue
            call.id = call.id or self._pairing.mint()
            block, text = self._finished_call(call, call.known()), "".join(call.pieces)
            if isinstance(block, ToolCall):
                block = replace(block, arguments={})
            self._record.open(call.key, block)
            self._record.delta(call.key, _TEXT_BEGINS + _escaped(text) if call.is_custom() else text)

    # the end

    def _finish(self) -> None:
        if not self._message and not self._choice and self._others:
            first = self._others.pop(min(self._others, key=str))
            self._hear(joined(first))
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
        if choice is not None and isinstance(choice.get("error"), dict):  # OpenRouter's way to fail in the middle
            self.failure = decode_error(0, {"error": choice["error"]})
        self._record.end(read_answer(self._shell, choice, content, beside, self._given, self._compat))

    def _close_blocks(self) -> None:
        self._open_calls(all_of_them=True)
        for call in self._calls:
            if call.key is not None:
                if call.is_custom() and self._record.is_open(call.key):
                    self._record.delta(call.key, _TEXT_ENDS)
                self._record.close(call.key, self._finished_call(call, call.whole()))
        for key in self._record.open_keys():
            self._record.close(key, self._finished(key, self._track if key == self._now else ""))  # type: ignore[arg-type]

    def _finished_call(self, call: CallAccumulator, wire: dict[str, Any]) -> Block:
        return decode_call(wire, lambda: call.id or "", answer=True)

    def _finished(self, key: int, track: str) -> Block:
        """The block, read from what the whole answer would have shown."""
        record = self._record
        if key in self._numbers:
            return self._finished_detail(key, self._numbers[key])
        for grown, at in self._grown.items():
            if at == key:
                given = joined(self._message.pop(grown))
                if grown == "audio":
                    return decode_spoken_sound(given, answer=True)
                return OpaqueBlock(dialect=API, value={grown: given})
        text, block, wire = record.text(key), record.block(key), self._wires.get(key)
        if isinstance(block, ThinkingBlock) and wire is not None:
            plain = wire.get(PLAIN)
            rest = {name: value for name, value in wire.items() if name != PLAIN}
            return decode_part({**rest, "thinking": text if plain else [text_chunk(text)] if text else []})
        if isinstance(block, ThinkingBlock):
            return plain_thought(text, self._aliases.get(key) or [track], self._compat)
        if isinstance(block, TextBlock) and block.refusal:
            return TextBlock(text=text, refusal=True)
        finished = decode_part({"type": "text", "text": text, **wire}) if wire else TextBlock(text=text)
        return self._sourced(finished) if isinstance(finished, TextBlock) else finished

    def _sourced(self, block: TextBlock) -> TextBlock:
        """The text with the sources that came until its end, and its signature if it is the first."""
        given, before, first = self._message.get("annotations"), self._spoken, not self._texts
        self._spoken += len(block.text)
        self._texts += 1
        if given and are_sources(given):
            del self._message["annotations"]
            own = tuple(shifted(decode_citation(_unnumbered(source)), before) for source in given)
            block = replace(block, citations=own)
        signature = google_signature(self._message) if first else None
        return block if signature is None else replace(block, text_signature=signature)

    def _finished_detail(self, key: int, at: int) -> Block:
        wire = {name: value for name, value in self._wires[key].items() if name != PIECES}
        grown = TEXTS.get(wire["type"], "data")
        pieces = self._wires[key].get(PIECES)
        if grown in wire and isinstance(wire[grown], str):
            wire[grown] = self._record.text(key) if pieces is None else "".join(pieces)
        return decode_detail(wire, at)

    def _residual(self, content: tuple[Block, ...]) -> dict[str, Any]:
        """What the message said beside its blocks, as the residual of the whole message would hold it."""
        marks: dict[str, Any] = {}
        if any(isinstance(content[key], ThinkingBlock) for key in self._numbers):
            self._mark_repeats(content, marks)
        if self._listed and not _implies_parts(content):
            marks[PARTS] = True
        encoded = say(content, marks, self._compat, QUIET, answer=True)
        beside = {
            key: value
            for key, value in joined(self._message).items()
            if not (encoded.get(key) and key in _GIVEN) or (key == "content" and value)
        }
        wire = {**encoded, **beside}
        if not encoded["content"] and "content" not in self._message:
            del wire["content"]
        return {**residual(wire, encoded), **marks}

    def _mark_repeats(self, content: tuple[Block, ...], marks: dict[str, Any]) -> None:
        text = joined_text(content[key] for key in self._numbers)
        plain = any(
            isinstance(block, ThinkingBlock) and not is_detail(block) and not _in_content(block) for block in content
        )
        repeats = [name for name in THOUGHTS if name in self._repeats]
        if text and not plain and repeats != usual_repeats(False, self._compat, answer=True):
            marks[REPEATS] = repeats


_PADDING = frozenset({"obfuscation", "p"})  # noise against traffic analysis
_CHOICE_SHELL = frozenset({"delta", "message", "index"})
_GIVEN = frozenset({*TRACKS, "annotations"})  # what the blocks say for themselves


def _unnumbered(source: dict[str, Any]) -> dict[str, Any]:
    """A source without the number that it needs in a stream, for clients to put lists together."""
    return {key: value for key, value in source.items() if key != "index"}


def _rank(track: str) -> int:
    return RANKS.get(track, len(RANKS))


# The text for a custom tool is, here, the argument `input`; this is how it is spelled piece by piece.
_TEXT_BEGINS, _TEXT_ENDS = '{"input":"', '"}'


def _escaped(text: str) -> str:
    return jsontext.compact(text)[1:-1]


def _in_content(block: Block) -> bool:
    return bool((getattr(block, "extra", {}).get(API) or {}).get(PART))


def _implies_parts(content: tuple[Block, ...]) -> bool:
    """Whether saying the blocks gives a content list anyway, with the same parts."""
    encoded = say(content, {}, PLAIN_HOST, QUIET, answer=True)["content"]
    listed = say(content, {PARTS: True}, PLAIN_HOST, QUIET, answer=True)["content"]
    return isinstance(encoded, list) and len(encoded) == len(listed)


def framing(content_type: str | None = None) -> Framing:
    """Server-sent events; a host that was asked for a stream and gives one JSON document is understood too."""
    return framing_for(content_type, SSE)
