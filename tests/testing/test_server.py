"""The queue of replies, the record of requests, and the life of a server."""

import asyncio
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import Any

import aiohttp
import pytest

import interlingua as il
from interlingua.testing import Pace, Server, Stall
from testing.client import MODEL, ask, request

API = "anthropic-messages"


async def texts(server: Server, count: int) -> list[str]:
    return [(await ask(server, API, "Hi")).message.text for _ in range(count)]


async def test_replies_come_in_order_and_the_last_one_stays() -> None:
    """Each answers one request; the last, all that follow."""
    with Server() as server:
        server.answer("one")
        server.answer("two")
        assert ["one", "two", "two"] == await texts(server, 3)
        server.answer("three")
        assert ["three", "three"] == await texts(server, 2)


async def test_a_reply_may_answer_several_requests() -> None:
    """`times` says how many; after the last of them the echo is back."""
    with Server() as server:
        server.answer("one", times=2)
        server.answer("two", times=1)
        assert ["one", "one", "two", "Hi", "Hi"] == await texts(server, 5)


async def test_a_reply_may_be_a_function_of_the_request() -> None:
    """Plain or async; it sees the decoded request."""

    async def later(asked: il.Request) -> Any:
        await asyncio.sleep(0)
        return [il.TextBlock(text=f"{len(asked.context.messages)} message for {asked.model.id}")]

    with Server() as server:
        server.answer(lambda asked: asked.context.messages[0].content.upper())  # type: ignore[union-attr]
        server.answer(later)
        assert ["HI", f"1 message for {MODEL}"] == await texts(server, 2)


async def test_a_function_may_raise_a_provider_error_or_fail() -> None:
    """The first is the answer; the second is a 500 that says what happened, and is on record."""

    def refuses(asked: il.Request) -> str:
        raise il.Overloaded("busy")

    def breaks(asked: il.Request) -> str:
        raise ZeroDivisionError("oops")

    with Server() as server:
        server.answer(refuses)
        server.answer(breaks)
        busy, broken = await ask(server, API), await ask(server, API)
    assert (503, 500) == (busy.status, broken.status)
    assert b"ZeroDivisionError: oops" in broken.body
    assert "ZeroDivisionError: oops" == server.last.error


async def test_a_reply_that_is_none_of_these_is_reported() -> None:
    """A wrong type is an error of the test, said by the server."""
    with Server() as server:
        server.answer(42)  # type: ignore[arg-type]
        response = await ask(server, API)
    assert (500, True) == (response.status, b"a reply must be text" in response.body)


async def test_say_and_call_are_short_for_answer() -> None:
    """Text after thinking; a call after text, with an id that counts up."""
    with Server() as server:
        server.say("It is 4.", thinking="2 + 2", chunk=3)
        server.call("add", {"a": 2}, text="Adding.")
        server.call("sub", id="mine")
        spoken, called, named = [(await ask(server, API)).message for _ in range(3)]
    assert ("2 + 2", "It is 4.") == (spoken.thinking, spoken.text)
    assert ("Adding.", "call_1", {"a": 2}) == (called.text, called.tool_calls[0].id, called.tool_calls[0].arguments)
    assert ("mine", {}) == (named.tool_calls[0].id, named.tool_calls[0].arguments)


async def test_the_record_holds_what_came() -> None:
    """Path, headers, bytes, JSON, the decoded request, and when; oldest first."""
    began = time.monotonic()
    with Server() as server:
        await ask(server, API, "first")
        await ask(server, API, "second")
        received = server.requests
        assert received[-1] is server.last
    first = received[0]
    assert [0, 1] == [one.index for one in received]
    assert ("POST", f"/{API}/v1/messages") == (first.method, first.path)
    assert "application/json" == first.headers["Content-Type"]
    assert MODEL == first.json["model"]
    assert first.body.startswith(b"{")
    assert began <= first.time <= received[1].time <= time.monotonic()


async def test_no_key_is_shown_in_print() -> None:
    """What a failed assertion prints has no headers and no body."""
    with Server() as server:
        await ask(server, API, "private words", headers={"x-api-key": "sk-secret"})
        shown = repr(server.last)
        assert "sk-secret" == server.last.headers["x-api-key"]
    assert ("sk-secret" in shown, "private" in shown) == (False, False)


async def test_only_the_last_requests_are_kept() -> None:
    """`keep` bounds the record; the index goes on counting."""
    with Server(keep=3) as server:
        await texts(server, 5)
    assert [2, 3, 4] == [one.index for one in server.requests]


async def test_clear_forgets_requests_and_replies() -> None:
    """As if it had just started, but for the index."""
    with Server() as server:
        server.answer("told")
        server.route("GET", "/here", {})
        await texts(server, 1)
        server.clear()
        assert [] == server.requests
        with pytest.raises(il.InterlinguaError, match="no request"):
            _ = server.last
        assert ["Hi"] == await texts(server, 1)


async def test_a_path_of_ones_own_is_a_route() -> None:
    """JSON, a status with it, or a function of what came."""
    with Server() as server:
        server.route("GET", "/generation", {"cost": 0.5})
        server.route("POST", "/token", lambda received: (401, {"got": received.body.decode()}))
        async with aiohttp.ClientSession() as session:
            async with session.get(server.url + "/generation?id=1") as response:
                assert {"cost": 0.5} == await response.json()
            async with session.post(server.url + "/token", data="code") as response:
                assert (401, {"got": "code"}) == (response.status, await response.json())


