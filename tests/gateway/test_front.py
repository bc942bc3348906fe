"""Connections of clients: plain calls that the gateway reads itself, and what it leaves to aiohttp."""

import asyncio
import gzip
import json
import zlib
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from interlingua.gateway import Gateway, Listen, Settings
from interlingua.gateway.front import PlainRequest, read_head
from interlingua.gateway.settings import ClientLimits

BODY = json.dumps({"model": "debug/echo", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}).encode()
STREAM = BODY.replace(b'"max_tokens"', b'"stream": true, "max_tokens"')


def post(gateway: Gateway | None = None, body: bytes = BODY, path: str = "/v1/messages", more: str = "") -> bytes:
    host = gateway.url.removeprefix("http://") if gateway is not None else "127.0.0.1"
    return f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def connected(gateway: Gateway) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = gateway.url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One answer of a connection that stays open."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    body, fields = b"", head.lower()
    if b"transfer-encoding: chunked" in fields:
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    else:
        body = await reader.readexactly(int(fields.partition(b"content-length:")[2].partition(b"\r\n")[0]))
    return int(head.split()[1]), body


@pytest.fixture
async def gateway() -> Any:
    async with Gateway(Settings(listen=Listen(port=0), limits=ClientLimits(body=100_000, body_timeout=0.3))) as running:
        yield running


def handed_over(gateway: Gateway) -> int:
    assert gateway._front is not None
    return gateway._front.server.count


async def test_calls_on_one_connection_are_answered_in_turn(gateway: Gateway) -> None:
    """Plain and streamed, one after another and sent ahead; aiohttp sees none of them."""
    reader, writer = await connected(gateway)
    for body in (BODY, STREAM, BODY):
        writer.write(post(gateway, body))
        status, received = await answer(reader)
        assert 200 == status and b"Hi" in received
    writer.write(post(gateway, STREAM) + post(gateway, BODY) + post(gateway, b"{") + post(gateway, STREAM))
    found = [await answer(reader) for _ in range(4)]
    assert [200, 200, 400, 200] == [status for status, _ in found]
    assert b"message_stop" in found[0][1] and b"message_stop" in found[3][1]
    assert 0 == handed_over(gateway)
    writer.close()


@given(st.lists(st.integers(1, 400), max_size=6))
def test_a_head_is_plain_as_a_whole_or_not_at_all(cuts: list[int]) -> None:
    """What is cut within its head is left to aiohttp; a body may come in any pieces."""
    whole, limits = post(), ClientLimits()
    head = whole.index(b"\r\n\r\n") + 4
    for cut in cuts:
        assert (read_head(whole[:cut]) is not None) == (cut >= head)
    found = read_head(whole)
    assert found is not None and (len(BODY), head) == found.length(whole, limits)
    request = PlainRequest(found, len(BODY), None)
    for at in range(head, len(whole)):
        assert not request.is_whole
        assert b"" == request.feed(whole[at : at + 1])
    assert request.is_whole and b"next" == request.feed(b"next") and "call" == found.asked.kind


def test_a_head_is_known_again_with_another_length_alone() -> None:
    """The next call of a connection is read without parsing; anything else is parsed anew."""
    known = read_head(post(more="X-A: b\r\n"))
    assert known is not None
    longer = post(body=b"x" * 12_345, more="X-A: b\r\n")
    assert (12_345, len(longer) - 12_345) == known.length(longer, ClientLimits())
    assert known.length(longer, ClientLimits(body=12_344)) is None
    assert known.length(longer, ClientLimits(header=20)) is None
    for other in (
        post(),
        post(more="X-A: c\r\n"),
        post(more="X-A: b\r\nX-B: c\r\n"),
        post(more="X-A: b\r\nContent-Length: 5\r\n"),
        longer.replace(b"12345\r\n", b"12345\r\nContent-Length: 5\r\n"),
        longer.replace(b"12345\r\n", b"12345, 5\r\n"),
        longer.replace(b"12345\r\n", b"0x12345\r\n"),
        longer.replace(b"12345\r\n", b"\r\n"),
        longer.replace(b"12345\r\n", b"12345\r\nTransfer-Encoding: chunked\r\n"),
        longer[:60],
    ):
        assert known.length(other, ClientLimits()) is None


