"""Structured output by the vendors' own types: each schema over each wire, the request checked and the answer read."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import anthropic
import boto3
import ollama
import openai
import pytest
from botocore.config import Config
from google import genai
from google.genai.types import GenerateContentConfig, HttpOptions
from msgspec.structs import replace

import interlingua as il
from connect.test_outputs import CASES, answer_of
from interlingua.connect.results import OutputType
from interlingua.testing import Server
from sdk.validators import VALIDATORS

Body = dict[str, Any]


def test_the_suite_has_enough_schemas() -> None:
    """Nested, recursive, unions, enums, maps, nullable, defaults, dates, constrained numbers."""
    assert 60 <= len(CASES)


# --- the vendors' packages send our request again, and read the answer with their types ------------------------------


def anthropic_texts(server: Server, body: Body) -> Iterator[str]:
    with anthropic.Anthropic(api_key="k", base_url=server.base_url("anthropic-messages"), max_retries=0) as client:
        whole: Any = client.messages.create(**{**body, "stream": False})
        assert isinstance(whole, anthropic.types.Message)
        yield "".join(block.text for block in whole.content if block.type == "text")
        with client.messages.stream(**{key: value for key, value in body.items() if key != "stream"}) as stream:
            yield stream.get_final_text()


def completions_texts(server: Server, body: Body) -> Iterator[str]:
    whole_body = {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
    with openai.OpenAI(api_key="k", base_url=server.base_url("openai-completions"), max_retries=0) as client:
        whole: Any = client.chat.completions.create(**whole_body)
        assert isinstance(whole, openai.types.chat.ChatCompletion)
        yield whole.choices[0].message.content
        chunks: Any = client.chat.completions.create(**{**body, "stream": True})
        yield "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def responses_texts(server: Server, body: Body) -> Iterator[str]:
    with openai.OpenAI(api_key="k", base_url=server.base_url("openai-responses"), max_retries=0) as client:
        whole: Any = client.responses.create(**{**body, "stream": False})
        assert isinstance(whole, openai.types.responses.Response)
        yield whole.output_text
        events: Any = client.responses.create(**{**body, "stream": True})
        yield [event.response.output_text for event in events if event.type == "response.completed"][-1]


def google_texts(server: Server, body: Body) -> Iterator[str]:
    """The client has no way to send a whole body: the parts of ours go where it takes them."""
    config = GenerateContentConfig.model_validate(
        {**body.get("generationConfig", {}), "systemInstruction": body.get("systemInstruction")}
    )
    base = server.base_url("google-generative-ai").removesuffix("/v1beta")
    with genai.Client(api_key="k", http_options=HttpOptions(base_url=base)) as client:
        given: Any = {"model": "m-1", "contents": body["contents"], "config": config}
        yield client.models.generate_content(**given).text or ""
        yield "".join(chunk.text or "" for chunk in client.models.generate_content_stream(**given))


def bedrock_texts(server: Server, body: Body) -> Iterator[str]:
    client: Any = boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=server.base_url("bedrock-converse-stream"),
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=Config(retries={"max_attempts": 0}),
    )
    with closing(client):
        whole = client.converse(modelId="m-1", **body)
        yield "".join(block["text"] for block in whole["output"]["message"]["content"])
        events = client.converse_stream(modelId="m-1", **body)["stream"]
        deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
        yield "".join(delta["text"] for delta in deltas)


def ollama_texts(server: Server, body: Body) -> Iterator[str]:
    with ollama.Client(host=server.base_url("ollama-chat")) as client:
        whole: Any = client.chat(**{**body, "stream": False})
        assert isinstance(whole, ollama.ChatResponse)
        yield whole.message.content or ""
        yield "".join(chunk.message.content or "" for chunk in client.chat(**{**body, "stream": True}))


READERS: dict[str, Callable[[Server, Body], Iterator[str]]] = {
    "anthropic-messages": anthropic_texts,
    "openai-completions": completions_texts,
    "openai-responses": responses_texts,
    "google-generative-ai": google_texts,
    "bedrock-converse-stream": bedrock_texts,
    "ollama-chat": ollama_texts,
}


@pytest.mark.parametrize("api", READERS)
def test_every_schema_is_a_request_by_the_vendors_types_and_its_answer_an_answer(api: str) -> None:
    """The body that arrived is valid by the vendor's definition; the vendor's package can send it, too, and reads the
    same answer, whole and streamed."""
    with Server(strict=True) as server:
        model = il.ModelDescriptor(id="m-1", api=api, provider="test", base_url=server.base_url(api))
        for at, (hint, value, expected) in enumerate(CASES):
            text = answer_of(hint, value)
            for _ in range(3):
                server.say(text)
            result = il.sync.complete(model, "answer", output=hint, api_key="k", max_tokens=100)
            body = server.last.json
            assert (at, expected) == (at, result.output)
            assert (at, []) == (at, VALIDATORS[api](body))
            assert (at, [text, text]) == (at, list(READERS[api](server, body)))


# --- strict schemas --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["openai-completions", "openai-responses"])
def test_a_schema_that_is_called_strict_is_strict_by_the_rules_of_openai(api: str) -> None:
    """Every object is closed and every property required (platform.openai.com, "Supported schemas"), as the package's
    own `_ensure_strict_json_schema` would make it."""
    strict = 0
    with Server(strict=True) as server:
        model = il.ModelDescriptor(id="gpt-5", api=api, provider="test", base_url=server.base_url(api))
        for hint, value, _ in CASES:
            server.say(answer_of(hint, value))
            asked = replace(OutputType[Any](hint).schema, strict=True)
            il.sync.complete(model, "answer", output_schema=asked, api_key="k")
            body = server.last.json
            given = body["response_format"]["json_schema"] if api == "openai-completions" else body["text"]["format"]
            if given.get("strict"):
                strict += 1
                assert [] == [*_open_objects(given["schema"])], json.dumps(given)
    assert strict > 0


def _open_objects(schema: Any, path: str = "$") -> Iterator[str]:
    if isinstance(schema, list):
        for at, item in enumerate(schema):
            yield from _open_objects(item, f"{path}[{at}]")
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            yield path
    for key, value in schema.items():
        yield from _open_objects(value, f"{path}.{key}")
