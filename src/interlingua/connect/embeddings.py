"""Embeddings, over the same provider rows, keys and base URLs as responses."""

import asyncio
import hashlib
import math
from collections.abc import Sequence
from typing import Any, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ..dialects.registry import wire
from ..dialects.wire import EmbeddingRoute, Wire
from ..values.errors import BadWire, FormatError, InterlinguaError, TransportError, nearest
from ..values.jsontext import read, write
from ..values.messages import Usage
from ..values.request import CallOptions, ModelDescriptor
from .call import AccessOptions, GivenOptions, Model, named, options_of, retry_of
from .client import Client, default_client
from .connector import HttpConnector
from .debug import EMBEDDING, DebugConnector
from .models import warm
from .names import embedding_name
from .retry import Retry
from .stream import LARGE_ANSWER, AttemptWatch, Timeouts, check_size, scrubbed, without_frames

_BODY_LIMIT = 256 * 1024 * 1024  # of one response
_MAX_VALUES = 100_000  # of the vector of one text: the longest there are have 12,288
_OFFLINE_SIZE = 64  # of the offline model: the same text has the same vector, and similar texts similar ones


class Embeddings(Struct, frozen=True, kw_only=True):
    """One vector per text, in order; `usage` is the sum of all requests, with its cost if known."""

    vectors: tuple[tuple[float, ...], ...]
    model: str
    provider: str
    usage: Usage | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        size = len(self.vectors[0]) if self.vectors else 0
        return f"Embeddings({len(self.vectors)} vectors of {size}, model={self.model!r})"


class EmbedOptions(AccessOptions, total=False):
    """The keyword options of `embed`, for type checkers."""

    dimensions: int | None
    batch: int | None
    retry: Retry | int | None
    client: Client | None


async def embed(
    model: Model,
    texts: str | Sequence[str],
    *,
    dimensions: int | None = None,
    batch: int | None = None,
    retry: Retry | int | None = None,
    client: Client | None = None,
    **options: Unpack[AccessOptions],
) -> Embeddings:
    """Returns the vectors of some texts: `(await il.embed("text-embedding-3-small", ["a", "b"])).vectors`.

    The model is `provider/id`, or a known id alone. Many texts are sent in several requests, `batch` per request
    (default: the provider's maximum). `api_key`, `base_url`, `headers`, `settings`, `timeout`, `signal` and `env` are
    as for `complete`; `retry` applies to each request. `debug/embed-1` works offline.
    """
    how = GivenOptions(options)
    del options
    try:
        return await _embed(model, texts, dimensions, batch, retry, client, how)
    except InterlinguaError as error:
        raise without_frames(error) from error.__cause__


