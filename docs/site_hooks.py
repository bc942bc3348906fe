"""mkdocs hooks of the documentation site."""

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turns a file name after a fence, as in "python plugin.py", into the title of the block."""
    return re.sub(r"^(```[a-z]+) (\S+)$", r'\1 title="\2"', markdown, flags=re.MULTILINE)
