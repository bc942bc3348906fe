"""`interlingua batch`: over each provider's batch API, over ordinary calls, and killed at every point."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.running import COMMAND, Outcome
from connect.batch_server import KEY, ROLE, S3, BatchServer, aws_variables
from interlingua.cli import group
from interlingua.values.errors import InterlinguaError

# The model, the path of its API, and its ordinary price of 1,000 tokens in and 1,000 out.
PROVIDERS = {
    "openai": ("openai/gpt-4.1", "/v1", 0.010),
    "openai-chat": ("openai-chat/gpt-4.1", "/v1", 0.010),
    "anthropic": ("anthropic/claude-sonnet-4-5", "", 0.018),
    "google": ("google/gemini-2.5-pro", "/v1beta", 0.01125),
    "amazon-bedrock": ("bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", "", 0.0198),
}
TEXTS = ["one", "two", "bad three", "four"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    with BatchServer() as server:
        for name, value in aws_variables(server.url).items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    lines = [{"messages": [{"role": "user", "content": text}]} for text in TEXTS]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def environment(tmp_path: Path) -> dict[str, str]:
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)
    return {**os.environ, **keys, "INTERLINGUA_HOME": str(tmp_path / "home")}


def batch(tmp_path: Path, *arguments: str | Path) -> Outcome:
    """Runs the command in this process, which is faster; an error is the line that it would be."""
    done = CliRunner().invoke(group, ["batch", *map(str, arguments)], env=environment(tmp_path))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        assert isinstance(done.exception, InterlinguaError), done.exc_info
        return Outcome(1, done.stdout, f"{done.stderr}{done.exception}\n")
    return Outcome(done.exit_code, done.stdout, done.stderr)


def asking(server: BatchServer, questions: Path, provider: str, *more: str) -> list[str]:
    model, path, _ = PROVIDERS[provider]
    s3 = ["--s3", S3, "--role", ROLE] if provider == "amazon-bedrock" and "--jobs" not in more else []
    return ["submit", str(questions), "-m", model, "--base-url", server.url + path, *s3, *more]


def rows(done: Outcome) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def text(row: dict[str, Any]) -> Any:
    content = row["message"]["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def check_answers(done: Outcome) -> list[dict[str, Any]]:
    """Every row once, in the order of the input, and the failed one with its error."""
    found = rows(done)
    assert [str(number) for number in range(1, len(TEXTS) + 1)] == [row["id"] for row in found], done.err
    for asked, row in zip(TEXTS, found, strict=True):
        if asked.startswith("bad"):
            assert f"no: {asked}" in row["error"]["message"]
            assert row["message"]["stopReason"] == "error"
        else:
            assert f"answer to {asked}" == text(row)
    return found


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_is_submitted_and_read_at_half_the_price(
    provider: str, server: BatchServer, questions: Path, tmp_path: Path
) -> None:
    """Each row has its answer or its error, and the batch price whatever tier the answer names."""
    submitted = batch(tmp_path, *asking(server, questions, provider))
    assert submitted.code == 0, submitted.err
    name = submitted.out.strip()
    assert batch(tmp_path, "status", name, "--json").json["rows"] == len(TEXTS)
    done = batch(tmp_path, "results", name)
    found = check_answers(done)
    assert done.code == 1  # one row failed
    assert PROVIDERS[provider][2] / 2 == pytest.approx(found[0]["message"]["usage"]["cost"]["total"])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_submitting_the_same_again_sends_nothing(
    provider: str, server: BatchServer, questions: Path, tmp_path: Path
) -> None:
    """The name of a batch comes from its requests."""
    first = batch(tmp_path, *asking(server, questions, provider))
    sent = len(server.requests)
    assert first.out == batch(tmp_path, *asking(server, questions, provider)).out
    assert (1, sent) == (len(server.batches), len(server.requests))


def killed(tmp_path: Path, server: BatchServer, arguments: list[str], number: int, *, after: bool) -> bool:
    """Runs a command that is killed at its request of that number; False if it makes fewer requests."""
    process = subprocess.Popen(
        [*COMMAND, "batch", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # type: ignore[call-overload]
        env=environment(tmp_path),
    )
    server.kill_at(number, process.pid, after=after)
    code = process.wait(timeout=60)
    server.spare()
    return bool(code == -9)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google", "amazon-bedrock"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_submit_that_was_killed_at_any_request_submits_nothing_twice(
    provider: str, after: bool, server: BatchServer, questions: Path, tmp_path: Path
) -> None:
    """Submitting again finds what was created, and every row is answered once."""
    for number in (1, 2):
        made = len(server.batches)
        home, named = tmp_path / f"{number}", f"kill-{number}"
        arguments = asking(server, questions, provider, "--name", named)
        if not killed(home, server, arguments, number, after=after):
            assert number == 2 and provider not in ("openai", "amazon-bedrock")
            continue
        again = batch(home, *arguments)
        assert again.code == 0, again.err
        assert made + 1 == len(server.batches)
        check_answers(batch(home, "results", named))


def test_results_that_were_killed_are_read_again(server: BatchServer, questions: Path, tmp_path: Path) -> None:
    """At every request; the output appears whole or not at all."""
    name = batch(tmp_path, *asking(server, questions, "openai")).out.strip()
    target = tmp_path / "answers.jsonl"
    for number in range(1, 5):
        assert killed(tmp_path, server, ["results", name, "-o", str(target)], number, after=True)
        assert not target.exists()
    assert batch(tmp_path, "results", name, "-o", target).code == 1
    assert len(TEXTS) == len(target.read_text().splitlines())


@pytest.mark.parametrize("number", [1, 2, 3])
def test_calls_with_jobs_go_on_after_a_kill(number: int, server: BatchServer, questions: Path, tmp_path: Path) -> None:
    """Only the call that was cut off is made again, which is said; every row has one answer."""
    arguments = asking(server, questions, "anthropic", "--jobs", "1")
    assert killed(tmp_path, server, arguments, number, after=True)
    again = batch(tmp_path, *arguments)
    assert again.code == 0, again.err
    assert "cut off and were made again: 1;" in " ".join(again.err.split())
    assert {asked: 1 + (at == number) for at, asked in enumerate(TEXTS, 1)} == server.asked
    found = rows(batch(tmp_path, "results", again.out.strip()))
    assert [f"answer to {asked}" for asked in TEXTS] == [text(row) for row in found]


def test_jobs_wait_for_limits_and_ask_each_row_once(server: BatchServer, questions: Path, tmp_path: Path) -> None:
    """A limit of the provider is no failure of a row."""
    server.limited = [1, 2, 3, 5]
    done = batch(tmp_path, *asking(server, questions, "anthropic", "--jobs", "2", "--rate", "6000"))
    assert "4 of 4 answered, 0 failed" in done.err
    assert dict.fromkeys(TEXTS, 1) == server.asked


def test_a_wrong_key_ends_the_run_and_loses_nothing(server: BatchServer, questions: Path, tmp_path: Path) -> None:
    """Calls that are under way are not cut off; with the right key it goes on."""
    arguments = asking(server, questions, "anthropic", "--jobs", "2")
    wrong = batch(tmp_path, *arguments, "--key", "wrong-key")
    assert wrong.code == 1 and "wrong key" in wrong.err
    done = batch(tmp_path, *arguments)
    assert "4 of 4 answered" in done.err and "cut off" not in done.err


def test_results_of_a_running_batch_are_refused(server: BatchServer, questions: Path, tmp_path: Path) -> None:
    """With the remedy; what there is can be had."""
    server.running = True
    name = batch(tmp_path, *asking(server, questions, "anthropic")).out.strip()
    done = batch(tmp_path, "results", name)
    assert (1, "") == (done.code, done.out)
    assert "has not ended" in done.err and "--wait" in done.err
    assert (0, "") == batch(tmp_path, "results", name, "--partial")[:2]


def test_a_batch_found_by_its_size_that_is_anothers_is_rejected(
    server: BatchServer, questions: Path, tmp_path: Path
) -> None:
    """Anthropic's batches have no names: the ids in the results show whose it is, and ours is then submitted."""
    other = batch(tmp_path / "other", *asking(server, questions, "anthropic", "--name", "other"))
    assert other.code == 0
    arguments = asking(server, questions, "anthropic", "--name", "mine")
    assert killed(tmp_path, server, arguments, 1, after=False)
    assert batch(tmp_path, *arguments).code == 0
    refused = batch(tmp_path, "results", "mine")
    assert refused.code == 1 and "submit it again" in refused.err
    assert batch(tmp_path, *arguments).code == 0
    check_answers(batch(tmp_path, "results", "mine"))
    assert len(server.batches) == 2


