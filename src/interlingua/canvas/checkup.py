"""The doctor: what is wrong with a conversation for a chosen model, on every node, before anything is sent."""

from ..conversion import tokens as budget
from ..conversion.adapting.adapter import adapt, structural_repairs
from ..conversion.checks import check
from ..values.request import ModelDescriptor
from .models import window_of
from .places import entry_of
from .shapes import DoctorView, FindingView, Fit
from .trees import Tree


def doctor_view(tree: Tree, to: str | None, target: ModelDescriptor | None) -> DoctorView:
    """The findings at an entry; without a target, what any target would want mended."""
    request, ids = tree.request_with_entries(to)
    found = check(request, target=target)
    losses = structural_repairs(request) if target is None else adapt(request, target).losses
    views: list[FindingView] = []
    for n, (finding, loss) in enumerate(zip(found, losses, strict=True), 1):
        entry, block = entry_of(finding.path, ids)
        effect = "refuses" if finding.severity == "error" else "drops" if loss.severity == "dropped" else "weakens"
        views.append(
            FindingView(
                n=n,
                path=finding.path,
                severity=finding.severity,
                effect=effect,  # type: ignore[arg-type]
                message=finding.message,
                remedy=finding.remedy,
                entry=entry,
                block=block,
                repaired=True,  # a finding is a repair that sending makes on a copy
            )
        )
    tokens = budget.taken(request.context)
    fit = None
    if target is not None:
        window, longest = (target.context_window, target.max_tokens)
        if window is None:
            window, longest = window_of(target.provider or None, target.id or None)
        fit = Fit(tokens=tokens, window=window, max=longest)
        if window is not None and tokens > window:
            head = to if to is not None else tree.head()
            views.insert(0, _too_long(tokens, window, head))
    return DoctorView(
        target=None if target is None else f"{target.provider}/{target.id}".strip("/") or target.api,
        findings=tuple(views),
        fits=fit,
        problems=tree.problems(),
    )


def _too_long(tokens: int, window: int, entry: str | None) -> FindingView:
    return FindingView(
        n=0,
        path="$.messages",
        severity="error",
        effect="refuses",
        message=f"the conversation does not fit: about {tokens:,} tokens, the model reads {window:,}",
        remedy="compact it, or choose a model that reads more",
        entry=entry,
    )
