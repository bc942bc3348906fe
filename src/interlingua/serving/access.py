"""Access control: one-time tokens, signed cookies for browsers, keys for programs.

A token is printed once and works once. It is exchanged for a cookie: an id, a scope and an expiry, signed with a secret
that only this user can read, so that viewers stay logged in across restarts. Only the digests of keys are stored.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from ..values.errors import InterlinguaError
from ..values.places import private_folder
from ..values.regular import naming, read_regular
from .problems import HttpProblem

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]

Scope: TypeAlias = Literal["read", "write"]

LOCAL = "local"  # the name of this user's own programs on this machine
COOKIE_MAX_AGE = 7 * 24 * 3600  # seconds
MAX_GUESSES = 20  # failed tokens, keys and cookies per minute before all are refused for the rest of it
_MINUTE = 60.0


class Visitor(Struct, frozen=True):
    """The sender of a request: its scope, and the CSRF token that a browser must send with changes."""

    scope: Scope
    csrf: str | None = None
    name: str = ""
    only: str | None = None  # the only resource that an embedded frame may see


class Key(Struct, frozen=True, omit_defaults=True):
    """A key by its digest: the key itself is shown once, when it is created."""

    name: str
    scope: Scope
    digest: str
    created: float = 0.0


class _HasDigest(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def digest(self) -> str: ...


K = TypeVar("K", bound=_HasDigest)


class KeyFile(Generic[K]):
    """Keys in a file that only its owner can read. Concurrent changes wait for each other."""

    def __init__(self, path: Path, kind: type[K]) -> None:
        self.path = path
        self._kind: Any = list[kind]  # type: ignore[valid-type]

    def keys(self) -> list[K]:
        try:
            found: list[K] = msgspec.json.decode(read_regular(self.path), type=self._kind)
        except FileNotFoundError:
            return []
        except msgspec.MsgspecError as error:
            raise InterlinguaError(f"{self.path}: not a list of keys: {error}; correct or delete the file") from None
        return found

    def insert(self, key: K) -> None:
        with self.changing() as keys:
            if any(one.name == key.name for one in keys):
                raise InterlinguaError(
                    f"key {key.name!r} already exists; choose another name, or revoke that key first"
                )
            keys.append(key)

    def remove(self, name: str) -> bool:
        with self.changing() as keys:
            remaining = [key for key in keys if key.name != name]
            was_there = len(remaining) != len(keys)
            keys[:] = remaining
        return was_there

    @contextlib.contextmanager
    def changing(self) -> Iterator[list[K]]:
        """Yields the keys for changes in place; they are written if they differ afterwards."""
        private_folder(self.path.parent)
        with _locked(self.path.with_name(f".{self.path.name}.lock")):
            keys = self.keys()
            before = list(keys)
            yield keys
            if keys != before:
                write_private(self.path, msgspec.json.encode(keys))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    # O_NOFOLLOW: a link in its place could point to a file of another owner.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class KeyRing(KeyFile[Key]):
    """The keys of a server with scopes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Key)

    def add(self, name: str, scope: Scope) -> str:
        """Adds a key; returns it, to be shown once."""
        value = new_key()
        self.insert(Key(name, scope, digest_of(value), time.time()))
        return value

    def has(self, digest: str) -> bool:
        """Whether the key with this digest still exists."""
        return any(key.digest == digest for key in self.keys())

    def find(self, value: str) -> Key | None:
        digest = digest_of(value)
        found = None
        for key in self.keys():  # compares all of them, against timing attacks
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


class _Claims(Struct, array_like=True, frozen=True):
    id: str
    scope: Scope
    until: int
    only: str | None = None
    key: str | None = None  # the digest of the key that the cookie was exchanged for: removing the key invalidates it


