"""Each fault is seen by the client as it is meant, and passes when its times are over."""

import json
import re
import socket
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import aiohttp
import pytest

import interlingua as il
from interlingua.dialects import WIRES
from interlingua.dialects.framing import AWSEventStream
from interlingua.dialects.registry import cut_frames, wire
from interlingua.testing import (
    Answer,
    Corrupt,
    Cut,
    Empty,
    ErrorEvent,
    Garbage,
    Html,
    NoTerminal,
    Pace,
    Piece,
    RateLimit,
    Refuse,
    Repeat,
    Server,
    SlowHeaders,
    Split,
    Stall,
    Status,
)
from testing.client import ask, request

every_wire = pytest.mark.parametrize("api", sorted(WIRES))
TEXTS = "one two three four five six seven eight nine ten"


async def response_with(api: str, *faults: Any, stream: bool = True, reply: Any = TEXTS, **http: Any) -> Any:
    with Server(chunk=4) as server:
        server.answer(reply, fault=faults)
        return await ask(server, api, stream=stream, **http)


def frames_of(api: str, body: bytes) -> list[bytes]:
    return list(cut_frames(body, wire(api).http.content_type))


@every_wire
async def test_a_cut_ends_the_connection_after_so_many_events(api: str) -> None:
    """Six whole frames, then no end of the HTTP body; the decoder ends in one error that keeps what came."""
    response = await response_with(api, Cut(after_events=6))
    assert ("ClientPayloadError", 6) == (response.failure, len(frames_of(api, response.body)))
    assert "error" == response.message.stop_reason
    assert TEXTS.startswith(response.message.text)


@every_wire
async def test_a_cut_ends_the_connection_after_so_many_bytes(api: str) -> None:
    """In the middle of a frame."""
    response = await response_with(api, Cut(after_bytes=25))
    assert ("ClientPayloadError", 25, "error") == (response.failure, len(response.body), response.message.stop_reason)


@every_wire
async def test_a_neat_cut_looks_like_the_end(api: str) -> None:
    """The HTTP body is whole; only the wire's own end is missing."""
    response = await response_with(api, Cut(after_events=6, neat=True))
    assert ("", "error") == (response.failure, response.message.stop_reason)


async def test_a_cut_may_be_a_reset() -> None:
    """The client's socket fails instead of ending."""
    whole = await response_with("ollama-chat", Cut(after_events=2, reset=True))
    assert whole.failure in ("ClientOSError", "ClientPayloadError", "ClientConnectionResetError")
    assert len(whole.body) < 1000


async def test_an_unstreamed_answer_is_cut_too() -> None:
    """A part of the JSON, then nothing."""
    response = await response_with("openai-completions", Cut(after_bytes=20), stream=False)
    assert ("ClientPayloadError", 20) == (response.failure, len(response.body))


@every_wire
async def test_a_stall_is_silent_and_goes_on(api: str) -> None:
    """The answer is whole in the end, and took as long as it was told to."""
    began = time.monotonic()
    response = await response_with(api, Stall(after_events=2, seconds=0.2))
    assert time.monotonic() - began >= 0.2
    assert (TEXTS, "stop") == (response.message.text, response.message.stop_reason)


async def test_a_stall_comes_even_after_the_last_event() -> None:
    """An answer that comes whole is one event: all of it is there, and does not end until the client leaves."""
    api, body = "openai-completions", b""
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    with Server() as server:
        server.answer(TEXTS, fault=Stall(after_events=1))
        url = server.base_url(api) + il.dialect(api).path("m", False)
        async with aiohttp.ClientSession() as session, session.post(url, json=asked) as response:
            while not body.endswith(b"}") or not _is_json(body):
                body += await response.content.readany()
            assert not response.content.at_eof()
            response.close()
        await server.disconnected()
    assert TEXTS == il.dialect(api).decode_response(body).text


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


@every_wire
async def test_pings_break_the_silence_and_mean_nothing(api: str) -> None:
    """In the wire's own form; the decoder hears only the answer."""
    response = await response_with(api, Stall(after_events=2, seconds=0.1, pings=True, every=0.02))
    ping = wire(api).http.ping
    assert (TEXTS, "stop") == (response.message.text, response.message.stop_reason)
    if api == "bedrock-converse-stream":
        assert b"" == ping
    else:
        assert response.body.count(ping) >= 3


async def test_a_stall_for_ever_ends_when_the_client_leaves() -> None:
    """The server notices at once, without having anything to write."""
    with Server() as server:
        server.answer(TEXTS, fault=Stall(after_events=2))
        timeout = aiohttp.ClientTimeout(sock_read=0.1)
        response = await ask(server, "anthropic-messages", timeout=timeout)
        gone = await server.disconnected()
    assert ("SocketTimeoutError", "error") == (response.failure, response.message.stop_reason)
    assert (0, 1) == (gone.index, len(server.disconnects))


