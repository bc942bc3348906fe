"""Lists a provider's models over HTTP."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace

from ..dialects.registry import wire
from ..values.errors import BadWire, FormatError, InterlinguaError, TimedOut, TransportError
from ..values.jsontext import read
from ..values.request import CallOptions, ModelDescriptor
from .connector import HttpConnector
from .models import Catalogue
from .stream import check_size, scrubbed, unreachable
from .transport import whole

TIMEOUT = 20.0  # seconds for all pages
_MAX_PAGES = 100
_LARGEST = 32 << 20  # bytes of a page
# The names that providers have for the same facts.
_IDS = ("id", "name", "model")
_NAMES = ("display_name", "displayName")
_WINDOWS = ("context_length", "context_window", "inputTokenLimit", "max_input_tokens", "max_model_len")
_OUTPUTS = ("outputTokenLimit", "max_completion_tokens", "max_tokens")


async def list_models(
    connector: HttpConnector, catalogue: Catalogue, call: CallOptions | None = None
) -> list[ModelDescriptor]:
    """Returns the models that the provider lists, by id, with the catalogue's facts. Raises `InterlinguaError`."""
    try:
        async with asyncio.timeout(TIMEOUT):
            entries = await _entries(connector, call or CallOptions())
    except TimeoutError:
        raise TimedOut(f"{connector.provider} did not list its models within {TIMEOUT:g} s; try again") from None
    found = {model.id: model for entry in entries if (model := _described(entry, connector.provider)) is not None}
    return [_joined(model, catalogue) for _, model in sorted(found.items())]


async def _entries(connector: HttpConnector, call: CallOptions) -> list[Any]:
    model = connector.complete(ModelDescriptor(id=""))
    target = wire(model.api)
    if target.http.models_path is None:
        raise InterlinguaError(
            f"{connector.provider} has no model list; `interlingua models --all` lists the known models"
        )
    endpoint = await connector.access(model, call)
    url, entries = endpoint.base + target.http.models_path.partition("?")[0], []
    headers = {**target.http.headers, **endpoint.headers}
    page: dict[str, str] = {}
    for _ in range(_MAX_PAGES):
        asked = f"{url}?{urlencode(page)}" if page else url
        try:
            reply = await connector.transport.send("GET", asked, headers, None)
        except TransportError as error:
            raise unreachable(error, connector.row, url) from error.__cause__
        body = await whole(reply, _LARGEST + 1)
        if reply.status != 200:
            refusal = target.codec.decode_error(reply.status, body, reply.headers)
            raise scrubbed(refusal, [call.api_key, endpoint.key])
        check_size(body, connector.provider, largest=_LARGEST)
        listed, page = await asyncio.to_thread(_page, body, connector.provider)
        entries += listed
        if not page:
            break
    return entries


def _page(body: bytes, provider: str) -> tuple[list[Any], dict[str, str]]:
    """Returns the entries of a page, and the query for the next one: Anthropic's `after_id`, Google's `pageToken`."""
    try:
        value = read(body)
    except FormatError as error:
        raise BadWire(provider, f"the list of models: {error.message}") from None
    if isinstance(value, list):  # Together AI
        return value, {}
    entries = (value.get("data") or value.get("models") or []) if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise BadWire(provider, "the list of models has neither data nor models")
    if value.get("has_more") and value.get("last_id"):
        return entries, {"after_id": str(value["last_id"])}
    return entries, {"pageToken": str(value["nextPageToken"])} if value.get("nextPageToken") else {}


def _described(entry: Any, provider: str) -> ModelDescriptor | None:
    if not isinstance(entry, Mapping):
        return None
    id = next((value for name in _IDS if isinstance(value := entry.get(name), str) and value), None)
    methods = entry.get("supportedGenerationMethods")  # Google lists embedding and image models with the rest
    if id is None or (isinstance(methods, list) and "generateContent" not in methods):
        return None
    return ModelDescriptor(
        id=id.removeprefix("models/"),
        provider=provider,
        name=next((value for name in _NAMES if isinstance(value := entry.get(name), str)), None),
        context_window=_number(entry, _WINDOWS),
        max_tokens=_number(entry, _OUTPUTS),
    )


def _number(entry: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    given = (entry.get(name) for name in names)
    return next((value for value in given if isinstance(value, int) and value > 0 and value is not True), None)


def _joined(model: ModelDescriptor, catalogue: Catalogue) -> ModelDescriptor:
    """Returns the catalogue's facts of the model; the provider's own take precedence."""
    known = catalogue.describe(model.provider, model.id)
    if known is None:
        return model
    given = {name: value for name in ("name", "context_window", "max_tokens") if (value := getattr(model, name))}
    return replace(known, id=model.id, **given)
