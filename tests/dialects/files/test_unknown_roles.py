"""A message of a role that its format does not know is kept, or the file is refused: its text is not lost."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.dialects import FORMATS

WIRE = Path(__file__).parents[2] / "wire"
USERS = ("user", "human", "USER")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where messages of people are."""
    if isinstance(value, dict):
        if value.get("role") in USERS:
            yield path
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from places(inner, (*path, at))


def texts(value: Any) -> Iterator[str]:
    """The texts that a message shows."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str) and key in ("content", "text", "value") and len(inner) > 6:
                yield inner
            else:
                yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def documents(path: Path) -> tuple[Any, bool]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text), False
    return [json.loads(line) for line in text.splitlines() if line.strip()], True


def samples() -> Iterator[Any]:
    for path in sorted((*WIRE.glob("*/*.json"), *WIRE.glob("*/*.jsonl"))):
        if path.parent.name not in FORMATS:
            continue
        value, is_lines = documents(path)
        for place in [place for place in places(value) if place][:4]:
            yield pytest.param(path, value, is_lines, place, id=f"{path.parent.name}/{path.name}{list(place)}")


@pytest.mark.parametrize(("path", "value", "is_lines", "place"), list(samples()))
def test_the_text_of_an_unknown_role_is_not_lost(path: Path, value: Any, is_lines: bool, place: Any) -> None:
    changed = copy.deepcopy(value)
    message = changed
    for key in place:
        message = message[key]
    message["role"] = "zebra"
    data = "\n".join(map(json.dumps, changed)) if is_lines else json.dumps(changed)
    try:
        found = list(il.read(data.encode(), path.parent.name))
    except il.InterlinguaError:
        return
    kept = ""
    for one in found:
        for entry in one.entries:
            kept += json.dumps([entry.message.text, getattr(entry.message, "fields", None)])
    for text in texts(message):
        assert json.dumps(text)[1:-1] in kept
