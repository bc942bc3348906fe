"""Three bridges and tools on them. The third bridge knows the protocol and nothing else."""

from pathlib import Path

import pytest

from interlingua.tools.fs import local_bridge, memory_bridge
from interlingua.tools.tool import FsBridge, ToolContext
from tools.fs.bridges import Call, DictBridge, caller


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory to be the root, with room beside it for what must stay out of reach."""
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture(params=["local", "memory", "dict"])
def bridge(request: pytest.FixtureRequest, root: Path) -> FsBridge:
    if request.param == "local":
        return local_bridge(root)
    return memory_bridge() if request.param == "memory" else DictBridge()


@pytest.fixture
def call(bridge: FsBridge) -> Call:
    """Calls a tool on each of the bridges."""
    return caller(ToolContext(bridge=bridge))


@pytest.fixture
def call_local(root: Path) -> Call:
    """Calls a tool on a directory of this machine."""
    return caller(ToolContext(root=str(root)))
