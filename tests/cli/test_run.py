"""`interlingua run`: as a process, against a real server or the offline model."""

import base64
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from cli.running import COMMAND, Outcome, run
from connect.asking import PNG
from interlingua.conversion.adapting.work import NO_RESULT
from interlingua.testing import ErrorEvent, Server, Stall, Status
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


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}


def ask(server: Server, *arguments: str | Path, key: str = "key-1", **options: Any) -> Outcome:
    """Asks the server, which speaks Anthropic's wire."""
    where = ("-m", "anthropic/m-1", "--base-url", server.base_url("anthropic-messages"))
    return run("run", *arguments, *where, env=environment(ANTHROPIC_API_KEY=key), **{"given": b"", **options})


def last_request(server: Server) -> il.Request:
    request = server.last.request
    assert request is not None
    return request


def test_the_answer_is_on_standard_output_and_the_figures_beside_it(server: Server) -> None:
    """So that a pipe gets the answer alone."""
    server.say("It is sunny.", thinking="Look outside.")
    done = ask(server, "Weather?")
    assert (0, "It is sunny.\n") == (done.code, done.out)
    (figures,) = done.err.splitlines()
    assert figures.startswith("anthropic/m-1 · ") and "cost unknown" in figures


def test_quiet_is_the_answer_alone(server: Server) -> None:
    """No figures."""
    server.say("It is sunny.")
    assert (0, "It is sunny.\n", "") == ask(server, "-q", "Weather?")


def test_the_prompt_is_an_argument_a_file_or_standard_input(server: Server, tmp_path: Path) -> None:
    """An argument with something piped in: both, the argument first."""
    (tmp_path / "prompt.txt").write_text("from a file\n")
    cases: list[tuple[tuple[str, ...], bytes, str]] = [
        (("from the line",), b"", "from the line"),
        ((), b"from a pipe\n", "from a pipe"),
        (("--prompt-file", "-"), b"from a pipe\n", "from a pipe"),
        (("--prompt-file", str(tmp_path / "prompt.txt")), b"", "from a file"),
        (("Explain:",), b"print(1)\n", "Explain:\n\nprint(1)"),
    ]
    for arguments, piped, wanted in cases:
        assert wanted + "\n" == run("run", "-q", *PARROT, *arguments, given=piped).out


@pytest.mark.parametrize("arguments", [(), ("--prompt-file", "/nowhere/prompt.txt"), ("  ",)])
def test_without_a_prompt_the_error_says_how_to_give_one(arguments: tuple[str, ...]) -> None:
    """One line, exit code 1."""
    done = run("run", *PARROT, *arguments, given=b"")
    assert (1, "", 1) == (done.code, done.out, len(done.err.splitlines()))
    assert "prompt" in done.err


def test_system_prompt_and_options_arrive(server: Server) -> None:
    """Each under its own name."""
    done = ask(server, "Hi", "--system", "Be brief.", "--max-tokens", "2048", "--reasoning", "1500", "--timeout", "30")
    assert 0 == done.code
    request = last_request(server)
    assert ("Be brief.", 2048) == (request.context.system_prompt, request.options.max_tokens)
    assert request.options.reasoning is not None and 1500 == request.options.reasoning.budget
    ask(server, "Hi", "--temperature", "0.25")
    assert 0.25 == last_request(server).options.temperature


def test_files_are_attached_as_what_they_are(server: Server, tmp_path: Path) -> None:
    """Pictures, sound and PDF by their bytes, whatever their names; a text."""
    picture, document, text = tmp_path / "picture.dat", tmp_path / "paper.txt", tmp_path / "notes.md"
    picture.write_bytes(base64.b64decode(PNG))
    document.write_bytes(b"%PDF-1.4\n%%EOF\n")
    text.write_text("Remember the milk.")
    assert 0 == ask(server, "What are these?", "-a", picture, "-a", document, "-a", text).code
    blocks = last_request(server).context.messages[-1].content
    assert isinstance(blocks, tuple)
    image, paper, notes, question = blocks
    assert isinstance(image, il.ImageBlock) and (PNG, "image/png") == (image.data, image.mime_type)
    assert isinstance(paper, il.DocumentBlock) and "application/pdf" == paper.mime_type
    assert isinstance(notes, il.DocumentBlock) and "Remember the milk." == notes.text
    assert isinstance(question, il.TextBlock) and "What are these?" == question.text


