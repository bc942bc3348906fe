"""Estimates context use: the usage that responses report, plus rough counts of later messages."""

from . import jsontext
from .messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    Block,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    TextBlock,
    ThinkingBlock,
    ToolCall,
)
from .request import Context, ToolSpec

IMAGE_TOKENS = 1_200
_CHARS = 4  # characters per token
_MEDIA = (ImageBlock, AudioBlock)


def estimate(message: AgentMessage) -> int:
    """Estimates the tokens of a message: a quarter of its characters, and a constant for an image."""
    if isinstance(message, CustomMessage):
        return _tokens(len(jsontext.compact(message.fields)))
    if isinstance(message.content, str):
        return _tokens(len(message.content))
    characters = pictures = 0
    for block in message.content or ():
        if type(block) is TextBlock:
            characters += len(block.text)
        elif isinstance(block, _MEDIA) or (isinstance(block, DocumentBlock) and block.text is None):
            pictures += 1
        else:
            characters += _length(block)
    return _tokens(characters) + pictures * IMAGE_TOKENS


def reported(message: AgentMessage) -> int:
    """Returns the reported tokens of a response and everything before it; zero for other messages and failed ones."""
    if not isinstance(message, AssistantMessage) or message.stop_reason in ("error", "aborted"):
        return 0
    usage = message.usage
    if usage is None:
        return 0
    return usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write


def taken(context: Context) -> int:
    """Estimates the tokens of a request with this context."""
    since = 0
    for message in reversed(context.messages):
        used = reported(message)
        if used:
            return used + since
        since += estimate(message)
    return since + _beside_messages(context)


def _beside_messages(context: Context) -> int:
    system = _tokens(len(context.system_prompt)) if context.system else 0
    return system + sum(map(_described, context.tools)) if context.tools else system


class Taken:
    """The same as `taken`, for messages that are given one after another."""

    def __init__(self) -> None:
        self._used = self._since = 0

    def add(self, message: AgentMessage) -> None:
        used = reported(message)
        self._used, self._since = (used, 0) if used else (self._used, self._since + estimate(message))

    def total(self, context: Context) -> int:
        """Returns the tokens of the messages with this context, which has none itself."""
        return self._since + (self._used or _beside_messages(context))


def _described(tool: ToolSpec) -> int:
    return _tokens(len(tool.name) + len(tool.description or "") + len(jsontext.compact(tool.input_schema or {})))


def _tokens(characters: int) -> int:
    return -(-characters // _CHARS)


def _length(block: Block) -> int:
    match block:
        case TextBlock() | DocumentBlock():
            return len(block.text or "")
        case ThinkingBlock():
            return len(block.thinking)
        case ToolCall() | ServerToolCall():
            return len(block.name) + len(jsontext.compact(block.arguments))
        case ServerToolResult():
            return len(jsontext.compact(block.content))
        case OpaqueBlock():
            return len(jsontext.compact(block.value))
        case _:
            return 0
