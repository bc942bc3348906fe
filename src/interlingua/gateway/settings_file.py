"""The settings of a gateway in one TOML file: unknown settings are errors, and keys are given only by reference.

Providers and aliases of `models.toml` are known to the gateway without being repeated here. Each part is optional:

    open_models = true              # `provider/model` without an alias

    [listen]                        # host, port, unix, tls_cert, tls_key
    [limits]                        # body, header, body_timeout, send_timeout, connections, total
    [timeouts]                      # first, idle
    [state]                         # limits, ledger: sqlite:FILE, redis://…, postgresql://…, env:NAME
    [recording]                     # enabled, home, store, sample, redact, patterns
    [log]                           # access, metrics_token

    [providers.anthropic]
    api_keys = ["env:ANTHROPIC_API_KEY", "env:ANTHROPIC_API_KEY_2"]
    concurrency = 20

    [aliases]
    fast = "groq/llama-3.3-70b-versatile"

    [aliases.best]
    targets = ["anthropic/claude-opus-4-6", { model = "openai/gpt-5.2", weight = 2 }]
    fallbacks = ["google/gemini-3-pro-preview"]

    [[rules]]
    model = "best"
    above_tokens = 150_000
    to = "google/gemini-3-pro-preview"
"""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from ..connect.stream import Timeouts
from ..connect.tables import Mistake, convert, read_tables, refuse_unknown, table
from ..values.errors import FormatError
from .settings import Alias, ClientLimits, Listen, ProviderSettings, RoutingRule, Settings, Target

# Keys are given as references only: in a header, they would stand in the file.
KEY_HEADERS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key", "proxy-authorization", "cookie"})

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token (RFC 9110, 5.6.2)


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class StateSettings(_Part, frozen=True, kw_only=True):
    """Where limits and the ledger are stored; by default in `gateway/gateway.db` of the home folder.

    `recall` is the store of restorable responses: by default with the limits, if those were set; with several workers
    in `gateway/recall.db`; else in memory.
    """

    limits: str | None = None
    ledger: str | None = None
    recall: str | None = None
    keys: str | None = None  # the file of the clients' keys


class RecordingSettings(_Part, frozen=True, kw_only=True):
    """Whether traffic is recorded as sessions, where, how much of it, and what is redacted.

    `redact`: `secrets` are keys, tokens and passwords; `private` also addresses, numbers and home folder names.
    `patterns` are your own regular expressions.
    """

    enabled: bool = False
    home: str | None = None
    store: str | None = None
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0
    redact: Literal["none", "secrets", "private"] = "secrets"
    patterns: tuple[str, ...] = ()


class LogSettings(_Part, frozen=True, kw_only=True):
    """`access`: one JSON line per request, to standard error (`-`), to a file, or not at all (an empty text).

    `metrics_token` (`env:NAME`) is required for `/metrics`; without one, only this machine can read it. `telemetry`:
    OpenTelemetry spans and metrics, with the providers of the process.
    """

    access: str = ""
    metrics_token: str | None = None
    telemetry: bool = False


class ServeSettings(Struct, frozen=True, kw_only=True):
    """All settings of the file."""

    gateway: Settings = Settings()
    state: StateSettings = StateSettings()
    recording: RecordingSettings = RecordingSettings()
    log: LogSettings = LogSettings()


_PARTS = {"state": StateSettings, "recording": RecordingSettings, "log": LogSettings}
_TABLES = {"listen": Listen, "limits": ClientLimits, "timeouts": Timeouts}
_PLAIN = ("open_models", "keep_alive", "recall_bytes", "wait")
_KNOWN = (*_TABLES, *_PARTS, "providers", "aliases", "rules", *_PLAIN)


def load_settings(path: Path | str) -> ServeSettings:
    """Loads the settings in a file. Raises `FormatError` with the line, the key and a suggestion."""
    place = Path(path).expanduser()
    found = read_tables(place, _read)
    if found is None:
        raise FormatError(f"{place}: no such file; create it, or leave out --config")
    return found


