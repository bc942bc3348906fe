"""What a provider declined, or calls wrong in itself, is one type on every wire, and nobody else is asked."""

from typing import Any

import pytest

import interlingua as il
from connect.talking import KEY, QUICK
from interlingua.connect.client import Client
from interlingua.dialects import WIRES
from interlingua.testing import ErrorEvent, Server, Status

ELSEWHERE = "debug/parrot-1"


@pytest.fixture(scope="module")
def running() -> Any:
    with Server() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.clear()
    return running


async def failure(server: Server, api: str, **more: Any) -> il.InterlinguaError | None:
    """How a call on this wire fails, although others could be asked and it could be tried again."""
    model = il.ModelDescriptor(id="m", api=api, provider="host", base_url=server.base_url(api))
    stream = Client(retry=QUICK).stream(model, "Hi", api_key=KEY, fallbacks=[ELSEWHERE], timeout=20, **more)
    message = await stream.result()
    assert stream.failure is None or "host" == message.provider
    return stream.failure


def whole(server: Server, api: str, body: Any) -> None:
    """Has the server answer this body, although a stream is asked for."""
    base = server.base_url(api).removeprefix(server.url)
    server.route("POST", base + il.dialect(api).path("m", True), body)


# --- filters and refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", sorted(WIRES))
@pytest.mark.parametrize("status", [0, 400, 403])
async def test_a_request_that_is_filtered_is_one_type_on_every_wire(server: Server, api: str, status: int) -> None:
    """Asked once, of one model."""
    server.answer(il.ContentFiltered("not that", status=status))
    found = await failure(server, api)
    assert isinstance(found, il.ContentFiltered) and "not that" in str(found)
    assert 1 == len(server.requests)


@pytest.mark.parametrize("api", sorted(WIRES))
@pytest.mark.parametrize("after", [0, 1])
async def test_an_error_of_a_filter_inside_a_stream_is_the_same(server: Server, api: str, after: int) -> None:
    """Before anything was shown, and still nobody else is asked."""
    server.say("never", fault=ErrorEvent(il.ContentFiltered("not that"), after_events=after, times=None))
    assert isinstance(await failure(server, api), il.ContentFiltered)
    assert 1 == len(server.requests)


STOPS = {
    "anthropic-messages": ["refusal", "sensitive"],
    "openai-completions": ["content_filter", "sensitive"],
    "openai-responses": ["content_filter"],
    "azure-openai-responses": ["content_filter"],
    "bedrock-converse-stream": ["guardrail_intervened", "content_filtered"],
    "bedrock-invoke-anthropic": ["refusal"],
    "vertex-anthropic": ["refusal"],
    "google-generative-ai": ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"],
    "google-vertex": ["SAFETY", "MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"],
}


@pytest.mark.parametrize(("api", "word"), [(api, word) for api, terms in STOPS.items() for word in terms])
@pytest.mark.parametrize("text", ["", "So far so good"])
async def test_an_answer_that_a_filter_ended_is_the_same(server: Server, api: str, word: str, text: str) -> None:
    """With what had come of it, or with nothing."""
    content = (il.TextBlock(text=text),) if text else ()
    server.answer(il.AssistantMessage(content=content, stop_reason="error", stop_detail=word))
    found = await failure(server, api)
    assert isinstance(found, il.ContentFiltered)
    assert text == found.partial.text
    assert 1 == len(server.requests)


@pytest.mark.parametrize("api", ["openai-completions", "openai-responses", "azure-openai-responses"])
async def test_a_model_that_refuses_in_a_field_of_its_own_is_the_same(server: Server, api: str) -> None:
    """The wire says that all went well, and has the refusal beside the text."""
    refusal = il.TextBlock(text="I will not help with that.", refusal=True)
    server.answer(il.AssistantMessage(content=(refusal,), stop_reason="error"))
    found = await failure(server, api)
    assert isinstance(found, il.ContentFiltered) and "I will not help" in str(found)
    assert 1 == len(server.requests)


RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "stop"}
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
REFUSAL_ITEM = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "refusal", "refusal": "No."}],
}
FLAGGED = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
WHOLE = [
    ("openai-completions", {**CHAT, "choices": [{**CHOICE, "message": {**CHOICE["message"], "refusal": "No."}}]}),  # type: ignore[dict-item]
    ("openai-completions", {**CHAT, "choices": [{**CHOICE, "finish_reason": "content_filter"}]}),
    ("openai-completions", {"error": {"code": "content_filter", "message": "filtered"}}),
    ("openai-completions", {**CHAT, "choices": [{**CHOICE, "finish_reason": "error", "error": {"message": FLAGGED}}]}),
    ("openai-responses", {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "content_filter"}}),
    ("openai-responses", {**RESPONSE, "status": "completed", "output": [REFUSAL_ITEM]}),
    ("openai-responses", {**RESPONSE, "status": "failed", "error": {"code": "invalid_prompt", "message": FLAGGED}}),
    (
        "anthropic-messages",
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": "refusal",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 0},
        },
    ),
]


@pytest.mark.parametrize(("api", "body"), WHOLE, ids=[f"{api}-{at}" for at, (api, _) in enumerate(WHOLE)])
async def test_a_refusal_that_comes_whole_is_the_same(server: Server, api: str, body: Any) -> None:
    """Some hosts answer with one JSON body, whatever they were asked for."""
    whole(server, api, body)
    assert isinstance(await failure(server, api), il.ContentFiltered)
    assert 1 == len(server.requests)


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "JAILBREAK", "BLOCKED_REASON_UNSPECIFIED", "NEW_WORD", 2])
def test_a_prompt_that_google_blocked_is_a_refusal_whatever_the_reason(reason: Any) -> None:
    """`OTHER` ends an answer for many reasons; a prompt it blocks was refused."""
    from interlingua.dialects.provider_errors import failure_of

    wire = il.dialect("google-generative-ai")
    assert isinstance(failure_of(wire.decode_response({"promptFeedback": {"blockReason": reason}})), il.ContentFiltered)
    stopped = wire.decode_response({"candidates": [{"finishReason": "OTHER"}]})
    assert not isinstance(failure_of(stopped), il.ContentFiltered)


# Error bodies as the providers send them.
DECLINED: list[tuple[str, int, Any]] = [
    (
        "anthropic-messages",
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"},
        },
    ),
    (
        "openai-completions",  # Azure
        400,
        {
            "error": {
                "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management"
                " policy. Please modify your prompt and retry.",
                "type": None,
                "param": "prompt",
                "code": "content_filter",
                "status": 400,
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            }
        },
    ),
    (
        "openai-responses",
        400,
        {"error": {"message": FLAGGED, "type": "invalid_request_error", "code": "invalid_prompt"}},
    ),
    (
        "openai-completions",  # OpenRouter
        403,
        {
            "error": {
                "code": 403,
                "message": 'x requires moderation on OpenAI. Your input was flagged for "sexual".',
                "metadata": {"reasons": ["sexual"], "flagged_input": "…", "provider_name": "OpenAI"},
            }
        },
    ),
    (
        "openai-completions",
        403,
        {"error": "Content violates usage guidelines. Team: x, API key ID: x, Model: x."},
    ),  # xAI
    ("openai-completions", 400, {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}}),
    (
        "openai-completions",  # Alibaba
        400,
        {"error": {"message": "Input data may contain inappropriate content.", "code": "data_inspection_failed"}},
    ),
    ("bedrock-converse-stream", 400, {"message": "Output blocked by content filtering policy"}),
]


@pytest.mark.parametrize(("api", "status", "body"), DECLINED, ids=range(len(DECLINED)))
@pytest.mark.parametrize("wrapped", [False, True], ids=["", "in a 502"])
async def test_the_providers_own_ways_to_decline(
    server: Server, api: str, status: int, body: Any, wrapped: bool
) -> None:
    """By code where there is one, else by their wording; also where a gateway passes it on as its own failure."""
    server.say("never", fault=Status(502 if wrapped else status, body, times=None))
    assert isinstance(await failure(server, api), il.ContentFiltered)
    assert 1 == len(server.requests)


