"""`detect`, `decode`, `encode`, `convert`: from any format to any format, with the losses.

`decode` takes a request body, a bare list of messages, a response, a recorded stream or a session file. `encode` adapts
first if the target is another dialect than the conversation's own; the changes are part of the losses.
"""

import contextlib
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from msgspec import to_builtins
from msgspec.structs import replace

from ..dialects import DIALECTS, FORMATS, WIRES
from ..dialects import dialect as find
from ..dialects.files.templates import is_unshared
from ..dialects.framing import Frame
from ..dialects.registry import canonical, ordered
from ..dialects.wire import FileFormat
from ..values import jsontext
from ..values.canonical import build, plain
from ..values.errors import BadWire, FormatError, InterlinguaError, Unsupported
from ..values.folding import fold
from ..values.losses import (
    REPLACED,
    Encoded,
    Lines,
    Loss,
    Losses,
    answered_calls,
    extra_losses,
    off_path,
    places,
    repaired_calls,
    replaced,
)
from ..values.messages import AssistantMessage, CustomMessage, UserMessage
from ..values.request import Conversation, Entry, ModelDescriptor, Problem, Request
from ..values.text import unmarked
from .adapting import adapter
from .compacted import CompactedView, compacted
from .detection import (
    SELF,
    as_bytes,
    chunks_of,
    detect,
    detect_name,
    gc_paused,
    is_response,
    stream_kind,
    text_of_file,
    value_of,
)
from .inputs import Given, conversation_of


def decode(data: Any, dialect: str | None = None) -> Conversation:
    """Returns the conversation in `data`: JSON values, text or bytes, in the named dialect or the detected one.

    Characters that are no Unicode become U+FFFD; `problems` says where.
    """
    with jsontext.Repairs() as repaired:
        conversation = _decode_any(data, dialect)
    if repaired.has_kept:
        repaired += _repaired_calls(conversation)
    return with_repairs(_with_unread_answers(conversation), repaired)


# Where programs have the answer to `messages` beside them. A format that reads it has no such residual.
_ANSWERS = frozenset(("answer", "choices", "completion", "output", "outputs", "response"))


def _with_unread_answers(conversation: Conversation) -> Conversation:
    """Returns a conversation whose problems name what may be the answer to its last message, and is none of its own."""
    unknown = [fields for fields in conversation.extra.values() if type(fields) is dict]
    if all(map(_ANSWERS.isdisjoint, unknown)):
        return conversation
    names = [name for fields in unknown for name in fields if name in _ANSWERS and fields[name]]
    if not names or isinstance(next(reversed(conversation.messages), None), AssistantMessage):
        return conversation
    found = tuple(Problem(message=f"`{name}` beside the messages is not read; it may be the answer") for name in names)
    return replace(conversation, problems=(*conversation.problems, *found))


def _repaired_calls(conversation: Conversation) -> Iterator[str]:
    for entry, place in zip(conversation.entries, places(conversation), strict=True):
        yield from repaired_calls(getattr(entry.message, "content", None), place)


def with_repairs(conversation: Conversation, repaired: Iterable[str], line: int | None = None) -> Conversation:
    """Returns a conversation whose problems name the texts that were repaired when it was read."""
    found = [Problem(message=f"{REPLACED} (at {path})", line=line) for path in repaired]
    if not found and not conversation.problems:
        return conversation
    every = tuple(dict.fromkeys((*conversation.problems, *found)))
    return conversation if len(every) == len(conversation.problems) else replace(conversation, problems=every)


def _decode_any(data: Any, dialect: str | None) -> Conversation:
    """Decodes data; values that the caller has, and may change, are copied."""
    data = unmarked(data)
    if is_unshared.get():
        return _decode_unshared(data, dialect)
    token = is_unshared.set(True)
    try:
        return _decode_unshared(_copied(data), dialect)
    finally:
        is_unshared.reset(token)


