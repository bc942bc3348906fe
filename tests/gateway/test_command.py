"""`interlingua serve` as people run it: processes with signals, a program that is pointed at it, keys and usage."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.stores import used
from interlingua.cli.serve import POINTERS, _reserved_port, _Workers, command, program_arguments, program_environment
from interlingua.gateway.exchange import ClientKey
from interlingua.gateway.keys import ClientKeys
from interlingua.gateway.ledger import Ledger
from interlingua.gateway.settings import Listen, ProviderSettings, Settings
from interlingua.gateway.settings_file import ServeSettings
from interlingua.values.errors import InterlinguaError

MAIN = [sys.executable, "-m", "interlingua", "serve"]
HI = ({"role": "user", "content": "hi"},)


def invoke(home: Path, *arguments: str) -> Any:
    variables = {"INTERLINGUA_HOME": os.environ["INTERLINGUA_HOME"]}  # which the option changes, is there again
    return CliRunner().invoke(command, [*arguments, "--home", str(home)], env=variables)


@contextlib.contextmanager
def running(home: Path, *arguments: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    process = subprocess.Popen(
        [*MAIN, *arguments, "--home", str(home)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@contextlib.contextmanager
def running_program(home: Path, *program: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen([*MAIN, "--home", str(home), "--", *program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and "started" == process.stdout.readline().strip()
        try:
            yield process
        finally:
            process.kill()


def post(url: str, key: str = "x", messages: Sequence[dict[str, str]] = HI) -> dict[str, Any]:
    body = {"model": "debug/echo", "max_tokens": 9, "messages": messages}
    request = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), {"x-api-key": key})
    with urllib.request.urlopen(request, timeout=20) as reply:
        found: dict[str, Any] = json.loads(reply.read())
        return found


def test_keys_are_added_listed_rotated_and_revoked(tmp_path: Path) -> None:
    """The secret is printed once, and listed never."""
    assert "no keys\n" == invoke(tmp_path, "keys", "list").output
    limits = ["--rpm", "5", "--budget", "2.5", "--period", "day", "--model", "debug/*", "--expires", "90d"]
    secret = invoke(tmp_path, "keys", "add", "ci", *limits).output.strip()
    keys = ClientKeys(tmp_path / "gateway" / "keys.json")
    found = keys.identify(secret)
    assert (5, 2.5, "day", ("debug/*",)) == (found.requests_per_minute, found.budget, found.budget_period, found.models)
    listed = invoke(tmp_path, "keys", "list").output
    assert "refused" not in listed and "ci" in listed and "$2.50 day" in listed and secret not in listed
    (plain,) = json.loads(invoke(tmp_path, "keys", "list", "--json").output)
    assert 5 == plain["requests_per_minute"] and "digest" not in plain
    fresh = invoke(tmp_path, "keys", "rotate", "ci", "--grace", "1h").output.strip()
    assert "ci" == keys.identify(fresh).name == keys.identify(secret).name
    assert 0 == invoke(tmp_path, "keys", "revoke", "ci").exit_code
    assert "no key 'ci'" in str(invoke(tmp_path, "keys", "revoke", "ci").exception)
    assert "no keys: every request is refused" in invoke(tmp_path, "keys", "list").output
    assert 2 == invoke(tmp_path, "keys", "add", "x", "--expires", "soon").exit_code
    assert 2 == invoke(tmp_path, "keys", "add", "x", "--period", "day").exit_code  # of no budget
    for past in ("2020-01-31", "0d"):
        refused = invoke(tmp_path, "keys", "add", "x", "--expires", past)
        assert 2 == refused.exit_code and f"'{past}' is not in the future" in refused.output


def test_the_list_of_keys_has_all_that_a_key_may_do(tmp_path: Path) -> None:
    """Passthrough paths, and a former secret that is still accepted; times in JSON are milliseconds."""
    invoke(tmp_path, "keys", "add", "ci", "--passthrough", "--expires", "2099-01-31")
    assert re.search(r"2099-01-31 00:00 +passthrough\s*$", invoke(tmp_path, "keys", "list").output)
    invoke(tmp_path, "keys", "rotate", "ci", "--grace", "2098-12-31")
    listed = " ".join(invoke(tmp_path, "keys", "list").output.split())
    assert "passthrough, former key until 2098-12-3" in listed
    (plain,) = json.loads(invoke(tmp_path, "keys", "list", "--json").output)
    assert 4073500800000 == plain["expires"] > plain["former_until"] > plain["created"] > 1_700_000_000_000


def test_usage_is_a_table_or_json(tmp_path: Path) -> None:
    """By the columns that are asked for."""

    async def fill() -> None:
        ledger = Ledger(f"sqlite:{tmp_path / 'gateway' / 'gateway.db'}")
        await ledger.observe(used(ClientKey(name="ci"), "a", 0.125))
        await ledger.observe(used(ClientKey(name="ci"), "b", None, is_aborted=True))
        await ledger.close()

    asyncio.run(fill())
    table = invoke(tmp_path, "usage", "--by", "key").output
    assert "ci" in table and "$0.1250" in table and "1 unpriced, 1 aborted" in table
    (row,) = json.loads(invoke(tmp_path, "usage", "--by", "key,model", "--json").output)
    assert ("ci", "debug/test-model", 2, 0.125) == (row["key"], row["model"], row["calls"], row["cost"])
    assert "nothing was used" in invoke(tmp_path, "usage", "--since", "2999-01-01").output
    assert 2 == invoke(tmp_path, "usage", "--by", "hour").exit_code
    for day in ("yesterday", "2026-02-30", "20260131"):
        assert 2 == invoke(tmp_path, "usage", "--since", day).exit_code


def test_check_reports_and_fails_for_what_cannot_be_used(tmp_path: Path) -> None:
    """Each target with its price; a wrong one is named and the exit code is not zero."""
    without = invoke(tmp_path, "check")
    assert 0 == without.exit_code and "gateway.toml: the defaults" in without.output
    assert 1 == invoke(tmp_path, "check", "--config", str(tmp_path / "missing.toml")).exit_code
    (tmp_path / "gateway.toml").write_text("[aliases]\na = 'debug/echo'\n")
    good = invoke(tmp_path, "check", "--json")
    assert 0 == good.exit_code and "debug/echo" == json.loads(good.output)[0]["target"]
    (tmp_path / "gateway.toml").write_text("[aliases]\na = 'nowhere/x'\nb = 'debug/echo'\n")
    bad = invoke(tmp_path, "check")
    assert "1 target cannot be used" in str(bad.exception) and "debug/echo" in bad.output


def test_check_knows_the_models_of_the_home_that_is_given(tmp_path: Path) -> None:
    """As the gateway does that is started with it: its providers, prices and credentials."""
    (tmp_path / "models.toml").write_text(
        '[providers.basement]\napi = "openai-completions"\nbase_url = "http://127.0.0.1:9/v1"\nkeyless = true\n'
    )
    (tmp_path / "gateway.toml").write_text('[aliases]\nmine = "basement/qwen3"\n')
    done = subprocess.run(
        [*MAIN, "check", "--home", str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (0, True) == (done.returncode, "openai-completions" in done.stdout), done.stderr


def test_check_lists_the_losses_of_a_model_once(tmp_path: Path) -> None:
    """Also if it is in several aliases."""
    (tmp_path / "gateway.toml").write_text("[aliases]\na = 'ollama/x'\nb = 'ollama/x'\n")
    assert 1 == invoke(tmp_path, "check").output.count("ollama/x: from anthropic-messages loses")


@pytest.mark.parametrize(("budget", "shown"), [("25", "$25.00"), ("0.0005", "$0.0005"), ("1234.5", "$1,234.50")])
def test_a_small_budget_is_not_shown_as_none(budget: str, shown: str, tmp_path: Path) -> None:
    """A fraction of a cent is a budget for some calls."""
    assert 0 == invoke(tmp_path, "keys", "add", "ci", "--budget", budget).exit_code
    assert f"{shown} total" in invoke(tmp_path, "keys", "list").output


@pytest.mark.parametrize(
    "text", ["[state]\nlimits = 'mysql://x'", "[state]\nledger = 'redis://x'", "[recording]\nstore = 'folder'"]
)
def test_check_refuses_an_address_that_no_gateway_can_open(text: str, tmp_path: Path) -> None:
    """As `serve` would at its start."""
    (tmp_path / "gateway.toml").write_text(text)
    checked = invoke(tmp_path, "check")
    assert 1 == checked.exit_code and "unknown kind of address" in str(checked.exception)


def test_with_no_configuration_it_serves_and_tells_how_to_use_it(tmp_path: Path) -> None:
    """Address first, then each SDK's variable; SIGTERM ends it with exit code 0."""
    with running(tmp_path, "--port", "0") as (url, process):
        assert url.startswith("http://127.0.0.1:")
        assert "hi" in post(url)["content"][0]["text"]
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=30)
        assert 0 == process.returncode
    for _, variables in POINTERS:
        for name in variables:
            assert f"{name}={url}" in output
    assert "debug/…" in output


