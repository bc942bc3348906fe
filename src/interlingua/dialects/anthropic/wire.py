"""The `Wire` of Anthropic Messages, and its variants on Bedrock (InvokeModel) and Vertex AI (`rawPredict`)."""

import base64
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ...values import jsontext
from ...values.errors import BadRequest, BadWire, FormatError
from .. import anthropic, shapes
from ..bedrock_http import BEDROCK_HTTP
from ..codec import text_answer_reader
from ..framing import AWSEventStream, Frame, framing_for, write_aws, write_sse
from ..limits import PDF, WORD, NameRule, TargetLimits
from ..wire import Count, Evidence, Http, UsageDetail, Wire, nested_count, page_size, tier_names
from .facts import API
from .responses import decode_usage

# Bedrock API reference, InvokeModelWithResponseStream: events in AWS frames, each base64 in `{"bytes": …}`.


class AWSChunks:
    """AWS frames whose payload has an event of the wire, base64-encoded under `bytes`."""

    name = AWSEventStream.name

    def __init__(self) -> None:
        self._frames = AWSEventStream()
        self._fault: BadWire | None = None

    def feed(self, chunk: bytes) -> list[Frame]:
        self._raise_fault()
        return self._unchunked(self._frames.feed(chunk))

    def close(self) -> list[Frame]:
        self._raise_fault()
        return self._unchunked(self._frames.close())

    def _unchunked(self, frames: list[Frame]) -> list[Frame]:
        """The events before a malformed one; its error is raised by the next call."""
        events: list[Frame] = []
        for frame in frames:
            try:
                events.append(_unchunked(frame))
            except BadWire as fault:
                if not events:
                    raise
                self._fault = fault
                break
        return events

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault


def _unchunked(frame: Frame) -> Frame:
    try:
        payload = jsontext.read(frame.data)
        # An exception frame has no `bytes` but a `message`; its `:exception-type` is the event's name.
        if "bytes" in payload:
            return Frame(base64.b64decode(payload["bytes"]))
        message = payload.get("message") or frame.event
    except (FormatError, TypeError, AttributeError, ValueError) as error:
        raise BadWire(API, f"AWS frame without a chunk: {error}") from None
    return Frame(jsontext.write({"type": "error", "error": {"type": frame.event, "message": message}}))


def chunked(frame: Frame) -> bytes:
    return write_aws("chunk", jsontext.write({"bytes": base64.b64encode(frame.data).decode()}))


def _models(names: Sequence[str]) -> dict[str, Any]:
    created = "2025-01-01T00:00:00Z"
    entries = [{"type": "model", "id": name, "display_name": name, "created_at": created} for name in names]
    first, last = (names[0], names[-1]) if names else (None, None)
    # …/api/models-list: ids of the first and last entry are the cursors of the next call.
    return {"data": entries, "has_more": False, "first_id": first, "last_id": last}


# platform.claude.com/docs/en/api/models-list: `limit`, and the id before or after the page. Without a limit, all.
def _models_page(names: Sequence[str], query: Mapping[str, str]) -> tuple[Sequence[str], dict[str, Any]]:
    limit, after, before = page_size(query, "limit", len(names)), query.get("after_id"), query.get("before_id")
    for field, name in (("after_id", after), ("before_id", before)):
        if name is not None and name not in names:
            raise BadRequest(f"{field}: no model {name[:80]!r}; send the `last_id` or `first_id` of a page", status=400)
    rest = names[names.index(after) + 1 :] if after is not None else names
    if before is not None and before in rest:
        rest = rest[: rest.index(before)]
    page = rest[-limit:] if before is not None and after is None else rest[:limit]
    return page, {"has_more": len(page) < len(rest)}


