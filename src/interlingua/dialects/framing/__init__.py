"""Framings: bytes to frames and frames to bytes, without I/O.

A framing finds the boundaries of frames and checks nothing else; the dialect checks whether a payload is valid JSON.
"""

from ._frame import DEFAULT_LIMIT, Frame, Framing
from .aws import AWSEventStream, write_aws
from .detection import actual_type, framing_for
from .json_documents import NDJSON, JSONArray, JSONDocuments, write_ndjson
from .sse import SSE, write_sse

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
    "framing_for",
    "write_aws",
    "write_ndjson",
    "write_sse",
]
