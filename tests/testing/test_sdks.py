"""The vendors' own packages talk to the server over real sockets and understand what it says."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import boto3
import ollama
import openai
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from google import genai
from google.genai.errors import ClientError as GoogleError
from google.genai.types import HttpOptions

import interlingua as il
from interlingua.testing import Server

REPLY = (
    il.ThinkingBlock(thinking="They greet me.", thinking_signature="c2lnbmVk"),
    il.TextBlock(text="Hello, dear friend of mine!"),
    il.ToolCall(id="call_a", name="weather", arguments={"city": "Oslo"}),
    il.ToolCall(id="call_b", name="weather", arguments={"city": "Rome"}),
)
CALLS = [("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})]
TEXT = "Hello, dear friend of mine!"
ASKED = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        server.answer(REPLY)
        yield server


@pytest.fixture
def claude(server: Server) -> Iterator[Any]:
    with anthropic.Anthropic(api_key="none", base_url=server.base_url("anthropic-messages"), max_retries=0) as client:
        yield client


def of_claude(message: Any) -> tuple[str, str, list[Any]]:
    return (
        "".join(block.thinking for block in message.content if block.type == "thinking"),
        "".join(block.text for block in message.content if block.type == "text"),
        [(block.name, block.input) for block in message.content if block.type == "tool_use"],
    )


def test_anthropic_reads_an_answer(server: Server, claude: Any) -> None:
    """The whole message, with its stop reason and usage."""
    message = claude.messages.create(model="test-model", max_tokens=100, messages=ASKED)
    assert ("They greet me.", TEXT, CALLS) == of_claude(message)
    assert ("tool_use", True) == (message.stop_reason, message.usage.output_tokens > 0)
    assert "Hi" == server.last.request.context.messages[0].content  # type: ignore[union-attr]


def test_anthropic_reads_a_stream(claude: Any) -> None:
    """Its helper puts the same message together."""
    with claude.messages.stream(model="test-model", max_tokens=100, messages=ASKED) as stream:
        message = stream.get_final_message()
    assert ("They greet me.", TEXT, CALLS) == of_claude(message)
    assert ("tool_use", 1, True) == (message.stop_reason, message.usage.input_tokens, message.usage.output_tokens > 1)


def test_anthropic_raises_its_own_error(server: Server, claude: Any) -> None:
    """A ProviderError becomes the package's exception for that status, with the wait it was told."""
    server.clear()
    server.answer(il.RateLimited("slow down", retry_after=2.0))
    with pytest.raises(anthropic.RateLimitError, match="slow down") as caught:
        claude.messages.create(model="test-model", max_tokens=100, messages=ASKED)
    assert "2" == caught.value.response.headers["retry-after"]


def test_anthropic_lists_models(claude: Any) -> None:
    """The list of models is a page of the package's own."""
    assert ["test-model", "test-reasoner"] == [model.id for model in claude.models.list()]


@pytest.fixture
def bedrock_claude(server: Server) -> Iterator[Any]:
    with anthropic.AnthropicBedrock(
        aws_access_key="none",
        aws_secret_key="none",
        aws_region="us-east-1",
        base_url=server.base_url("bedrock-invoke-anthropic"),
        max_retries=0,
    ) as client:
        yield client


def test_anthropic_over_bedrock_reads_both(server: Server, bedrock_claude: Any) -> None:
    """InvokeModel, whole and in AWS frames."""
    ask = {"model": "anthropic.claude-test-v1:0", "max_tokens": 100, "messages": ASKED}
    assert ("They greet me.", TEXT, CALLS) == of_claude(bedrock_claude.messages.create(**ask))
    with bedrock_claude.beta.messages.stream(**ask) as stream:
        assert ("They greet me.", TEXT, CALLS) == of_claude(stream.get_final_message())
    assert "anthropic.claude-test-v1:0" == server.last.request.model.id  # type: ignore[union-attr]


@pytest.fixture
def chat(server: Server) -> Iterator[Any]:
    with openai.OpenAI(api_key="none", base_url=server.base_url("openai-completions"), max_retries=0) as client:
        yield client


