"""LLaMA-Factory v1: a training row of `messages` whose `content` is a list of `type` and `value`.

`loss_weight` says which messages are trained on. A call is JSON text (`tool_call`), what a tool gave a message of the
role `tool`; the tools on offer are JSON text beside the messages or in the system message. A preference row has
`chosen_messages` and `rejected_messages`: the chosen ones are the path, and where the others part from it they are a
branch. llamafactory.readthedocs.io
"""

from collections.abc import Iterator
from typing import Any

from ...values.messages import Block, OpaqueBlock, SystemMessage, TextBlock, ThinkingBlock
from ...values.request import Conversation, ToolSpec
from ..residual import fields_of, optional
from .reading import Documents, Pairing, asked, image_of, preference, read_json, rounds

API = "llama-factory"

PAIR = ("chosen_messages", "rejected_messages")


def _messages(record: dict[str, Any], pairs: Pairing) -> list[Any]:
    role, blocks = record.get("role"), [*_blocks(record.get("content"), pairs)]
    if role == "system":
        return [SystemMessage(content=tuple(blocks))]
    if role in ("tool", "observation"):
        return [pairs.result(record.get("tool_call_id"), record.get("name"), tuple(blocks))]
    if role not in ("assistant", "gpt"):
        return asked(blocks)
    mask = {"loss_weight": record["loss_weight"]} if "loss_weight" in record else {}
    return rounds(blocks, extra={API: mask} if mask else {})


def _blocks(content: Any, pairs: Pairing) -> Iterator[Block]:
    if isinstance(content, str):
        yield TextBlock(text=content)
    for part in content if isinstance(content, list) else ():
        kind, value = fields_of(part).get("type"), fields_of(part).get("value")
        if kind == "text" and isinstance(value, str):
            yield TextBlock(text=value)
        elif kind in ("reasoning", "thinking") and isinstance(value, str):
            yield ThinkingBlock(thinking=value)
        elif kind == "tool_call" and isinstance(call := _read(value), dict):
            yield pairs.call(call.get("id"), call.get("name"), call.get("arguments"))
        elif kind in ("image", "image_url") and (found := image_of(value)) is not None:
            yield found
        elif part is not None:
            yield OpaqueBlock(dialect=API, value=part)


def _read(value: Any) -> Any:
    return read_json(value) if isinstance(value, str) else value


def _tools(row: dict[str, Any], messages: list[Any]) -> tuple[ToolSpec, ...] | None:
    """The tools on offer, beside the messages or in the first of them."""
    first = fields_of(messages[0] if messages else None).get("content")
    inside = [fields_of(part).get("value") for part in first if fields_of(part).get("type") == "tools"] if first else []
    listed = _read(row.get("tools") if "tools" in row else next(iter(inside), None))
    specs = [fields_of(fields_of(item).get("function") or item) for item in listed] if isinstance(listed, list) else []
    return (
        tuple(
            ToolSpec(
                name=spec["name"], description=optional(spec.get("description")), input_schema=spec.get("parameters")
            )
            for spec in specs
            if isinstance(spec.get("name"), str)
        )
        or None
    )


def _turns(wire: list[Any]) -> list[Any]:
    pairs = Pairing()
    return [message for record in wire if isinstance(record, dict) for message in _messages(record, pairs)]


def _text(system: SystemMessage | None) -> Any:
    """The system text: one text, or several blocks."""
    texts = tuple(block for block in (system.content if system else None) or () if isinstance(block, TextBlock))
    return texts[0].text if len(texts) == 1 else texts or None


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return False
    content = value.get("content")
    if not isinstance(content, list):
        return isinstance(content, str) and "loss_weight" in value
    return all(isinstance(part, dict) and isinstance(part.get("type"), str) and "value" in part for part in content)


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    lists = [value.get(key) for key in (PAIR if PAIR[0] in value else ("messages",))]
    return all(isinstance(items, list) and items and all(map(_is_message, items)) for items in lists)


def _conversation(row: dict[str, Any]) -> Conversation:
    """One row."""
    chosen = row[PAIR[0]] if PAIR[0] in row else row["messages"]
    rejected = row[PAIR[1]] if PAIR[0] in row else []
    path, other = _turns(chosen), _turns(rejected)
    system = None
    if path and isinstance(path[0], SystemMessage) and (not other or other[0] == path[0]):
        system, path, other = path[0], path[1:], other[1:]
    entries, head = preference(path, other)
    return Conversation(entries=entries, head=head, system=_text(system), tools=_tools(row, chosen))


# LLaMA-Factory's data/README.md: user and tool in odd places, the model in even ones; it leaves other rows out.
TRAINING = {"begins-with-user": "error", "turns-alternate": "error", "system-first": "error"}
FORMAT = Documents(API, _is_row, "`messages` whose `content` has a `type` and a `value`", path="$.messages").format(
    _conversation, rank=30, training=TRAINING
)
