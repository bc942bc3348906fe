"""The other commands: what they show, and what programs get from them."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from cli.running import COMMAND, run
from interlingua.cli import COMMANDS
from interlingua.dialects import DIALECTS
from interlingua.sessions.archive_index import Stamp
from interlingua.sessions.archive_reading import part_of, read_file

CONVERSATION = {
    "model": "claude-x",
    "max_tokens": 9,
    "system": "Be terse.",
    "messages": [
        {"role": "user", "content": "Read it"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.py"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x = 1"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It sets **x**."}]},
    ],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "c.json"
    file.write_text(json.dumps(CONVERSATION))
    return file


def test_show_folds_thinking_and_puts_results_with_their_calls(path: Path) -> None:
    """A reader sees who said what; reasoning on request."""
    shown = run("show", path).out
    assert "▸ thinking (11 characters)" in shown and "Let me see." not in shown
    assert shown.index("→ read") < shown.index("← x = 1") < shown.index("It sets **x**")
    assert "Let me see." in run("show", path, "--thinking").out


def ended_by(number: signal.Signals, *, wrapper: tuple[str, ...] = ()) -> tuple[int | None, bytes]:
    """A command that is sent a signal while it reads, with a program in front of it: exit code, standard error."""
    command = [*wrapper, *COMMAND, "stats", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b" " * (1 << 20))  # more than a pipe holds: the command is reading
        own = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text() if wrapper else process.pid
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            os.kill(int(own), number)  # Python misses one that comes just before it waits for input
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
        process.kill()
        return process.returncode, process.stderr.read()


def test_ctrl_c_ends_a_command_as_shells_report_it() -> None:
    """Exit code 130, and nothing to read about it."""
    code, shown = ended_by(signal.SIGINT)
    assert 130 == code and b"Aborted" not in shown


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="!!!! bwrap is NOT INSTALLED: no container is tested")
def test_sigterm_ends_the_first_process_of_a_container() -> None:
    """The kernel delivers it there only to a handler, and a gateway has none of its own until it serves."""
    alone = ("bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--as-pid-1", "--die-with-parent")
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("bwrap cannot make a namespace on this machine")
    assert (143, b"") == ended_by(signal.SIGTERM, wrapper=alone)


def test_show_gives_our_own_json_to_programs(path: Path) -> None:
    """`--json` is the conversation in the format."""
    conversation = il.load(run("show", path, "--json").out)
    assert conversation == il.decode(CONVERSATION)


def test_diff_sees_no_difference_between_spellings(path: Path, tmp_path: Path) -> None:
    """The same conversation in two formats is the same, but for what the other could not say."""
    other = tmp_path / "bedrock.json"
    assert run("convert", path, "-t", "bedrock-converse-stream", "-o", other).code == 0
    same = run("diff", path, other)
    assert (same.code, same.out.strip()) == (0, "no differences")


def test_diff_leaves_lines_without_a_message_to_all(tmp_path: Path) -> None:
    """The files of Codex have lines of their own kinds around the messages; those keep their places."""
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    (tmp_path / "a.json").write_text(json.dumps({**body, "messages": body["messages"] * 2}))
    (tmp_path / "c.json").write_text(json.dumps(body))
    assert 0 == run("convert", "c.json", "-t", "codex-cli", "-o", "c.jsonl", cwd=tmp_path).code
    assert "no differences" in run("diff", "c.json", "c.jsonl", cwd=tmp_path).out
    assert 1 == run("diff", "c.json", "c.jsonl", "--all", cwd=tmp_path).code
    rows = run("diff", "c.jsonl", "a.json", "--json", cwd=tmp_path).json
    assert [("added", None, 1)] == [(row["kind"], row["a"], row["b"]) for row in rows]


def test_diff_names_what_changed(path: Path, tmp_path: Path) -> None:
    """Changed, added and removed messages are told by their place."""
    changed = json.loads(json.dumps(CONVERSATION))
    changed["messages"][3]["content"][0]["text"] = "It sets y."
    changed["messages"].append({"role": "user", "content": "Thanks"})
    other = tmp_path / "d.json"
    other.write_text(json.dumps(changed))
    done = run("diff", path, other, "--json")
    assert done.code == 1
    assert [(row["kind"], row["a"], row["b"]) for row in done.json] == [("changed", 3, 3), ("added", None, 4)]


def test_diff_shows_changed_lines_of_dashes_and_refuses_a_folder_of_several(tmp_path: Path) -> None:
    """A rule of Markdown is text, not a heading of the diff; two files are not one conversation."""
    for name, rule in (("a", "---"), ("b", "+++")):
        system = f"Before\n{rule}\nafter"
        (tmp_path / f"{name}.json").write_text(json.dumps({**CONVERSATION, "system": system}))
    done = run("diff", tmp_path / "a.json", tmp_path / "b.json", "--json")
    assert [" Before", "----", "++++", " after"] == done.json[0]["changes"]
    done = run("diff", tmp_path, tmp_path / "b.json")
    assert done.code != 0
    assert "2 files; give a file with one conversation" in done.err


def test_an_error_names_the_file_and_no_path_of_all_of_it(path: Path, tmp_path: Path) -> None:
    """Of two files, the one that cannot be read; `$` as a path would say nothing."""
    unknown, foreign = tmp_path / "unknown.json", tmp_path / "foreign.json"
    unknown.write_text('{"x": 1}')
    foreign.write_text('{"messages": 5}')
    known = "no known format; name one (`interlingua dialects` lists them)"
    assert f"interlingua: {unknown}: {known}\n" == run("diff", path, unknown).err
    refused = run("diff", path, foreign, "-f", "anthropic-messages").err
    assert refused.startswith(f"interlingua: {foreign}: anthropic-messages: ")
    done = run("convert", path, "-t", "llm-logs")
    assert done.code == 1 and not done.err.rstrip().endswith("(at $)"), done.err


def test_stats_adds_up_what_is_known(tmp_path: Path) -> None:
    """Tokens and cost per model; unknown cost stays unknown."""
    usage = {"input": 10, "output": 5, "cacheRead": 2, "cacheWrite": 0, "totalTokens": 17}
    lines = [
        {"role": "user", "content": "a", "timestamp": 1},
        {"role": "assistant", "content": [], "model": "m", "api": "x", "usage": {**usage, "cost": {"total": 0.5}}},
        {"role": "assistant", "content": [], "model": "n", "api": "x", "usage": usage},
    ]
    file = tmp_path / "s.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    output = run("stats", file, "--json").json
    assert output["tokens"]["total_tokens"] == 34
    assert output["models"]["m"]["cost"] == 0.5
    assert output["models"]["n"]["cost"] is None


def test_stats_lists_no_program_among_the_models(tmp_path: Path) -> None:
    """What Claude Code and OpenClaw wrote in the place of an answer counts as a message, and as no model's."""
    answer = {"role": "assistant", "content": [{"type": "text", "text": "x"}]}
    usage = {"input_tokens": 1, "output_tokens": 1}
    claude = [
        {"type": "assistant", "uuid": f"a{at}", "parentUuid": None, "sessionId": "s", "message": {**answer, **message}}
        for at, message in enumerate(({"model": "claude-x", "usage": usage}, {"model": "<synthetic>", "usage": usage}))
    ]
    marks = [("anthropic", "claude-x"), ("openclaw", "delivery-mirror"), ("openclaw", "gateway-injected")]
    openclaw: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "s", "cwd": "/", "timestamp": "2026-01-01"}
    ]
    for at, (provider, model) in enumerate(marks):
        made = {**answer, "api": "x", "provider": provider, "model": model, "timestamp": 1}
        openclaw.append({"type": "message", "id": f"e{at}", "parentId": f"e{at - 1}" if at else None, "message": made})
    for lines in (claude, openclaw):
        file = tmp_path / "s.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)))
        counted = run("stats", file, "--json").json
        assert ["claude-x"] == list(counted["models"])
        assert len([line for line in lines if "message" in line]) == counted["messages"]["assistant"]
        by_line = [part for found in read_file(file, None, Stamp.of(file)) for part in found.parts]
        whole = [part_of(0, "", conversation, None) for conversation in il.read(file)]
        assert [("claude-x",)] * 2 == [part.models for part in (*by_line, *whole)]


