"""Stored keys and secret handling: the credential store, the `Secret` type, and the scrubber.

`<home>/credentials.json` is the index of stored credentials, and holds the keys themselves unless they are in the
system keyring. Only its owner may read it: it is created with mode 0600, replaced atomically, and refused if it is
irregular.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import logging
import os
import re
import stat
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias
from urllib.parse import quote, quote_plus

import msgspec

from ...conversion.local_files import atomic
from ...values import jsontext
from ...values.errors import FormatError, InterlinguaError
from ...values.places import home, private_folder
from ...values.regular import open_regular, reason

HIDDEN = "…"
Backend: TypeAlias = Literal["file", "keyring"]

_log = logging.getLogger(__name__)
_VERSION = 1
_SERVICE = "interlingua"  # the name under which the system keyring files our entries
_REFRESH_WAIT = 120.0


class Secret:
    """A text that is never shown by accident: only `reveal()` returns it.

    It is not a `str`, so that joining, formatting, JSON and pickling cannot leak the value.
    """

    __slots__ = ("_value",)

    def __init__(self, value: "str | Secret") -> None:
        self._value: str = value.reveal() if isinstance(value, Secret) else value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        # In constant time, as the comparison of a given key with a stored one.
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled: pass the value of reveal() if it must really leave this process")


class Credential(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A provider credential: a key, a token, or a login with everything needed to renew it.

    `expires` is in milliseconds since 1970, a little early on purpose; absent means unknown.
    """

    mode: Literal["api-key", "oauth", "token"]
    secret: Secret
    refresh: Secret | None = None
    expires: int | None = None
    client_id: str | None = None
    client_secret: Secret | None = None
    token_url: str | None = None
    token_format: Literal["form", "json"] = "form"

    def expired(self) -> bool:
        return self.expires is not None and self.expires <= time.time() * 1000

    def secrets(self) -> tuple[Secret, ...]:
        """Returns everything that must not be shown."""
        return tuple(s for s in (self.secret, self.refresh, self.client_secret) if s)


class StoredCredential(NamedTuple):
    credential: Credential
    place: Backend


