"""Resolves model names to `provider/id`.

`provider/id` and the aliases of `models.toml` are exact. A bare name is looked up in the catalogue:

1. an id that a provider lists (`claude-sonnet-4-5`), also in another provider's spelling (`claude-sonnet-4.5`); one
   without a version (`gemini-pro`) is its family if the provider has newer models of it;
2. a family (`sonnet`, `gpt-mini`, `flash`; with the start of a version: `opus-4`): its newest model;
3. a family of which this version is not listed yet (`claude-sonnet-99`): the id unchanged.

Of several providers the one with a key is used, of those the model's maker, then the order of the provider table.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..dialects.registry import wire
from ..values.errors import InterlinguaError, nearest, unknown
from . import models as catalogues
from .connector import HttpConnector
from .debug import EMBEDDING
from .models import Catalogue, own_notes
from .registry import ConnectorRegistry, models_of

OFFLINE = "debug"  # the offline provider, whose models other connectors repeat
# What providers are called besides, before a slash; a connector of that name counts first.
PROVIDER_ALIASES = {"bedrock": "amazon-bedrock", "gemini": "google", "vertex": "google-vertex"}
HasKey = Callable[[str], bool]

# Words of ids of unfinished models, and of those that do not chat.
_PREVIEWS = frozenset({"preview", "exp", "experimental", "beta"})
_NOT_CHAT = frozenset(
    (
        *("ada", "babbage", "curie", "davinci", "audio", "banana", "embed", "embedding", "embeddings", "ft", "guard"),
        *(
            "image",
            "imagen",
            "live",
            "moderation",
            "ocr",
            "omni",
            "realtime",
            "rerank",
            "robotics",
            "safeguard",
            "sora",
        ),
        *("speech", "transcribe", "translate", "tts", "veo", "video", "voice", "whisper"),
    )
)


class Spelling(NamedTuple):
    """A parsed id: `claude-3-5-sonnet-20241022` has the parts claude and sonnet, and the version 3.5."""

    parts: tuple[str, ...]
    version: tuple[float, ...]
    is_preview: bool
    date: str

    @classmethod
    @functools.lru_cache(maxsize=8192)
    def of(cls, id: str) -> "Spelling":
        """Parses an id: the part after its maker (`anthropic/…`, `us.anthropic.…`), without Bedrock's `-v1:0`."""
        text = re.sub(r"-v\d+(:\d+)?$", "", re.split(r"[/.](?=[a-z])", id.lower())[-1])
        parts: list[str] = []
        version: list[float] = []
        date = ""
        for token in _TOKENS.findall(text):
            if _DATE.fullmatch(token):
                date = token.replace("-", "")
            elif token.isdecimal():
                # The parts after the first are decimals: grok-4.20 is older than grok-4.3.
                version.append(float(f"0.{token}") if version else float(token))
            elif not (token in _VERSION_MARKS and parts):
                parts.append(token)
        named = tuple(word for word in parts if word not in _PREVIEWS and word != "latest")
        return cls(named, tuple(version), not _PREVIEWS.isdisjoint(parts), date)

    def has_version(self, start: tuple[float, ...]) -> bool:
        return self.version[: len(start)] == start

    def same_model(self, other: "Spelling") -> bool:
        """Whether this is `other` in another spelling; a date counts if `other` has one."""
        mine, others = (self.parts, self.version, self.is_preview), (other.parts, other.version, other.is_preview)
        return mine == others and other.date in ("", self.date)


# A date is 20241022, 2024-10-22, or year and month or month and day, as in 2512 and 0613; a size (70b, 8x7b) is a word.
_DATE = re.compile(r"20\d{6}|20\d\d-\d\d-\d\d|\d{4}")
_TOKENS = re.compile(r"20\d{6}|20\d\d-\d\d-\d\d|(?<![\d.])\d{4}(?![\d.])|\d+(?:x\d+)?[bkm]\b|[kmv](?=\d)|\d+|[a-z]+")
_VERSION_MARKS = ("k", "m", "v")  # kimi-k3, minimax-m2, deepseek-v4


def is_chat(id: str) -> bool:
    """Whether an id may be a chat model, by its parts."""
    return not _NOT_CHAT & set(Spelling.of(id).parts)


def full_name(
    name: str, connectors: ConnectorRegistry, *, catalogue: Catalogue | None = None, has_key: HasKey | None = None
) -> str:
    """Returns the `provider/id` of a name. Raises `InterlinguaError` with suggestions if there is none."""
    found = known_name(name, connectors, catalogue=catalogue, has_key=has_key)
    if found is None:
        name = own_notes().aliases.get(name, name)
        raise InterlinguaError(_unknown(name, connectors, _Lookup(connectors, catalogue or catalogues.default())))
    return found


