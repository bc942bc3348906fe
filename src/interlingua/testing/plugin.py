"""The pytest fixture: `pytest_plugins = ["interlingua.testing.plugin"]` in the conftest.py at the root."""

from collections.abc import Iterator

import pytest

from .server import Server


@pytest.fixture
def interlingua_server() -> Iterator[Server]:
    """A server for one test, on a port of its own; it repeats the user's words until told otherwise."""
    with Server() as server:
        yield server
