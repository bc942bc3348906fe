"""The log of runs: kept, continued, listed, turned off."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from cli.running import COMMAND, Outcome, run
from interlingua.sessions import SessionInfo
from interlingua.testing import Server, Stall
from interlingua.values.messages import text_of

PARROT = ("-m", "debug/parrot-1")


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(chunk=6) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.clear()
    return running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-1")
    return tmp_path / "home"


def at(server: Server) -> tuple[str, ...]:
    return ("-m", "anthropic/m-1", "--base-url", server.base_url("anthropic-messages"))


def ask(*arguments: str | Path, given: bytes = b"", **options: Any) -> Outcome:
    return run("run", "-q", *arguments, given=given, **options)


def logged(home: Path) -> list[SessionInfo]:
    from interlingua.sessions.files import FileStore

    return FileStore(home).sessions("run")


def texts(home: Path, id: str) -> list[str]:
    with il.Session.open(id, agent="run", home=home, read_only=True) as session:
        return [text_of(message.content) for message in session.messages]  # type: ignore[union-attr]


def test_every_run_is_kept_and_the_latest_is_continued(server: Server, home: Path) -> None:
    """With the model, the system prompt and all messages of the run before; in one session."""
    server.say("Oslo.")
    assert 0 == ask("Capital of Norway?", "-s", "Be brief.", *at(server)).code
    server.say("700,000.")
    assert 0 == ask("-c", "How many people?", "--base-url", server.base_url("anthropic-messages")).code
    request = server.last.request
    assert request is not None and "Be brief." == request.context.system_prompt
    wanted = ["Capital of Norway?", "Oslo.", "How many people?"]
    assert wanted == [text_of(message.content) for message in request.context.messages]
    (info,) = logged(home)
    assert [*wanted, "700,000."] == texts(home, info.id)
    assert ("Capital of Norway?", 4) == (info.title, info.messages)


def test_an_earlier_run_is_continued_by_the_start_of_its_id(home: Path) -> None:
    """And an unknown or ambiguous one is an error."""
    assert 0 == ask("first", *PARROT).code
    (first,) = logged(home)
    assert 0 == ask("second", *PARROT).code
    assert "third\n" == ask("--cid", first.id[:8], "third").out
    assert ["first", "first", "third", "third"] == texts(home, first.id)
    unknown = ask("--cid", "zzz", "more")
    assert (1, "") == (unknown.code, unknown.out) and "no run 'zzz'" in unknown.err


def test_a_run_is_not_kept_if_the_user_says_so(home: Path) -> None:
    """For one run, or until the log is turned on again; one run can still be kept."""
    assert 0 == ask("secret", "-n", *PARROT).code
    assert [] == logged(home)
    assert 0 == run("logs", "off").code
    assert "secret\n" == ask("secret", *PARROT).out and [] == logged(home)
    assert 0 == ask("kept", "--log", *PARROT).code and 1 == len(logged(home))
    assert "continued\n" == ask("-c", "continued").out and 2 == logged(home)[0].messages
    assert 0 == run("logs", "on").code
    assert 0 == ask("kept too", *PARROT).code and 2 == len(logged(home))
    assert str(home / "agents" / "run" / "sessions") == run("logs", "path").out.strip()


def test_there_is_nothing_to_continue_in_an_empty_home() -> None:
    """One line."""
    done = ask("-c", "go on")
    assert (1, "", 1) == (done.code, done.out, len(done.err.splitlines())) and "no run to continue" in done.err


def test_a_wrong_model_or_option_leaves_nothing_in_the_log(home: Path) -> None:
    """Nothing was said."""
    assert 1 == ask("Hi", "-m", "no-such/model").code
    assert 1 == ask("Hi", "-o", "temprature", "1", *PARROT).code
    assert [] == logged(home)


def test_a_killed_run_loses_no_prompt_and_can_be_continued(server: Server, home: Path) -> None:
    """kill -9 in the middle of the answer."""
    server.say("It was a dark and stormy night.", fault=Stall(after_events=8))
    with subprocess.Popen(
        [*COMMAND, "run", "Tell me a story", *at(server)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    ) as process:
        assert process.stdout is not None and process.stdout.read(6)
        process.kill()
        assert -signal.SIGKILL == process.wait(60)
    (info,) = logged(home)
    assert ["Tell me a story"] == texts(home, info.id)
    server.say("Gladly.")
    assert "Gladly.\n" == ask("-c", "Again, please", *at(server)).out
    assert ["Tell me a story", "Again, please", "Gladly."] == texts(home, info.id)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["term", "hup"])
def test_a_terminated_run_keeps_the_partial_answer(server: Server, home: Path, number: signal.Signals) -> None:
    """As Ctrl-C does; the exit code tells."""
    server.say("It was a dark and stormy night.", fault=Stall(after_events=8))
    with subprocess.Popen(
        [*COMMAND, "run", "Tell me a story", *at(server)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    ) as process:
        assert process.stdout is not None and process.stdout.read(6)
        process.send_signal(number)
        assert 128 + number == process.wait(60)
    (info,) = logged(home)
    assert texts(home, info.id)[1].startswith("It was")


def test_the_list_names_runs_and_models(home: Path) -> None:
    """The latest first; in a pipe whole ids, and nothing is cut or padded."""
    assert "no runs\n" == run("logs").out
    ask("first", *PARROT)
    ask("second " + "x" * 200, *PARROT)
    lines = run("logs").out.splitlines()
    assert ["second", "first"] == [line.split()[4] for line in lines]
    assert all(line == line.rstrip() and "parrot-1" in line for line in lines)
    assert 1 == len(run("logs", "list", "-n", "1").out.splitlines())
    assert {info.id for info in logged(home)} == {row["id"] for row in run("logs", "list", "--json").json}


def test_a_fragment_goes_before_the_prompt_which_names_the_run(tmp_path: Path, home: Path) -> None:
    """The list shows what was asked, not the beginning of a file."""
    (tmp_path / "main.py").write_text("print(1)\n")
    done = ask("Explain this", "-f", tmp_path / "main.py", *PARROT)
    assert "print(1)\n\nExplain this\n" == done.out
    assert ["Explain this"] == [info.title for info in logged(home)]


def test_only_the_code_of_an_answer_is_printed(home: Path) -> None:
    """-x; the log has all of it."""
    assert "ls\n" == ask("-x", "Do:\n```sh\nls\n```\nOK?", *PARROT).out
    assert "OK?" in texts(home, logged(home)[0].id)[1]
    assert "ls\n" == run("logs", "show", "-x").out and run("logs", "show", "-r").out.endswith("OK?\n")


def test_contradictions_are_refused(tmp_path: Path) -> None:
    """Before anything is read or sent."""
    done = ask("-c", "--cid", "x", "Hi", *PARROT)
    assert (1, "") == (done.code, done.out) and "--continue and --cid" in done.err


def test_what_is_piped_in_can_be_attached(server: Server) -> None:
    """`-a -`: its bytes are the file, not the prompt."""
    from base64 import b64decode

    from connect.asking import PNG

    server.say("A dot.")
    assert 0 == ask("What is it?", "-a", "-", *at(server), given=b64decode(PNG)).code
    request = server.last.request
    assert request is not None
    blocks = request.context.messages[-1].content
    assert isinstance(blocks, tuple)
    image, text = blocks
    assert isinstance(image, il.ImageBlock) and PNG == image.data
    assert isinstance(text, il.TextBlock) and "What is it?" == text.text


# --- search, deletion, totals -----------------------------------------------------------------------------------------


def kept(home: Path, *texts: str, image: str | None = None) -> str:
    """A run in the log, made without a process."""
    with il.Session.open(agent="run", home=home) as session:
        for number, text in enumerate(texts):
            blocks: Any = (
                il.TextBlock(text=text),
                *([il.ImageBlock(data=image, mime_type="image/png")] if image else []),
            )
            session.append(il.UserMessage(content=blocks, timestamp=1_700_000_000_000 + number))
            usage = replace(il.Usage.of(10, 5), cost=il.Cost(total=0.25))
            content = (il.TextBlock(text=f"About {text}"),)
            session.append(il.AssistantMessage(content=content, model="m-1", provider="acme", usage=usage))
    return session.id


def test_a_run_is_found_deleted_restored_and_removed_for_good(home: Path) -> None:
    """Its words leave the index at once, its blobs when it can no longer be restored."""
    import base64

    large = base64.b64encode(bytes(range(256)) * 400).decode()
    first, second = kept(home, "the zebra question", image=large), kept(home, "a question of giraffes")
    blobs = home / "agents" / "run" / "blobs"
    for blob in blobs.iterdir():
        os.utime(blob, (0, 0))
    found = run("logs", "search", "question", "--json").json
    assert [second, second, first, first] == [hit["id"] for hit in found["hits"]]
    assert 0 == run("logs", "delete", first[:8]).code
    assert "nothing found\n" == run("logs", "search", "zebra").out and second in run("logs").out
    assert b"zebra" not in (home / "canvas" / "search.db").read_bytes()
    assert first in run("logs", "restore").out and 0 == run("logs", "restore", first).code
    assert 2 == run("logs", "search", "zebra", "--json").json["total"]
    assert 1 == len([*blobs.iterdir()])
    gone = run("logs", "delete", "--all", "--purge", "--yes", "--json").json
    assert {first, second} == {row["id"] for row in gone["deleted"]}
    assert [] == [*blobs.iterdir()] and [] == logged(home)
    assert [] == [*(home / "agents" / "run" / "sessions").glob("*.jsonl*")]
    assert "nothing to restore\n" == run("logs", "restore").out


def test_nobody_deletes_everything_by_accident(home: Path) -> None:
    """Several at once want a yes; an unknown name deletes nothing."""
    first, second = kept(home, "one"), kept(home, "two")
    refused = run("logs", "delete", "--all", given=b"")
    assert 1 == refused.code and "--yes" in refused.err
    assert 1 == run("logs", "delete", first, "zzz").code and 2 == run("logs", "delete").code
    assert {first, second} == {info.id for info in logged(home)}
    assert "nothing to delete\n" == run("logs", "delete", "--before", "3").out


def test_totals_are_counted_by_model_and_day(home: Path) -> None:
    """Answers, tokens and cost."""
    kept(home, "one", "two")
    kept(home, "three")
    found = run("logs", "totals", "--json").json
    (row,) = found["rows"]
    assert ("m-1", 3, 30, 15, 0.75) == tuple(row[name] for name in ("name", "answers", "input", "output", "cost"))
    assert "$0.7500" in run("sessions", "totals", "--agent", "run", "--by", "day").out


def test_totals_name_answers_without_a_price(home: Path, tmp_path: Path) -> None:
    """In the table, and with the reason below it."""
    usage = {"input_tokens": 3, "output_tokens": 2}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Hi"}], "model": "m-9", "id": "a"}
    (tmp_path / "a.json").write_text(
        json.dumps({**answer, "type": "message", "stop_reason": "end_turn", "usage": usage})
    )
    assert 0 == run("sessions", "import", tmp_path / "a.json").code
    found = run("sessions", "totals")
    assert "no price" in found.out and "?" not in found.out
    assert "1 answer without a price" in found.err


def test_a_conversation_that_was_imported_before_is_named(home: Path, tmp_path: Path) -> None:
    """It is saved once; `--again` saves it a second time, and an import that was cut off is no earlier one."""
    (tmp_path / "a.json").write_text('{"model":"m","messages":[{"role":"user","content":"Hi"}]}')

    def imported(*more: str) -> tuple[str, bool]:
        ((row),) = run("sessions", "import", tmp_path / "a.json", "--json", *more).json["sessions"]
        return row["id"], row["existed"]

    first = imported()
    assert (first[0], True) == imported() and not first[1]
    assert "imported before; --again" in run("sessions", "import", tmp_path / "a.json").out
    assert 1 == len(run("sessions", "list", "--json").json)
    assert first[0] != imported("--again")[0]
    file = home / "agents" / "main" / "sessions" / f"{first[0]}.jsonl"
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    assert not imported()[1] and imported()[1]
    assert 3 == len(run("sessions", "list", "--json").json)


def test_an_unknown_entry_is_named_with_what_lists_the_entries(home: Path) -> None:
    """For a fork."""
    session = kept(home, "one")
    refused = run("sessions", "fork", session, "--agent", "run", "--at", "nope")
    assert (
        1 == refused.code
        and f"no entry 'nope'; see: interlingua sessions show {session} --agent run --tree" in refused.err
    )


def test_the_list_of_known_runs_opens_none_of_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: the catalogue knows them, and continuing the latest looks at times alone."""
    from interlingua.cli.logs import session_id
    from interlingua.sessions import files

    ids = [kept(home, f"question {number}") for number in range(5)]
    for number, id in enumerate(ids):  # the clock of a file system may give several the same time
        os.utime(home / "agents" / "run" / "sessions" / f"{id}.jsonl", (1_700_000_000 + number,) * 2)
    assert 5 == len(logged(home))
    monkeypatch.setattr(files, "FileLog", None)
    assert [*reversed(ids)] == [info.id for info in logged(home)]
    assert ids[-1] == session_id(None) and ids[0] == session_id(ids[0][:30])


def test_the_list_imports_neither_dialects_nor_clients() -> None:
    """It starts as fast as a shell history."""
    end = "finally: print(*sys.modules, file=sys.stderr)"
    code = f"import sys; from interlingua.cli import main\ntry: main(['logs'])\n{end}"
    done = subprocess.run([COMMAND[0], "-c", code], capture_output=True, check=False, text=True)
    loaded = set(done.stderr.split())
    assert "no runs\n" == done.stdout
    heavy = {
        "aiohttp",
        "rich.console",
        "interlingua.dialects",
        "interlingua.conversion",
        "interlingua.sessions.session",
    }
    assert set() == heavy & loaded
