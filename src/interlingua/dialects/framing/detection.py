"""The framing of a body: by its content type, and by its first bytes if they contradict it."""

from collections.abc import Callable
from typing import TypeVar

from ._frame import Framing
from .json_documents import JSONDocuments
from .sse import SSE

EVENTS, JSON, AWS = "text/event-stream", "application/json", "application/vnd.amazon.eventstream"
PAGE = "text/html"

Usual = TypeVar("Usual")

_BLANK = b"\xef\xbb\xbf \t\r\n"  # a byte order mark, and the padding that proxies send to keep a connection alive
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")  # fields of server-sent events
_TEXT = 9  # text starts with no lower byte; the length of an AWS frame does, up to 150 MB


def essence(content_type: str | None) -> str:
    """A content type without its parameters."""
    return (content_type or "").partition(";")[0].strip().lower()


def is_json(content_type: str | None) -> bool:
    """Whether a content type is one of those for JSON, one document or several."""
    return "json" in essence(content_type)


def framing_for(content_type: str | None, usual: Callable[[], Usual]) -> Usual | Framing:
    """The framing for a content type: JSON, server-sent events, or `usual` for any other."""
    if is_json(content_type):
        return JSONDocuments()
    return SSE() if essence(content_type) == EVENTS else usual()


def actual_type(head: bytes, declared: str) -> str | None:
    """The content type of a body with these first bytes; `declared` if they do not contradict it.

    None if more bytes are needed. Servers and proxies label streams `application/json`, and whole answers as streams.
    """
    text = head.lstrip(_BLANK)
    if not text:
        return None
    if head[0] < _TEXT:
        return AWS
    if text[:1] in (b"{", b"["):
        return declared if is_json(declared) else JSON
    if text[:1] == b"<":
        return PAGE
    if text.startswith(_FIELDS):
        return EVENTS
    return None if any(field.startswith(text) for field in _FIELDS) else declared
