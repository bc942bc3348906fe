"""Rules for training rows: what a trainer refuses or learns wrongly, where, and how to fix it.

`check(data, target=TRAINER)` applies them. `rules_of` returns those of a trainer; `RULES` describes each.
"""

import re
from array import array
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from ..dialects import FORMATS
from ..dialects.files.templates import FILE
from ..values import jsontext
from ..values.canonical import plain
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    ImageBlock,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    text_of,
)
from ..values.request import Conversation, ToolSpec, is_aside
from .converting import MASKS

Severity = Literal["error", "warning"]


class MessagePlace(NamedTuple):
    """A message and its path."""

    path: str
    message: Any
    digest: int | None = None  # of the content, if the message is an outline

    @property
    def content(self) -> Any:
        """What is the same for equal contents."""
        return getattr(self.message, "content", self.message) if self.digest is None else self.digest


class TrainingRow(NamedTuple):
    """A training row: the path to the head, and for a preference the other answers, from where they diverge."""

    conversation: Conversation
    path: Sequence[MessagePlace]
    others: list[list[MessagePlace]]

    def answers(self) -> Iterator[MessagePlace]:
        """The messages to learn: those of the model on the path."""
        return (place for place in self.path if isinstance(place.message, AssistantMessage))


Found = Iterator[tuple[str, str]]  # path, and problem


# --- roles -----------------------------------------------------------------------------------------------------------


def _has_answer(row: TrainingRow) -> Found:
    if not any(True for _ in row.answers()):
        yield "$.messages", "no message of the assistant; nothing to learn"


def _ends_in_answer(row: TrainingRow) -> Found:
    for path in (row.path, *row.others):
        if path and not isinstance(path[-1].message, AssistantMessage):
            yield path[-1].path, f"the last message is of the role `{path[-1].message.role}`"


def _begins_with_user(row: TrainingRow) -> Found:
    first = next((place for place in row.path if not isinstance(place.message, SystemMessage)), None)
    if first is not None and not isinstance(first.message, UserMessage | CustomMessage):
        yield first.path, f"the first message after the system text is of the role `{first.message.role}`"


def _turns_alternate(row: TrainingRow) -> Found:
    """Results belong to the turn of their calls: the model continues after them."""
    before = None
    for place in row.path:
        kind = type(place.message)
        if kind is before and kind in (UserMessage, AssistantMessage):
            yield place.path, f"it follows a message of the same role, `{place.message.role}`"
        before = kind


def _system_is_first(row: TrainingRow) -> Found:
    for at, place in enumerate(row.path):
        if isinstance(place.message, SystemMessage) and (at or row.conversation.system is not None):
            yield place.path, "a system message that is not the first message"


def _roles_are_known(row: TrainingRow) -> Found:
    for place in row.path:
        if isinstance(place.message, CustomMessage):
            yield place.path, f"the role `{place.message.role}` is unknown to trainers"


def _messages_have_text(row: TrainingRow) -> Found:
    for place in (*row.path, *(place for path in row.others for place in path)):
        message = place.message
        if isinstance(message, CustomMessage | ToolResultMessage):
            continue
        blocks = blocks_of(message.content)
        if not any(not isinstance(block, TextBlock | ThinkingBlock) for block in blocks) and not _text(blocks).strip():
            yield place.path, "neither text nor a call in the message"


def _text(blocks: Any) -> str:
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


# --- tools -----------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _tools_have_schemas(row: TrainingRow) -> Found:
    seen: set[str] = set()
    for at, tool in enumerate(row.conversation.tools or ()):
        path = f"$.tools[{at}]"
        if tool.dialect is not None:
            yield path, "not a function with a `name` and `parameters`"
            continue
        if not _NAME.fullmatch(tool.name):
            yield f"{path}.name", f"the name {tool.name!r} is not 1 to 64 letters, digits, _ and -"
        if tool.name in seen:
            yield f"{path}.name", f"a second tool of the name {tool.name!r}"
        seen.add(tool.name)
        wrong = _wrong_schema(tool.input_schema)
        if wrong is not None:
            yield f"{path}.inputSchema", wrong


def _wrong_schema(schema: Any) -> str | None:
    if schema is None:
        return None  # no parameters
    if not isinstance(schema, dict):
        return "the parameters are not a JSON schema"
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type", "object") != "object":
        return f"the parameters are of type {schema['type']!r}, not 'object'"
    if not isinstance(properties, dict) or not all(isinstance(one, dict | bool) for one in properties.values()):
        return "`properties` does not map names to schemas"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "`required` is not a list of names"
    missing = [name for name in required if name not in properties] if "properties" in schema else []
    return f"`required` names {missing[0]!r}, which is not among the properties" if missing else None


