"""Routing: resolves names to targets in advance, and orders the targets of one conversation.

A `Place` has everything resolved that does not depend on a request: base URL, headers, key, the catalogue's facts. The
order of an alias's targets is a weighted hash of the conversation, so that a conversation stays where its prompt cache
is valid without any state (weighted rendezvous hashing).
"""

import asyncio
import fnmatch
import hashlib
import itertools
import math
import os
import random
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from ..connect.client import Client
from ..connect.connector import Connector, Endpoint, HttpConnector
from ..connect.debug import DebugConnector, names_file
from ..connect.models import Catalogue, own_notes, warm
from ..connect.names import known_name
from ..connect.registry import models_of
from ..connect.retry import Breaker, Retry
from ..connect.retry import CallTarget as BreakerTarget
from ..connect.stream import Alarms, Timeouts, parameters_of, quirks_of, unique_id
from ..conversion.adapting.adapter import RepeatedAdapter
from ..dialects import WIRES
from ..dialects.wire import Wire
from ..values.errors import AuthFailed, BadRequest, InterlinguaError, RateLimited, unknown
from ..values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    DocumentBlock,
    ImageBlock,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    text_of,
)
from ..values.regular import read_regular
from ..values.request import CallOptions, Context, ModelDescriptor, Request
from .exchange import ClientKey
from .settings import Alias, ProviderSettings, RoutingRule, Settings, Target

_LONGEST_WAIT = 10.0  # seconds that a client waits for another try at the same place
_REMEMBERED = 1000  # names without an alias whose places are kept
NO_CONVERSATION = Request(model=ModelDescriptor(id=""), context=Context(messages=()))  # of calls that have none


def secret(reference: str) -> str:
    """Returns the key of a reference."""
    kind, colon, name = reference.partition(":")
    if kind == "env" and colon:
        value = os.environ.get(name, "").strip()
        if not value:
            raise AuthFailed(f"the variable {name} is not set; set it, or change the reference in the settings")
        return value
    if kind == "file" and colon:
        try:
            return read_regular(name).decode().strip()
        except OSError as error:
            raise AuthFailed(f"the key file {name} cannot be read: {error.strerror}; check the settings") from None
    return reference


