"""Bedrock's Converse wire as one value."""

from typing import Any

from .. import bedrock, shapes
from ..bedrock_http import BEDROCK_HTTP
from ..limits import BEDROCK as LIMITS
from ..wire import Evidence, Http, Wire

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


BEDROCK = Wire(
    api=bedrock.API,
    codec=bedrock,
    limits=LIMITS,
    http=Http(
        route=r"/model/([^/]+)/(converse|converse-stream)",
        route_rank=45,
        streaming="converse-stream",
        ping=b"",  # the wire has no keep-alive: a silence is a silence
        **BEDROCK_HTTP,
    ),
    evidence=(
        Evidence("frame", 20, "AWS frames", lambda frame: True),
        Evidence("response", 50, "an answer with `stopReason` beside `output`", shapes.has("output", "stopReason")),
        Evidence("request", 40, "content blocks without `type`", _is_request),
    ),
    telemetry="aws.bedrock",
)
