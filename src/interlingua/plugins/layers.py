"""Where plugins put things by name: what one covers comes back when it goes, in whatever order plugins go."""

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..connect.connector import Connector
from ..connect.registry import ConnectorRegistry
from ..dialects import registry
from ..tools.registry import ToolRegistry

_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


class Layer(Generic[_Value]):
    """One place, with the layers that plugins have put over each name, the lowest first."""

    def __init__(
        self, get: Callable[[str], _Value | None], put: Callable[[str, _Value], None], drop: Callable[[str], object]
    ) -> None:
        self.get = get
        self._put = put
        self._drop = drop
        self._layers: dict[str, list[_Value]] = {}

    def lay(self, name: str, value: _Value) -> Callable[[], None]:
        """Puts a value under a name; returns what takes it away again."""
        layers = self._layers.setdefault(name, [])
        below = self.get(name)
        if below is not None and not (layers and layers[-1] is below):
            layers.append(below)
        layers.append(value)
        self._put(name, value)
        return lambda: self._lift(name, value)

    def _lift(self, name: str, value: _Value) -> None:
        layers = self._layers.get(name, [])
        kept = [layer for layer in layers if layer is not value]
        if len(kept) == len(layers):
            return
        self._layers[name] = kept
        if self.get(name) is not value:
            return  # something was laid over it
        if kept:
            self._put(name, kept[-1])
        else:
            self._drop(name)
            del self._layers[name]


def tool_layer(registry: ToolRegistry) -> Layer[Any]:
    """The entries of a registry of tools, by id."""

    def put(id: str, entry: Any) -> None:
        registry._entries[id] = entry
        registry._ranks.setdefault(id, len(registry._ranks))

    return _layer_of(registry, lambda: Layer(registry._entries.get, put, registry.unregister))


def connector_layer(registry: ConnectorRegistry) -> Layer[Connector]:
    """The connectors of a registry, by id."""
    return _layer_of(
        registry, lambda: Layer(registry.get, lambda _, connector: registry.register(connector), registry.unregister)
    )


def _layer_of(registry: Any, make: Callable[[], Layer[Any]]) -> Layer[Any]:
    """The shelf that belongs to a registry, kept with it."""
    current_layer: Layer[Any] | None = vars(registry).get("_shelf")
    if current_layer is None:
        current_layer = vars(registry)["_shelf"] = make()
    return current_layer


dialect_layer: Layer[Any] = Layer(
    registry.registered, lambda name, value: registry.register(registry.as_value(name, value)), registry.unregister
)
"""The dialects are the same for the whole process."""


class PluginDialect:
    """A plugin's dialect. Detecting a format asks every dialect: one that fails then says nothing."""

    def __init__(self, name: str, dialect: Any) -> None:
        self._name = name
        self._dialect = dialect

    def sniff(self, value: Any) -> Any:
        return self._asked("sniff", value)

    def split(self, value: Any) -> Any:
        return self._asked("split", value)

    def _asked(self, question: str, value: Any) -> Any:
        ask = getattr(self._dialect, question, None)
        if ask is None:
            return None
        try:
            return ask(value)
        except Exception:
            _log.warning("the dialect %s failed in %s", self._name, question, exc_info=True)
            return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)
