"""HTTP/1.1 over connections of our own: what is read however it is cut, what is refused, which connection is kept."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from interlingua.connect.http1 import ChunkedBody, Malformed, SizedBody, body_of, parse_head
from interlingua.connect.transport import HttpTransport, whole
from interlingua.testing import ProxyServer, Server

# --- reading ---------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.lists(st.integers(0, 400), max_size=12), st.binary()
)
def test_a_body_in_chunks_is_read_however_it_is_cut(parts: list[bytes], cuts: list[int], after: bytes) -> None:
    """The content, the end, and what comes after it do not depend on where the bytes were cut."""
    sent = b"".join(b"%x;note=1\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\nX: y\r\n\r\n" + after
    borders = sorted({0, *(cut for cut in cuts if cut < len(sent) - len(after)), len(sent)})
    body, content = ChunkedBody(), b""
    for start, end in pairwise(borders):
        assert not body.ended
        content += body.feed(sent[start:end])
    assert (b"".join(parts), True, after) == (content, body.ended, body.surplus)


@pytest.mark.parametrize(
    "sent", [b"-1\r\n", b"+5\r\nhello\r\n", b"0x5\r\n", b"5 \r\n", b"\r\n", b"5\nhello", b"3\r\nhello\r\n", b"5" * 5000]
)
def test_a_chunk_of_doubtful_length_is_refused(sent: bytes) -> None:
    """What another program might read in another way ends the connection."""
    with pytest.raises(Malformed):
        ChunkedBody().feed(sent)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/2 200 OK",
        b"HTTP/1.1 20 OK",
        b"SSH-2.0-OpenSSH",
        b"HTTP/1.1 200 OK\r\nX : y",
        b"HTTP/1.1 200 OK\r\n folded: y",
        b"HTTP/1.1 200 OK\r\nX: a\nY: b",
        b"HTTP/1.1 200 OK\r\nX: a\0b",
        b"HTTP/1.1 200 OK\r\nno header",
    ],
    ids=range(8),
)
def test_a_head_that_is_none_is_refused(head: bytes) -> None:
    """Another protocol, folded lines, and line breaks within a value."""
    with pytest.raises(Malformed):
        parse_head(head)


@pytest.mark.parametrize(
    "headers",
    ["Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5, 5", "Content-Length: +5", "Transfer-Encoding: gzip"],
)
def test_a_body_of_doubtful_length_is_refused(headers: str) -> None:
    """Two lengths, lists, signs and unknown codings."""
    status, fields, _ = parse_head(f"HTTP/1.1 200 OK\r\n{headers}".encode())
    with pytest.raises(Malformed):
        body_of("POST", status, fields)


def test_some_answers_have_no_body() -> None:
    """Whatever length they name: to HEAD, and with 204 and 304."""
    for method, status in (("HEAD", 200), ("POST", 204), ("GET", 304)):
        _, fields, _ = parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 5")
        body = body_of(method, status, fields)
        assert isinstance(body, SizedBody) and body.ended


# --- connections -----------------------------------------------------------------------------------------------------


class Raw:
    """A server that answers each request with given bytes, and counts its connections."""

    def __init__(self, *answers: bytes, closes: bool = False) -> None:
        self._answers = list(answers)
        self._closes = closes
        self.connections = 0
        self.requests: list[bytes] = []
        self.url = ""
        self.tasks: list[asyncio.Task[None]] = []

    def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while self._answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                self.requests.append(head + await reader.readexactly(length))
                writer.write(self._answers.pop(0))
                await writer.drain()
                if self._closes:
                    break
            else:
                await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(raw: Raw) -> AsyncIterator[tuple[Raw, HttpTransport]]:
    server = await asyncio.start_server(raw, "127.0.0.1", 0)
    raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = HttpTransport()
    try:
        yield raw, transport
    finally:
        await transport.aclose()
        server.close()
        await asyncio.gather(*raw.tasks)


async def asked(raw: Raw, transport: HttpTransport, body: bytes | None = b"{}", **headers: str) -> tuple[int, bytes]:
    reply = await transport.send("POST", f"{raw.url}/x?y=1", headers, body)
    return reply.status, await whole(reply, 1 << 30)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_calls_one_after_another_share_a_connection() -> None:
    """A length, chunks, and an answer after an interim one leave the connection for the next call."""
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK
    async with serving(Raw(OK, chunked, interim, OK)) as (raw, transport):
        for _ in range(4):
            assert (200, b"ok") == await asked(raw, transport)
        assert 1 == raw.connections
        assert raw.requests[0].startswith(b"POST /x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:")


async def test_little_is_read_at_first_and_more_once_that_was_filled() -> None:
    """The first event of a burst does not wait until all of the burst is read; nor is a long answer read in morsels."""
    size = 4 << 20
    long = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    async with serving(Raw(long, long)) as (raw, transport):
        for _ in range(2):
            reply = await transport.send("POST", raw.url, {}, b"{}")
            sizes = []
            while chunk := await reply.chunk():
                sizes.append(len(chunk))
            assert sizes[0] <= 4096
            assert (size, True) == (sum(sizes), max(sizes) > 4096)
        assert 1 == raw.connections


@pytest.mark.parametrize(
    "answer",
    [
        OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        OK.replace(b"HTTP/1.1", b"HTTP/1.0"),
        OK + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ],
    ids=["close", "old", "more than the answer", "two lengths"],
)
async def test_a_connection_that_is_not_to_be_trusted_is_not_used_again(answer: bytes) -> None:
    """The answer counts; the next call has a connection of its own."""
    async with serving(Raw(answer, OK)) as (raw, transport):
        assert (200, b"ok") == await asked(raw, transport)
        await asyncio.sleep(0)
        assert (200, b"ok") == await asked(raw, transport)
        assert 2 == raw.connections


async def test_bytes_that_nobody_asked_for_are_no_answer() -> None:
    """They come while a connection is unused: the next call does not take them for its answer."""
    async with serving(Raw(OK, OK)) as (raw, transport):
        await asked(raw, transport)
        pool = next(iter(transport._sessions.values())).clients.pool
        assert pool is not None
        (connection,) = pool._open
        connection.data_received(OK.replace(b"ok", b"no"))
        assert (200, b"ok") == await asked(raw, transport)
        assert 2 == raw.connections


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    """As HTTP/1.0 servers have it."""
    async with serving(Raw(b"HTTP/1.1 200 OK\r\n\r\nall of it", closes=True)) as (raw, transport):
        assert (200, b"all of it") == await asked(raw, transport)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 O",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
    ],
    ids=["nothing", "half a head", "garbage", "another protocol", "a bad header"],
)
async def test_no_answer_is_a_typed_error(answer: bytes) -> None:
    """A connection that is closed, or speaks something else, names the address and not the path."""
    async with serving(Raw(answer, closes=True)) as (raw, transport):
        with pytest.raises(il.TransportError, match=r"^no answer from http://127\.0\.0\.1:\d+: "):
            await asked(raw, transport)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
    ],
    ids=["length", "chunks", "bad chunk"],
)
async def test_half_an_answer_is_never_a_whole_one(answer: bytes) -> None:
    """What came of it can be read; then the error says that the connection broke."""
    async with serving(Raw(answer, closes=True)) as (raw, transport):
        reply = await transport.send("POST", raw.url, {}, b"")
        received = b""
        with pytest.raises(il.TransportError, match="the connection broke"):
            while part := await reply.chunk():
                received += part
        assert b"half" == received


async def test_a_closed_reply_ends_a_pending_read_and_its_connection() -> None:
    """At once; the next call has another connection."""
    async with serving(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", OK)) as (raw, transport):
        reply = await transport.send("POST", raw.url, {}, b"")
        reading = asyncio.ensure_future(reply.chunk())
        await asyncio.sleep(0)
        reply.close()
        with pytest.raises(il.TransportError):
            await asyncio.wait_for(reading, 60)
        assert (200, b"ok") == await asked(raw, transport)


async def test_a_large_answer_waits_for_its_reader() -> None:
    """What is not read stays with the server, and everything comes."""
    size = 30 << 20
    async with serving(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))) as (raw, transport):
        reply: Any = await transport.send("POST", raw.url, {}, b"")
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert sum(map(len, reply._parts)) < 4 << 20
        assert size == len(await whole(reply, 1 << 30))


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b"])
async def test_no_value_makes_another_header(value: str) -> None:
    """A line break in a header is refused before anything is sent."""
    async with serving(Raw(OK)) as (raw, transport):
        with pytest.raises(il.FormatError, match="HTTP forbids"):
            await asked(raw, transport, **{"X-Given": value})
        assert [] == raw.requests


async def test_an_address_where_nobody_listens_is_a_typed_error() -> None:
    """Refused at once, with the address."""
    transport = HttpTransport()
    with pytest.raises(il.TransportError, match=r"no answer from http://127\.0\.0\.1:9: "):
        await transport.send("POST", "http://127.0.0.1:9/v1", {}, b"{}")
    await transport.aclose()


async def test_a_compressed_answer_is_unpacked() -> None:
    """Though nobody asked for compression."""
    import gzip

    packed = gzip.compress(b"plain")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with serving(Raw(head + packed)) as (raw, transport):
        assert (200, b"plain") == await asked(raw, transport)


async def test_a_real_server_answers_over_both_kinds_of_connections() -> None:
    """The same status, headers and body as with aiohttp, which is used behind a proxy."""
    with Server() as server, ProxyServer() as proxies:
        server.route("GET", "/anything", {"a": 1})
        found = []
        for proxy in (None, proxies.url):
            transport = HttpTransport(proxy=proxy)
            reply = await transport.send("GET", f"{server.url}/anything", {"X-A": "b"}, None)
            kind = reply.headers.get("content-TYPE")
            found.append((reply.status, kind, await whole(reply)))
            await transport.aclose()
        assert found[0] == found[1] and 200 == found[0][0]


async def test_tls_is_checked_against_the_authorities() -> None:
    """With the server's own the call is answered; without it nothing is sent."""
    with Server(tls=True) as server:
        server.route("GET", "/anything", {"a": 1})
        trusting, wary = HttpTransport(ca=server.ca_pem.decode()), HttpTransport()
        for _ in range(2):
            assert 200 == (await trusting.send("GET", f"{server.url}/anything", {}, None)).status
        with pytest.raises(il.TransportError, match="certificate"):
            await wary.send("GET", f"{server.url}/anything", {}, None)
        await trusting.aclose()
        await wary.aclose()
        assert 2 == len(server.requests)