def test_check_explains_and_the_exit_code_says_so(tmp_path: Path) -> None:
    """A foreign spelling in our own messages is named, with what to write instead."""
    file = tmp_path / "m.json"
    file.write_text(
        json.dumps([{"role": "user", "content": "x"}, {"role": "toolResult", "toolCallId": "z", "content": []}])
    )
    done = run("check", file, "--json")
    assert done.code == 1
    assert all(finding["remedy"] for result in done.json["results"] for finding in result["findings"])
    fine = tmp_path / "fine.json"
    fine.write_text(json.dumps(CONVERSATION))
    assert run("check", fine, "--for", "anthropic-messages").code == 0


def test_detect_tells_why(path: Path) -> None:
    """The format, and what gave it away."""
    (row,) = run("detect", path, "--json").json
    assert row["dialect"] == "anthropic-messages"
    assert row["reason"]


def test_dialects_lists_them_all() -> None:
    """Every row of the table, with a line on what it is."""
    rows = run("dialects", "--json").json
    assert [row["name"] for row in rows] == list(DIALECTS)
    assert all(row["summary"] for row in rows)


def test_dialects_shows_the_rules_of_one() -> None:
    """Its module's own text; an unknown name is refused with the valid ones."""
    assert "chat_messages" in run("dialects", "claude-web-export").out
    assert run("dialects", "claude-web-export", "--json").json["kind"] == "file"
    refused = run("dialects", "nonsense")
    assert refused.code != 0
    assert "claude-web-export" in refused.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    """`--help` shows how to call it."""
    done = run(name, "--help", fresh=True)
    assert done.code == 0
    assert "Usage: interlingua" in done.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    """For the shells that people use."""
    done = run("completion", shell)
    assert done.code == 0
    assert "_INTERLINGUA_COMPLETE" in done.out


