"""Messages: decoding and encoding, one to one; those of an assistant by their tracks (thinking, text, calls, …)."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire
from ...values.interop import camel_case
from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    Citation,
    Content,
    CustomMessage,
    ImageBlock,
    Message,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..codec import ANSWER, RESULT, USER
from ..residual import GENERATED, RESPONSE, an_object, each, keeping, optional, put_back, residual, restored, string
from ..results import MEDIA, Layout, encoded, gathered
from .content import (
    ResultPairing,
    decode_cache,
    decode_call,
    decode_part,
    encode_call,
    encode_citation,
    encode_part,
    encode_part_unreported,
    is_blank,
    put_cache,
    real_id,
    signed,
    sourced,
    with_rest,
)
from .facts import API, DETAIL, DETAILS, FIELDS, INDEXED, PART, PARTS, RANKS, REPEATS, THOUGHTS, TRACKS, Compat

LAYOUT = Layout(API)

# --- thinking: plain text in one of several fields, or entries of `reasoning_details` --------------------------------

# The text fields of the entries by their type. openrouter.ai/docs/use-cases/reasoning-tokens: text with an optional
# signature, a summary, or encrypted data. A request returns the entries unchanged and in their order.
TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary", "reasoning.encrypted": "data"}


def decode_detail(wire: Any, at: int) -> Block:
    """Decodes entry `at` of `reasoning_details`."""
    try:
        kind = wire["type"]
        text, signature = wire.get(TEXTS[kind]), None
        if kind == "reasoning.encrypted":
            block = ThinkingBlock(thinking="", thinking_signature=optional(text), redacted=True)
        else:
            if kind == "reasoning.text":
                text, signature = "" if text is None else text, optional(wire.get("signature"))
            extra = {API: {DETAIL: kind}} if signature is None else {}
            block = ThinkingBlock(thinking=string(text), thinking_signature=signature, extra=extra)
        return with_rest(block, wire, encode_detail(block, at))
    except (KeyError, TypeError, ValueError, AttributeError):
        return OpaqueBlock(dialect=API, value={DETAILS: [wire]})


def encode_detail(block: ThinkingBlock, at: int) -> dict[str, Any]:
    """The entry with its index, by which clients join streamed entries."""
    kind = "reasoning.encrypted" if block.redacted else (block.extra.get(API) or {}).get(DETAIL, "reasoning.text")
    wire: dict[str, Any] = {"type": kind}
    if not block.redacted:
        wire[TEXTS.get(kind, "text")] = block.thinking
    if block.thinking_signature is not None:
        wire["data" if block.redacted else "signature"] = block.thinking_signature
    wire["index"] = at
    return restored(wire, block.extra, API)


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
    if len(details) == 1 and isinstance(details[0], dict):
        return optional(details[0].get("text") or details[0].get("summary")) or ""
    texts = (detail.get(name) for detail in details if isinstance(detail, dict) for name in ("text", "summary"))
    return "".join(text for text in texts if isinstance(text, str))


# --- the assistant's message, wire to ours ---------------------------------------------------------------------------


def decode_assistant(
    wire: dict[str, Any], compat: Compat, mint: Callable[[], str], *, answer: bool
) -> tuple[tuple[Block, ...], dict[str, Any]]:
    """The blocks of an assistant message, and its residual."""
    marks: dict[str, Any] = {}
    tracks = _decode_tracks(wire, marks, compat, mint, answer=answer)
    blocks = tuple(sourced([block for track in TRACKS for block in tracks.get(track, ())], wire))
    return blocks, _residual_of(wire, marks, partial(encode_assistant, blocks, marks, compat, QUIET, answer=answer))


def _residual_of(wire: dict[str, Any], marks: dict[str, Any], encode: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The residual of a message with its hints; `encode` writes the message with these."""
    encoded, content = encode(), wire.get("content")
    if isinstance(content, list) and not (
        isinstance(encoded["content"], list) and len(encoded["content"]) == len(content)
    ):
        marks[PARTS] = True
        encoded = encode()
    # Items of lists have residuals of their own.
    lists = {
        key: encoded[key] for key in _LISTS if isinstance(wire.get(key), list) and isinstance(encoded.get(key), list)
    }
    return {**residual({**wire, **lists}, encoded), **marks}


