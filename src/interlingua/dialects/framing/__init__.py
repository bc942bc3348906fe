"""Bytes <-> frames, without I/O: what a chunk of a response body completes, and how a frame is written.

A framing finds where frames begin and end and checks nothing else: whether a payload is valid JSON is the question of
the dialect that reads it.
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
