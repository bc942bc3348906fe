"""`interlingua auth` as a user runs it: a process, its output, and never a key in it."""

import asyncio
import json
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from cli.running import COMMAND, Outcome, run
from connect.auth.serving import LoginServer, login_server
from interlingua.connect.auth.credentials import Credential, CredentialStore, Secret

KEY = "very-secret-key-0123456789"
Env = dict[str, str]


@pytest.fixture
def env(tmp_path: Path) -> Env:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "INTERLINGUA_HOME": str(tmp_path / "il"),
        "COLUMNS": "110",
    }


@pytest.fixture
def store(env: Env) -> CredentialStore:
    return CredentialStore(env=env)


def auth(env: Env, *arguments: str, given: str = "") -> Outcome:
    """Runs it, and has the key nowhere in what it prints."""
    done = run("auth", *arguments, given=given.encode(), env=env)
    assert KEY not in done.out + done.err
    assert "Traceback" not in done.err
    return done


def rows(env: Env) -> dict[str, dict[str, Any]]:
    return {row["provider"]: row for row in auth(env, "list", "--json").json}


def test_a_key_is_stored_listed_checked_and_forgotten(env: Env, store: CredentialStore) -> None:
    """The whole life of a key."""
    done = auth(env, "login", "groq", "--key", given=f" {KEY}\n")
    assert (0, f"groq: stored in {store.path}\n") == (done.code, done.out)
    assert (Credential(mode="api-key", secret=Secret(KEY)), "file") == store.get("groq")
    row = rows(env)["groq"]
    assert (True, "api-key", "stored:file") == (row["found"], row["mode"], row["source"])
    assert re.search(r"groq\s+found\s+api-key\s+stored:file", auth(env, "list").out)
    assert 0 == auth(env, "check", "groq").code
    assert "groq: removed\n" == auth(env, "logout", "groq").out
    assert "groq: nothing was stored\n" == auth(env, "logout", "groq").out
    assert not rows(env)["groq"]["found"]


def test_a_provider_of_ones_own_can_have_a_key(env: Env) -> None:
    """No row is needed."""
    auth(env, "login", "my.host", "--unlisted", given=KEY)
    assert rows(env)["my.host"]["source"] == "stored:file"


@pytest.mark.parametrize("given", ["", "\n", "   \n"])
def test_no_key_is_not_stored(given: str, env: Env, store: CredentialStore) -> None:
    """One line that says what to do."""
    done = auth(env, "login", "groq", given=given)
    assert 1 == done.code
    assert done.err.startswith("interlingua: no key given")
    assert {} == store.providers()


@pytest.mark.parametrize("arguments", [("--key", KEY), (KEY,), (f"--key={KEY}",)])
def test_a_key_on_the_command_line_is_refused_and_not_repeated(arguments: tuple[str, ...], env: Env) -> None:
    """Others can see it there, and logs keep it."""
    done = auth(env, "login", "groq", *arguments)
    assert 2 == done.code


def test_a_variable_that_counts_first_is_mentioned(env: Env) -> None:
    """Whoever stores a key wonders why another is used; and whoever forgets one, why there still is one."""
    env["GROQ_API_KEY"] = "x"
    note = "interlingua: note: env:GROQ_API_KEY takes precedence over the stored credential\n"
    assert note == auth(env, "login", "groq", given=KEY).err
    assert note == auth(env, "logout", "groq").err


def test_check_shows_the_order_and_what_counts(env: Env) -> None:
    """Every place in its turn, the first that has something, the others that have."""
    auth(env, "login", "anthropic", given=KEY)
    env["ANTHROPIC_API_KEY"] = KEY
    done = auth(env, "check", "anthropic")
    assert [
        "anthropic: api-key from env:ANTHROPIC_API_KEY",
        "  · ANTHROPIC_OAUTH_TOKEN",
        "  → ANTHROPIC_API_KEY",
        f"  ✓ {env['INTERLINGUA_HOME']}/credentials.json",
    ] == done.out.splitlines()
    found = auth(env, "check", "anthropic", "--json").json["providers"][0]
    assert [(False, False), (True, True), (True, False)] == [(o["there"], o["counts"]) for o in found["order"]]


