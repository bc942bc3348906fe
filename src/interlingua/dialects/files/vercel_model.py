"""Model messages of the AI SDK: what `generateText` takes and returns in `response.messages`, of version 4 and on.

Roles are `system`, `user`, `assistant` and `tool`; content is text or parts. A call is a `tool-call` with an `input`
(`args` in version 4), what it gave a `tool-result` with an `output` of a type and a value (`result` in version 4).
ai-sdk.dev/docs/reference/ai-sdk-core/model-message
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.messages import Block, DocumentBlock, ImageBlock, OpaqueBlock, SystemMessage, TextBlock, ThinkingBlock
from ..codec import USER
from ..residual import fields_of, list_of, optional
from .line_sessions import Record, RowReader
from .reading import Pairing, asked, kept_record, result_content, rounds

_ROLES = ("system", "user", "assistant", "tool")


def is_model_messages(value: Any) -> bool:
    """Whether a list, or lines, are model messages, by their calls and results: other parts are those of chat wires."""
    messages = value if isinstance(value, list) else []
    return all(fields_of(message).get("role") in _ROLES for message in messages) and any(
        _is_own(part) for message in messages for part in list_of(message.get("content"))
    )


def _is_own(part: Any) -> bool:
    match fields_of(part).get("type"):
        case "tool-call":
            return isinstance(part.get("toolName"), str) and ("input" in part or "args" in part)
        case "tool-result":
            return isinstance(part.get("toolCallId"), str) and ("output" in part or "result" in part)
        case _:
            return False


class ModelReader(RowReader):
    """Reads the messages of a list."""

    def __init__(self, api: str) -> None:
        self._api = api

    def messages(self, records: Iterable[Record]) -> Iterator[Any]:
        pairs = Pairing()
        self.fields = {}
        for at, message in enumerate(records):
            role, content = message.get("role"), message.get("content")
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)
            items = [item for part in parts for item in self._items(fields_of(part), pairs)]
            if role == "system" and isinstance(content, str) and not at:
                self.fields["system"] = content
            elif role == "system":
                yield SystemMessage(content=content if isinstance(content, str) else tuple(items))
            elif role == "user":
                yield replace(USER, extra={}, content=content if isinstance(content, str) else tuple(items))
            elif role == "tool":
                yield from asked(items)
            elif role == "assistant":
                yield from rounds(items)
            else:
                yield kept_record(self._api, str(role), message)

    def _items(self, part: Record, pairs: Pairing) -> Iterator[Any]:
        match part.get("type"):
            case "text" if isinstance(part.get("text"), str):
                yield TextBlock(text=part["text"])
            case "reasoning" if isinstance(part.get("text"), str):
                about = fields_of(fields_of(part.get("providerOptions")).get("anthropic"))
                sealed = optional(about.get("redactedData"))
                signature = optional(about.get("signature")) or optional(part.get("signature"))
                redacted = sealed is not None and not part["text"]
                yield ThinkingBlock(
                    thinking=part["text"], thinking_signature=sealed if redacted else signature, redacted=redacted
                )
            case "tool-call":
                yield pairs.call(part.get("toolCallId"), part.get("toolName"), part.get("input", part.get("args")))
            case "tool-result":
                content, is_error = _output(part, self._api)
                yield pairs.result(part.get("toolCallId"), part.get("toolName"), content, is_error)
            case "image" if isinstance(part.get("image"), str):
                yield _media(part["image"], optional(part.get("mediaType")) or optional(part.get("mimeType")), part)
            case "file" if isinstance(part.get("data"), str):
                yield _media(part["data"], optional(part.get("mediaType")) or optional(part.get("mimeType")), part)
            case _:
                yield OpaqueBlock(dialect=self._api, value=part)


def _output(part: Record, api: str) -> tuple[Any, bool]:
    """What a tool gave, and whether it failed."""
    output = part.get("output")
    if not isinstance(output, dict) or "type" not in output:
        given = part.get("result", output)
        return given if isinstance(given, str | None) else jsontext.compact(given), part.get("isError") is True
    kind, value = str(output["type"]), output.get("value", output.get("reason"))
    if kind == "content" and isinstance(value, list):
        return result_content([_result_part(item) for item in value], api), False
    return value if isinstance(value, str | None) else jsontext.compact(value), kind.startswith(("error", "execution"))


def _result_part(item: Any) -> Any:
    """A part of a result, in Anthropic's format for pictures."""
    fields = fields_of(item)
    mime = optional(fields.get("mediaType"))
    if fields.get("type") in ("media", "image-data") and isinstance(fields.get("data"), str):
        return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": fields["data"]}}
    return item


def _media(data: str, mime: str | None, part: Record) -> Block:
    """A picture or a file: an address, data with its type, or plain base64."""
    fields: dict[str, Any] = {"url": data} if "://" in data[:16] or data.startswith("data:") else {"data": data}
    if part["type"] == "image" or (mime or "").startswith("image/"):
        return ImageBlock(mime_type=mime or ("image/png" if "data" in fields else None), **fields)
    return DocumentBlock(mime_type=mime, title=optional(part.get("filename")), **fields)