def test_a_wrong_option_is_a_usage_error() -> None:
    """One that names the remedy, with exit code 2."""
    done = run("convert", "-t", "esperanto")
    assert done.code == 2
    assert "esperanto" in done.err and "Traceback" not in done.err


def test_show_hides_bookkeeping_unless_asked(tmp_path: Path) -> None:
    """Events for the screen and settings of turns are no part of the conversation; the title is."""
    lines = [
        {"type": "session_meta", "payload": {"id": "s"}},
        {"type": "event_msg", "payload": {"type": "thread_name_updated", "thread_name": "A title"}},
        {
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        },
    ]
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    shown, everything = run("show", path).out, run("show", path, "--all").out
    assert ("A title" in shown, "1 bookkeeping line" in shown, "event_msg" in shown) == (True, True, False)
    assert "event_msg" in everything


def test_show_tells_what_a_program_put_in_from_a_persons_words(tmp_path: Path) -> None:
    """It is shortened, as the results of tools are."""
    messages = [
        {"role": "user", "content": "How many eggs?"},
        {"role": "user", "content": "x" * 1000, "origin": "program"},
    ]
    path = tmp_path / "transcript.jsonl"
    path.write_text("\n".join(map(json.dumps, messages)))
    shown = run("show", path, "-f", "transcript").out.splitlines()[1:]
    assert shown == ["user", "  How many eggs?", "program", f"  {'x' * 600}… (400 more characters)"]
    assert "x" * 1000 in run("show", path, "--full", "-f", "transcript").out


def test_lines_beside_the_path_are_no_branches(tmp_path: Path) -> None:
    """A snapshot of files hangs from nothing: `show --all` shows it, and `stats` counts messages first."""
    snapshot = {"type": "file-history-snapshot", "messageId": "a", "snapshot": {}, "isSnapshotUpdate": False}
    common = {"sessionId": "s", "timestamp": "2026-01-01T00:00:00.000Z", "type": "user"}
    asked = [{**common, "uuid": f"u{n}", "parentUuid": None if n == 0 else "u0"} for n in range(2)]
    lines = [{**line, "message": {"role": "user", "content": "Hi"}} for line in asked]
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(map(json.dumps, [lines[0], snapshot, snapshot, lines[1]])))
    shown, everything = run("show", path).out, run("show", path, "--all").out
    assert ("(2 bookkeeping lines; --all shows them)" in shown, "other branches" in shown) == (True, False)
    assert 2 == everything.count("\nfile-history-snapshot\n")
    assert "1 conversation, 2 user, 2 other lines" == run("stats", path).out.splitlines()[0]


