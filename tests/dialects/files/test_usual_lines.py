"""Short cuts: the usual lines of session files and training rows are read as the long way reads them."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlingua as il
from dialects.files.samples import WIRE
from interlingua.values.canonical import dump
from interlingua.values.errors import InterlinguaError
from interlingua.values.losses import Lines

FILES = "interlingua.dialects.files"
# Of each format: the functions that read the usual, and give None for the rest.
SHORT_CUTS = {
    "chatgpt-export": (f"{FILES}.chatgpt_export._usual",),
    "claude-code": (f"{FILES}.claude_code._usual",),
    "codex-cli": (f"{FILES}.codex_cli._usual",),
    "gemini-cli": (f"{FILES}.gemini_cli._usual",),
    "openclaw": (f"{FILES}.openclaw._usual_message", f"{FILES}.openclaw._is_usual_entry"),
    "openai-finetune": (f"{FILES}.openai_finetune._usual", "interlingua.dialects.openai_chat.messages._decode_simply"),
}
RECORDED = Path(__file__).parents[4] / "shared" / "sessions-corpus"
FOLDERS = {"claude-code": ("claude-code",), "codex-cli": ("codex-cli",), "gemini-cli": ("gemini-cli",)}
FOLDERS |= {"openclaw": ("openclaw", "pi"), "openai-finetune": ("openai-finetune",)}
FOLDERS |= {"chatgpt-export": ("chatgpt-export",)}
SINGLE = ("openai-finetune", "chatgpt-export")  # a line or an element is a conversation of its own


@contextmanager
def long_way(name: str) -> Iterator[None]:
    """Every line is read without the short cut of its format."""
    places = [place.rpartition(".") for place in SHORT_CUTS[name]]
    patches = [patch.object(import_module(module), function, lambda *given: None) for module, _, function in places]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


def outcome(lines: list[Any], name: str) -> Any:
    """The conversation as JSON and as a value, or the error."""
    try:
        read = il.decode(copy.deepcopy(lines[0]) if name in SINGLE else Lines(copy.deepcopy(lines)), name)
        return json.dumps(json.loads(dump(read)), sort_keys=True), read
    except InterlinguaError as error:
        return type(error), str(error)


def lines_of(path: Path) -> list[Any]:
    found = []
    if path.suffix == ".json":
        value = json.loads(path.read_text())
        return value if isinstance(value, list) else [value]
    for line in path.read_text(errors="replace").split("\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _files(folder: Path, name: str) -> list[Path]:
    ending = ".json" if name == "chatgpt-export" else ".jsonl"
    return sorted(path for path in folder.glob(f"*{ending}") if not path.name.endswith(".expected.json"))


def samples(name: str) -> list[Path]:
    return _files(WIRE / name, name)


def recorded(name: str) -> list[Path]:
    folders = [RECORDED / folder for folder in FOLDERS[name]]
    return sorted(path for folder in folders for path in _files(folder, name) if path.stat().st_size < 400_000)


@pytest.mark.parametrize("name", sorted(SHORT_CUTS))
def test_files_are_read_alike_with_and_without_the_short_cut(name: str) -> None:
    """Our samples, and recorded files where they are at hand; the JSON is the same, too."""
    for path in [*samples(name), *recorded(name)]:
        lines = lines_of(path)
        for part in [[line] for line in lines] if name in SINGLE else [lines]:
            short = outcome(part, name)
            with long_way(name):
                long = outcome(part, name)
            assert (path.name, long) == (path.name, short)


ODD: Any = st.sampled_from(
    [
        None,
        True,
        0,
        1,
        1.0,
        -3,
        "",
        "x",
        "null",
        "{}",
        "a|fc_1",
        "end_turn",
        "assistant",
        "user",
        "tool_use",
        "text",
        "2026-W01-1T00:00:00.000Z",
        "2026-01-01T24:00:00.000Z",
        "2026-01-01T00:00:00Z",
        "1969-01-01T00:00:00.000Z",
        [],
        {},
        ["x"],
        [None],
        {"~": 1},
        {"type": "text"},
        [{"type": "text", "text": "x"}],
        [{"type": "input_text", "text": "x"}, {"type": "output_text", "text": ""}],
        {"content": "x", "success": False},
    ]
)
KEYS = st.sampled_from(
    ["~", "~message", "x", "id", "role", "type", "timestamp", "cache_control", "citations", "weight"]
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every key of an object and every index of a list inside a value, with its holder."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(inner):
        yield value, key
        yield from places(item)


@pytest.mark.parametrize("name", sorted(SHORT_CUTS))
@settings(max_examples=150)
@given(data=st.data())
def test_odd_lines_are_read_alike_with_and_without_the_short_cut(name: str, data: st.DataObject) -> None:
    """Whatever a value is exchanged for, and whichever key is missing or new."""
    lines = lines_of(data.draw(st.sampled_from(samples(name))))
    if name in SINGLE:
        lines = [data.draw(st.sampled_from(lines))]
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(list(places(lines))))
        change = data.draw(st.sampled_from(["put", "drop", "add"]))
        if change == "drop" and isinstance(holder, dict):
            holder.pop(key, None)
        elif change == "add" and isinstance(holder, dict):
            holder[data.draw(KEYS)] = copy.deepcopy(data.draw(ODD))
        elif isinstance(holder, dict) or key < len(holder):
            holder[key] = copy.deepcopy(data.draw(ODD))
    short = outcome(lines, name)
    with long_way(name):
        assert outcome(lines, name) == short
