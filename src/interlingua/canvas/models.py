"""Models by their names: what is known of them, and whether they can be asked."""

import functools
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from ..connect import models as catalogue
from ..connect.auth.resolver import resolve_auth
from ..connect.client import Client, default_client
from ..connect.connector import Connector, HttpConnector
from ..dialects import WIRES
from ..serving.problems import HttpProblem
from ..values.errors import InterlinguaError
from ..values.request import ModelDescriptor
from .shapes import ModelList, ModelView, Price, ProviderView

DEBUG_PROVIDERS = frozenset({"debug", "clawfice-debug"})
LOCAL_PROVIDERS = frozenset({"ollama", "lmstudio", "llamacpp", "vllm"})


def described(name: str, client: Client | None = None) -> ModelDescriptor:
    """A model by `provider/id`, with its wire and its limits; 422 for one that nobody serves."""
    try:
        connector, model = (client or default_client()).find(name)
    except InterlinguaError as error:
        raise HttpProblem(422, str(error), path="query.model", remedy="write provider/model") from None
    known = catalogue.describe(connector.provider, model.id)
    if known is None:
        listed = getattr(connector, "models", None) if not isinstance(connector, HttpConnector) else None
        known = next((one for one in listed or () if one.id == model.id), None)
    if known is None:
        return model
    return replace(known, **{field: value for field in model.__struct_fields__ if (value := getattr(model, field))})


def target(name: str, client: Client | None = None) -> ModelDescriptor:
    """A model, or the wire of this name."""
    return ModelDescriptor(id="", api=name) if name in WIRES else described(name, client)


@functools.lru_cache(maxsize=512)
def window_of(provider: str | None, model: str | None) -> tuple[int | None, int | None]:
    """How much a model reads and writes, where that is known."""
    if not model:
        return None, None
    known = catalogue.describe(provider, model) if provider else None
    if known is None:
        named, id = catalogue.resolve(model)
        known = catalogue.describe(named, id) if named else None
    return (known.context_window, known.max_tokens) if known is not None else (None, None)


def listed(client: Client, text: str, limit: int, used: Iterable[str], only_ready: bool) -> ModelList:
    """Models whose name has every word, those in use first, then those that can be asked at once."""
    used = set(used)
    providers = {connector.provider: _provider(connector) for connector in client.connectors}
    found: list[ModelView] = []
    for connector in client.connectors:
        about = providers[connector.provider]
        if only_ready and not about.ready:
            continue
        found += [
            _view(model, connector, about, f"{connector.provider}/{model.id}" in used)
            for model in _models(connector, text)
        ]
    found.sort(key=lambda one: (not one.used, not one.ready, one.provider in DEBUG_PROVIDERS))
    return ModelList(models=tuple(found[:limit]), providers=tuple(providers.values()), total=len(found))


def _models(connector: Connector, text: str) -> Iterable[ModelDescriptor]:
    if isinstance(connector, HttpConnector):
        return catalogue.models(connector.provider, text or None)
    wanted = text.lower().split()
    return [
        model
        for model in connector.models or ()
        if all(word in f"{connector.provider}/{model.id} {model.name or ''}".lower() for word in wanted)
    ]


def _provider(connector: Connector) -> ProviderView:
    ready, why = _is_ready(connector)
    return ProviderView(id=connector.provider, label=connector.label, ready=ready, why=why)


def _is_ready(connector: Connector) -> tuple[bool, str | None]:
    """Whether a key was found, or none is needed; never the key itself."""
    if connector.provider in DEBUG_PROVIDERS:
        return True, "offline"
    if not isinstance(connector, HttpConnector):
        return True, None
    row = connector.row
    try:
        auth: Any = resolve_auth(row.id, row.env)
    except InterlinguaError as error:
        return False, str(error)
    if auth is not None and (auth.api_key or auth.mode == "aws-sdk"):
        return True, f"key found ({auth.source})" if auth.source else "key found"
    if row.keyless:
        return True, "no key needed"
    return False, f"no key: set {row.env[0]}" if row.env else "no key"


def _view(model: ModelDescriptor, connector: Connector, about: ProviderView, used: bool) -> ModelView:
    cost = model.cost
    return ModelView(
        name=f"{connector.provider}/{model.id}",
        id=model.id,
        provider=connector.provider,
        label=model.name,
        api=model.api or connector.api,
        window=model.context_window,
        max=model.max_tokens,
        price=None
        if cost is None
        else Price(input=cost.input, output=cost.output, cache_read=cost.cache_read, cache_write=cost.cache_write),
        ready=about.ready,
        why=about.why,
        input=model.input or (),
        reasoning=model.reasoning,
        local=connector.provider in LOCAL_PROVIDERS,
        used=used,
    )