def test_rows_that_cannot_be_sent_stay_with_their_error(server: BatchServer, tmp_path: Path) -> None:
    """The others are sent; ids of the input are kept."""
    path = tmp_path / "rows.jsonl"
    url = "/v1/chat/completions"
    asked: dict[str, Any] = {"model": "x", "messages": [{"role": "user", "content": "hi"}]}
    answered = {"model": "x", "messages": [*asked["messages"], {"role": "assistant", "content": "hello"}]}
    lines = [
        {"custom_id": id, "method": "POST", "url": url, "body": body}
        for id, body in (("first", asked), ("second", answered))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{broken\n")
    submitted = batch(tmp_path, *asking(server, path, "anthropic"))
    assert submitted.code == 1 and "--reask" in submitted.err
    assert "2 of 3 requests not sent" in submitted.err
    found = rows(batch(tmp_path, "results", submitted.out.strip()))
    assert ["first", "second", "3"] == [row["id"] for row in found]
    assert "answer to hi" == text(found[0])
    assert "--reask" in found[1]["error"]["message"] and "error" in found[2]


def test_answers_are_written_in_other_formats(server: BatchServer, questions: Path, tmp_path: Path) -> None:
    """As bodies of a wire, or as conversations of a file format."""
    name = batch(tmp_path, *asking(server, questions, "anthropic")).out.strip()
    (chat, *_) = rows(batch(tmp_path, "results", name, "-t", "openai-chat"))
    assert "answer to one" == chat["body"]["choices"][0]["message"]["content"]
    (shared, *_) = rows(batch(tmp_path, "results", name, "-t", "sharegpt"))
    assert ["one", "answer to one"] == [turn["value"] for turn in shared["body"]["conversations"]]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["-m", "amazon-bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"], "--jobs N"),
        (["-m", "groq/llama-3.3-70b-versatile"], "--jobs N"),
        (["-m", "anthropic/claude-sonnet-4-5", "--s3", S3], "only batches of Amazon Bedrock go through S3"),
        (["-m", "debug/parrot-1", "--rate", "5"], "--jobs"),
        (["-m", "debug/parrot-1", "--name", "../x", "--jobs", "1"], "invalid batch name"),
    ],
    ids=["bedrock", "no batch API", "s3 elsewhere", "rate", "name"],
)
def test_bad_input_is_one_line_with_a_remedy(
    arguments: list[str], wanted: str, questions: Path, tmp_path: Path
) -> None:
    """Bedrock's batches go through S3: without a place there they are refused, with ordinary calls as a remedy."""
    done = batch(tmp_path, "submit", questions, *arguments)
    assert done.code != 0 and wanted in done.err and "Traceback" not in done.err
    assert not (tmp_path / "home" / "batches").exists()


