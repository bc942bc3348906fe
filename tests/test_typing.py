"""What type checkers and editors see: mypy and pyright agree, and a misspelled option, name or event is an error."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """
from dataclasses import dataclass
from typing import assert_type

import interlingua as il
from interlingua.connect.results import Result
from interlingua.values.events import Done, StreamEvent, TextDelta


@dataclass
class Person:
    name: str


async def asked() -> None:
    typed = await il.complete("m", "hi", output=Person, temperature=0.5, reasoning="high", stop=["x"])
    assert_type(typed, Result[Person])
    assert_type(typed.output.name, str)
    assert_type(await il.complete("m", "hi"), il.AssistantMessage)
    assert_type((await il.complete("m", "hi", output=list[int])).output, list[int])
    async for event in il.stream("m", "hi", max_tokens=5):
        if event.type == "text_delta":
            assert_type(event, TextDelta)
        elif isinstance(event, Done):
            assert_type(event.message, il.AssistantMessage)
    agent = il.Agent[Person]("m", ["read"], output=Person)
    assert_type((await agent.prompt("x", images=["a.png"])).output, Person)
    assert_type(il.Agent("m", output=Person).run_sync("x").output, Person)
    async with il.Client() as client:
        assert_type(client, il.Client)
        assert_type(await client.complete("m", "hi"), il.AssistantMessage)
    await il.embed("m", "a", dimensions=8, api_key="k")


def plain() -> None:
    assert_type(il.sync.complete("m", "x", output=Person).output, Person)
    assert_type(il.sync.complete("m", "x"), il.AssistantMessage)
    for event in il.sync.stream("m", "x"):
        shown: StreamEvent = event
    il.UserMessage("hi")
    il.UserMessage([il.TextBlock("hi"), il.TextBlock(text="hi", refusal=True), il.image("a.png")])
    assert_type(il.ThinkingBlock("hm").thinking, str)
    il.Context([il.UserMessage("hi")], system="Be brief.")
    il.sync.embed("m", ["a"], dimensions=8, timeout=5)
    il.Agent("m", temperature=0.5, api_key="k", fallbacks=["n"])
    il.ToolResultMessage("4", tool_call_id="c1")
    il.Options(reasoning="high", tool_choice="auto", stop="END")
    il.encode([il.UserMessage("hi")], "anthropic-messages")
    messages = [il.UserMessage("hi"), il.AssistantMessage("ho"), il.UserMessage("hi")]
    il.sync.complete("m", messages)
    il.sync.complete("m", [{"role": "user", "content": "hi"}])
    il.sync.complete("m", {"messages": [{"role": "user", "content": "hi"}]})
    request = il.Request(model=il.ModelDescriptor(id="m"), context=il.Context([il.UserMessage("hi")]))
    il.sync.complete("m", il.Conversation.of(request))
"""
BAD = """
import interlingua as il


async def asked() -> None:
    await il.complete("m", "hi", temperatur=1)  # wrong
    il.stream("m", "hi", max_token=1)  # wrong
    il.sync.complete("m", "hi", temperatur=1)  # wrong
    il.sync.stream("m", "hi", top_kk=1)  # wrong
    il.Agnet("m")  # wrong
    il.sync.compelte("m", "hi")  # wrong
    il.events.TextDleta  # wrong
    il.UserMessage(5)  # wrong
    il.Options(temperatur=1)  # wrong
    il.Agent("m", temperatur=1)  # wrong
    await il.embed("m", "a", dimension=1)  # wrong
    il.sync.embed("m", "a", temperature=1)  # wrong
    il.TextBlock(5)  # wrong
    il.TextBlock("a", "b")  # wrong
    await il.complete("m", 5)  # wrong
    il.sync.stream("m", None)  # wrong
    async for event in il.stream("m", "hi"):
        if event.type == "text_delta":
            event.dleta  # wrong
    (await il.complete("m", "hi", output=int)).output.upper()  # wrong
"""


ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_of(page: Path) -> str:
    """The Python blocks of a page as one program, each line where the page has it."""
    lines, inside = [], False
    for line in page.read_text("utf-8").split("\n"):
        if line.startswith("```"):
            inside = line == "```python"
            line = ""
        lines.append(line if inside else "")
    return "\n".join(lines) if any(lines) else ""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program of each page of the documentation."""
    folder = tmp_path_factory.mktemp("pages")
    for page in PAGES:
        if program := python_of(page):
            (folder / f"{page.stem.lower().replace('-', '_')}_page.py").write_text(program, "utf-8")
    return folder


@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_the_code_of_the_documentation_is_typed(checker: str, programs: Path) -> None:
    """Both checkers accept every example; mypy strictly."""
    (programs / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}', "utf-8")
    options = {
        "mypy": [
            *("--strict", "--no-error-summary", "--cache-dir", str(programs / "cache")),
            *("--disable-error-code", "import-untyped"),  # pyarrow has no types
        ],
        "basedpyright": ["--level", "error", "--pythonpath", sys.executable],
    }[checker]
    program = Path(sys.executable).with_name(checker)
    files = sorted(path.name for path in programs.glob("*_page.py"))
    assert 20 < len(files)
    done = subprocess.run([program, *options, *files], check=False, capture_output=True, text=True, cwd=programs)
    assert 0 == done.returncode, done.stdout


def mypy(file: Path) -> set[int]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            "--cache-dir",
            str(file.parent / "cache"),
            file,
        ],
        check=False,
        capture_output=True,
        text=True,
        cwd=file.parent,
    )
    return {int(number) for number in re.findall(rf"{file.name}:(\d+): error", done.stdout)}


def pyright(file: Path) -> set[int]:
    (file.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}', "utf-8")
    program = Path(sys.executable).with_name("basedpyright")
    done = subprocess.run(
        [program, "--outputjson", "--pythonpath", sys.executable, file],
        check=False,
        capture_output=True,
        text=True,
        cwd=file.parent,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"}


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_checkers_know_the_types_of_results_events_and_messages(checker: object, tmp_path: Path) -> None:
    """Typed outputs, narrowed events, short forms."""
    file = tmp_path / "good.py"
    file.write_text(GOOD, "utf-8")
    assert set() == checker(file)  # type: ignore[operator]


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_checkers_find_every_misspelling(checker: object, tmp_path: Path) -> None:
    """Options, names, events, and what an output has not."""
    file = tmp_path / "bad.py"
    file.write_text(BAD, "utf-8")
    wrong = {at for at, line in enumerate(BAD.splitlines(), 1) if line.endswith("# wrong")}
    assert wrong == checker(file)  # type: ignore[operator]
