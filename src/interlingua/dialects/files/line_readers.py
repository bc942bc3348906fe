"""Line readers, which index a session file one line at a time and keep state between lines."""

from abc import ABC, abstractmethod
from typing import Any

from msgspec.structs import replace

from ...values.errors import InterlinguaError
from ...values.messages import AgentMessage, AssistantMessage, CustomMessage, ToolResultMessage

OPEN_CALLS = 500  # calls whose names are known: a result follows its call closely


class LineReader(ABC):
    """The messages of a file line by line, without what only a return trip needs. Formats implement `messages`.

    `state` is what it knows of the lines so far, as JSON; `title` is that of the lines read. An answer of several lines
    is several messages with one `response_id` or, where it `joins`, several in a row; usage that has a line of its own
    is an answer without content and id. Results get the names of their tools, and lines that cannot be decoded are
    custom messages.
    """

    # Whether answers in a row are one: each item of an answer has a line of its own, without an id of the answer.
    joins = False

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self.state: dict[str, Any] = state if state is not None else {}
        self.title: str | None = None  # of the lines that were read, the last

    def read(self, line: dict[str, Any]) -> list[tuple[str, AgentMessage]]:
        """The messages of a line, each with the id of its entry, or ""."""
        try:
            return [(id, self._named(message)) for id, message in self.messages(line)]
        except (InterlinguaError, KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
            # No message of the wire: the texts in it can be found all the same.
            return [("", CustomMessage(str(line.get("type") or "line"), line))]

    @abstractmethod
    def messages(self, line: dict[str, Any]) -> list[tuple[str, Any]]:
        """The messages of a line, each with the id of its entry, or "", as the format has them."""

    def _named(self, message: Any) -> Any:
        names = self.state.setdefault("names", {})
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                names[call.id] = call.name
            while len(names) > OPEN_CALLS:
                del names[next(iter(names))]
        elif isinstance(message, ToolResultMessage) and not message.tool_name and message.tool_call_id in names:
            return replace(message, tool_name=names[message.tool_call_id])
        return message