def test_any_connector_works_with_jobs(questions: Path, tmp_path: Path) -> None:
    """Offline ones included."""
    done = batch(tmp_path, "submit", questions, "-m", "debug/parrot-1", "--jobs", "3")
    assert TEXTS == [text(row) for row in rows(batch(tmp_path, "results", done.out.strip()))]


@pytest.mark.parametrize("jobs", [(), ("--jobs", "1")], ids=["batch", "jobs"])
def test_what_the_model_is_not_shown_is_reported(jobs: tuple[str, ...], server: BatchServer, tmp_path: Path) -> None:
    """Signed thinking of another provider is dropped, and `submit` says of how many requests."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "Hello."}]},
        {"role": "user", "content": "Go on"},
    ]
    body = {"model": "claude-sonnet-4-5", "max_tokens": 99, "messages": messages}
    (tmp_path / "bodies.jsonl").write_text(f"{json.dumps(body)}\n" * 2)
    done = batch(tmp_path, *asking(server, tmp_path / "bodies.jsonl", "openai-chat", *jobs))
    assert "the requests → openai-chat/gpt-4.1: " in done.err, done.err
    assert "lost in 2 of 2 conversations" in done.err
    assert "$.messages[].content[]" in done.err
    if not jobs:  # the answers with their requests, in a format that has no thinking
        name = done.out.strip()
        done = batch(tmp_path, "results", name, "--wait", "--every", "0.01", "-t", "attocode")
        assert "the answers → attocode: " in done.err, done.err


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_is_cancelled_and_deleted(provider: str, server: BatchServer, questions: Path, tmp_path: Path) -> None:
    """What was answered by then can be read; after the deletion nothing is left, and the name is unknown."""
    server.running = True
    name = batch(tmp_path, *asking(server, questions, provider)).out.strip()
    refused = batch(tmp_path, "delete", name, "--yes")
    assert refused.code == 1 and "`batch cancel` it first" in refused.err
    cancelled = batch(tmp_path, "cancel", name)
    assert cancelled.code == 0 and "is being cancelled" in cancelled.err, cancelled.err
    found = rows(batch(tmp_path, "results", name))
    assert len(TEXTS) == len(found) and "error" in found[3]
    unsure = batch(tmp_path, "delete", name)
    assert unsure.code == 1 and "add --yes" in unsure.err
    assert batch(tmp_path, "delete", name, "--yes").code == 0
    gone = batch(tmp_path, "results", name)
    assert gone.code == 1 and f"no batch {name!r}" in gone.err
    assert not server.files and not server.objects


@pytest.mark.parametrize("provider", ["anthropic", "amazon-bedrock"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_deletion_that_was_killed_goes_on(
    provider: str, after: bool, server: BatchServer, questions: Path, tmp_path: Path
) -> None:
    """At any of its requests; what is gone already is no error."""
    for number in (1, 2):
        home, named = tmp_path / f"{number}", f"kill-{number}"
        assert batch(home, *asking(server, questions, provider, "--name", named)).code == 0
        killed(home, server, ["delete", named, "--yes"], number, after=after)
        if (home / "home" / "batches" / named).exists():
            assert batch(home, "delete", named, "--yes").code == 0
        assert not server.files and not server.objects
        server.batches.clear()


def test_calls_of_jobs_are_not_cancelled_at_a_provider(questions: Path, tmp_path: Path) -> None:
    """They are made by `submit` itself; their batch can be deleted."""
    name = batch(tmp_path, "submit", questions, "-m", "debug/parrot-1", "--jobs", "3").out.strip()
    refused = batch(tmp_path, "cancel", name)
    assert refused.code == 1 and "interrupt that command" in refused.err
    assert batch(tmp_path, "delete", name, "--yes").code == 0
    assert "no batch" in batch(tmp_path, "status", name).err