_LISTS = ("content", DETAILS, "annotations", "images", "tool_calls")


def _decode_tracks(
    wire: dict[str, Any], marks: dict[str, Any], compat: Compat, mint: Callable[[], str], *, answer: bool
) -> dict[str, list[Block]]:
    tracks: dict[str, list[Block]] = {}
    details = wire.get(DETAILS)
    if isinstance(details, list) and details:
        tracks[DETAILS] = [decode_detail(detail, at) for at, detail in enumerate(details)]
    # Thinking in plain fields, each text once; fields that repeat the details become a hint.
    message = joined_text(tracks.get(DETAILS, ()))
    repeats: list[str] = []
    names_of: dict[str, list[str]] = {}
    for name in THOUGHTS:
        text = wire.get(name)
        if isinstance(text, str) and text:
            (repeats if text == message else names_of.setdefault(text, [])).append(name)
    for text, names in names_of.items():
        tracks[names[0]] = [plain_thought(text, names, compat)]
    if message and repeats != usual_repeats(bool(names_of), compat, answer=answer):
        marks[REPEATS] = repeats
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
    return tracks


def decode_assistant_part(wire: Any) -> Block:
    """Decodes a part of an assistant's content list; media get a hint, because they have tracks of their own."""
    block = decode_part(wire)
    if isinstance(block, MEDIA):
        return replace(block, extra={API: {**(block.extra.get(API) or {}), PART: True}})
    return block


def is_audio(wire: Any) -> bool:
    return isinstance(wire, dict) and bool(optional(wire.get("id")) or optional(wire.get("data")))


def decode_assistant_audio(wire: dict[str, Any], *, answer: bool) -> AudioBlock:
    """Audio of the model: whole in an answer, by id in a request (platform.openai.com/docs/guides/audio)."""
    # …/chat/object, `audio`: `expires_at` says until when the id can be sent.
    sound = AudioBlock(file_id=optional(wire.get("id")))
    if answer:
        sound = replace(sound, data=optional(wire.get("data")), transcript=optional(wire.get("transcript")))
    rest = residual(wire, encode_assistant_audio(sound, answer=answer))
    return replace(sound, extra={API: {RESPONSE: rest} if answer else rest}) if rest else sound


def is_legacy_call(wire: Any) -> bool:
    return isinstance(wire, dict) and bool(optional(wire.get("name")))


def repeats_call(wire: Mapping[str, Any]) -> bool:
    """Whether the legacy function call of a message or delta is one of its tool calls, for older clients
    (llama-cpp-python). It stays a residual: as a block of its own it would be a second call, which nobody answers."""
    legacy, calls = wire.get("function_call"), wire.get("tool_calls")
    return isinstance(calls, list) and any(isinstance(call, dict) and call.get("function") == legacy for call in calls)


def _without_indexes(calls: list[Any], marks: dict[str, Any]) -> list[Any]:
    """The calls of a whole answer without the `index` that some hosts add."""
    if not any(isinstance(call, dict) and "index" in call for call in calls):
        return calls
    indexes = [call.get("index") if isinstance(call, dict) else None for call in calls]
    marks[INDEXED] = True if indexes == list(range(len(calls))) else indexes
    return [{k: v for k, v in call.items() if k != "index"} if isinstance(call, dict) else call for call in calls]


# --- the assistant's message, ours to wire ---------------------------------------------------------------------------


def encode_assistant_audio(sound: AudioBlock, *, answer: bool) -> dict[str, Any]:
    fields = {"id": sound.file_id}
    if answer:
        fields |= {"data": sound.data, "transcript": sound.transcript}
    return {key: value for key, value in fields.items() if value is not None}


