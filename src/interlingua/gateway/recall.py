"""Recall: stores original responses, and restores them when the conversation returns.

A client's format may not support signatures, redacted reasoning, item ids or citations, and none tells who signed a
thinking block. Each response is stored under a digest of what any client echoes of it (its text, its calls, and the
input), and under the ids of its calls. The store is bounded; a dropped response is simply not restored. Every digest
begins with the name of the key, so keys never see each other's responses.

Several workers share a `RecallStore`: what a request needs is fetched first, what a response adds is saved before its
end is sent, and in between everything is in memory. A conversation grows by whole turns, which the store appends: turns
that other workers add meanwhile stay.
"""

import asyncio
import hashlib
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..dialects import WIRES
from ..dialects.wire import Wire
from ..values import jsontext
from ..values.canonical import build, message_of, plain
from ..values.errors import FormatError
from ..values.messages import (
    AssistantMessage,
    Block,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    blocks_of,
    text_of,
)
from ..values.request import Request
from .recall_store import RecallStore
from .state import StateError, log_failure

_log = logging.getLogger(__name__)
_OVERHEAD = 600  # bytes of an entry beside its text
_UNIQUE = 20  # characters of an id that is no number in its response
_MAX_TURNS = 1000  # that wait for a shared store


class StoredResponse(Struct, frozen=True, kw_only=True):
    """A response that a client may refer to by id: its input, with all earlier messages, and the response."""

    request: Request
    given: tuple[Message, ...]  # the input of this request alone
    answer: AssistantMessage
    created: float
    until: float | None = None  # of one that is being generated: when it has failed, unless this is renewed
    losses: str = ""  # of one that was generated in the background, as in the header


def is_pending(stored: StoredResponse | None) -> bool:
    """Whether a response is being generated, as far as is known."""
    return stored is not None and stored.until is not None and stored.until > time.time()


