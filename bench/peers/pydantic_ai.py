"""`pydantic-ai`, its direct interface: the thinnest one it has over its models."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import httpx2 as httpx
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

import worker
from conversation import Assistant, Call, Chat, Image, Result, Text, Thinking, User
from limits import Decoded
from peers.transport import canned

LOOP = asyncio.new_event_loop()
PROVIDERS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "responses": "openai",
    "gemini": "google",
    "bedrock": "bedrock",
}


def request(wire: str, chat: Chat) -> Callable[[], bytes]:
    model, transport = _model(wire, None)
    messages = _messages(chat, PROVIDERS[wire])
    tools = [
        ToolDefinition(name=t.name, description=t.description, parameters_json_schema=t.schema) for t in chat.tools
    ]
    parameters = ModelRequestParameters(function_tools=tools)
    settings = ModelSettings(max_tokens=chat.max_tokens)

    def call() -> bytes:
        LOOP.run_until_complete(
            model_request(model, messages, model_settings=settings, model_request_parameters=parameters)
        )
        return transport.sent

    return call


def stream(wire: str, chunks: list[bytes]) -> Callable[[], Any]:
    model, _ = _model(wire, chunks)
    messages: list[ModelMessage] = [ModelRequest.user_text_prompt("hi")]

    async def read() -> Any:
        async with model_request_stream(model, messages) as answer:
            async for _ in answer:
                pass
            return answer.get()

    return lambda: LOOP.run_until_complete(read())


def _model(wire: str, chunks: list[bytes] | None) -> tuple[Model, Any]:
    if wire == "bedrock":
        return _bedrock()
    transport = canned(httpx, wire, chunks)
    client = httpx.AsyncClient(transport=transport)
    match wire:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(
                "claude-opus-4-8", provider=AnthropicProvider(api_key="none", http_client=client)
            ), transport
        case "openai" | "responses":
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            kind = OpenAIChatModel if wire == "openai" else OpenAIResponsesModel
            return kind("gpt-5", provider=OpenAIProvider(api_key="none", http_client=client)), transport
        case _:
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel("gemini-2.5-pro", provider=GoogleProvider(api_key="none", http_client=client)), transport


def _bedrock() -> tuple[Model, Any]:
    import boto3
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    from peers import aws

    client = boto3.client(
        "bedrock-runtime", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
    )
    session = aws.canned(client)
    provider = BedrockProvider(bedrock_client=client)
    return BedrockConverseModel("us.anthropic.claude-opus-4-8-v1:0", provider=provider), session


def _messages(chat: Chat, provider: str) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    results: list[ToolReturnPart] = []
    for message in chat.messages:
        if isinstance(message, Result):
            results.append(ToolReturnPart(message.name, message.text, tool_call_id=message.call_id))
            continue
        if results:
            messages.append(ModelRequest(parts=results, instructions=chat.system))
            results = []
        if isinstance(message, User):
            prompt = UserPromptPart(content=[_asked(block) for block in message.content])
            messages.append(ModelRequest(parts=[prompt], instructions=chat.system))
        elif isinstance(message, Assistant):
            parts = [_encoded(block, provider) for block in message.content]
            messages.append(ModelResponse(parts=parts, provider_name=provider))
    return messages


def _asked(block: Any) -> Any:
    if isinstance(block, Image):
        return BinaryContent(base64.b64decode(block.data), media_type=block.mime_type)
    return block.text


def _encoded(block: Any, provider: str) -> Any:
    match block:
        case Text():
            return TextPart(block.text)
        case Thinking():
            return ThinkingPart(block.thinking, id="rs_01", signature=block.signature, provider_name=provider)
        case Call():
            return ToolCallPart(block.name, block.arguments, tool_call_id=block.id)


def decoded(answer: ModelResponse) -> Decoded:
    found = Decoded()
    for part in answer.parts:
        if isinstance(part, TextPart):
            found.text += part.content
        elif isinstance(part, ThinkingPart):
            found.thinking += part.content
        elif isinstance(part, ToolCallPart):
            found.arguments = part.args_as_dict()
    return found


if __name__ == "__main__":
    worker.serve({"request": request, "stream": stream}, decoded)