def test_check_says_once_of_a_file_that_rows_are_fine(tmp_path: Path) -> None:
    """A set of a million rows has one line for those without a finding; programs get every row."""
    path = tmp_path / "rows.jsonl"
    row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]}
    path.write_text("".join(json.dumps(row) + "\n" for _ in range(1002)))
    assert (
        f"{path}: no problems in 1,002 conversations\n" == run("check", path, env={**os.environ, "COLUMNS": "300"}).out
    )
    assert 1002 == len(run("check", path, "--json").json["results"])


def test_stats_prefer_the_total_that_a_file_states(tmp_path: Path) -> None:
    """Lines may repeat what an answer used, or leave it out."""
    total = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 9}
    info = {"total_token_usage": total, "last_token_usage": {**total, "output_tokens": 1}}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]}
    lines = [
        {"type": "session_meta", "payload": {"id": "s"}},
        {"type": "response_item", "payload": answer},
        {"type": "event_msg", "payload": {"type": "token_count", "info": info}},
    ]
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    tokens = json.loads(run("stats", path, "--json").out)["tokens"]
    assert (40, 60, 9) == (tokens["input"], tokens["cache_read"], tokens["output"])


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("modls",), "models"),
        (("sessions", "lst"), "list"),
        (("serve", "keys", "lst"), "list"),
        (("logs", "serch"), "search"),
        (("templates", "lst"), "list"),
        (("archive", "serch"), "search"),
        (("batch", "submt"), "submit"),
        (("models", "claude-sonet"), "claude-sonnet"),
        (("auth", "login", "antropic"), "anthropic"),
        (("convert", "-t", "opnai"), "openai"),
        (("show", "-f", "antropic"), "anthropic"),
        (("dialects", "transcrip"), "transcript"),
        (("run", "hi", "-m", "claude-sonet"), "claude-sonnet"),
        (("run", "hi", "-m", "antropic/claude"), "anthropic"),
        (("run", "hi", "-m", "debug/parot-1"), "parrot-1"),
    ],
    ids=lambda value: "-" if isinstance(value, tuple) else value,
)
def test_a_misspelt_name_suggests_the_one_that_was_meant(arguments: tuple[str, ...], meant: str) -> None:
    """Commands, formats, models and providers: one line, and an exit code."""
    done = run(*arguments, given=b"")
    assert done.code != 0
    assert f"did you mean {meant!r}"[:-1] in done.err.splitlines()[-1]


def test_unknown_names_list_the_valid_ones() -> None:
    """Where nothing is near, what there is."""
    assert "`interlingua --help` lists the commands" in run("xyzzy").err
    assert "valid formats: " in run("convert", "-t", "qqqqq", given=b"").err


def test_the_doctor_checks_the_installation(tmp_path: Path) -> None:
    """Home, keys, models, sandbox and programs; what is wrong has a remedy and an exit code."""
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path), "OPENAI_API_KEY": "sk-" + "x"}
    found = run("doctor", "--json", env=env)
    checks = {check["name"]: check for check in found.json["checks"]}
    assert (0, True) == (found.code, found.json["healthy"])
    assert {"version", "terminal", "home", "default model", "keys", "sandbox", "git", "extras"} <= checks.keys()
    assert "openai (env:OPENAI_API_KEY)" in checks["keys"]["detail"] and "sk-" not in found.out
    tmp_path.chmod(0o777)
    (tmp_path / "models.toml").write_text("[alias]\n")
    broken = run("doctor", env=env)
    assert 1 == broken.code and "Traceback" not in broken.err
    assert f"chmod go-w {tmp_path}" in broken.out and "did you mean `aliases`?" in broken.out


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (json.dumps(CONVERSATION), "anthropic-messages"),
        ("just text\n", "no known format"),
        ("", "is empty, not a session file"),
        ("\n\n", "is empty, not a session file"),
    ],
    ids=["request", "text", "empty", "blank"],
)
def test_the_doctor_names_the_format_of_what_is_no_session(data: str, names: str, tmp_path: Path) -> None:
    """One line; and no output is written, since a repair would leave nothing."""
    path, new = tmp_path / "x.json", tmp_path / "new.jsonl"
    path.write_text(data)
    done = run("doctor", path, "-o", new)
    assert (1, "", 1, False) == (done.code, done.out, len(done.err.splitlines()), new.exists())
    assert names in done.err and "session file" in done.err