async def test_a_proxy_is_not_gone_around() -> None:
    """Calls that need one go through it."""
    with Server() as server, ProxyServer() as proxy:
        server.route("GET", "/anything", {"a": 1})
        transport = HttpTransport(proxy=proxy.url)
        assert 200 == (await transport.send("GET", f"{server.url}/anything", {}, None)).status
        await transport.aclose()
        assert 1 == len(proxy.passed)


async def test_an_answer_before_the_body_is_sent_is_read() -> None:
    """A server that refuses a large body without reading it: its answer counts, and the connection is given up."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge")
        await writer.drain()
        await released.wait()
        writer.close()

    released = asyncio.Event()
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    transport = HttpTransport()
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with asyncio.timeout(60):
        reply = await transport.send("POST", url, {}, b"x" * 64_000_000)
        assert (413, b"large") == (reply.status, await whole(reply))
    released.set()
    await transport.aclose()
    server.close()


async def test_a_large_body_arrives_whole_and_the_connection_is_kept() -> None:
    """Piece by piece, as the server takes it; the next call goes over the same connection."""
    with Server() as server:
        server.route("POST", "/anything", {"a": 1})
        transport = HttpTransport()
        sizes = []
        for size in (3_000_001, 10, 262_145):
            body = bytes(range(256)) * (size // 256 + 1)
            reply = await transport.send("POST", f"{server.url}/anything", {}, body)
            assert b'{"a":1}' == (await whole(reply)).replace(b" ", b"")
            sizes.append(server.requests[-1].body == body)
        await transport.aclose()
    assert [True, True, True] == sizes


async def test_a_call_given_up_while_it_connects_leaves_no_connection() -> None:
    """At whatever point: the connection that was being made is closed when it is there."""
    ended = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    transport = HttpTransport()
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    for turns in range(12):
        call = asyncio.ensure_future(transport.send("GET", url, {}, None))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
    async with asyncio.timeout(60):
        while server.sockets and len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
    await transport.aclose()
    server.close()
    assert set(ended) <= {b"", b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % url[7:-1].encode()}


async def test_a_connection_that_was_closed_while_the_loop_was_blocked_is_not_used() -> None:
    """The event loop has not seen yet that the server closed it: the call goes over a new one."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    listener = socket.create_server(("127.0.0.1", 0))
    closed = threading.Event()

    def serve() -> None:
        for _ in range(3):
            connection, _ = listener.accept()
            with connection:
                while b"\r\n\r\n" not in connection.recv(65536):
                    pass
                connection.sendall(answer)
            closed.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    transport = HttpTransport()
    for _ in range(3):
        closed.clear()
        reply = await transport.send("GET", f"http://127.0.0.1:{listener.getsockname()[1]}/", {}, None)
        assert b"ok" == await whole(reply)
        assert closed.wait(60)  # blocks the event loop
    thread.join(60)
    await transport.aclose()
    listener.close()


@given(
    contents=st.lists(
        st.one_of(st.binary(min_size=1, max_size=40), st.sampled_from([b"\r\n", b"1\r\n2", b"0\r\n\r\n"]))
    ),
    sizes=st.lists(st.integers(1, 60)),
    form=st.sampled_from([b"%x\r\n%b\r\n", b"%X\r\n%b\r\n", b"0%x;a=b\r\n%b\r\n"]),
    rest=st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n1\r\n2\r\n3\r\n4\r\n"]),
)
def test_chunks_are_read_however_they_arrive(contents: list[bytes], sizes: list[int], form: bytes, rest: bytes) -> None:
    """
    One by one, in halves or hundreds together, whatever is in them; what follows the last is not part of the body.
    """
    data = b"".join(form % (len(content), content) for content in contents) + b"0\r\n\r\n" + rest
    body, found, at = ChunkedBody(), b"", 0
    for size in (*sizes, len(data)):
        found += body.feed(data[at : at + size]) if data[at : at + size] and not body.ended else b""
        at += size
    assert found == b"".join(contents) and body.ended
    assert rest.startswith(body.surplus)
