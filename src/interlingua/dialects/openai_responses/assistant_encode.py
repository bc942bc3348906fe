"""Message items: what a model said in words, in parts."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...values.losses import QUIET, Reporter
from ...values.messages import Block, Citation, TextBlock
from ..residual import HINTS, JOINED, MESSAGE, optional, put_back, residual, restored, string, whole
from .facts import API, CITATIONS, PARTS, STRING, Mint
from .response_residual import NAMES, NO_HINTS, answered, filed, residual_of

# --- wire to ours -----------------------------------------------------------------------------------------------------


def decode_message(wire: dict[str, Any], at: int, answer: bool, mint: Mint) -> list[tuple[int, Block]]:
    """A block for each part. The content may be a string, but only in input."""
    if wire["role"] != "assistant":
        raise ValueError(wire["role"])
    content = wire["content"]
    about: dict[str, Any] = {}
    if isinstance(content, str) and not answer:
        blocks: list[tuple[int, TextBlock]] = [(0, TextBlock(text=content))]
        extra_fields = residual_of(wire, {"role": "assistant", "content": content}, "message", at, answer)
        if extra_fields:
            about[STRING] = True
    else:
        blocks, others = _decode_parts(content, answer)
        extra_fields = residual_of(
            wire, {"type": "message", "role": "assistant", "content": content}, "message", at, answer
        )
        if others:
            about[PARTS] = others
        elif not answer and not extra_fields:
            about[STRING] = False
    # The item's id and phase stand with the block itself; all else that the wire said of the item, apart from it.
    named = {key: extra_fields.pop(key) for key in NAMES if key in extra_fields}
    about.update(extra_fields)
    place, first = blocks[0]
    extra = filed(first.extra, {**named, MESSAGE: about} if about else named)
    joined = [(n, replace(b, extra=filed(b.extra, {JOINED: True}))) for n, b in blocks[1:]]
    return [(place, replace(first, extra=extra)), *joined]


def _decode_parts(content: Any, answer: bool) -> tuple[list[tuple[int, TextBlock]], list[Any]]:
    """The words in a message item with their places, and the other parts with theirs."""
    if not isinstance(content, list):
        raise TypeError(f"expected a list of parts, got {type(content).__name__}")
    blocks: list[tuple[int, TextBlock]] = []
    others: list[Any] = []
    for place, part in enumerate(content):
        try:
            blocks.append((place, _decode_encoded(part, answer)))
        except (KeyError, TypeError, ValueError, AttributeError):
            others.append([place, part])
    if not blocks:
        raise ValueError("a message item without words")
    return blocks, others


def _decode_encoded(wire: Any, answer: bool) -> TextBlock:
    """A part of an answer's message."""
    kind = wire["type"]
    if kind == "refusal":
        block = TextBlock(text=string(wire["refusal"]), refusal=True)
    elif kind in ("output_text", "input_text"):
        noted = wire.get("annotations")
        citations = tuple(map(_decode_citation, noted)) if isinstance(noted, list) else ()
        block = TextBlock(text=string(wire["text"]), citations=citations)
    else:
        raise ValueError(kind)
    extra_fields = residual_of(wire, _encoded_part(block, QUIET), kind, 0, answer)
    for name in NAMES:  # of the part, not of the item: kept from being taken for that
        if name in extra_fields:
            extra_fields.setdefault(HINTS, {})[name] = {"wire": extra_fields.pop(name)}
    return replace(block, extra={API: extra_fields}) if extra_fields else block


def _decode_citation(wire: dict[str, Any]) -> Citation:
    kind = string(wire["type"])
    title, start, end = CITATIONS.get(kind, (None, None, None))
    citation = Citation(
        title=optional(wire.get(title)) if title else None,
        url=optional(wire.get("url")) if kind == "url_citation" else None,
        start=whole(wire.get(start)) if start else None,
        end=whole(wire.get(end)) if end else None,
    )
    if kind != "url_citation" or citation.url is None:
        citation = replace(citation, extra={API: {"type": kind}})
    extra_fields = residual(wire, _encoded_citation(citation))
    return replace(citation, extra=filed(citation.extra, extra_fields)) if extra_fields else citation


# --- ours to wire -----------------------------------------------------------------------------------------------------


def is_string_content(block: TextBlock, extra_fields: Mapping[str, Any]) -> bool:
    """Whether words go into the input as a message with a string: such as have nothing but their text.

    A message item in parts is an answer's own: its type wants an id and a status, which only the provider can mint.
    """
    if block.refusal or block.citations:
        return False
    return not extra_fields or bool(extra_fields.get(MESSAGE, NO_HINTS).get(STRING))


def easy_message(block: TextBlock, extra_fields: Mapping[str, Any], report: Reporter) -> dict[str, Any]:
    if block.cache is not None:
        report.lost("cache", "answers cannot be marked", field="cache")
    wire: dict[str, Any] = {"role": "assistant", "content": block.text}
    if extra_fields:
        wire.update((name, extra_fields[name]) for name in NAMES if name in extra_fields)
        wire = put_back(wire, extra_fields[MESSAGE])
    return wire


def message_item(extra_fields: Mapping[str, Any], parts: list[Any], at: int, answer: bool) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "message", "role": "assistant", "content": parts}
    about = extra_fields.get(MESSAGE, NO_HINTS)
    if extra_fields:
        wire.update((name, extra_fields[name]) for name in NAMES if name in extra_fields)
        put_back(wire, about)
    return answered(wire, about, "message", at) if answer else wire


def finish_message(wire: dict[str, Any], about: Mapping[str, Any]) -> None:
    """Puts the parts that are not modelled into their places; possible when all words are there."""
    for place, part in about.get(PARTS, ()):
        wire["content"].insert(place, part)


def encode_content_text(block: TextBlock, report: Reporter, *, answer: bool = False) -> dict[str, Any]:
    """Words of an answer, as a part of a message item."""
    if block.cache is not None:
        report.lost("cache", "answers cannot be marked", field="cache")
    wire = _encoded_part(block, report)
    extra_fields = block.extra.get(API) if block.extra else None
    if extra_fields:
        wire = put_back(wire, {key: value for key, value in extra_fields.items() if key not in NAMES})
    return answered(wire, extra_fields or {}, wire.get("type", ""), 0) if answer else wire


def _encoded_part(block: TextBlock, report: Reporter) -> dict[str, Any]:
    if block.refusal:
        if block.citations:
            report.lost("citations", "a refusal cites nothing", field="citations")
        return {"type": "refusal", "refusal": block.text}
    noted = _encode_citations(block.citations, report) if block.citations else []
    return {"type": "output_text", "text": block.text, "annotations": noted}


def _encode_citations(citations: tuple[Citation, ...], report: Reporter) -> list[Any]:
    encoded = [c for c in citations if c.url is not None or "type" in c.extra.get(API, ())]
    if len(encoded) < len(citations):
        report.lost("citations", "only a URL can be cited", field="citations")
    return [restored(_encoded_citation(citation), citation.extra, API) for citation in encoded]


def _encoded_citation(citation: Citation) -> dict[str, Any]:
    kind = citation.extra.get(API, {}).get("type", "url_citation") if citation.extra else "url_citation"
    wire: dict[str, Any] = {"type": kind}
    if kind == "url_citation" and citation.url is not None:
        wire["url"] = citation.url
    values = (citation.title, citation.start, citation.end)
    given = zip(CITATIONS.get(kind, ()), values, strict=False)
    wire.update((key, value) for key, value in given if key is not None and value is not None)
    return wire