# What a body may have beside JSON values: the AWS SDK has bytes and times.
_KEPT = (bytes, bytearray, memoryview, datetime, date, time, timedelta, Decimal, UUID)


def _copied(data: Any) -> Any:
    """Returns JSON values with objects and lists of their own; anything else as it is."""
    if not isinstance(data, dict | list):
        return data
    try:
        made = to_builtins(data, builtin_types=_KEPT)
    except (TypeError, ValueError, RecursionError):  # not JSON, which its reader reports
        return data
    if isinstance(data, Lines):
        made = Lines(made)
        made.problems = data.problems
    return made


def _decode_unshared(data: Any, dialect: str | None) -> Conversation:
    if dialect is not None:
        conversation = _decode_named(data, canonical(dialect))
        if not _has_messages(conversation):
            _refuse_another_format(data, canonical(dialect))
            _refuse_no_request(data, canonical(dialect), conversation)
        return conversation
    dialect = detect_name(data)
    if dialect is None:
        only = _only_one(data)
        if only is not None and detect_name(only) is not None:
            return _decode_unshared(only, None)
        _refuse_several(value_of(data))  # raises a precise error if it is not even JSON
        raise BadWire("detect", "no known format; name one (`interlingua dialects` lists them)")
    return _decode(data, canonical(dialect))


def _decode_named(data: Any, dialect: str) -> Conversation:
    try:
        return _decode(data, dialect)
    except (BadWire, FormatError):
        only = _only_one(data)
        if only is None:
            raise
        with contextlib.suppress(BadWire, FormatError):
            return _decode(only, dialect)
        raise  # what is wrong with the list


def _only_one(data: Any) -> Any:
    """Returns what stands in a list of one, which `read` reads by itself as well; None for anything else."""
    try:
        value = value_of(data) if isinstance(data, str | bytes) and data.lstrip()[:1] in ("[", b"[") else data
    except InterlinguaError:
        return None
    return value[0] if type(value) is list and len(value) == 1 and isinstance(value[0], dict | list) else None


def _has_messages(conversation: Conversation) -> bool:
    return any(not isinstance(entry.message, CustomMessage) for entry in conversation.entries)


def _refuse_another_format(data: Any, dialect: str) -> None:
    """Refuses what has no message in the named dialect, and is of another one, unless it has none there either."""
    found = None
    with contextlib.suppress(InterlinguaError):
        found = detect_name(data)
        if found is None or canonical(found) == dialect or not _has_messages(_decode(data, canonical(found))):
            return
    if found is not None:
        raise BadWire(dialect, f"no message of this format in it; it looks like {found}")


def _refuse_no_request(data: Any, dialect: str, conversation: Conversation) -> None:
    """Refuses an object of which a wire knows no field: it would look like a request that asks nothing."""
    wire = WIRES.get(dialect)
    value = value_of(data) if wire is not None else None
    if wire is None or not isinstance(value, dict):
        return
    http, unknown = wire.http, conversation.extra.get(wire.base, {})
    if all(name in unknown and name not in http.input_references for name in value):
        names = ", ".join(f"`{name}`" for name in [*value][:5]) + (", …" if len(value) > 5 else "")
        remedy = f"write `{http.input_field}`, or name the format that it has"
        raise BadWire(dialect, f"no field of a request, only {names or 'an empty object'}; {remedy}", "$")


