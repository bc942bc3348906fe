"""What the two OpenAI wires share: files and pictures inside the body as data URLs."""

import re

# The one spelling that both directions agree on: a MIME type without parameters, base64. Anything else stays a URL.
_DATA_URL = re.compile(r"data:([^;,\s]+);base64,(.*)", re.DOTALL)


def read_data_url(url: str) -> tuple[str, str] | None:
    """The MIME type and the base64 text of a data URL; None for any other URL, and for odd spellings of one."""
    if not url.startswith("data:"):
        return None
    found = _DATA_URL.fullmatch(url)
    return (found[1], found[2]) if found else None


def data_url(mime: str, data: str) -> str:
    """Base64 text as a data URL: the inverse of `read_data_url`."""
    return f"data:{mime};base64,{data}"
