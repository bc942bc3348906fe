"""The list of sessions: search over all of them, descriptions, and relations between them."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Iterable
from typing import Any

from ..sessions import Session, SessionInfo
from ..sessions.cards import Card, card_of
from ..sessions.sql import SqlStore
from ..sessions.text_index import IndexProgress, Results, TextHit, TextIndex
from ..sessions.texts import Query
from ..values.errors import InterlinguaError
from .library import CLIENT, FILES, GATEWAY, Library, SessionPlace
from .shapes import FilterValues, ForkedFrom, Hit, IndexState, SearchResult, SessionView, SnippetPart, SpawnedByView
from .trees import Tree

# --- search ----------------------------------------------------------------------------------------------------------
#
# Search over everything that the canvas shows, and its index, which follows the sessions.


OWN, CACHE = "own", "cache"
PAUSE = 2.0  # seconds between updates, while there are changes
IDLE_PAUSE = 30.0  # without changes
LONGEST_PAUSE = 10.0  # under constant changes: one pass is cheaper, and does not slow the writers down
_log = logging.getLogger(__name__)


class Finder:
    """The search index of a library. Indexing runs in its own thread; searching never waits for it."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._indexes: list[Any] = []
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self.progress = IndexProgress(0, 0)
        self.is_following = False

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._follow())

    async def stop(self) -> None:
        self._stopping.set()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        with self._lock:
            for index in self._indexes:
                index.close()

    def wake(self) -> None:
        """Signals that there are changes."""
        self._wake.set()

    async def _follow(self) -> None:
        while True:
            self._wake.clear()
            self.is_following = True
            before = self.progress
            thread = asyncio.ensure_future(asyncio.to_thread(self.follow))
            try:
                await asyncio.shield(thread)
            except asyncio.CancelledError:
                await asyncio.wait({thread})  # it was stopped, and must not write after this
                raise
            except Exception as error:
                _log.warning("the search index could not be updated: %s", error)
            finally:
                self.is_following = False
            pause = PAUSE if self.progress != before else IDLE_PAUSE
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
                await self._until_quiet()

    async def _until_quiet(self) -> None:
        """Waits while further changes arrive."""
        last = time.monotonic() + LONGEST_PAUSE
        while self._wake.is_set() and time.monotonic() < last:
            self._wake.clear()
            await asyncio.sleep(PAUSE)

    def follow(self) -> None:
        """Updates the index; runs in a thread."""
        with self._lock:
            done = [index.follow(progress=self._note, stop=self._stopping.is_set) for index in self._opened()]
        self.progress = IndexProgress(sum(one.done for one in done), sum(one.total for one in done))

    def _note(self, progress: IndexProgress) -> None:
        self.progress = progress

    def _opened(self) -> list[Any]:
        """Opens the index: the sessions' own database if it can search, else an index beside the files."""
        with self._opening:
            if not self._indexes:
                library = self._library
                stores = {OWN: library.store, CACHE: library.cache.store}
                found: list[Any] = []
                if isinstance(library.store, SqlStore) and library.store.database.where.startswith("postgresql"):
                    from ..sessions.postgres_index import PostgresTextIndex

                    found.append(PostgresTextIndex(library.store, OWN))
                    del stores[OWN]
                self._indexes = [*found, TextIndex(library.folder / "search.db", stores)]
            return self._indexes

    def state(self) -> IndexState:
        state = "indexing" if self.is_following and self.progress.done < self.progress.total else "ready"
        return IndexState(state=state, done=self.progress.done, total=self.progress.total)  # type: ignore[arg-type]

    def card(self, place: SessionPlace) -> tuple[int, int, Card] | None:
        """Returns the card of a session when it was last indexed, with its size and time then."""
        store = CACHE if place.read_only else OWN
        with contextlib.suppress(InterlinguaError):
            for index in self._indexes:
                found: tuple[int, int, Card] | None = index.card(store, place.agent, place.id)
                if found is not None:
                    return found
        return None

    def forget(self, store: str, agent: str, id: str, session: Session | None = None) -> None:
        """Removes a session from the index; given the session itself, erases its texts too."""
        for index in self._opened():
            index.forget(store, agent, id, session)

    def forget_place(self, place: SessionPlace) -> None:
        with contextlib.suppress(InterlinguaError), self._library.open(place) as session:
            self.forget(CACHE if place.read_only else OWN, place.agent, place.id, session)

    # --- searching ---------------------------------------------------------------------------------------------------

    def search(self, query: Query, within: SessionPlace | None = None) -> SearchResult:
        """Returns hits in everything that is shown, the latest first; within one session, in log order."""
        began = time.perf_counter()
        results = [index.search(query) for index in self._opened()]
        found = [hit for one in results for hit in one.hits]
        places = {(place.agent, place.id): place for place in self._library.known()}
        shown = [(hit, place) for hit in found if (place := self._place(hit, places)) is not None]
        if within is not None:
            shown.sort(key=lambda pair: pair[0].line)
        numbers = self._numbers(shown)
        hits = tuple(_hit(hit, place, numbers.get((place.key, hit.text.entry))) for hit, place in shown)
        further = _next(results)
        return SearchResult(
            hits=hits,
            total=sum(one.total for one in results),
            sessions=sum(one.sessions for one in results),
            ms=int((time.perf_counter() - began) * 1000),
            next=str(further) if further is not None else None,
            index=self.state(),
        )

    def filters(self) -> FilterValues:
        """The roles, tools and models of everything that is indexed."""
        found = [index.filters() for index in self._opened()]
        roles, tools, models = (tuple(sorted({name for one in found for name in one[at]})) for at in range(3))
        return FilterValues(roles=roles, tools=tools, models=models)

    def _numbers(self, shown: list[tuple[TextHit, SessionPlace]]) -> dict[tuple[str, str], int]:
        """The positions of the messages of hits on their paths."""
        entries: dict[str, tuple[SessionPlace, list[str]]] = {}
        for hit, place in shown:
            entries.setdefault(place.key, (place, []))[1].append(hit.text.entry)
        found: dict[tuple[str, str], int] = {}
        for place, ids in entries.values():
            with contextlib.suppress(InterlinguaError), self._library.open(place) as session:
                found |= {(place.key, id): number for id, number in session.message_numbers(ids).items()}
        return found

    def _place(self, hit: TextHit, opened: dict[tuple[str, str], SessionPlace]) -> SessionPlace | None:
        if hit.store == OWN:
            return self._library.place(self._library.own_key(hit.agent, hit.id))
        return opened.get((hit.agent, hit.id))