class Access:
    """Tokens, cookies and keys of one server. `folder` stores the secret; without one it ends with the process."""

    def __init__(self, folder: Path | None = None, keys: KeyRing | None = None) -> None:
        self._secret = secrets.token_bytes(32) if folder is None else _load_secret(folder / "secret")
        self._revoked_path = None if folder is None else folder / "revoked"
        self._keys = keys
        self._tokens: dict[str, Scope] = {}
        self._wrong: deque[float] = deque()
        self._revoked: set[str] = _read_revoked(self._revoked_path)

    @property
    def has_keys(self) -> bool:
        return self._keys is not None and bool(self._keys.keys())

    def new_token(self, scope: Scope = "write") -> str:
        """Returns a token that works once."""
        token = secrets.token_urlsafe(24)
        self._tokens[digest_of(token)] = scope
        return token

    def redeem(self, token: str) -> str | None:
        """Exchanges a token for a cookie; None for an invalid or used one. Raises 429 after too many failures."""
        self._refuse_guessing()
        # Removed before it is used: two requests at once cannot both redeem it.
        found = self._tokens.pop(digest_of(token), None)
        if found is None:
            self._wrong.append(time.monotonic())
            return None
        return self.cookie(found)

    def redeem_key(self, value: str) -> str | None:
        """Exchanges a key for a cookie, which is invalid once the key is removed."""
        visitor = self.by_key(value)
        if visitor is None:
            return None
        return self.cookie(visitor.scope, key=digest_of(value) if visitor.name != LOCAL else None)

    def cookie(self, scope: Scope, *, only: str | None = None, key: str | None = None) -> str:
        until = int(time.time()) + COOKIE_MAX_AGE
        claims = msgspec.msgpack.encode(_Claims(secrets.token_hex(16), scope, until, only, key))
        return f"{_text(claims)}.{_text(self._signature(b'cookie', claims))}"

    def by_cookie(self, value: str) -> Visitor | None:
        payload, _, signature = value.partition(".")
        claims = _bytes(payload)
        # Before the claims are decoded: nothing that is not signed is parsed.
        if not hmac.compare_digest(_bytes(signature), self._signature(b"cookie", claims)):
            return None
        found = msgspec.msgpack.decode(claims, type=_Claims)
        if found.until < time.time() or found.id in self._revoked:
            return None
        if found.key is not None and (self._keys is None or not self._keys.has(found.key)):
            return None
        return Visitor(found.scope, _text(self._signature(b"csrf", found.id.encode())), "viewer", found.only)

    def by_key(self, value: str) -> Visitor | None:
        self._refuse_guessing()
        if hmac.compare_digest(value.encode("utf-8", "replace"), self.local_key.encode()):
            return Visitor("write", None, LOCAL)
        key = self._keys.find(value) if self._keys is not None else None
        if key is None:
            self._wrong.append(time.monotonic())
            return None
        return Visitor(key.scope, None, key.name)

    @property
    def local_key(self) -> str:
        """Returns the key of this user's programs on this machine, which can read the secret."""
        return f"local-{_text(self._signature(b'local', b'key'))}"

    def revoke(self, cookie: str) -> None:
        """Invalidates a cookie before its expiry, also across restarts."""
        claims = _bytes(cookie.partition(".")[0])
        with contextlib.suppress(msgspec.MsgspecError):
            self._revoked.add(msgspec.msgpack.decode(claims, type=_Claims).id)
            if self._revoked_path is not None:
                write_private(self._revoked_path, "\n".join(sorted(self._revoked)).encode())

    def _refuse_guessing(self) -> None:
        now = time.monotonic()
        while self._wrong and self._wrong[0] < now - _MINUTE:
            self._wrong.popleft()
        if len(self._wrong) >= MAX_GUESSES:
            wait = int(self._wrong[0] + _MINUTE - now) + 1
            raise HttpProblem(
                429, "too many wrong tokens", remedy=f"try again in {wait} s", headers={"Retry-After": str(wait)}
            )

    def _signature(self, purpose: bytes, data: bytes) -> bytes:
        # The purpose separates the uses of one secret: a cookie's signature is no CSRF token.
        return hmac.digest(self._secret, purpose + b"\0" + data, "sha256")


def new_key() -> str:
    return f"il-{secrets.token_urlsafe(32)}"


def digest_of(value: str) -> str:
    # No slow hash, as for passwords: keys have 256 random bits, which cannot be guessed.
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def write_private(path: Path, data: bytes) -> None:
    """Replaces a file that only its owner can read."""
    private_folder(path.parent)
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        with naming(path), os.fdopen(os.open(part, _NEW, 0o600), "wb") as stream:
            stream.write(data)
        # rename(2) is atomic: a reader sees the old file or the new one.
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _load_secret(path: Path) -> bytes:
    """Returns the secret in a file, created if missing; servers that start concurrently get the same one."""
    private_folder(path.parent)
    # O_EXCL: of two servers that start at once, one creates it and the other reads it.
    with contextlib.suppress(FileExistsError), naming(path), os.fdopen(os.open(path, _NEW, 0o600), "wb") as stream:
        stream.write(secrets.token_bytes(32))
    found = read_regular(path)
    if len(found) != 32:  # the other server is writing it, or a disk was full
        path.unlink(missing_ok=True)
        return _load_secret(path)
    return found


def _read_revoked(path: Path | None) -> set[str]:
    try:
        return set(read_regular(path).decode().split()) if path is not None else set()
    except FileNotFoundError:
        return set()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError:  # not ASCII included
        return b""