def test_a_file_that_is_not_there_is_one_line() -> None:
    """Before anything is asked."""
    done = run("run", "Hi", *PARROT, "-a", "/nowhere/cat.png", given=b"")
    assert (1, "", 1) == (done.code, done.out, len(done.err.splitlines()))
    assert "/nowhere/cat.png" in done.err


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def test_an_answer_that_matches_the_schema_is_let_through(server: Server, tmp_path: Path) -> None:
    """The schema is JSON or a file; the model is told of it."""
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    for schema in (json.dumps(SCHEMA), str(file)):
        server.clear()
        server.say('{"city": "Oslo"}')
        done = ask(server, "-q", "Where?", "--schema", schema)
        assert (0, {"city": "Oslo"}) == (done.code, done.json)
        schema_sent = last_request(server).options.output_schema
        assert schema_sent is not None and SCHEMA["properties"] == schema_sent.schema["properties"]


@pytest.mark.parametrize("answer", ['{"town": "Oslo"}', "Oslo, I think."])
def test_an_answer_that_does_not_match_the_schema_is_an_error(server: Server, answer: str) -> None:
    """It is shown, and the exit code tells."""
    server.say(answer)
    done = ask(server, "-q", "Where?", "--schema", json.dumps(SCHEMA))
    assert (1, answer + "\n") == (done.code, done.out)
    assert "schema" in done.err and 1 == len(done.err.splitlines())


@pytest.mark.parametrize("schema", ["/nowhere/schema.json", "{not json", "[]"])
def test_a_schema_that_is_none_is_an_error(schema: str) -> None:
    """Before anything is asked."""
    done = run("run", "Hi", *PARROT, "--schema", schema, given=b"")
    assert (1, "") == (done.code, done.out)
    assert "--schema" in done.err


def test_json_is_the_whole_message(server: Server) -> None:
    """One JSON value in our own format, readable again."""
    server.say("It is sunny.")
    done = ask(server, "Weather?", "--json")
    assert ("assistant", "stop", "anthropic") == (done.json["role"], done.json["stopReason"], done.json["provider"])
    assert [{"type": "text", "text": "It is sunny."}] == done.json["content"]
    assert done.json["usage"]["totalTokens"] > 0


def test_events_are_json_lines(server: Server) -> None:
    """One per event, from `start` to `done`."""
    server.say("It is sunny.")
    done = ask(server, "Weather?", "--events")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert ("start", "done") == (events[0]["type"], events[-1]["type"])
    assert "It is sunny." == "".join(event["delta"] for event in events if event["type"] == "text_delta")
    assert 0 == done.code


def test_a_call_of_a_tool_is_shown_beside_the_answer(server: Server, tmp_path: Path) -> None:
    """There is nobody to run it."""
    server.call("look_up", {"word": "il"}, text="One moment.")
    done = ask(server, "What is il?")
    assert "One moment.\n" == done.out
    assert '→ look_up({"word":"il"})' in done.err


def test_a_saved_conversation_can_be_continued(server: Server, tmp_path: Path) -> None:
    """System text, question and answer are in the file; with --context they go before the next question."""
    file = tmp_path / "talk.jsonl"
    server.say("Oslo.")
    assert 0 == ask(server, "Capital of Norway?", "--save", file, "--system", "Be brief.").code
    saved = il.decode(file.read_bytes())
    assert "Be brief." == saved.system
    assert ["Capital of Norway?", "Oslo."] == [text_of(message.content) for message in saved.messages]  # type: ignore[union-attr]
    server.clear()
    server.say("About 700,000.")
    assert 0 == ask(server, "And how many live there?", "--context", file, "--save", file).code
    asked = [text_of(message.content) for message in last_request(server).context.messages]
    assert ["Capital of Norway?", "Oslo.", "And how many live there?"] == asked
    assert "Be brief." == last_request(server).context.system_prompt
    assert 4 == len(il.decode(file.read_bytes()).messages)


WIRE = Path(__file__).parents[1] / "wire"
PROVIDERS = {
    "anthropic-messages": ("-m", "anthropic/claude-x", "ANTHROPIC_API_KEY"),
    "openai-completions": ("-m", "openai-chat/gpt-x", "OPENAI_API_KEY"),
    "google-generative-ai": ("-m", "google/gemini-x", "GEMINI_API_KEY"),
}