def _hit(hit: TextHit, place: SessionPlace, number: int | None) -> Hit:
    text = hit.text
    return Hit(
        key=place.key,
        title=hit.title or place.name or place.id,
        entry=text.entry,
        block=text.block,
        role=text.role,
        kind=text.kind,  # type: ignore[arg-type]
        tool=text.tool,
        model=text.model,
        at=text.at,
        number=number,
        snippet=tuple(SnippetPart(text=piece.text, hit=piece.is_hit) for piece in hit.snippet),
    )


def _next(results: list[Results]) -> int | None:
    offsets = [one.next for one in results if one.next is not None]
    return min(offsets) if offsets else None


def scope(source: str | None) -> dict[str, Any]:
    """Returns the search filter for a source of the side list."""
    match source:
        case "own" | "client" | "gateway":
            agent = {"client": CLIENT, "gateway": GATEWAY}.get(source)
            return {"stores": (OWN,)} | ({"agent": agent} if agent else {})
        case "file":
            return {"stores": (CACHE,), "agent": FILES}
        case "watch":
            return {"stores": (CACHE,)}
        case _:
            return {}


# --- descriptions ----------------------------------------------------------------------------------------------------
#
# Sessions in the gallery, and their relations: forks, linked forks, sub-agents.


_FRESH = 1.0  # seconds for which a list of all sessions is cached
_AT_ONCE = 4 << 20  # bytes of a session whose card is computed synchronously