def known_name(
    name: str, connectors: ConnectorRegistry, *, catalogue: Catalogue | None = None, has_key: HasKey | None = None
) -> str | None:
    """Returns the `provider/id` of a name, or None. Suggestions would take longer than the look-up."""
    name = own_notes().aliases.get(name, name)
    provider, slash, id = name.partition("/")
    if slash and id:
        for known in (provider, PROVIDER_ALIASES.get(provider)):
            if known is not None and connectors.get_by_provider(known) is not None:
                return f"{known}/{id}"
    lookup = _Lookup(connectors, catalogue or catalogues.default())  # which an exact name does not need
    has_key = has_key or _has_key
    found = lookup.current(name, has_key) or lookup.newest(name, has_key) or lookup.unlisted(name)
    return _chosen(name, found, has_key).name if found else None


def embedding_name(name: str, connectors: ConnectorRegistry, *, has_key: HasKey | None = None) -> str:
    """Returns the `provider/id` of an embedding model's name: a listed id, or Ollama's `name:tag`.

    There are no families here: vectors of two versions of a model cannot be compared.
    """
    name = own_notes().aliases.get(name, name)
    if "/" in name:
        return full_name(name, connectors)
    lookup = _Lookup(connectors, catalogues.default())
    found = lookup.embedding(name) or lookup.tagged(name)
    if not found:
        near = nearest(name, {one.id for one in lookup.embeddings()})
        meant = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise InterlinguaError(f"unknown embedding model {name!r}; {meant}write provider/model for an unlisted one")
    return _chosen(name, found, has_key or _has_key).name


class _Found(NamedTuple):
    provider: str
    id: str
    is_maker: bool

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.id}"