class CredentialStore:
    """The stored credentials. Each change reads, modifies and replaces the file under a lock shared by all processes.

    `backend` is where new keys go (`$INTERLINGUA_CREDENTIALS`, else the file); each is read from where it was stored.
    """

    def __init__(
        self, folder: Path | None = None, *, backend: Backend | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder or home(env)
        self.path = self.folder / "credentials.json"
        self.backend = backend or _wanted_backend(env)

    def get(self, provider: str) -> StoredCredential | None:
        """Returns the credential of a provider, and its location."""
        entry = self._entries(self._read()).get(provider)
        if entry is None:
            return None
        if entry.get("keyring"):
            return StoredCredential(self._credential(provider, _from_keyring(provider)), "keyring")
        return StoredCredential(self._credential(provider, entry), "file")

    def put(self, provider: str, credential: Credential) -> Backend:
        """Stores a credential, replacing the previous one, and returns its location."""
        entry: dict[str, Any] = msgspec.to_builtins(credential, enc_hook=_revealed)
        if self.backend == "keyring":
            _to_keyring(provider, jsontext.write(entry).decode())
            entry = {"mode": credential.mode, "keyring": True}
        before = self._change(provider, entry)
        # After the file was written: a failure in between leaves the key in both places, not in none.
        if self.backend == "file" and before and before.get("keyring"):
            _forget_in_keyring(provider)
        return self.backend

    def remove(self, provider: str) -> bool:
        """Removes a credential; False if there was none."""
        if provider not in self._entries(self._read()):
            return False
        before = self._change(provider, None)
        if before and before.get("keyring"):
            _forget_in_keyring(provider)
        return before is not None

    def providers(self) -> dict[str, Backend]:
        """Returns the providers with a stored credential, and its location."""
        entries = self._entries(self._read())
        return {provider: "keyring" if entry.get("keyring") else "file" for provider, entry in entries.items()}

    def problems(self) -> list[str]:
        """Returns problems of the folder and the file, with remedies. Changes nothing."""
        found = [_folder_problem(self.folder)]
        with contextlib.suppress(FileNotFoundError):
            found.append(_file_problem(self.path, self.path.lstat()))
        return [problem for problem in found if problem]

    @contextlib.asynccontextmanager
    async def renewing(self, provider: str) -> AsyncIterator[None]:
        """Locks the renewal of one login, for one process and one task at a time.

        It polls the lock instead of blocking: threads that wait for a lock could exhaust the pool that its holder
        needs.
        """
        slug = f"{re.sub(r'[^A-Za-z0-9]+', '-', provider)[:40]}-{hashlib.sha256(provider.encode()).hexdigest()[:8]}"
        with _typed(self.folder, "the login cannot be renewed"):
            handle = self._open_lock(f"credentials.{slug}.lock")
        try:
            deadline = time.monotonic() + _REFRESH_WAIT
            while not _try_lock(handle):
                if time.monotonic() > deadline:
                    raise InterlinguaError(
                        f"another process has been renewing the login of {provider} for {_REFRESH_WAIT:.0f} seconds: "
                        "end it and try again"
                    )
                await asyncio.sleep(0.05)
            yield
        finally:
            os.close(handle)

    def _change(self, provider: str, entry: dict[str, Any] | None) -> dict[str, Any] | None:
        """Adds or removes an entry; returns the previous one."""
        with _typed(self.path, "not saved, what was there is intact"), self._locked():
            whole = self._read() or {"version": _VERSION, "credentials": {}}
            before = self._entries(whole).pop(provider, None)
            if entry is not None:
                self._entries(whole)[provider] = entry
            self._write(whole)
        return before

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        handle = self._open_lock("credentials.lock")
        try:
            # On a file of its own: the credentials file is replaced, and a lock on it would be on the old one.
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _open_lock(self, name: str) -> int:
        private_folder(self.folder)
        _repair_folder(self.folder)
        return open_regular(self.folder / name, os.O_RDWR | os.O_CREAT)

    def _read(self) -> dict[str, Any] | None:
        """Returns the whole file, or None if there is none. Unknown content is preserved."""
        try:
            # Without O_NONBLOCK, opening a pipe in the file's place would wait for ever.
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._refuse_link()
            raise InterlinguaError(
                f"{self.path} cannot be read: {error.strerror}; put the file itself there"
            ) from error
        with _typed(self.path, "not readable"), os.fdopen(handle, "rb") as file:
            _repair_file(self.path, file.fileno())
            return self._whole(file.read())

    def _whole(self, data: bytes) -> dict[str, Any]:
        remedy = "it was left as it is: repair it, or move it away and log in again"
        try:
            whole = jsontext.read(data)
        except FormatError as error:
            # The reader's message may quote what it read.
            raise FormatError(f"{self.path} is not JSON; {remedy}", error.path) from None
        if not isinstance(whole, dict) or not isinstance(whole.get("credentials"), dict):
            raise FormatError(f"{self.path} does not hold credentials; {remedy}")
        if whole.get("version") != _VERSION:
            raise FormatError(f"{self.path} was written by another version of Interlingua; {remedy}", "$.version")
        for provider, entry in whole["credentials"].items():
            if not isinstance(entry, dict):
                raise FormatError(f"{self.path}: the entry is not an object; {remedy}", f"$.credentials.{provider}")
        return whole

    def _write(self, whole: dict[str, Any]) -> None:
        self._refuse_link()
        with atomic(self.path, private=True) as file:  # never wider than 0600, not even for a moment
            file.write(jsontext.write(whole) + b"\n")

    def _refuse_link(self) -> None:
        if self.path.is_symlink():
            raise InterlinguaError(
                f"{self.path} is a symbolic link, which may redirect keys to another file; put the file itself there, "
                "or set INTERLINGUA_HOME to the folder that has it"
            )

    def _credential(self, provider: str, entry: Any) -> Credential:
        try:
            return msgspec.convert(entry, Credential, dec_hook=_secret)
        except msgspec.ValidationError:
            # The validator's message may quote a value.
            raise FormatError(
                f"{self.path}: the credential cannot be read; run `interlingua auth login {provider}`",
                f"$.credentials.{provider}",
            ) from None

    @staticmethod
    def _entries(whole: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
        return {} if whole is None else whole["credentials"]


def _wanted_backend(env: Mapping[str, str] | None) -> Backend:
    wanted = (os.environ if env is None else env).get("INTERLINGUA_CREDENTIALS", "").strip() or "file"
    if wanted not in ("file", "keyring"):
        raise InterlinguaError(f"invalid INTERLINGUA_CREDENTIALS {wanted!r}; use `file` or `keyring`")
    return "keyring" if wanted == "keyring" else "file"


def _revealed(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"{type(value).__name__} is not part of a credential")


def _secret(kind: type, value: object) -> Secret:
    if kind is Secret and isinstance(value, str) and value:
        return Secret(value)
    raise ValueError("a secret is a text")


@contextlib.contextmanager
def _typed(path: Path, what: str) -> Iterator[None]:
    """Raises errors of the file system (a full disk, a folder in place of the file) as ours."""
    try:
        yield
    except OSError as error:
        raise InterlinguaError(f"{path}: {what}: {reason(error)}") from error


def _try_lock(handle: int) -> bool:
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# Who may read: the owner alone. A file that others could read is closed to them, one that is not ours is refused.


def _file_problem(path: Path, status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return f"{path} is not a plain file: put the file itself there"
    if status.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user: remove it, or set INTERLINGUA_HOME to your own folder"
    if status.st_mode & 0o077:
        return f"{path} can be read by others (mode {stat.S_IMODE(status.st_mode):04o}): run `chmod 600 {path}`"
    return None


def _folder_problem(folder: Path) -> str | None:
    try:
        status = folder.stat()
    except FileNotFoundError:
        return None
    if status.st_uid not in (os.geteuid(), 0):
        return f"{folder} belongs to another user: set INTERLINGUA_HOME to your own folder"
    # With the sticky bit, as in /tmp, others cannot rename or remove files that are not theirs (inode(7)).
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        return f"others may replace files in {folder}: run `chmod go-w {folder}`"
    return None


def _repair_file(path: Path, handle: int) -> None:
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_mode & 0o077:
        # On the open file: its name may lead elsewhere by now.
        os.fchmod(handle, 0o600)
        _log.warning("%s could be read by others; it is now closed to them", path)
    problem = _file_problem(path, os.fstat(handle))
    if problem:
        raise InterlinguaError(problem)


def _repair_folder(folder: Path) -> None:
    if _folder_problem(folder) and folder.stat().st_uid == os.geteuid():
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) & ~0o022)
        _log.warning("others could replace files in %s; they no longer can", folder)
    problem = _folder_problem(folder)
    if problem:
        raise InterlinguaError(problem)


# The system keyring, one entry per provider.


@contextlib.contextmanager
def _keyring(doing: str) -> Iterator[Any]:
    try:
        import keyring
        import keyring.errors
    except ImportError:
        raise InterlinguaError(
            'the system keyring needs a package that is not installed: pip install "interlingua[keyring]"'
        ) from None
    try:
        yield keyring
    except keyring.errors.KeyringError as error:
        raise InterlinguaError(
            f"the system keyring could not {doing} ({type(error).__name__}): unlock it, or store the key in a file "
            "with `interlingua auth login --store file`"
        ) from None


def _to_keyring(provider: str, value: str) -> None:
    with _keyring("store the key") as keyring:
        keyring.set_password(_SERVICE, provider, value)


def _from_keyring(provider: str) -> Any:
    with _keyring("give the key") as keyring:
        value = keyring.get_password(_SERVICE, provider)
    if value is None:
        raise InterlinguaError(
            f"the key of {provider} is missing from the system keyring; run `interlingua auth login {provider}`"
        )
    try:
        return jsontext.read(value)
    except FormatError:
        return None


def _forget_in_keyring(provider: str) -> None:
    with _keyring("forget the key") as keyring:
        if keyring.get_password(_SERVICE, provider) is not None:
            keyring.delete_password(_SERVICE, provider)


# Scrubbing. Every pattern starts at a fixed word and its runs cannot overlap, so the time is linear in the text.

_FIELDS = (
    "access_token|refresh_token|id_token|session_token|auth_token|device_code|code_verifier|client_secret|client-secret"
    "|api_key|apikey|x-api-key|api-key|x-goog-api-key|x-amz-security-token|x-amz-signature|x-amz-credential"
    "|secret_access_key|secret_key|password"
)
_GAP = r"\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?"
_KNOWN_SHAPES = re.compile(
    # The whole header: what follows the scheme may hold spaces and commas (AWS), and nothing there is worth keeping.
    rf"(?i:\b((?:proxy-)?authorization{_GAP})[^\s\"'\\][^\r\n\"'\\]*"
    rf"|\b((?:{_FIELDS}){_GAP})[^\s\"'\\,;&<>]+"
    r"|((?:[?&]|%3F|%26)(?:key|token|code|sig|signature|secret)(?:=|%3D))[^\s\"'&#<>]+"
    r"|(\bbearer\s{1,4})[\w.~+/=-]+"
    r"|(://)[^\s/@?#\"']+(?=@))"
    r"|(?:\b|(?<=%[0-9A-Fa-f]{2}))(?:il-(?=[\w-]{43})|sk-|gsk_|xai-|hf_|gh[opsu]_|github_pat_|AIza|ya29\.)[\w.-]{12,}"
)
_SHORTEST = 4  # a shorter secret would redact ordinary text


class Scrubber:
    """Removes known secrets, in every encoding, and anything that looks like one, from texts."""

    __slots__ = ("_known",)

    def __init__(self, secrets: Iterable[str | Secret | None] = ()) -> None:
        known = {form for secret in secrets if secret for form in _spellings(Secret(secret).reveal().strip())}
        # The longest first: one form may be the beginning of another.
        pieces = sorted(known, key=lambda form: (-len(form), form))
        self._known = re.compile("|".join(map(re.escape, pieces))) if pieces else None

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        return _KNOWN_SHAPES.sub(_hide, text)

    def __repr__(self) -> str:
        return "Scrubber()"


def scrub(text: str, secrets: Iterable[str | Secret | None] = ()) -> str:
    """Returns the text without these secrets, and without anything that looks like one."""
    return Scrubber(secrets)(text)


def _hide(match: re.Match[str]) -> str:
    return f"{match.group(match.lastindex) if match.lastindex else ''}{HIDDEN}"


def _spellings(secret: str) -> set[str]:
    if len(secret) < _SHORTEST:
        return set()
    quoted = {quote(secret, safe=""), quote(secret), quote_plus(secret)}
    escaped = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    lower = {re.sub(r"%[0-9A-F]{2}", lambda match: match.group().lower(), form) for form in quoted}
    return {secret, *quoted, *lower, *escaped, *_in_base64(secret.encode())}


def _in_base64(secret: bytes) -> Iterator[str]:
    """How it looks inside base64, whatever precedes it: the characters that depend on this text alone, per offset."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + secret).rstrip(b"=").decode()
        begin = -(-offset * 8 // 6)
        end = (offset + len(secret)) * 8 // 6
        piece = encoded[begin:end]
        if len(piece) >= _SHORTEST:
            yield piece
            yield piece.replace("+", "-").replace("/", "_")
