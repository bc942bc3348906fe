"""Interlingua, as its users call it: a canonical request to bytes; bytes to all events and the final message."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

import interlingua as il
import limits
import worker
from conversation import Assistant, Call, Chat, Image, Result, Text, Thinking, User
from limits import Decoded

if TYPE_CHECKING:  # an earlier commit, measured by `before.py`, has other modules
    from interlingua.values.messages import Message

DIALECTS = {
    "anthropic": "anthropic-messages",
    "openai": "openai-completions",
    "responses": "openai-responses",
    "gemini": "google-generative-ai",
    "bedrock": "bedrock-converse-stream",
    "ollama": "ollama-chat",
}
MODELS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5", "responses": "gpt-5", "ollama": "qwen3"}


def canonical(chat: Chat, wire: str) -> il.Request:
    """The conversation as a program that uses this package holds it."""
    api = DIALECTS[wire]
    return il.Request(
        model=il.ModelDescriptor(id=MODELS.get(wire, ""), api=api),
        context=il.Context(
            system=chat.system,
            messages=tuple(_message(message, api) for message in chat.messages),
            tools=tuple(
                il.ToolSpec(name=tool.name, description=tool.description, input_schema=tool.schema)
                for tool in chat.tools
            ),
        ),
        options=il.Options(max_tokens=chat.max_tokens),
    )


def _message(message: Any, api: str) -> "Message":
    match message:
        case User():
            return il.UserMessage(content=tuple(map(_block, message.content)))
        case Assistant():
            return il.AssistantMessage(content=tuple(map(_block, message.content)), api=api)
        case Result():
            return il.ToolResultMessage(
                tool_call_id=message.call_id, tool_name=message.name, content=message.text, is_error=False
            )
        case _:
            raise TypeError(message)


def _block(block: Any) -> Any:
    match block:
        case Text():
            return il.TextBlock(text=block.text)
        case Thinking():
            return il.ThinkingBlock(thinking=block.thinking, thinking_signature=block.signature)
        case Image():
            return il.ImageBlock(data=block.data, mime_type=block.mime_type)
        case Call():
            return il.ToolCall(id=block.id, name=block.name, arguments=block.arguments)
        case _:
            raise TypeError(block)


def request(wire: str, chat: Chat) -> Callable[[], bytes]:
    canon, dialect = canonical(chat, wire), il.dialect(DIALECTS[wire])
    return lambda: dialect.encode_request(canon).bytes()


def with_null(wire: str, chat: Chat) -> Callable[[], bytes]:
    """The same where the text says `null`, so that looking for it does not rule out a NaN: the values are looked at."""
    return request(wire, msgspec.structs.replace(chat, system=chat.system + " null"))


def by_hand_with_orjson(wire: str, chat: Chat) -> Callable[[], bytes]:
    """Not ours: the hand-written limit with the faster of the two encoders."""
    body = limits.BODIES[wire]
    return lambda: orjson.dumps(body(chat))


def stream(wire: str, chunks: list[bytes]) -> Callable[[], il.AssistantMessage]:
    dialect = il.dialect(DIALECTS[wire])

    def events() -> "Iterator[il.events.StreamEvent]":
        frames, decoder = dialect.framing(), dialect.StreamDecoder()
        for chunk in chunks:
            for frame in frames.feed(chunk):
                yield from decoder.feed(frame)
        for frame in frames.close():
            yield from decoder.feed(frame)
        yield from decoder.close()

    return lambda: il.fold(events())


def decoded(message: il.AssistantMessage) -> Decoded:
    calls = message.tool_calls
    return Decoded(message.text, message.thinking, calls[0].arguments if calls else None)


if __name__ == "__main__":
    rows = {"request": request, "null": with_null, "orjson": by_hand_with_orjson, "stream": stream}
    worker.serve(rows, decoded)
