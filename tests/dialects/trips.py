"""How the conversation formats are tried: there and back through our JSON, and the books kept on what was lost."""

import json
import re
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from interlingua.dialects import dialect
from interlingua.values.canonical import dump, load, plain
from interlingua.values.losses import Lines, places
from interlingua.values.messages import (
    Block,
    CacheMarker,
    Citation,
    CustomMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
)
from interlingua.values.request import (
    Conversation,
    Entry,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    ToolChoice,
    ToolSpec,
)
from laws.differences import _seen_extra, differing, is_under, view
from strategies import requests, wellformed_requests


def returned(name: str, data: Any) -> Any:
    """The data after decoding, our JSON, and encoding; lines as the list of their values."""
    module = dialect(name)
    encoded = module.encode(load(dump(module.decode(data)), Conversation))
    if isinstance(encoded.body, Lines):
        assert list(encoded.body) == [json.loads(line) for line in encoded.bytes().splitlines()]
        return list(encoded.body)
    return encoded.body


VALUES: tuple[Any, ...] = (*Block.__args__, *Message.__args__, Citation, CacheMarker, ToolSpec, ToolChoice, Reasoning)


def without_fate(name: str) -> list[str]:
    """The fields of the format about which the dialect's table says nothing."""
    structs = (*VALUES, OutputSchema, Options, ModelDescriptor)
    needed = {
        f"{struct.__name__}.{field}" for struct in structs for field in struct.__struct_fields__ if field != "extra"
    }
    needed |= {"Context.system_role", "Entry.id", "Entry.parent_id", "Conversation.head", "Conversation.entries"}
    return sorted(needed - dialect(name).FIELD_SUPPORT.keys())


def accounted(name: str, source: Conversation) -> tuple[list[str], list[str]]:
    """The differences that no loss covers, and the losses without a difference."""
    module = dialect(name)
    body, losses = module.encode(source)
    again = module.decode(json.loads(json.dumps(body, allow_nan=False)))
    reported = sorted({loss.path for loss in losses})
    is_tree = bool(source.entries) and all(entry.id is not None for entry in source.entries)
    if is_tree and module.FIELD_SUPPORT["Conversation.entries"].kind == "kept":
        reported = [_in_tree(path, source) for path in reported]
        before, after = _tree(source, name), _tree(again, name)
        covered = reported
    else:
        before, after = _line(source, name), _line(again, name)
        # Where a message is lost, so is its entry.
        whole = {place: f"$.entries[{at}]" for at, place in enumerate(places(source))}
        covered = [*reported, *(whole[path] for path in reported if path in whole)]
    found = differing(before, after, covered, name)
    silent = sorted(path for path in found if not any(is_under(path, loss) for loss in covered))
    idle = [loss for loss in reported if not any(is_under(path, loss) or is_under(loss, path) for path in found)]
    return silent, idle


def _about(conversation: Conversation, owner: str) -> dict[str, Any]:
    out = view(conversation.request(), owner)
    if conversation.model is None:
        out["model"] = {}  # so that what is missing is named part by part
    return out


def _line(conversation: Conversation, owner: str) -> dict[str, Any]:
    """The conversation under the names that loss paths use: its messages, and the rest of its entries."""
    out = _about(conversation, owner)
    named = zip(conversation.entries, places(conversation), strict=True)
    out["entries"] = [_entry(entry, owner, place.startswith("$.entries")) for entry, place in named]
    return out


def _tree(conversation: Conversation, owner: str) -> dict[str, Any]:
    """The same with messages in their entries, and entries by their ids: some may be missing."""
    out = _about(conversation, owner)
    out.pop("messages", None)
    out["tree"] = {entry.id: _entry(entry, owner, True) for entry in conversation.entries}
    if conversation.entries:
        out["head"] = conversation.path()[-1].id
    return out


def _in_tree(path: str, source: Conversation) -> str:
    """A loss path in the names of `_tree`."""
    for at, (entry, place) in enumerate(zip(source.entries, places(source), strict=True)):
        if re.match(re.escape(place) + r"(?![0-9])", path):
            inside = path[len(place) :]
            return f"$.tree.{entry.id}" + (f".message{inside}" if inside else "")
        if re.match(re.escape(f"$.entries[{at}]"), path):
            return f"$.tree.{entry.id}" + path[len(f"$.entries[{at}]") :]
    return path


def _entry(entry: Entry, owner: str, with_message: bool) -> dict[str, Any]:
    out: dict[str, Any] = {"id": entry.id, "parentId": entry.parent_id, "extra": _seen_extra(entry.extra, owner)}
    if with_message:
        alone = Conversation(entries=(replace(entry, id=None, parent_id=None),))
        out["message"] = next(iter(view(alone.request(), owner)["messages"]), plain(entry.message))
    return {key: value for key, value in out.items() if value not in (None, {})}


@st.composite
def foreign_conversations(draw: st.DrawFn, owner: str) -> Conversation:
    """Anything that the types allow, mostly of other dialects, in a line or in a tree."""
    request: Request = draw(st.one_of(requests(owner), wellformed_requests(own=owner)))
    conversation = Conversation.of(request)
    if draw(st.booleans()):
        conversation = replace(conversation, model=None)
    if draw(st.booleans()):
        return conversation
    entries: list[Entry] = []
    for at, entry in enumerate(conversation.entries):
        before = [None, *(f"e{n}" for n in range(at))]
        parent = draw(st.sampled_from(before)) if draw(st.booleans()) else before[-1]
        entries.append(replace(entry, id=f"e{at}", parent_id=parent))
    head = draw(st.sampled_from([None, *(entry.id for entry in entries)]))
    return replace(conversation, entries=tuple(entries), head=head)


def edited(conversation: Conversation, data: st.DataObject) -> Conversation:
    """The conversation with the words, arguments and outcome of one of its messages changed."""
    places = [at for at, entry in enumerate(conversation.entries) if not isinstance(entry.message, CustomMessage)]
    if not places:
        return conversation
    at = data.draw(st.sampled_from(places))
    entries = list(conversation.entries)
    entries[at] = replace(entries[at], message=_changed(entries[at].message))
    return replace(conversation, entries=tuple(entries))


def _changed(message: Any) -> Any:
    content = message.content
    if isinstance(content, tuple):
        content = tuple(map(_changed_block, content))
    elif content is not None:
        content = "changed since"
    if isinstance(message, ToolResultMessage):
        return replace(message, content=content, is_error=not message.is_error)
    return replace(message, content=content)


def _changed_block(block: Any) -> Any:
    if isinstance(block, TextBlock):
        return replace(block, text="changed since")
    if isinstance(block, ToolCall):
        return replace(block, arguments={"changed": ["since"]}, parse_error=None)
    return block
