"""ShareGPT: the shape of most training sets. Turns of `from` and `value`; beside them a system text and tools.

Turns are from `human`, `gpt`, `system`, `function_call` (the call as JSON text), or `observation` (what it gave), and
other names for these. Calls have no ids: results answer them in their order. A call right after text of the model
is one message with it. A row may have two answers beside its turns (`chosen`, `rejected`): the chosen one is on the
path, the other a branch; rows of ms-swift have the others in `rejected_response` or `rejected_messages`. Pictures
are files in `images`, each with a mark in the turn of a person. What else a turn or a set holds is kept; turns of other
kinds are messages of their own role. Sets of pairs are read as well: `conversation` of `human` and `assistant`
(Firefly, ms-swift) or of `input` and `output` (XTuner, Capybara), and `data`, texts by turns (UltraChat). Turns may
stand under `messages`, `conversation` or `dialogue`, with `role` for `from` or `content` for `value`, as may the calls
of ms-swift (`tool_call`, `tool_response`).
"""

import sys
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire, FormatError, Unsupported
from ...values.losses import Encoded, Losses, SupportTable, dropped, kept, record, some
from ...values.messages import (
    AssistantMessage,
    Block,
    CustomMessage,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    text_of,
)
from ...values.request import Conversation, Entry, ToolSpec
from ..comparison import losses_of
from ..openai_shared import data_url
from ..residual import (
    BARE,
    an_object,
    body_of,
    each,
    fields_of,
    flag,
    keeping,
    optional,
    put_back,
    reading,
    residual,
    restored,
    with_residual,
)
from ..wire import FileFormat, Rows
from . import templates
from .program_content import conversation_of
from .reading import MediaPlacer, has_media, preference, rejected_answers, rejected_in
from .records import LINEAR, MEDIA, METADATA, NO_CALL, OWN, ROLES, SERVER_TOOLS

API = "sharegpt"
IMAGE = "<image>"  # where a picture stands in the turn of a person; its file is in the row's `images`

KINDS = {
    "human": "human",
    "user": "human",
    "gpt": "gpt",
    "assistant": "gpt",
    "chatgpt": "gpt",
    "bing": "gpt",
    "bard": "gpt",
    "model": "gpt",
    "bot": "gpt",
    "chatbot": "gpt",
    "ai": "gpt",
    "system": "system",
    "function_call": "function_call",
    "tool_call": "function_call",
    "observation": "observation",
    "tool": "observation",
    "observations": "observation",
    "function_response": "observation",
    "tool_response": "observation",
    "tool_result": "observation",
}

CALLS = "~calls"  # of an answer: residual of the turn that holds its calls
SET = "~set"  # of a conversation: it was the only one of a list
LISTED = "~listed"  # of a conversation: its tools are a list, not the text of one
SYSTEM = "~system"  # of a conversation: residual of the first turn, the system text
ANSWER = "~answer"  # of an entry: it stands under `chosen` or `rejected`, which name is here
AS = "~as"  # of a tool: the wrapper that it came in

_CALLS_WHY = "a call is its name and its arguments"
FIELD_SUPPORT: SupportTable = {
    **NO_CALL,
    **LINEAR,
    **kept("TextBlock.text"),
    **dropped("TextBlock.text_signature TextBlock.citations TextBlock.refusal TextBlock.cache CacheMarker.ttl"),
    **dropped("Citation.title Citation.url Citation.cited_text Citation.start Citation.end"),
    **dropped("ThinkingBlock.thinking ThinkingBlock.thinking_signature ThinkingBlock.redacted"),
    **some(
        "ImageBlock.data ImageBlock.mime_type ImageBlock.url ImageBlock.file_id ImageBlock.detail ImageBlock.cache",
        "only turns of a person have pictures, each a path, a URL or data",
    ),
    **dropped(f"{MEDIA} {SERVER_TOOLS} OpaqueBlock.dialect OpaqueBlock.value", "a turn is text; the block is dropped"),
    **kept("ToolCall.name ToolCall.arguments"),
    **record("ToolCall.id ToolResultMessage.tool_call_id", "calls have no ids: results answer them in their order"),
    **record("ToolCall.arguments_text ToolResultMessage.details", _CALLS_WHY),
    **dropped("ToolCall.parse_error ToolCall.thought_signature ToolCall.cache", _CALLS_WHY),
    **some("UserMessage.content AssistantMessage.content SystemMessage.content", "a turn is one text, or calls"),
    **some("ToolResultMessage.content", "a turn is one text"),
    **some("ToolResultMessage.tool_name", "the name is that of the call it answers"),
    **dropped("ToolResultMessage.is_error ToolResultMessage.cache", "a turn is one text"),
    **dropped("SystemMessage.developer Context.system_role", "one role for system messages"),
    **some("CustomMessage.role CustomMessage.fields", "only what stood in this format goes back"),
    **record(METADATA, "turns have no metadata"),
    **kept("ToolSpec.name ToolSpec.description ToolSpec.input_schema"),
    **some("ToolSpec.strict", "written in the wrapper that has it"),
    **dropped("ToolSpec.cache"),
    **some("ToolSpec.dialect ToolSpec.value", "only what stood in this format"),
}


