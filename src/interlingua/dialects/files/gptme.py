"""gptme: the log of a conversation (`conversation.jsonl`), a message a line.

Roles are `system`, `user` and `assistant`. The first system messages are the prompt; later ones are outputs of tools
and notices, which the model reads as the program's. Calls stand in the text of an answer. Usage and model are in
`metadata`. github.com/gptme/gptme `gptme/message.py`
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.messages import Message, text_of
from ..codec import ANSWER
from ..residual import fields_of, optional
from .line_sessions import ReadAgain, Reader, Record, RowReader, line_format
from .program_content import content_of, moment, usage_of, user

API = "gptme"

_MARKS = ("pinned", "hide", "quiet", "file_hashes", "call_id", "ephemeral_ttl")


def _is_line(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("role") in ("system", "user", "assistant", "tool")
        and isinstance(value.get("content"), str | list)
        and isinstance(value.get("timestamp"), str)
    )


def _is_log(lines: ReadAgain) -> bool:
    return all(map(_is_line, lines())) and any(key in line for line in lines() for key in _MARKS)


def _message(line: dict[str, Any]) -> Message:
    when, content = moment(line["timestamp"]), content_of(line["content"])
    if line["role"] != "assistant":
        return user(content, when, program=line["role"] != "user")
    about = fields_of(line.get("metadata"))
    usage = usage_of(
        about.get("usage"),
        input="input_tokens",
        output="output_tokens",
        read="cache_read_tokens",
        write="cache_creation_tokens",
    )
    model = optional(about.get("resolved_model")) or optional(about.get("model"))
    return replace(ANSWER, extra={}, content=content, model=model, usage=usage, timestamp=when)


class _Reader(RowReader):
    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        prompt: list[str] = []
        is_prompt = True
        for line in records:
            is_prompt = is_prompt and line["role"] == "system"
            if is_prompt:
                prompt.append(text_of(content_of(line["content"])))
            else:
                yield _message(line)
        self.fields = {"system": "\n\n".join(prompt) or None}


def _reader(lines: ReadAgain) -> Reader:
    if not _is_log(lines):
        raise BadWire(API, "expected lines of `role`, `content` and `timestamp`, one of them `pinned` or `hide`")
    return _Reader()


def detect(value: Any) -> str | None:
    """Whether lines are a log of this program."""
    is_log = isinstance(value, list) and _is_log(lambda: value)
    return "messages with `timestamp`, `pinned` or `hide`" if is_log else None


FORMAT = line_format(API, _reader, detect=detect, rank=40)
