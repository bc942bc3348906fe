"""Logging in and renewing, against a real server on this machine; and what an attacker may try."""

import asyncio
import contextlib
import json
import logging
import re
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from connect.auth.serving import LoginServer, challenge_of, login_server
from interlingua.connect.auth.credentials import Credential, CredentialStore, Secret
from interlingua.connect.auth.oauth import (
    DeviceCode,
    OAuthClient,
    Pasted,
    authorize_url,
    fresh,
    login_with_browser,
    login_with_device,
    oauth_client,
    parse_pasted,
    pkce,
    renew,
)
from interlingua.connect.auth.resolver import authenticate
from interlingua.values.abort import Abort
from interlingua.values.errors import AuthFailed, FormatError, InterlinguaError, ProviderError, TransportError

GRANTED = (
    200,
    {"access_token": "new-access", "refresh_token": "new-refresh", "expires_in": 3600, "token_type": "bearer"},
)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[LoginServer]:
    async with login_server() as server:
        yield server


class Browser:
    """What `show` gets: opens the address as a browser would, when told to."""

    def __init__(self) -> None:
        self.shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def __call__(self, url: str) -> None:
        self.shown.set_result(url)

    async def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(await self.shown).query).items()}

    async def get(
        self, path: str | None = None, method: str = "GET", host: str | None = None, **query: Any
    ) -> tuple[int, str]:
        """Goes to the redirect address, as it is or bent by a test; None takes a parameter away."""
        payload = await self.query()
        back = urlsplit(payload["redirect_uri"])
        params = [(name, value) for name, value in ({"state": payload["state"]} | query).items() if value is not None]
        url = f"http://127.0.0.1:{back.port}{path or back.path}"
        headers = {"Host": host} if host else {}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, params=params, headers=headers) as response,
        ):
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def logging_in(client: OAuthClient, **options: Any) -> AsyncIterator[tuple[Browser, "asyncio.Task[Credential]"]]:
    browser = Browser()
    task = asyncio.create_task(asyncio.wait_for(login_with_browser(client, show=browser, **options), 30))
    task.add_done_callback(lambda _: browser.shown.cancel())
    try:
        yield browser, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def texts(error: BaseException) -> str:
    """All that anyone could print of an error, our frames' local variables included."""
    frames = traceback.TracebackException.from_exception(error).format()
    ours = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if "/interlingua/" in frame.f_code.co_filename]
    return f"{''.join(frames)} {error!r} {vars(error)} {[frame.f_locals for frame in ours]}"


def test_the_proof_is_32_random_bytes_and_their_hash() -> None:
    """S256 of a verifier of 43 characters, new each time."""
    one, other = pkce(), pkce()
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", one.verifier.reveal())
    assert challenge_of(one.verifier.reveal()) == one.challenge
    assert one != other


async def test_a_browser_login(server: LoginServer) -> None:
    """The address asks for a code with a hashed proof; the code is redeemed with the proof itself."""
    server.answers = [GRANTED]
    before = time.time()
    async with logging_in(server.client()) as (browser, task):
        asked = await browser.query()
        status, page = await browser.get(code="the-code")
        credential = await task
    ((path, form),) = server.asked
    assert (200, "You are logged in. You can close this page.\n") == (status, page)
    assert ("code", "my-client", "read write", "S256") == tuple(
        asked[name] for name in ("response_type", "client_id", "scope", "code_challenge_method")
    )
    assert re.fullmatch(r"http://localhost:\d+/callback", asked["redirect_uri"])
    assert ("/token", "application/x-www-form-urlencoded") == (path, server.content_types[0])
    assert {
        "grant_type": "authorization_code",
        "code": "the-code",
        "redirect_uri": asked["redirect_uri"],
        "client_id": "my-client",
        "code_verifier": form["code_verifier"],
    } == form
    assert asked["code_challenge"] == challenge_of(form["code_verifier"])
    assert form["code_verifier"] not in await browser.shown
    assert ("oauth", "new-access", "new-refresh") == (
        credential.mode,
        credential.secret.reveal(),
        credential.refresh and credential.refresh.reveal(),
    )
    assert credential.expires is not None
    assert 3300 == pytest.approx(credential.expires / 1000 - before, abs=30)


