"""Our own JSON: `dump` and `load` for every value of the format.

Strict decoders read at C speed. Only input that they refuse is read again as plain JSON: unknown keys are stored under
`extra["interlingua"]`, unknown blocks become opaque, unknown roles become CustomMessage. Writing puts all of these back
in place, so an older version loses nothing that a newer one wrote.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from . import jsontext
from .errors import FormatError
from .events import (
    PARTIAL,
    MessageUpdate,
    StreamPart,
    TextEnd,
    TextStart,
    ThinkingEnd,
    ThinkingStart,
    ToolCallStart,
    message_in,
)
from .folding import emptied, is_bare
from .messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    Message,
    MessageBase,
    OpaqueBlock,
    ServerToolCall,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    blocks_of,
)
from .request import Context, Conversation

SELF = "interlingua"

T = TypeVar("T")

_MARK = f'"{SELF}"'.encode()


# A foreign message may use a role that is reserved here; our JSON then prefixes the role with "~".
_ROLES = frozenset(message.__struct_config__.tag for message in get_args(Message))


def _flat(value: Any) -> Any:
    if isinstance(value, CustomMessage):
        taken = value.role.lstrip("~") in _ROLES
        return {"role": f"~{value.role}" if taken else value.role, **value.fields}
    raise FormatError(f"{type(value).__name__} is not a JSON value; pass str, int, float, bool, None, list or dict")


_encoder = msgspec.json.Encoder(enc_hook=_flat)


class DeferredList(list[Any]):
    """A list in an `extra` that is made when it is first read or dumped.

    Until then it holds `items`, which mean the same at greater length: so encoders that ask nobody write them.
    """

    __slots__ = ("_make",)

    def __init__(self, items: Iterable[Any], make: Callable[[], Iterable[Any]]) -> None:
        super().__init__(items)
        self._make: Callable[[], Iterable[Any]] | None = make

    def made(self) -> list[Any]:
        """Returns itself with the items that were made."""
        make = self._make
        if make is not None:
            self[:] = make()
            self._make = None
        return self

    def __iter__(self) -> Any:
        return list.__iter__(self.made())

    def __getitem__(self, at: Any) -> Any:
        return list.__getitem__(self.made(), at)

    def __eq__(self, other: object) -> bool:
        return [*self] == ([*other] if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        return list.__repr__(self.made())

    def __reduce__(self) -> tuple[Any, ...]:
        return list, ([*self],)


def _make_deferred(extra: Any) -> None:
    for kept in extra.values() if type(extra) is dict else ():
        for value in kept.values() if type(kept) is dict else ():
            if type(value) is DeferredList:
                value.made()


def dump(value: Any, *, partial: bool = False) -> bytes:
    """Returns the JSON of any value of the format. `partial=True` adds the message so far to an event that knows it."""
    if partial:
        return jsontext.write(_with_partial(value))
    _make_deferred(getattr(value, "extra", None))
    try:
        out = _encoder.encode(value)
    except (UnicodeEncodeError, RecursionError):
        return jsontext.write(plain(value))
    jsontext.refuse_depth(out)
    if jsontext.contains(out, _MARK):
        return jsontext.write(plain(value))
    if jsontext.contains(out, b"null"):  # NaN is written as null: check further
        jsontext.write(plain(value))
    return out


def load(data: bytes | str, type: Any = Conversation) -> Any:
    """A value of `type` from its JSON; raises FormatError with the path of what is wrong."""
    if not isinstance(data, str | bytes | bytearray | memoryview):
        raise FormatError(
            f"JSON must be a string or bytes, not {data.__class__.__name__}; use `decode` for values", "$"
        )
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) <= jsontext.DEPTH_LIMIT or jsontext.is_shallow(raw):
        try:
            value = _decoder(type).decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        else:
            return _without_shown(value) if isinstance(value, MessageUpdate) else value
    return build(jsontext.read(data), type)


def plain(value: Any) -> Any:
    """Returns a value of the format as plain JSON values, with unknown keys and blocks back in place."""
    if isinstance(value, OpaqueBlock) and value.dialect == SELF:
        return value.value
    if isinstance(value, Struct):
        return _plain_struct(value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, CustomMessage):
        return _flat(value)
    return value


def _with_partial(value: Any) -> Any:
    """Like `plain`, with the message so far in the event."""
    out = plain(value)
    if isinstance(value, StreamPart) and value.partial is not None:
        out["partial"] = plain(value.partial)
    elif isinstance(value, MessageUpdate):
        out["assistantMessageEvent"] = _with_partial(value.assistant_message_event)
        if value.message is not None:
            out["message"] = plain(value.message)
    return out


def _without_shown(update: MessageUpdate) -> MessageUpdate:
    """Drops an update's message if its event includes it anyway, so that both JSON forms compare equal."""
    known = update.shown is not None and update.shown == message_in(update.assistant_message_event)
    return MessageUpdate(update.assistant_message_event) if known else update


def build(value: Any, type: Any = Conversation, path: str = "$") -> Any:
    """Builds a value of the format from plain JSON values; unknown keys go to `extra["interlingua"]`."""
    try:
        return _build(value, type, path)
    except RecursionError:
        raise FormatError("nested too deep", path) from None


