"""A provider that sends its answers in small pieces."""

from collections.abc import Iterator

import pytest

from interlingua.testing import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(chunk=4) as running:
        yield running
