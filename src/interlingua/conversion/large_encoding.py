"""Large session files as sessions of another program, request bodies and rows of data sets, message by message.

The history is adapted in pieces (`adapting.pieces`), after a pass that collects what concerns all of it.
"""

import contextlib
import itertools
import re
import secrets
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from ..dialects import FORMATS, WIRES
from ..dialects.comparison import NO_PLACE, OTHERWISE
from ..dialects.files import templates
from ..dialects.files.new_sessions import Facts, unsupported
from ..dialects.files.reading import REJECTED
from ..dialects.files.records import LINEAR, UNPLACED
from ..dialects.files.templates import LongList
from ..dialects.wire import FileFormat, SessionStream, Wire
from ..values import jsontext
from ..values.compact import IdSet
from ..values.errors import InterlinguaError, Unsupported
from ..values.losses import (
    QUIET,
    UNCLEAN,
    Encoded,
    Loss,
    Reporter,
    SupportTable,
    off_path,
    static_entry_losses,
)
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    Message,
    OpaqueBlock,
    ThinkingBlock,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ..values.request import Conversation, Entry, Request, is_aside
from ..values.summaries import summary_of
from .adapting.cache_markers import max_markers_of, places
from .adapting.pieces import (
    ASKED,
    AdaptedPiece,
    CallPlaces,
    TooLong,
    adapt_pieces,
    count_totals,
    is_of_options,
    pieces,
    read_as,
    unchanged_pieces,
    with_next,
)
from .adapting.work import Earlier, HistoryTotals, Work
from .compacted import CompactionRecord, omitted, replaced, replacement, seen_from, shifted
from .converting import OFF_PATH, conversation_losses, encode_as, encoded_losses, entry_losses, is_own
from .large_sessions import LargeSession, json_parts

BRANCHES, ADAPTING, ENCODING = range(3)  # the order in which losses are reported


class _NotLocal(Exception):
    """A repair that concerns the whole history."""


class _ReadOtherwise(Exception):
    """Messages of a row are read together, or apart, that were not so."""


class LossSink(Protocol):
    """Receives losses, each with its stage; `clear` forgets those so far."""

    def add(self, stage: int, loss: Loss) -> None: ...
    def clear(self) -> None: ...


class Survey:
    """Finds where the calls of a history are, which have results, what was compacted, and how many cache markers there
    are.
    """

    def __init__(self) -> None:
        self.places = CallPlaces()
        self.answered = IdSet(self.places.ids)
        self.compactions: list[tuple[int, CustomMessage]] = []
        self.markers = 0  # at most so many

    def add(self, at: int, entry: Entry, is_next: bool) -> None:
        message = entry.message
        self._add(at, message)
        if isinstance(message, ToolResultMessage):
            self.answered.add(message.tool_call_id)
        if isinstance(message, CustomMessage) and summary_of(message) is not None:
            self.compactions.append((at, message))
            for one in replacement(message) or ():
                self._add(at, one)

    def _add(self, at: int, message: AgentMessage) -> None:
        read = read_as(message)
        self.places.add_all(at, read)
        for one in read:
            self.markers += sum(_may_be_marked(holder) for holder in (one, *blocks_of(one.content)))


def _may_be_marked(holder: Any) -> bool:
    """Whether a message or a block has a cache marker, or passes one on to its neighbour."""
    if isinstance(holder, ThinkingBlock):
        return any(isinstance(kept, dict) and "cache_control" in kept for kept in holder.extra.values())
    if isinstance(holder, OpaqueBlock):
        return isinstance(holder.value, dict) and "cachePoint" in holder.value
    return getattr(holder, "cache", None) is not None


def needs_totals(request: Request, target: str, survey: Survey) -> bool:
    """Whether what the target accepts of a message depends on all of the history."""
    work = Work(request, target, "drop")
    max_markers = max_markers_of(work)
    markers = survey.markers + sum(place.cache is not None for place in places(work))
    has_surplus = max_markers is not None and 0 < max_markers <= markers
    # Room for the answer is what the history leaves of the model's window.
    return has_surplus or work.model.context_window is not None


