"""Builds what a tool gives back, and makes a result of whatever a tool returned."""

from typing import Any

import msgspec

from .. import jsontext
from ..errors import FormatError
from ..messages import ImageBlock, TextBlock
from .tool import ContentBlock, ToolResult

NO_OUTPUT = "(no output)"


def text_result(text: str, details: Any = None) -> ToolResult:
    return ToolResult(content=(TextBlock(text=text),), details=details)


def json_result(payload: Any) -> ToolResult:
    """The payload as JSON, indented for the model to read; `details` is the payload itself."""
    return text_result(msgspec.json.format(_json(payload), indent=2).decode(), details=payload)


def error_result(tool: str, error: str | BaseException) -> ToolResult:
    """A failure, as JSON with `status`, `tool` and `error`.

    Unlike the TypeScript builder, it says `is_error`: without the flag a loop cannot tell it from a success.
    """
    details = {"status": "error", "tool": tool, "error": str(error)}
    return ToolResult(content=(TextBlock(text=_json(details).decode()),), details=details, is_error=True)


def image_result(
    *,
    label: str,
    base64: str,
    mime_type: str,
    path: str | None = None,
    extra_text: str | None = None,
    details: Any = None,
) -> ToolResult:
    """A picture, after a `MEDIA:` line with its path, if it has one, and after words, if there are any."""
    words = [f"MEDIA:{path}"] if path else []
    if extra_text:
        words.append(extra_text)
    told = {"label": label} | ({"path": path} if path else {})
    return ToolResult(
        content=(*(TextBlock(text=text) for text in words), ImageBlock(data=base64, mime_type=mime_type)),
        details=told if details is None else details,
    )


def as_result(value: Any) -> ToolResult:
    """A result of what a tool returned: a result as it is, text, blocks, nothing, or a value that becomes JSON.

    Plugins may return the JSON form, `{"content": [{"type": "text", …}], "details": …}`.
    """
    if isinstance(value, ToolResult):
        return value
    if value is None or value == "":
        return text_result(NO_OUTPUT)
    if isinstance(value, str):
        return text_result(value)
    if isinstance(value, ContentBlock):
        return ToolResult(content=(value,))
    if isinstance(value, list | tuple) and value and all(isinstance(item, ContentBlock) for item in value):
        return ToolResult(content=tuple(value))
    if isinstance(value, dict) and isinstance(value.get("content"), list | tuple) and value.keys() <= _RESULT_KEYS:
        return _of_json(value)
    return json_result(value)


_RESULT_KEYS = frozenset({"content", "details", "isError", "terminate"})


def _of_json(value: dict[str, Any]) -> ToolResult:
    try:
        content = msgspec.convert(msgspec.to_builtins(value["content"]), tuple[ContentBlock, ...])
    except msgspec.ValidationError:
        return json_result(value)
    flags = {name: bool(value.get(key)) for name, key in (("is_error", "isError"), ("terminate", "terminate"))}
    return ToolResult(content=content, details=value.get("details"), **flags)


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_said)
    except UnicodeEncodeError:
        return msgspec.json.encode(jsontext.clean_value(value), enc_hook=_said)
    except RecursionError:
        raise FormatError("the result is nested too deep, or holds itself") from None


def _said(value: Any) -> Any:
    """A pydantic model as its JSON, an unknown object as its text."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)
