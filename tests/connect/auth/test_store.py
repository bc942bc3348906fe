"""Keys on disk: for the owner alone, whole or not at all, and nothing lost between processes."""

import asyncio
import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.backend
import keyring.errors
import pytest

from interlingua.connect.auth.credentials import Credential, CredentialStore, Secret
from interlingua.values.errors import FormatError, InterlinguaError
from interlingua.values.places import home

KEY = Credential(mode="api-key", secret=Secret("very-secret-key"))
LOGIN = Credential(
    mode="oauth",
    secret=Secret("access"),
    refresh=Secret("refresh"),
    expires=1_700_000_000_000,
    client_id="mine",
    client_secret=Secret("client-secret"),
    token_url="https://h/token",
    token_format="json",
)


@pytest.fixture
def store(tmp_path: Path) -> CredentialStore:
    return CredentialStore(tmp_path / "il")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_the_home_is_the_variable_or_the_users_own(tmp_path: Path) -> None:
    """Blank is as good as none."""
    assert tmp_path / "x" == home({"INTERLINGUA_HOME": f"{tmp_path}/x", "HOME": "/h"})
    assert Path("/h/.interlingua") == home({"INTERLINGUA_HOME": " ", "HOME": "/h"})


@pytest.mark.parametrize("credential", [KEY, LOGIN], ids=["key", "login"])
def test_what_is_put_comes_back(store: CredentialStore, credential: Credential) -> None:
    """Whole, and from where it was put."""
    assert "file" == store.put("acme", credential)
    assert (credential, "file") == store.get("acme")
    assert {"acme": "file"} == store.providers()


def test_nothing_stored_is_none_and_makes_no_file(store: CredentialStore) -> None:
    """Looking leaves no trace."""
    assert store.get("acme") is None
    assert store.remove("acme") is False
    assert {} == store.providers()
    assert not store.folder.exists()


def test_removing_takes_one_and_leaves_the_others(store: CredentialStore) -> None:
    """And says whether there was one."""
    store.put("a", KEY)
    store.put("b", LOGIN)
    assert (True, False) == (store.remove("a"), store.remove("a"))
    assert {"b": "file"} == store.providers()


def test_all_is_closed_to_others_under_an_open_umask(store: CredentialStore, open_umask: None) -> None:
    """The folder 0700, and every file in it 0600."""
    store.put("acme", KEY)
    assert 0o700 == mode(store.folder)
    assert {0o600} == {mode(path) for path in store.folder.iterdir()}


def test_the_file_is_never_open_to_others_while_it_is_written(store: CredentialStore, open_umask: None) -> None:
    """Every file that is ever opened for writing there is created 0600: seen by the system's own audit hook."""
    code = """
import os, sys
os.umask(0)
folder, seen = sys.argv[1], []
def audit(event, arguments):
    if event == "open" and str(arguments[0]).startswith(folder) and arguments[2] & os.O_CREAT:
        seen.append(str(arguments[0]))
sys.addaudithook(audit)
modes = []
real = os.fsync
def fsync(handle):
    modes.append(oct(os.fstat(handle).st_mode & 0o777))
    real(handle)
os.fsync = fsync
from pathlib import Path
from interlingua.connect.auth.credentials import Credential, CredentialStore, Secret
CredentialStore(Path(folder)).put("acme", Credential(mode="api-key", secret=Secret("k")))
print(len(seen) >= 2, set(modes))
"""
    done = subprocess.run([sys.executable, "-c", code, str(store.folder)], capture_output=True, text=True, check=True)
    assert "True {'0o600'}\n" == done.stdout


def test_a_file_that_others_could_read_is_closed(store: CredentialStore, caplog: pytest.LogCaptureFixture) -> None:
    """Told before by `problems`, mended on use, and said in the log without the key."""
    store.put("acme", KEY)
    store.path.chmod(0o644)
    (problem,) = store.problems()
    assert f"chmod 600 {store.path}" in problem
    with caplog.at_level(logging.WARNING):
        assert store.get("acme") is not None
    assert 0o600 == mode(store.path)
    assert [] == store.problems()
    assert "could be read by others" in caplog.text
    assert "very-secret-key" not in caplog.text


