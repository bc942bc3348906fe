"""The `Wire` of OpenAI Responses, and its variants on Azure, at the Codex backend and on WebSockets."""

import functools
import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from ...values import jsontext
from ...values.errors import ProviderError
from ...values.messages import Usage
from ...values.request import Request
from .. import openai_responses, shapes
from ..codec import text_answer_reader
from ..framing import SSE, ndjson_framing, write_ndjson, write_sse
from ..limits import VISIBLE, CustomTools, NameRule, TargetLimits
from ..openai_shared import EMBEDDINGS, FILE_TYPES, OPENAI_HEADERS, OrdinaryTier, openai_models, rate_headers
from ..wire import NDJSON as LINES
from ..wire import Count, Evidence, Http, Wire
from .responses import decode_usage, item_blocks

_ITEM = re.compile(r"(?!tool_call).*_call(_output)?|reasoning|item_reference|compaction|additional_tools")
_PARTS = ("input_text", "output_text", "input_image", "input_file")


def _error_event(error: ProviderError, sent: int, body: Any) -> bytes:
    # Clients act on the code (`context_length_exceeded`, `content_filter`).
    encoded = body["error"]
    event = {
        "type": "error",
        "sequence_number": sent,
        "code": encoded["code"] or encoded["type"],
        "message": encoded["message"],
        "param": None,
    }
    return write_sse(jsontext.write(event), "error")


def _is_request(value: Any) -> bool:
    if isinstance(value, dict):
        if "messages" in value or "output" in value:  # a row of a log, with the answer beside what was asked
            return False
        given = value.get("input")
        if isinstance(given, list):  # the texts of a request for embeddings are no items
            return all(isinstance(item, dict) for item in given)
        return isinstance(given, str) or (isinstance(value.get("prompt"), dict) and "id" in value["prompt"])
    items = shapes.messages(value)
    if any("role" in item and "content" not in item for item in items):  # another program's messages
        return False
    if any(part.get("type") in _PARTS for part in shapes.parts(value)):
        return True
    others = [str(item.get("type")) for item in items if "role" not in item]
    return bool(others) and all(map(_ITEM.fullmatch, others))


def _request_encrypted_reasoning(request: Request, body: dict[str, Any]) -> dict[str, Any]:
    """Requests encrypted reasoning: if nothing is stored, a later turn must send it back.

    https://platform.openai.com/docs/guides/reasoning: with `store: false`, `include` must name
    `reasoning.encrypted_content`. Hosts without it refuse the field; their provider row or the model sets that.
    """
    thinking = request.options.reasoning
    if thinking is None or thinking.enabled is False:
        return body
    return _always_sealed(request, body)


def _always_sealed(request: Request, body: dict[str, Any]) -> dict[str, Any]:
    """The same for models that reason by default."""
    if (request.model.compat or {}).get("supportsEncryptedReasoning") is not False:
        body.setdefault("include", ["reasoning.encrypted_content"])
    return body


class _Text(Struct, tag_field="type", tag="output_text"):
    text: Annotated[str, Meta(min_length=1)]
    annotations: Annotated[tuple[Any, ...], Meta(max_length=0)] = ()


class _Message(Struct, tag_field="type", tag="message"):
    id: Annotated[str, Meta(min_length=1)]
    role: Literal["assistant"]
    content: Annotated[tuple[_Text, ...], Meta(min_length=1)]
    status: Literal["completed"]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content)


class _InputDetails(Struct, forbid_unknown_fields=True):
    cached_tokens: int
    cache_write_tokens: int


class _OutputDetails(Struct, forbid_unknown_fields=True):
    reasoning_tokens: int


class _Usage(Struct, forbid_unknown_fields=True):
    """The usual counts, all of them given."""

    input_tokens: int
    input_tokens_details: _InputDetails
    output_tokens: int
    output_tokens_details: _OutputDetails
    total_tokens: int


_decode_counts = functools.cache(lambda: msgspec.json.Decoder(_Usage).decode)


def _usage(data: Raw) -> Usage | None:
    """What `decode_usage` returns; faster for the usual counts."""
    try:
        counts = _decode_counts()(data)
        given, written = counts.input_tokens_details, counts.input_tokens_details.cache_write_tokens
        fresh = counts.input_tokens - given.cached_tokens - written
    except msgspec.ValidationError:
        fresh = -1
    if fresh < 0:  # odd: `decode_usage` keeps what it does not understand
        return decode_usage(jsontext.read(data))
    return Usage(
        input=fresh,
        output=counts.output_tokens,
        cache_read=given.cached_tokens,
        cache_write=written,
        total_tokens=counts.total_tokens,
        reasoning=counts.output_tokens_details.reasoning_tokens,
    )


class _TextAnswer(Struct):
    """An answer that is one message of texts."""

    id: Annotated[str, Meta(min_length=1)]
    status: Literal["completed"]
    output: tuple[_Message]
    usage: Raw
    model: str | None = None
    error: None = None
    incomplete_details: None = None
    service_tier: OrdinaryTier = None


