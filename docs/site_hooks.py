"""What the documentation site needs beside its pages."""

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Makes the name of a file behind a fence, as in "python plugin.py", the title of the block."""
    return re.sub(r"^(```[a-z]+) (\S+)$", r'\1 title="\2"', markdown, flags=re.MULTILINE)