class _LargeHistory:
    """The history of a large session, adapted for a target in pieces."""

    def __init__(self, session: LargeSession, target: str, on_path: bytearray, survey: Survey) -> None:
        self._session, self._target = session, target
        self._on_path, self._places, self._answered = on_path, survey.places, survey.answered
        self._names: dict[str, str] = {}  # of tools, as sent -> as given
        # The last compaction on the path, and its index.
        self._compaction = next(((at, one) for at, one in reversed(survey.compactions) if on_path[at]), None)
        self._is_own = is_own(session.about, target)  # such a history is neither adapted nor compacted
        if self._is_own:
            self._compaction = None
        self._read = array("i")  # of a compacted history, the places on the path of the messages that the model reads
        self._totals = HistoryTotals()
        request = session.about.request()
        if not self._is_own and needs_totals(request, target, survey):
            cut = pieces(self._listed(_ignore, _ignore), self._places)
            self._totals = count_totals(request, target, cut, self._places.ids)

    def _noting(self, report: Callable[[int, Loss], None]) -> Callable[[int, Loss], None]:
        """Returns a function that reports losses with their paths in the source, and those of no message once."""
        seen = set[Loss]()

        def note(stage: int, loss: Loss) -> None:
            if self._compaction is not None and stage != BRANCHES:
                loss = seen_from(loss, self._read)
            if not loss.path.startswith(("$.messages[", "$.entries[")):
                if loss in seen:
                    return
                seen.add(loss)
            report(stage, loss)

        return note

    def _pieces(
        self, note: Callable[[int, Loss], None], report: Callable[[int, Loss], None], end: tuple[Message, ...]
    ) -> Iterator[AdaptedPiece]:
        """Yields the pieces, adapted, and reports the losses of branches and compacted history."""

        def branches(at: int, entry: Entry) -> None:
            if self._on_path[at]:
                for loss in entry_losses(entry, at):
                    note(BRANCHES, loss)
            else:
                note(BRANCHES, off_path(entry, at, self._answered, OFF_PATH))

        return self._adapted(branches, lambda loss: report(ADAPTING, loss), end)

    def _adapted(
        self, visit: Callable[[int, Entry], None], report: Callable[[Loss], None], end: tuple[Message, ...]
    ) -> Iterator[AdaptedPiece]:
        """Yields the pieces, adapted; `report` receives the losses of compacted history."""
        cut = pieces(self._listed(visit, report), self._places)
        request, earlier = self._session.about.request(), Earlier(self._places.ids, self._totals)
        if self._is_own:
            yield from unchanged_pieces(request, cut)
            return
        for piece in adapt_pieces(request, self._target, cut, earlier, end):
            for name, given in piece.adapted.names.items():
                if self._names.setdefault(name, given) != given:
                    raise _NotLocal
            yield piece

    def _listed(
        self, visit: Callable[[int, Entry], None], report: Callable[[Loss], None]
    ) -> Iterator[tuple[int, AgentMessage]]:
        """Yields the messages that the model reads, each with the index of its entry."""
        if self._compaction is None:
            for at, entry in enumerate(self._session.entries()):
                visit(at, entry)
                if self._on_path[at]:
                    yield at, entry.message
            return
        index, message = self._compaction
        compaction, self._read = CompactionRecord(message), array("i")
        own = sum(self._on_path[:index])  # the place of the compaction on the path
        for one in compaction.first:
            self._read.append(own)
            yield 0, one
        place = -1
        for at, entry in enumerate(self._session.entries()):
            visit(at, entry)
            if not self._on_path[at]:
                continue
            place += 1
            if at == index:
                report(replaced(own))
            elif at < index and not compaction.keeps(entry):
                report(omitted(place))
                continue
            for one in compaction.last if at == index else (entry.message,):
                self._read.append(place)
                yield at, one


