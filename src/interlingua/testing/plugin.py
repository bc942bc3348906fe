"""The pytest fixtures: `pytest_plugins = ["interlingua.testing.plugin"]` in the conftest.py at the root."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..conversion.sources import read
from ..sessions.session import Session
from .server import Server

MARK = "conversations(*patterns): run the test with each conversation of these files, as `interlingua_conversation`"


@pytest.fixture
def interlingua_server() -> Iterator[Server]:
    """A server for one test, on its own port; by default it echoes the last user message."""
    with Server() as server:
        yield server


@pytest.fixture
def interlingua_session(tmp_path: Path) -> Iterator[Session]:
    """An empty session for one test, in its own folder."""
    with Session.open("test", home=tmp_path / "interlingua") as session:
        yield session


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that takes `interlingua_conversation` once for each conversation of the files that its mark names.

    Patterns are relative to the folder of the test. A pattern that matches no file is an error.
    """
    name = "interlingua_conversation"
    if name not in metafunc.fixturenames:
        return
    patterns = [pattern for mark in metafunc.definition.iter_markers("conversations") for pattern in mark.args]
    if not patterns:
        raise pytest.UsageError(f'{metafunc.definition.nodeid}: {name} needs @pytest.mark.conversations("FILES")')
    folder = metafunc.definition.path.parent
    cases = []
    for pattern in patterns:
        files = sorted(folder.glob(pattern))
        if not files:
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: no file matches {pattern!r} in {folder}")
        for file in files:
            cases += [
                pytest.param(conversation, id=f"{file.name}:{number}")
                for number, conversation in enumerate(read(file), 1)
            ]
    metafunc.parametrize(name, cases)
