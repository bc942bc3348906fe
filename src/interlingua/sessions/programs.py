"""Locations of other programs' conversations, and the project of a conversation."""

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..values import jsontext
from ..values.errors import InterlinguaError
from ..values.regular import read_regular

HEAD = 64 << 10  # bytes at the beginning of a file that contain the project
_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


class Program(NamedTuple):
    """Where a program stores its conversations. `variable` is the environment variable that overrides `home`."""

    name: str
    variable: str
    home: str
    folder: str
    patterns: tuple[str, ...]

    def root(self, env: Mapping[str, str] | None = None) -> Path:
        moved = (os.environ if env is None else env).get(self.variable)
        return (Path(moved).expanduser() if moved else Path.home() / self.home) / self.folder

    @property
    def depth(self) -> int:
        """How many folders deep the files are below the root."""
        return max(len(Path(pattern).parts) for pattern in self.patterns) - 1

    def has(self, path: Path, root: Path) -> bool:
        """Whether a file below the root is one of the program's conversations."""
        relative = path.relative_to(root)
        return any(len(Path(p).parts) == len(relative.parts) and relative.match(p) for p in self.patterns)


PROGRAMS = {
    program.name: program
    for program in (
        # Sub-agents: beside the sessions in versions before 2.1, below `SESSION/subagents` since.
        Program("claude-code", "CLAUDE_CONFIG_DIR", ".claude", "projects", ("*/*.jsonl", "*/*/subagents/*.jsonl")),
        Program("codex-cli", "CODEX_HOME", ".codex", "sessions", ("rollout-*.jsonl", "*/*/*/rollout-*.jsonl")),
        # GEMINI_CLI_HOME is the folder in which `.gemini` is.
        Program(
            "gemini-cli",
            "GEMINI_CLI_HOME",
            "",
            ".gemini/tmp",
            ("*/chats/*.json", "*/chats/*.jsonl", "*/chats/*/*.json*"),
        ),
    )
}


def project_of(path: Path, head: bytes) -> str | None:
    """Returns the name of the folder in which the program was started, from the beginning of a conversation's file."""
    found = _CWD.search(head)
    if found is not None:
        with contextlib.suppress(InterlinguaError):
            return str(jsontext.read(found[1])).replace("\\", "/").rstrip("/").rpartition("/")[2] or None
    root = path.parent.parent / ".project_root"  # Gemini CLI
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return Path(read_regular(root, HEAD).decode().strip()).name or None
    return None
