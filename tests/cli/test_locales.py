"""Legacy locales: text in files, names and pipes is UTF-8 whatever they say, and no command ends in a traceback."""

import ast
import codecs
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import COMMAND

SOURCE = Path(__file__).parents[2] / "src"
TEXT = "Größe 日本 🎉"
REQUEST = {"model": "m", "max_tokens": 9, "system": TEXT, "messages": [{"role": "user", "content": TEXT}]}
PLAIN_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LOCALES = {
    "C": PLAIN_C,
    "latin-1 output": {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "latin-1"},
    "cp1252 output": {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"},
}


@pytest.fixture(scope="module")
def latin(tmp_path_factory):
    """A German locale in ISO-8859-1, made for this test where the system can."""
    place = tmp_path_factory.mktemp("locales")
    made = subprocess.run(
        ["localedef", "-c", "-i", "de_DE", "-f", "ISO-8859-1", place / "de_DE.ISO-8859-1"],
        capture_output=True,
        check=False,
    )
    if not (place / "de_DE.ISO-8859-1").is_dir():
        pytest.skip(f"no locale can be made here: {made.stderr.decode(errors='replace')}")
    return {"LOCPATH": str(place), "LC_ALL": "de_DE.ISO-8859-1", "PYTHONUTF8": "0"}


@pytest.fixture
def folder(tmp_path):
    """A folder with a request, both with names that need UTF-8."""
    folder = tmp_path / "wörk"
    folder.mkdir()
    (folder / "日本.json").write_text(json.dumps(REQUEST, ensure_ascii=False), encoding="utf-8")
    return folder


def environment(locale, folder):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    return kept | locale | {"INTERLINGUA_HOME": str(folder / "höme")}


def piped(locale, folder, *arguments, given=None):
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=given,
        cwd=folder,
        env=environment(locale, folder),
        capture_output=True,
        check=False,
        timeout=120,
    )
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
    assert "Traceback" not in err and "codec can't" not in out + err, (arguments, err)
    return done.returncode, out, err


def walk_through(locale, folder):
    """Every command that shows or writes text, one after the other; what is piped is UTF-8."""

    def good(*arguments, **options):
        code, out, err = piped(locale, folder, *arguments, **options)
        assert 0 == code, (arguments, out, err)
        return out

    shown = {
        ("show", "日本.json"): TEXT,
        ("check", "日本.json"): "日本.json: no problems",
        ("detect", "日本.json"): "日本.json",
        ("detect", "日本.json", "--json"): '"日本.json"',
        ("diff", "日本.json", "日本.json"): "no differences",
        ("stats", "日本.json"): "1 user",
        ("dialects",): "anthropic-messages",
        ("convert", "日本.json", "-t", "openai-completions"): TEXT,
        ("run", "-m", "debug/echo", TEXT): TEXT,
        ("sessions", "import", "日本.json"): "日本.json →",
        ("sessions", "list"): TEXT,
        ("tools", "run", "ls", '{"path":"."}'): "日本.json",
        ("tools", "run", "grep", '{"pattern":"Größe"}'): f"日本.json:1: {json.dumps(REQUEST, ensure_ascii=False)}",
        ("tools", "run", "find", '{"pattern":"日*"}'): "日本.json",
        ("tools", "run", "--yes", "write", json.dumps({"path": "neü.txt", "content": TEXT})): "neü.txt",
        ("tools", "run", "--yes", "edit", '{"path":"neü.txt","oldText":"日本","newText":"本日"}'): "neü.txt",
        ("tools", "run", "read", '{"path":"neü.txt"}'): "Größe 本日 🎉",
        ("tools", "run", "--yes", "exec", '{"command":"cat neü.txt; printf \'\\\\377\'"}'): "Größe 本日 🎉\ufffd",
    }
    for arguments, text in shown.items():
        assert text in good(*arguments), arguments
    assert TEXT in good("run", "-m", "debug/echo", given=TEXT.encode())
    good("convert", "日本.json", "-t", "openai-completions", "-o", "öut.json")
    assert TEXT == json.loads((folder / "öut.json").read_text("utf-8"))["messages"][0]["content"]
    code, out, err = piped(locale, folder, "show", "fehlt-日.json")
    assert (1, "") == (code, out) and err.startswith("interlingua: fehlt-日.json")
    for arguments in (("run", "-m", "debug/echo"), ("auth", "login", "openai"), ("tools", "run", "ls", "-")):
        code, _, err = piped(locale, folder, *arguments, given=b"gr\xfc\xdfe")
        assert 1 == code and "standard input is not UTF-8" in err


