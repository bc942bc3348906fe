"""Traffic as sessions: each conversation that passes becomes a tree on disk, and can be answered from there again.

A client sends its whole conversation with each request. The id of an entry is a digest of its message and of all before
it, so a message that came before is found in its place, and only what is new is written: an edited or repeated turn is
a branch. The digest is of what clients send back (texts and calls, without signatures, ids and spaces), and is taken
after redaction, so that nothing on disk depends on what was taken out.

A session belongs to one key, to the conversation that the client names in a header or in the body (else to how it
begins), and to one system text: a sub-agent has another, and so a session of its own, which names the call that started
it.
"""

import asyncio
import contextlib
import hashlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from ..connect.client import Client
from ..connect.debug import DebugConnector
from ..connect.registry import ConnectorRegistry
from ..serving import redaction
from ..sessions import Session, SessionBusy, SessionError, SessionNotFound, store_at
from ..sessions.store import Store
from ..values.canonical import build, message_of, plain
from ..values.errors import BadRequest, InterlinguaError, ProviderError
from ..values.jsontext import compact
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ..values.request import Context, Conversation, Request
from .exchange import Exchange
from .server import Gateway
from .settings import Alias, Listen, Rule, Settings, Target
from .settings_file import RecordingSettings, resolved_address

SECRETS = frozenset({"private key", "key", "token", "password", "secret"})  # kinds of finds
AGENT = "gateway"  # whose sessions recordings are, among those of a home
IDLE = 2.0  # seconds after which a session is closed, so that others may write to it
QUEUE = 256  # exchanges that wait to be written; then requests wait
_REMEMBERED = 4096
_BUSY = 10.0  # seconds to wait for another writer
_log = logging.getLogger(__name__)


def recorder_of(settings: RecordingSettings) -> "Recorder | None":
    """The recorder that settings ask for."""
    if not settings.enabled:
        return None
    home = Path(settings.home).expanduser() if settings.home is not None else None
    address = resolved_address(settings.store) if settings.store is not None else None
    return Recorder(store_at(address, home), redactor_of(settings), sample=settings.sample)


# --- what is the same ------------------------------------------------------------------------------------------------


def echo_digest(message: AgentMessage) -> str:
    """Returns a digest of what a client echoes of a message, in any format: the same for the response and for its
    echo.
    """
    hashed = hashlib.blake2b(digest_size=12)
    if not isinstance(message, UserMessage | AssistantMessage | ToolResultMessage):
        hashed.update(compact(plain(message)).encode("utf-8", "replace"))
        return hashed.hexdigest()
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
    text = re.sub(r"\s+", "", "".join(texts))
    for piece in (type(message).__name__, text, *parts):
        hashed.update(piece.encode("utf-8", "replace") + b"\0")
    return hashed.hexdigest()


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
    hashed = hashlib.blake2b(digest_size=12)
    for text in texts:
        hashed.update(text.encode("utf-8", "replace") + b"\0")
    return hashed.hexdigest()


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