async def test_a_user_agent_may_come_twice(gateway: Gateway) -> None:
    """Some SDKs add theirs to the one of their HTTP client. No other header may be repeated."""
    reader, writer = await connected(gateway)
    writer.write(post(gateway, more="User-Agent: a/1\r\nuser-agent: b/2\r\n"))
    status, received = await answer(reader)
    assert 200 == status and b"Hi" in received
    writer.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(more="Transfer-Encoding: chunked\r\n"),
        post(more="Content-Length: 5\r\n"),
        post(more="content-length: 5\r\n"),
        post(more="Host: other\r\n"),
        post(more="Authorization: a\r\nauthorization: b\r\n"),
        post(more="Content-Encoding: gzip\r\n"),
        post(more="Expect: 100-continue\r\n"),
        post(more="Upgrade: websocket\r\nConnection: upgrade\r\n"),
        post(more="Connection: close\r\n"),
        post(more="Connection: keep-alive, x-api-key\r\n"),
        post(more="X-A: ä\r\n"),
        post(more="X-A : b\r\n"),
        post(more=" folded\r\n"),
        post(more="X-A: b\nX-B: c\r\n"),
        post(more="X-A: b\0\r\n"),
        post(more=f"X-A: {'b' * 40_000}\r\n"),
        post().replace(b"HTTP/1.1", b"HTTP/1.0"),
        post().replace(b"POST", b"PUT"),
        post().replace(b"POST", b"post"),
        post().replace(b"POST /v1", b"POST http://127.0.0.1/v1"),
        post().replace(b"/v1/messages", b"/v1/messages#x"),
        post().replace(b"Host: 127.0.0.1\r\n", b""),
        post().replace(b"Content-Length: ", b"Content-Length: +"),
        post().replace(b"Content-Length: ", b"Content-Length: 0, "),
        post().replace(b"Content-Length: ", b"Content-Length: 999999999"),
        post(path="/v1/models"),
        post(path="/v1/messages/count_tokens"),
        post(path="/v1/embeddings"),
    ],
    ids=range(28),
)
def test_what_is_not_plain_is_left_to_aiohttp(request_bytes: bytes) -> None:
    """Codings, upgrades, repeated headers, other methods and paths, and whatever may be read in two ways."""
    limits, head = ClientLimits(), read_head(request_bytes)
    assert head is None or head.length(request_bytes, limits) is None


MALFORMED = {
    "/v1/messages": ("Host: HOST\r\nHost: HOST\r\n", ("error", "type"), "invalid_request_error"),
    "/v1/chat/completions": ("Authorization : Bearer sk-1\r\n", ("error", "type"), "invalid_request_error"),
    "/v1/responses": ("Authorization: Bearer sk-1\0\r\n", ("error", "type"), "invalid_request_error"),
    "/v1beta/models/m:generateContent": ("Content-Length: 0\r\n", ("error", "status"), "INVALID_ARGUMENT"),
    "/model/m/converse": ("Transfer-Encoding: chunked\r\n", ("__type",), "ValidationException"),
    "/api/chat": ("folded\r\n", ("error",), "malformed HTTP request: Invalid header token; send HTTP/1.1, each"),
    "": ("", ("error", "type"), "invalid_request_error"),
}


@pytest.mark.parametrize("path", MALFORMED)
async def test_what_is_no_http_is_refused_in_the_form_of_the_path(gateway: Gateway, path: str) -> None:
    """Clients can read why, without a page and without what they sent, which may hold a key."""
    more, place, expected = MALFORMED[path]
    reader, writer = await connected(gateway)
    writer.write(post(gateway, path=path, more=more) if path else b"not sk-1 HTTP\r\n\r\n")
    status, body = await answer(reader)
    found = json.loads(body)
    assert 400 == status and b"malformed HTTP request: " in body and b"sk-1" not in body
    for name in place:
        found = found[name]
    assert found.startswith(expected)
    assert b"" == await asyncio.wait_for(reader.read(), 10)
    writer.close()


