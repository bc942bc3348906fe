"""Compacted conversations as the model reads them: the summary in place of the earlier history.

The path of such a conversation is what its program shows, with the whole history. A request, and a session that another
program resumes, contain what the model was given instead.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..dialects import FORMATS, dialect
from ..values.errors import InterlinguaError
from ..values.losses import Loss
from ..values.messages import AgentMessage, CustomMessage, SystemMessage, UserMessage
from ..values.request import Conversation, Entry
from ..values.summaries import ROLE, first_kept_of, latest_summary, summary_of

_PLACE = re.compile(r"\$\.messages\[(\d+)\](.*)", re.DOTALL)


class CompactedView(NamedTuple):
    """The conversation as the model reads it, the source index of each message, and the losses of omitted history."""

    conversation: Conversation
    places: tuple[int, ...]
    losses: tuple[Loss, ...]

    def seen_from(self, losses: Iterable[Loss]) -> Iterator[Loss]:
        """Maps the paths of losses to the source."""
        return (seen_from(loss, self.places) for loss in losses)


def seen_from(loss: Loss, places: Sequence[int]) -> Loss:
    """Returns a loss of what the model reads with its path in the source; `places` are those of the messages there."""
    found = _PLACE.fullmatch(loss.path)
    return loss if found is None else replace(loss, path=f"$.messages[{places[int(found[1])]}]{found[2]}")


def shifted(loss: Loss, first: int) -> Loss:
    """Returns a loss of a piece of a history with its path in the history; `first` is the place of the piece."""
    found = _PLACE.fullmatch(loss.path) if first else None
    return loss if found is None else replace(loss, path=f"$.messages[{first + int(found[1])}]{found[2]}")


def compacted(conversation: Conversation) -> CompactedView | None:
    """Returns what the model reads at the head; None if nothing was compacted."""
    path = conversation.path()
    at = latest_summary(path)
    if at is None:
        return None
    compaction = CompactionRecord(path[at].message)
    pairs: list[tuple[int, AgentMessage]] = [(at, message) for message in compaction.first]
    pairs += [(place, path[place].message) for place in range(at) if compaction.keeps(path[place])]
    pairs += [(at, message) for message in compaction.last]
    pairs += [(place, path[place].message) for place in range(at + 1, len(path))]
    places = tuple(place for place, _ in pairs)
    kept = set(places)
    lost = tuple(omitted(place) for place in range(at) if place not in kept)
    entries = tuple(Entry(message=message) for _, message in pairs)  # type: ignore[arg-type]
    return CompactedView(replace(conversation, entries=entries, head=None), places, (*lost, replaced(at)))


def omitted(place: int) -> Loss:
    """Returns the loss of a message on the path for which the model read the summary."""
    return Loss(f"$.messages[{place}]", "compacted history", "the model read a summary in its place", "record")


def replaced(place: int) -> Loss:
    """Returns the loss of the compaction itself."""
    return Loss(f"$.messages[{place}]", "compaction", "sent as the message that the model read", "record")


class CompactionRecord:
    """What a compaction leaves of the history before it.

    The model reads the messages `first`, then those before it that it `keeps`, then the messages `last`.
    """

    def __init__(self, message: AgentMessage) -> None:
        summary = summary_of(message)
        assert summary is not None and isinstance(message, CustomMessage)
        self.first: tuple[AgentMessage, ...] = ()
        self.last: tuple[AgentMessage, ...] = ()
        self._first_kept = first_kept_of(message)
        # pi's version 1: lines have no ids; 0 is the header.
        self._lines: Any = message.fields.get("firstKeptEntryIndex")
        self._is_kept = False
        self._kinds: tuple[type, ...] = ()
        if message.role == ROLE:
            self.first = (summary,)
            return
        replaced = replacement(message)
        self.last = replaced or ()
        if replaced is None:
            # codex-rs/core/src/compact.rs, `build_compacted_history`: instructions and questions, then the summary.
            self.last, self._kinds = (summary,), (UserMessage, SystemMessage)

    def keeps(self, entry: Entry) -> bool:
        """Whether the model reads the next entry before the compaction."""
        if self.first and self._first_kept is not None:
            self._is_kept = self._is_kept or entry.id == self._first_kept
        elif self.first and entry.id is None and isinstance(self._lines, int) and self._lines > 0:
            self._lines -= 1
            self._is_kept = self._lines == 0
        return self._is_kept or isinstance(entry.message, self._kinds)


def replacement(message: CustomMessage) -> tuple[AgentMessage, ...] | None:
    """Returns the history that newer versions of Codex write beside the summary, as items of the Responses wire.

    It may be empty; None if there is none.
    """
    payload: Any = message.fields.get("payload")
    items = payload.get("replacement_history") if isinstance(payload, dict) else None
    if not isinstance(items, list):
        return None
    try:
        return dialect(str(FORMATS["codex-cli"].adapted_for)).decode_request({"input": items}).context.messages
    except InterlinguaError:
        return None
