"""The recordings of the documentation: how they are drawn, and that the committed ones can be shown anywhere."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images" / "terminal"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def recordings() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recordings", ROOT / "docs" / "recordings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["recordings"] = module
    spec.loader.exec_module(module)
    return module


def test_a_screen_is_drawn_cell_by_cell(recordings: ModuleType) -> None:
    """Text stands at its column, as wide as its cells; colours, reversal and wide characters included."""
    rows = recordings.rows_of("a \x1b[1;31mred <b>\x1b[0m\n\x1b[7m ok \x1b[0m 日本 x\n\n")
    assert 2 == len(rows)
    drawn = ElementTree.fromstring(recordings.svg([(rows, 1.0)], 20, "dark", "a title"))
    texts = {text.text: text for text in drawn.iter(f"{SVG}text")}
    cell = recordings.CELL
    assert {"a", "red <b>", "ok", "日本", "x"} == set(texts)
    assert ("fill:#e06c75;font-weight:bold", f"{2 * cell:.1f}", f"{7 * cell:.1f}") == tuple(
        texts["red <b>"].get(name) for name in ("style", "x", "textLength")
    )
    assert (f"{5 * cell:.1f}", f"{4 * cell:.1f}") == (texts["日本"].get("x"), texts["日本"].get("textLength"))
    assert f"{10 * cell:.1f}" == texts["x"].get("x")
    reversed_ = next(rect for rect in drawn.iter(f"{SVG}rect") if rect.get("x") == "0.0")
    assert "#d4d7dd" == reversed_.get("fill")


def test_frames_follow_each_other_and_share_their_rows(recordings: ModuleType) -> None:
    """Each has its share of the time; who wants no motion sees the last one."""
    first, second = recordings.rows_of("same\none"), recordings.rows_of("same\ntwo")
    text = recordings.svg([(first, 1.0), (second, 3.0)], 20, "dark", "t")
    assert 1 == text.count(">same<")
    assert "25.00%" in text and "4.0s" in text
    assert ".f{visibility:hidden}.f1{visibility:visible}@media(prefers-reduced-motion:no-preference)" in text


def test_every_scene_is_recorded_and_shown_at_its_widths(recordings: ModuleType) -> None:
    """The files are those of the script, and a page shows each."""
    wanted = {f"{name}-{columns}.svg" for name, scene in recordings.SCENES.items() for columns in scene.widths}
    assert wanted == {path.name for path in IMAGES.iterdir()}
    page = (ROOT / "docs" / "terminal.md").read_text("utf-8")
    assert set() == wanted - set(re.findall(r"images/terminal/([\w-]+\.svg)", page))


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.stem)
def test_a_recording_loads_nothing_and_names_no_machine(path: Path) -> None:
    """It is well-formed, small, has a title for those who cannot see it, and stays within its frame."""
    text = path.read_text("utf-8")
    drawn = ElementTree.fromstring(text)
    assert drawn.findtext(f"{SVG}title")
    assert ["http://www.w3.org/2000/svg"] == re.findall(r"https?://[^\s\"'<]+", text.replace("http://b", ""))[:1]
    assert not re.search(r"url\(|@import|<script|<image|/(?:work|tmp|root)/", text)
    assert len(text) < 150_000
    columns = int(path.stem.rpartition("-")[2])
    right = columns * 8.4 + 0.2
    for part in drawn.iter(f"{SVG}text"):
        assert float(part.get("x", "0")) + float(part.get("textLength", "0")) <= right, part.text
