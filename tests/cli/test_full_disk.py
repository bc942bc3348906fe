"""A disk that takes no more: one line that names the file and what to do, and nothing half-written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import COMMAND, Outcome

# Of each command: bytes that a file may have, and the file that it then cannot write.
CASES = {
    ("run", "-m", "debug/echo", "hi"): (0, "home/agents/run/sessions/"),
    ("run", "-m", "debug/echo", "--no-log", "--save", "out/saved", "hi"): (64, "out/saved"),
    ("run", "--save-template", "brief", "-s", "Be brief"): (0, "home/templates/brief.toml"),
    ("logs", "search", "walrus"): (1000, "home/canvas/search.db"),
    ("archive", "add", "in.json"): (0, "home/archive.json"),
    ("archive", "search", "walrus"): (1000, "home/canvas/search.db"),
    ("models", "default", "debug/echo"): (0, "home/models.toml"),
    ("models", "aliases", "set", "a", "debug/echo"): (0, "home/models.toml"),
    ("convert", "in.json", "-t", "anthropic", "-o", "out/a.json"): (64, "out/a.json"),
    ("batch", "submit", "in.json", "-m", "debug/echo", "--jobs", "2", "--name", "b"): (64, "home/batches/b"),
    ("batch", "submit", "in.jsonl", "-m", "debug/echo", "--jobs", "2", "--name", "b"): (3000, "b/journal.jsonl"),
    ("sessions", "import", "in.json"): (1000, "home/agents/main/sessions/"),
    ("sessions", "import", "long.json"): (100000, "home/agents/main/sessions/"),
    ("plugins", "new", "plug"): (64, "plug/"),
    ("serve", "keys", "add", "x"): (64, "home/gateway/keys.json"),
    ("serve", "usage"): (1000, "home/gateway/gateway.db"),
    ("serve", "--port", "0"): (1000, "home/gateway/gateway.db"),
    ("canvas", "keys", "add", "x"): (64, "home/canvas/"),
    ("canvas", "--no-open", "--port", "0"): (16, "home/canvas/"),
}
# Forks for each command, so that Python and the package are loaded once.
DRIVER = """
import json, os, resource, sys, tempfile
from pathlib import Path
from interlingua.cli import main
import interlingua.cli.run, interlingua.cli.archive, interlingua.cli.batch, interlingua.cli.convert, interlingua.agent
tempfile.gettempdir()
for number, (arguments, limit) in enumerate(json.load(sys.stdin)):
    out, err = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.chdir(str(number))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0), os.dup2(out[1], 1), os.dup2(err[1], 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        main(arguments)
        os._exit(0)
    os.close(out[1]), os.close(err[1])
    printed = [os.fdopen(one[0]).read() for one in (out, err)]
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    Path(f"{number}.json").write_text(json.dumps([code, *printed]))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], tuple[Path, Outcome]]:
    """What each command did, and where."""
    root = tmp_path_factory.mktemp("full")
    question = {"messages": [{"role": "user", "content": "walrus " * 300}]}
    for number in range(len(CASES)):
        (root / str(number) / "out").mkdir(parents=True)
        (root / str(number) / "in.json").write_text(json.dumps(question))
        (root / str(number) / "long.json").write_text(json.dumps({"messages": question["messages"] * 100}))
        short = json.dumps({"messages": [{"role": "user", "content": "hi"}]}) + "\n"
        (root / str(number) / "in.jsonl").write_text(short * 12)
    given = json.dumps([(arguments, limit) for arguments, (limit, _) in CASES.items()])
    env = {**os.environ, "INTERLINGUA_HOME": "home"}
    subprocess.run([sys.executable, "-c", DRIVER], input=given.encode(), cwd=root, env=env, check=True, timeout=120)
    found = {case: Outcome(*json.loads((root / f"{at}.json").read_text())) for at, case in enumerate(CASES)}
    return {case: (root / str(at), found[case]) for at, case in enumerate(CASES)}


@pytest.mark.parametrize("arguments", CASES, ids=lambda arguments: "-".join(arguments[:2]))
def test_the_error_names_the_file_and_a_remedy(
    arguments: tuple[str, ...], outcomes: dict[tuple[str, ...], tuple[Path, Outcome]]
) -> None:
    """The limit on the size of files stands for a full disk: both are errors of `write`."""
    folder, done = outcomes[arguments]
    place = CASES[arguments][1]
    last = [line for line in done.err.splitlines() if line.startswith("interlingua: ")][-1:]
    assert (1, 1) == (done.code, len(last)), done.err
    assert place in last[0] and "; " in last[0].split(place)[1]
    assert "Traceback" not in done.err
    assert [] == [path for path in folder.rglob("*") if path.name.endswith((".part", ".new"))]
    assert {"in.json", "in.jsonl", "long.json", "out"} == {path.name for path in folder.iterdir()} - {"home"}
    assert [] == [*(folder / "out").iterdir(), *(folder / "home").glob("agents/*/sessions/*.jsonl")]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["dialects"], ["dialects", "--json"], ["logs", "path"]], ids=" ".join)
def test_standard_output_is_named(arguments: list[str], unbuffered: str) -> None:
    """What cannot be printed is no success, also if it waits in a buffer until the end."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [*COMMAND, *arguments], env=env, stdout=full, stderr=subprocess.PIPE, check=False, timeout=120
        )
    (line,) = done.stderr.decode().splitlines()
    assert (1, True) == (done.returncode, line.startswith("interlingua: standard output: No space left on device; "))


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_part_of_the_output_is_no_success(tmp_path: Path, unbuffered: str) -> None:
    """A disk that takes a part of what is written at once, which an unbuffered stream of Python does not report."""
    row = json.dumps({"messages": [{"role": "user", "content": "walrus"}, {"role": "assistant", "content": "Hi"}]})
    (tmp_path / "in.jsonl").write_text(f"{row}\n" * 1000)
    command = [*COMMAND, "convert", "in.jsonl", "-t", "openai-finetune"]
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))"
    limited = f"import os, resource; {limit}; os.execv({COMMAND[0]!r}, {command})"
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "INTERLINGUA_HOME": str(tmp_path)}
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", limited], cwd=tmp_path, env=env, stdout=out, stderr=subprocess.PIPE, check=False
        )
    assert (1, 9000) == (done.returncode, (tmp_path / "out").stat().st_size), done.stderr
    assert done.stderr.startswith(b"interlingua: standard output: File too large; ")
