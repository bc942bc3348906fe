"""The amount of reasoning in the form that a model accepts over a wire: a level, a number of tokens, or on and off.

An amount that the model does not accept becomes the nearest that it does: never more than requested, unless the model
cannot reason less. `fit` gives the reason for the loss report.
"""

from collections.abc import Collection
from typing import Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from ..values.losses import Severity
from ..values.request import Reasoning
from .generations import EFFORTS, THREE, Generation

# The forms in which a wire sets it: a level, a number of tokens, or on and off.
Form: TypeAlias = Literal["effort", "budget", "switch"]
EVERY_FORM: tuple[Form, ...] = ("effort", "budget", "switch")

# The token budget of a level; conversely, the highest budget that a level stands for.
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_768, "max": 65_536}
_UP_TO = {"minimal": 1024, "low": 4096, "medium": 12_288, "high": 24_576, "xhigh": 49_152}
_OFF = ("none", "off")


class Fitted(NamedTuple):
    """What to request (None: nothing), why it differs from the original request, and the severity of the loss."""

    reasoning: Reasoning | None
    why: str = ""
    severity: Severity = "weakened"


def asks(reasoning: Reasoning | None) -> bool:
    """Whether it sets an amount of reasoning."""
    return reasoning is not None and (reasoning.enabled, reasoning.effort, reasoning.budget) != (None, None, None)


def is_off(reasoning: Reasoning) -> bool:
    return reasoning.enabled is False or reasoning.effort in _OFF or (reasoning.budget == 0 and not reasoning.effort)


def is_on(reasoning: Reasoning | None, model: Generation) -> bool:
    """Whether the model will reason, as far as is known."""
    if reasoning is None or not asks(reasoning):
        return bool(model.on_by_default)
    return not is_off(reasoning)


def fit(
    asked: Reasoning, model: Generation, forms: Collection[Form] = EVERY_FORM, *, room: int | None = None
) -> Fitted:
    """What to request from a model that accepts these forms. A budget must be below `room`."""
    fitted = _fit(asked, model, forms, room)
    # The minimum budget of a model that always reasons may exceed the room: fit the result again until it is
    # stable. Each step has fewer fields than the one before.
    while fitted.reasoning is not None and fitted.reasoning != asked:
        again = _fit(fitted.reasoning, model, forms, room)
        if again.reasoning == fitted.reasoning:
            break
        fitted = Fitted(again.reasoning, fitted.why, fitted.severity)
    return fitted


def _fit(asked: Reasoning, model: Generation, forms: Collection[Form], room: int | None) -> Fitted:
    off = asks(asked) and is_off(asked)
    if model.reasoning is False:
        return Fitted(None, "the model does not reason", "record" if off else "dropped")
    if not asks(asked):
        return Fitted(asked)
    fitted = _off(asked, model, forms) if off else _on(asked, model, forms, room)
    return Fitted(asked) if fitted.reasoning == asked else fitted


# --- off --------------------------------------------------------------------------------------------------------------


def _off(asked: Reasoning, model: Generation, forms: Collection[Form]) -> Fitted:
    levels = _levels(model, forms)
    if model.can_be_off is False:
        return _minimum(asked, model, forms, levels)
    if "switch" in forms:
        return _switched_off(asked, model, levels)
    if model.efforts is not None and "none" in model.efforts:
        return Fitted(replace(asked, effort="none", budget=None, enabled=False), "off is an effort of none", "record")
    if model.on_by_default is False:
        return Fitted(_only_summary(asked), "the model does not reason unless asked to", "record")
    return Fitted(asked) if forms else Fitted(_only_summary(asked), _NO_LEVEL, "dropped")


def _minimum(asked: Reasoning, model: Generation, forms: Collection[Form], levels: tuple[str, ...] | None) -> Fitted:
    """The minimum for a model whose reasoning cannot be turned off."""
    if levels:
        return Fitted(
            _with_amount(asked, effort=levels[0]), f"the model always reasons: {levels[0]} effort is the least"
        )
    if model.budget is not None and "budget" in forms:
        least = model.budget[0]
        return Fitted(_with_amount(asked, budget=least), f"the model always reasons: {least} tokens are the least")
    return Fitted(_only_summary(asked), "the model always reasons, as much as it likes", "dropped")


def _switched_off(asked: Reasoning, model: Generation, levels: tuple[str, ...] | None) -> Fitted:
    """Off, with the effort, which some models also use for the length of the answer."""
    effort, why, severity = asked.effort, "it means no more than off", "record"
    if effort in _OFF or levels == ():
        effort = None
    elif effort is not None and levels is not None and effort not in levels:
        effort, why, severity = _nearest(effort, levels), f"the model takes {', '.join(levels)}", "weakened"
    highest = model.off_up_to
    if effort is not None and highest is not None and _rank(effort) > _rank(highest):
        effort, why, severity = highest, f"reasoning can be off up to {highest} effort only", "weakened"
    return Fitted(replace(asked, effort=effort, budget=None, enabled=False), why, severity)  # type: ignore[arg-type]