class Recorder:
    """Writes exchanges to sessions, one after the other, in a thread."""

    def __init__(
        self, store: Store, redact: Callable[[Any], Any] = lambda value: value, *, sample: float = 1.0
    ) -> None:
        self._store = store
        self._redact = redact
        self._sample = sample
        self._clean: OrderedDict[str, tuple[str, Any]] = OrderedDict()  # by digest of the message as it came
        self._sessions: OrderedDict[str, str] = OrderedDict()  # by how a conversation begins
        self._parents: OrderedDict[str, str] = OrderedDict()  # the first session of each conversation that has a name
        self._open: Session | None = None
        self._queue: asyncio.Queue[Exchange] | None = None
        self._worker: asyncio.Task[None] | None = None

    async def observe(self, exchange: Exchange) -> None:
        if exchange.request is None or exchange.answer is None:
            return
        if self._queue is None:
            self._queue = asyncio.Queue(QUEUE)
            self._worker = asyncio.ensure_future(self._work())
        await self._queue.put(exchange)

    async def flush(self) -> None:
        """Until everything that was observed is written."""
        if self._queue is not None:
            await self._queue.join()

    async def close(self) -> None:
        await self.flush()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        await asyncio.to_thread(self._release)

    async def _work(self) -> None:
        assert self._queue is not None
        while True:
            try:
                batch = [await asyncio.wait_for(self._queue.get(), IDLE)]
            except TimeoutError:
                await asyncio.to_thread(self._release)
                continue
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                await asyncio.to_thread(self._record_all, batch)  # one change of threads for what ended together
            finally:
                for _ in batch:
                    self._queue.task_done()

    def _record_all(self, batch: Sequence[Exchange]) -> None:
        for exchange in batch:
            try:
                self.record(exchange)
            except (InterlinguaError, OSError) as error:
                _log.error("%s is not recorded: %s", exchange.id, error)
            except Exception:
                _log.exception("%s is not recorded", exchange.id)

    def record(self, exchange: Exchange) -> str | None:
        """Writes one exchange; the id of its session, or None where it is not in the sample."""
        assert exchange.request is not None and exchange.answer is not None
        messages = [*exchange.request.context.messages, exchange.answer]
        cleaned = [self._cleaned(message) for message in messages]
        ids = chain(digest for digest, _ in cleaned)
        id, named = self._session_of(exchange, ids[0])
        if int(_digest(named or id)[:8], 16) / 2**32 >= self._sample:
            return None
        session = self._opened(id, exchange, named)
        known = next((at for at in reversed(range(len(ids))) if _has(session, ids[at])), -1)
        answered = len(ids) - 1
        if known == answered:  # the same answer again: a repeated turn that ended as before
            session.rewind(ids[answered])
            return id
        for at in range(known + 1, len(ids)):
            about = {"gateway": _about(exchange)} if at == answered else None
            session.append(
                cleaned[at][1],
                id=ids[at],
                parent_id=ids[at - 1] if at else None,
                extra={"interlingua": about} if about else None,
            )
        return id

    def _cleaned(self, message: AgentMessage) -> tuple[str, Any]:
        """A message as it may be written, and its digest."""
        raw = plain(message)
        key = hashlib.blake2b(compact(raw).encode("utf-8", "replace"), digest_size=16).hexdigest()
        found = self._clean.get(key)
        if found is None:
            clean = self._redact(raw)
            made = message if clean is raw or clean == raw else message_of(clean)
            found = self._clean[key] = (echo_digest(made), made)
            if len(self._clean) > _REMEMBERED:
                self._clean.popitem(last=False)
        else:
            self._clean.move_to_end(key)
        return found

    def _session_of(self, exchange: Exchange, first: str) -> tuple[str, str | None]:
        """The session of an exchange, and the name of its conversation where the client gives one."""
        assert exchange.request is not None
        system = str(self._redact(exchange.request.context.system_prompt or ""))
        named = _digest(exchange.key.name, exchange.session) if exchange.session else None
        begins = _digest(named or exchange.key.name, first)
        # A system text may change in a conversation, with the date for one; as long as it begins the same, it is one.
        id = self._sessions.get(begins) or _digest(named or begins, system)
        _remember(self._sessions, begins, id)
        return id, named

    def _opened(self, id: str, exchange: Exchange, named: str | None) -> Session:
        if self._open is not None and self._open.id == id:
            self._open.refresh()
            return self._open
        self._release()
        deadline = time.monotonic() + _BUSY
        while True:
            try:
                self._open = Session.open(
                    id, agent=AGENT, store=self._store, about=self._described(id, exchange, named)
                )
            except SessionBusy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return self._open

    def _described(self, id: str, exchange: Exchange, named: str | None) -> Conversation:
        """The first line of a new session: system text, tools, model, and for a sub-agent the call that started it."""
        assert exchange.request is not None
        context: Context = exchange.request.context
        extra: dict[str, Any] = {
            "gateway": {"key": exchange.key.name, "session": exchange.session, "wire": exchange.wire.api}
        }
        parent = self._parents.get(named) if named is not None else None
        if named is not None and parent is None:
            _remember(self._parents, named, id)
        elif parent is not None and parent != id:
            extra["spawnedBy"] = self._started_by(parent, context)
        about = Conversation(
            system=context.system,
            tools=context.tools,
            model=exchange.model,
            options=replace(exchange.request.options, session_id=None, metadata=None),
            extra={"interlingua": extra},
        )
        made: Conversation = build(self._redact(plain(about)))
        return made

    def _started_by(self, parent: str, context: Context) -> dict[str, Any]:
        """The call of the parent whose arguments have the sub-agent's task in them."""
        found: dict[str, Any] = {"session": parent}
        task = next((m for m in context.messages if isinstance(m, UserMessage)), None)
        text = "".join(b.text for b in blocks_of(task.content) if isinstance(b, TextBlock)) if task is not None else ""
        with (
            contextlib.suppress(SessionError),
            Session.open(parent, agent=AGENT, store=self._store, read_only=True) as session,
        ):
            for entry in reversed(session.path(last=50)):
                if not isinstance(entry.message, AssistantMessage):
                    continue
                for call in entry.message.tool_calls:
                    if any(isinstance(v, str) and len(v) > 3 and v in text for v in call.arguments.values()):
                        return {**found, "entry": entry.id, "callId": call.id}
        return found

    def _release(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _remember(place: OrderedDict[str, str], key: str, value: str) -> None:
    place[key] = value
    place.move_to_end(key)
    if len(place) > _REMEMBERED:
        place.popitem(last=False)


def _has(session: Session, id: str) -> bool:
    try:
        session.line_of(id)
    except SessionNotFound:
        return False
    return True


def _about(exchange: Exchange) -> dict[str, Any]:
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


# --- answering from a recording --------------------------------------------------------------------------------------


class Replay:
    """Answers requests from recorded sessions: the script of an offline connector.

    A request that came more than once gets its answers in the order in which they were recorded, then the last again.
    """

    def __init__(self, sessions: Iterable[Session], redact: Callable[[Any], Any] = lambda value: value) -> None:
        self._redact = redact
        self._answers: dict[str, list[AssistantMessage]] = {}
        self._ids: set[str] = set()
        self._given: dict[str, int] = {}
        for session in sessions:
            self._add(session)

    def __len__(self) -> int:
        return sum(map(len, self._answers.values()))

    def _add(self, session: Session) -> None:
        ids: dict[str | None, str] = {None: ""}
        for entry in session.entries():
            before = ids.get(entry.parent_id)
            if before is None or entry.id is None:
                continue
            own = ids[entry.id] = chain([echo_digest(entry.message)], before)[0]
            self._ids.add(own)
            if isinstance(entry.message, AssistantMessage):
                self._answers.setdefault(before, []).append(entry.message)

    def __call__(self, request: Request) -> AssistantMessage | ProviderError:
        digests = [echo_digest(message_of(self._redact(plain(message)))) for message in request.context.messages]
        ids = chain(digests)
        answers = self._answers.get(ids[-1] if ids else "")
        if not answers:
            known = next((at for at in reversed(range(len(ids))) if ids[at] in self._ids), -1) + 1
            return BadRequest(
                f"no answer to this request is recorded: {known} of its {len(ids)} messages are; record it first",
                status=404,
                code="not_recorded",
            )
        at = self._given.get(ids[-1], 0)
        self._given[ids[-1]] = at + 1
        return answers[min(at, len(answers) - 1)]


def replay_gateway(answers: Replay, *, host: str = "127.0.0.1", port: int = 0) -> Gateway:
    """A gateway that answers every model from recordings, and reaches no provider."""
    connectors = ConnectorRegistry([DebugConnector(answers, provider="replay", label="Recordings")])
    settings = Settings(
        aliases=(Alias(name="recording", targets=(Target(model="replay/script"),), retries=0),),
        rules=(Rule(model="*", to="recording"),),
        open_models=False,
        listen=Listen(host=host, port=port),
    )
    return Gateway(settings, client=Client(connectors=connectors))