async def test_a_token_endpoint_that_wants_json_and_the_state(server: LoginServer) -> None:
    """And a client with a secret and further parameters."""
    server.answers = [GRANTED]
    settings = {"client_secret": Secret("hush"), "state_in_token": True}
    client = server.client(client=settings, token_format="json", authorize={"access_type": "offline"})
    async with logging_in(client) as (browser, task):
        asked = await browser.query()
        await browser.get(code="c")
        await task
    assert "offline" == asked["access_type"]
    assert "application/json" == server.content_types[0]
    assert ("hush", asked["state"]) == (server.asked[0][1]["client_secret"], server.asked[0][1]["state"])
    assert "hush" not in await browser.shown


@pytest.mark.parametrize(
    ("text", "pasted"),
    [
        ("http://localhost:1/callback?code=a%2Fb&state=s", Pasted("a/b", "s")),
        ("  code=abc&state=s\n", Pasted("abc", "s")),
        ("?state=s&code=abc", Pasted("abc", "s")),
        ("abc#s", Pasted("abc", "s")),
        ("abc", Pasted("abc", None)),
        ("4/0Ab_x-y==", Pasted("4/0Ab_x-y==", None)),
    ],
)
def test_what_may_be_pasted(text: str, pasted: Pasted) -> None:
    """A whole address, a query string, code#state, a bare code."""
    assert pasted == parse_pasted(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#s",
        "http://localhost/callback",
        "http://h/?code=a&code=b",
        "a\x1b[31mb",
        "http://h/?error=access_denied&code=x",
    ],
)
def test_what_is_no_code_is_refused(text: str) -> None:
    """Nothing, an address without one, two of them, control characters, a refusal."""
    with pytest.raises(AuthFailed):
        parse_pasted(text)


def pasting(*texts: str | None) -> Callable[[], Awaitable[str | None]]:
    left = list(texts)

    async def paste() -> str | None:
        return left.pop(0)

    return paste


async def test_a_pasted_code_is_as_good_as_a_browser(server: LoginServer) -> None:
    """Whichever comes first; the redirect address stays the one that was asked with."""
    server.answers = [GRANTED]
    async with logging_in(server.client(), paste=pasting("pasted-code")) as (browser, task):
        await task
        asked = await browser.query()
    assert ("pasted-code", asked["redirect_uri"]) == (server.asked[0][1]["code"], server.asked[0][1]["redirect_uri"])


async def test_a_blank_line_is_not_an_answer(server: LoginServer) -> None:
    """Pressing Enter too early costs nothing; the end of the input without a browser ends the login."""
    server.answers = [GRANTED]
    client = server.client(client={"redirect_uri": "https://acme.example/code"})
    async with logging_in(client, paste=pasting("\n", " ", "c")) as (_, task):
        await task
    async with logging_in(client, paste=pasting("\n", None)) as (_, task):
        with pytest.raises(AuthFailed, match="no code was given"):
            await task
    assert ["c"] == [form["code"] for _, form in server.asked]


async def test_the_end_of_pasting_leaves_the_browser(server: LoginServer) -> None:
    """Standard input may be closed."""
    server.answers = [GRANTED]
    async with logging_in(server.client(), paste=pasting(None)) as (browser, task):
        await browser.get(code="c")
        await task
    assert "c" == server.asked[0][1]["code"]


async def test_a_pasted_state_of_another_login_ends_this_one(server: LoginServer) -> None:
    """Someone else's code is not redeemed."""
    async with logging_in(server.client(), paste=pasting("code#another-state")) as (_, task):
        with pytest.raises(AuthFailed, match="another login"):
            await task
    assert [] == server.asked


@pytest.mark.parametrize(
    "bent",
    [
        {"code": "evil", "state": "guessed"},
        {"code": "evil", "state": None},
        {"code": "evil", "state": ""},
        {"code": None},
        {"code": ""},
        {"code": "evil\r\nX: y"},
        {"code": "x" * 5000},
        {"code": "evil", "host": "attacker.example"},
        {"code": "evil", "path": "/callback/../callback2"},
        {"code": "evil", "path": "/"},
        {"code": "evil", "method": "POST"},
        {"code": "evil", "method": "HEAD"},
        {"error": "access_denied", "state": "guessed"},
        {"code": "<script>alert(1)</script>", "state": "<script>"},
    ],
    ids=str,
)
async def test_a_forged_answer_is_refused_and_the_true_one_still_counts(
    bent: dict[str, Any], server: LoginServer
) -> None:
    """No other page can log the user in to another account, end the login, or have its text shown."""
    server.answers = [GRANTED]
    async with logging_in(server.client()) as (browser, task):
        status, page = await browser.get(**bent)
        assert status in (400, 404, 405)
        assert "<script>" not in page and "evil" not in page
        assert not task.done()
        assert 200 == (await browser.get(code="true"))[0]
        await task
    assert ["true"] == [form["code"] for _, form in server.asked]


