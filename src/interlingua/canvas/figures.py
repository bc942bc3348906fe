"""Totals and timelines of paths."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..sessions.cards import Totals
from ..values.messages import AgentMessage, AssistantMessage, ToolResultMessage
from ..values.request import Entry
from .shapes import ModelTotals, Point, Row, Timeline, Tokens, TotalsView


def totals_of(messages: Iterable[AgentMessage]) -> Totals:
    totals = Totals()
    for message in messages:
        totals.add(message)
    return totals


def totals_view(totals: Totals, entries: Sequence[Entry] = ()) -> TotalsView:
    return TotalsView(
        **_fields(totals),
        ms=elapsed([entry.message for entry in entries]),
        models={name: ModelTotals(**_fields(one)) for name, one in totals.models.items()},
    )


def _fields(totals: Totals) -> dict[str, Any]:
    tokens = totals.tokens
    return {
        "messages": dict(totals.messages),
        "tokens": Tokens(
            input=tokens["input"],
            cache_read=tokens["cache_read"],
            cache_write=tokens["cache_write"],
            output=tokens["output"],
            reasoning=tokens["reasoning"],
            total=tokens["total_tokens"],
        ),
        "cost": totals.cost if totals.priced else None,
        "unpriced": totals.unpriced,
        "thinking": totals.thinking,
        "tools": dict(totals.tools.most_common()),
        "failed_tools": dict(totals.failed_tools.most_common()),
        "stop_reasons": dict(totals.stops.most_common()),
    }


def elapsed(messages: Sequence[AgentMessage]) -> int | None:
    """The time between the first and the last message, less the time that a person took to write: None if unknown."""
    total, before, known = 0, None, False
    for message in messages:
        at = getattr(message, "timestamp", None)
        if at is None:
            continue
        if before is not None and isinstance(message, AssistantMessage | ToolResultMessage) and at >= before:
            total += at - before
            known = True
        before = at
    return total if known else None


def timeline(rows: Iterable[Row]) -> Timeline:
    return Timeline(
        points=tuple(
            Point(
                id=row.id,
                role=row.role,
                at=row.at,
                ms=row.ms,
                model=row.model,
                input=row.usage.input if row.usage is not None else None,
                cache_read=row.usage.cache_read if row.usage is not None else None,
                cache_write=row.usage.cache_write if row.usage is not None else None,
                output=row.usage.output if row.usage is not None else None,
                cost=row.cost,
            )
            for row in rows
            if row.role in ("assistant", "toolResult", "user")
        )
    )
