"""What the file formats share: lines of JSON, rows for their tables, and records that are read and returned."""

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import fields as struct_fields
from msgspec.structs import replace

from ...values import jsontext
from ...values import messages as _messages
from ...values import request as _request
from ...values.errors import BadWire, FormatError, InterlinguaError, Unsupported
from ...values.losses import QUIET, Loss, Reporter, SupportTable, dropped, kept, places, record, some
from ...values.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCall,
    ToolResultMessage,
)
from ...values.request import Conversation, Entry, Options
from ..comparison import content_losses
from ..residual import ENCODED, HINTS, JOINED, put_back, residual, same, with_residual

# What the conversation formats share: lines of JSON, and what files do not contain, as rows for their tables.


# Sessions of iFlow, whose lines have Claude Code's fields. A dialect imports no other, so the pattern stands here.
IFLOW = re.compile("session-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

OWN = "~own"  # a role that the format does not know, but that stood in it

# Rows for formats that hold messages and not the call they were made with.
NO_CALL: SupportTable = {
    **dropped(
        "Options.max_tokens Options.temperature Options.top_p Options.top_k Options.stop Options.seed"
        " Options.reasoning Options.tool_choice Options.parallel_tools Options.output_schema Options.cache_retention"
        " Options.session_id Options.service_tier Options.metadata Options.stream"
        " Reasoning.effort Reasoning.budget Reasoning.enabled Reasoning.summary ToolChoice.mode ToolChoice.names"
        " OutputSchema.schema OutputSchema.name OutputSchema.description OutputSchema.strict",
        "the format holds messages, not the options of a call",
    ),
    **record(
        "ModelDescriptor.id ModelDescriptor.name ModelDescriptor.api ModelDescriptor.provider ModelDescriptor.base_url"
        " ModelDescriptor.reasoning ModelDescriptor.input ModelDescriptor.cost ModelDescriptor.context_window"
        " ModelDescriptor.max_tokens ModelDescriptor.headers ModelDescriptor.compat ModelDescriptor.extra",
        "the format holds messages, not the model that is asked",
    ),
    **dropped("Options.extra Reasoning.extra ToolChoice.extra OutputSchema.extra", "no place in this format"),
}

# Rows for formats that are a list of messages.
LINEAR: SupportTable = {
    **dropped("Conversation.entries", "a list holds one path through the tree: this is not on the way to the head"),
    **record("Entry.id Entry.parent_id Entry.parents", "the messages of a list have no ids"),
    **kept("Conversation.head"),  # a list stands at its end
}

# Fields that many formats have no place for; each format gives the reason.
MEDIA = (
    "AudioBlock.data AudioBlock.mime_type AudioBlock.url AudioBlock.file_id AudioBlock.transcript AudioBlock.cache"
    " DocumentBlock.data DocumentBlock.mime_type DocumentBlock.text DocumentBlock.url DocumentBlock.file_id"
    " DocumentBlock.title DocumentBlock.context DocumentBlock.citations DocumentBlock.cache"
)
SERVER_TOOLS = (
    "ServerToolCall.id ServerToolCall.name ServerToolCall.arguments ServerToolCall.cache"
    " ServerToolResult.tool_call_id ServerToolResult.tool_name ServerToolResult.dialect ServerToolResult.content"
    " ServerToolResult.is_error ServerToolResult.cache"
)
METADATA = (
    "UserMessage.timestamp AssistantMessage.timestamp ToolResultMessage.timestamp SystemMessage.timestamp"
    " AssistantMessage.api AssistantMessage.provider AssistantMessage.model AssistantMessage.response_model"
    " AssistantMessage.usage AssistantMessage.stop_reason AssistantMessage.stop_detail AssistantMessage.error_message"
    " AssistantMessage.response_id UserMessage.origin"
)
TOOLS = (
    "ToolSpec.name ToolSpec.description ToolSpec.input_schema ToolSpec.strict ToolSpec.cache ToolSpec.dialect"
    " ToolSpec.value"
)


def lines_of(data: Any, api: str) -> list[dict[str, Any]]:
    """The lines of a line format as JSON values; raises with the line number for any other line."""
    if isinstance(data, dict):  # a file of one line
        return [data]
    if isinstance(data, bytes | bytearray):
        return _read_lines(bytes(data).split(b"\n"), api)
    if isinstance(data, str):
        return _read_lines(data.split("\n"), api)  # not splitlines(): U+2028 may stand raw inside a JSON string
    if not isinstance(data, list | tuple):
        raise BadWire(api, f"expected lines of JSON objects, got {type(data).__name__}")
    for number, value in enumerate(data, 1):
        if type(value) is not dict:
            _line(value, number, api)
    return list(data)


def objects_in(raws: Iterable[bytes], api: str) -> Iterator[dict[str, Any]]:
    """The lines of a file, one at a time; raises if it has to be read as a whole: one line, truncated or other ones."""
    count = 0
    for raw in raws:
        if raw.isspace():
            continue
        for value in jsontext.read_line(raw, count):
            count += 1
            yield value if type(value) is dict else _line(value, count, api)
    if count < 2:
        raise BadWire(api, "one line may be a document")


def _read_lines(lines: Sequence[bytes | str], api: str) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                values = jsontext.read_line(line)
            except FormatError as error:
                raise BadWire(api, f"line {number}: {error.message}", f"$[{number - 1}]") from None
            out += (_line(value, number, api) for value in values)
    return out


def _line(value: Any, number: int, api: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadWire(api, f"line {number}: expected an object, got {type(value).__name__}", f"$[{number - 1}]")
    return value


# What formats share that are read and returned, but not made from other formats: the session files of programs.
#
# A file of these is a list of records. A record that holds a message becomes one entry or, where it holds several of
# our messages, a few that hang together; what else it holds is kept beside its first entry. Every other record, and
# one that is not as it should be, is an entry of its own role that holds the record as it is.


RECORD = "~record"  # of an entry: a record of the file begins here
FILE = "~file"  # of a conversation: it was a file of this format
ROLES = ("user", "assistant", "toolResult", "system")
UNPLACED = "$.entries"  # the path of messages whose places are not known: entries are given one at a time

WHY = "is read and returned, not made from other formats"


def _support() -> SupportTable:
    structs = [item for module in (_messages, _request) for item in vars(module).values()]
    calling = {_request.CallOptions, _request.StreamOptions, _request.ProviderConfig, _request.ResolvedAuth}
    named = [item for item in structs if isinstance(item, type) and issubclass(item, Struct) and item not in calling]
    fields = {f"{struct.__name__}.{field.name}" for struct in named for field in struct_fields(struct)}
    return some(" ".join(sorted(fields | {"CustomMessage.role", "CustomMessage.fields"})), f"the format {WHY}")


FIELD_SUPPORT: SupportTable = _support()

Decode = Callable[[dict[str, Any]], Sequence[Message | CustomMessage]]
Encode = Callable[[tuple[Message, ...], Reporter], dict[str, Any]]
Usual = Callable[[dict[str, Any]], tuple[Any, dict[str, Any]] | None]  # the message, or a tuple of several


class Shapes(dict[tuple[str, ...], tuple[str, ...] | None]):
    """By the keys of an object: those beside the `known` ones; None if a required key is missing, or one is refused.

    The records of a file have few sets of keys, so this is found out once for each. Keys of hints are always refused.
    """

    def __init__(self, required: Collection[str], known: Collection[str] = (), refused: Collection[str] = ()) -> None:
        super().__init__()
        self._required = frozenset(required)
        self._known = frozenset((*required, *known))
        self._refused = frozenset(refused)

    def __missing__(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        if len(self) >= _MAX_SHAPES:
            self.clear()
        usual = self._required.issubset(keys) and self._refused.isdisjoint(keys)
        usual = usual and not any(key.startswith(HINTS) for key in keys)
        self[keys] = found = tuple(key for key in keys if key not in self._known) if usual else None
        return found


_MAX_SHAPES = 500
# What no message of a kind of its own has as a field: in a transcript they are the kind of the line and its place.
NO_FIELDS = frozenset({"role", "id", "parentId", "parents", "entryExtra"})


class Records:
    """The two ways between the records of a file and entries.

    `decode` gives the messages in a record (none: it holds no message), `encode` the record for them. `keys`
    are the record's names for its id and for that of its parent, in formats that are trees; if it is a tree of `lines`,
    a record that has an id and names no parent follows the one before.

    `usual` is a short cut for the records that most lines are: the one message of a record whose id and parent are as
    they should be, and what `residual` would keep of the record. It gives what `decode` and `encode` would, or None.
    In formats without ids, it may give several messages.
    """

    def __init__(
        self,
        api: str,
        decode: Decode,
        encode: Encode,
        keys: tuple[str, str] | None = None,
        *,
        lines: bool = False,
        usual: Usual | None = None,
    ) -> None:
        self._api = api
        self._decode = decode
        self._encode = encode
        self._keys = keys
        self._lines = lines
        self._usual = usual
        self._before: str | None = None  # the id of the entry before
        self._names: dict[str, str] = {}  # call id -> tool name

    def read(self, record: dict[str, Any], role: str) -> list[Entry]:
        """The entries of a record; `role` is used for a record without a message."""
        usual = self._usual(record) if self._usual is not None else None
        if usual is not None:
            message, rest = usual
            rest[RECORD] = True  # it was made for this entry
            if type(message) is not tuple:
                return [self._usual_entry(record, message, rest)]
            self._note(message)
            return self._placed(record, message, rest)
        found = self._messages_in(record)
        if found is None:
            entries = [self._custom(record, role)]
        else:
            messages, encoded, extra_fields = found
            self._note(messages)
            entries = self._placed(record, self._named(messages, encoded), {RECORD: True, **extra_fields})
        self._before = entries[-1].id or self._before
        return entries

    def _usual_entry(self, record: dict[str, Any], message: Any, rest: dict[str, Any]) -> Entry:
        if type(message) is AssistantMessage:
            for block in message.content if type(message.content) is tuple else ():
                if type(block) is ToolCall:
                    self._names[block.id] = block.name
        elif type(message) is ToolResultMessage and message.tool_call_id in self._names:
            message = replace(message, tool_name=self._names[message.tool_call_id])
        extra = {self._api: rest}
        if self._keys is None:
            return Entry(message=message, extra=extra)
        id, parent = self._keys
        above = record.get(parent)
        if self._lines and parent not in record:
            above = self._before
            rest[HINTS] = {parent: {ENCODED: above}}
        self._before = record[id]
        return Entry(message=message, id=record[id], parent_id=above, extra=extra)

    def _messages_in(self, record: dict[str, Any]) -> tuple[tuple[Message, ...], dict[str, Any], dict[str, Any]] | None:
        """The messages, their encoding and the residual, if the encoding is the record but for single values."""
        try:
            messages = tuple(self._decode(record))
            if not messages or CustomMessage in map(type, messages):
                return None
            encoded = self._encode(messages, QUIET)  # type: ignore[arg-type]
        except (InterlinguaError, KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
            return None
        placed = encoded if self._keys is None else {**self._place(*self._ids(record)), **encoded}
        extra_fields = residual(record, placed)
        return None if _copies(extra_fields) else (messages, encoded, extra_fields)  # type: ignore[return-value]

    def _note(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            if type(message) is AssistantMessage and type(message.content) is tuple:
                for block in message.content:
                    if type(block) is ToolCall:
                        self._names[block.id] = block.name

    def _named(self, messages: tuple[Message, ...], encoded: dict[str, Any]) -> tuple[Message, ...]:
        """Results with the name of the call they answer, which may stand in an earlier record.

        Not where the record itself would name the tool and does not.
        """
        named = tuple(map(self._name, messages))
        if all(map(is_, named, messages)):
            return messages
        return named if same(self._encode(named, QUIET), encoded) else messages

    def _name(self, message: Message) -> Message:
        if not isinstance(message, ToolResultMessage) or message.tool_name is not None:
            return message
        name = self._names.get(message.tool_call_id)
        return message if name is None else replace(message, tool_name=name)

    def _placed(
        self, record: Mapping[str, Any], messages: tuple[Message, ...], extra_fields: dict[str, Any]
    ) -> list[Entry]:
        """Entries in a row; the first has `extra_fields`.

        The last has the record's id, so that what follows the record follows it.
        """
        if self._keys is None:
            first, *others = messages
            joined = [Entry(message=message, extra={self._api: {JOINED: True}}) for message in others]
            return [Entry(message=first, extra={self._api: extra_fields}), *joined]
        id, parent = self._ids(record)
        entries = []
        for at, message in enumerate(messages):
            own = id if at == len(messages) - 1 or id is None else f"{id}#{at}"
            extra = {self._api: {JOINED: True} if at else extra_fields}
            entries.append(Entry(message=message, id=own, parent_id=parent, extra=extra))
            parent = own
        return entries

    def _ids(self, record: Mapping[str, Any]) -> tuple[str | None, str | None]:
        if self._keys is None:
            return None, None
        id, parent = (record.get(key) for key in self._keys)
        if self._lines and isinstance(id, str) and self._keys[1] not in record:
            parent = self._before
        return (id if isinstance(id, str) else None), (parent if isinstance(parent, str) else None)

    def _place(self, id: str | None, parent: str | None) -> dict[str, Any]:
        """The ids that a record gives its entries; that of the parent is null for a root."""
        if self._keys is None:
            return {}
        encoded = {self._keys[0]: id} if id is not None else {}
        return {**encoded, self._keys[1]: parent} if id is not None or parent is not None else encoded

    def _custom(self, record: dict[str, Any], role: str) -> Entry:
        role = f"{self._api}:{role}" if role in ROLES else role
        custom: Any
        if self._keys is None and NO_FIELDS.isdisjoint(record):
            custom = CustomMessage(role, {**record})
            return Entry(message=custom, extra={self._api: {RECORD: True}})
        id, parent = self._ids(record)
        placed = [key for key, value in zip(self._keys or (), (id, parent), strict=False) if value is not None]
        fields = {key: value for key, value in record.items() if key not in NO_FIELDS and key not in placed}
        custom = CustomMessage(role, fields)
        entry = Entry(message=custom, id=id, parent_id=parent)
        extra_fields = residual(record, {**self._place(id, parent), **fields})
        return with_residual(entry, self._api, **{RECORD: True, **extra_fields})

    def write(self, conversation: Conversation, *, system: bool = False) -> tuple[list[dict[str, Any]], list[Loss]]:
        """The records of a conversation that was a file of this format, and the losses of later changes.

        `system`: whether the format has a place for the system text.
        """
        if not conversation.extra.get(self._api):
            raise Unsupported(self._api, f"a conversation of this format {WHY}")
        report = Reporter()
        report.add(unreported(conversation, system))
        records = list(self.lines(zip(conversation.entries, places(conversation), strict=True), report))
        return records, report.losses

    def lines(self, entries: Iterable[tuple[Entry, str]], report: Reporter) -> Iterator[dict[str, Any]]:
        """The records of entries, each given with the path of its message."""
        for group, where in self._groups(entries):
            own = report if report is QUIET else Reporter(where)
            yield self._written(group, own)
            # A record names the call that a result answers; the tool's name is in the call, which is elsewhere.
            report.add(loss for loss in own.losses if not loss.path.endswith(".toolName"))

    def _groups(self, entries: Iterable[tuple[Entry, str]]) -> Iterator[tuple[list[Entry], str]]:
        group: list[Entry] = []
        begun = ""
        for entry, where in entries:
            extra_fields = entry.extra.get(self._api, {})
            if not (extra_fields.get(RECORD) or extra_fields.get(JOINED)):
                raise Unsupported(self._api, f"a message of this format {WHY}", where)
            if group and not extra_fields.get(JOINED):
                yield group, begun
                group = []
            begun = begun if group else where
            group.append(entry)
        if group:
            yield group, begun

    def _written(self, group: list[Entry], report: Reporter) -> dict[str, Any]:
        first: Any = group[0].message
        try:
            encoded = first.fields if isinstance(first, CustomMessage) else self._encode(_messages_of(group), report)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):  # they were one record before
            raise Unsupported(self._api, f"a message of this format {WHY}", report.root or UNPLACED) from None
        if isinstance(first, CustomMessage):
            for entry in group[1:]:
                report.lost(type(entry.message).__name__, "the call that has it in its record is not there any more")
        place = self._place(group[-1].id, group[0].parent_id)
        written = put_back({**place, **encoded}, group[0].extra.get(self._api, {}))
        if report is not QUIET and not report.losses and not isinstance(first, CustomMessage):
            self._compare(group, written, report)
        return written

    def _compare(self, group: list[Entry], written: dict[str, Any], report: Reporter) -> None:
        """Reports what a record does not hold of its messages, where `encode` has nothing to report."""
        try:
            again = self._decode(written)
        except (InterlinguaError, KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
            again = ()
        if len(again) != len(group):
            report.lost("message", "a record of this format does not hold it")
            return
        for entry, message in zip(group, again, strict=True):
            before, after = (getattr(one, "content", None) for one in (entry.message, message))
            report.add(content_losses(before, after, report.root, self._api))


def unreported(conversation: Conversation, system: bool) -> Iterator[Loss]:
    """The fields of a call, which no record holds; `system`: whether one holds the system text."""
    if conversation.system is not None and not system:
        yield Loss("$.system", "system", "a file of this format does not hold the system text", "dropped")
    if conversation.tools is not None:
        yield Loss("$.tools", "tools", "a file of this format does not hold the tools", "dropped")
    if conversation.options != Options():
        yield Loss("$.options", "options", "a file of this format does not hold the options of a call", "dropped")


def _messages_of(group: list[Entry]) -> tuple[Message, ...]:
    return tuple(entry.message for entry in group)


def _copies(extra_fields: Mapping[str, Any]) -> bool:
    """Whether a residual holds a whole list a second time: such a record is not decoded."""
    if HINTS not in extra_fields:
        return False
    for hint in extra_fields[HINTS].values():
        if "in" in hint:
            if _copies(hint["in"]):
                return True
        elif isinstance(hint.get("wire"), list) and isinstance(hint.get(ENCODED), list):
            return True
    return False


def milliseconds(text: Any) -> int | None:
    """A moment in ISO 8601 as the milliseconds of our timestamps."""
    if not isinstance(text, str):
        return None
    usual = usual_milliseconds(text) if text[-1:] == "Z" else None
    if usual is not None:
        return usual
    try:
        moment = datetime.fromisoformat(text)
        # Without a zone it is UTC; to replace its zone takes three times as long as all else here.
        seconds = moment.timestamp() if moment.tzinfo else (moment - _EPOCH).total_seconds()
        return round(seconds * 1000)
    except (ValueError, OverflowError):
        return None


_EPOCH = datetime(1970, 1, 1)

_SECONDS = {f"{second:02}": second * 1000 for second in range(60)}
_THOUSANDTHS = {f".{thousandth:03}Z": thousandth for thousandth in range(1000)}


def usual_milliseconds(text: Any) -> int | None:
    """A moment that `iso` would write exactly so, as JavaScript's `toISOString` does; None for any other spelling."""
    if type(text) is not str:
        return None
    seconds, thousandths = _SECONDS.get(text[17:19]), _THOUSANDTHS.get(text[19:])
    minute = None if seconds is None or thousandths is None else _minute(text[:17])
    return None if minute is None else minute + seconds + thousandths  # type: ignore[operator]


# In years that `iso` gives back as they were. A day has no hour 24.
_MINUTE = re.compile(r"(?:19[7-9]|[2-9]\d\d)\d-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:", re.ASCII)


@functools.lru_cache(1024)  # the lines of a session follow closely
def _minute(text: str) -> int | None:
    """The milliseconds at which a minute begins (`2026-01-31T23:59:`)."""
    if not _MINUTE.fullmatch(text):
        return None
    try:
        return round(datetime.fromisoformat(f"{text}00Z").timestamp() * 1000)
    except ValueError:  # no such day
        return None


def iso(moment: int | None) -> str | None:
    """The inverse, as JavaScript writes it."""
    try:
        when = datetime.fromtimestamp((moment or 0) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None if moment is None else when.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def with_time(message: Any, moment: int | None) -> Any:
    """The message at a moment; kinds of our own have none."""
    return message if moment is None or isinstance(message, CustomMessage) else replace(message, timestamp=moment)


def time_in(messages: Sequence[Message]) -> dict[str, Any]:
    """Returns the timestamp of a record's first message."""
    when = iso(messages[0].timestamp)
    return {} if when is None else {"timestamp": when}
