"""What a prompt is made of: schemas in shorthand, code in answers, fragments, standard input."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.running import COMMAND
from interlingua.cli import inputs
from interlingua.cli.answers import code_in
from interlingua.values.errors import FormatError

NAMES = st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True)
KINDS = {"": "string", "str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def test_the_shorthand_of_a_schema_names_fields_types_and_meanings() -> None:
    """Commas or lines; the type is text unless given; every field is required."""
    expected = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "bio": {"type": "string", "description": "one sentence"},
        },
        "required": ["name", "age", "bio"],
    }
    assert expected == inputs.schema("name, age int, bio: one sentence")
    assert expected == inputs.schema("\nname\nage int\nbio: one sentence\n")


def test_a_meaning_may_have_commas_where_fields_are_on_lines() -> None:
    """As llm has it."""
    found = inputs.schema("name: first, then last\nage int")
    assert "first, then last" == found["properties"]["name"]["description"]


@given(st.lists(st.tuples(NAMES, st.sampled_from(sorted(KINDS))), min_size=1, max_size=6, unique_by=lambda f: f[0]))
def test_every_list_of_fields_is_a_schema(fields: list[tuple[str, str]]) -> None:
    """In the same order, each with its type."""
    for separator in (", ", "\n"):
        found = inputs.schema(separator.join(f"{name} {kind}".strip() for name, kind in fields))
        assert [name for name, _ in fields] == found["required"]
        assert {name: {"type": KINDS[kind]} for name, kind in fields} == found["properties"]


@pytest.mark.parametrize(
    "text", ["name date", "a b c", "1st", "name, name", ",", "no/such.json", "{broken", "[1]", "x: y\n: z"]
)
def test_what_is_no_schema_is_a_format_error(text: str) -> None:
    """With a way to write one."""
    with pytest.raises(FormatError, match="--schema"):
        inputs.schema(text)


def test_a_schema_of_many_is_an_object_with_a_list() -> None:
    """Providers want an object at the root."""
    found = inputs.schema("name", many=True)
    assert "array" == found["properties"]["items"]["type"] and ["items"] == found["required"]


CODE: dict[str, tuple[str, str, str]] = {
    "one": ("Here:\n```python\nprint(1)\n```\nDone.", "print(1)\n", "print(1)\n"),
    "two": ("```\na\n```\nand\n~~~js\nb\n~~~\n", "a\n", "b\n"),
    "none": ("No code.", "No code.", "No code."),
    "longer": ("````md\n```\ninner\n```\n````\n", "```\ninner\n```\n", "```\ninner\n```\n"),
    "unclosed": ("```sh\nls\n", "ls\n", "ls\n"),
    "empty": ("```\n```\n", "", ""),
    "indented": ("  ```\n  x\n    y\n  ```\n", "x\n  y\n", "x\n  y\n"),
    "inline": ("Use ``` in text ``` like this.", "Use ``` in text ``` like this.", "Use ``` in text ``` like this."),
}


@pytest.mark.parametrize("name", CODE)
def test_the_code_of_an_answer_is_its_first_or_last_block(name: str) -> None:
    """Without the fences; an answer without a block is given whole."""
    text, first, last = CODE[name]
    assert (first, last) == (code_in(text), code_in(text, last=True))


def test_a_fragment_is_a_stored_name_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything else is an error that says where it was looked for."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    (tmp_path / "fragments").mkdir()
    (tmp_path / "fragments" / "style.md").write_text("Be brief.")
    (tmp_path / "notes.txt").write_text("Milk.")
    assert ("Be brief.", "Milk.") == (inputs.fragment("style"), inputs.fragment(str(tmp_path / "notes.txt")))
    with pytest.raises(FormatError, match="fragments"):
        inputs.fragment("../style")
    with pytest.raises(FormatError, match="style2"):
        inputs.fragment("style2")


# --- standard input ---------------------------------------------------------------------------------------------------

ASK = [*COMMAND, "run", "-q", "-n", "-m", "debug/parrot-1", "Hi"]


def started(**options: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(ASK, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_an_open_input_that_says_nothing_does_not_hold_up_a_prompt() -> None:
    """A program that starts us keeps its end of the pipe open: we go on, and say so."""
    process = started(stdin=subprocess.PIPE)
    with process:
        assert process.stdout is not None and process.stderr is not None
        assert b"Hi\n" == process.stdout.read()
        assert b"not read" in process.stderr.read()
        assert 0 == process.wait(60)


def test_an_open_socket_does_not_hold_up_a_prompt() -> None:
    """As a service manager may give one."""
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs, started(stdin=theirs.fileno()) as process:
        assert process.stdout is not None
        assert b"Hi\n" == process.stdout.read()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to see who writes")
def test_a_slow_pipeline_is_waited_for(tmp_path: Path) -> None:
    """Its first byte comes long after an inherited input would have been given up."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    source, sink = os.pipe()
    with subprocess.Popen(["cat", str(gate)], stdout=sink) as writer:
        os.close(sink)
        with started(stdin=source) as process:
            os.close(source)
            assert process.stdout is not None
            begun = time.monotonic()
            while time.monotonic() < begun + 3 * inputs.WAIT:  # longer than an inherited input gets
                assert process.poll() is None
                time.sleep(0.1)
            gate.write_text("late news")
            assert b"Hi\n\nlate news\n" == process.stdout.read()
        assert 0 == writer.wait(60)


def test_what_a_writer_left_while_we_looked_for_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes and ends between the last look at the pipe and the look at the processes."""
    source, sink = os.pipe()
    look, late = inputs._is_pipeline, list[int]()

    def looked_late(pipe: int) -> bool:
        if not late:
            late.append(os.write(sink, b"late news"))
            os.close(sink)
        return look(pipe)

    monkeypatch.setattr(inputs, "WAIT", 0.01)
    monkeypatch.setattr(inputs, "_is_pipeline", looked_late)
    try:
        assert inputs._has_input(source)
        assert b"late news" == os.read(source, 100)
    finally:
        os.close(source)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to see who writes")
def test_a_writer_that_opens_and_closes_files_is_seen() -> None:
    """A descriptor that is gone when we look at it says nothing about the others."""
    busy = "import os\nos.dup2(1, 50)\nos.close(1)\nos.write(50, b'.')\nwhile True: open('/dev/null').close()"
    source, sink = os.pipe()
    with subprocess.Popen([sys.executable, "-c", busy], stdout=sink) as writer:
        os.close(sink)
        try:
            assert b"." == os.read(source, 1)
            assert all(inputs._is_pipeline(source) for _ in range(300))
        finally:
            writer.kill()
            os.close(source)


def test_a_closed_input_is_no_input() -> None:
    """`<&-` in a shell."""
    line = " ".join(f"'{part}'" for part in ASK)
    done = subprocess.run(["sh", "-c", f"{line} <&-"], capture_output=True, check=False)
    assert (0, b"Hi\n") == (done.returncode, done.stdout)
