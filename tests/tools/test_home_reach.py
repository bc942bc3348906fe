"""The folder of keys and settings is in no tool's reach, also if the root contains it."""

from pathlib import Path
from typing import Any

import pytest

from interlingua.tools.calling import call_tool
from interlingua.tools.fs import local_bridge
from interlingua.tools.tool import ToolContext
from interlingua.values.errors import ToolInputError
from tools.test_path_access import calls, text_of, tools

KEY = "the-word-nobody-may-see"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with Interlingua's folder in it, and doors to that folder."""
    home = tmp_path / "me/.interlingua"
    home.mkdir(parents=True)
    monkeypatch.setenv("INTERLINGUA_HOME", str(home))
    (home / "credentials.json").write_text(KEY)
    (home / "models.toml").write_text(KEY)
    (tmp_path / "me/door").symlink_to(".interlingua")
    (tmp_path / "me/key.txt").symlink_to(".interlingua/credentials.json")
    (tmp_path / "fine.txt").write_text("fine")
    return tmp_path


@pytest.mark.parametrize("path", [
    *("me/.interlingua", "me/.interlingua/credentials.json", "me/.interlingua/models.toml", "me/.interlingua/new.txt"),
    *("me/door", "me/door/credentials.json", "me/door/models.toml", "me/key.txt", "me/door/new/new.txt", "@me/key.txt"),
    *("{root}/me/.interlingua/models.toml", "file://{root}/me/door/models.toml"),
    "me/./.interlingua/../door/models.toml",
])  # fmt: skip
async def test_no_tool_reaches_the_folder_of_keys(place: Path, path: str, record_property: Any) -> None:
    """Reading, listing, searching, writing and moving are refused there under no policy at all."""
    home, made = place / "me/.interlingua", tools(ToolContext(root=str(place)))
    tried = calls(path.format(root=place))
    for name, params in [
        *tried,
        ("grep", {"pattern": "nobody"}),
        ("find", {"pattern": "*.json"}),
        ("find", {"pattern": "models*"}),
    ]:
        result = await call_tool(made[name], "1", params)
        assert KEY not in text_of(result), (name, params)
        assert {"credentials.json": KEY, "models.toml": KEY} == {file.name: file.read_text() for file in home.iterdir()}
        assert "credentials.json\n" not in result.text
    record_property("tried", len(tried))


async def test_a_root_inside_the_folder_is_a_root(place: Path) -> None:
    """Workspaces that are kept in the folder can be used; the folder itself as a root gives nothing away."""
    inside = place / "me/.interlingua/workspace"
    inside.mkdir()
    (inside / "x.txt").write_text("fine")
    assert "fine" == await local_bridge(inside).read_file("x.txt")
    with pytest.raises(ToolInputError, match="keys and settings"):
        await local_bridge(place / "me/.interlingua").read_file("credentials.json")
