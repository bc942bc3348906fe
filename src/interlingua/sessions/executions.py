"""The recorded execution of tool calls.

The journal has a `tool_start` line for each call that started, and a `tool_end` line for one that ended before its
result was written. A written result is an entry; after a rewind it may be on another branch than the present path.
A call that has started must never run again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from ..values.errors import InterlinguaError
from ..values.messages import AgentMessage, AssistantMessage, ToolCall, ToolResultMessage
from .tree import ASSISTANT, ENTRY, JOURNAL, PLACES, RESULT, ROOT, USER, LinePlace, decode_line, read_line

START, END = "tool_start", "tool_end"
STATUS_UNKNOWN = "unknown"  # in the details of a result with an unknown outcome
UNKNOWN = (
    "It is not known whether this call took effect: the program ended while it was running. "
    "It was not run again. Check its effects before you repeat it."
)


class OpenCall(NamedTuple):
    """A call without a result on a path: the number of its entry, and how many earlier calls have its id."""

    number: int
    call: ToolCall
    occurrence: int


class Execution(NamedTuple):
    """The journal lines of a call, and its `toolResult` line, if one was saved."""

    start: dict[str, Any] | None = None
    end: dict[str, Any] | None = None
    result: dict[str, Any] | None = None

    @property
    def ended(self) -> bool:
        return self.end is not None or self.result is not None

    @property
    def started(self) -> bool:
        return self.start is not None or self.ended

    def notes(self, call: ToolCall, now: int) -> Iterator[dict[str, Any]]:
        """Journal lines that record this execution."""
        about = {"role": "journal", "kind": START, "callId": call.id, "name": call.name, "timestamp": now}
        if self.started:
            yield self.start or about
        if self.ended:
            yield self.end or {**about, "kind": END, "result": self.result}


def open_calls(path: Iterable[tuple[int, AgentMessage]]) -> Iterator[OpenCall]:
    """Calls without a result before the next response, in a path of numbered messages.

    Calls of failed responses do not count.
    """
    pending: list[OpenCall] = []
    for number, message in path:
        if isinstance(message, AssistantMessage):
            yield from pending
            failed = message.stop_reason in ("error", "aborted")
            pending = [] if failed else list(_calls(number, message))
        elif isinstance(message, ToolResultMessage):
            answered = next((one for one in pending if one.call.id == message.tool_call_id), None)
            if answered is not None:
                pending.remove(answered)
    yield from pending


def _calls(number: int, message: AssistantMessage) -> Iterator[OpenCall]:
    # Ids may repeat within a response: the first call of an id has the first result of it.
    before: Counter[str] = Counter()
    for call in message.tool_calls:
        yield OpenCall(number, call, before[call.id])
        before[call.id] += 1


class ExecutionLines(Protocol):
    """The part of `Log` that `Executions` uses."""

    def __len__(self) -> int: ...
    def place(self, number: int, /) -> LinePlace: ...
    def line(self, number: int, /) -> bytes: ...


class Executions:
    """The executions of the calls of one entry."""

    def __init__(self, log: "ExecutionLines", entry: int) -> None:
        self._log = log
        self._entry = entry
        self._starts: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._ends: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._results: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
        self._occurrences: dict[tuple[str, int], int] = {}  # of a call id and a result's number
        for number in self._below():
            self._take(number)

    def of(self, id: str, occurrence: int = 0) -> Execution:
        """The execution of the call with an id; `occurrence` distinguishes several calls of one id."""
        start, end = (next(iter(lines[id][occurrence:]), None) for lines in (self._starts, self._ends))
        recorded = None if end is None or not isinstance(end.get("result"), dict) else end["result"]
        results = [*self._results[id, occurrence], *([] if recorded is None else [recorded])]
        result = min(results, key=_is_unknown, default=None)
        return Execution(start, end if result is recorded else None, result)

    def _below(self) -> Iterator[int]:
        """Journal lines, and results below the entry: in the same turn, or later but before the next response."""
        late_below = {self._entry: False}  # entries of the turn, and whether a user message is between
        for number in range(self._entry + 1, len(self._log)):
            kind, parent, _ = self._log.place(number)
            if kind == JOURNAL:
                yield number
            late = late_below.get(parent)
            if kind < ENTRY or late is None or (late and kind == ASSISTANT):
                continue
            late_below[number] = late or kind == USER
            if kind == RESULT:
                yield number

    def _take(self, number: int) -> None:
        kind = self._log.place(number).kind
        try:
            line = read_line(self._log.line(number))
        except InterlinguaError:
            return
        id = line.get("callId" if kind == JOURNAL else "toolCallId")
        if not isinstance(id, str) or not self._answers(number, id):
            return
        if kind == RESULT:
            self._results[id, self._occurrences[id, number]].append(_without_place(line))
        elif line.get("kind") == START:
            self._starts[id].append(_without_place(line))
        elif line.get("kind") == END:
            self._ends[id].append(_without_place(line))

    def _answers(self, number: int, id: str) -> bool:
        """Whether a line is about a call of this entry, and not of another response that uses the same id.

        A journal line below no such response may be about any: its writer recorded no `parentId`.
        """
        kind, at, _ = self._log.place(number)
        while at > ROOT and at != self._entry and (id, at) not in self._occurrences:
            above = self._log.place(at)
            if above.kind == ASSISTANT and id in _call_ids(self._log.line(at)):
                return False
            at = above.parent
        if kind == RESULT:
            self._occurrences[id, number] = self._occurrences.get((id, at), -1) + 1
        return True


def _without_place(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in PLACES}


def _call_ids(raw: bytes) -> set[str]:
    try:
        message: AgentMessage = decode_line(raw).message
    except InterlinguaError:
        return set()
    return {call.id for call in message.tool_calls} if isinstance(message, AssistantMessage) else set()


def _is_unknown(result: dict[str, Any]) -> bool:
    details = result.get("details")
    return isinstance(details, dict) and details.get("status") == STATUS_UNKNOWN
