"""Sources that an answer's metadata tells of, as citations of the texts that they are for."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.messages import Block, Citation, TextBlock
from ..residual import optional, whole


def with_citations(content: tuple[Block, ...], candidate: Mapping[str, Any]) -> tuple[Block, ...]:
    """The content with the sources that the candidate's metadata tells of, as far as they can be placed exactly.

    The metadata itself is part of the residual; nothing is said from here.
    """
    if "groundingMetadata" not in candidate and "citationMetadata" not in candidate:
        return content
    found: dict[int, list[Citation]] = {}
    texts = {at: block.text for at, block in enumerate(content) if isinstance(block, TextBlock)}
    try:
        for at, citation in [*_groundings(candidate, texts), *_citations(candidate, texts)]:
            found.setdefault(at, []).append(citation)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        return content  # metadata of another shape
    return tuple(
        replace(block, citations=tuple(found[at])) if at in found else block for at, block in enumerate(content)
    )


def without_citations(content: tuple[Block, ...]) -> tuple[Block, ...]:
    return tuple(replace(b, citations=()) if isinstance(b, TextBlock) and b.citations else b for b in content)


def _groundings(candidate: Mapping[str, Any], texts: dict[int, str]) -> list[tuple[int, Citation]]:
    """Each support names a stretch of the answer, in bytes, and the sources for it."""
    metadata = candidate.get("groundingMetadata") or {}
    sources: list[Any] = [next(iter(chunk.values()), {}) for chunk in metadata.get("groundingChunks") or ()]
    found = []
    for support in metadata.get("groundingSupports") or ():
        segment = support["segment"]
        place = _placed(segment.get("startIndex", 0), segment["endIndex"], segment["text"], texts)
        if place is None:
            continue
        at, start, end = place
        for index in support.get("groundingChunkIndices") or ():
            source = sources[index]
            citation = Citation(
                title=optional(source.get("title")),
                url=optional(source.get("uri")),
                cited_text=optional(source.get("text")),
                start=start,
                end=end,
            )
            found.append((at, citation))
    return found


def _placed(start: int, end: int, quoted: str, texts: dict[int, str]) -> tuple[int, int, int] | None:
    """Which text holds the stretch, and where in characters; None where that is not sure."""
    for at, text in texts.items():
        raw = text.encode("utf-8", "replace")
        if raw[start:end].decode("utf-8", "replace") == quoted:
            begin = len(raw[:start].decode("utf-8", "replace"))
            return at, begin, begin + len(quoted)
    holders = [at for at, text in texts.items() if quoted and text.count(quoted) == 1]
    if len(holders) != 1:
        return None
    begin = texts[holders[0]].index(quoted)
    return holders[0], begin, begin + len(quoted)


def _citations(candidate: Mapping[str, Any], texts: dict[int, str]) -> list[tuple[int, Citation]]:
    """What the answer recites; the places are bytes of the only text there is."""
    metadata = candidate.get("citationMetadata") or {}
    if len(texts) != 1:
        return []
    [(at, text)] = texts.items()
    found = []
    for source in metadata.get("citationSources") or metadata.get("citations") or ():
        title, url = optional(source.get("title")), optional(source.get("uri"))
        if title is not None or url is not None:
            start, end = whole(source.get("startIndex")), whole(source.get("endIndex"))
            if end is not None:
                start = _characters(text, start or 0)
            found.append((at, Citation(title=title, url=url, start=start, end=end and _characters(text, end))))
    return found


def _characters(text: str, offset: int) -> int:
    return len(text.encode("utf-8", "replace")[:offset].decode("utf-8", "ignore"))
