"""Runs the command line as a user would: a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-c", "from interlingua.cli import main; main()"]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str | Path, given: bytes | None = None, cwd: Path | None = None, **options: Any) -> Outcome:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], input=given, cwd=cwd, capture_output=True, check=False, timeout=120, **options
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
