"""In place of the network, below boto3."""

import json
from typing import Any

from botocore.awsrequest import AWSResponse

from peers.transport import REPLIES


class Session:
    """What botocore calls an HTTP session: keeps the body of the last request, gives the canned answer."""

    sent = b""

    def __init__(self) -> None:
        self._reply = json.dumps(REPLIES["bedrock"]).encode()

    def send(self, request: Any) -> AWSResponse:
        self.sent = request.body
        return AWSResponse(request.url, 200, {"Content-Type": "application/json"}, _Raw(self._reply))

    def close(self) -> None:
        pass


class _Raw:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self) -> list[bytes]:
        return [self._data]


def canned(client: Any) -> Session:
    """Replaces the session of a boto3 client."""
    session = Session()
    client._endpoint.http_session = session
    return session
