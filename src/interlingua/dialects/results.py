"""Tool results that travel inside user messages: one wire message may hold several, and words of the user beside them.

Ours are messages of their own. Results in a row share a wire message as a rule; `~joined` says where it was otherwise.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ..values.messages import Block, Message, ToolResultMessage, UserMessage
from .residual import JOINED, MESSAGE, put_back, with_residual


def apart(
    items: list[Any],
    is_result: Callable[[Any], bool],
    decode_result: Callable[[Any], ToolResultMessage],
    decode_block: Callable[[Any], Block],
) -> list[Message]:
    """The results of one wire message, and the words between them, as messages."""
    pieces: list[Message] = []
    terms: list[Block] = []
    for item in items:
        if not is_result(item):
            terms.append(decode_block(item))
            continue
        if terms:
            pieces.append(UserMessage(content=tuple(terms)))
            terms = []
        pieces.append(decode_result(item))
    if terms:
        pieces.append(UserMessage(content=tuple(terms)))
    return pieces


def marked(pieces: list[Message], residual: Mapping[str, Any], before: Message | None, api: str) -> list[Message]:
    """The pieces of one wire message with hints of how they hang together, wherever it is not the usual way.

    `held` is the residual of the wire message, `before` the message that precedes the pieces.
    """
    out: list[Message] = []
    for at, piece in enumerate(pieces):
        usual = isinstance(piece, ToolResultMessage) and isinstance(before, ToolResultMessage)
        if usual != (at > 0):
            piece = with_residual(piece, api, **{JOINED: at > 0})
        out.append(piece)
        before = piece
    if residual:
        out[0] = with_residual(out[0], api, **{MESSAGE: residual})
    return out


def say_user(
    encoded: list[dict[str, Any]], wire: dict[str, Any], residual: Mapping[str, Any], before: Message | None
) -> None:
    """Adds words of the user: to the message of the results before them if they came so, else as a message."""
    if residual.get(JOINED) and isinstance(before, ToolResultMessage) and isinstance(wire["content"], list):
        encoded[-1]["content"].extend(wire["content"])
    else:
        encoded.append(put_back(wire, residual[MESSAGE]) if MESSAGE in residual else wire)


def say_result(
    encoded: list[dict[str, Any]], blocks: list[dict[str, Any]], residual: Mapping[str, Any], before: Message | None
) -> None:
    """Adds the blocks of a result: to the message before it where they share one, else as a message."""
    joins = residual.get(JOINED, isinstance(before, ToolResultMessage))
    if joins and isinstance(before, (ToolResultMessage, UserMessage)) and isinstance(encoded[-1]["content"], list):
        encoded[-1]["content"].extend(blocks)
    else:
        wire = {"role": "user", "content": blocks}
        encoded.append(put_back(wire, residual[MESSAGE]) if MESSAGE in residual else wire)
