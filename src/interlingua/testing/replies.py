"""Builds the message to send from a test's reply: fills in ids, stop reason and token counts."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias, get_args

from msgspec.structs import replace

from ..dialects import Http, Wire
from ..dialects.registry import cut_frames, wire
from ..dialects.wire import NDJSON
from ..values import jsontext
from ..values.errors import InterlinguaError, ProviderError
from ..values.events import Done, Error, Start, StreamEvent
from ..values.folding import settle, unfold
from ..values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    UserMessage,
    blocks_of,
    text_of,
)
from ..values.request import Request
from .faults import Piece

Answered: TypeAlias = str | AssistantMessage | Block | Sequence[Block] | ProviderError
Reply: TypeAlias = Answered | Callable[[Request], Answered] | Callable[[Request], Awaitable[Answered]]

_BLOCKS = get_args(Block)
_TOKENS_OF_A_FILE = 256


def echo(request: Request) -> str:
    """The text of the last user message."""
    users = (m for m in reversed(request.context.messages) if isinstance(m, UserMessage))
    return next((text_of(message.content) for message in users), "")


def message_of(given: Answered, request: Request, api: str, number: int, timestamp: int) -> AssistantMessage:
    """Returns the complete response. Fields that `given` has are unchanged."""
    match given:
        case AssistantMessage():
            message = given
        case str():
            message = AssistantMessage(content=(TextBlock(text=given),) if given else ())
        case [*blocks] if all(isinstance(block, _BLOCKS) for block in blocks):
            message = AssistantMessage(content=tuple(blocks))
        case _ if isinstance(given, _BLOCKS):
            message = AssistantMessage(content=(given,))
        case _:
            raise InterlinguaError(
                f"a reply must be text, blocks, an AssistantMessage or a ProviderError, not {type(given).__name__}"
            )
    return _completed(message, request, api, number, timestamp)


def _completed(message: AssistantMessage, request: Request, api: str, number: int, timestamp: int) -> AssistantMessage:
    content = blocks_of(message.content)
    return replace(
        message,
        content=content,
        api=message.api or api,
        model=message.model or request.model.id,
        stop_reason=message.stop_reason or settle("stop", content),
        usage=message.usage or usage_of(request, content),
        response_id=message.response_id or f"{wire(api).http.response_id}test{number}",
        timestamp=timestamp if message.timestamp is None else message.timestamp,
    )


def usage_of(request: Request, content: Sequence[Block]) -> Usage:
    """Returns a deterministic usage for a conversation: four characters per token, 256 tokens per file."""
    thinking = sum(_tokens(block) for block in content if isinstance(block, ThinkingBlock))
    context = request.context
    tools = sum(_spread(len(jsontext.compact([t.name, t.description, t.input_schema]))) for t in context.tools or ())
    messages = sum(_tokens(block) for message in context.messages for block in blocks_of(message.content))
    sent = _spread(len(context.system_prompt)) + tools + messages
    return Usage.of(sent, sum(map(_tokens, content)), reasoning=thinking or None)


def _tokens(block: Block) -> int:
    match block:
        case TextBlock():
            return _spread(len(block.text))
        case ThinkingBlock():
            return _spread(len(block.thinking))
        case ToolCall():
            return _spread(len(block.name) + len(jsontext.compact(block.arguments)))
        case ImageBlock() | AudioBlock() | DocumentBlock():
            return _TOKENS_OF_A_FILE
        case _:
            return 1


def _spread(characters: int) -> int:
    return (characters + 3) // 4


def frames(wire: Wire, message: AssistantMessage, request: Request, chunk: int) -> Iterator[Piece]:
    """Yields the streamed response, one frame of the wire at a time, encoded lazily."""
    facts = wire.http
    encoder = wire.codec.StreamEncoder(request=request)
    for event in _events(message, facts, chunk):
        yield from _pieces(encoder.feed(event), facts, isinstance(event, Done | Error))
    yield from _pieces(encoder.close(), facts, True)


def _pieces(data: bytes, facts: Http, terminal: bool) -> list[Piece]:
    cut = list(cut_frames(data, facts.content_type)) if data else []
    # An NDJSON line before the last one has content: Ollama sends its calls just before the end.
    only_last = facts.content_type == NDJSON
    return [Piece(frame, terminal and (not only_last or at == len(cut) - 1)) for at, frame in enumerate(cut)]


def _events(message: AssistantMessage, facts: Http, chunk: int) -> Iterator[StreamEvent]:
    for event in unfold(message, size=chunk):
        if isinstance(event, Start) and facts.usage_first and event.partial and message.usage:
            yield Start(replace(event.partial, usage=replace(message.usage, output=1, reasoning=None)))
        else:
            yield event


def array(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yields Google's other stream form: one JSON array, element by element."""
    before = b"["
    for piece in pieces:
        yield Piece(before + piece.data.removeprefix(b"data: ").rstrip(b"\n"), piece.terminal)
        before = b",\r\n"
    yield Piece(b"[]" if before == b"[" else b"]", True)