def of_chat(message: Any) -> tuple[str, str, list[Any]]:
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
    return message.model_extra["reasoning_content"], message.content, calls


def test_openai_chat_reads_an_answer(chat: Any) -> None:
    """The whole completion, with its finish reason and usage."""
    done = chat.chat.completions.create(model="test-model", messages=ASKED)
    assert ("They greet me.", TEXT, CALLS) == of_chat(done.choices[0].message)
    assert ("tool_calls", True) == (done.choices[0].finish_reason, done.usage.total_tokens > 0)


def test_openai_chat_reads_a_stream(chat: Any) -> None:
    """Its helper puts the same completion together."""
    options = {"include_usage": True}
    with chat.chat.completions.stream(model="test-model", messages=ASKED, stream_options=options) as stream:
        done = stream.get_final_completion()
    assert ("They greet me.", TEXT, CALLS) == of_chat(done.choices[0].message)
    assert ("tool_calls", True) == (done.choices[0].finish_reason, done.usage.total_tokens > 0)


def test_openai_raises_its_own_error(server: Server, chat: Any) -> None:
    """A ProviderError becomes the package's exception for that status."""
    server.clear()
    server.answer(il.AuthFailed("wrong key", code="invalid_api_key"))
    with pytest.raises(openai.AuthenticationError, match="wrong key"):
        chat.chat.completions.create(model="test-model", messages=ASKED)


def test_openai_lists_models(chat: Any) -> None:
    """The list of models is a page of the package's own."""
    assert ["test-model", "test-reasoner"] == [model.id for model in chat.models.list()]


def of_response(response: Any) -> tuple[str, str, list[Any]]:
    items = response.output
    calls = [(item.name, json.loads(item.arguments)) for item in items if item.type == "function_call"]
    thinking = "".join(part.text for item in items if item.type == "reasoning" for part in item.summary)
    return thinking, response.output_text, calls


@pytest.mark.parametrize("api", ["openai-responses", "azure-openai-responses", "openai-codex-responses"])
def test_openai_responses_reads_both(server: Server, api: str) -> None:
    """A response, whole and streamed."""
    base = server.base_url(api) + ("/codex" if "codex" in api else "")
    with openai.OpenAI(api_key="none", base_url=base, max_retries=0) as client:
        whole = client.responses.create(model="test-model", input="Hi")
        with client.responses.stream(model="test-model", input="Hi") as stream:
            streamed = stream.get_final_response()
    assert ("They greet me.", TEXT, CALLS) == of_response(whole) == of_response(streamed)
    assert whole.usage is not None
    assert streamed.usage is not None
    assert whole.usage.total_tokens == streamed.usage.total_tokens > 0
    assert api == server.last.api


def test_azure_openai_reads_a_response(server: Server) -> None:
    """The package for Azure adds a query of its own."""
    with openai.AzureOpenAI(
        api_key="none", base_url=server.base_url("azure-openai-responses"), api_version="v1", max_retries=0
    ) as client:
        assert TEXT == client.responses.create(model="test-model", input="Hi").output_text
    assert "none" == server.last.headers["api-key"]


@pytest.fixture
def gemini(server: Server) -> Iterator[Any]:
    base = server.base_url("google-generative-ai").removesuffix("/v1beta")
    with genai.Client(api_key="none", http_options=HttpOptions(base_url=base)) as client:
        yield client


def of_gemini(parts: Any) -> tuple[str, str, list[Any]]:
    return (
        "".join(part.text for part in parts if part.thought),
        "".join(part.text for part in parts if part.text and not part.thought),
        [(part.function_call.name, part.function_call.args) for part in parts if part.function_call],
    )


def test_google_reads_an_answer(gemini: Any) -> None:
    """The whole answer, with its finish reason and usage."""
    answer = gemini.models.generate_content(model="test-model", contents="Hi")
    candidate = answer.candidates[0]
    assert ("They greet me.", TEXT, CALLS) == of_gemini(candidate.content.parts)
    assert ("STOP", True) == (candidate.finish_reason.value, answer.usage_metadata.total_token_count > 0)