async def test_two_codes_or_two_states_in_one_answer_are_refused(server: LoginServer) -> None:
    """Which one counts must not be a matter of parsing."""
    server.answers = [GRANTED]
    async with logging_in(server.client()) as (browser, task):
        state = (await browser.query())["state"]
        for path in (f"/callback?state={state}&code=a&code=b", f"/callback?state={state}&state=x&code=a"):
            back = urlsplit((await browser.query())["redirect_uri"])
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{back.port}{path}") as response,
            ):
                assert 400 == response.status
        assert not task.done()


async def test_only_one_answer_is_taken(server: LoginServer) -> None:
    """While the code is being redeemed nobody listens any more, or says that it is over."""
    server.answers = [GRANTED]
    async with logging_in(server.client()) as (browser, task):
        first, second = await asyncio.gather(browser.get(code="one"), browser.get(code="two"), return_exceptions=True)
        await task
        with pytest.raises(aiohttp.ClientError):
            await browser.get(code="three")
    outcomes = [
        200 if not isinstance(seen, BaseException) and seen[0] == 200 else "refused" for seen in (first, second)
    ]
    assert 1 == outcomes.count(200)
    assert 1 == len(server.asked)


async def test_the_server_listens_on_this_machine_alone(server: LoginServer) -> None:
    """Bound to 127.0.0.1, not to every address."""
    async with logging_in(server.client()) as (browser, _):
        port = urlsplit((await browser.query())["redirect_uri"]).port
        listening = Path("/proc/net/tcp")
        if not listening.exists():
            pytest.skip("needs /proc/net/tcp")
        rows = [line.split() for line in listening.read_text().splitlines()[1:]]
        assert ["0100007F"] == [
            row[1].split(":")[0] for row in rows if int(row[1].split(":")[1], 16) == port and row[3] == "0A"
        ]


async def test_a_refusal_of_the_user_is_an_error(server: LoginServer) -> None:
    """With the provider's word for it."""
    async with logging_in(server.client()) as (browser, task):
        await browser.get(error="access_denied")
        with pytest.raises(AuthFailed, match="access_denied"):
            await task


@contextlib.contextmanager
def busy_port() -> Any:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


async def test_a_busy_port_is_replaced_where_the_client_may_use_any(server: LoginServer) -> None:
    """The address says the new one."""
    server.answers = [GRANTED]
    with busy_port() as port:
        async with logging_in(server.client(client={"any_port": True}, callback_port=port)) as (browser, task):
            assert f":{port}/" not in (await browser.query())["redirect_uri"]
            await browser.get(code="c")
            await task


async def test_a_busy_port_leaves_pasting(server: LoginServer) -> None:
    """With the registered address: it is the one the provider knows."""
    server.answers = [GRANTED]
    with busy_port() as port:
        async with logging_in(server.client(callback_port=port), paste=pasting("c")) as (browser, task):
            await task
            assert f"http://localhost:{port}/callback" == (await browser.query())["redirect_uri"]
        async with logging_in(server.client(callback_port=port)) as (_, task):
            with pytest.raises(InterlinguaError, match="--port"):
                await task


async def test_a_page_that_shows_the_code_needs_no_server(server: LoginServer) -> None:
    """A registered redirect address elsewhere."""
    server.answers = [GRANTED]
    client = server.client(client={"redirect_uri": "https://acme.example/code"})
    async with logging_in(client, paste=pasting("c")) as (_, task):
        await task
    assert "https://acme.example/code" == server.asked[0][1]["redirect_uri"]


async def test_a_login_can_be_aborted_and_runs_out(server: LoginServer) -> None:
    """By the signal, by cancelling, and by itself."""
    signal = Abort()
    async with logging_in(server.client(), signal=signal) as (browser, task):
        await browser.shown
        signal.abort()
        with pytest.raises(InterlinguaError, match="aborted"):
            await task
    async with logging_in(server.client(), timeout=0.05) as (_, task):
        with pytest.raises(AuthFailed, match="login not confirmed"):
            await task


