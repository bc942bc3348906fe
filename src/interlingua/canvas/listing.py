"""What the gallery says of sessions, and how they hang together: forks, linked forks, sub-agents."""

import contextlib
import threading
import time
from collections.abc import Iterable

from msgspec.structs import replace

from ..sessions import SessionInfo
from ..sessions.cards import Card, card_of
from ..values.errors import InterlinguaError
from .finding import Finder
from .library import Library, Place
from .shapes import ForkedFrom, SessionView, SpawnedBy
from .trees import Tree

_FRESH = 1.0  # seconds for which a list of all sessions is taken as it was
_AT_ONCE = 4 << 20  # bytes of a session whose card is made while somebody waits


class Describer:
    """Views of sessions, from what a list knows and from cards, which are kept until their session changes."""

    def __init__(self, library: Library, finder: Finder) -> None:
        self._library = library
        self._finder = finder
        self._cards: dict[str, tuple[tuple[int, int], Card]] = {}
        self._lock = threading.Lock()
        self._places: list[Place] = []
        self._looked = 0.0

    def places(self, *, fresh: bool = False) -> list[Place]:
        """All sessions, as of a moment ago."""
        with self._lock:
            if fresh or time.monotonic() - self._looked > _FRESH:
                self._places = list(self._library.places())
                self._looked = time.monotonic()
            return self._places

    def view(self, place: Place, *, wait: bool = True) -> SessionView:
        """A session in the list; what takes long to find out is left out unless `wait`."""
        info = place.info or self._info(place)
        card = self.card(place, info, wait=wait) or Card()
        name = place.name or place.id
        return SessionView(
            key=place.key,
            title=info.title or name,
            titled=False,
            source=place.source,
            group=place.group,
            project=place.project,
            written_as=place.written_as,
            models=card.models or ((info.model,) if info.model else ()),
            messages=info.messages,
            branches=card.branches,
            size=info.size,
            created=info.created,
            modified=info.modified,
            cost=card.cost,
            unpriced=card.unpriced,
            bad_lines=info.bad_lines,
            problems=card.problems + len(place.problems),
            read_only=place.read_only,
            forked_from=self._forked_from(place, info),
            spawned_by=self._spawned_by(place, info),
            shape=card.shape,
            rated=card.rated,
            notes=card.notes,
        )

    def _info(self, place: Place) -> SessionInfo:
        for known in self.places(fresh=True):
            if known.key == place.key and known.info is not None:
                return known.info
        return SessionInfo(id=place.id, agent=place.agent)

    def card(self, place: Place, info: SessionInfo, *, wait: bool) -> Card | None:
        stamp = (info.size, info.modified)
        known = self._cards.get(place.key)
        if known is not None and known[0] == stamp:
            return known[1]
        indexed = self._finder.card(place)
        if indexed is not None and (indexed[:2] == stamp or known is None):
            known = self._cards[place.key] = ((indexed[0], indexed[1]), indexed[2])
            if indexed[:2] == stamp:
                return known[1]
        if not wait or info.size > _AT_ONCE:
            return known[1] if known is not None else None
        with contextlib.suppress(InterlinguaError, OSError), self._library.open(place) as session:
            self._cards[place.key] = (stamp, card_of(session))
            return self._cards[place.key][1]
        return None

    # --- how they hang together --------------------------------------------------------------------------------------

    def links_of(self, place: Place) -> list[Place]:
        """The sessions that go on for one that could not be written."""
        return [
            other
            for other in self.places()
            if other.info is not None and other.info.linked and other.info.forked_from == place.id
        ]

    def spawned_of(self, place: Place, tree: Tree) -> dict[str, list[str]]:
        """By entry, the sessions of the sub-agents that it started."""
        found: dict[str, list[str]] = {}
        for other in self.places():
            origin = other.spawned_by or (other.info.spawned_by if other.info is not None else None)
            if origin is not None and origin.session == place.id:
                entry = tree.spawner(origin.call_id, origin.entry)
                if entry is not None:
                    found.setdefault(entry, []).append(other.key)
        return found

    def _by_id(self, ids: Iterable[str]) -> dict[str, str]:
        wanted = set(ids)
        return {place.id: place.key for place in self._places if place.id in wanted}

    def _forked_from(self, place: Place, info: SessionInfo) -> ForkedFrom | None:
        if info.forked_from is None:
            return None
        key = self._by_id([info.forked_from]).get(info.forked_from)
        return ForkedFrom(key=key, entry=info.forked_at) if key is not None else None

    def _spawned_by(self, place: Place, info: SessionInfo) -> SpawnedBy | None:
        origin = place.spawned_by or info.spawned_by
        if origin is None:
            return None
        key = self._by_id([origin.session]).get(origin.session)
        return SpawnedBy(session=origin.session, key=key, entry=origin.entry, call_id=origin.call_id)

    def forget(self, key: str) -> None:
        self._cards.pop(key, None)
        self._looked = 0.0


def searched(view: SessionView, message: str) -> bool:
    """Whether every word is in the title, the group or a model of a session."""
    text = " ".join((view.title, view.group, view.project or "", view.written_as, *view.models)).lower()
    return all(word in text for word in message.lower().split())


def without_shape(view: SessionView) -> SessionView:
    return replace(view, shape=())