class LargeEncoding(_LargeHistory):
    """A large session in another format: `parts` reads its file again and yields the lines."""

    is_body = False

    def __init__(self, session: LargeSession, form: FileFormat, on_path: bytearray, survey: Survey) -> None:
        assert form.adapted_for is not None
        super().__init__(session, form.adapted_for, on_path, survey)
        self._form = form
        self._about: Conversation | None = None
        self._facts: Facts | None = None

    def survey(self, report: Callable[[int, Loss], None]) -> None:
        """Reads the file once, for what concerns all lines; reports the losses, each with its stage."""
        session, note = self._session, self._noting(report)
        writer: Any = None
        for piece in self._pieces(note, report, (ASKED,)):
            first, messages, adapted = piece
            if writer is None:
                about = replace(Conversation.of(adapted.request), entries=())
                kept = {"title": session.about.title, "options": session.about.options, "extra": session.about.extra}
                self._about = replace(about, **kept)
                self._facts = Facts(self._about)
                writer = self._form.writer(self._about, self._facts)
            elif adapted.request.context.tools != self._about.tools:  # type: ignore[union-attr]
                raise _NotLocal
            given: list[Loss] = []
            for at, message in enumerate(messages):
                self._facts.add(Entry(message=message))  # type: ignore[union-attr]
                losses = Reporter(f"$.messages[{at + adapted.before}]")
                for _ in writer.message(first + at, message, losses):
                    pass
                given += losses.losses
            # The call options belong to the program that resumes the session.
            changed = dict.fromkeys(
                loss for loss in adapted.losses if _is_of(piece, loss) and not loss.path.startswith("$.options")
            )
            for loss in changed:
                note(ADAPTING, loss)
            for loss in dict.fromkeys(encoded_losses(adapted, given)):
                if loss not in changed:
                    note(ENCODING, loss)
        assert self._about is not None
        for loss in encoded_losses(adapted, unsupported(self._about, *self._form.writer.UNSUPPORTED)):
            note(ENCODING, loss)
        for loss in conversation_losses(replace(session.about, head=session.head)):
            if loss.path != "$.title":
                note(BRANCHES, loss)

    def parts(self) -> Iterator[bytes]:
        """The lines of the new file."""
        assert self._about is not None
        writer = self._form.writer(self._about, self._facts)
        yield from _lines(writer.begin())
        for first, messages, _ in self._adapted(_ignore, _ignore, (ASKED,)):
            for at, message in enumerate(messages, first):
                yield from _lines(writer.message(at, message, QUIET))
        yield from _lines(writer.end())


def _ignore(*given: Any) -> None:
    pass


def _lines(values: Iterable[Any]) -> Iterator[bytes]:
    return (jsontext.write(value) + b"\n" for value in values)


def _separated(items: Iterable[Any]) -> Iterator[bytes]:
    separator = b""
    for item in items:
        yield separator + jsontext.write(item)
        separator = b","


def _is_of(piece: AdaptedPiece, loss: Loss) -> bool:
    """Whether a loss is of a piece, and not of the messages around it.

    That of the system prompt is of the first one: messages of the system before all others are part of it there.
    """
    return piece.adapted.is_own(loss.path) and not (piece.first and loss.path.startswith("$.system"))


