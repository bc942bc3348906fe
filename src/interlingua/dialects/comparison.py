"""Losses by comparison: encode, decode again, and report every difference. The support table gives the reasons.

For file formats, where this is simpler than reporting each loss. Wires report while they encode: the gateway reads the
losses of every exchange, and decoding each body again would cost more than encoding it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from ..values.folding import parse_arguments
from ..values.losses import (
    KEPT,
    Loss,
    Losses,
    Severity,
    Support,
    SupportTable,
    answered_calls,
    extra_losses,
    field_rows,
    off_path,
    own_fields,
    places,
    record,
    static_losses,
)
from ..values.messages import Content, ToolCall, UserMessage, blocks_of
from ..values.request import Conversation, Entry, ModelDescriptor, Placer, is_aside
from .residual import same

OTHER = Support("weakened", "the format writes it in another way")
NO_PLACE = "the format has no place for such a message"
NO_BLOCK = "the format has no place for such a block"
SPELLING = "a text is a string or a block, as the format has it"
OTHER_PARENT = "the file has it behind another message"
OTHERWISE = "messages are read together, or apart, that were not so"
BRANCH = "a list holds one path through the tree: this is not on the way to the head"


_ALL_KEPT: SupportTable = {}
_NO_TEXT: SupportTable = record("ToolCall.arguments_text")


def losses_of(
    source: Conversation, encoded: Sequence[int], read: Callable[[], Conversation], support: SupportTable, api: str
) -> Losses:
    """The losses of a conversation in a format; computed when first read.

    `encoded` are the indexes of the messages on the path that were encoded at all; `read` decodes the result.
    """
    return Losses(lambda: tuple(_Comparison(support, api).over(source, encoded, read())))


def content_losses(before: Content, after: Content, path: str, api: str) -> Iterator[Loss]:
    """What the content of a message lost when it was written, by what is read again."""
    return _Comparison({}, api).value(before, after, f"{path}.content", "Message.content")


class _Comparison:
    def __init__(self, support: SupportTable, api: str) -> None:
        self._support = support
        self._api = api

    def over(self, source: Conversation, encoded: Sequence[int], again: Conversation) -> Iterator[Loss]:
        if source.model is not None:
            if again.model is None and not source.model.id:
                yield Loss("$.model.id", "id", "the model is not written", "record")
            yield from self._fields(source.model, again.model or ModelDescriptor(id=""), "$.model")
        yield from self.value(source.system, again.system, "$.system", "Context.system")
        yield from self.value(source.system_role, again.system_role, "$.systemRole", "Context.system_role")
        yield from self._messages(source.messages, encoded, again.messages)
        yield from self._entries(source, encoded, again)
        yield from self.value(source.tools, again.tools, "$.tools", "Context.tools")
        for name in ("title", "usage"):
            if getattr(source, name) is not None and getattr(source, name) != getattr(again, name):
                yield Loss(f"$.{name}", name, "the format has no place for it", "record")
        yield from self._fields(source.options, again.options, "$.options")
        for place, before, after in (
            ("$.extra", _without_context(source.extra), again.extra),
            ("$.context.extra", source.extra.get("context", {}), again.extra.get("context", {})),
        ):
            yield from self._extra(before, after, place)
        keeps_text = self._support.get("ToolCall.arguments_text", OTHER).kind == "kept"
        found = static_losses(source, _ALL_KEPT if keeps_text else _NO_TEXT, self._api)
        yield from (loss for loss in found if loss.what == "text")

    def _messages(self, before: Sequence[Any], encoded: Sequence[int], after: Sequence[Any]) -> Iterator[Loss]:
        known = frozenset(encoded)
        for at, message in enumerate(before):
            if at not in known:
                what = message.role if not isinstance(message, Struct) else type(message).__name__
                yield Loss(f"$.messages[{at}]", what, NO_PLACE, "dropped")
        if len(after) != len(encoded):
            yield Loss("$.messages", "messages", OTHERWISE, "weakened")
            yield Loss("$.entries", "entries", OTHERWISE, "weakened")
            return
        for at, message in zip(encoded, after, strict=True):
            yield from self.value(before[at], message, f"$.messages[{at}]", "Context.messages")

    def _entries(self, source: Conversation, encoded: Sequence[int], again: Conversation) -> Iterator[Loss]:
        path, read = source.path(), again.path()
        again_of = {id(path[at]): read[n] for n, at in enumerate(encoded) if len(read) == len(encoded)}
        answered = answered_calls(source)
        for at, (entry, place) in enumerate(zip(source.entries, places(source), strict=True)):
            if place.startswith("$.entries"):
                yield off_path(entry, at, answered, BRANCH)
                continue
            yield from self._fields(entry, again_of.get(id(entry), _PLACELESS), f"$.entries[{at}]", but=("message",))

    def value(self, before: Any, after: Any, path: str, name: str) -> Iterator[Loss]:
        if isinstance(before, Struct) and type(before) is type(after):
            yield from self._fields(before, after, path)
        elif isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
            for at, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from self.value(one, other, f"{path}[{at}]", name)
        elif same(before, after):
            return
        elif _is_spelling(before, after):
            yield Loss(path, "content", SPELLING, "record")
        elif name.endswith(".content") and (left := _left_of(before, after)) is not None:
            yield from self._content(before, left, path, name)
            if not isinstance(after, tuple):
                yield Loss(path, "content", SPELLING, "record")
        else:
            yield self._lost(path, name.partition(".")[2], self._support.get(name, OTHER))

    def _content(self, before: Sequence[Any], left: Sequence[Any], path: str, name: str) -> Iterator[Loss]:
        """The blocks of content of which those that are `left` were read back."""
        support, rest = self._support.get(name, KEPT), iter(left)
        kinds = set(map(type, left))
        for at, block in enumerate(before):
            place = f"{path}[{at}]"
            if type(block) in kinds:
                yield from self.value(block, next(rest), place, name)
            else:
                yield Loss(place, type(block).__name__, support.why or NO_BLOCK, "dropped")

    def _fields(self, before: Struct, after: Struct, path: str, but: tuple[str, ...] = ()) -> Iterator[Loss]:
        rows = zip(field_rows(type(before)), astuple(before), astuple(after), strict=True)
        for (name, encode_name, _, key), one, other in rows:
            if one is other or (type(one) is str and one == other) or (name == "extra" and not one):
                continue  # most are equal: for those no path is built
            inner = f"{path}.{encode_name}"
            if name == "extra":
                yield from self._extra(one, other, inner)
            elif name not in but and not _is_filled_in(name, one) and not _is_stale(before, name):
                yield from self.value(one, other, inner, key)

    def _extra(self, before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Loss]:
        for owner, residual in before.items():
            if owner == self._api:
                given, again = own_fields(residual), own_fields(after.get(owner))
                missing = {key: given[key] for key in given if key not in again or not same(given[key], again[key])}
                yield from extra_losses(owner, missing, f"{path}.{owner}", "no place for it here")
            elif residual and not same(residual, after.get(owner)):
                yield from extra_losses(owner, residual, f"{path}.{owner}")

    def _lost(self, path: str, what: str, support: Support) -> Loss:
        severity: Severity = "weakened" if support.kind == "kept" or support.kind == "some" else support.kind
        return Loss(path, what, support.why or OTHER.why, severity)


_PLACELESS = Entry(message=UserMessage(content=None))  # an entry without ids, as in a list


def _without_context(extra: dict[str, Any]) -> dict[str, Any]:
    return {owner: residual for owner, residual in extra.items() if owner != "context"}


def _left_of(before: Any, after: Any) -> tuple[Any, ...] | None:
    """The blocks that were read back, if the others are those of kinds that the format leaves out; else None."""
    if not isinstance(before, tuple) or not (after is None or isinstance(after, str | tuple)):
        return None
    left = blocks_of(after) if after else ()
    kinds = [type(block) for block in left]
    kept = [type(block) for block in before if type(block) in kinds]
    return left if kept == kinds and len(kept) < len(before) else None


def _is_spelling(before: Any, after: Any) -> bool:
    """Whether contents differ only in being a string or one block."""
    return isinstance(before, str) != isinstance(after, str) and blocks_of(before) == blocks_of(after)


def _is_filled_in(name: str, value: Any) -> bool:
    """Whether decoding fills in a field that the source left out."""
    return name in ("api", "tool_name") and value is None


def _is_stale(value: Any, name: str) -> bool:
    """Whether `arguments_text` is outdated: the arguments were changed after decoding."""
    if name != "arguments_text" or not isinstance(value, ToolCall) or value.arguments_text is None:
        return False
    return not same(parse_arguments(value.arguments_text)[0], value.arguments)


def entry_losses(
    source: Conversation, entries: Sequence[Entry], again: Conversation, support: SupportTable, api: str
) -> Iterator[Loss]:
    """The differences of a tree after a round trip, entry by entry, for formats that keep every entry."""
    comparison = _Comparison(support, api)
    found = {id(entry): place for entry, place in zip(source.entries, places(source), strict=True)}
    numbers = {id(entry): at for at, entry in enumerate(source.entries)}
    parents = zip(_parents(source), _parents(again), strict=True)
    for entry, other, (parent, written) in zip(entries, again.entries, parents, strict=True):
        yield from comparison.value(entry.message, other.message, found[id(entry)], "Context.messages")
        if parent != written:
            yield Loss(f"$.entries[{numbers[id(entry)]}].parentId", "parentId", OTHER_PARENT, "weakened")
    for name in ("head", "system", "tools", "model", "options", "title", "usage"):
        given, returned = getattr(source, name), getattr(again, name)
        yield from comparison.value(given, returned, f"$.{name}", f"Conversation.{name}")


def _parents(conversation: Conversation) -> list[int | None]:
    """The place of each entry's parent, among the entries that are not beside the tree."""
    placer = Placer()
    places: list[int | None] = []  # of each entry, or if it is beside the tree, of what it follows
    parents: list[int | None] = []
    for entry in conversation.entries:
        at = placer.add_entry(entry)
        parent = None if at is None or at < 0 else places[at]
        if is_aside(entry):
            places.append(parent)
        else:
            places.append(len(parents))
            parents.append(parent)
    return parents
