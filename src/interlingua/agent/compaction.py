"""Context compaction: summarizes old history when it approaches the model's context window. The original stays on
disk.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from ..connect import models as catalogue
from ..connect.call import Fallback
from ..sessions import compaction as cutting
from ..tools.schemas import extract_tool_schema
from ..values.errors import CannotCompact, ContextTooLong, InterlinguaError
from ..values.messages import text_of
from ..values.request import Context, Entry, ModelDescriptor
from ..values.tokens import taken
from .history import for_models

Summarise: TypeAlias = Callable[[str, int], Awaitable[str]]
"""Takes the text of a summary request and the maximum tokens of the summary; returns the summary."""

UNKNOWN_WINDOW = 128_000
SMALLEST_PIECE = 256  # minimum tokens of a conversation in a separate request
_PROMPT_TOKENS = 400  # maximum tokens of a summary request beside the conversation and the earlier summary


class Compacted(Struct, frozen=True, kw_only=True):
    """The effect of a compaction: estimated tokens of the next request, before and after."""

    tokens_before: int
    tokens_after: int
    summary: str
    first_kept: str | None = None

    @property
    def saved(self) -> int:
        return self.tokens_before - self.tokens_after


class Compaction(Struct, frozen=True, kw_only=True):
    """When and how to compact.

    `reserve` tokens stay free for the response, about `keep` tokens of the latest history are kept. `summarise` writes
    the summary; by default `model` does, or the agent's own. A model of another provider than the agent's uses its own
    key and base URL, or those given with it: `{"model": …, "api_key": …, "base_url": …}`.
    """

    reserve: int = cutting.RESERVE_TOKENS
    keep: int = cutting.KEEP_RECENT_TOKENS
    window: int | None = None
    model: Fallback | None = None
    summarise: Summarise | None = None

    async def due(self, agent: Any) -> bool:
        """Whether the history leaves less than the reserve of the agent's model."""
        await catalogue.warm()
        window = self.window or _window(agent.model, agent)
        tools = tuple(map(extract_tool_schema, agent.tools))
        context = Context(system=agent.system, messages=tuple(for_models(agent.history.messages)), tools=tools)
        return cutting.is_due(taken(context), window, self._reserve(window))

    async def compact(self, agent: Any, *, focus: str | None = None, overflowed: bool = False) -> Compacted | None:
        """Compacts old history and returns the saving; None if there was nothing to compact.

        History that exceeds one request is summarized in parts; a turn that is too large and cannot be split is
        summarized as a whole. Raises `CannotCompact` if that does not help either. A failure changes nothing.

        `overflowed`: the provider has refused the history, which then counts as at least as large as the window.
        """
        await catalogue.warm()
        plan = _Plan(self, agent, overflowed)
        if plan.cut is None:
            return None
        writer = _Writer(self.summarise or self._asking(agent), self._writers_window(agent))
        summary = await writer.summary(plan, focus)
        prefix = await writer.prefix(plan)
        given = cutting.finished(plan.cut, summary, prefix)
        done = plan.outcome(given.text)
        agent.history.compact(
            given.text,
            plan.cut.first_kept,
            tokens_before=done.tokens_before,
            tokens_after=done.tokens_after,
            details=given.details,
        )
        return done

    def _reserve(self, window: int) -> int:
        """At most half of a small window."""
        return min(self.reserve, window // 2)

    def _writers_window(self, agent: Any) -> int:
        if self.summarise is None and self.model is not None:
            return _window(self.model, agent)
        return self.window or _window(agent.model, agent)

    def _asking(self, agent: Any) -> Summarise:
        async def ask(text: str, max_tokens: int) -> str:
            answer = await agent.complete(
                # Nobody sends this text again, and a write to a cache can cost more than plain input.
                self.model,
                text,
                max_tokens=max_tokens,
                cache_retention="none",
                signal=agent.signal,
            )
            return text_of(answer.content)

        return ask


class _Plan:
    """Plans what to summarize of an agent's history so that the rest fits."""

    def __init__(self, how: Compaction, agent: Any, overflowed: bool) -> None:
        self.entries: Sequence[Entry] = agent.history.entries
        window = how.window or _window(agent.model, agent)
        reserve = how._reserve(window)
        fixed = taken(Context(system=agent.system, messages=(), tools=tuple(map(extract_tool_schema, agent.tools))))
        # Estimates are rough: they are scaled to the usage of a response, or to a refusal.
        seems = fixed + sum(map(cutting.estimate, cutting.context(self.entries)))
        self._size = max(seems, cutting.context_tokens(self.entries), window if overflowed else 0)
        self._scale = self._size / seems if seems else 1.0
        self._fixed = fixed * self._scale
        self.room = int(window - reserve - self._fixed)
        # The summary and the kept history share the window; in a window of usual size these limits do not bind.
        self.summary_max_tokens = max(1, min(int(reserve * 0.8), self.room // 3))
        self.prefix_max_tokens = max(1, min(int(reserve * 0.5), self.room // 5))
        self._keep = max(1, int(min(how.keep, max(self.room, 3) // 3) / self._scale))
        self._must = self._size > window - reserve
        self.cut = self._cut(window)

    def _cut(self, window: int) -> cutting.CompactionCut | None:
        cut = cutting.cut(self.entries, self._keep)
        if not self._must or (cut is not None and self._fits(cut)):
            return cut
        whole = cutting.cut_everything(self.entries) if self.room > 0 else None
        if whole is not None:
            return whole
        raise CannotCompact(f"cannot compact: {self._why(window)}")

    def _fits(self, cut: cutting.CompactionCut) -> bool:
        summary = self.summary_max_tokens + (self.prefix_max_tokens if cut.prefix else 0)
        return self._kept_tokens(cut) + summary <= max(self.room, 0)

    def _kept_tokens(self, cut: cutting.CompactionCut) -> float:
        """The tokens of the kept history."""
        if cut.first_kept is None:
            return 0
        first = next(at for at, entry in enumerate(self.entries) if (entry.id or "") == cut.first_kept)
        kept = (cutting.unsigned(entry.message) for entry in self.entries[first:])
        return sum(cutting.estimate(message) for message in kept if message is not None) * self._scale

    def _why(self, window: int) -> str:
        if self.room <= 0:
            return f"the system text and the tools leave no room in a window of {window:,} tokens"
        if not self.entries or cutting.is_compaction(self.entries[-1].message):
            return f"nothing left to summarize, and it does not fit a window of {window:,} tokens"
        unread = sum(cutting.estimate(entry.message) for entry in cutting.unanswered(self.entries))
        return (
            f"the last turn does not fit a window of {window:,} tokens (about {unread:,} are not answered yet), and it "
            "cannot be summed up: it waits for results, or holds pictures or files; send less at once"
        )

    def outcome(self, summary: str) -> Compacted:
        """Returns the saving. Raises `CannotCompact` if the summary saves nothing although something must be saved."""
        assert self.cut is not None
        left = cutting.estimate(cutting.summary_message(summary)) + self._kept_tokens(self.cut)
        before, after = int(self._size), int(self._fixed + left)
        if after >= before and self._must:
            raise CannotCompact(
                f"cannot compact: the summary is not shorter than the text it replaces (about {after:,} instead of "
                f"{before:,} tokens); nothing was changed"
            )
        return Compacted(tokens_before=before, tokens_after=after, summary=summary, first_kept=self.cut.first_kept)


class _Writer:
    """Writes a summary in as many parts as needed: each continues from the summary of the earlier ones."""

    def __init__(self, write: Summarise, window: int) -> None:
        self._write = write
        self._window = window

    async def summary(self, plan: _Plan, focus: str | None) -> str:
        """Summarizes what came before the turn at the cut; returns the earlier summary if nothing came since."""
        cut = plan.cut
        assert cut is not None
        if not any(not cutting.is_bookkeeping(entry.message) for entry in cut.summarize) and cut.prefix:
            return cut.previous or ""
        unread = cutting.unanswered(plan.entries)
        parts = cutting.pieces(cut.summarize, self._piece(plan.summary_max_tokens), unread=unread)

        def request(part: str, before: str | None) -> str:
            return cutting.summary_request_of(part, before, focus=focus)

        return await self._written(parts, request, plan.summary_max_tokens, cut.previous) or ""

    async def prefix(self, plan: _Plan) -> str | None:
        """Summarizes the part of a turn that is not kept."""
        cut = plan.cut
        assert cut is not None
        if not cut.prefix:
            return None
        unread = cutting.unanswered(plan.entries)
        parts = cutting.pieces(cut.prefix, self._piece(plan.prefix_max_tokens), unread=unread)

        def request(part: str, before: str | None) -> str:
            return cutting.prefix_request_of(part, before, kept=cut.first_kept is not None)

        return await self._written(parts, request, plan.prefix_max_tokens, None)

    def _piece(self, max_tokens: int) -> int:
        """Returns how many tokens of conversation one request can hold beside the earlier and the new summary."""
        return max(SMALLEST_PIECE, self._window - 2 * max_tokens - _PROMPT_TOKENS)

    async def _written(
        self, parts: Iterable[str], request: Callable[[str, str | None], str], max_tokens: int, before: str | None
    ) -> str | None:
        waiting = [*parts]
        while waiting:
            part = waiting.pop(0)
            try:
                written = await self._write(request(part, before), max_tokens)
            except ContextTooLong as error:  # the estimate was wrong
                if len(part) < 2 * SMALLEST_PIECE:
                    raise CannotCompact(f"cannot compact: no request for a summary is short enough: {error}") from error
                waiting[:0] = cutting.split(part, len(part.encode()) // 2 + 4)
                continue
            if not written.strip():
                raise CannotCompact("the summary is empty; the history is unchanged")
            before = written
        return before


def _window(given: Fallback, agent: Any) -> int:
    """Returns the context window of the model that a call with this name uses: an alias, a family or a bare id."""
    model = given["model"] if isinstance(given, dict) else given
    known = model.context_window if isinstance(model, ModelDescriptor) else None
    find = getattr(agent.client, "find_known", None)  # custom clients may not have it
    if known is None and find is not None:
        with contextlib.suppress(InterlinguaError):  # the call reports what is wrong with the name
            known = find(model, catalogue.default())[1].context_window
    return known or UNKNOWN_WINDOW