# --- turns: theirs to ours -------------------------------------------------------------------------------------------


class _Reader:
    """Reads turns one after the other, and knows which calls wait for their results."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._generated = 0
        self._open: list[ToolCall] = []

    def read(self, turn: Any) -> None:
        if type(turn) is dict and len(turn) == 2:
            # A turn of its two fields, in our word for the speaker, holds nothing else: most are.
            who, text = turn.get("from"), turn.get("value")
            plain = _PLAIN.get(who) if type(who) is str and type(text) is str else None
            if plain is not None:
                self.entries.append(Entry(message=replace(plain, content=text)))
                return None
        kind = _kind_of(an_object(turn, API))
        value = turn.get("value")
        message: Message
        if not isinstance(value, str) or not kind:
            return self._keep(turn)
        if kind == "function_call":
            return self._call(turn, value)
        if kind == "observation":
            call = self._open.pop(0) if self._open else None
            id, name = (call.id, call.name) if call else (self._mint(), None)
            message = ToolResultMessage(tool_call_id=id, tool_name=name, content=value, is_error=False)
        else:
            message = _MESSAGES[kind](content=value)
        self.entries.append(Entry(message=keeping(message, API, turn, {"from": kind, "value": value})))
        return None

    def _call(self, turn: dict[str, Any], value: str) -> None:
        calls = self._calls_in(value)
        if calls is None:
            return self._keep(turn)
        self._open = list(calls)
        extra_fields = residual(turn, {"from": "function_call", "value": _call_text(calls)})
        hint = {CALLS: extra_fields} if extra_fields else {}
        before = self.entries[-1].message if self.entries else None
        if isinstance(before, AssistantMessage) and isinstance(before.content, str) and before.content:
            joined = replace(before, content=(TextBlock(text=before.content), *calls))
            self.entries[-1] = Entry(message=with_residual(joined, API, **hint) if hint else joined)
        else:
            alone = AssistantMessage(content=calls)
            self.entries.append(Entry(message=with_residual(alone, API, **hint) if hint else alone))
        return None

    def _calls_in(self, value: str) -> tuple[ToolCall, ...] | None:
        """One call, or a list of them."""
        try:
            given = jsontext.read(value)
        except FormatError:
            return None
        calls = list(map(_call_in, given if isinstance(given, list) else [given]))
        if not calls or None in calls:
            return None
        return tuple(ToolCall(id=self._mint(), name=call[0], arguments=call[1]) for call in calls if call)

    def _mint(self) -> str:
        self._generated += 1
        return f"call_{self._generated - 1}"

    def _keep(self, turn: dict[str, Any]) -> None:
        fields = {key: value for key, value in turn.items() if key not in ("from", "role")}
        kind = turn.get("from")
        role = kind if isinstance(kind, str) and kind not in ROLES else f"{API}:{kind}"
        extra_fields = residual(turn, fields)
        custom: Any = CustomMessage(role, fields)
        self.entries.append(Entry(message=custom, extra={API: {OWN: True, **extra_fields}}))


_MESSAGES: dict[str, Any] = {"human": UserMessage, "gpt": AssistantMessage, "system": SystemMessage}
_PLAIN: dict[str, Any] = {kind: message(content=None) for kind, message in _MESSAGES.items()}


def _kind_of(turn: dict[str, Any]) -> str:
    """Who speaks, in our word; empty if it is nobody we know."""
    who = turn.get("from")
    return KINDS.get(who) or KINDS.get(who.lower(), "") if isinstance(who, str) else ""


def _call_in(item: Any) -> tuple[str, dict[str, Any]] | None:
    """The name and arguments of a call: plain, in OpenAI's wrapper, or with the arguments as text."""
    fields = fields_of(item)
    fields = fields["function"] if isinstance(fields.get("function"), dict) else fields
    name, arguments = fields.get("name"), fields.get("arguments", fields.get("parameters"))
    if isinstance(arguments, str):
        try:
            arguments = jsontext.read(arguments)
        except FormatError:
            return None
    return (name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


def _call_text(calls: tuple[Block, ...]) -> str:
    items = [{"name": call.name, "arguments": call.arguments} for call in calls if isinstance(call, ToolCall)]
    return jsontext.compact(items[0] if len(items) == 1 else items)


# --- turns: ours to theirs -------------------------------------------------------------------------------------------


def _encode_turns(message: Message) -> Iterator[dict[str, Any]]:
    extra_fields = message.extra.get(API, {}) if message.extra else {}
    if not isinstance(message, AssistantMessage):
        kind = "human" if isinstance(message, UserMessage) else "observation"
        kind = "system" if isinstance(message, SystemMessage) else kind
        value = _marked(message) if isinstance(message, UserMessage) else text_of(message.content)
        yield put_back({"from": kind, "value": value}, extra_fields)
        return
    blocks = blocks_of(message.content)
    if not message.tool_calls or any(isinstance(block, TextBlock) and block.text for block in blocks):
        yield put_back({"from": "gpt", "value": text_of(message.content)}, extra_fields)
    if message.tool_calls:
        yield put_back({"from": "function_call", "value": _call_text(message.tool_calls)}, extra_fields.get(CALLS, {}))


def _marked(message: UserMessage) -> str:
    """The text of a person, with a mark for each picture."""
    return "".join(IMAGE if _file(block) else getattr(block, "text", "") or "" for block in blocks_of(message.content))


def _file(block: Any) -> str | None:
    """Where a picture is found: its path, its URL, or itself as one."""
    if not isinstance(block, ImageBlock):
        return None
    return block.url if block.data is None else data_url(block.mime_type, block.data)


# --- tools -----------------------------------------------------------------------------------------------------------


def _decode_tools(wire: Any) -> tuple[ToolSpec, ...] | None:
    """Tools: a list, or the text of one."""
    if isinstance(wire, str):
        try:
            wire = jsontext.read(wire)
        except FormatError:
            return None
    return tuple(map(_decode_tool, wire)) if isinstance(wire, list) else None


def _decode_tool(wire: Any) -> ToolSpec:
    wrapped = isinstance(wire, dict) and wire.get("type") == "function"
    inner = wire.get("function") if wrapped else wire
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return ToolSpec(name="", dialect=API, value=wire)
    tool = ToolSpec(
        name=inner["name"],
        description=optional(inner.get("description")),
        input_schema=inner.get("parameters"),
        strict=flag(inner.get("strict")) if wrapped else None,
        extra={API: {AS: "function"}} if wrapped else {},
    )
    return keeping(tool, API, wire, _encode_tool(tool))


def _encode_tool(spec: ToolSpec) -> Any:
    if spec.dialect == API:
        return spec.value
    tool: dict[str, Any] = {"name": spec.name}
    if spec.description is not None:
        tool["description"] = spec.description
    if spec.input_schema is not None:
        tool["parameters"] = spec.input_schema
    if spec.extra.get(API, {}).get(AS) != "function":
        return restored(tool, spec.extra, API)
    if spec.strict is not None:
        tool["strict"] = spec.strict
    return restored({"type": "function", "function": tool}, spec.extra, API)


def _encode_tools(specs: tuple[ToolSpec, ...], listed: bool) -> Any:
    encoded = [_encode_tool(spec) for spec in specs if spec.dialect in (None, API)]
    return encoded if listed else jsontext.compact(encoded)


# --- pairs -----------------------------------------------------------------------------------------------------------

_PAIRS = (("human", "assistant"), ("input", "output"))


def _is_paired(value: Any) -> bool:
    """Whether a value is a row of pairs, or of texts in turn."""
    if not isinstance(value, dict):
        return False
    pairs, texts = value.get("conversation"), value.get("data")
    if isinstance(pairs, list):
        return bool(pairs) and all(_is_pair(pair) for pair in pairs)
    return isinstance(texts, list) and len(texts) > 1 and all(isinstance(text, str) for text in texts) and "id" in value


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and any(
        value.keys() - {"system"} == set(names) and all(isinstance(value[name], str) for name in names)
        for names in _PAIRS
    )


def _conversation_of_pairs(row: dict[str, Any]) -> Conversation:
    """The conversation of a row. The system text is beside the pairs, or in the first pair."""
    pairs = row.get("conversation")
    first = pairs[0].get("system") if isinstance(pairs, list) else None
    system = optional(row.get("system")) or optional(first) or None
    return conversation_of(_paired_messages(row), system=system)


def _paired_messages(row: dict[str, Any]) -> Iterator[Message]:
    for at, text in enumerate(_paired_texts(row)):
        yield AssistantMessage(content=text) if at % 2 else UserMessage(content=text)


def _paired_texts(row: dict[str, Any]) -> Iterator[str]:
    if isinstance(row.get("conversation"), list):
        for pair in row["conversation"]:
            asked, answered = next(names for names in _PAIRS if names[0] in pair)
            yield pair[asked]
            yield pair[answered]
    else:
        yield from row["data"]


# --- sets ------------------------------------------------------------------------------------------------------------


def split(value: Any) -> list[Any] | None:
    """The conversations of a whole training set, if that is what the value is; a set of one is read as it is."""
    if isinstance(value, list) and len(value) > 1 and all(map(_is_example, value)):
        return value
    return None


def _is_example(value: Any) -> bool:
    return isinstance(value, dict) and (
        isinstance(value.get("conversations"), list) or _is_paired(value) or _renamed(value) is not None
    )


def _is_usual(row: Any) -> bool:
    """Whether the first turn is where it is in most rows, with their fields."""
    turns = row.get("conversations") if isinstance(row, dict) else None
    return (
        isinstance(turns, list) and bool(turns) and isinstance(turns[0], dict) and turns[0].keys() >= {"from", "value"}
    )


_COLUMNS = ("conversations", "messages", "conversation", "dialogue", "dialog")
_FIELDS = (("from", "value"), ("role", "value"), ("from", "content"), ("role", "content"))


def _renamed(row: Any) -> dict[str, Any] | None:
    """A row whose turns have another column or other fields, under our names; None if it is no such row."""
    for column in _COLUMNS if isinstance(row, dict) else ():
        turns = row.get(column)
        for who, text in _FIELDS[column == "conversations" :] if isinstance(turns, list) and turns else ():
            if all(_is_renamed(turn, who, text) for turn in turns):
                renames = {who: "from", text: "value"}
                named = [{renames.get(key, key): value for key, value in turn.items()} for turn in turns]
                kinds = set(map(_kind_of, named))
                beside = {key: value for key, value in row.items() if key != column}
                is_own = "function_call" in kinds if (who, text) == _FIELDS[-1] else any(kinds)
                return {"conversations": named, **beside} if is_own else None
    return None


def _is_renamed(turn: Any, who: str, text: str) -> bool:
    """Whether a turn has these fields; messages with ids are those of chat programs (HuggingChat)."""
    return isinstance(turn, dict) and isinstance(turn.get(who), str) and text in turn and "id" not in turn


@reading(API)
def decode(data: Any) -> Conversation:
    """Decodes one conversation: its turns, with or without the fields beside them."""
    body = body_of(data, API)
    bare = isinstance(body, list)
    if bare and body and all(map(_is_example, body)):
        if len(body) > 1:
            raise BadWire(API, f"a set of {len(body)} conversations: take one of them")
        return with_residual(decode(body[0]), API, **{SET: True})
    if type(body) is dict and "conversations" not in body and _is_paired(body):
        return templates.keep(_conversation_of_pairs(body), body, API)
    pair = _pair_of(body) if type(body) is dict and not _REJECTED.isdisjoint(body) else None
    if pair is not None:
        return templates.keep(pair, body, API)
    named = None if bare or _is_usual(body) else _renamed(body)
    if named is not None:
        return templates.keep(decode(named), body, API)
    wire = {"conversations": body} if bare else an_object(body, API)
    if "conversations" not in wire:
        raise BadWire(API, "expected `conversations`, a list of turns", "$.conversations")
    reader = _Reader()
    each(wire["conversations"], "conversations", API, reader.read)
    pictures = bool(wire.get("images")) and has_media({"images": wire["images"]}, _asked(reader.entries))
    if pictures:
        reader.entries = _with_pictures(reader.entries, wire["images"])
    answers = [_answer(wire.get(name), name) for name in ANSWERS]
    if all(answers):
        reader.entries = _with_answers(reader.entries, answers)
    tools = _decode_tools(wire.get("tools"))
    head = ANSWERS[0] if all(answers) else None
    system = optional(wire.get("system"))
    conversation = Conversation(entries=tuple(reader.entries), head=head, system=system, tools=tools)
    hints: dict[str, Any] = {BARE: True} if bare else {}
    if tools is not None and isinstance(wire["tools"], list):
        hints[LISTED] = True
    first = reader.entries[0].message if reader.entries else None
    if isinstance(first, SystemMessage) and "system" not in wire:
        hints[SYSTEM] = first.extra.get(API, {})
        conversation = replace(
            conversation, system=text_of(first.content), entries=_without_first(conversation.entries)
        )
    conversation = replace(conversation, extra={API: hints}) if hints else conversation
    if tools is None and not all(answers):  # the turns and the system text are all that the format has
        known = ("conversations",) if system is None else ("conversations", "system")
        known = (*known, "images") if pictures else known
        extra_fields = residual({key: value for key, value in wire.items() if key not in known}, {})
    else:
        encoded, _ = _encode(conversation)
        # Lists keep their own residuals, item by item.
        lists = [
            key for key in ("conversations", "tools", "images") if isinstance(encoded.get(key), list) and key in wire
        ]
        extra_fields = residual({**wire, **{key: encoded[key] for key in lists}}, encoded)
    return with_residual(conversation, API, **extra_fields) if extra_fields else conversation


_REJECTED = frozenset(("rejected_response", "rejected_messages"))


def _pair_of(row: dict[str, Any]) -> Conversation | None:
    """A row of ms-swift, whose chosen answer ends its turns: the other one is a text, or turns, beside them."""
    chosen = decode({key: value for key, value in row.items() if key not in _REJECTED})
    messages: list[Any] = list(chosen.messages)
    texts, conversations = rejected_answers(row.get("rejected_response"), row.get("rejected_messages"))
    rejected: list[list[Any]]
    if texts and messages and isinstance(messages[-1], AssistantMessage):
        rejected = [[*messages[:-1], AssistantMessage(content=text)] for text in texts]
    elif conversations:
        images = row.get("rejected_images") or row.get("images")
        pictures = {"images": images} if images else {}
        rejected = [list(decode({"conversations": _turns(each), **pictures}).messages) for each in conversations]
    else:
        return None
    entries, head = preference(messages, *rejected)
    return replace(chosen, entries=entries, head=head)


_OURS = {"role": "from", "content": "value"}


def _turns(given: list[Any]) -> list[dict[str, Any]]:
    return [{_OURS.get(key, key): value for key, value in turn.items()} for turn in given]


def _without_first(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries behind the first, whose children are roots now."""
    gone = entries[0].id
    return tuple(
        replace(entry, parent_id=None) if gone is not None and entry.parent_id == gone else entry
        for entry in entries[1:]
    )


def _asked(entries: list[Entry]) -> list[str]:
    return [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]


def _with_pictures(entries: list[Entry], images: list[str]) -> list[Entry]:
    """The entries with pictures in the place of their marks."""
    placer = MediaPlacer({"images": images})
    return [
        replace(entry, message=replace(entry.message, content=tuple(placer.blocks(entry.message.text))))
        if isinstance(entry.message, UserMessage) and IMAGE in entry.message.text
        else entry
        for entry in entries
    ]


ANSWERS = ("chosen", "rejected")


def _answer(turn: Any, name: str) -> Entry | None:
    """One of two answers: a turn of the model."""
    if not isinstance(turn, dict) or _kind_of(turn) != "gpt" or not isinstance(turn.get("value"), str):
        return None
    message = AssistantMessage(content=turn["value"])
    message = keeping(message, API, turn, {"from": "gpt", "value": turn["value"]})
    return Entry(message=message, id=name, extra={API: {ANSWER: name}})


def _with_answers(turns: list[Entry], answers: list[Any]) -> list[Entry]:
    """The turns with two branches after the last of them."""
    entries = [
        replace(entry, id=f"turn_{at}", parent_id=f"turn_{at - 1}" if at else None) for at, entry in enumerate(turns)
    ]
    return entries + [replace(answer, parent_id=entries[-1].id if entries else None) for answer in answers]


def encode(conversation: Conversation) -> Encoded:
    """Encodes a conversation as one row; as bare turns if those were decoded and hold everything."""
    if templates.FILE in conversation.extra.get(API, {}):
        try:
            paired = templates.give_back(conversation, API, decode)
            return Encoded([paired.body], paired.losses) if SET in conversation.extra[API] else paired
        except Unsupported:  # it has grown: the turns of this format hold what the pairs do not
            conversation = replace(conversation, extra={k: v for k, v in conversation.extra.items() if k != API})
    conversation = _with_marks(conversation)
    encoded, places = _encode(conversation)
    extra_fields = conversation.extra.get(API, {})
    body: Any = put_back(encoded, extra_fields)
    if extra_fields.get(BARE) and body.keys() == {"conversations"}:
        body = body["conversations"]
    body = [body] if extra_fields.get(SET) else body
    losses = losses_of(conversation, places, lambda: decode(body), FIELD_SUPPORT, API)
    beside = {f"$.entries[{at}]" for at, entry in enumerate(conversation.entries) if _answers_to(entry) in encoded}
    return Encoded(
        body, Losses(lambda: tuple(loss for loss in losses if loss.path not in beside)) if beside else losses
    )


def _with_marks(conversation: Conversation) -> Conversation:
    """A row of two answers from another format, with its last two messages as those of this one."""
    rejected = rejected_in(conversation)
    if len(rejected) != 1:
        return conversation
    chosen, other = conversation.path()[-1], conversation.entries[rejected[0]]
    if chosen.parent_id != other.parent_id or not (_is_plain_answer(chosen) and _is_plain_answer(other)):
        return conversation
    marks = {id(chosen): ANSWERS[0], id(other): ANSWERS[1]}
    entries = tuple(
        with_residual(entry, API, **{ANSWER: marks[id(entry)]}) if id(entry) in marks else entry
        for entry in conversation.entries
    )
    return replace(conversation, entries=entries)


def _is_plain_answer(entry: Entry) -> bool:
    return isinstance(entry.message, AssistantMessage) and all(
        type(block) is TextBlock for block in blocks_of(entry.message.content)
    )


def _answers_to(entry: Entry) -> Any:
    return entry.extra.get(API, {}).get(ANSWER) if isinstance(entry.message, AssistantMessage) else None


def _encode(conversation: Conversation) -> tuple[dict[str, Any], list[int]]:
    """The encoded set, and which messages are in it."""
    extra_fields = conversation.extra.get(API, {})
    turns: list[dict[str, Any]] = []
    places: list[int] = []
    encoded: dict[str, Any] = {}
    if conversation.system is not None:
        text = text_of(conversation.system)
        if SYSTEM in extra_fields:
            turns.append(put_back({"from": "system", "value": text}, extra_fields[SYSTEM]))
        else:
            encoded["system"] = text
    path = conversation.path()
    answers = {_answers_to(entry): entry for entry in conversation.entries}
    two = bool(path) and _answers_to(path[-1]) == ANSWERS[0] and ANSWERS[1] in answers and len(answers) == 3
    for at, entry in enumerate(path):
        message: Any = entry.message
        if two and entry is path[-1]:
            encoded |= {name: next(_encode_turns(answers[name].message)) for name in ANSWERS}
        elif not isinstance(message, CustomMessage):
            turns += _encode_turns(message)
        elif entry.extra.get(API, {}).get(OWN):
            turns.append(put_back(dict(message.fields), entry.extra[API]))
        else:
            continue
        places.append(at)
    encoded = {"conversations": turns, **encoded}
    asked = [entry.message.content for entry in path if isinstance(entry.message, UserMessage)]
    files = [file for content in asked for block in blocks_of(content) if (file := _file(block))]
    if files:
        encoded["images"] = files
    if conversation.tools is not None:
        encoded["tools"] = _encode_tools(conversation.tools, bool(extra_fields.get(LISTED)))
    return encoded, places


def detect(value: Any) -> str | None:
    """Whether a document is of this shape: turns with `from` and `value`."""
    example = value[0] if isinstance(value, list) and value and _is_example(value[0]) else value
    turns = example.get("conversations") if isinstance(example, dict) else example
    if turns is None and _is_paired(example):
        return "pairs of a question and its answer"
    if _renamed(example) is not None:
        return "turns with `from` and `value`, under other names"
    if not isinstance(turns, list) or not turns:
        return None
    are_turns = all(isinstance(turn, dict) and "from" in turn and "value" in turn for turn in turns)
    return "turns with `from` and `value`" if are_turns else None


def _fits(row: dict[str, Any]) -> bool:
    """Whether the marks of the turns are those of the row's pictures, and none was in a text before."""
    marks: int = sum(turn["value"].count(IMAGE) for turn in row["conversations"] if turn["from"] == "human")
    return marks == len(row.get("images", ()))


FORMAT = FileFormat(
    name="sharegpt",
    codec=sys.modules[__name__],
    detect=detect,
    split=split,
    rows=Rows(beside="images", fits=_fits, whole_turns=True),
    mask="weight",
)