@pytest.mark.parametrize(
    ("typed", "offers"),
    [
        ("il run -m debug/pa", "debug/parrot-1"),
        ("il run -m anthropic/claude-opus-4-", "anthropic/claude-opus-4-6"),
        ("interlingua chat -m anthr", "anthropic/"),
        ("il convert -t gem", "gemini"),
        ("il show -f chatg", "chatgpt-export"),
        ("il models -p oll", "ollama"),
        ("il models def", "default"),
        ("il tools show rea", "read"),
        ("il sessions show abc", "abcdef"),
        ("il chat --session abc", "abcdef"),
        ("il doc", "doctor"),
        ("il run -m sonn", "sonnet"),
        ("il run -T rea", "read"),
        ("il run -T cod", "coding"),
        ("il run --cid fed", "fedcba"),
        ("il logs show fed", "fedcba"),
        ("il logs delete fed", "fedcba"),
        ("il run -t tran", "translate"),
        ("il templates edit tran", "translate"),
        ("il auth login anthr", "anthropic"),
        ("il archive add cod", "codex-cli"),
        ("il batch status b-", "b-1"),
    ],
    ids=range(22),
)
def test_the_shell_is_offered_what_fits(typed: str, offers: str, tmp_path: Path) -> None:
    """Models, formats, providers, tools, sessions and commands, for both names of the program."""
    folder = tmp_path / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    (folder / "abcdef.jsonl").write_text('{"role":"user","content":"hi"}\n')
    for name, text in (
        ("agents/run/sessions/fedcba.jsonl", '{"role":"user","content":"hi"}\n'),
        ("templates/translate.toml", 'prompt = "Translate: $input"\n'),
        ("batches/b-1/batch.json", "{}"),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    count = str(len(typed.split()) - 1)
    env = {**os.environ, "INTERLINGUA_HOME": str(tmp_path), "COMP_WORDS": typed, "COMP_CWORD": count}
    done = run(env={**env, "_INTERLINGUA_COMPLETE": "bash_complete"})
    assert (0, "") == (done.code, done.err)
    assert offers in {line.partition(",")[2] for line in done.out.splitlines()}
    assert "chatgpt-export" not in done.out or "show" in typed  # it is read, not written


def test_both_names_of_the_program_are_completed() -> None:
    """`il` and `interlingua` in one script."""
    script = run("completion", "bash").out
    assert "complete -o nosort -F _il_completion il" in script
    assert "complete -o nosort -F _interlingua_completion interlingua" in script


def test_a_file_with_a_torn_line_is_not_called_sound(tmp_path: Path) -> None:
    """`check` names the line instead."""
    path = tmp_path / "t.jsonl"
    path.write_text('{"role":"session","version":1}\n{"role":"user","content":"Hi"}\n{"role":\n')
    done = run("check", path)
    assert done.code == 1
    assert ":3: " in done.err and "no problems" not in done.out


def test_a_folder_of_other_files_is_not_a_screen_of_errors(path: Path) -> None:
    """Of many failures alike the first are named, and the others counted; `detect` names all."""
    for number in range(30):
        (path.parent / f"other-{number:02}.json").write_text('{"version": 1}')
    for command in ("show", "stats"):
        done = run(command, path.parent)
        assert done.code == 1 and done.out
        assert 10 == done.err.count("other-") and "… and 20 more: " in done.err
    assert 30 == run("detect", path.parent).err.count("other-")


def test_show_prints_an_error_that_stands_as_the_answer_once(tmp_path: Path) -> None:
    """Claude Code writes an error of the provider as the text of an answer; others have it beside the text."""
    asked = {
        "type": "user",
        "uuid": "u",
        "parentUuid": None,
        "sessionId": "s",
        "message": {"role": "user", "content": "Go"},
    }
    text = [{"type": "text", "text": "API Error: 529"}]
    message = {"id": "m", "type": "message", "role": "assistant", "model": "<synthetic>", "content": text}
    failed = {
        **asked,
        "type": "assistant",
        "uuid": "a",
        "parentUuid": "u",
        "isApiErrorMessage": True,
        "message": message,
    }
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join(map(json.dumps, (asked, failed))))
    assert run("show", path).out.count("API Error: 529") == 1
    half = il.AssistantMessage(content="Half a", stop_reason="error", error_message="reset by peer")
    path.write_bytes(il.dump(il.Conversation(entries=(il.Entry(message=half),))))
    shown = run("show", path).out
    assert ("Half a" in shown, "reset by peer" in shown) == (True, True)
