"""A home with runs and workers, which end with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable.making import Yard


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.close()
