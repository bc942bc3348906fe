"""Framings: bytes to frames and frames to bytes, without I/O.

A framing finds the boundaries of frames and checks nothing else; the dialect checks whether a payload is valid JSON.
"""

from .aws import AWSEventStream, write_aws
from .text import (
    DEFAULT_LIMIT,
    NDJSON,
    SSE,
    Frame,
    Framing,
    JSONArray,
    JSONDocuments,
    actual_type,
    essence,
    framing_for,
    json_line,
    ndjson_framing,
    one_line,
    sse_framing,
    write_ndjson,
    write_sse,
)

__all__ = [
    "DEFAULT_LIMIT",
    "NDJSON",
    "SSE",
    "AWSEventStream",
    "Frame",
    "Framing",
    "JSONArray",
    "JSONDocuments",
    "actual_type",
    "essence",
    "framing_for",
    "json_line",
    "ndjson_framing",
    "one_line",
    "sse_framing",
    "write_aws",
    "write_ndjson",
    "write_sse",
]
