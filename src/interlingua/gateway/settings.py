"""A gateway's settings: aliases, providers, limits. Values only; nothing is resolved here.

A client requests a model by the name of an alias, or as `provider/model` if `open_models` allows it. An alias selects
one of its targets, by weight, and then its fallbacks. Keys are references, so that settings hold no secret: `env:NAME`,
`file:PATH`, or from code only the key itself.
"""

from math import isfinite
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ..connect.stream import Timeouts
from ..values.errors import FormatError
from ..values.request import ModelDescriptor

Capability: TypeAlias = Literal["images", "documents", "audio", "tools", "thinking", "structured"]

# Values that have no meaning are refused when a file is read.
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]


class _Setting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown names are refused, so that typos are noticed."""


class Target(_Setting, frozen=True, kw_only=True):
    """A target that serves a model: `provider/model`, or its descriptor. Its fields override the provider's
    settings.
    """

    model: str | ModelDescriptor
    weight: float = 1.0
    api_keys: tuple[str, ...] = ()  # references; used in turn
    base_url: str | None = None
    headers: dict[str, str] = {}
    settings: dict[str, str] = {}  # blanks of the provider's address: region, project …
    context_window: Positive | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.weight) and self.weight >= 0):
            raise FormatError(f"a weight must not be negative or infinite, got {self.weight}", "weight")


class Alias(_Setting, frozen=True, kw_only=True):
    """A name for models: one of `targets` by weight, the others and then `fallbacks` in order if it fails.

    `retries` is the number of retries per target. `sticky` keeps a conversation at its previous target, so that its
    prompt cache stays valid. A stream that breaks after the client has seen content ends in the client's error event;
    with `continues` the next target gets the partial response and continues it.
    """

    name: str
    targets: tuple[Target, ...]
    fallbacks: tuple[Target, ...] = ()
    retries: Count = 1
    sticky: bool = True
    continues: bool = False

    def __post_init__(self) -> None:
        if not self.targets:
            raise FormatError(f"the alias {self.name!r} has no targets; name at least one model", "targets")


class RoutingRule(_Setting, frozen=True, kw_only=True):
    """Routes a request to another alias (or `provider/model`) if all conditions hold. The first match applies.
    Patterns are shell patterns (`*`).
    """

    to: str
    model: str | None = None
    key: str | None = None
    header: dict[str, str] = {}  # name to pattern
    above_tokens: Count | None = None  # of the input, estimated
    needs: tuple[Capability, ...] = ()


class ProviderSettings(_Setting, frozen=True, kw_only=True):
    """How one provider is called. An unknown provider needs `api` and `base_url`."""

    id: str
    api: str | None = None
    base_url: str | None = None
    api_keys: tuple[str, ...] = ()  # references; used in turn
    headers: dict[str, str] = {}
    settings: dict[str, str] = {}
    concurrency: Positive | None = None  # calls at a time; the others wait
    queue: Count = 100  # calls that may wait; one more is refused with 429
    timeouts: Timeouts | None = None


class ClientLimits(_Setting, frozen=True, kw_only=True):
    """Limits for clients. Sizes are bytes, times seconds."""

    body: Positive = 64 * 1024 * 1024
    header: Annotated[int, Meta(ge=1024)] = 32 * 1024
    body_timeout: Seconds = 60.0
    send_timeout: Seconds = 120.0  # until a client takes what was sent to it
    connections: Positive = 10_000
    total: Seconds | None = None  # of one exchange, from its first byte to its last


class Listen(_Setting, frozen=True, kw_only=True):
    """Where the gateway listens: an address, or the path of a Unix socket. TLS from two files."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8321  # 0: any that is free
    unix: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    reuse_port: bool = False  # several workers listen on one port

    def __post_init__(self) -> None:
        if self.tls_key is not None and self.tls_cert is None:
            raise FormatError("a TLS key without its certificate; set `tls_cert`, too", "tls_key")


class Settings(_Setting, frozen=True, kw_only=True):
    """All settings. `discover`: without aliases, every model with a key, and always the `debug/…` models."""

    aliases: tuple[Alias, ...] = ()
    rules: tuple[RoutingRule, ...] = ()
    providers: tuple[ProviderSettings, ...] = ()
    open_models: bool = True  # `provider/model` is accepted without an alias
    listen: Listen = Listen()
    limits: ClientLimits = ClientLimits()
    timeouts: Timeouts = Timeouts()
    keep_alive: Seconds | None = 15.0  # seconds of silence after which a stream gets a sign of life; None: never
    recall_bytes: Count = 64 * 1024 * 1024  # of answers that are kept to be put back; 0: none
    wait: Annotated[float, Meta(ge=0)] = 30.0  # seconds that a call may wait for its turn at a provider