@every_wire
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_a_split_changes_the_pieces_and_not_the_answer(api: str, size: int) -> None:
    """However the bytes are cut, the same events come out."""
    response = await response_with(api, Split(size))
    assert (TEXTS, "stop") == (response.message.text, response.message.stop_reason)


@pytest.mark.parametrize(("size", "shown"), [(1, {1}), (7, {7}), (100_000, set())])
def test_a_split_is_seen_on_the_wire(size: int, shown: set[int]) -> None:
    """Each piece is a chunk of HTTP of its own, of that size but for the last."""
    body = il.dialect("ollama-chat").encode_request(request("ollama-chat", TEXTS)).bytes()
    with Server() as server:
        server.answer(TEXTS, fault=Split(size))
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=10) as client:
            head = f"POST /api/chat HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            raw = b"".join(iter(lambda: client.recv(65536), b""))
    sizes = [int(line, 16) for line in re.findall(rb"\r\n([0-9a-f]+)\r\n", raw)]
    assert (0, shown) == (sizes[-1], set(sizes[:-2]))


@every_wire
async def test_a_repeat_says_every_frame_twice(api: str) -> None:
    """Frame by frame, the same bytes again."""
    frames = frames_of(api, (await response_with(api, Repeat())).body)
    assert frames[::2] == frames[1::2]
    assert len(frames) > 4


@every_wire
async def test_a_repeat_may_be_of_one_frame(api: str) -> None:
    """One more frame than without."""
    frames = frames_of(api, (await response_with(api, Repeat(at_event=3))).body)
    assert frames[3] == frames[4]
    assert len(frames) == 1 + len(frames_of(api, (await response_with(api)).body))


@every_wire
async def test_a_rate_limit_passes(api: str) -> None:
    """429 once, then the answer, which was not used up."""
    with Server() as server:
        server.answer("first", fault=RateLimit(retry_after="2"))
        server.answer("second")
        response = [await ask(server, api) for _ in range(4)]
    assert [429, 200, 200, 200] == [one.status for one in response]
    assert ["first", "second", "second"] == [one.message.text for one in response[1:]]
    found = il.dialect(api).decode_error(429, response[0].body, response[0].headers)
    assert (il.RateLimited, 2.0) == (type(found), found.retry_after)


async def test_a_rate_limit_tells_its_wait_in_three_ways() -> None:
    """Seconds, a date, milliseconds."""
    soon = datetime.now(UTC) + timedelta(seconds=90)
    steps: list[Any] = []
    for fault in (RateLimit(retry_after=2.5), RateLimit(retry_after=soon), RateLimit(ms=150), RateLimit()):
        response = await response_with("openai-completions", fault)
        steps.append(il.dialect("openai-completions").decode_error(429, response.body, response.headers).retry_after)
    assert (2.5, True, 0.15, None) == (steps[0], 60 < steps[1] <= 91, steps[2], steps[3])


@every_wire
async def test_a_status_has_the_dialects_body_unless_given(api: str) -> None:
    """The dialect reads its own; text and JSON go as they are."""
    own = await response_with(api, Status(503))
    assert isinstance(il.dialect(api).decode_error(503, own.body, own.headers), il.Overloaded)
    text = await response_with(api, Status(502, "<h1>Bad gateway</h1>"))
    assert (502, b"<h1>Bad gateway</h1>") == (text.status, text.body)
    value = await response_with(api, Status(418, {"tea": True}))
    assert (418, b'{"tea":true}') == (value.status, value.body)


async def test_a_status_may_come_more_than_once() -> None:
    """As often as its times say."""
    with Server() as server:
        server.answer("at last", fault=Status(500, times=3))
        statuses = [(await ask(server, "ollama-chat")).status for _ in range(5)]
    assert [500, 500, 500, 200, 200] == statuses


@every_wire
@pytest.mark.parametrize("how", ["json", "utf8", "frame"])
async def test_a_corrupt_frame_ends_in_one_error_or_a_repaired_text(api: str, how: Any) -> None:
    """Broken JSON and broken frames end the stream; a wrong byte inside a string is repaired by the reader."""
    clean = await response_with(api)
    response = await response_with(api, Corrupt(at_event=4, how=how))
    assert clean.body != response.body
    if how == "utf8" and api != "bedrock-invoke-anthropic":
        assert b"\xff" in response.body
        assert "stop" == response.message.stop_reason
    else:
        assert "error" == response.message.stop_reason
        assert TEXTS.startswith(response.message.text)


@pytest.mark.parametrize("how", ["json", "utf8"])
async def test_a_corrupt_payload_leaves_the_checksums_of_aws_whole(how: Any) -> None:
    """The frames are read without complaint; what they hold is another matter."""
    response = await response_with("bedrock-converse-stream", Corrupt(at_event=4, how=how))
    assert len(AWSEventStream().feed(response.body)) > 5


