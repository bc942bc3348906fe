"""One line of a session: to an entry and back. Known roles at C speed, everything else by the transcript's own way."""

from collections.abc import Callable, Iterator
from types import new_class
from typing import Any, Union, get_args

import msgspec
from msgspec.structs import replace

from ..dialects.files import transcript
from ..values import jsontext
from ..values.canonical import SELF, dump
from ..values.errors import FormatError
from ..values.messages import AgentMessage, CustomMessage, Message
from ..values.request import Conversation, Entry, is_aside

PLACES = ("id", "parentId", "parents", "entryExtra")


def _placed(message: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The message's struct with the keys that a line has beside it."""
    hints = {"id": str | None, "parent_id": str | None, "parents": tuple[str, ...], "entry_extra": dict[str, Any]}
    defaults: dict[str, Any] = {"id": None, "parent_id": None, "parents": (), "entry_extra": {}}
    options = {"frozen": True, "kw_only": True, "tag_field": "role", "tag": message.__struct_config__.tag}
    body = {"__annotations__": hints, **defaults}
    return new_class(f"_{message.__name__}Line", (message,), options, lambda namespace: namespace.update(body))


_KNOWN = {_placed(message): (message, message.__struct_fields__) for message in get_args(Message)}
_decoder = msgspec.json.Decoder(Union[tuple(_KNOWN)])  # noqa: UP007


def decode_line(raw: bytes) -> Entry:
    """The entry in a raw line; raises FormatError or BadWire where it is none."""
    if raw.count(b"[") + raw.count(b"{") <= jsontext.DEPTH_LIMIT:
        try:
            line: Any = _decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _decode_slowly(raw)
        message, fields = _KNOWN[type(line)]
        made: Any = message(**{name: getattr(line, name) for name in fields})
        place = {"id": line.id, "parent_id": line.parent_id, "parents": line.parents, "extra": line.entry_extra}
        return Entry(message=made, **place)
    return _decode_slowly(raw)


def _decode_slowly(raw: bytes) -> Entry:
    value = read_line(raw)
    if value.get("role") in ("head", "session"):  # these have a meaning of their own at the ends of a transcript
        return Entry(message=CustomMessage(value["role"], {k: v for k, v in value.items() if k != "role"}))  # type: ignore[arg-type]
    return transcript.decode_entry(value)


def read_line(raw: bytes) -> dict[str, Any]:
    """A raw line as plain JSON."""
    value = jsontext.read(raw.removeprefix(b"\xef\xbb\xbf"))
    if not isinstance(value, dict):
        raise FormatError("expected an object")
    return value


def encode_line(entry: Entry, *, root: bool = False) -> bytes:
    """The line of an entry, without a newline; raises FormatError where the message takes the names of its place.

    `root` says that the entry has no parent, where it would otherwise follow the line before.
    """
    message: AgentMessage = entry.message
    residual = message.fields if isinstance(message, CustomMessage) else message.extra.get(SELF)
    if isinstance(residual, dict) and not residual.keys().isdisjoint(PLACES):
        taken = next(key for key in PLACES if key in residual)
        raise FormatError(f"a message cannot have the key {taken!r} of its own: it is the entry's place in the session")
    raw = dump(message)
    place = (
        ("id", entry.id),
        ("parentId", entry.parent_id),
        ("parents", entry.parents or None),
        ("entryExtra", transcript.kept_extra(entry) or None),
    )
    for key, value in place:
        if value is not None or (root and key == "parentId"):
            raw = b'%s,"%s":%s}' % (raw[:-1], key.encode(), jsontext.write(value))
    return raw


def placed(
    conversation: Conversation, mint: Callable[[], str], names: dict[str, str | None] | None = None
) -> Iterator[Entry]:
    """The entries of a conversation with an id and a parent each; those beside the tree without an id.

    `names` is filled with the entry that stands for each id of the conversation.
    """
    names = {} if names is None else names
    ids: list[str | None] = []  # of the entry that stands for each
    for entry, above in zip(conversation.entries, conversation.tree().parents, strict=True):
        parent = None if above is None else ids[above]
        if is_aside(entry):
            yield replace(entry, message=_renamed(entry.message, names), id=None, parent_id=parent)
            ids.append(parent)
        else:
            ids.append(entry.id if entry.id is not None and entry.id not in names else mint())
            parents = tuple(known for id in entry.parents if (known := names.get(id)) is not None)
            yield replace(entry, id=ids[-1], parent_id=parent, parents=parents)
        if entry.id is not None:
            names[entry.id] = ids[-1]


def _renamed(aside: Any, names: dict[str, str | None]) -> Any:
    """What a head or a label says, of the entry that stands for its target now."""
    target = aside.fields.get("target")
    new = names.get(target, target) if isinstance(target, str) else target
    return aside if new == target else CustomMessage(aside.role, {**aside.fields, "target": new})
