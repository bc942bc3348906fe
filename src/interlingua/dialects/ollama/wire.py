"""The `Wire` of Ollama's chat API."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ...values import jsontext
from ...values.errors import BadRequest
from ...values.messages import Usage
from .. import shapes
from ..codec import text_answer_reader
from ..framing import write_ndjson
from ..limits import TargetLimits
from ..wire import NDJSON, EmbeddingRoute, Evidence, Http, Rephrased, Wire
from . import codec

_DETAILS = {"format": "", "family": "interlingua", "families": [], "parameter_size": "", "quantization_level": ""}


def _models(names: Sequence[str]) -> dict[str, Any]:
    modified = "2025-01-01T00:00:00Z"
    # docs/api.md, List Local Models.
    entries = [
        {"name": name, "model": name, "modified_at": modified, "size": 1, "digest": "0" * 64, "details": _DETAILS}
        for name in names
    ]
    return {"models": entries}


class _TextMessage(Struct, forbid_unknown_fields=True):
    role: Literal["assistant"]
    content: Annotated[str, Meta(min_length=1)]


class _TextAnswer(Struct):
    """An answer that is a text."""

    message: _TextMessage
    done: bool
    done_reason: Literal["stop", "length"]
    prompt_eval_count: int
    eval_count: int
    error: None = None


# docs.ollama.com/api/generate: a prompt instead of messages, and `response` instead of a message in the answer.
def _of_generate(body: Any) -> Any:
    system, prompt, images = body.get("system"), body.get("prompt"), body.get("images")
    for name, text in (("prompt", prompt), ("system", system)):
        if text is not None and not isinstance(text, str):  # else the error would name a message
            raise BadRequest(f"$.{name}: expected text, got {type(text).__name__}", status=400)
    user = {"role": "user", "content": "" if prompt is None else prompt, **({"images": images} if images else {})}
    # Go's zero values mean that a field is not set.
    unset = {name for name in _GENERATE_ONLY if not body.get(name)}
    rest = {name: value for name, value in body.items() if name not in unset | {"system", "prompt", "images"}}
    users = [user] if user["content"] != "" or images else []
    return {**rest, "messages": [*([{"role": "system", "content": system}] if system and users else ()), *users]}


# What only this endpoint has: tokens of an earlier answer, prompts that are not of a chat, generated pictures.
_GENERATE_ONLY = ("context", "raw", "template", "suffix", "width", "height", "steps")


def _to_generate(body: Any) -> Any:
    rest = {name: value for name, value in body.items() if name not in ("messages", "tools")}
    for message in body["messages"]:
        if message["role"] == "system":
            rest["system"] = message["content"]
        else:
            rest["prompt"] = message["content"]
            rest |= {"images": message["images"]} if message.get("images") else {}
    return rest


def _of_generated(value: Any) -> Any:
    if "response" not in value:
        return value
    rest = {name: each for name, each in value.items() if name not in ("response", "thinking")}
    thinking = {"thinking": value["thinking"]} if value.get("thinking") else {}
    return {**rest, "message": {"role": "assistant", "content": value["response"], **thinking}}


def _as_generated(value: Any) -> Any:
    message = value.get("message")
    if not isinstance(message, dict):
        return value
    rest = {name: each for name, each in value.items() if name != "message"}
    thinking = {"thinking": message["thinking"]} if message.get("thinking") else {}
    return {**rest, "response": message.get("content", ""), **thinking}


def _show(names: Sequence[str], body: Any) -> Any:
    name = body.get("model") or body.get("name") if isinstance(body, dict) else None
    if name not in names:
        raise BadRequest(f"model {name!r} not found", status=404, code="model_not_found")
    return {"details": _DETAILS, "model_info": {}, "capabilities": ["completion", "tools", "vision", "thinking"]}


def _is_response(value: Any) -> bool:
    return isinstance(value["message"], dict) and "done" in value


def _is_request(value: Any) -> bool:
    if isinstance(value, dict) and ("keep_alive" in value or isinstance(value.get("options"), dict)):
        return "messages" in value
    return any(map(_is_own_message, shapes.messages(value)))


def _is_own_message(message: dict[str, Any]) -> bool:
    if "role" not in message:  # rows of training sets may have `images` too
        return False
    if isinstance(message.get("images"), list) or "tool_name" in message:
        return True
    calls = message.get("tool_calls")
    return any(isinstance(call["function"]["arguments"], dict) for call in calls or ())


# github.com/ollama/ollama/blob/main/docs/api.md, Generate Embeddings.
def _encode_texts(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "input": list(texts)}
    return body if dimensions is None else {**body, "dimensions": dimensions}


def _decode_vectors(body: Any) -> tuple[list[list[float]], int | None]:
    return [[float(one) for one in row] for row in body["embeddings"]], body.get("prompt_eval_count")


_EMBEDDINGS = EmbeddingRoute(
    path=lambda model: "/api/embed", encode=_encode_texts, decode=_decode_vectors, batch=lambda model: 256
)

OLLAMA = Wire(
    api=codec.API,
    codec=codec,
    limits=TargetLimits(
        api=codec.API,
        # api/types.go, Message: no flag for a failed tool.
        error_flag=False,
        empty_tools=True,  # recorded
        later_system=True,
        images=("data",),  # github.com/ollama/ollama/blob/main/docs/api.md: `images` are base64
        documents=(),
        result_media=False,
        # …: one string, and the pictures beside it.
        mixed_content=False,
        reasoning=("effort", "switch"),
        opaque=False,
        default_window=4096,  # github.com/ollama/ollama/blob/main/docs/context-length.mdx
    ),
    calls_beside=True,
    http=Http(
        route=r"/api/chat",
        route_rank=60,
        models_route=r"/api/tags",
        models_path="/api/tags",
        list_models=_models,
        content_type=NDJSON,
        # api/types.go, ChatRequest, `stream`.
        stream_default=True,
        ping=b"",  # no keep-alive: the official client fails on an empty line
        error_event=lambda error, sent, body: write_ndjson(jsontext.write(body)),
        embeddings=_EMBEDDINGS,
        model_paths=(("model",),),
        varying=("created_at",),
        empty_loads=True,  # github.com/ollama/ollama, docs/api.md, "Load a model"
        rephrased=Rephrased(
            route=r"/api/generate",
            input_field="prompt",
            request=_of_generate,
            answer=_as_generated,
            own_fields=_GENERATE_ONLY,
            encode_request=_to_generate,
            decode_answer=_of_generated,
        ),
        fixed={
            # Clients ask for the version before they use newer features, and for a model's capabilities by /api/show.
            "GET /api/version": lambda names, body: {"version": "0.12.0"},
            "GET /api/ps": lambda names, body: {"models": []},  # none is in this machine's memory
            "POST /api/show": _show,
        },
    ),
    evidence=(
        Evidence("chunk", 60, "lines with `message` and `done`", _is_response),
        Evidence("response", 70, "an answer with `done` beside `message`", _is_response),
        Evidence("request", 70, "Ollama's `options`, `images` or arguments as objects", _is_request),
        Evidence(
            "plain",
            20,
            "plain messages",
            lambda v: shapes.is_plain(v, "system", "user", "assistant") and not shapes.has_any(v, shapes.CHAT_ONLY),
        ),
    ),
    telemetry="ollama",
    text_answer=text_answer_reader(
        _TextAnswer, lambda answer: Usage.of(answer.prompt_eval_count, answer.eval_count) if answer.done else None
    ),
)