class Describer:
    """Views of sessions, from list data and cards, which are cached until their session changes."""

    def __init__(self, library: Library, finder: Finder) -> None:
        self.library = library
        self._finder = finder
        self._cards: dict[str, tuple[tuple[int, int], Card]] = {}
        self._lock = threading.Lock()
        self._places: list[SessionPlace] = []
        self._looked = 0.0

    def places(self, *, fresh: bool = False) -> list[SessionPlace]:
        """Returns all sessions, from a recent list."""
        with self._lock:
            if fresh or time.monotonic() - self._looked > _FRESH:
                # Before reading: a change that is reported meanwhile makes this list outdated at once.
                self._looked = time.monotonic()
                self._places = list(self.library.places())
            return self._places

    def view(self, place: SessionPlace, *, wait: bool = True) -> SessionView:
        """Returns a session for the list; slow parts are omitted unless `wait`."""
        info = place.info or self._info(place)
        card = self.card(place, info, wait=wait) or Card()
        name = place.name or ("New session" if not info.messages else place.id)
        return SessionView(
            key=place.key,
            title=info.title or name,
            titled=False,
            source=place.source,
            group=place.group,
            project=place.project or (place.name if place.source == "file" else None),
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
            forked_from=self._forked_from(info),
            spawned_by=self._spawned_by(place, info),
            shape=card.shape,
            rated=card.rated,
            notes=card.notes,
        )

    def _info(self, place: SessionPlace) -> SessionInfo:
        for known in self.places(fresh=True):
            if known.key == place.key and known.info is not None:
                return known.info
        return SessionInfo(id=place.id, agent=place.agent)

    def card(self, place: SessionPlace, info: SessionInfo, *, wait: bool) -> Card | None:
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
        with contextlib.suppress(InterlinguaError, OSError), self.library.open(place) as session:
            self._cards[place.key] = (stamp, card_of(session))
            return self._cards[place.key][1]
        return None

    # --- relations ---------------------------------------------------------------------------------------------------

    def links_of(self, place: SessionPlace) -> list[SessionPlace]:
        """Returns the linked forks of a session that could not be written."""
        return [
            other
            for other in self.places()
            if other.info is not None and other.info.linked and other.info.forked_from == place.id
        ]

    def open_tree(self, place: SessionPlace) -> Tree:
        """Opens the tree of a session with its linked forks, and the sub-agents that its entries started."""
        tree = Tree(self.library, place)
        for link in self.links_of(place):
            tree.link(link.key, link)
        tree.set_spawned(self.spawned_of(place, tree))
        tree.refresh()
        return tree

    def spawned_of(self, place: SessionPlace, tree: Tree) -> dict[str, list[str]]:
        """Returns, by entry, the sessions of the sub-agents that it started."""
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

    def _forked_from(self, info: SessionInfo) -> ForkedFrom | None:
        if info.forked_from is None:
            return None
        key = self._by_id([info.forked_from]).get(info.forked_from)
        return ForkedFrom(key=key, entry=info.forked_at) if key is not None else None

    def _spawned_by(self, place: SessionPlace, info: SessionInfo) -> SpawnedByView | None:
        origin = place.spawned_by or info.spawned_by
        if origin is None:
            return None
        key = self._by_id([origin.session]).get(origin.session)
        return SpawnedByView(session=origin.session, key=key, entry=origin.entry, call_id=origin.call_id)

    def forget(self, key: str) -> None:
        self._cards.pop(key, None)
        self._looked = 0.0


def searched(view: SessionView, message: str) -> bool:
    """Whether every word is in the title, the group or a model of a session."""
    text = " ".join((view.title, view.group, view.project or "", view.written_as, *view.models)).lower()
    return all(word in text for word in message.lower().split())
