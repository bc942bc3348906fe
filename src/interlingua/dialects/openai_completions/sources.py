"""What a message says of its text beside the words: where it comes from, and who signed it."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...messages import Block, Citation, TextBlock
from .._wire import keeping, optional, restored, whole
from .facts import API, ORDER


def whose(source: dict[str, Any]) -> int:
    """Which text of the message a source belongs to: the first, unless we said another."""
    match source.get(ORDER):
        case {"text": int(which)} if which > 0 and len(source[ORDER]) == 1:
            return which
        case _:
            return 0


def decode_citation(wire: dict[str, Any]) -> Citation:
    told = wire.get("url_citation")
    inner = told if isinstance(told, dict) else {}
    if whose(wire):
        wire = {key: value for key, value in wire.items() if key != ORDER}
    citation = Citation(
        title=optional(inner.get("title")),
        url=optional(inner.get("url")),
        cited_text=optional(inner.get("content")),
        start=whole(inner.get("start_index")),
        end=whole(inner.get("end_index")),
    )
    return keeping(citation, API, wire, encode_citation(citation, 0, 0))


def encode_citation(citation: Citation, offset: int, which: int) -> dict[str, Any]:
    """A source; `which` text of a message it belongs to, and how far into all its text that one begins."""
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
    if which:
        wire[ORDER] = {"text": which}
    return restored(wire, citation.extra, API) if citation.extra else wire


def google_signature(wire: Mapping[str, Any]) -> str | None:
    """Google's thought signature, where its compatible endpoint puts it."""
    content = wire.get("extra_content")
    google = content.get("google") if isinstance(content, dict) else None
    return optional(google.get("thought_signature")) if isinstance(google, dict) else None


def signed(signature: str) -> dict[str, Any]:
    return {"google": {"thought_signature": signature}}


def sourced(blocks: list[Block], wire: Mapping[str, Any]) -> list[Block]:
    """The blocks with what the message says of its text: the signature of the first, and the sources of each."""
    told, signature = wire.get("annotations"), google_signature(wire)
    if not told and signature is None:
        return blocks
    texts = [at for at, block in enumerate(blocks) if isinstance(block, TextBlock) and not block.refusal]
    if not texts:
        return blocks
    out: list[Any] = list(blocks)
    before = 0
    for which, at in enumerate(texts):
        size = len(out[at].text)
        out[at] = _with_sources(out[at], told, which, before, len(texts))
        before += size
    if signature is not None:
        out[texts[0]] = replace(out[texts[0]], text_signature=signature)
    return out


def _with_sources(block: TextBlock, told: Any, which: int, before: int, texts: int) -> TextBlock:
    """The text, one of `texts`, with those of the sources that are its own."""
    if not are_sources(told):
        return block
    own = tuple(
        shifted(decode_citation(source), before)
        for source in told
        if (whose(source) if whose(source) < texts else 0) == which
    )
    return replace(block, citations=own) if own else block


def are_sources(told: Any) -> bool:
    return isinstance(told, list) and all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in told)


def shifted(citation: Citation, before: int) -> Citation:
    """The source with its places counted from the beginning of its own text."""
    if not before:
        return citation
    return replace(
        citation,
        start=None if citation.start is None else citation.start - before,
        end=None if citation.end is None else citation.end - before,
    )