class Slots:
    """At most `limit` concurrent calls, first come first served; at most `queue` wait."""

    def __init__(self, provider: str, limit: int, queue: int, wait: float) -> None:
        self._provider = provider
        self._free = limit
        self._queue = queue
        self._wait = wait
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Waits for a slot. A full queue or a timeout raises `RateLimited`."""
        if self._free > 0:
            self._free -= 1
            return
        # Refused at once: a client that waits longer than its own timeout would only add to the load.
        if len(self._waiting) >= self._queue:
            raise RateLimited(
                f"too many calls wait for {self._provider}; retry later", status=429, code="queue_full", retry_after=1.0
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await asyncio.wait_for(turn, self._wait)
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give()  # the turn came while this call was leaving: it is the next one's
            elif turn in self._waiting:
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                raise RateLimited(
                    f"no turn at {self._provider} within {self._wait:g} s; retry later",
                    status=429,
                    code="queue_timeout",
                    retry_after=1.0,
                ) from None
            raise

    def give(self) -> None:
        """Releases a slot: the next in the queue gets it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Place:
    """One model at one provider, ready to be called. `wire` is None for a connector of this process (`debug/…`)."""

    def __init__(
        self,
        connector: Connector,
        model: ModelDescriptor,
        options: Sequence[CallOptions],
        endpoints: Sequence[Endpoint],
        *,
        slots: Slots | None = None,
        timeouts: Timeouts | None = None,
        weight: float = 1.0,
    ) -> None:
        self.connector = connector
        self.model = model
        self.wire: Wire | None = WIRES[model.api] if isinstance(connector, HttpConnector) else None
        self.slots = slots
        self.timeouts = timeouts or Timeouts()
        self.alarms = Alarms()
        self.weight = weight
        self.name = f"{model.provider}/{model.id}"
        self.adapt = RepeatedAdapter(model)
        self.decode = _decoding(self.wire, model) if self.wire is not None else None
        # Hosts with quirks may count their tokens in another way.
        is_usual = self.wire is not None and quirks_of(self.wire, model) is None
        self.text_answer = self.wire.text_answer if self.wire is not None and is_usual else None
        self._access: list[tuple[CallOptions, Endpoint | None]] = [
            (one, endpoints[at] if endpoints else None) for at, one in enumerate(options)
        ]
        self._turns = itertools.count()
        address = endpoints[0].base if endpoints else connector.id
        self.target = BreakerTarget(model.provider, model.id, address)
        self.secrets = [endpoint.key for endpoint in endpoints if endpoint.key]

    def access(self) -> tuple[CallOptions, Endpoint | None]:
        """Returns the options and the endpoint of the next call: keys rotate."""
        if len(self._access) == 1:
            return self._access[0]
        return self._access[next(self._turns) % len(self._access)]

    @property
    def keys(self) -> int:
        return len(self._access)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Acquires a slot at the provider."""
        if self.slots is None:
            yield
            return
        await self.slots.take()
        try:
            yield
        finally:
            self.slots.give()

    def __repr__(self) -> str:
        return f"Place({self.name})"


def _decoding(wire: Wire, model: ModelDescriptor) -> Callable[..., AssistantMessage]:
    """What decodes a whole answer of a model; takes the body and the time in milliseconds."""
    decode = wire.codec.decode_response
    takes = parameters_of(getattr(decode, "func", decode))
    known = {"model": model.id, "provider": model.provider, "mint": unique_id, "quirks": quirks_of(wire, model)}
    given = {name: value for name, value in known.items() if value is not None and name in takes}
    if "timestamp" in takes:
        return lambda body, timestamp: decode(body, timestamp=timestamp, **given)
    return lambda body, timestamp: decode(body, **given)


class Plan:
    """The candidates for one request, in order, and the alias's handling of failures."""

    __slots__ = ("continues", "places", "retry")

    def __init__(self, places: Sequence[Place], retries: int = 1, continues: bool = False) -> None:
        self.places = places
        self.retry = Retry(attempts=retries + 1, longest=_LONGEST_WAIT)
        self.continues = continues  # another candidate may continue a truncated response


class _Named:
    """An alias with its places."""

    def __init__(self, alias: Alias, targets: Sequence[Place], fallbacks: Sequence[Place]) -> None:
        self.alias = alias
        self.targets = targets
        self.fallbacks = fallbacks
        self.only = Plan((*targets, *fallbacks), alias.retries, alias.continues) if len(targets) == 1 else None

    def plan(self, conversation: bytes | None) -> Plan:
        if self.only is not None:
            return self.only
        ranked = sorted(self.targets, key=lambda place: _rank(place, conversation))
        places = (*(place for place in ranked if place.weight > 0), *self.fallbacks)
        return Plan(places, self.alias.retries, self.alias.continues)


def _rank(place: Place, conversation: bytes | None) -> float:
    """Lowest first, with a probability proportional to the weight; deterministic for one conversation."""
    if conversation is None:
        chance = random.random()
    else:
        digest = hashlib.blake2b(conversation + place.name.encode() + repr(place.target).encode(), digest_size=8)
        chance = int.from_bytes(digest.digest()) / 2.0**64
    # Weighted rendezvous hashing, "Schindelhauer and Schomaker, Weighted Distributed Hash Tables": when a target is
    # added or removed, only its own share of the conversations moves.
    return -math.log(chance or 5e-324) / place.weight if place.weight > 0 else math.inf


