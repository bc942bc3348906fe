"""The vendors' own words about what a request may be, made as strict as they can be: unknown keys are refused."""

import base64
import typing
from collections.abc import Iterable
from functools import cache
from typing import Any

import botocore.session
import pydantic
from botocore.validate import ParamValidator
from google.genai import types as genai
from typing_extensions import get_type_hints, is_typeddict

Problems = list[str]


def anthropic_problems(body: dict[str, Any]) -> Problems:
    from anthropic.types import message_create_params as params

    kind = params.MessageCreateParamsStreaming if body.get("stream") else params.MessageCreateParamsNonStreaming
    # Current types no longer have the sampling parameters, which the wire takes for the models that knew them.
    return typed_dict_problems(kind, {k: v for k, v in body.items() if k not in ("temperature", "top_p", "top_k")})


def completions_problems(body: dict[str, Any]) -> Problems:
    from openai.types.chat import completion_create_params as params

    kind = params.CompletionCreateParamsStreaming if body.get("stream") else params.CompletionCreateParamsNonStreaming
    return typed_dict_problems(kind, body)


def responses_problems(body: dict[str, Any]) -> Problems:
    from openai.types.responses import response_create_params as params

    kind = params.ResponseCreateParamsStreaming if body.get("stream") else params.ResponseCreateParamsNonStreaming
    return typed_dict_problems(kind, body)


def ollama_problems(body: dict[str, Any]) -> Problems:
    from ollama._types import ChatRequest, Message

    return [
        *model_problems(ChatRequest, body),
        # The request's own type takes any mapping for a message.
        *(problem for message in body["messages"] for problem in model_problems(Message, _with_images(message))),
    ]


def _with_images(message: dict[str, Any]) -> dict[str, Any]:
    """A message as a user of the client would give it: pictures as values of its own type."""
    return {**message, "images": [{"value": image} for image in message.get("images", ())]}


# google-genai has no type for a request body: the parts of one, each with the type that the client builds it from.
GOOGLE_PARTS: dict[str, Any] = {
    "contents": list[genai.Content],
    "systemInstruction": genai.Content,
    "tools": list[genai.Tool],
    "toolConfig": genai.ToolConfig,
    "generationConfig": genai.GenerationConfig,
    "safetySettings": list[genai.SafetySetting],
    "cachedContent": str,
}


def google_problems(body: dict[str, Any]) -> Problems:
    problems = [f"{key}: not a part of a request" for key in body if key not in GOOGLE_PARTS]
    for key, kind in GOOGLE_PARTS.items():
        if key in body:
            problems += [f"{key}.{problem}" for problem in model_problems(kind, body[key])]
    return problems


def bedrock_problems(body: dict[str, Any]) -> Problems:
    shape = _converse()
    report = ParamValidator().validate({"modelId": "a-model", **_with_bytes(body, shape)}, shape)
    return [report.generate_report()] if report.has_errors() else []


def model_problems(kind: Any, value: Any) -> Problems:
    try:
        pydantic.TypeAdapter(kind).validate_python(value)
    except pydantic.ValidationError as error:
        return [f"{'.'.join(map(str, line['loc']))}: {line['msg']}" for line in error.errors()]
    return []


@cache
def _converse() -> Any:
    session = botocore.session.get_session()
    service = session.get_service_model("bedrock-runtime")
    return service.operation_model("Converse").input_shape


def _with_bytes(value: Any, shape: Any) -> Any:
    """A REST body as a boto3 user would give it: blobs as bytes."""
    if shape.type_name == "structure" and isinstance(value, dict) and not getattr(shape, "is_document_type", False):
        members = shape.members
        return {k: _with_bytes(v, members[k]) if k in members else v for k, v in value.items()}
    if shape.type_name == "list" and isinstance(value, list):
        return [_with_bytes(item, shape.member) for item in value]
    if shape.type_name == "map" and isinstance(value, dict):
        return {k: _with_bytes(v, shape.value) for k, v in value.items()}
    return base64.b64decode(value) if shape.type_name == "blob" else value


# --- TypedDicts, read by hand: pydantic looks into an Iterable only when somebody iterates ---------------------------


def typed_dict_problems(kind: Any, value: Any, path: str = "$") -> Problems:
    """Why a value is not of a (vendor's) type; empty when it is."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in (Any, object):
        return []
    if is_typeddict(kind):
        return _dict_problems(kind, value, path)
    if origin in (typing.Required, typing.NotRequired, typing.Annotated) or str(origin).endswith("Required"):
        return typed_dict_problems(arguments[0], value, path)
    if origin is typing.Union or str(origin) == "<class 'types.UnionType'>":
        return _union_problems(arguments, value, path)
    if origin is typing.Literal:
        return [] if value in arguments else [f"{path}: {value!r} is none of {arguments}"]
    if isinstance(kind, typing.TypeAliasType) if hasattr(typing, "TypeAliasType") else False:
        return typed_dict_problems(kind.__value__, value, path)
    if origin in (list, Iterable, typing.Iterable) or (
        origin is not None and issubclass(origin, Iterable) and origin is not dict
    ):
        return _list_problems(arguments, value, path)
    if origin is dict or kind is dict:
        return [] if isinstance(value, dict) else [f"{path}: expected an object"]
    return _plain_problems(kind, value, path)


def _dict_problems(kind: Any, value: Any, path: str) -> Problems:
    if not isinstance(value, dict):
        return [f"{path}: expected {kind.__name__}, got {type(value).__name__}"]
    hints = _hints(kind)
    problems = [f"{path}: {kind.__name__} has no {key!r}" for key in value if key not in hints]
    problems += [
        f"{path}: {kind.__name__} needs {key!r}"
        for key, hint in hints.items()
        # `__required_keys__` is blind to annotations that are strings.
        if key not in value and (typing.get_origin(hint) is typing.Required or key in kind.__required_keys__)
    ]
    for key, item in value.items():
        if key in hints:
            problems += typed_dict_problems(hints[key], item, f"{path}.{key}")
    return problems


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _union_problems(options: tuple[Any, ...], value: Any, path: str) -> Problems:
    tried = [typed_dict_problems(option, value, path) for option in options]
    # The nearest miss is the most telling: one that is wrong further inside, not at the door.
    return min(tried, key=lambda problems: (any(p.startswith(f"{path}:") for p in problems), len(problems)), default=[])


def _list_problems(arguments: tuple[Any, ...], value: Any, path: str) -> Problems:
    if not isinstance(value, list):
        return [f"{path}: expected a list, got {type(value).__name__}"]
    inner = arguments[0] if arguments else Any
    return [problem for at, item in enumerate(value) for problem in typed_dict_problems(inner, item, f"{path}[{at}]")]


def _plain_problems(kind: Any, value: Any, path: str) -> Problems:
    if kind is type(None):
        return [] if value is None else [f"{path}: expected null"]
    if kind is float:
        return [] if isinstance(value, int | float) and not isinstance(value, bool) else [f"{path}: expected a number"]
    if kind is int:
        return [] if isinstance(value, int) and not isinstance(value, bool) else [f"{path}: expected an integer"]
    if isinstance(kind, type):
        return [] if isinstance(value, kind) else [f"{path}: expected {kind.__name__}, got {type(value).__name__}"]
    return []


VALIDATORS = {
    "anthropic-messages": anthropic_problems,
    "openai-completions": completions_problems,
    "openai-responses": responses_problems,
    "google-generative-ai": google_problems,
    "bedrock-converse-stream": bedrock_problems,
    "ollama-chat": ollama_problems,
}
