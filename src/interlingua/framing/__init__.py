"""Bytes <-> frames, without I/O: what a chunk of a response body completes, and how a frame is written.

A framing finds where frames begin and end and checks nothing else: whether a payload is valid JSON is the question of
the dialect that reads it.
"""

from interlingua.framing._frame import DEFAULT_LIMIT, Frame, Framing
from interlingua.framing.aws import AWSEventStream, write_aws
from interlingua.framing.detection import actual_type, framing_for
from interlingua.framing.json_array import JSONArray, JSONDocuments
from interlingua.framing.ndjson import NDJSON, write_ndjson
from interlingua.framing.sse import SSE, write_sse

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
