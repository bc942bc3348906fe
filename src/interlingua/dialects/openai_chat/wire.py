"""The `Wire` of OpenAI Chat Completions."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from .. import openai_chat, shapes
from ..codec import text_answer_reader
from ..limits import VISIBLE, CustomTools, NameRule, Refinement, TargetLimits
from ..openai_shared import EMBEDDINGS, FILE_TYPES, OPENAI_HEADERS, OrdinaryTier, openai_models, rate_headers
from ..reasoning import EVERY_FORM, Form
from ..wire import Evidence, Http, UsageDetail, Wire, nested_count
from .facts import Compat, decode_usage

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))


def _without_usage(frames: bytes) -> bytes:
    """Frames without usage, as if `include_usage` was not set: no `usage: null`, no chunk with usage only."""
    if b'"usage"' not in frames:
        return frames
    # …/api-reference/chat/create, `stream_options`: with `include_usage`, all chunks have `usage`, null but for the
    # last.
    frames = _USAGE_NULL.sub(b"", frames)
    if b'"usage"' not in frames:
        return frames
    return _FRAME.sub(lambda one: b"" if b'"usage"' in one[0] and _NO_CHOICES.search(one[0]) else one[0], frames)


# In the text of a response, quotes have backslashes.
_USAGE_NULL = re.compile(rb',\s*"usage"\s*:\s*null')
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_FRAME = re.compile(rb"(?:[^\r\n]+(?:\r\n|\n|\r))+(?:\r\n|\n|\r)")


# A message has content in one of these fields. One with none of them holds its text under a name of another format.
_CONTENT_FIELDS = frozenset(
    ("content", "tool_calls", "function_call", "refusal", "audio", "reasoning_content", "reasoning")
)
_OTHER_TEXT = frozenset(("text", "message", "parts"))  # where other programs have what a message says


def _is_request(value: Any) -> bool:
    has_content = False
    for message in shapes.messages(value):
        if message.get("role") not in _ROLES or ("content" not in message and not _OTHER_TEXT.isdisjoint(message)):
            return False
        has_content = has_content or len(message) == 1 or not _CONTENT_FIELDS.isdisjoint(message)
    return has_content


def _is_response(value: Any) -> bool:
    """An answer's `choices` are objects of its own; those of a question in a test set are texts, or other objects.

    Beside `messages` they are part of a program's log: an answer does not repeat the question.
    """
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or isinstance(value.get("messages"), list):
        return False
    if not choices:
        return len(value) == 1 or shapes.has_any(value, _BESIDE)
    return all(shapes.has_any(choice, _CHOICE) for choice in choices)


_CHOICE = frozenset(("message", "delta", "finish_reason", "index", "logprobs"))
_BESIDE = frozenset(("object", "usage", "model"))


# The forms of the amount of reasoning, by `thinkingFormat` in `compat`.
_THINKING_FORMATS: dict[str, tuple[Form, ...]] = {
    "openai": ("effort",),
    "openrouter": EVERY_FORM,
    "zai": ("switch",),
    "deepseek": ("effort", "switch"),
    "qwen": ("budget", "switch"),
    "qwen-chat-template": ("switch",),
}


def _host_limits(compat: Mapping[str, Any]) -> dict[str, Any]:
    """The forms of reasoning of a host, and whether it supports strict schemas."""
    forms = _THINKING_FORMATS.get(compat.get("thinkingFormat") or "openai", ("effort",))
    if compat.get("supportsReasoningEffort") is False:
        forms = tuple(form for form in forms if form != "effort")
    return {"reasoning": forms, **({"strict": None} if compat.get("supportsStrictMode") is False else {})}


class _TextMessage(Struct, forbid_unknown_fields=True):
    role: Literal["assistant"]
    content: Annotated[str, Meta(min_length=1)]
    refusal: None = None
    annotations: Annotated[tuple[Any, ...], Meta(max_length=0)] = ()


class _TextChoice(Struct):
    message: _TextMessage
    finish_reason: Literal["stop", "length"]


class _TextAnswer(Struct):
    """An answer with one choice, which is a text."""

    choices: tuple[_TextChoice]
    usage: dict[str, Any]
    model: str | None = None
    error: None = None
    service_tier: OrdinaryTier = None


# https://platform.openai.com/docs/guides/images-vision, Image input requirements: PNG, JPEG, WebP, GIF without
# animation; 500 images and 50 MB per request. The page has higher numbers now, but the 50 MB are enforced.
# …/guides/file-inputs, Accepted file types.
_LIMITS = TargetLimits(
    api=openai_chat.API,
    # "string too long. Expected a string with maximum length 40"; hosts have ids such as `functions.weather:0`.
    ids=NameRule(VISIBLE, 40),
    error_flag=False,
    # …/api-reference/chat/create, `messages`: any order of roles, but results right after the message with the calls.
    later_system=True,
    joined_calls=True,
    images=("data", "url"),
    max_images=500,
    animations=False,
    documents=("data", "file"),
    document_types=FILE_TYPES,
    audio=("data",),
    audio_types=("audio/wav", "audio/mpeg"),
    media_bytes=50_000_000,
    # …, `messages`, tool message: `content` is a string or text parts.
    result_media=False,
    answer_audio=True,  # …/guides/audio: audio of an earlier answer is referred to by id
    reasoning=("effort",),
    cache_markers=0,  # OpenAI refuses `cache_control`; hosts that accept it set `compat`
    part_markers=True,
    cache_breakpoints={"~as": "prompt_cache_breakpoint"},
    custom_tools=True,
    custom_form=CustomTools({"~custom": True}, nested=True),
    # …/guides/structured-outputs, Supported schemas: every field required, `additionalProperties: false`.
    strict="all required",
    named_schemas=True,
    # …/api-reference/chat/create: `stop` has up to four sequences, `temperature` is between 0 and 2.
    max_stop_sequences=4,
    max_temperature=2,
)
# docs.mistral.ai: ids of nine characters; "Unexpected role 'user' after role 'tool'"; a final assistant message
# needs `prefix: true`.
_MISTRAL = Refinement(
    r"mi[sx]tral|codestral|pixtral|devstral|magistral|ministral",
    {"ids": NameRule(r"[A-Za-z0-9]{9}", 9), "answer_after_results": True, "prefix_flag": True},
)

OPENAI_CHAT = Wire(
    api=openai_chat.API,
    codec=openai_chat,
    limits=_LIMITS,
    refinements=(_MISTRAL,),
    host_limits=_host_limits,
    calls_beside=True,
    http=Http(
        route=r"/chat/completions",
        route_rank=80,
        base="/v1",
        models_path="/models",
        list_models=openai_models,
        charset="; charset=utf-8",
        response_id="chatcmpl-",
        embeddings=EMBEDDINGS,
        rate_headers=rate_headers,
        model_paths=(("model",),),
        usage_option=("stream_options", "include_usage"),
        # …/chat/streaming, `obfuscation`: random padding against measuring the size of chunks.
        varying=("obfuscation",),
        without_usage=_without_usage,
        request_headers=OPENAI_HEADERS,
    ),
    evidence=(
        Evidence("event", 30, "chunks that have `choices`", shapes.has("choices")),
        Evidence("response", 30, "an answer with `choices`", _is_response),
        Evidence("request", 80, "messages with the chat roles", _is_request),
    ),
    telemetry="openai",
    # platform.openai.com/docs/api-reference/chat/object, usage: details are parts of the counts.
    usage_detail=lambda usage: UsageDetail(
        input_audio=nested_count(usage, "prompt_tokens_details", "audio_tokens"),
        output_audio=nested_count(usage, "completion_tokens_details", "audio_tokens"),
    ),
    text_answer=text_answer_reader(
        _TextAnswer, lambda answer: decode_usage(answer.usage, Compat()), lambda answer: (answer.model,)
    ),
)
