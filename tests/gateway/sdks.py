"""The vendors' own packages as clients of a gateway, behind one interface: a conversation, turn by turn.

Each sends back the answers as its package gives them, and as programs do: fields that its format does not have are
dropped on the way.
"""

import base64
import json
from contextlib import closing
from typing import Any, NamedTuple

import anthropic
import boto3
import ollama
import openai
from botocore.config import Config
from botocore.exceptions import ClientError
from google import genai
from google.genai import errors as google_errors
from google.genai import types
from google.genai.types import HttpOptions

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Call(NamedTuple):
    id: str
    name: str
    arguments: dict[str, Any]


class Answer(NamedTuple):
    text: str
    calls: list[Call]
    stop: str  # as the wire says it
    usage: tuple[int, int]
    model: str | None = None
    id: str | None = None
    thinking: str = ""


class Client:
    """One conversation. `model` is what is asked for; `stream` says how."""

    wire = ""
    stops: tuple[str, str] = ("", "")  # the words for an end and for calls
    errors: tuple[type[Exception], ...] = ()  # that the package raises on purpose; others mean a stream that is none

    def __init__(self, url: str, model: str, *, stream: bool) -> None:
        self.model, self.stream, self.history = model, stream, list[Any]()
        self.connect(url)

    def connect(self, url: str) -> None: ...
    def close(self) -> None:
        self.client.close()

    client: Any

    def say(self, text: str, *, picture: bytes | None = None, **options: Any) -> Answer:
        self.user(text, picture)
        return self.ask(**options)

    def user(self, text: str, picture: bytes | None) -> None: ...
    def results(self, results: dict[str, str], calls: list[Call]) -> None: ...
    def ask(self, *, tools: bool = False, thinking: bool = False, schema: bool = False) -> Answer:
        raise NotImplementedError


class OpenAIChat(Client):
    wire, stops = "openai-completions", ("stop", "tool_calls")
    errors = (openai.APIError,)

    def connect(self, url: str) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="client-key", max_retries=0, timeout=20)

    def user(self, text: str, picture: bytes | None) -> None:
        content: Any = text
        if picture:
            data = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
            content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": data}}]
        self.history.append({"role": "user", "content": content})

    def results(self, results: dict[str, str], calls: list[Call]) -> None:
        self.history += [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results.items()]

    def ask(self, *, tools: bool = False, thinking: bool = False, schema: bool = False) -> Answer:
        options: dict[str, Any] = {"model": self.model, "messages": self.history}
        if tools:
            function = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA}
            options["tools"] = [{"type": "function", "function": function}]
        if thinking:
            options["reasoning_effort"] = "medium"
        if schema:
            options["response_format"] = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}
        if self.stream:
            with self.client.chat.completions.create(
                stream=True, stream_options={"include_usage": True}, **options
            ) as stream:
                done = self._assembled(stream)
        else:
            done = self.client.chat.completions.create(**options).model_dump()
        message = done["choices"][0]["message"]
        calls = [
            Call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls") or ()
        ]
        echo = {"role": "assistant", "content": message["content"]}
        if calls:
            echo["tool_calls"] = [
                {"id": c["id"], "type": "function", "function": dict(c["function"])} for c in message["tool_calls"]
            ]
        self.history.append(echo)
        usage = done["usage"]
        return Answer(
            message["content"] or "",
            calls,
            done["choices"][0]["finish_reason"],
            (usage["prompt_tokens"], usage["completion_tokens"]),
            done["model"],
            done["id"],
            message.get("reasoning_content") or "",
        )

    def _assembled(self, stream: Any) -> dict[str, Any]:
        done: dict[str, Any] = {"usage": None}
        text, thinking, calls, stop = "", "", dict[int, dict[str, Any]](), None
        for chunk in stream:
            done |= {"id": chunk.id, "model": chunk.model}
            if chunk.usage:
                done["usage"] = chunk.usage.model_dump()
            for choice in chunk.choices:
                text += choice.delta.content or ""
                thinking += (choice.delta.model_extra or {}).get("reasoning_content") or ""
                stop = choice.finish_reason or stop
                for call in choice.delta.tool_calls or ():
                    kept = calls.setdefault(call.index, {"id": call.id, "function": {"name": "", "arguments": ""}})
                    kept["function"]["name"] += call.function.name or ""
                    kept["function"]["arguments"] += call.function.arguments or ""
        message = {"content": text or None, "tool_calls": list(calls.values()), "reasoning_content": thinking}
        return {**done, "choices": [{"message": message, "finish_reason": stop}]}


