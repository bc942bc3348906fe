"""The `Wire` of Amazon Bedrock Converse."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec import Meta, Struct

from .. import bedrock, shapes
from ..bedrock_http import BEDROCK_HTTP
from ..codec import text_answer_reader
from ..limits import DOCX, PDF, WORD, XLSX, NameRule, Refinement, TargetLimits
from ..wire import EmbeddingRoute, Evidence, Http, UsageDetail, Wire, sum_where, tier_names
from .responses import decode_usage

_UNTYPED = frozenset(
    {
        "text", "image", "document", "video", "audio", "toolUse", "toolResult", "reasoningContent", "cachePoint",
        "guardContent", "citationsContent",
    }
)  # fmt: skip


def _is_request(value: Any) -> bool:
    if isinstance(value, dict) and ("inferenceConfig" in value or "toolConfig" in value):
        return True
    parts = list(shapes.parts(value))
    return bool(parts) and all("type" not in part and part.keys() & _UNTYPED for part in parts)


class _Text(Struct, forbid_unknown_fields=True):
    text: str


class _TextMessage(Struct, forbid_unknown_fields=True):
    role: Literal["assistant"]
    content: Annotated[tuple[_Text, ...], Meta(min_length=1)]


class _TextOutput(Struct, forbid_unknown_fields=True):
    message: _TextMessage


class _TextAnswer(Struct, rename="camel"):
    """An answer of text blocks."""

    output: _TextOutput
    stop_reason: Literal["end_turn", "stop_sequence", "max_tokens"]
    usage: dict[str, Any]
    service_tier: None = None
    performance_config: None = None


# docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_PerformanceConfiguration.html: `standard` or `optimized`.
def _modes(given: Mapping[str, Any]) -> tuple[str, ...]:
    config = given.get("performanceConfig")
    latency = config.get("latency") if isinstance(config, dict) else None
    return tier_names(f"latency={latency}" if latency != "standard" and isinstance(latency, str) else None)


def _usage_detail(usage: Mapping[str, Any]) -> UsageDetail:
    # docs.aws.amazon.com/bedrock, TokenUsage: `cacheDetails` splits cache writes by TTL.
    return UsageDetail(cache_write_1h=sum_where(usage.get("cacheDetails"), "ttl", "1h", "inputTokens"))


# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html: 20 images of 3.75 MB and 8000 px,
# five documents of 4.5 MB, text beside a document, S3 locations or bytes; …/API_runtime_DocumentBlock.html: pdf,
# csv, doc, docx, xls, xlsx, html, txt, md. The newer page
# …/userguide/inference-api-restrictions.html leaves images, and the size of some PDF and DOCX files, to the models.
_LIMITS = TargetLimits(
    api=bedrock.API,
    ids=NameRule(WORD, 64),  # …/API_runtime_ToolUseBlock.html
    typed_tools=True,
    tools_with_history=True,  # "The toolConfig field must be defined when using toolUse and toolResult content blocks"
    blank_text=False,
    user_first=True,
    alternating=True,  # "roles must alternate between user and assistant"
    images=("data", "url"),
    image_bytes=5_000_000,
    image_side=8000,
    max_images=20,
    documents=("data", "text", "url"),
    document_types=(PDF, "text/*", "video/*", "application/msword", "application/vnd.ms-excel", DOCX, XLSX),
    # API_runtime_DocumentBlock.html: names are required, and distinct within a request.
    document_names=True,
    document_text=True,
    document_bytes=6_000_000,
    max_documents=5,
    audio=("data", "url"),
    # API_runtime_S3Location.html: `s3://` addresses only.
    url_schemes=("s3",),
    families=("claude",),
    signed_thinking=True,
    forced_with_thinking=False,
    off_values=True,
    server_tools="paired",
    cache_markers=4,
    strict="closed",
    # API_runtime_InferenceConfiguration.html: temperature and topP between 0 and 1.
    max_temperature=1,
)
_NOT_CLAUDE = (
    r"nova|titan|llama|mi[sx]tral|codestral|pixtral|devstral|magistral|ministral|deepseek|qwen|gpt|kimi|glm|minimax"
    r"|cohere|jamba"
)
_REFINEMENTS = (
    # …/userguide/inference-api-restrictions.html: no limit on the size of PDF (and with Nova DOCX) files.
    Refinement(r"claude-\w+-(?:[4-9]|\d\d)", {"unbounded_documents": (PDF,)}),
    Refinement(r"nova", {"unbounded_documents": (PDF, DOCX)}),
    # Other models refuse Claude's `thinking`, `top_k` and cache points.
    Refinement(
        _NOT_CLAUDE,
        {
            "signed_thinking": False,
            "forced_with_thinking": True,
            "reasoning": (),
            "off_values": False,
            "top_k": False,
            "cache_markers": 0,
        },
    ),
    Refinement(r"gpt-oss", {"reasoning": ("effort",)}),
    # docs.aws.amazon.com/nova: cache points after system text and messages, not after tools; `reasoningConfig`.
    Refinement(
        r"nova", {"reasoning": ("effort", "switch"), "cache_markers": 4, "cached_tools": False, "long_cache": False}
    ),
    # docs.aws.amazon.com/bedrock, prompt caching: from Claude 3.5 Haiku on; an hour from 4.5 on.
    Refinement(r"claude-(instant|v?2|3-(opus|sonnet|haiku)|3-5-sonnet)", {"cache_markers": 0}),
    Refinement(r"claude-(3-[57]|(opus|sonnet)-4(-[01]|-\d{8})?(-v1|:|$))", {"long_cache": False}),
)


# Embeddings use InvokeModel, whose body differs by vendor: docs.aws.amazon.com/bedrock/latest/
# userguide/model-parameters-titan-embed-text.html takes one text, …/model-parameters-embed.html (Cohere) takes 96.
def _encode_texts(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    if "cohere." in model:
        body: dict[str, Any] = {"texts": list(texts), "input_type": "search_document"}
        return body if dimensions is None else {**body, "output_dimension": dimensions}
    (text,) = texts
    return {"inputText": text} if dimensions is None else {"inputText": text, "dimensions": dimensions}


def _decode_vectors(body: Any) -> tuple[list[list[float]], int | None]:
    rows = body["embeddings"] if "embeddings" in body else [body["embedding"]]
    if isinstance(rows, dict):  # Cohere's response to several embedding types
        rows = rows["float"]
    return [[float(one) for one in row] for row in rows], body.get("inputTextTokenCount")


_EMBEDDINGS = EmbeddingRoute(
    path=lambda model: f"/model/{quote(model, safe='')}/invoke",
    encode=_encode_texts,
    decode=_decode_vectors,
    batch=lambda model: 96 if "cohere." in model else 1,
)

BEDROCK = Wire(
    api=bedrock.API,
    codec=bedrock,
    limits=_LIMITS,
    refinements=_REFINEMENTS,
    http=Http(
        route=r"/model/([^/]+)/(converse|converse-stream)",
        route_rank=45,
        streaming="converse-stream",
        ping=b"",  # the wire has no keep-alive event
        varying=("p",),  # padding
        embeddings=_EMBEDDINGS,
        **BEDROCK_HTTP,
    ),
    evidence=(
        Evidence("frame", 20, "AWS frames", lambda frame: True),
        Evidence(
            "response",
            50,
            "an answer with `stopReason` beside `output`",
            lambda v: isinstance(v["output"], dict) and "stopReason" in v,
        ),
        Evidence("request", 40, "content blocks without `type`", _is_request),
    ),
    telemetry="aws.bedrock",
    usage_detail=_usage_detail,
    modes=_modes,
    text_answer=text_answer_reader(_TextAnswer, lambda answer: decode_usage(answer.usage)),
)
