"""Manifests: whatever a file holds, reading it gives a manifest or says what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua import FormatError
from interlingua.plugins import read_manifest

KEYS = ["id", "name", "kind", "skills", "channels", "configSchema", "entry", "uiHints", "extra"]
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifest") / "interlingua.plugin.json"


def read(place: Path, data: bytes) -> str | None:
    """The id of what was read, None if it was refused."""
    place.write_bytes(data)
    try:
        return read_manifest(place).id
    except FormatError:
        return None


@given(data=st.binary())
def test_bytes_are_a_manifest_or_an_error(place: Path, data: bytes) -> None:
    """Nothing else is raised."""
    assert read(place, data) is None or b"id" in data


@given(value=st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_values_are_a_manifest_or_an_error(place: Path, value: dict[str, Any]) -> None:
    """What is read has the id that was written."""
    assert read(place, json.dumps(value).encode()) in (None, value.get("id"))


def test_what_is_known_is_read_and_the_rest_is_kept(place: Path) -> None:
    """Every known field arrives; unknown ones are in `extra`, `null` is absent."""
    value = {
        "id": "a",
        "name": None,
        "kind": ["memory", "context-engine"],
        "configSchema": {"type": "object"},
        "skills": ["skills/one"],
        "extra": {"mine": 1},
        "uiHints": {"x": 1},
    }
    place.write_text(json.dumps(value))
    found = read_manifest(place)
    assert (None, ("memory", "context-engine"), {"type": "object"}, ("skills/one",)) == (
        found.name,
        found.kind,
        found.config_schema,
        found.skills,
    )
    assert {"uiHints": {"x": 1}, "extra": {"mine": 1}} == found.extra
