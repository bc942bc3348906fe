"""The built page: what it weighs, whose licences it ships, and that it is what its source builds."""

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import interlingua

ASSETS = Path(interlingua.__file__).parent / "canvas" / "assets"
WEB = Path(__file__).parents[2] / "web"


def test_the_first_load_is_small() -> None:
    """The page, its entry, and what that loads for a canvas without being asked: at most 300 kB as sent with gzip."""
    index = (ASSETS / "index.html").read_text()
    named = [ASSETS / one for one in re.findall(r'(?:src|href)="/(assets/[^"]+)"', index)]
    later = [one for name in ("main", "flow") for one in ASSETS.glob(f"assets/{name}-*.js")]
    assert named and 2 == len(later)
    assert sum(len(gzip.compress(one.read_bytes())) for one in (ASSETS / "index.html", *named, *later)) <= 300_000


def test_the_shell_of_an_export_is_one_small_file() -> None:
    """At most 1 MB, with the place for the data, and nothing that is loaded from elsewhere."""
    shell = (ASSETS / "export.html").read_text()
    assert len(shell.encode()) <= 1_000_000
    assert shell.count("<!--CANVAS-DATA-->") == 1
    tags = re.sub(r"(<(script|style)\b[^>]*>).*?</\2>", r"\1", shell, flags=re.DOTALL)
    assert re.search(r"<(?:script|link|img)\b[^>]*\b(?:src|href)=", tags) is None


def test_the_licences_of_what_is_bundled_are_shipped() -> None:
    """Every package of the page stands there with its licence."""
    text = (ASSETS / "LICENSES.txt").read_text()
    for name in ("react ", "react-dom ", "@xyflow/react ", "katex ", "highlight.js ", "react-markdown "):
        assert re.search(rf"^{re.escape(name)}\d", text, re.MULTILINE), name


def test_the_committed_page_is_what_its_source_builds(tmp_path: Path) -> None:
    """A fresh build gives the same files, byte for byte."""
    if shutil.which("npx") is None or not (WEB / "node_modules").is_dir():
        pytest.skip(
            "!!!! Node or web/node_modules is MISSING: the committed page is not compared with its source (make web)"
        )
    for config in ("vite.config.ts", "vite.export.config.ts"):
        command = ["npx", "vite", "build", "--config", config, "--outDir", str(tmp_path)]
        subprocess.run([*command, "--emptyOutDir", "false"], cwd=WEB, check=True, capture_output=True)
    fresh = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {path.relative_to(ASSETS): path.read_bytes() for path in ASSETS.rglob("*") if path.is_file()}
    assert fresh.keys() == kept.keys()
    assert [str(name) for name in fresh if fresh[name] != kept[name]] == []
