"""No test leaves a plugin behind."""

import sys
from collections.abc import Iterator

import pytest

from interlingua.dialects import DIALECTS


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """No test leaves a plugin's module or dialect behind."""
    modules, dialects = set(sys.modules), dict(DIALECTS)
    yield
    for name in [name for name in sys.modules if name.startswith("interlingua_plugin_") and name not in modules]:
        del sys.modules[name]
    assert dialects == DIALECTS