def test_where_it_listens_on_every_address_clients_get_that_of_this_machine(tmp_path: Path) -> None:
    """Nobody can connect to 0.0.0.0 on Windows, and elsewhere a proxy is asked to."""
    ClientKeys(tmp_path / "gateway" / "keys.json").add(ClientKey(name="other"))
    with running(tmp_path, "--host", "0.0.0.0", "--port", "0") as (url, process):
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=30)
    assert url.startswith("http://0.0.0.0:") and f"ANTHROPIC_BASE_URL=http://127.0.0.1{url[14:]}" in output
    program = [sys.executable, "-c", "import os; print(os.environ['ANTHROPIC_BASE_URL'])"]
    given = ["--home", str(tmp_path), "--host", "0.0.0.0", "--", *program]
    done = subprocess.run([*MAIN, *given], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("http://127.0.0.1:"), done.stderr


def test_it_names_aliases_and_providers_when_it_starts(tmp_path: Path) -> None:
    """An alias has no provider in its name."""
    (tmp_path / "gateway.toml").write_text("[aliases]\nfast = 'debug/echo'\n")
    with running(tmp_path, "--port", "0") as (_, process):
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=30)
    assert re.search(r"models: \d+ \(fast\b.*\); always debug/… \(offline\)", output)  # and providers with a key


