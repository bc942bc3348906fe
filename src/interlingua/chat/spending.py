"""What a conversation has used: tokens and dollars, counted from its answers."""

from collections.abc import Iterable

from msgspec import Struct

from ..values.messages import AgentMessage, AssistantMessage


class Spending(Struct):
    """A count. `unpriced` are the answers whose price is not known: they are never taken for free."""

    answers: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    cost: float = 0.0
    unpriced: int = 0
    context: int = 0  # tokens that the last answer read and wrote

    def add(self, answer: AssistantMessage) -> None:
        self.answers += 1
        usage = answer.usage
        if usage is None:
            self.unpriced += answer.stop_reason not in ("error", "aborted")
            return
        self.input += usage.input + usage.cache_read + usage.cache_write
        self.output += usage.output
        self.cached += usage.cache_read
        self.context = usage.total_tokens or self.context
        if usage.cost is None:
            self.unpriced += 1
        else:
            self.cost += usage.cost.total

    @property
    def dollars(self) -> str:
        """The cost in words; a part that is not known is said, not hidden."""
        if not self.unpriced:
            return f"${self.cost:.4f}"
        return f"${self.cost:.4f} + ?" if self.unpriced < self.answers else "cost unknown"


def by_model(messages: Iterable[AgentMessage]) -> dict[str, Spending]:
    """The count of each model that answered."""
    found: dict[str, Spending] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            name = f"{message.provider}/{message.model}" if message.provider else str(message.model)
            found.setdefault(name, Spending()).add(message)
    return found