class LargeBody(_LargeHistory):
    """A large session as the body of a request: `parts` reads its file again and yields the text.

    The body has one list with the items of the messages. All else is the same for each piece of the history.
    """

    is_body = True

    def __init__(self, session: LargeSession, wire: Wire, on_path: bytearray, survey: Survey) -> None:
        super().__init__(session, wire.api, on_path, survey)
        self._codec = wire.codec
        self._place = _find_place(wire.codec.encode)
        self._frame: Request | None = None  # the adapted request without messages

    def survey(self, report: Callable[[int, Loss], None]) -> None:
        """Reads the file once, for what concerns all of the body; reports the losses, each with its stage."""
        note = self._noting(report)
        of_options: list[tuple[int, Loss]] = []

        def encoded(piece: AdaptedPiece, losses: Sequence[Loss]) -> None:
            adapted = piece.adapted
            self._add_frame(adapted.request)
            changed = dict.fromkeys(loss for loss in adapted.losses if _is_of(piece, loss))
            others = dict.fromkeys(encoded_losses(adapted, losses))
            found = [(ADAPTING, loss) for loss in changed]
            found += [(ENCODING, loss) for loss in others if _is_of(piece, loss) and loss not in changed]
            of_options[:] = [(stage, loss) for stage, loss in found if is_of_options(loss)]
            for stage, loss in found:
                if not is_of_options(loss):
                    note(stage, loss)

        for _ in self._items(self._pieces(note, report, ()), encoded):
            pass
        for stage, loss in of_options:
            note(stage, loss)
        assert self._frame is not None
        for loss in conversation_losses(replace(self._session.about, head=self._session.head)):
            note(BRANCHES, loss)

    def parts(self) -> Iterator[bytes]:
        """The text of the body."""
        assert self._frame is not None
        begin, end = _around(self._encode(_with(self._frame, messages=(ASKED,))).body, self._place)
        yield begin
        yield from _separated(self._items(self._adapted(_ignore, _ignore, ()), _ignore))
        yield end

    def _items(
        self, adapted: Iterable[AdaptedPiece], visit: Callable[[AdaptedPiece, Sequence[Loss]], None]
    ) -> Iterator[Any]:
        """Yields the items of the messages; calls `visit` with each piece and the losses of its encoding."""
        last: list[Any] = []  # the item that the next message may join
        for piece in adapted:
            request, count = piece.adapted.request, piece.adapted.before
            messages, known = request.context.messages, list[Any]()
            encoded = self._encode(_with(request, messages=messages[: count + len(piece.messages)]))
            visit(piece, encoded.losses)
            found = _list_in(encoded.body, self._place)
            if count:
                known = _list_in(self._encode(_with(request, messages=messages[:count])).body, self._place)
                if found[: len(known) - 1] != known[:-1]:
                    raise _NotLocal
                last = [_extended(item, known[-1], found[len(known) - 1]) for item in last]
            for item in found[len(known) :]:
                yield from last
                last = [item]
        yield from last
        if not last:
            raise _NotLocal

    def _encode(self, request: Request) -> Encoded:
        encoded: Encoded = self._codec.encode(Conversation.of(request))
        return encoded

    def _add_frame(self, request: Request) -> None:
        """Adds the adapted request of a piece. Those after it are right about all but the system prompt.

        Messages of the system before all others are part of that of the first piece.
        """
        first = request if self._frame is None else self._frame
        self._frame = _with(request, messages=(), system=first.context.system)


def _find_place(encode: Callable[[Conversation], Encoded]) -> tuple[str, ...]:
    """Returns the keys of the list of items in a body: what another message changes."""
    one, two = (encode(Conversation(entries=(Entry(message=ASKED),) * count)).body for count in (2, 3))
    place: list[str] = []
    while isinstance(one, dict) and isinstance(two, dict):
        changed = [key for key in two if one.get(key) != two[key]]
        if len(changed) != 1:
            raise _NotLocal
        place += changed
        one, two = one.get(changed[0]), two[changed[0]]
    return tuple(place)


def _list_in(body: Any, place: tuple[str, ...]) -> list[Any]:
    for key in place:
        body = body.get(key) if isinstance(body, dict) else None
    if not isinstance(body, list):
        raise _NotLocal
    return body


def _with(request: Request, **fields: Any) -> Request:
    """Returns a request with other fields of its context."""
    return replace(request, context=replace(request.context, **fields))


def _extended(item: Any, before: Any, joined: Any) -> Any:
    """Returns an item with what a message added to `before`, an item in its place."""
    if joined == before:
        return item
    changed = [key for key in joined if joined[key] != before.get(key)]
    old, new = before.get(changed[0]), joined[changed[0]]
    own = item.get(changed[0]) if isinstance(item, dict) and len(changed) == 1 else None
    if not isinstance(own, list) or not isinstance(old, list) or new[: len(old)] != old:
        raise _NotLocal
    return {**item, changed[0]: [*own, *new[len(old) :]]}


