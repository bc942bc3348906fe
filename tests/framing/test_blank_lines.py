"""Millions of blank lines in a stream: passed over a chunk at a time, and what follows is read."""

import pytest

from interlingua.dialects.framing import NDJSON, SSE, Framing


@pytest.mark.parametrize(("make", "event"), [(SSE, b'data: {"a":1}\n\n'), (NDJSON, b'{"a":1}\n')])
def test_twenty_million_blank_lines_are_passed_over(make: type[Framing], event: bytes) -> None:
    """Before, between and behind the frames; they give none, and cost next to nothing."""
    frames, blank = make(), b"\n" * 65536
    found = frames.feed(event)
    for at in range(320):
        found += frames.feed(blank)
        if at % 100 == 50:
            found += frames.feed(event)
    found += frames.feed(event[:5]) + frames.feed(event[5:]) + frames.close()
    assert [b'{"a":1}'] * 5 == [frame.data for frame in found]
