"""Continues an interrupted response at another target: its request, and how its events join the stream.

The next target gets the conversation with the partial response as its last message; `adapt` converts that for the model
(a prefill, or a request to continue). The client sees one response: block indexes continue, and it ends once.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..values.errors import InterlinguaError
from ..values.losses import Loss
from ..values.messages import AssistantMessage, Block, TextBlock, ThinkingBlock, Usage, blocks_of
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
    content = (*blocks_of(before.content), *blocks_of(answer.content))
    return replace(answer, content=content, response_id=before.response_id)


def shifted(event: Any, by: int) -> Any:
    """Returns an event with its block index shifted."""
    return replace(event, content_index=event.content_index + by)


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
