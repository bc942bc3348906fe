"""Losses of a conversion, as values that programs can read and encoders cannot forget.

A dialect declares its support for every canonical field (`SupportTable`). Losses that occur wherever a field is set are
found by walking the source with that table, on access; losses that depend on the case are reported by the encoder.
"""

import functools
import operator
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_origin, overload

from msgspec import Struct
from msgspec.structs import astuple
from msgspec.structs import fields as struct_fields

from . import jsontext
from .errors import FormatError, Unsupported
from .messages import CustomMessage, ToolCall, ToolResultMessage, shown
from .request import Conversation, Entry, Problem, Request, is_aside

# dropped: gone. weakened: sent, but less strongly or exactly. record: bookkeeping that a request never carries (a
# message's model, time and cost); reported for completeness, never a reason for strict mode to refuse.
Severity: TypeAlias = Literal["dropped", "weakened", "record"]


class Loss(Struct, frozen=True):
    """`path` points into the canonical source: `$.messages[3].content[0].citations`."""

    path: str
    what: str
    why: str
    severity: Severity

    __repr__ = shown


class Support(Struct, frozen=True):
    """How a dialect supports one field: `kept`, `some` (case by case, reported by the encoder), or lost wherever it
    is set.
    """

    kind: Literal["kept", "some", "dropped", "weakened", "record"]
    why: str = ""
    unless: Any = None  # the value that decoding restores by itself, such as the dialect's own api name


KEPT = Support("kept")
SupportTable: TypeAlias = Mapping[str, Support]  # "TextBlock.citations" -> Support


def kept(names: str) -> dict[str, Support]:
    """Rows for fields that the wire keeps in full: `kept("TextBlock.text ToolCall.id")`."""
    return dict.fromkeys(names.split(), KEPT)


def some(names: str, why: str) -> dict[str, Support]:
    """Rows for fields kept in some cases; the encoder reports the others."""
    return dict.fromkeys(names.split(), Support("some", why))


def dropped(names: str, why: str = "no place in this wire") -> dict[str, Support]:
    """Rows for fields that are lost wherever they are set."""
    return dict.fromkeys(names.split(), Support("dropped", why))


def record(names: str, why: str = "a request does not carry it", unless: Any = None) -> dict[str, Support]:
    """Rows for bookkeeping that is lost wherever it is set; `unless` is the value that decoding puts back."""
    return dict.fromkeys(names.split(), Support("record", why, unless))


def bookkeeping(api: str) -> dict[str, Support]:
    """Rows for metadata about a message that no request carries. `api` is the name that decoding restores."""
    return {
        **record(
            "UserMessage.timestamp AssistantMessage.timestamp ToolResultMessage.timestamp SystemMessage.timestamp"
            " UserMessage.origin"
        ),
        **record("AssistantMessage.api", unless=api),
        **record("AssistantMessage.provider AssistantMessage.model AssistantMessage.response_model"),
        **record("AssistantMessage.usage AssistantMessage.stop_reason AssistantMessage.stop_detail"),
        **record("AssistantMessage.error_message AssistantMessage.response_id ToolResultMessage.details"),
        **kept("ModelDescriptor.id"),
        **record(
            "ModelDescriptor.name ModelDescriptor.provider ModelDescriptor.base_url ModelDescriptor.reasoning"
            " ModelDescriptor.input ModelDescriptor.cost ModelDescriptor.context_window ModelDescriptor.max_tokens"
            " ModelDescriptor.headers ModelDescriptor.compat",
            "a description of the model, not a part of the request",
        ),
        **record("ModelDescriptor.extra", "a description of the model, not a part of the request"),
        **record("ModelDescriptor.api", "the wire is its own api", unless=api),
    }


