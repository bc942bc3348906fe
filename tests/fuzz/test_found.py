"""Inputs that once made something raise what it may not, and a short run of the fuzzer."""

from pathlib import Path

import pytest

from fuzz.fuzzing import FOUND, SEEDS, TARGETS, Pool, fuzz


@pytest.mark.parametrize("path", sorted(FOUND.glob("*-*")), ids=lambda path: path.name)
def test_what_the_fuzzer_found_stays_repaired(path: Path) -> None:
    """Each file is an input of the target in its name."""
    TARGETS[path.name.partition("-")[0]](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_takes_its_seeds(name: str) -> None:
    """And keeps those that do something new."""
    pool = Pool(name)
    assert [None] * len(SEEDS[name]) == [pool.run(data) for data in SEEDS[name]]


def test_a_short_run_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """`make fuzz MINUTES=60` is the long one."""
    assert 0 == fuzz(0.05, [*TARGETS], seed=4), capsys.readouterr().out