async def leave(server: Server, api: str = API) -> None:
    """Reads the first piece of an answer and goes."""
    wire = il.dialect(api)
    body = wire.encode_request(request(api, "Hi")).bytes()
    async with aiohttp.ClientSession() as session:
        response = await session.post(server.base_url(api) + wire.path(MODEL, True), data=body)
        await response.content.readany()
        response.close()


@pytest.mark.parametrize("fault", [Stall(after_events=1), Pace(0.02)], ids=["silent", "speaking"])
async def test_case_91_leaving_a_stream_is_seen(fault: Any) -> None:
    """Whether or not the server has something to write, with the request it belongs to."""
    with Server() as server:
        server.answer("word " * 1000, fault=fault)
        await leave(server)
        await server.disconnected(timeout=60)
        await leave(server)
        gone = await server.disconnected(timeout=60)
    assert 1 == gone.index
    assert [0, 1] == [one.index for one in server.disconnects]


async def test_a_finished_answer_is_no_disconnect() -> None:
    """A client that read all of it may go."""
    with Server() as server:
        await texts(server, 3)
        with pytest.raises(TimeoutError, match="no client disconnected"):
            server.wait_for_disconnect(0.05)
    assert [] == server.disconnects


async def test_connections_and_streams_are_counted() -> None:
    """While they are open, and not after."""
    with Server() as server:
        server.answer("slow", fault=Stall(after_events=1))
        tasks = [asyncio.create_task(ask(server, API)) for _ in range(5)]
        await asyncio.to_thread(server.wait_for_requests, 5)
        while server.open_streams < 5:
            await asyncio.sleep(0.01)
        assert (5, 5) == (server.open_connections, server.open_streams)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(5):
            await server.disconnected()
        while server.open_connections:
            await asyncio.sleep(0.01)
        assert 0 == server.open_streams


async def test_a_function_may_ask_the_server_itself() -> None:
    """From inside its thread, counting connections does not wait for itself."""
    with Server() as server:
        server.answer(lambda asked: f"{server.open_connections} open")
        assert ["1 open"] == await texts(server, 1)


def test_it_serves_callers_without_an_event_loop() -> None:
    """A blocking client in the same thread."""
    wire = il.dialect("openai-completions")
    with Server() as server:
        url = server.base_url("openai-completions") + wire.path(MODEL, False)
        body = wire.encode_request(request("openai-completions", "Hi", stream=False)).bytes()
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as response:
            message = wire.decode_response(response.read())
    assert "Hi" == message.text


async def test_async_with_does_not_hold_up_the_loop() -> None:
    """The same server, entered and left asynchronously."""
    async with Server() as server:
        assert ["Hi"] == await texts(server, 1)


async def test_a_stopped_server_refuses_and_can_start_again() -> None:
    """At the same address, with the record it had."""
    server = Server()
    with server:
        await texts(server, 1)
        url = server.url
    response = await ask(server, API)
    assert "ClientConnectorError" == response.failure
    with server:
        assert (url, ["Hi"], 2) == (server.url, await texts(server, 1), len(server.requests))


def test_stopping_ends_what_is_open() -> None:
    """A client in the middle of a silence is cut off, and it is no disconnect of the client's."""
    with Server() as server:
        server.answer("slow", fault=Stall(after_events=1))
        port = int(server.url.rpartition(":")[2])
        body = il.dialect(API).encode_request(request(API, "Hi")).bytes()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            head = f"POST /{API}/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert client.recv(10).startswith(b"HTTP/1.1")
            server.stop()
            while client.recv(65536):
                pass
    assert [] == server.disconnects


def test_an_address_before_the_start_and_a_wrong_name_are_clear_errors() -> None:
    """Both say what to do."""
    with pytest.raises(il.InterlinguaError, match="with Server"):
        _ = Server().url
    with (
        Server() as server,
        pytest.raises(il.InterlinguaError, match="unknown wire 'nobodys'; valid wires: anthropic-messages"),
    ):
        server.base_url("nobodys")
    with pytest.raises(il.InterlinguaError, match="tls=True"):
        _ = server.ca_pem


def test_the_short_name_of_a_wire_has_the_address_of_the_wire() -> None:
    """`anthropic` is `anthropic-messages` here, too."""
    with Server() as server:
        assert server.base_url("anthropic-messages") == server.base_url("anthropic")


def test_a_port_that_is_taken_and_a_second_start_are_errors() -> None:
    """And leave no thread behind."""
    with Server() as server:
        port = int(server.url.rpartition(":")[2])
        before = threading.active_count()
        with pytest.raises(OSError, match="address already in use"):
            Server(port=port).start()
        with pytest.raises(il.InterlinguaError, match="already running"):
            server.start()
        assert before == threading.active_count()


def test_a_large_body_is_taken() -> None:
    """Pictures of several megabytes are no reason for 413."""
    wire = il.dialect("openai-completions")
    image = il.ImageBlock(data="A" * 8_000_000, mime_type="image/png")
    asked = request("openai-completions", il.TextBlock(text="Big?"), image, stream=False)
    with Server() as server:
        url = server.base_url("openai-completions") + wire.path(MODEL, False)
        with urllib.request.urlopen(urllib.request.Request(url, wire.encode_request(asked).bytes()), timeout=30) as got:
            assert 200 == got.status
    assert len(server.last.body) > 8_000_000
