"""Bytes <-> frames, without I/O: what a chunk of a response body completes, and how a frame is written.

A framing finds where frames begin and end and checks nothing else: whether a payload is valid JSON is the question of
the dialect that reads it.
"""

from interlingua.dialects.framing._frame import DEFAULT_LIMIT, Frame, Framing
from interlingua.dialects.framing.aws import AWSEventStream, write_aws
from interlingua.dialects.framing.detection import actual_type, framing_for
from interlingua.dialects.framing.json_array import JSONArray, JSONDocuments
from interlingua.dialects.framing.ndjson import NDJSON, write_ndjson
from interlingua.dialects.framing.sse import SSE, write_sse

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