class OpenAIResponses(Client):
    wire, stops = "openai-responses", ("completed", "completed")
    errors = (openai.APIError,)

    def connect(self, url: str) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="client-key", max_retries=0, timeout=20)

    def user(self, text: str, picture: bytes | None) -> None:
        content: list[Any] = [{"type": "input_text", "text": text}]
        if picture:
            data = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
            content.append({"type": "input_image", "image_url": data, "detail": "auto"})
        self.history.append({"type": "message", "role": "user", "content": content})

    def results(self, results: dict[str, str], calls: list[Call]) -> None:
        self.history += [
            {"type": "function_call_output", "call_id": id, "output": text} for id, text in results.items()
        ]

    def ask(self, *, tools: bool = False, thinking: bool = False, schema: bool = False) -> Answer:
        options: dict[str, Any] = {"model": self.model, "input": self.history, "store": False}
        if tools:
            function = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}
            options["tools"] = [{**function, "description": "The weather of a city."}]
        if thinking:
            options |= {"reasoning": {"effort": "medium"}, "include": ["reasoning.encrypted_content"]}
        if schema:
            options["text"] = {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA, "strict": False}}
        if self.stream:
            with self.client.responses.stream(**options) as stream:
                for event in stream:
                    if event.type in ("response.failed", "error"):  # the package leaves both to the reader
                        raise openai.APIError(event.to_json(), stream._response.request, body=None)
                done = stream.get_final_response()
        else:
            done = self.client.responses.create(**options)
        output = done.model_dump(exclude_none=True, mode="json")["output"]
        for item in output:
            item.pop("parsed_arguments", None)
            for part in item.get("content") or ():
                part.pop("parsed", None)
        self.history += output
        text = "".join(
            part["text"] for item in output if item["type"] == "message" for part in item["content"] if "text" in part
        )
        calls = [
            Call(item["call_id"], item["name"], json.loads(item["arguments"]))
            for item in output
            if item["type"] == "function_call"
        ]
        thoughts = [
            part["text"]
            for item in output
            if item["type"] == "reasoning"
            for part in (item.get("summary") or []) + (item.get("content") or [])
        ]
        usage = (done.usage.input_tokens, done.usage.output_tokens)
        return Answer(text, calls, done.status, usage, done.model, done.id, "".join(thoughts))


