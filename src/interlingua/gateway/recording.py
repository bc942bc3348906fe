"""Traffic as sessions: each conversation that passes becomes a tree on disk, and can be answered from there again.

A client sends its whole conversation with each request. The id of an entry is a digest of its message and of all before
it, so a message that came before is found in its place, and only what is new is written: an edited or repeated turn is
a branch, and an exchange that is recorded twice is there once. The digest is of what clients send back (texts and
calls, without signatures, ids and spaces), and is taken after redaction, so that nothing on disk depends on what was
taken out.

A session belongs to one key, to the conversation that the client names in a header or in the body (else to how it
begins), and to the system text at its beginning: a sub-agent has another, and so a session of its own, which names the
call that started it. Without a name, that is one with the sub-agent's first message as an argument.

The gateway encodes each exchange as a `RecordedExchange` and sends it to the recorder process, where a `SessionWriter`
decodes, redacts and writes it. This module knows nothing of processes.
"""

import contextlib
import hashlib
import itertools
import logging
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from ..serving import redaction
from ..sessions import Session, SessionBusy, SessionError, SessionNotFound
from ..sessions.session import create_session, described
from ..sessions.store import Store
from ..values import jsontext
from ..values.canonical import build, load, message_of, plain
from ..values.errors import InterlinguaError
from ..values.jsontext import compact
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    Cost,
    CustomMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    text_of,
)
from ..values.request import Conversation, Entry, ModelDescriptor, Options, System, ToolSpec
from .settings_file import RecordingSettings

if TYPE_CHECKING:
    from .exchange import Exchange

SECRETS = frozenset({"private key", "key", "token", "password", "secret"})  # kinds of finds
AGENT = "gateway"  # whose sessions recordings are, among those of a home
IDLE = 2.0  # seconds without an exchange after which a session is closed, so that others may write to it
HOLD = 4.0  # seconds after which a session is closed in any case: another worker may wait for it
BUSY = 10.0  # seconds to wait for another writer of a session
RETRY = 0.05  # seconds between two attempts to open a session that another writer has
GIVE_WAY = 1.0  # seconds for which a session that was closed after `HOLD` is left to others: time to retry
_OPEN = 256  # sessions that are open at once, with two files each; fewer where the system allows fewer files
_UNSYNCED = 64  # new sessions that are synced when they are idle; under load, the system writes them itself
_FIRST_TURN = 4  # entries of a new session that are written at once
_REMEMBERED = 4096  # conversations
_ECHOES = 16_384  # messages whose digest is known
_SYSTEMS = 64  # system texts
_SAME = 16  # sessions that are equal up to an answer
_TASK = 16  # characters that an argument has at least to be a sub-agent's task, where clients name no conversation
_log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")
Outcome: TypeAlias = tuple[int, str | None]  # the number of a record, and why it was not written


# --- one exchange, on its way to the recorder ------------------------------------------------------------------------


class RecordedExchange(Struct, frozen=True, array_like=True):
    """What is recorded of one exchange. Its parts stay encoded: most of them were seen before and are never decoded."""

    number: int
    id: str
    key: str
    session: str | None  # the client's own name for the conversation
    wire: str
    about: dict[str, Any]
    model: Raw
    options: Raw
    system: Raw
    tools: Raw
    messages: list[Raw]  # the answer is the last


def encode_record(number: int, exchange: "Exchange") -> bytes:
    """Encodes an exchange for `decode_record`: as MessagePack, or as JSON where MessagePack cannot represent it."""
    request, answer = exchange.request, exchange.answer
    assert request is not None and answer is not None
    context = request.context
    fields = (
        number,
        exchange.id,
        exchange.key.name,
        exchange.session,
        exchange.wire.api,
        _about(exchange),
        exchange.model,
        request.options,
        context.system,
        context.tools,
        (*context.messages, answer),
    )
    try:
        return b"M" + _encoder.encode(fields)
    except (OverflowError, UnicodeEncodeError, TypeError):  # an integer of more than 64 bits
        return b"J" + jsontext.write(plain(fields))


def decode_record(data: bytes | memoryview) -> RecordedExchange:
    return _JSON.decode(data[1:]) if data[:1] == b"J" else _MSGPACK.decode(data[1:])


def _custom(value: Any) -> Any:
    if isinstance(value, CustomMessage):
        return plain(value)
    raise TypeError(f"{type(value).__name__} cannot be recorded")