async def test_nothing_of_a_login_is_logged(server: LoginServer, caplog: pytest.LogCaptureFixture) -> None:
    """The code is in the address that the browser asks for: no access log may have it."""
    server.answers = [GRANTED]
    with caplog.at_level(logging.DEBUG):
        async with logging_in(server.client()) as (browser, task):
            await browser.get(code="code-in-the-address")
            await task
    for secret in ("code-in-the-address", "new-access", "new-refresh", server.asked[0][1]["code_verifier"]):
        assert secret not in caplog.text


# What a hostile or broken token endpoint may answer: each echoes all that it was told.


def echo(status: int) -> Callable[[dict[str, str]], tuple[int, Any]]:
    return lambda form: (
        status,
        {"error": "invalid_client", "error_description": f"you said {json.dumps(form)}\x1b[2J"},
    )


@pytest.mark.parametrize("status", [200, 400, 401, 500])
async def test_errors_of_the_token_endpoint_echo_nothing_secret(status: int, server: LoginServer) -> None:
    """Not in the message, the repr, the attributes or the traceback; and no terminal codes either."""
    server.answers = [echo(status)]
    client = server.client(client={"client_secret": Secret("client-secret-hush")})
    async with logging_in(client, paste=pasting("the-one-time-code")) as (_, task):
        with pytest.raises(ProviderError) as caught:
            await task
    verifier = server.asked[0][1]["code_verifier"]
    assert "invalid_client" in str(caught.value)
    for secret in ("client-secret-hush", "the-one-time-code", verifier, "\x1b"):
        assert secret not in texts(caught.value)


@pytest.mark.parametrize("body", ["<html>client-secret-hush</html>", "", '"x"', "[1]", "{"])
async def test_an_answer_that_is_no_json_object_is_an_error(body: str, server: LoginServer) -> None:
    """It is not shown: a proxy's page may hold anything."""
    server.answers = [(200, body)]
    client = server.client(client={"client_secret": Secret("client-secret-hush")})
    async with logging_in(client, paste=pasting("c")) as (_, task):
        with pytest.raises(AuthFailed) as caught:
            await task
    assert "hush" not in texts(caught.value)


@pytest.mark.parametrize(
    "answer", [{}, {"access_token": ""}, {"access_token": 5}, {"access_token": "t", "error": "no"}]
)
async def test_an_answer_without_a_token_is_an_error(answer: dict[str, Any], server: LoginServer) -> None:
    """Whatever its status says."""
    server.answers = [(200, answer)]
    async with logging_in(server.client(), paste=pasting("c")) as (_, task):
        with pytest.raises(AuthFailed):
            await task


async def test_secrets_do_not_follow_a_redirect(server: LoginServer) -> None:
    """They go where they were sent, and nowhere else."""
    server.answers = [(307, "moved")]
    async with logging_in(server.client(), paste=pasting("c")) as (_, task):
        with pytest.raises(AuthFailed):
            await task
    assert ["/token"] == [path for path, _ in server.asked]


async def test_no_answer_is_a_transport_error_without_secrets() -> None:
    """A refused connection says nothing about the login."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/token"
        old = Credential(mode="oauth", secret=Secret("old-access"), refresh=Secret("old-refresh"), token_url=url)
        with pytest.raises(TransportError) as caught:
            await renew("acme", old)
    assert "old-refresh" not in texts(caught.value)


# Device code.


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


STARTED = (
    200,
    {
        "device_code": "dev",
        "user_code": "AB\x1b-CD",
        "verification_uri": "https://acme.example/device",
        "expires_in": 60,
        "interval": 7,
    },
)
PENDING = (400, {"error": "authorization_pending"})
SLOW = (400, {"error": "slow_down"})


async def device(server: LoginServer, *answers: Any) -> tuple[Credential, list[DeviceCode], Clock]:
    server.answers = list(answers)
    shown: list[DeviceCode] = []
    clock = Clock()
    try:
        credential = await login_with_device(server.client(), show=shown.append, sleep=clock.sleep, clock=clock)
    except ProviderError as error:
        error.add_note(repr(clock.slept))
        raise
    return credential, shown, clock


async def test_a_device_login_waits_first_and_asks_slower_when_told(server: LoginServer) -> None:
    """Pending keeps the interval; `slow_down` adds five seconds, or takes the server's own if that is more."""
    slower = (200, {"error": "slow_down", "interval": 20})
    credential, shown, clock = await device(server, STARTED, PENDING, SLOW, PENDING, slower, GRANTED)
    assert [7, 7, 12, 12, 20] == clock.slept
    assert [DeviceCode("AB -CD", "https://acme.example/device", 60.0)] == shown
    assert ("/device", {"client_id": "my-client", "scope": "read write"}) == server.asked[0]
    assert {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "device_code": "dev",
        "client_id": "my-client",
    } == server.asked[1][1]
    assert "new-access" == credential.secret.reveal()