# --- bad requests in disguise ----------------------------------------------------------------------------------------

DISGUISED: list[tuple[str, Any]] = [
    ("anthropic-messages", {"type": "error", "error": {"type": "invalid_request_error", "message": "no such field"}}),
    ("openai-completions", {"error": {"message": "no such field", "type": "invalid_request_error", "code": None}}),
    ("openai-completions", {"error": {"message": "Provider returned error", "code": 400}}),
    ("openai-completions", {"error": {"message": "Provider returned error", "code": "422"}}),
    (
        "openai-completions",
        {"error": {"message": "Error code: 400 - {'error': {'message': 'x'}}", "type": "server_error"}},
    ),
    ("openai-completions", {"error": {"message": "litellm.BadRequestError: OpenAIException - x", "code": "500"}}),
    ("openai-completions", {"error": {"message": 'upstream: {"error":{"type":"invalid_request_error"}}'}}),
    ("openai-responses", {"error": {"message": "400 Client Error: Bad Request for url: x", "code": "server_error"}}),
    ("google-generative-ai", {"error": {"code": 400, "message": "x", "status": "INVALID_ARGUMENT"}}),
    ("google-generative-ai", {"error": {"code": 500, "message": "HTTP/1.1 400 Bad Request", "status": "INTERNAL"}}),
    ("bedrock-converse-stream", {"__type": "ValidationException", "message": "malformed input"}),
    ("bedrock-converse-stream", {"message": "the model returned status code: 400"}),
    ("ollama-chat", {"error": "upstream returned 400 Bad Request"}),
]


@pytest.mark.parametrize(("api", "body"), DISGUISED, ids=range(len(DISGUISED)))
@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_a_bad_request_that_hides_in_a_server_error_is_a_bad_request(
    server: Server, api: str, body: Any, status: int
) -> None:
    """It would be as bad the next time, and at the next model."""
    server.say("never", fault=Status(status, body, times=None))
    found = await failure(server, api)
    assert isinstance(found, il.BadRequest)
    assert (status, 1) == (found.status, len(server.requests))


@pytest.mark.parametrize("api", sorted(WIRES))
@pytest.mark.parametrize(
    "text", ["Error code: 400 - {'type': 'invalid_request_error'}", "HTTP 422: x", "400 Bad Request"]
)
async def test_a_bad_request_that_hides_in_a_streams_error_is_a_bad_request(
    server: Server, api: str, text: str
) -> None:
    """The stream began well, so there is no status; the text tells."""
    server.say("never", fault=ErrorEvent(il.ProviderError(text), after_events=0, times=None))
    assert isinstance(await failure(server, api), il.BadRequest)
    assert 1 == len(server.requests)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Error code: 429 - too many", il.RateLimited),
        ("status code 401", il.AuthFailed),
        ("Error code: 400 - prompt is too long: 9 tokens > 8", il.ContextTooLong),
        ("litellm.ContextWindowExceededError: x", il.ContextTooLong),
        ("the upstream failed after 400 tokens", il.ProviderError),
        ("request 404c1 failed", il.ProviderError),
        ("it took 430 ms", il.ProviderError),
    ],
)
def test_what_a_gateway_passes_on_keeps_its_kind(text: str, kind: type[il.ProviderError]) -> None:
    """A number that is no status is not taken for one."""
    error = il.dialect("openai-completions").decode_error(500, {"error": {"message": text, "type": "server_error"}})
    assert kind is type(error)


@pytest.mark.parametrize("api", sorted(WIRES))
@pytest.mark.parametrize("how", ["status", "server error", "stream"])
async def test_too_long_a_context_goes_to_a_model_with_more_room(server: Server, api: str, how: str) -> None:
    """On every wire, however it is told: the one error of a request that another model may not share."""
    long = il.ContextTooLong("9 tokens are more than 8", status={"status": 400, "server error": 500, "stream": 0}[how])
    if how == "stream":
        server.say("never", fault=ErrorEvent(long, after_events=0, times=None))
    else:
        server.answer(long)
    assert await failure(server, api) is None
    assert 1 == len(server.requests)