def encode_assistant(
    blocks: tuple[Block, ...], residual: Mapping[str, Any], compat: Compat, report: Reporter, *, answer: bool
) -> dict[str, Any]:
    hinted = residual and (residual.get(PARTS) or residual.get(INDEXED))  # other hints are of other content
    simple = None if hinted else _encode_simply(blocks, compat, answer)
    return simple or _AssistantEncode(residual, compat, report, answer=answer).encode(blocks)


def _encode_simply(content: tuple[Block, ...], compat: Compat, answer: bool) -> dict[str, Any] | None:
    """Fast path for plain thinking, text and calls in this order; None for any other content."""
    text = thought = None
    calls: list[dict[str, Any]] = []
    block: Any
    for block in content:
        kind = type(block)
        if kind is ToolCall:
            if not block.id or block.id == "null" or (answer and is_blank(block)):
                return None
            calls.append(encode_call(block, answer=answer))
        elif kind is TextBlock:
            if text is not None or calls or not is_plain(block) or (answer and not block.text):
                return None
            text = block.text
        elif kind is ThinkingBlock:
            if text is not None or thought is not None or calls or block.extra or is_detail(block):
                return None
            thought = block.thinking
            if not thought:
                return None
        else:
            return None
    if not content:
        return None
    emitted: dict[str, Any] = {"role": "assistant", "content": text}
    if thought is not None:
        emitted[compat.reasoning_field] = thought
    if calls:
        emitted["tool_calls"] = calls
    return emitted


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
        self.rarer: dict[str, Any] = {"audio": None, "images": [], "function_call": None}
        self.calls: list[Any] = []
        self.merged = False

    def _add(self, block: Block) -> None:
        put = self._USUAL.get(type(block))
        if put is not None:
            put(self, block)
            return
        match block:
            case OpaqueBlock() if block.dialect == API:
                self._opaque(block)
            case _ if isinstance(block, MEDIA) and (block.extra.get(API) or {}).get(PART):
                self._part(encode_part(block, self.report))
            case ImageBlock():
                encoded = encode_part(block, self.report)
                if encoded:
                    self.rarer["images"] += encoded
                    self._run("images")
            case AudioBlock() if self.rarer["audio"] is None and (block.file_id or (self.answer and block.data)):
                self._audio(block)
            case _:
                self.report.lost(type(block).__name__, "an assistant message of this wire has no such block")

    def _run(self, track: str) -> None:
        if not self.runs or self.runs[-1] != track:
            self.runs.append(track)

    def _part(self, encoded: list[Any]) -> None:
        self.content += [(False, part) for part in encoded]
        if encoded:
            self._run("content")

    def _text(self, block: TextBlock) -> None:
        special = block.cache is not None or bool(block.extra and block.extra.get(API))
        if block.refusal:
            self._refusal(block, special)
            return
        plain = not (special or self.parts_kept)
        if plain and self.answer and not block.text:
            self.blank = True
            self.report.lost("an empty text", "it is empty", "record")
            return
        # …/chat/object: `content` of an answer is one string; only a request may have a list of parts.
        if plain and self.answer and self.content and self.content[-1][0]:
            self.merged = True
            self.content[-1] = (True, self.content[-1][1] + block.text)
            self._run("content")
        else:
            self.texts += 1
            if plain:
                self.content.append((True, block.text))
                self._run("content")
            else:
                self._part(encode_part_unreported(block))
        if block.text_signature is not None:
            if self.texts == 1 and self.signature is None:  # the message has one `extra_content`
                self.signature = block.text_signature
            else:
                self.report.lost("text_signature", "only the first text is signed", field="textSignature")
        if self.texts == 1:
            self.citations += [(citation, self.text_length) for citation in block.citations]
        elif block.citations:
            self.report.lost("citations", "sources belong to the first text", field="citations")
        self.text_length += len(block.text)

    def _refusal(self, block: TextBlock, special: bool) -> None:
        if block.citations:
            self.report.lost("citations", "a refusal has no sources", field="citations")
        if block.text_signature is not None:
            self.report.lost("text_signature", "a refusal is not signed", field="textSignature")
        if special:
            self._part(encode_part_unreported(block))
        elif block.text:
            self.merged |= self.runs[-1:] == ["refusal"]
            self.refusals.append(block.text)
            self._run("refusal")
        else:
            self.report.lost("an empty refusal", "it is empty", "record")

    def _call(self, call: ToolCall) -> None:
        if self.answer and is_blank(call):
            self.report.lost("arguments_text", "blank arguments mean none", "record", field="argumentsText")
        if not call.id or call.id == "null":
            self.report.lost("id", "an empty id is read as none", "weakened", field="id")
        self.calls.append(encode_call(call, answer=self.answer))
        self._run("tool_calls")

    def _thinking(self, block: ThinkingBlock) -> None:
        marks = block.extra.get(API) or {}
        if marks.get(PART):
            self._part(encode_part_unreported(block))
        elif is_detail(block):
            if block.redacted and block.thinking:
                self.report.lost("thinking", "sealed thinking has no text", field="thinking")
            self.details.append(encode_detail(block, len(self.details)))
            if not block.redacted:
                self.detail_texts.append(block.thinking)
            self._run(DETAILS)
        elif block.thinking:
            names = marks.get(FIELDS) or [self.compat.reasoning_field]
            # One string per field: a blank line keeps two thoughts apart, as summaries of OpenAI's models are
            # separated.
            follows = bool(self.thoughts.get(names[0]))
            self.merged |= follows
            for name in names:
                self.thoughts.setdefault(name, []).append("\n\n" + block.thinking if follows else block.thinking)
            self._run(names[0])
        else:
            self.report.lost("an empty thought", "it is empty", "record")

    _USUAL: ClassVar[dict[type, Callable[..., None]]] = {TextBlock: _text, ToolCall: _call, ThinkingBlock: _thinking}

    def _opaque(self, block: OpaqueBlock) -> None:
        value = block.value
        match value:
            case {"tool_calls": [call]} if len(value) == 1:
                self.calls.append(call)
                self._run("tool_calls")
            case {"reasoning_details": [detail]} if len(value) == 1:
                self.details.append(detail)
                self._run(DETAILS)
            case {"function_call": legacy} if len(value) == 1 and self.rarer["function_call"] is None:
                self.rarer["function_call"] = legacy
                self._run("function_call")
            case _:
                parts = encode_part_unreported(block)
                self._part(parts)
                if not parts:
                    self.report.lost("opaque", "it is no piece of such a message")

    def _audio(self, sound: AudioBlock) -> None:
        encoded = encode_assistant_audio(sound, answer=self.answer)
        if self.answer and sound.extra:
            encoded = put_back(encoded, (sound.extra.get(API) or {}).get(RESPONSE) or {})
        self.rarer["audio"] = restored(encoded, sound.extra, API) if sound.extra else encoded
        for name in ("mime_type", "url", "cache", *(() if self.answer else ("data", "transcript"))):
            if getattr(sound, name) is not None:
                self.report.lost(name, "sound of the assistant is known by its id", field=camel_case(name))
        self._run("audio")

    def encode(self, blocks: Iterable[Block]) -> dict[str, Any]:
        for at, block in enumerate(blocks):
            self.report.block = at
            self._add(block)
        self.report.block = None
        content: Any = "" if self.blank else None if self.runs or self.answer else []
        is_text = all(plain for plain, _ in self.content) and (self.answer or len(self.content) < 2)
        if self.parts_kept or not is_text:
            content = [{"type": "text", "text": entry} if plain else entry for plain, entry in self.content]
        elif self.content:
            content = "".join(entry for _, entry in self.content)
        encoded: dict[str, Any] = {"role": "assistant", "content": content}
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
        encoded.update((name, value) for name, value in self.rarer.items() if value)
        if self.calls:
            encoded["tool_calls"] = self._numbered()
        if self.signature is not None:
            encoded["extra_content"] = signed(self.signature)
        natural = all(RANKS[a] < RANKS[b] for a, b in pairwise(self.runs))
        # Thinking with the text of the details would be decoded as their repetition.
        twice = bool(text) and any("".join(pieces) == text for pieces in self.thoughts.values())
        if not natural or twice:
            self.report.lost("order", "thinking, text and calls have places of their own", "weakened", field="content")
        if self.merged:
            self.report.lost("borders", "blocks of one kind become one", "weakened", field="content")
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