# docs.claude.com/en/api/rate-limits, Response headers: resets are RFC 3339 times.
def _rate_headers(quotas: Mapping[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = {}
    now = time.time()
    for what, quota in quotas.items():
        name = f"anthropic-ratelimit-{what}"
        headers[f"{name}-limit"] = str(quota.limit)
        headers[f"{name}-remaining"] = str(quota.remaining)
        headers[f"{name}-reset"] = _moment(int(now + quota.reset))
    return headers


@functools.lru_cache(maxsize=64)
def _moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _is_request(value: Any) -> bool:
    roles = [message.get("role") for message in shapes.messages(value)]
    # Here the system prompt is a field beside `messages`, and results are blocks of a user message.
    if roles[:1] == ["system"] or not {"developer", "tool"}.isdisjoint(roles):
        return False
    return (isinstance(value, dict) and "messages" in value and _has_own_keys(value)) or any(
        map(_is_own_part, shapes.parts(value))
    )


def _is_own_part(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    if kind == "thinking":
        return isinstance(part.get("thinking"), str)  # a list of chunks is Mistral's
    return kind in ("tool_use", "tool_result", "redacted_thinking", "server_tool_use") or (
        kind in ("image", "document") and "source" in part
    )


def _has_own_keys(body: dict[str, Any]) -> bool:
    if body.keys() & {"system", "anthropic_version", "stop_sequences", "mcp_servers", "output_config"}:
        return True
    if any(isinstance(tool, dict) and "input_schema" in tool for tool in body.get("tools") or ()):
        return True
    return "claude" in str(body.get("model")) and "max_tokens" in body and not shapes.has_any(body, shapes.CHAT_ONLY)


class _Text(Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    text: str
    citations: None = None


class _TextAnswer(Struct, tag_field="type", tag="message"):
    """An answer of text blocks."""

    role: Literal["assistant"]
    content: Annotated[tuple[_Text, ...], Meta(min_length=1)]
    stop_reason: Literal["end_turn", "stop_sequence", "max_tokens"]
    usage: dict[str, Any]
    model: str | None = None


def _modes(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Speed and region of a request, or of the usage of a response."""
    # platform.claude.com/docs/en/about-claude/pricing: a chosen inference region costs more; older models report
    # `not_available`.
    place = given.get("inference_geo")
    return tier_names(
        "fast" if given.get("speed") == "fast" else None,
        f"inference_geo={place}" if place not in (None, "", "global", "not_available") else None,
    )


def _usage_detail(usage: Mapping[str, Any]) -> UsageDetail:
    return UsageDetail(
        cache_write_1h=nested_count(usage, "cache_creation", "ephemeral_1h_input_tokens"),
        web_searches=nested_count(usage, "server_tool_use", "web_search_requests"),
        tiers=(*tier_names(usage.get("service_tier")), *_modes(usage)),
    )


# https://platform.claude.com/docs/en/build-with-claude/vision, General limits: 5 MB of base64 and 8000 px per image;
# 100 images (600 if the window is larger than 200k tokens); 2000 px per image in requests with more than 20 images.
# A request has at most 32 MB (…/api/overview, Request size limits); 2 of these are reserved for text here.
_LIMITS = TargetLimits(
    api=anthropic.API,
    # …/agents-and-tools/tool-use/implement-tool-use: ids match ^[a-zA-Z0-9_-]+$, names ^[a-zA-Z0-9_-]{1,128}$.
    ids=NameRule(WORD, 64),
    names=NameRule(WORD, 128),
    typed_tools=True,
    blank_text=False,  # "text content blocks must contain non-whitespace text"
    trimmed_end=True,  # "final assistant content cannot end with trailing whitespace"
    user_first=True,
    image_bytes=5 * 1024 * 1024,
    image_side=8000,
    max_images=100,
    many_images=(20, 2000),
    document_types=(PDF,),
    media_bytes=30_000_000,
    families=("claude",),
    # …/build-with-claude/extended-thinking: thinking is sent back with its signature; forced tools and changes of
    # temperature or top_k are refused with thinking.
    signed_thinking=True,
    empty_tools=True,  # recorded
    forced_with_thinking=False,
    off_values=True,
    server_tools="paired",
    cache_markers=4,  # …/build-with-claude/prompt-caching: up to four breakpoints
    automatic_cache=True,
    strict="closed",
    max_tokens=4096,
    max_temperature=1,
    tiers=("auto", "standard_only"),
)

ANTHROPIC = Wire(
    api=anthropic.API,
    codec=anthropic,
    limits=_LIMITS,
    vendor="claude",
    http=Http(
        route=r"/messages",
        route_rank=70,
        # …/api/overview, Authentication: the key in `x-api-key`, and a version on every request.
        auth="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
        models_route=r"/v1/models",
        models_path="/v1/models?limit=1",
        list_models=_models,
        models_page=_models_page,
        charset="; charset=utf-8",
        # …/api/errors, Request id: every response has it as a header.
        request_id="request-id",
        response_id="msg_",
        ping=write_sse(b'{"type": "ping"}', "ping"),
        # Clients read the input tokens from `message_start`.
        usage_first=True,
        error_event=lambda error, sent, body: write_sse(jsontext.write(body), "error"),
        rate_headers=_rate_headers,
        model_paths=(("model",), ("message", "model")),
        request_headers=("anthropic-beta", "anthropic-version", "x-claude-code-session-id"),
        # …/api/messages-count-tokens: the body of a request without `max_tokens`.
        count=Count(route=r"/messages/count_tokens", answer=lambda tokens: {"input_tokens": tokens}),
    ),
    evidence=(
        Evidence("event", 20, "`message_…` events", lambda v: v["type"].startswith(("message_", "content_block_"))),
        Evidence(
            "response",
            60,
            "an answer of type `message`",
            lambda v: v["type"] == "message" and "id" in v and "role" in v,
        ),
        Evidence("request", 60, "Anthropic's content blocks or top-level `system`", _is_request),
        Evidence(
            "plain",
            10,
            "plain messages",
            lambda v: shapes.is_plain(v, "user", "assistant") and not shapes.has_any(v, shapes.CHAT_ONLY),
        ),
    ),
    telemetry="anthropic",
    usage_detail=_usage_detail,
    modes=_modes,
    text_answer=text_answer_reader(
        _TextAnswer, lambda answer: decode_usage(answer.usage), lambda answer: (answer.model,)
    ),
)

BEDROCK_INVOKE = ANTHROPIC.variant(
    "bedrock-invoke-anthropic",
    quirks={
        "hosted": ("/model/{}/invoke", "/model/{}/invoke-with-response-stream"),
        # InvokeModel takes the model and the choice to stream from the path, not from the body (Bedrock User Guide,
        # "Anthropic Claude Messages API").
        "says_stream": False,
        "version": "bedrock-2023-05-31",
    },
    framing=lambda content_type: framing_for(content_type, AWSChunks),
    reframe=chunked,
    # Bedrock accepts media as base64 only, and images up to 3.75 MB.
    limits={"images": ("data",), "image_bytes": 5_000_000, "documents": ("data", "text")},
    http={
        **BEDROCK_HTTP,
        "route": r"/model/([^/]+)/(invoke|invoke-with-response-stream)",
        "route_rank": 50,
        "headers": {},
        "models_path": None,
        "charset": "",
        "streaming": "invoke-with-response-stream",
        "response_id": "msg_bdrk_",
        "ping": write_aws("chunk", b'{"bytes":"eyJ0eXBlIjoicGluZyJ9"}'),
    },
    evidence=(
        Evidence("frame", 10, "AWS frames of `chunk` events", lambda frame: frame.event == "chunk"),
        Evidence(
            "request",
            50,
            "an `anthropic_version` in the body",
            lambda v: "messages" in v and v["anthropic_version"].startswith("bedrock"),
        ),
    ),
    telemetry="aws.bedrock",
)

# docs.claude.com/en/api/claude-on-vertex-ai: the model is in the URL, `anthropic_version` and `stream` in the body;
# a request has at most 30 MB, and media are base64 only.
VERTEX = ANTHROPIC.variant(
    "vertex-anthropic",
    quirks={
        "hosted": (
            "/publishers/anthropic/models/{}:rawPredict",
            "/publishers/anthropic/models/{}:streamRawPredict",
        ),
        "says_stream": True,
        "version": "vertex-2023-10-16",
    },
    limits={"images": ("data",), "documents": ("data", "text"), "media_bytes": 28_000_000},
    http={
        "route": r"/publishers/anthropic/models/([^/:]+):(rawPredict|streamRawPredict)",
        "route_rank": 30,
        "base": "/v1/projects/test/locations/us-east5",
        "auth": "google",
        "headers": {},
        "models_route": r"/publishers/anthropic/models",
        "models_path": None,
        "models_page": None,
        "list_models": lambda names: {"publisherModels": [{"name": f"publishers/anthropic/models/{n}"} for n in names]},
        "streaming": "streamRawPredict",
        "response_id": "msg_vrtx_",
        "count": None,
    },
    evidence=(
        Evidence(
            "request",
            50,
            "an `anthropic_version` in the body",
            lambda v: "messages" in v and v["anthropic_version"].startswith("vertex"),
        ),
    ),
    telemetry="gcp.vertex_ai",
)