@pytest.mark.parametrize(
    "given",
    [
        ["--port", "0", "--workers", "2"],
        ["run", "--port", "0", "--workers", "2", "--no-record", "--access-log=-"],
        ["--port=0", "--workers=2", "run"],
    ],
    ids=" ".join,
)
def test_two_workers_serve_one_port_and_end_together(given: list[str], tmp_path: Path) -> None:
    """They share keys and ledger; once, the address is printed, and how to use it. `run` may be written or not."""
    with running(tmp_path, *given) as (url, process):
        for _ in range(10):
            post(url)
        process.send_signal(signal.SIGTERM)
        rest, output = process.communicate(timeout=60)
        assert 0 == process.returncode and "" == rest
        assert 1 == output.count(f"ANTHROPIC_BASE_URL={url}\n") == output.count("draining…")
    (row,) = json.loads(invoke(tmp_path, "usage", "--by", "model", "--json").output)
    assert 10 == row["calls"]


def test_a_worker_that_is_being_started_ends_with_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes when its process exists, but nobody has noted it yet."""
    workers = _Workers(1, Listen(port=0), [])
    start = subprocess.Popen

    def interrupted(_: list[str]) -> subprocess.Popen[bytes]:
        process = start(["sleep", "600"])
        workers._forward(signal.SIGTERM)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with closing(workers._socket):
        assert 0 == workers._keep(tmp_path)


def test_telemetry_uses_the_providers_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `opentelemetry-instrument interlingua serve` sets them up: before the first line of the program."""
    spans = tmp_path / "spans"
    (tmp_path / "sitecustomize.py").write_text(f"""
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=open({str(spans)!r}, "w", buffering=1))))
trace.set_tracer_provider(provider)
""")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "gateway.toml").write_text("[log]\ntelemetry = true\n")
    with running(tmp_path, "--port", "0") as (url, process):
        post(url)
        process.terminate()
        process.wait()
    assert '"name": "chat echo"' in spans.read_text()


def test_usage_after_a_kill_has_every_answered_call(tmp_path: Path) -> None:
    """The ledger is written in batches, but a client that has its answer may rely on it."""
    with running(tmp_path, "--port", "0") as (url, process):
        for _ in range(5):
            post(url)
        process.kill()
        process.wait()
        (row,) = json.loads(invoke(tmp_path, "usage", "--by", "model", "--json").output)
    assert 5 == row["calls"]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
def test_what_a_killed_worker_had_answered_is_written_by_its_replacement(tmp_path: Path) -> None:
    """Nobody has to look for it: the ledger has each call soon."""
    with running(tmp_path, "--port", "0", "--workers", "2") as (url, process):
        for _ in range(10):
            post(url)
        for worker in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(worker), signal.SIGKILL)
        assert process.stderr is not None
        assert any(f"worker {worker} was ended by SIGKILL; starting another" in line for line in process.stderr)
        deadline, calls = time.monotonic() + 60, 0
        while calls != 10 and time.monotonic() < deadline:
            time.sleep(0.1)
            with closing(sqlite3.connect(tmp_path / "gateway" / "gateway.db")) as database:
                (calls,) = database.execute("SELECT count(*) FROM gateway_ledger").fetchone()
        assert 10 == calls
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(timeout=60)