def _decode(data: Any, dialect: str) -> Conversation:
    if dialect == SELF:
        value = value_of(data)
        _refuse_several(value)
        return _decode_own(value)
    form = DIALECTS[dialect]
    module: Any = form.codec
    if isinstance(form, FileFormat):
        if form.read is not None and type(data) is bytes:
            with gc_paused(data.count(b"\n")):
                found = form.read(io.BytesIO(data))
            if found is not None:
                return found
        value = text_of_file(data) if form.text and isinstance(data, bytes | str) else value_of(data)
        torn = getattr(value, "problems", ())
        if type(value) is Lines and len(value) == 1 and not form.lines:
            (value,) = value  # a row, and not a set of one
        try:
            if type(value) is Lines:
                with gc_paused(len(value)):
                    conversation = _conversation(module.decode(value))
            else:
                conversation = _conversation(module.decode(value))
        except BadWire:
            if not form.lines:
                _refuse_several(value)
            raise
        return replace(conversation, problems=(*torn, *conversation.problems)) if torn else conversation
    kind = stream_kind(data)
    if kind is not None:
        framing = module.framing(kind)
        return _one(_received(module, [*framing.feed(as_bytes(data)), *framing.close()]), dialect)
    value = value_of(data)
    _refuse_several(value)
    chunks = chunks_of(value)
    if chunks is not None:
        return _one(_received(module, chunks), dialect)
    if type(value) is list and len(value) == 1 and isinstance(value[0], dict) and _is_whole(value[0]):
        (value,) = value  # a body in a list, which would be read as a message without content
    if is_response(form, value):
        return _one(module.decode_response(value), dialect)
    return _conversation(module.decode(value))


def encode(conversation: Given, dialect: str, *, strict: bool = False, adapt: bool = True) -> Encoded:
    """Encodes a conversation in another format; returns the body and the losses.

    Messages, a `Context` and a `Request` are accepted as conversations.

    In strict mode the first loss that is not bookkeeping is raised as Unsupported instead.
    """
    conversation = conversation_of(conversation)
    dialect = canonical(dialect)
    if dialect == SELF:
        return Encoded(plain(conversation), ())
    find(dialect)
    if dialect not in WIRES:
        body, losses = encode_as(conversation, FORMATS[dialect])
    else:
        body, losses = _encode_wire(conversation, dialect, adapt and not is_own(conversation, dialect))
    if strict:
        for loss in losses:
            if loss.severity != "record":
                raise Unsupported(dialect, f"{loss.what}: {loss.why}", loss.path)
    return Encoded(body, losses)


def convert(data: Any, to: str, dialect: str | None = None, *, strict: bool = False) -> Encoded:
    """`decode`, then `encode`; what could not be read as it was is a loss, too."""
    with jsontext.Repairs() as repaired:
        conversation = _decode_any(data, dialect)
    encoded = encode(conversation, to, strict=strict)
    return with_losses(encoded, map(replaced, dict.fromkeys(repaired)), to, strict=strict) if repaired else encoded


def with_losses(encoded: Encoded, losses: Iterable[Loss], dialect: str, *, strict: bool) -> Encoded:
    """Returns a result with further losses before its own; in strict mode the first is raised."""
    found = tuple(losses)
    if strict and found:
        raise Unsupported(dialect, f"{found[0].what}: {found[0].why}", found[0].path)
    return Encoded(encoded.body, Losses(lambda: _once(found, encoded.losses)))


def _encode_wire(conversation: Conversation, name: str, adapting: bool) -> Encoded:
    module, branches = find(name), list(_unencoded_branches(conversation))
    if not adapting:
        body, given = module.encode(conversation)
        return Encoded(body, Losses(lambda: _once(branches, given)))
    view = compacted(conversation)
    adapted = adapter.adapt((conversation if view is None else view.conversation).request(), name)
    body, given = module.encode(Conversation.of(adapted.request))
    return Encoded(body, Losses(lambda: _once(branches, _lost(view, adapted, adapted.losses, given))))


