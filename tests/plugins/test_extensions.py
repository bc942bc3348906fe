"""Extensions: what their manifests say, with no code run."""

import json
from pathlib import Path

from interlingua.plugins import (
    ExtensionInfo,
    discover_extensions,
    get_extension_path,
    list_channel_extensions,
    list_provider_extensions,
)
from plugins.making import plugin


def test_extensions_are_read_from_their_manifests(tmp_path: Path) -> None:
    """Name, words, channels, providers and entry are known; a folder without a name is called by its own."""
    plugin(tmp_path, "discord", None, folder="x-discord", channels=["discord"], manifest="openclaw.plugin.json")
    plugin(tmp_path, "brain", "raise SystemExit", name="Brain", description="Thinks", providers=["brain"])
    (tmp_path / "x-discord" / "index.ts").write_text("")
    found = discover_extensions(tmp_path)
    assert found == [
        ExtensionInfo(
            id="brain",
            name="Brain",
            description="Thinks",
            providers=("brain",),
            path=str(tmp_path / "brain"),
            entry_point=str(tmp_path / "brain" / "plugin.py"),
        ),
        ExtensionInfo(
            id="discord",
            name="x-discord",
            channels=("discord",),
            path=str(tmp_path / "x-discord"),
            entry_point=str(tmp_path / "x-discord" / "index.ts"),
        ),
    ]
    assert ["discord"] == list_channel_extensions(tmp_path)
    assert ["brain"] == list_provider_extensions(tmp_path)
    assert str(tmp_path / "brain") == get_extension_path("brain", tmp_path)
    assert get_extension_path("unknown", tmp_path) is None


def test_the_entry_of_package_json_counts_first_and_stays_inside(tmp_path: Path) -> None:
    """`openclaw.extensions[0]` is taken if it is a file of the folder; else the usual names are tried."""
    for id, named in (("good", "lib/main.ts"), ("escaping", "../good/lib/main.ts"), ("absent", "no.ts"), ("odd", 7)):
        folder = plugin(tmp_path, id, None)
        (folder / "lib").mkdir()
        (folder / "lib" / "main.ts").write_text("")
        (folder / "index.mjs").write_text("")
        (folder / "package.json").write_text(json.dumps({"openclaw": {"extensions": [named]}}))
    (tmp_path / "odd" / "package.json").write_text("[broken")
    assert {"good": "lib/main.ts", "escaping": "index.mjs", "absent": "index.mjs", "odd": "index.mjs"} == {
        info.id: str(Path(info.entry_point or "").relative_to(info.path)) for info in discover_extensions(tmp_path)
    }


def test_what_is_no_extension_is_left_out(tmp_path: Path) -> None:
    """Broken manifests, bad ids, files, links and missing directories are no extensions, and no errors."""
    plugin(tmp_path, "good", None)
    plugin(tmp_path, "../bad", None, folder="bad")
    broken = plugin(tmp_path, "broken", None)
    (broken / "interlingua.plugin.json").write_text("{")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "good")
    assert [("good", None)] == [(info.id, info.entry_point) for info in discover_extensions(tmp_path)]
    assert ([], []) == (discover_extensions(tmp_path / "missing"), discover_extensions(None))