async def test_the_last_question_comes_when_the_code_runs_out(server: LoginServer) -> None:
    """The rest of its life is used, then the login is over."""
    with pytest.raises(AuthFailed, match="interlingua auth login acme") as caught:
        await device(server, STARTED, PENDING)
    assert [repr([7.0] * 8 + [4.0])] == caught.value.__notes__


@pytest.mark.parametrize("code", ["expired_token", "access_denied", "unheard_of"])
async def test_a_device_login_that_is_refused_ends(code: str, server: LoginServer) -> None:
    """At once, with the provider's word."""
    with pytest.raises(AuthFailed, match=code) as caught:
        await device(server, STARTED, PENDING, (400, {"error": code}))
    assert [repr([7.0, 7.0])] == caught.value.__notes__


async def test_a_server_that_names_no_interval_is_asked_every_five_seconds(server: LoginServer) -> None:
    """And one that says zero is not flooded; numbers may be texts, and the address may have its older name."""
    bare = {"device_code": "d", "user_code": "u", "verification_url": "https://acme.example/", "expires_in": "60"}
    _, _, clock = await device(server, (200, bare), GRANTED)
    assert [5] == clock.slept
    _, _, clock = await device(server, (200, bare | {"interval": 0}), GRANTED)
    assert [1] == clock.slept


async def test_a_device_endpoint_that_refuses_is_an_error(server: LoginServer) -> None:
    """So is one whose page to open is not safe."""
    with pytest.raises(AuthFailed, match="unauthorized_client"):
        await device(server, (400, {"error": "unauthorized_client"}))
    with pytest.raises(InterlinguaError, match="https"):
        await device(server, (200, STARTED[1] | {"verification_uri": "javascript:alert(1)"}))


async def test_a_device_login_can_be_aborted(server: LoginServer) -> None:
    """While it waits."""
    server.answers = [STARTED]
    signal = Abort()
    task = asyncio.create_task(login_with_device(server.client(), show=lambda _: signal.abort(), signal=signal))
    with pytest.raises(InterlinguaError, match="aborted"):
        await task


# Renewing.


def stored_login(server: LoginServer, tmp_path: Path, **changes: Any) -> CredentialStore:
    store = CredentialStore(tmp_path / "il")
    login = Credential(
        mode="oauth",
        secret=Secret("old-access"),
        refresh=Secret("old-refresh"),
        expires=1,
        client_id="my-client",
        client_secret=Secret("client-secret-hush"),
        token_url=f"{server.url}/token",
    )
    store.put("acme", msgspec.structs.replace(login, **changes))
    return store


async def test_a_login_that_has_run_out_is_renewed_and_stored(server: LoginServer, tmp_path: Path) -> None:
    """Without a scope; the new refresh token takes the place of the spent one."""
    server.answers = [GRANTED]
    store = stored_login(server, tmp_path)
    found = await authenticate("acme", env={}, store=store)
    assert found is not None
    assert ("new-access", "oauth", "stored:file") == (found.api_key, found.mode, found.source)
    assert [
        (
            "/token",
            {
                "grant_type": "refresh_token",
                "refresh_token": "old-refresh",
                "client_id": "my-client",
                "client_secret": "client-secret-hush",
            },
        )
    ] == server.asked
    stored = store.get("acme")
    assert stored is not None
    assert (Secret("new-access"), Secret("new-refresh"), Secret("client-secret-hush")) == stored.credential.secrets()
    assert not stored.credential.expired()
    again = await authenticate("acme", env={}, store=store)
    assert (found, 1) == (again, len(server.asked))


