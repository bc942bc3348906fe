"""Keys of the gateway: digests in a private file, limits that are checked, rotation and revocation at once."""

import os
import stat
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.gateway.exchange import LOCAL, ClientKey
from interlingua.gateway.keys import ClientKeys
from interlingua.values.errors import AuthFailed, InterlinguaError


def test_the_file_has_digests_and_no_secret_and_is_private(tmp_path: Path) -> None:
    """Whoever reads the file cannot use the keys in it, and only the owner can read it."""
    keys = ClientKeys(tmp_path / "keys.json")
    secret = keys.add(ClientKey(name="ci"))
    assert secret.encode() not in keys.path.read_bytes()
    assert 0o600 == stat.S_IMODE(keys.path.stat().st_mode)
    assert "ci" == keys.identify(secret).name


def test_without_keys_everyone_is_local_and_with_the_first_key_nobody_is(tmp_path: Path) -> None:
    """A key that is added counts with the next request."""
    keys = ClientKeys(tmp_path / "keys.json")
    assert LOCAL is keys.identify(None)
    assert LOCAL is keys.identify("anything")
    ClientKeys(keys.path).add(ClientKey(name="ci"))
    for wrong in (None, "", "anything"):
        with pytest.raises(AuthFailed) as refused:
            keys.identify(wrong)
        assert 401 == refused.value.status


@pytest.mark.parametrize("how", ["revoked", "deleted"])
def test_when_the_last_key_goes_the_gateway_does_not_open_itself(tmp_path: Path, how: str) -> None:
    """No keys left means that nobody may enter, not that everybody may."""
    keys = ClientKeys(tmp_path / "keys.json")
    secret = keys.add(ClientKey(name="ci"))
    keys.identify(secret)
    if how == "revoked":
        assert keys.remove("ci")
    else:
        keys.path.unlink()
    for value in (None, secret):
        with pytest.raises(AuthFailed):
            keys.identify(value)
    restarted = ClientKeys(keys.path)
    assert (how == "deleted") == restarted.is_open()  # a replaced worker, or the gateway's next start
    if how == "revoked":
        with pytest.raises(AuthFailed):
            restarted.identify(None)


def test_a_rotated_key_ends_at_once_or_after_its_grace(tmp_path: Path) -> None:
    """Rotation replaces the secret and keeps what the key may do."""
    now = [1000.0]
    keys = ClientKeys(tmp_path / "keys.json", clock=lambda: now[0])
    first = keys.add(ClientKey(name="ci", budget=5.0))
    second = keys.rotate("ci", grace=60)
    assert 5.0 == keys.identify(first).budget == keys.identify(second).budget
    now[0] += 60
    with pytest.raises(AuthFailed):
        keys.identify(first)
    third = keys.rotate("ci")
    assert "ci" == keys.identify(third).name
    with pytest.raises(AuthFailed):
        keys.identify(second)
    with pytest.raises(InterlinguaError, match="no key 'other'"):
        keys.rotate("other")


def test_a_change_by_another_process_counts_soon_and_a_new_key_at_once(tmp_path: Path) -> None:
    """The file is looked at again after a hundredth of a second, and before a secret is refused."""
    keys, elsewhere = ClientKeys(tmp_path / "keys.json"), ClientKeys(tmp_path / "keys.json")
    first = keys.add(ClientKey(name="ci"))
    assert "ci" == keys.identify(first).name
    second = elsewhere.add(ClientKey(name="new"))
    assert "new" == keys.identify(second).name
    elsewhere.remove("ci")
    time.sleep(0.02)
    with pytest.raises(AuthFailed):
        keys.identify(first)
    keys.remove("new")
    with pytest.raises(AuthFailed):
        keys.identify(second)


def test_an_expired_key_is_refused_by_name(tmp_path: Path) -> None:
    """The end of a key is exact, and its message names the key, not the secret."""
    now = [1000.0]
    keys = ClientKeys(tmp_path / "keys.json", clock=lambda: now[0])
    secret = keys.add(ClientKey(name="ci", expires=1001.0))
    keys.identify(secret)
    now[0] = 1001.0
    with pytest.raises(AuthFailed, match="'ci' has expired") as refused:
        keys.identify(secret)
    assert secret not in str(refused.value)


@pytest.mark.parametrize(
    "client",
    [
        ClientKey(name=""),
        ClientKey(name="local"),
        ClientKey(name="a\nb"),
        ClientKey(name="x" * 101),
        ClientKey(name="x", requests_per_minute=0),
        ClientKey(name="x", concurrency=-1),
        ClientKey(name="x", budget=float("nan")),
        ClientKey(name="x", budget=-1),
    ],
    ids=repr,
)
def test_limits_that_make_no_sense_are_refused(tmp_path: Path, client: ClientKey) -> None:
    """A key that could never be used, or by anyone, is not made."""
    with pytest.raises(InterlinguaError):
        ClientKeys(tmp_path / "keys.json").add(client)


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Keys that cannot be read let nobody in."""
    path = tmp_path / "keys.json"
    path.write_text('[{"client": 3}]')
    with pytest.raises(InterlinguaError, match=r"keys\.json: not a list of keys"):
        ClientKeys(path).identify("x")


def test_keys_that_are_added_at_once_are_all_there(tmp_path: Path) -> None:
    """Two administrators do not undo each other's work."""
    path = tmp_path / "keys.json"
    threads = [
        threading.Thread(target=lambda at=at: ClientKeys(path).add(ClientKey(name=f"k{at}"))) for at in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"k{at}" for at in range(20)} == {key.name for key in ClientKeys(path).keys()}  # noqa: SIM118
    assert [] == [name for name in os.listdir(tmp_path) if name.endswith(".part")]  # noqa: PTH208


@given(st.lists(st.text("ab*/", max_size=4), max_size=3), st.text("ab/", max_size=4))
def test_a_key_allows_what_a_pattern_of_it_matches_whole(patterns: list[str], name: str) -> None:
    """Patterns match whole names; only `*` has a meaning; no patterns at all allow nothing."""
    import re

    key = ClientKey(name="k", models=tuple(patterns))
    expected = any(re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) for pattern in patterns)
    assert expected == key.allows(name)


def test_a_key_file_that_cannot_be_read_lets_nobody_in(tmp_path: Path) -> None:
    """Not even for the hundredth of a second after a look that failed."""
    keys = ClientKeys(tmp_path / "keys.json")
    secret = keys.add(ClientKey(name="ci"))
    assert "ci" == keys.identify(secret).name
    (tmp_path / "keys.json").write_text("[] oops")
    time.sleep(0.02)
    for _ in range(50):
        with pytest.raises(InterlinguaError, match="not a list of keys"):
            keys.identify(secret)