def _calls(row: TrainingRow) -> Iterator[tuple[str, ToolCall]]:
    for path in (row.path, *row.others):
        for place in path:
            if isinstance(place.message, AssistantMessage):
                for at, block in enumerate(blocks_of(place.message.content)):
                    if isinstance(block, ToolCall):
                        yield f"{place.path}.content[{at}]", block


def _specs(row: TrainingRow) -> dict[str, ToolSpec]:
    return {tool.name: tool for tool in row.conversation.tools or ()}


def _tools_are_defined(row: TrainingRow) -> Found:
    known = _specs(row)
    if known:
        for path, call in _calls(row):
            if call.name not in known:
                yield path, f"a call of {call.name!r}, which is not among the tools of the row"


def _tools_are_given(row: TrainingRow) -> Found:
    first = next(_calls(row), None)
    if first is not None and not row.conversation.tools:
        yield first[0], f"a call of {first[1].name!r}, and the row has no tools"


def _arguments_fit(row: TrainingRow) -> Found:
    known = _specs(row)
    for path, call in _calls(row):
        if call.parse_error is not None:
            yield path, f"the arguments are no JSON object: {call.parse_error}"
            continue
        schema = known[call.name].input_schema if call.name in known else None
        if not isinstance(schema, dict) or _wrong_schema(schema) is not None:
            continue
        for name in schema.get("required", ()):
            if name not in call.arguments:
                yield path, f"the arguments lack {name!r}, which the tool requires"
        if schema.get("additionalProperties") is False:
            for name in call.arguments:
                if name not in schema.get("properties", {}):
                    yield path, f"the arguments have {name!r}, which the tool does not take"


# --- masks -----------------------------------------------------------------------------------------------------------


def _mask(message: Any) -> tuple[str, Any] | None:
    """Returns a message's training mask, under the name that it has."""
    for kept in getattr(message, "extra", {}).values():
        for name in MASKS:
            if isinstance(kept, dict) and name in kept:
                return name, kept[name]
    return None


def _something_is_learned(row: TrainingRow) -> Found:
    masks = [_mask(place.message) for place in row.answers()]
    if masks and all(mask is not None and mask[1] in (0, False) for mask in masks):
        yield "$.messages", "every message of the assistant is masked; nothing to learn"


def _weights_are_numbers(row: TrainingRow) -> Found:
    for place in row.path:
        found = _mask(place.message)
        if found is None or found[0] != "weight":
            continue
        if not isinstance(place.message, AssistantMessage):
            yield place.path, f"a `weight` on a message of the role `{place.message.role}`"
        elif type(found[1]) is not int or found[1] not in (0, 1):
            yield place.path, f"a `weight` of {found[1]!r}"


def _masks_are_flags(row: TrainingRow) -> Found:
    for place in row.path:
        found = _mask(place.message)
        if found is not None and found[0] in ("train", "training") and not isinstance(found[1], bool | None):
            yield place.path, f"a `{found[0]}` of {found[1]!r}"


def _spans_lie_in_text(row: TrainingRow) -> Found:
    """Checks Axolotl's `train_detail`: which characters of a message are learned, both ends included."""
    for place in row.path:
        for kept in getattr(place.message, "extra", {}).values():
            details = kept.get("train_detail") if isinstance(kept, dict) else None
            if details is None:
                continue
            length = len(text_of(place.message.content))
            spans = details if isinstance(details, list) else [details]
            if not all(_is_span(span, length) for span in spans):
                yield place.path, f"a span of `train_detail` that does not lie in the {length} characters of the text"


def _is_span(span: Any, length: int) -> bool:
    ends: list[Any] = [span.get(key) for key in ("begin_offset", "end_offset")] if isinstance(span, dict) else []
    return len(ends) == 2 and all(type(end) is int for end in ends) and 0 <= ends[0] <= ends[1] < length


# --- images and preferences ------------------------------------------------------------------------------------------

_MAX_IMAGES = 10


def _images_are_taken(row: TrainingRow) -> Found:
    count = 0
    for place in row.path:
        if isinstance(place.message, CustomMessage):
            continue
        for at, block in enumerate(blocks_of(place.message.content)):
            if isinstance(block, ImageBlock):
                count += 1
                if isinstance(place.message, AssistantMessage):
                    yield f"{place.path}.content[{at}]", "an image in a message of the assistant"
    if count > _MAX_IMAGES:
        yield "$.messages", f"{count} images; an example has at most {_MAX_IMAGES}"