class Anthropic(Client):
    wire, stops = "anthropic-messages", ("end_turn", "tool_use")
    errors = (anthropic.APIError,)

    def connect(self, url: str) -> None:
        self.client = anthropic.Anthropic(base_url=url, api_key="client-key", max_retries=0, timeout=20)

    def user(self, text: str, picture: bytes | None) -> None:
        content: list[Any] = [{"type": "text", "text": text}]
        if picture:
            source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(picture).decode()}
            content.append({"type": "image", "source": source})
        self.history.append({"role": "user", "content": content})

    def results(self, results: dict[str, str], calls: list[Call]) -> None:
        content = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results.items()]
        self.history.append({"role": "user", "content": content})

    def ask(self, *, tools: bool = False, thinking: bool = False, schema: bool = False) -> Answer:
        options: dict[str, Any] = {"model": self.model, "messages": self.history, "max_tokens": 4000}
        if tools:
            options["tools"] = [{"name": "weather", "description": "The weather of a city.", "input_schema": SCHEMA}]
        if thinking:
            options["thinking"] = {"type": "enabled", "budget_tokens": 1024}
        if schema:
            options["extra_body"] = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
        if self.stream:
            with self.client.messages.stream(**options) as stream:
                done = stream.get_final_message()
        else:
            done = self.client.messages.create(**options)
        content = [block.model_dump(exclude_none=True, mode="json") for block in done.content]
        for block in content:
            block.pop("parsed_output", None)
        self.history.append({"role": "assistant", "content": content})
        text = "".join(block["text"] for block in content if block["type"] == "text")
        calls = [Call(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"]
        thoughts = "".join(block["thinking"] for block in content if block["type"] == "thinking")
        usage = done.usage.input_tokens + (done.usage.cache_read_input_tokens or 0), done.usage.output_tokens
        return Answer(text, calls, done.stop_reason or "", usage, done.model, done.id, thoughts)


class Google(Client):
    wire, stops = "google-generative-ai", ("STOP", "STOP")
    errors = (google_errors.APIError,)

    def connect(self, url: str) -> None:
        self.client = genai.Client(api_key="client-key", http_options=HttpOptions(base_url=url, timeout=20_000))

    def user(self, text: str, picture: bytes | None) -> None:
        parts = [types.Part.from_text(text=text)]
        if picture:
            parts.append(types.Part.from_bytes(data=picture, mime_type="image/png"))
        self.history.append(types.Content(role="user", parts=parts))

    def results(self, results: dict[str, str], calls: list[Call]) -> None:
        named = {call.id: call.name for call in calls}
        parts = []
        for id, text in results.items():
            given = types.FunctionResponse(name=named[id], response={"output": text}, id=self._ids.get(id))
            parts.append(types.Part(function_response=given))
        self.history.append(types.Content(role="user", parts=parts))

    _ids: dict[str, str | None] = {}

    def ask(self, *, tools: bool = False, thinking: bool = False, schema: bool = False) -> Answer:
        config: dict[str, Any] = {}
        if tools:
            function = types.FunctionDeclaration(
                name="weather", description="The weather of a city.", parameters_json_schema=SCHEMA
            )
            config["tools"] = [types.Tool(function_declarations=[function])]
        if thinking:
            config["thinking_config"] = types.ThinkingConfig(include_thoughts=True, thinking_budget=1024)
        if schema:
            config |= {"response_mime_type": "application/json", "response_json_schema": SCHEMA}
        given: dict[str, Any] = {
            "model": self.model,
            "contents": self.history,
            "config": types.GenerateContentConfig(
                automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True), **config
            ),
        }
        if self.stream:
            chunks = list(self.client.models.generate_content_stream(**given))
        else:
            chunks = [self.client.models.generate_content(**given)]
        parts = [
            part
            for chunk in chunks
            for candidate in chunk.candidates or ()
            for part in (candidate.content.parts if candidate.content else None) or ()
        ]
        self.history.append(types.Content(role="model", parts=_joined(parts)))
        calls = []
        self._ids = {}
        for at, part in enumerate(part for part in parts if part.function_call):
            call = part.function_call
            assert call is not None
            id = call.id or f"{call.name}-{at}"
            self._ids[id] = call.id
            calls.append(Call(id, call.name or "", call.args or {}))
        last = chunks[-1]
        usage = last.usage_metadata
        assert usage is not None
        counted = (
            usage.prompt_token_count or 0,
            (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
        )
        return Answer(
            "".join(part.text or "" for part in parts if not part.thought),
            calls,
            last.candidates[0].finish_reason.value if last.candidates else "",
            counted,
            last.model_version,
            last.response_id,
            "".join(part.text or "" for part in parts if part.thought),
        )


def _joined(parts: list[types.Part]) -> list[types.Part]:
    """Chunks of a text as one part, as programs put them together."""
    joined: list[types.Part] = []
    for part in parts:
        before = joined[-1] if joined else None
        plain = part.text is not None and not part.thought_signature
        if before is not None and plain and before.text is not None and before.thought == part.thought:
            joined[-1] = before.model_copy(update={"text": before.text + (part.text or "")})
        else:
            joined.append(part)
    return joined


class Bedrock(Client):
    wire, stops = "bedrock-converse-stream", ("end_turn", "tool_use")
    errors = (ClientError,)

    def connect(self, url: str) -> None:
        self.client = boto3.client(
            "bedrock-runtime",
            region_name="us-east-1",
            endpoint_url=url,
            aws_access_key_id="none",
            aws_secret_access_key="none",
            config=Config(retries={"total_max_attempts": 1}, read_timeout=20),
        )

    def user(self, text: str, picture: bytes | None) -> None:
        content: list[Any] = [{"text": text}]
        if picture:
            content.append({"image": {"format": "png", "source": {"bytes": picture}}})
        self.history.append({"role": "user", "content": content})

    def results(self, results: dict[str, str], calls: list[Call]) -> None:
        content = [{"toolResult": {"toolUseId": id, "content": [{"text": text}]}} for id, text in results.items()]
        self.history.append({"role": "user", "content": content})

    def ask(self, *, tools: bool = False, thinking: bool = False, schema: bool = False) -> Answer:
        options: dict[str, Any] = {
            "modelId": self.model,
            "messages": self.history,
            "inferenceConfig": {"maxTokens": 4000},
        }
        if tools:
            spec = {"name": "weather", "description": "The weather of a city.", "inputSchema": {"json": SCHEMA}}
            options["toolConfig"] = {"tools": [{"toolSpec": spec}]}
        if thinking:
            options["additionalModelRequestFields"] = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
        if schema:
            given = {"jsonSchema": {"name": "city", "schema": json.dumps(SCHEMA)}}
            options["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": given}}
        if self.stream:
            with closing(self.client.converse_stream(**options)["stream"]) as stream:
                message, stop, usage = self._assembled(stream)
        else:
            done = self.client.converse(**options)
            message, stop, usage = done["output"]["message"], done["stopReason"], done["usage"]
        self.history.append(message)
        content = message["content"]
        thoughts = [b["reasoningContent"]["reasoningText"]["text"] for b in content if "reasoningContent" in b]
        return Answer(
            "".join(block["text"] for block in content if "text" in block),
            [
                Call(*map(block["toolUse"].get, ("toolUseId", "name", "input")))
                for block in content
                if "toolUse" in block
            ],
            stop,
            (usage["inputTokens"] + usage.get("cacheReadInputTokens", 0), usage["outputTokens"]),
            thinking="".join(thoughts),
        )

    def _assembled(self, stream: Any) -> tuple[dict[str, Any], str, dict[str, Any]]:
        blocks: dict[int, dict[str, Any]] = {}
        stop, usage = "", dict[str, Any]()
        for event in stream:
            if "contentBlockStart" in event:
                start = event["contentBlockStart"]
                if "toolUse" in start["start"]:
                    blocks[start["contentBlockIndex"]] = {"toolUse": {**start["start"]["toolUse"], "input": ""}}
            elif "contentBlockDelta" in event:
                at, delta = event["contentBlockDelta"]["contentBlockIndex"], event["contentBlockDelta"]["delta"]
                if "text" in delta:
                    blocks.setdefault(at, {"text": ""})["text"] += delta["text"]
                elif "toolUse" in delta:
                    blocks[at]["toolUse"]["input"] += delta["toolUse"]["input"]
                elif "reasoningContent" in delta:
                    kept = blocks.setdefault(at, {"reasoningContent": {"reasoningText": {"text": ""}}})
                    reasoning = kept["reasoningContent"]["reasoningText"]
                    reasoning["text"] += delta["reasoningContent"].get("text", "")
                    if "signature" in delta["reasoningContent"]:
                        reasoning["signature"] = delta["reasoningContent"]["signature"]
            elif "messageStop" in event:
                stop = event["messageStop"]["stopReason"]
            elif "metadata" in event:
                usage = event["metadata"]["usage"]
        for block in blocks.values():
            if "toolUse" in block:
                block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
        content = [block for _, block in sorted(blocks.items()) if block.get("text") != ""]
        return {"role": "assistant", "content": content}, stop, usage


class Ollama(Client):
    wire, stops = "ollama-chat", ("stop", "stop")
    errors = (ollama.ResponseError,)

    def connect(self, url: str) -> None:
        self.client = ollama.Client(host=url, timeout=20)

    def close(self) -> None:
        self.client._client.close()

    def user(self, text: str, picture: bytes | None) -> None:
        images = {"images": [base64.b64encode(picture).decode()]} if picture else {}
        self.history.append({"role": "user", "content": text, **images})

    def results(self, results: dict[str, str], calls: list[Call]) -> None:
        named = {call.id: call.name for call in calls}
        self.history += [{"role": "tool", "tool_name": named[id], "content": text} for id, text in results.items()]

    def ask(self, *, tools: bool = False, thinking: bool = False, schema: bool = False) -> Answer:
        options: dict[str, Any] = {"model": self.model, "messages": self.history}
        if tools:
            function = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA}
            options["tools"] = [{"type": "function", "function": function}]
        if thinking:
            options["think"] = True
        if schema:
            options["format"] = SCHEMA
        chunks = list(self.client.chat(stream=True, **options)) if self.stream else [self.client.chat(**options)]
        text = "".join(chunk.message.content or "" for chunk in chunks)
        thoughts = "".join(chunk.message.thinking or "" for chunk in chunks)
        given = [call for chunk in chunks for call in chunk.message.tool_calls or ()]
        echo: dict[str, Any] = {"role": "assistant", "content": text}
        if given:
            echo["tool_calls"] = [
                {"function": {"name": c.function.name, "arguments": dict(c.function.arguments)}} for c in given
            ]
        self.history.append(echo)
        calls = [
            Call(f"{call.function.name}-{at}", call.function.name, dict(call.function.arguments))
            for at, call in enumerate(given)
        ]
        last = chunks[-1]
        usage = (last.prompt_eval_count or 0, last.eval_count or 0)
        return Answer(text, calls, last.done_reason or "", usage, last.model, None, thoughts)


CLIENTS: tuple[type[Client], ...] = (OpenAIChat, OpenAIResponses, Anthropic, Google, Bedrock, Ollama)