def test_check_of_a_missing_key_fails_and_says_what_to_do(env: Env) -> None:
    """The variable that people use, and the command."""
    done = auth(env, "check", "huggingface")
    assert 1 == done.code
    assert "set HF_TOKEN, or run `interlingua auth login huggingface`" in done.out
    assert 0 == auth(env, "check", "ollama").code
    assert "no keys found\n" == auth(env, "check").out


def test_check_tells_of_logins_that_have_run_out(env: Env, store: CredentialStore) -> None:
    """One that can be renewed is no problem; one that cannot is."""
    login = Credential(mode="oauth", secret=Secret(KEY), refresh=Secret("again"), expires=1)
    store.put("groq", login)
    store.put("xai", Credential(mode="oauth", secret=Secret(KEY), expires=1))
    store.put("zai", Credential(mode="oauth", secret=Secret(KEY), expires=int((time.time() + 7200) * 1000)))
    assert "expired, will be renewed" in auth(env, "check", "groq").out
    refused = auth(env, "check", "xai")
    assert (1, True) == (refused.code, "interlingua auth login xai" in refused.out)
    assert re.search(r"valid for 1(19|20) minutes", auth(env, "check", "zai").out)


def test_check_tells_of_a_file_that_others_can_replace(env: Env, store: CredentialStore) -> None:
    """And the command that closes it."""
    store.put("groq", Credential(mode="api-key", secret=Secret(KEY)))
    store.folder.chmod(0o777)
    done = auth(env, "check", "groq")
    assert (1, True) == (done.code, f"chmod go-w {store.folder}" in done.out)


def test_a_broken_store_is_one_line(env: Env, store: CredentialStore) -> None:
    """For every command, and nothing is overwritten."""
    store.folder.mkdir(mode=0o700)
    store.path.write_text(f'{{"{KEY}"')
    store.path.chmod(0o600)
    for arguments in (("list",), ("check",), ("login", "groq"), ("logout", "groq")):
        done = auth(env, *arguments, given="k")
        assert (1, 1) == (done.code, len(done.err.splitlines()))
        assert str(store.path) in done.err
    assert f'{{"{KEY}"' == store.path.read_text()


def test_a_value_that_is_no_key_is_told_in_the_list(env: Env) -> None:
    """The others are still listed."""
    env |= {"GROQ_API_KEY": f"{KEY} {KEY}", "XAI_API_KEY": KEY}
    found = rows(env)
    assert "env:GROQ_API_KEY" in found["groq"]["problem"]
    assert found["xai"]["found"]


def test_a_login_without_a_client_id_says_so(env: Env) -> None:
    """None is built in."""
    done = auth(env, "login", "openai-codex", "--oauth", "pkce")
    assert (1, True) == (done.code, "--client-id" in done.err)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[LoginServer]:
    async with login_server() as server:
        yield server


def configure(env: Env, server: LoginServer) -> None:
    folder = Path(env["INTERLINGUA_HOME"])
    folder.mkdir(mode=0o700)
    urls = {f"{name}Url": f"{server.url}/{name}" for name in ("token", "authorize", "device")}
    (folder / "oauth.json").write_text(json.dumps({"acme": {"clientId": "mine", **urls}}))
    server.answers = [(200, {"access_token": KEY, "refresh_token": "again", "expires_in": 3600})]


async def started(env: Env, *arguments: str) -> asyncio.subprocess.Process:
    pipe = subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *COMMAND, "auth", "login", "acme", *arguments, env=env, stdin=pipe, stdout=pipe, stderr=pipe
    )