# https://platform.openai.com/docs/guides/images-vision, Image input requirements: 500 images and 50 MB per request, no
# animations; …/guides/file-inputs, Accepted file types.
_LIMITS = TargetLimits(
    api=openai_responses.API,
    ids=NameRule(VISIBLE, 64),  # "string too long. Expected a string with maximum length 64"
    error_flag=False,
    item_ids=True,  # "Item 'fc_…' was provided without its required 'reasoning' item"
    later_system=True,
    # …/guides/conversation-state: with one of these the provider has earlier items, which the body lacks.
    server_history=("previous_response_id", "conversation", "prompt"),
    max_images=500,
    animations=False,
    documents=("data", "url", "file"),
    document_types=FILE_TYPES,
    media_bytes=50_000_000,
    # The call item of a server tool has its result in it.
    server_tools="single",
    families=("openai",),
    signed_thinking=True,
    empty_tools=True,  # recorded; the Chat wire answers "[] is too short - 'tools'"
    reasoning=("effort", "switch"),
    cache_breakpoints={},  # …/guides/prompt-caching: from GPT-5.6 on; models before refuse the field
    custom_tools=True,
    custom_form=CustomTools({"~type": "custom_tool_call"}),
    strict="all required",  # …/guides/structured-outputs: all fields required, objects closed
    named_schemas=True,
    # …/responses/create, `temperature`: between 0 and 2.
    max_temperature=2,
)

OPENAI_RESPONSES = Wire(
    api=openai_responses.API,
    codec=openai_responses,
    limits=_LIMITS,
    vendor="openai",
    http=Http(
        input_field="input",
        input_references=("previous_response_id", "conversation", "prompt"),
        route=r"/responses",
        route_rank=90,
        base="/v1",
        models_path="/models",
        list_models=openai_models,
        charset="; charset=utf-8",
        response_id="resp_",
        error_event=_error_event,
        embeddings=EMBEDDINGS,
        complete_body=_request_encrypted_reasoning,
        rate_headers=rate_headers,
        model_paths=(("model",), ("response", "model")),
        varying=("sequence_number", "obfuscation"),
        request_headers=OPENAI_HEADERS,
        opening_event=b"response.output_item.added",  # the OpenAI SDK refuses a second one with the same index
        # …/api-reference/responses: get, input_items, cancel, delete.
        stored_route=r"/responses/([^/]+)(?:/(input_items|cancel))?",
        item_blocks=item_blocks,
        # …/api-reference/responses/input-tokens: takes a request's body.
        count=Count(
            route=r"/responses/input_tokens",
            answer=lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens},
        ),
    ),
    evidence=(
        Evidence("event", 10, "`response.…` events", lambda v: v["type"].startswith("response.")),
        Evidence(
            "response", 40, "an answer with `output` items", lambda v: v["object"] == "response" and "output" in v
        ),
        Evidence("request", 30, "`input` items", _is_request),
        Evidence(
            "plain",
            30,
            "plain messages",
            lambda v: isinstance(v, list) and shapes.is_plain(v, "system", "user", "assistant"),
        ),
    ),
    telemetry="openai",
    text_answer=text_answer_reader(
        _TextAnswer,
        lambda answer: _usage(answer.usage),
        lambda answer: (answer.model, answer.id, answer.output[0].text, (answer.output[0].id,)),
    ),
)

# Azure URLs end in /openai/v1; the model is the name of the deployment.
AZURE = OPENAI_RESPONSES.variant(
    "azure-openai-responses",
    quirks={"path": "/responses?api-version=v1"},
    http={"base": "/openai/v1", "auth": "api-key", "request_id": "apim-request-id"},
    is_detected=False,
    telemetry="azure.ai.openai",
)
CODEX = OPENAI_RESPONSES.variant(
    "openai-codex-responses",
    quirks={"path": "/codex/responses"},
    http={
        "route": r"/codex/responses",
        "route_rank": 20,
        "base": "/backend-api",
        "models_path": None,
        "embeddings": None,
    }
    # The backend of ChatGPT only streams ("Stream must be set to true").
    | {"only_streams": True, "complete_body": _always_sealed},
    is_detected=False,
)


def _error_line(error: ProviderError, sent: int, body: Any) -> bytes:
    return b"".join(write_ndjson(frame.data) for frame in SSE().feed(_error_event(error, sent, body)))


# platform.openai.com/docs/guides/websocket-mode: a request is the message `response.create` with the fields of a body,
# and each event of the answer is a message. Here messages are lines; the caller has the socket.
WEBSOCKET = OPENAI_RESPONSES.variant(
    "openai-responses-websocket",
    quirks={"message": "response.create"},
    framing=ndjson_framing,
    reframe=lambda frame: write_ndjson(frame.data),
    http={
        "route_rank": 95,
        "content_type": LINES,
        "charset": "",
        "ping": b"\n",
        "error_event": _error_line,
        "models_path": None,
        "embeddings": None,
        "count": None,
    },
    evidence=(
        Evidence(
            "chunk",
            40,
            "a list of `response.…` messages",
            lambda v: v["type"].startswith("response.") and v["type"] != "response.create",
        ),
        Evidence("request", 5, "a `response.create` message", lambda v: v["type"] == "response.create"),
    ),
)
