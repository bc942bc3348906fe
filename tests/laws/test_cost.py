"""Law 5: the work per stream event does not grow with the message so far. Counted, not timed."""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest

from interlingua.dialects import Dialect, dialect
from interlingua.dialects.framing import Frame
from interlingua.values.folding import fold, unfold
from interlingua.values.messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall
from laws.wires import every_dialect, frames_of, stream_of

PIECE = 8
BLOCKS: dict[str, Callable[[int], Block]] = {
    "text": lambda pieces: TextBlock(text="abcdefgh" * pieces),
    "thinking": lambda pieces: ThinkingBlock(thinking="abcdefgh" * pieces, thinking_signature="c2lnbmVk"),
    "arguments": lambda pieces: ToolCall(id="call_1", name="write", arguments={"text": "abcdefgh" * pieces}),
}
every_kind = pytest.mark.parametrize("kind", sorted(BLOCKS))


def message_of(kind: str, pieces: int) -> AssistantMessage:
    block = BLOCKS[kind](pieces)
    return AssistantMessage(content=(block,), stop_reason="toolUse" if isinstance(block, ToolCall) else "stop")


def frames(wire: Dialect, kind: str, pieces: int) -> list[Frame]:
    return frames_of(wire, stream_of(wire, message_of(kind, pieces), PIECE))


def calls_of(work: Callable[[], Any]) -> Counter[str]:
    """How often each function, Python's and C's, is called by `work`."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_name] += 1
        elif event == "c_call":
            calls[arg.__name__] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def decode(wire: Dialect, frames: Iterable[Frame]) -> None:
    decoder = wire.StreamDecoder()
    for frame in frames:
        decoder.feed(frame)
    decoder.close()


@every_dialect
@every_kind
def test_ten_times_the_deltas_cost_ten_times_the_calls(name: str, kind: str) -> None:
    """
    Reading a stream makes a fixed number of calls per delta, however many came before.
    """
    wire = dialect(name)
    small, large = (frames(wire, kind, pieces) for pieces in (20, 200))
    some, many = calls_of(lambda: decode(wire, small)).total(), calls_of(lambda: decode(wire, large)).total()
    assert many <= 10 * some


@every_dialect
@every_kind
def test_text_is_joined_and_parsed_once_however_long_the_stream(name: str, kind: str) -> None:
    """
    Joining pieces and parsing arguments happens per block, and no decoder looks at partial messages.
    """
    wire = dialect(name)
    few, more = (frames(wire, kind, pieces) for pieces in (20, 60))
    some, many = calls_of(lambda: decode(wire, few)), calls_of(lambda: decode(wire, more))
    for once in ("join", "parse_arguments", "compact"):
        assert some[once] == many[once] <= 8, once
    for never in ("snapshot", "partial_arguments", "from_json", "partial"):
        assert many[never] == 0, never


@every_dialect
@every_kind
def test_a_decoder_holds_pieces_and_no_growing_text_while_a_block_is_open(name: str, kind: str) -> None:
    """
    Half-way through, no string in the decoder's memory is longer than a frame: nothing is copied as it grows.
    """
    wire = dialect(name)
    all_frames = frames(wire, kind, 400)
    if len(all_frames) < 100:
        return  # a wire that brings this kind of block whole
    decoder = wire.StreamDecoder()
    for frame in all_frames[: len(all_frames) // 2]:
        decoder.feed(frame)
    assert max(map(len, strings_within(decoder)), default=0) < 400 * PIECE // 4


def strings_within(root: object) -> Iterable[str | bytes | bytearray]:
    """Every string that an object holds, however deep; not those of classes and modules, which are not its own."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, type) or type(item).__name__ in ("module", "function", "Variant"):
            continue
        seen.add(id(item))
        if isinstance(item, str | bytes | bytearray):
            yield item
        elif isinstance(item, dict):  # not tracked by the collector when it holds only strings
            todo += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set):
            todo += item
        else:
            todo += gc.get_referents(item)
            todo += [getattr(item, slot) for slot in _slots(type(item)) if hasattr(item, slot)]


def _slots(cls: type) -> Iterable[str]:
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


@every_dialect
@every_kind
def test_writing_a_stream_costs_the_same_for_each_delta(name: str, kind: str) -> None:
    """
    The encoder makes a fixed number of calls per delta, too.
    """
    wire = dialect(name)

    def encode(pieces: int) -> None:
        encoder = wire.StreamEncoder()
        for event in events[pieces]:
            encoder.feed(event)

    events = {pieces: list(unfold(message_of(kind, pieces), size=PIECE)) for pieces in (20, 200)}
    assert calls_of(lambda: encode(200)).total() <= 10 * calls_of(lambda: encode(20)).total()


@every_dialect
def test_many_blocks_cost_no_more_than_one_after_the_other(name: str) -> None:
    """
    The work per block does not grow with the number of blocks.
    """
    wire = dialect(name)

    def of(count: int) -> list[Frame]:
        calls = tuple(ToolCall(id=f"call_{at}", name="a", arguments={"at": at}) for at in range(count))
        return frames_of(wire, stream_of(wire, AssistantMessage(content=calls, stop_reason="toolUse")))

    small, large = of(10), of(100)
    assert calls_of(lambda: decode(wire, large)).total() <= 10 * calls_of(lambda: decode(wire, small)).total()


@every_kind
def test_folding_reads_no_partial(kind: str) -> None:
    """
    Folding a finished stream is one pass that joins nothing.
    """
    events = list(unfold(message_of(kind, 100), size=PIECE))
    assert calls_of(lambda: fold(events))["snapshot"] == 0
