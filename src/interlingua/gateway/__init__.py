"""The gateway: any client format in, any provider out. `interlingua serve` runs it; `Gateway` is the same from code."""

from .exchange import LOCAL, ClientKey, Exchange, Gate, Observer, Quota, Reservation
from .server import Gateway
from .settings import Alias, ClientLimits, Listen, ProviderSettings, Rule, Settings, Target

__all__ = [
    "LOCAL",
    "Alias",
    "ClientKey",
    "ClientLimits",
    "Exchange",
    "Gate",
    "Gateway",
    "Listen",
    "Observer",
    "ProviderSettings",
    "Quota",
    "Reservation",
    "Rule",
    "Settings",
    "Target",
]