class _Lookup:
    """The models of every connector, and the candidates of a name."""

    def __init__(self, connectors: ConnectorRegistry, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        found = (connectors.get_by_provider(provider) for provider in connectors.list_providers())
        self._connectors = [connector for connector in found if connector is not None]

    @functools.cached_property
    def _ids(self) -> list[tuple[_Found, bool]]:
        """Every listed model, and whether it is deprecated."""
        found = []
        for connector in self._connectors:
            if isinstance(connector, HttpConnector):
                row = connector.row
                found += [(_Found(row.id, id, row.maker), old) for id, old in self._catalogue.listed(row.id)]
            else:
                is_maker = connector.provider == OFFLINE
                found += [(_Found(connector.provider, one.id, is_maker), False) for one in models_of(connector)]
        return found

    def names(self) -> Iterator[str]:
        return (found.id for found, _ in self._ids)

    def listed(self, name: str) -> list[_Found]:
        """Returns the model of this id at each provider: exact, in the provider's spelling, or with a date."""
        asked, is_plain = Spelling.of(name), _is_plain(name)
        exact: dict[str, _Found] = {}
        respelled: dict[str, _Found] = {}
        for found, _ in self._ids:
            if found.id == name:
                exact[found.provider] = found
            elif is_plain and asked.version and Spelling.of(found.id).same_model(asked):
                respelled.setdefault(found.provider, found)
        # Rules of price lists match ids loosely; what a maker's own match, the maker takes. Google's match Claude's
        # anywhere in an id: what is before a slash is a provider, and may be misspelled.
        makers = [one for one in self._connectors if isinstance(one, HttpConnector) and one.row.maker]
        dated = {
            one.provider: _Found(one.provider, name, True)
            for one in makers
            if "/" not in name.removeprefix("models/") and self._catalogue.serves(one.provider, name)
        }
        return list({**dated, **respelled, **exact}.values())

    def current(self, name: str, has_key: HasKey) -> list[_Found]:
        """The listed models of this id. One without a version or date is that of years ago (Google's `gemini-pro`, of
        2023) where the provider has versions of the same parts: then their newest."""
        listed, asked = self.listed(name), Spelling.of(name)
        if not listed or asked.version or asked.date or name.lower().endswith("latest"):
            return listed
        family = {one.provider: one for one in self.newest(name, has_key) if Spelling.of(one.id).parts == asked.parts}
        return [family.get(one.provider, one) for one in listed]

    def newest(self, name: str, has_key: HasKey) -> list[_Found]:
        """Returns the newest model of this family at each provider. The brand, its first word, may be omitted."""
        asked = Spelling.of(name)
        if not _is_plain(name) or len("".join(asked.parts)) < 2:
            return []
        models = [
            (found, spelling, deprecated)
            for found, deprecated in self._ids
            if (spelling := Spelling.of(found.id)).version and spelling.has_version(asked.version) and is_chat(found.id)
        ]
        parts = asked.parts
        if not any(spelling.parts == parts for _, spelling, _ in models):
            makers = _newest([one for one in models if one[0].is_maker and one[1].parts[1:] == parts])
            if not makers:
                return []
            maker = _chosen(name, makers, has_key)
            parts = Spelling.of(maker.id).parts
        current = max((one[1].version[0] for one in models if one[1].parts[:1] == parts[:1]), default=0)
        family = [one for one in models if one[1].parts == parts]
        # `claude` alone is a family too, but the models of that name are generations old.
        return _newest([one for one in family if asked.version or one[1].version[0] >= current - 1])

    def unlisted(self, name: str) -> list[_Found]:
        """An id whose parts a maker uses, with a version that is not listed; a fine-tuned one; Ollama's `name:tag`."""
        if name.startswith("ft:"):  # platform.openai.com/docs/guides/supervised-fine-tuning: ft:MODEL:ORGANIZATION::ID
            return self._at("openai", name)
        if tagged := self.tagged(name):
            return tagged
        asked = Spelling.of(name)
        if not _is_plain(name):
            return []
        makers = (one.provider for one, _ in self._ids if one.is_maker and Spelling.of(one.id).parts == asked.parts)
        return [_Found(maker, name, True) for maker in dict.fromkeys(makers)] if asked.version and asked.parts else []

    def tagged(self, name: str) -> list[_Found]:
        """A model of Ollama with its tag."""
        return self._at("ollama", name) if re.fullmatch(r"[\w.-]+:[\w.-]+", name) else []

    def embeddings(self) -> Iterator[_Found]:
        """Every listed model that makes vectors."""
        for connector in self._connectors:
            if isinstance(connector, HttpConnector):
                ids = self._catalogue.embeddings(connector.provider)
                yield from (_Found(connector.provider, id, connector.row.maker) for id in ids if _embeds(connector, id))
            elif connector.provider == OFFLINE:
                yield _Found(OFFLINE, EMBEDDING, True)

    def embedding(self, name: str) -> list[_Found]:
        """The model that makes vectors and has this id, or this further id on a price list, at each provider."""
        further = (
            _Found(one.provider, name, one.row.maker)
            for one in self._connectors
            if isinstance(one, HttpConnector)
            and self._catalogue.makes_vectors(one.provider, name)
            and _embeds(one, name)
        )
        exact = (one for one in self.embeddings() if one.id == name)
        return list({one.provider: one for one in (*further, *exact)}.values())

    def _at(self, provider: str, id: str) -> list[_Found]:
        return [_Found(provider, id, True) for one in self._connectors if one.provider == provider]


def _embeds(connector: HttpConnector, id: str) -> bool:
    """Whether the wire of this model at this provider supports embeddings: not every API of a vendor does."""
    return wire(connector.row.route(id).api).http.embeddings is not None


def _is_plain(name: str) -> bool:
    """Whether a name may be read as name parts and a version. Before a slash is a provider."""
    return not {"/", ":"} & set(name)


def _newest(models: list[tuple[_Found, Spelling, bool]]) -> list[_Found]:
    """Of each provider the newest: by version; then one that is no preview, and the id without a date."""
    best: dict[str, tuple[tuple[object, ...], _Found]] = {}
    for found, spelling, deprecated in models:
        rank = (not deprecated, spelling.version, not spelling.is_preview, not spelling.date, spelling.date)
        if found.provider not in best or rank > best[found.provider][0]:
            best[found.provider] = rank, found
    return [found for _, found in best.values()]


def _chosen(name: str, found: list[_Found], has_key: HasKey) -> _Found:
    """The provider to use. Without a maker or a key there is no reason to prefer one, and none is chosen silently."""
    if len(found) == 1:
        return found[0]
    keyed = [one for one in found if has_key(one.provider)]
    makers = [one for one in keyed or found if one.is_maker]
    if not keyed and not makers:
        names = " or ".join(one.name for one in found[:6])
        raise InterlinguaError(f"ambiguous model {name!r}; name the provider, as in {names}")
    return (makers or keyed)[0]


def usable_providers() -> list[str]:
    """Returns the usable providers: with a key, or keyless with listed models. Without any, the offline one."""
    own = own_notes().providers
    rows = catalogues.known_rows().values()
    return [row.id for row in rows if (row.keyless and row.id in own and own[row.id].models) or _has_key(row.id)] or [
        OFFLINE
    ]


def _has_key(provider: str) -> bool:
    """Whether a key for this provider is found on this machine; an unreadable one counts."""
    from .auth.resolver import resolve_auth

    try:
        return resolve_auth(provider) is not None
    except InterlinguaError:
        return True


def _unknown(name: str, connectors: ConnectorRegistry, lookup: _Lookup) -> str:
    providers = connectors.list_providers()
    provider, slash, _ = name.partition("/")
    if slash and provider not in providers:
        return f"{unknown('provider', provider, providers)} (in {name!r}; write provider/model)"
    if provider in providers:
        return f"no model in {name!r}; write {provider}/MODEL (`interlingua models -p {provider}` lists them)"
    ids = {*own_notes().aliases, *lookup.names()}
    families = {word for id in ids for word in Spelling.of(id).parts if is_chat(id)}
    names = ids | {one.rpartition("/")[2] for one in ids} | {word for word in families if len(word) > 3}
    return unknown("model", name, names, listed="write provider/model; `interlingua models --all` lists models")