def test_google_reads_a_stream(gemini: Any) -> None:
    """Chunk by chunk, the same answer."""
    chunks = list(gemini.models.generate_content_stream(model="test-model", contents="Hi"))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
    assert ("They greet me.", TEXT, CALLS) == of_gemini(parts)
    assert "STOP" == chunks[-1].candidates[0].finish_reason.value


def test_google_takes_the_base_url_of_the_dialect_too(server: Server) -> None:
    """Its client adds a version of its own to whatever address it gets."""
    with genai.Client(
        api_key="none", http_options=HttpOptions(base_url=server.base_url("google-generative-ai"))
    ) as client:
        assert TEXT in str(client.models.generate_content(model="test-model", contents="Hi"))


def test_google_raises_its_own_error(server: Server, gemini: Any) -> None:
    """A ProviderError becomes the package's exception, with Google's word for it."""
    server.clear()
    server.answer(il.BadRequest("no such field"))
    with pytest.raises(GoogleError, match="no such field") as caught:
        gemini.models.generate_content(model="test-model", contents="Hi")
    assert "INVALID_ARGUMENT" == caught.value.status


def test_google_lists_models(gemini: Any) -> None:
    """The list of models is a page of the package's own."""
    assert ["models/test-model", "models/test-reasoner"] == [model.name for model in gemini.models.list()]


@pytest.fixture
def interactions(server: Server) -> Iterator[Any]:
    base = server.base_url("google-interactions").removesuffix("/v1beta")
    with genai.Client(api_key="none", http_options=HttpOptions(base_url=base)) as client:
        yield client.interactions


def test_google_reads_an_interaction(interactions: Any) -> None:
    """Its steps are a thought, a text and two calls, in the types of the package."""
    answer = interactions.create(model="test-model", input="Hi")
    thought, output, *calls = answer.steps
    assert ("They greet me.", "c2lnbmVk", TEXT) == (
        thought.summary[0].text,
        thought.signature,
        output.content[0].text,
    )
    assert CALLS == [(call.name, call.arguments) for call in calls]
    assert ("requires_action", True) == (answer.status, answer.usage.total_tokens > 0)


def test_google_reads_the_stream_of_an_interaction(interactions: Any) -> None:
    """Step by step, the same answer."""
    events = list(interactions.create(model="test-model", input="Hi", stream=True))
    deltas = [event.delta for event in events if event.event_type == "step.delta"]
    assert TEXT == "".join(delta.text for delta in deltas if delta.type == "text")
    assert '{"city":"Oslo"}{"city":"Rome"}' == "".join(d.arguments for d in deltas if d.type == "arguments_delta")
    assert "They greet me." == "".join(d.content.text for d in deltas if d.type == "thought_summary")
    assert ("interaction.created", "interaction.completed") == (events[0].event_type, events[-1].event_type)


def test_google_sends_what_an_interaction_may_hold(server: Server, interactions: Any) -> None:
    """Instructions, tools, steps and options arrive as ours."""
    interactions.create(
        model="test-model",
        system_instruction="Be brief.",
        input=[
            {"type": "user_input", "content": [{"type": "text", "text": "Tide?"}]},
            {"type": "function_call", "id": "c1", "name": "tide", "arguments": {"port": "Oslo"}},
            {"type": "function_result", "call_id": "c1", "name": "tide", "result": "high"},
        ],
        tools=[{"type": "function", "name": "tide", "parameters": {"type": "object", "properties": {}}}],
        generation_config={"temperature": 0.5, "thinking_level": "low", "tool_choice": "any"},
    )
    request = server.last.request
    assert request is not None
    assert ("Be brief.", ["user", "assistant", "toolResult"]) == (
        request.context.system,
        [message.role for message in request.context.messages],
    )
    assert (0.5, "low", "required") == (
        request.options.temperature,
        request.options.reasoning and request.options.reasoning.effort,
        request.options.tool_choice and request.options.tool_choice.mode,
    )


@pytest.fixture
def bedrock(server: Server) -> Iterator[Any]:
    client = boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=server.base_url("bedrock-converse-stream"),
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=Config(retries={"max_attempts": 1, "mode": "standard"}),
    )
    yield client
    client.close()


CONVERSE = [{"role": "user", "content": [{"text": "Hi"}]}]
ARN = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.test-v1:0"