class TextResponse(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """A stored response of plain text, as the bytes of its request and of itself: most are never referred to."""

    wire: Wire
    body: bytes
    answer: Callable[[], AssistantMessage]
    created: float
    # The request and its input, where the body has only a part of them.
    expanded: tuple[Request, tuple[Message, ...]] | None = None

    def response(self) -> StoredResponse:
        request, given = self.expanded or (
            decoded := self.wire.codec.decode_request(self.body),
            decoded.context.messages,
        )
        return StoredResponse(request=request, given=given, answer=self.answer(), created=self.created)

    def item(self, id: str) -> AssistantMessage:
        """Returns one item of the answer."""
        message, find = self.answer(), self.wire.http.item_blocks
        assert find is not None
        return replace(message, content=tuple(find(message)[id]))


class ConversationFacts(Struct, frozen=True, kw_only=True):
    """What is known of a conversation beside its messages, which are stored separately: they only grow."""

    created: float
    metadata: dict[str, Any]


# Of an entry: a digest of what clients echo; or a key, a kind and an id, which are digested where they are shared.
Name: TypeAlias = bytes | tuple[str, str, str]
StoredValue: TypeAlias = AssistantMessage | StoredResponse | ConversationFacts | tuple[Message, ...]
Kept: TypeAlias = StoredValue | Callable[[], StoredValue]  # a function: what is decoded when it is needed


class Recall:
    """Responses by their echo, and stored responses by id; the oldest are dropped beyond `limit` bytes."""

    def __init__(self, limit: int, shared: RecallStore | None = None) -> None:
        self._limit = limit
        self._kept: OrderedDict[Name, tuple[int, Kept]] = OrderedDict()
        self._size = 0
        self.shared = shared
        self._unsaved: dict[Name, Kept | None] = {}  # None: deleted
        self._turns: dict[tuple[Name, str], tuple[Message, ...]] = {}  # unsaved, by conversation and exchange
        self._waiting: list[asyncio.Future[None]] = []  # of those who wait for the next attempt to save
        self._saver: asyncio.Task[None] | None = None

    # --- what others have

    async def fetch_answers(self, key: str, wire: Wire, request: Request) -> None:
        """Loads the responses that a request may echo. While the store is unavailable, they are not restored."""
        if self.shared is None:
            return
        messages = request.context.messages
        names: list[Name] = []
        for at, message in enumerate(messages):
            if isinstance(message, AssistantMessage):
                names.append(_digest_of(key, _before(messages, at), message))
                names += [(key, "call", call.id) for call in message.tool_calls]
                names += [(key, "item", id) for id in _item_ids(message, wire)]
        missing = [name for name in names if name not in self._kept]
        if missing:
            try:
                await self._fetch(missing)
            except StateError as error:
                log_failure("answers are not put back", error)

    async def fetch_ids(self, key: str, *kinds_and_ids: tuple[str, str]) -> None:
        """Loads what is referred to by id in its current state: others may have changed or deleted it."""
        if self.shared is not None:
            await self._fetch([(key, kind, id) for kind, id in kinds_and_ids])

    async def _fetch(self, names: Sequence[Name]) -> None:
        assert self.shared is not None
        found = await self.shared.read([_shared_name(name) for name in names])
        for name in names:
            if name in self._unsaved:  # newer than what the store has
                continue
            shared_name = _shared_name(name)
            data = found.get(shared_name)
            try:
                value = _loaded(data) if data is not None else None
            except FormatError as error:
                _log.error("what is kept under %s cannot be read: %s", shared_name, error)
                value = None
            if value is None:
                self._drop(name)
            else:
                self._keep(name, value, _OVERHEAD + len(data or b""))

    async def save(self) -> None:
        """Saves local additions and deletions to the shared store, together with those of other callers. What it does
        not accept (`StateError`) is saved with the next ones.
        """
        if self.shared is None:
            return
        is_saving = self._saver is not None and not self._saver.done()
        if self._unsaved or self._turns or is_saving:
            saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(saved)
            if not is_saving:
                self._saver = asyncio.ensure_future(self._save_waiting(self.shared))
            await saved

    async def _save_waiting(self, store: RecallStore) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            failure: Exception | None = None
            try:
                await self._save(store)
            except Exception as error:  # each of those who wait has it
                failure = error
            for one in waiting:
                if one.done():  # the caller has left
                    continue
                if failure is None:
                    one.set_result(None)
                else:
                    one.set_exception(failure)

    async def _save(self, store: RecallStore) -> None:
        changes, self._unsaved, turns, self._turns = self._unsaved, {}, self._turns, {}
        try:
            if written := {
                _shared_name(name): _dumped(_value(value)) for name, value in changes.items() if value is not None
            }:
                await store.write(written)
            if deleted := [_shared_name(name) for name, value in changes.items() if value is None]:
                await store.delete(deleted)
            changes = {}
            for (name, turn), messages in list(turns.items()):
                # A turn has a name because it is not known after an error whether it was appended.
                line = {"turn": turn, "messages": list(map(plain, messages))}
                await store.append(_shared_name(name), b"\n" + jsontext.write(line))
                del turns[name, turn]
        except StateError:
            later = changes | self._unsaved
            # What was dropped from memory meanwhile is not saved either: it could not be found here.
            self._unsaved = {name: value for name, value in later.items() if value is None or name in self._kept}
            late = list((turns | self._turns).items())
            self._turns = dict(late[-_MAX_TURNS:])
            if len(late) > _MAX_TURNS:
                _log.error("%d turns are missing in their conversations", len(late) - _MAX_TURNS)
            raise

    # --- answers

    def remember(self, key: str, request: Request, answer: AssistantMessage) -> None:
        """Stores a complete response, if there is anything to restore."""
        # Nothing is put back of failed answers: `adapt` drops such turns.
        if self._limit <= 0 or answer.stop_reason in ("error", "aborted") or not _holds_more(answer):
            return
        size = _OVERHEAD + sum(map(_length, blocks_of(answer.content)))
        self._put(_digest_of(key, _before_answer(request), answer), answer, size)
        for call in answer.tool_calls:
            self._put((key, "call", call.id), answer, _OVERHEAD + len(call.id))

    def remember_text(
        self, key: str, request: Request, text: str, answer: Callable[[], AssistantMessage], size: int
    ) -> None:
        """Stores a response that has nothing but this text and the id of its item."""
        if self._limit > 0:
            self._put(_digest(key, _before_answer(request), text, _NO_CALLS), answer, _OVERHEAD + size)

    def restore(self, key: str, wire: Wire, request: Request) -> tuple[Request, bool]:
        """Returns the request with every known response restored; and whether that adds more than its author."""
        messages = request.context.messages
        if not self._kept or AssistantMessage not in map(type, messages):
            return request, False
        restored: list[Message] = []
        ids: dict[str, str] = {}
        changed = found = False
        for at, message in enumerate(messages):
            if isinstance(message, ToolResultMessage) and message.tool_call_id in ids:
                message = replace(message, tool_call_id=ids[message.tool_call_id])
            elif isinstance(message, AssistantMessage):
                ids = {}
                answer = self._find(key, _before(messages, at), message) or self._find_item(key, wire, message)
                if answer is not None:
                    found = True
                    api = answer.api or ""
                    maker = WIRES[api].base if api in WIRES else api
                    if maker == wire.base:  # the client's own wire holds everything: only who answered is not in it
                        message = replace(message, provider=answer.provider, model=answer.model, api=answer.api)
                    else:
                        changed = True
                        message, ids = _put_back(message, answer)
            restored.append(message)
        if not found:
            return request, False
        return replace(request, context=replace(request.context, messages=tuple(restored))), changed

    def _find(self, key: str, before: bytes, echo: AssistantMessage) -> AssistantMessage | None:
        known = self._get(_digest_of(key, before, echo))
        if known is None:
            for call in echo.tool_calls:
                known = self._get((key, "call", call.id))
                if isinstance(known, AssistantMessage) and _calls(known) == _calls(echo):
                    break
                known = None
        return known if isinstance(known, AssistantMessage) else None

    def _find_item(self, key: str, wire: Wire, echo: AssistantMessage) -> AssistantMessage | None:
        """Returns a stored item of an echo that has the ids of its items, for who answered; of that wire alone, whose
        echo has everything."""
        for id in _item_ids(echo, wire):
            known = self._get((key, "item", id))
            maker = WIRES.get(known.api or "") if isinstance(known, AssistantMessage) else None
            if isinstance(known, AssistantMessage) and maker is not None and maker.base == wire.base:
                return known
        return None

    # --- responses and conversations that are referred to by id

    def store(self, key: str, id: str, response: StoredResponse | Callable[[], StoredResponse], size: int) -> None:
        self._put((key, "response", id), response, size)

    def stored(self, key: str, id: str) -> StoredResponse | None:
        found = self._get((key, "response", id))
        return found if isinstance(found, StoredResponse) else None

    def delete(self, key: str, id: str, items: Iterable[str] = ()) -> bool:
        """Deletes a stored response and its items; False if there is none."""
        for item in items:
            self._forget((key, "item", item))
        return self._forget((key, "response", id))

    def store_item(self, key: str, id: str, part: AssistantMessage | Callable[[], AssistantMessage], size: int) -> None:
        """Stores an item of a response by its id, if that is one that can be found."""
        if is_unique(id):
            self._put((key, "item", id), part, size)

    def resolve(self, key: str, wire: Wire, request: Request) -> tuple[Request, frozenset[str]]:
        """Returns the request with stored items in the place of references to them; and which providers have them,
        `""` for those that only the gateway has.
        """
        messages: list[Message] = []
        owners: set[str] = set()
        for message in request.context.messages:
            if isinstance(message, AssistantMessage) and (ids := referred_ids([message], wire.base)):
                found = {id: item for id in ids if isinstance(item := self._get((key, "item", id)), AssistantMessage)}
                for item in found.values():
                    api = item.api or ""
                    owners.add((item.provider or "") if api in WIRES and WIRES[api].base == wire.base else "")
                    if message.model is None:
                        message = replace(message, provider=item.provider, model=item.model, api=item.api)
                message = replace(message, content=tuple(_resolved(message, wire.base, found)))
            messages.append(message)
        if not owners:
            return request, frozenset()
        return replace(request, context=replace(request.context, messages=tuple(messages))), frozenset(owners)

    def conversation(self, key: str, id: str) -> tuple[Message, ...] | None:
        found = self._get((key, "conversation", id))
        return found if isinstance(found, tuple) else None

    def create(self, key: str, id: str, messages: tuple[Message, ...]) -> None:
        """Begins a conversation."""
        self._put((key, "conversation", id), messages, size_of(messages))

    def facts(self, key: str, id: str) -> ConversationFacts | None:
        found = self._get((key, "facts", id))
        return found if isinstance(found, ConversationFacts) else None

    def describe(self, key: str, id: str, facts: ConversationFacts) -> None:
        """Stores what is known of a conversation."""
        self._put((key, "facts", id), facts, _OVERHEAD + len(jsontext.write(facts.metadata)))

    def extend(self, key: str, id: str, turn: str, messages: tuple[Message, ...]) -> None:
        """Adds a turn to a conversation; to one that was deleted meanwhile, nothing."""
        name = (key, "conversation", id)
        if self.shared is not None:
            self._turns[name, turn] = messages
        elif isinstance(known := self._get(name), tuple):
            messages = (*known, *messages)
            self._put(name, messages, size_of(messages))

    def delete_conversation(self, key: str, id: str) -> bool:
        self._forget((key, "facts", id))
        return self._forget((key, "conversation", id))

    # --- the store

    def _put(self, name: Name, value: Kept, size: int) -> None:
        if size > self._limit:
            if self._forget(name):  # better unknown than as it was before
                _log.error("what is kept of a conversation is larger than %d bytes, and is forgotten", self._limit)
            return
        if self.shared is not None:
            self._unsaved[name] = value
        self._keep(name, value, size)

    def _keep(self, name: Name, value: Kept, size: int) -> None:
        before = self._kept.pop(name, None)
        if before is not None:
            self._size -= before[0]
        if size > self._limit:
            return
        self._kept[name] = (size, value)
        self._size += size
        while self._size > self._limit:
            _, (dropped, _) = self._kept.popitem(last=False)
            self._size -= dropped

    def _get(self, name: Name) -> StoredValue | None:
        found = self._kept.get(name)
        if found is None:
            return None
        self._kept.move_to_end(name)
        return _value(found[1])

    def _drop(self, name: Name) -> bool:
        found = self._kept.pop(name, None)
        if found is not None:
            self._size -= found[0]
        return found is not None

    def _forget(self, name: Name) -> bool:
        if self.shared is not None:
            self._unsaved[name] = None
        return self._drop(name)

    def __len__(self) -> int:
        return len(self._kept)


def _holds_more(answer: AssistantMessage) -> bool:
    """Whether some client would echo less than there is: anything beside plain text and calls, or a signer."""
    if type(answer.content) is str:
        return False
    for block in answer.content or ():
        # Of calls: their ids and signatures.
        if not isinstance(block, TextBlock) or block.extra or block.citations or block.text_signature:
            return True
    return False


def _put_back(echo: AssistantMessage, answer: AssistantMessage) -> tuple[AssistantMessage, dict[str, str]]:
    """Returns the response in place of its echo, with the echo's cache marker; and the results' ids for its calls.

    A text that the client has changed is kept.
    """
    ids = {
        theirs.id: ours.id for theirs, ours in zip(echo.tool_calls, answer.tool_calls, strict=False) if theirs != ours
    }
    content = list(blocks_of(answer.content))
    texts = [block for block in blocks_of(echo.content) if isinstance(block, TextBlock)]
    # A client may shorten or correct a text; the model must read what its user reads.
    if texts and _squeezed(texts) != _squeezed(content):
        rest = [block for block in content if not isinstance(block, TextBlock)]
        at = next((at for at, block in enumerate(content) if isinstance(block, TextBlock | ToolCall)), len(content))
        content = [*rest[:at], *texts, *rest[at:]]
    marker = next((m for block in reversed(blocks_of(echo.content)) if (m := getattr(block, "cache", None))), None)
    if marker is not None:
        for at in range(len(content) - 1, -1, -1):
            if isinstance(content[at], TextBlock | ToolCall):
                content[at] = replace(content[at], cache=marker)
                break
    return replace(answer, content=tuple(content), timestamp=echo.timestamp or answer.timestamp), ids


def _squeezed(blocks: Iterable[Block]) -> str:
    """The text of blocks without its spaces, which clients trim and join."""
    return "".join("".join(block.text for block in blocks if isinstance(block, TextBlock)).split())


def _value(kept: Kept) -> StoredValue:
    return kept() if callable(kept) else kept


def _digest_of(key: str, before: bytes, message: AssistantMessage) -> bytes:
    text = "".join(block.text for block in blocks_of(message.content) if isinstance(block, TextBlock))
    return _digest(key, before, text, _calls(message))


def _digest(key: str, before: bytes, text: str, calls: bytes) -> bytes:
    own, answer = key.encode(), text.strip().encode("utf-8", "replace")
    # The lengths tell where each part ends. Processors have instructions for SHA-256.
    parts = b"%d %d %d\n%b%b%b%b" % (len(own), len(before), len(answer), own, before, answer, calls)
    return hashlib.sha256(parts).digest()


_NO_CALLS = b"[]"


def _calls(message: AssistantMessage) -> bytes:
    """The calls of a message, without ids: some formats have none."""
    # Sorted: clients write the keys of arguments in an order of their own.
    return jsontext.write([[call.name, _sorted(call.arguments)] for call in message.tool_calls])


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value


def _blocks(message: Message) -> tuple[Block, ...]:
    """Returns the blocks of a message; a message with an unknown role has none."""
    return tuple(blocks_of(getattr(message, "content", ())))


def _before(messages: Sequence[Message], at: int) -> bytes:
    """Returns the input of a message: the text of those before it, back to the last assistant message."""
    texts = []
    while at > 0 and not isinstance(messages[at - 1], AssistantMessage):
        at -= 1
        texts.append(text_of(getattr(messages[at], "content", None)).strip())
    return "\0".join(reversed(texts)).encode("utf-8", "replace")


def _before_answer(request: Request) -> bytes:
    return _before(request.context.messages, len(request.context.messages))


def _item_ids(message: AssistantMessage, wire: Wire) -> list[str]:
    """The ids of the items of a message, as far as they may be stored."""
    if wire.http.item_blocks is None:
        return []
    given = (block.extra.get(wire.base, {}).get("id") for block in _blocks(message) if block.extra)
    return [id for id in given if isinstance(id, str) and is_unique(id)]


def is_unique(id: str) -> bool:
    """Whether the id of an item tells it from all others. Some hosts only number those of a response."""
    return len(id) >= _UNIQUE


def referred_ids(messages: Iterable[Message], api: str) -> list[str]:
    """The ids of stored items that messages refer to."""
    found = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            found += [id for block in _blocks(message) if (id := reference_id(block, api)) is not None]
    return found


def reference_id(block: Block, api: str) -> str | None:
    """The id of an item that is only the id of what was stored; None of any other."""
    item = block.value if isinstance(block, OpaqueBlock) and block.dialect == api else None
    if isinstance(item, dict) and item.get("type", "item_reference") == "item_reference":
        id = item.get("id")
        return id if isinstance(id, str) else None
    return None


def _resolved(message: AssistantMessage, api: str, found: Mapping[str, AssistantMessage]) -> Iterator[Block]:
    for block in _blocks(message):
        item = found.get(reference_id(block, api) or "")
        yield from (block,) if item is None else _blocks(item)


def _shared_name(name: Name) -> str:
    """The name of an entry in a shared store: of fixed length, whatever the ids are."""
    return (name if isinstance(name, bytes) else hashlib.blake2b(jsontext.write(name), digest_size=20).digest()).hex()


def size_of(messages: Iterable[Message]) -> int:
    """The bytes of an entry with these messages."""
    return _OVERHEAD + sum(_length(block) for message in messages for block in _blocks(message))


def _length(block: Block) -> int:
    if isinstance(block, TextBlock):
        return len(block.text)
    if isinstance(block, ThinkingBlock):
        return len(block.thinking) + len(block.thinking_signature or "")
    if isinstance(block, ToolCall):
        return len(jsontext.write(block.arguments)) + len(block.name)
    return len(getattr(block, "data", None) or "") + 200


def _dumped(value: StoredValue) -> bytes:
    if isinstance(value, AssistantMessage):
        return jsontext.write({"answer": plain(value)})
    if isinstance(value, tuple):
        return jsontext.write({"messages": list(map(plain, value))})
    if isinstance(value, ConversationFacts):
        return jsontext.write({"metadata": value.metadata, "created": value.created})
    parts = {"request": plain(value.request), "given": list(map(plain, value.given)), "response": plain(value.answer)}
    return jsontext.write({**parts, "created": value.created, "until": value.until, "losses": value.losses})


def _loaded(data: bytes) -> StoredValue:
    """What `_dumped` wrote, with the turns that were appended; another version's writing is a FormatError."""
    first, *appended = data.split(b"\n")
    parts = jsontext.read(first)
    try:
        if "answer" in parts:
            return _answer(parts["answer"])
        if "messages" in parts:
            # By name: a turn may have been appended twice, when the reply to the first attempt was lost.
            turns = {line["turn"]: line["messages"] for line in map(jsontext.read, appended)}
            return _messages(itertools.chain(parts["messages"], *turns.values()))
        if "metadata" in parts:
            return ConversationFacts(created=parts["created"], metadata=parts["metadata"])
        return StoredResponse(
            request=build(parts["request"], Request),
            given=_messages(parts["given"]),
            answer=_answer(parts["response"]),
            created=parts["created"],
            until=parts.get("until"),
            losses=parts.get("losses", ""),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"not a stored answer: {error!r}") from None


def _messages(values: Iterable[object]) -> tuple[Message, ...]:
    return tuple(message_of(value) for value in values)  # type: ignore[misc]


def _answer(value: object) -> AssistantMessage:
    message = message_of(value)
    if not isinstance(message, AssistantMessage):
        raise FormatError("not a stored answer")
    return message
