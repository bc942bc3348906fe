"""What a hand-over would cost: which of some models could read how much of a conversation. Nothing is sent."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec.structs import replace

from ..connect import models as catalogue
from ..conversion import tokens as budget
from ..conversion.checks import check
from ..dialects import WIRES
from ..dialects.targets import family
from ..values.messages import AssistantMessage, Usage, UserMessage
from ..values.request import ModelDescriptor, Request
from .models import described
from .sending import send
from .shapes import Cause, CauseCount, FindingView, Handover, HandoverModel, LossCounts, LossView, Reads, Spot
from .trees import Tree
from .wire import loss_views


def handover_view(
    tree: Tree,
    to: str | None,
    models: Sequence[str],
    *,
    text: str | None = None,
    replaces: str | None = None,
    thinking: Literal["drop", "text"] = "drop",
) -> Handover:
    """For each model what it would not read, what it would refuse, whether it fits, and what reading costs."""
    at = tree.entry(replaces).parent_id if replaces is not None else to
    request, ids = (
        tree.request_with_entries(at) if at is not None or replaces is None else tree.request_of((), tree.session, None)
    )
    if text:
        given = (*request.context.messages, UserMessage(content=text))
        request, ids = replace(request, context=replace(request.context, messages=given)), [*ids, None]
    views = tuple(_model(request, ids, name, described(name), thinking) for name in models)
    return Handover(
        reads=Reads(messages=len(request.context.messages), tokens=budget.taken(request.context)),
        models=views,
        causes=tuple(_causes(views)),
    )


def counted(losses: Sequence[Any]) -> LossCounts:
    """How many losses there are of each kind."""
    kinds = [loss.severity for loss in losses]
    return LossCounts(dropped=kinds.count("dropped"), weakened=kinds.count("weakened"), record=kinds.count("record"))


def _model(
    request: Request, ids: Sequence[str | None], name: str, model: ModelDescriptor, thinking: Literal["drop", "text"]
) -> HandoverModel:
    # A model that has no wire (the offline ones) reads the conversation as it is.
    sent = send(request, model, thinking=thinking) if model.api in WIRES else None
    losses = loss_views(sent.losses if sent is not None else (), ids)
    tokens = budget.taken(sent.adapted.request.context if sent is not None and sent.adapted else request.context)
    window = model.context_window
    fits = window is None or tokens <= window
    return HandoverModel(
        model=name,
        api=model.api,
        losses=losses,
        counts=counted(losses),
        fits=fits,
        tokens=tokens,
        window=window,
        cost=_cost(model, tokens),
        refuses=tuple(_refusals(sent.adapted.request if sent is not None and sent.adapted else request, model))
        if fits
        else (_too_long(tokens, window or 0),),
        same_family=_is_same_family(request, model),
    )


def _cost(model: ModelDescriptor, tokens: int) -> float | None:
    """What reading this would cost, as far as it is known, with nothing cached."""
    cost = catalogue.cost(Usage.of(tokens, 0), model)
    return cost.total if cost is not None else None


def _refusals(request: Request, model: ModelDescriptor) -> list[FindingView]:
    """What is still wrong after the repairs that sending makes."""
    return [
        FindingView(
            n=n,
            path=finding.path,
            severity="error",
            effect="refuses",
            message=finding.message,
            remedy=finding.remedy,
        )
        for n, finding in enumerate(check(request, target=model if model.api in WIRES else None), 1)
        if finding.severity == "error"
    ]


def _too_long(tokens: int, window: int) -> FindingView:
    return FindingView(
        n=1,
        path="$.messages",
        severity="error",
        effect="refuses",
        message=f"about {tokens:,} tokens do not fit its {window:,}",
        remedy="compact first, or choose a model that reads more",
    )


def _is_same_family(request: Request, model: ModelDescriptor) -> bool:
    """Whether the model can verify the thoughts of the last answer."""
    answers = [m for m in request.context.messages if isinstance(m, AssistantMessage) and m.model]
    if not answers:
        return False
    known = family(answers[-1].model, answers[-1].api)
    return known is not None and known == family(model.id, model.api)


def _causes(models: Sequence[HandoverModel]) -> list[Cause]:
    """Losses of the same kind as rows, the models as columns."""
    rows: dict[tuple[str, str], list[tuple[str, LossView]]] = {}
    for model in models:
        for loss in model.losses:
            if loss.severity != "record":
                rows.setdefault((loss.what, loss.why), []).append((model.model, loss))
    causes = []
    for (what, why), found in rows.items():
        by: dict[str, CauseCount] = {}
        for name, loss in found:
            before = by.get(name)
            by[name] = CauseCount(severity=loss.severity, count=1 if before is None else before.count + 1)
        spots = dict.fromkeys((loss.entry, loss.block) for _, loss in found)
        most = max(count.count for count in by.values())
        causes.append(
            Cause(
                what=what,
                why=why,
                label=what if most == 1 else f"{most} × {what}",
                entries=tuple(Spot(entry=entry, block=block) for entry, block in spots),
                by=by,
            )
        )
    return causes