# --- messages --------------------------------------------------------------------------------------------------------


def decode_messages(wire: list[Any], api: str, compat: Compat, mint: Any = None) -> tuple[Message, ...]:
    """Decodes messages. `api` is set on the answers."""
    pairing = ResultPairing(mint)
    read = tuple(each(wire, "messages", API, lambda message: _decode_message(message, pairing, api, compat)))
    return gathered(read, LAYOUT)


def _decode_message(wire: Any, pairing: ResultPairing, api: str, compat: Compat) -> Message:
    role = (wire if type(wire) is dict else an_object(wire, API)).get("role")
    if role == "user":
        user = replace(USER, extra={}, content=_decode_content(wire.get("content")))
        if len(wire) == 2 and "content" in wire:
            return user
        return keeping(user, API, wire, plain_message("user", user.content), ("content",))
    if role == "assistant":
        return _decode_assistant(wire, pairing, api, compat)
    if role == "tool":
        return _decode_result(wire, pairing)
    # platform.openai.com/docs/api-reference/chat/create: `developer` replaces `system` for o1 and newer models.
    if role in ("system", "developer"):
        system = SystemMessage(content=_decode_content(wire.get("content")), developer=role == "developer")
        return keeping(system, API, wire, plain_message(role, system.content), ("content",))
    if not isinstance(role, str):
        raise BadWire(API, "a message needs a role: system, developer, user, assistant or tool", "$.role")
    return CustomMessage(role, {k: v for k, v in wire.items() if k != "role"})  # type: ignore[return-value]