def encode_as(conversation: Conversation, form: FileFormat) -> Encoded:
    """Returns the file that was read; a new one if there was none, or a message was added since."""
    encoded: Encoded
    if form.write is None:
        encoded = form.codec.encode(_with_masks(conversation, form))
        return encoded
    if conversation.extra.get(form.name):
        with contextlib.suppress(Unsupported):
            encoded = form.codec.encode(conversation)
            return encoded
    if form.adapted_for is None:
        return form.write(conversation)
    branches = [loss for loss in _unencoded_branches(conversation) if loss.path != "$.title"]
    # A session may end with a response, but a request may not: the next user message is added as a placeholder.
    view = compacted(conversation)
    source = (conversation if view is None else view.conversation).request()
    messages = (*source.context.messages, UserMessage(content="?"))
    request = replace(source, context=replace(source.context, messages=messages))
    adapted = adapter.adapt(request, form.adapted_for)
    session = replace(adapted.request.context, messages=adapted.request.context.messages[:-1])
    kept = {"title": conversation.title, "options": conversation.options, "extra": conversation.extra}
    body, given = form.write(replace(Conversation.of(replace(adapted.request, context=session)), **kept))
    # The call options belong to the program that resumes the session.
    changed = [loss for loss in adapted.losses if not loss.path.startswith("$.options")]
    return Encoded(body, Losses(lambda: _once(branches, _lost(view, adapted, changed, given))))


# Whether a message is trained on: OpenAI's `weight` (0 or 1), Axolotl's `train` or `training`, ms-swift's `loss`,
# LLaMA-Factory's `loss_weight`.
MASKS = ("weight", "train", "training", "loss", "loss_weight")


def _with_masks(conversation: Conversation, form: FileFormat) -> Conversation:
    """Returns a conversation whose masks are those of this format; it may have them from another."""
    if form.mask is None:
        return conversation
    entries = [_with_mask(entry, form.name, form.mask) for entry in conversation.entries]
    changed = any(one is not other for one, other in zip(entries, conversation.entries, strict=True))
    return replace(conversation, entries=tuple(entries)) if changed else conversation


def _with_mask(entry: Entry, owner: str, field: str) -> Entry:
    message = entry.message
    if type(message) is not AssistantMessage or not message.extra or field in message.extra.get(owner, {}):
        return entry
    for other, kept in message.extra.items():
        name = next((name for name in MASKS if isinstance(kept, dict) and name in kept), None)
        if other != owner and name is not None and kept[name] in (0, 1):
            rest = {key: value for key, value in kept.items() if key != name}
            moved = {other: rest, owner: {**message.extra.get(owner, {}), field: int(kept[name])}}
            extra = {key: value for key, value in {**message.extra, **moved}.items() if value}
            return replace(entry, message=replace(message, extra=extra))
    return entry


def _lost(
    view: CompactedView | None, adapted: adapter.Adapted, changed: Iterable[Loss], given: Iterable[Loss]
) -> Iterable[Loss]:
    """Returns the losses of compaction, adapting and encoding, with their paths in the conversation."""
    losses = _once(changed, encoded_losses(adapted, given))
    return losses if view is None else (*view.losses, *view.seen_from(losses))


def _once(*losses: Iterable[Loss]) -> tuple[Loss, ...]:
    return tuple(dict.fromkeys(loss for some in losses for loss in some))


def encoded_losses(adapted: adapter.Adapted, losses: Iterable[Loss]) -> Iterator[Loss]:
    """Maps the paths of an encoder's losses in an adapted request to the source."""
    for loss in losses:
        path = adapted.source(loss.path)
        if path is not None:  # added by adapting: the source never had it
            yield loss if path == loss.path else replace(loss, path=path)


def is_own(conversation: Conversation, name: str) -> bool:
    """Whether a conversation is of this wire, so that encoding does not adapt it."""
    return conversation.model is not None and conversation.model.api == name


def _unencoded_branches(conversation: Conversation) -> Iterator[Loss]:
    """Reports branches: a request holds one path through the tree."""
    path, answered = {id(entry) for entry in conversation.path()}, answered_calls(conversation)
    for at, entry in enumerate(conversation.entries):
        if id(entry) not in path:
            yield off_path(entry, at, answered, OFF_PATH)
        else:
            yield from entry_losses(entry, at)
    yield from conversation_losses(conversation)