def test_a_worker_that_cannot_be_replaced_yet_does_not_end_the_others(tmp_path: Path) -> None:
    """Settings that became invalid change nothing for the workers that run."""
    settings = tmp_path / "gateway.toml"
    settings.write_text("[aliases]\na = 'debug/echo'\n")
    with running(tmp_path, "--port", "0", "--workers", "2") as (url, process):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 60
        while len(workers := children.read_text().split()) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        settings.write_text("[aliasses]\n")
        os.kill(int(workers[1]), signal.SIGKILL)
        assert process.stderr is not None
        assert any("unknown key `aliasses`" in line and line.startswith("interlingua:") for line in process.stderr)
        assert "hi" in post(url)["content"][0]["text"] and process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(timeout=60)


PROGRAM = """
import json, os, sys, urllib.request
body = {"model": "debug/echo", "messages": [{"role": "user", "content": "from a program"}]}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
                                 {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
print(json.loads(urllib.request.urlopen(request).read())["choices"][0]["message"]["content"])
print(os.environ["ANTHROPIC_BASE_URL"])
sys.exit(7)
"""


def test_a_program_is_started_and_pointed_at_the_gateway(tmp_path: Path) -> None:
    """It needs no settings, also where the gateway has keys; its exit code is the command's."""
    ClientKeys(tmp_path / "gateway" / "keys.json").add(ClientKey(name="other"))
    done = subprocess.run(
        [*MAIN, "--home", str(tmp_path), "--", sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "OPENAI_API_KEY": "sk-the-users-own-key-0123456789"},
    )
    assert 7 == done.returncode, done.stderr
    assert "from a program" in done.stdout and "http://127.0.0.1:" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="the recorder needs Unix sockets")
def test_a_recording_without_its_secrets_is_replayed_to_the_same_requests(tmp_path: Path) -> None:
    """What was redacted when it was recorded is redacted in the requests, too, by the rules of the same settings."""
    config = tmp_path / "gateway.toml"
    config.write_text(f'[recording]\nenabled = true\nhome = "{tmp_path / "sessions"}"\npatterns = ["CASE-[0-9]+"]\n')
    secret = "-".join(("sk", "ant", "api03", "Kq3nV8sLw2Zx" * 4))  # made up
    questions = [f"My key is {secret}", "About CASE-1234, please", "Go on"]

    def talk(url: str) -> list[str]:
        messages: list[dict[str, str]] = []
        for question in questions:
            messages += [{"role": "user", "content": question}]
            answer = post(url, messages=messages)["content"][0]["text"]
            messages += [{"role": "assistant", "content": answer}]
        return [message["content"] for message in messages if message["role"] == "assistant"]

    with running(tmp_path, "--port", "0") as (url, process):
        recorded = talk(url)
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(timeout=60)
    files = [path.read_text(errors="replace") for path in (tmp_path / "sessions").rglob("*") if path.is_file()]
    assert files and not any(secret in text or "CASE-1234" in text for text in files)
    with running(tmp_path, "replay", "--port", "0") as (url, process):
        replayed = talk(url)
    assert secret in recorded[0] and secret not in replayed[0] and recorded[2] == replayed[2]


def test_a_program_has_its_own_options_and_ends_as_shells_report_it(tmp_path: Path) -> None:
    """Also without `--`: what follows its name is not for the gateway."""

    def code(*given: str) -> int:
        return subprocess.run([*MAIN, "--home", str(tmp_path), *given], timeout=60).returncode

    assert 7 == code("--port=0", "sh", "-c", "exit 7")
    assert 128 + 9 == code("--", "sh", "-c", "kill -9 $$")


def test_a_program_decides_on_ctrl_c_and_is_ended_by_sigterm(tmp_path: Path) -> None:
    """The terminal sends Ctrl-C to both: the gateway stays until the program ends, however often it is pressed."""
    forever = "import time; print('started', flush=True); time.sleep(60)"
    with running_program(tmp_path, sys.executable, "-c", forever) as process:
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert 128 + signal.SIGTERM == process.wait(timeout=30)