def test_a_folder_that_others_could_write_is_closed(store: CredentialStore) -> None:
    """They could put a file of their own in the place of ours."""
    store.put("acme", KEY)
    store.folder.chmod(0o777)
    (problem,) = store.problems()
    assert f"chmod go-w {store.folder}" in problem
    store.put("acme", KEY)
    assert 0o755 == mode(store.folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user needs root")
def test_a_file_of_another_user_is_refused(store: CredentialStore) -> None:
    """Whoever owns it can change it."""
    store.put("acme", KEY)
    os.chown(store.path, 12345, 12345)
    with pytest.raises(InterlinguaError, match="another user"):
        store.get("acme")


def test_a_link_in_the_place_of_the_file_is_refused(store: CredentialStore, tmp_path: Path) -> None:
    """Neither read nor followed nor replaced; the error names the way out."""
    store.folder.mkdir(mode=0o700)
    target = tmp_path / "elsewhere.json"
    target.write_text('{"version":1,"credentials":{}}')
    store.path.symlink_to(target)
    for attempt in (lambda: store.get("acme"), lambda: store.put("acme", KEY)):
        with pytest.raises(InterlinguaError, match=r"symbolic link.*INTERLINGUA_HOME"):
            attempt()
    assert '{"version":1,"credentials":{}}' == target.read_text()
    assert store.path.is_symlink()
    assert store.problems()


def test_a_dangling_link_makes_no_file_elsewhere(store: CredentialStore, tmp_path: Path) -> None:
    """The key does not follow it."""
    store.folder.mkdir(mode=0o700)
    store.path.symlink_to(tmp_path / "bait")
    with pytest.raises(InterlinguaError, match="symbolic link"):
        store.put("acme", KEY)
    assert not (tmp_path / "bait").exists()


def test_a_link_in_the_place_of_the_lock_is_refused(store: CredentialStore, tmp_path: Path) -> None:
    """Opening it would create or open a file of another's choice."""
    store.folder.mkdir(mode=0o700)
    (store.folder / "credentials.lock").symlink_to(tmp_path / "bait")
    with pytest.raises(InterlinguaError, match="a link"):
        store.put("acme", KEY)
    assert not (tmp_path / "bait").exists()


def test_a_pipe_in_the_place_of_the_file_does_not_hang(store: CredentialStore) -> None:
    """Refused at once."""
    store.folder.mkdir(mode=0o700)
    os.mkfifo(store.path, 0o600)
    with pytest.raises(InterlinguaError, match="not a plain file"):
        store.get("acme")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"version":1,"credentials":{"acme":{"mode":"api-key","secret":"very-secret-key"}',
        "[]",
        '{"credentials":{}}',
        '{"version":2,"credentials":{}}',
        '{"version":1,"credentials":[]}',
        '{"version":1,"credentials":{"acme":"very-secret-key"}}',
        "\x00\xff",
    ],
)
def test_a_broken_file_is_named_and_left_alone(store: CredentialStore, text: str) -> None:
    """Nothing is overwritten, and the error quotes nothing out of it."""
    store.folder.mkdir(mode=0o700)
    store.path.write_bytes(text.encode("latin-1"))
    for attempt in (
        lambda: store.get("acme"),
        lambda: store.put("other", KEY),
        lambda: store.remove("acme"),
        store.providers,
    ):
        with pytest.raises(FormatError) as caught:
            attempt()
        assert str(store.path) in str(caught.value)
        assert "left as it is" in str(caught.value)
        assert "very-secret-key" not in "".join(_chain(caught.value))
    assert text.encode("latin-1") == store.path.read_bytes()