def _read(given: dict[str, Any]) -> ServeSettings:
    refuse_unknown(given, _KNOWN, "$")
    parts = {name: convert(given.get(name, {}), kind, f"$.{name}") for name, kind in _PARTS.items()}
    gateway: dict[str, Any] = {
        name: convert(given[name], kind, f"$.{name}") for name, kind in _TABLES.items() if name in given
    }
    gateway |= {name: given[name] for name in _PLAIN if name in given}
    providers = table(given.get("providers", {}), "$.providers")
    gateway["providers"] = tuple(_provider(name, value) for name, value in providers.items())
    gateway["aliases"] = tuple(
        _alias(name, value) for name, value in table(given.get("aliases", {}), "$.aliases").items()
    )
    rules = convert(given.get("rules", []), list[Any], "$.rules")
    gateway["rules"] = tuple(convert(rule, RoutingRule, f"$.rules[{at}]") for at, rule in enumerate(rules))
    _check_patterns(parts["recording"])
    if not (parts["log"].metrics_token or "env:").startswith("env:"):
        raise Mistake("tokens are not written into the file; refer to one: `env:NAME`", "$.log.metrics_token")
    return ServeSettings(gateway=convert(gateway, Settings, "$"), **parts)


def _provider(name: str, given: Any) -> ProviderSettings:
    path = f"$.providers.{name}"
    given = dict(table(given, path))
    if "timeouts" in given:
        given["timeouts"] = convert(given["timeouts"], Timeouts, f"{path}.timeouts")
    if "id" in given:
        raise Mistake("unknown key `id`; the table's own name is the provider's", path)
    made: ProviderSettings = convert({"id": name, **given}, ProviderSettings, path)
    _check_place(made.api_keys, made.headers, made.base_url, path)
    return made


def _alias(name: str, given: Any) -> Alias:
    path = f"$.aliases.{name}"
    if isinstance(given, str):
        given = {"targets": [given]}
    given = dict(table(given, path))
    if "name" in given:
        raise Mistake("unknown key `name`; the table's own name is the alias's", path)
    for part in ("targets", "fallbacks"):
        if part in given:
            one = f"{path}.{part}"
            given[part] = tuple(_target(t, f"{one}[{at}]") for at, t in enumerate(convert(given[part], list[Any], one)))
    if not given.get("targets"):
        raise Mistake("an alias needs `targets`, at least one `provider/model`", path)
    made: Alias = convert({"name": name, **given}, Alias, path)
    return made


def _target(given: Any, path: str) -> Target:
    given = {"model": given} if isinstance(given, str) else table(given, path)
    made: Target = convert(given, Target, path)
    if isinstance(made.model, str) and "/" not in made.model:
        raise Mistake(f"a target is `provider/model`, not `{made.model}`", path)
    _check_place(made.api_keys, made.headers, made.base_url, path)
    return made


def _check_place(api_keys: tuple[str, ...], headers: dict[str, str], base_url: str | None, path: str) -> None:
    for reference in api_keys:
        if not reference.startswith(("env:", "file:")):  # the value is not shown: it may be a key
            raise Mistake(
                "keys are not written into the file; refer to one: `env:NAME` or `file:PATH`", f"{path}.api_keys"
            )
    for name, value in headers.items():
        if name.lower() in KEY_HEADERS:
            raise Mistake(f"`{name}` may hold a key; refer to it under `api_keys`", f"{path}.headers")
        if not _HEADER.fullmatch(name) or any(ord(c) < 32 or ord(c) == 127 for c in value):
            raise Mistake(f"{name!r} is not a header; write a name without blanks, in one line", f"{path}.headers")
    if base_url is not None:
        _check_url(base_url, f"{path}.base_url")


def _check_url(given: str, path: str) -> None:
    try:
        parts = urlsplit(given)
        is_plain = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        is_plain = is_plain and (parts.port or 1) > 0
    except ValueError:
        is_plain = False
    if not is_plain or any(ord(c) <= 32 or c in '\\"<>' for c in given):
        raise Mistake("not an address of a server; write `https://host/path`, without a user or password", path)


def _check_patterns(recording: RecordingSettings) -> None:
    for at, pattern in enumerate(recording.patterns):
        try:
            re.compile(pattern)
        except re.error as error:
            raise Mistake(f"not a regular expression: {error}", f"$.recording.patterns[{at}]") from None


def resolved_address(address: str) -> str:
    """Returns an address, or the value of its variable (`env:REDIS_URL`)."""
    kind, _, name = address.partition(":")
    if kind != "env":
        return address
    found = os.environ.get(name, "").strip()
    if not found:
        raise FormatError(f"the variable {name} is not set; set it, or change the address in the settings")
    return found
