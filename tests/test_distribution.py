"""What people install: the wheel's contents, the versions, the lock of the core."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from interlingua import __version__

from .distribution import ROOT, contents_problems


def test_wheel_and_sdist_hold_the_package_and_no_more(tmp_path: Path) -> None:
    """All that git tracks under src, the licences, and the version that the package states."""
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    assert [] == contents_problems(next(tmp_path.glob("*.whl")), next(tmp_path.glob("*.tar.gz")))


def test_the_newest_release_in_the_changelog_is_this_version() -> None:
    """What is not released yet stands under Unreleased, above every release."""
    headings = re.findall(r"^## \[?([\w.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert "Unreleased" == headings[0]
    assert headings[1:2] in ([], [__version__])


def test_the_core_is_locked_as_the_rest() -> None:
    """A package has one version in both lock files, so that a demo runs what the tests ran."""
    core, whole = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements-core.lock", "requirements.lock")
    )
    assert core.items() <= whole.items()
    assert len(core) < len(whole) / 2


def test_every_extra_is_in_the_documentation() -> None:
    """The table of extras in docs/installation.md names each, and none that is gone."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/installation.md").read_text(), re.MULTILINE)
    assert sorted(set(extras) - {"test"}) == sorted(named)