async def test_a_refresh_token_is_kept_where_no_new_one_comes(server: LoginServer, tmp_path: Path) -> None:
    """And an unknown lifetime is not taken for none."""
    server.answers = [(200, {"access_token": "new-access"})]
    store = stored_login(server, tmp_path)
    renewed = await fresh("acme", store)
    assert renewed is not None
    assert (Secret("old-refresh"), None, False) == (renewed.refresh, renewed.expires, renewed.expired())


@pytest.mark.parametrize(("lifetime", "early"), [(3600, 300), ("3600", 300), (600, 300), (100, 50)])
async def test_expiry_is_stored_five_minutes_early(
    lifetime: Any, early: float, server: LoginServer, tmp_path: Path
) -> None:
    """A short login is renewed at half its life instead of at once."""
    server.answers = [(200, {"access_token": "a", "expires_in": lifetime})]
    before = time.time()
    renewed = await fresh("acme", stored_login(server, tmp_path))
    assert renewed is not None and renewed.expires is not None
    assert float(lifetime) - early == pytest.approx(renewed.expires / 1000 - before, abs=30)


async def test_a_token_that_was_refused_is_renewed_once(server: LoginServer, tmp_path: Path) -> None:
    """Before its time; and not again for a caller that was late to notice."""
    server.answers = [GRANTED]
    store = stored_login(server, tmp_path, expires=None)
    first = await authenticate("acme", env={}, store=store, rejected="old-access")
    second = await authenticate("acme", env={}, store=store, rejected="old-access")
    assert first == second
    assert first is not None and first.api_key == "new-access"
    assert 1 == len(server.asked)


async def test_many_tasks_share_one_renewal(server: LoginServer, tmp_path: Path) -> None:
    """The refresh token may be used once only."""
    server.answers = [GRANTED, (400, {"error": "invalid_grant"})]
    store = stored_login(server, tmp_path)
    got = await asyncio.gather(*(authenticate("acme", env={}, store=store) for _ in range(20)))
    assert {"new-access"} == {found.api_key for found in got if found}
    assert 1 == len(server.asked)


RENEWER = """
import asyncio, sys
from pathlib import Path
from interlingua.connect.auth.credentials import CredentialStore
from interlingua.connect.auth.oauth import fresh
credential = asyncio.run(fresh("acme", CredentialStore(Path(sys.argv[1]))))
print(credential.secret.reveal())
"""


async def test_two_processes_share_one_renewal(server: LoginServer, tmp_path: Path) -> None:
    """Three real ones, started at once: one asks, all get the new token."""
    server.answers = [GRANTED, (400, {"error": "invalid_grant"})]
    store = stored_login(server, tmp_path)
    command = (sys.executable, "-c", RENEWER, str(store.folder))
    processes = [await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE) for _ in range(3)]
    outputs = [out for out, _ in await asyncio.gather(*(process.communicate() for process in processes))]
    assert [b"new-access\n"] * 3 == outputs
    assert 1 == len(server.asked)


async def test_a_caller_that_gives_up_does_not_lose_the_new_tokens(server: LoginServer, tmp_path: Path) -> None:
    """The old refresh token is spent once the server has answered: the new one must reach the disk."""
    store = stored_login(server, tmp_path)
    caller = asyncio.create_task(fresh("acme", store))

    def give_up(form: dict[str, str]) -> tuple[int, Any]:
        caller.cancel()
        return GRANTED

    server.answers = [give_up]
    with pytest.raises(asyncio.CancelledError):
        await caller
    async with store.renewing("acme"):
        stored = store.get("acme")
    assert stored is not None and stored.credential.refresh == Secret("new-refresh")


@pytest.mark.parametrize(
    ("answer", "kind", "remedy"),
    [
        ((400, {"error": "invalid_grant"}), AuthFailed, "interlingua auth login acme"),
        (echo(401), AuthFailed, "interlingua auth login acme"),
        ((503, "busy"), ProviderError, "try again later"),
        ((429, {"error": "rate_limited"}), ProviderError, "try again later"),
    ],
)
async def test_a_renewal_that_fails_says_what_to_do_and_keeps_the_login(
    answer: Any, kind: type[ProviderError], remedy: str, server: LoginServer, tmp_path: Path
) -> None:
    """The server may be wrong for a while: nothing is thrown away, nothing is shown."""
    server.answers = [answer]
    store = stored_login(server, tmp_path)
    before = store.get("acme")
    with pytest.raises(ProviderError, match=remedy) as caught:
        await authenticate("acme", env={}, store=store)
    assert kind is type(caught.value)
    assert before == store.get("acme")
    for secret in ("old-access", "old-refresh", "client-secret-hush"):
        assert secret not in texts(caught.value)


