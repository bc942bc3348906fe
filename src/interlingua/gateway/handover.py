"""Continues an interrupted response at another target: its request, and how its events join the stream.

The next target gets the conversation with the partial response as its last message; `adapt` converts that for the model
(a prefill, or a request to continue). The client sees one response: block indexes continue, it ends once, and no two
items have the same id.
"""

from collections.abc import Set
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..values.errors import InterlinguaError
from ..values.losses import Loss
from ..values.messages import (
    AssistantMessage,
    Block,
    OpaqueBlock,
    ServerToolCall,
    TextBlock,
    ThinkingBlock,
    Usage,
    blocks_of,
)
from ..values.request import ModelDescriptor, Request
from ..values.tokens import estimate, taken


class BrokenOff(Struct, frozen=True):
    """A model that produced a part of a response: its usage, and its share of the response."""

    model: ModelDescriptor
    usage: Usage
    loss: Loss


def joined(before: AssistantMessage | None, answer: AssistantMessage) -> AssistantMessage:
    """Joins the parts of earlier targets and the last one to one response; the id is the one that the client saw."""
    if before is None:
        return answer
    first, used = blocks_of(before.content), item_ids(before)
    content = (*first, *(_distinct(block, len(first), used) for block in blocks_of(answer.content)))
    return replace(answer, content=content, response_id=before.response_id)


def item_ids(answer: AssistantMessage) -> Set[str]:
    """Returns the ids that the provider's wire gives to the items of a response (Responses)."""
    residuals = (residual for block in blocks_of(answer.content) for residual in block.extra.values())
    return {id for residual in residuals if isinstance(residual, dict) and isinstance(id := residual.get("id"), str)}


def shifted(event: Any, by: int, used: Set[str] = frozenset()) -> Any:
    """Returns an event with its block index shifted. A block whose id is `used` before gets another one."""
    changes: dict[str, Any] = {"content_index": event.content_index + by}
    for name in ("block", "tool_call"):
        block = getattr(event, name, None) if used else None
        if block is not None:
            changes[name] = _distinct(block, by, used)
    return replace(event, **changes)


def _distinct(block: Block, by: int, used: Set[str]) -> Block:
    """Some hosts only number the items of a response: two of them give the same ids. Without its own, an item gets the
    usual id of its index."""
    if not used:
        return block
    if isinstance(block, ServerToolCall) and block.id in used:
        block = replace(block, id=f"{block.id}_{by}")
    elif isinstance(block, OpaqueBlock) and isinstance(block.value, dict) and block.value.get("id") in used:
        block = replace(block, value={**block.value, "id": f"{block.value['id']}_{by}"})
    extra = {
        api: {name: value for name, value in residual.items() if name != "id"}
        if isinstance(residual, dict) and residual.get("id") in used
        else residual
        for api, residual in block.extra.items()
    }
    return block if extra == block.extra else replace(block, extra=extra)


def may_continue(request: Request, partial: AssistantMessage) -> bool:
    """Whether another model can continue a response that was interrupted here.

    Not with calls: the client has seen some, and it is unknown whether all. Not with text that must match a schema: two
    halves of two models would not be valid JSON.
    """
    blocks = blocks_of(partial.content)
    return request.options.output_schema is None and all(isinstance(one, TextBlock | ThinkingBlock) for one in blocks)


def continued(request: Request, partial: AssistantMessage, model: ModelDescriptor) -> Request:
    """Returns the request for the next target: the partial response is its last message, and counts as output."""
    options, context = request.options, request.context
    if options.max_tokens is not None:
        options = replace(options, max_tokens=max(1, options.max_tokens - estimate(partial)))
    beginning = tuple(block for block in blocks_of(partial.content) if isinstance(block, TextBlock) and block.text)
    if beginning:  # thoughts that broke off have no signature: no model takes them back
        message = AssistantMessage(content=beginning, provider=model.provider, model=model.id, api=model.api)
        context = replace(context, messages=(*context.messages, message))
    return replace(request, context=context, options=options)


def without_signatures(partial: AssistantMessage) -> AssistantMessage:
    """Removes signatures from a shared response: its message names one model, which did not sign this thinking."""

    def plain(block: Block) -> Block:
        return replace(block, thinking_signature=None) if isinstance(block, ThinkingBlock) else block

    return replace(partial, content=tuple(map(plain, blocks_of(partial.content))))


def estimated_usage(partial: AssistantMessage, request: Request, counted: int = 0) -> Usage:
    """Estimates the usage of an interrupted response. It reported at most its input. `counted` tokens of it were
    written by others.
    """
    usage, output = partial.usage, max(0, estimate(partial) - counted)
    if usage is not None and usage.output >= output:
        return usage
    asked = usage.input if usage is not None and usage.input else taken(request.context)
    read, written = (usage.cache_read, usage.cache_write) if usage is not None else (0, 0)
    return Usage.of(asked, output, cache_read=read, cache_write=written)


def handover_loss(before: AssistantMessage, first: str, second: str, failure: InterlinguaError) -> Loss:
    """The loss of a response that is the work of two models, from its block after `before` on."""
    at = len(blocks_of(before.content))
    why = f"{first} broke off ({type(failure).__name__}); {second} went on"
    return Loss(path=f"$.content[{at}]", what="model", why=why, severity="weakened")