@pytest.mark.parametrize("name", LOCALES)
def test_text_is_piped_as_utf8_whatever_python_is_set_to(name, folder):
    """
    Output is UTF-8 where it is no terminal's.
    """
    assert TEXT in piped(LOCALES[name], folder, "show", "日本.json")[1]


def test_every_command_reads_and_pipes_utf8_under_the_c_locale(folder):
    """
    Files, names, arguments, standard input and output: all UTF-8, no traceback.
    """
    walk_through(PLAIN_C | {"PYTHONIOENCODING": "ascii"}, folder)


def test_every_command_reads_and_pipes_utf8_under_a_latin_1_locale(latin, folder):
    """
    The same under a real German ISO-8859-1 locale.
    """
    walk_through(latin, folder)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_a_legacy_terminal_cannot_show_is_escaped(encoding, folder):
    """
    A terminal gets its own encoding, with escapes for the rest.
    """
    ours, theirs = pty.openpty()
    env = environment(PLAIN_C | {"PYTHONIOENCODING": encoding, "TERM": "dumb"}, folder)
    arguments = ["run", "-m", "debug/echo", "--quiet", TEXT]
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ) as it:
        os.close(theirs)
        written = b""
        while chunk := _read(ours):
            written += chunk
        assert 0 == it.wait(60), written
    os.close(ours)
    assert codecs.encode(TEXT, encoding, "backslashreplace") in written


def _read(handle):
    try:
        return os.read(handle, 65536)
    except OSError:  # the other end of a terminal closed
        return b""


TOOLS = """
import asyncio, json, sys
from interlingua.tools.core import edit, exec, find, grep, ls, read, write
from interlingua.tools.tool import ToolContext

async def main():
    context = ToolContext(root=sys.argv[1], config={"tools": {"exec": {"sandbox": "off"}}})
    for name, arguments in json.loads(sys.argv[2].encode("utf-8", "surrogateescape")):
        tool = getattr(globals()[name], f"{name}_tool")(context)
        result = await tool.execute("call", arguments)
        print(json.dumps([name, result.text]))

asyncio.run(main())
"""


@pytest.mark.parametrize("start", ["walk by path", "walk from the root"])
def test_tools_of_a_program_under_a_legacy_locale_use_utf8_names(start, folder):
    """
    A program that uses the library has the locale's encoding for its own names; those of a model are UTF-8.
    """
    where = {"path": "ü"} if start == "walk by path" else {}
    calls = [
        ("write", {"path": "ü/日.txt", "content": TEXT}),
        ("edit", {"path": "ü/日.txt", "oldText": "日本", "newText": "本日"}),
        ("read", {"path": "ü/日.txt"}),
        ("ls", {"path": "ü"}),
        ("find", {"pattern": "*日*", **where}),
        ("grep", {"pattern": "本日", **where}),
        ("exec", {"command": 'cat ü/日.txt; echo " $V"', "env": {"V": "é"}}),
        ("exec", {"command": "touch $'\\xff.txt'; ls", "workdir": "ü"}),
        ("find", {"pattern": "*", "path": "ü"}),
    ]
    done = subprocess.run(
        [sys.executable, "-c", TOOLS, str(folder), json.dumps(calls)],
        env=environment(PLAIN_C, folder),
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert 0 == done.returncode, done.stderr.decode()
    results = [json.loads(line)[1] for line in done.stdout.splitlines()]
    expected = ["ü/日.txt", "ü/日.txt", "Größe 本日 🎉", "日.txt", "ü/日.txt", "ü/日.txt", "Größe 本日 🎉 é", "日.txt"]
    for text, result in zip([*expected, "ü/\\xff.txt"], results, strict=True):
        assert text in result
    assert (folder / "ü" / "日.txt").exists()


def _locale_dependent(path):
    """Calls that read or write text in the encoding of the locale, by line."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = {keyword.arg for keyword in node.keywords}
        strings = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if "encoding" in given:
            continue
        plain_open = name == "fdopen" or (name == "open" and isinstance(node.func, ast.Name))
        modes = [text for text in strings[-1:] if set(text) <= set("rwaxbt+")]
        text_mode = (plain_open and not any("b" in mode for mode in modes)) or (
            name == "open" and any(not set(mode) & set("b") for mode in modes) and bool(modes)
        )
        whole = (name == "read_text" and not node.args) or (name == "write_text" and len(node.args) < 2)
        process = name == "popen" or bool(
            {"text", "universal_newlines"} & given and name in ("run", "Popen", "check_output")
        )
        if text_mode or whole or process:
            yield f"{path.relative_to(SOURCE)}:{node.lineno}"


def test_no_file_is_read_or_written_in_the_encoding_of_the_locale():
    """
    Text files and pipes name their encoding.
    """
    assert [] == [place for path in SOURCE.rglob("*.py") for place in _locale_dependent(path)]
