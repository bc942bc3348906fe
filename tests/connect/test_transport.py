"""Bytes over HTTP: event loops, threads, proxies, authorities, redirects, and what an error may say."""

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
import traceback
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from connect.talking import API, KEY, QUICK, ask, events_of, options, until
from interlingua.connect.auth.credentials import HIDDEN
from interlingua.connect.client import Client
from interlingua.connect.transport import HttpTransport
from interlingua.testing import ErrorEvent, Garbage, ProxyServer, Server, Stall, Status


@pytest.fixture
def server() -> Any:
    with Server() as running:
        yield running


async def _text(server: Server, **how: Any) -> str:
    return (await ask(server, "Hello", **how).result()).text


# --- event loops and threads ------------------------------------------------------------------------------------------


def test_case_98_one_event_loop_after_another(server: Server) -> None:
    """`asyncio.run` again and again with one client: each loop has its own pool, and takes it along when it ends."""
    client = Client()
    for _ in range(5):
        assert "Hello" == asyncio.run(_text(server, client=client))
    assert 5 == len(server.requests)


def test_case_98_many_threads_with_loops_of_their_own(server: Server) -> None:
    """Eight threads, each with `asyncio.run`, one client."""
    client, texts = Client(), []

    async def several() -> list[str]:
        return await asyncio.gather(*(_text(server, client=client) for _ in range(5)))

    threads = [threading.Thread(target=lambda: texts.extend(asyncio.run(several()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["Hello"] * 40 == texts


def test_case_98_a_loop_that_ends_is_forgotten(server: Server) -> None:
    """A transport that outlives thousands of loops does not keep them."""
    transport = HttpTransport()
    client = Client(transport=transport)
    gone = []

    async def once() -> None:
        gone.append(weakref.ref(asyncio.get_running_loop()))
        await _text(server, client=client)

    for _ in range(4):
        asyncio.run(once())
    gc.collect()
    assert [True, True, True] == [one() is None for one in gone[:3]]
    assert 1 >= len(transport._sessions)


PROGRAM = """
import asyncio
import sys

import interlingua as il

model = il.ModelDescriptor(id="m", api="anthropic-messages", provider="mine", base_url=sys.argv[1])

async def ask():
    async for event in il.stream(model, "Hello", retry=0):
        pass
    return (await il.complete(model, "Hello")).text

async def leave():
    async for event in il.stream(model, "Hello", retry=0):
        break

async def drop():
    il.stream(model, "Hello")
    stream = il.stream(model, "Hello")
    await stream.next()

async def leave_pending():
    asyncio.get_running_loop().create_task(il.complete(model, "Hello"))
    await asyncio.sleep(0.01)

print(asyncio.run(ask()), asyncio.run(ask()), il.sync.complete(model, "Hello").text)
for unfinished in (leave, drop, leave_pending):
    asyncio.run(unfinished())
for event in il.sync.stream(model, "Hello"):
    break
kept = iter(il.sync.stream(model, "Hello"))
next(kept)
print("end")
"""


def test_a_loop_that_is_closed_by_hand_leaves_no_open_client(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Closed without `shutdown_asyncgens`, as some programs do with a loop of their own: the next call closes it."""
    client = Client()
    for _ in range(3):
        loop = asyncio.new_event_loop()
        assert "Hello" == loop.run_until_complete(_text(server, client=client, headers={"Connection": "close"}))
        loop.close()
    assert "Hello" == asyncio.run(_text(server, client=client))
    gc.collect()
    assert "Unclosed" not in caplog.text


def test_nothing_is_left_unclosed(server: Server) -> None:
    """In development mode with warnings as errors, a program that asks, leaves and drops streams says nothing."""
    server.say("Hello")
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM, server.base_url(API)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "ANTHROPIC_API_KEY": KEY},
    )
    # asyncio's development mode also tells of steps that took long: a matter of the machine.
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("Executing <")]
    assert ("Hello Hello Hello\nend\n", [], 0) == (done.stdout, complaints, done.returncode)


async def test_sequential_calls_share_a_connection(server: Server) -> None:
    """Whoever reads an answer to its end leaves the connection for the next call."""
    client = Client()
    ports = set()
    server.route("GET", "/anything", {})
    for _ in range(5):
        assert "Hello" == await _text(server, client=client)
        ports.add(server.open_connections)
    assert {1} == ports


async def test_a_transport_can_be_closed_and_used_again(server: Server) -> None:
    """`aclose` ends the pool of this loop; the next call makes another."""
    transport = HttpTransport()
    client = Client(transport=transport)
    assert "Hello" == await _text(server, client=client)
    await transport.aclose()
    await transport.aclose()
    await until(lambda: server.open_connections == 0)
    assert "Hello" == await _text(server, client=client)


async def test_a_client_closes_its_own_connections_and_no_others(server: Server) -> None:
    """`async with` leaves none open, also when it is entered twice; one that was given stays with whoever made it."""
    given = HttpTransport()
    async with Client() as client, Client(transport=given) as other:
        async with client:
            assert "Hello" == await _text(server, client=client)
        assert "Hello" == await _text(server, client=client)
        assert "Hello" == await _text(server, client=other)
        await _open(server, 2)
    await _open(server, 1)
    await given.aclose()
    await _open(server, 0)


async def test_clients_share_the_connections_of_the_event_loop(server: Server) -> None:
    """Unless they are entered; one that was left uses the shared ones again."""
    used = Client()
    async with used:
        assert "Hello" == await _text(server, client=used)
    for client in (Client(), Client(), used):
        assert "Hello" == await _text(server, client=client)
    await _open(server, 1)


async def _open(server: Server, expected: int) -> None:
    """Waits until so many connections are open: that one was closed takes the server a moment to notice."""
    async with asyncio.timeout(10):
        while server.open_connections != expected:
            await asyncio.sleep(0.01)


# --- proxies ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy() -> Any:
    with ProxyServer() as running:
        yield running


async def test_a_proxy_by_option(server: Server, proxy: ProxyServer) -> None:
    """The call goes through it."""
    assert "Hello" == await _text(server, client=Client(transport=HttpTransport(proxy=proxy.url)))
    assert [("POST", 200)] == [(one.method, one.status) for one in proxy.passed]


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_proxy_by_environment(
    server: Server, proxy: ProxyServer, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual variables count where no proxy is given."""
    monkeypatch.setenv(variable, proxy.url)
    assert "Hello" == await _text(server, client=Client(transport=HttpTransport()))
    assert 1 == len(proxy.passed)


async def test_a_proxy_may_change_between_calls(
    server: Server, proxy: ProxyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of each call counts, not that of the first one. A blank variable is no proxy."""
    counts = []
    for value in (None, proxy.url, "", None):
        if value is None:
            monkeypatch.delenv("HTTP_PROXY", raising=False)
        else:
            monkeypatch.setenv("HTTP_PROXY", value)
        assert "Hello" == await _text(server)
        counts.append(len(proxy.passed))
    assert [0, 1, 1, 1] == counts


async def test_a_proxy_may_be_named_without_its_kind(
    server: Server, proxy: ProxyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`host:port`, as other programs take it."""
    monkeypatch.setenv("HTTP_PROXY", proxy.url.removeprefix("http://"))
    assert "Hello" == await _text(server, client=Client(transport=HttpTransport()))
    assert 1 == len(proxy.passed)


async def test_a_proxy_of_another_kind_is_not_gone_around(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """SOCKS is not spoken: said so, instead of calling directly."""
    monkeypatch.setenv("ALL_PROXY", "socks5h://127.0.0.1:1080")
    stream = ask(server, client=Client(transport=HttpTransport()))
    await stream.result()
    assert isinstance(stream.failure, il.TransportError)
    assert "socks5h" in str(stream.failure)
    assert [] == server.requests


@pytest.mark.parametrize("exempt", ["127.0.0.1", "*", "127.0.0.1:{port}", "example.org,127.0.0.1"])
async def test_no_proxy_exempts_hosts(
    server: Server, proxy: ProxyServer, exempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_PROXY wins over the variables."""
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", exempt.format(port=server.url.rpartition(":")[2]))
    assert "Hello" == await _text(server, client=Client(transport=HttpTransport()))
    assert [] == proxy.passed


async def test_a_proxy_that_is_not_there_is_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider may be running: nobody is asked whether it is."""
    with ProxyServer() as proxy:
        gone = proxy.url
    monkeypatch.setenv("HTTP_PROXY", gone)
    with pytest.raises(il.TransportError, match=gone.rpartition("/")[2]) as caught:
        await il.complete("ollama/m", "hi", base_url=server.url, retry=0)
    assert "is it running" not in str(caught.value) and [] == server.requests


async def test_a_proxy_with_a_password(server: Server) -> None:
    """User and password are in its URL; a wrong password is an error that does not tell it."""
    with ProxyServer(auth=("user", "pa:ss/word")) as proxy:
        right = proxy.url.replace("//", "//user:pa%3Ass%2Fword@")
        assert "Hello" == await _text(server, client=Client(transport=HttpTransport(proxy=right)))
        wrong = proxy.url.replace("//", "//user:wrong-password@")
        stream = ask(server, client=Client(transport=HttpTransport(proxy=wrong)))
        await stream.result()
        assert stream.failure is not None
        assert "wrong-password" not in _everything(stream.failure)


async def test_a_transport_collected_in_a_cycle_closes_its_connections(server: Server, proxy: ProxyServer) -> None:
    """By the collector, with all that refers to it: nothing warns of a session that was left open."""
    transport: Any = HttpTransport(proxy=proxy.url)
    assert "Hello" == await _text(server, client=Client(transport=transport))
    transport.itself = transport
    alive = weakref.ref(transport)
    del transport
    gc.collect()
    await asyncio.sleep(0)
    assert alive() is None


async def test_https_goes_through_a_tunnel(proxy: ProxyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy sees where, not what."""
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    with Server(tls=True) as server:
        transport = HttpTransport(ca=server.ca_pem.decode())
        assert "Hello" == await _text(server, client=Client(transport=transport))
        await transport.aclose()
    assert ["CONNECT"] == [one.method for one in proxy.passed]


async def test_a_tunnel_that_is_refused_is_an_error_without_secrets() -> None:
    """407 to CONNECT: a transport error; neither the password nor the key is in it."""
    with ProxyServer(auth=("user", "right")) as proxy, Server(tls=True) as server:
        transport = HttpTransport(proxy=proxy.url.replace("//", "//user:wrong-password@"), ca=server.ca_pem.decode())
        stream = ask(server, client=Client(transport=transport))
        await stream.result()
        await transport.aclose()
    assert isinstance(stream.failure, il.TransportError)
    assert "407" in str(stream.failure)
    dumped = _everything(stream.failure)
    assert "wrong-password" not in dumped
    assert KEY not in dumped


async def test_a_netrc_file_is_left_alone(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says about the provider's host neither replaces the key nor breaks the call."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\ndefault login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    asked = Client(transport=HttpTransport()).stream("groq/m", "Hello", **options(server, "openai-completions"))
    assert "Hello" == (await asked.result()).text
    assert f"Bearer {KEY}" == server.last.headers["Authorization"]
    assert "Hello" == await _text(server)
    assert "Authorization" not in server.last.headers


# --- authorities ------------------------------------------------------------------------------------------------------


async def test_an_authority_of_one_s_own(tmp_path: Path) -> None:
    """As the path of a file, and as text."""
    with Server(tls=True) as server:
        file = tmp_path / "ca.pem"
        file.write_bytes(server.ca_pem)
        for ca in (str(file), server.ca_pem.decode()):
            transport = HttpTransport(ca=ca)
            assert "Hello" == await _text(server, client=Client(transport=transport))
            await transport.aclose()


async def test_a_server_that_nobody_vouches_for_is_refused() -> None:
    """No authority, or the wrong one: a transport error, and no request was sent."""
    with Server(tls=True) as server, Server(tls=True) as other:
        for transport in (HttpTransport(), HttpTransport(ca=other.ca_pem.decode())):
            stream = ask(server, client=Client(transport=transport))
            await stream.result()
            assert isinstance(stream.failure, il.TransportError)
            assert "certificate" in str(stream.failure)
            await transport.aclose()
        assert [] == server.requests


async def test_an_authority_that_cannot_be_read_is_an_error(tmp_path: Path, server: Server) -> None:
    """A path that leads nowhere, and text that is no certificate: said so, in the stream."""
    for ca in (str(tmp_path / "missing.pem"), "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----"):
        stream = ask(server, client=Client(transport=HttpTransport(ca=ca)))
        assert "error" == (await stream.result()).stop_reason
        assert isinstance(stream.failure, il.InterlinguaError)


# --- what comes back instead of an answer -----------------------------------------------------------------------------


async def test_redirects_are_not_followed(server: Server) -> None:
    """A key must not travel to where a redirect points."""

    class Redirect:
        times = None
        replaces = True

        def apply(self, answer: Any) -> Any:
            return replace(answer, status=307, headers={"location": f"{server.url}/elsewhere"}, steps=())

    server.answer("never", fault=Redirect())
    stream = ask(server, retry=2)
    await stream.result()
    assert isinstance(stream.failure, il.ProviderError)
    assert 307 == stream.failure.status
    assert 1 == len(server.requests)


async def test_a_huge_error_body_is_bounded(server: Server) -> None:
    """Twenty megabytes of error: a message that people can read, a body of a megabyte at most."""
    server.answer("never", fault=Status(400, "x" * 20_000_000))
    stream = ask(server)
    message = await stream.result()
    assert isinstance(stream.failure, il.BadRequest)
    assert 5000 > len(message.error_message or "")
    assert 5000 > len(str(stream.failure))
    assert 1_100_000 > len(str(stream.failure.body))


async def test_bytes_that_are_no_http_are_an_error(server: Server) -> None:
    """Something else listens there."""
    server.answer("never", fault=Garbage(http=False))
    stream = ask(server)
    await stream.result()
    assert isinstance(stream.failure, il.TransportError)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9",
        "http://host.invalid",
        "http://user:url-password@127.0.0.1:9",
        "http://127.0.0.1:99999",
        "http://[::bad",
        "http://",
        "ftp://127.0.0.1:9",
    ],
)
async def test_where_nobody_answers_is_an_error_without_secrets(url: str) -> None:
    """Refused, no such host, no address at all: typed, in the stream, and neither key nor password is told."""
    stream = Client(transport=HttpTransport(connect=2)).stream(
        "anthropic/m", "Hi", api_key=KEY, base_url=url, retry=0, timeout=5
    )
    events = await events_of(stream)
    assert "error" == (await stream.result()).stop_reason
    assert isinstance(stream.failure, il.InterlinguaError)
    dumped = _everything(stream.failure) + repr(events)
    assert KEY not in dumped
    assert "url-password" not in dumped


class Refusal(Status):
    """A status whose header tells the wait."""

    def apply(self, answer: Any) -> Any:
        applied = super().apply(answer)
        return replace(applied, headers={**(applied.headers or {}), "retry-after": "3600"})


@pytest.mark.parametrize("value", [None, True, 17, 1.5, {}, [], ""], ids=repr)
async def test_an_error_that_names_a_key_without_telling_one_stays_what_it_is(server: Server, value: Any) -> None:
    """Its type, its wait and its body: there is nothing to hide."""
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down", "api_key": value}}
    server.answer("never", fault=Refusal(429, body))
    stream = ask(server)
    await stream.result()
    assert isinstance(stream.failure, il.RateLimited)
    assert (429, 3600, body) == (stream.failure.status, stream.failure.retry_after, stream.failure.body)


async def test_case_99_secrets_are_taken_out_of_a_body_value_by_value(server: Server) -> None:
    """What is one by its name, by its look or because it is the key; all the rest comes through."""

    def body(key: str, bearer: str, named: str, shaped: str) -> dict[str, Any]:
        given = [key, {"seen": f"it was {key}, twice {key}"}, 7, None]
        named_so = {"api_key": named, "password": [named], "client_secret": None, "count": 3}
        fields = {"authorization": bearer, "note": f"a {shaped} b", "quoted": 'a "word", and \\ more'}
        return {"type": "error", "error": {"type": "invalid_request_error", "message": "no", "given": given}} | {
            "context": named_so,
            "said": fields,
        }

    response = body(KEY, "Bearer abc.def-ghi", "a-plain-word", "sk-looks-like-a-key-0123456789")
    server.answer("never", fault=Status(400, response))
    stream = ask(server)
    await stream.result()
    assert isinstance(stream.failure, il.BadRequest)
    assert body(HIDDEN, HIDDEN, HIDDEN, HIDDEN) == stream.failure.body


# --- secrets ----------------------------------------------------------------------------------------------------------


def _everything(error: BaseException | None) -> str:
    """All that an error and what caused it could show."""
    reported = []
    while error is not None:
        reported += [str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)]
        error = error.__cause__ or error.__context__
    return "\n".join(reported)


@pytest.mark.parametrize("given", ["option", "environment", "header"])
@pytest.mark.parametrize("api", ["anthropic-messages", "google-generative-ai", "openai-completions"])
async def test_case_99_the_key_is_in_no_url_error_repr_or_log(
    server: Server, api: str, given: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that echoes the key in its error: nothing that we show, keep or log has it."""
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    provider = {"anthropic-messages": "anthropic", "google-generative-ai": "google", "openai-completions": "groq"}[api]
    how: dict[str, Any] = {"base_url": server.base_url(api), "timeout": 0.5}
    if given == "option":
        how["api_key"] = KEY
    elif given == "header":
        how |= {"headers": {"Authorization": f"Bearer {KEY}"}, "env": {f"{provider.upper()}_API_KEY": KEY}}
    else:
        how["env"] = {"ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY, "GROQ_API_KEY": KEY, "GOOGLE_API_KEY": KEY}
    echo = {"error": {"message": f"the key {KEY} is wrong", "type": "authentication_error", "given": [KEY]}}
    ways: list[Any] = [Status(401, echo, times=9), Status(503, f"plain {KEY}", times=9), ErrorEvent(f"odd: {KEY}")]
    for fault in (*ways, Stall(after_events=2)):
        server.clear()
        server.answer("fine", fault=fault)
        stream = Client(retry=QUICK).stream(f"{provider}/m", "Hi", **how)
        events = await events_of(stream)
        assert stream.failure is not None
        assert stream.message is not None
        shown = _everything(stream.failure) + repr(events) + repr(stream.message) + repr(vars(stream))
        assert KEY not in shown
        assert KEY not in str(il.dump(stream.message))
    assert all(KEY not in received.path for received in server.requests)
    assert KEY not in caplog.text
    assert KEY in str(server.last.headers)
    assert KEY not in repr(server.last)
