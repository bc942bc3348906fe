"""Search and deletion on a real PostgreSQL server, which `interop/postgres_sessions.py` starts."""

import contextlib
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from canvas.driving import Browser
from interlingua.canvas.library import Library
from interlingua.canvas.server import Canvas
from interlingua.sessions import Session, SessionNotFound, Store, store_at
from interlingua.sessions.gc import delete, find_deleted, purge_one, restore

pytestmark = pytest.mark.skipif(
    not shutil.which("initdb") or sys.platform == "win32", reason="no PostgreSQL server is installed"
)
PROGRAM = Path(__file__).parents[2] / "interop" / "postgres_sessions.py"


@pytest.fixture(scope="module")
def interop() -> Any:
    spec = importlib.util.spec_from_file_location("postgres_sessions", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def address(interop: Any) -> Iterator[str]:
    place = interop.programs()
    assert place is not None
    with interop.server(place) as address:
        yield address


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    with contextlib.closing(store_at(address)) as store:
        yield store


def test_searches_and_filters_find_what_the_index_beside_files_finds(interop: Any, address: str) -> None:
    """By role, tool, model, failure, cost, time and store; at first, after more was written, after a deletion."""
    interop.searching(address)


async def test_the_canvas_filters_and_restores(interop: Any, store: Store, tmp_path: Path) -> None:
    """Over HTTP, on sessions of the server: the values to filter by, each filter, the list of deleted sessions."""
    for name in ("one", "two"):
        with Session.open(name, agent="search", store=store) as session:
            interop.talk(session, name)
    async with Canvas(Library(tmp_path, store), port=0) as canvas, Browser(canvas.link()) as browser:
        canvas.finder.follow()
        assert {
            "roles": ["assistant", "toolResult", "user"],
            "tools": ["exec"],
            "models": ["last-one", "last-two", "m-1"],
        } == await browser.get("/api/filters")
        for query, total in (
            ("q=lease", 6),
            ("role=user", 2),
            ("tool=exec", 4),
            ("model=last-two", 1),
            ("error=true", 2),
            ("minCost=0.5", 2),
            ("minCost=1", 1),
            ("role=user&tool=exec", 0),
            ("q=lease&source=watch", 0),
            ("role=%00", 0),
            (f"from={10**30}", 0),
            (f"q=lease&until={10**30}", 6),
        ):
            assert total == (await browser.get(f"/api/search?{query}"))["total"], query
        key = "own~search~two"
        gone = await browser.post(f"/api/sessions/{key}", method="DELETE")
        assert 3 == (await browser.get("/api/search?q=lease"))["total"]
        assert ["last-one", "m-1"] == (await browser.get("/api/filters"))["models"]
        (listed,) = (await browser.get("/api/deleted"))["sessions"]
        assert (key, gone["at"], 4) == (listed["key"], listed["at"], listed["messages"])
        await browser.post(f"/api/sessions/{key}/restore", {"at": gone["at"]})
        canvas.finder.follow()
        assert 6 == (await browser.get("/api/search?q=lease"))["total"]


def test_a_name_that_was_deleted_twice(store: Store) -> None:
    """Each deletion is listed, restored and purged on its own."""
    for text in ("first", "second"):
        with Session.open("s", store=store) as session:
            session.append(il.UserMessage(content=text))
        delete(store, "main", "s")
    old, new = sorted(store.trashed("main"), key=lambda one: one.at)
    assert ["first", "second"] == [store.trashed_info("main", one).title for one in (old, new)]
    purge_one(store, "main", new)
    with pytest.raises(SessionNotFound):
        purge_one(store, "main", new)
    assert old == find_deleted(store, "main", "s")
    restore(store, "main", "s")
    assert ["first"] == [info.title for info in store.sessions("main")]
