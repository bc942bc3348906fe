"""The vendors' own packages as readers of our streams: each takes the bytes of an answer through its own client.

No network: a transport inside the client answers. What a package says of the answer is `Given`.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any


@dataclass
class Given:
    """What a package made of a stream. A call is `(id, name, arguments)`; `stop` is the provider's word."""

    text: str = ""
    refusal: str = ""
    thinking: str = ""
    calls: list[tuple[str | None, str | None, Any]] = field(default_factory=list)
    stop: str | None = None


class FreeText(str):
    """The input of a tool that takes words, not JSON."""


UNSEEN: Any = object()  # stands for an id that a package does not show


@dataclass
class _Call:
    """A call that is still being put together."""

    id: str
    name: str
    ours: bool = True  # for the client to run, not for the provider
    arguments: str = ""


class _Answer:
    """A transport's handler that answers every request with the same body."""

    def __init__(self, library: Any, content_type: str) -> None:
        self.body = b""
        self._library = library
        self._content_type = content_type

    def __call__(self, request: Any) -> Any:
        return self._library.Response(200, headers={"content-type": self._content_type}, content=self.body)


# --- Anthropic -------------------------------------------------------------------------------------------------------


@cache
def _anthropic() -> tuple[Any, _Answer]:
    import anthropic
    import httpx2

    answer = _Answer(httpx2, "text/event-stream")
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return anthropic.Anthropic(api_key="none", base_url="http://sdk.test", max_retries=0, http_client=http), answer


@cache
def _anthropic_bedrock() -> tuple[Any, _Answer]:
    import anthropic
    import httpx2

    answer = _Answer(httpx2, "application/vnd.amazon.eventstream")
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = anthropic.AnthropicBedrock(
        aws_access_key="none", aws_secret_key="none", aws_region="us-east-1", max_retries=0, http_client=http
    )
    return client, answer


def anthropic_messages(body: bytes) -> Given:
    client, answer = _anthropic()
    answer.body = body
    return _claude(client)


def bedrock_invoke_anthropic(body: bytes) -> Given:
    client, answer = _anthropic_bedrock()
    answer.body = body
    return _claude(client)


def _claude(client: Any) -> Given:
    with client.beta.messages.stream(model="m", max_tokens=1, messages=[{"role": "user", "content": "?"}]) as stream:
        message = stream.get_final_message()
    return Given(
        text="".join(block.text for block in message.content if block.type == "text"),
        thinking="".join(block.thinking for block in message.content if block.type == "thinking"),
        calls=[(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"],
        stop=message.stop_reason,
    )


# --- OpenAI ----------------------------------------------------------------------------------------------------------


@cache
def _openai() -> tuple[Any, _Answer]:
    import httpx2
    import openai

    answer = _Answer(httpx2, "text/event-stream")
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="none", base_url="http://sdk.test", max_retries=0, http_client=http), answer


def openai_completions(body: bytes) -> Given:
    client, answer = _openai()
    answer.body = body
    with client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "?"}]) as stream:
        stream.until_done()
        choices = stream.current_completion_snapshot.choices
    if not choices:
        return Given()
    message = choices[0].message
    return Given(
        text=_text(message.content),
        refusal=message.refusal or "",
        thinking=_completions_thinking(message),
        calls=[_function(call) for call in message.tool_calls or ()],
        stop=choices[0].finish_reason,
    )


def _completions_thinking(message: Any) -> str:
    """OpenAI's chat types have no thinking: hosts that show it put it beside the content, or among its parts."""
    beside = message.model_extra or {}
    parts = message.content if isinstance(message.content, list) else []
    within = (part["thinking"] for part in parts if part.get("type") == "thinking")
    details = beside.get("reasoning_details") or ()
    return (
        beside.get("reasoning_content")
        or beside.get("reasoning")
        or "".join(map(_text, within))
        or "".join(detail.get("text") or detail.get("summary") or "" for detail in details)
    )


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    return content or ""


def _function(call: Any) -> tuple[str | None, str | None, Any]:
    if call.type == "custom":  # not modelled by the package's helper, and so left as it came
        custom = call.model_extra["custom"] if "custom" in (call.model_extra or {}) else call.custom.to_dict()
        return call.id, custom["name"], FreeText(custom["input"])
    return call.id, call.function.name, call.function.arguments


def mistral_chat(body: bytes) -> Given:
    """Mistral's content may be a list of parts, which OpenAI's helper cannot add up: its chunks, joined one by one."""
    client, answer = _openai()
    answer.body = body
    given = Given()
    calls: dict[int, _Call] = {}
    for chunk in client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}], stream=True):
        for choice in chunk.choices[:1]:
            given.stop = choice.finish_reason or given.stop
            given.text += _text(choice.delta.content)
            given.thinking += _completions_thinking(choice.delta)
            for at, call in enumerate(choice.delta.tool_calls or ()):
                function = call.function
                index = at if call.index is None else call.index
                known = calls.setdefault(index, _Call(call.id, function.name))
                known.arguments += function.arguments or ""
    given.calls = [(call.id, call.name, call.arguments) for call in calls.values()]
    return given