def _chain(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield f"{error} {error!r}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_one_broken_entry_does_not_take_the_others_along(store: CredentialStore) -> None:
    """It is named; logging in again mends it."""
    store.put("good", KEY)
    whole = json.loads(store.path.read_text())
    whole["credentials"]["bad"] = {"mode": "api-key", "secret": 5}
    store.path.write_text(json.dumps(whole))
    with pytest.raises(FormatError, match="interlingua auth login bad"):
        store.get("bad")
    assert store.get("good") == (KEY, "file")
    store.put("bad", LOGIN)
    assert store.get("bad") == (LOGIN, "file")


def test_what_another_version_wrote_stays(store: CredentialStore) -> None:
    """Unknown fields and entries survive a change of something else."""
    store.put("a", KEY)
    whole = json.loads(store.path.read_text())
    whole["note"] = "mine"
    whole["credentials"]["b"] = {"mode": "passkey", "secret": "x", "more": [1]}
    store.path.write_text(json.dumps(whole))
    store.put("c", KEY)
    after = json.loads(store.path.read_text())
    assert ("mine", whole["credentials"]["b"]) == (after["note"], after["credentials"]["b"])
    assert {"a", "b", "c"} == set(after["credentials"])


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    store: CredentialStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may be full at any moment."""
    store.put("a", KEY)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InterlinguaError, match="No space left"):
        store.put("b", KEY)
    assert {"a": "file"} == store.providers()
    assert [] == list(store.folder.glob("*.part")) + list(store.folder.glob(".*.part"))


WRITER = """
import sys
from pathlib import Path
from interlingua.connect.auth.credentials import Credential, CredentialStore, Secret
store = CredentialStore(Path(sys.argv[1]))
for n in range(25):
    store.put(f"{sys.argv[2]}-{n}", Credential(mode="api-key", secret=Secret(f"key-{n}")))
    if n % 5 == 4:
        store.remove(f"{sys.argv[2]}-{n}")
"""


def test_processes_that_write_at_once_lose_nothing(store: CredentialStore) -> None:
    """Four of them, each with keys of its own, some taken away again."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(store.folder), str(n)]) for n in range(4)]
    assert [0, 0, 0, 0] == [writer.wait(60) for writer in writers]
    assert {f"{w}-{n}" for w in range(4) for n in range(25) if n % 5 != 4} == set(store.providers())


async def test_one_renews_at_a_time_and_others_wait_without_a_thread(store: CredentialStore) -> None:
    """More waiting tasks than the pool has threads, and the one inside can still use the pool."""
    inside, most = 0, 0

    async def renewing() -> None:
        nonlocal inside, most
        async with store.renewing("acme"):
            inside += 1
            most = max(most, inside)
            await asyncio.to_thread(store.providers)
            inside -= 1

    await asyncio.wait_for(asyncio.gather(*(renewing() for _ in range(40))), 60)
    assert 1 == most


async def test_renewals_of_different_providers_do_not_wait_for_each_other(store: CredentialStore) -> None:
    """Names that differ only in punctuation are different too."""
    async with store.renewing("a.b"), store.renewing("a-b"), store.renewing("../../etc"):
        assert {store.folder} == {path.parent for path in store.folder.iterdir()}


class MemoryKeyring(keyring.backend.KeyringBackend):
    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


@pytest.fixture
def ring() -> Iterator[MemoryKeyring]:
    before = keyring.get_keyring()
    ring = MemoryKeyring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def test_the_keyring_keeps_the_key_and_the_file_only_says_so(tmp_path: Path, ring: MemoryKeyring) -> None:
    """Read back by a store that was not told where to look."""
    assert "keyring" == CredentialStore(tmp_path, backend="keyring").put("acme", LOGIN)
    assert (LOGIN, "keyring") == CredentialStore(tmp_path).get("acme")
    assert {"acme": "keyring"} == CredentialStore(tmp_path).providers()
    text = (tmp_path / "credentials.json").read_text()
    assert not [secret for secret in LOGIN.secrets() if secret.reveal() in text]


def test_moving_a_key_out_of_the_keyring_leaves_none_behind(tmp_path: Path, ring: MemoryKeyring) -> None:
    """And so does forgetting it."""
    CredentialStore(tmp_path, backend="keyring").put("acme", KEY)
    CredentialStore(tmp_path).put("acme", KEY)
    assert {} == ring.entries
    CredentialStore(tmp_path, backend="keyring").put("acme", KEY)
    assert CredentialStore(tmp_path).remove("acme")
    assert {} == ring.entries


def test_a_key_that_vanished_from_the_keyring_is_said_to_be_missing(tmp_path: Path, ring: MemoryKeyring) -> None:
    """Not quietly taken from elsewhere."""
    CredentialStore(tmp_path, backend="keyring").put("acme", KEY)
    ring.entries.clear()
    with pytest.raises(InterlinguaError, match="interlingua auth login acme"):
        CredentialStore(tmp_path).get("acme")


def test_no_keyring_on_this_machine_is_one_clear_error(tmp_path: Path) -> None:
    """Nothing is written in its place."""
    code = f"""
import keyring, keyring.backends.fail
keyring.set_keyring(keyring.backends.fail.Keyring())
from pathlib import Path
from interlingua.connect.auth.credentials import Credential, CredentialStore, Secret
CredentialStore(Path({str(tmp_path)!r}), backend="keyring").put("a", Credential(mode="api-key", secret=Secret("vs")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "the system keyring could not store the key (NoKeyringError)" in done.stderr
    assert "--store file" in done.stderr
    assert not (tmp_path / "credentials.json").exists()


def test_the_keyring_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to install."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(InterlinguaError, match=r'pip install "interlingua\[keyring\]"'):
        CredentialStore(tmp_path, backend="keyring").put("a", KEY)


def test_the_backend_can_be_chosen_by_a_variable(tmp_path: Path) -> None:
    """And a word that is neither is refused."""
    env = {"INTERLINGUA_HOME": str(tmp_path)}
    assert "file" == CredentialStore(env=env).backend
    assert "keyring" == CredentialStore(env=env | {"INTERLINGUA_CREDENTIALS": "keyring"}).backend
    with pytest.raises(InterlinguaError, match="use `file` or `keyring`"):
        CredentialStore(env=env | {"INTERLINGUA_CREDENTIALS": "vault"})
