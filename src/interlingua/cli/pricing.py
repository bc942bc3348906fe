"""List prices for responses whose files state no cost."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..sessions.spending import Used

_MAKERS = ("anthropic", "openai", "google")  # used for the price of a model whose provider the file does not state


def list_price(used: "Used") -> float | None:
    """Returns the list price of a response at its time; None if unknown."""
    from ..connect import models  # price lists load slower than most files are counted

    if not used.model:
        return None
    found = models.cost(used.usage(), used.model, used.provider, used.at)
    if found is None and used.provider is None:
        makers = (models.cost(used.usage(), used.model, maker, used.at) for maker in _MAKERS)
        found = next((cost for cost in makers if cost is not None), None)
    return found.total if found is not None else None
