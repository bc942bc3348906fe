"""The home folder, and environment variables that may change while a program runs."""

import os

import pytest

from interlingua.values.places import home, is_set


def test_variables_are_seen_as_soon_as_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A variable counts from the moment it is set, also a blank one, until it is removed.
    """
    monkeypatch.delenv("IL_A", raising=False)
    before = is_set("IL_A", "IL_B")
    monkeypatch.setenv("IL_B", "")
    during = is_set("IL_A", "IL_B"), is_set("IL_A")
    monkeypatch.delenv("IL_B")

    assert (False, (True, False), False) == (before, during, is_set("IL_A", "IL_B"))


def test_variables_of_another_mapping_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A program may replace `os.environ` by a dictionary.
    """
    monkeypatch.setattr(os, "environ", {"IL_A": "1"})

    assert (True, False) == (is_set("IL_A"), is_set("IL_B"))


def test_the_home_folder_follows_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    `$INTERLINGUA_HOME` may be set and removed while the program runs.
    """
    monkeypatch.setenv("HOME", "/people/ann")
    monkeypatch.setenv("INTERLINGUA_HOME", "/data/il")
    given = home()
    monkeypatch.delenv("INTERLINGUA_HOME")

    assert ("/data/il", "/people/ann/.interlingua") == (str(given), str(home()))
