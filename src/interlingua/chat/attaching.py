"""Files named in a message: `@notes.md` or `@"my picture.png"` goes along with the words."""

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from ..cli.attachments import attached
from ..values.messages import TextBlock

MENTION = re.compile(r'(?:(?<=\s)|^)@(?:"([^"\n]+)"|(\S+))')
_ENDINGS = ",.;:!?)]}"


class Attached(NamedTuple):
    """A message's content, and the mentions that look like files but are none."""

    content: Any
    missing: tuple[str, ...]


def attach(text: str, root: Path) -> Attached:
    """The words with the files that they mention. Reads files: not for the event loop."""
    blocks, missing = [], []
    for found in MENTION.finditer(text):
        name = found[1] or found[2]
        path = _file(name, root)
        if path is not None:
            blocks.append(attached(path))
        elif "/" in name or "." in name.strip("."):
            missing.append(name)
    content = (*blocks, TextBlock(text=text)) if blocks else text
    return Attached(content, tuple(missing))


def _file(name: str, root: Path) -> str | None:
    if name.startswith(("http://", "https://")):
        return name
    for candidate in dict.fromkeys((name, name.rstrip(_ENDINGS))):
        path = place(candidate, root)
        if path.is_file():
            return str(path)
    return None


def place(name: str, root: Path) -> Path:
    return root / os.path.expanduser(name)  # noqa: PTH111 - an absolute path stays one