def openai_responses(body: bytes) -> Given:
    client, answer = _openai()
    answer.body = body
    last = None
    with client.responses.stream(model="m", input="?") as stream:
        for event in stream:
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                last = event.response
    if last is None:
        return Given()
    if last.status == "failed":
        raise RuntimeError(last.error.message if last.error else "failed")
    reason = last.incomplete_details.reason if last.incomplete_details else None
    parts = [part for item in last.output if item.type == "message" for part in item.content]
    return Given(
        text="".join(part.text for part in parts if part.type == "output_text"),
        refusal="".join(part.refusal for part in parts if part.type == "refusal"),
        thinking="\n\n".join(filter(None, _reasoning(last.output))),
        calls=[_response_call(item) for item in last.output if item.type in ("function_call", "custom_tool_call")],
        stop=reason or last.status,
    )


def _response_call(item: Any) -> tuple[str, str, Any]:
    """A call of a function, or of a custom tool: that one's input is free text."""
    return item.call_id, item.name, item.arguments if item.type == "function_call" else FreeText(item.input)


def _reasoning(output: Iterable[Any]) -> Iterator[str]:
    for item in output:
        if item.type == "reasoning":
            yield from (part.text for part in (*(item.summary or ()), *(item.content or ())))


# --- Google ----------------------------------------------------------------------------------------------------------


@cache
def _google() -> tuple[Any, _Answer]:
    import httpx
    from google import genai
    from google.genai.types import HttpOptions

    answer = _Answer(httpx, "text/event-stream")
    http = httpx.Client(transport=httpx.MockTransport(answer))
    return genai.Client(api_key="none", http_options=HttpOptions(httpx_client=http)), answer


def google_generative_ai(body: bytes) -> Given:
    client, answer = _google()
    answer.body = body
    given = Given()
    for chunk in client.models.generate_content_stream(model="m", contents="?"):
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            given.stop = chunk.prompt_feedback.block_reason.value
        candidate = chunk.candidates[0] if chunk.candidates else None
        if candidate is None:
            continue
        if candidate.finish_reason:
            given.stop = candidate.finish_reason.value
        for part in (candidate.content and candidate.content.parts) or ():
            if part.function_call:
                call = part.function_call
                given.calls.append((call.id, call.name, call.args or {}))
            elif part.thought:
                given.thinking += part.text or ""
            else:
                given.text += part.text or ""
    return given


# --- Bedrock ---------------------------------------------------------------------------------------------------------


@cache
def _converse_shape() -> Any:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    model = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))
    return model.operation_model("ConverseStream").output_shape.members["stream"]


class _Raw:
    """A streaming body, as far as botocore's event stream asks of it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> Iterator[bytes]:
        yield self._body

    def close(self) -> None:
        pass


def bedrock_converse_stream(body: bytes) -> Given:
    from botocore.eventstream import EventStream
    from botocore.parsers import EventStreamJSONParser

    given = Given()
    calls: dict[int, _Call] = {}
    for event in EventStream(_Raw(body), _converse_shape(), EventStreamJSONParser(), "ConverseStream"):
        if "contentBlockStart" in event:
            start = event["contentBlockStart"]
            use = start["start"].get("toolUse")
            if use:
                ours = use.get("type") != "server_tool_use"
                calls[start["contentBlockIndex"]] = _Call(use["toolUseId"], use["name"], ours)
        elif "contentBlockDelta" in event:
            delta = event["contentBlockDelta"]["delta"]
            given.text += delta.get("text", "")
            given.thinking += delta.get("reasoningContent", {}).get("text", "")
            if "toolUse" in delta:
                calls[event["contentBlockDelta"]["contentBlockIndex"]].arguments += delta["toolUse"]["input"]
        elif "messageStop" in event:
            given.stop = event["messageStop"]["stopReason"]
    given.calls = [(call.id, call.name, call.arguments) for call in calls.values() if call.ours]
    return given


# --- Ollama ----------------------------------------------------------------------------------------------------------


@cache
def _ollama() -> tuple[Any, _Answer]:
    import httpx
    import ollama

    answer = _Answer(httpx, "application/x-ndjson")
    return ollama.Client(host="http://sdk.test", transport=httpx.MockTransport(answer)), answer


def ollama_chat(body: bytes) -> Given:
    client, answer = _ollama()
    answer.body = body
    given = Given()
    for chunk in client.chat(model="m", messages=[{"role": "user", "content": "?"}], stream=True):
        given.text += chunk.message.content or ""
        given.thinking += chunk.message.thinking or ""
        for call in chunk.message.tool_calls or ():
            given.calls.append((UNSEEN, call.function.name, dict(call.function.arguments)))
        given.stop = chunk.done_reason or given.stop
    return given


def reader(api: str, dialect: str) -> Callable[[bytes], Given]:
    """The package for a directory of the corpus."""
    return mistral_chat if api == "mistral" else _READERS[dialect]


_READERS: dict[str, Callable[[bytes], Given]] = {
    "anthropic-messages": anthropic_messages,
    "bedrock-converse-stream": bedrock_converse_stream,
    "bedrock-invoke-anthropic": bedrock_invoke_anthropic,
    "google-generative-ai": google_generative_ai,
    "google-vertex": google_generative_ai,
    "ollama-chat": ollama_chat,
    "openai-completions": openai_completions,
    "openai-responses": openai_responses,
}


def arguments_of(reported: Any) -> Any:
    """A call's arguments as values, where the package leaves them as text."""
    if not isinstance(reported, str) or isinstance(reported, FreeText):
        return {} if reported is None else reported
    try:
        return json.loads(reported) if reported.strip() else {}
    except ValueError:
        return reported
