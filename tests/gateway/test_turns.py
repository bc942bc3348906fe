"""Streams that have begun share the passes of the event loop."""

import asyncio

import aiohttp
import pytest

from gateway.conftest import settings_for
from interlingua.gateway import Gateway
from interlingua.gateway.turns import Turns
from interlingua.testing import Pace, Server


async def test_a_pass_of_the_loop_takes_a_few_large_chunks() -> None:
    """
    However much has come, a new request waits for one chunk at a time, and all chunks get their turn in order.
    """
    turns, done = Turns(), list[int]()

    async def translate(number: int) -> None:
        await turns.take(10_000)
        done.append(number)

    tasks = [asyncio.ensure_future(translate(number)) for number in range(5)]
    most = 0
    while len(done) < 5:
        before = len(done)
        await asyncio.sleep(0)
        most = max(most, len(done) - before)
    assert (list(range(5)), 1) == (done, most)
    await asyncio.gather(*tasks)


async def test_small_chunks_do_not_wait() -> None:
    """
    Events that come one by one are translated at once.
    """
    turns = Turns()
    for _ in range(20):
        waiting = turns.take(100)
        try:
            waiting.send(None)
        except StopIteration:
            continue
        raise AssertionError("it waited")


async def test_an_exchange_that_ends_while_it_waits_holds_up_nobody() -> None:
    """
    A client that leaves gives its turn to the next.
    """
    turns = Turns()
    first, gone, following = (asyncio.ensure_future(turns.take(10_000)) for _ in range(3))
    await asyncio.sleep(0)
    assert (True, False) == (first.done(), gone.done())
    gone.cancel()
    await asyncio.wait_for(following, 10)
    assert gone.cancelled()


async def test_a_busy_moment_leaves_nothing_behind() -> None:
    """
    When all have had their turn, the next chunk does not wait.
    """
    turns = Turns()
    await asyncio.gather(*(turns.take(10_000) for _ in range(5)))
    for _ in range(3):
        await asyncio.sleep(0)
    following = asyncio.ensure_future(turns.take(10_000))
    await asyncio.sleep(0)
    assert following.done()


class CountedTurns(Turns):
    """Counts the turns that streams take."""

    taken = 0

    async def take(self, size: int) -> None:
        self.taken += 1
        await super().take(size)


@pytest.mark.parametrize("model", ["anthropic-messages", "openai-completions"])
async def test_streams_of_either_lane_take_turns(model: str, upstream: Server) -> None:
    """
    Forwarded streams give way to new ones as translated streams do.
    """
    async with Gateway(settings_for(upstream)) as gateway, aiohttp.ClientSession() as session:
        gateway._dispatcher._turns = turns = CountedTurns()
        upstream.say("word " * 50, fault=Pace(0.001))
        body = {"model": model, "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        async with session.post(f"{gateway.url}/v1/messages", json=body) as response:
            answer = await response.text()
        assert response.status == 200 and answer.count("word ") >= 1 and "message_stop" in answer
        assert turns.taken > 1