@pytest.mark.parametrize("coding", ["br", "x-gzip", "gzip, gzip", "snappy"])
async def test_a_body_in_an_unknown_coding_is_refused_with_those_that_are_known(gateway: Gateway, coding: str) -> None:
    """With the status for it (RFC 9110, 15.5.16), instead of being read as it came."""
    reader, writer = await connected(gateway)
    writer.write(post(gateway, more=f"Content-Encoding: {coding}\r\n"))
    status, body = await answer(reader)
    error = json.loads(body)["error"]
    assert (415, "invalid_request_error") == (status, error["type"])
    assert coding in error["message"] and "send gzip, deflate, zstd" in error["message"]
    writer.close()


PACKED = {
    "gzip": gzip.compress(BODY[:9]) + gzip.compress(BODY[9:]),
    "deflate": zlib.compress(BODY),
    "zstd": zstandard.compress(BODY[:9]) + zstandard.compress(BODY[9:]),  # frames may follow each other (RFC 8878, 3)
}


@pytest.mark.parametrize("coding", PACKED)
async def test_a_packed_body_is_read_whole_or_refused(gateway: Gateway, coding: str) -> None:
    """Codex packs its requests with zstd."""
    for packed, expected in (
        (PACKED[coding], (200, b"Hi")),
        (PACKED[coding][:-3], (400, b"cut off")),
        (BODY, (400, b"it is not " + coding.encode())),
        (b"", (400, b"invalid_request_error")),
    ):
        reader, writer = await connected(gateway)
        writer.write(post(gateway, packed, more=f"Content-Encoding: {coding}\r\n"))
        status, body = await answer(reader)
        assert expected[0] == status and expected[1] in body, body
        writer.close()


async def test_a_head_that_is_too_large_is_refused_in_the_form_of_the_path(gateway: Gateway) -> None:
    """With the status for it (RFC 6585, 5)."""
    reader, writer = await connected(gateway)
    writer.write(post(gateway, more=f"X-A: {'b' * 40_000}\r\n"))
    status, body = await answer(reader)
    assert 431 == status and "invalid_request_error" == json.loads(body)["error"]["type"]
    writer.close()