def _around(body: Any, place: tuple[str, ...]) -> tuple[bytes, bytes]:
    """Returns the text of a body before and after the items of the list at `place`."""
    if not place:
        return b"[", b"]"
    begin, end = _around(body[place[0]], place[1:])
    keys = list(body)
    at = keys.index(place[0])
    fields = [jsontext.write({key: body[key]})[1:-1] if key != place[0] else b"" for key in keys]
    fields[at] = jsontext.write(place[0]) + b":" + begin
    return b"{" + b",".join(fields[: at + 1]), b",".join([end, *fields[at + 1 :]]) + b"}"


class LargeRow:
    """A large session as a row of a data set, which is not adapted: `parts` reads its file again and yields the text.

    The row has one list with the items of the messages, or two (`Rows.beside`). All else is the same for each piece of
    the history. `is_read_otherwise`: messages of the row are read together, or apart, that were not so; then they are
    not compared with those that were written.
    """

    is_body = True

    def __init__(
        self,
        session: LargeSession,
        form: FileFormat,
        on_path: bytearray,
        survey: Survey,
        *,
        is_read_otherwise: bool = False,
    ) -> None:
        assert form.rows is not None
        self._session, self._form, self._rows = session, form, form.rows
        self._on_path, self._places, self._answered = on_path, survey.places, survey.answered
        self._is_read_otherwise = is_read_otherwise
        self._about = replace(session.about, head=session.head)
        self._facts = Facts(self._about)
        key = form.rows.key
        self._place = _find_place(form.write or form.codec.encode) if key is None else (key,)
        empty = self._encoder()([]).body
        self._known = _list_in(empty, self._place)  # the items before those of the messages
        self._frame = self._bare = _emptied(empty, self._place)  # the row without its items
        self._fits = True

    def survey(self, report: Callable[[int, Loss], None]) -> None:
        """Reads the file once, for what concerns all of the row; reports the losses, each with its stage."""
        support: SupportTable = self._form.codec.FIELD_SUPPORT if self._form.write is None else LINEAR
        seen = set[Loss]()
        branches, on_path = support["Conversation.entries"], 0

        def visit(at: int, entry: Entry) -> None:
            nonlocal on_path
            if self._rows.encoder is not None:
                self._facts.add(entry)
            if self._on_path[at]:
                if entry.extra.get(self._form.name):  # of its record, which may be of several messages
                    raise _NotLocal
                bare = replace(entry, message=UserMessage(content=None))
                losses = static_entry_losses(bare, at, f"$.messages[{on_path}]", support, self._form.name)
                on_path += 1
            else:
                if REJECTED.fullmatch(entry.id or ""):  # the row may have two answers
                    raise _NotLocal
                losses = [off_path(entry, at, self._answered, branches.why, branches.kind)]  # type: ignore[arg-type]
            for loss in losses:
                report(BRANCHES, loss)

        of_model: list[Loss] = []  # a list names the model of its last answer
        for piece in self._pieces(visit):
            self._add_frame(piece)
            has_model = any(isinstance(message, AssistantMessage) and message.model for message in piece.messages)
            if not piece.first or has_model or self._rows.last_apart:
                of_model = [loss for loss in piece.row.losses if loss.path.startswith("$.model.")]
            for loss in piece.row.losses:
                if loss.why == OTHERWISE and not self._is_read_otherwise:
                    raise _ReadOtherwise
                if self._is_void(loss, piece) or loss.path.startswith("$.model."):
                    continue
                loss = shifted(loss, piece.first)
                if not loss.path.startswith("$.messages["):
                    if loss in seen:
                        continue
                    seen.add(loss)
                report(ENCODING, loss)
        for loss in of_model:
            report(ENCODING, loss)
        if self._rows.beside in self._frame and not self._fits:
            raise _NotLocal

    def _is_void(self, loss: Loss, piece: "_RowPiece") -> bool:
        """Whether a loss is of a comparison that the whole row does not allow, or of a message that is none of it."""
        if not loss.path.startswith("$.messages["):
            return False
        is_compared = self._is_read_otherwise and loss.why not in (NO_PLACE, UNCLEAN)
        return is_compared or loss.path.startswith(f"$.messages[{len(piece.messages)}]")

    def _add_frame(self, piece: "_RowPiece") -> None:
        """Adds what is around the items of a piece, which must be the same for all."""
        body, beside = piece.row.body, self._rows.beside
        frame = _emptied(body, self._place)
        if beside is not None and beside in frame:
            bare = {key: value for key, value in frame.items() if key != beside}
            self._frame = frame = {**frame, beside: []}
        else:
            bare = frame
        if self._rows.fits is not None:
            self._fits = self._fits and self._rows.fits(body)
        if piece.is_last and (self._rows.last_apart or self._rows.encoder is not None):
            self._frame = frame
        elif bare != self._bare and self._rows.encoder is None:
            raise _NotLocal

    def parts(self) -> Iterator[bytes]:
        """The text of the row."""
        beside = self._rows.beside
        begin, end = _around(self._frame, self._place)
        yield begin
        yield from _separated(self._numbered())
        if beside is not None and beside in self._frame:
            rest = _around(self._frame, (beside,))[1]
            yield end[: -len(rest)]
            yield from _separated(item for piece in self._pieces(_ignore) for item in piece.row.body.get(beside, ()))
            end = rest
        yield end

    def _numbered(self) -> Iterator[Any]:
        """The items of the row."""
        items = itertools.chain(self._known, (item for piece in self._pieces(_ignore) for item in piece.items))
        number = self._rows.number
        return items if number is None else (number(item, at) for at, item in enumerate(items))

    def _pieces(self, visit: Callable[[int, Entry], None]) -> Iterator["_RowPiece"]:
        """Encodes the pieces of the history."""
        first, known, encode = 0, len(self._known), self._encoder()
        cut = pieces(self._listed(visit), self._places, in_turns=not self._rows.whole_turns)
        for messages, after in with_next(cut):
            goes_on = self._rows.last_apart and after is not None
            row = encode([*messages, ASKED] if goes_on else messages)
            items = _list_in(row.body, self._place)
            if items[:known] != self._known:
                raise _NotLocal
            yield _RowPiece(first, messages, row, items[known : len(items) - goes_on], after is None)
            first += len(messages)

    def _encoder(self) -> Callable[[list[AgentMessage]], Encoded]:
        """Returns a function that encodes the pieces from the first one on."""
        encoder = self._rows.encoder
        encode = partial(encode_as, form=self._form) if encoder is None else encoder(self._about, self._facts)

        def encode_piece(messages: list[AgentMessage]) -> Encoded:
            entries = tuple(Entry(message=message) for message in messages)  # type: ignore[arg-type]
            return encode(replace(self._session.about, entries=entries))

        return encode_piece

    def _listed(self, visit: Callable[[int, Entry], None]) -> Iterator[tuple[int, AgentMessage]]:
        for at, entry in enumerate(self._session.entries()):
            visit(at, entry)
            if self._on_path[at]:
                yield at, entry.message