def _decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadWire(API, f"expected a string or a list, got {type(content).__name__}", "$.content")
    return tuple(map(decode_part, content))


def plain_message(role: str, content: Content) -> dict[str, Any]:
    return {"role": role, "content": encode_content(content, QUIET)}


def _decode_assistant(wire: dict[str, Any], pairing: ResultPairing, api: str, compat: Compat) -> AssistantMessage:
    pairing.turn()
    content = wire.get("content")
    if len(wire) == 2 and (content is None or isinstance(content, str)) and "content" in wire:
        return replace(ANSWER, extra={}, content=None if content is None else (TextBlock(text=content),), api=api)
    blocks, extra_fields = _decode_simply(wire, content, pairing.mint) or decode_assistant(
        wire, compat, pairing.mint, answer=False
    )
    for call in blocks:
        if isinstance(call, ToolCall):
            pairing.made(None if (call.extra.get(API) or {}).get(GENERATED) else call.id, call.id, call.name)
    is_null = not blocks and not isinstance(content, list)  # or absent
    if is_null:
        extra_fields = residual(wire, {"role": "assistant", "content": None})
    extra = {API: extra_fields} if extra_fields else {}
    return replace(ANSWER, content=None if is_null else blocks, api=api, extra=extra)


_SIMPLE = frozenset({"role", "content", "tool_calls", "weight"})  # `weight` is in training rows


