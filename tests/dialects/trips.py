"""How the conversation formats are tried: there and back through our JSON, and the books kept on what was lost."""

import json
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from interlingua.canonical import dump, load
from interlingua.dialects import dialect
from interlingua.losses import Lines, places
from interlingua.request import Conversation, Entry, Request
from laws.differences import _seen_extra, differing, is_under, view
from strategies import requests, wellformed_requests


def returned(name: str, data: Any) -> Any:
    """The data after decoding, our JSON, and encoding; lines as the list of their values."""
    module = dialect(name)
    body = module.encode(load(dump(module.decode(data)), Conversation)).body
    if isinstance(body, Lines):
        assert list(body) == [json.loads(line) for line in module.encode(module.decode(data)).bytes().splitlines()]
        return list(body)
    return body


def seen(conversation: Conversation, owner: str) -> dict[str, Any]:
    """The conversation under the names that loss paths use."""
    out = view(conversation.request(), owner)
    if conversation.model is None:
        out["model"] = {}  # so that what is missing is named part by part
    paths = places(conversation)
    out["entries"] = [_entry(entry, place, owner) for entry, place in zip(conversation.entries, paths, strict=True)]
    last = conversation.entries[-1].id if conversation.entries else None
    if conversation.head not in (None, last) and conversation.head in {entry.id for entry in conversation.entries}:
        out["head"] = conversation.head
    return out


def _entry(entry: Entry, place: str, owner: str) -> dict[str, Any]:
    out: dict[str, Any] = {"id": entry.id, "parentId": entry.parent_id, "extra": _seen_extra(entry.extra, owner)}
    if place.startswith("$.entries"):
        out["message"] = view(Conversation(entries=(replace(entry, id=None, parent_id=None),)).request(), owner)[
            "messages"
        ][0]
    return {key: value for key, value in out.items() if value not in (None, {})}


def accounted(name: str, source: Conversation) -> tuple[list[str], list[str]]:
    """The differences that no loss covers, and the losses without a difference."""
    module = dialect(name)
    body, losses = module.encode(source)
    reported = sorted({loss.path for loss in losses})
    again = module.decode(json.loads(json.dumps(body, allow_nan=False)))
    # Where a message is lost, so is its entry.
    whole = {place: f"$.entries[{at}]" for at, place in enumerate(places(source))}
    covered = [*reported, *(whole[path] for path in reported if path in whole)]
    before, after = seen(source, name), seen(again, name)
    if module.FATES["Conversation.entries"].kind != "kept":
        before.pop("head", None)  # a list stands at its end
    found = differing(before, after, covered, name)
    silent = sorted(path for path in found if not any(is_under(path, loss) for loss in covered))
    idle = [loss for loss in reported if not any(is_under(path, loss) or is_under(loss, path) for path in found)]
    return silent, idle


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


def named(*structs: type[Struct]) -> set[str]:
    return {
        f"{struct.__name__}.{field}" for struct in structs for field in struct.__struct_fields__ if field != "extra"
    }
