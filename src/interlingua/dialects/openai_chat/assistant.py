"""The assistant message: decoding and encoding of its tracks (thinking, text, calls, …)."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, ClassVar

from msgspec.structs import replace

from ...values import jsontext
from ...values.folding import is_bare
from ...values.interop import camel_case
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AudioBlock,
    Block,
    Citation,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
)
from ..residual import RESPONSE, optional, put_back, residual, restored, string, with_residual
from .content import (
    decode_call,
    decode_part,
    encode_call,
    encode_citation,
    encode_part,
    encode_part_unreported,
    is_blank,
    signed,
    sourced,
    with_rest,
)
from .facts import API, DETAIL, DETAILS, FIELDS, INDEXED, PART, PARTS, RANKS, REPEATS, THOUGHTS, TRACKS, Compat

# --- thinking: plain text in one of several fields, or entries of `reasoning_details` --------------------------------


def decode_detail(wire: Any, at: int) -> Block:
    """Decodes entry `at` of `reasoning_details`."""
    try:
        block = DETAIL_DECODERS[wire["type"]](wire)
        return with_rest(block, wire, encode_detail(block, at))
    except (KeyError, TypeError, ValueError, AttributeError):
        return OpaqueBlock(dialect=API, value={DETAILS: [wire]})


def _decode_detail_text(wire: dict[str, Any]) -> ThinkingBlock:
    text = "" if wire.get("text") is None else string(wire["text"])
    signature = optional(wire.get("signature"))
    extra = {API: {DETAIL: "reasoning.text"}} if signature is None else {}
    return ThinkingBlock(thinking=text, thinking_signature=signature, extra=extra)


def _decode_detail_summary(wire: dict[str, Any]) -> ThinkingBlock:
    return ThinkingBlock(thinking=string(wire["summary"]), extra={API: {DETAIL: "reasoning.summary"}})


def _decode_detail_sealed(wire: dict[str, Any]) -> ThinkingBlock:
    return ThinkingBlock(thinking="", thinking_signature=optional(wire.get("data")), redacted=True)


# openrouter.ai/docs/use-cases/reasoning-tokens: text with an optional signature, a summary, or encrypted data. A
# request returns the entries unchanged and in their order.
DETAIL_DECODERS: dict[str, Callable[[dict[str, Any]], ThinkingBlock]] = {
    "reasoning.text": _decode_detail_text,
    "reasoning.summary": _decode_detail_summary,
    "reasoning.encrypted": _decode_detail_sealed,
}


def encode_detail(block: ThinkingBlock, at: int) -> dict[str, Any]:
    """The entry with its index, by which clients join streamed entries."""
    kind = "reasoning.encrypted" if block.redacted else (block.extra.get(API) or {}).get(DETAIL, "reasoning.text")
    wire: dict[str, Any] = {"type": kind}
    if block.redacted:
        if block.thinking_signature is not None:
            wire["data"] = block.thinking_signature
    else:
        wire[TEXTS.get(kind, "text")] = block.thinking
        if block.thinking_signature is not None:
            wire["signature"] = block.thinking_signature
    wire["index"] = at
    return restored(wire, block.extra, API)


TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}  # the text field by type


def is_detail(block: ThinkingBlock) -> bool:
    """Whether thinking needs an entry: it is signed, redacted, or has further fields."""
    if block.thinking_signature is not None or block.redacted:
        return True
    extra_fields = block.extra.get(API) or {}
    return DETAIL in extra_fields or any(not key.startswith("~") for key in extra_fields)


def joined_text(details: Iterable[Block]) -> str:
    return "".join(block.thinking for block in details if isinstance(block, ThinkingBlock))


def usual_repeats(other_thoughts: bool, compat: Compat, *, answer: bool) -> list[str]:
    """The fields that repeat the text of details: in answers the host's field, for clients without details."""
    return [compat.reasoning_field] if answer and not other_thoughts else []


def plain_thought(text: str, names: list[str], compat: Compat) -> ThinkingBlock:
    return ThinkingBlock(thinking=text, extra={} if names == [compat.reasoning_field] else {API: {FIELDS: names}})


def text_in(details: list[Any]) -> str:
    """The joined text of entries."""
    if len(details) == 1 and isinstance(details[0], dict):
        text = details[0].get("text") or details[0].get("summary")
        return text if isinstance(text, str) else ""
    return "".join(
        detail[word]
        for detail in details
        if isinstance(detail, dict)
        for word in ("text", "summary")
        if isinstance(detail.get(word), str)
    )