def _answers_differ(row: TrainingRow) -> Found:
    for path in row.others:
        chosen = [place.content for place in row.path[-len(path) :]]
        if path and [place.content for place in path] == chosen:
            yield path[0].path, "the rejected answer is the chosen one"
    # If both are equal from the first message on, they were read as one path: the file still shows it.
    for kept in row.conversation.extra.values():
        for document in kept.get(FILE, ()) if isinstance(kept, dict) and isinstance(kept.get(FILE), list) else ():
            if isinstance(document, dict) and "chosen" in document and document["chosen"] == document.get("rejected"):
                yield "$.messages", "the rejected answer is the chosen one"


def _answers_are_single(row: TrainingRow) -> Found:
    for path in row.others:
        if len(path) != 1:
            yield path[0].path, f"an output of {len(path)} messages"


# --- trainers --------------------------------------------------------------------------------------------------------


class TrainingRule(NamedTuple):
    """The remedy, and the function that finds violations."""

    remedy: str
    find: Callable[[TrainingRow], Found]


RULES: dict[str, TrainingRule] = {
    "has-answer": TrainingRule("add the answer to be learned", _has_answer),
    "ends-in-answer": TrainingRule("end the row with a message of the assistant", _ends_in_answer),
    "begins-with-user": TrainingRule("begin with a message of the user", _begins_with_user),
    "turns-alternate": TrainingRule("write neighbours of one role as one message", _turns_alternate),
    "system-first": TrainingRule("put instructions into the first message", _system_is_first),
    "known-roles": TrainingRule("use system, user, assistant and tool", _roles_are_known),
    "not-empty": TrainingRule("put text into the message, or leave it out", _messages_have_text),
    "tool-schemas": TrainingRule(
        "define each tool once, by a name and a JSON schema of type `object`", _tools_have_schemas
    ),
    "defined-tools": TrainingRule("add the definition of the tool to `tools`", _tools_are_defined),
    "tools-given": TrainingRule("add the definitions of the tools as `tools`", _tools_are_given),
    "arguments": TrainingRule("write arguments as a JSON object that fits the tool's schema", _arguments_fit),
    "something-learned": TrainingRule("unmask an answer, or leave the row out", _something_is_learned),
    "weights": TrainingRule("write `weight` 0 or 1, on messages of the assistant alone", _weights_are_numbers),
    "train-flags": TrainingRule("write `train` as true or false", _masks_are_flags),
    "train-spans": TrainingRule("give `begin_offset` and `end_offset` inside the text", _spans_lie_in_text),
    "images": TrainingRule("use images as input only, and at most ten", _images_are_taken),
    "answers-differ": TrainingRule("give two different answers, or leave the row out", _answers_differ),
    "single-answers": TrainingRule("give each output as one message of the assistant", _answers_are_single),
}

_ALL: dict[str, Severity] = {
    "has-answer": "error",
    "ends-in-answer": "error",
    "begins-with-user": "warning",
    "turns-alternate": "warning",  # refused by the templates of Llama 2, Mistral and Gemma only
    "system-first": "warning",
    "known-roles": "error",
    "not-empty": "error",
    "tool-schemas": "error",
    "defined-tools": "error",
    "tools-given": "warning",
    "arguments": "error",
    "something-learned": "error",
    "answers-differ": "error",
}
# docs.axolotl.ai/docs/dataset-formats/conversation.html: text after the last answer is only ignored.
_OTHERS: dict[str, Mapping[str, str]] = {
    "training": {},
    "axolotl": {"ends-in-answer": "warning", "train-flags": "error", "train-spans": "error"},
}
EXAMPLES, MIN_EXAMPLES = "examples", 10  # a rule for files, not for rows


def rules_of(trainer: str) -> dict[str, Severity] | None:
    """Returns the rules of a trainer, with their severity; None for an unknown trainer.

    A trainer is the program behind a format of training rows; `training` combines the rules of all.
    """
    form = FORMATS.get(trainer)
    own = _OTHERS.get(trainer) if form is None else form.training
    if own is None:
        return None
    graded: dict[str, Any] = {**_ALL, **own}
    return {name: severity for name, severity in graded.items() if severity in get_args(Severity)}


def trainers() -> list[str]:
    """Returns the names of all trainers."""
    return [*_OTHERS, *(name for name, form in FORMATS.items() if form.training is not None)]


