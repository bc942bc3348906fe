"""Recorded provider traffic, where the corpus lies beside the repository."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.eventstream import EventStreamBuffer

from framing.reading import cut, read
from interlingua.dialects.framing import NDJSON, SSE, AWSEventStream, JSONArray

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="no recorded traffic on this machine")


def bodies(content_type: str, apis: str = "*") -> Iterator[tuple[str, bytes]]:
    for path in sorted(CORPUS.glob(f"{apis}/*.json")):
        response = json.loads(path.read_bytes())["response"]
        if content_type in (response["content_type"] or "") and isinstance(response["body"], str):
            binary = response["encoding"] == "base64"
            yield path.stem, base64.b64decode(response["body"]) if binary else response["body"].encode()


def test_aws_streams_are_read_as_botocore_reads_them():
    """
    Every recorded Bedrock stream gives the same headers and payloads, whole and in pieces.
    """
    for case, body in bodies("vnd.amazon.eventstream", "bedrock-*"):
        buffer = EventStreamBuffer()
        buffer.add_data(body)
        expected = [(message.headers, message.payload) for message in buffer]
        for size in (len(body), 100, 7):
            frames = read(AWSEventStream(), *cut(body, size))
            assert expected == [(frame.headers, frame.data) for frame in frames], case
            assert all(frame.event for frame in frames), case


def test_every_event_of_a_recorded_stream_is_json_or_the_end_marker():
    """
    The frames of every recorded SSE stream can be decoded, and do not depend on the cut.
    """
    for case, body in bodies("event-stream", "[!b]*"):
        frames = read(SSE(), body)
        assert frames == read(SSE(), *cut(body, 100)), case
        for frame in frames:
            assert frame.data.strip() == b"[DONE]" or json.loads(frame.data) is not None, case


@pytest.mark.parametrize("framing", [JSONArray, NDJSON])
def test_recorded_documents_are_found_whole(framing):
    """
    Arrays of chunks give their elements, other bodies themselves; lines give one document each.
    """
    content_type, apis = {JSONArray: ("application/json", "google-*"), NDJSON: ("ndjson", "*")}[framing]
    for case, body in bodies(content_type, apis):
        frames = read(framing(), *cut(body, 100))
        documents = [json.loads(frame.data) for frame in frames]
        if framing is JSONArray:
            whole = json.loads(body)
            assert documents == (whole if isinstance(whole, list) else [whole]), case
        assert frames == read(framing(), body), case