async def test_slow_headers_come_late() -> None:
    """Nothing before the time is over, then all of it."""
    began = time.monotonic()
    response = await response_with("openai-responses", SlowHeaders(0.2))
    assert time.monotonic() - began >= 0.2
    assert TEXTS == response.message.text


async def test_a_pace_spreads_the_events() -> None:
    """A pause before each."""
    began = time.monotonic()
    response = await response_with("anthropic-messages", Pace(0.02))
    assert time.monotonic() - began >= 0.02 * len(frames_of("anthropic-messages", response.body))
    assert TEXTS == response.message.text


@every_wire
@pytest.mark.parametrize("reset", [False, True])
async def test_a_refusal_comes_before_any_byte(api: str, reset: bool) -> None:
    """The client sees a lost connection, no status; the request is on record all the same."""
    with Server() as server:
        server.answer("ok", fault=Refuse(reset=reset, times=1))
        response = await ask(server, api)
        again = await ask(server, api)
    assert (0, b"") == (response.status, response.body)
    assert response.failure in ("ServerDisconnectedError", "ClientOSError", "ClientConnectionResetError")
    assert ("ok", 2, []) == (again.message.text, len(server.requests), server.disconnects)


@every_wire
async def test_an_empty_answer_has_the_right_type_and_no_body(api: str) -> None:
    """200 and nothing: the decoder says that the answer never came."""
    response = await response_with(api, Empty())
    assert (200, b"", "", "error") == (response.status, response.body, response.failure, response.message.stop_reason)
    assert wire(api).http.content_type == response.headers["Content-Type"].partition(";")[0]


@every_wire
async def test_a_page_for_people_is_not_an_answer(api: str) -> None:
    """200 with HTML."""
    response = await response_with(api, Html())
    assert (200, "text/html; charset=utf-8") == (response.status, response.headers["Content-Type"])
    assert (True, "error") == (b"<html>" in response.body, response.message.stop_reason)


@every_wire
async def test_garbage_is_not_an_answer(api: str) -> None:
    """The right type, and bytes that mean nothing."""
    response = await response_with(api, Garbage(300))
    assert (200, 300, "error") == (response.status, len(response.body), response.message.stop_reason)


async def test_garbage_may_be_no_http_at_all() -> None:
    """The client finds no status line."""
    response = await response_with("openai-completions", Garbage(http=False))
    assert (0, True) == (response.status, response.failure in ("ClientResponseError", "ServerDisconnectedError"))


@every_wire
async def test_a_stream_without_its_terminal_frames_is_not_finished(api: str) -> None:
    """All of the words, and an error at the end."""
    response = await response_with(api, NoTerminal())
    assert (TEXTS, "", "error") == (response.message.text, response.failure, response.message.stop_reason)


async def test_calls_are_no_terminal_frames() -> None:
    """Ollama says its calls just before the end, and they stay."""
    call = il.ToolCall(id="call_a", name="weather", arguments={"city": "Oslo"})
    response = await response_with("ollama-chat", NoTerminal(), reply=[call])
    assert [{"city": "Oslo"}] == [found.arguments for found in response.message.tool_calls]


@every_wire
@pytest.mark.parametrize("kind", [il.Overloaded, il.RateLimited, il.ProviderError])
async def test_an_error_event_is_the_wires_own(api: str, kind: Any) -> None:
    """After some of the words, the error, said once; the decoder hears its message."""
    response = await response_with(api, ErrorEvent(kind("the machine is on fire"), after_events=5))
    message = response.message
    assert ("error", "") == (message.stop_reason, response.failure)
    assert "the machine is on fire" in (message.error_message or "")
    assert TEXTS.startswith(message.text)
    assert 6 == len(frames_of(api, response.body))


async def test_an_error_event_in_a_whole_answer_is_the_answer() -> None:
    """There are no events to put it among."""
    response = await response_with("anthropic-messages", ErrorEvent(il.Overloaded("busy")), stream=False)
    assert (503, True) == (response.status, b"overloaded_error" in response.body)


async def test_faults_compose_in_their_order() -> None:
    """Repeated, then cut into bytes, then lost after some of them."""
    response = await response_with("ollama-chat", Repeat(), Split(3), Cut(after_bytes=31))
    assert (31, "ClientPayloadError") == (len(response.body), response.failure)
    assert ("", "error") == (response.message.text, response.message.stop_reason)


@dataclass(frozen=True)
class Shout:
    """A fault of one's own."""

    times: int | None = None
    replaces: ClassVar[bool] = False

    def apply(self, answer: Answer) -> Answer:
        steps = (Piece(s.data.replace(b"hush", b"HUSH")) if isinstance(s, Piece) else s for s in answer.steps)
        return replace(answer, steps=steps)


async def test_a_fault_of_ones_own_is_a_value_with_three_names() -> None:
    """`times`, `replaces`, `apply`."""
    response = await response_with("anthropic-messages", Shout(), reply="hush")
    assert "HUSH" == response.message.text
