"""The `Wire` of Gemini's generateContent, and its variants on Vertex AI and Cloud Code Assist."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from ...values import jsontext
from ...values.errors import BadRequest, FormatError
from .. import google, shapes
from ..codec import text_answer_reader
from ..limits import PDF, NameRule, Refinement, TargetLimits
from ..wire import Count, EmbeddingRoute, Evidence, Http, UsageDetail, Wire, page_size, sum_where, tier_names
from .responses import decode_usage

_VERBS = "generateContent|streamGenerateContent"
_MODELS = r"/(?:models|publishers/[^/]+/models)"


def _models(names: Sequence[str]) -> dict[str, Any]:
    verbs = ["generateContent", "streamGenerateContent", "countTokens"]
    entries = [{"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": verbs} for name in names]
    return {"models": entries}


# ai.google.dev/api/models, models.list: `pageSize`, and a token for the next page. Without a size, all.
def _models_page(names: Sequence[str], query: Mapping[str, str]) -> tuple[Sequence[str], dict[str, Any]]:
    token = query.get("pageToken", "") or "0"
    if not token.isascii() or not token.isdigit() or int(token[:9]) > len(names):
        raise BadRequest("pageToken: unknown; send the `nextPageToken` of a page", status=400)
    start = int(token[:9])
    end = start + page_size(query, "pageSize", len(names) or 1)
    return names[start:end], {"nextPageToken": str(end)} if end < len(names) else {}


_CONTENT = frozenset(("parts", "role"))
_CANDIDATE = frozenset(("content", "finishReason", "safetyRatings", "tokenCount", "index"))
_BESIDE_CANDIDATES = frozenset(("usageMetadata", "modelVersion", "responseId", "promptFeedback"))

_ASKED = frozenset(("contents", "request", "messages", "prompt"))


def _is_response(value: Any) -> bool:
    """An answer with `candidates`; other programs have candidates for other things."""
    found = value["candidates"] if isinstance(value, dict) else None
    if not isinstance(found, list):
        return False
    if not found:
        return len(value) == 1 or shapes.has_any(value, _BESIDE_CANDIDATES)
    return all(shapes.has_any(one, _CANDIDATE) for one in found)


def _is_wrapped_response(value: Any) -> bool:
    """An answer in an envelope, which a log may have beside its request: then the envelope is not all there is."""
    return not shapes.has_any(value, _ASKED) and _is_response(value["response"])


def _is_request(value: Any) -> bool:
    if isinstance(value, dict):
        found = value["contents"]
        return isinstance(found, list) and all(shapes.has_any(one, _CONTENT) for one in found)
    return any(isinstance(message.get("parts"), list) and "id" not in message for message in shapes.messages(value))


def _token_and_project(key: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The credential of Cloud Code Assist is JSON with a token and a project; the project goes into the envelope."""
    try:
        both = jsontext.read(key)
    except FormatError:
        return key, body
    if not isinstance(both, dict):
        return key, body
    project = both.get("projectId")
    return str(both.get("token", "")), ({**body, "project": project} if project else body)


def _evidence(rank: int) -> tuple[Evidence, ...]:
    return (
        Evidence("event", rank, "chunks that have `candidates`", lambda v: v.keys() & {"candidates", "promptFeedback"}),
        Evidence("chunk", rank, "an array of chunks that have `candidates`", _is_response),
        Evidence("response", rank - 30, "an answer with `candidates`", _is_response),
        Evidence(
            "response",
            rank - 30,
            "an answer with `promptFeedback`",
            lambda v: isinstance(v, dict) and isinstance(v["promptFeedback"], dict),
        ),
        Evidence("request", rank - 30, "`contents` with `parts`", _is_request),
    )


# Vertex AI, UsageMetadata.TrafficType, possibly as numbers. Provisioned throughput is not billed per token.
_TRAFFIC = ("TRAFFIC_TYPE_UNSPECIFIED", "ON_DEMAND", "PROVISIONED_THROUGHPUT", "ON_DEMAND_PRIORITY", "ON_DEMAND_FLEX")


def _traffic(value: Any) -> str | None:
    if isinstance(value, int) and 0 <= value < len(_TRAFFIC):
        value = _TRAFFIC[value]
    if not isinstance(value, str) or value == _TRAFFIC[0]:
        return None
    return value.removeprefix("ON_DEMAND_").lower()


class _TextPart(Struct, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1)]


class _TextContent(Struct, forbid_unknown_fields=True):
    parts: Annotated[tuple[_TextPart, ...], Meta(min_length=1)]
    role: Literal["model"] = "model"


class _TextCandidate(Struct, rename="camel"):
    content: _TextContent
    finish_reason: Literal["STOP", "MAX_TOKENS"]
    grounding_metadata: None = None
    citation_metadata: None = None
    url_context_metadata: None = None


class _TextAnswer(Struct, rename="camel"):
    """An answer with one candidate, whose parts are texts."""

    candidates: tuple[_TextCandidate]
    usage: dict[str, Any] = field(name="usageMetadata")
    prompt_feedback: None = None
    error: None = None


def _usage_detail(usage: Mapping[str, Any]) -> UsageDetail:
    # ai.google.dev/api/generate-content, UsageMetadata: counts of the prompt include cached content.
    def of(details: str, modality: str) -> int:
        return sum_where(usage.get(details), "modality", modality, "tokenCount")

    cached_audio = of("cacheTokensDetails", "AUDIO")
    return UsageDetail(
        input_audio=of("promptTokensDetails", "AUDIO") - cached_audio,
        cache_read_audio=cached_audio,
        output_audio=of("candidatesTokensDetails", "AUDIO"),
        output_image=of("candidatesTokensDetails", "IMAGE"),
        tiers=tier_names(usage.get("serviceTier"), _traffic(usage.get("trafficType"))),
    )