def message_of(value: Any, path: str = "$") -> AgentMessage:
    """Returns a message as it is, or builds it from its JSON; raises FormatError for anything else."""
    if isinstance(value, (CustomMessage, *get_args(Message))):
        return value  # type: ignore[return-value]
    if not isinstance(value, Mapping):
        raise FormatError(f"a message must be a UserMessage, …, or its JSON object, not {_kind(value)}", path)
    if "role" not in value:
        remedy = 'write {"role": "user", "content": …}, or use `decode` for a body or a file'
        raise FormatError(f"an object without `role` is no message; {remedy}", path)
    made: AgentMessage = build(dict(value), AgentMessage, path)
    return made


@cache
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    if CustomMessage in get_args(type):  # unknown roles take the slow path
        type = Union[tuple(option for option in get_args(type) if option is not CustomMessage)]  # noqa: UP007
    return msgspec.json.Decoder(type)


@cache
def _fields(type: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(type)


def _plain_struct(value: Struct) -> dict[str, Any]:
    out: dict[str, Any] = {}
    config = type(value).__struct_config__
    if config.tag_field is not None:
        out[config.tag_field] = config.tag
    for field in _fields(type(value)):
        item = getattr(value, field.name)
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if item is default or (field.default_factory is not msgspec.NODEFAULT and item == default):
            continue  # as the fast encoder does, so that both give the same JSON
        out[field.encode_name] = plain(item)
    residual = out.get("extra")
    _make_deferred(residual)
    if isinstance(residual, dict) and isinstance(residual.get(SELF), dict):
        unknown, rest = residual[SELF], {k: v for k, v in residual.items() if k != SELF}
        del out["extra"]
        out = {**out, **({"extra": rest} if rest else {}), **unknown}
    return out


def _build(value: Any, hint: Any, path: str) -> Any:
    if hint is Any:
        return value
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _build_union(value, get_args(hint), path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise FormatError(f"expected a list, got {_kind(value)}", path)
        item = get_args(hint)[0]
        return tuple(_build(v, item, f"{path}[{at}]") for at, v in enumerate(value))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _build_struct(value, hint, path)
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        raise FormatError(str(error), path) from None


def _build_union(value: Any, options: tuple[Any, ...], path: str) -> Any:
    if value is None and type(None) in options:
        return None
    structs = [o for o in options if isinstance(o, type) and issubclass(o, Struct)]
    if isinstance(value, dict) and structs:
        return _build_tagged(value, structs, path)
    if isinstance(value, list):
        for option in options:
            if get_origin(option) is tuple:
                return _build(value, option, path)
    simple = [o for o in options if o not in (*structs, CustomMessage) and get_origin(o) is not tuple]
    if type(value) in simple:  # an integer stays an integer where a float is allowed too
        return value
    for option in simple:
        try:
            return msgspec.convert(value, option)
        except msgspec.ValidationError:
            continue
    raise FormatError(f"expected {_names(options)}, got {_kind(value)}", path)


def _build_tagged(value: dict[str, Any], structs: list[type[Struct]], path: str) -> Any:
    if len(structs) == 1:
        return _build_struct(value, structs[0], path)
    tag_field = structs[0].__struct_config__.tag_field or "type"
    tag = value.get(tag_field)
    for struct in structs:
        if struct.__struct_config__.tag == tag:
            return _build_struct(value, struct, path)
    if tag_field == "role" and isinstance(tag, str):
        role = tag[1:] if tag.startswith("~") and tag.lstrip("~") in _ROLES else tag
        return CustomMessage(role, {k: v for k, v in value.items() if k != "role"})
    if OpaqueBlock in structs:
        return OpaqueBlock(dialect=SELF, value=value)
    known = ", ".join(repr(struct.__struct_config__.tag) for struct in structs)
    what = f"no {tag_field!r}" if tag is None else f"unknown {tag_field} {tag!r}"
    raise FormatError(f"{what}; write one of {known}", path)


def _build_struct(value: Any, struct: type[Struct], path: str) -> Any:
    if not isinstance(value, dict):
        raise FormatError(f"expected an object, got {_kind(value)}", path)
    config = struct.__struct_config__
    hints = _hints(struct)
    given: dict[str, Any] = {}
    unknown = dict(value)
    if config.tag_field is not None:
        if value.get(config.tag_field) != config.tag:
            raise FormatError(f"expected {config.tag_field} {config.tag!r}", path)
        del unknown[config.tag_field]
    for field in _fields(struct):
        if field.encode_name in unknown:
            item = unknown.pop(field.encode_name)
            given[field.name] = _build(item, hints[field.name], f"{path}.{field.encode_name}")
        elif field.required:
            raise FormatError(f"missing {field.encode_name!r}", path)
    partial = unknown.pop("partial", None) if issubclass(struct, StreamPart) else None
    if unknown:
        if "extra" not in hints:
            raise FormatError(f"unknown key {next(iter(unknown))!r}", path)
        given["extra"] = {**given.get("extra", {}), SELF: unknown}
    made = struct(**given)
    if isinstance(made, StreamPart) and partial is not None:
        return _showing(made, _build(partial, AssistantMessage, f"{path}.partial"))
    return _without_shown(made) if isinstance(made, MessageUpdate) else made


def _showing(event: StreamPart, partial: AssistantMessage) -> StreamPart:
    """Returns the event with the message so far.

    Events of the specification have no `block`: a call's id and name, or a signature, are in `partial` only.
    """
    content, at = blocks_of(partial.content), event.content_index  # type: ignore[attr-defined]
    if getattr(event, "block", event) is None and 0 <= at < len(content):
        block = content[at]
        if isinstance(event, TextStart | ThinkingStart | ToolCallStart):
            block = emptied(block)[0]
        if type(block) is _BLOCKS[type(event)] and not is_bare(block):
            event = msgspec.structs.replace(event, block=block)
    event.__dict__[PARTIAL] = partial
    return event


_BLOCKS: dict[type, Any] = {
    TextStart: TextBlock,
    TextEnd: TextBlock,
    ThinkingStart: ThinkingBlock,
    ThinkingEnd: ThinkingBlock,
    ToolCallStart: ToolCall,
}


@cache
def _hints(struct: type[Struct]) -> dict[str, Any]:
    return get_type_hints(struct)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _names(options: tuple[Any, ...]) -> str:
    return " or ".join(getattr(o, "__name__", str(o)) for o in options)


# --- validation of values made in Python ------------------------------------------------------------------------------
# Decoded values do not need it: msgspec has checked them. Construction checks nothing and stays free; values are
# checked before they are sent.

_MADE_BY_MODELS = (ToolCall, ServerToolCall, ThinkingBlock)


def check_context(context: Context) -> None:
    """Raises `FormatError`, with the path, for a context that cannot be sent."""
    _check_fields(context, "", without="messages")
    check_messages(context.messages)


def check_messages(messages: Iterable[AgentMessage], path: str = "messages") -> None:
    """Raises `FormatError`, with the path, for a message that cannot be sent."""
    for at, message in enumerate(messages):
        if isinstance(message, CustomMessage):
            continue
        if not isinstance(message, MessageBase):
            what = type(message).__name__
            raise FormatError(f"{what} is not a message; write UserMessage(content=…)", f"{path}[{at}]")
        _check_fields(message, f"{path}[{at}]")
        content: Any = message.content
        for number, block in enumerate(() if isinstance(content, str) else content or ()):
            where = f"{path}[{at}].content[{number}]"
            if isinstance(block, _MADE_BY_MODELS) and not isinstance(message, AssistantMessage):
                owner, what = type(message).__name__, type(block).__name__
                raise FormatError(f"{owner} with a {what}; only an AssistantMessage has these", where)
            if isinstance(block, OpaqueBlock) and isinstance(block.value, dict) and _is_text_without_text(block.value):
                raise FormatError(
                    f"text must be a string, not {type(block.value.get('text')).__name__}", f"{where}.text"
                )


def _is_text_without_text(wire: dict[str, Any]) -> bool:
    """Whether a block is a text block without text, which no format accepts: it would be dropped silently."""
    return wire.get("type") == "text" and not isinstance(wire.get("text"), str)


class _Field(NamedTuple):
    """A field's name, its accepted types, and those of its items if it is a tuple."""

    name: str
    types: tuple[type, ...]
    items: tuple[type, ...]
    is_optional: bool


def _check_fields(value: Struct, path: str, without: str = "") -> None:
    for name, types, items, is_optional in _checked_fields(type(value)):
        given = getattr(value, name)
        if given is None or name == without:
            if given is None and not is_optional:
                raise _wrong(given, types, f"{path}.{name}")
            continue
        if not isinstance(given, types):
            raise _wrong(given, types, f"{path}.{name}")
        if isinstance(given, Struct):
            _check_fields(given, f"{path}.{name}")
        elif items and isinstance(given, (tuple, list)):
            for at, item in enumerate(given):
                if not isinstance(item, items):
                    raise _wrong(item, items, f"{path}.{name}[{at}]")
                if isinstance(item, Struct):
                    _check_fields(item, f"{path}.{name}[{at}]")


def _wrong(given: Any, types: tuple[type, ...], path: str) -> FormatError:
    expected = " or ".join(dict.fromkeys(kind.__name__ for kind in types if kind is not NoneType))
    return FormatError(f"expected {expected}, got {type(given).__name__}", path.removeprefix("."))


@cache
def _checked_fields(kind: type[Struct]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    fields = []
    for name in kind.__struct_fields__:
        options = _options(hints[name])
        if Any in options:
            continue
        items = [item for option in options if get_origin(option) is tuple for item in _options(get_args(option)[0])]
        types = [runtime for option in options for runtime in _runtime(option)]
        checked = tuple(item for item in items if isinstance(item, type))
        fields.append(_Field(name, tuple(types), checked, NoneType in types))
    return tuple(fields)


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _runtime(hint: Any) -> tuple[type, ...]:
    origin = get_origin(hint) or hint
    if origin is Literal:
        return (str,)
    if origin is float:
        return (float, int)
    return (tuple, list) if origin is tuple else (origin,)