_encoder = msgspec.msgpack.Encoder(enc_hook=_custom)
_MSGPACK = msgspec.msgpack.Decoder(RecordedExchange)
_JSON = msgspec.json.Decoder(RecordedExchange)
_MESSAGE = msgspec.msgpack.Decoder(Message)


def _is_json(raw: Raw) -> bool:
    # MessagePack's objects, arrays, texts and nil begin with a byte above 0x7f; numbers are never a part of their own.
    return memoryview(raw)[0] < 0x80


def _plain_of(raw: Raw) -> Any:
    return jsontext.read(bytes(raw)) if _is_json(raw) else msgspec.msgpack.decode(raw)


def _value_of(raw: Raw, type: Any) -> Any:
    return load(bytes(raw), type) if _is_json(raw) else msgspec.msgpack.decode(raw, type=type)


def _message_of(raw: Raw) -> AgentMessage:
    if _is_json(raw):
        return message_of(jsontext.read(bytes(raw)))
    try:
        message: AgentMessage = _MESSAGE.decode(raw)
    except msgspec.ValidationError:  # another role
        return message_of(msgspec.msgpack.decode(raw))
    return message


def _about(exchange: "Exchange") -> dict[str, Any]:
    found = {
        "exchange": exchange.id,
        "asked": exchange.asked_model,
        "lane": exchange.lane,
        "attempts": exchange.attempts,
        "losses": [asdict(loss) for loss in exchange.losses] or None,
        "cacheBreak": asdict(exchange.cache_break) if exchange.cache_break is not None else None,
        "cost": exchange.cost,
        "estimated": exchange.is_estimated or None,
        "aborted": exchange.is_aborted or None,
    }
    return {name: value for name, value in found.items() if value is not None}


# --- what is the same ------------------------------------------------------------------------------------------------


def echo_digest(message: AgentMessage) -> str:
    """Returns a digest of what a client echoes of a message, in any format: the same for the response and for its
    echo.
    """
    if not isinstance(message, _ECHOED):
        written = compact(plain(message)).encode("utf-8", "replace")
        return hashlib.blake2b(written, digest_size=12).hexdigest()
    texts: list[str] = []
    parts: list[str] = []
    for block in blocks_of(message.content):
        match block:
            case TextBlock():
                texts.append(block.text)
            case ToolCall():
                parts.append(f"call {block.name} {_sorted(block.arguments)}")
            case ThinkingBlock():
                pass
            case _:
                data = getattr(block, "data", None)
                parts.append(f"{type(block).__name__} {data if isinstance(data, str) else _sorted(plain(block))}")
    return _digest(type(message).__name__, _without_spaces("".join(texts)), *parts)


_ECHOED = (UserMessage, AssistantMessage, ToolResultMessage)
_SPACES = bytes(code for code in range(128) if chr(code).isspace())


def _without_spaces(text: str) -> str:
    if text.isascii():
        return text.encode().translate(None, _SPACES).decode()  # several times as fast
    return "".join(text.split())


def _sorted(value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{key!r}:{_sorted(value[key])}" for key in sorted(value)) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_sorted, value)) + "]"
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return repr(value)


def _digest(*texts: str) -> str:
    data = ("\0".join(texts) + "\0").encode("utf-8", "replace")
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def chain(digests: Iterable[str], before: str = "") -> list[str]:
    """Returns the ids of entries whose messages have these digests, in order."""
    ids = []
    for one in digests:
        before = _digest(before, one)
        ids.append(before)
    return ids


# --- what is taken out -----------------------------------------------------------------------------------------------


def redactor_of(settings: RecordingSettings) -> Callable[[Any], Any]:
    """Returns a function that redacts a JSON value by these rules; equal texts get equal replacements."""
    patterns = [re.compile(pattern) for pattern in settings.patterns]

    def redact(value: Any) -> Any:
        if settings.redact != "none":
            finds = redaction.scan(value)
            chosen = {find.id for find in finds if settings.redact == "private" or find.kind in SECRETS}
            if chosen:
                value = redaction.redact(value, chosen)
        return _substituted(value, patterns) if patterns else value

    return redact


def _substituted(value: Any, patterns: Sequence[re.Pattern[str]]) -> Any:
    match value:
        case str():
            for pattern in patterns:
                value = pattern.sub("[redacted]", value)
            return value
        case list() | tuple():
            return [_substituted(item, patterns) for item in value]
        case dict():
            return {key: _substituted(item, patterns) for key, item in value.items()}
        case _:
            return value