OFF_PATH = "not on the path to the head"


def entry_losses(entry: Entry, at: int) -> Iterator[Loss]:
    """Yields the losses of an entry on the path."""
    for name, value in (("id", entry.id), ("parentId", entry.parent_id), ("parents", entry.parents)):
        if value:
            yield Loss(f"$.entries[{at}].{name}", "entry", "a request has no entries", "record")
    for owner, residual in entry.extra.items():
        yield from extra_losses(owner, residual, f"$.entries[{at}].extra.{owner}", "a request has no entries", "record")


def conversation_losses(conversation: Conversation) -> Iterator[Loss]:
    """Yields the losses of a conversation beside its entries."""
    if conversation.head is not None:
        yield Loss("$.head", "head", "a request has no branches", "record")
    for name in ("title", "usage"):
        if getattr(conversation, name) is not None:
            yield Loss(f"$.{name}", name, "a request does not carry it", "record")


# --- our own ---------------------------------------------------------------------------------------------------------


def _conversation(value: Any) -> Conversation:
    assert isinstance(value, Conversation)
    return value


def _decode_own(value: Any) -> Conversation:
    if isinstance(value, dict) and "context" in value:
        return Conversation.of(build(value, Request))
    if isinstance(value, dict) and "role" in value:
        value = [value]
    if isinstance(value, list):
        value = {"entries": [{"message": message} for message in value]}
    return _conversation(build(value, Conversation))


def split(value: Any, name: str | None = None) -> list[Any]:
    """Returns the conversations in one JSON document: an export or a log may hold many."""
    if name is not None and (name == SELF or name in WIRES):
        return [value]
    for form in ordered().formats if name is None else (FORMATS[name],):
        parts = divided(form, value)
        if parts is not None:
            return list(parts)
    # A set of requests or message lists, which no format recognises as a whole.
    if name is None and isinstance(value, list) and value and all(map(_is_whole, value)):
        found = detect(value)
        if found is None or found.dialect in WIRES:
            return list(value)
    return [value]


def divided(form: FileFormat, value: Any) -> Sequence[Any] | None:
    """Returns the conversations of a document of that format; None if it is none, which any failure shows."""
    try:
        return form.split(value) if form.split is not None else None
    except InterlinguaError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError, RecursionError):
        return None


# Keys of a whole conversation; messages, items and blocks have a role or a type instead.
_WHOLE = ("messages", "contents", "input", "request", "context", "entries", "conversations", "nodes", "mapping")


REQUEST_MESSAGE = "response.create"  # the one request with a type: a message on OpenAI's WebSocket


def _refuse_several(value: Any) -> None:
    """Raises if a value is a list of whole conversations, or the lines of a file of them."""
    if isinstance(value, list) and len(value) > 1 and all(map(_is_whole, value)):
        raise BadWire(
            "decode",
            f"a list of {len(value)} conversations; use read, or `interlingua convert IN -o FOLDER/`",
        )


def _is_whole(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(message, dict) and "role" in message for message in value)
    if not isinstance(value, dict) or not any(key in value for key in _WHOLE):
        return False
    return value.keys().isdisjoint(("role", "type")) or value.get("type") == REQUEST_MESSAGE


def stands_alone(name: str) -> bool:
    """Whether one JSON value is a whole conversation in this dialect, and not one line of a longer one."""
    if name == SELF or name in WIRES:
        return True
    return not FORMATS[name].lines


# --- responses and recorded streams ----------------------------------------------------------------------------------


def _received(module: Any, frames: Iterable[Frame]) -> AssistantMessage:
    decoder = module.StreamDecoder()
    events = [event for frame in frames for event in decoder.feed(frame)]
    return fold([*events, *decoder.close()])


def _one(message: AssistantMessage, name: str) -> Conversation:
    return Conversation(entries=(Entry(message=message),), model=ModelDescriptor(id=message.model or "", api=name))
