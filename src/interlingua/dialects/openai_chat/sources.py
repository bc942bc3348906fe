"""What a message says of its text beside the words: where it comes from, and who signed it."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.messages import Block, Citation, TextBlock
from ..residual import keeping, optional, restored, whole
from .facts import API


def decode_citation(wire: dict[str, Any]) -> Citation:
    given = wire.get("url_citation")
    inner = given if isinstance(given, dict) else {}
    citation = Citation(
        title=optional(inner.get("title")),
        url=optional(inner.get("url")),
        cited_text=optional(inner.get("content")),
        start=whole(inner.get("start_index")),
        end=whole(inner.get("end_index")),
    )
    return keeping(citation, API, wire, encode_citation(citation, 0))


def encode_citation(citation: Citation, offset: int) -> dict[str, Any]:
    """A source of a text that begins `offset` characters into all the text of the message."""
    inner: dict[str, Any] = {}
    if citation.url is not None:
        inner["url"] = citation.url
    if citation.title is not None:
        inner["title"] = citation.title
    if citation.start is not None:
        inner["start_index"] = citation.start + offset
    if citation.end is not None:
        inner["end_index"] = citation.end + offset
    if citation.cited_text is not None:
        inner["content"] = citation.cited_text
    wire: dict[str, Any] = {"type": "url_citation", "url_citation": inner}
    return restored(wire, citation.extra, API) if citation.extra else wire


def google_signature(wire: Mapping[str, Any]) -> str | None:
    """Google's thought signature, where its compatible endpoint puts it."""
    content = wire.get("extra_content")
    google = content.get("google") if isinstance(content, dict) else None
    return optional(google.get("thought_signature")) if isinstance(google, dict) else None


def signed(signature: str) -> dict[str, Any]:
    return {"google": {"thought_signature": signature}}


def sourced(blocks: list[Block], wire: Mapping[str, Any]) -> list[Block]:
    """The blocks with what the message says of its text: its first one is signed, and has the sources."""
    given: Any = wire.get("annotations")
    signature = google_signature(wire)
    if not given and signature is None:
        return blocks
    for at, block in enumerate(blocks):
        if isinstance(block, TextBlock) and not block.refusal:
            own = tuple(map(decode_citation, given)) if are_sources(given) else ()
            return [*blocks[:at], replace(block, citations=own, text_signature=signature), *blocks[at + 1 :]]
    return blocks


def are_sources(given: Any) -> bool:
    return isinstance(given, list) and all(
        isinstance(item, dict) and isinstance(item.get("type"), str) for item in given
    )


def shifted(citation: Citation, before: int) -> Citation:
    """The source with its places counted from the beginning of its own text."""
    if not before:
        return citation
    return replace(
        citation,
        start=None if citation.start is None else citation.start - before,
        end=None if citation.end is None else citation.end - before,
    )
