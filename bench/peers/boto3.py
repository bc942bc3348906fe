"""The `boto3` package: Converse on Bedrock. The body is given in wire shape, images as bytes."""

import base64
from collections.abc import Callable
from typing import Any

import boto3

import limits
import worker
from conversation import Chat
from peers.aws import canned


def request(wire: str, chat: Chat) -> Callable[[], bytes]:
    client = boto3.client(
        "bedrock-runtime", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
    )
    session = canned(client)
    body = _with_bytes(limits.bedrock(chat))

    def call() -> bytes:
        client.converse(modelId="m", **body)
        return session.sent

    return call


def _with_bytes(body: dict[str, Any]) -> dict[str, Any]:
    for message in body["messages"]:
        for block in message["content"]:
            if "image" in block:
                source = block["image"]["source"]
                source["bytes"] = base64.b64decode(source["bytes"])
    return body


if __name__ == "__main__":
    worker.serve({"request": request})
