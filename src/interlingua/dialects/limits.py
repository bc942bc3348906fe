"""What targets accept, as data: ids, names, turns, media, caching, schemas. Read by `adapt`, and through it by `check`.

A profile belongs to a wire; the model and its `compat` refine it (`toolCallIdLength`, `mergeTurns`, …). Families say
whose signatures a model can verify: what one Claude signed, another Claude verifies, whoever serves it.
"""

import re
from functools import cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..values.request import ModelDescriptor
from .reasoning import EVERY_FORM, Form

Source: TypeAlias = Literal["data", "text", "url", "file"]  # how a picture, sound or document is given


class NameRule(Struct, frozen=True):
    """Which ids or names are taken: a pattern for the whole, and the greatest length."""

    pattern: str
    most: int

    def allows(self, name: str) -> bool:
        return 0 < len(name) <= self.most and _compiled(self.pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


WORD = r"[A-Za-z0-9_-]+"


class Limits(Struct, frozen=True, kw_only=True):
    """The rules of one target. `api` is the dialect that files what only this wire can say."""

    api: str
    # Calls and results. Where ids matter, no two calls of a request may share one.
    ids: NameRule | None = None
    names: NameRule = NameRule(WORD, 64)
    typed_tools: bool = False  # every tool has a schema, and the schema a type
    tools_with_history: bool = False  # tool blocks in the history need tool definitions
    error_flag: bool = True  # a result can say that it failed
    # Turns.
    later_system: bool = False  # system messages may stand between the others
    blank_text: bool = True  # blank text is accepted
    answer_after_results: bool = False  # no user message directly behind the results of tools
    trimmed_end: bool = False  # a last message of the model may not end in blanks
    prefix_flag: bool = False  # a last message of the model is only taken where it says that it is a beginning
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
    animations: bool = True  # pictures that move are taken
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
    url_schemes: tuple[str, ...] = ("https", "http")  # of addresses from which media are taken
    result_media: bool = True  # a tool result may hold pictures and documents
    mixed_content: bool = True  # texts and pictures of a message may alternate
    answer_media: bool = False  # so may an answer of the model
    # Thinking.
    families: tuple[str, ...] = ()  # whose signatures are verified here
    signed_thinking: bool = False  # thinking without its signature is refused
    unsigned_call: str | None = None  # the documented marker for a call whose signature is not to be checked
    forced_with_thinking: bool = True  # a tool may be forced, and sampling changed, while thinking is on
    reasoning: tuple[Form, ...] = EVERY_FORM  # how this wire is told how much to think
    off_words: bool = False  # the wire has words of its own for the least thinking
    opaque: bool = True  # there are blocks of this wire's own that the format does not model
    server_tools: bool = False  # calls that the provider ran are said as such
    # Options.
    cache_markers: int | None = None  # how many are taken; None: no matter how many
    cached_tools: bool = True  # a marker may stand on a tool
    long_cache: bool = True  # a marker may ask for an hour
    custom_tools: bool = False  # tools that take free text
    schema: Literal["full", "gemini"] = "full"
    strict: Literal["all required", "closed"] | None = None  # what a schema must be to be called strict; None: see wire
    default_window: int | None = None  # how much is read where the request does not say; the rest is cut in silence
    named_schemas: bool = False  # the schema of an answer must have a name
    max_tokens: int | None = None  # the wire requires a limit: this one where none is known
    stops: int | None = None
    max_temperature: float | None = None  # the highest temperature
    top_k: bool = True
    tiers: tuple[str, ...] | None = None


PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
CLAUDE = "claude"
# https://platform.claude.com/docs/en/build-with-claude/vision, General limits: 5 MB of base64 and 8000 px a picture;
# 100 pictures (600 where the window is larger than 200k tokens); in requests of more than 20 pictures 2000 px each.
# A request has at most 32 MB (…/api/overview, Request size limits), of which 2 are left for text here.
ANTHROPIC = Limits(
    api="anthropic-messages",
    ids=NameRule(WORD, 64),
    names=NameRule(WORD, 128),
    typed_tools=True,
    blank_text=False,
    trimmed_end=True,
    user_first=True,
    image_bytes=5 * 1024 * 1024,
    image_side=8000,
    max_images=100,
    many_images=(20, 2000),
    document_types=(PDF,),
    media_bytes=30_000_000,
    families=(CLAUDE,),
    signed_thinking=True,
    forced_with_thinking=False,
    off_words=True,
    server_tools=True,
    cache_markers=4,
    strict="closed",
    max_tokens=4096,
    max_temperature=1,
    tiers=("auto", "standard_only"),
)
# On Amazon Bedrock media come as base64 only (the same page), and a picture has at most 3.75 MB.
BEDROCK_ANTHROPIC = replace(ANTHROPIC, images=("data",), image_bytes=5_000_000, documents=("data", "text"))
# https://platform.openai.com/docs/guides/images-vision, Image input requirements: PNG, JPEG, WebP, GIF without
# animation; 500 pictures and 50 MB a request. Both were raised in the page since, but the 50 MB are enforced.
# …/guides/file-inputs, Accepted file types: PDF, text and code, office documents.
OFFICE = ("application/vnd.openxmlformats-*", "application/vnd.ms-*", "application/vnd.oasis.*", "application/msword")
OPENAI_FILES = (PDF, "text/*", "application/json", "application/xml", "application/*+xml", "application/rtf", *OFFICE)
COMPLETIONS = Limits(
    api="openai-completions",
    ids=NameRule(WORD, 40),
    error_flag=False,
    later_system=True,
    joined_calls=True,
    images=("data", "url"),
    max_images=500,
    animations=False,
    documents=("data", "file"),
    document_types=OPENAI_FILES,
    audio=("data",),
    audio_types=("audio/wav", "audio/mpeg"),
    media_bytes=50_000_000,
    result_media=False,
    reasoning=("effort",),
    cache_markers=0,  # OpenAI's own service refuses `cache_control`; hosts that take it say so in `compat`
    custom_tools=True,
    strict="all required",
    named_schemas=True,
    stops=4,
    max_temperature=2,
)
RESPONSES = Limits(
    api="openai-responses",
    ids=NameRule(WORD, 64),
    error_flag=False,
    later_system=True,
    server_history=("previous_response_id", "conversation", "prompt"),
    max_images=500,
    animations=False,
    documents=("data", "url", "file"),
    document_types=OPENAI_FILES,
    media_bytes=50_000_000,
    families=("openai",),
    signed_thinking=True,
    reasoning=("effort", "switch"),
    custom_tools=True,
    strict="all required",
    named_schemas=True,
    max_temperature=2,
)
# https://ai.google.dev/gemini-api/docs/image-understanding: these types, 3,600 files; …/file-input-methods: 100 MB of
# inline data; …/document-processing: PDF and text. Vertex AI, docs.cloud.google.com/vertex-ai/generative-ai/docs/
# multimodal/image-understanding: 3,000 pictures, 7 MB each where they are inline.
GOOGLE = Limits(
    api="google-generative-ai",
    names=NameRule(r"[A-Za-z_][A-Za-z0-9_.:-]*", 64),
    blank_text=False,
    user_first=True,
    images=("data", "url"),
    image_types=("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
    max_images=3600,
    documents=("data", "text", "url"),
    document_types=(PDF, "text/*", "video/*"),
    audio=("data", "url"),
    media_bytes=100_000_000,
    url_schemes=("https", "http", "gs"),
    result_media=False,
    answer_media=True,
    families=("gemini",),
    schema="gemini",
    stops=5,
    max_temperature=2,
)
VERTEX = replace(GOOGLE, max_images=3000, image_bytes=7_000_000 * 4 // 3)
# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html: 20 pictures of 3.75 MB and 8000 px,
# five documents of 4.5 MB, a text beside a document, S3 locations besides bytes; …/API_runtime_DocumentBlock.html: pdf,
# csv, doc, docx, xls, xlsx, html, txt, md. The newer page
# …/userguide/inference-api-restrictions.html leaves pictures to the models, and the size of some PDF and DOCX files.
BEDROCK = Limits(
    api="bedrock-converse-stream",
    ids=NameRule(WORD, 64),
    typed_tools=True,
    tools_with_history=True,
    blank_text=False,
    user_first=True,
    alternating=True,
    images=("data", "url"),
    image_bytes=5_000_000,
    image_side=8000,
    max_images=20,
    documents=("data", "text", "url"),
    document_types=(PDF, "text/*", "video/*", "application/msword", "application/vnd.ms-excel", DOCX, XLSX),
    document_names=True,
    document_text=True,
    document_bytes=6_000_000,
    max_documents=5,
    audio=("data", "url"),
    url_schemes=("s3",),
    families=(CLAUDE,),
    signed_thinking=True,
    forced_with_thinking=False,
    off_words=True,
    server_tools=True,
    cache_markers=4,
    strict="closed",
    max_temperature=1,
)
OLLAMA = Limits(
    api="ollama-chat",
    error_flag=False,
    later_system=True,
    images=("data",),
    documents=(),
    result_media=False,
    mixed_content=False,
    reasoning=("effort", "switch"),
    opaque=False,
    default_window=4096,  # github.com/ollama/ollama/blob/main/docs/context-length.mdx
)

LIMITS: dict[str, Limits] = {
    "anthropic-messages": ANTHROPIC,
    "bedrock-invoke-anthropic": BEDROCK_ANTHROPIC,
    "openai-completions": COMPLETIONS,
    "openai-responses": RESPONSES,
    "azure-openai-responses": RESPONSES,
    "openai-codex-responses": RESPONSES,
    "google-generative-ai": GOOGLE,
    "google-vertex": VERTEX,
    "google-gemini-cli": GOOGLE,
    "bedrock-converse-stream": BEDROCK,
    "ollama-chat": OLLAMA,
}

MISTRAL = r"mi[sx]tral|codestral|pixtral|devstral|magistral|ministral"

# The first pattern that matches a model's id names its family.
FAMILIES: list[tuple[str, str]] = [
    (r"claude", CLAUDE),
    (r"gemini", "gemini"),
    (r"gpt|codex|(?:^|[/.])o[134](?:-|$)", "openai"),
    (r"deepseek", "deepseek"),
    (r"qwen|qwq", "qwen"),
    (MISTRAL, "mistral"),
    (r"grok", "grok"),
    (r"kimi|moonshot", "kimi"),
    (r"glm", "glm"),
    (r"minimax", "minimax"),
    (r"nova", "nova"),
    (r"llama", "llama"),
]
# Whose models an api serves, where the id does not tell.
HOUSES: dict[str, str] = {
    api: rules.families[0] for api, rules in LIMITS.items() if rules.families and rules is not BEDROCK
}

OTHERS = rf"nova|titan|llama|{MISTRAL}|deepseek|qwen|gpt|kimi|glm|minimax|cohere|jamba"

# Refinements: (wire, pattern over the model's id, what changes).
MODELS: list[tuple[str, str, dict[str, Any]]] = [
    # docs.mistral.ai: ids of nine characters; "Unexpected role 'user' after role 'tool'"; a last message of the
    # assistant's needs `prefix: true`.
    (
        "openai-completions",
        MISTRAL,
        {"ids": NameRule(r"[A-Za-z0-9]{9}", 9), "answer_after_results": True, "prefix_flag": True},
    ),
    ("google-generative-ai", r"gemini-3", {"unsigned_call": "skip_thought_signature_validator", "result_media": True}),
    ("bedrock-converse-stream", r"claude-\w+-(?:[4-9]|\d\d)", {"unbounded_documents": (PDF,)}),
    ("bedrock-converse-stream", r"nova", {"unbounded_documents": (PDF, DOCX)}),
    # Only Claude's fields are known: others refuse `thinking`, `top_k` and cache points.
    (
        "bedrock-converse-stream",
        OTHERS,
        {
            "signed_thinking": False,
            "forced_with_thinking": True,
            "reasoning": (),
            "off_words": False,
            "top_k": False,
            "cache_markers": 0,
        },
    ),
    ("bedrock-converse-stream", r"gpt-oss", {"reasoning": ("effort",)}),
    # docs.aws.amazon.com/nova: points behind system text and messages, not behind tools; `reasoningConfig`.
    (
        "bedrock-converse-stream",
        r"nova",
        {"reasoning": ("effort", "switch"), "cache_markers": 4, "cached_tools": False, "long_cache": False},
    ),
    # docs.aws.amazon.com/bedrock, prompt caching: from Claude 3.5 Haiku on; an hour from 4.5 on.
    ("bedrock-converse-stream", r"claude-(instant|v?2|3-(opus|sonnet|haiku)|3-5-sonnet)", {"cache_markers": 0}),
    (
        "bedrock-converse-stream",
        r"claude-(3-[57]|(opus|sonnet)-4(-[01]|-\d{8})?(-v1|:|$))",
        {"long_cache": False},
    ),
]

# How hosts of the chat wire are told how much to think, by the `thinkingFormat` of their `compat`.
THINKING_FORMATS: dict[str, tuple[Form, ...]] = {
    "openai": ("effort",),
    "openrouter": EVERY_FORM,
    "zai": ("switch",),
    "deepseek": ("effort", "switch"),
    "qwen": ("budget", "switch"),
    "qwen-chat-template": ("switch",),
}


@cache
def family(model: str | None, api: str | None) -> str | None:
    """Whose model minted something, as far as can be told: by its id, else by the house that serves the api."""
    for pattern, name in FAMILIES if model else ():
        if re.search(pattern, model or "", re.IGNORECASE):
            return name
    return HOUSES.get(api or "") or model or None


def limits_of(target: ModelDescriptor) -> Limits:
    """The rules of a target: its wire's, refined by its model and by its `compat`."""
    rules = LIMITS.get(target.api) or Limits(api=target.api)
    for api, pattern, changes in MODELS:
        if api == rules.api and re.search(pattern, target.id, re.IGNORECASE):
            rules = replace(rules, **changes)
    return replace(rules, **_given(target.compat, rules)) if target.compat else rules


def _given(compat: dict[str, Any], rules: Limits) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if rules.api == "openai-completions":
        fields |= _host(compat)
    length = compat.get("toolCallIdLength")
    if isinstance(length, int):
        fields["ids"] = NameRule(f"[A-Za-z0-9]{{{length}}}", length)
    for name, field in _FLAGS.items():
        if isinstance(compat.get(name), int):
            fields[field] = compat[name]
    if isinstance(compat.get("imageTypes"), list | tuple):
        fields["image_types"] = tuple(compat["imageTypes"])
    return fields


_FLAGS = {
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


def _host(compat: dict[str, Any]) -> dict[str, Any]:
    """How a host of the chat wire is told how much to think, and whether it knows strict schemas."""
    forms = THINKING_FORMATS.get(compat.get("thinkingFormat") or "openai", ("effort",))
    if compat.get("supportsReasoningEffort") is False:
        forms = tuple(form for form in forms if form != "effort")
    return {"reasoning": forms, **({"strict": None} if compat.get("supportsStrictMode") is False else {})}
