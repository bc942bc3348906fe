"""The wire's events as chunks in AWS frames."""

import base64

from ...values import jsontext
from ...values.errors import BadWire, FormatError
from ..framing import AWSEventStream, Frame, write_aws
from .facts import API


class AWSChunks:
    """AWS frames whose payload holds the wire's own event, in base64 under `bytes`."""

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
        """The events, up to a bad one: that is raised when the good ones before it have been taken."""
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
        if "bytes" in payload:
            return Frame(base64.b64decode(payload["bytes"]))
        message = payload.get("message") or frame.event
    except (FormatError, TypeError, AttributeError, ValueError) as error:
        raise BadWire(API, f"an AWS frame without a chunk of the answer: {error}") from None
    return Frame(jsontext.write({"type": "error", "error": {"type": frame.event, "message": message}}))


def chunked(frame: Frame) -> bytes:
    return write_aws("chunk", jsontext.write({"bytes": base64.b64encode(frame.data).decode()}))