# https://ai.google.dev/gemini-api/docs/image-understanding: these types, 3,600 files; …/file-input-methods: 100 MB of
# inline data; …/document-processing: PDF and text.
_LIMITS = TargetLimits(
    api=google.API,
    names=NameRule(r"[A-Za-z_][A-Za-z0-9_.:-]*", 64),  # ai.google.dev/api/caching, FunctionDeclaration
    # Vertex AI: "Unable to submit request because it must have a text parameter".
    blank_text=False,
    blank_system=True,
    # "function call turn comes immediately after a user turn or after a function response turn".
    user_first=True,
    images=("data", "url"),
    image_types=("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
    max_images=3600,
    documents=("data", "text", "url"),
    document_types=(PDF, "text/*", "video/*"),
    audio=("data", "url"),
    media_bytes=100_000_000,
    # …/gemini-api/docs/file-input-methods: HTTPS addresses, Cloud Storage, and files uploaded before.
    url_schemes=("https", "http", "gs"),
    result_media=False,
    # Gemini's own pictures come as `inlineData` of its answer, and go back so.
    answer_media=True,
    server_tools="own",
    families=("gemini",),
    schema="gemini",
    max_stop_sequences=5,  # ai.google.dev/api/generate-content, GenerationConfig
    max_temperature=2,
)


# ai.google.dev/api/embeddings, models.batchEmbedContents: up to 100 texts.
def _encode_texts(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    wanted = {} if dimensions is None else {"outputDimensionality": dimensions}
    name = model if model.startswith("models/") else f"models/{model}"
    return {"requests": [{"model": name, "content": {"parts": [{"text": text}]}, **wanted} for text in texts]}


def _decode_vectors(body: Any) -> tuple[list[list[float]], int | None]:
    usage = body.get("usageMetadata") or {}
    return [[float(one) for one in row["values"]] for row in body["embeddings"]], usage.get("promptTokenCount")


_EMBEDDINGS = EmbeddingRoute(
    path=lambda model: f"/models/{model.removeprefix('models/')}:batchEmbedContents",
    encode=_encode_texts,
    decode=_decode_vectors,
    batch=lambda model: 100,
)

GOOGLE = Wire(
    api=google.API,
    codec=google,
    limits=_LIMITS,
    # ai.google.dev/gemini-api/docs/thought-signatures: calls must be signed; this signature skips the
    # validation. Results may contain media from Gemini 3 on.
    refinements=(Refinement(r"gemini-3", {"unsigned_call": "skip_thought_signature_validator", "result_media": True}),),
    vendor="gemini",
    http=Http(
        input_field="contents",
        ping=b"",  # no keep-alive: google-genai parses comments as JSON and fails
        route=rf"/((?:models|tunedModels)/.+?):({_VERBS})",  # names may have colons: `llama3.2:8b`, behind a gateway
        route_rank=30,
        base="/v1beta",
        model_prefixes=("models/",),
        # ai.google.dev/api, Authentication. A query `key=` would end up in logs.
        auth="x-goog-api-key",
        models_route=_MODELS,
        models_path="/models?pageSize=1",
        list_models=_models,
        models_page=_models_page,
        # A stream without `alt=sse` is a JSON array of chunks.
        json_streams=True,
        streaming="streamGenerateContent",
        request_id="x-goog-request-id",
        embeddings=_EMBEDDINGS,
        model_paths=(("modelVersion",),),
        varying=("candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"),
        count=Count(
            route=r"/((?:models|tunedModels)/.+?):countTokens",
            # ai.google.dev/api/tokens: the contents alone, or a whole request under `generateContentRequest`.
            request=lambda body: body.get("generateContentRequest") or body,
            answer=lambda tokens: {"totalTokens": tokens},
        ),
    ),
    evidence=_evidence(50),
    telemetry="gcp.gemini",
    usage_detail=_usage_detail,
    text_answer=text_answer_reader(_TextAnswer, lambda answer: decode_usage(answer.usage)),
)
VERTEX = GOOGLE.variant(
    "google-vertex",
    quirks={"publisher": "google"},
    # docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/image-understanding: 3,000 images, 7 MB each if
    # inline.
    limits={"max_images": 3000, "image_bytes": 7_000_000 * 4 // 3},
    http={
        "route": rf"/((?:publishers/[^/]+/models|endpoints|models)/.+?):({_VERBS})",
        "route_rank": 40,
        "base": "/v1/projects/test/locations/us-central1",
        "model_prefixes": ("publishers/google/models/", "models/"),
        "auth": "google",
        "models_path": None,
        "embeddings": None,
    },
    evidence=_evidence(51),
    telemetry="gcp.vertex_ai",
)
GEMINI_CLI = GOOGLE.variant(
    "google-gemini-cli",
    quirks={"envelope": True},
    http={
        "route": rf"/v1internal(?P<none>):({_VERBS})",
        "route_rank": 10,
        "base": "",
        "auth": "bearer",
        "unpack_key": _token_and_project,
        "models_path": None,
        "embeddings": None,
    },
    evidence=(
        Evidence("event", 40, "an envelope around `candidates`", _is_wrapped_response),
        Evidence("response", 10, "an envelope around `candidates`", _is_wrapped_response),
        Evidence(
            "request", 10, "an envelope with `request.contents`", lambda v: isinstance(v["request"]["contents"], list)
        ),
    ),
)
