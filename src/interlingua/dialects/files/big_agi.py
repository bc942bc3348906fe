"""big-AGI: an export of all chats (`conversations` beside `folders`), or one of them.

A message has `fragments`, each with a `part`: text, reasoning (`ma`), calls and what they gave, documents and
pictures; in older versions its `text`. `generator` names the model, with metrics whose buckets are disjoint but for
reasoning, which is a part of the output. github.com/enricoros/big-AGI `src/common/stores/chat/chat.fragments.ts`,
`chat.message.ts`
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ...values.messages import Citation, Message, SystemMessage, TextBlock, ThinkingBlock
from ...values.request import Conversation
from ..residual import fields_of, optional
from .chat_programs import chat
from .program_content import a_result, first, image_of, inner, items, moment, usage_of, user
from .reading import Documents, Pairing, rounds

API = "big-agi"


def _is_message(value: Any) -> bool:
    known = isinstance(value, dict) and isinstance(value.get("role"), str)
    return known and ("fragments" in value or ("text" in value and "sender" in value))


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "systemPurposeId" in value
        and isinstance(value.get("messages"), list)
        and all(map(_is_message, value["messages"]))
    )


def _parts(fragments: list[dict[str, Any]], pairs: Pairing) -> Iterator[Any]:
    for fragment in fragments:
        part = fields_of(fragment.get("part"))
        match part.get("pt"):
            case "text":
                yield TextBlock(text=optional(part.get("text")) or "")
            case "ma":
                signature, text = optional(part.get("textSignature")), optional(part.get("aText")) or ""
                sealed: Any = part.get("redactedData") or ()
                if text or signature or not sealed:
                    yield ThinkingBlock(thinking=text, thinking_signature=signature)
                yield from (
                    ThinkingBlock(thinking="", thinking_signature=one, redacted=True)
                    for one in sealed
                    if isinstance(one, str)
                )
            case "doc":
                text = optional(inner(part, "data", "text")) or ""
                yield TextBlock(text=f"{part.get('l1Title')}\n{text}" if part.get("l1Title") else text)
            case "tool_invocation":
                call = fields_of(part.get("invocation"))
                given = call.get("args") if "args" in call else {"code": call.get("code")}
                yield pairs.call(part.get("id"), first(call, "name", "type"), given)
            case "tool_response":
                gave = fields_of(part.get("response"))
                content = a_result("", gave.get("result")).content
                yield pairs.result(part.get("id"), first(gave, "name", "type"), content, bool(part.get("error")))
            case "image_ref" | "reference":
                picture = _picture(part)
                if picture is not None:
                    yield picture


def _picture(part: dict[str, Any]) -> Any:
    """A picture by its URL; one in the program's own store is not in the file."""
    ref = fields_of(part.get("dataRef")) or fields_of(inner(part, "_legacyImageRefPart", "dataRef"))
    return image_of({"url": first(ref, "url", "dblobAssetId")}) if ref else None


def _citation(wire: dict[str, Any]) -> Citation:
    text = next((optional(one.get("textSnippet")) for one in items(wire.get("ranges"))), None)
    return Citation(title=optional(wire.get("title")), url=optional(wire.get("url")), cited_text=text)


def _messages(records: list[dict[str, Any]]) -> Iterator[Message]:
    pairs = Pairing()
    for record in records:
        text = optional(record.get("text"))
        older = [{"part": {"pt": "text", "text": text}}] if text is not None else []
        parts = list(_parts(items(record.get("fragments")) or older, pairs))
        when, role = moment(record.get("created")), record["role"]
        if role == "system":
            yield SystemMessage(content=tuple(parts))
        elif role == "assistant":
            generator = fields_of(record.get("generator"))
            model = optional(generator.get("name"))
            # src/common/stores/metrics/metrics.chatgenerate.ts: `TIn` is the part of the input that is not cached.
            names = {"input": "TIn", "output": "TOut", "read": "TCacheRead", "write": "TCacheWrite"}
            usage = usage_of(generator.get("metrics"), **names)
            model = model or optional(record.get("originLLM"))
            fragments = [fields_of(one.get("part")) for one in items(record.get("fragments"))]
            failure = next((optional(part.get("error")) for part in fragments if part.get("pt") == "error"), None)
            cited = tuple(_citation(one) for part in fragments for one in items(part.get("annotations")))
            last = next((at for at in reversed(range(len(parts))) if isinstance(parts[at], TextBlock)), None)
            if cited and last is not None:
                parts[last] = replace(parts[last], citations=cited)
            failed = {"stop_reason": "error", "error_message": failure} if failure else {}
            yield from rounds(parts, {"usage": usage} if usage else {}, model=model, timestamp=when, **failed)
        else:
            yield user(tuple(parts), when)


def _conversation(one: dict[str, Any]) -> Conversation:
    """One chat."""
    title = optional(one.get("userTitle")) or optional(one.get("autoTitle"))
    return chat(_messages(one["messages"]), title=title)


FORMAT = Documents(
    API, _is_chat, "chats with a `systemPurposeId`", "chats", inside=lambda value: inner(value, "conversations")
).format(_conversation, array="conversations", rank=20)