def findings(row: Conversation | TrainingRow, trainer: str) -> Iterator[tuple[str, Severity, str, str]]:
    """Yields each violation of a trainer's rules: path, severity, problem and remedy."""
    row = _row(row) if isinstance(row, Conversation) else row
    for name, severity in (rules_of(trainer) or {}).items():
        for path, message in RULES[name].find(row) if name in RULES else ():
            yield path, severity, f"{name}: {message}", RULES[name].remedy


class Outlines:
    """The messages of a large session as far as rules look at them; equal ones are stored once."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._known: list[Any] = []
        self._at = array("I")
        self._digests = array("q")

    def add(self, message: AgentMessage) -> None:
        made = _outline(message)
        number = self._numbers.setdefault(_bytes_of(made), len(self._known))
        if number == len(self._known):
            self._known.append(made)
        self._at.append(number)
        self._digests.append(hash(_bytes_of(getattr(message, "content", message))))

    def row(
        self, about: Conversation, on_path: bytearray, parents: "array[int]", is_aside: Container[int]
    ) -> TrainingRow:
        """The row of a session whose entries were added; `is_aside` are the indexes of those beside the tree."""
        path = array("I", (at for at, flag in enumerate(on_path) if flag))
        above = bytearray(len(on_path))  # of an entry
        for parent in parents:
            if parent >= 0:
                above[parent] = True
        others = []
        for leaf in range(len(on_path)):
            if above[leaf] or on_path[leaf] or leaf in is_aside:
                continue
            branch = array("I")
            at = leaf
            while at >= 0 and not on_path[at]:
                branch.append(at)
                at = parents[at]
            others.append([self.place(f"$.entries[{at}].message", at) for at in reversed(branch)])
        return TrainingRow(about, _Path(self, path), others)

    def place(self, path: str, at: int) -> MessagePlace:
        return MessagePlace(path, self._known[self._at[at]], self._digests[at])


class _Path(Sequence[MessagePlace]):
    """The places of a path, made when they are read."""

    def __init__(self, outlines: Outlines, entries: "array[int]") -> None:
        self._outlines, self._entries = outlines, entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        return self._outlines.place(f"$.messages[{at}]", self._entries[at])


def _bytes_of(value: Any) -> bytes:
    """Bytes that only an equal value has."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, OverflowError):  # values that JSON has and this encoder does not
        return jsontext.write(plain(value))


def _outline(message: AgentMessage) -> Any:
    """A message without its texts, data and values."""
    if isinstance(message, CustomMessage):
        return CustomMessage(role=message.role, fields={})
    kept = {
        owner: found
        for owner, residual in message.extra.items()
        if isinstance(residual, dict)
        and (found := {key: residual[key] for key in (*MASKS, "train_detail") if key in residual})
    }
    if any("train_detail" in found for found in kept.values()):
        return replace(message, timestamp=None, extra=kept)  # its spans lie in the text
    content: Any = tuple(map(_block_outline, blocks_of(message.content)))
    match message:
        case AssistantMessage():
            return AssistantMessage(content=content, extra=kept)
        case ToolResultMessage():
            return ToolResultMessage(tool_call_id="", content=content, is_error=False, extra=kept)
        case SystemMessage():
            return SystemMessage(content=content, extra=kept)
        case _:
            return UserMessage(content=content, extra=kept)


def _block_outline(block: Any) -> Any:
    match block:
        case TextBlock():
            return TextBlock(text="x" if block.text.strip() else "")
        case ThinkingBlock():
            return ThinkingBlock(thinking="")
        case ToolCall():
            return ToolCall(
                id="", name=block.name, arguments=dict.fromkeys(block.arguments), parse_error=block.parse_error
            )
        case ImageBlock():
            return ImageBlock()
        case _:
            return OpaqueBlock(dialect="", value=None)


def _row(conversation: Conversation) -> TrainingRow:
    """Returns the path to the head, and for every other leaf its branch from the path."""
    tree = conversation.tree()
    entries = conversation.entries
    ways: list[int] = []
    at = tree.head
    while at is not None:
        ways.append(at)
        at = tree.parents[at]
    ways.reverse()
    path = [MessagePlace(f"$.messages[{number}]", entries[at].message) for number, at in enumerate(ways)]
    above, on_path = set(tree.parents), set(ways)
    others = []
    for leaf in range(len(entries)):
        if leaf in above or leaf in on_path or is_aside(entries[leaf]):
            continue
        branch: list[MessagePlace] = []
        at = leaf
        while at is not None and at not in on_path:
            branch.append(MessagePlace(f"$.entries[{at}].message", entries[at].message))
            at = tree.parents[at]
        others.append(branch[::-1])
    return TrainingRow(conversation, path, others)