class _RowPiece(NamedTuple):
    """A piece of a history, encoded: the index of its first message, the messages, the row of them and its items."""

    first: int
    messages: list[AgentMessage]
    row: Encoded
    items: list[Any]
    is_last: bool


def _emptied(body: Any, place: tuple[str, ...]) -> Any:
    """Returns a body with nothing in the list at `place`."""
    return {**body, place[0]: _emptied(body[place[0]], place[1:])} if place else []


class LargeTree:
    """A large session in a format with branches: `parts` reads its file again and yields the text."""

    def __init__(self, session: LargeSession, form: FileFormat) -> None:
        self._session = session
        self.is_body = not form.lines
        self._writer = form.tree_writer(session.about)

        def note(at: int, entry: Entry, is_next: bool) -> None:
            if not self._writer.note(entry):
                raise _NotLocal

        self._on_path = session.walk(note)

    def survey(self, report: Callable[[int, Loss], None]) -> None:
        """Reads the file once, and reports the losses, each with its stage."""
        head, count = self._on_path.rfind(1), 0
        for at, entry in enumerate(self._session.entries()):
            reporter = Reporter(f"$.messages[{count}]" if self._on_path[at] else f"$.entries[{at}].message")
            count += self._on_path[at]
            self._writer.look(at, entry, reporter, is_head=at == head)
            for loss in reporter.losses:
                report(ADAPTING, loss)
            for loss in self._writer.entry_losses(entry, at, reporter.root):
                report(ENCODING, loss)
        reporter = Reporter()
        self._writer.close(self._session.head, reporter)
        for loss in reporter.losses:
            report(ADAPTING, loss)
        for loss in self._writer.losses(self._session.head):
            report(ENCODING, loss)

    def parts(self) -> Iterator[bytes]:
        """The text."""
        parts: Iterator[bytes] = self._writer.parts(self._session.entries())
        return parts


