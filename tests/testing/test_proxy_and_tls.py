"""HTTPS with an authority of one's own, and a proxy that sees who passes."""

import asyncio
import ssl

import aiohttp
import pytest

import interlingua as il
from interlingua.testing import Cut, ProxyServer, Server, Stall
from testing.client import ask

API = "anthropic-messages"


def trusting(server: Server) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=server.ca_pem.decode())


async def test_tls_needs_the_servers_own_authority() -> None:
    """With it the answer comes; without it, no request does."""
    with Server(tls=True) as server:
        assert server.url.startswith("https://127.0.0.1:")
        distrusted = await ask(server, API)
        trusted = await ask(server, API, "Hi", ssl=trusting(server))
    assert "ClientConnectorCertificateError" == distrusted.failure
    assert ("Hi", 1) == (trusted.message.text, len(server.requests))


@pytest.mark.parametrize("reset", [False, True])
async def test_faults_strike_over_tls(reset: bool) -> None:
    """A cut is a cut."""
    with Server(tls=True) as server:
        server.answer("word " * 50, fault=Cut(after_events=4, reset=reset))
        response = await ask(server, API, ssl=trusting(server))
    assert (True, "error") == (bool(response.failure), response.message.stop_reason)


async def test_a_plain_request_passes_the_proxy_and_is_seen() -> None:
    """With the whole address, for each request anew; the upstream does not see what was for the proxy."""
    with Server() as server, ProxyServer() as proxy:
        response = [await ask(server, API, "Hi", proxy=proxy.url) for _ in range(2)]
        seen = proxy.passed
        headers = server.last.headers
    assert ["Hi", "Hi"] == [one.message.text for one in response]
    assert [("POST", server.base_url(API) + "/v1/messages", 200)] * 2 == [(p.method, p.target, p.status) for p in seen]
    assert all(passed.bytes_down > 100 for passed in seen)
    assert [] == [name for name in headers if name.lower().startswith("proxy")]


async def test_tls_passes_the_proxy_in_a_tunnel() -> None:
    """The proxy sees the host and how much passed, and nothing else."""
    with Server(tls=True) as server, ProxyServer() as proxy:
        response = await ask(server, API, "Hi", proxy=proxy.url, ssl=trusting(server))
        (passed,) = proxy.passed
    assert "Hi" == response.message.text
    assert ("CONNECT", server.url.removeprefix("https://"), 200) == (passed.method, passed.target, passed.status)
    assert passed.bytes_up > 100
    assert passed.bytes_down > 100


async def test_a_proxy_may_want_a_password() -> None:
    """407 without it, and nothing reaches the server."""
    headers = {"proxy-authorization": aiohttp.encode_basic_auth("user", "pass")}
    with Server() as server, ProxyServer(auth=("user", "pass")) as proxy:
        refused = await ask(server, API, proxy=proxy.url)
        admitted = await ask(server, API, "Hi", proxy=proxy.url, headers=headers)
        assert ([407, 200], 1) == ([passed.status for passed in proxy.passed], len(server.requests))
        proxy.clear()
        assert [] == proxy.passed
    assert (407, "Hi") == (refused.status, admitted.message.text)


async def test_an_upstream_that_is_not_there_is_a_bad_gateway() -> None:
    """502 from the proxy itself."""
    server = Server()
    with server:
        pass
    async with ProxyServer() as proxy:
        response = await ask(server, API, proxy=proxy.url)
    assert (502, [502]) == (response.status, [passed.status for passed in proxy.passed])


async def test_leaving_is_seen_through_the_proxy() -> None:
    """The proxy closes the far side when the near side goes."""
    with Server() as server, ProxyServer() as proxy:
        server.answer("slow", fault=Stall(after_events=1))
        response = await ask(server, API, proxy=proxy.url, timeout=aiohttp.ClientTimeout(sock_read=0.1))
        await server.disconnected(timeout=60)
    assert "SocketTimeoutError" == response.failure


async def test_what_is_no_http_is_dropped() -> None:
    """The proxy stays up."""
    with Server() as server, ProxyServer() as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        writer.write(b"hello\r\n\r\n")
        assert b"" == await reader.read()
        writer.close()
        await writer.wait_closed()
        response = await ask(server, API, "Hi", proxy=proxy.url)
    assert "Hi" == response.message.text


def test_a_proxy_that_has_not_started_says_so() -> None:
    """And what to do."""
    with pytest.raises(il.InterlinguaError, match="with ProxyServer"):
        _ = ProxyServer().url
