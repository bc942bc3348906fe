"""Compacted conversations as the model reads them: the summary in place of the earlier history.

The path of such a conversation is what its program shows, with the whole history. A request, and a session that another
program resumes, contain what the model was given instead.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..dialects import FORMATS, dialect
from ..values.errors import InterlinguaError
from ..values.losses import Loss
from ..values.messages import AgentMessage, CustomMessage, SystemMessage, UserMessage
from ..values.request import Conversation, Entry
from ..values.summaries import first_kept_of, latest_summary, summary_of

_PLACE = re.compile(r"\$\.messages\[(\d+)\](.*)", re.DOTALL)


class Compacted(NamedTuple):
    """The conversation as the model reads it, the source index of each message, and the losses of omitted history."""

    conversation: Conversation
    places: tuple[int, ...]
    losses: tuple[Loss, ...]

    def seen_from(self, losses: Iterable[Loss]) -> Iterator[Loss]:
        """Maps the paths of losses to the source."""
        for loss in losses:
            found = _PLACE.fullmatch(loss.path)
            place = None if found is None else self.places[int(found[1])]
            yield loss if found is None else replace(loss, path=f"$.messages[{place}]{found[2]}")


def compacted(conversation: Conversation) -> Compacted | None:
    """Returns what the model reads at the head; None if nothing was compacted."""
    path = conversation.path()
    at = latest_summary(path)
    if at is None:
        return None
    pairs = [*_before(path, at), *((place, path[place].message) for place in range(at + 1, len(path)))]
    places = tuple(place for place, _ in pairs)
    why = "the model read a summary in its place"
    lost = tuple(
        Loss(f"$.messages[{place}]", "compacted history", why, "record") for place in range(at) if place not in places
    )
    note = Loss(f"$.messages[{at}]", "compaction", "sent as the message that the model read", "record")
    entries = tuple(Entry(message=message) for _, message in pairs)  # type: ignore[arg-type]
    return Compacted(replace(conversation, entries=entries, head=None), places, (*lost, note))


def _before(path: tuple[Entry, ...], at: int) -> Iterator[tuple[int, AgentMessage]]:
    """Yields the summary and the messages kept beside it, each with its source index."""
    message: Any = path[at].message
    summary = summary_of(message)
    assert summary is not None
    if message.role == "compaction":
        kept = first_kept_of(message)
        first = next((place for place in range(at) if kept is not None and path[place].id == kept), at)
        yield at, summary
        yield from ((place, path[place].message) for place in range(first, at))
        return
    replaced = _replacement(message)
    if replaced:
        yield from ((at, one) for one in replaced)
        return
    # codex-rs/core/src/compact.rs, `build_compacted_history`: instructions and questions, then the summary.
    for place in range(at):
        if isinstance(path[place].message, UserMessage | SystemMessage):
            yield place, path[place].message
    yield at, summary


def _replacement(message: CustomMessage) -> tuple[AgentMessage, ...]:
    """Returns the history that newer versions of Codex write beside the summary, as items of the Responses wire."""
    items = message.fields["payload"].get("replacement_history")
    if not isinstance(items, list) or not items:
        return ()
    try:
        return dialect(str(FORMATS["codex-cli"].adapted_for)).decode_request({"input": items}).context.messages
    except InterlinguaError:
        return ()