@pytest.mark.parametrize(
    ("sample", "api"),
    [
        ("claude-code/session.jsonl", "openai-completions"),
        ("codex-cli/rollout.jsonl", "anthropic-messages"),
        ("gemini-cli/session.json", "anthropic-messages"),
        ("opencode/session.json", "google-generative-ai"),
    ],
)
def test_a_session_of_another_program_goes_on_at_another_provider(sample: str, api: str, tmp_path: Path) -> None:
    """The provider, which refuses what a real one would, gets every answered result behind its call; so it does again
    when the run that was kept goes on with `--cid`."""
    (session,) = il.read(WIRE / sample)
    results = [m for m in session.request().context.messages if isinstance(m, il.ToolResultMessage)]
    assert results
    option, model, variable = PROVIDERS[api]
    env = environment(**{variable: "key-1", "INTERLINGUA_HOME": str(tmp_path)})
    with Server(strict=True) as server:
        where = (option, model, "--base-url", server.base_url(api))
        done = run("run", "Go on.", "--context", WIRE / sample, *where, "--json", env=env, given=b"")
        assert 0 == done.code, done.err
        again = run("run", "And on.", "--continue", *where, env=env, given=b"")
        assert 0 == again.code, again.err
        requests = [one.request for one in server.requests if one.request is not None]
    assert 2 == len(requests)
    for request in requests:
        sent = [m for m in request.context.messages if isinstance(m, il.ToolResultMessage)]
        recorded = [result.text for result in sent if not result.text.startswith(NO_RESULT)]
        assert [result.text for result in results] == recorded
        calls = [call.id for m in request.context.messages for call in getattr(m, "tool_calls", ())]
        assert [result.tool_call_id for result in sent] == calls


def test_a_conversation_of_another_format_can_be_continued(server: Server, tmp_path: Path) -> None:
    """Whatever `decode` knows."""
    file = tmp_path / "chat.json"
    file.write_text(
        json.dumps(
            {
                "model": "gpt-4o",
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Hello"},
                    {"role": "assistant", "content": "Hi."},
                ],
            }
        )
    )
    assert 0 == ask(server, "Again", "--context", file).code
    context = last_request(server).context
    assert "Be brief." == context.system_prompt
    assert ["Hello", "Hi.", "Again"] == [text_of(message.content) for message in context.messages]


def test_a_fallback_answers_when_the_first_model_fails(server: Server) -> None:
    """And the user hears why."""
    server.answer(il.AuthFailed("no such key", status=401))
    done = ask(server, "Hello there", "--fallback", "debug/parrot-1")
    assert (0, "Hello there\n") == (done.code, done.out)
    assert "no such key; using the next model" in done.err and "debug/parrot-1" in done.err


def test_a_failure_is_tried_again_and_reported(server: Server) -> None:
    """A moment later it works."""
    server.say("Here I am.", fault=Status(503))
    done = ask(server, "Hello")
    assert (0, "Here I am.\n", 2) == (done.code, done.out, len(server.requests))
    assert "retrying in" in done.err


@pytest.mark.parametrize(
    "reply", [il.AuthFailed("no such key", status=401), il.BadRequest("no such field", status=400)]
)
def test_an_error_of_the_provider_is_one_line(server: Server, reply: il.ProviderError) -> None:
    """Exit code 1, nothing on standard output, no traceback, no key."""
    server.answer(reply)
    done = ask(server, "Hi", key="key-that-is-secret")
    assert (1, "") == (done.code, done.out)
    assert reply.message in done.err.splitlines()[-1]
    assert "Traceback" not in done.err and "key-that-is-secret" not in done.err


def test_an_error_in_the_middle_keeps_the_partial_answer(server: Server, tmp_path: Path) -> None:
    """On the terminal and in the file."""
    file = tmp_path / "talk.jsonl"
    server.say("It began well, but then", fault=[Stall(6, seconds=0.1), ErrorEvent("we are too busy", after_events=6)])
    done = ask(server, "Tell me", "--save", file)
    assert 1 == done.code
    assert done.out.startswith("It began") and "we are too busy" in done.err
    answer = il.decode(file.read_bytes()).messages[-1]
    assert isinstance(answer, il.AssistantMessage) and "error" == answer.stop_reason


