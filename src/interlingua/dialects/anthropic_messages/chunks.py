"""The wire's events as chunks in AWS frames."""

import base64

from ... import jsontext
from ...errors import BadWire, FormatError
from ...framing import AWSEventStream, Frame, write_aws
from .facts import API


class AWSChunks:
    """AWS frames whose payload holds the wire's own event, in base64 under `bytes`."""

    def __init__(self) -> None:
        self._frames = AWSEventStream()

    def feed(self, chunk: bytes) -> list[Frame]:
        return [_unchunked(frame) for frame in self._frames.feed(chunk)]

    def close(self) -> list[Frame]:
        return [_unchunked(frame) for frame in self._frames.close()]


def _unchunked(frame: Frame) -> Frame:
    try:
        payload = jsontext.read(frame.data)
        if "bytes" in payload:
            return Frame(base64.b64decode(payload["bytes"]))
        message = payload.get("message") or frame.event
    except (FormatError, TypeError, AttributeError, ValueError) as error:
        raise BadWire(API, f"an AWS frame without a chunk of the answer: {error}") from None
    return Frame(jsontext.write({"type": "error", "error": {"type": frame.event, "message": message}}))


def chunked(frame: Frame) -> bytes:
    return write_aws("chunk", jsontext.write({"bytes": base64.b64encode(frame.data).decode()}))