async def test_a_connection_goes_over_to_aiohttp_between_calls(gateway: Gateway) -> None:
    """A plain call, then a list of models, then a call again."""
    reader, writer = await connected(gateway)
    writer.write(post(gateway))
    assert 200 == (await answer(reader))[0]
    host = gateway.url.removeprefix("http://")
    writer.write(f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    status, listed = await answer(reader)
    assert 200 == status and b"debug/echo" in listed
    assert 1 == handed_over(gateway)
    writer.write(post(gateway, STREAM))
    assert 200 == (await answer(reader))[0]
    writer.close()


async def test_a_call_in_pieces_is_answered_when_it_is_whole(gateway: Gateway) -> None:
    """The head first, as some clients send it; a body that stops is given up with 408, and the connection with it."""
    reader, writer = await connected(gateway)
    sent = post(gateway)
    head = sent.index(b"\r\n\r\n") + 4
    for piece in (sent[:head], sent[head : head + 7], sent[head + 7 :]):
        writer.write(piece)
        await asyncio.sleep(0.01)
    assert 200 == (await answer(reader))[0]
    writer.write(sent[:-1])
    assert 408 == (await answer(reader))[0]
    writer.write(sent[-1:] + sent)  # the rest that nobody wants, and the next call
    assert 200 == (await answer(reader))[0]
    writer.close()


@pytest.mark.parametrize("sent", [100, 200_000])
async def test_a_large_body_is_refused_by_its_length(gateway: Gateway, sent: int) -> None:
    """In the wire's own form, as with aiohttp, and before it has come."""
    reader, writer = await connected(gateway)
    writer.write(post(gateway, BODY.replace(b"Hi", b"x" * 200_000))[:sent])
    status, body = await answer(reader)
    assert 413 == status and "request_too_large" in json.loads(body)["error"]["type"]
    writer.close()


async def test_connections_above_the_limit_are_refused(gateway: Gateway) -> None:
    """Whoever is there keeps its connection."""
    await gateway.reload(Settings(listen=Listen(port=0), limits=ClientLimits(connections=1)))
    reader, writer = await connected(gateway)
    writer.write(post(gateway))
    assert 200 == (await answer(reader))[0]
    second, surplus = await connected(gateway)
    surplus.write(post(gateway))
    assert 503 == (await answer(second))[0]
    assert b"" == await asyncio.wait_for(second.read(), 10)
    writer.write(post(gateway))
    assert 200 == (await answer(reader))[0]
    for one in (writer, surplus):
        one.close()


async def test_a_slow_reader_gets_all_of_a_stream() -> None:
    """Writing waits for it; nothing is lost."""
    text = "word " * 400_000
    async with Gateway(Settings(listen=Listen(port=0))) as gateway:
        reader, writer = await connected(gateway)
        writer.write(post(gateway, STREAM.replace(b"Hi", text.encode())))
        await asyncio.sleep(0.2)
        status, body = await answer(reader)
        assert 200 == status and body.count(b"word") >= 400_000 and b"message_stop" in body
        writer.close()


async def test_a_client_that_waits_with_its_body_is_told_to_send_it(gateway: Gateway) -> None:
    """`Expect: 100-continue` is answered before the body, once the request has a key."""
    reader, writer = await connected(gateway)
    head, _, body = post(gateway, more="Expect: 100-continue\r\n").partition(b"\r\n\r\n")
    writer.write(head + b"\r\n\r\n")
    assert b"HTTP/1.1 100 Continue\r\n\r\n" == await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    writer.write(body)
    status, received = await answer(reader)
    assert 200 == status and b"Hi" in received
    writer.close()


@pytest.mark.parametrize(("path", "status"), [("/v1/models", 200), ("/v1/responses/abc", 404)])
async def test_a_head_is_a_get_without_its_body(gateway: Gateway, path: str, status: int) -> None:
    """Whoever only asks whether something is there gets the same status and length."""
    reader, writer = await connected(gateway)
    host = gateway.url.removeprefix("http://")
    writer.write("".join(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n" for method in ("HEAD", "GET")).encode())
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    got, body = await answer(reader)
    assert (status, status) == (int(head.split()[1]), got)
    assert f"content-length: {len(body)}\r\n" in head.decode().lower()
    writer.close()


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (("Version: 13", "Version: 12"), 400, b"version 13"),
        (("Key: dGhl", "Key: d"), 400, b"handshake"),
        (("/v1/responses", "/v1/responses/abc"), 404, b"'abc' not found"),
    ],
)
async def test_what_is_no_websocket_is_the_clients_fault(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, change: tuple[str, str], status: int, says: bytes
) -> None:
    """The wire's own error, and nothing in the log."""
    reader, writer = await connected(gateway)
    asked = f"""GET /v1/responses HTTP/1.1
Host: {gateway.url.removeprefix("http://")}
Connection: Upgrade
Upgrade: websocket
Sec-WebSocket-Version: 13
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==

"""
    writer.write(asked.replace(*change).replace("\n", "\r\n").encode())
    got, body = await answer(reader)
    assert status == got and says in body
    assert "" == caplog.text
    writer.close()


async def test_a_body_that_is_not_packed_as_it_says_is_the_clients_fault(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    """One error, and no traceback in the log."""
    reader, writer = await connected(gateway)
    writer.write(post(gateway, more="Content-Encoding: gzip\r\n"))
    status, body = await answer(reader)
    assert 400 == status and b"it is not gzip" in body
    writer.write(post(gateway))
    assert 200 == (await answer(reader))[0]
    assert "" == caplog.text
    writer.close()
