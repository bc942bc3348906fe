"""OpenAI's fine-tuning data: each line of a file is one independent example.

An example is what Chat Completions would be asked and would answer (`messages`, `tools`, `parallel_tool_calls`), and
is read by that dialect; an assistant's message may have a `weight`. What only one wire has belongs to this format,
not to that wire. A preference is an `input` with two outputs, the preferred one and the other: two branches; the
conversation stands at the end of the first.
"""

import contextlib
import functools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from ...values.errors import BadWire, DialectError
from ...values.folding import parse_arguments
from ...values.losses import Encoded, Loss, Losses, SupportTable, kept, some, static_losses
from ...values.messages import (
    AgentMessage,
    AssistantMessage,
    Block,
    CustomMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ...values.request import Context, Conversation, Entry, ModelDescriptor, Options, Request, ToolSpec, is_aside
from .. import dialect
from ..comparison import NO_PLACE
from ..registry import ordered
from ..residual import ENCODED, HINTS, an_object, body_of, list_of, put_back, reading, residual, with_residual
from ..results import LABEL
from ..wire import FileFormat, Rows
from .reading import rejected_in
from .records import LINEAR, NO_CALL, OWN, Shapes

API = "openai-finetune"
WIRE = "openai-completions"
QUIRKS = {"api": API}

KEYS = ("messages", "tools", "parallel_tool_calls")  # of an example
OUTPUTS = ("preferred_output", "non_preferred_output")
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
SET = "~set"  # of a conversation: it was the only one of a list
PREFERENCE = "~preference"  # of a conversation: residual of the preference around its input
BRANCH = "~branch"  # of an entry: which output it belongs to


def _wire() -> Any:
    """The dialect of an example."""
    return dialect(WIRE)


FIELD_SUPPORT: SupportTable = {
    **_wire().FIELD_SUPPORT,
    **NO_CALL,
    **LINEAR,
    **kept("Options.parallel_tools"),
    **some("CustomMessage.role CustomMessage.fields", "only what stood in this format goes back"),
}

# What only one wire has is filed under its name; what this format has, under its own.
_SWAP = {API: WIRE, WIRE: API}


def _swapped(value: Any) -> Any:
    """A value with what belongs to the wire filed under this format's name, and the reverse."""
    if isinstance(value, tuple):
        return tuple(map(_swapped, value))
    if not isinstance(value, Struct):
        return value
    changes: dict[str, Any] = {}
    for name in _inner_fields(type(value)):
        item = getattr(value, name)
        if name == "extra":
            if item and item.keys() & _SWAP.keys():
                changes[name] = {_SWAP.get(key, key): extra_fields for key, extra_fields in item.items()}
        elif name == "dialect":
            if item in _SWAP:
                changes[name] = _SWAP[item]
        elif isinstance(item, tuple | Struct):
            swapped = _swapped(item)
            if swapped is not item:
                changes[name] = swapped
    return replace(value, **changes) if changes else value


@functools.cache  # as many as there are classes of values
def _inner_fields(cls: type[Struct]) -> tuple[str, ...]:
    """The fields of a class that may hold what belongs to a dialect: all but plain texts, numbers and objects."""
    plain = {str, int, float, bool, type(None), Literal}

    def is_plain(hint: Any) -> bool:
        origin = get_origin(hint) or hint
        if origin in (Union, UnionType):
            return all(map(is_plain, get_args(hint)))
        return origin in plain

    hints = get_type_hints(cls)
    return tuple(name for name in cls.__struct_fields__ if name == "dialect" or not is_plain(hints[name]))


_MESSAGE = re.compile(r"\$\.messages\[(\d+)\]")
_OWNER = re.compile(rf"\.extra\.({re.escape(API)}|{re.escape(WIRE)})(?![^.\[])")


def _seen(loss: Loss) -> Loss:
    """A loss of the wire's, in the names of what was given to us."""
    path = _OWNER.sub(lambda match: f".extra.{_SWAP[match[1]]}", loss.path)
    why = loss.why.replace(f"only {API} can", f"only {WIRE} can")
    return replace(loss, path=path, why=why)


# --- examples --------------------------------------------------------------------------------------------------------


@reading(API)
def decode(data: Any) -> Conversation:
    """One example, or one preference; a list of one comes back as such."""
    body = body_of(data, API)
    if isinstance(body, list) and len(body) == 1 and _is_row(body[0]):
        return with_residual(decode(body[0]), API, **{SET: True})
    wire = an_object(body, API)
    if "messages" in wire:
        return _decode_example(wire)
    if "input" not in wire:
        raise BadWire(API, "an example has `messages`, a preference has an `input` and two outputs")
    return _decode_preference(wire)


def _decode_example(wire: dict[str, Any]) -> Conversation:
    usual = _usual(wire)
    if usual is not None:
        return usual
    known = {key: wire[key] for key in KEYS if key in wire}
    try:
        request: Request = _wire().decode_request(known, quirks=QUIRKS)
    except BadWire as error:
        raise BadWire(API, error.message, error.path) from None
    conversation: Conversation = _in_extras(replace(Conversation.of(request), model=None))
    conversation = replace(conversation, entries=tuple(map(_owned, conversation.entries)))
    rest = residual({key: value for key, value in wire.items() if key not in KEYS}, {})
    if not rest:
        return conversation
    hints = {**conversation.extra.get(API, {}).get(HINTS, {}), **rest.pop(HINTS, {})}
    return with_residual(conversation, API, **rest, **({HINTS: hints} if hints else {}))


def _owned(entry: Entry) -> Entry:
    return with_residual(entry, API, **{OWN: True}) if isinstance(entry.message, CustomMessage) else entry


# Most examples are texts, calls and results with nothing unusual about them. They are read here without the wire's
# dialect, and without encoding them again to see what that gets wrong.
_USER = UserMessage(content=None)
_ANSWER = AssistantMessage(content=None, api=API)
_RESULT = ToolResultMessage(content=None, tool_call_id="", is_error=False)
_ROWS = Shapes(("messages",), ("tools",))
_ANSWERS = Shapes(("role",), ("content", "tool_calls", "weight"))
_CALLS = Shapes(("id", "type", "function"))
_FUNCTIONS = Shapes(("name", "arguments"))
_TOOLS = Shapes(("type", "function"))
_SPECS = Shapes(("name",), ("description", "parameters"))


def _usual(wire: dict[str, Any]) -> Conversation | None:
    """A usual example; None for any other."""
    messages, tools = wire.get("messages"), wire.get("tools")
    if _ROWS[tuple(wire)] != () or type(messages) is not list:
        return None
    specs = None if "tools" not in wire else _usual_tools(tools)
    if "tools" in wire and specs is None:
        return None
    system: str | None = None
    names: dict[str, str] = {}  # call id -> tool name
    entries: list[Entry] = []
    for message in messages:
        read: Any = None
        if type(message) is dict:
            role, content = message.get("role"), message.get("content")
            if role == "assistant":
                read = _usual_answer(message, content, names)
            elif type(content) is str:
                if role == "user":
                    # What stands behind results under a label is theirs.
                    if len(message) == 2 and not content.startswith(LABEL):
                        read = replace(_USER, content=content)
                elif role == "tool":
                    id = message.get("tool_call_id")
                    if len(message) == 3 and type(id) is str and id in names:
                        read = replace(
                            _RESULT, tool_call_id=id, tool_name=names[id], content=(TextBlock(text=content),)
                        )
                elif role == "system" and len(message) == 2 and not entries and system is None:
                    system = content
                    continue
        if read is None:
            return None
        entries.append(Entry(message=read))
    return Conversation(entries=tuple(entries), system=system, tools=specs, options=Options())


def _usual_answer(message: dict[str, Any], content: Any, names: dict[str, str]) -> Any:
    if _ANSWERS[tuple(message)] != () or not (content is None or (type(content) is str and content)):
        return None
    blocks: list[Block] = [] if content is None else [TextBlock(text=content)]
    if "tool_calls" in message:
        calls = message["tool_calls"]
        if type(calls) is not list or not calls:
            return None
        for call in calls:
            read = _usual_call(call, names)
            if read is None:
                return None
            names[read.id] = read.name
            blocks.append(read)
    if not blocks:
        return None
    kept: dict[str, Any] = {"weight": message["weight"]} if "weight" in message else {}
    if "content" not in message:
        kept[HINTS] = {"content": {ENCODED: None}}
    return replace(_ANSWER, content=tuple(blocks), extra={API: kept} if kept else {})


def _usual_call(call: Any, names: dict[str, str]) -> ToolCall | None:
    """A call whose id is its own in the example: results of others are distinguished by the turn that they stand in."""
    if type(call) is not dict or _CALLS[tuple(call)] != () or call["type"] != "function":
        return None
    function, id = call["function"], call["id"]
    if type(function) is not dict or _FUNCTIONS[tuple(function)] != () or type(function["name"]) is not str:
        return None
    if type(id) is not str or id in ("", "null") or id in names or type(function["arguments"]) is not str:
        return None
    arguments, text, broken = parse_arguments(function["arguments"])
    return ToolCall(id=id, name=function["name"], arguments=arguments, arguments_text=text, parse_error=broken)


def _usual_tools(tools: Any) -> tuple[ToolSpec, ...] | None:
    specs = []
    for tool in tools if type(tools) is list else (None,):
        if type(tool) is not dict or _TOOLS[tuple(tool)] != () or tool["type"] != "function":
            return None
        function = tool["function"]
        if type(function) is not dict or _SPECS[tuple(function)] != () or None in function.values():
            return None
        name, description = function["name"], function.get("description", "")
        if type(name) is not str or type(description) is not str:
            return None
        specs.append(
            ToolSpec(name=name, description=function.get("description"), input_schema=function.get("parameters"))
        )
    return tuple(specs)


def _in_extras(conversation: Conversation) -> Conversation:
    """Swapped, with the extra of the context, which a conversation keeps inside its own."""
    swapped: Conversation = _swapped(conversation)
    context = swapped.extra.get("context")
    if not context:
        return swapped
    inner = {_SWAP.get(key, key): extra_fields for key, extra_fields in context.items()}
    return replace(swapped, extra={**swapped.extra, "context": inner})


def encode(conversation: Conversation) -> Encoded:
    """The example of the path to the head; the preference, if it was one."""
    extra_fields = conversation.extra.get(API, {})
    if extra_fields.get(SET):
        rest = {key: value for key, value in extra_fields.items() if key != SET}
        body, losses = encode(replace(conversation, extra={**conversation.extra, API: rest}))
        return Encoded([body], losses)
    if PREFERENCE in extra_fields:
        return _encode_preference(conversation)
    rejected = rejected_in(conversation)
    if rejected:
        return _encode_pair(conversation, rejected)
    body, losses = _encode_example(conversation)
    return Encoded(body, Losses(lambda: (*map(_seen, losses), *_unreported(conversation))))


def _encode_example(conversation: Conversation) -> Encoded:
    request: Request = _in_extras(conversation).request()
    messages = request.context.messages
    places = [at for at, entry in enumerate(conversation.path()) if not _is_foreign(entry)]
    context = replace(request.context, messages=tuple(messages[at] for at in places))
    asked = Options(parallel_tools=request.options.parallel_tools)
    body, losses = _wire().encode_request(
        replace(request, model=ModelDescriptor(id=""), context=context, options=asked), quirks=QUIRKS
    )
    if len(places) == len(messages):
        return Encoded(body, losses)
    return Encoded(body, Losses(lambda: (*_foreign_losses(messages, places), *_at_places(losses, places))))


def _is_foreign(entry: Entry) -> bool:
    """Whether an entry is another program's record, which no trainer reads."""
    return isinstance(entry.message, CustomMessage) and OWN not in entry.extra.get(API, {})


def _foreign_losses(messages: Sequence[AgentMessage], places: Sequence[int]) -> Iterator[Loss]:
    for at in sorted({*range(len(messages))}.difference(places)):
        yield Loss(f"$.messages[{at}]", messages[at].role, NO_PLACE, "dropped")


def _at_places(losses: Iterable[Loss], places: Sequence[int]) -> Iterator[Loss]:
    """Losses of some messages, with their paths among all of them."""
    for loss in losses:
        found = _MESSAGE.match(loss.path)
        path = f"$.messages[{places[int(found[1])]}]{loss.path[found.end() :]}" if found else loss.path
        yield replace(loss, path=path)


def _unreported(conversation: Conversation) -> list[Loss]:
    """What is no part of an example: the call, and the tree."""
    bare = tuple(
        entry if is_aside(entry) else replace(entry, message=_bare(entry.message)) for entry in conversation.entries
    )
    rest = replace(conversation, entries=bare, system=None, tools=None, system_role=None, extra={})
    return static_losses(rest, FIELD_SUPPORT, API)


def _bare(message: AgentMessage) -> Message:
    """A message without content; a result still names its call."""
    if isinstance(message, ToolResultMessage):
        return ToolResultMessage(tool_call_id=message.tool_call_id, content=None, is_error=False)
    return UserMessage(content=None)


# --- preferences -----------------------------------------------------------------------------------------------------


def _decode_preference(wire: dict[str, Any]) -> Conversation:
    try:
        conversation = _decode_example(an_object(wire["input"], API))
    except DialectError as error:
        raise error.under("input") from None
    entries = [
        replace(entry, id=f"input-{at}", parent_id=f"input-{at - 1}" if at else None)
        for at, entry in enumerate(conversation.entries)
    ]
    root = entries[-1].id if entries else None
    head = None
    for output in OUTPUTS:
        made = _decode_output(wire, output, root)
        entries += made
        head = made[-1].id if made and output == OUTPUTS[0] else head
    extra_fields = {PREFERENCE: residual(wire, {key: wire[key] for key in ("input", *OUTPUTS) if key in wire})}
    return with_residual(replace(conversation, entries=tuple(entries), head=head), API, **extra_fields)


def _decode_output(wire: dict[str, Any], output: str, parent: str | None) -> list[Entry]:
    given = wire.get(output)
    if not isinstance(given, list):
        raise BadWire(API, "an output is a list of messages", f"$.{output}")
    try:
        request: Request = _wire().decode_request({"messages": given}, quirks=QUIRKS)
    except DialectError as error:
        raise BadWire(API, error.message, f"$.{output}{error.path[1:].removeprefix('.messages')}") from None
    if request.context.system is not None:
        raise BadWire(API, "an output has no system text: it belongs to the input", f"$.{output}[0]")
    entries = []
    for at, message in enumerate(_swapped(request.context.messages)):
        id = f"{output}-{at}"
        entries.append(_owned(Entry(message=message, id=id, parent_id=parent, extra={API: {BRANCH: output}})))
        parent = id
    return entries


def _encode_preference(conversation: Conversation) -> Encoded:
    branches: dict[str, list[Message]] = {output: [] for output in OUTPUTS}
    asked = []
    for entry in conversation.entries:
        branch = branches.get(entry.extra.get(API, {}).get(BRANCH, ""))
        if branch is None:
            asked.append(replace(entry, id=None, parent_id=None))
        elif not _is_foreign(entry):
            branch.append(_swapped(entry.message))
    extra_fields = conversation.extra[API]
    rest = {key: value for key, value in extra_fields.items() if key != PREFERENCE}
    asking = replace(conversation, entries=tuple(asked), head=None, extra={**conversation.extra, API: rest})
    body, losses = _encode_example(asking)
    encoded = {output: _encode_output(tuple(messages)) for output, messages in branches.items()}
    return Encoded(put_back({"input": body, **encoded}, extra_fields[PREFERENCE]), tuple(map(_seen, losses)))


def _encode_pair(conversation: Conversation, rejected: list[int]) -> Encoded:
    """A row of two answers that was read from another format."""
    fork = conversation.entries[rejected[0]].parent_id
    path = conversation.path()
    shared = next((at + 1 for at, entry in enumerate(path) if entry.id == fork), 0)
    other = tuple(conversation.entries[at] for at in rejected)
    branches = {
        name: tuple(with_residual(entry, API, **{BRANCH: name}) for entry in entries)
        for name, entries in zip(OUTPUTS, (path[shared:], other), strict=True)
    }
    entries = (*path[:shared], *(entry for branch in branches.values() for entry in branch))
    body, _ = _encode_preference(
        with_residual(replace(conversation, entries=entries, head=path[-1].id), API, **{PREFERENCE: {}})
    )
    return Encoded(body, Losses(lambda: tuple(_pair_losses(conversation, rejected, shared))))


def _pair_losses(conversation: Conversation, rejected: list[int], shared: int) -> Iterator[Loss]:
    """Those of the path, and those of the rejected messages, which are entries beside it."""
    beside = {f"$.entries[{at}]" for at in rejected}
    given = (*map(_seen, _encode_example(conversation).losses), *_unreported(conversation))
    yield from (loss for loss in given if loss.path not in beside)
    other = replace(conversation, head=conversation.entries[rejected[-1]].id)
    for loss in map(_seen, _encode_example(other).losses):
        found = _MESSAGE.match(loss.path)
        if found is not None and int(found[1]) >= shared:
            place = f"$.entries[{rejected[int(found[1]) - shared]}].message"
            yield replace(loss, path=place + loss.path[found.end() :])


def _encode_output(messages: tuple[Message, ...]) -> list[Any]:
    request = Request(model=ModelDescriptor(id=""), context=Context(messages=messages))
    encoded: list[Any] = _wire().encode_request(request, quirks=QUIRKS).body["messages"]
    return encoded


def _is_row(value: Any) -> bool:
    preference = isinstance(value, dict) and "input" in value and all(key in value for key in OUTPUTS)
    return preference or (isinstance(value, dict) and isinstance(value.get("messages"), list))


def _is_example(value: Any) -> bool:
    messages = value.get("messages") if _is_row(value) else None
    if not isinstance(messages, list) or "outputs" in value:  # those of a logged call answer its messages
        return False
    return all(isinstance(message, dict) and message.get("role") in ROLES for message in messages)


def _is_session(row: dict[str, Any]) -> bool:
    """Whether an object with `messages` is a document of another format, which a list is then a list of."""
    for form in ordered().formats:
        if form.detect is not None and not form.text and form.name != API:
            with contextlib.suppress(KeyError, TypeError, AttributeError, IndexError, ValueError):
                if form.detect(row):
                    return True
    return False


def _is_untyped(row: dict[str, Any]) -> bool:
    """Whether the parts of the messages have no `type`, as those of Bedrock's Converse."""
    parts = [part for message in row["messages"] for part in list_of(message.get("content"))]
    return bool(parts) and all(isinstance(part, dict) and "type" not in part for part in parts)


def split(value: Any) -> list[Any] | None:
    """The examples of a set that is a JSON array."""
    return value if isinstance(value, list) and len(value) > 1 and all(map(_is_row, value)) else None


def detect(value: Any) -> str | None:
    """Whether a line is training data: a preference, or messages with a `weight`; or a list of rows."""
    if type(value) is list and value and all(map(_is_example, value)):
        return None if _is_session(value[0]) or _is_untyped(value[0]) else "a list of objects with `messages`"
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("input"), dict) and all(isinstance(value.get(key), list) for key in OUTPUTS):
        return "an `input` with `preferred_output` and `non_preferred_output`"
    messages = value.get("messages")
    if isinstance(messages, list) and value.keys() <= {*KEYS, "functions"}:
        weighed = [m for m in messages if isinstance(m, dict) and m.get("role") == "assistant" and "weight" in m]
        return "messages with a `weight`" if weighed else None
    return None


# platform.openai.com/docs/guides: supervised-fine-tuning, vision-fine-tuning and direct-preference-optimization
TRAINING = {
    "begins-with-user": "off",
    "turns-alternate": "off",
    "tools-given": "error",
    "weights": "error",
    "images": "error",
    "single-answers": "error",
    "examples": "error",
}
FORMAT = FileFormat(
    name="openai-finetune",
    codec=sys.modules[__name__],
    detect=detect,
    split=split,
    rows=Rows(),
    mask="weight",
    training=TRAINING,
    calls_beside=True,
)