# --- wire to ours ----------------------------------------------------------------------------------------------------


def decode_assistant(
    wire: dict[str, Any], compat: Compat, mint: Callable[[], str], *, answer: bool
) -> tuple[tuple[Block, ...], dict[str, Any]]:
    """The blocks of an assistant message, and its residual."""
    tracks, marks = _decode_tracks(wire, compat, mint, answer=answer)
    blocks = sourced([block for track in TRACKS for block in tracks.get(track, ())], wire)
    return tuple(blocks), _assistant_residual(wire, blocks, marks, compat, answer=answer)


def _assistant_residual(
    wire: dict[str, Any], blocks: Iterable[Block], marks: dict[str, Any], compat: Compat, *, answer: bool
) -> dict[str, Any]:
    encoded = encode_assistant(blocks, marks, compat, QUIET, answer=answer)
    content = wire.get("content")
    if isinstance(content, list) and not (
        isinstance(encoded["content"], list) and len(encoded["content"]) == len(content)
    ):
        marks[PARTS] = True
        encoded = encode_assistant(blocks, marks, compat, QUIET, answer=answer)
    # Items of lists have residuals of their own.
    lists = {
        key: encoded[key] for key in _LISTS if isinstance(wire.get(key), list) and isinstance(encoded.get(key), list)
    }
    return {**residual({**wire, **lists}, encoded), **marks}


_LISTS = ("content", DETAILS, "annotations", "images", "tool_calls")


def _decode_tracks(
    wire: dict[str, Any], compat: Compat, mint: Callable[[], str], *, answer: bool
) -> tuple[dict[str, list[Block]], dict[str, Any]]:
    """The blocks of each track."""
    tracks: dict[str, list[Block]] = {}
    marks: dict[str, Any] = {}
    details = wire.get(DETAILS)
    if isinstance(details, list) and details:
        tracks[DETAILS] = [decode_detail(detail, at) for at, detail in enumerate(details)]
    _decode_thoughts(wire, tracks, marks, compat, answer=answer)
    content = wire.get("content")
    if isinstance(content, str):
        # An answer that only calls tools has `content: null`, or "" from some hosts: both mean no text.
        if content or not answer:
            tracks["content"] = [TextBlock(text=content)]
    elif isinstance(content, list):
        tracks["content"] = [decode_assistant_part(part) for part in content]
    elif content is not None:  # some hosts have structured output as an object
        tracks["content"] = [TextBlock(text=jsontext.compact(content))]
    # …/chat/object: `refusal` is a field beside `content`, which is then null.
    refusal = wire.get("refusal")
    if isinstance(refusal, str) and refusal:
        tracks["refusal"] = [TextBlock(text=refusal, refusal=True)]
    if is_audio(wire.get("audio")):
        tracks["audio"] = [decode_assistant_audio(wire["audio"], answer=answer)]
    if is_legacy_call(wire.get("function_call")) and not repeats_call(wire):
        tracks["function_call"] = [OpaqueBlock(dialect=API, value={"function_call": wire["function_call"]})]
    # openrouter.ai/docs/features/multimodal/image-generation: pictures of an answer, as `image_url` parts.
    images = wire.get("images")
    if isinstance(images, list) and images:
        pictures = [decode_part(image) for image in images]
        if all(isinstance(picture, ImageBlock) for picture in pictures):
            tracks["images"] = pictures
    calls = wire.get("tool_calls")
    if isinstance(calls, list) and calls:
        if answer:
            calls = _without_indexes(calls, marks)
        tracks["tool_calls"] = [decode_call(call, mint, answer=answer) for call in calls]
    return tracks, marks


def _decode_thoughts(
    wire: dict[str, Any], tracks: dict[str, list[Block]], marks: dict[str, Any], compat: Compat, *, answer: bool
) -> None:
    """Thinking in plain fields, each text once; fields that repeat the details become a hint."""
    message = joined_text(tracks.get(DETAILS, ()))
    repeats: list[str] = []
    names_of: dict[str, list[str]] = {}
    for name in THOUGHTS:
        text = wire.get(name)
        if isinstance(text, str) and text:
            if text == message:
                repeats.append(name)
            else:
                names_of.setdefault(text, []).append(name)
    for text, names in names_of.items():
        tracks[names[0]] = [plain_thought(text, names, compat)]
    if message and repeats != usual_repeats(bool(names_of), compat, answer=answer):
        marks[REPEATS] = repeats


