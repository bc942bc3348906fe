"""Power cuts: what was acknowledged as synced is there although unsynced writes are dropped, in part or with zeros."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.sessions import Session

from .making import texts, user

CUTS = int(os.environ.get("INTERLINGUA_CUTS", "8"))
SHIM = Path(__file__).with_name("unsynced.c")
WRITER = """
import os, sys
import interlingua as il
from interlingua.sessions import Session
path, durability, turn = sys.argv[1:4]
with Session.open(path, durability=durability) as session:
    for at in range(200):
        text = f"{turn}.{at} " + "x" * (at % 7 * 300)
        session.append(il.UserMessage(content=text))
        if durability == "full":
            os.write(1, f"{turn}.{at}\\n".encode())
        elif at % 5 == 4:
            session.sync()
            os.write(1, "".join(f"{turn}.{n}\\n" for n in range(at - 4, at + 1)).encode())
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that drops unsynced writes, compiled here."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler on Linux")
    made = tmp_path_factory.mktemp("shim") / "unsynced.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, SHIM, "-ldl"], check=True, capture_output=True)
    return made


@pytest.mark.parametrize("durability", ["full", "process"])
def test_what_was_synced_survives_a_power_cut(
    tmp_path: Path, shim: Path, durability: Any, record_property: Any
) -> None:
    """With `full` each append, with `process` each that `sync()` followed; the session goes on after each cut."""
    chance, path, promised = random.Random(3), tmp_path / "s.jsonl", list[str]()
    for turn in range(CUTS):
        how = {"UNSYNCED": str(tmp_path), "UNSYNCED_AFTER": str(chance.randint(1, 60)), "UNSYNCED_SEED": str(turn)}
        command = [sys.executable, "-c", WRITER, str(path), durability, str(turn)]
        done = subprocess.run(
            command, env={**os.environ, **how, "LD_PRELOAD": str(shim)}, capture_output=True, text=True, check=False
        )
        assert 137 == done.returncode, done.stderr
        promised += done.stdout.split()
        with Session.open(path) as session:
            there = [text.partition(" ")[0] for text in texts(session.messages)]
            assert [name for name in promised if name not in there] == []
            assert len(there) == len({*there})
    assert len(promised) > CUTS
    record_property("tried", CUTS)


def test_without_a_sync_a_power_cut_may_take_lines(tmp_path: Path, shim: Path) -> None:
    """The attack is one: the shim really drops what `process` did not sync."""
    path, lost = tmp_path / "s.jsonl", 0
    program = WRITER.replace('if durability == "full"', "if True").replace("durability=durability", 'sync="never"')
    for turn in range(4):
        how = {"UNSYNCED": str(tmp_path), "UNSYNCED_AFTER": "20", "UNSYNCED_SEED": str(turn), "LD_PRELOAD": str(shim)}
        done = subprocess.run(
            [sys.executable, "-c", program, str(path), "process", str(turn)],
            env={**os.environ, **how},
            capture_output=True,
            text=True,
            check=False,
        )
        there = texts(Session.open(path, read_only=True).messages) if path.exists() else []
        names = {text.partition(" ")[0] for text in there}
        lost += len([name for name in done.stdout.split() if name not in names])
        path.unlink(missing_ok=True)
    assert lost > 0


def test_zeros_at_the_end_of_a_file_are_moved_aside(tmp_path: Path) -> None:
    """Some file systems keep the new size of a file and lose its data."""
    path = tmp_path / "s.jsonl"
    with Session.open(path) as session:
        session.append(user("one"))
    for tail in (bytes(5), bytes(5000), b'{"role":"us' + bytes(30), bytes(10) + b"\n" + bytes(3)):
        with path.open("ab") as stream:
            stream.write(tail)
        with Session.open(path) as session:
            session.append(user("more"))
            assert "one" == texts(session.messages)[0]
    with Session.open(path) as session:
        assert ["one", *["more"] * 4] == texts(session.messages)


@pytest.mark.parametrize("durability", ["always", "", 5, None])
def test_durability_is_full_or_process(tmp_path: Path, durability: Any) -> None:
    """Another word is refused; none is `process`."""
    if durability is None:
        Session.open("s", home=tmp_path, durability=durability).close()
        return
    with pytest.raises(il.InterlinguaError, match="use 'full' or 'process'"):
        Session.open("s", home=tmp_path, durability=durability)