# --- on ---------------------------------------------------------------------------------------------------------------


def _on(asked: Reasoning, model: Generation, forms: Collection[Form], room: int | None) -> Fitted:
    levels = _levels(model, forms)
    takes_budget = "budget" in forms and (model.budget is not None or not _is_known(model))
    effort, budget = asked.effort, None if asked.budget == -1 else asked.budget  # -1: the model decides
    why, severity = "sent as the model takes it", "record"
    if budget is not None and not takes_budget:
        why, severity = "the model takes no budget", "weakened"
        effort, budget = effort or _name_for(budget), None
    if effort is not None and levels is not None and effort not in levels:
        given, effort = effort, _nearest(effort, levels)
        if levels:
            why, severity = f"the model takes {', '.join(levels)}", "weakened"
        elif not takes_budget:
            why, severity = "reasoning is on or off here, without degrees", "weakened"
        elif budget is None:
            budget = _tokens_for(given, model, room)
        else:
            why = "the model takes a budget, no effort"
    if model.adaptive is False and budget is None:  # it needs a number
        if takes_budget and model.budget is not None:
            budget = _tokens_for(effort, model, room)
        elif effort is None and levels:
            effort = _nearest("medium", levels)
    fitted = replace(asked, effort=effort, budget=budget, enabled=_switch(asked, effort, budget))
    if budget is not None and model.budget is not None:
        return _clamped_budget(Fitted(fitted, why, severity), model, room)  # type: ignore[arg-type]
    if effort is None and budget is None and "switch" not in forms and (_is_known(model) or not forms):
        if model.on_by_default:
            return Fitted(_only_summary(asked), f"the model reasons anyway: {why}", severity)  # type: ignore[arg-type]
        return Fitted(_only_summary(asked), _NO_LEVEL, "dropped")
    return Fitted(fitted, why, severity)  # type: ignore[arg-type]


_NO_LEVEL = "the target has no value for how much to reason"


def _clamped_budget(fitted: Fitted, model: Generation, room: int | None) -> Fitted:
    """The budget within the limits of the model, and below the limit of the answer."""
    reasoning: Reasoning = fitted.reasoning  # type: ignore[assignment]
    least, highest = model.budget  # type: ignore[misc]
    if room is not None:
        highest = min(highest, room - 1)
    if highest < least:
        why = f"the limit of the whole answer leaves no room for {least} tokens of reasoning, the fewest there are"
        if model.adaptive:
            return Fitted(replace(reasoning, budget=None, enabled=_switch(reasoning, reasoning.effort, None)), why)
        return Fitted(replace(reasoning, effort=None, budget=None, enabled=False), why)
    budget = max(least, min(reasoning.budget, highest))  # type: ignore[type-var]
    if budget == reasoning.budget:
        return fitted
    return Fitted(replace(reasoning, budget=budget), f"the model takes a budget of {least} to {highest} tokens here")


def _switch(asked: Reasoning, effort: str | None, budget: int | None) -> bool | None:
    """An amount implies that reasoning is on; without an amount, the switch is needed."""
    return True if effort is None and budget is None else asked.enabled


# --- levels and numbers -----------------------------------------------------------------------------------------------


def _levels(model: Generation, forms: Collection[Form]) -> tuple[str, ...] | None:
    """The levels of effort that the model accepts over this wire; None: unknown, any."""
    if "effort" not in forms:
        return ()
    if model.efforts is None:
        return None
    levels = tuple(word for word in model.efforts if word != "none")
    if not levels and model.budget is not None and "budget" not in forms:
        return THREE  # a host with levels only converts them to budgets
    return levels


def _nearest(word: str, levels: tuple[str, ...]) -> str | None:
    """The strongest of these that is not stronger, else the weakest; None where nothing can be compared."""
    known = [one for one in levels if one in EFFORTS]
    if word not in EFFORTS or not known:
        return None
    return next((one for one in reversed(known) if _rank(one) <= _rank(word)), known[0])


def _rank(word: str) -> int:
    return EFFORTS.index(word) if word in EFFORTS else -1


def _tokens_for(word: str | None, model: Generation, room: int | None) -> int:
    """The token budget of a level; at most half of the limit, so that room for the answer remains."""
    tokens = BUDGETS.get(word or "", BUDGETS["medium"])
    if model.budget is not None:
        tokens = min(tokens, model.budget[1])
        if room is not None:
            tokens = max(model.budget[0], min(tokens, room // 2))
    return tokens


def _name_for(budget: int) -> str:
    return next((word for word, highest in _UP_TO.items() if budget <= highest), "max")


def _is_known(model: Generation) -> bool:
    return model.efforts is not None or model.budget is not None


def _with_amount(asked: Reasoning, effort: str | None = None, budget: int | None = None) -> Reasoning:
    return replace(asked, effort=effort, budget=budget, enabled=None)


def _only_summary(asked: Reasoning) -> Reasoning | None:
    return _with_amount(asked) if asked.summary is not None else None