class Router:
    """Maps names to plans. Rebuilt when the settings change; active calls keep the old one."""

    def __init__(self, settings: Settings, client: Client, breaker: Breaker) -> None:
        self._settings = settings
        self._client = client
        self.breaker = breaker
        self._providers = {one.id: one for one in settings.providers}
        self._slots: dict[str, Slots] = {}
        self._aliases: dict[str, _Named] = {}
        self._open: OrderedDict[str, Plan] = OrderedDict()
        self._ruled: dict[str, Plan] = {}  # models without an alias to which rules lead
        self.catalogue: Catalogue | None = None

    async def resolve(self) -> None:
        """Resolves every target of every alias. An error is raised with the target's name."""
        self.catalogue = await warm()
        for alias in self._settings.aliases:
            if alias.name in self._aliases:
                raise InterlinguaError(f"duplicate alias {alias.name!r}; rename one")
            try:
                targets = [await self._place(target) for target in alias.targets]
                fallbacks = [await self._place(target) for target in alias.fallbacks]
            except InterlinguaError as error:
                raise InterlinguaError(f"the alias {alias.name!r}: {error}") from error
            self._aliases[alias.name] = _Named(alias, targets, fallbacks)
        for own in self._settings.providers:
            self._check_provider(own)
        for number, rule in enumerate(self._settings.rules, 1):
            if rule.to in self._aliases or rule.to in self._ruled:
                continue
            try:
                self._ruled[rule.to] = Plan((await self._place(Target(model=self._full_name(rule.to))),))
            except InterlinguaError as error:
                raise InterlinguaError(f"rule {number}, `to = {rule.to!r}`: {error}") from error

    def _check_provider(self, own: ProviderSettings) -> None:
        """Refuses settings of a provider that nothing could use, so that a misspelt name is noticed."""
        if own.api is not None and own.api not in WIRES:
            raise InterlinguaError(f"the provider {own.id!r}: {unknown('api', own.api, WIRES)}")
        if own.api is None and self._client.connectors.get_by_provider(own.id) is None:
            known = {one.provider for one in self._client.connectors}
            listed = "one that is not built in needs `api` and `base_url`"
            raise InterlinguaError(unknown("provider", own.id, known, listed=listed))

    def names(self, key: ClientKey) -> list[str]:
        """Returns the models that a key may use: aliases, those of `models.toml` too, and models of providers with a
        key.
        """
        names = list(self._aliases)
        if self._settings.open_models:
            own = own_notes().aliases.items()
            names += [name for name, to in own if name not in self._aliases and self._is_keyed(to.partition("/")[0])]
            names += self._discovered()
        return [name for name in names if key.allows(name)]

    def _discovered(self) -> list[str]:
        found = []
        for connector in self._client.connectors:
            if isinstance(connector, HttpConnector) and not self._has_key(connector):
                continue
            found += [f"{connector.provider}/{model.id}" for model in models_of(connector)]
        return found

    def _has_key(self, connector: HttpConnector) -> bool:
        own = self._providers.get(connector.provider)
        return bool(own and own.api_keys) or any(os.environ.get(name, "").strip() for name in connector.env_vars)

    async def plan(self, asked: str, key: ClientKey, request: Request, headers: Mapping[str, str], size: int) -> Plan:
        """Returns the targets of a request, in order."""
        if not key.allows(asked):
            # 403 only for names that exist: a client learns nothing about others.
            raise _unknown(asked, 403 if self._is_known(asked) else 404)
        name = asked
        for rule in self._settings.rules:
            if _matches(rule, asked, key, request, headers, size):
                name = rule.to
                break
        named = self._aliases.get(name)
        if named is not None:
            conversation = conversation_of(request, key) if named.only is None and named.alias.sticky else None
            return named.plan(conversation)
        found = self._open.get(name) if name is asked else self._ruled.get(name)
        if found is None:
            if not self._settings.open_models:
                raise _unknown(asked, 404)
            found = Plan((await self._place(Target(model=self._full_name(name)), asked=name),))
            # Bounded, since names come from clients; the oldest is resolved again when it returns.
            self._open[name] = found
            if len(self._open) > _REMEMBERED:
                self._open.popitem(last=False)
        return found

    def _is_known(self, name: str) -> bool:
        return name in self._aliases or (self._settings.open_models and "/" in name)

    def _full_name(self, name: str) -> str:
        """Returns `provider/model` for a bare name: of the providers that serve it, the first with a key."""
        if name.partition("/")[0] in self._providers or name in own_notes().aliases:
            return name
        assert self.catalogue is not None
        try:
            found = known_name(name, self._client.connectors, catalogue=self.catalogue, has_key=self._is_keyed)
        except InterlinguaError:
            raise _unknown(name, 404) from None
        if found is None or (found != name and not self._is_keyed(found.partition("/")[0])):
            raise _unknown(name, 404)
        return found

    def _is_keyed(self, provider: str) -> bool:
        connector = self._client.connectors.get_by_provider(provider)
        return not isinstance(connector, HttpConnector) or self._has_key(connector)

    async def _place(self, target: Target, asked: str | None = None) -> Place:
        given = target.model
        provider = given.provider if isinstance(given, ModelDescriptor) else given.partition("/")[0]
        own = self._providers.get(provider) or ProviderSettings(id=provider)
        try:
            assert self.catalogue is not None
            connector, model = self._client.find_known(self._described(given, own), self.catalogue)
        except InterlinguaError as error:
            raise _unknown(asked, 404) if asked is not None else InterlinguaError(f"{provider}: {error}") from None
        if asked is not None and isinstance(connector, DebugConnector) and names_file(model.id):
            raise _unknown(asked, 404)  # a client must not choose which files are read
        changes: dict[str, Any] = {}
        if target.context_window is not None:
            changes["context_window"] = target.context_window
        model = replace(model, **changes) if changes else model
        references = target.api_keys or own.api_keys
        base = CallOptions(
            base_url=target.base_url or own.base_url,
            headers={**own.headers, **target.headers} or None,
            settings={**own.settings, **target.settings} or None,
        )
        options = [replace(base, api_key=secret(one)) for one in references] or [base]
        endpoints = []
        if isinstance(connector, HttpConnector):
            endpoints = [await connector.access(model, one) for one in options]
        return Place(
            connector,
            model,
            options,
            endpoints,
            slots=self._slots_of(own),
            timeouts=own.timeouts or self._settings.timeouts,
            weight=target.weight,
        )

    def _described(self, given: str | ModelDescriptor, own: ProviderSettings) -> str | ModelDescriptor:
        """Returns a descriptor for a model of a provider that only the settings have; others unchanged."""
        if isinstance(given, ModelDescriptor) or own.api is None:
            return given
        return ModelDescriptor(id=given.partition("/")[2], provider=own.id, api=own.api, base_url=own.base_url)

    def _slots_of(self, own: ProviderSettings) -> Slots | None:
        if own.concurrency is None:
            return None
        if own.id not in self._slots:
            self._slots[own.id] = Slots(own.id, own.concurrency, own.queue, self._settings.wait)
        return self._slots[own.id]


