"""The keys of a gateway's clients: what each may do, by the digest of its secret. The secret is shown once."""

import contextlib
import functools
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..serving.access import KeyFile, digest_of, new_key
from ..values.errors import AuthFailed, InterlinguaError
from .exchange import LOCAL, ClientKey


class IssuedKey(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The limits of a key, and the digests that identify it."""

    client: ClientKey
    digest: str
    created: float = 0.0
    former: str | None = None  # the digest of the secret before the last rotation, good until `former_until`
    former_until: float = 0.0

    @property
    def name(self) -> str:
        return self.client.name


class ClientKeys(KeyFile[IssuedKey]):
    """The keys in a file. A change made here counts at once, one made elsewhere within a hundredth of a second.

    With `is_open`, every client is `LOCAL` until the first key exists: when the last one is revoked, the gateway does
    not open itself to all, nor does another process: the file is still there.
    """

    def __init__(self, path: Path, *, is_open: bool = True, clock: Callable[[], float] = time.time) -> None:
        super().__init__(path, IssuedKey)
        self._file = str(path)
        self._clock = clock
        self._is_open = is_open
        self._own: str | None = None
        self._seen: tuple[int, int, int] | None = None
        self._looked = -math.inf  # when the file was looked at
        self._by_digest: dict[str, IssuedKey] = {}

    def add(self, client: ClientKey) -> str:
        """Adds a key; returns its secret."""
        check_key(client)
        secret = new_key()
        self.insert(IssuedKey(client=client, digest=digest_of(secret), created=self._clock()))
        return secret

    def rotate(self, name: str, *, grace: float = 0.0) -> str:
        """Returns a new secret for a key; the old one stays valid for `grace` seconds."""
        secret = new_key()
        with self.changing() as keys:
            at = next((at for at, key in enumerate(keys) if key.name == name), None)
            if at is None:
                raise InterlinguaError(f"no key {name!r}; see: interlingua serve keys list")
            former = {"former": keys[at].digest, "former_until": self._clock() + grace} if grace > 0 else {}
            fresh = {"digest": digest_of(secret), "former": None, "former_until": 0.0}
            keys[at] = replace(keys[at], **(fresh | former))
        return secret

    @contextlib.contextmanager
    def changing(self) -> Iterator[list[IssuedKey]]:
        with super().changing() as keys:
            yield keys
        self._looked = -math.inf

    def own_secret(self) -> str:
        """Returns a secret for a program that this process starts. It is in no file, and ends with the process."""
        secret = new_key()
        self._own = digest_of(secret)
        return secret

    def has_any(self) -> bool:
        return bool(self._current())

    def is_open(self) -> bool:
        """Whether every client is `LOCAL`."""
        return not self._current() and self._is_open

    def identify(self, secret: str | None) -> ClientKey:
        """Returns the key of a secret. Raises `AuthFailed`.

        The lookup is by digest: its timing reveals nothing about an unknown secret.
        """
        digest = _known_digest(secret) if secret else ""
        is_fresh = time.monotonic() - self._looked < _LOOK and digest in self._by_digest
        by_digest = self._by_digest if is_fresh else self._current()
        if self._is_open:
            return LOCAL
        if not secret:
            raise AuthFailed("no key was sent; send the gateway's key as the API key of your client", status=401)
        if digest == self._own:
            return LOCAL
        found = by_digest.get(digest)
        # One answer for wrong and outdated secrets: it tells nothing about what exists.
        if found is None or (digest == found.former and digest != found.digest and self._clock() >= found.former_until):
            raise AuthFailed("wrong key; see: interlingua serve keys", status=401, code="invalid_api_key")
        client = found.client
        if client.expires is not None and self._clock() >= client.expires:
            raise AuthFailed(
                f"the key {client.name!r} has expired; rotate or replace it", status=401, code="expired_key"
            )
        return client

    def _current(self) -> dict[str, IssuedKey]:
        self._looked = time.monotonic()
        try:
            return self._look()
        except BaseException:
            self._looked = -math.inf  # a look that failed holds for no other request
            raise

    def _look(self) -> dict[str, IssuedKey]:
        try:
            found = os.stat(self._file)  # noqa: PTH116 (often: `Path.stat` takes twice as long)
        except FileNotFoundError:
            self._seen, self._by_digest = None, {}
            return self._by_digest
        self._is_open = False
        # The inode as well: a file that was replaced within one tick of the clock has the same time.
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen != self._seen:
            keys = self.keys()
            former = {key.former: key for key in keys if key.former is not None}
            self._by_digest = former | {key.digest: key for key in keys}
            self._seen = seen
        return self._by_digest


_LOOK = 0.01  # seconds for which a look at the file holds: a look takes as long as a twentieth of a plain call
_known_digest = functools.lru_cache(maxsize=1024)(digest_of)  # a client sends its key with every request


def check_key(client: ClientKey) -> None:
    """Raises `InterlinguaError` for limits that make no sense."""
    name = client.name
    if not name.strip() or not name.isprintable() or len(name) > 100 or name == LOCAL.name:
        raise InterlinguaError(f"invalid key name {name!r}; use up to 100 printable characters, not {LOCAL.name!r}")
    for limit in ("requests_per_minute", "tokens_per_minute", "concurrency"):
        value = getattr(client, limit)
        if value is not None and value < 1:
            raise InterlinguaError(f"{limit} of the key {name!r} is {value}; use 1 or more, or revoke the key")
    if client.budget is not None and not 0 <= client.budget < 1e9:
        raise InterlinguaError(f"budget of the key {name!r} is {client.budget}; use dollars, 0 or more")
