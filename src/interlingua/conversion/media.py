"""Media as a target accepts them: with true types, from supported sources, within its size and count limits.

Media that cannot be sent are replaced by a text note. Each decision depends on the block and those before it, never on
later ones: a growing conversation keeps the same prefix, and prompt caches stay valid. So the later ones are dropped
where a target accepts only so many; and a limit that holds only for requests with many images is applied from the first
image on, if that image can be made smaller.
"""

import base64
import re
from copy import copy
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from msgspec.structs import replace

from ..dialects.limits import Source, TargetLimits
from ..values import jsontext
from ..values.losses import Severity
from ..values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolResultMessage,
)
from ..values.request import ModelDescriptor
from . import resizing

MEDIA = (ImageBlock, AudioBlock, DocumentBlock)


class BlockChange(NamedTuple):
    """A change to a block: `field` is the affected part of its path, the empty string for the whole block."""

    field: str
    what: str
    why: str
    severity: Severity


class MediaFitter:
    """Fits the media of one request, block by block, in order; counts what the target limits."""

    def __init__(self, rules: TargetLimits, model: ModelDescriptor) -> None:
        self._rules = rules
        self._sees = model.input is None or "image" in model.input
        self._images = 0
        self._documents = 0
        self._length = 0  # base64 characters so far
        self._has_large_image = False  # larger than the limit for requests with many images
        self._titles: set[str] = set()

    def copy(self) -> "MediaFitter":
        """Returns a fitter for what follows, which leaves this one as it is."""
        made = copy(self)
        made._titles = set(self._titles)
        return made

    def fit(self, block: Any, message: Message) -> tuple[Block, list[BlockChange]]:
        """Returns the block as the target accepts it, or a text in its place; and the changes."""
        changes: list[BlockChange] = []
        block = _typed(_inline(block, changes), changes)
        refusal = self._refusal(block, message) or self._over_limit(block)
        if refusal is None and isinstance(block, ImageBlock) and block.data is not None:
            block, refusal = self._sized(block, changes)
        refusal = refusal or self._overlong(block)
        if refusal is not None:
            advice = f"; {resizing.INSTALL}" if refusal.resizable and not resizing.is_available() else ""
            changes.append(BlockChange("", "media", refusal.why + advice, "dropped"))
            return _note(block, refusal.why), changes
        self._length += len(block.data or "")
        self._images += isinstance(block, ImageBlock)
        if _is_document(block):
            self._documents += 1
            if self._rules.document_names:
                block = self._titled(block, changes)
        return block, changes

    # --- refusals ---

    def _refusal(self, block: Any, message: Message) -> "_Refusal | None":
        """Returns why the target refuses a block of this kind, type or source in such a message."""
        rules = self._rules
        # Only Gemini takes pictures in an answer; OpenAI takes the id of its own audio.
        if isinstance(message, AssistantMessage) and not rules.answer_media:
            own_sound = isinstance(block, AudioBlock) and rules.answer_audio and block.file_id
            return None if own_sound else _Refusal("not in an answer of the model")
        if isinstance(block, ImageBlock):
            if not self._sees:
                return _Refusal("the model takes no images")
            return self._unfit_source(block, "images", rules.images)
        if isinstance(block, DocumentBlock):
            return self._unfit_source(block, "documents", rules.documents, rules.document_types)
        if isinstance(message, ToolResultMessage) and rules.result_media:
            return _Refusal("the target takes no audio in results")
        return self._unfit_source(block, "audio", rules.audio, rules.audio_types)

    def _unfit_source(
        self, block: Any, kind: str, taken: tuple[Source, ...], types: tuple[str, ...] | None = None
    ) -> "_Refusal | None":
        if not taken:
            return _Refusal(f"the target takes no {kind}")
        given = _source(block)
        if given is None:
            return _Refusal("it is empty")
        if given == "url":
            scheme = block.url.partition(":")[0].lower()
            if scheme == "blob":  # of a session whose blob is missing
                return _Refusal("its data is missing")
            if "url" in taken and scheme not in self._rules.url_schemes:
                return _Refusal(f"the target takes no {kind} by such an address")
        if given not in taken:
            return _Refusal(f"the target takes no {kind} by {_BY[given]}")
        label = block.mime_type if given == "data" and types is not None else None
        if label and not any(fnmatchcase(label, pattern) for pattern in types or ()):
            return _Refusal(f"the target takes no {label}")
        return None

    def _over_limit(self, block: Any) -> "_Refusal | None":
        """Returns why the request cannot hold one more, after those before it."""
        rules = self._rules
        if isinstance(block, ImageBlock):
            if rules.many_images is not None and self._has_large_image and self._images >= rules.many_images[0]:
                count, side = rules.many_images
                return _Refusal(f"one of {count} images before it has more than {side} pixels, so there may be no more")
            if rules.max_images is not None and self._images >= rules.max_images:
                return _Refusal(f"the target takes {rules.max_images} images in a request, and they came before it")
        if _is_document(block) and rules.max_documents is not None and self._documents >= rules.max_documents:
            return _Refusal(f"the target takes {rules.max_documents} documents in a request, and they came before it")
        return None

    def _overlong(self, block: Any) -> "_Refusal | None":
        """Returns why the target refuses a file of this size, alone or together with those before it."""
        rules, length = self._rules, len(block.data or "")
        bounded = _is_document(block) and block.mime_type not in rules.unbounded_documents
        if bounded and rules.document_bytes is not None and length > rules.document_bytes:
            return _Refusal(f"larger than {rules.document_bytes} bytes as sent")
        if rules.media_bytes is not None and length and self._length + length > rules.media_bytes:
            return _Refusal(f"with those before it, more than {rules.media_bytes} bytes as sent")
        return None

    # --- the size of images ---

    def _sized(self, block: ImageBlock, changes: list[BlockChange]) -> "tuple[ImageBlock, _Refusal | None]":
        """Returns the image within the limits of size and type: made smaller if necessary and possible."""
        rules, data = self._rules, block.data or ""
        sides = [side for side in (rules.image_side, (rules.many_images or (0, None))[1]) if side is not None]
        side = min(sides, default=None)
        measured = side is not None or rules.image_pixels is not None
        seen = resizing.look(data) if measured else None
        large = seen is not None and side is not None and max(seen.width, seen.height) > side
        why = self._oversize(block, seen)
        if why is None and not large:
            return block, None
        limits = resizing.ImageLimits(side, rules.image_pixels, rules.image_bytes)
        smaller = resizing.resized(data, limits)
        if smaller is not None and smaller.mime_type in rules.image_types:
            changes.append(BlockChange("", "media", _resizing(block, seen, smaller), "weakened"))
            return replace(block, data=smaller.data, mime_type=smaller.mime_type), None
        if why is None and rules.many_images is not None and self._images >= rules.many_images[0]:
            why = f"{_measure(seen)}, where {side} are the most"
        if why is not None:
            return block, _Refusal(why, resizable=True)
        self._has_large_image = True
        return block, None

    def _oversize(self, block: ImageBlock, seen: resizing.Picture | None) -> str | None:
        """Returns why the target refuses this image, however few there are."""
        rules = self._rules
        if block.mime_type not in rules.image_types:
            return f"the target takes no {block.mime_type or 'data without a type'}"
        if not rules.animations and block.mime_type == "image/gif" and resizing.is_animated(block.data or ""):
            return "the target takes no pictures that move"
        if rules.image_bytes is not None and len(block.data or "") > rules.image_bytes:
            return f"larger than {rules.image_bytes} bytes as sent"
        if seen is not None and rules.image_side is not None and max(seen.width, seen.height) > rules.image_side:
            return f"{_measure(seen)}, where {rules.image_side} are the most"
        if seen is not None and rules.image_pixels is not None and seen.width * seen.height > rules.image_pixels:
            return f"{_measure(seen)}, where {rules.image_pixels} in all are the most"
        return None

    # --- the names of documents ---

    def _titled(self, block: DocumentBlock, changes: list[BlockChange]) -> DocumentBlock:
        """Returns a name of at most 200 letters, digits, hyphens, brackets and single spaces, unique in the request.

        Bedrock API reference, DocumentBlock: `name`. Underscores are not in that list, but accepted.
        """
        clean = re.sub(r"\s+", " ", re.sub(r"[^A-Za-z0-9_\s\-()\[\]]", " ", block.title or "")).strip()[:180].strip()
        title, number = clean or "document", 1
        while title in self._titles:
            number += 1
            title = f"{clean or 'document'} {number}"
        self._titles.add(title)
        if title == block.title:
            return block
        changes.append(BlockChange(".title", "title", "not a name for documents that the target takes", "weakened"))
        return replace(block, title=title)


