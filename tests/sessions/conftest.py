"""The store of a test: in files, then in SQLite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlingua.sessions import Store, store_at


@pytest.fixture(params=["files", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = store_at(None, tmp_path) if request.param == "files" else store_at(f"sqlite:{tmp_path / 'sessions.db'}")
    yield made
    made.close()
