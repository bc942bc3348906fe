"""The limits of a target as data: ids, names, turns, media, caching, schemas. Read by `adapt` and `check`.

Each wire has its `TargetLimits` in its own package; the model and its `compat` refine them: see `Wire.limits_for`.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from .reasoning import EVERY_FORM, Form

Source: TypeAlias = Literal["data", "text", "url", "file"]  # the sources of an image, audio or document block


class NameRule(Struct, frozen=True):
    """Valid ids or names: a pattern for the whole string, and the maximum length."""

    pattern: str
    max_length: int

    def allows(self, name: str) -> bool:
        return 0 < len(name) <= self.max_length and _compiled(self.pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


WORD = r"[A-Za-z0-9_-]+"
VISIBLE = r"[!-{}~]+"  # no `|`: some programs join the two ids of a Responses call with it


class CustomTools(Struct, frozen=True):
    """How a wire writes custom tools, which take free text: `mark` is the `extra` of their calls; `nested` if the
    definition is an object inside the tool, and the grammar an object inside its format."""

    mark: Mapping[str, Any]
    nested: bool = False


class Refinement(NamedTuple):
    """Changes for models whose id matches the pattern."""

    pattern: str
    changes: Mapping[str, Any]


class TargetLimits(Struct, frozen=True, kw_only=True):
    """The rules of one target. `api` is the key of the wire in `extra`."""

    api: str
    # Calls and results. Where ids matter, they are unique within a request.
    ids: NameRule | None = None
    names: NameRule = NameRule(WORD, 64)
    typed_tools: bool = False  # every tool has a schema, and the schema a type
    tools_with_history: bool = False  # tool blocks in the history need tool definitions
    error_flag: bool = True  # of results
    item_ids: bool = False  # blocks have ids, beside those of calls (OpenAI Responses)
    # Turns; a text that is blank, or a list that is empty: accepted.
    later_system: bool = False  # system messages are accepted between others
    blank_text: bool = True
    empty_tools: bool = False
    blank_system: bool = False
    answer_after_results: bool = False  # no user message directly after tool results
    trimmed_end: bool = False  # a final assistant message may not end in whitespace
    prefix_flag: bool = False  # a final assistant message needs the flag `prefix`
    user_first: bool = False
    alternating: bool = False  # user and assistant messages must alternate
    # An assistant message with calls must be followed by their results at once ("An assistant message with
    # 'tool_calls' must be followed by tool messages"): the calls of a step are in its last message.
    joined_calls: bool = False
    # Request fields that refer to history stored by the provider: it may have the calls of results that are sent.
    server_history: tuple[str, ...] = ()
    # Media.
    images: tuple[Source, ...] = ("data", "url", "file")
    image_types: tuple[str, ...] = ("image/png", "image/jpeg", "image/gif", "image/webp")
    image_bytes: int | None = None  # of base64
    image_side: int | None = None  # in pixels
    image_pixels: int | None = None  # width times height
    animations: bool = True
    max_images: int | None = None  # in a request
    many_images: tuple[int, int] | None = None  # (count, side): above this number of images, the maximum side
    documents: tuple[Source, ...] = ("data", "text", "url", "file")
    document_types: tuple[str, ...] | None = None  # MIME types of documents as data, with `*`; None: any
    document_names: bool = False  # documents need unique names of a restricted alphabet
    document_text: bool = False  # a message with a document needs text
    document_bytes: int | None = None  # of base64
    unbounded_documents: tuple[str, ...] = ()  # types to which that limit does not apply
    max_documents: int | None = None  # in a request
    audio: tuple[Source, ...] = ()
    audio_types: tuple[str, ...] | None = None
    media_bytes: int | None = None  # of base64 in a request, all media
    url_schemes: tuple[str, ...] = ("https", "http")
    result_media: bool = True  # tool results may contain images and documents
    mixed_content: bool = True  # text and images of a message may alternate
    answer_media: bool = False  # assistant messages may contain images and documents
    answer_audio: bool = False  # assistant messages may refer to their audio by id
    # Thinking.
    families: tuple[str, ...] = ()  # families whose signatures this target verifies
    signed_thinking: bool = False  # thinking without its signature is refused
    unsigned_call: str | None = None  # the documented signature that skips validation
    forced_with_thinking: bool = True  # forced tools and sampling options are accepted with thinking
    reasoning: tuple[Form, ...] = EVERY_FORM  # the forms in which a request sets the amount of reasoning
    off_values: bool = False  # the wire has its own value for the least thinking
    opaque: bool = True  # the wire has blocks that our format does not model
    # Calls that the provider ran are sent back: each with its result beside it ("paired"; "own": only those that this
    # wire itself gave), or as one item that holds both ("single"). None: never.
    server_tools: Literal["paired", "own", "single"] | None = None
    # Options.
    cache_markers: int | None = None  # maximum number; None: any
    cached_tools: bool = True  # tools may have markers
    long_cache: bool = True  # markers may have a TTL of one hour
    part_markers: bool = False  # markers stand on parts of content; content without any is plain text
    automatic_cache: bool = False  # `cache_retention` is sent as a marker at the end of the request
    # The `extra` of OpenAI's own markers (`prompt_cache_breakpoint`), for models that accept them.
    cache_breakpoints: Mapping[str, Any] | None = None
    custom_tools: bool = False
    custom_form: CustomTools | None = None  # their form on this wire
    schema: Literal["full", "gemini"] = "full"
    # The requirement on a strict schema; None: strict is not accepted.
    strict: Literal["all required", "closed"] | None = None
    default_window: int | None = None  # context window if the request sets none; the server truncates silently
    named_schemas: bool = False
    max_tokens: int | None = None  # the wire requires a limit: the default
    max_stop_sequences: int | None = None
    max_temperature: float | None = None
    top_k: bool = True
    tiers: tuple[str, ...] | None = None


# Media types that several wires name.
PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

# Fields of a model's `compat` that set a limit of any wire.
_COMPAT_LIMITS = {
    "mergeTurns": "alternating",
    "cacheMarkers": "cache_markers",
    "supportsLongCacheMarkers": "long_cache",
    "supportsTopK": "top_k",
    "supportsCustomTools": "custom_tools",
    "requiresAssistantAfterToolResult": "answer_after_results",
    "requiresPrefixFlag": "prefix_flag",
    "maxImages": "max_images",
    "imageBytes": "image_bytes",
    "imageSide": "image_side",
    "imagePixels": "image_pixels",
    "maxDocuments": "max_documents",
    "documentBytes": "document_bytes",
    "mediaBytes": "media_bytes",
}


def compat_limits(compat: Mapping[str, Any]) -> dict[str, Any]:
    """The limits that a model's `compat` sets on any wire."""
    fields: dict[str, Any] = {
        field: compat[name] for name, field in _COMPAT_LIMITS.items() if isinstance(compat.get(name), int)
    }
    length = compat.get("toolCallIdLength")
    if isinstance(length, int):
        fields["ids"] = NameRule(f"[A-Za-z0-9]{{{length}}}", length)
    if isinstance(compat.get("imageTypes"), list | tuple):
        fields["image_types"] = tuple(compat["imageTypes"])
    return fields