def test_interrupting_shows_the_partial_answer_and_its_cost(server: Server, tmp_path: Path) -> None:
    """Ctrl-C: what had come stays, is saved, and the exit code is that of an interrupt."""
    file = tmp_path / "talk.jsonl"
    server.say("It was a dark and stormy night, and the rain fell in torrents.", fault=Stall(after_events=8))
    where = ("-m", "anthropic/m-1", "--base-url", server.base_url("anthropic-messages"), "--save", str(file))
    process = subprocess.Popen(
        [*COMMAND, "run", "Tell me a story", *where],
        env=environment(ANTHROPIC_API_KEY="key-1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    with process:
        assert process.stdout is not None
        first = b""
        while len(first) < len("It was a dark"):
            letter = process.stdout.read(1)
            assert letter, "it ended before it was interrupted"
            first += letter
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    output = (first + out).decode()
    assert 130 == process.returncode
    assert output.startswith("It was a dark") and output.endswith("\n") and "torrents" not in output
    assert "anthropic/m-1" in err.decode() and "aborted" in err.decode() and "Traceback" not in err.decode()
    answer = il.decode(file.read_bytes()).messages[-1]
    assert isinstance(answer, il.AssistantMessage)
    assert ("aborted", output.rstrip("\n")) == (answer.stop_reason, text_of(answer.content))
    server.wait_for_disconnect()


def test_without_any_key_the_offline_model_answers_and_says_so() -> None:
    """Nobody is left wondering who spoke."""
    done = run("run", "Hello there", given=b"")
    assert 0 == done.code and "Hello there" in done.out
    assert "no key found" in done.err and "offline" in done.err and "debug/dummy-echo-1" in done.err


def test_with_a_key_and_no_model_the_user_is_asked_to_choose() -> None:
    """Nothing is sent anywhere by guess."""
    done = run("run", "Hi", given=b"", env=environment(GROQ_API_KEY="key-1"))
    assert (1, "", 1) == (done.code, done.out, len(done.err.splitlines()))
    assert "groq" in done.err and "INTERLINGUA_MODEL" in done.err


def test_the_usual_model_is_a_variable_or_an_alias(tmp_path: Path) -> None:
    """The variable counts more."""
    (tmp_path / "models.toml").write_text(
        '[aliases]\ndefault = "debug/upper-parrot-1"\ntagged = "debug/tagged-parrot-1"\n'
    )
    home = environment(INTERLINGUA_HOME=str(tmp_path))
    assert "HELLO\n" == run("run", "-q", "hello", given=b"", env=home).out
    assert "[relay] hello\n" == run("run", "-q", "-m", "tagged", "hello", given=b"", env=home).out
    home |= {"INTERLINGUA_MODEL": "debug/parrot-1"}
    assert "hello\n" == run("run", "-q", "hello", given=b"", env=home).out


@pytest.mark.parametrize("model", ["antropic/claude-9", "no-such-model", "openai"])
def test_an_unknown_model_is_one_line(model: str) -> None:
    """It says how to name one."""
    done = run("run", "Hi", "-m", model, given=b"")
    assert (1, "", 1) == (done.code, done.out, len(done.err.splitlines()))
    assert model in done.err and re.search("; (write|did you mean)", done.err)


def test_a_missing_key_is_one_line() -> None:
    """With the places where it was looked for."""
    done = run("run", "Hi", "-m", "anthropic/claude-9", given=b"")
    assert (1, "", 1) == (done.code, done.out, len(done.err.splitlines()))
    assert "ANTHROPIC_API_KEY" in done.err and "interlingua auth login anthropic" in done.err


def test_a_wrong_option_is_reported_by_its_name() -> None:
    """Exit code 2, as for every command."""
    done = run("run", "Hi", "--modle", "x", given=b"")
    assert 2 == done.code and "--modle" in done.err


def test_an_option_with_an_equals_sign_does_not_take_the_prompt() -> None:
    """Name and value are two words, as with llm."""
    done = run("run", "-m", "debug/echo", "-o", "temperature=1", "Hi", given=b"")
    assert (2, True) == (done.code, "separate name and value: -o temperature 1" in done.err)