def _decode_simply(
    wire: dict[str, Any], content: Any, mint: Callable[[], str]
) -> tuple[tuple[Block, ...], dict[str, Any]] | None:
    """Fast path of `decode_assistant` for text and calls alone; None for any other message."""
    calls = wire.get("tool_calls", ())
    if not (content is None or (type(content) is str and content)) or not wire.keys() <= _SIMPLE:
        return None
    blocks: list[Block] = [] if content is None else [TextBlock(text=content)]
    if "tool_calls" in wire:
        if type(calls) is not list or not calls:
            return None
        for call in calls:
            blocks.append(decode_call(call, mint))  # noqa: PERF401 - a list for the one call of most messages costs more
    if not blocks:
        return None
    extra_fields: dict[str, Any] = {"weight": wire["weight"]} if "weight" in wire else {}
    return tuple(blocks), extra_fields if "content" in wire else extra_fields | residual({}, {"content": None})


def _decode_result(wire: dict[str, Any], pairing: ResultPairing) -> ToolResultMessage:
    content = wire.get("content")
    blocks = (TextBlock(text=content),) if isinstance(content, str) else _decode_content(content)
    given = wire.get("tool_call_id")
    is_bare = len(wire) == 3 and isinstance(content, str) and given is not None  # with its role, these are all
    call_id, name = pairing.answered(given)
    result = replace(
        RESULT,
        tool_call_id=pairing.mint() if call_id is None else call_id,
        tool_name=name if name is not None else optional(wire.get("name")),
        content=blocks,
        cache=None if is_bare else decode_cache(wire),
    )
    if is_bare and call_id is not None and call_id == given:
        return result
    marks: dict[str, Any] = {} if call_id == given else {GENERATED: True}
    extra_fields = _residual_of(wire, marks, partial(_encode_result_message, result, marks, QUIET))
    return replace(result, extra={API: extra_fields}) if extra_fields else result


def encode_messages(messages: tuple[Message, ...], compat: Compat, report: Reporter) -> list[dict[str, Any]]:
    """Encodes messages; media of tool results are moved after them."""
    return encoded(messages, LAYOUT, lambda found: _encode_messages(found, compat, report), report)


def _encode_messages(messages: tuple[Message, ...], compat: Compat, report: Reporter) -> list[dict[str, Any]]:
    emitted: list[dict[str, Any]] = []
    pairing = ResultPairing()
    unnamed: dict[str, Any] = {}  # calls of this turn without a wire id, and its spelling
    for at, message in enumerate(messages):
        report.message = at
        match message:
            case UserMessage():
                wire = {"role": "user", "content": encode_content(message.content, report)}
                emitted.append(restored(wire, message.extra, API) if message.extra else wire)
            case AssistantMessage():
                emitted.append(_encode_assistant(message, compat, report))
                unnamed = _begin_turn(message, pairing, report)
            case ToolResultMessage():
                emitted.append(_encode_result(message, pairing, unnamed, compat, report))
            case SystemMessage():
                developer = message.developer and compat.supports_developer_role is not False
                if message.developer and not developer:
                    why = "this host knows only the role `system`"
                    report.lost("developer", why, "weakened", field="developer")
                content = encode_content(message.content, report)
                wire = {"role": "developer" if developer else "system", "content": content}
                emitted.append(restored(wire, message.extra, API) if message.extra else wire)
            case CustomMessage():
                emitted.append({"role": message.role, **message.fields})
    return emitted


def encode_content(content: Content, report: Reporter) -> Any:
    if content is None or isinstance(content, str):
        return content
    emitted: list[Any] = []
    for at, block in enumerate(content):
        if type(block) is TextBlock and is_plain(block):
            emitted.append({"type": "text", "text": block.text})
        else:
            report.block = at
            emitted += encode_part(block, report)
    report.block = None
    return emitted


def is_plain(block: TextBlock) -> bool:
    """Whether a block has only text."""
    return not (
        block.extra or block.refusal or block.citations or block.cache is not None or block.text_signature is not None
    )


