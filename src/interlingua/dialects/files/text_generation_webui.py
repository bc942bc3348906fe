"""text-generation-webui (oobabooga): a chat of its logs, `internal` as the model reads it beside the HTML in `visible`.

A row is what the user wrote and the answer, from an API also the text of a tool and the row's own fields;
`<|BEGIN-VISIBLE-CHAT|>` stands before the greeting of a character. Under `user_N` and `assistant_N`, `metadata` has the
time, the model, attachments, the calls before the answer with their results (`tool_sequence`) and every version of the
answer, of which the current one is shown. Old versions call the two lists `data` and `data_visible`.
github.com/oobabooga/text-generation-webui `modules/chat.py`
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...values.messages import AssistantMessage, Block, DocumentBlock, Message, SystemMessage, TextBlock
from ...values.request import Conversation, ModelDescriptor
from ..residual import fields_of, optional, whole
from .chat_programs import with_thoughts
from .program_content import call_id, called, image_of, items, moment, name_of, user
from .reading import Documents, Node, Pairing, entries_of

API = "text-generation-webui"

_GREETING = "<|BEGIN-VISIBLE-CHAT|>"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = re.compile(r"(\w{3}) (\d\d), (\d{4}) (\d\d:\d\d)")  # of the computer


def _is_row(value: Any) -> bool:
    return isinstance(value, list) and 2 <= len(value) <= 4 and isinstance(value[0], str) and isinstance(value[1], str)


def _rows(value: Any) -> list[Any] | None:
    for name, shown in (("internal", "visible"), ("data", "data_visible")):
        rows, visible = fields_of(value).get(name), fields_of(value).get(shown)
        if isinstance(rows, list) and isinstance(visible, list) and all(map(_is_row, rows)):
            return rows
    return None


def _when(about: Mapping[str, Any]) -> int | None:
    found = _TIME.fullmatch(optional(about.get("timestamp")) or "")
    if found is None or found[1] not in _MONTHS:
        return None
    return moment(f"{found[3]}-{_MONTHS.index(found[1]) + 1:02}-{found[2]}T{found[4]}:00Z")


def _attached(about: Mapping[str, Any]) -> Iterator[Block]:
    for file in items(about.get("attachments")):
        text, title = optional(file.get("content")), optional(file.get("name"))
        picture = image_of({"url": file.get("image_data")})
        if picture is not None:
            yield picture
        elif text is not None:
            yield DocumentBlock(text=text, mime_type=optional(file.get("type")), title=title)


def _answer(text: str, about: Mapping[str, Any], calls: Any, pairs: Pairing) -> Iterator[Message]:
    """An answer, after the calls that were made for it and what they gave."""
    stated: dict[str, Any] = {"model": optional(about.get("model_name")) or None, "timestamp": _when(about)}

    def made(content: str, wires: Any) -> Message:
        asked = [pairs.call(call_id(one), name_of(one), called(one).get("arguments")) for one in items(wires)]
        blocks = (TextBlock(text=content),) if content else ()
        return with_thoughts(AssistantMessage(content=(*blocks, *asked), **stated))

    for step in items(about.get("tool_sequence")):
        if "tool_calls" in step:
            yield made(optional(step.get("content")) or "", step["tool_calls"])
        elif step.get("role") == "tool":
            yield pairs.result(step.get("tool_call_id"), None, optional(step.get("content")) or "")
    if text or calls:
        yield made(text, calls)


def _nodes(rows: list[Any], metadata: Mapping[str, Any]) -> Iterator[Node]:
    """What was asked and answered in each row; other versions of an answer are beside it."""
    pairs, before = Pairing(), None
    for at, row in enumerate(rows):
        own = fields_of(row[3]) if len(row) > 3 else {}
        about, answered = (fields_of(metadata.get(f"{who}_{at}")) for who in ("user", "assistant"))
        blocks = () if row[0] == _GREETING else (*_attached(about), *([TextBlock(text=row[0])] if row[0] else ()))
        asked: Message = SystemMessage(content=row[0]) if own.get("role") == "system" else user(blocks, _when(about))
        yield f"user_{at}", before, [asked] if blocks else []
        for number, version in enumerate(items(answered.get("versions"))):
            if number != whole(answered.get("current_version_index")):
                text = optional(version.get("content")) or ""
                yield f"assistant_{at}.{number}", f"user_{at}", list(_answer(text, version, (), Pairing()))
        found = list(_answer(row[1], answered, own.get("tool_calls"), pairs))
        if len(row) > 2 and isinstance(row[2], str) and row[2]:
            found.append(pairs.result(own.get("tool_call_id"), None, row[2]))
        before = f"assistant_{at}"
        yield before, f"user_{at}", found


def _conversation(value: Any) -> Conversation:
    """One chat."""
    entries = entries_of(_nodes(_rows(value) or [], fields_of(fields_of(value).get("metadata"))))
    models = [entry.message.model for entry in entries if isinstance(entry.message, AssistantMessage)]
    model = next(filter(None, reversed(models)), None)
    return Conversation(entries=entries, model=ModelDescriptor(id=model) if model else None)


FORMAT = Documents(API, lambda value: _rows(value) is not None, "rows in `internal` beside `visible`", "chats").format(
    _conversation, rank=20
)