# --- writing ---------------------------------------------------------------------------------------------------------


class _Turn(NamedTuple):
    """A record, its session and its entry ids."""

    record: RecordedExchange
    session: str
    named: str | None  # the digest of the conversation's own name
    ids: list[str]  # of the entries, the answer's last
    cleaned: dict[int, AgentMessage]  # messages that were decoded on the way
    caller: dict[str, Any] | None = None  # the call whose argument is how this conversation, without a name, begins


class _Open:
    """A session that is open for writing."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.opened = self.used = time.monotonic()
        self.known: set[str] = set()  # entries that are in it
        self.head = session.head

    def has(self, id: str) -> bool:
        if id in self.known:
            return True
        if not self.session.line_count:
            return False
        try:
            self.session.line_of(id)
        except SessionNotFound:
            return False
        self.known.add(id)
        return True


class _Waiting(NamedTuple):
    """Turns of a session that another process has open, and the deadline for writing them."""

    turns: list[_Turn]
    until: float


class SessionWriter:
    """Writes records to sessions; records of one session that arrive together are one write."""

    def __init__(
        self, store: Store, redact: Callable[[Any], Any] = lambda value: value, *, sample: float = 1.0
    ) -> None:
        self._store = store
        self._redact = redact
        self._sample = sample
        self._echoes: OrderedDict[bytes, str] = OrderedDict()  # by digest of the encoded message
        self._systems: OrderedDict[bytes, str] = OrderedDict()  # system texts as they may be written, likewise
        self._described: OrderedDict[bytes, Conversation] = OrderedDict()  # what new sessions have in common, likewise
        self._first_lines: OrderedDict[tuple[str, ...], bytes] = OrderedDict()  # of sessions without a name
        # By a conversation up to one of its answers; more than one, if they had the same answers.
        self._sessions: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()
        self._parents: OrderedDict[str, str] = OrderedDict()  # the first session of each conversation that has a name
        self._calls: OrderedDict[str, dict[str, Any]] = OrderedDict()  # of conversations without a name, by argument
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._created: OrderedDict[str, float] = OrderedDict()  # sessions in one write, not synced, and when
        self._waiting: dict[str, _Waiting] = {}
        self._given_way: dict[str, float] = {}  # sessions that are left to others for a while, and until when
        self._max_open = min(_OPEN, _file_limit() // 4)

    def write(self, records: Sequence[RecordedExchange]) -> list[Outcome]:
        """Writes records, and earlier ones whose session was busy. Returns the outcomes of those that are done."""
        outcomes: list[Outcome] = []
        turns: dict[str, list[_Turn]] = {}
        for record in records:
            try:
                turn = self._turn(record)
            except Exception as error:
                outcomes.append((record.number, _reason(record, error)))
                continue
            if turn is None:
                outcomes.append((record.number, None))
            elif turn.session in self._waiting:
                self._waiting[turn.session].turns.append(turn)
            else:
                turns.setdefault(turn.session, []).append(turn)
        waiting, self._waiting = self._waiting, {}
        given: list[tuple[str, list[_Turn], float | None]] = [(id, some, None) for id, some in turns.items()]
        given = [(id, one.turns, one.until) for id, one in waiting.items()] + given
        try:
            with self._store.grouped():
                written = [outcome for one in given for outcome in self._write(*one)]
        except SessionError:  # none of it is written: each again, by itself
            self._waiting = {}
            for id in list(self._open):
                self._close(id)
            for id, _, _ in given:
                self._created.pop(id, None)
            written = [outcome for one in given for outcome in self._write(*one)]
        return outcomes + written

    def due(self) -> float | None:
        """Returns the seconds until `write` and `release` should be called again; None if nothing is pending."""
        if self._waiting:
            return RETRY
        used = [one.used for one in self._open.values()]
        used += list(itertools.islice(self._created.values(), 1))
        return max(0.0, min(used) + IDLE - time.monotonic()) + 0.01 if used else None

    def release(self) -> None:
        """Closes idle sessions, and those that were open long enough: another process may want to write to them."""
        now = time.monotonic()
        for id, one in list(self._open.items()):
            if now > one.used + IDLE:
                self._close(id, sync=True)
            elif now > one.opened + HOLD:
                self._close(id)
                self._given_way[id] = now + GIVE_WAY
        self._given_way = {id: until for id, until in self._given_way.items() if until > now}
        self._sync_created(now - IDLE)

    def _sync_created(self, before: float) -> None:
        """Syncs the sessions that were created before a time."""
        ids = [id for id, _ in itertools.takewhile(lambda one: one[1] < before, self._created.items())]
        for id in ids:
            del self._created[id]
        with contextlib.suppress(SessionError, OSError):  # every line is written already
            self._store.sync(AGENT, ids)

    def close(self) -> list[Outcome]:
        """Writes what is pending, as far as possible, and closes all sessions."""
        outcomes: list[Outcome] = []
        while True:
            for id in list(self._open):  # first: another process, which closes too, may wait for one of them
                self._close(id, sync=True)
            if not self._waiting:
                break
            time.sleep(RETRY)
            outcomes += self.write(())
        self._sync_created(math.inf)
        self._store.close()
        return outcomes

    # --- where it belongs --------------------------------------------------------------------------------------------

    def _turn(self, record: RecordedExchange) -> _Turn | None:
        """Where a record belongs; None if its conversation is not in the sample."""
        cleaned: dict[int, AgentMessage] = {}
        echoes = []
        last = len(record.messages) - 1
        for at, raw in enumerate(record.messages):
            # The answer comes only once in this form.
            key = hashlib.blake2b(raw, digest_size=16).digest() if at != last else b""
            echo = self._echoes.get(key)
            if echo is None:
                cleaned[at] = self._cleaned(raw)
                echo = echo_digest(cleaned[at])
                if at != last:
                    _remember(self._echoes, key, echo, _ECHOES)
            echoes.append(echo)
        ids = chain(echoes)
        id, named = self._session_of(record, ids)
        if self._sample < 1 and int(_digest(named or id)[:8], 16) / 2**32 >= self._sample:
            return None
        caller = None
        if named is None:
            caller = self._caller(record, cleaned)
            self._note_calls(record, cleaned.get(last), {"session": id, "entry": ids[last]})
        return _Turn(record, id, named, ids, cleaned, caller)

    def _caller(self, record: RecordedExchange, cleaned: dict[int, AgentMessage]) -> dict[str, Any] | None:
        task = next((message for message in cleaned.values() if isinstance(message, UserMessage)), None)
        return self._calls.get(_task_key(record, text_of(task.content))) if task is not None else None

    def _note_calls(self, record: RecordedExchange, answer: AgentMessage | None, about: dict[str, Any]) -> None:
        """Remembers calls by their arguments: a sub-agent's conversation begins with one."""
        for call in answer.tool_calls if isinstance(answer, AssistantMessage) else ():
            for value in call.arguments.values():
                if isinstance(value, str) and len(value) >= _TASK:
                    _remember(self._calls, _task_key(record, value), {**about, "callId": call.id}, _REMEMBERED)

    def _cleaned(self, raw: Raw) -> AgentMessage:
        """A message as it may be written."""
        message, before = _message_of(raw), _plain_of(raw)
        if self._redact(before) == before:
            return message
        # Not the encoded form: in it, what other versions wrote has another place.
        return message_of(self._redact(plain(message)))

    def _session_of(self, record: RecordedExchange, ids: Sequence[str]) -> tuple[str, str | None]:
        """The session of a record, and the name of its conversation where the client gives one."""
        named = _digest(record.key, record.session) if record.session else None
        whose = named or record.key
        # A system text may change in a conversation, with the date for one; as long as it continues an answer of it,
        # it is one.
        earlier = (self._sessions.get((whose, id), ()) for id in reversed(ids[:-1]))
        found = next(filter(None, earlier), ())
        session = found[-1] if found else ""
        if len(found) != 1:
            own = _digest(named or _digest(whose, ids[0]), self._system_of(record))
            session = own if own in found or not found else found[-1]
        answered = (whose, ids[-1])
        same = [id for id in self._sessions.get(answered, ()) if id != session]
        _remember(self._sessions, answered, (*same[-_SAME:], session), _REMEMBERED)
        return session, named

    def _system_of(self, record: RecordedExchange) -> str:
        key = hashlib.blake2b(record.system, digest_size=16).digest()
        text = self._systems.get(key)
        if text is None:
            text = str(self._redact(text_of(_value_of(record.system, System))))
        _remember(self._systems, key, text, _SYSTEMS)
        return text

    # --- the sessions ------------------------------------------------------------------------------------------------

    def _write(self, id: str, turns: list[_Turn], until: float | None = None) -> list[Outcome]:
        """Writes turns of one session. If it is busy, they wait until the deadline and have no outcome yet."""
        is_fresh = id not in self._open
        try:
            if is_fresh and len(turns) == 1 and self._create(id, turns[0]):
                return [(turns[0].record.number, None)]
            return self._append_all(self._opened(id, turns[0]), turns)
        except SessionBusy as busy:
            until = until or time.monotonic() + BUSY
            if time.monotonic() > until:
                return [(turn.record.number, str(busy)) for turn in turns]
            self._waiting.setdefault(id, _Waiting([], until)).turns.extend(turns)
            return []
        except Exception as error:
            self._close(id)
            if is_fresh and len(turns) == 1:
                return [(turns[0].record.number, _reason(turns[0].record, error))]
            # The file may have been deleted or replaced, or one turn spoils the others: each again, in the file as is.
            return [outcome for turn in turns for outcome in self._write(id, [turn])]

    def _create(self, id: str, turn: _Turn) -> bool:
        """Writes the first turn of a new session; False if it is not one. Most conversations that a gateway sees are
        new, and to open a session takes several times as long."""
        if len(turn.ids) > _FIRST_TURN or id in self._created:
            return False
        last = len(turn.ids) - 1
        entries = [
            Entry(
                message=self._message(turn, at),  # type: ignore[arg-type]
                id=turn.ids[at],
                parent_id=turn.ids[at - 1] if at else None,
                extra={"interlingua": {"gateway": self._noted(turn.record)}} if at == last else {},
            )
            for at in range(len(turn.ids))
        ]
        if any(isinstance(entry.message, AssistantMessage) for entry in entries[:-1]):
            return False  # a conversation that continues
        if not create_session(self._store, AGENT, id, self._first_line(id, turn), entries):
            return False
        self._created[id] = time.monotonic()
        if len(self._created) > _UNSYNCED:
            self._created.popitem(last=False)
        return True

    def _message(self, turn: _Turn, at: int) -> AgentMessage:
        """A message as it is written: the answer with the cost of its exchange, which sessions are summed up by."""
        message, cost = turn.cleaned.get(at) or self._cleaned(turn.record.messages[at]), turn.record.about.get("cost")
        if at < len(turn.ids) - 1 or cost is None or not isinstance(message, AssistantMessage):
            return message
        if message.usage is None or message.usage.cost is not None:
            return message
        return replace(message, usage=replace(message.usage, cost=Cost(total=cost)))

    def _noted(self, record: RecordedExchange) -> dict[str, Any]:
        """What is noted of an exchange, as it may be written: names and paths in it are the client's."""
        named = {name: record.about[name] for name in ("asked", "losses", "cacheBreak") if name in record.about}
        return {**record.about, **self._redact(named)}

    def _first_line(self, id: str, turn: _Turn) -> bytes:
        record = turn.record
        if turn.named is not None or turn.caller is not None:
            return described(self._about(id, turn))
        key = (self._description_key(record).hex(), record.key, record.wire)
        found = self._first_lines.get(key)
        if found is None:
            found = described(self._about(id, turn))
        _remember(self._first_lines, key, found, _SYSTEMS)
        return found

    def _append_all(self, place: _Open, turns: list[_Turn]) -> list[Outcome]:
        with place.session.grouped():
            for turn in turns:
                self._append(place, turn)
        return [(turn.record.number, None) for turn in turns]

    def _append(self, place: _Open, turn: _Turn) -> None:
        ids, session = turn.ids, place.session
        last = len(ids) - 1
        known = next((at for at in reversed(range(len(ids))) if place.has(ids[at])), -1)
        if known == last:  # the same answer again: a repeated turn that ended as before
            if place.head != ids[last]:
                session.rewind(ids[last])
                place.head = ids[last]
            return
        for at in range(known + 1, len(ids)):
            session.append(
                self._message(turn, at),
                id=ids[at],
                parent_id=ids[at - 1] if at else None,
                extra={"interlingua": {"gateway": self._noted(turn.record)}} if at == last else None,
            )
            place.known.add(ids[at])
        place.head = ids[last]

    def _opened(self, id: str, turn: _Turn) -> _Open:
        place = self._open.get(id)
        if place is None:
            if time.monotonic() < self._given_way.get(id, 0.0):
                raise SessionBusy(id, None)
            place = self._open[id] = _Open(self._session(id, turn))
            if len(self._open) > self._max_open:
                self._close(next(iter(self._open)))
        else:
            self._open.move_to_end(id)
            place.used = time.monotonic()
        return place

    def _session(self, id: str, turn: _Turn) -> Session:
        if turn.named in self._parents:  # it may be a sub-agent's: then its description takes a look at the parent
            with contextlib.suppress(SessionNotFound):
                return Session.open(id, agent=AGENT, store=self._store, create=False)
        return Session.open(id, agent=AGENT, store=self._store, about=self._about(id, turn))

    def _about(self, id: str, turn: _Turn) -> Conversation:
        """The first line of a new session: system text, tools, model, and for a sub-agent the call that started it."""
        record, named = turn.record, turn.named
        extra: dict[str, Any] = {"gateway": {"key": record.key, "session": record.session, "wire": record.wire}}
        parent = self._parents.get(named) if named is not None else None
        if named is not None and parent is None:
            _remember(self._parents, named, id, _REMEMBERED)
        elif parent is not None and parent != id:
            extra["spawnedBy"] = self._started_by(parent, turn)
        elif turn.caller is not None and turn.caller["session"] != id:
            extra["spawnedBy"] = turn.caller
        key = self._description_key(record)
        made = self._described.get(key)
        if made is None:
            about = Conversation(
                system=_value_of(record.system, System),
                tools=_value_of(record.tools, tuple[ToolSpec, ...] | None),
                model=_value_of(record.model, ModelDescriptor | None),
                options=replace(_value_of(record.options, Options), session_id=None, metadata=None),
            )
            made = build(self._redact(plain(about)))
        _remember(self._described, key, made, _SYSTEMS)
        return replace(made, extra={**made.extra, "interlingua": self._redact(extra)})

    @staticmethod
    def _description_key(record: RecordedExchange) -> bytes:
        hashed = hashlib.blake2b(digest_size=16)
        for part in (record.system, record.tools, record.model, record.options):
            hashed.update(len(memoryview(part)).to_bytes(8))
            hashed.update(part)
        return hashed.digest()

    def _started_by(self, parent: str, turn: _Turn) -> dict[str, Any]:
        """The call of the parent whose arguments have the sub-agent's task in them."""
        found: dict[str, Any] = {"session": parent}
        messages = map(self._cleaned, turn.record.messages)
        task = next((m for m in messages if isinstance(m, UserMessage)), None)
        text = "".join(b.text for b in blocks_of(task.content) if isinstance(b, TextBlock)) if task is not None else ""
        with contextlib.suppress(SessionError), self._reading(parent) as session:
            for entry in reversed(session.path(last=50)):
                if not isinstance(entry.message, AssistantMessage):
                    continue
                for call in entry.message.tool_calls:
                    if any(isinstance(v, str) and len(v) > 3 and v in text for v in call.arguments.values()):
                        return {**found, "entry": entry.id, "callId": call.id}
        return found

    @contextlib.contextmanager
    def _reading(self, id: str) -> Iterator[Session]:
        place = self._open.get(id)
        if place is not None:
            yield place.session
            return
        with Session.open(id, agent=AGENT, store=self._store, read_only=True) as session:
            yield session

    def _close(self, id: str, *, sync: bool = False) -> None:
        place = self._open.pop(id, None)
        if place is not None:
            with contextlib.suppress(SessionError, OSError):  # every line is written already
                place.session.close(sync=sync)


def _task_key(record: RecordedExchange, text: str) -> str:
    return _digest(record.key, text.strip())


def _file_limit() -> int:
    """How many files a process may have open."""
    try:
        import resource
    except ImportError:  # Windows: its C library allows so many
        return 512
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit if limit != resource.RLIM_INFINITY else 1 << 20


def _remember(place: OrderedDict[K, V], key: K, value: V, limit: int) -> None:
    place[key] = value
    place.move_to_end(key)
    if len(place) > limit:
        place.popitem(last=False)


def _reason(record: RecordedExchange, error: Exception) -> str:
    """Returns why a record is not written; unexpected errors are logged with their traceback."""
    if not isinstance(error, InterlinguaError | OSError):
        _log.error("%s is not recorded", record.id, exc_info=error)
    return str(error) or type(error).__name__