def _unknown(model: str, status: int) -> BadRequest | AuthFailed:
    if status == 403:
        return AuthFailed(f"this key may not use the model {model!r}; ask for one of its models", status=403)
    return BadRequest(
        f"the model {model!r} does not exist; list the models, or write provider/model",
        status=404,
        code="model_not_found",
    )


def conversation_of(request: Request, key: ClientKey) -> bytes:
    """Returns what identifies a conversation across turns: its session id, else its beginning."""
    digest = hashlib.blake2b(key.name.encode(), digest_size=16)
    session = request.options.session_id
    if session:
        digest.update(session.encode("utf-8", "replace"))
        return digest.digest()
    digest.update(request.context.system_prompt.encode("utf-8", "replace"))
    first = next((m for m in request.context.messages if isinstance(m, UserMessage)), None)
    if first is not None:
        digest.update(b"\0" + text_of(first.content).encode("utf-8", "replace"))
    return digest.digest()


def _matches(
    rule: RoutingRule, asked: str, key: ClientKey, request: Request, headers: Mapping[str, str], size: int
) -> bool:
    if rule.model is not None and not fnmatch.fnmatchcase(asked, rule.model):
        return False
    if rule.key is not None and not fnmatch.fnmatchcase(key.name, rule.key):
        return False
    if any(not fnmatch.fnmatchcase(headers.get(name, ""), pattern) for name, pattern in rule.header.items()):
        return False
    if rule.above_tokens is not None and size <= rule.above_tokens:
        return False
    return all(_needs(need, request) for need in rule.needs)


_MEDIA: dict[str, type[Block]] = {"images": ImageBlock, "documents": DocumentBlock, "audio": AudioBlock}


def _needs(capability: str, request: Request) -> bool:
    if capability == "tools":
        return bool(request.context.tools)
    if capability == "thinking":
        thinking = request.options.reasoning
        return thinking is not None and thinking.enabled is not False
    if capability == "structured":
        return request.options.output_schema is not None
    kind = _MEDIA[capability]
    return any(
        isinstance(block, kind)
        for message in request.context.messages
        if isinstance(message, UserMessage | ToolResultMessage)
        for block in blocks_of(message.content)
    )
