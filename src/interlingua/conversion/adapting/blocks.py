"""Blocks that a role or a target does not support, and arguments that are not a JSON object."""

from msgspec.structs import replace

from ...dialects.targets import owner
from ...values.folding import parse_arguments
from ...values.messages import (
    AssistantMessage,
    Block,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..media import MEDIA
from .pairing import steps
from .work import INVALID_ARGUMENTS, Turn, Work

_ALLOWED: dict[type, tuple[type, ...]] = {
    UserMessage: (TextBlock, *MEDIA),
    AssistantMessage: (TextBlock, ThinkingBlock, ToolCall, ServerToolCall, ServerToolResult, *MEDIA),
    ToolResultMessage: (TextBlock, *MEDIA),
    SystemMessage: (TextBlock,),
}
# Of those, the ones that every target has.
_COMMON = {role: frozenset(kinds) - {ServerToolCall, ServerToolResult} for role, kinds in _ALLOWED.items()}


def drop_unsupported(work: Work) -> None:
    """Drops blocks that a role does not support, and those of other wires."""
    doubtful = [turn for turn in work.turns if not _COMMON[type(turn.message)].issuperset(map(type, turn.blocks))]
    if not doubtful:
        return
    around = {turn: [block for other in step for block in other.blocks] for step in steps(work.turns) for turn in step}
    for turn in doubtful:
        allowed = _ALLOWED[type(turn.message)]
        kept = []
        for at, block in enumerate(turn.blocks):
            why = _unsupported(block, turn, allowed, around.get(turn, []), work)
            if why is None:
                kept.append(at)
            else:
                work.lost(turn.places[at], "block", why, "dropped")
        turn.keep(kept)


def _unsupported(block: Block, turn: Turn, allowed: tuple[type, ...], step: list[Block], work: Work) -> str | None:
    if isinstance(block, OpaqueBlock):
        known = work.rules.opaque and block.dialect == work.rules.api
        return None if known else f"only {block.dialect} can say it"
    if not isinstance(block, allowed):
        return f"not a block of {type(turn.message).__name__}"
    if isinstance(block, ServerToolCall | ServerToolResult) and not _ran_here(block, turn, step, work):
        return "the target's provider did not run it"
    return None


def _ran_here(block: ServerToolCall | ServerToolResult, turn: Turn, step: list[Block], work: Work) -> bool:
    """Whether the target's provider executed this call. Providers require their own calls and results in pairs; only a
    paused turn ends without its result.
    """
    kind, api = work.rules.server_tools, work.rules.api
    if kind is None:
        return False
    if isinstance(block, ServerToolResult):
        calls = [call for call in step if isinstance(call, ServerToolCall) and call.id == block.tool_call_id]
        ran = any(kind == "paired" or api in call.extra for call in calls)
        return kind != "single" and block.dialect == api and ran
    if kind != "paired" and api not in block.extra:
        return False
    if kind == "single":
        return True
    results = [other for other in step if isinstance(other, ServerToolResult) and other.tool_call_id == block.id]
    if results:
        return any(result.dialect == api for result in results)
    last = next(turn for turn in reversed(work.turns) if not isinstance(turn.message, ToolResultMessage))
    return turn is last and owner(turn.message.api) == api


def fit_arguments(work: Work) -> None:
    """Wraps arguments that are not a JSON object in one that holds their text, so that the model sees what it wrote.

    Chat hosts that parse the string (vLLM, Mistral) refuse every later request over an invalid one; Anthropic, Google,
    Bedrock and Ollama accept only objects. The record keeps the original text.
    """
    for turn in work.turns:
        for at, block in enumerate(turn.blocks):
            if not isinstance(block, ToolCall) or (block.arguments_text is None and block.parse_error is None):
                continue
            text = block.arguments_text
            arguments, _, error = parse_arguments(text or "")
            if block.parse_error is not None or error is not None:
                work.lost(turn.places[at], "arguments", "not a JSON object: sent as one that holds the text")
                given = block.arguments if text is None else {INVALID_ARGUMENTS: text}
            elif arguments != block.arguments or not (text or "").strip():
                work.lost(
                    f"{turn.places[at]}.argumentsText",
                    "arguments",
                    "blank, or not what the arguments are: written anew",
                    "record",
                )
                given = block.arguments
            else:
                continue
            turn.put(at, replace(block, arguments=given, arguments_text=None, parse_error=None))