async def _embed(
    model: Model,
    texts: str | Sequence[str],
    dimensions: int | None,
    batch: int | None,
    retry: Retry | int | None,
    client: Client | None,
    options: GivenOptions,
) -> Embeddings:
    given = _texts(texts)
    valid = EmbedOptions.__annotations__
    if extra := [name for name in options if name not in valid]:
        near = nearest(extra[0], valid, 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        names = ", ".join(sorted(valid))
        raise InterlinguaError(f"unknown option {extra[0]!r} for embeddings; {meant}valid options: {names}")
    call = options_of(options)[1]
    for name, number in (("dimensions", dimensions), ("batch", batch)):
        if number is not None and (not isinstance(number, int) or number < 1):
            raise FormatError(f"{name} must be an integer of at least 1, not {number!r}", name)
    client = client or default_client()
    named(model)  # refuses what is none
    if isinstance(model, str):
        if "/" not in model:
            await warm()  # the name is looked up
        model = embedding_name(model, client.connectors)
    connector, found = client.find(model)
    if isinstance(connector, DebugConnector):
        return _offline(found, given, dimensions)
    route = wire(found.api).http.embeddings if isinstance(connector, HttpConnector) else None
    if route is None or not isinstance(connector, HttpConnector):
        raise InterlinguaError(f"{connector.provider} has no embeddings over {found.api}; ask another provider")
    embedding = _EmbeddingCall(connector, found, route, call, dimensions, retry_of(retry, client.retry))
    size = min(batch or route.batch(found.id), route.batch(found.id))
    vectors: list[tuple[float, ...]] = []
    tokens: int | None = 0
    for at in range(0, len(given), size):
        some, read_tokens = await embedding.send(given[at : at + size])
        vectors += some
        tokens = None if tokens is None or read_tokens is None else tokens + read_tokens
    usage = None if tokens is None else Usage.of(tokens)
    if usage is not None and usage.input:
        cost = (await warm()).cost(usage, found)
        usage = replace(usage, cost=cost) if cost is not None else usage
    return Embeddings(vectors=tuple(vectors), model=found.id, provider=found.provider, usage=usage)


class _EmbeddingCall:
    """Embedding requests to one model."""

    def __init__(
        self,
        connector: HttpConnector,
        model: ModelDescriptor,
        route: EmbeddingRoute,
        call: CallOptions,
        dimensions: int | None,
        retry: Retry,
    ) -> None:
        self._connector = connector
        self._model = model
        self._route = route
        self._call = call
        self._dimensions = dimensions
        self._retry = retry

    async def send(self, texts: Sequence[str]) -> tuple[list[tuple[float, ...]], int | None]:
        """Sends one request, with retries."""
        tries = 0
        while True:
            try:
                return await self._attempt(texts)
            except InterlinguaError as failure:
                tries += 1
                if tries >= self._retry.attempts or not self._retry.again(failure):
                    raise
                await asyncio.sleep(self._retry.wait(failure, tries))

    async def _attempt(self, texts: Sequence[str]) -> tuple[list[tuple[float, ...]], int | None]:
        target = wire(self._model.api)
        watch = AttemptWatch(self._call.signal, Timeouts.of(self._call.timeout))
        secrets = [self._call.api_key]
        try:
            status, body, headers = await watch.during(self._send(texts, secrets))
            if status != 200:
                error = target.codec.decode_error(status, body, headers)
                error.provider = self._model.provider
                raise error
            if len(body) <= LARGE_ANSWER:
                return self._read(target, body, len(texts))
            check_size(body, target.api, largest=_BODY_LIMIT, values=_MAX_VALUES * len(texts))
            return await watch.during(asyncio.to_thread(self._read, target, body, len(texts)))
        except InterlinguaError as error:
            raise scrubbed(error, secrets) from error.__cause__
        finally:
            watch.finish()

    async def _send(self, texts: Sequence[str], secrets: list[str | None]) -> tuple[int, bytes, Any]:
        endpoint = await self._connector.access(self._model, self._call)
        secrets.append(endpoint.key)
        data = write(self._route.encode(self._model.id, texts, self._dimensions))
        url = endpoint.base + self._route.path(self._model.id)
        headers = dict(endpoint.headers)
        if endpoint.sign is not None:
            headers |= await endpoint.sign(url, headers, data)
        reply = await self._connector.transport.send("POST", url, headers, data)
        try:
            parts, length = [], 0
            while chunk := await reply.chunk():
                length += len(chunk)
                if length > _BODY_LIMIT:
                    raise TransportError(f"the answer has more than {_BODY_LIMIT:,} bytes; ask for fewer texts at once")
                parts.append(chunk)
        finally:
            reply.close()
        return reply.status, b"".join(parts), reply.headers

    def _read(self, target: Wire, body: bytes, number: int) -> tuple[list[tuple[float, ...]], int | None]:
        try:
            vectors, tokens = self._route.decode(read(body))
        except (FormatError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadWire(target.api, f"no vectors in the answer: {error!r}") from None
        # Vectors are paired with texts by their order: one too few would shift all that follow.
        if len(vectors) != number:
            raise BadWire(target.api, f"{len(vectors)} vectors for {number} texts")
        return [tuple(vector) for vector in vectors], tokens if isinstance(tokens, int) else None


def _texts(given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise FormatError("texts are strings; give a list of them, or one", "texts")
    if not texts:
        raise FormatError("nothing to embed, the list is empty", "texts")
    for at, text in enumerate(texts):
        if not text.strip():
            raise FormatError("an empty text has no vector; leave it out", f"texts[{at}]")
    return texts


def _offline(model: ModelDescriptor, texts: Sequence[str], dimensions: int | None) -> Embeddings:
    """Vectors of hashed tokens: enough for tests of search, without a network."""
    if model.id != EMBEDDING:
        raise InterlinguaError(f"{model.provider} has one model for embeddings, {EMBEDDING!r}, not {model.id!r}")
    vectors = tuple(_hashed(text, dimensions or _OFFLINE_SIZE) for text in texts)
    usage = Usage.of(sum(len(text.split()) for text in texts))
    return Embeddings(vectors=vectors, model=model.id, provider=model.provider, usage=usage)


def _hashed(text: str, size: int) -> tuple[float, ...]:
    vector = [0.0] * size
    for word in text.lower().split():
        digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
        vector[int.from_bytes(digest[:6], "little") % size] += 1.0 if digest[6] & 1 else -1.0
    length = math.sqrt(sum(one * one for one in vector)) or 1.0
    return tuple(one / length for one in vector)