def _begin_turn(message: AssistantMessage, pairing: ResultPairing, report: Reporter) -> dict[str, Any]:
    """Records the calls of an assistant message; returns those without a wire id, and its spelling."""
    unnamed: dict[str, Any] = {}
    pairing.turn()
    content = message.content
    if content is None or isinstance(content, str):
        return unnamed
    for at, block in enumerate(content):
        if type(block) is ToolCall:
            call_id = wire_id = block.id
            if block.extra and (block.extra.get(API) or {}).get(GENERATED):
                wire_id = encode_call(block).get("id")  # type: ignore[assignment]
                if real_id(wire_id) is None:
                    unnamed[call_id] = wire_id
            if real_id(wire_id) is None:
                call_id = pairing.mint()  # as decoding does
                if unnamed and call_id != block.id:
                    report.block = at
                    report.lost("id", "the host gave the call none, and another is made up", "record", field="id")
                    report.block = None
            pairing.made(wire_id, call_id, block.name)
    return unnamed


def _encode_assistant(message: AssistantMessage, compat: Compat, report: Reporter) -> dict[str, Any]:
    content = message.content
    extra_fields = message.extra.get(API) if message.extra else None
    if content is None or isinstance(content, str):
        emitted = {"role": "assistant", "content": content}
        if content is not None:
            report.lost("content", "a string is read as one text", "record", field="content")
    elif extra_fields:
        emitted = encode_assistant(content, extra_fields, compat, report, answer=False)
    else:
        simple = _encode_simply(content, compat, False)
        emitted = simple or _AssistantEncode({}, compat, report, answer=False).encode(content)
    if extra_fields:
        emitted = put_back(emitted, extra_fields)
    # …/chat/create: `content` is required unless the message has calls; these hosts refuse null beside them too.
    if compat.requires_content and emitted.get("content") is None:
        emitted["content"] = ""
        report.lost("content", "this host requires a text", "record", field="content")
    return emitted


def _encode_result(
    result: ToolResultMessage, pairing: ResultPairing, unnamed: dict[str, Any], compat: Compat, report: Reporter
) -> dict[str, Any]:
    extra_fields = result.extra.get(API) or {} if result.extra else {}
    emitted = _encode_result_message(result, extra_fields, report)
    if result.tool_call_id in unnamed and not extra_fields.get(GENERATED):
        # A call without a wire id: its result has none either.
        emitted["tool_call_id"] = unnamed[result.tool_call_id]
        if emitted["tool_call_id"] is None:
            del emitted["tool_call_id"]
    if extra_fields:
        emitted = put_back(emitted, extra_fields)
    given = emitted.get("tool_call_id")
    call_id, name = pairing.answered(given)
    # The API reference has no `name` here; early versions of Mistral's API required it.
    if compat.requires_tool_result_name and result.tool_name is not None:
        emitted.setdefault("name", result.tool_name)
    if name is None:
        name = optional(emitted.get("name"))
    if (pairing.mint() if call_id is None else call_id) != result.tool_call_id:
        severity = "record" if result.tool_call_id in unnamed else "weakened"
        report.lost("tool_call_id", "it is read as that of a call without an id", severity, field="toolCallId")  # type: ignore[arg-type]
    if result.tool_name is not None and name != result.tool_name:
        report.lost("tool_name", "the wire knows only the name of the call", "record", field="toolName")
    return emitted


def _encode_result_message(
    result: ToolResultMessage, extra_fields: Mapping[str, Any], report: Reporter
) -> dict[str, Any]:
    content: Any = result.content
    if isinstance(content, str):
        report.lost("content", "a string is read as one text", "record", field="content")
    elif content is not None:
        # A string and one text part mean the same (…/chat/create); the string is what every host accepts.
        first = content[0] if len(content) == 1 and not extra_fields.get(PARTS) else None
        if type(first) is TextBlock and is_plain(first):
            content = first.text
        else:
            content = encode_content(content, report)
    wire: dict[str, Any] = {"role": "tool", "tool_call_id": result.tool_call_id, "content": content}
    if result.cache is not None:
        put_cache(wire, result.cache)
    return wire
