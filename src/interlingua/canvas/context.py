"""The context ruler: what the model read at an entry, after compaction, and how much of its window that took."""

from collections.abc import Sequence

from ..conversion import tokens as budget
from ..sessions.compaction import ROLE, first_kept_of, is_bookkeeping, is_compaction
from ..values.messages import AgentMessage, AssistantMessage
from ..values.request import Context, Entry, Request
from .caching import breaks
from .models import window_of
from .shapes import CompactionMark, ContextView, Reading, Segment
from .trees import Tree
from .wire import before_answer

ANSWERS_SHOWN = 200


def context_view(tree: Tree, to: str | None, model: tuple[str | None, str | None] | None = None) -> ContextView:
    """What is read at `to`: by the answer that it is, or by the answer that would come next."""
    at = to if to is not None else tree.head()
    if at is None:
        return ContextView(total=0, exact=True, segments=())
    path = tree.path(at)
    message: AgentMessage = path[-1].message
    answer = message if isinstance(message, AssistantMessage) else None
    request, ids = tree.request_with_entries(before_answer(tree, at))
    segments = _segments(request, ids, path)
    total, exact, cached = _total(answer, request, segments)
    provider, name = model or _model(answer, path, request)
    window, longest = window_of(provider, name)
    read = {segment.entry for segment in segments}
    return ContextView(
        model=name,
        window=window,
        max=longest,
        total=total,
        exact=exact,
        segments=segments,
        cached=cached,
        compactions=tuple(_marks(path)),
        left=sum(entry.id not in read and not is_bookkeeping(entry.message) for entry in path if entry.id != at),
        answers=_answers(tree, path),
    )


def _segments(request: Request, ids: Sequence[str | None], path: Sequence[Entry]) -> tuple[Segment, ...]:
    context = request.context
    empty = Context(messages=())
    compactions = {entry.id for entry in path if is_compaction(entry.message)}
    found: list[Segment] = []
    if context.system:
        tokens = budget.taken(Context(messages=(), system=context.system))
        found.append(Segment(kind="system", tokens=tokens, estimated=True))
    if context.tools:
        tokens = budget.taken(Context(messages=(), tools=context.tools)) - budget.taken(empty)
        found.append(Segment(kind="tools", tokens=tokens, estimated=True))
    for message, id in zip(context.messages, ids, strict=True):
        kind = "summary" if id in compactions else "message"
        tokens = budget.estimate(message)
        if isinstance(message, AssistantMessage) and message.usage is not None and message.usage.output:
            found.append(
                Segment(kind="message", entry=id, role=message.role, tokens=message.usage.output, estimated=False)
            )
            continue
        found.append(Segment(kind=kind, entry=id, role=message.role, tokens=tokens, estimated=True))  # type: ignore[arg-type]
    return tuple(found)


def _total(
    answer: AssistantMessage | None, request: Request, segments: Sequence[Segment]
) -> tuple[int, bool, int | None]:
    """The provider's count of what an answer read; an estimate of what the next one would read."""
    usage = answer.usage if answer is not None else None
    if usage is not None and (read := usage.input + usage.cache_read + usage.cache_write):
        return read, True, usage.cache_read
    return budget.taken(request.context), False, None


def _model(answer: AssistantMessage | None, path: Sequence[Entry], request: Request) -> tuple[str | None, str | None]:
    answers = [m for entry in reversed(path) if isinstance(m := entry.message, AssistantMessage) and m.model]
    last = answer if answer is not None and answer.model else answers[0] if answers else None
    if last is not None:
        return last.provider, last.model
    return request.model.provider or None, request.model.id or None


def _marks(path: Sequence[Entry]) -> list[CompactionMark]:
    marks = []
    for entry in path:
        message: AgentMessage = entry.message
        if message.role != ROLE or not is_compaction(message):
            continue
        fields = getattr(message, "fields", {})
        before, after = fields.get("tokensBefore"), None
        summary = fields.get("summary")
        if isinstance(summary, str):
            after = -(-len(summary) // 4)
        marks.append(
            CompactionMark(
                entry=entry.id or "",
                first_kept=first_kept_of(message),
                before=before if isinstance(before, int) else None,
                after=after,
            )
        )
    return marks


def _answers(tree: Tree, path: Sequence[Entry]) -> tuple[Reading, ...]:
    found: list[Reading] = []
    spoken = 0
    for entry in path:
        message: AgentMessage = entry.message
        spoken += not is_bookkeeping(message)
        if not isinstance(message, AssistantMessage):
            continue
        usage = message.usage
        known = usage is not None
        found.append(
            Reading(
                entry=entry.id or "",
                number=spoken,
                read=usage.input + usage.cache_read + usage.cache_write if usage is not None else None,
                fresh=usage.input if usage is not None else None,
                cache_read=usage.cache_read if usage is not None else None,
                cache_write=usage.cache_write if usage is not None else None,
                output=usage.output if usage is not None else None,
                cost=usage.cost.total if usage is not None and usage.cost is not None else None,
                broke=breaks(found, usage) if known and usage is not None else None,
            )
        )
    return tuple(found[-ANSWERS_SHOWN:])