class LargeCopy:
    """A large session in the format that it was read from: `parts` reads its file again and yields the lines."""

    is_body = False

    def __init__(self, session: LargeSession, form: FileFormat) -> None:
        self._session, self._form = session, form

    def survey(self, report: Callable[[int, Loss], None]) -> None:
        """Reads the file once, and reports the losses; raises Unsupported if messages were added since."""
        reporter = Reporter()
        for _ in self._copied(reporter):
            pass
        for loss in reporter.losses:
            if loss.path.startswith(UNPLACED):
                raise _NotLocal
            report(ENCODING, loss)

    def parts(self) -> Iterator[bytes]:
        """The lines of the file."""
        return _lines(self._copied(QUIET))

    def _copied(self, reporter: Reporter) -> Iterator[dict[str, Any]]:
        assert self._form.copy is not None
        lines = self._form.copy(self._session.about, self._session.entries(), reporter)
        if lines is None:
            raise _NotLocal
        return lines


class LargeFile:
    """A large session in its own format, which was not changed: `parts` yields the text of its file."""

    def __init__(self, session: LargeSession) -> None:
        self._session = session
        self._is_text = FORMATS[session.dialect].text
        self.is_body = session.listed is not None or self._is_text

    def survey(self, report: Callable[[int, Loss], None]) -> None:
        """Nothing is lost."""

    def parts(self) -> Iterator[bytes]:
        """The lines of the file, or the document."""
        listed = self._session.listed
        if self._is_text:
            return (line.encode() for line in self._session.lines())
        if listed is None:
            return _lines(self._session.lines())
        return _with_lists(
            listed.header,
            {key: json_parts(listed.items(key), keyed=key in listed.listed.nodes) for key in listed.lists},
        )


def _with_lists(document: Any, lists: Mapping[str, Iterator[bytes]]) -> Iterator[bytes]:
    """The text of a document with the texts of lists at their keys."""
    marks = {key: secrets.token_hex(16) for key in lists}
    for key, mark in marks.items():
        document = templates.put(document, key, partial(_instead, mark))
    texts = {jsontext.write(marks[key]): text for key, text in lists.items()}
    for part in re.split(b"(" + b"|".join(texts) + b")", jsontext.write(document)):
        yield from texts.get(part, (part,))


def _instead(mark: str, value: Any) -> str:
    return mark