def decode_assistant_part(wire: Any) -> Block:
    """Decodes a part of an assistant's content list; media get a hint, because they have tracks of their own."""
    block = decode_part(wire)
    if isinstance(block, (ImageBlock, AudioBlock, DocumentBlock)):
        return with_residual(block, API, **{PART: True})
    return block


def is_audio(wire: Any) -> bool:
    return isinstance(wire, dict) and bool(optional(wire.get("id")) or optional(wire.get("data")))


def decode_assistant_audio(wire: dict[str, Any], *, answer: bool) -> AudioBlock:
    """Audio of the model: whole in an answer, by id in a request (platform.openai.com/docs/guides/audio)."""
    # …/chat/object, `audio`: `expires_at` says until when the id can be sent.
    sound = AudioBlock(file_id=optional(wire.get("id")))
    if answer:
        sound = replace(sound, data=optional(wire.get("data")), transcript=optional(wire.get("transcript")))
    extra_fields = residual(wire, encode_assistant_audio(sound, answer=answer))
    if not extra_fields:
        return sound
    return replace(sound, extra={API: {RESPONSE: extra_fields} if answer else extra_fields})


def is_legacy_call(wire: Any) -> bool:
    return isinstance(wire, dict) and bool(optional(wire.get("name")))


def repeats_call(wire: Mapping[str, Any]) -> bool:
    """Whether the legacy function call of a message or delta is one of its tool calls, for older clients
    (llama-cpp-python). It stays a residual: as a block of its own it would be a second call, which nobody answers."""
    legacy, calls = wire.get("function_call"), wire.get("tool_calls")
    return isinstance(calls, list) and any(isinstance(call, dict) and call.get("function") == legacy for call in calls)


def _without_indexes(calls: list[Any], marks: dict[str, Any]) -> list[Any]:
    """The calls of a whole answer without the `index` that some hosts add."""
    indexes = [call.get("index") if isinstance(call, dict) else None for call in calls]
    if not any(isinstance(call, dict) and "index" in call for call in calls):
        return calls
    marks[INDEXED] = True if indexes == list(range(len(calls))) else indexes
    return [{k: v for k, v in call.items() if k != "index"} if isinstance(call, dict) else call for call in calls]


# --- ours to wire ----------------------------------------------------------------------------------------------------


def encode_assistant_audio(sound: AudioBlock, *, answer: bool) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if sound.file_id is not None:
        wire["id"] = sound.file_id
    if answer:
        if sound.data is not None:
            wire["data"] = sound.data
        if sound.transcript is not None:
            wire["transcript"] = sound.transcript
    return wire


def encode_assistant(
    blocks: Iterable[Block], residual: Mapping[str, Any], compat: Compat, report: Reporter, *, answer: bool
) -> dict[str, Any]:
    """Encodes blocks as an assistant message."""
    if not residual and isinstance(blocks, tuple) and len(blocks) == 1:  # nearly every answer is one plain text
        block = blocks[0]
        if isinstance(block, TextBlock) and block.text and is_bare(block):
            return {"role": "assistant", "content": block.text}
    assistant_encode = _AssistantEncode(residual, compat, report, answer=answer)
    for at, block in enumerate(blocks):
        report.block = at
        assistant_encode.add(block)
    report.block = None
    return assistant_encode.message()