def test_boto3_converses(server: Server, bedrock: Any) -> None:
    """The whole answer, for a model whose name is an address."""
    answer = bedrock.converse(modelId=ARN, messages=CONVERSE)
    content = answer["output"]["message"]["content"]
    assert "They greet me." == content[0]["reasoningContent"]["reasoningText"]["text"]
    assert TEXT == content[1]["text"]
    assert CALLS == [(block["toolUse"]["name"], block["toolUse"]["input"]) for block in content[2:]]
    assert ("tool_use", True) == (answer["stopReason"], answer["usage"]["totalTokens"] > 0)
    assert (ARN, "req_test1") == (server.last.request.model.id, answer["ResponseMetadata"]["RequestId"])  # type: ignore[union-attr]


def test_boto3_reads_a_stream_of_converse(bedrock: Any) -> None:
    """Event by event, the same answer."""
    events = list(bedrock.converse_stream(modelId="test-model", messages=CONVERSE)["stream"])
    deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
    starts = [event["contentBlockStart"]["start"] for event in events if "contentBlockStart" in event]
    assert TEXT == "".join(delta.get("text", "") for delta in deltas)
    assert '{"city":"Oslo"}{"city":"Rome"}' == "".join(delta.get("toolUse", {}).get("input", "") for delta in deltas)
    assert ["weather", "weather"] == [start["toolUse"]["name"] for start in starts]
    assert ["tool_use"] == [event["messageStop"]["stopReason"] for event in events if "messageStop" in event]
    assert events[-1]["metadata"]["usage"]["totalTokens"] > 0


def test_boto3_raises_its_own_error(server: Server, bedrock: Any) -> None:
    """A ProviderError becomes the exception that AWS has for it."""
    server.clear()
    server.answer(il.RateLimited("too fast"))
    with pytest.raises(ClientError, match="too fast") as caught:
        bedrock.converse(modelId="test-model", messages=CONVERSE)
    assert "ThrottlingException" == caught.value.response["Error"]["Code"]


def test_boto3_lists_models(server: Server) -> None:
    """The other client of Bedrock finds the models at the same address."""
    client = boto3.client(
        "bedrock",
        region_name="us-east-1",
        endpoint_url=server.base_url("bedrock-converse-stream"),
        aws_access_key_id="none",
        aws_secret_access_key="none",
    )
    listed = client.list_foundation_models()["modelSummaries"]
    client.close()
    assert ["test-model", "test-reasoner"] == [model["modelId"] for model in listed]


@pytest.fixture
def llama(server: Server) -> Iterator[Any]:
    with ollama.Client(host=server.base_url("ollama-chat")) as client:
        yield client


def test_ollama_reads_an_answer(llama: Any) -> None:
    """The whole answer, with its counts."""
    answer = llama.chat(model="test-model", messages=ASKED)
    calls = [(call.function.name, dict(call.function.arguments)) for call in answer.message.tool_calls]
    assert ("They greet me.", TEXT, CALLS) == (answer.message.thinking, answer.message.content, calls)
    assert (True, True) == (answer.done, answer.eval_count > 0)


def test_ollama_reads_a_stream(llama: Any) -> None:
    """Line by line, the same answer."""
    chunks = list(llama.chat(model="test-model", messages=ASKED, stream=True))
    calls = [
        (call.function.name, dict(call.function.arguments))
        for chunk in chunks
        for call in chunk.message.tool_calls or ()
    ]
    assert "They greet me." == "".join(chunk.message.thinking or "" for chunk in chunks)
    assert (TEXT, CALLS, True) == ("".join(chunk.message.content for chunk in chunks), calls, chunks[-1].done)


def test_ollama_raises_its_own_error(server: Server, llama: Any) -> None:
    """A ProviderError becomes the package's exception."""
    server.clear()
    server.answer(il.ProviderError("model not found", status=404))
    with pytest.raises(ollama.ResponseError, match="model not found"):
        llama.chat(model="test-model", messages=ASKED)


def test_ollama_lists_models(llama: Any) -> None:
    """The list of models is a value of the package's own."""
    assert ["test-model", "test-reasoner"] == [model.model for model in llama.list().models]