async def test_a_login_that_cannot_be_renewed_says_so(server: LoginServer, tmp_path: Path) -> None:
    """It never falls back to something else behind the caller's back."""
    store = stored_login(server, tmp_path, refresh=None)
    with pytest.raises(AuthFailed, match="interlingua auth login acme"):
        await authenticate("acme", env={}, store=store)
    assert [] == server.asked


async def test_a_renewal_takes_another_process_s_word(server: LoginServer, tmp_path: Path) -> None:
    """Whoever waited for the lock looks again, and asks nobody."""
    store = stored_login(server, tmp_path)
    async with store.renewing("acme"):
        waiting = asyncio.create_task(fresh("acme", store))
        await asyncio.sleep(0.1)
        store.put("acme", Credential(mode="oauth", secret=Secret("by-another"), refresh=Secret("r")))
    found = await waiting
    assert found is not None and found.secret == Secret("by-another")
    assert [] == server.asked


# Whose client, and where.


def configure(folder: Path, **entries: Any) -> Path:
    (folder / "oauth.json").write_text(json.dumps(entries))
    return folder


def test_no_client_id_is_built_in(tmp_path: Path) -> None:
    """Every provider that has a login asks for the user's own."""
    with pytest.raises(InterlinguaError, match="--client-id"):
        oauth_client("github-copilot", folder=tmp_path)
    client = oauth_client("github-copilot", client_id="mine", folder=tmp_path)
    assert ("mine", ("read:user",)) == (client.client_id, client.spec.scopes)


def test_a_config_file_gives_any_provider_a_login(tmp_path: Path) -> None:
    """Its words count before the row's, and the option's before both."""
    configure(
        tmp_path,
        acme={"clientId": "filed", "tokenUrl": "https://a/t", "authorizeUrl": "https://a/a", "anyPort": True},
        **{"openai-codex": {"clientId": "mine", "callbackPort": 99, "authorize": {"x": "1"}}},
    )
    acme = oauth_client("acme", folder=tmp_path)
    assert ("filed", "https://a/t", True) == (acme.client_id, acme.spec.token_url, acme.any_port)
    assert "given" == oauth_client("acme", client_id="given", folder=tmp_path).client_id
    codex = oauth_client("openai-codex", folder=tmp_path)
    assert (99, "/auth/callback", {"x": "1"}) == (
        codex.spec.callback_port,
        codex.spec.callback_path,
        codex.spec.authorize,
    )


def test_a_provider_without_a_login_says_what_to_do(tmp_path: Path) -> None:
    """A key, or the config file."""
    with pytest.raises(InterlinguaError, match=r"--key.*oauth\.json"):
        oauth_client("groq", client_id="mine", folder=tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        {"tokenURL": "x"},
        {"tokenUrl": 5},
        {"clientSecret": "hush-hush"},
        {"tokenFormat": "xml", "tokenUrl": "https://a"},
    ],
)
def test_a_mistake_in_the_config_file_is_named(entry: dict[str, Any], tmp_path: Path) -> None:
    """A misspelt name, a wrong type, a secret where none belongs; no value is quoted."""
    configure(tmp_path, acme=entry)
    with pytest.raises(FormatError, match=r"oauth\.json") as caught:
        oauth_client("acme", client_id="mine", folder=tmp_path)
    assert "hush-hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url", ["http://acme.example/token", "ftp://acme.example", "http://127.0.0.1.evil.example/t", "token"]
)
def test_tokens_cross_no_open_wire(url: str, tmp_path: Path) -> None:
    """https, or this machine."""
    configure(tmp_path, acme={"clientId": "c", "tokenUrl": url})
    with pytest.raises(InterlinguaError, match="https"):
        oauth_client("acme", folder=tmp_path)


def test_an_authorization_address_may_have_a_query_already(tmp_path: Path) -> None:
    """It is kept."""
    configure(tmp_path, acme={"clientId": "c", "tokenUrl": "https://a/t", "authorizeUrl": "https://a/a?tenant=1"})
    url = authorize_url(oauth_client("acme", folder=tmp_path), "http://localhost:1/callback", "ch", "st")
    assert url.startswith("https://a/a?tenant=1&response_type=code&client_id=c&")
    assert "scope" not in url