class _AssistantEncode:
    """Collects blocks into the tracks of an assistant message, and reports lost order and boundaries."""

    def __init__(self, residual: Mapping[str, Any], compat: Compat, report: Reporter, *, answer: bool) -> None:
        self.residual = residual
        self.compat = compat
        self.report = report
        self.answer = answer
        self.parts_kept = bool(residual.get(PARTS))
        self.runs: list[str] = []  # tracks in order of use
        self.content: list[tuple[bool, Any]] = []  # (whether it is a plain string, the string or the part)
        self.blank = False  # an empty text was encoded
        self.thoughts: dict[str, list[str]] = {}
        self.details: list[Any] = []
        self.detail_texts: list[str] = []
        self.refusals: list[str] = []
        self.citations: list[tuple[Citation, int]] = []
        self.texts = 0
        self.text_length = 0  # length of the text so far
        self.signature: str | None = None
        self.sound: dict[str, Any] | None = None
        self.images: list[Any] = []
        self.legacy: Any = None
        self.calls: list[Any] = []
        self.merged = False

    def add(self, block: Block) -> None:
        put = self._USUAL.get(type(block))
        if put is not None:
            put(self, block)
            return
        match block:
            case OpaqueBlock() if block.dialect == API:
                self._opaque(block.value)
            case ImageBlock() | AudioBlock() | DocumentBlock() if (block.extra.get(API) or {}).get(PART):
                self._part(encode_part(block, self.report))
            case ImageBlock():
                encoded = encode_part(block, self.report)
                if encoded:
                    self.images += encoded
                    self._run("images")
            case AudioBlock():
                self._audio(block)
            case _:
                self._lose(block)

    def _lose(self, block: Block) -> None:
        self.report.lost(type(block).__name__, "an assistant message of this wire has no such block")

    def _run(self, track: str) -> None:
        runs = self.runs
        if not runs or runs[-1] != track:
            runs.append(track)

    def _follows(self, track: str) -> bool:
        return bool(self.runs) and self.runs[-1] == track

    def _part(self, encoded: list[Any]) -> None:
        self.content += [(False, part) for part in encoded]
        if encoded:
            self._run("content")

    def _text(self, block: TextBlock) -> None:
        special = block.cache is not None or bool(block.extra and block.extra.get(API))
        if block.refusal:
            self._unsigned(block)
            if special:
                self._part(encode_part_unreported(block))
            elif block.text:
                self.merged |= self._follows("refusal")
                self.refusals.append(block.text)
                self._run("refusal")
            else:
                self._lose_empty("an empty refusal")
            return
        plain = not (special or self.parts_kept)
        if plain and self.answer and not block.text:
            self.blank = True
            self._lose_empty("an empty text")
            return
        # …/chat/object: `content` of an answer is one string; only a request may have a list of parts.
        if plain and self.answer and self.content and self.content[-1][0]:
            self.merged = True
            self.content[-1] = (True, self.content[-1][1] + block.text)
            self._run("content")
        else:
            self.texts += 1
            self._add_text(block, plain)
        self._sign(block.text_signature)
        if self.texts == 1:
            self.citations += [(citation, self.text_length) for citation in block.citations]
        elif block.citations:
            self.report.lost("citations", "sources belong to the first text", field="citations")
        self.text_length += len(block.text)

    def _add_text(self, block: TextBlock, plain: bool) -> None:
        if plain:
            self.content.append((True, block.text))
            self._run("content")
        else:
            self._part(encode_part_unreported(block))

    def _lose_empty(self, what: str) -> None:
        self.report.lost(what, "it is empty", "record")

    def _unsigned(self, block: TextBlock) -> None:
        if block.citations:
            self.report.lost("citations", "a refusal has no sources", field="citations")
        if block.text_signature is not None:
            self.report.lost("text_signature", "a refusal is not signed", field="textSignature")

    def _sign(self, signature: str | None) -> None:
        if signature is None:
            return
        # The message has one `extra_content`.
        if self.texts == 1 and self.signature is None:
            self.signature = signature
        else:
            self.report.lost("text_signature", "only the first text is signed", field="textSignature")

    def _call(self, call: ToolCall) -> None:
        if self.answer and is_blank(call):
            self.report.lost("arguments_text", "blank arguments mean none", "record", field="argumentsText")
        if not call.id or call.id == "null":
            self.report.lost("id", "an empty id is read as none", "weakened", field="id")
        self.calls.append(encode_call(call, answer=self.answer))
        self._run("tool_calls")

    def _thinking(self, block: ThinkingBlock) -> None:
        residual = block.extra.get(API) or {}
        if residual.get(PART):
            self._part(encode_part_unreported(block))
        elif is_detail(block):
            if block.redacted and block.thinking:
                self.report.lost("thinking", "sealed thinking has no text", field="thinking")
            self.details.append(encode_detail(block, len(self.details)))
            if not block.redacted:
                self.detail_texts.append(block.thinking)
            self._run(DETAILS)
        elif block.thinking:
            self._plain_thinking(block.thinking, residual.get(FIELDS) or [self.compat.reasoning_field])
        else:
            self._lose_empty("an empty thought")

    _USUAL: ClassVar[dict[type, Callable[..., None]]] = {TextBlock: _text, ToolCall: _call, ThinkingBlock: _thinking}

    def _plain_thinking(self, text: str, names: list[str]) -> None:
        track = names[0]
        encoded = self.thoughts.get(track)
        if encoded:
            self.merged = True
            # One string per field: a blank line keeps two thoughts apart, as summaries of OpenAI's models are
            # separated.
            text = "\n\n" + text
        for name in names:
            self.thoughts.setdefault(name, []).append(text)
        self._run(track)

    def _opaque(self, value: Any) -> None:
        match value:
            case {"type": str()}:
                self._part([value])
            case {"content": [part]} if len(value) == 1:
                self._part([part])
            case {"tool_calls": [call]} if len(value) == 1:
                self.calls.append(call)
                self._run("tool_calls")
            case {"reasoning_details": [detail]} if len(value) == 1:
                self.details.append(detail)
                self._run(DETAILS)
            case {"function_call": legacy} if len(value) == 1 and self.legacy is None:
                self.legacy = legacy
                self._run("function_call")
            case _:
                self.report.lost("opaque", "it is no piece of such a message")

    def _audio(self, sound: AudioBlock) -> None:
        if self.sound is not None or not (sound.file_id or (self.answer and sound.data)):
            self._lose(sound)
            return
        encoded = encode_assistant_audio(sound, answer=self.answer)
        if self.answer and sound.extra:
            encoded = put_back(encoded, (sound.extra.get(API) or {}).get(RESPONSE) or {})
        self.sound = restored(encoded, sound.extra, API) if sound.extra else encoded
        lost = ["mime_type", "url", "cache"] if self.answer else ["mime_type", "url", "cache", "data", "transcript"]
        for name in lost:
            if getattr(sound, name) is not None:
                self.report.lost(name, "sound of the assistant is known by its id", field=camel_case(name))
        self._run("audio")

    def message(self) -> dict[str, Any]:
        encoded: dict[str, Any] = {"role": "assistant", "content": self._encoded_content()}
        for name in sorted(self.thoughts, key=lambda name: RANKS.get(name, 0)):
            encoded[name] = "".join(self.thoughts[name])
        text = "".join(self.detail_texts)
        if text:
            usual = usual_repeats(bool(self.thoughts), self.compat, answer=self.answer)
            for name in self.residual.get(REPEATS, usual):
                encoded.setdefault(name, text)
        if self.details:
            encoded[DETAILS] = self.details
        if self.refusals:
            encoded["refusal"] = "".join(self.refusals)
        if self.citations:
            encoded["annotations"] = [encode_citation(*source) for source in self.citations]
        rarer = {"audio": self.sound, "images": self.images, "function_call": self.legacy}
        encoded.update((name, value) for name, value in rarer.items() if value)
        if self.calls:
            encoded["tool_calls"] = self._numbered()
        if self.signature is not None:
            encoded["extra_content"] = signed(self.signature)
        self._report_order(text)
        return encoded

    def _numbered(self) -> list[Any]:
        given = self.residual.get(INDEXED) if self.answer else None
        if not given:
            return self.calls
        indexes = range(len(self.calls)) if given is True else given
        numbered = [
            {**call, "index": index} if isinstance(call, dict) and index is not None else call
            for call, index in zip(self.calls, indexes, strict=False)
        ]
        return numbered + self.calls[len(numbered) :]

    def _encoded_content(self) -> Any:
        if self._is_listed():
            return [{"type": "text", "text": entry} if plain else entry for plain, entry in self.content]
        if self.content:
            return "".join(entry for _, entry in self.content)
        if self.blank:
            return ""
        return [] if not (self.runs or self.answer) else None

    def _is_listed(self) -> bool:
        if self.parts_kept or any(not plain for plain, _ in self.content):
            return True
        return not self.answer and len(self.content) > 1

    def _report_order(self, text: str) -> None:
        """Reports lost order of blocks, and lost boundaries between them."""
        natural = all(RANKS[a] < RANKS[b] for a, b in pairwise(self.runs))
        # Thinking with the text of the details would be decoded as their repetition.
        twice = bool(text) and any("".join(pieces) == text for pieces in self.thoughts.values())
        if not natural or twice:
            self.report.lost("order", "thinking, text and calls have places of their own", "weakened", field="content")
        if self.merged:
            self.report.lost("borders", "blocks of one kind become one", "weakened", field="content")
