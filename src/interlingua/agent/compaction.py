"""Making room: when the history nears the model's window, what is old is summed up. The original stays on disk."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec import Struct

from ..budget import taken
from ..connect import catalogue
from ..connect.candidates import Fallback
from ..errors import InterlinguaError
from ..messages import text_of
from ..request import Context, ModelDescriptor
from ..sessions import compaction as cutting
from .conversion import for_models

Summarise: TypeAlias = Callable[[str, int], Awaitable[str]]
"""Gets the words of a summary request and the most tokens the summary may have; gives the summary."""

UNKNOWN_WINDOW = 128_000


class Compaction(Struct, frozen=True, kw_only=True):
    """When to make room and how.

    `reserve` tokens stay free for the answer, about `keep` tokens of the latest history stay as they are. `summarise`
    writes the summary; without it `model` does, or the agent's own. A model of another provider than the agent's has
    its own key and address; it may bring them: `{"model": …, "api_key": …, "base_url": …}`.
    """

    reserve: int = cutting.RESERVE_TOKENS
    keep: int = cutting.KEEP_RECENT_TOKENS
    window: int | None = None
    model: Fallback | None = None
    summarise: Summarise | None = None

    async def due(self, agent: Any) -> bool:
        """Whether the history leaves less than the reserve of the agent's model."""
        await catalogue.warm()
        window = self.window or _window(agent)
        context = Context(system=agent.system, messages=tuple(for_models(agent.history.messages)))
        return cutting.is_due(taken(context), window, self.reserve)

    async def compact(self, agent: Any, *, focus: str | None = None) -> bool:
        """Sums up what is old; whether there was anything to sum up. A failure leaves everything as it was."""
        cut = cutting.cut(agent.history.entries, self.keep)
        if cut is None:
            return False
        write = self.summarise or self._asking(agent)
        summary = await write(cutting.summary_request(cut, focus=focus), int(self.reserve * 0.8))
        prefix = await write(cutting.prefix_request(cut), int(self.reserve * 0.5)) if cut.prefix else None
        if not summary.strip():
            raise InterlinguaError("the summary is empty, so the history was left as it is")
        told = cutting.finished(cut, summary, prefix)
        agent.history.compact(told.text, cut.first_kept, tokens_before=cut.tokens_before, details=told.details)
        return True

    def _asking(self, agent: Any) -> Summarise:
        async def ask(words: str, most: int) -> str:
            answer = await agent.complete(
                self.model, words, max_tokens=most, cache_retention="none", signal=agent.signal
            )
            return text_of(answer.content)

        return ask


def _window(agent: Any) -> int:
    model = agent.model
    if isinstance(model, ModelDescriptor):
        known = model.context_window
    else:
        provider, id = catalogue.resolve(model)
        found = catalogue.describe(provider, id) if provider is not None else None
        known = found.context_window if found is not None else None
    return known or UNKNOWN_WINDOW
