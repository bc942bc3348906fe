"""CONTRIBUTING's recipes, followed literally: its files are written, loaded and used. `test_docs` runs its programs."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.plugins import load_plugins
from interlingua.testing import Server
from interlingua.tools import call_tool
from interlingua.values.errors import Unsupported
from laws import test_files

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
FILES = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
ROWS = dict(re.findall(r"^\| ([a-z ]+) \|.* \| (\d): [^|]*\|$", PAGE, re.MULTILINE))


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[il.ToolRegistry]:
    """All plugins of the page, loaded from the files as it shows them."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    registry = il.ToolRegistry()
    plugins = load_plugins([str(tmp_path)], tools=registry)
    assert [] == plugins.problems
    yield registry
    plugins.unload()


def test_the_file_format_is_detected_and_converted_both_ways(tools: il.ToolRegistry) -> None:
    """With a report of what it has no place for."""
    data = {"notes": [{"who": "me", "text": "Hi"}, {"who": "model", "text": "Hello!"}]}
    found = il.detect(data)
    assert found is not None
    assert "notes" == found.dialect
    assert data == il.convert(data, "notes").body
    wire = il.convert(data, "openai-completions").body
    assert ["Hi", "Hello!"] == [message["content"] for message in wire["messages"]]
    call = il.ToolCall(id="c", name="read", arguments={})
    conversation = il.Conversation(entries=(il.Entry(message=il.AssistantMessage(content=(call,))),))
    assert il.encode(conversation, "notes", adapt=False).losses


def test_the_format_without_an_encoder_is_read_and_returned(tools: il.ToolRegistry, tmp_path: Path) -> None:
    """With what the conversation has no field for, and as it was changed; other conversations are refused."""
    path = tmp_path / "diary.jsonl"
    path.write_text('{"by": "me", "entry": "Rain", "day": 1}\n{"by": "it", "entry": "Stay in.", "day": 1}\n')
    (read,) = il.read(path)
    assert ["Rain", "Stay in."] == [message.text for message in read.messages]
    assert [json.loads(line) for line in path.read_text().splitlines()] == il.encode(read, "diary").body
    sun = il.UserMessage(content="Sun")
    changed = replace(read, entries=(replace(read.entries[0], message=sun), *read.entries[1:]))
    assert {"by": "me", "entry": "Sun", "day": 1} == il.encode(changed, "diary").body[0]
    with pytest.raises(Unsupported):
        il.encode(il.Conversation(entries=(il.Entry(message=sun),)), "diary")


@pytest.mark.parametrize("law", [law for name, law in vars(test_files).items() if name.startswith("test_")])
def test_the_file_format_obeys_the_laws(tools: il.ToolRegistry, law: Callable[..., None]) -> None:
    """Round trip with unknown fields, no silent loss, and one typed error for malformed input."""
    law(name="notes")


def test_a_text_that_is_none_is_named_by_its_place(tools: il.ToolRegistry) -> None:
    """A reader hands on what it finds: the message refuses it, and the error names the place in the file."""
    with pytest.raises(il.BadWire) as refused:
        il.decode({"notes": [{"who": "me", "text": "Hi"}, {"who": "me", "text": {}}]}, "notes")
    assert "$.notes[1].content" == refused.value.path
    with pytest.raises(il.BadWire, match=r"\$"):
        il.decode([{"by": "me", "entry": "Rain"}, {"by": "me", "entry": {}}], "diary")


def test_the_variant_of_a_wire_is_called_and_detected(tools: il.ToolRegistry) -> None:
    """Against the test server, which learns its paths from the value."""
    with Server() as server:
        server.say("Hello!")
        model = il.ModelDescriptor(
            id="spare/small", api="spare-chat", provider="spare", base_url=server.base_url("spare-chat")
        )
        assert "Hello!" == il.sync.complete(model, "Hi", api_key="k").text
        assert server.requests[-1].path.endswith("/llm/spare/talk")
    found = il.detect({"model": "spare/small", "messages": [{"role": "user", "content": "Hi"}]})
    assert found is not None
    assert "spare-chat" == found.dialect


def test_the_plugin_brings_its_tool(tools: il.ToolRegistry) -> None:
    """Ready to be called."""
    tool = tools.resolve("tide")
    assert tool is not None
    result = asyncio.run(call_tool(tool, "c", {"port": "Brest"}))
    assert (il.TextBlock(text="Brest: high"),) == tuple(result.content)


@pytest.mark.parametrize(
    ("change", "folder"),
    [("file format", "notes"), ("file format", "diary"), ("variant of a wire", "spare"), ("plugin", "tides")],
)
def test_a_recipe_takes_as_many_files_as_the_table_says(change: str, folder: str) -> None:
    """Counted in the page itself."""
    assert int(ROWS[change]) == len([name for name in FILES if name.startswith(f"{folder}/")])