class LargeReturn:
    """A large session in the format whose records its transcript has, if nothing was changed in it."""

    def __init__(self, session: LargeSession, form: FileFormat) -> None:
        self._session, self._form = session, form
        about = session.described()
        kept = about.extra[form.name]
        body, self.is_body = kept[templates.FILE][0], not kept.get(templates.LINE)
        keys = form.listed.keys if form.listed is not None and self.is_body and isinstance(body, dict) else ()
        places = kept.get(templates.PLACES)
        self._key: str = places[0] if places else next((key for key in keys if key in body), "")
        found: list[Any] = []
        templates.put(body, self._key, found.append)
        records = found[0] if found else None
        if not isinstance(records, LongList) or kept.get(templates.COUNT) is None:
            raise _NotLocal
        self._count, self._keyed = kept[templates.COUNT], records.is_keyed
        self._filling = templates.LargeFilling(about, self._entries, records)
        if not self._filling.is_local:
            raise _NotLocal
        header = templates.put(body, self._key, lambda _: {} if records.is_keyed else [])
        for key in places or (header if isinstance(header, dict) else ()):
            header = templates.put(header, key, lambda value: list(value) if isinstance(value, LongList) else value)
        self._header = self._filling.fill(header) if self._key else {}

    def survey(self, report: Callable[[int, Loss], None]) -> None:
        """Reads the file that is written, and compares it with the session; nothing is lost."""
        again = self._read()
        if again is None or not self._is_same(again):
            raise _NotLocal

    def _read(self) -> SessionStream | None:
        form = self._form
        if not self.is_body:
            return None if form.stream is None else form.stream(self._filling.records)
        return None if form.listed is None else form.listed.stream(self._header, self._filling.records)

    def _is_same(self, again: SessionStream) -> bool:
        count = 0
        for entry, other in itertools.zip_longest(self._entries(), again.entries()):
            if entry is None or other is None or entry.message != other.message or entry.parent_id != other.parent_id:
                return False
            count += 1
        about = replace(self._session.about, head=self._session.head, entries=(), extra={}, problems=())
        return count == self._count and about == replace(again.about, head=again.head, extra={})

    def _entries(self) -> Iterator[Entry]:
        return (entry for entry in self._session.entries() if not is_aside(entry))

    def parts(self) -> Iterator[bytes]:
        """The lines of the file, or the document."""
        records = self._filling.records()
        if not self.is_body:
            return _lines(records)
        return _with_lists(self._header, {self._key: json_parts(records, keyed=self._keyed)})


class LargeEncoded(Protocol):
    """A large session in another format. `is_body`: it is one JSON value, not lines."""

    is_body: bool

    def survey(self, report: Callable[[int, Loss], None]) -> None:
        """Reads the file once, and reports the losses, each with its stage."""

    def parts(self) -> Iterator[bytes]:
        """The text; reads the file again."""


def encode_large(session: LargeSession, target: str, losses: LossSink) -> LargeEncoded | None:
    """Returns a session in another format, with its losses reported; None if it must be in memory for that."""
    try:
        return _encode_large(session, target, losses)
    except (_NotLocal, TooLong):
        return None


def _encode_large(session: LargeSession, target: str, losses: LossSink) -> LargeEncoded | None:
    form, wire, about = FORMATS.get(target), WIRES.get(target), session.about
    if session.is_partial and target == session.dialect and session.is_as_read:
        return LargeFile(session)
    if form is not None and form.copy is not None and about.extra.get(form.name):
        with contextlib.suppress(Unsupported):
            return _surveyed(LargeCopy(session, form), losses)
    elif session.is_partial and form is not None and templates.FILE in about.extra.get(form.name, {}):
        try:
            return _surveyed(LargeReturn(session, form), losses)
        except (InterlinguaError, LookupError, AttributeError, TypeError, ValueError):
            return None  # a hole without its text: reading it as a whole reports it
    elif form is not None and form.tree_writer is None and about.extra.get(form.name):
        return None
    if form is not None and form.tree_writer is not None:
        return _surveyed(LargeTree(session, form), losses)
    if wire is not None and (about.extra.get(wire.base) or about.extra.get(target)):
        return None
    if wire is None and (form is None or not (form.rows or form.writer)):
        return None
    survey = Survey()
    on_path = session.walk(survey.add)
    if wire is not None:
        return _surveyed(LargeBody(session, wire, on_path, survey), losses)
    assert form is not None
    if form.rows is None:
        return _surveyed(LargeEncoding(session, form, on_path, survey), losses)
    try:
        return _surveyed(LargeRow(session, form, on_path, survey), losses)
    except _ReadOtherwise:
        losses.clear()
        return _surveyed(LargeRow(session, form, on_path, survey, is_read_otherwise=True), losses)


def _surveyed(encoded: LargeEncoded, losses: LossSink) -> LargeEncoded:
    encoded.survey(losses.add)
    return encoded
