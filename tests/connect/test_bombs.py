"""Answers that are small to send and large to read: compressed bodies, many values, many events, blank lines."""

import asyncio
import gzip
import json
import operator
import random
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from connect.talking import KEY
from interlingua.connect.client import Client
from interlingua.values.decompression import MAX_BODY, PIECE, Decompressor
from interlingua.values.errors import BadWire, InterlinguaError, TransportError
from interlingua.values.folding import unfold
from interlingua.values.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall

ANSWER = {
    "id": "m", "type": "message", "role": "assistant", "model": "x", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip


@asynccontextmanager
async def serving(body: bytes, **headers: str) -> AsyncIterator[str]:
    """The address of a server that answers everything with these bytes."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Type": "application/json", **headers})

    app = web.Application()
    app.router.add_post("/{any:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def asked(url: str, **how: Any) -> AssistantMessage:
    options = {"api_key": KEY, "base_url": url, "retry": 0, "timeout": 60, **how}
    return await Client().complete("anthropic/test-model", "Hi", **options)


def zeros(size: int, wbits: int = 31) -> bytes:
    """Compressed JSON of this size: a text of zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    parts = [packer.compress(json.dumps({**ANSWER, "content": []}).encode()[:-1] + b', "x": "')]
    parts += [packer.compress(b"0" * (1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, packer.compress(b'"}'), packer.flush()])


@pytest.mark.parametrize(
    ("encoding", "wbits"), [("gzip", 31), ("GZIP", 31), ("x-gzip", 31), ("deflate", 15), ("deflate", -15)]
)
async def test_a_compressed_answer_is_bounded_after_decompression(encoding: str, wbits: int) -> None:
    """150 KB that stand for 150 MB are refused at 64 MB; the event loop goes on meanwhile."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    async with serving(zeros(150 << 20, wbits), **{"Content-Encoding": encoding}) as url:
        clock = asyncio.create_task(tick())
        with pytest.raises(TransportError, match="more than 67,108,864 bytes"):
            await asked(url)
        clock.cancel()
    assert ticks > 20


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "nonsense"])
async def test_an_encoding_that_nobody_asked_for_is_refused(encoding: str) -> None:
    """Twice compressed is compressed a million times."""
    async with serving(gzip.compress(b"{}"), **{"Content-Encoding": encoding}) as url:
        with pytest.raises(TransportError, match="unexpected content encoding"):
            await asked(url)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
async def test_a_compressed_answer_of_an_honest_proxy_is_read(encoding: str) -> None:
    """Some compress whatever was asked for."""
    body = json.dumps(ANSWER).encode()
    packed = {"gzip": gzip.compress(body), "deflate": zlib.compress(body), "identity": body}[encoding]
    async with serving(packed, **{"Content-Encoding": encoding}) as url:
        assert "hello" == (await asked(url)).text


async def test_a_compressed_answer_that_is_cut_or_damaged_is_a_typed_error() -> None:
    """At every tenth byte."""
    packed = gzip.compress(json.dumps(ANSWER).encode())
    for at in range(1, len(packed) - 8, 10):
        for body in (packed[:at], packed[:at] + b"\xff" + packed[at + 1 :]):
            async with serving(body, **{"Content-Encoding": "gzip"}) as url:
                try:
                    assert "hello" == (await asked(url)).text
                except InterlinguaError:
                    continue


@pytest.mark.parametrize(
    "values", [b"[]," * 2_100_000 + b"[]", b"{}," * 2_100_000 + b"{}", b"1," * 2_100_000 + b"1", b"[" * 2_100_000]
)
async def test_an_answer_of_millions_of_values_is_refused_before_it_is_parsed(values: bytes) -> None:
    """In memory it would be twenty times its size."""
    async with serving(b'{"x": [' + values + b"]}") as url:
        with pytest.raises(BadWire, match="2,000,000 values"):
            await asked(url)


async def test_a_large_honest_answer_is_read() -> None:
    """Pictures come as megabytes of base64, parsed in a thread."""
    text = "Zm9v" * 2_000_000
    async with serving(json.dumps({**ANSWER, "content": [{"type": "text", "text": text}]}).encode()) as url:
        assert text == (await asked(url)).text


@given(st.binary(max_size=2000), st.integers(1, 50), st.sampled_from([31, 15, -15]))
def test_whatever_was_compressed_comes_out_however_it_is_cut(data: bytes, step: int, wbits: int) -> None:
    """Piece by piece, with bytes behind the end or without."""
    packer = zlib.compressobj(6, zlib.DEFLATED, wbits)
    packed = packer.compress(data) + packer.flush()
    decompressor = Decompressor("gzip" if wbits == 31 else "deflate")
    fed = [packed] if wbits < 0 else [packed[at : at + step] for at in range(0, len(packed), step)]
    assert data == b"".join(piece for part in fed for piece in decompressor.feed(part))
    decompressor.close()
    assert [] == [*decompressor.feed(b"trailing")]


@given(st.binary(max_size=200), st.sampled_from(["gzip", "deflate"]))
def test_any_bytes_are_decompressed_or_a_typed_error(data: bytes, encoding: str) -> None:
    """And no piece is larger than it may be."""
    decompressor = Decompressor(encoding)
    try:
        assert all(len(piece) <= PIECE for piece in decompressor.feed(data))
        decompressor.close()
    except TransportError:
        return


def test_pieces_of_a_bomb_are_small() -> None:
    """A gigabyte is never in memory at once."""
    decompressor, seen = Decompressor("gzip"), 0
    with pytest.raises(TransportError):
        for piece in decompressor.feed(zeros(80 << 20)):
            assert len(piece) <= PIECE
            seen += len(piece)
    assert seen <= MAX_BODY


# --- many events ----------------------------------------------------------------------------------------------------


def reads(message: AssistantMessage, size: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many entries of the log are looked at when the partial of each event is read."""
    from interlingua.values import partials

    looked = 0
    real = partials._Snapshot.advanced

    def counted(self: Any, log: Any, at: int) -> AssistantMessage:
        nonlocal looked
        looked += at - self.at
        return real(self, log, at)

    monkeypatch.setattr(partials._Snapshot, "advanced", counted)
    for event in unfold(message, size=size):
        getattr(event, "partial", None)
    monkeypatch.undo()
    return looked


@pytest.mark.parametrize(
    "block", [TextBlock(text="word " * 20_000), ThinkingBlock(thinking="hm. " * 20_000)], ids=["text", "thinking"]
)
def test_reading_each_partial_reads_each_entry_once(block: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all that came before, over and over."""
    message = AssistantMessage(content=(block,), stop_reason="stop")
    assert reads(message, 5, monkeypatch) < 100_000


def test_reading_each_partial_of_long_arguments_parses_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of many thousand values is not parsed anew at each event; the finished call has all of them."""
    from interlingua.values import partials

    parsed = 0
    real = partials.partial_arguments

    def counted(text: str) -> dict[str, Any]:
        nonlocal parsed
        parsed += len(text)
        return real(text)

    monkeypatch.setattr(partials, "partial_arguments", counted)
    arguments = {"rows": [{"n": at, "text": "some words"} for at in range(20_000)]}
    message = AssistantMessage(content=(ToolCall(id="a", name="do", arguments=arguments),), stop_reason="toolUse")
    size, seen = 0, 0
    for event in unfold(message, size=40):
        partial = getattr(event, "partial", None)
        size += len(getattr(event, "delta", ""))
        if partial is not None and partial.content:
            rows = len(partial.content[0].arguments.get("rows", ()))
            assert rows >= seen
            seen = rows
    assert 20_000 == seen
    assert parsed < 60 * size


def test_reading_each_partial_of_many_calls_takes_time_in_proportion() -> None:
    """Each block is made once, however many there are: the partial of an event has those of the one before."""
    calls = tuple(ToolCall(id=str(at), name="do", arguments={"n": at}) for at in range(3_000))
    before: Any = None
    shared = 0
    for event in unfold(AssistantMessage(content=calls, stop_reason="toolUse")):
        partial = getattr(event, "partial", None)
        if before is not None and partial is not None and len(before.content) > 1:
            assert all(map(operator.is_, before.content[:-1], partial.content))
            shared += 1
        before = partial or before
    assert shared >= 3_000


@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
def test_partials_are_the_same_in_any_order(long: bool) -> None:
    """Read in order, backwards, at random, twice."""
    size = 400 if long else 2
    message = AssistantMessage(
        content=(
            ThinkingBlock(thinking="first, think"),
            TextBlock(text="then say"),
            ToolCall(id="a", name="do", arguments={"x": ["some", "thing"] * (8000 if long else 1), "y": {"z": "text"}}),
            TextBlock(text=""),
        ),
        stop_reason="toolUse",
    )
    right = [getattr(event, "partial", None) for event in unfold(message, size=size)]
    events = list(unfold(message, size=size))
    orders = [range(len(events)), reversed(range(len(events))), random.Random(1).choices(range(len(events)), k=400)]
    for order in orders:
        for at in order:
            assert right[at] == getattr(events[at], "partial", None)
    assert right[-1] is None or isinstance(right[-1], il.AssistantMessage)
