"""Antigravity's transcripts (`transcript.jsonl`): a step a line, with its `source` and `type`.

A `USER_INPUT` wraps what the user wrote in `<USER_REQUEST>`; what else it holds was put in by the program, as are the
steps of the system that have content. A `PLANNER_RESPONSE` is an answer, with its calls. The steps behind it are what
its tools gave, under the tool's name in capitals (`VIEW_FILE` for `view_file`) or a name of their own
(`LIST_DIRECTORY` for `list_dir`, `CODE_ACTION` for all that write): those answer, in order, the calls that no step is
named after. Calls have no ids.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.messages import AssistantMessage, Block, Message, TextBlock, ThinkingBlock, ToolCall
from ..codec import ANSWER
from ..residual import optional
from .line_sessions import Record, RowReader, line_format
from .program_content import a_call, a_result, first, items, moment, user

API = "antigravity"

_REQUEST = re.compile(r"<USER_REQUEST>\n?(.*?)\n?</USER_REQUEST>\s*(.*)", re.DOTALL)


def _asked(text: str, when: int | None) -> list[Message]:
    wrapped = _REQUEST.fullmatch(text.strip())
    if wrapped is None:
        return [user(text, when)]
    return [user(wrapped[1], when), *([user(wrapped[2], when, program=True)] if wrapped[2] else [])]


def _answer(line: dict[str, Any], when: int | None, at: int) -> AssistantMessage:
    blocks: list[Block] = []
    if optional(line.get("thinking")):
        blocks.append(ThinkingBlock(thinking=line["thinking"]))
    if optional(line.get("content")):
        blocks.append(TextBlock(text=line["content"]))
    for number, wire in enumerate(items(line.get("tool_calls"))):
        name = optional(wire.get("name"))
        if name is not None:
            id = optional(first(wire, "id", "call_id")) or f"step{at}_{number}"
            blocks.append(a_call(id, name, first(wire, "args", "arguments", "input")))
    return replace(ANSWER, extra={}, content=tuple(blocks), model=optional(line.get("model")), timestamp=when)


def _answered(lines: list[dict[str, Any]], calls: tuple[ToolCall, ...]) -> dict[int, ToolCall]:
    """The calls of an answer, by the place of the step that has the result among the lines behind it."""
    steps = [
        place
        for place, line in enumerate(lines)
        if line.get("source") == "MODEL" and optional(line.get("content")) is not None
    ]
    found: dict[int, ToolCall] = {}
    waiting = list(calls)
    for place in steps:
        call = next((call for call in waiting if call.name.upper() == lines[place].get("type")), None)
        if call is not None:
            waiting.remove(call)
            found[place] = call
    return found | dict(zip((place for place in steps if place not in found), waiting, strict=False))


class _Reader(RowReader):
    """Reads a transcript in turns: an answer or what the user wrote, and the steps behind it."""

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        turn: list[Record] = []
        begin = 0
        for at, line in enumerate(records):
            if line.get("type") in ("PLANNER_RESPONSE", "USER_INPUT"):
                yield from _turn(turn, begin)
                turn, begin = [], at
            turn.append(line)
        yield from _turn(turn, begin)


def _turn(lines: list[Record], begin: int) -> Iterator[Message]:
    """The messages of a turn whose first line has the number `begin`."""
    answered: dict[int, ToolCall] = {}
    for at, line in enumerate(lines):
        when, text = moment(line.get("created_at")), optional(line.get("content"))
        match line.get("source"), line.get("type"):
            case ("USER_EXPLICIT", _) | (_, "USER_INPUT"):
                yield from _asked(text or "", when)
            case _, "PLANNER_RESPONSE":
                answer = _answer(line, when, begin)
                yield answer
                answered = _answered(lines[1:], answer.tool_calls) if answer.tool_calls else {}
            case "MODEL", str() if text is not None:
                # A step without a call is one that the program took by itself; the model reads it all the same.
                call = answered.get(at - 1)
                if call is None:
                    yield user(text, when, program=True)
                else:
                    yield a_result(call.id, text, name=call.name, failed=line.get("status") == "ERROR", when=when)
            case "SYSTEM", _ if text is not None:
                yield user(text, when, program=True)


def detect(value: Any) -> str | None:
    """Steps with an index, a source and a type."""
    lines = items(value) if isinstance(value, list) else items([value])
    if lines and all("step_index" in line and "source" in line and "type" in line for line in lines[:20]):
        return "lines with `step_index`, `source` and `type`"
    return None


FORMAT = line_format(API, lambda lines: _Reader(), detect=detect)