async def shown_url(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        if line.strip().startswith(b"http://"):
            return line.decode().strip()
    raise AssertionError("no address was shown")


async def test_a_browser_login_from_the_command_line(server: LoginServer, env: Env, store: CredentialStore) -> None:
    """While standard input is open and silent: the browser's answer ends it, and the process with it."""
    configure(env, server)
    process = await started(env, "--oauth", "pkce", "--no-browser")
    query = parse_qs(urlsplit(await shown_url(process)).query)
    back = query["redirect_uri"][0].replace("localhost", "127.0.0.1")
    async with aiohttp.ClientSession() as session, session.get(f"{back}?code=c&state={query['state'][0]}") as response:
        assert 200 == response.status
    assert process.stdout is not None and process.stderr is not None
    out, err = await asyncio.wait_for(asyncio.gather(process.stdout.read(), process.stderr.read()), 30)
    assert 0 == await process.wait()
    assert f"acme: stored in {store.path}\n" == out.decode()
    assert KEY not in err.decode()
    stored = store.get("acme")
    assert stored is not None
    assert ("oauth", Secret(KEY), Secret("again")) == (
        stored.credential.mode,
        stored.credential.secret,
        stored.credential.refresh,
    )


async def test_a_code_pasted_on_the_command_line(server: LoginServer, env: Env, store: CredentialStore) -> None:
    """On a machine whose browser is elsewhere."""
    configure(env, server)
    process = await started(env, "--oauth", "pkce", "--no-browser")
    await shown_url(process)
    out, _ = await asyncio.wait_for(process.communicate(b"http://localhost/callback?code=pasted\n"), 30)
    assert (0, "pasted") == (process.returncode, server.asked[0][1]["code"])
    assert b"acme: stored" in out


async def test_a_device_login_from_the_command_line(server: LoginServer, env: Env, store: CredentialStore) -> None:
    """The address and the code to type are shown."""
    configure(env, server)
    begun = {"device_code": "d", "user_code": "AB-CD", "verification_uri": "https://acme.example/d", "interval": 1}
    server.answers = [(200, begun), *server.answers]
    process = await started(env, "--oauth", "device")
    _, err = await asyncio.wait_for(process.communicate(), 30)
    assert 0 == process.returncode
    assert "Open https://acme.example/d and type the code AB-CD" in err.decode()
    assert {"acme": "file"} == store.providers()


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [(200, 0, "accepted by the provider"), (401, 1, "rejected the key"), (500, 0, "500")],
)
async def test_a_live_check_asks_the_provider_with_the_key_in_a_header(
    status: int, code: int, expected: str, env: Env
) -> None:
    """Never in the address; a refusal is a failure, a fault of the server is none."""
    seen: list[tuple[str, str]] = []

    async def models(request: web.Request) -> web.Response:
        seen.append((request.raw_path, request.headers.get("Authorization", "")))
        return web.json_response({"error": request.headers.get("Authorization")}, status=status)

    app = web.Application()
    app.router.add_get("/{path:.*}", models)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    env |= {"OPENAI_BASE_URL": f"http://127.0.0.1:{runner.addresses[0][1]}/v1", "OPENAI_API_KEY": KEY}
    done = await asyncio.to_thread(auth, env, "check", "openai", "--live")
    offline = await asyncio.to_thread(auth, env, "check", "openai")
    await runner.cleanup()
    assert (code, 0) == (done.code, offline.code)
    assert expected in done.out
    assert [("/v1/models", f"Bearer {KEY}")] == seen


def test_a_key_is_typed_unseen(env: Env, store: CredentialStore) -> None:
    """On a terminal nothing of it is echoed."""
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "auth", "login", "groq"], stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
    )
    os.close(slave)
    seen = b""
    while b"key for groq" not in seen:
        seen += os.read(master, 1024)
    while termios.tcgetattr(master)[3] & termios.ECHO:  # the prompt is printed just before the echo is turned off
        time.sleep(0.01)
    os.write(master, f"{KEY}\n".encode())
    assert 0 == process.wait(30)
    try:
        while more := os.read(master, 1024):
            seen += more
    except OSError:
        pass  # the other end is closed
    os.close(master)
    assert KEY.encode() not in seen
    assert (Credential(mode="api-key", secret=Secret(KEY)), "file") == store.get("groq")


def test_help_names_every_part() -> None:
    """list, login, logout, check."""
    done = run("auth", "--help")
    assert ["check", "list", "login", "logout"] == sorted(re.findall(r"^  (\w+)  ", done.out, re.MULTILINE))


def test_an_unknown_provider_is_refused_before_a_key_is_asked_for(env: Env, store: CredentialStore) -> None:
    """With the one that may be meant; nothing is read or stored."""
    for command in ("login", "logout", "check"):
        done = auth(env, command, "antropic", given=KEY)
        assert done.code == 1 and "did you mean 'anthropic'" in done.err, done
        assert "key for antropic" not in done.err
    assert not store.providers()