class _Refusal(NamedTuple):
    why: str
    resizable: bool = False


def _is_document(block: Any) -> bool:
    """Whether this is a document proper: video is a document here, and a kind of its own for providers."""
    return isinstance(block, DocumentBlock) and not (block.mime_type or "").startswith("video/")


def _measure(seen: resizing.Picture | None) -> str:
    return f"{seen.width} by {seen.height} pixels" if seen else "too large"


def _resizing(block: ImageBlock, seen: resizing.Picture | None, smaller: resizing.Resized) -> str:
    before = f"{seen.width} by {seen.height} pixels" if seen else block.mime_type or "a picture"
    frames = f", the first of {smaller.frames} frames" if smaller.frames > 1 else ""
    return f"{before}: sent as {smaller.mime_type} of {smaller.width} by {smaller.height}{frames}"


_BY: dict[str, str] = {"data": "data", "text": "text", "url": "address", "file": "the id of an upload"}


def _source(block: Any) -> Source | None:
    """Returns the source of the block, in the order in which encoders look."""
    if block.data is not None:
        return "data" if block.data else None
    if getattr(block, "text", None) is not None:
        return "text"
    if block.url is not None:
        return "url"
    return "file" if block.file_id is not None else None


# --- data and types --------------------------------------------------------------------------------------------------

