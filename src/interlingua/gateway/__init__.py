"""The gateway: any client format in, any provider out. `interlingua serve` runs it; `Gateway` is the same from code."""

from typing import TYPE_CHECKING

from ..values.lazy import by_module, lazy_names

if TYPE_CHECKING:
    from .exchange import LOCAL, ClientKey, Exchange, Gate, Observer, Quota, Reservation
    from .server import Gateway
    from .settings import Alias, ClientLimits, Listen, ProviderSettings, RoutingRule, Settings, Target

# Loaded on first use: the recorder's process needs neither the server nor a client.
_LAZY = by_module(
    {
        "exchange": "LOCAL ClientKey Exchange Gate Observer Quota Reservation",
        "server": "Gateway",
        "settings": "Alias ClientLimits Listen ProviderSettings RoutingRule Settings Target",
    }
)

if not TYPE_CHECKING:  # for type checkers every name exists
    __getattr__ = lazy_names(__name__, _LAZY)


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
    "RoutingRule",
    "Settings",
    "Target",
]
