"""Parts of input: what users, prompts and results of tools hold."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from ...values.losses import QUIET, Reporter
from ...values.messages import (
    AudioBlock,
    Block,
    CacheMarker,
    Content,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
)
from ..data_urls import data_url, read_data_url
from ..residual import keeping, media_type, optional, restored, string
from .facts import API

# --- wire to ours -----------------------------------------------------------------------------------------------------


def decode_part(wire: dict[str, Any]) -> Block:
    """One part of input; whatever is not as this wire has it is kept as it is, opaque."""
    kind = wire.get("type")
    decode = _PARTS.get(kind) if isinstance(kind, str) else None
    if decode is not None:
        try:
            block: Block = decode(wire)
            return keeping(block, API, wire, encode_part(block, QUIET) or {})
        except (KeyError, TypeError, ValueError):
            pass
    return OpaqueBlock(dialect=API, value=wire)


def _decode_text(wire: dict[str, Any]) -> TextBlock:
    return TextBlock(text=string(wire["text"]), cache=_decode_cache(wire))


def _decode_image(wire: dict[str, Any]) -> ImageBlock:
    address = optional(wire.get("image_url"))
    mime, data = _read_url(address) if address is not None else (None, None)
    return ImageBlock(
        data=data,
        mime_type=mime,
        url=address if data is None else None,
        file_id=optional(wire.get("file_id")),
        detail=None if wire.get("detail") == AUTO else optional(wire.get("detail")),
        cache=_decode_cache(wire),
    )


def _read_url(url: str) -> tuple[str | None, str | None]:
    """The MIME type and the data in a data URL; nothing of either where it is the address of something else."""
    if url.startswith(_UNTYPED):
        return None, url.removeprefix(_UNTYPED)
    return read_data_url(url) or (None, None)


_UNTYPED = "data:;base64,"
AUTO = "auto"  # the detail of a picture where nothing is said of it; the wire's types want it said


def _decode_file(wire: dict[str, Any]) -> DocumentBlock:
    data = optional(wire.get("file_data"))
    mime = None
    head, cut, rest = data.partition(";base64,") if data is not None else ("", "", "")
    if cut and head.startswith("data:"):  # else it is bare base64
        mime, data = media_type(head.removeprefix("data:")), rest
    return DocumentBlock(
        data=data,
        mime_type=mime,
        url=optional(wire.get("file_url")),
        file_id=optional(wire.get("file_id")),
        title=optional(wire.get("filename")),
        cache=_decode_cache(wire),
    )


def _decode_audio(wire: dict[str, Any]) -> AudioBlock:
    sound = wire["input_audio"]
    return AudioBlock(data=string(sound["data"]), mime_type=_sound_type(optional(sound.get("format"))))


def _sound_type(format: str | None) -> str | None:
    return None if format is None else "audio/mpeg" if format == "mp3" else f"audio/{format}"


_PARTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "input_text": _decode_text,
    "output_text": _decode_text,
    "input_image": _decode_image,
    "input_file": _decode_file,
    "input_audio": _decode_audio,
}


def _decode_cache(wire: Mapping[str, Any]) -> CacheMarker | None:
    marker = wire.get("prompt_cache_breakpoint")
    if not isinstance(marker, dict):
        return None
    cache = CacheMarker(ttl=optional(marker.get("ttl")))
    return keeping(cache, API, marker, _encode_cache(cache))


def decode_content(content: Any) -> Content:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise TypeError("expected text or a list of parts")
    return tuple(map(decode_part, content))


# --- ours to wire -----------------------------------------------------------------------------------------------------


def encode_part(block: Block, report: Reporter) -> Any:
    """One part of input as this wire says it, or None (reported) when it cannot."""
    wire: dict[str, Any]
    match block:
        case TextBlock():
            wire = {"type": "input_text", "text": block.text}
            if block.citations:
                report.lost("citations", "only answers cite", field="citations")
            if block.refusal:
                report.lost("refusal", "only answers refuse", field="refusal")
        case ImageBlock():
            wire = _encode_image(block, report)
        case DocumentBlock():
            wire = _encode_file(block, report)
        case AudioBlock() if block.data is not None:
            wire = _encode_audio(block, report)
            return restored(wire, block.extra, API) if block.extra else wire
        case OpaqueBlock() if block.dialect == API:
            return block.value
        case _:
            report.lost(type(block).__name__, "the input of this wire cannot say such a block")
            return None
    if block.cache is not None:
        wire["prompt_cache_breakpoint"] = _encode_cache(block.cache)
    return restored(wire, block.extra, API) if block.extra else wire


def _encode_image(block: ImageBlock, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "input_image"}
    if block.data is not None:
        wire["image_url"] = data_url(block.mime_type, block.data) if block.mime_type else _UNTYPED + block.data
        if block.url is not None:
            report.lost("url", "the picture is there as data", field="url")
    elif block.url is not None:
        wire["image_url"] = block.url
        if _read_url(block.url)[1] is not None:
            report.lost("url", "a data URL is read as its data", "record")
    if block.mime_type is not None and block.data is None:
        report.lost("mime_type", "only data has a type", "weakened", field="mimeType")
    if block.file_id is not None:
        wire["file_id"] = block.file_id
    wire["detail"] = block.detail or AUTO
    if block.detail == AUTO:
        report.lost("detail", "what is meant where nothing is said", "record", field="detail")
    return wire


def _encode_file(block: DocumentBlock, report: Reporter) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "input_file"}
    if block.title is not None:
        wire["filename"] = block.title
    if block.data is not None:
        wire["file_data"] = block.data if block.mime_type is None else data_url(block.mime_type, block.data)
        if block.text is not None:
            report.lost("text", "the file is there as data", field="text")
    elif block.text is not None:
        # The wire has no place for the text of a file: it is sent as a file of that text.
        plain = base64.b64encode(block.text.encode()).decode()
        wire["file_data"] = data_url(block.mime_type or "text/plain", plain)
        report.lost("text", "sent as a file", "weakened")
    elif block.mime_type is not None:
        report.lost("mime_type", "only data has a type", "weakened", field="mimeType")
    if block.url is not None:
        wire["file_url"] = block.url
    if block.file_id is not None:
        wire["file_id"] = block.file_id
    return wire


def _encode_audio(block: AudioBlock, report: Reporter) -> dict[str, Any]:
    sound: dict[str, Any] = {"data": block.data}
    if block.mime_type is not None:
        kind = block.mime_type.removeprefix("audio/")
        sound["format"] = "mp3" if kind == "mpeg" else kind
        if _sound_type(sound["format"]) != block.mime_type:
            report.lost("mime_type", "the wire has its own word for the type", "weakened", field="mimeType")
    for field, value in (("url", block.url), ("fileId", block.file_id), ("cache", block.cache)):
        if value is not None:
            report.lost(field, "a sound is its data, and nothing else", field=field)
    return {"type": "input_audio", "input_audio": sound}


def _encode_cache(cache: CacheMarker) -> dict[str, Any]:
    wire = {"mode": "explicit"}
    if cache.ttl is not None:
        wire["ttl"] = cache.ttl
    return restored(wire, cache.extra, API)


def encode_content(content: Content, report: Reporter) -> Any:
    if content is None or isinstance(content, str):
        return content
    encoded = []
    for at, block in enumerate(content):
        report.block = at
        wire = encode_part(block, report)
        if wire is not None:
            encoded.append(wire)
    report.block = None
    return encoded
