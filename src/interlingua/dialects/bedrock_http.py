"""HTTP facts that Amazon Bedrock's two wires share: signing, model lists, frames and exceptions."""

from collections.abc import Sequence
from typing import Any

from ..values import jsontext
from ..values.errors import BadRequest, ContentFiltered, ContextTooLong, Overloaded, ProviderError, RateLimited
from .framing import write_aws
from .provider_errors import error_of
from .wire import AWS, Count

# Exceptions in the place of an event: Bedrock API reference, ConverseStreamOutput.
_EXCEPTIONS: tuple[tuple[type[ProviderError], str], ...] = (
    (RateLimited, "throttlingException"),
    (Overloaded, "serviceUnavailableException"),
    (BadRequest, "validationException"),
    (ContentFiltered, "validationException"),
    (ContextTooLong, "validationException"),
)


def _models(names: Sequence[str]) -> dict[str, Any]:
    arn = "arn:aws:bedrock:us-east-1::foundation-model/"
    # API_ListFoundationModels.html, FoundationModelSummary.
    entries = [
        {
            "modelArn": arn + name,
            "modelId": name,
            "modelName": name,
            "providerName": "Interlingua",
            "inputModalities": ["TEXT"],
            "outputModalities": ["TEXT"],
            "responseStreamingSupported": True,
        }
        for name in names
    ]
    return {"modelSummaries": entries}


def _error_event(error: ProviderError, sent: int, body: Any) -> bytes:
    name = next((name for kind, name in _EXCEPTIONS if isinstance(error, kind)), "internalServerException")
    # event stream frames of a fault have `:message-type: exception` (smithy.io/2.0/aws/amazon-eventstream.html).
    return write_aws(name, jsontext.write({"message": error_of(body)["message"]}), message_type="exception")


def _error_headers(body: Any) -> dict[str, str]:
    # The AWS SDKs read the type of an error from this header (restJson1 protocol).
    return {"x-amzn-errortype": str(body.get("__type", "InternalServerException"))} if isinstance(body, dict) else {}


BEDROCK_HTTP: dict[str, Any] = {
    "auth": "aws",
    "models_route": r"/foundation-models",
    "list_models": _models,
    "content_type": AWS,
    # Every AWS response has it; support asks for it.
    "request_id": "x-amzn-requestid",
    "error_event": _error_event,
    "error_headers": _error_headers,
    "count": Count(
        route=r"/model/([^/]+)/count-tokens",
        # CountTokens wraps the request: {"input": {"converse": {…}}}, Bedrock's API reference.
        request=lambda body: body["input"]["converse"],
        answer=lambda tokens: {"inputTokens": tokens},
    ),
}
