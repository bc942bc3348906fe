"""What a target accepts, as data: ids, names, turns, media, caching, schemas. Read by `adapt`, and so by `check`.

Each wire has its `TargetLimits` (in its own package); the model and its `compat` refine them. See `Wire.limits_for`.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from .reasoning import EVERY_FORM, Form

Source: TypeAlias = Literal["data", "text", "url", "file"]  # how a picture, sound or document is given


class NameRule(Struct, frozen=True):
    """Which ids or names are accepted: a pattern for the whole, and the greatest length."""

    pattern: str
    max_length: int

    def allows(self, name: str) -> bool:
        return 0 < len(name) <= self.max_length and _compiled(self.pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


WORD = r"[A-Za-z0-9_-]+"
VISIBLE = r"[!-{}~]+"  # no bar: by it some programs join the two ids of a call of the Responses wire


class CustomTools(Struct, frozen=True):
    """How a wire writes tools that take free text: `mark` is what `extra` says of their calls; `nested` says that the
    definition is an object of its own inside the tool, and the grammar one inside its format."""

    mark: Mapping[str, Any]
    nested: bool = False


class Refinement(NamedTuple):
    """What changes for models whose id contains the pattern."""

    pattern: str
    changes: Mapping[str, Any]


class TargetLimits(Struct, frozen=True, kw_only=True):
    """The rules of one target. `api` is the wire under whose name `extra` keeps what only this wire has."""

    api: str
    # Calls and results. Where ids matter, no two calls of a request may share one.
    ids: NameRule | None = None
    names: NameRule = NameRule(WORD, 64)
    typed_tools: bool = False  # every tool has a schema, and the schema a type
    tools_with_history: bool = False  # tool blocks in the history need tool definitions
    error_flag: bool = True  # a result can say that it failed
    item_ids: bool = False  # blocks have ids of their own, beside those of calls; see OpenAI's Responses
    # Turns.
    later_system: bool = False  # system messages may stand between the others
    blank_text: bool = True  # blank text is accepted
    empty_tools: bool = False  # an empty list of tools is accepted
    blank_system: bool = False  # blank text is accepted as system text, at least
    answer_after_results: bool = False  # no user message directly behind the results of tools
    trimmed_end: bool = False  # a last message of the model may not end in blanks
    prefix_flag: bool = False  # a last message of the model is only accepted where it is marked as a beginning
    user_first: bool = False
    alternating: bool = False  # user and assistant strictly take turns
    # An assistant message with calls must be followed by their results at once ("An assistant message with
    # 'tool_calls' must be followed by tool messages"): the calls of a step are in its last message.
    joined_calls: bool = False
    # Fields of the request by which the provider holds what came before: calls whose results are sent may be there.
    server_history: tuple[str, ...] = ()
    # Media.
    images: tuple[Source, ...] = ("data", "url", "file")
    image_types: tuple[str, ...] = ("image/png", "image/jpeg", "image/gif", "image/webp")
    image_bytes: int | None = None  # of base64, as sent
    image_side: int | None = None  # in pixels
    image_pixels: int | None = None  # width times height
    animations: bool = True  # moving pictures are accepted
    max_images: int | None = None  # in a request
    many_images: tuple[int, int] | None = None  # in a request of more than so many pictures, the side is at most that
    documents: tuple[Source, ...] = ("data", "text", "url", "file")
    document_types: tuple[str, ...] | None = None  # of documents given as data (`*` for any rest); None: any
    document_names: bool = False  # names are needed, of few characters, each once
    document_text: bool = False  # a message with a document needs a text too
    document_bytes: int | None = None  # of base64, as sent
    unbounded_documents: tuple[str, ...] = ()  # types to which that limit does not apply
    max_documents: int | None = None  # in a request
    audio: tuple[Source, ...] = ()
    audio_types: tuple[str, ...] | None = None
    media_bytes: int | None = None  # of base64 in a request, pictures and all
    url_schemes: tuple[str, ...] = ("https", "http")  # of addresses from which media are read
    result_media: bool = True  # a tool result may hold pictures and documents
    mixed_content: bool = True  # texts and pictures of a message may alternate
    answer_media: bool = False  # an answer of the model may hold pictures and documents
    answer_audio: bool = False  # an answer of the model may hold the audio that it gave, by its id
    # Thinking.
    families: tuple[str, ...] = ()  # whose signatures are verified here
    signed_thinking: bool = False  # thinking without its signature is refused
    unsigned_call: str | None = None  # the documented marker for a call whose signature is not to be checked
    forced_with_thinking: bool = True  # a tool may be forced, and sampling changed, while thinking is on
    reasoning: tuple[Form, ...] = EVERY_FORM  # how a request of this wire sets the amount of reasoning
    off_values: bool = False  # the wire has a value of its own for the least thinking
    opaque: bool = True  # there are blocks of this wire's own that the format does not model
    # Calls that the provider ran are sent back: each with its result beside it ("paired"; "own": only those that this
    # wire itself gave), or as one item that holds both ("single"). None: never.
    server_tools: Literal["paired", "own", "single"] | None = None
    # Options.
    cache_markers: int | None = None  # how many are accepted; None: any number
    cached_tools: bool = True  # a marker may stand on a tool
    long_cache: bool = True  # a marker may ask for an hour
    part_markers: bool = False  # markers stand on parts of content; content without any is plain text
    automatic_cache: bool = False  # `cache_retention` is sent as a marker at the end of the request
    # OpenAI's own markers (`prompt_cache_breakpoint`), for models that accept them: what a marker's `extra` says then.
    cache_breakpoints: Mapping[str, Any] | None = None
    custom_tools: bool = False  # tools that take free text are accepted
    custom_form: CustomTools | None = None  # how the wire writes them
    schema: Literal["full", "gemini"] = "full"
    strict: Literal["all required", "closed"] | None = None  # what a schema must be to be called strict; None: see wire
    default_window: int | None = None  # how much is read where the request does not say; the rest is cut in silence
    named_schemas: bool = False  # the schema of an answer must have a name
    max_tokens: int | None = None  # the wire requires a limit: this one where none is known
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
    """The limits that a model's `compat` sets, whatever its wire."""
    fields: dict[str, Any] = {
        field: compat[name] for name, field in _COMPAT_LIMITS.items() if isinstance(compat.get(name), int)
    }
    length = compat.get("toolCallIdLength")
    if isinstance(length, int):
        fields["ids"] = NameRule(f"[A-Za-z0-9]{{{length}}}", length)
    if isinstance(compat.get("imageTypes"), list | tuple):
        fields["image_types"] = tuple(compat["imageTypes"])
    return fields