_DATA_URL = re.compile(r"data:([^,]*?)(;base64)?,", re.IGNORECASE)


def _inline(block: Any, changes: list[BlockChange]) -> Any:
    """Converts a data URL, in any field, to data and type; removes line breaks from base64."""
    given = block.data if block.data is not None else block.url or ""
    found = _DATA_URL.match(given, 0, 1000) if given[:5].lower() == "data:" else None
    if found is not None:
        payload = given[found.end() :]
        # RFC 2397: the data of a URL may be percent-encoded, base64 too.
        if found[2] and "%" in payload:
            payload = unquote(payload)
        data = payload if found[2] else base64.b64encode(unquote_to_bytes(jsontext.clean(payload))).decode()
        if not jsontext.is_clean(payload):
            changes.append(BlockChange("", "text", "halves of surrogate pairs are no Unicode", "weakened"))
        changes.append(BlockChange("", "media", "a data URL: sent as its data", "record"))
        url = None if block.data is None else block.url
        block = replace(block, data=data, url=url, mime_type=block.mime_type or found[1] or None)
    data = block.data
    # RFC 4648, 3.3: decoders reject line feeds unless told otherwise; MIME encoders write them.
    if data and any(map(str.isspace, data[:100] + data[-1])):
        changes.append(BlockChange(".data", "media", "base64 without line breaks", "record"))
        block = replace(block, data="".join(data.split()))
    return block


# Common spellings of types that providers know under one name.
_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "application/x-pdf": "application/pdf",
}
# Containers: the first bytes do not show the content.
_CONTAINERS = ("audio/ogg", "audio/mp4", "video/mp4", "video/quicktime")


def _typed(block: Any, changes: list[BlockChange]) -> Any:
    """Returns the block with its true type: that of its bytes if they show one, else the normalized label.

    Providers inspect the bytes and refuse a wrong label; parameters, case and aliases of a type do not matter.
    """
    given = block.mime_type or ""
    label = given.partition(";")[0].strip().lower()
    label = _ALIASES.get(label, label)
    seen = resizing.sniff(block.data) if block.data else None
    if seen is None or seen == label or _label_fits(seen, label):
        if label != given:
            changes.append(BlockChange(".mimeType", "media type", f"written as {label}", "record"))
            block = replace(block, mime_type=label or None)
        return block
    why = f"its bytes are {seen}, not {label}" if label else f"its bytes are {seen}"
    wanted: Any = _KINDS.get(seen.partition("/")[0], DocumentBlock)
    if isinstance(block, wanted):
        changes.append(BlockChange(".mimeType", "media type", why, "record"))
        return replace(block, mime_type=seen)
    changes.append(BlockChange("", "media type", why, "weakened"))
    return wanted(data=block.data, mime_type=seen, cache=block.cache)


def _label_fits(seen: str, label: str) -> bool:
    """Whether the label may be more exact: containers hold audio or video, and HEIC is a kind of HEIF."""
    if seen in _CONTAINERS:
        return label.startswith(("audio/", "video/"))
    return {seen, label} == {"image/heic", "image/heif"}


_KINDS: dict[str, type] = {"image": ImageBlock, "audio": AudioBlock}


# --- notes -----------------------------------------------------------------------------------------------------------


def _note(block: Any, why: str) -> TextBlock:
    """Returns the text of the document or audio, if it has any; else a note that it was omitted, and why."""
    text = _text_of(block)
    if text is None:
        text = f"({_NAMES[type(block)]} omitted: {why})"
    return TextBlock(text=text, cache=block.cache)


_NAMES: dict[type, str] = {ImageBlock: "image", AudioBlock: "audio", DocumentBlock: "document"}


_TEXT_TYPES = ("/json", "+json", "/xml", "+xml", "/javascript", "/x-javascript", "/yaml", "/x-yaml", "/toml")


def _text_of(block: Any) -> str | None:
    if isinstance(block, AudioBlock):
        return block.transcript or None
    if not isinstance(block, DocumentBlock):
        return None
    text = block.text
    kind = block.mime_type or ""
    if text is None and block.data is not None and (kind.startswith("text/") or kind.endswith(_TEXT_TYPES)):
        try:
            text = base64.b64decode(block.data).decode()
        except ValueError:
            return None
    return text or None
