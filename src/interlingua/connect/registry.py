"""The connectors at hand: looked up by id, by provider, by api."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..values.request import ModelDescriptor
from .connector import Connector
from .foreign import as_connector, models_of


class ConnectorRegistry:
    """Connectors by id, in order of registration.

    Several may serve one provider: the latest counts, and when it goes the one before counts again.
    """

    def __init__(self, connectors: "tuple[Connector, ...] | list[Connector]" = ()) -> None:
        self._connectors: dict[str, Connector] = {}
        self._order: dict[str, int] = {}  # id -> when it was last registered
        self._clock = 0
        for connector in connectors:
            self.register(connector)

    def register(self, connector: Connector | Mapping[str, Any] | Any) -> None:
        """Adds a connector: an object or a mapping. One of the same id is replaced, in its place."""
        connector = as_connector(connector)
        self._clock += 1
        self._connectors[connector.id] = connector
        self._order[connector.id] = self._clock

    def unregister(self, id: str) -> bool:
        """Removes a connector; whether there was one."""
        self._order.pop(id, None)
        return self._connectors.pop(id, None) is not None

    def clear(self) -> None:
        self._connectors.clear()
        self._order.clear()

    def get(self, id: str) -> Connector | None:
        return self._connectors.get(id)

    def get_by_provider(self, provider: str) -> Connector | None:
        """The connector registered last of those that serve this provider."""
        serving = [one for one in self._connectors.values() if one.provider == provider]
        return max(serving, key=lambda one: self._order[one.id], default=None)

    def get_by_api(self, api: str) -> list[Connector]:
        """All connectors that speak this api, the latest registered last."""
        return sorted((one for one in self if one.api == api), key=lambda one: self._order[one.id])

    def find_model(self, id: str) -> list[tuple[Connector, ModelDescriptor]]:
        """Every connector whose catalogue has a model of exactly this id."""
        return [(one, model) for one in self for model in models_of(one) if model.id == id]

    def list_providers(self) -> "list[str]":
        return [*dict.fromkeys(one.provider for one in self)]

    def list(self) -> "list[Connector]":
        return [*self._connectors.values()]

    def has(self, id: str) -> bool:
        return id in self._connectors

    @property
    def size(self) -> int:
        return len(self._connectors)

    def __len__(self) -> int:
        return len(self._connectors)

    def __iter__(self) -> Iterator[Connector]:
        return iter([*self._connectors.values()])

    def __contains__(self, id: object) -> bool:
        return id in self._connectors