class Losses(Sequence[Loss]):
    """A tuple of Loss that is computed on first access, by `find`."""

    __slots__ = ("_all", "_find")

    def __init__(self, find: Callable[[], tuple[Loss, ...]]) -> None:
        self._find = find
        self._all: tuple[Loss, ...] | None = None

    def _repr_html_(self) -> str:
        from .showing import losses_html  # only for notebooks

        return losses_html(self)

    def _get(self) -> tuple[Loss, ...]:
        if self._all is None:
            self._all = self._find()
        return self._all

    @overload
    def __getitem__(self, index: int) -> Loss: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Loss, ...]: ...
    def __getitem__(self, index: int | slice) -> Loss | tuple[Loss, ...]:
        return self._get()[index]

    def __len__(self) -> int:
        return len(self._get())

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._get())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Losses | tuple):
            return self._get() == tuple(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return shown(self._get())


def without_records(losses: Sequence[Loss]) -> tuple[Loss, ...]:
    """Returns the losses except bookkeeping, which is not computed where it has not been yet."""
    if type(losses) is not tuple and (find := getattr(losses, "without_records", None)) is not None:
        found: tuple[Loss, ...] = find()
        return found
    return tuple([loss for loss in losses if loss.severity != "record"]) if losses else ()


SYSTEM = "$.system"


class Reporter:
    """Collects the losses of an encoder. It tracks the position, so paths are built only for losses.

    `root` is the position if it is not a message of a request: `$.system`, or `$` for a response.
    """

    __slots__ = ("block", "losses", "message", "root")

    def __init__(self, root: str = "") -> None:
        self.losses: list[Loss] = []
        self.message = 0
        self.block: int | None = None
        self.root = root

    def lost(self, what: str, why: str, severity: Severity = "dropped", *, field: str | None = None) -> None:
        """Reports a loss in the current message or block; `field` (its JSON name) if only that is lost."""
        path = self.root or f"$.messages[{self.message}]"
        if self.block is not None:
            path += f"[{self.block}]" if self.root == SYSTEM else f".content[{self.block}]"
        self.at(f"{path}.{field}" if field else path, what, why, severity)

    def at(self, path: str, what: str, why: str, severity: Severity = "dropped") -> None:
        """Reports a loss at any other path."""
        self.losses.append(Loss(path, what, why, severity))

    def add(self, losses: Iterable[Loss]) -> None:
        """Reports losses that have their paths."""
        self.losses += losses


class Lines(list[Any]):
    """The body of a line format: one JSON value per line. `problems` are the lines of a file that could not be read."""

    problems: tuple[Problem, ...] = ()


class Text(str):
    """The body of a text format that is not JSON."""

    __slots__ = ()


class _Quiet(Reporter):
    __slots__ = ()

    def at(self, path: str, what: str, why: str, severity: Severity = "dropped") -> None:
        pass

    def add(self, losses: Iterable[Loss]) -> None:
        pass


QUIET = _Quiet()  # for encoding back to the same wire: nothing to report


class Encoded(NamedTuple):
    """An encoded body (JSON values), and its losses."""

    body: Any
    losses: Sequence[Loss]

    def __repr__(self) -> str:
        return f"Encoded(body={shown(self.body)}, losses={shown(tuple(self.losses))})"

    def _repr_html_(self) -> str:
        from .showing import encoded_html  # only for notebooks

        return encoded_html(self.body, self.losses)

    def bytes(self) -> bytes:
        """Returns the body as bytes, as sent over the network or written to a file."""
        if isinstance(self.body, Lines):
            return b"".join(jsontext.write(line) + b"\n" for line in self.body)
        if isinstance(self.body, Text):
            return jsontext.clean(self.body).encode()
        return jsontext.write(self.body)


def encoded(
    api: str,
    body: Any,
    source: Request | Struct,
    support: SupportTable,
    reported: list[Loss],
    *,
    strict: bool = False,
    variant: str | None = None,
) -> Encoded:
    """Returns an Encoded with the losses that the encoder `reported` and those that the table implies.

    In strict mode the first loss that is not bookkeeping is raised as Unsupported instead. `variant` is the api name of
    a variant of `api`, which decoding restores.
    """

    found = _TableLosses(source, support, api, variant, reported)
    if strict:
        for loss in found:
            if loss.severity != "record":
                raise Unsupported(api, f"{loss.what}: {loss.why}", loss.path)
    return Encoded(body, found)


class _TableLosses(Losses):
    """The losses that an encoder reported, and those that the table implies for its source."""

    __slots__ = ("_api", "_reported", "_source", "_support", "_variant")

    def __init__(self, source: Any, support: SupportTable, api: str, variant: str | None, reported: list[Loss]) -> None:
        self._all = None
        self._source = source
        self._support = support
        self._api = api
        self._variant = variant
        self._reported = reported

    def _get(self) -> tuple[Loss, ...]:
        if self._all is None:
            self._all = (*self._reported, *static_losses(self._source, self._support, self._api, self._variant))
        return self._all

    def without_records(self) -> tuple[Loss, ...]:
        """Returns the losses except bookkeeping, which is not computed where it has not been yet."""
        found: Sequence[Loss] = self._reported
        if self._all is not None or not _loses_only_records(self._source, self._support, self._api):
            found = self._get()
        return tuple([loss for loss in found if loss.severity != "record"]) if found else ()


def static_losses(source: Any, support: SupportTable, api: str, variant: str | None = None) -> list[Loss]:
    """Returns the losses that follow from the table alone, with their paths in `source`."""
    walk = _Walk(support, api, variant or api)
    if isinstance(source, Conversation):
        _in_conversation(source, walk)
    elif not isinstance(source, Request):
        walk.over(source, "$")
    else:
        context = source.context
        walk.model(source.model)
        walk.over(context.system, SYSTEM)
        walk.field("Context.system_role", context.system_role, "$.systemRole")
        walk.over(context.messages, "$.messages")
        walk.over(context.tools, "$.tools")
        walk.over(source.options, "$.options")
        walk.extra(source.extra, "$.extra", KEPT)
        walk.extra(context.extra, "$.context.extra", _CONTEXT_EXTRA)
    return walk.found


def _loses_only_records(source: Any, support: SupportTable, api: str) -> bool:
    """Whether the table implies only bookkeeping for `source`. Much faster than `static_losses`; in doubt False."""
    look = _look(support, api)
    if not isinstance(source, Request):
        return look.is_clear(source)
    context, system = source.context, source.context.system
    return (
        not context.extra
        and (context.system_role is None or support.get("Context.system_role", KEPT).kind not in _CONTENT)
        and look.is_clear_model(source.model)
        and (not system or look.is_clear(system))
        and look.is_clear(context.messages)
        and (not context.tools or look.is_clear(context.tools))
        and look.is_clear(source.options)
        and (not source.extra or look.is_clear_extra(source.extra, KEPT))
    )


def places(conversation: Conversation) -> list[str]:
    """Returns the path of each entry's message: among the messages of the path, or in its entry on another branch."""
    path = {id(entry): at for at, entry in enumerate(conversation.path())}
    return [
        f"$.messages[{path[id(entry)]}]" if id(entry) in path else f"$.entries[{at}].message"
        for at, entry in enumerate(conversation.entries)
    ]


def off_path(entry: Entry, at: int, answered: Container[Any], why: str, severity: Severity = "dropped") -> Loss:
    """The loss of an entry that is not on the path to the head: a branch, or a line beside the tree.

    Bookkeeping is only a record; a result that exists only in the journal is a real loss. `answered` are the ids of
    calls that have results elsewhere.
    """
    aside: Any = entry.message
    if not is_aside(entry):
        return Loss(f"$.entries[{at}]", "branch", why, severity)
    call = aside.fields.get("callId")
    if aside.fields.get("result") is not None and not (isinstance(call, str) and call in answered):
        return Loss(f"$.entries[{at}]", aside.role, "the result of a call that only the journal has", "dropped")
    return Loss(f"$.entries[{at}]", aside.role, "the bookkeeping of a session", "record")


def answered_calls(source: Conversation) -> set[str]:
    """Returns the ids of calls that have results."""
    messages = (entry.message for entry in source.entries)
    return {message.tool_call_id for message in messages if isinstance(message, ToolResultMessage)}


def _in_conversation(source: Conversation, walk: "_Walk") -> None:
    walk.over(source.model, "$.model")
    walk.over(source.system, SYSTEM)
    walk.field("Context.system_role", source.system_role, "$.systemRole")
    branches = walk.support.get("Conversation.entries", KEPT)
    answered = answered_calls(source)
    for at, (entry, place) in enumerate(zip(source.entries, places(source), strict=True)):
        if branches.kind in _LOST and place.startswith("$.entries"):
            walk.found.append(off_path(entry, at, answered, branches.why, branches.kind))  # type: ignore[arg-type]
        else:
            _in_entry(entry, at, place, walk)
    walk.field("Conversation.head", source.head, "$.head")
    walk.field("Conversation.title", source.title, "$.title", _UNSTATED)
    walk.field("Conversation.usage", source.usage, "$.usage", _UNSTATED)
    walk.over(source.tools, "$.tools")
    walk.over(source.options, "$.options")
    walk.extra({k: v for k, v in source.extra.items() if k != "context"}, "$.extra", KEPT)
    walk.extra(source.extra.get("context", {}), "$.context.extra", _CONTEXT_EXTRA)


def _in_entry(entry: Entry, at: int, place: str, walk: "_Walk") -> None:
    here = f"$.entries[{at}]"
    walk.over(entry.message, place)
    walk.field("Entry.id", entry.id, f"{here}.id")
    walk.field("Entry.parent_id", entry.parent_id, f"{here}.parentId")
    walk.field("Entry.parents", entry.parents or None, f"{here}.parents")
    walk.extra(entry.extra, f"{here}.extra", KEPT)


def static_entry_losses(entry: Entry, at: int, place: str, support: SupportTable, api: str) -> list[Loss]:
    """Returns the `static_losses` of one entry, in a format that keeps branches; `place` is that of its message."""
    walk = _Walk(support, api, api)
    _in_entry(entry, at, place, walk)
    return walk.found


_UNSTATED = Support("record", "the format has no place for it")  # title and total usage, unless the table has a row
_CONTEXT_EXTRA = Support("dropped", "what only one wire has in a request goes into the request's extra")
_LOST = ("dropped", "weakened", "record")
_CONTENT = ("dropped", "weakened")
_PLAIN = frozenset({int, float, bool})  # values that cannot have losses


# Of a class: the defaults of its fields; and per field its name, its JSON name, its Support, and whether it is lost.
_Fields: TypeAlias = tuple[tuple[Any, ...], tuple[tuple[str, str, Support, bool], ...]]
_TABLES = 100  # whose classes are cached
_MODELS = 256  # of a table whose losses are cached


class _Table:
    """What a support table implies for the fields of classes, and the losses of the models that were asked before."""

    __slots__ = ("fields", "looks", "models", "support")

    def __init__(self, support: SupportTable) -> None:
        self.support = support  # kept alive here, so that its id stays unique
        self.fields: dict[type[Struct], _Fields] = {}
        self.looks: dict[str, _Look] = {}
        self.models: dict[tuple[int, str, str], tuple[Any, list[Loss]]] = {}


_tables: dict[int, _Table] = {}


def _table(support: SupportTable) -> _Table:
    """Returns the cache of a table. Tables are few and constant."""
    found = _tables.get(id(support))
    if found is None:
        if len(_tables) >= _TABLES:
            _tables.clear()
        found = _tables[id(support)] = _Table(support)
    return found


class _Walk:
    """One walk through a source for losses that the table implies; `found` is in source order."""

    __slots__ = ("_fields", "_table", "api", "found", "support", "variant")

    def __init__(self, support: SupportTable, api: str, variant: str) -> None:
        self.support = support
        self.api = api
        self.variant = variant
        self.found: list[Loss] = []
        self._table = _table(support)
        self._fields = self._table.fields

    def model(self, model: Any) -> None:
        """Walks over the model of a request. A client asks the same one again and again: its losses are cached."""
        known, key = self._table.models, (id(model), self.api, self.variant)
        cached = known.get(key)
        if cached is None:
            before, self.found = self.found, []
            self.over(model, "$.model")
            if len(known) >= _MODELS:
                known.clear()
            cached = known[key] = (model, self.found)  # the model is kept alive, so that its id stays unique
            self.found = before
        self.found += cached[1]

    def over(self, value: Any, path: str) -> None:
        if isinstance(value, Struct):
            defaults, fields = self._fields.get(type(value)) or self._fields_of(type(value))
            for item, default, field in zip(astuple(value), defaults, fields, strict=True):
                if item is default:
                    continue
                attribute, name, support, is_lost = field
                if is_lost:
                    if item != default and not self._is_implied(item, support):
                        self.found.append(Loss(f"{path}.{name}", attribute, support.why, support.kind))  # type: ignore[arg-type]
                        if attribute == "arguments_text" and isinstance(value, ToolCall):
                            self.found += map(replaced, repaired_arguments(value, path))
                elif not item or (kind := type(item)) in _PLAIN or (kind is str and item.isascii()):
                    continue  # nothing in it can be lost
                elif attribute == "extra":
                    self.extra(item, f"{path}.extra", support)
                else:
                    self.over(item, f"{path}.{name}")
        elif isinstance(value, tuple):
            for at, item in enumerate(value):
                self.over(item, f"{path}[{at}]")
        elif isinstance(value, str):
            if not jsontext.is_clean(value):
                self.found.append(_unclean(path))
        elif isinstance(value, dict | list):
            if not jsontext.is_clean_value(value):
                self.found.append(_unclean(path))
        elif isinstance(value, CustomMessage) and self.support.get("CustomMessage.role", _NO_ROLE).kind in _LOST:
            self.found.append(Loss(path, value.role, "this wire has no such role", "dropped"))

    def _fields_of(self, cls: type[Struct]) -> _Fields:
        rows = [(*row, self.support.get(key, KEPT)) for *row, key in field_rows(cls)]
        found = self._fields[cls] = (
            tuple(default for _, _, default, _ in rows),
            tuple((one, name, support, one != "extra" and support.kind in _LOST) for one, name, _, support in rows),
        )
        return found

    def field(self, name: str, item: Any, path: str, default: Support = KEPT) -> None:
        """Checks one field that is not walked into."""
        support = self.support.get(name, default)
        if item is not None and support.kind in _LOST and not self._is_implied(item, support):
            self.found.append(Loss(path, name.partition(".")[2], support.why, support.kind))  # type: ignore[arg-type]

    def extra(self, extra: Mapping[str, Any], path: str, support: Support) -> None:
        """Checks what other dialects own; and what this one owns where the table drops it."""
        for owner, residual in extra.items():
            place = f"{path}.{owner}"
            if owner == self.api:
                if support.kind in _LOST:
                    lost = extra_losses(owner, own_fields(residual), place, support.why, support.kind)  # type: ignore[arg-type]
                    self.found += lost
            elif support.kind == "record":
                self.found += extra_losses(owner, residual, place, support.why, "record")
            else:
                self.found += extra_losses(owner, residual, place)

    def _is_implied(self, item: Any, support: Support) -> bool:
        """Whether decoding restores the value by itself."""
        if support.unless is None:
            return False
        return bool(item == (self.variant if support.unless == self.api else support.unless))


class _LookedAt(NamedTuple):
    """The fields of a class that may lose content: `lost` wherever they differ from `defaults`; `kept` by their values.
    `extra` is None for classes without that field.
    """

    lost: Callable[[Any], tuple[Any, ...]]
    defaults: tuple[Any, ...]
    kept: Callable[[Any], tuple[Any, ...]]
    extra: Support | None


def _nothing(value: Any) -> tuple[Any, ...]:
    return ()


_UNSEEN = _LookedAt(_nothing, (), _nothing, None)  # a class that has not been looked at


class _Look:
    """Tells whether a table implies losses beside bookkeeping; builds no paths and no losses."""

    __slots__ = ("_api", "_looks", "_loses_text", "_models", "_support")

    def __init__(self, support: SupportTable, api: str) -> None:
        self._support = support
        self._loses_text = support.get("ToolCall.arguments_text", KEPT).kind in _LOST
        self._api = api
        self._looks: dict[type, _LookedAt | None] = {}
        self._models: dict[int, tuple[Any, bool]] = {}

    def is_clear_model(self, model: Any) -> bool:
        """The same for the model of a request, cached as in `_Walk.model`."""
        cached = self._models.get(id(model))
        if cached is None:
            if len(self._models) >= _MODELS:
                self._models.clear()
            cached = self._models[id(model)] = (model, self.is_clear(model))
        return cached[1]

    def is_clear(self, value: Any) -> bool:
        kind = type(value)
        found = self._looks.get(kind, _UNSEEN)
        if found is _UNSEEN:
            found = self._looked_at(kind)
        if found is None:
            return self._is_clear_plain(value, kind)
        lost, defaults, kept, extra = found
        if defaults and lost(value) != defaults:
            return False
        if kind is ToolCall and value.arguments_text is not None and self._loses_text and repaired_arguments(value):
            return False
        for item in filter(None, kept(value)):
            if type(item) is str:
                if not (item.isascii() or jsontext.is_clean(item)):
                    return False
            elif not self.is_clear(item):
                return False
        return extra is None or not value.extra or self.is_clear_extra(value.extra, extra)

    def _is_clear_plain(self, value: Any, kind: type) -> bool:
        """The same for what is no `Struct`."""
        if kind is tuple:
            for item in value:  # noqa: SIM110 - a generator takes twice the time, for each request
                if not self.is_clear(item):
                    return False
            return True
        if kind is str:
            return value.isascii() or jsontext.is_clean(value)
        if not value or kind in _PLAIN:
            return True
        return kind in (dict, list) and jsontext.is_clean_value(value)

    def is_clear_extra(self, extra: Mapping[str, Any], support: Support) -> bool:
        """Whether only spelling hints (`~…`) of an extra are lost."""
        if support.kind == "record":
            return True
        for owner, residual in extra.items():
            if owner == self._api and support.kind not in _CONTENT:
                continue
            if not isinstance(residual, dict):
                return False
            for key, value in residual.items():
                if not key.startswith("~") or key in _OTHER_ANSWERS:
                    return False
                if type(value) is dict and not _OTHER_ANSWERS.isdisjoint(value):
                    return False
            if "~" in residual and _has_nested(residual["~"]):
                return False
        return True

    def _looked_at(self, cls: type) -> _LookedAt | None:
        found = None
        if issubclass(cls, Struct):
            rows = [(field, self._support.get(f"{cls.__name__}.{field.name}", KEPT)) for field in struct_fields(cls)]
            own = [(field, support.kind) for field, support in rows if field.name != "extra"]
            lost = [field for field, kind in own if kind in _CONTENT]
            kept = [field for field, kind in own if kind not in _LOST and not _is_plain(field.type)]
            found = _LookedAt(
                _getter([field.name for field in lost]),
                tuple([field.default for field in lost]),
                _getter([field.name for field in kept]),
                next((support for field, support in rows if field.name == "extra"), None),
            )
        self._looks[cls] = found
        return found


def _look(support: SupportTable, api: str) -> _Look:
    looks = _table(support).looks
    found = looks.get(api)
    if found is None:
        if len(looks) >= _TABLES:
            looks.clear()
        found = looks[api] = _Look(support, api)
    return found


def _is_plain(annotation: Any) -> bool:
    """Whether values of a type cannot have losses: numbers, truth values, None, and strings of a fixed set."""
    if get_origin(annotation) is Literal:
        return True
    members = get_args(annotation)
    return all(map(_is_plain, members)) if members else annotation is None.__class__ or annotation in _PLAIN


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that reads these attributes."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    if names:
        (name,) = names
        return lambda value: (getattr(value, name),)
    return _nothing


UNCLEAN = "halves of surrogate pairs are no Unicode: written as U+FFFD"


def _unclean(path: str) -> Loss:
    return Loss(path, "text", UNCLEAN, "weakened")


REPLACED = "characters that are no Unicode: read as U+FFFD"


def replaced(path: str) -> Loss:
    """The loss of what `jsontext.Repairs` found at a path of the source."""
    return Loss(path, "text", REPLACED, "weakened")


def repaired_arguments(call: ToolCall, path: str = "$") -> list[str]:
    """The paths in a call's arguments of strings that only `arguments_text` still has as they were.

    `path` is that of the call. There are none where the arguments were changed since.
    """
    text = call.arguments_text or ""
    if text.isascii() and "\\ud" not in text and "\\uD" not in text:
        return []
    with jsontext.Repairs() as found:
        try:
            value = jsontext.read(text, f"{path}.arguments")
        except FormatError:  # `parse_error` says so
            return []
    return found if jsontext.same(value, call.arguments) else []


def repaired_calls(content: Any, path: str = "$") -> Iterator[str]:
    """The same for the calls of a message at `path`."""
    if isinstance(content, tuple):
        for at, block in enumerate(content):
            if isinstance(block, ToolCall) and block.arguments_text is not None:
                yield from repaired_arguments(block, f"{path}.content[{at}]")


_NO_ROLE = Support("dropped", "this wire has no such role")


@functools.cache  # bounded by the number of value classes
def field_rows(cls: type[Struct]) -> tuple[tuple[str, str, Any, str], ...]:
    """Per field: its name, its JSON name, its default, and its key in a support table."""
    return tuple((f.name, f.encode_name, f.default, f"{cls.__name__}.{f.name}") for f in struct_fields(cls))


def own_fields(residual: Any) -> dict[str, Any]:
    """Returns what an `extra` holds for a dialect, without spelling hints."""
    return (
        {key: value for key, value in residual.items() if not key.startswith("~")} if isinstance(residual, dict) else {}
    )


def extra_losses(owner: str, residual: Any, path: str, why: str = "", severity: Severity = "dropped") -> Iterator[Loss]:
    """Returns a loss for each field that an `extra` holds for the dialect `owner`; `path` is their common path.

    Hints, response fields that never go into a request, fields that are null or only state a default, and our mark of a
    message that a repair added are bookkeeping.
    """
    why = why or f"only {owner} supports it"
    if not isinstance(residual, dict):
        if residual:
            yield Loss(path, owner, why, severity)
        return
    for key, value in residual.items():
        place = f"{path}.{key}"
        if not key.startswith("~"):
            is_mark = owner == "interlingua" and key == "synthetic"
            yield Loss(place, key, why, "record" if is_mark or _says_nothing(key, value) else severity)
        elif key in _OTHER_ANSWERS and value:
            yield Loss(place, "answers", "another answer to the same request: the target has one", "dropped")
        elif key != "~" and isinstance(value, dict) and value:
            yield from extra_losses(owner, value, place, why, "record")
        else:
            if key == "~" and severity != "record":
                yield from _nested_losses(value, place, why, severity)
            yield Loss(place, "spelling", f"how {owner} spelled it", "record")


# Where OpenAI Chat and Google have the answers after the first of a request for several (`n`, `candidateCount`).
_OTHER_ANSWERS = frozenset({"~choices", "~others"})

# Defaults that clients state with every request: of results (Anthropic, Bedrock), the number of answers (OpenAI Chat,
# Google) and the items of a Responses input. Without them the request means the same.
_STATED_DEFAULTS: dict[str, Any] = {
    "is_error": False,
    "status": "success",
    "n": 1,
    "candidateCount": 1,
    "type": "message",
    "include": [],
}


def _says_nothing(key: str, value: Any) -> bool:
    """Whether a field means the same as its absence."""
    if value is None:
        return True
    default = _STATED_DEFAULTS.get(key)
    return type(value) is type(default) and value == default


def _nested_losses(hints: Any, path: str, why: str, severity: Severity) -> Iterator[Loss]:
    """Returns a loss for each unknown field inside a known object: a hint holds the residual of that under `in`."""
    for name, hint in hints.items() if isinstance(hints, dict) else ():
        inner = hint.get("in") if isinstance(hint, dict) else None
        for key, value in inner.items() if isinstance(inner, dict) else ():
            place = f"{path}.{name}.in.{key}"
            if key == "~":
                yield from _nested_losses(value, place, why, severity)
            elif not key.startswith("~") and not _says_nothing(key, value):
                yield Loss(place, f"{name}.{key}", why, severity)


def _has_nested(hints: Any) -> bool:
    """Whether `_nested_losses` finds any."""
    return next(_nested_losses(hints, "", "", "dropped"), None) is not None