def test_the_program_gets_no_key_of_a_provider() -> None:
    """What the gateway uses stays with the gateway."""
    made = program_environment("http://x", "il-own", {"ANTHROPIC_API_KEY": "real", "HOME": "/h"})
    provider = ProviderSettings(id="mine", api="ollama-chat", base_url="http://y", api_keys=("env:MY_KEY",))
    keyed = ServeSettings(gateway=Settings(providers=(provider,)))
    assert "real" not in made.values()
    assert ("http://x/v1", "il-own", "/h") == (made["OPENAI_BASE_URL"], made["OPENAI_API_KEY"], made["HOME"])
    assert (
        not {"GROQ_API_KEY", "MY_KEY"}
        & program_environment("http://x", "il-own", {"GROQ_API_KEY": "real", "MY_KEY": "real"}, keyed).keys()
    )
    assert 'base_url="http://x/v1"' in program_arguments(["codex", "exec"], "http://x")[4]
    assert ["claude", "-p"] == program_arguments(["claude", "-p"], "http://x")


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_a_program_uses_no_proxy_for_the_gateway(name: str) -> None:
    """Whichever spelling the user has, and whichever the program reads."""
    made = program_environment("http://127.0.0.1:1", "il-own", {"http_proxy": "http://proxy", name: "corp.example"})
    for read in ("NO_PROXY", "no_proxy"):
        exempt = {"no": made[read]}
        assert all(urllib.request.proxy_bypass_environment(host, exempt) for host in ("127.0.0.1:1", "a.corp.example"))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "/nonexistent.toml"], "no such file"),
        (["--host", "0.0.0.0"], "make one first"),
        (["--", "no-such-program-here"], "no program"),
        (["--host", "0.0.0.0", "--workers", "2"], "make one first"),
        (["--unix", "/nonexistent/gateway.sock"], "No such file or directory; choose another path"),
        (["--unix", "x" * 200], "path too long; choose another path"),
        (["replay"], "nothing is recorded"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    """Exit code 1, no traceback, with the remedy."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    given = [*arguments[:at], "--home", str(tmp_path), *arguments[at:]]
    done = subprocess.run([*MAIN, *given], capture_output=True, text=True, timeout=60)
    assert 1 == done.returncode
    assert message in done.stderr and 1 == len(done.stderr.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chekc"], "unknown command 'chekc'; did you mean 'check'?"),
        (["--port", "0", "kyes", "list"], "unknown command 'kyes'; did you mean 'keys'?"),
        (["no-such-program-here"], "a program follows `--`"),
        (["--unix", "x.sock", "--", "true"], "a program is configured with a URL; omit --unix"),
        (["--workers", "2", "--", "true"], "omit --workers"),
    ],
)
def test_a_misspelt_command_is_not_a_program(arguments: list[str], message: str, tmp_path: Path) -> None:
    """Nothing is started, and the exit code is that of a wrong option."""
    done = subprocess.run([*MAIN, *arguments], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert 2 == done.returncode and message in done.stderr


@pytest.mark.parametrize("count", ["1", "2"])
def test_workers_do_not_share_the_port_of_another_gateway(count: str, tmp_path: Path) -> None:
    """Their sockets could, and half of the requests would reach the other one."""
    with running(tmp_path, "--port", "0", "--workers", "2") as (url, process):
        given = ["--port", url.rpartition(":")[2], "--workers", count, "--home", str(tmp_path / "other")]
        second = subprocess.run([*MAIN, *given], capture_output=True, text=True, timeout=60)
        assert 1 == second.returncode and "in use; choose another port" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(timeout=60)


def test_workers_take_a_port_whose_connections_have_just_ended() -> None:
    """After a gateway of one process, which did not share it. A second gateway does not get it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            listener.accept()[0].close()  # the server closes first: its side lingers
            listener.close()
            with _reserved_port("127.0.0.1", port), pytest.raises(InterlinguaError, match="in use"):
                _reserved_port("127.0.0.1", port)


def test_a_unix_socket_is_not_taken_from_a_gateway_that_serves_it(tmp_path: Path) -> None:
    """One that was killed leaves its file, which does not matter; one that ends removes it."""
    given = ["--unix", str(tmp_path / "gateway.sock")]
    with running(tmp_path, *given):
        second = subprocess.run([*MAIN, *given, "--home", str(tmp_path)], capture_output=True, text=True, timeout=60)
        assert 1 == second.returncode and "in use; choose another path" in second.stderr
    assert (tmp_path / "gateway.sock").exists()
    with running(tmp_path, *given) as (url, process):
        assert f"unix:{tmp_path}/gateway.sock" == url
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(timeout=30)
    assert not (tmp_path / "gateway.sock").exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """With the remedy."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*MAIN, "--home", str(tmp_path), "--port", str(port)], capture_output=True, text=True, timeout=60
        )
    assert 1 == done.returncode and f"127.0.0.1:{port}" in done.stderr and "choose another port" in done.stderr
